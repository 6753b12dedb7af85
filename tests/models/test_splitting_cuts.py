"""Cutting hand-made ONNX graphs, one for each oddity that real exports have."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import tiny_darknet
from headtail_models.splitting import OnnxModel, open_model
from headtail_models.splitting.errors import (
    FreeAxisError,
    MalformedGraphError,
    NotACutError,
    UnequalError,
    UnknownTensorError,
)
from headtail_models.zoo.darknet import read_network
from headtail_models.zoo.stages import WEIGHTS, cut_name, write_stage, write_weights

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
CHAIN = """
g (float[N,4] x) => (float[N,4] y) {
  a = Relu(x)
  b = Neg(a)
  y = Exp(b)
}
"""


def model_of(body: str, *, header: str = HEADER) -> Any:
    return parser.parse_model(header + body)


def opened(model: Any, folder: Path, **options: Any) -> OnnxModel:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    (folder / "work").mkdir()
    return open_model(path, folder / "work", **options)


def names(model: OnnxModel, **options: Any) -> list[str]:
    return [cut.name for cut in model.cuts(**options)]


def check_all(model: OnnxModel) -> int:
    """Every cut that is found equals the whole; how many there are."""
    cuts = model.cuts()
    for cut in cuts:
        model.verify(model.split(cut))
    return len(cuts)


def test_a_chain_is_cut_everywhere_with_a_free_batch(tmp_path: Path) -> None:
    model = opened(model_of(CHAIN), tmp_path)
    assert names(model) == ["a", "b"]
    assert model.census.batches == (1, 3)
    cut = model.cut_at("a")
    assert cut.crossing[0].shape == (1, 4)
    assert cut.crossing[0].batched
    assert cut.size_bytes == 16
    split = model.split(cut)
    assert [one.name for one in split.head.graph.output] == ["a"]
    assert [one.name for one in split.tail.graph.input] == ["a"]
    assert model.verify(split).runs == 2


def test_a_fixed_batch_stays(tmp_path: Path) -> None:
    model = opened(model_of(CHAIN.replace("[N,", "[1,")), tmp_path)
    assert model.census.batches == (1,)
    assert not model.cut_at("a").crossing[0].batched
    assert check_all(model) == 2


def test_branches_cross_together(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x) => (float[N,4] y) {
  a = Relu(x)
  b = Neg(a)
  c = Exp(a)
  d = Abs(c)
  y = Add(b, d)
}"""),
        tmp_path,
    )
    assert names(model) == ["a", "a+b", "a+c", "b+c", "a+d", "b+d"]
    assert names(model, max_crossing=1) == ["a"]
    assert {one.node for one in model.obstacles(model.cuts(max_crossing=1), max_crossing=1)} >= {
        "Neg_1",
        "Exp_2",
    }
    model.verify(model.split(model.cut_at("b", "d")))
    with pytest.raises(NotACutError, match="'a' would cross, too") as caught:
        model.cut_at("b")
    assert caught.value.facts["others"] == ("a",)
    check_all(model)


def test_an_input_passes_by_where_the_tail_reads_it(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x) => (float[N,4] y) {
  a = Relu(x)
  b = Neg(a)
  y = Add(b, x)
}"""),
        tmp_path,
    )
    assert names(model) == ["a+x", "b+x"]
    assert names(model, max_crossing=1) == []
    cut = model.cut_at("b", "x")
    assert cut == model.cut_at("b")
    assert [one.name for one in cut.passed] == ["x"]
    assert cut.size_bytes == 32
    assert check_all(model) == 2


def test_an_early_output_stays_with_the_head(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x) => (float[N,4] first, float[N,4] second) {
  a = Relu(x)
  first = Neg(a)
  b = Exp(a)
  second = Abs(b)
}"""),
        tmp_path,
    )
    early = {cut.name: cut.early for cut in model.cuts()}
    assert early["a"] == ()
    assert early["b"] == ("first",)
    # By the name that the list has, though `a` alone would have to cross with the smallest head.
    assert model.cut_at("b").early == ("first",)
    check_all(model)


def test_shared_and_constant_parameters_are_on_both_sides(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,2] x) => (float[N,2] y)
<float[2,2] w = {1, 2, 3, 4}, float[2,2] unused = {1, 2, 3, 4}> {
  two = Constant<value = float {2.0}>()
  half = Reciprocal(two)
  a = MatMul(x, w)
  b = Mul(a, half)
  c = MatMul(b, w)
  y = Mul(c, half)
}"""),
        tmp_path,
    )
    assert names(model) == ["a", "b", "c"]
    split = model.split(model.cut_at("b"))
    for part in (split.head, split.tail):
        assert [one.name for one in part.graph.initializer] == ["w"]
        assert "Reciprocal" in [node.op_type for node in part.graph.node]
    assert check_all(model) == 3
    for constant in ("w", "half"):
        with pytest.raises(NotACutError, match="is a constant"):
            model.cut_at(constant)


def test_initialisers_listed_as_inputs_are_constants(tmp_path: Path) -> None:
    old = model_of(
        """
g (float[N,2] x, float[2,2] w) => (float[N,2] y)
<float[2,2] w = {1, 2, 3, 4}> {
  a = MatMul(x, w)
  y = MatMul(a, w)
}""",
        header='<ir_version: 3, opset_import: ["" : 9]>',
    )
    model = opened(old, tmp_path)
    assert [spec.name for spec in model.specs] == ["x"]
    assert check_all(model) == 1


def test_an_unused_input_and_dead_nodes_are_left_out(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x, float[N,9] unused) => (float[N,4] y) {
  a = Relu(x)
  dead = Exp(a)
  y = Neg(a)
}"""),
        tmp_path,
    )
    assert names(model) == ["a"]
    split = model.split(model.cut_at("a"))
    assert [one.name for one in split.head.graph.input] == ["x"]
    model.verify(split)
    with pytest.raises(UnknownTensorError):
        model.cut_at("dead")


def test_control_flow_stays_whole_and_its_captures_cross(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x, bool c) => (float[N,4] y)
<float one = {1.0}> {
  a = Relu(x)
  b = Neg(a)
  d = If (c) <
    then_branch = yes () => (float[N,4] t) { t = Add(a, one) },
    else_branch = no () => (float[N,4] e) { e = Sub(b, one) }
  >
  y = Exp(d)
}"""),
        tmp_path,
    )
    # The condition is an input that the If reads in the tail.
    assert names(model) == ["a+c", "a+b+c", "d"]
    split = model.split(model.cut_at("a", "b"))
    assert [one.name for one in split.tail.graph.initializer] == ["one"]
    assert check_all(model) == 3
    reasons = {one.op: one.reason for one in model.obstacles(model.cuts())}
    assert "2 nodes inside" in reasons["If"]


def test_branches_that_want_other_sizes(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,W] x, bool c) => (float[M] y)
<int64[2] four = {-1, 4}, int64[2] three = {-1, 3}> {
  a = Neg(x)
  b = If (c) <
    then_branch = yes () => (float[P] t) {
      s = Reshape(a, four)
      t = ReduceMax<axes = [1], keepdims = 0>(s)
    },
    else_branch = no () => (float[Q] e) {
      u = Reshape(a, three)
      e = ReduceMax<axes = [1], keepdims = 0>(u)
    }
  >
  y = Exp(b)
}"""),
        tmp_path,
        shapes={"x": (1, 8)},
    )
    assert names(model) == ["a+c", "b"]
    assert check_all(model) == 2


def test_a_loop_captures_through_two_levels(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("Add", ["before", "outer"], ["after"])],
        "then",
        [],
        [helper.make_tensor_value_info("after", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["before"], ["same"])],
        "else",
        [],
        [helper.make_tensor_value_info("same", TensorProto.FLOAT, None)],
    )
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["go_on"]),
            helper.make_node("If", ["going"], ["next"], then_branch=inner, else_branch=other),
        ],
        "body",
        [
            helper.make_tensor_value_info("count", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["outer"]),
            helper.make_node("Neg", ["outer"], ["start"]),
            helper.make_node("Loop", ["trips", "yes", "start"], ["end"], body=body),
            helper.make_node("Exp", ["end"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [
            numpy_helper.from_array(np.array(3, np.int64), "trips"),
            numpy_helper.from_array(np.array(True), "yes"),
        ],
    )
    model = opened(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path,
    )
    assert names(model) == ["outer", "outer+start", "end"]
    assert check_all(model) == 3


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    model = opened(
        model_of(
            """
g (float[N,4] x) => (float[N,4] y) {
  a = local.twice(x)
  y = local.twice(a)
}
<opset_import: ["" : 17], domain: "local">
twice (u) => (w) {
  v = Relu(u)
  w = Add(v, v)
}""",
            header='<ir_version: 8, opset_import: ["" : 17, "local" : 1]>',
        ),
        tmp_path,
    )
    assert "a" in names(model)
    assert check_all(model) == 3
    assert not model.split(model.cut_at("a")).head.functions


def test_unnamed_and_equally_named_nodes_are_told_apart(tmp_path: Path) -> None:
    proto = model_of(CHAIN)
    for node in proto.graph.node[:2]:
        node.name = "same"
    model = opened(proto, tmp_path)
    labels = [node.label for node in model.graph.nodes]
    assert labels == ["same", "same#1", "Exp_2"]
    assert check_all(model) == 2


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    proto = model_of(CHAIN)
    nodes = list(proto.graph.node)[::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    model = opened(proto, tmp_path)
    assert [node.outputs[0] for node in model.graph.nodes] == ["a", "b", "y"]
    model.split(model.cut_at("a"))


def test_a_shape_that_stays_in_the_head_is_made_anew_in_the_tail(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,2,6] x) => (float[N,12] y)
<int64[1] zero = {0}, int64[1] minus = {-1}> {
  a = Relu(x)
  shape = Shape(x)
  n = Gather(shape, zero)
  to = Concat<axis = 0>(n, minus)
  b = Neg(a)
  y = Reshape(b, to)
}"""),
        tmp_path,
    )
    assert names(model) == ["a", "b"]
    cut = model.cut_at("b")
    assert cut.rebuilt == ("shape",)
    assert [one.name for one in model.split(cut).tail.graph.input] == ["b"]
    assert check_all(model) == 2
    with pytest.raises(NotACutError, match="shape alone"):
        model.cut_at("n")


def test_what_lies_between_two_cuts_is_a_model_of_its_own(tmp_path: Path) -> None:
    """A shape that the first cut left in the head is made anew in the segment as in the tail."""
    model = opened(
        model_of("""
g (float[N,2,6] x) => (float[N,12] y)
<int64[1] zero = {0}, int64[1] minus = {-1}> {
  a = Relu(x)
  shape = Shape(x)
  n = Gather(shape, zero)
  to = Concat<axis = 0>(n, minus)
  b = Neg(a)
  c = Reshape(b, to)
  y = Abs(c)
}"""),
        tmp_path,
    )
    first, last = model.cut_at("b"), model.cut_at("c")
    segment = model.segment(first, last)
    assert [one.name for one in segment.graph.input] == ["b"]
    assert [one.name for one in segment.graph.output] == ["c"]
    assert "Abs" not in [node.op_type for node in segment.graph.node]
    b = np.random.default_rng(0).normal(size=(3, 2, 6)).astype(np.float32)
    passed = model.load(segment, "segment").run({"b": b}, ["c"])
    rest = model.load(model.split(last).tail, "rest").run(passed, ["y"])
    whole = model.load(model.split(first).tail, "whole").run({"b": b}, ["y"])
    np.testing.assert_array_equal(rest["y"], whole["y"])


def test_a_shape_crosses_where_nothing_tells_the_batch(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x) => (float[N,1] y)
<int64[1] one = {1}, int64[1] zero = {0}> {
  shape = Shape(x)
  n = Gather(shape, zero)
  total = ReduceSum<keepdims = 0>(x)
  half = Abs(total)
  to = Concat<axis = 0>(n, one)
  y = Expand(half, to)
}"""),
        tmp_path,
    )
    assert names(model) == ["total+shape", "half+shape"]
    assert model.cut_at("half").size_bytes == 4 + 16
    assert check_all(model) == 2


def test_names_that_inference_misses_are_found_by_running(tmp_path: Path) -> None:
    # How many values are not zero is known to no inference.
    model = opened(
        model_of("""
g (float[N,4] x) => (int64[K] y) {
  a = Relu(x)
  found = NonZero(a)
  b = Neg(found)
  y = ReduceSum<keepdims = 0>(b)
}"""),
        tmp_path,
    )
    found = model.cut_at("found")
    assert found.crossing[0].dtype == "int64"
    assert not found.crossing[0].proven
    tail = model.split(found).tail.graph.input[0].type.tensor_type
    assert not any(axis.HasField("dim_value") for axis in tail.shape.dim)
    zeros = {"x": np.zeros((1, 4), np.float32)}
    assert model.verify(model.split(found), [zeros]).runs == 3


def test_what_is_no_plain_tensor_does_not_cross(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x) => (float[N,2] y)
<int64 first = {0}, int64 two = {2}> {
  a = Relu(x)
  parts = SplitToSequence<axis = 1>(a, two)
  y = SequenceAt(parts, first)
}"""),
        tmp_path,
    )
    assert names(model) == ["a"]
    (obstacle,) = model.obstacles(model.cuts())
    assert obstacle.op == "SplitToSequence"
    assert "'parts' is not a plain tensor" in obstacle.reason
    check_all(model)


def test_random_numbers_inside_are_found_out(tmp_path: Path) -> None:
    model = opened(
        model_of("""
g (float[N,4] x) => (float[N,4] y) {
  a = Relu(x)
  r = RandomUniformLike(a)
  y = Add(a, r)
}"""),
        tmp_path,
    )
    with pytest.raises(UnequalError, match="differs"):
        model.verify(model.split(model.cut_at("a")))


def test_a_free_axis_wants_a_size(tmp_path: Path) -> None:
    body = CHAIN.replace("[N,4]", "[N,W]")
    with pytest.raises(FreeAxisError, match="'W'"):
        opened(model_of(body), tmp_path)
    (tmp_path / "sized").mkdir()
    model = opened(model_of(body), tmp_path / "sized", shapes={"x": (1, 5)})
    assert model.cut_at("a").crossing[0].shape == (1, 5)
    assert check_all(model) == 2


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("g (float[4] x) => (float[4] y) { y = Relu(nothing) }", "which nothing writes"),
        ("g (float[4] x) => (float[4] y) { a = Relu(x) a = Neg(x) y = Exp(a) }", "two nodes"),
        ("g (float[4] x) => (float[4] y) { a = Relu(b) b = Neg(a) y = Exp(a) }", "waits for"),
        ("g (float[4] x) => (float[4] y) { a = Relu(x) }", "no node writes"),
    ],
)
def test_graphs_that_contradict_themselves(tmp_path: Path, body: str, told: str) -> None:
    with pytest.raises(MalformedGraphError, match=told):
        opened(model_of(body), tmp_path)


def test_what_is_no_place_to_cut(tmp_path: Path) -> None:
    model = opened(model_of(CHAIN), tmp_path)
    with pytest.raises(UnknownTensorError, match="'nowhere'"):
        model.cut_at("nowhere")
    with pytest.raises(NotACutError, match="is an input"):
        model.cut_at("x")
    with pytest.raises(NotACutError, match="nothing is left"):
        model.cut_at("y")
    with pytest.raises(NotACutError, match="nothing behind reads 'a'"):
        model.cut_at("a", "b")


def test_a_detector_is_cut_where_its_recipe_says(tmp_path: Path) -> None:
    network = read_network(tiny_darknet.CFG, tiny_darknet.weights())
    parameters = write_weights(network, tmp_path / WEIGHTS)
    path = tmp_path / "full.onnx"
    entry = write_stage(network, path, after=-1, until=None, parameters=parameters)
    (tmp_path / "work").mkdir()
    model = open_model(path, tmp_path / "work")
    found = set(names(model))
    assert {cut_name(layer) for layer in tiny_darknet.CUTS} <= found
    assert sum(model.macs.by_node.values()) == entry.macs
    assert check_all(model) == len(found)


def test_onnx_finds_the_parts_in_order(tmp_path: Path) -> None:
    model = opened(model_of(CHAIN), tmp_path)
    split = model.split(model.cut_at("b"))
    for part in (split.head, split.tail, model.whole()):
        onnx.checker.check_model(part, full_check=True)
