"""From trained weights of the job `spoken-digits` to the files that the package is released with.

    python -m headtail_models.training.digits_release --data DIR --cache DIR \\
        --trained trained/spoken-digits --out models/headtail_models/zoo/released/spoken-digits
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from headtail_models.bundle.manifest import LogMel, Provenance
from headtail_models.training.board_release import Given, Release, command
from headtail_models.training.digits import DigitsJob
from headtail_models.training.digits_data import (
    FILE,
    FRONT,
    LABELS,
    centred,
    read_digits,
    spectra,
)
from headtail_models.training.recipe import Recipe

NAME = "spoken-digits"


def build(recipe: Recipe, data: Path, cache: Path) -> Given:
    """The untrained network and the splits. Raises HeadtailError."""
    archive = data / FILE
    job = DigitsJob(recipe, data, cache)
    splits = {
        split: centred(read_digits(archive, speakers)) for split, speakers in job.speakers.items()
    }
    return Given(
        network=job.network,
        what=Release(
            name=NAME,
            description="Spoken digits, one a second: a DS-CNN for microcontrollers with an exit, "
            "a code of 4 bits a value, and a tail for the edge",
            labels=LABELS,
            preparation=LogMel(**{name: getattr(FRONT, name) for name in LogMel.__struct_fields__}),
            provenance=Provenance(
                source="trained by the recipe spoken-digits on the Free Spoken Digit Dataset of "
                "Z. Jackson and others (CC BY-SA 4.0)",
                licence="Apache-2.0",
                sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
            ),
            split=f"{len(splits['test'].labels)} digits of a speaker who was never trained or "
            f"chosen on ({', '.join(job.speakers['test'])})",
            inputs=spectra,
        ),
        train=splits["train"],
        calibration=splits["calibration"],
        test=splits["test"],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    return command(NAME, build, arguments)


if __name__ == "__main__":
    sys.exit(main())
