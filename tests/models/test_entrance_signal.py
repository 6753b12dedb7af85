"""Readings of sensors on their way into a network."""

import msgspec
import numpy as np
import pytest

from headtail_models.bundle.manifest import Preprocess, Signal
from headtail_models.bundle.preprocess import Preparation, decode_preparation
from headtail_models.entrance import SignalEntrance

SIGNAL = Signal(rate_hz=50, window=3, hop=2, offset=(1.0, 0.0), scale=(2.0, 0.5), units="g")


def test_readings_are_scaled_channel_by_channel() -> None:
    tensor, place = SignalEntrance(SIGNAL).prepare(np.array([[1, 1], [3, 2], [5, 3]]))
    assert place is None
    assert tensor.shape == (1, *SIGNAL.input_shape)
    assert tensor.dtype == np.float32
    assert tensor[0, 0].tolist() == [[0, 2], [1, 4], [2, 6]]


@pytest.mark.parametrize("shape", [(2, 2), (3, 1), (3,), (3, 2, 3)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="readings of shape"):
        SignalEntrance(SIGNAL).prepare(np.zeros(shape, dtype=np.float32))


def test_the_manifest_tells_it_from_pictures() -> None:
    plain = msgspec.to_builtins(SIGNAL)
    assert plain["kind"] == "signal"
    assert decode_preparation(Preparation, plain) == SIGNAL
    picture = Preprocess(kind="letterbox", width=8, height=8)
    assert decode_preparation(Preparation, msgspec.to_builtins(picture)) == picture


@pytest.mark.parametrize(
    "changed",
    [
        {"scale": [2.0]},
        {"scale": [2.0, 0.0]},
        {"offset": [float("nan"), 0.0]},
        {"window": 0},
        {"hop": 0},
        {"offset": [], "scale": []},
        {"kind": "smell"},
        {"kind": ["signal"]},
        {"taste": 1},
    ],
)
def test_what_makes_no_sense_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each for its own reason
        decode_preparation(Preparation, msgspec.to_builtins(SIGNAL) | changed)
