"""How what a device captures becomes a network's input, as the manifest says it.

{"kind": "letterbox" | "centre-crop", ...}    pictures: `Preprocess`
{"kind": "log-mel", ...}                      sounds: `LogMel`
{"kind": "signal", ...}                       readings of sensors: `Signal`
"""

from math import isfinite
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from headtail_models.audio import log_mel
from headtail_models.tensor import Dim, Line

LOG_MEL: Final = "log-mel"
SIGNAL: Final = "signal"

_Length = Annotated[int, Meta(ge=1, le=16_384)]
_Hertz = Annotated[float, Meta(gt=0, le=192_000)]
_Channels = Annotated[tuple[float, ...], Meta(min_length=1, max_length=256)]


class Preparation:
    """The ways there are: `Preprocess`, `LogMel`, `Signal`, told apart by `kind`."""

    __slots__ = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of the network's only input, without the batch axis."""
        raise NotImplementedError


class Preprocess(
    msgspec.Struct, Preparation, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """How a picture becomes the network's input.

    `letterbox`: fit into `width` x `height`, keep the aspect ratio, fill with `fill`, RGB / 255,
    N x C x H x W. `centre-crop`: shorter side to `resize`, crop, normalise with `mean`, `std`.
    """

    kind: Literal["letterbox", "centre-crop"]
    width: Dim
    height: Dim
    fill: Annotated[int, Meta(ge=0, le=255)] = 127
    resize: Dim | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(3, height, width)."""
        return 3, self.height, self.width


class LogMel(
    msgspec.Struct,
    Preparation,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag=LOG_MEL,
):
    """How a sound becomes the network's input: one patch of log-mel spectra.

    The fields are those of `audio.log_mel.LogMel`, which carries it out: `window`, `hop` and `fft`
    in samples, `patch` and `patch_hop` in spectra. `patch_hop` is how far apart a device begins
    its patches.
    """

    rate: Annotated[int, Meta(ge=1_000, le=384_000)] = 16_000
    window: _Length = 400
    hop: _Length = 160
    fft: _Length = 512
    bands: Annotated[int, Meta(ge=1, le=512)] = 64
    low_hz: _Hertz = 125.0
    high_hz: _Hertz = 7500.0
    offset: Annotated[float, Meta(gt=0, le=1)] = 1e-3
    patch: _Length = 96
    patch_hop: _Length = 48

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(1, patch, bands)."""
        return 1, self.patch, self.bands

    def front(self) -> log_mel.LogMel:
        """What carries it out. Raises ValueError when the fields don't fit each other."""
        return log_mel.LogMel(**msgspec.structs.asdict(self))


class Signal(
    msgspec.Struct,
    Preparation,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag=SIGNAL,
):
    """How readings of sensors, `rate_hz` a second, become the network's input: one window of them.

    A reading has one number a channel, of which `offset` is subtracted and which is divided by
    `scale`. A device begins a window every `hop` readings. `units` names what the numbers are, for
    a person.
    """

    rate_hz: _Hertz
    window: _Length
    hop: _Length
    offset: _Channels
    scale: _Channels
    units: Line = ""

    def __post_init__(self) -> None:
        if len(self.offset) != len(self.scale):
            raise ValueError(f"{len(self.offset)} offsets for {len(self.scale)} scales")
        if not all(isfinite(one) for one in (*self.offset, *self.scale)) or not all(self.scale):
            raise ValueError("offsets and scales must be finite, and no scale 0")

    @property
    def channels(self) -> int:
        """Numbers in a reading."""
        return len(self.offset)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(1, window, channels)."""
        return 1, self.window, self.channels


_TAGGED: Final[dict[str, type[Preparation]]] = {LOG_MEL: LogMel, SIGNAL: Signal}


def decode_preparation(kind: type, value: Any) -> Preparation:
    """msgspec's `dec_hook` for a `Preparation`. Raises ValueError.

    No tagged union of msgspec's own: one class of pictures has two kinds, and the bytes of the
    bundles that are out there, so their digests, must stay.
    """
    assert kind is Preparation
    tag = value.get("kind") if isinstance(value, dict) else None
    way = _TAGGED.get(tag, Preprocess) if isinstance(tag, str) else Preprocess
    try:
        return msgspec.convert(value, way)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # msgspec adds where in the manifest
