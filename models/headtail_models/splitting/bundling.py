"""A bundle of a user's own classifier, cut in one place.

The manifest's schema has one picture as input, one tensor that crosses, and one score a label. What
does not fit is said with the reason; head and tail are then of use as plain ONNX files.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from onnx import helper

from headtail_fabric.codec import Quantiser
from headtail_models.bundle import open_bundle, write_bundle
from headtail_models.bundle.manifest import (
    INPUT,
    SCHEMA,
    ClassifyTask,
    Manifest,
    Preprocess,
    Provenance,
    QuantiserTable,
    StageEntry,
    TensorSpec,
)
from headtail_models.bundle.manifest import Cut as BundleCut
from headtail_models.splitting.calibration import can_quantise, searched_quantisers
from headtail_models.splitting.errors import SplitError
from headtail_models.splitting.model import HEAD, OnnxModel, Split
from headtail_models.splitting.samples import Sample, picture_input
from headtail_models.splitting.tensors import SEVERAL, Tensor
from headtail_models.splitting.weights import WEIGHTS

MAX_NAME: Final = 64
_DTYPES: Final[Mapping[str, Literal["float32", "uint8"]]] = {
    "float32": "float32",
    "uint8": "uint8",
}


class NotBundledError(SplitError):
    """A bundle holds a classifier of pictures that is cut where one tensor crosses; the message
    says what does not fit. Head and tail as plain ONNX files don't need that: use --task none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleWish:
    """What a person says of their classifier. Without `labels` they are `class 0`, `class 1` ..."""

    name: str
    version: str
    preprocess: Preprocess
    labels: tuple[str, ...] = ()
    licence: str = "not stated"
    source: str


def why_not_bundled(model: OnnxModel, split: Split) -> str | None:
    """What keeps the model from being a bundle, or None."""
    cut, tensors = split.cut, model.census.tensors
    if picture_input(model.specs) is None:
        return "the model's input is not one float picture of three channels"
    if SEVERAL not in model.census.batches:
        return "the model takes one picture at a time; export it with a free batch axis"
    if len(cut.sent) != 1:
        return f"{len(cut.sent)} tensors cross at {cut.name}; a bundle's cuts have one"
    if cut.early:
        return f"the head has the output {cut.early[0]!r} already"
    scores = tensors.get(model.graph.outputs[0])
    if len(model.graph.outputs) != 1 or scores is None or not _is_scores(scores):
        return "the model's output is not one row of float scores a picture"
    crossing = cut.crossing[0]
    if crossing.dtype not in _DTYPES or len(crossing.shape) < 2 or not crossing.counts_frames:
        return f"{crossing.name!r} is {crossing.dtype} {crossing.shape}, not one block a picture"
    if not crossing.proven:
        return f"the shape of {crossing.name!r} may depend on the picture"
    for name in (*model.graph.inputs, *model.graph.outputs):
        if len(name) > MAX_NAME:
            return f"the name {name!r} is longer than {MAX_NAME} characters"
    return None


def write_split_bundle(
    model: OnnxModel,
    split: Split,
    target: Path,
    wish: BundleWish,
    *,
    samples: Sequence[Sample] = (),
) -> Path:
    """Write a bundle with the whole model, head and tail into the new folder `target`.

    With `samples` the quantising codecs are allowed, their ranges found on them. Raises
    NotBundledError, what `write_bundle` does, StageLoadError.
    """
    reason = why_not_bundled(model, split)
    if reason is not None:
        raise NotBundledError(f"no bundle: {reason}")
    folder = model.folder / "bundle"
    folder.mkdir()
    if (model.folder / WEIGHTS).stat().st_size:
        _link(model.folder / WEIGHTS, folder / WEIGHTS)
    manifest = _Writer(model=model, split=split, folder=folder, wish=wish).manifest(samples)
    path = write_bundle(folder, manifest, target)
    bundle = open_bundle(path)
    for stage in manifest.stages():
        bundle.open_stage(stage)
    return path


@dataclass(frozen=True, kw_only=True)
class _Writer:
    model: OnnxModel
    split: Split
    folder: Path
    wish: BundleWish

    def manifest(self, samples: Sequence[Sample]) -> Manifest:
        """Write the stages; the manifest without its list of files."""
        cut = self._cut(samples)
        return Manifest(
            schema=SCHEMA,
            name=self.wish.name,
            version=self.wish.version,
            description=f"{self.wish.source}, cut at {self.split.cut.name}"[:1000],
            task=ClassifyTask(output=self.model.graph.outputs[0]),
            labels=self._labels(),
            preprocess=self.wish.preprocess,
            full=self._stage("full.onnx", self.model.whole(), self._macs(None)),
            cuts=(cut,),
            default_cut=cut.name,
            default_codec=next(c for c in ("q8+zstd", "raw+zstd") if c in cut.codecs),
            provenance=(
                Provenance(
                    source=self.wish.source, licence=self.wish.licence, sha256=self.model.sha256
                ),
            ),
            files=(),
        )

    def _cut(self, samples: Sequence[Sample]) -> BundleCut:
        crossing = self.split.cut.crossing[0]
        name = cut_name(crossing.name)
        short = crossing.name if len(crossing.name) <= MAX_NAME else name
        head, tail = _renamed(self.split, crossing.name, short)
        quantisers = self._quantisers(crossing, samples)
        codecs = ["raw", "raw+zstd"]
        codecs += [base + wrapper for base in quantisers for wrapper in ("", "+zstd")]
        before = self._macs(True)
        return BundleCut(
            name=name,
            head=self._stage(f"head-{name}.onnx", head, before),
            tail=self._stage(f"tail-{name}.onnx", tail, self._macs(None) - before),
            codecs=tuple(codecs),
            quantisers={base: _table(one) for base, one in quantisers.items()},
        )

    def _quantisers(self, crossing: Tensor, samples: Sequence[Sample]) -> dict[str, Quantiser]:
        if not samples or not can_quantise(crossing.dtype, crossing.shape):
            return {}
        head = self.model.load(self.split.head, HEAD)
        seen = [head.run(sample.inputs, [crossing.name])[crossing.name] for sample in samples]
        return searched_quantisers(seen)

    def _stage(self, file: str, proto: Any, macs: int) -> StageEntry:
        (self.folder / file).write_bytes(proto.SerializeToString(deterministic=True))
        return StageEntry(
            file=file,
            inputs=tuple(map(_spec, proto.graph.input)),
            outputs=tuple(map(_spec, proto.graph.output)),
            macs=macs,
        )

    def _macs(self, head: bool | None) -> int:
        by_node = self.model.macs.by_node
        return sum(by_node[label] for label in (self.split.cut.head if head else by_node))

    def _labels(self) -> tuple[str, ...]:
        count = self.model.census.tensors[self.model.graph.outputs[0]].shape[1]
        labels = self.wish.labels or tuple(f"class {at}" for at in range(count))
        if len(labels) != count:
            raise NotBundledError(f"{len(labels)} labels for {count} scores a picture")
        return labels


def cut_name(tensor: str) -> str:
    """A tensor's name as a cut may be called: letters, digits, `.`, `_` and `-`, the end of it."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", tensor).strip("-._")
    name = plain[-MAX_NAME:].lstrip("-._") or "cut"
    return f"{name[: MAX_NAME - 4]}-cut" if name.casefold() == INPUT else name


def _is_scores(tensor: Tensor) -> bool:
    return tensor.dtype == "float32" and len(tensor.shape) == 2 and tensor.counts_frames


def _renamed(split: Split, name: str, short: str) -> tuple[Any, Any]:
    """Head and tail with another name for what crosses."""
    if name == short:
        return split.head, split.tail
    head, tail = type(split.head)(), type(split.tail)()
    head.CopyFrom(split.head)
    tail.CopyFrom(split.tail)
    head.graph.node.append(helper.make_node("Identity", [name], [short]))
    head.graph.output[0].name = short
    tail.graph.node.insert(0, helper.make_node("Identity", [short], [name]))
    tail.graph.input[0].name = short
    return head, tail


def _spec(info: Any) -> TensorSpec:
    tensor = info.type.tensor_type
    dtype = _DTYPES[helper.tensor_dtype_to_np_dtype(tensor.elem_type).name]
    return TensorSpec(
        name=info.name, dtype=dtype, shape=tuple(axis.dim_value for axis in tensor.shape.dim[1:])
    )


def _table(quantiser: Quantiser) -> QuantiserTable:
    return QuantiserTable(low=_rounded(quantiser.low), high=_rounded(quantiser.high))


def _rounded(values: np.ndarray[Any, Any]) -> tuple[float, ...]:
    """Six digits: a millionth of a range is no loss, and the file stays readable."""
    return tuple(float(f"{value:.6g}") for value in values)


def _link(source: Path, target: Path) -> None:
    """The same file under another name where the file system can do that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
