"""Float heads to blobs, and what the blobs compute."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from headtail_models.mcu.errors import (
    CalibrationError,
    FeaturesError,
    McuError,
    OutOfRangeError,
    UnsupportedLayerError,
)
from headtail_models.mcu.export import ExitWish, export_head
from headtail_models.mcu.features import decode_features, pack, unpack
from headtail_models.mcu.fidelity import compare
from headtail_models.mcu.floats import run_floats
from headtail_models.mcu.layers import HeadGraph, LayerKind, Shape
from headtail_models.mcu.program import Criterion, Exit, OpKind, Role, golden_input
from headtail_models.mcu.ranges import Quantiser
from headtail_models.mcu.sketch import GraphDrawing
from headtail_models.mcu.twin import Twin
from mcu_graphs import RELU, drawn_graph, drawn_samples, every_kind


def test_integers_are_close_to_the_floats() -> None:
    graph = every_kind()
    samples = drawn_samples(graph, count=32)
    program = export_head(graph, samples, logits=["logits"]).program
    for output in compare(graph, program, samples).outputs:
        assert output.error < 0.06, output


@pytest.mark.parametrize("seed", range(16))
def test_any_chain_of_layers(seed: int) -> None:
    graph = drawn_graph(seed)
    samples = drawn_samples(graph, count=24, seed=seed)
    (output,) = compare(graph, export_head(graph, samples).program, samples).outputs
    assert output.error < 0.15


def test_fewer_bits_are_packed_and_coarser() -> None:
    graph = every_kind()
    samples = drawn_samples(graph, count=16)
    errors = []
    for bits in (8, 4, 2):
        program = export_head(graph, samples, bits=bits, logits=["logits"]).program
        features = program.outputs[0]
        assert features.size == -(-features.shape.size * bits // 8)
        outcome = Twin(program).run(samples[:1])[0]
        assert len(outcome.packed[0]) == features.size
        assert outcome.levels[0].max() < 2**bits
        errors.append(compare(graph, program, samples).outputs[0].error)
    assert errors == sorted(errors)


def test_the_exit_comes_first_and_decides_as_softmax_does() -> None:
    graph = every_kind()
    samples = drawn_samples(graph, count=64)
    wish = ExitWish(output="logits", threshold=0.85, temperature=0.3)
    program = export_head(graph, samples, bits=4, exit=wish).program
    assert program.exit is not None
    assert 0 < program.exit.ops < len(program.ops)
    output = program.outputs[program.exit.output]
    assert output.role is Role.LOGITS
    exited = 0
    for outcome in Twin(program).run(samples):
        logits = output.quantiser.reals(outcome.levels[program.exit.output]).reshape(-1) / 0.3
        probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        if abs(probabilities.max() - 0.85) > 1e-3:
            assert outcome.exited == (probabilities.max() >= 0.85)
        exited += outcome.exited
    assert 0 < exited < 64


def test_margin_is_between_the_two_most_likely() -> None:
    leave = Exit.at(
        ops=1, output=0, scale=0.1, temperature=1, criterion=Criterion.MARGIN, threshold=0.5
    )
    assert leave.takes(np.array([200, 150, 100], dtype=np.uint8))
    assert not leave.takes(np.array([200, 199, 0], dtype=np.uint8))
    assert leave.takes(np.array([7], dtype=np.uint8))


def test_golden_vector_is_what_the_ops_leave() -> None:
    graph = every_kind()
    program = export_head(graph, drawn_samples(graph)).program
    noise = np.frombuffer(golden_input(program.seed, graph.input_shape.size), dtype=np.uint8)
    left = Twin(program).trace(noise.reshape(graph.input_shape))
    assert [zlib.crc32(values) for values in left] == [op.crc for op in program.ops]


def test_depthwise_and_addition_lie_over_their_input() -> None:
    graph = (
        GraphDrawing(Shape(8, 8, 8))
        .convolution(8)
        .depthwise((3, 3), pads=(1, 1, 1, 1))
        .add("t1", clamp=RELU)
        .end()
    )
    program = export_head(graph, drawn_samples(graph)).program
    assert program.ops[1].src == program.ops[1].dst == program.ops[2].dst
    assert program.arena < 2 * 8 * 8 * 8 + 3 * 10 * 8 + 100


def test_a_depthwise_convolution_that_runs_ahead_does_not() -> None:
    graph = GraphDrawing(Shape(8, 8, 8)).depthwise((2, 2), pads=(1, 1, 1, 1)).end()
    program = export_head(graph, drawn_samples(graph)).program
    assert program.ops[0].src != program.ops[0].dst


def test_lone_channels_with_large_bias() -> None:
    graph = GraphDrawing(Shape(1, 1, 4)).convolution(3).end()
    layer = graph.layers[0]
    weights = layer.weights.copy()
    weights[0] = 0
    weights[1] *= 1e-12
    layer = replace(layer, weights=weights, bias=np.array([5, -3, 0], dtype=np.float32))
    graph = replace(graph, layers=(layer,))
    samples = drawn_samples(graph)
    outcome = Twin(export_head(graph, samples).program).run(samples)[0]
    output = export_head(graph, samples).program.outputs[0]
    assert output.quantiser.reals(outcome.levels[0]).reshape(-1)[:2] == pytest.approx(
        [5, -3], abs=output.quantiser.scale
    )


def test_packing_is_undone() -> None:
    rng = np.random.default_rng(3)
    for bits in (2, 4, 8):
        for size in (1, 7, 8, 13):
            levels = rng.integers(0, 2**bits, size, dtype=np.uint8)
            packed = pack(levels, bits=bits)
            assert packed.size == -(-size * bits // 8)
            assert (unpack(packed, bits=bits, size=size) == levels).all()


def test_a_tail_gets_what_the_network_left_channels_first() -> None:
    graph = every_kind()
    samples = drawn_samples(graph, count=16)
    program = export_head(graph, samples, logits=["logits"]).program
    (payload, _) = Twin(program).run(samples[:1])[0].packed
    found = decode_features(program.outputs[0], payload)
    wanted = run_floats(graph, samples[:1])["features"].transpose(0, 3, 1, 2)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() < 0.2 * wanted.max()
    with pytest.raises(FeaturesError, match="bytes"):
        decode_features(program.outputs[0], payload[1:])


def test_quantisers_keep_zero() -> None:
    quantiser = Quantiser(scale=0.5, zero=3, bits=4)
    assert quantiser.level(0) == 3
    assert quantiser.level(float("inf")) == 15
    assert quantiser.level(float("-inf")) == 0


@pytest.mark.parametrize(
    "shape", [(0, 11, 7, 3), (4, 11, 7), (4, 7, 11, 3)], ids=["none", "flat", "turned"]
)
def test_samples_that_do_not_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(CalibrationError):
        export_head(every_kind(), np.zeros(shape, dtype=np.float32))


def test_samples_that_are_not_finite() -> None:
    graph = every_kind()
    with pytest.raises(CalibrationError, match="finite"):
        export_head(graph, drawn_samples(graph) * np.float32("nan"))


def test_an_output_that_is_not_there() -> None:
    graph = every_kind()
    with pytest.raises(McuError, match="the model has features, logits"):
        export_head(graph, drawn_samples(graph), exit=ExitWish(output="exit", threshold=0.5))


def test_a_layer_that_is_too_wide_says_by_how_much() -> None:
    graph = GraphDrawing(Shape(1, 1, 33_010)).convolution(1).end()
    with pytest.raises(OutOfRangeError, match="10 more than 33000"):
        export_head(graph, drawn_samples(graph, count=1))


def test_weights_that_are_not_finite() -> None:
    graph = GraphDrawing(Shape(1, 1, 4)).convolution(3).convolution(2).end()
    weights = graph.layers[0].weights * np.float32("nan")
    broken = replace(graph.layers[0], weights=weights)
    with pytest.raises(OutOfRangeError, match="t0"):
        export_head(_with(graph, broken), drawn_samples(graph))


def test_few_bits_behind_a_max_pool() -> None:
    graph = GraphDrawing(Shape(4, 4, 2)).pool(LayerKind.MAX_POOL, (2, 2)).end()
    with pytest.raises(UnsupportedLayerError, match="1x1 convolution"):
        export_head(graph, drawn_samples(graph), bits=4)


def test_additions_of_one_tensor_are_clamps() -> None:
    graph = GraphDrawing(Shape(4, 4, 2)).convolution(3).add("t0", clamp=RELU).end("t0", "t1")
    samples = drawn_samples(graph)
    program = export_head(graph, samples).program
    assert program.ops[1].kind is OpKind.ADDITION
    assert program.ops[1].m2 == 0
    assert compare(graph, program, samples).outputs[1].error < 0.02


def _with(graph: HeadGraph, first: object) -> HeadGraph:
    return replace(graph, layers=(first, *graph.layers[1:]))  # type: ignore[arg-type]
