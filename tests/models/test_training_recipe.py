"""Recipes: read whole or refused with the name of what is wrong."""

from pathlib import Path

import msgspec
import pytest

from headtail_models.training.errors import RecipeError
from headtail_models.training.jobs import JOBS, open_job
from headtail_models.training.recipe import built_in, parse_recipe, read_recipe
from headtail_models.training.settings import settings_as

RECIPE = """
name = "toy"
job = "toy"
[options]
width = 3
[[stage]]
name = "only"
steps = 10
batch = 2
rate = 0.1
settings = { target = 0.5 }
"""


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    width: int


class _Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: float = 1.0


def test_a_recipe_is_read_with_its_options_and_settings() -> None:
    recipe = parse_recipe(RECIPE, name="toy.toml")
    assert recipe.steps == 10
    assert recipe.options_as(_Options).width == 3
    assert settings_as(recipe.stage[0], _Settings).target == 0.5


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("steps = 10", "stepps = 10", "stepps"),
        ("rate = 0.1", "rate = 0", "rate"),
        ("batch = 2", "", "batch"),
        ("steps = 10", "steps = 10\nbf16 = 3", "bf16"),
        ("[[stage]]", "[stage]", "stage"),
        ('job = "toy"', "job = ", "line 3"),
    ],
)
def test_a_wrong_key_or_value_is_named(old: str, new: str, named: str) -> None:
    with pytest.raises(RecipeError, match=named):
        parse_recipe(RECIPE.replace(old, new), name="toy.toml")


def test_options_and_settings_that_the_job_does_not_know_are_refused() -> None:
    recipe = parse_recipe(RECIPE.replace("width = 3", "wide = 3"), name="toy.toml")
    with pytest.raises(RecipeError, match="wide"):
        recipe.options_as(_Options)
    other = parse_recipe(RECIPE.replace("target = 0.5", "goal = 0.5"), name="toy.toml")
    with pytest.raises(RecipeError, match="goal"):
        settings_as(other.stage[0], _Settings)


def test_a_recipe_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(RecipeError, match=r"nothing\.toml.*yolov3-tiny-coco"):
        read_recipe("nothing.toml")


@pytest.mark.parametrize("name", built_in())
def test_every_recipe_that_is_released_names_a_job(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name
    assert recipe.about
    assert recipe.job in JOBS


def test_an_unknown_job_is_refused(tmp_path: Path) -> None:
    recipe = parse_recipe(RECIPE, name="toy.toml")
    with pytest.raises(RecipeError, match="yolov3-tiny"):
        open_job(recipe, data=tmp_path, cache=tmp_path)
