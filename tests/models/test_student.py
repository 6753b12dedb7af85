"""Networks with a published block inside, by the recipes that their papers train by."""

from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

import tiny_cifar
from headtail_models.bottleneck import losses
from headtail_models.training.cifar import CifarJob
from headtail_models.training.cifar_student import REPLACED, CifarStudentJob
from headtail_models.training.errors import RecipeError, TrainingDataError
from headtail_models.training.recipe import Recipe, StageRecipe, built_in, read_recipe
from headtail_models.training.student import (
    Seen,
    StudentSettings,
    student_loss,
    student_settings,
)
from headtail_models.training.trainer import train

RECIPES = ("cifar10-hnd", "cifar10-ghnd", "cifar10-plain", "cifar10-two-stage")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("student")
    tiny_cifar.write_pictures(folder)
    recipe = tiny_cifar.recipe()
    train(CifarJob(recipe, folder, folder / "cache"), recipe, folder / "teacher")
    return folder


def _short(name: str, place: Path, **options: Any) -> Recipe:
    """A released recipe, ten steps a stage, for the tiny teacher."""
    recipe = read_recipe(name)
    return msgspec.structs.replace(
        recipe,
        options=recipe.options
        | tiny_cifar.recipe().options
        | {"teacher": str(place / "teacher")}
        | options,
        stage=tuple(
            msgspec.structs.replace(stage, steps=10, batch=8, warmup=2, evaluate_every=5)
            for stage in recipe.stage
        ),
    )


def _job(name: str, place: Path) -> CifarStudentJob:
    return CifarStudentJob(_short(name, place), place, place / "cache")


@pytest.mark.parametrize("name", RECIPES)
def test_the_released_recipes_train(
    name: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in built_in()
    job = _job(name, place)
    before = {key: value.clone() for key, value in job.network.state_dict().items()}
    with torch.no_grad():
        assert {"score", "agreement"} == set(job.evaluate())
    # The last weights are taken, however well they do after so few steps.
    scores = count()
    monkeypatch.setattr(job, "evaluate", lambda: {"score": float(next(scores))})
    train(job, _short(name, place), tmp_path / "out")
    last = job.network.state_dict()
    moved = {key for key, value in before.items() if not torch.equal(last[key], value)}
    assert any(key.startswith("split.bottleneck.encoder") for key in moved)
    assert any(key.startswith("split.bottleneck.decoder") for key in moved)
    assert not any(key.startswith("split.before") for key in moved)
    assert any(key.startswith("split.after") for key in moved) == (name == "cifar10-two-stage")


def test_a_frozen_encoder_sends_the_same(place: Path) -> None:
    """Its normalisations keep their statistics too, though the network trains."""
    job = _job("cifar10-two-stage", place)
    job.begin(_short("cifar10-two-stage", place).stage[1])
    for name, parameters in job.groups().items():
        for parameter in parameters:
            parameter.requires_grad_(name in ("decoder", "tail"))
    pictures, _ = batch = job.draw(np.random.default_rng(0), 8)
    head = job.network.eval().split.head
    before = head(pictures)
    job.network.train()
    optimiser = torch.optim.SGD([p for p in job.network.parameters() if p.requires_grad], lr=0.01)
    job.loss(batch, 0.0).total.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    assert torch.equal(job.network.eval().split.head(pictures), before)


def test_the_losses_are_those_of_the_papers(place: Path) -> None:
    job = _job("cifar10-ghnd", place)
    job.network.eval()
    batch = job.draw(np.random.default_rng(0), 4)
    with torch.no_grad():
        mine = job.network.see(job.network.split.before(batch[0]), to_the_end=True)
        taught = job._taught(batch[0])
        job.begin(_stage(first=1.0))
        alone = job.loss(batch, 0.0)
        job.begin(_stage(first=1.0, later=2.0, labels=3.0))
        together = job.loss(batch, 0.0)
    assert mine.logits is not None
    hnd = losses.hnd(mine.features[REPLACED], taught.features[REPLACED])
    assert float(alone.total) == pytest.approx(float(hnd))
    behind = [name for name in taught.features if name != REPLACED]
    assert len(behind) == 3
    later = sum(float(losses.hnd(mine.features[one], taught.features[one])) for one in behind)
    labels = float(losses.cross_entropy(mine.logits, batch[1]))
    assert float(together.total) == pytest.approx(float(hnd) + 2 * later + 3 * labels, rel=1e-5)
    assert set(together.parts) == {"first", "later", "labels"}


def test_hnd_does_not_run_what_comes_behind(place: Path) -> None:
    network = _job("cifar10-hnd", place).network.eval()
    seen = network.see(torch.zeros(1, 8, 16, 16), to_the_end=False)
    assert seen.logits is None
    assert list(seen.features) == [REPLACED]


def test_the_teacher_stays_as_it_is(place: Path) -> None:
    job = _job("cifar10-two-stage", place)
    teacher = {id(parameter) for parameter in job._teacher.parameters()}
    assert not teacher & {id(parameter) for parameter in job.network.parameters()}
    assert not any(parameter.requires_grad for parameter in job._teacher.parameters())


def test_what_can_not_be_trained_is_said(place: Path) -> None:
    with pytest.raises(RecipeError, match="no weight"):
        student_settings(_stage(temperature=2.0))
    with pytest.raises(RecipeError, match="sharpness"):
        student_settings(_stage(first=1.0, sharpness=1.0))
    seen = Seen(features={"a": torch.zeros(1)}, logits=torch.zeros(1, 2))
    with pytest.raises(RecipeError, match="no labels"):
        student_loss(seen, seen, None, StudentSettings(labels=1.0), first="a")
    other = _short("cifar10-hnd", place, widths=[8, 8, 9])
    with pytest.raises(TrainingDataError, match="other shapes"):
        CifarStudentJob(other, place, place / "cache")


def test_detection_loss_has_a_recipe() -> None:
    from headtail_models.training.settings import settings_as
    from headtail_models.training.yolov3_tiny import Options, Settings

    recipe = read_recipe("yolov3-tiny-detections")
    assert recipe.options_as(Options) == read_recipe("yolov3-tiny-coco").options_as(Options)
    (stage,) = recipe.stage
    settings = settings_as(stage, Settings)
    assert (settings.near, settings.felt, settings.detections) == (0.0, 0.0, 1.0)


def _stage(**settings: float) -> StageRecipe:
    return StageRecipe(name="s", steps=1, batch=1, rate=1e-3, settings=settings)
