"""`headtail link`: a slow link on one machine."""

import argparse
import logging
import sys
from typing import Final

from headtail_fabric.emulator import PRESETS, LinkProxy, parse_link
from headtail_fabric.logs import fields
from headtail_fabric.notify import Notifier, StopSignal, announce

_EXAMPLES: Final = """\
examples:
  headtail link --target tcp://127.0.0.1:5557 --conditions wifi-bad
  headtail link --target tcp://127.0.0.1:5557 --listen tcp://127.0.0.1:6000 \\
      --conditions "rate=2mbit rtt=30ms jitter=5ms loss=1% burst=16kB"
  headtail link --target tcp://127.0.0.1:5557 --conditions "lte outage=5s/60s/cut"
  headtail link --target tcp://127.0.0.1:5557 \\
      --conditions "10s wifi-good; 5s lte-bad; 3s outage; repeat"
  headtail link --target tcp://127.0.0.1:5557 --conditions @drive-by.txt

settings of a link:
  rate, up, down    bit, kbit, mbit or gbit a second, or unlimited
  rtt, jitter       propagation there and back, and how much it varies: us, ms, s
  loss              share of packets, 1% or 0.01; a loss shows as the stall until its repetition
  burst             bytes that pass at once after a rest: B, kB, MB (a packet, 1448 B)
  outage=5s/60s     down for the last 5 s of each 60 s: connections stall, new ones are refused;
                    outage=5s/60s/cut resets the open ones

presets, with typical values of our own:
"""

log = logging.getLogger(__name__)


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "link",
        help="emulate a slow or broken link between a device and an edge on this machine",
        description="Passes TCP connections on to a port of this machine as a link of the given "
        "rate, delay, jitter and loss would. When it is ready it prints one JSON line; it runs "
        "until SIGTERM or SIGINT.",
        epilog=_EXAMPLES + _presets(),
    )
    parser.add_argument(
        "--target", required=True, metavar="ENDPOINT", help="where it leads: tcp://127.0.0.1:PORT"
    )
    parser.add_argument(
        "--listen",
        default="tcp://127.0.0.1:0",
        metavar="ENDPOINT",
        help="where to connect instead (tcp://127.0.0.1:0, any free port)",
    )
    parser.add_argument(
        "--conditions",
        required=True,
        metavar="LINK",
        help="a preset, settings, both, a trace, or @FILE with any of them",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of jitter and losses (0)")
    parser.set_defaults(handler=_run, log_level="info")


def _presets() -> str:
    return "\n".join(
        f"  {name:<11} {preset.what}\n              {preset.conditions}"
        for name, preset in PRESETS.items()
    )


def _run(args: argparse.Namespace) -> int:
    trace = parse_link(args.conditions)
    notifier = Notifier.from_environment()
    with (
        StopSignal() as stop,
        LinkProxy(trace, target=args.target, listen=args.listen, seed=args.seed) as proxy,
    ):
        announce(
            sys.stdout,
            event="ready",
            endpoint=proxy.endpoint,
            target=args.target,
            link=trace.summary,
        )
        notifier.ready(f"{trace.summary} to {args.target}")
        stop.event.wait()
        notifier.stopping()
    tally = proxy.tally()
    log.info(
        "link ends",
        extra=fields(
            connections=tally.connections,
            bytes_up=tally.bytes_up,
            bytes_down=tally.bytes_down,
            stalls=tally.stalls,
        ),
    )
    return 0
