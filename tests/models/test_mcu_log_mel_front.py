"""The listening board's front end in whole numbers, against spectra in floating point."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.audio.log_mel import LogMel
from headtail_models.mcu.errors import BlobError, FrontEndError
from headtail_models.mcu.log_mel_front import make_front, read_front
from headtail_models.mcu.ranges import Quantiser

WAY = LogMel(
    rate=8000,
    window=240,
    hop=160,
    fft=256,
    bands=10,
    low_hz=60.0,
    high_hz=3800.0,
    offset=0.01,
    patch=9,
    patch_hop=9,
)
QUANTISER = Quantiser(scale=11 / 255, zero=110)
TOP = np.array([255], dtype=np.uint8)
LOUD = 3.0
"""Nats below a frame's loudest bin, 26 dB, within which nothing is off by two levels."""
AUDIBLE = 5.0
"""43 dB, within which tones are not."""
VECTORS = Path(__file__).parents[1] / "vectors" / "mcu-front-v1.json"


def sweep(amplitude: float) -> "np.ndarray[tuple[int, ...], np.dtype[np.int16]]":
    """A tone that rises through all bands, with a little noise."""
    at = np.arange(WAY.patch_samples) / WAY.rate
    tone = np.sin(2 * np.pi * (100 + 9000 * at) * at)
    noise = np.random.default_rng(0).normal(0, 1e-3, at.size)
    return np.rint((amplitude * tone + noise) * 32767).clip(-32768, 32767).astype(np.int16)


@pytest.mark.parametrize("amplitude", [0.9, 0.1, 0.004])
def test_levels_are_those_of_the_spectra_in_floating_point(amplitude: float) -> None:
    samples = sweep(amplitude)
    front = read_front(make_front(WAY, QUANTISER))
    wanted = WAY.patches((samples / 32768).astype(np.float32))[0, 0]
    found = QUANTISER.reals(front.patch_of(samples))[..., 0]
    assert front.patch_samples == WAY.patch_samples
    off = np.abs(found - wanted) / QUANTISER.scale
    audible = wanted > wanted.max(axis=1, keepdims=True) - AUDIBLE
    assert audible.sum() >= 25
    assert off[audible].max() < 1
    # What is fainter drowns in the rounding of 16 bits, by half a nat at most.
    assert off.max() < 12


@pytest.mark.parametrize("fft", [16, 64, 512])
def test_other_sizes(fft: int) -> None:
    way = LogMel(
        rate=8000, window=fft - 3, hop=fft // 2, fft=fft, bands=4, low_hz=300.0, high_hz=3800.0,
        offset=0.01, patch=4, patch_hop=4,
    )  # fmt: skip
    front = read_front(make_front(way, QUANTISER))
    samples = np.random.default_rng(1).integers(-9000, 9000, way.patch_samples).astype(np.int16)
    wanted = way.patches((samples / 32768).astype(np.float32))[0, 0]
    found = QUANTISER.reals(front.patch_of(samples))[..., 0]
    assert np.abs(found - wanted).max() < 2 * QUANTISER.scale


def test_silence_is_the_offset() -> None:
    front = read_front(make_front(WAY, QUANTISER))
    silent = front.patch_of(np.zeros(WAY.patch_samples, dtype=np.int16))
    assert set(silent.reshape(-1)) == {QUANTISER.level(float(np.log(WAY.offset)))}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-32768, -32767, -1, 0, 1, 32767]), min_size=1, max_size=240))
def test_nothing_overflows_32_bits(pattern: list[int]) -> None:
    """The board has 32 bits: the loudest patterns must give what floating point gives."""
    front = read_front(make_front(WAY, QUANTISER))
    window = np.resize(np.array(pattern, dtype=np.int16), WAY.window)
    wanted = WAY.spectra((window / 32768).astype(np.float32))[0]
    found = QUANTISER.reals(front.levels(window[np.newaxis]))[0]
    loudest = np.abs(np.fft.rfft(window / 32768 * WAY.hann, n=WAY.fft)).max()
    audible = wanted > np.log(loudest + WAY.offset) - LOUD
    audible &= wanted < QUANTISER.reals(TOP)[0]
    assert np.abs(found - wanted)[audible].max(initial=0) < 2 * QUANTISER.scale


def test_frozen_vector() -> None:
    vector = json.loads(VECTORS.read_bytes())
    section = bytes.fromhex(vector["section"])
    assert make_front(WAY, QUANTISER) == section
    for samples, levels in zip(vector["samples"], vector["levels"], strict=True):
        given_ = np.frombuffer(bytes.fromhex(samples), dtype="<i2")
        assert read_front(section).patch_of(given_).tobytes().hex() == levels


def test_refusals_say_by_how_much() -> None:
    with pytest.raises(FrontEndError, match="an FFT of 1024, 512 more than 512"):
        make_front(LogMel(fft=1024, window=800), QUANTISER)
    with pytest.raises(FrontEndError, match="300, which is no power of two"):
        make_front(LogMel(fft=300, window=240, hop=100), QUANTISER)
    with pytest.raises(FrontEndError, match="more than 30 bits hold"):
        make_front(
            LogMel(fft=512, window=400, bands=1, low_hz=1.0, high_hz=8000.0, offset=1.0),
            QUANTISER,
        )
    with pytest.raises(FrontEndError, match=r"levels of 1e\+03"):
        make_front(WAY, Quantiser(scale=1e3, zero=0))


@pytest.mark.parametrize("cut", [0, 1, 55, 300, -1])
def test_damaged_sections_are_refused(cut: int) -> None:
    section = make_front(WAY, QUANTISER)
    with pytest.raises(BlobError):
        read_front(section[: cut if cut >= 0 else len(section) + cut])


def test_forged_header_is_refused() -> None:
    section = bytearray(make_front(WAY, QUANTISER))
    section[1] = 12  # an FFT of 8192
    with pytest.raises(BlobError, match="FFT of 8192"):
        read_front(bytes(section))
