"""Export: what is written computes what was trained, is half as large, and is the same again."""

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from headtail_models.training import export as exporting
from headtail_models.training.export import ExportError, export


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.second = nn.ConvTranspose2d(16, 4, 2, stride=2)

    def forward(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = torch.relu(self.first(tensor))
        return self.second(inner), inner.mean(dim=(2, 3))


def _export(path: Path, net: nn.Module | None = None) -> float:
    return export(net or _Net(), path, shape=(3, 10, 12), inputs="image", outputs=("map", "mean"))


def test_what_is_written_computes_what_was_trained(tmp_path: Path) -> None:
    assert _export(tmp_path / "net.onnx") <= 1e-5
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    shapes = [
        [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    ]
    assert shapes == [["batch", 3, 10, 12], ["batch", 4, 10, 12], ["batch", 16]]


def test_weights_take_two_bytes(tmp_path: Path) -> None:
    _export(tmp_path / "net.onnx")
    stored = {
        tensor.name: tensor.data_type
        for tensor in onnx.load(tmp_path / "net.onnx").graph.initializer
    }
    assert stored["first.weight.half"] == onnx.TensorProto.FLOAT16
    assert stored["second.weight.half"] == onnx.TensorProto.FLOAT16
    assert stored["first.bias"] == onnx.TensorProto.FLOAT


def test_the_same_module_gives_the_same_bytes(tmp_path: Path) -> None:
    _export(tmp_path / "one" / "net.onnx")
    _export(tmp_path / "two" / "net.onnx")
    first, second = ((tmp_path / n / "net.onnx").read_bytes() for n in ("one", "two"))
    assert first == second


def test_a_difference_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "TOLERANCE", 0.0)
    with pytest.raises(ExportError, match=r"net\.onnx, map"):
        _export(tmp_path / "net.onnx")


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    net = _Net()
    with torch.no_grad():
        net.first.weight[0, 0, 0, 0] = torch.nan
    with pytest.raises(ExportError):
        _export(tmp_path / "net.onnx", net)
