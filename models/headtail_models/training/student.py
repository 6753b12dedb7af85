"""A network with a published bottleneck in it, which learns from the network as it was.

What the papers train by are weights of four losses, so each of their recipes is a few lines:

    HND             first = 1               what the replaced layers gave
    GHND            first = 1, later = 1    and what named layers behind them give
    plain           labels = 1              cross entropy, the network behind as it was
    two stages      GHND; then soft = 1 or labels, with `freeze = ["encoder"]`

(Matsubara and Levorato, ICPR 2020; the last one is BottleFit, Matsubara et al., WoWMoM 2022.)
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch import nn

from headtail_models.bottleneck import losses
from headtail_models.bottleneck.block import Bottleneck
from headtail_models.bottleneck.injection import inject
from headtail_models.training.errors import RecipeError
from headtail_models.training.job import Loss
from headtail_models.training.recipe import StageRecipe
from headtail_models.training.settings import settings_as


class StudentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the parts of the loss; `temperature` of the teacher's soft labels."""

    first: float = 0.0
    later: float = 0.0
    labels: float = 0.0
    soft: float = 0.0
    temperature: float = 1.0

    @property
    def to_the_end(self) -> bool:
        """Whether the network behind the bottleneck has to run."""
        return bool(self.later or self.labels or self.soft)


def student_settings(stage: StageRecipe) -> StudentSettings:
    """Raises RecipeError, for a stage that minimises nothing too."""
    settings = settings_as(stage, StudentSettings)
    if not (settings.first or settings.to_the_end):
        raise RecipeError(f"stage {stage.name!r} gives no weight to first, later, labels or soft")
    return settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """What a network makes of a batch: outputs of layers by name, and its logits (N, classes),
    where it ran to the end."""

    features: Mapping[str, torch.Tensor]
    logits: torch.Tensor | None = None


class Student(nn.Module):
    """A copy of a network with a bottleneck in place of the layers `replaces`.

    `later` names layers behind them whose outputs are compared. Parts of which nothing learns keep
    the statistics of their normalisations, too.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        replaces: Sequence[str],
        bottleneck: Bottleneck,
        later: Sequence[str],
        input_shape: tuple[int, ...],
    ) -> None:
        """Raises InjectionError."""
        super().__init__()
        own = copy.deepcopy(network).requires_grad_(True)
        self.split = inject(own, replaces=replaces, bottleneck=bottleneck, input_shape=input_shape)
        self.first = replaces[-1]
        """The layer that the bottleneck's output stands for."""
        self.later = tuple(later)

    def train(self, mode: bool = True) -> "Student":
        super().train(mode)
        block = self.split.bottleneck
        for part in (self.split.before, block.encoder, block.decoder, self.split.after):
            part.train(mode and any(one.requires_grad for one in part.parameters()))
        return self

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """`stem` before the bottleneck, its `encoder` and `decoder`, and the `tail` behind it."""
        block = self.split.bottleneck
        return {
            "stem": list(self.split.before.parameters()),
            "encoder": list(block.encoder.parameters()),
            "decoder": list(block.decoder.parameters()),
            "tail": list(self.split.after.parameters()),
        }

    def see(self, entering: torch.Tensor, *, to_the_end: bool) -> Seen:
        """What is compared, and the logits if the rest is to run. `entering` is what the network
        gives to the bottleneck, `split.before` of a picture."""
        first = self.split.bottleneck(entering)
        if not to_the_end:
            return Seen(features={self.first: first})
        with watched(self.split.after, self.later) as features:
            logits = self.split.after(first)
        return Seen(features={self.first: first, **features}, logits=logits)


@contextmanager
def watched(network: nn.Module, names: Sequence[str]) -> Iterator[dict[str, torch.Tensor]]:
    """Collects what the named layers give while the network runs."""
    found: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: torch.Tensor) -> None:
            found[name] = output

        return hook

    handles = [network.get_submodule(name).register_forward_hook(keep(name)) for name in names]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def student_loss(
    mine: Seen,
    taught: Seen,
    labels: torch.Tensor | None,
    settings: StudentSettings,
    *,
    first: str,
) -> Loss:
    """The weighted sum; sums over the batch where the papers have sums. Raises RecipeError where
    labels are asked for and there are none."""
    parts: dict[str, torch.Tensor] = {}
    if settings.first:
        parts["first"] = losses.hnd(mine.features[first].float(), taught.features[first].float())
    if settings.later:
        later = [name for name in mine.features if name != first]
        parts["later"] = losses.ghnd(
            {name: mine.features[name].float() for name in later},
            {name: taught.features[name].float() for name in later},
        )
    if settings.labels:
        if labels is None:
            raise RecipeError("the pictures of this job have no labels: leave `labels` out")
        parts["labels"] = losses.cross_entropy(_logits(mine), labels)
    if settings.soft:
        parts["soft"] = losses.distillation(
            _logits(mine), _logits(taught), temperature=settings.temperature
        )
    total = torch.stack([getattr(settings, name) * part for name, part in parts.items()]).sum()
    return Loss(total=total, parts={name: float(part.detach()) for name, part in parts.items()})


def _logits(seen: Seen) -> torch.Tensor:
    assert seen.logits is not None  # the settings say that it ran to the end
    return seen.logits.float()
