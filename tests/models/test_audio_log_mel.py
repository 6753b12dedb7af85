"""The front end: known tones in known bands, and a stream that is the whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.audio.log_mel import LogMel, Samples

FRONT = LogMel()


def loud(count: int, seed: int = 0) -> Samples:
    return (0.1 * np.random.default_rng(seed).normal(size=count)).astype(np.float32)


def test_silence_is_the_offset_and_nothing_else() -> None:
    patches = FRONT.patches(np.zeros(FRONT.patch_samples, dtype=np.float32))
    assert patches.shape == (1, 1, 96, 64)
    np.testing.assert_allclose(patches, np.log(0.001), atol=1e-6)


def test_a_patch_takes_what_the_authors_say() -> None:
    assert (FRONT.patch_samples, FRONT.hop_samples) == (15_600, 7680)
    assert FRONT.seconds == pytest.approx(0.975)


@pytest.mark.parametrize(("hertz", "band"), [(440.0, 8), (1000.0, 19), (4000.0, 48)])
def test_a_tone_is_loudest_in_its_band(hertz: float, band: int) -> None:
    tone = np.sin(2 * np.pi * hertz * np.arange(FRONT.patch_samples) / FRONT.rate)
    patches = FRONT.patches(tone.astype(np.float32))
    mels = 1127 * np.log1p(np.array([125.0, 7500.0, hertz]) / 700)
    place = (mels[2] - mels[0]) / (mels[1] - mels[0]) * 65 - 1
    assert patches[0, 0, 50].argmax() == band
    assert abs(place - band) < 1


def test_a_window_of_ones_has_the_magnitude_of_its_sum() -> None:
    """One band by hand: an impulse has the same magnitude in every bin."""
    samples = np.zeros(FRONT.patch_samples, dtype=np.float32)
    samples[200] = 1.0
    spectrum = FRONT.patches(samples)[0, 0, 0]
    bins = 1127 * np.log1p(np.arange(257) * 31.25 / 700)
    edges = np.linspace(1127 * np.log1p(125 / 700), 1127 * np.log1p(7500 / 700), 66)
    triangle = np.interp(bins, edges[:3], [0, 1, 0])
    np.testing.assert_allclose(spectrum[0], np.log(triangle.sum() + 0.001), atol=1e-5)


@pytest.mark.parametrize(
    ("samples", "patches"),
    [(0, 1), (1, 1), (15_600, 1), (15_601, 2), (23_280, 2), (23_281, 3)],
)
def test_silence_fills_the_last_patch(samples: int, patches: int) -> None:
    assert FRONT.patches(loud(samples)).shape == (patches, 1, 96, 64)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 9000), max_size=6), st.sampled_from([48, 96, 30]))
def test_a_stream_gives_the_patches_of_the_whole(sizes: list[int], hop: int) -> None:
    front = LogMel(patch_hop=hop)
    samples = loud(sum(sizes))
    stream = front.stream()
    at, parts = 0, []
    for size in sizes:
        parts.append(stream.push(samples[at : at + size]))
        at += size
    parts.append(stream.finish())
    np.testing.assert_array_equal(np.concatenate(parts), front.patches(samples))
    assert repr(stream).startswith(f"<PatchStream {sum(sizes)} samples in")


def test_the_second_patch_begins_a_hop_later() -> None:
    samples = loud(40_000)
    whole, later = FRONT.patches(samples), FRONT.patches(samples[FRONT.hop_samples :])
    np.testing.assert_array_equal(whole[1], later[0])


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros((2, 10), dtype=np.float32),
        np.zeros(10, dtype=np.int16),
        np.array([np.inf], dtype=np.float32),
    ],
)
def test_what_is_no_row_of_floats_is_refused(samples: Samples) -> None:
    with pytest.raises(ValueError, match="samples"):
        FRONT.patches(samples)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hop": 0},
        {"window": 600},
        {"patch_hop": 97},
        {"high_hz": 9000.0},
        {"bands": 0},
        {"offset": 0.0},
    ],
)
def test_a_front_end_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="LogMel"):
        LogMel(**wrong)  # type: ignore[arg-type]
