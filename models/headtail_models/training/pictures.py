"""Pictures to train on without labels: tar files, folders and videos."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_models.training.errors import TrainingDataError

Picture = NDArray[np.uint8]
_PICTURES: Final = (".jpg", ".jpeg", ".png")
_VIDEOS: Final = (".mp4", ".avi", ".mkv", ".mov")
_MAX_FILE_BYTES: Final = 64 * 1024 * 1024


def read_pictures(path: Path, *, prefix: str = "", every: int = 1) -> Iterator[Picture]:
    """Every `every`-th picture (H, W, 3), BGR, whose name begins with `prefix`, in order of names.

    `path` is a tar file, a folder, or a video whose frames count. What can't be decoded is left
    out. Raises TrainingDataError where there is nothing.
    """
    if not path.exists():
        raise TrainingDataError(f"there is nothing at {path}")
    if path.suffix in _VIDEOS:
        found = _frames(path)
    elif path.is_dir():
        found = _folder(path, prefix)
    else:
        found = _tar(path, prefix)
    count = 0
    for index, picture in enumerate(found):
        if index % every == 0:
            count += 1
            yield picture
    if not count:
        raise TrainingDataError(f"{path} has no pictures" + (f" under {prefix}" if prefix else ""))


def _tar(path: Path, prefix: str) -> Iterator[Picture]:
    try:
        with tarfile.open(path) as archive:
            entries = [
                entry
                for entry in archive
                if entry.isreg()
                and entry.name.startswith(prefix)
                and entry.name.lower().endswith(_PICTURES)
                and entry.size <= _MAX_FILE_BYTES
            ]
            for entry in sorted(entries, key=lambda entry: entry.name):
                stream = archive.extractfile(entry)
                assert stream is not None  # only regular files are listed
                yield from _decoded(stream.read())
    except (tarfile.TarError, OSError) as error:
        raise TrainingDataError(f"{path}: {error}") from None


def _folder(path: Path, prefix: str) -> Iterator[Picture]:
    files = (file for file in path.rglob("*") if file.suffix.lower() in _PICTURES)
    for file in sorted(files):
        if str(file.relative_to(path)).startswith(prefix):
            yield from _decoded(file.read_bytes())


def _frames(path: Path) -> Iterator[Picture]:
    video = cv2.VideoCapture(str(path))
    try:
        while True:
            good, frame = video.read()
            if not good:
                return
            yield frame.astype(np.uint8, copy=False)
    finally:
        video.release()


def _decoded(data: bytes) -> Iterator[Picture]:
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    picture = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), flags)
    if picture is not None:
        yield picture.astype(np.uint8, copy=False)
