"""The job `yolov3-tiny-light`: an encoder of a third of the cost, taught by the one it replaces.

It reads what layer 1 gives, and learns to give the latents of a bottleneck that `yolov3-tiny` has
trained; the decoder then adapts to what it misses. Random weights that learn from the outputs
alone would need far longer.
"""

from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import nn

from headtail_models.bottleneck.klt import KltEncoder
from headtail_models.bottleneck.light import LightEncoder
from headtail_models.training.errors import TrainingDataError
from headtail_models.training.job import Loss
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.sensitivity import Sensitivity
from headtail_models.training.settings import draw_step, settings_as
from headtail_models.training.trainer import read_best
from headtail_models.training.yolov3_data import SHALLOW, TRUNK, YoloData, data_options
from headtail_models.training.yolov3_tiny import (
    Network,
    Options,
    coded,
    later_groups,
    relative,
    scores,
    steered,
)


class LightOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`teacher`: the folder that `headtail train yolov3-tiny-coco` wrote, with the same options."""

    teacher: str
    widths: tuple[int, int, int] = (24, 48, 96)
    light_prior_hidden: int = 32


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the parts of the loss (`latents`: error against the latents of the encoder that
    it replaces), the rate in bits a picture pixel, and the range of quantiser steps."""

    latents: float = 1.0
    near: float = 0.0
    felt: float = 0.0
    target_bpp: float = 0.2
    step_low: float = 1.0
    step_high: float = 1.0


class LightJob:
    """The job. Its data are fetched, and its features computed, when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, TrainingDataError, CheckpointError and the errors of YoloData."""
        options = recipe.options_as(LightOptions)
        self._settings = Settings()
        self.data = YoloData(data_options(options), recipe.seed, data, cache)
        self._images = self.data.images()
        self.held_out = list(self.data.held_out())
        self._sensitivity = Sensitivity(self.data.teacher, self.data.features, self.data.classes)
        torch.manual_seed(recipe.seed)
        width = self.data.teacher.layer(TRUNK + 1).in_channels
        self._model = KltEncoder(width, options.channels, width=options.encoder_width)
        inputs = self.data.teacher.layer(SHALLOW + 1).in_channels
        encoder = LightEncoder(inputs, options.channels, widths=options.widths)
        light = msgspec.structs.replace(options, prior_hidden=options.light_prior_hidden)
        self.network = Network(encoder, light, self.data.teacher)
        self._begin_at(read_best(Path(options.teacher)))
        self._model.eval().requires_grad_(False)

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        decoder = self.network.restore.decoder
        return later_groups(self.network) | {
            "klt": list(decoder.linear.parameters()),
            "decoder": decoder.bent(),
            "encoder": list(self.network.encoder.parameters()),
        }

    def begin(self, stage: StageRecipe) -> None:
        self._settings = settings_as(stage, Settings)

    def draw(self, random: np.random.Generator, count: int) -> dict[str, torch.Tensor]:
        numbers = random.choice(self.data.features.count, count, replace=False)
        batch = self.data.features.take(numbers) | self._images.take(numbers)
        step = draw_step(random, self._settings.step_low, self._settings.step_high)
        return batch | {"step": torch.tensor(step)}

    def loss(self, batch: dict[str, torch.Tensor], progress: float) -> Loss:
        settings, network = self._settings, self.network
        step = float(batch["step"])
        latents = self._encode(batch["image"].float()).float()
        with torch.no_grad():
            wanted = self._model(batch["trunk"].float()).float()
        parts = {"latents": relative(latents, wanted)}
        whole, bpp = coded(network, latents, step)
        if settings.near or settings.felt:
            joined = network.restore(whole * step)
            parts["near"] = relative(joined, batch["joined"])
            parts["felt"] = self._sensitivity.error(joined, batch)
        return steered(network.rate, parts, settings, bpp=bpp, step=step)

    def evaluate(self) -> dict[str, float]:
        latents = (self._encode(photo.image) for photo in self.held_out)
        return scores(self.network, self.data, self._sensitivity, self.held_out, latents)

    def _encode(self, image: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            shallow = self.data.teacher(image, after=-1, keep=(SHALLOW,))[SHALLOW]
        result: torch.Tensor = self.network.encoder(shallow)
        return result

    def _begin_at(self, weights: dict[str, torch.Tensor]) -> None:
        parts: dict[str, dict[str, torch.Tensor]] = {"encoder": {}, "restore": {}}
        for name, tensor in weights.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = tensor
        try:
            self._model.load_state_dict(parts["encoder"])
            self.network.restore.load_state_dict(parts["restore"])
        except RuntimeError as error:
            raise TrainingDataError(f"the teacher's weights have other shapes: {error}") from None
