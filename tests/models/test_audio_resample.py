"""Other sampling rates: what stays, what goes, and that a stream is a whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.audio.resample import Resampler, resample


def sine(
    hertz: float, rate: int, seconds: float = 0.5
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate).astype(np.float32)


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000, 44_056])
def test_a_tone_stays_a_tone(rate: int) -> None:
    found = resample(sine(440, rate), rate, 16_000)
    wanted = sine(440, 16_000, found.size / 16_000)
    assert found.size == -(-int(rate * 0.5) * 16_000 // rate)
    np.testing.assert_allclose(found[600:-600], wanted[600:-600], atol=1e-4)


@pytest.mark.parametrize("hertz", [9000, 12_000, 20_000])
def test_what_the_new_rate_cannot_hold_goes(hertz: float) -> None:
    assert np.abs(resample(sine(hertz, 48_000), 48_000, 16_000)[300:-300]).max() < 2e-4


def test_a_constant_stays_what_it_is() -> None:
    found = resample(np.full(4410, 0.5, dtype=np.float32), 44_100, 16_000)
    np.testing.assert_allclose(found[100:-100], 0.5, atol=1e-6)


def test_the_same_rate_changes_nothing() -> None:
    samples = sine(440, 16_000)
    np.testing.assert_array_equal(resample(samples, 16_000, 16_000), samples)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([8000, 22_050, 44_100, 48_000, 12_345]),
    st.lists(st.integers(0, 900), max_size=8),
)
def test_pieces_together_are_the_whole(rate: int, sizes: list[int]) -> None:
    samples = np.random.default_rng(0).normal(size=sum(sizes)).astype(np.float32)
    stream = Resampler(rate, 16_000)
    at, parts = 0, []
    for size in sizes:
        parts.append(stream.push(samples[at : at + size]))
        at += size
    parts.append(stream.finish())
    np.testing.assert_array_equal(np.concatenate(parts), resample(samples, rate, 16_000))


@pytest.mark.parametrize("rates", [(0, 16_000), (16_000, -1), (500_000, 16_000)])
def test_what_is_no_rate_is_refused(rates: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="Hz"):
        Resampler(*rates)
