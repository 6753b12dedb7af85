"""Our ResNets: sizes and names as published."""

import pytest
import torch

from headtail_models.bottleneck.cost import cost, parameter_count
from headtail_models.nets.resnet import UnknownDepthError, resnet


@pytest.mark.parametrize(
    ("depth", "parameters"),
    [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032), (101, 44_549_160), (152, 60_192_808)],
)
def test_parameters(depth: int, parameters: int) -> None:
    with torch.device("meta"):
        assert parameter_count(resnet(depth)) == parameters


def test_parts_of_the_fifty_layer_net() -> None:
    with torch.device("meta"):
        network = resnet(50)

    assert parameter_count(network.get_submodule("layer1")) == 215_808
    stem = parameter_count(network.conv1) + parameter_count(network.bn1)
    assert stem == 9_536
    assert cost(network, 1, 3, 224, 224).macs / 1e9 == pytest.approx(4.09, abs=0.01)


def test_names_are_those_of_torchvision() -> None:
    with torch.device("meta"):
        names = resnet(50).state_dict().keys()

    assert {
        "conv1.weight",
        "bn1.running_mean",
        "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.num_batches_tracked",
        "layer4.2.conv3.weight",
        "fc.bias",
    } <= names
    assert "layer1.1.downsample.0.weight" not in names
    assert len(names) == 320


def test_an_unknown_depth_is_refused() -> None:
    with pytest.raises(UnknownDepthError, match="50"):
        resnet(20)
