"""What a stage changes in its job."""

from typing import TypeVar

import msgspec

from headtail_models.training.errors import RecipeError
from headtail_models.training.recipe import StageRecipe

Settings = TypeVar("Settings", bound=msgspec.Struct)


def settings_as(stage: StageRecipe, kind: type[Settings]) -> Settings:
    """The settings of a stage. Raises RecipeError for one that the job does not know."""
    try:
        return msgspec.convert(stage.settings, kind)
    except msgspec.ValidationError as error:
        raise RecipeError(f"stage {stage.name!r}, settings: {error}") from None
