"""YAMNet read out of its asset's kind of file, in ONNX and in torch: the same numbers."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from headtail_models.nets.yamnet import YamnetNet
from headtail_models.stage import OnnxStage
from headtail_models.zoo import yamnet_reader
from headtail_models.zoo.yamnet_graph import graph, layer_name
from headtail_models.zoo.yamnet_layers import CLASSES, LAYERS, Yamnet, YamnetError, shape
from headtail_models.zoo.yamnet_stages import write_stages
from random_yamnet import random_yamnet

PATCHES = np.random.default_rng(1).normal(size=(3, 1, 96, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def network() -> Yamnet:
    return random_yamnet()


@pytest.fixture(scope="module")
def model(network: Yamnet) -> Any:
    return graph(network)


def run(model: Any, patches: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    session = ort.InferenceSession(model.SerializeToString())
    found: np.ndarray[Any, Any] = session.run(None, {"patch": patches})[0]
    return found


def quantising(model: Any) -> tuple[Any, bytes]:
    """As the asset has it: parameters outside, nodes that quantise them before each convolution."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    data = bytearray()
    nodes = []
    for node in other.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            name = node.input[1]
            nodes.append(helper.make_node("QuantizeLinear", [name, "s", "z"], [f"{name}_q"]))
            nodes.append(
                helper.make_node("DequantizeLinear", [f"{name}_q", "s", "z"], [f"{name}_dq"])
            )
            node.input[1] = f"{name}_dq"
    nodes += other.graph.node
    del other.graph.node[:]
    other.graph.node.extend(nodes)
    for tensor in other.graph.initializer:
        if len(tensor.dims) < 2:
            continue
        values = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", "model.data"),
            ("offset", len(data)),
            ("length", values.nbytes),
        ):
            tensor.external_data.add(key=key, value=str(value))
        data += values.tobytes()
    return other, bytes(data)


def asset(folder: Path, model: Any, data: bytes) -> dict[str, Path]:
    archive = folder / yamnet_reader.ARCHIVE
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("job/model.onnx", model.SerializeToString())
        file.writestr("job/model.data", data)
    names = folder / yamnet_reader.CLASS_MAP
    rows = [f'{number},/m/{number},"Sound, {number}"' for number in range(CLASSES)]
    names.write_text("\n".join(["index,mid,display_name", *rows]), encoding="utf-8")
    return {path.name: path for path in (archive, names)}


def test_the_shapes_are_those_of_the_authors() -> None:
    assert shape(0) == (1, 96, 64)
    assert [shape(number) for number in (1, 3, 6, 14)] == [
        (32, 48, 32),
        (128, 24, 16),
        (256, 12, 8),
        (1024, 3, 2),
    ]


def test_multiplications_add_up(network: Yamnet) -> None:
    whole = network.macs(after=0, until=None)
    assert whole == 69_165_056
    for number in range(LAYERS + 1):
        assert network.macs(after=0, until=number) + network.macs(after=number, until=None) == whole
    assert network.macs(after=0, until=3) / whole < 0.11


def test_odd_padding_lies_at_the_end(network: Yamnet) -> None:
    assert network.layers[0][0].pads == (0, 1)
    assert network.layers[1][0].pads == (1, 1)
    assert network.layers[1][1].pads == (0, 0)


def test_onnx_and_torch_agree(network: Yamnet, model: Any) -> None:
    onnx.checker.check_model(model, full_check=True)
    torch.set_num_threads(1)
    net = YamnetNet(network).eval()
    with torch.no_grad():
        found = net(torch.from_numpy(PATCHES)).numpy()
        kept = dict(net.walk(torch.from_numpy(PATCHES), after=0))
        again = net.finish(kept[5], after=5).numpy()
    wanted = run(model, PATCHES)
    scale = np.abs(wanted).max()
    assert np.abs(found - wanted).max() / scale < 1e-4
    assert np.abs(again - wanted).max() / scale < 1e-4
    assert [tuple(tensor.shape[1:]) for tensor in kept.values()] == [
        shape(number) for number in range(1, LAYERS + 1)
    ]


def test_what_the_asset_holds_is_read_exactly(network: Yamnet, model: Any, tmp_path: Path) -> None:
    files = asset(tmp_path, *quantising(model))
    found = yamnet_reader.read(files)
    for mine, its in zip(network.layers, found.layers, strict=True):
        for one, other in zip(mine, its, strict=True):
            np.testing.assert_array_equal(one.kernel, other.kernel)
            np.testing.assert_array_equal(one.bias, other.bias)
            assert (one.stride, one.groups) == (other.stride, other.groups)
    np.testing.assert_array_equal(found.classifier, network.classifier)
    assert yamnet_reader.labels(files)[7] == "Sound, 7"


def test_damage_to_the_asset_is_named(model: Any, tmp_path: Path) -> None:
    other, data = quantising(model)
    with pytest.raises(YamnetError, match="lies outside"):
        yamnet_reader.network(other, data[:1000])
    poisoned = np.frombuffer(data, "<f4").copy()
    poisoned[5] = np.nan
    with pytest.raises(YamnetError, match="finite"):
        yamnet_reader.network(other, poisoned.tobytes())
    other.graph.initializer[0].dims[:] = [1]
    with pytest.raises(YamnetError, match="has shape"):
        yamnet_reader.network(other, data)
    other.graph.node.pop()
    del other.graph.node[:60]
    with pytest.raises(YamnetError, match="convolutions"):
        yamnet_reader.network(other, data)
    archive = tmp_path / yamnet_reader.ARCHIVE
    archive.write_bytes(b"no archive")
    with pytest.raises(YamnetError, match="zip"):
        yamnet_reader.read({yamnet_reader.ARCHIVE: archive})
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("job/model.onnx", b"\xff\xff")
        file.writestr("job/model.data", b"")
    with pytest.raises(YamnetError, match="not an ONNX file"):
        yamnet_reader.read({yamnet_reader.ARCHIVE: archive})
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("job/model.onnx", b"")
    with pytest.raises(YamnetError, match=r"model\.data"):
        yamnet_reader.read({yamnet_reader.ARCHIVE: archive})


def test_another_graph_is_refused(model: Any) -> None:
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for attribute in other.graph.node[0].attribute:
        if attribute.name == "pads":
            attribute.ints[:] = [1, 1, 1, 1]
    with pytest.raises(YamnetError, match="pads"):
        yamnet_reader.network(other, b"")


def test_too_few_labels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / yamnet_reader.CLASS_MAP
    path.write_text("index,mid,display_name\n0,/m/0,Speech\n", encoding="utf-8")
    with pytest.raises(YamnetError, match="names 1 classes"):
        yamnet_reader.labels({path.name: path})


def test_layers_have_the_names_of_their_tensors(model: Any) -> None:
    made = {name for node in model.graph.node for name in node.output}
    assert {layer_name(number) for number in range(1, LAYERS + 1)} < made
    assert layer_name(0) == "patch"


def test_head_and_tail_of_a_cut_are_the_whole(network: Yamnet, tmp_path: Path) -> None:
    stages = write_stages(network, tmp_path, (1, 6, 14))
    assert list(stages.cuts) == ["L1", "L6", "L14"]
    whole = OnnxStage(tmp_path / stages.full.file).run({"patch": PATCHES})["logits"]
    for name, cut in stages.cuts.items():
        assert cut.head.macs + cut.tail.macs == stages.full.macs
        assert cut.head.outputs == cut.tail.inputs
        crossing = OnnxStage(tmp_path / cut.head.file).run({"patch": PATCHES})
        assert crossing[name].shape == (3, *shape(int(name[1:])))
        found = OnnxStage(tmp_path / cut.tail.file).run(crossing)["logits"]
        np.testing.assert_allclose(found, whole, atol=1e-4 * np.abs(whole).max())
        if cut.segment is None:
            assert name == "L14"
            continue
        until = stages.cuts[cut.segment.until]
        assert cut.segment.stage.macs + until.tail.macs == cut.tail.macs
        passed = OnnxStage(tmp_path / cut.segment.stage.file).run(crossing)
        found = OnnxStage(tmp_path / until.tail.file).run(passed)["logits"]
        np.testing.assert_allclose(found, whole, atol=1e-4 * np.abs(whole).max())
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.pop("weights.bin") > 14_000_000
    assert max(sizes.values()) < 100_000
