"""Photos of ImageNet's classes, one a class, in one tar file, and the split that all results keep.

    0000_n01440764_tench.jpg        class index, WordNet id, words

The index is that of the 1000 classes in the order of their WordNet ids. (Deng et al., "ImageNet: A
Large-Scale Hierarchical Image Database", CVPR 2009.) Most published weights were trained on such
photos: differences between two ways to send one say more than how often the answer is right.
"""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_models.data.coco_photos import MAX_FILE_BYTES, PhotoSetError

Split = Literal["train", "calibration", "report"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)
CLASSES: Final = 1000
_NAME: Final = re.compile(r"(\d{4})_n\d{8}_\w[^/]*\.(?:jpe?g|JPE?G)\Z", re.ASCII)


def split_of(index: int) -> Split:
    """The split of a class: 7 of 12 classes are for training, 1 for choosing, 4 are reported.

    Neighbours in the order of WordNet ids are alike (the dogs, the birds), so the splits are
    interleaved. No class is in two of them: what learns classes by heart gains nothing.
    """
    place = index % 12
    if place == 0:
        return "calibration"
    return "report" if place % 3 == 1 else "train"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassPhoto:
    """A photo as it was published; `picture` (H, W, 3) BGR."""

    name: str
    label: int
    file_bytes: int
    picture: NDArray[np.uint8]


class ImagenetPhotos:
    """The photos of a tar file, in the order of their classes. Raises PhotoSetError throughout."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with tarfile.open(path) as archive:
                found = {
                    entry.name: int(match[1])
                    for entry in archive
                    if entry.isreg() and (match := _NAME.match(entry.name))
                }
        except FileNotFoundError:
            raise PhotoSetError(f"there is no photo set at {path}") from None
        except (tarfile.TarError, OSError) as error:
            raise PhotoSetError(f"{path}: {error}") from None
        self._labels = dict(sorted(found.items()))
        if not self._labels or max(self._labels.values()) >= CLASSES:
            raise PhotoSetError(f"{path} has no photos called CLASS_WORDNET-ID_WORDS.jpg")

    def names(self, split: Split) -> tuple[str, ...]:
        """Names of the photos of a split."""
        return tuple(name for name, label in self._labels.items() if split_of(label) == split)

    def photos(self, split: Split, *, limit: int | None = None) -> Iterator[ClassPhoto]:
        """`limit` photos of a split, spread over its classes, or all."""
        names = self.names(split)
        if limit is not None and limit < len(names):
            names = tuple(names[place * len(names) // limit] for place in range(limit))
        with tarfile.open(self._path) as archive:
            for name in names:
                yield self._read(archive, name)

    def _read(self, archive: tarfile.TarFile, name: str) -> ClassPhoto:
        entry = archive.getmember(name)
        if entry.size > MAX_FILE_BYTES:
            raise PhotoSetError(f"{name} has {entry.size} bytes")
        stream = archive.extractfile(entry)
        assert stream is not None  # only regular files are listed
        with stream:
            data = stream.read()
        picture = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR)
        if picture is None:
            raise PhotoSetError(f"photo {name} can't be decoded")
        return ClassPhoto(
            name=name.rpartition(".")[0],
            label=self._labels[name],
            file_bytes=len(data),
            picture=picture.astype(np.uint8, copy=False),
        )
