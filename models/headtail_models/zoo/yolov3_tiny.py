"""The recipe of the bundle `yolov3-tiny-coco`: a small detector of COCO's 80 classes.

Redmon and Farhadi, "YOLOv3: An Incremental Improvement", 2018; the authors' own weights, as the
asset `yolov3-tiny` names them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from headtail_models.assets.catalogue import find
from headtail_models.bundle.manifest import (
    SCHEMA,
    Cut,
    DetectTask,
    Manifest,
    Preprocess,
    Provenance,
    Segment,
    YoloScale,
)
from headtail_models.zoo.darknet import Network, Yolo, read_network
from headtail_models.zoo.records import Accuracy, Calibration, read_accuracy, read_calibration
from headtail_models.zoo.released import ReleasedCut, released_cuts, write_released
from headtail_models.zoo.stages import (
    WEIGHTS,
    Parameter,
    cut_name,
    cut_points,
    map_name,
    stride,
    write_stage,
    write_weights,
)
from headtail_models.zoo.versions import VERSIONS

NAME: Final = "yolov3-tiny-coco"
ASSET: Final = "yolov3-tiny"
ASSETS: Final = (ASSET,)
FILL: Final = 127

_FINE_MASK: Final = (1, 2, 3)
"""The .cfg names anchors 0, 1, 2 for the fine map, but its weights were trained with these: with
those of the .cfg its mAP50 is 0.345 instead of 0.491."""
_TRAINED: Final = ("bottleneck", "rans")
_PLAIN: Final = ("L7", "q4+zstd")
"""Default cut and codec, the second where nothing was trained: the fewest bytes of all plain cuts
and codecs on photos that no accuracy is reported on."""
_CODECS: Final = ("q8+zstd", "q8", "q4+zstd", "q4", "raw+zstd", "raw")


def read(files: Mapping[str, Path]) -> Network:
    """The network of the asset's files. Raises DarknetError."""
    network = read_network(
        files["yolov3-tiny.cfg"].read_text(encoding="utf-8"),
        files["yolov3-tiny.weights"].read_bytes(),
    )
    last = network.layers[-1]
    assert isinstance(last, Yolo)
    return replace(network, layers=(*network.layers[:-1], replace(last, mask=_FINE_MASK)))


def labels(files: Mapping[str, Path]) -> tuple[str, ...]:
    """The names of the classes, in order."""
    return tuple(filter(None, files["coco.names"].read_text(encoding="utf-8").splitlines()))


def make(files: Mapping[str, Path], folder: Path) -> Manifest:
    """Write the released bundle's files, of those of the assets. Raises DarknetError."""
    return write(
        read(files),
        labels(files),
        folder,
        calibration=read_calibration(NAME),
        accuracy=read_accuracy(NAME),
        parts=released_cuts(NAME),
    )


def write(
    network: Network,
    names: tuple[str, ...],
    folder: Path,
    *,
    calibration: Calibration,
    accuracy: Accuracy,
    parts: Iterable[ReleasedCut] = (),
) -> Manifest:
    """Write the stages and their weights into `folder`; the manifest lacks only the files' list.

    `parts` are trained cuts of this very network. The same network, parts and records give the
    same bytes, on any machine.
    """
    parameters = write_weights(network, folder / WEIGHTS)
    full = write_stage(network, folder / "full.onnx", after=-1, until=None, parameters=parameters)
    places = cut_points(network)
    cuts = {
        cut_name(layer): _write_cut(
            network, layer, following, folder, parameters, calibration, accuracy
        )
        for layer, following in zip_longest(places, places[1:])
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
        for part in parts
    ]
    default_cut, default_codec = _TRAINED if trained else _PLAIN
    return Manifest(
        schema=SCHEMA,
        name=NAME,
        version=VERSIONS[NAME],
        description="YOLOv3-tiny, 80 classes of COCO, 416x416: trained bottlenecks and plain cuts",
        task=DetectTask(scales=scales(network)),
        labels=names,
        preprocess=Preprocess(
            kind="letterbox",
            width=network.input_shape[2],
            height=network.input_shape[1],
            fill=FILL,
        ),
        full=full,
        cuts=(*cuts.values(), *trained),
        default_cut=default_cut,
        default_codec=default_codec,
        metric=accuracy.metric,
        metric_split=accuracy.split,
        full_value=accuracy.full_value,
        pictures=accuracy.pictures,
        provenance=(_provenance(),),
        files=(),
    )


def _write_cut(
    network: Network,
    layer: int,
    following: int | None,
    folder: Path,
    parameters: Mapping[str, Parameter],
    calibration: Calibration,
    accuracy: Accuracy,
) -> Cut:
    """The cut behind `layer`, whose tail meets that of the cut behind `following`, if any does."""
    name = cut_name(layer)
    segment = None
    if following is not None:
        path = folder / f"segment-{name}.onnx"
        segment = Segment(
            until=cut_name(following),
            stage=write_stage(network, path, after=layer, until=following, parameters=parameters),
        )
    return Cut(
        name=name,
        head=write_stage(
            network, folder / f"head-{name}.onnx", after=-1, until=layer, parameters=parameters
        ),
        tail=write_stage(
            network, folder / f"tail-{name}.onnx", after=layer, until=None, parameters=parameters
        ),
        segment=segment,
        codecs=_CODECS,
        quantisers=calibration.cuts[name],
        measured=accuracy.cuts.get(name, ()),
    )


def scales(network: Network) -> tuple[YoloScale, ...]:
    return tuple(
        YoloScale(
            output=map_name(network, index),
            stride=stride(network, index),
            anchors=tuple(layer.anchors[anchor] for anchor in layer.mask),
        )
        for index, layer in enumerate(network.layers)
        if isinstance(layer, Yolo)
    )


def _provenance() -> Provenance:
    asset = find(ASSET)
    weights = next(member for member in asset.members if member.file.endswith(".weights"))
    return Provenance(
        source=f"{asset.kind} {asset.package} {asset.version}, {weights.path}",
        licence=asset.licence,
        sha256=weights.sha256,
    )
