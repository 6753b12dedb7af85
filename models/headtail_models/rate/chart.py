"""A picture of curves: agreement, and another measure, against bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headtail_models import plotting
from headtail_models.rate.comparison import Bootstrap
from headtail_models.rate.curve import Place, envelope
from headtail_models.rate.errors import RateError
from headtail_models.rate.evaluation import Evaluation, Point
from headtail_models.rate.tally import Values

_COLOURS: Final = {
    "jpeg": "tab:orange",
    "webp": "tab:green",
    "avif": "tab:purple",
    "opus": "tab:orange",
    "flac": "tab:green",
    "pcm": "tab:purple",
}
_LINES: Final = {"native": "-", "network size": "--", "shrunk": ":"}
_MARKERS: Final = ("x", "+", "s", "D", "v")
"""Of rivals that send no picture."""
_OURS: Final = ("tab:blue", "tab:red", "tab:cyan", "black")


def draw(
    evaluation: Evaluation,
    ours: Sequence[str],
    path: Path,
    *,
    title: str,
    bootstrap: Bootstrap,
    measure: str,
    meaning: str,
) -> None:
    """Write a PNG with two panels: agreement, and `measure`, which `meaning` says in words.
    `ours`: the families to bring out, with their 95 % intervals.

    Envelopes are lines, points that something beats are left out for the rivals. Raises RateError
    without matplotlib.
    """
    pyplot = plotting.pyplot()
    figure, panels = pyplot.subplots(1, 2, figsize=(13, 5.6), sharex=True, layout="constrained")
    families = evaluation.families()
    full = evaluation.full[measure]
    others = [name for name, points in families.items() if points[0].cut and name not in ours]
    for panel, name, ceiling in ((panels[0], None, 1.0), (panels[1], measure, full)):
        panel.axhline(ceiling, color="grey", linewidth=0.9)
        panel.annotate(
            "full model", (1.0, ceiling), xycoords=("axes fraction", "data"),
            xytext=(-4, 3), textcoords="offset points", ha="right", fontsize=8, color="grey",
        )  # fmt: skip
        for family, points in families.items():
            if family in ours:
                _bring_out(panel, family, points, _OURS[ours.index(family) % 4], name, bootstrap)
            else:
                _rival(
                    panel, family, points, name, others.index(family) if family in others else None
                )
        panel.set_xscale("log")
        panel.set_xlabel("payload, bytes a sample (mean, log scale)")
        panel.grid(visible=True, which="both", alpha=0.2)
    panels[0].set_ylabel("agreement with the full model")
    panels[1].set_ylabel(meaning)
    _frame(panels, evaluation, ours, full)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside right center",
        fontsize=8,
        frameon=False,
    )
    figure.suptitle(title, fontsize=11)
    try:
        figure.savefig(path, dpi=120, metadata={"Software": None})
    except OSError as error:
        raise RateError(f"can't write {path}: {error.strerror}") from None
    finally:
        pyplot.close(figure)


def _value(point: Point, measure: str | None) -> float:
    return point.agreement() if measure is None else point.measures()[measure]


def _drawn(point: Point, measure: str | None, bootstrap: Bootstrap) -> Values:
    if measure is None:
        return bootstrap.of(point).agreements
    return point.tally.measures(bootstrap.weights)[measure]


def _places(points: Sequence[Point], measure: str | None) -> tuple[Place, ...]:
    return envelope(
        [Place(size_bytes=point.mean_bytes(), accuracy=_value(point, measure)) for point in points]
    )


def _rival(
    panel: Any, family: str, points: Sequence[Point], measure: str | None, other: int | None
) -> None:
    places = _places(points, measure)
    codec, _, where = family.partition(", ")
    panel.plot(
        [place.size_bytes for place in places],
        [place.accuracy for place in places],
        marker="." if other is None else _MARKERS[other % len(_MARKERS)],
        linestyle=_LINES.get(where, "-."),
        color=_COLOURS.get(codec, "0.45"),
        linewidth=1.1,
        markersize=4,
        label=family,
    )


def _bring_out(
    panel: Any,
    family: str,
    points: Sequence[Point],
    colour: str,
    measure: str | None,
    bootstrap: Bootstrap,
) -> None:
    ordered = sorted(points, key=Point.mean_bytes)
    values = [_value(point, measure) for point in ordered]
    ends = [bootstrap.interval(_drawn(point, measure, bootstrap)) for point in ordered]
    sizes = [point.mean_bytes() for point in ordered]
    panel.plot(
        sizes, values, marker="o", color=colour, linewidth=2.4, markersize=6, label=family, zorder=3
    )
    panel.fill_between(
        sizes, [end.low for end in ends], [end.high for end in ends], color=colour, alpha=0.15
    )


def _frame(panels: Any, evaluation: Evaluation, ours: Sequence[str], full: float) -> None:
    """Leave out what no one would use: the lower third, and far more bytes than needed."""
    families: Mapping[str, Sequence[Point]] = evaluation.families()
    own = [point.mean_bytes() for family in ours for point in families.get(family, ())]
    every = [point.mean_bytes() for point in evaluation.points if not point.cut]
    sizes = own + every or [point.mean_bytes() for point in evaluation.points]
    panels[0].set_xlim(0.7 * min(sizes), 1.6 * max(sizes))
    panels[0].set_ylim(0.3, 1.02)
    panels[1].set_ylim(0.3 * full, 1.06 * full or 1)
