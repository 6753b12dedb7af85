import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coding_contexts import ALPHABET, conv_context, table_context
from headtail_fabric.rans import specimen
from headtail_fabric.rans.context import Context
from headtail_fabric.rans.conv_context import taps
from headtail_fabric.rans.frequencies import STATE_BITS
from headtail_fabric.rans.wavefront import MAX_ELEMENTS, Margin, Wavefront, four_axes


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["table", "conv1", "conv2"]),
    shape=st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 7), st.integers(1, 7)),
    tensors=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_reader_sees_what_the_surveys_saw(
    kind: str, shape: tuple[int, int, int, int], tensors: int, seed: int
) -> None:
    channels = shape[1]
    context: Context
    if kind == "table":
        context = table_context(channels, seed)
    else:
        context = conv_context(channels, seed, radius=int(kind[-1]))
    symbols = [
        specimen.levels(shape, ALPHABET, seed=seed + number).astype(np.int32)
        for number in range(tensors)
    ]
    plan = context.plan(shape)
    surveys = [plan.survey(own) for own in symbols]
    tables, codes = (np.stack(rows) for rows in zip(*surveys, strict=True))
    assert codes.min() >= 0
    assert codes.max() < 12
    reader = plan.reader(tensors)
    for first, last in itertools.pairwise(plan.starts):
        assert np.array_equal(reader.bases(), tables[:, first:last] << STATE_BITS)
        reader.put(codes[:, first:last])
    assert np.array_equal(reader.symbols(), np.concatenate(symbols))


def test_table_context_follows_its_formula() -> None:
    context = table_context(2, seed=5)
    symbols = specimen.levels((1, 2, 4, 5), ALPHABET, seed=1).astype(np.int32)
    x = symbols[0] - context.centres[:, np.newaxis, np.newaxis]

    def at(channel: int, row: int, column: int) -> int:
        return int(x[channel, row, column]) if channel >= 0 and row >= 0 and column >= 0 else 0

    numbers = context.cell_numbers(symbols)[0]
    for channel, row, column in np.ndindex(2, 4, 5):
        seen = [
            at(channel, row, column - 1),
            at(channel, row - 1, column),
            at(channel, row - 1, column - 1),
            *(at(int(other), row, column) for other in context.references[channel]),
        ]
        bins = []
        for kind, (inputs, last) in enumerate(((seen, 31), ([abs(v) for v in seen], 7))):
            weights = context.weights[channel, kind].tolist()
            total = sum(w * v for w, v in zip(weights, inputs, strict=True))
            bins.append(min(max(total + int(context.biases[channel, kind]) >> 10, 0), last))
        assert numbers[channel, row, column] == (channel * 8 + bins[1]) * 32 + bins[0]


def test_convolution_sums_are_exact_integers() -> None:
    context = conv_context(3, seed=2, weights2=np.full((6, 6), 30_000, dtype=np.int16))
    assert max(context.bounds()) > 2**24  # beyond what float32 would hold
    symbols = specimen.levels((1, 3, 5, 6), ALPHABET, seed=3).astype(np.int32)
    plan = context.plan((1, 3, 5, 6))
    padded = np.zeros((3, 7, 10), dtype=np.int64)
    padded[:, 2:, 2:8] = symbols[0] - context.centres[:, np.newaxis, np.newaxis]
    means, tables = np.zeros((3, 5, 6), dtype=int), np.zeros((3, 5, 6), dtype=int)
    for row, column in np.ndindex(5, 6):
        seen = [
            [padded[c, row + 2 + up, column + 2 + left] for up, left in taps(2)] for c in range(3)
        ]
        sums = np.einsum("hck,ck->h", context.weights1.astype(np.int64), np.array(seen))
        sums = sums + context.biases1 >> 6
        hidden = np.clip(np.maximum(sums, sums >> 3), -32767, 32767)
        outputs = context.weights2.astype(np.int64) @ hidden + context.biases2 >> 10
        means[:, row, column] = outputs[:3] // 8
        tables[:, row, column] = np.clip(outputs[3:], 0, 15) * 8 + outputs[:3] % 8
    found_tables, codes = plan.survey(symbols)
    order = plan.wave.order
    assert np.array_equal(found_tables, tables.reshape(-1)[order])
    expected = (padded[:, 2:, 2:8] - means) % 12
    assert np.array_equal(codes, expected.reshape(-1)[order])


def test_an_element_comes_after_all_that_it_looks_at() -> None:
    margin = Margin(top=1, left=1, right=0)
    wave = Wavefront((1, 2, 6, 7), slope=1, delays=[0, 1], margin=margin)
    flat = np.empty(84, dtype=int)
    for number, span in enumerate(wave.spans()):
        flat[wave.order[span]] = number
    place = flat.reshape(2, 6, 7)
    assert (place[:, :, 1:] > place[:, :, :-1]).all()
    assert (place[:, 1:] > place[:, :-1]).all()
    assert (place[1] > place[0]).all()
    assert len(wave.spans()) == 6 + 7 - 1 + 1


def test_axes() -> None:
    assert four_axes((2, 3)) == (2, 3, 1, 1)
    assert four_axes((2, 3, 9)) == (2, 3, 1, 9)
    for shape in ((3,), (1, 2, 3, 4, 5), (1, 0, 2, 2), (-1, 2), (1, MAX_ELEMENTS + 1)):
        with pytest.raises(ValueError, match="shape"):
            four_axes(shape)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"references": np.full((2, 3), 1, dtype=np.int16)}, "earlier"),
        ({"references": np.full((2, 3), -2, dtype=np.int16)}, "earlier"),
        ({"weights": np.zeros((2, 2, 5), dtype=np.int16)}, "weights of shape"),
        ({"centres": np.zeros(0, dtype=np.int16)}, "centres of shape"),
    ],
)
def test_bad_table_contexts_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        table_context(2, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"radius": 3}, "radius"),
        ({"shift1": 30}, "shifts"),
        ({"centres": np.full(2, 12, dtype=np.int16)}, "centres"),
        ({"weights2": np.zeros((3, 6), dtype=np.int16)}, "weights2 of shape"),
        ({"biases1": np.zeros(0, dtype=np.int32)}, "hidden"),
        ({"biases2": np.full(4, 2**31 - 1, dtype=np.int32)}, "32 bits"),
    ],
)
def test_bad_convolutions_are_refused(changes: dict[str, Any], words: str) -> None:
    weights = np.zeros((6, 2, 12), dtype=np.int16)
    with pytest.raises(ValueError, match=words):
        conv_context(2, **({"weights1": weights} | changes))


@pytest.mark.parametrize("context", [table_context(2), conv_context(2)])
def test_contexts_check_what_they_are_used_with(context: Context) -> None:
    context.check(tables=128, symbols=12)
    with pytest.raises(ValueError, match=r"table|symbols"):
        context.check(tables=5, symbols=12)
    with pytest.raises(ValueError, match="symbols"):
        context.check(tables=128, symbols=3)
    with pytest.raises(ValueError, match="channels"):
        context.plan((1, 3, 4, 4))
