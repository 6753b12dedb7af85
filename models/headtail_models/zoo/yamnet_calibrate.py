"""Find the quantiser tables of the tagger's natural cuts on sounds, and write them as JSON.

    python -m headtail_models.zoo.yamnet_calibrate DATA calibration/yamnet-audio.json

The sounds below DATA are those of the calibration split as they are (`audio.clips`), never those
that agreement is reported on.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray
from rich.console import Console

from headtail_fabric.errors import HeadtailError
from headtail_models.assets import fetch
from headtail_models.audio.log_mel import LogMel, Patches
from headtail_models.bundle.manifest import QuantiserTable
from headtail_models.splitting.calibration import searched_quantisers
from headtail_models.stage import OnnxStage
from headtail_models.training.yamnet_sounds import clip_patches, open_clips
from headtail_models.zoo import yamnet, yamnet_reader
from headtail_models.zoo.records import Calibration, encode
from headtail_models.zoo.yamnet_layers import Yamnet
from headtail_models.zoo.yamnet_stages import write_stages

SPLIT: Final = "calibration"
_BATCH: Final = 8
_PATCHES: Final = 400
"""At most so many, spread over all clips."""


def calibrate(
    network: Yamnet, patches: Patches, after: Iterable[int]
) -> dict[str, dict[str, QuantiserTable]]:
    """Tables by cut and codec for cuts after those layers, found on `patches` (n, 1, patch,
    bands)."""
    tables = {}
    with tempfile.TemporaryDirectory(prefix="headtail-calibrate-") as work:
        folder = Path(work)
        for name, sides in write_stages(network, folder, after).cuts.items():
            head = OnnxStage(folder / sides.head.file)
            source = sides.head.inputs[0].name
            seen = [
                head.run({source: patches[at : at + _BATCH]})[name]
                for at in range(0, len(patches), _BATCH)
            ]
            tables[name] = {
                base: QuantiserTable(low=_rounded(found.low), high=_rounded(found.high))
                for base, found in searched_quantisers(seen).items()
            }
    return tables


def _rounded(values: NDArray[Any]) -> tuple[float, ...]:
    """Six digits: a millionth of a range is no loss, and the file stays readable."""
    return tuple(float(f"{value:.6g}") for value in values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m headtail_models.zoo.yamnet_calibrate")
    parser.add_argument("data", type=Path, help="folder with spoken-digits.tar and clips/")
    parser.add_argument("out", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        front = LogMel()
        clips = open_clips(options.data, SPLIT)
        patches = clip_patches(clips, front, most=2)
        patches = patches[:: -(-len(patches) // _PATCHES)]
        network = yamnet_reader.read(fetch(yamnet.ASSET))
        cuts = calibrate(network, patches, yamnet.NATURAL_CUTS)
    except HeadtailError as error:
        console.print(f"{error}\n{error.advice}", style="red", markup=False)
        return 1
    described = f"{len(patches)} patches of {len(clips)} sounds of the calibration split"
    options.out.write_bytes(encode(Calibration(network=yamnet.NAME, photos=described, cuts=cuts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
