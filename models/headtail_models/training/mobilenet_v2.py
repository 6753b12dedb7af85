"""The job `mobilenetv2-imagenet`: a bottleneck for the classifier, taught by the classifier itself.

The stem, up to the second block of the network, is frozen and stays on the device. Its features
are cut into blocks of 4x4 places, and a Karhunen-Loève transform of these, weighted by what the
logits feel, is where the bottleneck begins. It gives the stem's features back, so all of the
teacher that follows can be used: copies of the next blocks learn along, the last ones stay as they
are. No labels are used, and no logits: with few pictures those are learnt by heart.
"""

import math
from copy import deepcopy
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from headtail_models.bottleneck import klt
from headtail_models.bottleneck.prior import Prior
from headtail_models.bottleneck.rounding import noisy, rounded, scale_for
from headtail_models.nets.mobilenet_v2 import MobileNetV2, pooled
from headtail_models.training.job import Loss
from headtail_models.training.mobilenet_v2_data import CUT, FELT, DataOptions, MobileNetData
from headtail_models.training.rate_control import RateControl
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.settings import draw_step, settings_as

LEARNT: Final = 13
"""Copies of the blocks after the cut, up to this one, learn along."""
PATCH: Final = 2
"""Places that are put side by side as channels before the transform, which takes 2x2 of them."""
FEATURES: Final = 24 * PATCH**2
_STEP_POWER: Final = 0.9
_FIRST_LAMBDA: Final = 0.3
_STEPS: Final = (1.0, 2.0)
"""Quantiser steps that the calibration split is looked at with."""


class Options(DataOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the network is."""

    channels: int = 96
    encoder_width: int = 32
    decoder_width: int = 96
    decoder_blocks: int = 2
    prior_hidden: int = 32
    prior_radius: int = 2
    start_bytes: float = 2500.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stage may change: the payload of a picture at step 1, the weights of the parts of the
    loss, and the range that quantiser steps are drawn from (log-uniform).

    `stem`: error of the restored features as the logits feel it; `blocks`: of the outputs of the
    blocks in FELT; `pool`: of the last features' means. With none of them only the rate counts.
    """

    kilobytes: float = 2.0
    stem: float = 0.0
    blocks: float = 0.0
    pool: float = 0.0
    step_low: float = 1.0
    step_high: float = 1.0

    @property
    def judges(self) -> bool:
        """Whether what arrives is looked at."""
        return bool(self.stem or self.blocks or self.pool)


class Network(nn.Module):
    """All that learns. Features of the stem in, those of block LEARNT out."""

    def __init__(self, options: Options, teacher: MobileNetV2) -> None:
        super().__init__()
        self.encoder = klt.KltEncoder(FEATURES, options.channels, width=options.encoder_width)
        self.decoder = klt.KltDecoder(
            FEATURES, options.channels, width=options.decoder_width, blocks=options.decoder_blocks
        )
        self.prior = Prior(
            options.channels, hidden=options.prior_hidden, radius=options.prior_radius
        )
        self.rate = RateControl(_FIRST_LAMBDA)
        self.blocks = nn.ModuleList(
            deepcopy(teacher.block(number)).requires_grad_(True)
            for number in range(CUT + 1, LEARNT + 1)
        )

    def encode(self, stem: torch.Tensor) -> torch.Tensor:
        """Latents (N, channels, 14, 14), not yet rounded, of the stem's (N, 24, 56, 56)."""
        latents: torch.Tensor = self.encoder(functional.pixel_unshuffle(stem, PATCH))
        return latents

    def stem(self, latents: torch.Tensor) -> torch.Tensor:
        """The stem's features again."""
        return functional.pixel_shuffle(self.decoder(latents), PATCH)

    def restore(self, latents: torch.Tensor) -> torch.Tensor:
        """What block LEARNT makes of them: (N, 96, 14, 14)."""
        tensor = self.stem(latents)
        for block in self.blocks:
            tensor = block(tensor)
        return tensor


class MobileNetJob:
    """The job. Its data are fetched, and its features computed, when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, TrainingDataError, PhotoSetError and the assets' errors."""
        torch.set_num_threads(1)
        self._options = recipe.options_as(Options)
        self._settings = Settings()
        source = MobileNetData(self._options, recipe.seed, data, cache)
        self.teacher = source.teacher
        self.cache = source.features()
        with torch.no_grad():
            self._stems, self._classes = self._calibrate(source)
        self._metric = self._sensitivity()
        torch.manual_seed(recipe.seed)
        self.network = Network(self._options, self.teacher)
        self._start()

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        network = self.network
        return klt.groups(network.encoder, network.decoder) | {
            "prior": list(network.prior.parameters()),
            "tail": list(network.blocks.parameters()),
        }

    def begin(self, stage: StageRecipe) -> None:
        self._settings = settings_as(stage, Settings)

    def draw(self, random: np.random.Generator, count: int) -> dict[str, torch.Tensor]:
        batch = self.cache.take(random.choice(self.cache.count, count, replace=False))
        step = draw_step(random, self._settings.step_low, self._settings.step_high)
        batch["step"] = torch.tensor(step)
        return batch

    def loss(self, batch: dict[str, torch.Tensor], progress: float) -> Loss:
        settings, network = self._settings, self.network
        step = float(batch["step"])
        latents = network.encode(batch["stem"].float())
        whole = rounded(latents, step)
        bits = network.prior.bits(noisy(latents, step), whole, step)
        # A coarser step takes fewer bits by itself: the rate is steered as if it were step 1.
        kilobytes = bits.sum() / (8000 * len(bits)) * step**_STEP_POWER
        shown = {"kilobytes": float(kilobytes.detach()), "lambda": network.rate.value}
        if not settings.judges:
            return Loss(total=kilobytes, parts=shown)
        stem = network.stem(whole * step)
        parts = {"stem": self._felt(stem, batch["stem"].float())} | self._later(stem, batch)
        distortion = torch.stack([getattr(settings, name) * part for name, part in parts.items()])
        total = distortion.sum() + network.rate.value * kilobytes
        network.rate.see(float(kilobytes.detach()), settings.kilobytes)
        return Loss(
            total=total,
            parts=shown | {name: float(part.detach()) for name, part in parts.items()},
        )

    def evaluate(self) -> dict[str, float]:
        scores: dict[str, float] = {}
        marks = []
        for step in _STEPS:
            whole = rounded(self.network.encode(self._stems), step)
            size = float(self.network.prior.bits(whole, whole, step).sum()) / 8 / len(whole)
            logits = self.teacher.finish(self.network.restore(whole * step), after=LEARNT)
            agreed = float((logits.argmax(dim=1) == self._classes).float().mean())
            sure = logits.softmax(dim=1).gather(1, self._classes[:, None])
            scores |= {f"agreement@{step:g}": agreed, f"bytes@{step:g}": size}
            # The share of the teacher's class is the smoother measure; an octave of bytes is
            # worth about a tenth of either.
            marks.append((agreed + float(sure.mean())) / 2 - 0.1 * math.log2(size / 2000))
        scores["score"] = float(np.mean(marks))
        return scores

    def _later(self, stem: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What is left of the loss behind the restored features."""
        tensor, errors = stem, []
        for number in range(CUT + 1, len(self.teacher.features)):
            learns = number <= LEARNT
            block = self.network.blocks[number - CUT - 1] if learns else None
            tensor = (block or self.teacher.features[number])(tensor)
            if number in FELT:
                errors.append(_relative(tensor, batch[f"f{number}"]))
        return {
            "blocks": torch.stack(errors).mean(),
            "pool": _relative(pooled(tensor), batch["pool"]),
        }

    def _felt(self, stem: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """The error of the stem's features as the logits feel it, relative to their spread."""
        away = functional.conv2d(functional.pixel_unshuffle(stem - wanted, PATCH), self._root)
        whole = functional.conv2d(functional.pixel_unshuffle(wanted, PATCH), self._root)
        return away.square().mean() / whole.var(dim=(0, 2, 3)).mean()

    def _sensitivity(self) -> torch.Tensor:
        """How much the logits feel an error of the stem's features, (FEATURES, FEATURES).

        M = E[g g^T] over gradients g of random sums of log-probabilities, at temperature 2: the
        Fisher information, an error e of a patch costs e^T M e.
        """
        random = np.random.default_rng(0)
        noise = torch.Generator().manual_seed(0)
        metric = torch.zeros(FEATURES, FEATURES)
        for _ in range(_FISHER_BATCHES):
            batch = self.cache.take(random.choice(self.cache.count, 8, replace=False))
            stem = batch["stem"].float().requires_grad_()
            logits = self.teacher.finish(stem, after=CUT)
            shares = (logits.detach() / 2).softmax(dim=1)
            draw = shares.sqrt() * torch.randn(shares.shape, generator=noise)
            draw -= shares * draw.sum(dim=1, keepdim=True)
            (slopes,) = torch.autograd.grad((logits * draw).sum(), stem)
            rows = functional.pixel_unshuffle(slopes, PATCH).transpose(0, 1).flatten(1)
            metric += rows @ rows.T
        # A little of everything, so that no direction is free.
        return metric + 1e-3 * metric.diagonal().mean() * torch.eye(FEATURES)

    def _start(self) -> None:
        values, vectors = torch.linalg.eigh(self._metric)
        self._root = (vectors * values.clamp(min=0).sqrt()).T.reshape(FEATURES, FEATURES, 1, 1)
        random = np.random.default_rng(0)
        numbers = random.choice(self.cache.count, min(300, self.cache.count), replace=False)
        stems = functional.pixel_unshuffle(self.cache.take(numbers)["stem"].float(), PATCH)
        transform = klt.fit(stems, self._metric, self._options.channels)
        latents = functional.conv2d(stems, transform.analysis, transform.offset, stride=klt.BLOCK)
        scaled = transform.scaled(
            scale_for(latents, 8 * self._options.start_bytes / latents[0, 0].numel())
        )
        self.network.encoder.start(scaled)
        self.network.decoder.start(scaled)

    def _calibrate(self, source: MobileNetData) -> tuple[torch.Tensor, torch.Tensor]:
        """The stem's features of the calibration photos, and the teacher's classes for them."""
        stems, classes = [], []
        for image in source.calibration():
            stem = dict(self.teacher.walk(image, after=-1, until=CUT))[CUT]
            stems.append(stem)
            classes.append(self.teacher.finish(stem, after=CUT).argmax(dim=1))
        return torch.cat(stems), torch.cat(classes)


_FISHER_BATCHES: Final = 16


def _relative(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Mean square error over the variance, channel by channel, of what is wanted."""
    target = wanted.float()
    axes = tuple(axis for axis in range(target.ndim) if axis != 1)
    spread = target.var(dim=axes, keepdim=True).clamp(min=1e-4)
    return ((found.float() - target).square() / spread).mean()
