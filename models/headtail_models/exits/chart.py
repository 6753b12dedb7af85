"""A picture of exits: accuracy against coverage and computation, and what policies give away."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headtail_fabric.errors import ConfigError
from headtail_models import plotting
from headtail_models.exits.survey import PolicyPoint, Surveyed
from headtail_models.exits.thresholds import Point

_STYLES: Final = {"entropy": "o-", "max-probability": "s--", "margin": "^:"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A part of the network that answers everything by itself."""

    name: str
    point: Point


def draw(
    surveys: Sequence[Surveyed],
    alone: Sequence[Alone],
    policies: Sequence[PolicyPoint],
    full_cost: float,
    path: Path,
    *,
    title: str,
) -> None:
    """Write a PNG. Raises ConfigError when matplotlib is missing or the file can't be written."""
    pyplot = plotting.pyplot()
    figure, panels = pyplot.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    full = surveys[0].chosen.accuracy + surveys[0].chosen.drop
    for panel in panels[:2]:
        panel.axhline(100 * full, color="grey", linewidth=0.8, label="whole network")
        panel.axhline(100 * full - 1, color="grey", linewidth=0.8, linestyle=":")
        panel.set_ylabel("top-1 on the test split, %")
        panel.grid(visible=True, alpha=0.25)
    for one in surveys:
        accuracies = [100 * point.accuracy for point in one.curve]
        style = _STYLES[one.criterion]
        early = [100 * point.early for point in one.curve]
        panels[0].plot(early, accuracies, style, markersize=4, linewidth=1, label=one.criterion)
        macs = [point.cost / 1e6 for point in one.curve]
        panels[1].plot(macs, accuracies, style, markersize=4, linewidth=1, label=one.criterion)
    for part in alone:
        where = (part.point.cost / 1e6, 100 * part.point.accuracy)
        panels[1].plot(*where, "x", color="black", markersize=7)
        panels[1].annotate(
            part.name, where, xytext=(6, -10), textcoords="offset points", fontsize=8
        )
    panels[1].plot(full_cost / 1e6, 100 * full, "*", color="black", markersize=9)
    panels[0].set_xlabel("pictures that leave early, %")
    panels[1].set_xlabel("million multiply-adds a picture, mean (star: no exits)")
    panels[0].legend(fontsize=8)
    _bars(panels[2], policies)
    figure.suptitle(title, fontsize=10)
    try:
        figure.savefig(path, dpi=130, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None
    finally:
        pyplot.close(figure)


def _bars(panel: Any, policies: Sequence[PolicyPoint]) -> None:
    names = [f"{point.policy}\n{100 * point.accuracy:.1f} %" for point in policies]
    panel.bar(names, [100 * point.guessed for point in policies], color="tab:red", alpha=0.7)
    if policies:
        chance = 100 * policies[0].by_chance
        panel.axhline(chance, color="black", linewidth=0.8, linestyle="--", label="by chance")
        panel.legend(fontsize=8)
    panel.set_ylabel("windows whose class is guessed from the exits, %")
    panel.set_xlabel("policy and its accuracy, at the same coverage")
    panel.grid(visible=True, axis="y", alpha=0.25)
