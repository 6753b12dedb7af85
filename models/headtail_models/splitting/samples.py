"""Real inputs of a model: pictures, or arrays as NumPy writes them.

NAME.npy                 one frame of the model's only input, or several, the batch axis first
NAME.npz                 an array by the name of each input
NAME.jpg .png .webp ...  for a model whose only input is a float picture (1, 3, H, W)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_fabric.logs import printable
from headtail_models.bundle.manifest import Preprocess
from headtail_models.splitting.errors import SampleError
from headtail_models.splitting.inputs import InputSpec
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import Picture, centre_crop, letterbox

MAX_FILE_BYTES: Final = 64 * 2**20
ARRAYS: Final = frozenset({".npy", ".npz"})
PICTURES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """One frame as the model takes it. `picture`: what it was prepared from, H x W x 3 BGR."""

    name: str
    inputs: dict[str, Array]
    picture: NDArray[np.uint8] | None = None


def picture_input(specs: Sequence[InputSpec]) -> InputSpec | None:
    """The model's only input, if it is a float picture of three channels."""
    if len(specs) != 1:
        return None
    spec = specs[0]
    fits = spec.dtype == "float32" and len(spec.shape) == 4 and spec.shape[:2] == (1, 3)
    return spec if fits else None


def read_samples(
    path: Path, specs: Sequence[InputSpec], *, prepare: Preprocess | None = None, limit: int
) -> tuple[Sample, ...]:
    """The samples of a file or of a folder, in the order of their names, `limit` of them at most.

    Pictures are prepared by `prepare`, else as a letterbox. Raises SampleError.
    """
    samples: list[Sample] = []
    for file in _files(path):
        for sample in _read(file, specs, prepare):
            if len(samples) == limit:
                return tuple(samples)
            samples.append(sample)
    if not samples:
        raise SampleError(f"{printable(str(path))} holds no .npy, .npz or picture")
    return tuple(samples)


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise SampleError(f"{printable(str(path))} does not exist")
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        if file.suffix.lower() in ARRAYS | PICTURES and file.is_file():
            if file.stat().st_size > MAX_FILE_BYTES:
                raise SampleError(f"{printable(str(file))} has more than {MAX_FILE_BYTES} bytes")
            yield file


def _read(file: Path, specs: Sequence[InputSpec], prepare: Preprocess | None) -> Iterator[Sample]:
    if file.suffix.lower() in PICTURES:
        yield _of_picture(file, specs, prepare)
        return
    try:
        loaded: Any = np.load(file, allow_pickle=False)
        arrays = dict(loaded) if file.suffix.lower() == ".npz" else _only(loaded, specs, file)
    except (OSError, ValueError, EOFError) as error:
        raise SampleError(f"{printable(str(file))}: {error}") from None
    yield from _frames(file, arrays, specs)


def _only(array: Array, specs: Sequence[InputSpec], file: Path) -> dict[str, Array]:
    if len(specs) != 1:
        raise SampleError(f"{file.name}: the model has {len(specs)} inputs; an .npz names them")
    return {specs[0].name: array}


def _frames(file: Path, arrays: dict[str, Array], specs: Sequence[InputSpec]) -> Iterator[Sample]:
    if arrays.keys() != {spec.name for spec in specs}:
        raise SampleError(f"{file.name} has {sorted(arrays)}, not {[spec.name for spec in specs]}")
    split = {spec.name: _split(file, arrays[spec.name], spec) for spec in specs}
    counts = {len(frames) for frames in split.values()}
    if len(counts) != 1:
        raise SampleError(f"{file.name} has different numbers of frames: {sorted(counts)}")
    for at in range(counts.pop()):
        yield Sample(
            name=f"{file.name}[{at}]", inputs={name: frames[at] for name, frames in split.items()}
        )


def _split(file: Path, array: Array, spec: InputSpec) -> list[Array]:
    """Frames, each of the input's shape for one frame."""
    if array.dtype != np.dtype(spec.dtype):
        raise SampleError(f"{file.name}: {array.dtype}, input {spec.name!r} is {spec.dtype}")
    if array.shape == spec.shape:
        return [array]
    if array.shape == spec.shape[1:]:
        return [array.reshape(spec.shape)]
    if spec.free_batch and array.ndim == len(spec.shape) and array.shape[1:] == spec.shape[1:]:
        return [array[at : at + 1] for at in range(array.shape[0])]
    raise SampleError(f"{file.name}: shape {array.shape}, input {spec.name!r} has {spec.shape}")


def _of_picture(file: Path, specs: Sequence[InputSpec], prepare: Preprocess | None) -> Sample:
    spec = picture_input(specs)
    if spec is None:
        raise SampleError(f"{file.name} is a picture; the model takes none")
    picture = cv2.imdecode(np.frombuffer(file.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise SampleError(f"{printable(str(file))} is no picture that can be decoded")
    colours = np.asarray(picture, dtype=np.uint8)
    return Sample(
        name=file.name,
        inputs={spec.name: _prepared(colours, spec, prepare)},
        picture=colours,
    )


def _prepared(picture: Picture, spec: InputSpec, way: Preprocess | None) -> NDArray[np.float32]:
    height, width = spec.shape[2:]
    rows, columns = picture.shape[:2]
    if way is None or way.kind == "letterbox":
        geometry = Geometry.letterbox(rows, columns, to_height=height, to_width=width)
        return letterbox(picture, geometry, fill=way.fill if way else 127)
    resize = max(way.resize or height, height, width)
    geometry = Geometry.centre_crop(rows, columns, resize=resize, to_height=height, to_width=width)
    return centre_crop(picture, geometry, mean=way.mean, std=way.std)
