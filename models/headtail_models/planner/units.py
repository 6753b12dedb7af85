"""Numbers with units, as people write them."""

import math
import re
from collections.abc import Mapping
from typing import Final

from headtail_models.planner.errors import QuantityError

_NUMBER: Final = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]{1,3})?)\s*([a-zµμ/]*)\s*", re.I)
_PREFIXES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_RATES: Final = {
    f"{prefix}{unit}": factor for prefix, factor in _PREFIXES.items() for unit in ("bit", "bits")
} | {f"{prefix}bps": factor for prefix, factor in _PREFIXES.items()}
_TIMES: Final = {
    "s": 1.0,
    "sec": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "min": 60.0,
}


def parse_rate(text: str) -> float:
    """Bits a second, above 0: `2mbit`, `500kbit/s`, `1.5 Gbps`; prefixes are decimal.

    Bytes (`MB/s`) are refused rather than guessed, as is a bare number. Raises QuantityError.
    """
    rate = _parse(text, _RATES, "rate", endings=("/s", "/sec"))
    if rate == 0:
        raise QuantityError(f"a rate of {text!r} carries nothing")
    return rate


def parse_time(text: str) -> float:
    """Seconds, 0 or more: `30ms`, `1.5s`, `250us`. Raises QuantityError."""
    return _parse(text, _TIMES, "time", endings=())


def _parse(text: str, units: Mapping[str, float], kind: str, endings: tuple[str, ...]) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text[:40]!r} is no {kind}")
    number, unit = float(match[1]), match[2].lower()
    for ending in endings:
        unit = unit.removesuffix(ending)
    if unit not in units:
        known = ", ".join(sorted(units, key=lambda name: (len(name), name))[:8])
        raise QuantityError(f"{text[:40]!r}: the unit of a {kind} is one of {known}, ...")
    value = number * units[unit]
    if not math.isfinite(value):
        raise QuantityError(f"{text[:40]!r} is no finite {kind}")
    return value
