"""The jobs that recipes may name."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from headtail_models.training.errors import RecipeError
from headtail_models.training.job import Job
from headtail_models.training.recipe import Recipe

JOBS: Final = {
    "yolov3-tiny": ("headtail_models.training.yolov3_tiny", "YoloJob"),
    "yolov3-tiny-light": ("headtail_models.training.yolov3_light", "LightJob"),
    "yolov3-tiny-filter": ("headtail_models.training.yolov3_filter", "FilterJob"),
    "mobilenetv2-imagenet": ("headtail_models.training.mobilenet_v2", "MobileNetJob"),
    "mobilenetv2-student": (
        "headtail_models.training.mobilenet_v2_student",
        "MobileNetStudentJob",
    ),
    "resnet-cifar10": ("headtail_models.training.cifar", "CifarJob"),
    "resnet-cifar10-student": ("headtail_models.training.cifar_student", "CifarStudentJob"),
    "yamnet-audio": ("headtail_models.training.yamnet", "YamnetJob"),
    "spoken-digits": ("headtail_models.training.digits", "DigitsJob"),
    "motion": ("headtail_models.training.motion", "MotionJob"),
    "board-int8": ("headtail_models.training.board_int8", "BoardInt8Job"),
}
"""Module and class by name; a job is made of the recipe, the data's folder and a cache folder."""


def open_job(recipe: Recipe, data: Path, cache: Path) -> Job:
    """The job of a recipe; may fetch and compute for minutes. Raises RecipeError and the job's
    own errors."""
    if recipe.job not in JOBS:
        raise RecipeError(
            f"recipe {recipe.name}: no job is called {recipe.job!r}; there are {', '.join(JOBS)}"
        )
    module, name = JOBS[recipe.job]
    make: Callable[[Recipe, Path, Path], Job] = getattr(import_module(module), name)
    return make(recipe, data, cache)
