import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric.codec import CodecError, Quantiser
from headtail_fabric.rans import (
    AffineLevels,
    Alphabet,
    CodingModel,
    LevelCoder,
    RansCodec,
    StepLevels,
    fit_conv,
    fit_tables,
    specimen,
)

SHAPE = (1, 3, 8, 8)
ALPHABET = Alphabet(low=0, count=16)
LEVELS = [specimen.levels(SHAPE, ALPHABET, seed=seed) for seed in range(8)]
TABLE = fit_tables.fit(LEVELS, ALPHABET, tables=8, tiles=(2, 1))
CONV = fit_conv.fit(LEVELS, ALPHABET, fit_conv.Recipe(hidden=4, radius=1, steps=5, batch=32))


@pytest.mark.parametrize("model", [TABLE, CONV], ids=["table", "conv"])
def test_a_model_comes_back_from_its_file(model: CodingModel) -> None:
    data = model.to_bytes()
    found = CodingModel.from_bytes(data)
    assert found.to_bytes() == data
    assert found.tiles == model.tiles
    assert found.digest == model.digest
    payload = LevelCoder(model).encode(LEVELS[0])
    assert np.array_equal(LevelCoder(found).decode(payload, SHAPE), LEVELS[0])


@given(st.sampled_from([TABLE, CONV]), st.data())
def test_damaged_files_are_refused(model: CodingModel, data: st.DataObject) -> None:
    damaged = bytearray(model.to_bytes())
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]
    with pytest.raises(CodecError, match="coding model"):
        CodingModel.from_bytes(bytes(damaged))


@given(st.sampled_from([TABLE, CONV]), st.integers(0, 60), st.integers(0, 255))
def test_files_that_lie_with_a_right_checksum_are_refused_or_work(
    model: CodingModel, at: int, value: int
) -> None:
    body = bytearray(model.to_bytes()[:-4])
    body[at] = value
    data = bytes(body) + zlib.crc32(body).to_bytes(4, "little")
    try:
        found = CodingModel.from_bytes(data)
    except CodecError:
        return
    levels = np.full((1, found.context.channels, 3, 3), found.alphabet.low, dtype=np.int16)
    coder = LevelCoder(found)
    assert np.array_equal(coder.decode(coder.encode(levels), levels.shape), levels)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:4] + b"\x02" + data[5:], "version 2"),
        (lambda data: data[:5] + b"\x02" + data[6:], "kind 2"),
        (lambda data: data[:-1], "too early"),
        (lambda data: data[:20], "too early"),
        (lambda data: data + b"\0", "1 bytes too many"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(change: Callable[[bytes], bytes], words: str) -> None:
    data = change(TABLE.to_bytes()[:-4])
    with pytest.raises(CodecError, match=words):
        CodingModel.from_bytes(data + zlib.crc32(data).to_bytes(4, "little"))


def test_parts_must_fit() -> None:
    with pytest.raises(ValueError, match="symbols"):
        CodingModel(alphabet=Alphabet(low=0, count=8), context=TABLE.context, tables=TABLE.tables)
    with pytest.raises(ValueError, match="tiles"):
        CodingModel(alphabet=ALPHABET, context=TABLE.context, tables=TABLE.tables, tiles=(0, 1))
    with pytest.raises(ValueError, match="tables"):
        CodingModel(alphabet=ALPHABET, context=CONV.context, tables=TABLE.tables)
    with pytest.raises(ValueError, match="levels"):
        Alphabet(low=0, count=257)


def quantiser(channels: int = 3) -> Quantiser:
    return Quantiser(np.full(channels, -1, np.float32), np.full(channels, 2, np.float32))


@pytest.mark.parametrize("bits", range(2, 9))
def test_the_codec_loses_what_the_quantiser_loses(bits: int) -> None:
    scales = AffineLevels(quantiser(), bits=bits)
    levels = [specimen.levels(SHAPE, scales.alphabet, seed=seed) for seed in range(6)]
    codec = RansCodec(scales, fit_tables.fit(levels, scales.alphabet, tables=8))
    tensor = np.random.default_rng(1).normal(0.5, 1, SHAPE).astype(np.float32)
    tensor[0, 0, 0, :3] = [np.nan, np.inf, -np.inf]
    payload = codec.encode(tensor)
    assert codec.id == "rans"
    assert len(payload) <= codec.max_bytes(SHAPE) == 5 + (192 * bits + 7) // 8
    found = codec.decode(payload, SHAPE)
    assert found.dtype == np.float32
    inside = np.abs(tensor - 0.5) < 1.5
    step = 3 / (2**bits - 1)
    assert np.abs(found - tensor)[inside].max() <= step / 2 + 1e-5


def test_latents_saturate() -> None:
    alphabet = Alphabet(low=-3, count=7)
    scales = StepLevels(steps=np.array([0.5, 2.0, 1.0], np.float32), alphabet=alphabet)
    levels = [specimen.levels(SHAPE, alphabet, seed=seed) for seed in range(4)]
    codec = RansCodec(scales, fit_tables.fit(levels, alphabet, tables=4))
    tensor = np.zeros(SHAPE, np.float32)
    tensor[0, :, 0, 0] = [1.1, -3.1, 100]
    tensor[0, 0, 1, :3] = [np.nan, np.inf, -np.inf]
    found = codec.decode(codec.encode(tensor), SHAPE)
    assert found[0, :, 0, 0].tolist() == [1, -4, 3]
    named = RansCodec(scales, fit_tables.fit(levels, alphabet, tables=4), codec_id="rans-fine")
    assert named.id == "rans-fine"
    assert found[0, 0, 1, :3].tolist() == [-1.5, 1.5, -1.5]
    assert not tensor[0, 1, 1].any()


@pytest.mark.parametrize("steps", [[0.0], [-1.0], [np.nan], [np.inf], []])
def test_bad_steps_are_refused(steps: list[float]) -> None:
    with pytest.raises(ValueError, match="steps"):
        StepLevels(steps=np.array(steps, np.float32), alphabet=ALPHABET)


def test_codec_refuses_what_does_not_belong_together() -> None:
    for scales in (AffineLevels(quantiser(4), bits=4), AffineLevels(quantiser(3), bits=5)):
        with pytest.raises(ValueError, match="channels"):
            RansCodec(scales, TABLE)
    with pytest.raises(ValueError, match="bits"):
        AffineLevels(quantiser(), bits=9)


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (3,), (1, 3, 8, 8, 1)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    codec = RansCodec(AffineLevels(quantiser(), bits=4), TABLE)
    with pytest.raises(ValueError, match="shape"):
        codec.encode(np.zeros(shape, np.float32))
    with pytest.raises(CodecError, match="shape"):
        codec.decode(b"\0", shape)


@pytest.mark.parametrize("fit", [fit_tables.fit, fit_tables.fit_static, fit_conv.fit])
def test_bad_calibration_sets_are_refused(fit: Any) -> None:
    with pytest.raises(ValueError, match="no calibration"):
        fit([], ALPHABET)
    with pytest.raises(ValueError, match="channels"):
        fit([LEVELS[0], np.zeros((1, 2, 8, 8), np.int16)], ALPHABET)
    with pytest.raises(ValueError, match="calibration"):
        fit([np.full(SHAPE, 16, np.int16)], ALPHABET)
    with pytest.raises(ValueError, match="calibration"):
        fit([np.zeros((0, *SHAPE[1:]), np.int16)], ALPHABET)
