"""The recipe of the bundle `yamnet-audio`: a tagger of AudioSet's 521 classes of sounds.

YAMNet by its authors at Google (a MobileNet trained on AudioSet), with the weights and the names
that the asset `yamnet` holds. The trained bottleneck begins after L3 and goes on at L6.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from headtail_models.assets.catalogue import find
from headtail_models.bundle.manifest import (
    SCHEMA,
    Cut,
    LogMel,
    Manifest,
    Provenance,
    TagTask,
)
from headtail_models.zoo.records import Calibration, read_calibration
from headtail_models.zoo.released import ReleasedCut, released_cuts, write_released
from headtail_models.zoo.versions import VERSIONS
from headtail_models.zoo.yamnet_graph import OUTPUT, layer_name
from headtail_models.zoo.yamnet_layers import JOIN, TRUNK, Yamnet
from headtail_models.zoo.yamnet_reader import labels, read
from headtail_models.zoo.yamnet_stages import write_stages

NAME: Final = "yamnet-audio"
ASSET: Final = "yamnet"
ASSETS: Final = (ASSET,)
NATURAL_CUTS: Final = (1, 2, TRUNK, 4, JOIN, 12, 14)
"""After the last layer of each width, and where the bottleneck begins."""

_TRAINED: Final = ("bottleneck", "rans")
_PLAIN: Final = (layer_name(14), "q8+zstd")
"""Default cut and codec, the second where nothing was trained."""
_CODECS: Final = ("q8+zstd", "q8", "q4+zstd", "q4", "raw+zstd", "raw")


def make(files: Mapping[str, Path], folder: Path) -> Manifest:
    """Write the released bundle's files, of those of the asset. Raises YamnetError."""
    return write(
        read(files),
        labels(files),
        folder,
        calibration=read_calibration(NAME),
        parts=released_cuts(NAME),
    )


def write(
    network: Yamnet,
    names: tuple[str, ...],
    folder: Path,
    *,
    calibration: Calibration,
    parts: Iterable[ReleasedCut] = (),
) -> Manifest:
    """Write the stages and their weights into `folder`; the manifest lacks only the files' list.

    `parts` are trained cuts of this very network. The same network, parts and record give the same
    bytes, on any machine. No accuracy is stated: there are no labels to measure it with.
    """
    stages = write_stages(network, folder, NATURAL_CUTS)
    cuts = tuple(
        Cut(
            name=name,
            head=sides.head,
            tail=sides.tail,
            segment=sides.segment,
            codecs=_CODECS,
            quantisers=calibration.cuts[name],
        )
        for name, sides in stages.cuts.items()
    )
    trained = tuple(
        write_released(
            NAME,
            part,
            folder,
            before=stages.cuts[part.after].head,
            after=stages.cuts[part.before].tail,
            measured=(),
        )
        for part in parts
    )
    default_cut, default_codec = _TRAINED if trained else _PLAIN
    return Manifest(
        schema=SCHEMA,
        name=NAME,
        version=VERSIONS[NAME],
        description="YAMNet, 521 classes of AudioSet, patches of 0.96 s: a trained bottleneck with "
        "an exit for silence and speech, and plain cuts",
        task=TagTask(output=OUTPUT),
        labels=names,
        preprocess=LogMel(),
        full=stages.full,
        cuts=(*cuts, *trained),
        default_cut=default_cut,
        default_codec=default_codec,
        provenance=(_provenance(),),
        files=(),
    )


def _provenance() -> Provenance:
    asset = find(ASSET)
    weights = next(member for member in asset.members if member.file.endswith(".zip"))
    return Provenance(
        source=f"{asset.kind} {asset.package} {asset.version}, {weights.path}",
        licence=asset.licence,
        sha256=weights.sha256,
    )
