"""`headtail device`: the device side, on a source of pictures."""

import argparse
from pathlib import Path
from typing import Any, Final, get_args

from headtail_device.config import DeviceConfig, Late, Pace
from headtail_device.placement_config import MODES, ExitPolicy
from headtail_fabric import config, config_example
from headtail_fabric.notify import Notifier, StopSignal

_SETTING: Final = "setting "
"""Marks the parsed options that are settings; what follows is their key in `DeviceConfig`."""

_EXAMPLES: Final = """\
examples:
  headtail device run --source clip.mp4 --bundle yolov3-tiny-coco \\
      --edge tcp://127.0.0.1:5557 --json answers.jsonl --video annotated.mp4
  headtail device run --source 0 --bundle yolov3-tiny-coco --mode local --json -
  headtail device run --source rtsp://camera/stream --bundle yolov3-tiny-coco \\
      --edge tcp://edge:5557 --key ~/.config/headtail/keys/device-1.key --server-key edge-1.pub
  headtail device run --print-config > device.toml

exit status:
  0    the source ended or the device was stopped, and every output is whole
  1    an error; also of one output or the source, while all that was accepted was answered
  2    a wrong command line
  130  interrupted a second time, before it could end in order
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "device",
        help="run heads on pictures",
        description="The device: pictures in, the head of the network here, the rest at an edge, "
        "answers out.",
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    run = actions.add_parser(
        "run",
        help="run until the source ends or a signal comes",
        description="Every frame gets exactly one outcome; while the edge can't be had the device "
        "answers by itself. SIGTERM or SIGINT ends the run in order: what was accepted is answered "
        "first. Flags win over the file.",
        epilog=_EXAMPLES,
    )
    run.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    run.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting with its default, as a file to begin with, and exit",
    )
    add_settings(run)
    run.set_defaults(handler=_run, log_level="info")


def add_settings(run: argparse.ArgumentParser) -> None:
    """Add the flags that override a device's settings. None has a default of its own: those stand
    in `DeviceConfig`."""

    def setting(flag: str, key: str, **how: Any) -> None:
        run.add_argument(flag, dest=_SETTING + key, **how)

    switch = {"action": argparse.BooleanOptionalAction}
    setting("--source", "source", metavar="SOURCE", help="video, picture, folder, 0, rtsp://...")
    setting("--bundle", "bundle", metavar="NAME|PATH", help="the network")
    setting("--edge", "edge.endpoint", metavar="ENDPOINT", help="such as tcp://127.0.0.1:5557")
    setting("--key", "edge.key", type=Path, metavar="FILE", help="this device's key file")
    setting("--server-key", "edge.server_key", metavar="KEY", help="the edge's, or its .pub file")
    setting("--seal-to", "edge.seal_to", metavar="KEY", help="seal:..., or the .seal.pub file")
    setting("--push-bundles", "edge.push_bundles", **switch, help="to an edge that lacks it")
    setting("--require-edge", "edge.required", **switch, help="fail when it can't be had")
    setting("--mode", "mode", choices=MODES, help="edge, local, auto, or what auto shall aim at")
    setting("--max-drop", "controller.max_drop", type=float, metavar="SHARE", help="for auto")
    setting("--hedge", "controller.hedge", **switch, help="compute here too when the edge is slow")
    setting("--cut", "way.cut", metavar="NAME", help="where to cut; input sends the picture")
    setting("--codec", "way.codec", metavar="NAME", help="how what crosses is encoded")
    setting("--exit-point", "gates.exit_point", metavar="NAME", help="how eager exits are, or off")
    setting(
        "--exit-policy", "gates.exit_policy", choices=get_args(ExitPolicy), help="who leaves there"
    )
    setting("--filter", "gates.filter", **switch, help="end frames that hold nothing of interest")
    setting("--quality", "way.quality", type=int, metavar="N", help="of jpeg and webp, 1 to 100")
    setting("--pace", "pace", choices=get_args(Pace), help="of a video file")
    setting("--deadline", "deadline_s", type=float, metavar="SECONDS", help="of each answer")
    setting("--late", "late", choices=get_args(Late), help="what becomes of frames past it")
    setting("--threads", "threads", type=int, metavar="N", help="that compute one frame")
    setting("--json", "output.json", metavar="FILE", help="one line a frame; - is standard output")
    setting("--video", "output.video", type=Path, metavar="FILE", help="annotated, .mp4 or .avi")
    setting("--pictures", "output.pictures", type=Path, metavar="FOLDER", help="annotated")
    setting("--metrics-port", "metrics_port", type=int, metavar="PORT", help="for Prometheus")
    setting("--name", "name", help="what the edge sees this device as")


def chosen_settings(args: argparse.Namespace) -> dict[str, object]:
    """What the flags of `add_settings` say, by key in `DeviceConfig`; None where nothing."""
    return {
        key.removeprefix(_SETTING): value
        for key, value in vars(args).items()
        if key.startswith(_SETTING)
    }


def _run(args: argparse.Namespace) -> int:
    if args.print_config:
        print(config_example.example(DeviceConfig), end="")
        return 0
    settings = config.load(DeviceConfig, args.config, chosen_settings(args))
    # Only now: ONNX Runtime and OpenCV take a while to load.
    from headtail_device.daemon import run_device

    notifier = Notifier.from_environment()
    with StopSignal() as stop:
        summary = run_device(settings, stop=stop.event, on_ready=notifier.ready)
        notifier.stopping()
    return 1 if summary.faults else 0
