"""Contexts of an entropy coder with random weights, for an alphabet of twelve symbols."""

from typing import Any, Final

import numpy as np

from headtail_fabric.rans.alphabet import Alphabet
from headtail_fabric.rans.conv_context import ConvContext, taps
from headtail_fabric.rans.table_context import TableContext

ALPHABET: Final = Alphabet(low=0, count=12)


def table_context(channels: int, seed: int = 0, **changes: Any) -> TableContext:
    random = np.random.default_rng(seed)
    references = [
        [random.integers(-1, max(c, 1)) if c else -1 for _ in range(3)] for c in range(channels)
    ]
    parts: dict[str, Any] = {
        "centres": random.integers(0, 12, channels).astype(np.int16),
        "references": np.array(references, dtype=np.int16),
        "weights": random.integers(-2000, 2000, (channels, 2, 6)).astype(np.int16),
        "biases": random.integers(0, 20000, (channels, 2)).astype(np.int32),
        "cells": random.integers(0, 9, (channels, 8, 32)).astype(np.uint8),
    }
    return TableContext(**(parts | changes))


def conv_context(
    channels: int, seed: int = 0, *, radius: int = 2, hidden: int = 6, **changes: Any
) -> ConvContext:
    random = np.random.default_rng(seed)
    parts: dict[str, Any] = {
        "symbols": 12,
        "radius": radius,
        "centres": random.integers(0, 12, channels).astype(np.int16),
        "weights1": random.integers(-500, 500, (hidden, channels, len(taps(radius)))).astype(
            np.int16
        ),
        "biases1": random.integers(-500, 500, hidden).astype(np.int32),
        "shift1": 6,
        "weights2": random.integers(-300, 300, (2 * channels, hidden)).astype(np.int16),
        "biases2": random.integers(-500, 9000, 2 * channels).astype(np.int32),
        "shift2": 10,
    }
    return ConvContext(**(parts | changes))
