"""MobileNetV2: in torch, as a file of weights, and as ONNX."""

import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import nn

from headtail_models.bundle import open_bundle, write_bundle
from headtail_models.nets.mobilenet_v2 import (
    LAST,
    ConvNormActivation,
    MobileNetV2,
    fold_norms,
    frozen,
    pooled,
)
from headtail_models.zoo.mobilenet_v2 import (
    NAME,
    NATURAL_CUTS,
    PREPROCESS,
    labels,
    normalised,
    write,
    write_graph,
)
from headtail_models.zoo.mobilenet_v2_errors import WeightsError
from headtail_models.zoo.mobilenet_v2_graph import BLOCKS, network_of
from headtail_models.zoo.mobilenet_v2_weights import read_parameters
from headtail_models.zoo.records import Accuracy, read_calibration


@pytest.fixture(scope="module")
def state() -> dict[str, Any]:
    """Parameters of a network whose norms have seen something."""
    torch.manual_seed(0)
    net = MobileNetV2()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = 0.1 * torch.randn(module.num_features)
            module.running_var = torch.rand(module.num_features) + 0.5
            nn.init.uniform_(module.weight, 0.8, 1.5)
            nn.init.normal_(module.bias, std=0.1)
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def test_its_size_is_that_of_the_paper(state: dict[str, Any]) -> None:
    net = MobileNetV2()
    assert len(state) == 314
    assert sum(parameter.numel() for parameter in net.parameters()) == 3_504_872
    assert len(net.features) == LAST + 1 == BLOCKS
    names = {"features.0.0.weight", "features.1.conv.1.weight", "features.18.1.running_var"}
    assert names | {"features.17.conv.3.bias", "classifier.1.weight"} <= set(state)


def test_folding_changes_nothing(state: dict[str, Any]) -> None:
    net = MobileNetV2()
    net.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()})
    net.eval()
    folded = frozen(state)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert not any(parameter.requires_grad for parameter in folded.parameters())
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(net(images), folded(images), atol=1e-4)


def test_folding_one_convolution() -> None:
    layer = ConvNormActivation(3, 4, kernel=3, stride=2, groups=1).eval()
    images = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        before = layer(images)
        fold_norms(nn.ModuleList([layer]))
        assert torch.allclose(layer(images), before, atol=1e-5)


def test_it_may_be_left_and_entered_anywhere(state: dict[str, Any]) -> None:
    net = frozen(state)
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        outputs = dict(net.walk(images, after=-1))
        assert sorted(outputs) == list(range(LAST + 1))
        whole = net(images)
        for number in (0, 6, 17):
            assert torch.allclose(net.finish(outputs[number], after=number), whole, atol=1e-5)
        assert torch.allclose(net.classifier(pooled(outputs[LAST])), whole, atol=1e-5)
        assert dict(net.walk(images, after=-1, until=2)).keys() == {0, 1, 2}
    assert net.block(2).residual is False
    assert net.block(3).residual is True


def test_parameters_that_are_missing(state: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match=r"features\.0\.0\.weight"):
        frozen({name: values for name, values in state.items() if name != "features.0.0.weight"})


def test_onnx_is_equal_to_torch(state: dict[str, Any], tmp_path: Path) -> None:
    write_graph(state, tmp_path / "whole.onnx")
    session = ort.InferenceSession(tmp_path / "whole.onnx", providers=["CPUExecutionProvider"])
    net = frozen(state)
    for batch in (1, 8):
        images = torch.randn(batch, 3, 224, 224) if batch == 1 else torch.rand(8, 3, 224, 224)
        (logits,) = session.run(None, {"image": images.numpy()})
        with torch.no_grad():
            wanted = net(images).numpy()
        assert np.abs(logits - wanted).max() <= 1e-4 * max(1.0, np.abs(wanted).max())


def test_a_graph_of_other_parameters(state: dict[str, Any]) -> None:
    with pytest.raises(WeightsError, match="no parameter"):
        network_of({})
    with pytest.raises(WeightsError, match="shape"):
        network_of(state | {"classifier.1.weight": np.zeros((10, 1280), np.float32)})
    with pytest.raises(WeightsError, match="finite"):
        network_of(state | {"classifier.1.bias": np.full(1000, np.nan, np.float32)})
    with pytest.raises(WeightsError, match="channels"):
        network_of(state | {"features.0.0.weight": np.zeros((32, 4, 3, 3), np.float32)})
    with pytest.raises(WeightsError, match="kernel"):
        network_of(state | {"features.0.0.weight": np.zeros(32, np.float32)})


def test_weights_are_read_without_torch(tmp_path: Path) -> None:
    tensors = OrderedDict(
        {
            "a.weight": torch.randn(4, 3, 2, 2),
            "a.count": torch.tensor(7),
            "a.bias": torch.randn(5),
        }
    )
    path = tmp_path / "weights.pth"
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    found = read_parameters(path)
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert np.array_equal(found[name], tensor.numpy())
        assert found[name].shape == tuple(tensor.shape)


class _Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run by the file",)


def _five_pickles(third: object) -> bytes:
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    return b"".join(pickle.dumps(part, protocol=2) for part in (*head, third, []))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        pickle.dumps(5),
        _five_pickles({"a": _Harmful()}),
        _five_pickles({"a": 5}),
        _five_pickles(struct.Struct),
    ],
    ids=["empty", "text", "number", "harmful", "no tensor", "module"],
)
def test_what_is_no_file_of_weights(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(data)
    with pytest.raises(WeightsError):
        read_parameters(path)
    assert capsys.readouterr().out == ""


def test_weights_that_end_too_early(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({"a": torch.randn(100)}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(WeightsError):
        read_parameters(path)
    with pytest.raises(WeightsError):
        read_parameters(tmp_path / "none.pth")


def test_names_of_the_classes(tmp_path: Path) -> None:
    path = tmp_path / "imagenet1k_clean_names.json"
    files = {path.name: path}
    path.write_text(str([f"class {at}" for at in range(1000)]).replace("'", '"'))
    assert labels(files)[999] == "class 999"
    for text in ("[]", "{", '{"a": 1}'):
        path.write_text(text)
        with pytest.raises(WeightsError):
            labels(files)


def test_planes_are_normalised() -> None:
    grey = np.full((1, 3, 2, 2), 0.5, dtype=np.float32)
    found = normalised(grey)[0, :, 0, 0]
    wanted = [(0.5 - m) / s for m, s in zip(PREPROCESS.mean, PREPROCESS.std, strict=True)]
    assert found == pytest.approx(wanted, rel=1e-5)


def test_the_bundle_of_any_such_network(state: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    manifest = write(
        state,
        tuple(f"class {at}" for at in range(1000)),
        tmp_path / "stages",
        calibration=read_calibration(NAME),
        accuracy=Accuracy(network=NAME, metric="top-1", split="none", full_value=0.5, cuts={}),
    )
    bundle = open_bundle(write_bundle(tmp_path / "stages", manifest, tmp_path / "bundle"))
    assert round(manifest.full.macs / 1e6) == 301
    assert [cut.name for cut in manifest.cuts] == [
        *(f"f{number}" for number in NATURAL_CUTS),
        "bottleneck",
    ]
    assert bundle.cut("bottleneck").head.macs < 0.25 * manifest.full.macs
    for cut in manifest.cuts:
        if cut.segment is not None:
            bundle.open_stage(cut.segment.stage)
    leads_to = {cut.name: cut.segment.until for cut in manifest.cuts if cut.segment is not None}
    assert (leads_to["f1"], leads_to["f16"], leads_to["bottleneck"]) == ("f2", "f17", "f13")
    assert "f17" not in leads_to
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    whole = bundle.open_stage(bundle.full()).run({"image": image})["logits"]
    for name in ("f2", "f17"):
        tensor = bundle.open_stage(bundle.head(name)).run({"image": image})[name]
        logits = bundle.open_stage(bundle.tail(name)).run({name: tensor})["logits"]
        assert np.abs(logits - whole).max() <= 1e-4 * max(1.0, np.abs(whole).max())
    latents = bundle.open_stage(bundle.head("bottleneck")).run({"image": image})["latents"]
    codec = bundle.codecs("bottleneck").new("rans")
    arrived = codec.decode(codec.encode(latents), latents.shape)
    logits = bundle.open_stage(bundle.tail("bottleneck")).run({"latents": arrived})["logits"]
    assert logits.shape == (1, 1000)
    assert np.isfinite(logits).all()
