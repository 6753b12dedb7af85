"""The cloud tier: texts, tails, and what starts and moves them, each against a baseline that runs
in turns with it.

Speeds of computing are per second of processor time, one thread; other programs on the machine slow
both sides.
"""

import argparse
from importlib import import_module
from types import ModuleType
from typing import Final

from headtail.bench.report import Report

PARTS: Final = ("llm", "cold-start", "gateway", "reuse", "migration", "mixed-load", "live-load")
"""Each a module with `add_arguments(parser)` and `measure(report, options)`."""

_NOT_SETTINGS: Final = ("json", "part")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--part",
        action="append",
        choices=PARTS,
        help="only this part; may be given again (default: all)",
    )
    parser.add_argument("--model", default="smollm2", help="language model (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="turns a contender (default 3)")
    for part in PARTS:
        _module(part).add_arguments(parser)


def run(options: argparse.Namespace) -> Report:
    parts = options.part or PARTS
    settings = {name: value for name, value in vars(options).items() if name not in _NOT_SETTINGS}
    report = Report("cloud", {**settings, "part": ", ".join(parts), "threads": 1})
    for part in parts:
        _module(part).measure(report, options)
    return report


def _module(part: str) -> ModuleType:
    return import_module(f"{__name__}.{part.replace('-', '_')}")
