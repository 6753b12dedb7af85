"""The reconstruction attack: it sees what is there to be seen, and no more."""

import cv2
import numpy as np
import pytest

from headtail_models.inversion import attack
from headtail_models.inversion.attack import Pairs, draw, learn
from headtail_models.inversion.similarity import MAX_PSNR, psnr, ssim


def _pictures(
    count: int = 12, side: int = 32
) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    random = np.random.default_rng(0)
    coarse = random.random((count, 3, 4, 4), dtype=np.float32)
    return np.stack(
        [
            cv2.resize(one.transpose(1, 2, 0), (side, side)).transpose(2, 0, 1).clip(0, 1)
            for one in coarse
        ]
    )


def test_psnr() -> None:
    picture = _pictures()[0]
    assert psnr(picture, picture) == MAX_PSNR
    assert psnr(picture + 0.1, picture) == pytest.approx(20, abs=1e-4)


def test_ssim() -> None:
    picture = _pictures()[0].transpose(1, 2, 0)
    noise = np.random.default_rng(1).normal(0, 0.2, picture.shape)
    assert ssim(picture, picture) == pytest.approx(1)
    assert ssim(picture + noise, picture) < 0.6
    # Brightness alone: only the first factor of equation 13 changes.
    flat, lighter = np.full((20, 20), 0.5), np.full((20, 20), 0.7)
    expected = (2 * 0.5 * 0.7 + 1e-4) / (0.25 + 0.49 + 1e-4)
    assert ssim(flat, lighter) == pytest.approx(expected)


def test_the_attack_sees_what_is_there_and_no_more() -> None:
    pictures = _pictures()
    small = pictures.reshape(12, 3, 8, 4, 8, 4).mean(axis=(3, 5))
    mixed = np.concatenate([small, 100 * small], axis=1).astype(np.float32)
    nothing = np.random.default_rng(2).normal(size=mixed.shape).astype(np.float32)
    seen = {}
    for name, crossed in (("mixed", mixed), ("nothing", nothing)):
        pairs = Pairs(crossed=crossed[:9], pictures=pictures[:9])
        inverter = learn(pairs, steps=120, width=24, batch=4)
        held_out = Pairs(crossed=crossed[9:], pictures=pictures[9:])
        drawn = draw(inverter, held_out)
        assert drawn.shape == (3, 3, 32, 32)
        seen[name] = psnr(drawn, pictures[9:])
    assert seen["mixed"] > seen["nothing"] + 4


def test_what_crossed_may_be_larger_than_the_picture() -> None:
    pictures = _pictures(side=16)
    crossed = pictures.repeat(2, axis=2).repeat(2, axis=3)
    pairs = Pairs(crossed=crossed, pictures=pictures)
    assert draw(learn(pairs, steps=3, width=8, batch=2), pairs).shape == pictures.shape


@pytest.mark.parametrize(("side", "fitted"), [(30, 32), (15, 16), (6, 8), (8, 8), (80, 32)])
def test_other_sizes_are_brought_to_the_nearest_that_fits(side: int, fitted: int) -> None:
    pictures = _pictures()
    crossed = np.full((12, 3, side, side), 0.25, dtype=np.float32)
    crossed[:, 1, : side // 2] = 1.0
    found = attack._fitted(Pairs(crossed=crossed, pictures=pictures))
    assert found.shape == (12, 3, fitted, fitted)
    assert found[:, 0] == pytest.approx(0.25)
    # What lies above lies above still.
    assert found[:, 1, : fitted // 4].min() > 0.9
    assert found[:, 1, -(fitted // 4) :].max() < 0.3
