"""`headtail plan`: where to cut a model for a link and a device."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from headtail.commands.model_words import add_model, add_preparation, preparation, shapes
from headtail_fabric.errors import ConfigError
from headtail_fabric.logs import printable
from headtail_models.planner.chart import draw
from headtail_models.planner.costs import ModelCosts, read_costs, write_costs
from headtail_models.planner.front import fastest, pareto, worth_showing
from headtail_models.planner.option import EnergyModel, Link, Option, energy_j, latency_s
from headtail_models.planner.options import Device, options_of
from headtail_models.planner.units import parse_rate, parse_time

_BASES: Final = ("raw", "q8", "q4")
_EXACT: Final = ("", "raw", "uint8")
_LOSSES: Final = (
    ("Fastest on this link:", None),
    ("With 8 bits at least:", (*_EXACT, "q8")),
    ("Without any loss:", _EXACT),
)
"""A line each for how much may be lost, by the base of the codec."""
_MAX_OBSTACLES: Final = 12
_EXAMPLES: Final = """\
examples:
  headtail plan model.onnx --rate 2mbit --rtt 30ms --device-slowdown 8
  headtail plan model.onnx --rate 2mbit --rtt 30ms --samples photos/ --plot plan.png
  headtail plan model.onnx --rate 2mbit --rtt 30ms --json device.json      on the device, then
  headtail plan model.onnx --rate 2mbit --rtt 30ms --device-profile device.json
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "plan",
        help="find where to cut an ONNX model for a link and a device",
        description="Find every place where a model can be cut, measure both sides on this "
        "machine, and say what each costs in time, bytes and energy over a link. Accuracy is not "
        "looked at: q8 and q4 lose some.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    parser.add_argument("--rate", metavar="RATE", required=True, help="of the link, as 2mbit")
    parser.add_argument("--rtt", metavar="TIME", required=True, help="its round trip, as 30ms")
    device = parser.add_argument_group("the device")
    device.add_argument(
        "--device-slowdown",
        type=float,
        default=1.0,
        metavar="K",
        help="it takes K times as long as this machine, or as the profile says (1)",
    )
    device.add_argument(
        "--device-profile",
        type=Path,
        metavar="FILE",
        help="what --json wrote on the device itself for the same model",
    )
    energy = EnergyModel()
    for flag, unit, value in (
        ("--joules-per-mac", "J", energy.joules_per_mac),
        ("--joules-per-byte", "J", energy.joules_per_byte),
        ("--idle-watts", "W", energy.idle_w),
    ):
        device.add_argument(
            flag, type=float, default=value, metavar=unit, help=f"energy model ({value:g})"
        )
    what = parser.add_argument_group("what to measure")
    what.add_argument(
        "--samples", type=Path, metavar="DIR", help="pictures or .npy, to measure bytes on"
    )
    what.add_argument("--max-samples", type=int, default=8, metavar="N", help="use N (8)")
    what.add_argument(
        "--codecs", default=",".join(_BASES), metavar="LIST", help="of raw,q8,q4 (all)"
    )
    what.add_argument(
        "--max-tensors", type=int, default=3, metavar="N", help="that may cross at a cut (3)"
    )
    what.add_argument(
        "--measure",
        type=int,
        default=16,
        metavar="N",
        help="time the N most promising cuts, interpolate the others (16)",
    )
    what.add_argument("--jpeg-quality", type=int, default=90, metavar="Q", help="1-100 (90)")
    add_preparation(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--show",
        choices=("best", "pareto", "all"),
        default="best",
        help="best: what is fastest or lightest for its bytes; pareto: what nothing else beats in "
        "device time, bytes and server time at once; all",
    )
    output.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    output.add_argument("--plot", type=Path, metavar="PNG", help="draw latency against rate")
    parser.set_defaults(handler=_plan)


def _plan(args: argparse.Namespace) -> int:
    link = Link(rate_bps=parse_rate(args.rate), rtt_s=parse_time(args.rtt))
    energy = EnergyModel(
        joules_per_mac=_at_least(args.joules_per_mac, 0, "--joules-per-mac"),
        joules_per_byte=_at_least(args.joules_per_byte, 0, "--joules-per-byte"),
        idle_w=_at_least(args.idle_watts, 0, "--idle-watts"),
    )
    codecs = _codecs(args.codecs)
    slowdown = _at_least(args.device_slowdown, 1e-3, "--device-slowdown")
    costs = _measure(args)
    profile = (
        None
        if args.device_profile is None
        else read_costs(args.device_profile, sha256=costs.sha256)
    )
    options = options_of(costs, Device(slowdown=slowdown, profile=profile), codecs=codecs)
    shown = {"all": options, "pareto": pareto(options), "best": worth_showing(options, link)}
    _print_options(shown[args.show], link, energy, title=_title(costs, link, slowdown, profile))
    _say_best(options, link, costs)
    if args.json is not None:
        write_costs(costs, args.json)
    if args.plot is not None:
        draw(options, link, args.plot, title=_title(costs, link, slowdown, profile))
    return 0


def _measure(args: argparse.Namespace) -> ModelCosts:
    # Needs onnx, and says which extra has it.
    from headtail_models.planner.survey import SurveySettings, survey
    from headtail_models.splitting import open_model
    from headtail_models.splitting.samples import read_samples

    settings = SurveySettings(
        max_measured=int(_at_least(args.measure, 1, "--measure")),
        jpeg_quality=int(min(100, _at_least(args.jpeg_quality, 1, "--jpeg-quality"))),
    )
    max_crossing = int(_at_least(args.max_tensors, 1, "--max-tensors"))
    limit = int(_at_least(args.max_samples, 1, "--max-samples"))
    way = preparation(args)
    with tempfile.TemporaryDirectory(prefix="headtail-plan-") as folder:
        model = open_model(args.model, Path(folder), shapes=shapes(args))
        samples = (
            read_samples(args.samples, model.specs, prepare=way, limit=limit)
            if args.samples is not None
            else ()
        )
        cuts = model.cuts(max_crossing=max_crossing)
        obstacles = model.obstacles(cuts, max_crossing=max_crossing)
        for obstacle in obstacles[:_MAX_OBSTACLES]:
            print(f"no cut behind {printable(obstacle.node)} ({obstacle.op}): {obstacle.reason}")
        if len(obstacles) > _MAX_OBSTACLES:
            print(f"... nor behind {len(obstacles) - _MAX_OBSTACLES} more nodes")
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("measuring cuts", total=None)
            return survey(
                model,
                cuts,
                name=args.model.name,
                samples=samples,
                settings=settings,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )


def _title(costs: ModelCosts, link: Link, slowdown: float, profile: ModelCosts | None) -> str:
    how = "a profiled device" if profile is not None else "this machine"
    times = f", {slowdown:g} times as slow" if slowdown != 1 else ""
    return (
        f"{costs.model}: {link.rate_bps / 1e6:g} Mbit/s, round trip {1e3 * link.rtt_s:g} ms, "
        f"device: {how}{times}"
    )


def _print_options(
    options: Sequence[Option], link: Link, energy: EnergyModel, *, title: str
) -> None:
    table = Table(title=Text(title), title_justify="left")
    for column in ("way", "codec"):
        table.add_column(column, overflow="fold")
    for column in ("device ms", "bytes", "server ms", "end to end ms", "energy mJ"):
        table.add_column(column, justify="right")
    for option in options:
        mark = " ~" if option.estimated else ""
        table.add_row(
            Text(printable(option.name) + mark),
            option.codec or "-",
            f"{1e3 * option.device_s:.1f}",
            f"{option.payload_bytes:,.0f}",
            f"{1e3 * option.server_s:.1f}",
            f"{1e3 * latency_s(option, link):.1f}",
            f"{1e3 * energy_j(option, link, energy):.1f}",
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if any(option.estimated for option in options):
        print("~ times interpolated between measured cuts (--measure)")


def _say_best(options: Sequence[Option], link: Link, costs: ModelCosts) -> None:
    named: set[Option] = set()
    for label, bases in _LOSSES:
        allowed = [one for one in options if bases is None or one.codec.partition("+")[0] in bases]
        best = fastest(allowed, link)
        if best not in named:
            named.add(best)
            print(f"{label:<22}{_words(best, link)}")
    if costs.samples:
        print(f"Bytes are the mean of {costs.samples} samples.")
    else:
        print("Bytes follow from the shapes; --samples measures them, with zstd and JPEG.")
    if costs.uncounted:
        told = ", ".join(printable(label) for label in costs.uncounted[:4])
        more = f" and {len(costs.uncounted) - 4} more" if len(costs.uncounted) > 4 else ""
        print(f"Multiply-adds are not known of {told}{more}; they count 0 in the energy.")


def _words(option: Option, link: Link) -> str:
    where = {"local": "stay local", "offload": "send the picture whole"}.get(
        option.kind, f"cut at {printable(option.name)}"
    )
    with_codec = f" as {option.codec}" if option.codec else ""
    return f"{where}{with_codec}, {1e3 * latency_s(option, link):.1f} ms"


def _codecs(text: str) -> frozenset[str]:
    chosen = frozenset(word.strip() for word in text.split(",") if word.strip())
    if not chosen or not chosen <= set(_BASES):
        raise ConfigError(f"--codecs {printable(text[:60])!r}: choose of {', '.join(_BASES)}")
    return chosen


def _at_least(value: float, least: float, flag: str) -> float:
    if not least <= value < float("inf"):
        raise ConfigError(f"{flag} is {value:g}; it must be {least:g} or more")
    return value
