"""A picture of what heads for boards are worth: accuracy against bytes a decision.

python -m headtail_models.training.board_chart FINDINGS.json ... --out FILE.png
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from headtail_models import plotting
from headtail_models.training.board_findings import Findings

_COLOURS: Final = {8: "tab:blue", 4: "tab:orange", 2: "tab:green"}
_LINEAR: Final = 1.0
"""Bytes up to which the axis is linear, so that nothing sent has a place."""


def draw(findings: Sequence[Findings], path: Path) -> None:
    """Write a PNG with a panel for each. Raises ConfigError without matplotlib."""
    pyplot = plotting.pyplot()
    figure, panels = pyplot.subplots(
        1, len(findings), figsize=(6 * len(findings), 4.4), layout="constrained", squeeze=False
    )
    for panel, one in zip(panels[0], findings, strict=True):
        _panel(panel, one)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(panel: Any, one: Findings) -> None:
    panel.plot(0, one.int_exit, "k*", markersize=11, label="the exit alone")
    for bits, colour in _COLOURS.items():
        points = sorted(
            (gained.sent_bytes, gained.accuracy) for gained in one.together if gained.bits == bits
        )
        points.append((one.payload_bytes[bits], one.int_tail[bits]))
        sent, right = zip(*points, strict=True)
        panel.plot(sent, right, "o-", color=colour, label=f"exit and tail, {bits} bits a value")
        panel.plot(*points[-1], "s", color=colour, markersize=8)
    panel.plot(one.raw_bytes, one.float_full, "kD", label="samples sent, network in float")
    panel.set_xscale("symlog", linthresh=_LINEAR)
    panel.set(
        title=f"{one.name}, {one.samples} test samples",
        xlabel="bytes a decision (mean; squares: everything is sent)",
        ylabel="accuracy",
    )
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8, loc="lower right")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m headtail_models.training.board_chart")
    parser.add_argument("findings", type=Path, nargs="+", metavar="JSON", help="of a release")
    parser.add_argument("--out", type=Path, required=True, metavar="PNG")
    options = parser.parse_args(arguments)
    draw(
        [msgspec.json.decode(path.read_bytes(), type=Findings) for path in options.findings],
        options.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
