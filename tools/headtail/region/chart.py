"""The winner map, and a drive-by over time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headtail.region.cells import Cell, Grid
from headtail.region.replay import Run
from headtail_device.placement import LOCAL
from headtail_fabric.emulator import LinkTrace
from headtail_models import plotting
from headtail_models.bundle.manifest import INPUT

_LOCAL_COLOUR: Final = "#9aa5b1"
_PICTURE_COLOURS: Final = ("#e8a33d", "#f0c987", "#c97b1a")
_CUT_COLOURS: Final = ("#6aa6cf", "#9cc8e3", "#63b58d", "#8ecdb0", "#6a5acd", "#a89ae0")


def draw_map(cells: Sequence[Cell], grid: Grid, rivals: Sequence[str], path: Path) -> None:
    """Raises ConfigError without matplotlib. `rivals`: what the controller is to beat, both."""
    pyplot = plotting.pyplot()
    by_place = {(c.slowdown, c.rtt_s, c.rate_bits_s): c for c in cells}
    winners = sorted({cell.best for cell in cells}, key=lambda way: (way != LOCAL, way))
    colours = _colours(winners)
    figure, panels = pyplot.subplots(
        1,
        len(grid.slowdowns),
        figsize=(1.3 + 4.6 * len(grid.slowdowns), 1.7 + 0.75 * len(grid.rtts_s)),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    for panel, slowdown in zip(panels[0], grid.slowdowns, strict=True):
        for row, rtt_s in enumerate(grid.rtts_s):
            for column, rate in enumerate(grid.rates_bits_s):
                cell = by_place[slowdown, rtt_s, rate]
                panel.add_patch(
                    pyplot.Rectangle((column, row), 1, 1, color=colours[cell.best], ec="white")
                )
                star = "\N{BLACK STAR}" if cell.beats(rivals) else ""
                panel.text(
                    column + 0.5,
                    row + 0.5,
                    f"{cell.regret:.2f}{star}",
                    ha="center",
                    va="center",
                    fontsize=7.5,
                )
        panel.set_xlim(0, len(grid.rates_bits_s))
        panel.set_ylim(0, len(grid.rtts_s))
        panel.set_xticks(
            [column + 0.5 for column in range(len(grid.rates_bits_s))],
            [f"{rate / 1e6:g}" for rate in grid.rates_bits_s],
        )
        panel.set_yticks(
            [row + 0.5 for row in range(len(grid.rtts_s))],
            [f"{rtt_s * 1000:g} ms" for rtt_s in grid.rtts_s],
        )
        panel.tick_params(length=0)
        panel.set_xlabel("link, Mbit/s")
        panel.set_title(f"device: {slowdown:g} times what this machine took", fontsize=9)
    panels[0][0].set_ylabel("round trip")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colours[way], label=way) for way in winners]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(winners), fontsize=8)
    figure.suptitle(
        "Colour: the best fixed way.  Number: the controller's mean latency over it.  "
        f"Star: the controller beats both {' and '.join(rivals)}",
        fontsize=9,
    )
    _save(figure, path, pyplot)


def draw_drive(runs: Mapping[str, Run], trace: LinkTrace, until_s: float, path: Path) -> None:
    """Latencies over time, one line a contender, above the link's rate. Raises ConfigError."""
    pyplot = plotting.pyplot()
    figure, (panel, link) = pyplot.subplots(
        2, 1, figsize=(10, 5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    for index, (name, run) in enumerate(runs.items()):
        panel.step(
            run.begun_s,
            run.latencies_s,
            where="post",
            label=name,
            linewidth=1.6 if index == 0 else 0.9,
            zorder=3 if index == 0 else 2,
        )
    panel.set_yscale("log")
    panel.set_ylabel("latency, s")
    panel.legend(fontsize=8, loc="upper right")
    panel.grid(visible=True, which="both", alpha=0.25)
    starts, rates, at_s = [], [], 0.0
    while at_s < until_s:
        stretch = trace.at(at_s)
        bits_s = stretch.conditions.up_bits_s
        down = stretch.conditions.outage is not None or bits_s is None
        starts.append(at_s)
        rates.append(float("nan") if down or bits_s is None else bits_s / 1e6)
        at_s = stretch.end_s
    link.step([*starts, until_s], [*rates, rates[-1]], where="post", color="black", linewidth=1)
    link.set_yscale("log")
    link.set_ylabel("up, Mbit/s")
    link.set_xlabel("time, s (gaps in the lower line: the link is down)")
    link.grid(visible=True, alpha=0.25)
    _save(figure, path, pyplot)


def _colours(ways: Sequence[str]) -> dict[str, str]:
    pictures, cuts = iter(_PICTURE_COLOURS * 3), iter(_CUT_COLOURS * 3)
    return {
        way: _LOCAL_COLOUR
        if way == LOCAL
        else next(pictures if way.startswith(f"{INPUT} ") else cuts)
        for way in ways
    }


def _save(figure: Any, path: Path, pyplot: Any) -> None:
    figure.savefig(path, dpi=130, metadata={"Software": None})
    pyplot.close(figure)
