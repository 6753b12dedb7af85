"""Frozen bytes: what a head of version 1 computes. MicroPython has the same vectors."""

import json
from pathlib import Path

import numpy as np

from headtail_models.mcu.blob import read_blob
from headtail_models.mcu.twin import Twin

VECTORS = Path(__file__).parents[1] / "vectors" / "mcu-head-v1.json"


def test_twin_on_the_frozen_head() -> None:
    vectors = json.loads(VECTORS.read_bytes())
    program = read_blob(bytes.fromhex(vectors["blob"]))
    twin = Twin(program)
    for data, packed, exited in zip(
        vectors["inputs"], vectors["outputs"], vectors["exited"], strict=True
    ):
        levels = np.frombuffer(bytes.fromhex(data), dtype=np.uint8)
        outcome = twin.run_levels(levels.reshape(program.input_shape))
        assert [one.hex() for one in outcome.packed] == packed
        assert outcome.exited == exited
