"""Numbers with units."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_models.planner.errors import QuantityError
from headtail_models.planner.units import parse_rate, parse_time


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("2mbit", 2e6),
        ("2 Mbit/s", 2e6),
        ("500kbit/s", 5e5),
        ("1.5gbit", 1.5e9),
        ("1e3 bit/sec", 1e3),
        (".5mbps", 5e5),
        ("10Mbps", 1e7),
        (" 64 kbits ", 64e3),
    ],
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30ms", 0.03), ("1.5s", 1.5), ("250us", 250e-6), ("250µs", 250e-6), ("0ms", 0.0)],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "2", "mbit", "2MB/s", "2mb", "-2mbit", "0mbit", "1e999bit", "2 3mbit", "nan bit"]
)
def test_no_rate(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "30", "30m", "ms", "-3ms", "30ms/s", "1e999s", "∞ s"])
def test_no_time(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_time(text)


@given(st.text(max_size=60))
def test_any_text_is_a_rate_or_an_error(text: str) -> None:
    with suppress(QuantityError):
        assert parse_rate(text) > 0
