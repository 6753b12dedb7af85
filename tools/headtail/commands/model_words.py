"""The arguments that `plan` and `split` have in common: a user's model and its input."""

import argparse
from pathlib import Path
from typing import Final

from headtail_fabric.errors import ConfigError
from headtail_fabric.logs import printable
from headtail_models.bundle.manifest import Preprocess

_MAX_AXES: Final = 8
_MAX_SIDE: Final = 65_536


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model's file, and sizes for its free axes."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx file")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=1x3x224x224",
        help="size an input that has free axes besides the batch; may be repeated",
    )


def add_preparation(parser: argparse.ArgumentParser) -> None:
    """How a picture becomes the model's input."""
    group = parser.add_argument_group("how a picture becomes the input (RGB / 255)")
    group.add_argument("--prepare", choices=("letterbox", "centre-crop"), default="letterbox")
    group.add_argument("--resize", type=int, metavar="N", help="centre-crop: shorter side to N")
    for flag in ("--mean", "--std"):
        group.add_argument(
            flag, metavar="R,G,B", help=f"centre-crop: {flag[2:]} of the channels, as 0.5,0.5,0.5"
        )


def shapes(args: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """The sizes of inputs that were given. Raises ConfigError."""
    found: dict[str, tuple[int, ...]] = {}
    for word in args.shape:
        name, _, sizes = word.rpartition("=")
        parts = sizes.lower().split("x")
        if not name or len(parts) > _MAX_AXES or not all(part.isdecimal() for part in parts):
            raise ConfigError(f"--shape {printable(word[:80])!r}: write INPUT=1x3x224x224")
        found[name] = tuple(int(part) for part in parts)
    return found


def preparation(args: argparse.Namespace, *, height: int = 1, width: int = 1) -> Preprocess:
    """What was said of pictures, for an input of that size. Raises ConfigError."""
    crops = args.prepare == "centre-crop"
    if not crops and (args.resize is not None or args.mean or args.std):
        raise ConfigError("--resize, --mean and --std belong to --prepare centre-crop")
    if args.resize is not None and not max(height, width) <= args.resize <= _MAX_SIDE:
        raise ConfigError(f"--resize {args.resize} leaves no crop of {width}x{height}")
    return Preprocess(
        kind=args.prepare,
        width=width,
        height=height,
        resize=args.resize,
        mean=_channels(args.mean, "--mean"),
        std=_channels(args.std, "--std"),
    )


def _channels(text: str | None, flag: str) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != 3 or not all(abs(value) < 1e6 for value in values):
        raise ConfigError(f"{flag} {printable(text[:40])!r}: write three numbers, as 0.5,0.5,0.5")
    if flag == "--std" and not all(values):
        raise ConfigError("--std can't be 0")
    return values
