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

SHAPE = (3, 12, 10)


class Everything(nn.Module):
    """Each kind of layer that boards have; two outputs."""

    def __init__(self, *, normalised: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, (5, 3), stride=(2, 1), padding=(2, 1), bias=False),
            nn.BatchNorm2d(8) if normalised else nn.Identity(),
            nn.ReLU6(),
        )
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.peaks = nn.MaxPool2d(2)
        self.means = nn.AvgPool2d((3, 1), stride=1, padding=(1, 0))
        self.bottleneck = nn.Sequential(nn.Conv2d(8, 4, 1), nn.Hardtanh(0.0, 6.0))
        self.flat = nn.Flatten()
        self.dense = nn.Sequential(nn.Dropout(0.5), nn.Linear(8 * 3 * 5, 7), nn.ReLU())
        self.last = nn.AdaptiveAvgPool2d(1)
        self.answer = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.stem(x)
        x = x + torch.relu(self.pointwise(functional.relu(self.depthwise(x))))
        x = self.means(self.peaks(x))
        return (
            self.dense(self.flat(x)),
            self.answer(torch.flatten(self.last(x), 1)),
            self.bottleneck(x),
        )


def drawn(count: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    return np.random.default_rng(1).normal(size=(count, *SHAPE)).astype(np.float32)


def test_same_blob_as_the_onnx_reader(tmp_path: Path) -> None:
    module = Everything().eval()
    names = ("vector", "logits", "code")
    export(module, tmp_path / "head.onnx", shape=SHAPE, inputs="x", outputs=names)
    ours, theirs = read_module(module, SHAPE), read_head(tmp_path / "head.onnx")
    blobs = [
        export_head(graph, channels_last(drawn(16), graph.input_shape), bits=4).program.blob
        for graph in (ours, theirs)
    ]
    assert blobs[0] == blobs[1]
    assert {layer.kind for layer in ours.layers} == set(LayerKind)


def test_computes_what_the_module_does_with_its_normalisation_folded() -> None:
    module = Everything(normalised=True)
    module.train()
    module(torch.from_numpy(drawn(32)))  # statistics that are not 0 and 1
    module.eval()
    samples = drawn(4)
    with torch.no_grad():
        wanted = [one.numpy() for one in module(torch.from_numpy(samples))]
    graph = read_module(module, SHAPE)
    values = run_floats(graph, channels_last(samples, graph.input_shape))
    for name, one in zip(graph.outputs, wanted, strict=True):
        found = values[name].transpose(0, 3, 1, 2).reshape(one.shape)
        np.testing.assert_allclose(found, one, atol=1e-4)
    assert isinstance(module.stem[1], nn.BatchNorm2d), "the module itself is left as it was"


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
