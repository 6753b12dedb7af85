"""What can go wrong before and while something is trained."""

from headtail_fabric.errors import ConfigError, ResourceError


class RecipeError(ConfigError):
    """The recipe can't be read: see the message for the key. `headtail train --list` names the
    recipes that Headtail was released with; each of them is an example to start from."""


class OtherRecipeError(ConfigError):
    """The folder holds a training that was begun with another recipe. Name another folder, or
    delete this one to begin afresh."""


class CheckpointError(ConfigError):
    """The checkpoint in the folder can't be read. Delete it to begin afresh; what was logged
    stays."""


class TrainingDataError(ConfigError):
    """The pictures or sounds to train on are not there, or too few. Name the folder that holds
    them with --data or HEADTAIL_DATA."""


class DivergedError(ResourceError):
    """The loss is no longer a number. Lower the rates in the recipe, or turn bf16 off."""
