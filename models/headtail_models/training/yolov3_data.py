"""What every job for the detector learns from: the teacher, crops, and held-out photos.

The teacher is frozen, so what it gives for each crop is computed once. No labels are used.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from headtail_models.assets import fetch
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.nets.darknet import DarknetNet
from headtail_models.training.crops import CropStyle, crop_batches
from headtail_models.training.feature_cache import FeatureCache, open_cache
from headtail_models.training.pictures import Picture, read_pictures
from headtail_models.training.precision import bf16_helps
from headtail_models.vision import yolo
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.nms import suppress
from headtail_models.vision.prepare import letterbox
from headtail_models.zoo import yolov3_tiny

SHALLOW: Final = 1
"""208x208x16: 3 % of the network's multiplications before it."""
TRUNK: Final = 5
"""52x52x64: 17 % of them."""
JOIN: Final = 8
"""26x26x256. The teacher goes on after this layer: both its output maps need it."""
MAPS: Final = (15, 22)
"""The output maps, coarse and fine."""
STRIDE: Final = 16
"""Picture pixels between neighbouring latents."""
SIDE: Final = 416
_SPLIT: Final = "train2017"
_SURE: Final = 0.25
_UNSURE: Final = 0.005
_AT_ONCE: Final = 16


class DataOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`held_out` photos of COCO train2017, the last ones by name, are the calibration split; crops
    of `side` pixels, so many a picture, are taken of the others, of the ImageNet photos, and of
    every `frame_every`-th frame of the clip."""

    side: int = 256
    crops_coco: int = 20
    crops_photo: int = 4
    crops_frame: int = 4
    frame_every: int = 5
    held_out: int = 40


def data_options(options: DataOptions) -> DataOptions:
    """The part of a job's options that decides what the data are."""
    return DataOptions(**{name: getattr(options, name) for name in DataOptions.__struct_fields__})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOut:
    """A photo of the calibration split: its input, (1, 3, 416, 416), what the trunk gives for it,
    what the teacher makes of it (`joined` and its maps), and what it is sure to find in it."""

    image: torch.Tensor
    trunk: torch.Tensor
    wanted: dict[str, torch.Tensor]
    found: NDArray[np.float32]
    geometry: Geometry


class YoloData:
    """Made once a job; fetches the assets, and computes for minutes unless `cache` holds it."""

    def __init__(self, options: DataOptions, seed: int, data: Path, cache: Path) -> None:
        """Raises TrainingDataError, PhotoSetError and the assets' errors."""
        torch.set_num_threads(1)
        self._options, self._seed, self._folder, self._cache = options, seed, data, cache
        files = fetch(yolov3_tiny.ASSET)
        network = yolov3_tiny.read(files)
        self._scales = yolov3_tiny.scales(network)
        self.classes = len(yolov3_tiny.labels(files))
        self.teacher = DarknetNet(network).eval().requires_grad_(False)
        self._coco = CocoPhotos(data / "coco-photos.tar")
        self._trained_on = len(self._coco.names(_SPLIT)) - options.held_out
        self.features = self._open("features", self._features)
        """`trunk`, `joined`, and the maps `l15` and `l22`, of each crop."""

    def images(self) -> FeatureCache:
        """The crops themselves, `image`, in the order of `features`."""
        return self._open("images", self._images)

    def held_out(self) -> Iterator[HeldOut]:
        """The calibration split."""
        for index, photo in enumerate(self._coco.photos(_SPLIT)):
            if index < self._trained_on:
                continue
            height, width = photo.picture.shape[:2]
            geometry = Geometry.letterbox(height, width, to_height=SIDE, to_width=SIDE)
            image = torch.from_numpy(letterbox(photo.picture, geometry, fill=yolov3_tiny.FILL))
            with torch.no_grad():
                kept = self.teacher(image, after=-1, keep=(TRUNK, JOIN, *MAPS))
                found = self.detections(kept[JOIN], geometry)
            sure = found[found[:, 4] >= _SURE]
            wanted = {"joined": kept[JOIN]} | {f"l{index}": kept[index] for index in MAPS}
            yield HeldOut(
                image=image, trunk=kept[TRUNK], wanted=wanted, found=sure, geometry=geometry
            )

    def detections(self, joined: torch.Tensor, geometry: Geometry) -> NDArray[np.float32]:
        """Rows (n, 6) that the rest of the teacher finds, from layer 8's output of one picture."""
        later = self.teacher(joined.float(), after=JOIN, keep=MAPS)
        maps = [later[index][0].numpy() for index in MAPS]
        rows = yolo.decode(maps, self._scales, classes=self.classes, threshold=_UNSURE)
        kept = suppress(rows, max_iou=0.45, limit=300)
        corners = geometry.to_picture(kept[:, :4])
        inside = np.all(corners[:, 2:] > corners[:, :2], axis=1)
        return np.column_stack([corners, kept[:, 4:]])[inside].astype(np.float32)

    def _open(self, name: str, make: "_Maker") -> FeatureCache:
        key = {"options": msgspec.to_builtins(self._options), "seed": self._seed}
        return open_cache(self._cache, name, key=key, batches=lambda: make(self._crops()))

    def _crops(self) -> Iterator[torch.Tensor]:
        """Batches of crops (n, 3, side, side), always the same."""
        random = np.random.default_rng(self._seed)
        style = CropStyle(side=self._options.side, longest=SIDE)
        for some in crop_batches(self._sources(), style, random, count=_AT_ONCE):
            yield torch.from_numpy(some)

    def _sources(self) -> Iterator[tuple[Picture, int]]:
        """Every training picture, and how many crops of it are taken."""
        options = self._options
        for photo in self._coco.photos(_SPLIT, limit=self._trained_on):
            yield photo.picture, options.crops_coco
        for picture in read_pictures(self._folder / "imagenet-samples.tar"):
            yield picture, options.crops_photo
        clip = next(iter(fetch("bikes").values()))
        for picture in read_pictures(clip, every=options.frame_every):
            yield picture, options.crops_frame

    def _features(self, crops: Iterable[torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
        for batch in crops:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16_helps()):
                kept = self.teacher(batch, after=-1, keep=(TRUNK, JOIN, *MAPS))
            maps = {f"l{index}": kept[index] for index in MAPS}
            yield maps | {"trunk": kept[TRUNK], "joined": kept[JOIN]}

    def _images(self, crops: Iterable[torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
        for batch in crops:
            yield {"image": batch}


_Maker = Callable[[Iterable[torch.Tensor]], Iterator[dict[str, torch.Tensor]]]
