"""The log of a training: two CSV files, and the curves drawn from them."""

import csv
from pathlib import Path
from typing import Final

from headtail_fabric.errors import ConfigError
from headtail_models import plotting

STEPS: Final = "steps.csv"
SCORES: Final = "scores.csv"
CURVES: Final = "curves.png"
_FIXED: Final = ("step", "stage", "loss", "rate")


class History:
    """Appends to the CSV files of a folder. Columns are those of the first row."""

    def __init__(self, folder: Path) -> None:
        self._steps = _Table(folder / STEPS)
        self._scores = _Table(folder / SCORES)

    def restart(self, done: int) -> None:
        """Forget what was logged after step `done`."""
        self._steps.restart(done)
        self._scores.restart(done)

    def add_step(
        self, step: int, stage: str, loss: float, rate: float, parts: dict[str, float]
    ) -> None:
        row = dict(zip(_FIXED, (step, stage, f"{loss:.6g}", f"{rate:.3g}"), strict=True))
        self._steps.add(row | {name: f"{value:.6g}" for name, value in parts.items()})

    def add_scores(self, step: int, stage: str, scores: dict[str, float]) -> None:
        row: dict[str, object] = {"step": step, "stage": stage}
        self._scores.add(row | {name: f"{value:.6g}" for name, value in scores.items()})
        self.flush()

    def flush(self) -> None:
        """Write what was added."""
        self._steps.flush()
        self._scores.flush()


class _Table:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[dict[str, object]] = []
        self._columns: list[str] = []

    def restart(self, done: int) -> None:
        kept: list[dict[str, object]] = []
        if self._path.exists() and done:
            with self._path.open(encoding="utf-8", newline="") as file:
                kept = [dict(row) for row in csv.DictReader(file) if int(row["step"]) <= done]
        self._path.unlink(missing_ok=True)
        self._columns = []
        self._rows = kept
        self.flush()

    def add(self, row: dict[str, object]) -> None:
        self._rows.append(row)

    def flush(self) -> None:
        if not self._rows:
            return
        new = not self._columns
        if new:
            self._columns = list(dict.fromkeys(name for row in self._rows for name in row))
        with self._path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self._columns, restval="", extrasaction="ignore")
            if new:
                writer.writeheader()
            writer.writerows(self._rows)
        self._rows.clear()


def draw(folder: Path) -> Path | None:
    """Draw the curves of a folder's log, `curves.png`; None where matplotlib is missing."""
    try:
        pyplot = plotting.pyplot()
    except ConfigError:
        return None
    steps, scores = _columns(folder / STEPS), _columns(folder / SCORES)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for name, values in steps.items():
        if name not in ("step", "rate"):
            left.plot(steps["step"], _smooth(values), label=name, linewidth=1)
    left.set(xlabel="step", ylabel="loss and its parts (moving mean)", yscale="symlog")
    for name, values in scores.items():
        if name != "step":
            right.plot(scores["step"], values, marker="o", markersize=3, label=name, linewidth=1)
    right.set(xlabel="step", ylabel="on the calibration split")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    path = folder / CURVES
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def _columns(path: Path) -> dict[str, list[float]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in (rows[0] if rows else ()) if name != "stage"]
    return {name: [float(row[name] or "nan") for row in rows] for name in names}


def _smooth(values: list[float], width: int = 25) -> list[float]:
    sums, found = 0.0, []
    for index, value in enumerate(values):
        sums += value - (values[index - width] if index >= width else 0.0)
        found.append(sums / min(index + 1, width))
    return found
