"""What every job for the classifier learns from: the teacher, crops, and the calibration photos.

The teacher is frozen, so what it gives for each crop is computed once. No labels are used.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from headtail_models.assets import fetch
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.data.imagenet_photos import ImagenetPhotos
from headtail_models.nets.mobilenet_v2 import SIDE, frozen, pooled
from headtail_models.training.crops import CropStyle, crop_batches
from headtail_models.training.feature_cache import FeatureCache, open_cache
from headtail_models.training.pictures import Picture, read_pictures
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import centre_crop
from headtail_models.zoo import mobilenet_v2 as recipe_of

CUT: Final = 2
"""The block whose output is kept as `stem`: 56x56x24, 50 of 300 MMAC."""
FELT: Final = (6, 10, 13, 17)
"""Blocks whose outputs are compared with the teacher's."""
PHOTOS: Final = "imagenet-samples.tar"
COCO: Final = "coco-photos.tar"
_AT_ONCE: Final = 16


class DataOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many crops are taken of an ImageNet photo, a COCO photo, and every `frame_every`-th frame
    of the clip."""

    crops_photo: int = 6
    crops_coco: int = 8
    crops_frame: int = 4
    frame_every: int = 25


class MobileNetData:
    """Made once a job; fetches the assets, and computes for minutes unless `cache` holds it."""

    def __init__(self, options: DataOptions, seed: int, data: Path, cache: Path) -> None:
        """Raises PhotoSetError and the assets' errors."""
        torch.set_num_threads(1)
        self._options, self._seed, self._folder, self._cache = options, seed, data, cache
        self.teacher = frozen(recipe_of.parameters(fetch(recipe_of.ASSET)))
        self._photos = ImagenetPhotos(data / PHOTOS)

    def features(self) -> FeatureCache:
        """`stem`, `f6` to `f17`, and `pool`, the last features' means, of each crop. Raises
        TrainingDataError, PhotoSetError."""
        options = {one: getattr(self._options, one) for one in DataOptions.__struct_fields__}
        return open_cache(
            self._cache, "features", key=options | {"seed": self._seed}, batches=self._batches
        )

    def calibration(self) -> Iterator[torch.Tensor]:
        """The calibration photos as the network takes them, (1, 3, 224, 224) each."""
        for photo in self._photos.photos("calibration"):
            yield torch.from_numpy(prepared(photo.picture))

    def _batches(self) -> Iterator[dict[str, torch.Tensor]]:
        style = CropStyle(side=SIDE, longest=320, spread=0.3, banded=0.0)
        random = np.random.default_rng(self._seed)
        for crops in crop_batches(self._sources(), style, random, count=_AT_ONCE):
            yield self._of(torch.from_numpy(recipe_of.normalised(crops)))

    def _of(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        kept: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            for number, found in self.teacher.walk(images, after=-1):
                if number == CUT:
                    kept["stem"] = found
                elif number in FELT:
                    kept[f"f{number}"] = found
                last = found
            return kept | {"pool": pooled(last)}

    def _sources(self) -> Iterator[tuple[Picture, int]]:
        """Every training picture, and how many crops of it are taken."""
        options = self._options
        for photo in self._photos.photos("train"):
            yield photo.picture, options.crops_photo
        for labelled in CocoPhotos(self._folder / COCO).photos("train2017"):
            yield labelled.picture, options.crops_coco
        clip = next(iter(fetch("bikes").values()))
        for picture in read_pictures(clip, every=options.frame_every):
            yield picture, options.crops_frame


def prepared(picture: Picture) -> NDArray[np.float32]:
    """A picture as the network takes it, (1, 3, 224, 224)."""
    way = recipe_of.PREPROCESS
    geometry = Geometry.centre_crop(
        *picture.shape[:2], resize=way.resize or SIDE, to_height=SIDE, to_width=SIDE
    )
    return centre_crop(picture, geometry, mean=way.mean, std=way.std)
