"""Numbers as a narrow column shows them."""

from collections.abc import Mapping
from typing import Final

NOTHING: Final = "-"


def seconds(value: float | None) -> str:
    """Three digits, in us, ms or s."""
    if value is None:
        return NOTHING
    if value < 0.001:
        return f"{value * 1e6:.0f} us"
    if value < 1:
        return f"{value * 1e3:.1f} ms" if value < 0.1 else f"{value * 1e3:.0f} ms"
    return f"{value:.1f} s"


def bits_per_s(bytes_s: float | None) -> str:
    """Of bytes a second: kbit/s or Mbit/s."""
    if bytes_s is None:
        return NOTHING
    kilobits = bytes_s * 8 / 1e3
    return f"{kilobits:.0f} kbit" if kilobits < 1000 else f"{kilobits / 1e3:.1f} Mbit"


def count(value: float) -> str:
    """A number of things."""
    return f"{value:.0f}"


def rate(value: float | None) -> str:
    """Things a second."""
    return NOTHING if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def mean(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def share(value: float | None) -> str:
    """Of 1, in percent."""
    return NOTHING if value is None else f"{value:.0%}" if value >= 0.01 else f"{value:.1%}"


def parts(shares: Mapping[str, float], most: int) -> str:
    """The largest shares with their names."""
    shown = [f"{name} {share(value)}" for name, value in list(shares.items())[:most]]
    rest = len(shares) - most
    return ", ".join([*shown, *([f"+{rest}"] if rest > 0 else [])]) or NOTHING
