"""The job `yamnet-audio`: a bottleneck and an early exit for YAMNet, taught by YAMNet itself.

Layers 1 to 3 are frozen, so their features and all that the teacher makes of them are computed
once. What learns is the encoder, the prior, the decoder, copies of L4 to L6, and the exit; from L7
on the teacher's own layers go on. No labels are used: the exit learns when the teacher is sure of
silence or of speech.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from headtail_models.assets import fetch
from headtail_models.audio.log_mel import LogMel, Patches
from headtail_models.bottleneck import klt
from headtail_models.bottleneck.rounding import noisy, rounded, scale_for
from headtail_models.nets.yamnet import YamnetNet
from headtail_models.nets.yamnet_bottleneck import YamnetBottleneck, YamnetExit
from headtail_models.training.feature_cache import FeatureCache, open_cache
from headtail_models.training.job import Loss
from headtail_models.training.rate_control import RateControl
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.settings import draw_step, settings_as
from headtail_models.training.yamnet_sounds import clip_patches, open_clips, scene_patches
from headtail_models.zoo import yamnet_reader
from headtail_models.zoo.yamnet_layers import JOIN, LAYERS, TRUNK

ASSET: Final = "yamnet"
FEATURES: Final = (8, 10, 12, 14)
SILENCE: Final = "Silence"
SPEECH: Final = "Speech"
GO_ON: Final = 2
_SURE: Final = 0.5
"""The score from which on the teacher's best tag counts as certain."""
_FEEL: Final = 9
"""Its features say what the layers behind the cut feel of the cut's."""
_BATCH: Final = 32


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the network and its data are. `scenes` made-up patches to train on;
    `calibration_patches` of real clips and scenes, half and half, to choose on; `start_bits` a
    patch, at the beginning."""

    channels: int = 24
    encoder_width: int = 24
    decoder_width: int = 64
    decoder_blocks: int = 2
    prior_hidden: int = 40
    exit_width: int = 48
    scenes: int = 9600
    calibration_patches: int = 400
    start_bits: float = 3000.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stage may change: the rate in bits a patch, the weights of the parts of the loss, and
    the range that quantiser steps are drawn from (log-uniform)."""

    target_bits: float = 1500.0
    near: float = 1.0
    features: float = 1.0
    embedding: float = 1.0
    scores: float = 0.0
    exit: float = 0.1
    step_low: float = 1.0
    step_high: float = 1.0


class Network(nn.Module):
    """All that learns."""

    def __init__(self, options: Options, teacher: YamnetNet) -> None:
        super().__init__()
        self.bottleneck = YamnetBottleneck(
            teacher,
            channels=options.channels,
            encoder_width=options.encoder_width,
            decoder_width=options.decoder_width,
            decoder_blocks=options.decoder_blocks,
            prior_hidden=options.prior_hidden,
        )
        self.exit = YamnetExit(width=options.exit_width)
        self.rate = RateControl(1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """What is chosen on: features of L3, and the teacher's logits."""

    trunk: torch.Tensor
    logits: torch.Tensor


class YamnetJob:
    """See the module. The cache of features lies in `cache`; minutes go by when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, TrainingDataError, SoundError and the assets' errors."""
        torch.set_num_threads(1)
        self._options = recipe.options_as(Options)
        self._settings = Settings()
        files = fetch(ASSET)
        names = yamnet_reader.labels(files)
        self._silence, self._speech = names.index(SILENCE), names.index(SPEECH)
        self._front = LogMel(patch_hop=LogMel().patch)
        self.teacher = YamnetNet(yamnet_reader.read(files)).eval().requires_grad_(False)
        self.teacher.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        key = {"scenes": self._options.scenes, "seed": recipe.seed}
        self.cache: FeatureCache = open_cache(
            cache, "features", key=key, batches=lambda: self._features(data, recipe.seed)
        )
        self.calibration = self._calibrate(data, recipe.seed)
        torch.manual_seed(recipe.seed)
        self.network = Network(self._options, self.teacher)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._start()

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        part = self.network.bottleneck
        return klt.groups(part.encoder, part.decoder) | {
            "prior": list(part.prior.parameters()),
            "tail": list(part.copies.parameters()),
            "exit": list(self.network.exit.parameters()),
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
        trunk = batch["trunk"].float().contiguous(memory_format=torch.channels_last)
        taught = batch["logits"].float()
        latents = network.bottleneck.encoder(trunk).float()
        whole = rounded(latents, step)
        bits = network.bottleneck.prior.bits(noisy(latents, step), whole, step)
        rate = bits.sum() / bits.shape[0]
        joined = network.bottleneck.restore(whole * step)
        near = _relative(joined, batch["joined"])
        later = dict(self.teacher.walk(joined, after=JOIN))
        features = torch.stack([_relative(later[i], batch[f"l{i}"]) for i in FEATURES]).mean()
        embedding = _relative(later[LAYERS].mean(dim=(2, 3)), batch["l14"].float().mean(dim=(2, 3)))
        logits = self.teacher.classify(later[LAYERS]).float()
        scores = _score_loss(logits, taught)
        exit_loss = functional.cross_entropy(network.exit(trunk).float(), self._fate(taught))
        # The target is that of step 1: a coarser step is worth about one bit less an octave.
        target = settings.target_bits / step**0.9
        total = (
            settings.near * near
            + settings.features * features
            + settings.embedding * embedding
            + settings.scores * scores
            + settings.exit * exit_loss
            + network.rate.value * rate / target
        )
        network.rate.see(float(rate.detach()), target)
        parts = {
            "bits": rate * step**0.9,
            "near": near,
            "features": features,
            "embedding": embedding,
            "scores": scores,
            "exit": exit_loss,
        }
        numbers = {name: float(value.detach()) for name, value in parts.items()}
        return Loss(total=total, parts=numbers | {"lambda": network.rate.value})

    def evaluate(self) -> dict[str, float]:
        part, given = self.network.bottleneck, self.calibration
        taught = given.logits.argmax(dim=1)
        latents = torch.cat([part.encoder(some) for some in torch.split(given.trunk, _BATCH)])
        scores: dict[str, float] = {}
        marks = []
        for step in (1.0, 2.0):
            whole = rounded(latents, step)
            size = float(part.prior.bits(whole, whole, step).sum()) / whole.shape[0] / 8
            found = torch.cat(
                [
                    self.teacher.finish(part.restore(some * step), after=JOIN)
                    for some in torch.split(whole, _BATCH)
                ]
            )
            agreed = float((found.argmax(dim=1) == taught).float().mean())
            away = float((found.sigmoid() - given.logits.sigmoid()).abs().mean())
            scores |= {f"agreement@{step:g}": agreed, f"bytes@{step:g}": size}
            scores[f"score_error@{step:g}"] = away
            # Along a curve of this bottleneck an octave of bytes is worth about a twentieth.
            marks.append(agreed - 0.05 * math.log2(size / 150))
        fates = self.network.exit(given.trunk).argmax(dim=1)
        scores["exit_right"] = float((fates == self._fate(given.logits)).float().mean())
        scores["score"] = float(np.mean(marks))
        return scores

    @property
    def exit_classes(self) -> tuple[int, ...]:
        """The labels that the exit's first logits stand for."""
        return (self._silence, self._speech)

    def best_fates(self, logits: torch.Tensor) -> NDArray[np.int64]:
        """By the network's best tag, (N,): 0 silence, 1 speech, 2 anything else."""
        tags = logits.argmax(dim=1)
        fates = torch.full_like(tags, GO_ON)
        for fate, tag in enumerate(self.exit_classes):
            fates[tags == tag] = fate
        return fates.numpy()

    def _fate(self, logits: torch.Tensor) -> torch.Tensor:
        """What the exit should say, (N,): that, and to go on where the network is unsure."""
        sure = logits.amax(dim=1) > math.log(_SURE / (1 - _SURE))
        return torch.where(sure, torch.from_numpy(self.best_fates(logits)), GO_ON)

    def _features(self, data: Path, seed: int) -> Iterator[dict[str, torch.Tensor]]:
        clips = [clip.samples for clip in open_clips(data, "train")]
        for patches in scene_patches(
            clips, self._front, count=self._options.scenes, batch=_BATCH, seed=seed
        ):
            kept, logits = self._teach(patches)
            later = {f"l{number}": kept[number] for number in FEATURES}
            yield later | {"trunk": kept[TRUNK], "joined": kept[JOIN], "logits": logits}

    def _calibrate(self, data: Path, seed: int) -> Calibration:
        half = self._options.calibration_patches // 2
        clips = open_clips(data, "calibration")
        real = clip_patches(clips, self._front, most=2)
        chosen = np.random.default_rng(seed).permutation(len(real))[:half]
        made = scene_patches(
            [clip.samples for clip in clips], self._front, count=half, batch=_BATCH, seed=seed + 1
        )
        parts = [self._teach(patches) for patches in (real[chosen], *made)]
        return Calibration(
            trunk=torch.cat([kept[TRUNK] for kept, _ in parts]),
            logits=torch.cat([logits for _, logits in parts]),
        )

    def _teach(self, patches: Patches) -> tuple[dict[int, torch.Tensor], torch.Tensor]:
        with torch.no_grad():
            kept = dict(self.teacher.walk(torch.from_numpy(patches), after=0))
            return kept, self.teacher.classify(kept[LAYERS])

    def _start(self) -> None:
        """Begin at the transform of what the later layers feel."""
        random = np.random.default_rng(0)
        numbers = random.choice(self.cache.count, min(600, self.cache.count), replace=False)
        features = self.cache.take(numbers)["trunk"].float()
        transform = klt.fit(features, self._felt(features[:200]), self._options.channels)
        latents = functional.conv2d(features, transform.analysis, transform.offset, stride=2)
        scaled = transform.scaled(
            scale_for(latents, self._options.start_bits / latents[0, 0].numel())
        )
        self.network.bottleneck.encoder.start(scaled)
        self.network.bottleneck.decoder.start(scaled)

    def _felt(self, features: torch.Tensor) -> torch.Tensor:
        """The metric (C, C) of what layer `_FEEL` feels: the mean outer product of gradients of
        random projections of it (Hutchinson's estimate of J^T J)."""
        generator = torch.Generator().manual_seed(0)
        metric = torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64)
        for some in torch.split(features, _BATCH):
            given = some.clone().requires_grad_()
            felt = dict(self.teacher.walk(given, after=TRUNK, until=_FEEL))[_FEEL]
            signs = torch.randint(0, 2, felt.shape, generator=generator) * 2.0 - 1
            (gradient,) = torch.autograd.grad((felt * signs).sum(), given)
            flat = gradient.double().transpose(0, 1).flatten(1)
            metric += flat @ flat.T / flat.shape[1]
        return metric


def _relative(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Square error over the mean square of what is wanted, patch by patch, so that loud ones don't
    drown the others; a tenth of the batch's own mean keeps the quietest from ruling."""
    target = wanted.float().flatten(1)
    power = target.square().mean(dim=1)
    error = (found.float().flatten(1) - target).square().mean(dim=1)
    return (error / (power + 0.1 * power.mean())).mean()


def _score_loss(logits: torch.Tensor, taught: torch.Tensor) -> torch.Tensor:
    """What the teacher's scores are worth less in the student's, in nats a patch: independent
    classes, so a sum of binary divergences."""
    wanted = taught.sigmoid()
    cross = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    own = functional.binary_cross_entropy_with_logits(taught, wanted, reduction="none")
    return (cross - own).sum(dim=1).clamp(max=20.0).mean()
