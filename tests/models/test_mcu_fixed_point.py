"""Real factors as integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.mcu.errors import OutOfRangeError
from headtail_models.mcu.fixed_point import factor_of, scaled, shared_factors


@settings(deadline=None)
@given(
    real=st.floats(2.0**-20, 8.0),
    accs=st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=20),
)
def test_within_one_of_exact_rounding_where_it_is_not_saturated(
    real: float, accs: list[int]
) -> None:
    factor = factor_of(real, bound=2**30)
    column = np.array([[factor.drop, factor.multiplier, factor.shift]], dtype=np.int64)
    acc = np.array(accs, dtype=np.int64)[:, np.newaxis]
    found = np.clip(scaled(acc + factor.half, column)[:, 0], -256, 256)
    exact = np.clip(np.array(accs) * real, -256, 256)
    assert np.abs(found - exact).max() <= 0.52


def test_products_stay_below_31_bits() -> None:
    for exponent in range(-25, 12):
        factor = factor_of(1.37 * 2.0**exponent, bound=2**30)
        assert 0 <= factor.multiplier < 2**15
        assert 1 <= factor.shift <= 30
        assert 32767 * factor.multiplier + (1 << (factor.shift - 1)) < 2**31


@settings(deadline=None)
@given(
    reals=st.tuples(st.floats(2.0**-10, 4.0), st.floats(0, 4.0)),
    bound=st.integers(255, 255 * 4000),
)
def test_shared_factors_are_as_precise_as_they_may_be(
    reals: tuple[float, float], bound: int
) -> None:
    multipliers, shift = shared_factors(reals, bound=bound)
    assert sum(m * bound for m in multipliers) + (1 << (shift - 1)) < 2**31
    for multiplier, real in zip(multipliers, reals, strict=True):
        assert abs(multiplier / 2**shift - real) <= max(reals) / 2**7


@pytest.mark.parametrize("real", [0.0, -1.0, float("nan"), float("inf"), 2.0**20])
def test_what_is_no_factor(real: float) -> None:
    with pytest.raises(OutOfRangeError):
        factor_of(real, bound=2**20)


def test_a_window_too_large_to_average() -> None:
    with pytest.raises(OutOfRangeError, match="20,000 values, 11,776 more than 8,224"):
        shared_factors((0.001,), bound=255 * 20_000)
