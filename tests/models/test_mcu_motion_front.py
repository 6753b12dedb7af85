"""Readings of a sensor as levels, in whole numbers."""

import numpy as np
import pytest

from headtail_models.bundle.preprocess import Signal
from headtail_models.mcu.errors import BlobError, FrontEndError
from headtail_models.mcu.fronts import make_front as make_any
from headtail_models.mcu.fronts import read_front as read_any
from headtail_models.mcu.motion_front import MotionFront, make_front, read_front
from headtail_models.mcu.ranges import Quantiser

WAY = Signal(
    rate_hz=50.0, window=8, hop=4, offset=(0.0, 100.0, -2000.0), scale=(8192.0, -16.0, 3753.0)
)
QUANTISER = Quantiser(scale=0.03125, zero=120)


def test_levels_are_those_of_the_scaled_readings() -> None:
    front = read_any(make_any(WAY, QUANTISER))
    assert isinstance(front, MotionFront)
    assert (front.window, front.rate_hz) == (8, 50)
    readings = np.random.default_rng(0).integers(-32768, 32768, (8, 3)).astype(np.int16)
    scaled = (readings - np.array(WAY.offset)) / np.array(WAY.scale)
    wanted = QUANTISER.levels(scaled.astype(np.float32)).astype(int)
    found = front.patch_of(readings)
    assert found.shape == (8, 3, 1)
    assert np.abs(found[..., 0].astype(int) - wanted).max() <= 1
    assert (found[..., 0] == wanted).mean() > 0.9


def test_refusals_name_the_channel() -> None:
    tiny = Signal(rate_hz=1.0, window=4, hop=4, offset=(0.0, 1e9), scale=(1.0, 1.0))
    with pytest.raises(FrontEndError, match="channel 1"):
        make_front(tiny, QUANTISER)
    many = Signal(rate_hz=1.0, window=4, hop=4, offset=(0.0,) * 256, scale=(1.0,) * 256)
    with pytest.raises(FrontEndError, match="256 channels, 1 more than 255"):
        make_front(many, QUANTISER)


def test_damaged_sections_are_refused() -> None:
    section = make_front(WAY, QUANTISER)
    for damaged in (b"", section[:15], section[:-1], b"\x07" + section[1:]):
        with pytest.raises(BlobError):
            read_front(damaged)
