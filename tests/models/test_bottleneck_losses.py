"""Losses against their definitions written out."""

import pytest
import torch

from headtail_models.bottleneck.errors import FeatureMismatchError
from headtail_models.bottleneck.losses import (
    cross_entropy,
    distillation,
    ghnd,
    hnd,
    rate_distortion,
)


def test_hnd_is_the_sum_of_squares() -> None:
    student, teacher = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])

    assert hnd(student, teacher).item() == 5.0


def test_ghnd_sums_layers_by_weight() -> None:
    student = {"layer1": torch.tensor([1.0]), "layer2": torch.tensor([3.0])}
    teacher = {"layer2": torch.tensor([1.0]), "layer1": torch.tensor([0.0])}

    assert ghnd(student, teacher).item() == 5.0
    assert ghnd(student, teacher, {"layer2": 0.5}).item() == 3.0


def test_features_that_do_not_match_are_refused() -> None:
    one = {"layer1": torch.zeros(1)}
    with pytest.raises(FeatureMismatchError, match="layer2"):
        ghnd(one, {"layer2": torch.zeros(1)})
    with pytest.raises(FeatureMismatchError):
        ghnd({}, {})
    with pytest.raises(FeatureMismatchError, match="1, 2"):
        hnd(torch.zeros(1, 2), torch.zeros(1, 3))


def test_distillation_against_the_formula() -> None:
    torch.manual_seed(0)
    logits, teacher = torch.randn(4, 6), torch.randn(4, 6)
    labels = torch.tensor([0, 5, 2, 2])
    temperature, alpha = 2.5, 0.3
    p, q = (teacher / temperature).softmax(1), (logits / temperature).softmax(1)
    soft = temperature**2 * (p * (p / q).log()).sum(1).mean()

    found = distillation(logits, teacher, labels, temperature=temperature, alpha=alpha)
    torch.testing.assert_close(found, alpha * cross_entropy(logits, labels) + (1 - alpha) * soft)
    torch.testing.assert_close(distillation(logits, teacher, temperature=temperature), soft)
    assert distillation(teacher, teacher).item() == pytest.approx(0.0, abs=1e-6)


def test_rate_distortion_adds_bits() -> None:
    found = rate_distortion(torch.tensor(2.0), torch.tensor([1.0, 3.0]), beta=0.5)

    assert found.item() == 4.0
