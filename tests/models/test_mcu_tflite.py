"""Programs as TensorFlow Lite networks: what becomes of what. What they compute is checked where
TensorFlow Lite Micro is installed (`test_mcu_tflm`)."""

import numpy as np
import pytest

from headtail_models.mcu.dataflow import Dataflow
from headtail_models.mcu.export import export_head
from headtail_models.mcu.layers import HeadGraph, LayerKind, Shape
from headtail_models.mcu.program import Program
from headtail_models.mcu.quantise import settled
from headtail_models.mcu.ranges import Quantiser, calibrate
from headtail_models.mcu.sketch import GraphDrawing
from headtail_models.mcu.tflite import network_of, tflite_of
from headtail_models.mcu.tflite_file import Network, Operator, OperatorKind, Padding
from mcu_graphs import RELU, drawn_samples, every_kind


def exported(graph: HeadGraph, *, bits: int = 8) -> Program:
    return export_head(graph, drawn_samples(graph), bits=bits).program


def kinds(network: Network) -> list[OperatorKind]:
    return [operator.kind for operator in network.operators]


def test_each_layer_becomes_one_operator_where_there_is_one() -> None:
    drawing = GraphDrawing(Shape(8, 6, 3)).convolution(8, clamp=RELU).depthwise((3, 3))
    network = network_of(exported(drawing.pool(LayerKind.MAX_POOL, (2, 2)).end()))
    assert kinds(network) == [
        OperatorKind.CONV_2D,
        OperatorKind.DEPTHWISE_CONV_2D,
        OperatorKind.MAX_POOL_2D,
    ]
    shapes = [network.tensors[one.output].shape for one in network.operators]
    assert shapes == [(1, 8, 6, 8), (1, 6, 4, 8), (1, 5, 3, 8)]


@pytest.mark.parametrize(
    ("pads", "stride", "padding"),
    [
        ((0, 0, 0, 0), (1, 1), Padding.VALID),
        ((1, 1, 1, 1), (1, 1), Padding.SAME),
        ((0, 0, 1, 1), (2, 2), Padding.SAME),
        ((1, 1, 0, 0), (2, 2), None),
        ((2, 0, 2, 0), (1, 1), None),
    ],
)
def test_padding_is_explicit_only_where_no_kind_of_it_fits(
    pads: tuple[int, ...], stride: tuple[int, int], padding: Padding | None
) -> None:
    drawing = GraphDrawing(Shape(8, 8, 2)).convolution(4, (3, 3), pads=pads, stride=stride)
    program = exported(drawing.end())
    network = network_of(program)
    if padding is not None:
        assert kinds(network) == [OperatorKind.CONV_2D]
        assert network.operators[0].padding is padding
        return
    pad, convolution = network.operators
    assert pad.kind is OperatorKind.PADV2
    assert convolution.padding is Padding.VALID
    fill = network.tensors[pad.inputs[2]].data
    assert fill is not None
    assert fill.tolist() == [program.ops[0].z_in - 128]


def test_padding_never_wins_a_max_pool() -> None:
    drawing = GraphDrawing(Shape(7, 7, 2)).pool(LayerKind.MAX_POOL, (3, 3), pads=(2, 2, 2, 2))
    network = network_of(exported(drawing.end()))
    fill = network.tensors[network.operators[0].inputs[2]].data
    assert fill is not None
    assert fill.tolist() == [-128]


def test_a_clamp_inside_the_range_stands_behind() -> None:
    graph = GraphDrawing(Shape(4, 4, 2)).convolution(4, clamp=(-0.2, 0.3)).end()
    wide = {graph.layers[0].output: Quantiser(scale=0.01, zero=100)}
    network = network_of(export_head(graph, drawn_samples(graph), ranges=wide).program)
    assert kinds(network) == [OperatorKind.CONV_2D, OperatorKind.MAXIMUM, OperatorKind.MINIMUM]
    bounds = [network.tensors[one.inputs[1]].data for one in network.operators[1:]]
    assert [bound.tolist() for bound in bounds if bound is not None] == [[80 - 128], [130 - 128]]
    assert network.outputs == (network.operators[-1].output,)


def test_what_is_packed_is_left_as_levels() -> None:
    program = exported(GraphDrawing(Shape(4, 4, 2)).convolution(4).end(), bits=4)
    network = network_of(program)
    assert kinds(network) == [OperatorKind.CONV_2D, OperatorKind.MINIMUM]
    bound = network.tensors[network.operators[1].inputs[1]].data
    assert bound is not None
    assert bound.tolist() == [15 - 128]
    output = network.tensors[network.outputs[0]]
    assert output.scales.tolist() == [np.float32(program.outputs[0].quantiser.scale)]


def test_flattening_is_a_reshape() -> None:
    network = network_of(exported(GraphDrawing(Shape(3, 3, 2)).convolution(4).dense(5).end()))
    assert kinds(network) == [OperatorKind.CONV_2D, OperatorKind.RESHAPE, OperatorKind.CONV_2D]
    assert network.tensors[network.operators[1].output].shape == (1, 1, 1, 36)


def test_means_are_convolutions_with_ones() -> None:
    drawing = GraphDrawing(Shape(5, 4, 3)).pool(LayerKind.AVERAGE_POOL, (5, 4))
    network = network_of(exported(drawing.end()))
    (mean,) = network.operators
    assert mean.kind is OperatorKind.DEPTHWISE_CONV_2D
    weights = network.tensors[mean.inputs[1]]
    assert weights.data is not None
    assert (weights.data == 1).all()
    assert weights.shape == (1, 5, 4, 3)


def test_a_tensor_that_lies_over_another_is_told_from_it() -> None:
    drawing = GraphDrawing(Shape(6, 6, 4)).convolution(4).depthwise((3, 3), pads=(1, 1, 1, 1))
    program = exported(drawing.add("t1", clamp=RELU).end())
    assert program.ops[1].src == program.ops[1].dst
    assert Dataflow.of(program).inputs == ((0,), (1,), (2,))


def test_scales_follow_through_additions() -> None:
    graph = every_kind()
    samples = drawn_samples(graph)
    program = export_head(graph, samples).program
    flow = Dataflow.of(program)
    (step,) = (at for at, inputs in enumerate(flow.inputs) if len(inputs) > 1)
    scales = flow.scales(program)
    quantisers = settled(graph, calibrate(graph, samples, bits={}))
    layer = next(one for one in graph.layers if len(one.inputs) > 1)
    for value, name in zip(flow.inputs[step], layer.inputs, strict=True):
        wanted = quantisers[name].scale / quantisers[layer.output].scale
        assert scales[value] / scales[step + 1] == pytest.approx(wanted, rel=1e-5)
    assert scales[0] == program.input_quantiser.scale
    assert [scales[at] for at in flow.outputs] == [o.quantiser.scale for o in program.outputs]


def test_the_file_has_its_constants_aligned() -> None:
    program = exported(every_kind())
    network, data = network_of(program), tflite_of(program)
    assert data[4:8] == b"TFL3"
    found = 0
    for operator in network.operators:
        for weights in _constants(network, operator):
            at = data.index(weights)
            found += at % 16 == 0
    assert found > 10


def _constants(network: Network, operator: Operator) -> list[bytes]:
    tensors = (network.tensors[at] for at in operator.inputs)
    return [t.data.tobytes() for t in tensors if t.data is not None and t.data.size > 3]
