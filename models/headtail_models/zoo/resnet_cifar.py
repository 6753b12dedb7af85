"""The recipe of the bundle `resnet-cifar10`: a small classifier with two early exits.

Trained by `headtail train resnet-cifar10`; its stages, and what was calibrated and measured on
them, lie in `released/resnet-cifar10`, written by `headtail_models.zoo.resnet_cifar_release`.
"""

import hashlib
import shutil
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Coder,
    Cut,
    Exit,
    Manifest,
    Measured,
    OperatingPoint,
    Preprocess,
    Provenance,
    QuantiserTable,
    StageEntry,
)
from headtail_models.data.cifar10 import MEAN, SIDE, STD
from headtail_models.exits.criteria import Criterion
from headtail_models.stage import OnnxStage
from headtail_models.zoo.versions import VERSIONS

NAME: Final = "resnet-cifar10"
RECORD: Final = "record.json"
CUT: Final = "latents"
"""The name of the cut, and of the tensor that crosses there."""
STAGES: Final = ("trunk0", "branch0", "trunk1", "branch1", "head", "tail", "full")
DEFAULT_POINT: Final = "drop-1"
DEFAULT_CODEC: Final = "rans"

ASSETS: Final[tuple[str, ...]] = ()
"""None: all of it was trained here."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ExitRecord(_Part, frozen=True, kw_only=True):
    """One exit as calibrated."""

    temperature: float
    points: tuple[OperatingPoint, ...]


class Record(_Part, frozen=True, kw_only=True):
    """What is known of the released stages. `steps` by coder id, whose model is the file of that
    name; `table` for `q8`."""

    labels: tuple[str, ...]
    macs: dict[str, Annotated[int, Meta(ge=0)]]
    criterion: Criterion
    exits: tuple[ExitRecord, ...]
    steps: dict[str, float]
    table: QuantiserTable
    full_value: float
    split: str
    measured: tuple[Measured, ...]


def coder_file(codec_id: str) -> str:
    """The file of a coding model."""
    return f"{codec_id}.htrc"


def make(files: Mapping[str, Path], folder: Path) -> Manifest:
    """`write`, as a recipe of the zoo: no file of an asset is needed."""
    return write(folder)


def write(folder: Path) -> Manifest:
    """Copy the released files into `folder`; the manifest lacks only the files' list."""
    with as_file(files(__package__).joinpath("released", NAME)) as released:
        return assemble(released, folder)


def assemble(released: Path, folder: Path) -> Manifest:
    """The same from any folder of released files."""
    record = msgspec.json.decode((released / RECORD).read_bytes(), type=Record)
    names = [f"{stage}.onnx" for stage in STAGES] + [coder_file(one) for one in record.steps]
    for name in names:
        shutil.copyfile(released / name, folder / name)
    stages = {stage: _entry(folder, stage, record.macs) for stage in STAGES}
    full = stages["full"]
    return Manifest(
        schema=SCHEMA,
        name=NAME,
        version=VERSIONS[NAME],
        description="A residual network for the ten classes of CIFAR-10, with two early exits",
        task=ClassifyTask(output=full.outputs[0].name),
        labels=record.labels,
        preprocess=Preprocess(
            kind="centre-crop", width=SIDE, height=SIDE, resize=SIDE, mean=MEAN, std=STD
        ),
        full=full,
        cuts=(_cut(record, stages),),
        default_cut=CUT,
        default_codec=DEFAULT_CODEC,
        metric="top-1",
        metric_split=record.split,
        full_value=record.full_value,
        provenance=(
            Provenance(
                source="trained on CIFAR-10 (Krizhevsky, 2009) by the recipe resnet-cifar10",
                licence="Apache-2.0",
                sha256=hashlib.sha256((folder / full.file).read_bytes()).hexdigest(),
            ),
        ),
        files=(),
    )


def _cut(record: Record, stages: Mapping[str, StageEntry]) -> Cut:
    return Cut(
        name=CUT,
        gates=tuple(
            Exit(
                name=f"exit{index}",
                trunk=stages[f"trunk{index}"],
                branch=stages[f"branch{index}"],
                temperature=calibrated.temperature,
                criterion=record.criterion,
                points=calibrated.points,
                default_point=DEFAULT_POINT,
            )
            for index, calibrated in enumerate(record.exits)
        ),
        head=stages["head"],
        tail=stages["tail"],
        codecs=(*record.steps, "q8+zstd", "raw"),
        quantisers={"q8": record.table},
        coders={
            codec_id: Coder(file=coder_file(codec_id), steps=(step,))
            for codec_id, step in record.steps.items()
        },
        measured=record.measured,
    )


def _entry(folder: Path, name: str, macs: Mapping[str, int]) -> StageEntry:
    stage = OnnxStage(folder / f"{name}.onnx")
    return StageEntry(
        file=f"{name}.onnx", inputs=stage.inputs, outputs=stage.outputs, macs=macs[name]
    )
