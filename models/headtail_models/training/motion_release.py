"""From trained weights of the job `motion` to the files that the package is released with.

    python -m headtail_models.training.motion_release --data DIR --cache DIR \\
        --trained trained/motion --out models/headtail_models/zoo/released/motion
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from headtail_models.bundle.manifest import Provenance
from headtail_models.training.board_release import Given, Release, command
from headtail_models.training.motion import MotionJob, recordings_file
from headtail_models.training.motion_data import (
    LABELS,
    SIGNAL,
    read_recordings,
    scaled,
    windows,
)
from headtail_models.training.recipe import Recipe

NAME = "motion"


def build(recipe: Recipe, data: Path, cache: Path) -> Given:
    """The untrained network and the splits. Raises HeadtailError."""
    path = recordings_file(data)
    recordings = read_recordings(path)
    splits = {split: windows(recordings, split) for split in ("train", "calibration", "test")}
    return Given(
        network=MotionJob(recipe, data, cache).network,
        what=Release(
            name=NAME,
            description="Six activities by an inertial sensor at the waist, windows of 2.56 s: a "
            "separable CNN for microcontrollers with an exit, and a tail for the edge",
            labels=LABELS,
            preparation=SIGNAL,
            provenance=Provenance(
                source="trained by the recipe motion on UCI's HAPT recordings (Reyes-Ortiz and "
                "others, CC BY 4.0)",
                licence="Apache-2.0",
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            ),
            split=f"{len(splits['test'].labels)} windows of six persons who were never trained or "
            "chosen on",
            inputs=scaled,
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
