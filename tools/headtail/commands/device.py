"""`headtail device`: run the device side on a source of pictures."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.placement import Mode
from headtail_device.runner import Late
from headtail_device.source import Pace
from headtail_fabric import config
from headtail_fabric.notify import Notifier, StopSignal

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG: Final = (
    "Exit codes: 0 when the source ended or the device was stopped, and every output is whole; "
    "1 after an error, also of one output while the others went on; 2 for a wrong command line; "
    "130 when interrupted a second time, before it could end in order."
)
_SETTING: Final = "setting "
"""Marks the parsed options that are settings; what follows is their key in `DeviceConfig`."""


def add(subparsers: "Subparsers") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "device",
        help="run the device side on a source of pictures",
        description="The device: pictures in, the head of the network here, the rest at an edge, "
        "answers out.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    run = actions.add_parser(
        "run",
        help="run until the source ends or a signal comes",
        description="Every frame gets exactly one outcome; while the edge can't be had the device "
        "answers by itself. Options override what the file of --config says.",
        epilog=_EPILOG,
    )
    run.add_argument("--config", type=Path, metavar="FILE", help="a TOML file")
    run.add_argument(
        "--print-config",
        action="store_true",
        help="print a file with every key, its meaning and its default, and end",
    )
    add_settings(run)
    run.set_defaults(handler=_run, log_level="info")


def add_settings(run: argparse.ArgumentParser) -> None:
    """Add the options that override settings of a device."""

    def setting(option: str, key: str, **how: Any) -> None:
        run.add_argument(option, dest=_SETTING + key, **how)

    switch = {"action": argparse.BooleanOptionalAction}
    setting("--source", "source", help="video, picture, folder, camera (0) or rtsp://...")
    setting("--bundle", "bundle", help="a bundle's name, digest or path")
    setting("--edge", "edge.endpoint", metavar="ADDRESS", help="such as tcp://192.168.1.5:5555")
    setting("--key", "edge.key", type=Path, metavar="FILE", help="this device's .key file")
    setting("--server-key", "edge.server_key", metavar="KEY", help="the edge's key or .pub file")
    setting("--push-bundles", "edge.push_bundles", **switch, help="send the bundle if it lacks")
    setting("--require-edge", "edge.required", **switch, help="end when the edge can't be had")
    setting("--mode", "mode", choices=get_args(Mode), help="edge, or local for never")
    setting("--cut", "way.cut", help="where to cut, or input to send the picture")
    setting("--codec", "way.codec", help="how to encode what crosses")
    setting("--quality", "way.quality", type=int, help="of jpeg and webp, 1 to 100")
    setting("--pace", "pace", choices=get_args(Pace), help="of a video file")
    setting("--deadline", "deadline_s", type=float, metavar="SECONDS", help="for each answer")
    setting("--late", "late", choices=get_args(Late), help="what becomes of late frames")
    setting("--threads", "threads", type=int, help="of the network on this device")
    setting("--json", "output.json", metavar="FILE", help="one JSON line a frame; - for stdout")
    setting("--video", "output.video", type=Path, metavar="FILE", help="annotated .mp4 or .avi")
    setting("--pictures", "output.pictures", type=Path, metavar="FOLDER", help="annotated")
    setting("--metrics-port", "metrics.port", type=int, metavar="PORT", help="for Prometheus")
    setting("--name", "name", help="what the edge calls this device")


def chosen_settings(args: argparse.Namespace) -> dict[str, object]:
    """What the options of `add_settings` say, by key in `DeviceConfig`; None where nothing."""
    return {
        key.removeprefix(_SETTING): value
        for key, value in vars(args).items()
        if key.startswith(_SETTING)
    }


def _run(args: argparse.Namespace) -> int:
    if args.print_config:
        print(config.example(DeviceConfig), end="")
        return 0
    chosen = config.load(DeviceConfig, args.config, chosen_settings(args))
    notifier = Notifier.from_environment()
    with StopSignal() as stop:
        summary = run_device(chosen, stop=stop.event, on_ready=notifier.ready)
        notifier.stopping()
    return 1 if summary.faults else 0
