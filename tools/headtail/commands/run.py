"""`headtail run`: device and edge in one go."""

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

from headtail.commands.device import add_settings, chosen_settings
from headtail.local_edge import LocalEdge
from headtail.provision import ensure_bundle, ensure_clip
from headtail.run_view import RunLine, summary_json, summary_table
from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.summary import RunSummary
from headtail_fabric import config
from headtail_fabric.emulator import LinkProxy, LinkTrace, parse_link
from headtail_fabric.errors import ConfigError, ResourceError
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
  headtail run --mode auto                     each frame where it is best
  headtail run --link wifi-bad                 over an emulated link: see `headtail link --help`
"""


class OutputFolderError(ResourceError):
    """The folder for what the run makes can't be used. Choose another with `--out`."""


class NoLinkToEmulateError(ConfigError):
    """`--link` stands between the device and the edge that this run starts beside it, and there is
    none when `--edge` names one or `--mode local` needs none. Leave one of them out; `headtail
    link` puts an emulated link before any edge on this machine."""


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
    parser.add_argument(
        "--link",
        metavar="PRESET|CONDITIONS",
        help="emulate a link to the edge: wifi-bad, lte, 'rate=2mbit rtt=30ms loss=1%%', ...",
    )
    add_settings(parser)
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    console = Console()
    link = None if args.link is None else parse_link(args.link)
    out: Path = args.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputFolderError(f"can't make {out}: {error.strerror}") from None
    with StopSignal() as stop, ExitStack() as cleanup:
        settings = _settings(args, link, out, cleanup, console)
        with RunLine(console) as line:
            summary = run_device(settings, stop=stop.event, progress=line.show)
    _report(summary, link, out, console)
    return 1 if summary.faults else 0


def _settings(
    args: argparse.Namespace,
    link: LinkTrace | None,
    out: Path,
    cleanup: ExitStack,
    console: Console,
) -> DeviceConfig:
    """What the device is told: the flags, and what a run adds where they say nothing."""
    flags = chosen_settings(args)
    given = config.given(args.config, dict(flags))
    for key, value in _own_defaults(out).items():
        if not given(key):
            flags[key] = value
    if not given("source"):
        flags["source"] = str(ensure_clip())
    elsewhere = given("edge.endpoint") or given("edges")
    if not elsewhere:
        # Not the address yet, which takes an edge to know: the rest is checked before one starts.
        flags["edge.endpoint"] = "tcp://127.0.0.1:0"
    settings = config.load(DeviceConfig, args.config, flags)
    if link is not None and (elsewhere or not settings.has_edge):
        raise NoLinkToEmulateError(f"no edge of this run's own to emulate the link to: {args.link}")
    bundle = ensure_bundle(settings.bundle)
    flags["bundle"] = str(bundle)
    if settings.has_edge and not elsewhere:
        edge = cleanup.enter_context(LocalEdge(bundle, log=out / "edge.log"))
        console.print(f"edge at {edge.endpoint}, process {edge.pid}, log {out / 'edge.log'}")
        flags["edge.endpoint"] = edge.endpoint
        if link is not None:
            proxy = cleanup.enter_context(LinkProxy(link, target=edge.endpoint))
            flags["edge.endpoint"] = proxy.endpoint
    return config.load(DeviceConfig, args.config, flags)


def _own_defaults(out: Path) -> dict[str, object]:
    return {
        "bundle": _BUNDLE,
        "output.json": str(out / "frames.jsonl"),
        "output.video": out / "annotated.mp4",
        "measure_jpeg": True,
    }


def _report(summary: RunSummary, link: LinkTrace | None, out: Path, console: Console) -> None:
    console.print(summary_table(summary))
    over = link.summary if link is not None else None
    if over is not None:
        console.print(f"emulated link: {escape(over)}", highlight=False, soft_wrap=True)
    path = out / "summary.json"
    document = {**summary_json(summary), "link": over}
    try:
        path.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise OutputFolderError(f"can't write {path}: {error.strerror}") from None
    for output in (*summary.outputs, str(path)):
        console.print(f"wrote {escape(output)}", highlight=False)
    for fault in summary.faults:
        console.print(f"fault: {escape(fault.message)} ({escape(fault.advice)})", style="red")
