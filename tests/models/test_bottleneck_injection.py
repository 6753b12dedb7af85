"""A bottleneck at a named layer: the parts are the whole, and what can't be cut is said."""

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from headtail_models.bottleneck import Bottleneck, inject
from headtail_models.bottleneck.errors import (
    BottleneckShapeError,
    NoSuchLayerError,
    NotSeparableError,
    UntraceableError,
)
from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.nets.resnet import resnet

torch.set_num_threads(1)


def identity() -> Bottleneck:
    return Bottleneck(nn.Identity(), nn.Identity(), channels=8)


def standing_for(layer: nn.Module) -> Bottleneck:
    """Does exactly what the replaced layer does."""
    return Bottleneck(layer, nn.Identity(), channels=8)


@pytest.mark.parametrize(
    ("depth", "name"),
    [(18, name) for name in ("layer1", "layer3", "layer2.1", "maxpool", "conv1", "fc")]
    + [(50, "layer1"), (50, "layer3.2")],
)
def test_head_and_tail_are_the_whole(depth: int, name: str) -> None:
    torch.manual_seed(0)
    network = resnet(depth, classes=5).eval()
    picture = torch.randn(2, 3, 32, 32)

    block = standing_for(network.get_submodule(name))
    split = inject(network, replaces=(name,), bottleneck=block, input_shape=(3, 64, 64))

    with torch.no_grad():
        expected = network(picture)
        torch.testing.assert_close(split(picture), expected, rtol=0, atol=0)
        torch.testing.assert_close(split.tail(split.head(picture)), expected, rtol=0, atol=0)


def test_a_layer_inside_a_block_with_a_shortcut() -> None:
    torch.manual_seed(0)
    network = resnet(18, classes=5).eval()
    picture = torch.randn(1, 3, 32, 32)
    layer = network.get_submodule("layer2.0")

    # The whole block is cut out; its shortcut lies inside.
    split = inject(network, replaces=("layer2.0",), bottleneck=standing_for(layer))
    with torch.no_grad():
        torch.testing.assert_close(split(picture), network(picture), rtol=0, atol=0)

    # One of its layers is not: the shortcut goes around it.
    with pytest.raises(NotSeparableError, match="goes around"):
        inject(network, replaces=("layer2.0.conv2",), bottleneck=identity())


def test_what_lies_between_named_layers_goes_too() -> None:
    network = resnet(18, classes=5)
    split = inject(network, replaces=("layer1", "layer3"), bottleneck=identity())

    assert [name for name, _ in split.before.named_children()] == [
        "conv1", "bn1", "relu", "maxpool",
    ]  # fmt: skip
    assert [name for name, _ in split.after.named_children()] == [
        "layer4", "avgpool", "flatten", "fc",
    ]  # fmt: skip


def test_names_and_parameters_are_those_of_the_network() -> None:
    network = resnet(18, classes=5)
    split = inject(network, replaces=("layer1",), bottleneck=hnd_ghnd(3, outputs=64))

    parts = {**split.before.state_dict(), **split.after.state_dict()}
    kept = {key for key in network.state_dict() if not key.startswith("layer1.")}
    assert parts.keys() == kept
    assert split.after.get_submodule("layer4") is network.get_submodule("layer4")
    assert split.before.get_submodule("conv1") is network.conv1


def test_nested_sequences() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        OrderedDict(
            features=nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()),
            top=nn.Linear(8, 2),
        )
    )
    layer = network.get_submodule("features.2")
    split = inject(network, replaces=("features.2",), bottleneck=standing_for(layer))
    rows = torch.randn(3, 4)

    torch.testing.assert_close(split(rows), network(rows))
    assert split.tail(split.head(rows)).shape == (3, 2)


class Functional(nn.Module):
    """Functions, a parameter of its own, and a dictionary as its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.middle = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 3.0))

    def forward(self, rows: Tensor) -> dict[str, Tensor]:
        rows = torch.relu(self.first(rows)) * self.scale
        rows = torch.tanh(self.middle(rows))
        return {"double": rows * 2, "last": self.last(rows) * self.scale}


def test_functions_and_parameters_around_the_layer() -> None:
    torch.manual_seed(0)
    network = Functional()
    split = inject(network, replaces=("middle",), bottleneck=standing_for(network.middle))
    rows = torch.randn(3, 4)

    found, expected = split(rows), network(rows)
    assert found.keys() == expected.keys()
    for name in ("double", "last"):
        torch.testing.assert_close(found[name], expected[name])


class Deciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, rows: Tensor) -> Tensor:
        if rows.sum() > 0:
            rows = -rows
        answer: Tensor = self.inner(rows)
        return answer


def test_a_module_that_decides_may_lie_beside_the_cut_but_not_around_it() -> None:
    network = nn.Sequential(OrderedDict(plain=nn.Linear(4, 4), deciding=Deciding()))
    split = inject(network, replaces=("plain",), bottleneck=standing_for(network[0]))
    rows = torch.randn(3, 4)
    torch.testing.assert_close(split(rows), network(rows))

    with pytest.raises(UntraceableError, match="deciding"):
        inject(network, replaces=("deciding.inner",), bottleneck=identity())


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.idle = nn.Linear(4, 4)

    def forward(self, rows: Tensor) -> Tensor:
        answer: Tensor = self.shared(self.shared(rows))
        return answer


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        answer: Tensor = self.layer(rows) * mask
        return answer


class Fork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.left(rows), self.right(rows)


@pytest.mark.parametrize(
    ("network", "names", "message"),
    [
        (Twice(), ("shared",), "called 2 times"),
        (Twice(), ("idle",), "called 0 times"),
        (TwoInputs(), ("layer",), "2 inputs"),
        (Fork(), ("left", "right"), "2 tensors leave"),
        (Fork(), ("left",), "goes around"),
    ],
)
def test_what_can_not_be_cut_is_said(
    network: nn.Module, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(NotSeparableError, match=message):
        inject(network, replaces=names, bottleneck=identity())


@pytest.mark.parametrize("name", ["layer5", "", "layer1.9"])
def test_an_unknown_layer_is_refused(name: str) -> None:
    with pytest.raises(NoSuchLayerError):
        inject(resnet(18), replaces=(name,), bottleneck=identity())


def test_no_layer_is_refused() -> None:
    with pytest.raises(NoSuchLayerError):
        inject(resnet(18), replaces=(), bottleneck=identity())


def test_a_near_name_is_offered() -> None:
    with pytest.raises(NoSuchLayerError, match="layer1"):
        inject(resnet(18), replaces=("layer_1",), bottleneck=identity())


def test_a_block_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(BottleneckShapeError, match="256"):
        inject(resnet(18), replaces=("layer1",), bottleneck=hnd_ghnd(3), input_shape=(3, 64, 64))
    with pytest.raises(BottleneckShapeError, match="can't take"):
        inject(resnet(18), replaces=("layer2",), bottleneck=hnd_ghnd(3, inputs=32),
               input_shape=(3, 64, 64))  # fmt: skip


def test_a_layer_frozen_in_another_mode_stays_so() -> None:
    network = resnet(18, classes=5).train()
    network.bn1.eval()
    split = inject(network, replaces=("layer1",), bottleneck=hnd_ghnd(3, outputs=64))

    assert not split.before.get_submodule("bn1").training
    assert split.training
    assert split.bottleneck.encoder.training
    assert not network.bn1.training


def test_head_and_tail_are_in_the_mode_of_the_network() -> None:
    split = inject(resnet(18, classes=5), replaces=("layer1",), bottleneck=hnd_ghnd(3, outputs=64))

    assert split.head.training
    assert not split.eval().head.training
    assert not split.tail.training
