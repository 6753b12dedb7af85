"""The recipe of the bundle `mobilenetv2-imagenet`: a small classifier of ImageNet's 1000 classes.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018; torchvision's
weights (IMAGENET1K_V1), as the asset `mobilenet-v2` names them. The names of the classes, in the
order of their WordNet ids, are those of the asset `imagenet-names`.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.assets.catalogue import find
from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Cut,
    Manifest,
    Preprocess,
    Provenance,
    Segment,
    StageEntry,
    TensorSpec,
)
from headtail_models.splitting.cuts import Cut as Place
from headtail_models.splitting.model import OnnxModel, open_model
from headtail_models.splitting.weights import WEIGHTS
from headtail_models.zoo.mobilenet_v2_errors import WeightsError
from headtail_models.zoo.mobilenet_v2_graph import (
    CLASSES,
    OUTPUT,
    SIDE,
    block_name,
    graph,
    network_of,
)
from headtail_models.zoo.mobilenet_v2_weights import Parameters, read_parameters
from headtail_models.zoo.records import Accuracy, Calibration, read_accuracy, read_calibration
from headtail_models.zoo.released import released_cuts, write_released
from headtail_models.zoo.versions import VERSIONS

NAME: Final = "mobilenetv2-imagenet"
ASSET: Final = "mobilenet-v2"
NAMES: Final = "imagenet-names"
ASSETS: Final = (ASSET, NAMES)
PREPROCESS: Final = Preprocess(
    kind="centre-crop",
    width=SIDE,
    height=SIDE,
    resize=256,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
NATURAL_CUTS: Final = (1, 2, 3, 6, 10, 13, 16, 17)
"""After the last block of each width, and after the stem that the bottleneck begins at."""

_WEIGHTS_FILE: Final = "mobilenet_v2-b0353104.pth"
_NAMES_FILE: Final = "imagenet1k_clean_names.json"
_DEFAULT_CUT: Final = "bottleneck"
_DEFAULT_CODEC: Final = "rans"
_CODECS: Final = ("q8+zstd", "q8", "q4+zstd", "q4", "raw+zstd", "raw")


def parameters(files: Mapping[str, Path]) -> Parameters:
    """The network's parameters by torchvision's names. Raises WeightsError."""
    return read_parameters(files[_WEIGHTS_FILE])


def labels(files: Mapping[str, Path]) -> tuple[str, ...]:
    """The names of the classes, in order. Raises WeightsError."""
    try:
        names = json.loads(files[_NAMES_FILE].read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{_NAMES_FILE}: {error}") from None
    if not isinstance(names, list) or len(names) != CLASSES:
        raise WeightsError(f"{_NAMES_FILE} does not name {CLASSES} classes")
    return tuple(map(str, names))


def normalised(planes: NDArray[np.float32]) -> NDArray[np.float32]:
    """RGB / 255 planes (N, 3, H, W) as the network takes them."""
    mean, std = (
        np.array(values, dtype=np.float32).reshape(1, 3, 1, 1)
        for values in (PREPROCESS.mean, PREPROCESS.std)
    )
    result: NDArray[np.float32] = (planes - mean) / std
    return result


def make(files: Mapping[str, Path], folder: Path) -> Manifest:
    """Write the released bundle's files, of those of the assets. Raises as `parameters`."""
    return write(
        parameters(files),
        labels(files),
        folder,
        calibration=read_calibration(NAME),
        accuracy=read_accuracy(NAME),
    )


def write(
    weights: Parameters,
    names: tuple[str, ...],
    folder: Path,
    *,
    calibration: Calibration,
    accuracy: Accuracy,
) -> Manifest:
    """Write the stages and their weights into `folder`; the manifest lacks only the files' list.

    The same parameters and records give the same bytes, on any machine. Raises WeightsError.
    """
    with tempfile.TemporaryDirectory(prefix="headtail-mobilenet-") as work:
        model = _opened(weights, Path(work))
        (folder / WEIGHTS).write_bytes((model.folder / WEIGHTS).read_bytes())
        writer = _Writer(model, folder)
        full = writer.stage("full.onnx", model.whole(), writer.macs(None))
        cuts = {
            block_name(number): writer.cut(number, following, calibration, accuracy)
            for number, following in zip_longest(NATURAL_CUTS, NATURAL_CUTS[1:])
        }
    trained = [
        write_released(
            NAME,
            part,
            folder,
            before=cuts[part.after].head,
            after=cuts[part.before].tail,
            measured=accuracy.cuts.get(part.cut.name, ()),
        )
        for part in released_cuts(NAME)
    ]
    return Manifest(
        schema=SCHEMA,
        name=NAME,
        version=VERSIONS[NAME],
        description="MobileNetV2, 1000 classes of ImageNet, 224x224; a bottleneck trained for it, "
        "and plain cuts",
        task=ClassifyTask(output=OUTPUT),
        labels=names,
        preprocess=PREPROCESS,
        full=full,
        cuts=(*cuts.values(), *trained),
        default_cut=_DEFAULT_CUT if trained else block_name(NATURAL_CUTS[-1]),
        default_codec=_DEFAULT_CODEC if trained else _CODECS[0],
        metric=accuracy.metric,
        metric_split=accuracy.split,
        full_value=accuracy.full_value,
        provenance=(_provenance(),),
        files=(),
    )


def write_graph(weights: Parameters, path: Path) -> None:
    """The whole network as one ONNX file. Raises WeightsError."""
    path.write_bytes(graph(network_of(weights)).SerializeToString(deterministic=True))


class _Writer:
    """Writes parts of an opened model into a folder."""

    def __init__(self, model: OnnxModel, folder: Path) -> None:
        self._model, self._folder = model, folder

    def cut(
        self, number: int, following: int | None, calibration: Calibration, accuracy: Accuracy
    ) -> Cut:
        """The cut behind a block, whose tail meets that of the cut behind `following`, if any
        does."""
        name = block_name(number)
        split = self._model.split(self._model.cut_at(name))
        before = self.macs(split.cut.head)
        return Cut(
            name=name,
            head=self.stage(f"head-{name}.onnx", split.head, before),
            tail=self.stage(f"tail-{name}.onnx", split.tail, self.macs(None) - before),
            segment=None if following is None else self.segment(split.cut, following),
            codecs=_CODECS,
            quantisers=calibration.cuts[name],
            measured=accuracy.cuts.get(name, ()),
        )

    def segment(self, cut: Place, following: int) -> Segment:
        until = self._model.cut_at(block_name(following))
        return Segment(
            until=until.name,
            stage=self.stage(
                f"segment-{cut.name}.onnx",
                self._model.segment(cut, until),
                self.macs(until.head - cut.head),
            ),
        )

    def stage(self, file: str, proto: Any, macs: int) -> StageEntry:
        (self._folder / file).write_bytes(proto.SerializeToString(deterministic=True))
        return StageEntry(
            file=file,
            inputs=_specs(proto.graph.input),
            outputs=_specs(proto.graph.output),
            macs=macs,
        )

    def macs(self, nodes: Iterable[str] | None) -> int:
        """Multiply-adds of those nodes, or of all."""
        by_node = self._model.macs.by_node
        return sum(by_node[label] for label in (by_node if nodes is None else nodes))


def _opened(weights: Parameters, work: Path) -> OnnxModel:
    write_graph(weights, work / "mobilenet.onnx")
    inner = work / "parts"
    inner.mkdir()
    return open_model(work / "mobilenet.onnx", inner)


def _specs(infos: Iterable[Any]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=info.name,
            dtype="float32",
            shape=tuple(axis.dim_value for axis in info.type.tensor_type.shape.dim[1:]),
        )
        for info in infos
    )


def _provenance() -> Provenance:
    asset = find(ASSET)
    member = asset.members[0]
    return Provenance(
        source=f"{asset.kind} {asset.package} {asset.version}, {member.path}",
        licence=asset.licence,
        sha256=member.sha256,
    )
