"""`headtail edge`: the edge server."""

import argparse
import os
import sys
import threading
from pathlib import Path
from typing import Final

from headtail_edge.config import EdgeConfig
from headtail_fabric import config, config_example
from headtail_fabric.notify import StopSignal

_EXAMPLES: Final = """\
examples:
  headtail edge serve --bundle yolov3-tiny-coco
  headtail edge serve --bind tcp://0.0.0.0:5557 --bundle mine.headtail \\
      --key ~/.config/headtail/keys/edge-1.key --allow ~/.config/headtail/allow.toml
  headtail edge serve --print-config > edge.toml
  headtail edge serve --config edge.toml
"""
_GATEWAY_EXAMPLES: Final = """\
examples:
  headtail edge gateway --print-config > gateway.toml
  headtail node new door-1 --nodes nodes.toml --gateway-key gateway.pub --host 192.168.1.10 \\
      --head digits.head --app microphone --out door-1
  headtail edge gateway --config gateway.toml
"""

_GATEWAY_TABLES: Final = """
# One table for each way in:
# [[links]]
# kind = "zmtp"                       # ZeroMQ; or "udp", "tcp" (sealed packets), "serial"
# bind = "tcp://0.0.0.0:7001"

# One table for each head that nodes run:
# [models.digits]
# heads = ["digits.head"]
# bundle = "spoken-digits"            # whose tail takes what the head sends
# update = "digits-2.update"          # offered to nodes that have an older release
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "edge",
        help="serve tails to devices",
        description="The edge server runs the tails of bundles for the devices around it.",
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    serve = actions.add_parser(
        "serve",
        help="run an edge until it is stopped",
        description="Serves until SIGTERM or SIGINT, then finishes what it has accepted. When it "
        "is ready it prints one JSON line. Flags win over the file.",
        epilog=_EXAMPLES,
    )
    _add_flags(serve)
    serve.set_defaults(handler=_serve, log_level="info")
    gateway = actions.add_parser(
        "gateway",
        help="let microcontrollers in: ZMTP, sealed UDP and TCP, serial lines",
        description="Takes what microcontrollers send (firmware/README.md), writes decisions down, "
        "and has features completed by an edge. Runs until SIGTERM or SIGINT; when nodes can "
        "connect it prints one JSON line.",
        epilog=_GATEWAY_EXAMPLES,
    )
    gateway.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    gateway.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting with its default, as a file to begin with, and exit",
    )
    gateway.set_defaults(handler=_gateway, log_level="info", usage_error=gateway.error)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags are named by the setting they override; none has a default of its own."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting with its default, as a file to begin with, and exit",
    )
    parser.add_argument(
        "--stop-on-eof",
        action="store_true",
        help="stop when standard input ends, as it does when the parent process dies",
    )
    parser.add_argument("--bind", metavar="ENDPOINT", help="such as tcp://127.0.0.1:5557")
    parser.add_argument("--name", help="what devices see this edge as")
    parser.add_argument(
        "--bundle",
        action="append",
        dest="bundles",
        metavar="NAME|PATH",
        help="a bundle to serve; may be given again",
    )
    parser.add_argument(
        "--trust",
        action="append",
        dest="trusted",
        type=Path,
        metavar="PUBFILE",
        help="a key that bundles must be signed by; may be given again",
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="this edge's key file")
    parser.add_argument(
        "--allow", type=Path, dest="allow_list", metavar="FILE", help="who may connect"
    )
    parser.add_argument(
        "--announce",
        action=argparse.BooleanOptionalAction,
        help="on the local network, by mDNS",
    )
    parser.add_argument(
        "--seal-key", type=Path, dest="seal.key", metavar="FILE", help="this edge's sealing key"
    )
    parser.add_argument(
        "--accept-bundles",
        choices=("nobody", "operators", "everyone"),
        dest="push.accept_from",
        help="whose bundles are taken when one is lacking here",
    )
    parser.add_argument(
        "--cloud",
        metavar="ENDPOINT",
        help="where tails go that can't be computed here in time, as tcp://HOST:PORT",
    )
    parser.add_argument("--workers", type=int, help="batches computed at once")
    parser.add_argument("--threads", type=int, help="threads that compute one batch")
    parser.add_argument(
        "--worker-kind", choices=("thread", "process"), help="where batches are computed"
    )
    parser.add_argument(
        "--watch", type=Path, metavar="FOLDER", help="a folder of bundles, followed while running"
    )
    parser.add_argument("--max-batch", type=int, help="requests computed together at most")
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="for Prometheus")


_FLAGS: Final = (
    "bind",
    "name",
    "bundles",
    "trusted",
    "key",
    "allow_list",
    "announce",
    "seal.key",
    "push.accept_from",
    "cloud",
    "workers",
    "worker_kind",
    "watch",
    "threads",
    "max_batch",
    "metrics_port",
)


def _serve(args: argparse.Namespace) -> int:
    if args.print_config:
        print(config_example.example(EdgeConfig), end="")
        return 0
    flags = {name: getattr(args, name) for name in _FLAGS}
    settings = config.load(EdgeConfig, args.config, flags)
    # Only now: ONNX Runtime and OpenCV take a while to load.
    from headtail_edge.daemon import serve

    with StopSignal() as stop:
        if args.stop_on_eof:
            threading.Thread(target=_wait_for_eof, args=(stop.event,), daemon=True).start()
        serve(settings, stop=stop.event)
    return 0


def _gateway(args: argparse.Namespace) -> int:
    from headtail_edge.gateway.config import GatewayConfig

    if args.print_config:
        print(config_example.example(GatewayConfig), end="")
        print(_GATEWAY_TABLES, end="")
        return 0
    if args.config is None:
        args.usage_error("--config is needed")
    settings = config.load(GatewayConfig, args.config)
    from headtail_edge.gateway.daemon import run

    with StopSignal() as stop:
        run(settings, stop=stop.event)
    return 0


def _wait_for_eof(stop: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop.set()
