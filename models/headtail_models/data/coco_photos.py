"""Photos of COCO with their boxes, in one tar file.

    images/<split>/<number>.jpg
    labels/<split>/<number>.txt     a line a box: class, centre x, centre y, width, height (0..1)

A photo of nothing may have no label file. The classes are COCO's 80 in the usual order. (Lin et
al., "Microsoft COCO: Common Objects in Context", ECCV 2014.)
"""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_fabric.errors import ConfigError

MAX_FILE_BYTES: Final = 32 * 1024 * 1024


class PhotoSetError(ConfigError):
    """The photo set can't be read. Name a tar file of the layout images/SPLIT/NAME.jpg,
    labels/SPLIT/NAME.txt; HEADTAIL_DATA names the folder that it is looked for in."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledPhoto:
    """A photo as it was published. `boxes` (n, 5) float32: class, x1, y1, x2, y2 in pixels."""

    name: str
    file_bytes: int
    picture: NDArray[np.uint8]
    boxes: NDArray[np.float32]


class CocoPhotos:
    """The photos of a tar file, in the order of their names. Raises PhotoSetError throughout."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, tarfile.TarInfo] = {}
        try:
            with tarfile.open(path) as archive:
                self._entries = {entry.name: entry for entry in archive if entry.isreg()}
        except FileNotFoundError:
            raise PhotoSetError(f"there is no photo set at {path}") from None
        except (tarfile.TarError, OSError) as error:
            raise PhotoSetError(f"{path}: {error}") from None

    def names(self, split: str) -> tuple[str, ...]:
        """Names of the photos of a split, such as `val2017`."""
        folder = PurePosixPath("images") / split
        paths = (PurePosixPath(name) for name in self._entries)
        found = sorted(path.stem for path in paths if path.parent == folder)
        if not found:
            raise PhotoSetError(f"{self._path} has no photos of {split!r}")
        return tuple(found)

    def photos(self, split: str, *, limit: int | None = None) -> Iterator[LabelledPhoto]:
        """The first `limit` photos of a split, or all."""
        with tarfile.open(self._path) as archive:
            for name in self.names(split)[:limit]:
                data = self._read(archive, f"images/{split}/{name}.jpg")
                picture = _decode(name, data)
                label = f"labels/{split}/{name}.txt"
                text = self._read(archive, label) if label in self._entries else b""
                height, width = picture.shape[:2]
                boxes = parse_labels(text.decode(errors="replace"), height=height, width=width)
                yield LabelledPhoto(name=name, file_bytes=len(data), picture=picture, boxes=boxes)

    def _read(self, archive: tarfile.TarFile, path: str) -> bytes:
        entry = self._entries[path]
        if entry.size > MAX_FILE_BYTES:
            raise PhotoSetError(f"{path} has {entry.size} bytes")
        stream = archive.extractfile(entry)
        assert stream is not None  # only regular files are listed
        with stream:
            return stream.read()


def parse_labels(text: str, *, height: int, width: int) -> NDArray[np.float32]:
    """Boxes (n, 5) class, x1, y1, x2, y2 in pixels. Raises PhotoSetError."""
    try:
        rows = [
            [float(word) for word in line.split()] for line in text.splitlines() if line.strip()
        ]
        values = np.array(rows, dtype=np.float64).reshape(len(rows), 5)
    except ValueError:
        raise PhotoSetError("a label is not five numbers a line") from None
    centre, half = values[:, 1:3], values[:, 3:5] / 2
    size = np.array([width, height], dtype=np.float64)
    boxes = np.hstack([values[:, :1], (centre - half) * size, (centre + half) * size])
    return boxes.astype(np.float32)


def _decode(name: str, data: bytes) -> NDArray[np.uint8]:
    # Labels are in the stored orientation, whatever EXIF says.
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    picture = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), flags)
    if picture is None:
        raise PhotoSetError(f"photo {name} can't be decoded")
    return picture.astype(np.uint8, copy=False)
