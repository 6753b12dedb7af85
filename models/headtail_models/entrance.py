"""The way into a network, by a manifest's `preprocess`: from what a device captures to a tensor.

picture (H, W, 3) uint8, BGR          -> (1, 3, h, w), and how it lies there
sound (n,) float32, at most a patch   -> (1, 1, patch, bands)
readings (n, channels) float32        -> (1, 1, window, channels)
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.errors import ConfigError
from headtail_models.audio import log_mel
from headtail_models.bundle.manifest import LogMel, Manifest, Preprocess, Signal
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import centre_crop, check_picture, letterbox

__all__ = [
    "Entrance",
    "Frame",
    "PictureEntrance",
    "Place",
    "SignalEntrance",
    "SoundEntrance",
    "TaskError",
    "entrance_for",
    "pictures_of",
]

Frame = NDArray[Any]
"""What one run of the network is about: a `Picture`, a stretch of mono sound (n,) float32 within
-1..1, sampled at the `rate` of the manifest's `LogMel` and at most `front().patch_samples` long, or
the readings (window, channels) float32 of the manifest's `Signal`."""

Place = Geometry | None
"""How a frame lies in the network's input, for answers that tell where something is; None for
sounds and readings, whose answers hold for the whole frame."""


class TaskError(ConfigError):
    """The bundle prepares its frames in a way that can't be carried out here. Use another one; if
    its preparation contradicts itself, build it again."""


class Entrance(Protocol):
    """Immutable and safe to share by threads."""

    def geometry(self, height: int, width: int) -> Place:
        """What `prepare` returns beside the tensor for a picture of that size."""
        ...

    def prepare(self, frame: Frame) -> tuple[NDArray[np.float32], Place]:
        """The network's input (1, ...) of one frame. Raises ValueError when it is none."""
        ...


def entrance_for(manifest: Manifest) -> Entrance:
    """Raises TaskError when the manifest's `preprocess` makes no sense."""
    way = manifest.preprocess
    try:
        if isinstance(way, LogMel):
            return SoundEntrance(way.front())
        if isinstance(way, Signal):
            return SignalEntrance(way)
        return PictureEntrance(pictures_of(manifest))
    except ValueError as error:
        raise TaskError(f"bundle {manifest.name}: {error}") from None


def pictures_of(manifest: Manifest) -> Preprocess:
    """For what works on pictures only. Raises TaskError when the bundle takes something else."""
    way = manifest.preprocess
    if not isinstance(way, Preprocess):
        raise TaskError(f"bundle {manifest.name} does not take pictures")
    return way


class PictureEntrance:
    """Pictures of any size, scaled. Raises ValueError when `preprocess` makes no sense."""

    def __init__(self, preprocess: Preprocess) -> None:
        way = preprocess
        if way.kind == "centre-crop" and (way.resize or way.height) < max(way.height, way.width):
            raise ValueError(f"it crops {way.width}x{way.height} of {way.resize}")
        if len(way.mean) not in (0, 3) or len(way.std) not in (0, 3) or not all(way.std):
            raise ValueError("it does not normalise three channels")
        self._preprocess = preprocess

    def geometry(self, height: int, width: int) -> Geometry:
        way = self._preprocess
        if way.kind == "letterbox":
            return Geometry.letterbox(height, width, to_height=way.height, to_width=way.width)
        resize = way.resize or way.height
        return Geometry.centre_crop(
            height, width, resize=resize, to_height=way.height, to_width=way.width
        )

    def prepare(self, frame: Frame) -> tuple[NDArray[np.float32], Geometry]:
        check_picture(frame)
        way = self._preprocess
        geometry = self.geometry(frame.shape[0], frame.shape[1])
        if way.kind == "letterbox":
            return letterbox(frame, geometry, fill=way.fill), geometry
        return centre_crop(frame, geometry, mean=way.mean, std=way.std), geometry


class SoundEntrance:
    """Sounds of a patch's length; silence is added to the end of a shorter one.

    A long sound is cut into frames that begin `front.hop_samples` apart: their patches are those
    that `front.stream()` makes of it.
    """

    def __init__(self, front: log_mel.LogMel) -> None:
        self._front = front

    def geometry(self, height: int, width: int) -> None:
        return None

    def prepare(self, frame: Frame) -> tuple[NDArray[np.float32], None]:
        if not 0 < frame.size <= self._front.patch_samples:
            raise ValueError(
                f"a sound of {frame.size} samples, 1 to {self._front.patch_samples} are expected"
            )
        return self._front.patches(frame), None


class SignalEntrance:
    """Windows of readings, whole ones."""

    def __init__(self, signal: Signal) -> None:
        self._shape = (signal.window, signal.channels)
        self._offset = np.array(signal.offset, dtype=np.float32)
        self._scale = np.array(signal.scale, dtype=np.float32)

    def geometry(self, height: int, width: int) -> None:
        return None

    def prepare(self, frame: Frame) -> tuple[NDArray[np.float32], None]:
        if frame.shape != self._shape:
            raise ValueError(f"readings of shape {frame.shape}, {self._shape} is expected")
        scaled: NDArray[np.float32] = (frame.astype(np.float32) - self._offset) / self._scale
        return scaled[None, None], None
