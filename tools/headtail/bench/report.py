"""What a benchmark found: figures, targets, tables; printed and written in one format.

{"bench", "version", "machine", "settings", "figures": {name: number},
 "targets": [{"name", "figure", "op", "target", "met"}]}
"""

import json
import operator
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from headtail import __version__
from headtail_fabric.rans import native

Op = Literal[">=", "<="]
Cell = str | int | float | None
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure held against what was aimed at."""

    name: str
    figure: float
    op: Op
    target: float

    @property
    def met(self) -> bool:
        return _COMPARE[self.op](self.figure, self.target)


class Report:
    """Collects one run of a benchmark. `settings` says what was on and off."""

    def __init__(self, name: str, settings: Mapping[str, object]) -> None:
        self.name = name
        self.settings = dict(settings)
        self.figures: dict[str, float] = {}
        self.targets: list[Target] = []
        self.skipped: str | None = None
        self._tables: list[Table] = []
        self._notes: list[str] = []

    def figure(self, name: str, value: float) -> float:
        """Record a number; returns it."""
        self.figures[name] = float(value)
        return value

    def target(self, name: str, value: float, op: Op, target: float) -> None:
        """Record a number that has a target."""
        self.figure(name, value)
        self.targets.append(Target(name=name, figure=float(value), op=op, target=target))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Add a table to what is printed; the first column is left-aligned."""
        table = Table(title=title, title_justify="left")
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(_text(cell) for cell in row))
        self._tables.append(table)

    def note(self, text: str) -> None:
        """Add a line below the tables."""
        self._notes.append(text)

    def skip(self, reason: str) -> None:
        """The benchmark could not run here, and why."""
        self.skipped = reason

    def show(self, console: Console) -> None:
        """Print everything."""
        console.print(f"[bold]{self.name}[/bold]  headtail {__version__}  {_one_line(machine())}")
        console.print(f"settings: {_one_line(self.settings)}", style="dim")
        if self.skipped is not None:
            console.print(f"skipped: {self.skipped}", style="yellow")
        for table in self._tables:
            console.print(table)
        for note in self._notes:
            console.print(note)
        for target in self.targets:
            style, word = ("green", "met") if target.met else ("red", "MISSED")
            console.print(
                f"{target.name}: {target.figure:.4g} (target {target.op} {target.target:g}) {word}",
                style=style,
            )

    def write(self, path: Path) -> None:
        """Write the JSON form."""
        document = {
            "bench": self.name,
            "version": __version__,
            "machine": machine(),
            "settings": self.settings,
            "figures": self.figures,
            "targets": [
                {
                    "name": target.name,
                    "figure": target.figure,
                    "op": target.op,
                    "target": target.target,
                    "met": target.met,
                }
                for target in self.targets
            ],
        }
        if self.skipped is not None:
            document["skipped"] = self.skipped
        path.write_text(json.dumps(document, indent=1, default=str) + "\n")


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [s for s in cpuinfo.read_text().splitlines() if s.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "entropy_coder": "C" if native.library() else "numpy",
    }


def _one_line(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
