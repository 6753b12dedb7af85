"""The coder in C makes and reads the very bytes of the one in numpy."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coding_contexts import ALPHABET, conv_context, table_context
from headtail_fabric.codec import CodecError
from headtail_fabric.rans import CodingModel, LevelCoder, fit_tables, native, specimen
from headtail_fabric.rans.conv_context import ConvContext
from headtail_fabric.rans.frequencies import FrequencyTables, from_counts
from headtail_fabric.rans.table_context import TableContext


def tables(count: int, sharp: float, seed: int) -> FrequencyTables:
    random = np.random.default_rng(seed)
    return from_counts(random.dirichlet(np.full(ALPHABET.count, sharp), count))


def coders(
    context: ConvContext | TableContext, *, tiles: tuple[int, int] = (1, 1), sharp: float = 0.2
) -> tuple[LevelCoder, LevelCoder]:
    """In C and in numpy."""
    count = 128 if isinstance(context, ConvContext) else 9
    model = CodingModel(
        alphabet=ALPHABET, context=context, tables=tables(count, sharp, 1), tiles=tiles
    )
    return LevelCoder(model), LevelCoder(model, native=False)


def drawn(context: str, channels: int, hidden: int, seed: int) -> ConvContext | TableContext:
    if context == "table":
        return table_context(channels, seed)
    return conv_context(channels, seed, radius=int(context[-1]), hidden=hidden)


@pytest.fixture
def forgotten() -> Iterator[None]:
    """The library is looked for anew, and again afterwards."""
    native.library.cache_clear()
    yield
    native.library.cache_clear()


def test_it_was_compiled() -> None:
    # A C compiler is among what `make test` asks for; without this all below would test nothing.
    assert native.library() is not None


@settings(max_examples=150, deadline=None)
@given(
    context=st.sampled_from(["table", "conv1", "conv2"]),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 16), st.integers(1, 16)),
    hidden=st.sampled_from([1, 6, 31, 32, 33, 70]),
    tiles=st.sampled_from([(1, 1), (2, 3), (4, 1)]),
    sharp=st.sampled_from([0.02, 0.2, 5.0]),
    rough=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_both_write_the_same_bytes(
    context: str,
    shape: tuple[int, int, int, int],
    hidden: int,
    tiles: tuple[int, int],
    sharp: float,
    rough: bool,
    seed: int,
) -> None:
    in_c, in_numpy = coders(drawn(context, shape[1], hidden, seed), tiles=tiles, sharp=sharp)
    if rough:
        symbols = np.random.default_rng(seed).integers(0, 12, shape).astype(np.int16)
    else:
        symbols = specimen.levels(shape, ALPHABET, seed=seed)
    payload = in_numpy.encode(symbols)
    assert in_c.encode(symbols) == payload
    twice = in_c.decode_all([payload, payload], shape)
    assert np.array_equal(twice, np.concatenate([symbols, symbols]))


def largest_sums() -> ConvContext:
    """Weights whose sums nearly fill 32 bits, of either sign."""
    signs = np.resize(np.array([1, -1, -1], dtype=np.int16), (10, 5))
    return conv_context(
        5,
        hidden=5,
        weights1=np.full((5, 5, 12), 32_767, dtype=np.int16),
        shift1=0,
        weights2=signs * np.int16(13_000),
        shift2=20,
    )


@pytest.mark.parametrize("seed", range(5))
def test_sums_at_their_limits(seed: int) -> None:
    context = largest_sums()
    assert max(context.bounds()) > 2**31 - 2**25
    in_c, in_numpy = coders(context, sharp=5.0)
    shape = (1, 5, 9, 8)
    symbols = np.random.default_rng(seed).integers(0, 12, shape).astype(np.int16)
    assert in_c.encode(symbols) == in_numpy.encode(symbols)


def test_long_payloads_double_their_lanes_alike() -> None:
    shape = (1, 4, 60, 60)
    model = fit_tables.fit([specimen.levels(shape, ALPHABET, seed=1)], ALPHABET, tables=16)
    in_c, in_numpy = LevelCoder(model), LevelCoder(model, native=False)
    symbols = specimen.levels(shape, ALPHABET, seed=2)
    payload = in_numpy.encode(symbols)
    assert payload[0] == 1
    assert payload[1] & 15 >= 3
    assert in_c.encode(symbols) == payload
    assert np.array_equal(in_c.decode(payload, symbols.shape), symbols)


SHAPE = (1, 4, 8, 8)


def damaged_by(data: st.DataObject, payload: bytes) -> bytes:
    damaged = bytearray(payload)
    for at in data.draw(st.lists(st.integers(1, len(payload) - 1), max_size=8)):
        damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(payload)))
    return bytes(damaged[:cut]) + data.draw(st.binary(max_size=30))


@settings(max_examples=300, deadline=None)
@given(context=st.sampled_from(["table", "conv2"]), data=st.data())
def test_both_judge_damaged_payloads_alike(context: str, data: st.DataObject) -> None:
    in_c, in_numpy = coders(drawn(context, 4, 6, 0))
    payload = in_numpy.encode(specimen.levels(SHAPE, ALPHABET, seed=1))
    damaged = damaged_by(data, payload)
    if damaged == payload:
        return
    said = []
    for coder in (in_c, in_numpy):
        with pytest.raises(CodecError) as caught:
            coder.decode(damaged, SHAPE)
        said.append(caught.value.message)
    assert said[0] == said[1]


def test_not_wanted(monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    monkeypatch.setenv(native.SWITCH, "0")
    assert native.library() is None


def test_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forgotten: None) -> None:
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "_kernels.so")
    assert native.library() is None
    in_c, in_numpy = coders(table_context(4))
    symbols = specimen.levels(SHAPE, ALPHABET, seed=1)
    assert in_c.encode(symbols) == in_numpy.encode(symbols)


def test_not_a_library(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    forgotten: None,
) -> None:
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"\x7fELF and nothing more")
    monkeypatch.setattr(native, "LIBRARY", broken)
    assert native.library() is None
    assert "can't be loaded" in caplog.text


def test_of_another_version(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, forgotten: None
) -> None:
    monkeypatch.setattr(native, "_VERSION", 7)
    assert native.library() is None
    assert "install again" in caplog.text
