"""The job that trains the classifier's bottleneck, and what is released of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from rich.console import Console

from headtail_models.bottleneck.rounding import rounded
from headtail_models.nets.mobilenet_v2 import MobileNetV2
from headtail_models.stage import OnnxStage
from headtail_models.training import mobilenet_v2 as job_module
from headtail_models.training import mobilenet_v2_release
from headtail_models.training.errors import RecipeError
from headtail_models.training.mobilenet_v2 import FELT, MobileNetJob
from headtail_models.training.recipe import Recipe, StageRecipe, read_recipe
from headtail_models.training.settings import settings_as
from headtail_models.zoo import mobilenet_v2
from headtail_models.zoo.released import ReleasedCut
from photo_tar import jpeg, write_tar

_OPTIONS = {
    "channels": 16,
    "encoder_width": 4,
    "decoder_width": 8,
    "decoder_blocks": 1,
    "prior_hidden": 4,
    "start_bytes": 300.0,
}


def _recipe(**settings: float) -> Recipe:
    stage = StageRecipe(name="one", steps=2, batch=2, rate=1e-3, settings=settings)
    return Recipe(name="tiny", job="mobilenetv2-imagenet", options=_OPTIONS, stage=(stage,))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_tar(
        folder / "imagenet-samples.tar",
        {f"{at:04}_n{at:08}_thing.jpg": jpeg(60, 70) for at in (0, 2, 3)},
    )
    return folder


@pytest.fixture(scope="module")
def job(data: Path, tmp_path_factory: pytest.TempPathFactory) -> MobileNetJob:
    torch.manual_seed(0)
    state = {name: tensor.numpy() for name, tensor in MobileNetV2().state_dict().items()}

    def sources(_: MobileNetJob) -> Iterator[tuple[Any, int]]:
        random = np.random.default_rng(0)
        for _number in range(2):
            yield random.integers(0, 256, (80, 90, 3), dtype=np.uint8), 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_module, "fetch", lambda name: {})
        patch.setattr(mobilenet_v2, "parameters", lambda files: state)
        patch.setattr(job_module, "_FISHER_BATCHES", 1)
        patch.setattr(MobileNetJob, "_sources", sources)
        return MobileNetJob(_recipe(), data, tmp_path_factory.mktemp("cache") / "features")


def test_it_begins_at_the_transform(job: MobileNetJob) -> None:
    stem = job.cache.take([0, 3])["stem"].float()
    with torch.no_grad():
        latents = job.network.encode(stem)
        assert latents.shape == (2, 16, 14, 14)
        again = job.network.stem(latents)
        assert again.shape == stem.shape
        assert job.network.restore(latents).shape == (2, 96, 14, 14)
    # Of 384 values a block 16 are kept: not all, but more than the mean alone.
    assert (again - stem).square().mean() < (stem - stem.mean((0, 2, 3), True)).square().mean()


def test_a_step_changes_all_that_learns(job: MobileNetJob) -> None:
    job.begin(_recipe(stem=0.3, blocks=1.0, pool=1.0, kilobytes=0.2).stage[0])
    groups = job.groups()
    assert set(groups) == {"klt", "encoder", "decoder", "prior", "tail"}
    known = {id(parameter) for parameters in groups.values() for parameter in parameters}
    assert known == {id(parameter) for parameter in job.network.parameters()}
    batch = job.draw(np.random.default_rng(0), 2)
    assert {"stem", "pool", "step", *(f"f{number}" for number in FELT)} == set(batch)
    loss = job.loss(batch, 0.0)
    loss.total.backward()  # type: ignore[no-untyped-call]
    assert set(loss.parts) == {"kilobytes", "lambda", "stem", "blocks", "pool"}
    for parameters in groups.values():
        assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in parameters)
    job.network.zero_grad()


def test_the_rate_alone_asks_nothing_of_the_teacher(job: MobileNetJob) -> None:
    job.begin(_recipe().stage[0])
    before = job.network.rate.value
    loss = job.loss(job.draw(np.random.default_rng(0), 2), 0.0)
    assert set(loss.parts) == {"kilobytes", "lambda"}
    assert job.network.rate.value == before


def test_it_is_evaluated_on_the_calibration_split(job: MobileNetJob) -> None:
    with torch.no_grad():
        scores = job.evaluate()
    assert {"score", "agreement@1", "bytes@1", "agreement@2", "bytes@2"} == set(scores)
    assert scores["bytes@2"] < scores["bytes@1"]


def test_unknown_keys(job: MobileNetJob, data: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="settings"):
        job.begin(_recipe(sharpness=1.0).stage[0])
    recipe = msgspec.structs.replace(_recipe(), options={"colour": 3})
    with pytest.raises(RecipeError, match="options"):
        MobileNetJob(recipe, data, tmp_path)


def test_the_released_recipe_can_be_read() -> None:
    recipe = read_recipe("mobilenetv2-imagenet")
    assert recipe.job == "mobilenetv2-imagenet"
    assert recipe.options_as(job_module.Options).channels == 96
    for stage in recipe.stage:
        settings_as(stage, job_module.Settings)


def test_what_is_released_computes_the_same(job: MobileNetJob, data: Path, tmp_path: Path) -> None:
    mobilenet_v2_release.release(job, data, tmp_path, Console(quiet=True))
    record = msgspec.json.decode((tmp_path / "bottleneck.json").read_bytes(), type=ReleasedCut)
    assert (record.after, record.before) == ("f2", "f13")
    assert set(record.cut.coders) == set(mobilenet_v2_release.STEPS)
    assert all((tmp_path / coder.file).exists() for coder in record.cut.coders.values())
    assert record.cut.tensor.shape == (16, 14, 14)
    stem = job.cache.take([1])["stem"].float()
    head, tail = (OnnxStage(tmp_path / part.file) for part in (record.cut.head, record.cut.tail))
    latents = head.run({"f2": stem.numpy()})["latents"]
    with torch.no_grad():
        whole = rounded(job.network.encode(stem), 1.0)
        restored = job.network.restore(whole).numpy()
    assert np.abs(np.rint(latents) - whole.numpy()).max() <= 1
    found = tail.run({"latents": whole.numpy()})["f13"]
    assert np.abs(found - restored).max() <= 1e-3 * np.abs(restored).max()
