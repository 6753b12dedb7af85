"""TensorFlow Lite Micro as oracle: somebody else's kernels on the same numbers."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from headtail.boards import heads
from headtail.boards.tflm import tflm_arena
from headtail_models.mcu.cut_reader import SAMPLES
from headtail_models.mcu.export import export_head
from headtail_models.mcu.layers import LayerKind, Shape
from headtail_models.mcu.parameters import Parameters
from headtail_models.mcu.program import Op, OpKind, Output, Program, Role
from headtail_models.mcu.ranges import Levels, Quantiser
from headtail_models.mcu.samples import read_npy
from headtail_models.mcu.sketch import GraphDrawing
from headtail_models.mcu.tflite import tflite_of
from headtail_models.mcu.twin import Twin, sums
from mcu_graphs import RELU, drawn_graph, drawn_samples, every_kind

tflite_micro = pytest.importorskip(
    "tflite_micro",
    reason="NOT CHECKED AGAINST TENSORFLOW LITE MICRO: there are wheels of tflite-micro for x86-64",
)

ARENA = 1_000_000
UNIT = 1.0


def tflm(program: Program, inputs: list[Levels]) -> list[list[Levels]]:
    """For each input the levels of each output."""
    interpreter = tflite_micro.runtime.Interpreter.from_bytes(tflite_of(program), arena_size=ARENA)
    found = []
    for levels in inputs:
        interpreter.set_input((levels.astype(np.int16) - 128).astype(np.int8)[np.newaxis], 0)
        interpreter.invoke()
        outputs = (interpreter.get_output(i)[0] for i in range(len(program.outputs)))
        found.append([(one.astype(np.int16) + 128).astype(np.uint8) for one in outputs])
    return found


def noise(program: Program, count: int) -> list[Levels]:
    rng = np.random.default_rng(7)
    return [rng.integers(0, 256, program.input_shape, dtype=np.uint8) for _ in range(count)]


def alone(program: Program, op: Op) -> Program:
    """One operation with one input as a program of its own."""
    scale = max(op.m1, op.m2) / 2.0**op.shift if op.kind is OpKind.ADDITION else UNIT
    return replace(
        program,
        ops=(op,),
        input_shape=op.source,
        input_offset=op.src,
        input_quantiser=Quantiser(scale=scale, zero=op.z_in),
        outputs=(
            Output(
                role=Role.FEATURES,
                shape=op.shape,
                offset=op.dst,
                size=op.shape.size,
                quantiser=Quantiser(scale=UNIT, zero=op.z_out),
            ),
        ),
        exit=None,
    )


def operations(programs: Iterator[Program]) -> Iterator[Program]:
    """Each operation alone, but for packing and additions of two different tensors."""
    for program in programs:
        for op in program.ops:
            two = op.kind is OpKind.ADDITION and op.src != op.src2
            if op.kind is not OpKind.PACK and not two:
                yield alone(program, op)


def drawn_programs() -> Iterator[Program]:
    yield heads.keyword_spotter()
    for seed in range(24):
        graph = drawn_graph(500 + seed)
        yield export_head(graph, drawn_samples(graph, seed=seed)).program


@pytest.fixture(scope="module")
def single() -> list[Program]:
    return list(operations(drawn_programs()))


def test_sums_are_those_of_tensorflow_to_the_bit(single: list[Program]) -> None:
    """Ours, made levels as TensorFlow does it, are what it leaves."""
    values = 0
    for program in single:
        (op,) = program.ops
        if op.kind not in (OpKind.CONVOLUTION, OpKind.DEPTHWISE):
            continue
        parameters = Parameters.of(op, program.blob)
        drop, multiplier, shift = parameters.factors.T
        (levels,) = noise(program, 1)
        exact = sums(op, parameters, levels.astype(np.int64)) - (1 << drop >> 1)
        steps = [
            doubly_rounded(
                exact[..., c], float(np.float32(multiplier[c] / 2.0 ** (drop[c] + shift[c])))
            )
            for c in range(op.shape.c)
        ]
        wanted = np.clip(np.stack(steps, axis=-1) + op.z_out, op.low, op.high)
        assert (tflm(program, [levels])[0][0] == wanted).all()
        values += wanted.size
    assert values > 50_000


def test_max_pools_are_the_same_and_the_rest_is_one_step_off_at_most(
    single: list[Program],
) -> None:
    differing: dict[OpKind, list[int]] = {}
    for program in single:
        inputs, twin = noise(program, 2), Twin(program)
        for levels, (found,) in zip(inputs, tflm(program, inputs), strict=True):
            away = np.abs(twin.run_levels(levels).levels[0].astype(np.int16) - found)
            assert away.max() <= 1
            counts = differing.setdefault(program.ops[0].kind, [0, 0])
            counts[0] += int(away.sum())
            counts[1] += away.size
    shares = {kind: off / size for kind, (off, size) in differing.items()}
    assert shares.keys() == set(OpKind) - {OpKind.PACK}
    assert shares[OpKind.MAX_POOL] == 0
    assert max(shares[OpKind.CONVOLUTION], shares[OpKind.DEPTHWISE]) < 0.01


def test_additions_of_two_tensors() -> None:
    drawing = GraphDrawing(Shape(9, 8, 6), seed=3).convolution(6).named("a")
    drawing.depthwise((3, 3), pads=(1, 1, 1, 1)).add("a", drawing.last, clamp=RELU)
    program = export_head(drawing.end(), drawn_samples(drawing.end())).program
    # What both sides of the addition may be off by, and its own rounding.
    check(program, noise(program, 8), most=2)


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_a_head_with_every_kind_of_layer(bits: int) -> None:
    graph = every_kind()
    program = export_head(graph, drawn_samples(graph), bits=bits, logits=["logits"]).program
    check(program, noise(program, 8), most=2)


def test_means_whose_window_reaches_outside() -> None:
    drawing = GraphDrawing(Shape(5, 5, 3)).pool(
        LayerKind.AVERAGE_POOL, (3, 3), stride=(2, 2), pads=(2, 2, 1, 1)
    )
    program = export_head(drawing.end(), drawn_samples(drawing.end())).program
    check(program, noise(program, 4), most=1)


def test_a_keyword_spotter() -> None:
    program = heads.keyword_spotter()
    check(program, noise(program, 8), most=2)


@pytest.mark.parametrize("name", heads.RELEASED)
def test_released_heads_on_their_own_samples(tmp_path: Path, name: str) -> None:
    program = heads.released(name, tmp_path / "bundle")
    samples = read_npy(tmp_path / "bundle" / SAMPLES, program.input_shape)
    assert program.exit is not None
    inputs = [program.input_quantiser.levels(one) for one in samples[:40]]
    twin, logits = Twin(program), program.exit.output
    for levels, found in zip(inputs, check(program, inputs, most=3), strict=True):
        assert twin.run_levels(levels).levels[logits].argmax() == found[logits].argmax()


def test_its_planner_does_not_find_a_smaller_arena() -> None:
    program = heads.keyword_spotter()
    arena = tflm_arena(tflite_of(program))
    assert program.arena <= arena.tensors
    assert arena.structures > 0
    with pytest.raises(RuntimeError, match="TensorFlow Lite Micro"):
        tflm_arena(b"nothing")


def check(program: Program, inputs: list[Levels], *, most: int) -> list[list[Levels]]:
    """TensorFlow's outputs, none of whose levels is further than `most` from the board's."""
    twin = Twin(program)
    found = tflm(program, inputs)
    for levels, outputs in zip(inputs, found, strict=True):
        for ours, theirs in zip(twin.run_levels(levels).levels, outputs, strict=True):
            assert np.abs(ours.astype(np.int16) - theirs).max() <= most
    return found


def doubly_rounded(total: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    """total * factor by gemmlowp's doubling high multiply and a shift, each with a rounding of its
    own (Jacob et al., CVPR 2018, 2.2), halves away from zero."""
    mantissa, exponent = math.frexp(factor)
    multiplier = round(mantissa * 2**31)
    product = (total << max(exponent, 0)) * multiplier
    high = np.sign(product) * ((np.abs(product) + (1 << 30)) >> 31)
    shift = max(-exponent, 0)
    result: NDArray[np.int64] = np.sign(high) * ((np.abs(high) + (1 << shift >> 1)) >> shift)
    return result
