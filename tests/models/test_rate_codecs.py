"""Picture codecs as rivals."""

import cv2
import numpy as np
import pytest

from headtail_models.rate import codecs


def _picture() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    ramp = np.linspace(0, 255, 64, dtype=np.uint8)
    return np.stack([np.tile(ramp, (48, 1)), np.tile(ramp[::-1], (48, 1)), np.full((48, 64), 90)], 2
    ).astype(np.uint8)  # fmt: skip


@pytest.mark.parametrize("kind", codecs.available())
def test_there_and_back(kind: codecs.Kind) -> None:
    picture = _picture()
    small, large = (codecs.encode(picture, kind, quality) for quality in (20, 90))
    assert len(small) < len(large)
    error = np.abs(codecs.decode(large).astype(int) - picture)
    assert error.mean() < 3


def test_jpeg_is_the_smallest_of_its_settings() -> None:
    picture = _picture()
    plain = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 75])[1]
    assert len(codecs.encode(picture, "jpeg", 75)) < plain.size
    assert "jpg" in codecs.versions()
