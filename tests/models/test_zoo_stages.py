"""ONNX stages of a small detector against plain loops, and cuts against the whole."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import tiny_darknet
from headtail_models.bundle.manifest import StageEntry
from headtail_models.stage import OnnxStage
from headtail_models.zoo.darknet import Convolution, Network, read_network
from headtail_models.zoo.stages import (
    ALIGNMENT,
    WEIGHTS,
    cut_name,
    cut_points,
    map_name,
    write_stage,
    write_weights,
)


@pytest.fixture(scope="module")
def network() -> Network:
    return read_network(tiny_darknet.CFG, tiny_darknet.weights())


@pytest.fixture(scope="module")
def folder(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stages")
    _write(network, folder)
    return folder


def _write(network: Network, folder: Path) -> dict[str, StageEntry]:
    parameters = write_weights(network, folder / WEIGHTS)
    entries = {
        "full": write_stage(
            network, folder / "full.onnx", after=-1, until=None, parameters=parameters
        )
    }
    for cut in cut_points(network):
        for name, after, until in (("head", -1, cut), ("tail", cut, None)):
            path = folder / f"{name}-{cut_name(cut)}.onnx"
            entries[path.stem] = write_stage(
                network, path, after=after, until=until, parameters=parameters
            )
    return entries


def _images(count: int) -> tiny_darknet.Floats:
    return np.random.default_rng(5).random((count, 3, 32, 32), dtype=np.float32)


def test_cuts_are_where_one_tensor_crosses(network: Network) -> None:
    # After layer 5 the route of layer 13 still needs layer 4.
    assert cut_points(network) == tiny_darknet.CUTS


def test_a_network_of_one_map_is_cut_up_to_its_last_convolution() -> None:
    cfg = (
        "[net]\nchannels=1\nheight=4\nwidth=4\n[maxpool]\nsize=1\n"
        "[convolutional]\nfilters=6\nactivation=linear\n[yolo]\nmask=0\nanchors=1,1\nclasses=1\n"
    )
    header = tiny_darknet.weights()[:20]
    assert cut_points(read_network(cfg, header + np.ones(12, "<f4").tobytes())) == (0,)


def test_full_model_computes_what_the_layers_say(network: Network, folder: Path) -> None:
    images = _images(3)
    outputs = OnnxStage(folder / "full.onnx").run({"image": images})
    assert set(outputs) == {"stride8", "stride4"}
    for index, image in enumerate(images):
        expected = tiny_darknet.run(network, image)
        np.testing.assert_allclose(outputs["stride8"][index], expected[9], atol=1e-4)
        np.testing.assert_allclose(outputs["stride4"][index], expected[15], atol=1e-4)


@pytest.mark.parametrize("cut", tiny_darknet.CUTS)
def test_head_and_tail_are_the_full_model(folder: Path, cut: int) -> None:
    images, name = _images(2), cut_name(cut)
    head = OnnxStage(folder / f"head-{name}.onnx").run({"image": images})
    outputs = OnnxStage(folder / f"tail-{name}.onnx").run(head)
    for output, values in OnnxStage(folder / "full.onnx").run({"image": images}).items():
        np.testing.assert_allclose(outputs[output], values, atol=1e-5)


def test_entries_describe_the_files(network: Network, tmp_path: Path) -> None:
    entries = _write(network, tmp_path)
    for name, entry in entries.items():
        assert entry.file == f"{name}.onnx"
        stage = OnnxStage(tmp_path / entry.file)
        assert stage.inputs == entry.inputs
        assert stage.outputs == entry.outputs
        onnx.checker.check_model(str(tmp_path / entry.file))
    for cut in tiny_darknet.CUTS:
        head, tail = entries[f"head-L{cut}"], entries[f"tail-L{cut}"]
        assert head.outputs == tail.inputs
        assert head.macs + tail.macs == entries["full"].macs


def test_weights_are_there_once_and_aligned(network: Network, folder: Path) -> None:
    parameters = write_weights(network, folder / WEIGHTS)
    assert all(parameter.offset % ALIGNMENT == 0 for parameter in parameters.values())
    assert len({parameter.offset for parameter in parameters.values()}) == 14
    assert sum(parameter.size_bytes for parameter in parameters.values()) == sum(
        4 * (layer.kernel.size + layer.bias.size)
        for layer in network.layers
        if isinstance(layer, Convolution)
    )
    for path in folder.glob("*.onnx"):
        assert path.stat().st_size < 8192
        for tensor in onnx.load(str(path), load_external_data=False).graph.initializer:
            assert tensor.name.endswith(".scales") or tensor.external_data[0].value == WEIGHTS


def test_the_same_network_gives_the_same_bytes(network: Network, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        _write(read_network(tiny_darknet.CFG, tiny_darknet.weights()), tmp_path / name)
    written = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(written) == 2 + 2 * len(tiny_darknet.CUTS)
    for name in written:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_map_names_are_their_strides(network: Network) -> None:
    assert [map_name(network, index) for index in (9, 15)] == ["stride8", "stride4"]
