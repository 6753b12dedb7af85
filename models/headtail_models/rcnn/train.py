"""Train an R-CNN's bottleneck, then its filter, on COCO; report what came out.

    python -m headtail_models.rcnn.train distil --coco DIR --variant faster --out runs/faster
    python -m headtail_models.rcnn.train filter --coco DIR --out runs/keypoint
    python -m headtail_models.rcnn.train report --coco DIR --variant faster --out runs/faster

The same command again goes on where it was interrupted.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from headtail_fabric.errors import HeadtailError
from headtail_models.rcnn.errors import NoTorchvisionError


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 1 after an error that was printed."""
    chosen = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        _commands()[chosen.command](chosen, console)
    except HeadtailError as error:
        console.print(f"error: {error.message}", markup=False, highlight=False)
        console.print(error.advice, markup=False, highlight=False)
        return 1
    return 0


def _commands() -> dict[str, Callable[[argparse.Namespace, Console], None]]:
    # torchvision is an extra, and torch takes seconds to load: not for --help.
    try:
        from headtail_models.rcnn import training
    except ImportError as error:
        raise NoTorchvisionError(f"{error}") from error
    return {"distil": training.distil, "filter": training.train_filter, "report": training.report}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m headtail_models.rcnn.train", description=(__doc__ or "").splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    distil = commands.add_parser("distil", help="distil layer1 into a bottleneck (GHND)")
    filtering = commands.add_parser("filter", help="train the neural filter of Keypoint R-CNN")
    report = commands.add_parser("report", help="box mAP and bytes on val2017")
    for command in (distil, filtering, report):
        command.add_argument("--coco", type=Path, required=True, metavar="DIR")
        command.add_argument("--out", type=Path, required=True, metavar="DIR")
        command.add_argument("--channels", type=_count, default=3, metavar="B")
        command.add_argument("--device", default="cpu", help="cuda for a graphics processor")
    for command in (distil, report):
        command.add_argument("--variant", choices=("faster", "mask", "keypoint"), default="faster")
    for command in (distil, filtering):
        command.add_argument("--recipe", type=Path, metavar="FILE", help="in place of the built-in")
        command.add_argument(
            "--calibration",
            type=_count,
            default=500,
            metavar="N",
            help="pictures of train2017 kept for choosing the best checkpoint and the threshold",
        )
    report.add_argument("--bits", type=_count, default=8, help="of a value that crosses")
    report.add_argument(
        "--limit", type=_count, metavar="N", help="pictures of val2017; all without"
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
