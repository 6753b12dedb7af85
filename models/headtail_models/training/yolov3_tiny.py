"""The job `yolov3-tiny`: a bottleneck for the detector, taught by the detector itself.

The trunk up to layer 5 is frozen. What learns is the encoder, the prior, the decoder, and copies
of the layers 6 and 8 that follow the cut; from layer 9 on the teacher's own layers go on.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from headtail_models.bottleneck import klt
from headtail_models.bottleneck.prior import Prior
from headtail_models.bottleneck.rounding import noisy, rounded, scale_for
from headtail_models.nets.darknet import LEAK, DarknetNet
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.rate_control import RateControl
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.sensitivity import Sensitivity
from headtail_models.training.settings import draw_step, settings_as
from headtail_models.training.yolov3_data import (
    JOIN,
    MAPS,
    SIDE,
    STRIDE,
    TRUNK,
    DataOptions,
    HeldOut,
    YoloData,
    data_options,
)
from headtail_models.vision.average_precision import agreement

STEP_POWER: Final = 0.9
"""Bits fall about like this power of the step."""
_STEPS: Final = (1.0, 1.6)
_RATE_WEIGHT: Final = 1.0
"""About where the weight of the rate settles."""


class Options(DataOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the network is."""

    channels: int = 64
    encoder_width: int = 64
    decoder_width: int = 96
    decoder_blocks: int = 1
    prior_hidden: int = 64
    start_bpp: float = 0.35


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stage may change: the rate in bits a picture pixel, the weights of the parts of the
    loss, and the range that quantiser steps are drawn from (log-uniform).

    `near`: plain error where the teacher goes on; `felt`: that error as the outputs feel it;
    `maps` and `detections`: the outputs themselves, for which the rest of the teacher has to be
    run, at three times the cost of a step.
    """

    target_bpp: float = 0.2
    near: float = 0.5
    felt: float = 1.0
    maps: float = 0.0
    detections: float = 0.0
    step_low: float = 1.0
    step_high: float = 1.0


class Restore(nn.Module):
    """Latents (N, channels, H, W) to layer 8's output (N, 256, H, W)."""

    def __init__(self, options: Options, teacher: DarknetNet) -> None:
        super().__init__()
        width = teacher.layer(TRUNK + 1).in_channels
        self.decoder = klt.KltDecoder(
            width, options.channels, width=options.decoder_width, blocks=options.decoder_blocks
        )
        self.sixth = _copy(teacher.layer(6))
        self.eighth = _copy(teacher.layer(8))

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        features = self.decoder(latents)
        deeper = functional.leaky_relu(self.sixth(features), LEAK)
        pooled = functional.max_pool2d(deeper, 2, 2)
        result: torch.Tensor = functional.leaky_relu(self.eighth(pooled), LEAK)
        return result


class Network(nn.Module):
    """All that learns."""

    def __init__(self, encoder: nn.Module, options: Options, teacher: DarknetNet) -> None:
        super().__init__()
        self.encoder = encoder
        self.prior = Prior(options.channels, hidden=options.prior_hidden)
        self.restore = Restore(options, teacher)
        self.rate = RateControl(1.0)


class YoloJob:
    """The job. Its data are fetched, and its features computed, when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError and the errors of YoloData."""
        options = recipe.options_as(Options)
        self._settings = Settings()
        self.data = YoloData(data_options(options), recipe.seed, data, cache)
        self.held_out = list(self.data.held_out())
        self._sensitivity = Sensitivity(self.data.teacher, self.data.features, self.data.classes)
        torch.manual_seed(recipe.seed)
        width = self.data.teacher.layer(TRUNK + 1).in_channels
        encoder = klt.KltEncoder(width, options.channels, width=options.encoder_width)
        self.network = Network(encoder, options, self.data.teacher)
        transform = self._transform(options)
        encoder.start(transform)
        self.network.restore.decoder.start(transform)

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        encoder = self.network.encoder
        assert isinstance(encoder, klt.KltEncoder)
        return klt.groups(encoder, self.network.restore.decoder) | later_groups(self.network)

    def begin(self, stage: StageRecipe) -> None:
        self._settings = settings_as(stage, Settings)

    def draw(self, random: np.random.Generator, count: int) -> dict[str, torch.Tensor]:
        batch = self.data.features.take(
            random.choice(self.data.features.count, count, replace=False)
        )
        step = draw_step(random, self._settings.step_low, self._settings.step_high)
        batch["step"] = torch.tensor(step)
        return batch

    def loss(self, batch: dict[str, torch.Tensor], progress: float) -> Loss:
        settings, network = self._settings, self.network
        step = float(batch["step"])
        whole, bpp = coded(network, network.encoder(batch["trunk"].float()), step)
        joined = network.restore(whole * step)
        parts = {
            "near": relative(joined, batch["joined"]),
            "felt": self._sensitivity.error(joined, batch),
        }
        if settings.maps or settings.detections:
            parts |= self._outputs(joined, batch)
        return steered(network.rate, parts, settings, bpp=bpp, step=step)

    def _outputs(
        self, joined: torch.Tensor, batch: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        later = self.data.teacher(joined, after=JOIN, keep=MAPS)
        pairs = [(later[index], batch[f"l{index}"]) for index in MAPS]
        return {
            "maps": torch.stack([relative(*pair) for pair in pairs]).sum(),
            "detections": torch.stack(
                [_detection(*pair, self.data.classes) for pair in pairs]
            ).sum(),
        }

    def evaluate(self) -> dict[str, float]:
        latents = (self.network.encoder(photo.trunk) for photo in self.held_out)
        return scores(self.network, self.data, self._sensitivity, self.held_out, latents)

    def _transform(self, options: Options) -> klt.Klt:
        features = self.data.features
        numbers = np.random.default_rng(0).choice(features.count, min(400, features.count), False)
        trunk = features.take(numbers)["trunk"].float()
        metric = klt.sensitivity(self.data.teacher.layer(TRUNK + 1).weight)
        transform = klt.fit(trunk, metric, options.channels)
        latents = functional.conv2d(trunk, transform.analysis, transform.offset, stride=2)
        return transform.scaled(scale_for(latents, options.start_bpp * STRIDE**2))


def later_groups(network: Network) -> dict[str, list[nn.Parameter]]:
    """What learns beside encoder and decoder."""
    return {
        "prior": list(network.prior.parameters()),
        "tail": [*network.restore.sixth.parameters(), *network.restore.eighth.parameters()],
    }


def scores(
    network: Network,
    data: YoloData,
    sensitivity: Sensitivity,
    photos: Sequence[HeldOut],
    latents: Iterable[torch.Tensor],
) -> dict[str, float]:
    """Agreement with the full model, kilobytes and felt error at two steps.

    The score is the negative of felt error and rate together, as it is smooth: on some dozens of
    photos agreement jumps by a hundredth between checkpoints that differ in nothing else.
    """
    kept = list(latents)
    result: dict[str, float] = {}
    costs = []
    for step in _STEPS:
        found, sizes, felt = [], [], []
        for photo, values in zip(photos, kept, strict=True):
            whole = rounded(values, step)
            sizes.append(float(network.prior.bits(whole, whole, step).sum()) / 8)
            joined = network.restore(whole * step)
            felt.append(float(sensitivity.error(joined, photo.wanted)))
            found.append(data.detections(joined, photo.geometry))
        size, error = float(np.mean(sizes)), float(np.mean(felt))
        result |= {
            f"agreement@{step:g}": agreement(found, [photo.found for photo in photos]),
            f"kilobytes@{step:g}": size / 1000,
            f"felt@{step:g}": error,
        }
        costs.append(error + _RATE_WEIGHT * 8 * size * step**STEP_POWER / SIDE**2)
    return result | {SCORE: -float(np.mean(costs))}


class RateSettings(Protocol):
    """What the settings of every job here have."""

    @property
    def target_bpp(self) -> float: ...


def coded(
    network: Network, latents: torch.Tensor, step: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole numbers (N, C, H, W) of the latents, and the bits a picture pixel that they cost."""
    latents = latents.float()
    whole = rounded(latents, step)
    bits = network.prior.bits(noisy(latents, step), whole, step)
    return whole, bits.sum() / (bits.shape[0] * bits.shape[2] * bits.shape[3] * STRIDE**2)


def steered(
    rate: RateControl,
    parts: dict[str, torch.Tensor],
    settings: RateSettings,
    *,
    bpp: torch.Tensor,
    step: float,
) -> Loss:
    """The loss of weighted parts and rate. A coarser step takes fewer bits by itself, so the rate
    is steered as if it were step 1."""
    distortion = torch.stack([getattr(settings, name) * part for name, part in parts.items()]).sum()
    normal = bpp * step**STEP_POWER
    loss = distortion + rate.value * normal
    rate.see(float(normal.detach()), settings.target_bpp)
    shown = {name: float(part.detach()) for name, part in parts.items()}
    return Loss(total=loss, parts=shown | {"bpp": float(normal.detach()), "lambda": rate.value})


def relative(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Mean square error over the mean square of what is wanted."""
    target = wanted.float()
    return functional.mse_loss(found.float(), target) / target.square().mean()


def _detection(found: torch.Tensor, wanted: torch.Tensor, classes: int) -> torch.Tensor:
    """Objectness and classes as soft labels, boxes by distance, where the teacher sees something.

    (After Chen et al., "Learning efficient object detection models with knowledge distillation",
    NeurIPS 2017, for maps of independent classes.)
    """
    shape = (found.shape[0], -1, 5 + classes, *found.shape[2:])
    mine, taught = found.float().reshape(shape), wanted.float().reshape(shape)
    seen = taught[:, :, 4].sigmoid()
    objects = functional.binary_cross_entropy_with_logits(mine[:, :, 4], seen, reduction="sum")
    labels = functional.binary_cross_entropy_with_logits(
        mine[:, :, 5:], taught[:, :, 5:].sigmoid(), reduction="none"
    ).sum(dim=2)
    boxes = (mine[:, :, :4] - taught[:, :, :4]).abs().sum(dim=2)
    certain = seen.sum().clamp(min=1.0)
    result: torch.Tensor = objects / certain + ((labels + boxes) * seen).sum() / certain
    return result


def _copy(layer: nn.Conv2d) -> nn.Conv2d:
    copy = nn.Conv2d(
        layer.in_channels, layer.out_channels, layer.kernel_size[0], padding=layer.padding[0]
    )
    copy.load_state_dict(layer.state_dict())
    return copy
