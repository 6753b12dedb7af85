"""Trains a network that is cut for a microcontroller: its four parts together, from nothing.

The loss is a sum of the exit's and the tail's (Teerapittayanon et al., "BranchyNet", ICPR 2016,
eq. 2). How many bits a value of the code crosses with is drawn anew for each batch, so that one
tail serves 8, 4 and 2.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from headtail_models.nets.board_split import BITS, BoardSplit, sent
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.recipe import StageRecipe
from headtail_models.training.settings import settings_as


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stage may change: the weights of the answers in the loss, 0 for one that is not even
    computed, and label smoothing."""

    exit: float = 1.0
    helper: float = 0.0
    tail: float = 1.0
    smoothing: float = 0.1


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How wide and how deep a network is; the keys that all of this kind have in their recipes."""

    width: int
    code: int
    tail_width: int = 64
    tail_blocks: int = 2
    dropout: float

    def network(self, make: Callable[..., BoardSplit], seed: int, **more: int) -> BoardSplit:
        """What `make` makes of them, and of what only its kind has, with the weights of a seed."""
        torch.manual_seed(seed)
        return make(
            width=self.width,
            code=self.code,
            tail_width=self.tail_width,
            tail_blocks=self.tail_blocks,
            dropout=self.dropout,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labelled:
    """Inputs (N, ...) float32 and their classes (N,)."""

    inputs: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return int(self.labels.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Samples, and the bits that their code crosses with."""

    samples: Labelled
    bits: int


class BoardSplitJob:
    """All of a job but where its data come from and how they are varied: see `take`."""

    def __init__(self, network: BoardSplit, calibration: Labelled) -> None:
        torch.set_num_threads(1)
        self.network = network
        self.calibration = calibration
        self._settings = Settings()
        self._frozen: tuple[str, ...] = ()

    def take(self, random: np.random.Generator, count: int) -> Labelled:
        """Training samples, varied."""
        raise NotImplementedError

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        return {name: list(part.parameters()) for name, part in self.network.named_children()}

    def begin(self, stage: StageRecipe) -> None:
        self._settings = settings_as(stage, Settings)
        self._frozen = stage.freeze

    def draw(self, random: np.random.Generator, count: int) -> Batch:
        return Batch(samples=self.take(random, count), bits=int(random.choice(BITS)))

    def loss(self, batch: Batch, progress: float) -> Loss:
        for name in self._frozen:  # the statistics of its normalisations stay, too
            self.network.get_submodule(name).eval()
        return summed(
            self._answers(batch), batch.samples.labels, smoothing=self._settings.smoothing
        )

    def _answers(self, batch: Batch) -> Iterator[tuple[str, float, torch.Tensor]]:
        network, settings = self.network, self._settings
        near = network.trunk(batch.samples.inputs)
        if settings.helper and network.helper is not None:
            yield "helper", settings.helper, network.helper(near)
        if settings.exit:
            yield "exit", settings.exit, network.branch(near)
        if settings.tail:
            yield "tail", settings.tail, network.tail(sent(network.encoder(near), batch.bits))

    def evaluate(self) -> dict[str, float]:
        return judged(self.network.answers, self.calibration)


def summed(
    answers: Iterable[tuple[str, float, torch.Tensor]], labels: torch.Tensor, *, smoothing: float
) -> Loss:
    """The loss of all answers: the name, the weight and the logits (N, classes) of each."""
    total, parts = torch.zeros(()), {}
    for name, weight, logits in answers:
        part = functional.cross_entropy(logits.float(), labels, label_smoothing=smoothing)
        total = total + weight * part
        parts[name] = float(part.detach())
    return Loss(total=total, parts=parts)


def judged(
    answers: Callable[[torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]], held: Labelled
) -> dict[str, float]:
    """Accuracy of the exit, and of the tail at all bits; the score counts both alike."""
    scores = {}
    for bits in BITS:
        early, last = answers(held.inputs, bits)
        scores["exit"] = _accuracy(early, held.labels)
        scores[f"tail@{bits}"] = _accuracy(last, held.labels)
    tails = [scores[f"tail@{bits}"] for bits in BITS]
    return {SCORE: (scores["exit"] + sum(tails) / len(tails)) / 2, **scores}


def _accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    return float((logits.argmax(dim=1) == labels).float().mean())
