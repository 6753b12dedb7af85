"""`headtail run`: device and edge in one go."""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

from headtail.commands.device import add_settings, chosen_settings
from headtail.local_edge import LocalEdge
from headtail.provision import ensure_bundle, ensure_clip
from headtail.run_view import RunLine, summary_table, write_summary
from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.summary import RunSummary
from headtail_fabric import config
from headtail_fabric.errors import ResourceError
from headtail_fabric.notify import StopSignal

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_BUNDLE: Final = "yolov3-tiny-coco"
_EXAMPLES: Final = """\
examples:
  headtail run                                 a sample clip, an edge beside the device
  headtail run --source 0                      this machine's camera
  headtail run --source street.mp4 --cut L5 --codec q4+zstd
  headtail run --edge tcp://192.168.1.5:5557   an edge that runs elsewhere
  headtail run --mode local                    the whole model here, to compare
"""


class OutputFolderError(ResourceError):
    """The folder for what the run makes can't be used. Choose another with `--out`."""


def add(subparsers: "Subparsers") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "run",
        help="run a whole pipeline: a device here, an edge beside it or elsewhere",
        description="Runs a device in the foreground, and an edge beside it unless one is named. "
        "The first run fetches the detector's weights and a sample clip.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a device's TOML file")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="FOLDER", help="for all it makes (out)"
    )
    add_settings(parser)
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    console = Console()
    out: Path = args.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputFolderError(f"can't make {out}: {error.strerror}") from None
    with StopSignal() as stop, ExitStack() as cleanup:
        settings = _settings(args, out, cleanup, console)
        with RunLine(console) as line:
            summary = run_device(settings, stop=stop.event, progress=line.show)
    _report(summary, out, console)
    return 1 if summary.faults else 0


def _settings(
    args: argparse.Namespace, out: Path, cleanup: ExitStack, console: Console
) -> DeviceConfig:
    """What the device is told: the flags, and what a run adds where they say nothing."""
    flags = chosen_settings(args)
    given = config.given(args.config, dict(flags))
    for key, value in _own_defaults(out).items():
        if not given(key):
            flags[key] = value
    if not given("source"):
        flags["source"] = str(ensure_clip())
    if not given("edge.endpoint"):
        # Not the address yet, which takes an edge to know: the rest is checked before one starts.
        flags["edge.endpoint"] = "tcp://127.0.0.1:0"
    settings = config.load(DeviceConfig, args.config, flags)
    bundle = ensure_bundle(settings.bundle)
    flags["bundle"] = str(bundle)
    if settings.mode == "edge" and not given("edge.endpoint"):
        edge = cleanup.enter_context(LocalEdge(bundle, log=out / "edge.log"))
        console.print(f"edge at {edge.endpoint}, process {edge.pid}, log {out / 'edge.log'}")
        flags["edge.endpoint"] = edge.endpoint
    return config.load(DeviceConfig, args.config, flags)


def _own_defaults(out: Path) -> dict[str, object]:
    return {
        "bundle": _BUNDLE,
        "output.json": str(out / "frames.jsonl"),
        "output.video": out / "annotated.mp4",
        "measure_jpeg": True,
    }


def _report(summary: RunSummary, out: Path, console: Console) -> None:
    console.print(summary_table(summary))
    path = out / "summary.json"
    try:
        write_summary(summary, path)
    except OSError as error:
        raise OutputFolderError(f"can't write {path}: {error.strerror}") from None
    for output in (*summary.outputs, str(path)):
        console.print(f"wrote {escape(output)}", highlight=False)
    for fault in summary.faults:
        console.print(f"fault: {escape(fault.message)} ({escape(fault.advice)})", style="red")
