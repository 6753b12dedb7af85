"""COCO 2017 as it is published: photos in a folder a split, annotations as JSON.

    DIR/train2017/000000000009.jpg
    DIR/annotations/instances_train2017.json            boxes
    DIR/annotations/person_keypoints_train2017.json     people

(Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014.) Boxes of crowds are left out.
"""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Final, Literal, TypeVar

import cv2
import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail_models.rcnn.errors import CocoFolderError

Split = Literal["train2017", "val2017"]

VISIBLE_KEYPOINTS: Final = 10
"""A person with fewer does not count as one."""
_READERS: Final = 4
_GROUPS_AN_OCTAVE: Final = 3


class _Image(msgspec.Struct):
    id: int
    file_name: str
    height: int
    width: int


class _Instance(msgspec.Struct):
    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    iscrowd: int = 0


class _Person(msgspec.Struct):
    image_id: int
    bbox: tuple[float, float, float, float]
    num_keypoints: int


class _Instances(msgspec.Struct):
    images: list[_Image]
    annotations: list[_Instance]


class _People(msgspec.Struct):
    annotations: list[_Person]


_File = TypeVar("_File", _Instances, _People)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CocoPicture:
    """`boxes` (n, 5) float32: category, x1, y1, x2, y2 in pixels."""

    number: int
    path: Path
    height: int
    width: int
    boxes: NDArray[np.float32]

    def shows(self, category: int) -> bool:
        """Whether one of its boxes is of that category."""
        return bool((self.boxes[:, 0] == category).any())

    def only(self, category: int) -> "CocoPicture":
        """With the boxes of one category."""
        return replace(self, boxes=self.boxes[self.boxes[:, 0] == category])

    def read(self) -> Tensor:
        """(3, H, W) in 0 .. 1, as stored. Raises CocoFolderError."""
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        picture = cv2.imread(str(self.path), flags)
        if picture is None:
            raise CocoFolderError(f"{self.path} is missing or no picture")
        colours = np.ascontiguousarray(picture[:, :, ::-1].transpose(2, 0, 1))
        return torch.from_numpy(colours).float() / 255


def read_split(folder: Path, split: Split) -> tuple[CocoPicture, ...]:
    """All pictures of a split, by number. Raises CocoFolderError."""
    found = _decode(folder, f"instances_{split}.json", _Instances)
    boxes: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for one in found.annotations:
        x, y, width, height = one.bbox
        if not one.iscrowd and width > 0 and height > 0:
            boxes[one.image_id].append((one.category_id, x, y, x + width, y + height))
    pictures = []
    for image in sorted(found.images, key=lambda image: image.id):
        if PurePath(image.file_name).name != image.file_name:
            raise CocoFolderError(f"the file name {image.file_name!r} is no plain name")
        rows = np.array(boxes[image.id], dtype=np.float32).reshape(-1, 5)
        pictures.append(
            CocoPicture(
                number=image.id,
                path=folder / split / image.file_name,
                height=image.height,
                width=image.width,
                boxes=rows,
            )
        )
    if not pictures:
        raise CocoFolderError(f"{folder}: {split} has no pictures")
    return tuple(pictures)


def read_people(folder: Path, split: Split) -> frozenset[int]:
    """Numbers of the pictures with a person of at least 10 visible keypoints and a box.

    Raises CocoFolderError.
    """
    found = _decode(folder, f"person_keypoints_{split}.json", _People)
    return frozenset(
        one.image_id
        for one in found.annotations
        if one.num_keypoints >= VISIBLE_KEYPOINTS and min(one.bbox[2:]) > 0
    )


class Drawing:
    """Draws batches of pictures of like proportions, so that little of a batch is padding."""

    def __init__(self, pictures: Sequence[CocoPicture]) -> None:
        if not pictures:
            raise CocoFolderError("there is no picture to draw from")
        self._pictures = tuple(pictures)
        ratios = np.array([one.width / one.height for one in pictures])
        edges = np.arange(-_GROUPS_AN_OCTAVE, _GROUPS_AN_OCTAVE + 1) / _GROUPS_AN_OCTAVE
        self._groups = np.digitize(np.log2(ratios), edges)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="coco")

    def draw(
        self, random: np.random.Generator, count: int
    ) -> tuple[list[CocoPicture], list[Tensor]]:
        """`count` pictures, each mirrored by chance."""
        first = int(random.integers(len(self._pictures)))
        alike = np.flatnonzero(self._groups == self._groups[first])
        numbers = [first, *random.choice(alike, size=count - 1).tolist()]
        chosen = [self._pictures[number] for number in numbers]
        mirrored = random.random(count) < 0.5
        read = self._readers.map(CocoPicture.read, chosen)
        pictures = [
            picture.flip(-1) if mirror else picture
            for picture, mirror in zip(read, mirrored, strict=True)
        ]
        return chosen, pictures


def _decode(folder: Path, name: str, kind: type[_File]) -> _File:
    path = folder / "annotations" / name
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise CocoFolderError(f"{path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise CocoFolderError(f"{path}: {error}") from None
