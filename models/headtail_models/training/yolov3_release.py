"""From trained weights of the detector's jobs to the files that the package is released with.

    python -m headtail_models.training.yolov3_release --data DIR \\
        --bottleneck trained/yolov3-tiny-coco --light trained/yolov3-tiny-light \\
        --filter trained/yolov3-tiny-filter --out models/headtail_models/zoo/released

Coding models are counted, and the filter's threshold is set, on photos that no accuracy is
reported on: COCO's train2017 and the ImageNet photos. The quick coders need nothing that was
trained but the encoders that lie in the release, so they can be fitted again by themselves:

    python -m headtail_models.training.yolov3_release --data DIR --quick-coders \\
        --out models/headtail_models/zoo/released
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from headtail_fabric.errors import HeadtailError
from headtail_models.assets import fetch
from headtail_models.bottleneck.prior import Prior
from headtail_models.bundle.manifest import (
    Coder,
    Cut,
    Filter,
    Gate,
    QuantiserTable,
    StageEntry,
)
from headtail_models.exits.filter_threshold import RecallReached, filter_threshold
from headtail_models.nets.darknet import DarknetNet
from headtail_models.stage import OnnxStage
from headtail_models.training.job import Job
from headtail_models.training.jobs import open_job
from headtail_models.training.pictures import read_pictures
from headtail_models.training.recipe import Recipe, read_recipe
from headtail_models.training.releasing import (
    read_record,
    write_coder,
    write_quick_coder,
    write_record,
    write_stage,
)
from headtail_models.training.trainer import read_best
from headtail_models.training.yolov3_data import JOIN, MAPS, SHALLOW, SIDE, TRUNK
from headtail_models.training.yolov3_filter import SURE, FilterJob, certainty
from headtail_models.training.yolov3_light import LightJob
from headtail_models.training.yolov3_tiny import YoloJob
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.prepare import letterbox
from headtail_models.zoo import yolov3_tiny
from headtail_models.zoo.released import ReleasedCut
from headtail_models.zoo.stages import cut_name

STEPS: Final = {
    "rans-fine": 0.75,
    "rans": 1.0,
    "rans-light": 1.4,
    "rans-coarse": 2.0,
    "rans-least": 2.8,
}
"""Quantiser steps by codec id: one set of weights, five rates."""
QUICK: Final = {"rans-quick": 0.75}
"""The same for coders with a table context."""
PLAIN_STEP: Final = 0.75
"""The same for levels of a byte each, under zstd (`q8+zstd`): more bytes, hardly any time."""
RECALL: Final = 0.95
"""Of the frames in which the detector sees a person or a vehicle, so many must pass."""
_PLAIN: Final = ("q8", "q8+zstd")
_LATENTS: Final = "latents"
_LOGITS: Final = "logits"
_PHOTOS: Final = 128

Floats = NDArray[np.float32]


class Letterboxes:
    """Photos as the network sees them, (1, 3, 416, 416) each."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def coco(self) -> Iterator[torch.Tensor]:
        return self._of(self._data / "coco-photos.tar", "images/train2017", _PHOTOS)

    def others(self, every: int) -> Iterator[torch.Tensor]:
        return self._of(self._data / "imagenet-samples.tar", "", None, every)

    def _of(
        self, path: Path, prefix: str, limit: int | None, every: int = 1
    ) -> Iterator[torch.Tensor]:
        for count, picture in enumerate(read_pictures(path, prefix=prefix, every=every)):
            if limit is not None and count >= limit:
                return
            height, width = picture.shape[:2]
            geometry = Geometry.letterbox(height, width, to_height=SIDE, to_width=SIDE)
            yield torch.from_numpy(letterbox(picture, geometry, fill=yolov3_tiny.FILL))


class Release:
    """Writes the parts of one bundle into a folder."""

    def __init__(self, folder: Path, data: Path, console: Console) -> None:
        self._folder, self._photos, self._console = folder, Letterboxes(data), console
        folder.mkdir(parents=True, exist_ok=True)

    def bottleneck(self, job: YoloJob, gates: tuple[Gate, ...]) -> None:
        """The cut `bottleneck`: after layer 5, for all rates."""
        self._cut(
            "bottleneck",
            job.network.encoder,
            job.network.restore,
            job.network.prior,
            after=TRUNK,
            teacher=job.data.teacher,
            gates=gates,
        )

    def light(self, job: LightJob) -> None:
        """The cut `light`: after layer 1."""
        self._cut(
            "light",
            job.network.encoder,
            job.network.restore,
            job.network.prior,
            after=SHALLOW,
            teacher=job.data.teacher,
            gates=(),
        )

    def quick_coders(self, name: str, teacher: DarknetNet) -> None:
        """Fit the quick coders of a cut that was released before, and add the plain levels."""
        record = read_record(self._folder, name)
        after = next(layer for layer in (TRUNK, SHALLOW) if cut_name(layer) == record.after)
        latents = self._latents(record.cut.head, after, teacher)
        trained = {codec: record.cut.coders[codec] for codec in STEPS}
        self._write(record, trained | self._quick(name, latents))

    def presence(self, job: FilterJob) -> Filter:
        """The filter, with its threshold."""
        width = job.data.teacher.layer(TRUNK + 1).in_channels
        shape = (width, SIDE // 8, SIDE // 8)
        branch = self._export(
            job.network, "presence", shape, inputs=cut_name(TRUNK), output=_LOGITS
        )
        stage = OnnxStage(self._folder / branch.file)
        chances, something = [], []
        for image in (*self._photos.coco(), *self._photos.others(every=2)):
            with torch.no_grad():
                kept = job.data.teacher(image, after=-1, keep=(TRUNK, *MAPS))
            logits = stage.run({cut_name(TRUNK): kept[TRUNK].numpy()})[_LOGITS][0]
            chances.append(1 / (1 + np.exp(logits[0] - logits[1])))
            seen = [float(certainty(kept[index], job.data.classes)) for index in MAPS]
            something.append(max(seen) >= SURE)
        found = filter_threshold(np.array(chances), np.array(something), recall=RECALL)
        if not isinstance(found, RecallReached):
            raise SystemExit(f"a recall of {RECALL} needs {found.needed} photos with something")
        point = found.point
        self._console.print(f"presence: {point}", markup=False)
        return Filter(
            name="presence",
            branch=branch,
            threshold=point.threshold,
            recall=point.recall,
            dropped=float(np.mean(np.array(chances) < point.threshold)),
        )

    def _cut(
        self,
        name: str,
        encoder: nn.Module,
        restore: nn.Module,
        prior: Prior,
        *,
        after: int,
        teacher: DarknetNet,
        gates: tuple[Gate, ...],
    ) -> None:
        channels = prior.channels
        inputs = teacher.layer(after + 1).in_channels
        side = SIDE // (8 if after == TRUNK else 2)
        head = self._export(
            encoder,
            f"encoder-{name}",
            (inputs, side, side),
            inputs=cut_name(after),
            output=_LATENTS,
        )
        tail = self._export(
            restore,
            f"tail-{name}",
            (channels, SIDE // 16, SIDE // 16),
            inputs=_LATENTS,
            output=cut_name(JOIN),
        )
        latents = self._latents(head, after, teacher)
        coders = {
            codec: write_coder(prior, latents, step, self._folder / f"{codec}-{name}.htrc")
            for codec, step in STEPS.items()
        }
        macs = prior.macs_per_position * (SIDE // 16) ** 2
        cut = Cut(
            name=name,
            gates=gates,
            # The device runs the context model, too.
            head=msgspec.structs.replace(head, macs=head.macs + macs),
            tail=tail,
            codecs=(),
        )
        record = ReleasedCut(after=cut_name(after), before=cut_name(JOIN), cut=cut)
        self._write(record, coders | self._quick(name, latents))

    def _write(self, record: ReleasedCut, coders: dict[str, Coder]) -> None:
        channels = record.cut.tensor.shape[0]
        cut = msgspec.structs.replace(
            record.cut,
            codecs=(*coders, *_PLAIN),
            coders=coders,
            quantisers={_PLAIN[0]: _step_table(PLAIN_STEP, channels)},
        )
        write_record(msgspec.structs.replace(record, cut=cut), self._folder)

    def _quick(self, name: str, latents: Floats) -> dict[str, Coder]:
        return {
            codec: write_quick_coder(latents, step, self._folder / f"{codec}-{name}.htrc")
            for codec, step in QUICK.items()
        }

    def _latents(self, head: StageEntry, after: int, teacher: DarknetNet) -> Floats:
        stage = OnnxStage(self._folder / head.file)
        found = []
        for image in (*self._photos.coco(), *self._photos.others(every=6)):
            with torch.no_grad():
                kept = teacher(image, after=-1, keep=(after,))[after]
            found.append(stage.run({head.inputs[0].name: kept.numpy()})[_LATENTS])
        return np.concatenate(found)

    def _export(
        self, module: nn.Module, name: str, shape: tuple[int, ...], *, inputs: str, output: str
    ) -> StageEntry:
        path = self._folder / f"{name}.onnx"
        entry = write_stage(module, path, shape, inputs=inputs, output=output)
        self._console.print(f"{path.name}: {path.stat().st_size:,} B")
        return entry


def _step_table(step: float, channels: int) -> QuantiserTable:
    """Levels `step` apart, one of them at 0."""
    return QuantiserTable(low=(-128 * step,) * channels, high=(127 * step,) * channels)


def _open(recipe: Recipe, folder: Path, options: argparse.Namespace) -> Job:
    if recipe.job == "yolov3-tiny-light":
        changed: Mapping[str, object] = {**recipe.options, "teacher": str(options.bottleneck)}
        recipe = msgspec.structs.replace(recipe, options=dict(changed))
    job = open_job(recipe, options.data, options.cache)
    job.modules().load_state_dict(read_best(folder))
    job.modules().eval()
    return job


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="of the features")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--bottleneck", type=Path, metavar="DIR", help="needs --cache")
    source.add_argument(
        "--quick-coders", action="store_true", help="fit those of the release in --out again"
    )
    parser.add_argument("--light", type=Path, metavar="DIR")
    parser.add_argument("--filter", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    console = Console()
    release = Release(options.out / yolov3_tiny.NAME, options.data, console)
    try:
        if options.quick_coders:
            network = DarknetNet(yolov3_tiny.read(fetch(yolov3_tiny.ASSET))).eval()
            for name in ("bottleneck", "light"):
                release.quick_coders(name, network)
            return 0
        if options.cache is None:
            parser.error("--bottleneck needs --cache")
        gates: tuple[Gate, ...] = ()
        if options.filter:
            job = _open(read_recipe("yolov3-tiny-filter"), options.filter, options)
            assert isinstance(job, FilterJob)
            gates = (release.presence(job),)
        job = _open(read_recipe("yolov3-tiny-coco"), options.bottleneck, options)
        assert isinstance(job, YoloJob)
        release.bottleneck(job, gates)
        if options.light:
            job = _open(read_recipe("yolov3-tiny-light"), options.light, options)
            assert isinstance(job, LightJob)
            release.light(job)
    except HeadtailError as error:
        console.print(f"{error}\n{error.advice}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
