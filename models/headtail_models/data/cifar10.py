"""CIFAR-10 as JPEG files, in one tar file.

    train/<class>/<number>.jpg
    test/<class>/<number>.jpg

(Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.) Decoding 60,000 files
takes a quarter of a minute, so the pictures are kept as arrays in a cache folder, under the
SHA-256 of the tar file.
"""

import hashlib
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_fabric.errors import ConfigError, ResourceError

Split = Literal["train", "calibration", "test"]

FILE: Final = "cifar10-jpeg.tar.xz"
SIDE: Final = 32
MEAN: Final = (0.4914, 0.4822, 0.4465)
STD: Final = (0.247, 0.2435, 0.2616)
"""Of the training pictures over 255; red, green, blue."""
MAX_FILE_BYTES: Final = 64 * 1024
MAX_PICTURES: Final = 200_000
_HELD_OUT: Final = 10
"""One in so many of the training pictures of each class, the last by name, is for calibration."""
_FOLDERS: Final = ("train", "test")
_PARTS: Final = ("pictures", "labels", "sizes")
_CLASSES: Final = "classes.txt"


class Cifar10Error(ConfigError):
    """The CIFAR-10 pictures can't be read. Name a tar file of the layout train/CLASS/NUMBER.jpg,
    test/CLASS/NUMBER.jpg; HEADTAIL_DATA names the folder that it is looked for in."""


class Cifar10CacheError(ResourceError):
    """The decoded CIFAR-10 pictures can't be written. They take 200 MB: name another cache
    folder, or make space."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledPictures:
    """`pictures` (N, 32, 32, 3) uint8 BGR, `labels` (N,) int64, `sizes` (N,) bytes of the files."""

    pictures: NDArray[np.uint8]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.labels.size)

    def take(self, chosen: NDArray[np.int64]) -> "LabelledPictures":
        """Those of the given numbers, in that order."""
        return LabelledPictures(
            pictures=self.pictures[chosen], labels=self.labels[chosen], sizes=self.sizes[chosen]
        )


class Cifar10:
    """The pictures of a tar file. Raises Cifar10Error, Cifar10CacheError throughout."""

    def __init__(self, path: Path, *, cache: Path) -> None:
        self._folder = cache / f"cifar10-{_digest(path)[:16]}"
        if not (self._folder / _CLASSES).exists():
            _fill(self._folder, *_decode(path))
        self.classes = tuple((self._folder / _CLASSES).read_text(encoding="utf-8").split())

    def split(self, name: Split) -> LabelledPictures:
        """The pictures of a split, mapped into memory where they are a whole folder.

        `train` and `calibration` share out the folder `train`: 45,000 and 5,000 of the real one,
        equally many of each class. `test` is the folder `test`. The order is that of the classes
        and names.
        """
        if name == "test":
            return self._read("test")
        whole = self._read("train")
        held = np.zeros(len(whole), dtype=np.bool_)
        for label in range(len(self.classes)):
            of_class = np.flatnonzero(whole.labels == label)
            held[of_class[of_class.size - of_class.size // _HELD_OUT :]] = True
        return whole.take(np.flatnonzero(held if name == "calibration" else ~held))

    def _read(self, folder: str) -> LabelledPictures:
        try:
            arrays = {
                part: np.load(self._folder / f"{folder}-{part}.npy", mmap_mode="r")
                for part in _PARTS
            }
        except (OSError, ValueError) as error:
            raise Cifar10CacheError(f"{self._folder}: {error}; delete it") from None
        return LabelledPictures(**arrays)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Cifar10Error(f"{path}: {error.strerror or error}") from None


def _decode(path: Path) -> tuple[tuple[str, ...], dict[str, LabelledPictures]]:
    """Classes and folders. Every folder holds every class."""
    found: dict[str, list[tuple[str, str, NDArray[np.uint8], int]]] = {f: [] for f in _FOLDERS}
    try:
        with tarfile.open(path) as archive:
            for entry in archive:
                place = PurePosixPath(entry.name)
                if not entry.isreg() or place.suffix != ".jpg" or len(place.parts) != 3:
                    continue
                folder, name = place.parts[:2]
                stream = archive.extractfile(entry)
                if folder in found and stream is not None:
                    picture = _picture(entry, stream)
                    found[folder].append((name, place.stem, picture, entry.size))
                if sum(map(len, found.values())) > MAX_PICTURES:
                    raise Cifar10Error(f"{path} holds more than {MAX_PICTURES} pictures")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Cifar10Error(f"{path}: {error}") from None
    classes = {folder: {name for name, *_ in rows} for folder, rows in found.items()}
    if not classes["train"] or classes["train"] != classes["test"]:
        told = {folder: sorted(names) for folder, names in classes.items()}
        raise Cifar10Error(f"{path} lacks classes in one of its folders: {told}")
    names = tuple(sorted(classes["train"]))
    return names, {folder: _arrays(rows, names) for folder, rows in found.items()}


def _picture(entry: tarfile.TarInfo, stream: IO[bytes]) -> NDArray[np.uint8]:
    if entry.size > MAX_FILE_BYTES:
        raise Cifar10Error(f"{entry.name} has {entry.size} bytes")
    picture = cv2.imdecode(np.frombuffer(stream.read(), dtype=np.uint8), cv2.IMREAD_COLOR)
    if picture is None or picture.shape != (SIDE, SIDE, 3):
        raise Cifar10Error(f"{entry.name} is no picture of {SIDE}x{SIDE}")
    return picture.astype(np.uint8, copy=False)


def _arrays(
    rows: list[tuple[str, str, NDArray[np.uint8], int]], names: tuple[str, ...]
) -> LabelledPictures:
    rows.sort(key=lambda row: row[:2])
    return LabelledPictures(
        pictures=np.stack([picture for _, _, picture, _ in rows]),
        labels=np.array([names.index(name) for name, *_ in rows], dtype=np.int64),
        sizes=np.array([size for *_, size in rows], dtype=np.int64),
    )


def _fill(folder: Path, classes: tuple[str, ...], folders: dict[str, LabelledPictures]) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for name, pictures in folders.items():
                for kind in _PARTS:
                    np.save(part / f"{name}-{kind}.npy", getattr(pictures, kind))
            (part / _CLASSES).write_text("\n".join(classes) + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise Cifar10CacheError(f"{folder}: {error.strerror or error}") from None
