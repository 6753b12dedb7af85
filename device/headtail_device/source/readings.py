"""Readings of sensors as text: a line has the numbers of one moment."""

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_LINE_BYTES: Final = 16 * 1024
_BETWEEN: Final = re.compile(rb"[,;\s]+")


class BadReadingError(ValueError):
    """A line that is no reading; says why."""


def parse_reading(line: bytes, *, channels: int) -> NDArray[np.float32] | None:
    """The numbers (channels,) of a line, which commas, semicolons or blanks part; None for an
    empty line or a comment (#).

    With one number too many the first is taken for a time stamp and left out. Raises
    BadReadingError.
    """
    text = line.strip()
    if not text or text.startswith(b"#"):
        return None
    if len(text) > MAX_LINE_BYTES:
        raise BadReadingError(f"a line of more than {MAX_LINE_BYTES} bytes")
    words = _BETWEEN.split(text.strip(b",;"))
    if len(words) == channels + 1:
        words = words[1:]
    if len(words) != channels:
        raise BadReadingError(f"{len(words)} numbers, {channels} are expected")
    try:
        with np.errstate(over="ignore"):
            reading = np.array([float(word) for word in words]).astype(np.float32)
    except ValueError:
        raise BadReadingError("not a row of numbers") from None
    if not np.isfinite(reading).all():
        raise BadReadingError("a number that is not finite")
    return reading


def looks_like_titles(line: bytes) -> bool:
    """Whether it is the first line of a table, which names its columns."""
    words = _BETWEEN.split(line.strip())
    return bool(words[0]) and not any(_is_number(word) for word in words)


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
