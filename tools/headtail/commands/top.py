"""`headtail top`: what devices, edges and clouds are doing."""

import argparse
from typing import Final

from rich.console import Console

from headtail.top.keyboard import Keyboard
from headtail.top.scrape import Scraper, parse_address
from headtail.top.watch import Watch
from headtail_fabric.clock import MonotonicClock

_EXAMPLES: Final = """\
examples:
  headtail edge serve --bundle yolov3-tiny-coco --metrics-port 9101
  headtail device run --source 0 --bundle yolov3-tiny-coco --metrics-port 9102 ...
  headtail top 9101 9102                    both, on this machine; q quits
  headtail top edge-1:9101 http://cam-1:9102 --every 5
  headtail top 9101 9102 --once             one screen, for a log
  headtail top 9101 --json                  a line of JSON every two seconds

Columns: fps frames a second, p50/p95 from capture to answer, rtt and link as the device estimates
them, flying frames at the edge, turn when a new request would be computed, queue95/tail95 the 95th
percentile of that phase. Rates and percentiles are those of the time since the last look.
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "top",
        help="watch devices, links, placements, queues and batches",
        description="A live view of daemons that have a metrics port.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "targets", nargs="+", metavar="TARGET", help="PORT, HOST:PORT or http://HOST:PORT"
    )
    parser.add_argument(
        "--every", type=_seconds, default=2.0, metavar="SECONDS", help="between two looks (2)"
    )
    parser.add_argument("--once", action="store_true", help="look twice, print, and end")
    parser.add_argument("--json", action="store_true", help="readings as JSON, one line a look")
    parser.set_defaults(handler=_run)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError("0.1 to 3600 seconds")
    return value


def _run(args: argparse.Namespace) -> int:
    addresses = tuple(parse_address(target) for target in args.targets)
    scraper = Scraper(addresses, clock=MonotonicClock())
    console = Console()
    watch = Watch(scraper, every_s=args.every, console=console)
    try:
        with Keyboard() as keyboard:
            if args.once:
                return 0 if watch.once(keyboard, as_json=args.json) else 1
            if args.json or not console.is_terminal:
                watch.lines(keyboard)
            else:
                watch.live(keyboard)
    finally:
        scraper.close()
    return 0
