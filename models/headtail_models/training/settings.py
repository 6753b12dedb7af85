"""What a stage changes in its job, and the quantiser step that most of them draw."""

import math
from typing import TypeVar

import msgspec
import numpy as np

from headtail_models.training.errors import RecipeError
from headtail_models.training.recipe import StageRecipe

Settings = TypeVar("Settings", bound=msgspec.Struct)


def settings_as(stage: StageRecipe, kind: type[Settings]) -> Settings:
    """The settings of a stage. Raises RecipeError for one that the job does not know."""
    try:
        return msgspec.convert(stage.settings, kind)
    except msgspec.ValidationError as error:
        raise RecipeError(f"stage {stage.name!r}, settings: {error}") from None


def draw_step(random: np.random.Generator, low: float, high: float) -> float:
    """A quantiser step of a range, log-uniform."""
    return math.exp(random.uniform(math.log(low), math.log(high)))
