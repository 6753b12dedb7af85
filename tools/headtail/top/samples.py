"""What a daemon's metrics port says, in Prometheus's text format (version 0.0.4)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Final, Self

_LINE: Final = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?\Z")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Samples:
    """Every number of one scrape; names without the prefix `headtail_`."""

    _values: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Lines that make no sense are passed over."""
        values: dict[str, list[tuple[dict[str, str], float]]] = {}
        for line in text.splitlines():
            match = None if line.startswith("#") else _LINE.match(line.strip())
            if match is None:
                continue
            try:
                value = float(match[3])
            except ValueError:
                continue
            labels = {name: _plain(text) for name, text in _LABEL.findall(match[2] or "")}
            values.setdefault(match[1].removeprefix("headtail_"), []).append((labels, value))
        return cls(values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def value(self, name: str, **labels: str) -> float | None:
        """The one number of that name and those labels; None when there is none, or it is not
        known (NaN)."""
        for found, value in self._values.get(name, ()):
            if found == labels:
                return None if isnan(value) else value
        return None

    def sum(self, name: str) -> float:
        """Over all labels."""
        return sum(value for _, value in self._values.get(name, ()))

    def by(self, name: str, label: str) -> dict[str, float]:
        """Sums by the values of one label."""
        sums: dict[str, float] = {}
        for labels, value in self._values.get(name, ()):
            key = labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def buckets(self, name: str, **labels: str) -> dict[float, float]:
        """Counts at or below each upper bound of a histogram, summed over all other labels."""
        counts: dict[float, float] = {}
        for found, value in self._values.get(f"{name}_bucket", ()):
            if "le" in found and labels.items() <= found.items():
                bound = float(found["le"])
                counts[bound] = counts.get(bound, 0.0) + value
        return dict(sorted(counts.items()))


def _plain(text: str) -> str:
    return re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), text)


def quantile(share: float, counts: Mapping[float, float]) -> float | None:
    """The value below which `share` of what was counted lies; None when nothing was.

    As Prometheus does it: linear within a bucket, and the last finite bound for what lies above.
    """
    bounds = list(counts)
    total = counts[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    wanted, lower, below = share * total, 0.0, 0.0
    for bound in bounds:
        if counts[bound] >= wanted:
            if bound == float("inf"):
                return lower
            inside = counts[bound] - below
            return lower + (bound - lower) * ((wanted - below) / inside if inside else 0.0)
        lower, below = bound, counts[bound]
    return lower
