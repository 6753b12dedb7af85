"""Heads read from torch: the very blob that comes of their ONNX export."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from headtail_models.mcu.errors import UnsupportedLayerError
from headtail_models.mcu.export import export_head
from headtail_models.mcu.floats import run_floats
from headtail_models.mcu.layers import LayerKind
from headtail_models.mcu.onnx_reader import read_head
from headtail_models.mcu.samples import channels_last
from headtail_models.mcu.torch_reader import read_module
from headtail_models.training.export import export
from torch_heads import OUTPUTS, SHAPE, Everything, drawn, with_statistics


def test_same_blob_as_the_onnx_reader(tmp_path: Path) -> None:
    module = Everything().eval()
    export(module, tmp_path / "head.onnx", shape=SHAPE, inputs="x", outputs=OUTPUTS)
    ours, theirs = read_module(module, SHAPE), read_head(tmp_path / "head.onnx")
    blobs = [
        export_head(graph, channels_last(drawn(16), graph.input_shape), bits=4).program.blob
        for graph in (ours, theirs)
    ]
    assert blobs[0] == blobs[1]
    assert {layer.kind for layer in ours.layers} == set(LayerKind)


def test_computes_what_the_module_does_with_its_normalisation_folded() -> None:
    module = with_statistics()
    samples = drawn(4)
    with torch.no_grad():
        wanted = [one.numpy() for one in module(torch.from_numpy(samples))]
    graph = read_module(module, SHAPE)
    values = run_floats(graph, channels_last(samples, graph.input_shape))
    for name, one in zip(graph.outputs, wanted, strict=True):
        found = values[name].transpose(0, 3, 1, 2).reshape(one.shape)
        np.testing.assert_allclose(found, one, atol=1e-4)
    assert isinstance(module.stem[1], nn.BatchNorm2d), "the module itself is left as it was"


class _Halved(nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) / 2


class _Six(nn.Hardtanh):
    def __init__(self) -> None:
        super().__init__(0.0, 6.0)


def test_a_layer_by_another_name_is_that_layer() -> None:
    (layer,) = read_module(nn.Sequential(nn.Conv2d(3, 4, 1), _Six()), SHAPE).layers
    assert layer.clamp == (0.0, 6.0)


class _Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class _Constant(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x) + 1.0


class _Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(functional.relu(x), x, alpha=2)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.Sigmoid()), r"layer 0.1 \(Sigmoid\): no kernel"),
        (nn.Sequential(nn.BatchNorm2d(3)), r"\(BatchNorm2d\): no convolution before it"),
        (nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3)), "no convolution before it"),
        (_Halved(3, 4, 1), "no kernel|can't be traced"),
        (nn.Conv2d(3, 6, 1, groups=3), "3 groups of 3 channels in, 6 out"),
        (nn.Conv2d(3, 3, 3, dilation=2), "dilation"),
        (nn.Conv2d(3, 3, 3, padding="same"), "padding 'same'"),
        (nn.Conv2d(3, 3, 1, padding=1), r"pads \(1, 1, 1, 1\) of a window \(1, 1\)"),
        (nn.Sequential(nn.AvgPool2d(3, padding=1, count_include_pad=False)), "does not count"),
        (nn.Sequential(nn.MaxPool2d(2, ceil_mode=True)), "ceil_mode"),
        (nn.Sequential(nn.AdaptiveAvgPool2d(2)), "not to one pixel"),
        (nn.Linear(10, 4), "not flat"),
        (_Branches(), "can't be traced"),
        (_Constant(), "addition of a constant"),
        (_Scaled(), "more than a sum"),
        (nn.Sequential(nn.Flatten()), "is not computed"),
    ],
)
def test_refusals_name_the_layer(module: nn.Module, why: str) -> None:
    with pytest.raises(UnsupportedLayerError, match=why):
        read_module(nn.Sequential(module), SHAPE)


def test_two_inputs_are_refused() -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    with pytest.raises(UnsupportedLayerError, match="2 inputs"):
        read_module(Two(), SHAPE)
