"""Payloads of every kind, and what comes of damaged ones. `tests/vectors/rans-v1.json` holds
models, levels and payloads that must stay readable, and be written again, for ever."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.codec import CodecError
from headtail_fabric.rans import Alphabet, CodingModel, LevelCoder, fit_conv, fit_tables, specimen

SHAPE = (1, 4, 12, 10)
Levels = np.ndarray[Any, np.dtype[np.int16]]
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "rans-v1.json").read_text())
SMALL = Alphabet(low=-6, count=13)
FINE = Alphabet(low=0, count=256)


def calibration(alphabet: Alphabet) -> list[Levels]:
    return [specimen.levels(SHAPE, alphabet, seed=seed) for seed in range(12)]


def model(kind: str) -> CodingModel:
    if kind == "conv":
        recipe = fit_conv.Recipe(hidden=8, radius=1, steps=60, batch=64)
        return fit_conv.fit(calibration(SMALL), SMALL, recipe)
    alphabet = FINE if kind == "fine" else SMALL
    tiles = (2, 3) if kind == "tiled" else (1, 1)  # of 12 x 10 only the rows can be cut
    return fit_tables.fit(calibration(alphabet), alphabet, tables=16, tiles=tiles)


MODELS = {kind: model(kind) for kind in ("table", "tiled", "fine", "conv")}
CODERS = {kind: LevelCoder(model) for kind, model in MODELS.items()} | {
    f"{kind}-numpy": LevelCoder(model, native=False) for kind, model in MODELS.items()
}
KINDS = tuple(CODERS)
TABLE = CODERS["table"]


@pytest.mark.parametrize("kind", KINDS)
def test_levels_come_back_in_fewer_bytes(kind: str) -> None:
    coder = CODERS[kind]
    levels = specimen.levels(SHAPE, coder.model.alphabet, seed=99)
    payload = coder.encode(levels)
    assert payload[0] == 1
    assert len(payload) < 0.9 * coder.max_bytes(SHAPE)
    found = coder.decode(payload, SHAPE)
    assert found.dtype == np.int16
    assert np.array_equal(found, levels)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    size=st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)),
    seed=st.integers(0, 10_000),
    rough=st.booleans(),
)
def test_any_size_comes_back_and_none_grows(
    kind: str, size: tuple[int, int, int], seed: int, rough: bool
) -> None:
    coder = CODERS[kind]
    shape = (size[0], 4, *size[1:])
    alphabet = coder.model.alphabet
    if rough or 0 in size:
        random = np.random.default_rng(seed)
        levels = (random.integers(0, alphabet.count, shape) + alphabet.low).astype(np.int16)
    else:
        levels = specimen.levels(shape, alphabet, seed=seed)
    payload = coder.encode(levels)
    assert len(payload) <= coder.max_bytes(shape) <= 5 + (levels.size * alphabet.bits + 7) // 8
    assert np.array_equal(coder.decode(payload, shape), levels)


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    rough=st.lists(st.booleans(), max_size=5),
    seed=st.integers(0, 1000),
)
def test_payloads_decoded_together_are_those_decoded_alone(
    kind: str, rough: list[bool], seed: int
) -> None:
    coder, shape = CODERS[kind], (2, 4, 6, 6)
    alphabet = coder.model.alphabet
    tensors = [
        (np.random.default_rng(seed + n).integers(0, alphabet.count, shape) + alphabet.low)
        if wild  # and so sent plain
        else specimen.levels(shape, alphabet, seed=seed + n)
        for n, wild in enumerate(rough)
    ]
    payloads = [coder.encode(levels.astype(np.int16)) for levels in tensors]
    found = coder.decode_all(payloads, shape)
    assert found.dtype == np.int16
    assert np.array_equal(found, np.reshape(tensors, (2 * len(rough), *shape[1:])))


def test_more_than_a_plan_holds_are_decoded_in_several_goes() -> None:
    shape = (1, 4, 200, 200)  # one is more than half of what may be decoded at once
    tensors = [specimen.levels(shape, SMALL, seed=seed) for seed in range(3)]
    payloads = [TABLE.encode(levels) for levels in tensors]
    assert np.array_equal(TABLE.decode_all(payloads, shape), np.concatenate(tensors))


@pytest.mark.parametrize("kind", KINDS)
def test_one_bad_payload_among_good_ones_is_noticed(kind: str) -> None:
    coder = CODERS[kind]
    good = [
        coder.encode(specimen.levels(SHAPE, coder.model.alphabet, seed=seed)) for seed in range(3)
    ]
    for bad in (
        good[1][:-3],
        good[1] + b"\0",
        good[1][:9],
        b"",
        bytes([good[1][0]]) + good[2][1:-1],
    ):
        with pytest.raises(CodecError):
            coder.decode_all([good[0], bad, good[2]], SHAPE)


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 7)])
def test_fewer_axes(shape: tuple[int, ...]) -> None:
    levels = np.arange(np.prod(shape)).reshape(shape).astype(np.int16) % 13 - 6
    assert np.array_equal(TABLE.decode(TABLE.encode(levels), shape), levels)


def test_what_is_made_to_inflate_is_sent_plain() -> None:
    # The least likely level everywhere.
    levels = np.full(SHAPE, SMALL.low, dtype=np.int16)
    levels[:, :, ::2, ::2] = 6
    payload = TABLE.encode(levels)
    assert payload[0] == 0
    assert len(payload) == 5 + 480 * 4 // 8
    assert np.array_equal(TABLE.decode(payload, SHAPE), levels)


def test_the_rest_of_a_plain_payload_is_zero() -> None:
    alphabet = Alphabet(low=0, count=25)
    levels = np.full((1, 3, 1, 1), 24, dtype=np.int16)  # 15 bits
    coder = LevelCoder(fit_tables.fit([np.zeros((3, 4, 4), dtype=np.int16)], alphabet))
    payload = bytearray(coder.encode(levels))
    assert payload[0] == 0
    assert np.array_equal(coder.decode(payload, levels.shape), levels)
    payload[-1] ^= 1
    with pytest.raises(CodecError, match="last byte"):
        coder.decode(payload, levels.shape)


def test_wrong_tensors_are_refused() -> None:
    for shape in ((1, 3, 4, 4), (4,), (1, 4, 1, 1, 1), (1, 4, 512, 512)):
        with pytest.raises(ValueError, match="shape"):
            TABLE.encode(np.zeros(shape, dtype=np.int16))
        with pytest.raises(CodecError, match="shape"):
            TABLE.decode(b"\0" * 10, shape)
    for level in (-7, 7):
        with pytest.raises(ValueError, match="outside"):
            TABLE.encode(np.full(SHAPE, level, dtype=np.int16))


@pytest.mark.parametrize("kind", KINDS)
def test_other_tables_are_noticed(kind: str) -> None:
    payload = CODERS[kind].encode(specimen.levels(SHAPE, CODERS[kind].model.alphabet, seed=3))
    alphabet = CODERS[kind].model.alphabet
    others = [other for other in CODERS.values() if other.model is not CODERS[kind].model]
    others.append(LevelCoder(fit_tables.fit_static(calibration(alphabet), alphabet)))
    for other in others:
        with pytest.raises(CodecError):
            other.decode(payload, SHAPE)


def test_another_shape_is_noticed() -> None:
    plain = TABLE.encode(np.tile(np.array([-6, 6], dtype=np.int16), 240).reshape(SHAPE))
    coded = TABLE.encode(specimen.levels(SHAPE, SMALL, seed=3))
    assert (plain[0], coded[0]) == (0, 1)
    for payload in (plain, coded):
        with pytest.raises(CodecError):
            TABLE.decode(payload, (1, 4, 10, 12))
        with pytest.raises(CodecError):
            TABLE.decode(payload, (1, 4, 12, 11))


def payloads() -> list[tuple[LevelCoder, bytes]]:
    found = [
        (c, c.encode(specimen.levels(SHAPE, c.model.alphabet, seed=5))) for c in CODERS.values()
    ]
    random = np.random.default_rng(0)
    found += [
        (c, c.encode(random.integers(-6, 7, SHAPE).astype(np.int16)))
        for c in (CODERS["table"], CODERS["conv"])
    ]
    return found


PAYLOADS = payloads()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damage_is_always_noticed(data: st.DataObject) -> None:
    coder, payload = data.draw(st.sampled_from(PAYLOADS))
    damaged = bytearray(payload)
    match data.draw(st.sampled_from(["flip", "cut", "grow", "swap", "noise"])):
        case "flip":
            for at in data.draw(
                st.sets(st.integers(0, 8 * len(payload) - 1), min_size=1, max_size=4)
            ):
                damaged[at // 8] ^= 1 << at % 8
        case "cut":
            del damaged[data.draw(st.integers(0, len(payload) - 1)) :]
        case "grow":
            damaged += data.draw(st.binary(min_size=1, max_size=40))
        case "swap":
            at = data.draw(st.integers(0, len(payload) - 1))
            replacement = data.draw(st.binary(min_size=1, max_size=20))
            damaged[at : at + len(replacement)] = replacement
        case "noise":
            damaged = bytearray(damaged[:1] + data.draw(st.binary(max_size=700)))
    if bytes(damaged) != payload:
        with pytest.raises(CodecError):
            coder.decode(bytes(damaged), SHAPE)


def test_every_single_bit_counts() -> None:
    coder = CODERS["table"]
    levels = specimen.levels((1, 4, 3, 4), SMALL, seed=8)
    payload = coder.encode(levels)
    for at in range(8 * len(payload)):
        damaged = bytearray(payload)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(CodecError):
            coder.decode(damaged, levels.shape)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_frozen_vectors(vector: dict[str, Any], native: bool) -> None:
    data = bytes.fromhex(vector["model"])
    coder = LevelCoder(CodingModel.from_bytes(data), native=native)
    assert coder.model.to_bytes() == data
    shape = tuple(vector["shape"])
    levels = np.array(vector["levels"], dtype=np.int16).reshape(shape)
    payload = bytes.fromhex(vector["payload"])
    assert coder.encode(levels) == payload
    assert np.array_equal(coder.decode(payload, shape), levels)


def test_layouts_of_old_shapes_are_let_go() -> None:
    coder = LevelCoder(TABLE.model)
    for width in range(1, 9):
        levels = specimen.levels((1, 4, 5, width), SMALL, seed=width)
        assert np.array_equal(coder.decode(TABLE.encode(levels), levels.shape), levels)
    assert len(coder._layouts) == 4
