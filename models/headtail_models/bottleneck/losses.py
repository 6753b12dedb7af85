"""What students are trained with: small functions of tensors, nothing else."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from headtail_models.bottleneck.errors import FeatureMismatchError


def hnd(student: Tensor, teacher: Tensor) -> Tensor:
    """Head network distillation: the squared error of one layer's output, summed over everything.

    (Matsubara et al., "Distilled Split Deep Neural Networks for Edge-Assisted Real-Time Systems",
    HotEdgeVideo 2019.) Raises FeatureMismatchError.
    """
    if student.shape != teacher.shape:
        raise FeatureMismatchError(
            f"the student's feature is {tuple(student.shape)}, the teacher's {tuple(teacher.shape)}"
        )
    return (student - teacher).square().sum()


def ghnd(
    student: Mapping[str, Tensor],
    teacher: Mapping[str, Tensor],
    weights: Mapping[str, float] | None = None,
) -> Tensor:
    """Generalised head network distillation: `hnd` summed over several layers, by name; the weights
    are 1 in the paper. (Matsubara and Levorato, ICPR 2020, eq. 2.) Raises FeatureMismatchError."""
    if student.keys() != teacher.keys() or not student:
        raise FeatureMismatchError(
            f"the student has the layers {sorted(student)}, the teacher {sorted(teacher)}"
        )
    scale = weights or {}
    terms = [scale.get(name, 1.0) * hnd(student[name], teacher[name]) for name in student]
    return torch.stack(terms).sum()


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the batch, in nats. Logits (N, classes), labels (N,)."""
    return functional.cross_entropy(logits, labels)


def distillation(
    logits: Tensor,
    teacher: Tensor,
    labels: Tensor | None = None,
    *,
    temperature: float = 1.0,
    alpha: float = 0.5,
) -> Tensor:
    """alpha * cross entropy + (1 - alpha) * T^2 * KL(teacher || student), both at temperature T.

    Without labels the second term alone. (Hinton, Vinyals and Dean, "Distilling the Knowledge in a
    Neural Network", 2015, section 2.)
    """
    soft = functional.kl_div(
        functional.log_softmax(logits / temperature, dim=1),
        functional.log_softmax(teacher / temperature, dim=1),
        reduction="batchmean",
        log_target=True,
    )
    softened = temperature**2 * soft
    if labels is None:
        return softened
    return alpha * cross_entropy(logits, labels) + (1 - alpha) * softened


def rate_distortion(distortion: Tensor, bits: Tensor, *, beta: float) -> Tensor:
    """distortion + beta * the sum of `bits`. (Matsubara et al., WACV 2022, eq. 6.)"""
    return distortion + beta * bits.sum()
