"""Heads that round while they are trained: what the blob computes, and what it is good for."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from headtail_models.mcu.export import Exported, export_head
from headtail_models.mcu.layers import Floats
from headtail_models.mcu.ranges import Quantiser
from headtail_models.mcu.samples import channels_last
from headtail_models.mcu.torch_reader import read_module, read_traced
from headtail_models.mcu.twin import Twin
from headtail_models.training.fake_quantised import FakeQuantised, Levels
from torch_heads import SHAPE, Everything, drawn, with_statistics


def exported(net: FakeQuantised, samples: Floats, **fields: object) -> Exported:
    """With the weights and the ranges that the training has left."""
    graph = read_traced(net.head)
    given = channels_last(samples, graph.input_shape)
    return export_head(graph, given, ranges=net.quantisers(), **fields)  # type: ignore[arg-type]


def test_it_computes_what_the_blob_does() -> None:
    """Each kind of layer, at steps and weights that no calibration found."""
    net = FakeQuantised.calibrated(with_statistics(), drawn(32), bits=(8, 8, 4))
    torch.manual_seed(4)
    with torch.no_grad():
        for levels in net.levels.values():
            assert isinstance(levels, Levels)
            levels.log_step.add_(0.1 * torch.randn(()))
        for weight in net.head.parameters():
            weight.add_(0.02 * torch.randn(weight.shape))
        answers = net(torch.from_numpy(drawn(24)))
    vector, logits, _ = net.graph.outputs
    program = exported(net, drawn(32), bits=4, logits=[vector, logits]).program
    found = Twin(program).run(channels_last(drawn(24), net.graph.input_shape))
    for index, (answer, output) in enumerate(zip(answers, program.outputs, strict=True)):
        board = np.stack([one.levels[index] for one in found]).astype(int)
        shape = output.shape
        ordered = answer.numpy().reshape(-1, shape.c, shape.h, shape.w).transpose(0, 2, 3, 1)
        ours = output.quantiser.levels(ordered).astype(int)
        assert np.abs(ours - board).max() <= 1
        assert (ours != board).mean() < 0.1
    board = np.stack([one.levels[1].reshape(-1) for one in found])
    assert (board.argmax(axis=1) == answers[1].argmax(dim=1).numpy()).all()


def test_settled_weights_stay_in_half_precision_what_they_are() -> None:
    net = FakeQuantised.calibrated(with_statistics(), drawn(32))
    with torch.no_grad():
        before = [one.clone() for one in net(torch.from_numpy(drawn(8)))]
        blob = exported(net, drawn(32)).program
        net.settle()
        for one, other in zip(before, net(torch.from_numpy(drawn(8))), strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
        for weight in net.head.parameters():
            weight.copy_(weight.half().float())
    halved = exported(net, drawn(32)).program
    for op, other in zip(blob.ops, halved.ops, strict=True):
        if op.k:
            ours, theirs = (
                np.frombuffer(one.blob, np.uint8, row.shape.c * row.k, row.data + 8 * row.shape.c)
                for one, row in ((blob, op), (halved, other))
            )
            np.testing.assert_array_equal(ours, theirs)


def test_an_open_output_is_left_to_others() -> None:
    module = with_statistics()
    net = FakeQuantised.calibrated(module, drawn(32), bits=(8, 8, None))
    with torch.no_grad():
        vector, _, code = net(torch.from_numpy(drawn(8)))
    assert len(code.unique()) > 16
    assert len(vector.unique()) <= 256
    assert list(net.quantisers()) == [
        net.graph.input,
        *(layer.output for layer in net.graph.layers),
    ]


def test_peaks_lie_on_the_levels_of_what_they_are_of() -> None:
    torch.manual_seed(0)
    pools = (nn.MaxPool2d(2), nn.MaxPool2d(2))
    module = nn.Sequential(nn.Conv2d(3, 4, 1), *pools, nn.Conv2d(4, 2, 1))
    net = FakeQuantised.calibrated(module, drawn(32))
    _, first, *peaks, last = net.quantisers().values()
    assert peaks == [first, first]
    program = exported(net, drawn(32)).program
    found = Twin(program).run(channels_last(drawn(8), net.graph.input_shape))
    with torch.no_grad():
        ours = net(torch.from_numpy(drawn(8))).permute(0, 2, 3, 1).numpy()
    board = np.stack([one.levels[0] for one in found]).astype(int)
    assert np.abs(last.levels(ours).astype(int) - board).max() <= 1


def test_gradients_pass_and_steps_learn() -> None:
    levels = Levels(Quantiser(scale=0.5, zero=4, bits=3))
    x = torch.tensor([[-9.0, -0.3, 0.2, 0.7, 9.0]], requires_grad=True)
    rounded = levels(x)
    torch.testing.assert_close(rounded, torch.tensor([[-2.0, -0.5, 0.0, 0.5, 1.5]]))
    rounded.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 1, 1, 1, 0]]  # nothing of what lies outside
    # Esser et al., equation 3, times the step and their 1/sqrt(values * top) for the logarithm.
    inside = (-1 - -0.6) + (0 - 0.4) + (1 - 1.4)
    wanted = (-4 + inside + 3) * 0.5 / (5 * 7) ** 0.5
    assert levels.log_step.grad is not None
    assert float(levels.log_step.grad) == pytest.approx(wanted, rel=1e-5)


class _Uneven(nn.Module):
    """Says which of four inputs is the largest. One hidden channel is 400 times the others, and
    nobody needs it: with one range for all of them the others vanish."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Conv2d(4, 5, 1)
        self.answer = nn.Linear(5, 4)
        with torch.no_grad():
            self.hidden.weight.copy_(
                torch.cat([torch.eye(4), torch.full((1, 4), 100.0)])[..., None, None]
            )
            self.answer.weight.copy_(torch.cat([4 * torch.eye(4), torch.zeros(4, 1)], dim=1))
            self.hidden.bias.zero_()  # type: ignore[union-attr]
            self.answer.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.answer(torch.flatten(torch.relu(self.hidden(x)), 1))
        return answer


def test_training_recovers_what_calibration_loses() -> None:
    random = np.random.default_rng(0)
    train, test = (random.uniform(size=(n, 4, 1, 1)).astype(np.float32) for n in (128, 512))
    wanted = test.reshape(-1, 4).argmax(axis=1)

    def accuracy(of: Exported, graph_input: tuple[int, int, int]) -> float:
        found = Twin(of.program).run(test.reshape(-1, *graph_input))
        answers = np.array([one.levels[0].reshape(-1).argmax() for one in found])
        return float((answers == wanted).mean())

    module = _Uneven()
    graph = read_module(module, (4, 1, 1))
    plain = export_head(graph, channels_last(train, graph.input_shape))
    before = accuracy(plain, graph.input_shape)
    net = FakeQuantised.calibrated(module, train)
    assert accuracy(exported(net, train), graph.input_shape) == before
    inputs, labels = torch.from_numpy(train), torch.from_numpy(train.reshape(-1, 4).argmax(axis=1))
    optimiser = torch.optim.Adam(
        [
            {"params": net.head.parameters(), "lr": 1e-3},
            {"params": net.levels.parameters(), "lr": 0.1},
        ]
    )
    for _ in range(200):
        optimiser.zero_grad()
        functional.cross_entropy(net(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    after = accuracy(exported(net, train), graph.input_shape)
    assert before < 0.7
    assert after > 0.9


def test_the_module_itself_stays_as_it_was() -> None:
    module = Everything(normalised=True).eval()
    FakeQuantised.calibrated(module, drawn(4))
    assert isinstance(module.stem[1], nn.BatchNorm2d)
    assert module(torch.zeros(1, *SHAPE))[1].shape == (1, 5)
