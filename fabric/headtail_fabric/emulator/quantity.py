"""Quantities with their units as text, both ways: `2mbit`, `30ms`, `16kB`, `1%`.

Prefixes of bits and bytes are decimal (1 kbit = 1000 bit, 1 kB = 1000 B), but for KiB and MiB.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_TEXT: Final = re.compile(r"(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d{1,3})?|\.\d+)(?P<unit>[A-Za-z%/]*)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A kind of quantity: its units by name, each as a multiple of the base unit, and in ascending
    order those that it is written with."""

    name: str
    units: Mapping[str, float]
    written: tuple[str, ...]

    def parse(self, text: str) -> float:
        """The quantity in its base unit. Raises ValueError, with a message fit for a person."""
        found = _TEXT.fullmatch(text)
        units = ", ".join(unit or "none" for unit in self.units)
        if found is None:
            raise ValueError(f"{text!r} is no {self.name}: a number and a unit, of {units}")
        if found["unit"] not in self.units:
            raise ValueError(f"{text!r} has no unit of a {self.name}: {units}")
        value = float(found["number"]) * self.units[found["unit"]]
        if not math.isfinite(value):
            raise ValueError(f"{text!r} is too large")
        return value

    def text(self, value: float) -> str:
        """`value`, given in the base unit, in the largest unit that leaves at least one."""
        fitting = [unit for unit in self.written if value >= self.units[unit]]
        unit = fitting[-1] if fitting else self.written[0]
        return f"{value / self.units[unit]:.12g}{unit}"


RATE: Final = Quantity(
    "rate",
    {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9},
    ("bit", "kbit", "mbit", "gbit"),
)
"""In bit/s."""

TIME: Final = Quantity(
    "time", {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}, ("ms", "s")
)
"""In seconds."""

SIZE: Final = Quantity(
    "size",
    {"B": 1.0, "kB": 1e3, "MB": 1e6, "KiB": 1024.0, "MiB": 1024.0**2},
    ("B", "kB", "MB"),
)
"""In bytes."""

SHARE: Final = Quantity("share", {"%": 0.01, "": 1.0}, ("%",))
"""Of one."""
