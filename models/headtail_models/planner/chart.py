"""A picture of a plan: latency against the link's rate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from headtail_fabric.errors import ConfigError
from headtail_models import plotting
from headtail_models.planner.front import fastest_by_rate, pareto
from headtail_models.planner.option import Link, Option, latency_s

LOWEST_BPS: Final = 1e5
HIGHEST_BPS: Final = 1e9
_POINTS: Final = 121
_COLOURS: Final = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan")
MAX_CURVES: Final = len(_COLOURS)
_STYLES: Final = {"local": ("black", "--"), "offload": ("tab:red", "-.")}


def rates_around(link: Link) -> list[float]:
    """Rates for the axis, the link's own among their range."""
    low, high = min(LOWEST_BPS, link.rate_bps / 3), max(HIGHEST_BPS, link.rate_bps * 3)
    return [float(rate) for rate in np.geomspace(low, high, _POINTS)]


def curves(options: Sequence[Option], link: Link) -> tuple[Option, ...]:
    """What to draw: local, the smallest full offload, and `MAX_CURVES` splits: first those that are
    the fastest of all at some rate, then those that are the fastest split at the most rates."""
    local = [one for one in options if one.kind == "local"]
    offload = sorted(
        (one for one in options if one.kind == "offload"), key=lambda one: one.payload_bytes
    )[:1]
    splits = pareto(one for one in options if one.kind == "split")
    if not splits:
        return (*local, *offload)
    rates = rates_around(link)
    best = set(fastest_by_rate(options, rates, link.rtt_s))
    winners = fastest_by_rate(splits, rates, link.rtt_s)
    chosen = sorted(
        dict.fromkeys(winners), key=lambda one: (one in best, winners.count(one)), reverse=True
    )[:MAX_CURVES]
    return (*local, *offload, *sorted(chosen, key=lambda one: -one.payload_bytes))


def draw(options: Sequence[Option], link: Link, path: Path, *, title: str) -> None:
    """Write a PNG. Raises ConfigError when matplotlib is missing or the file can't be written."""
    pyplot = plotting.pyplot()
    rates = rates_around(link)
    figure, panel = pyplot.subplots(figsize=(8.5, 5.2), layout="constrained")
    colours = iter(_COLOURS)
    for option in curves(options, link):
        colour, line = _STYLES.get(option.kind) or (next(colours), "-")
        panel.plot(
            [rate / 1e6 for rate in rates],
            [1e3 * latency_s(option, Link(rate_bps=rate, rtt_s=link.rtt_s)) for rate in rates],
            color=colour,
            linestyle=line,
            linewidth=1.6,
            label=_label(option),
        )
    panel.axvline(link.rate_bps / 1e6, color="grey", linewidth=0.8, linestyle=":")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("rate of the link, Mbit/s")
    panel.set_ylabel(f"latency of a frame, ms (round trip {1e3 * link.rtt_s:g} ms)")
    panel.grid(visible=True, which="both", alpha=0.25)
    panel.legend(fontsize=8)
    panel.set_title(title, fontsize=10)
    try:
        figure.savefig(path, dpi=130, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None
    finally:
        pyplot.close(figure)


def _label(option: Option) -> str:
    if option.kind == "local":
        return "local only"
    name = "full offload" if option.kind == "offload" else f"cut {option.name}"
    # Names come from the model's file; a dollar would begin a formula.
    told = name if len(name) <= 40 else f"{name[:37]}..."
    return f"{told}, {option.codec} ({option.payload_bytes / 1e3:.3g} kB)".replace("$", r"\$")
