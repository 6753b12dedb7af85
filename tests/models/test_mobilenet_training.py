"""The job that trains the classifier's bottleneck, and what is released of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from headtail_models.bottleneck.rounding import rounded
from headtail_models.nets.mobilenet_v2 import MobileNetV2
from headtail_models.stage import OnnxStage
from headtail_models.training import mobilenet_v2 as job_module
from headtail_models.training import mobilenet_v2_data, mobilenet_v2_release
from headtail_models.training.blocks import BlockFiles, block_files, block_recipe, make_block
from headtail_models.training.errors import RecipeError
from headtail_models.training.mobilenet_v2 import MobileNetJob
from headtail_models.training.mobilenet_v2_data import CUT, FELT, MobileNetData
from headtail_models.training.mobilenet_v2_student import MobileNetStudentJob
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
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def few_pictures() -> Iterator[None]:
    """Random weights, and two pictures to train on."""
    torch.manual_seed(0)
    state = {name: tensor.numpy() for name, tensor in MobileNetV2().state_dict().items()}

    def sources(_: MobileNetData) -> Iterator[tuple[Any, int]]:
        random = np.random.default_rng(0)
        for _number in range(2):
            yield random.integers(0, 256, (80, 90, 3), dtype=np.uint8), 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mobilenet_v2_data, "fetch", lambda name: {})
        patch.setattr(mobilenet_v2, "parameters", lambda files: state)
        patch.setattr(job_module, "_FISHER_BATCHES", 1)
        patch.setattr(MobileNetData, "_sources", sources)
        yield


@pytest.fixture(scope="module")
def job(data: Path, cache: Path) -> MobileNetJob:
    return MobileNetJob(_recipe(), data, cache)


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


@pytest.fixture(scope="module")
def block(data: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> BlockFiles:
    """One of 3 channels, two steps a stage."""
    recipe = block_recipe(3)
    short = msgspec.structs.replace(
        recipe,
        stage=tuple(
            msgspec.structs.replace(stage, steps=2, batch=2, evaluate_every=2)
            for stage in recipe.stage
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headtail_models.training.blocks.block_recipe", lambda channels: short)
        return make_block(tmp_path_factory.mktemp("blocks"), 3, data=data, cache=cache)


def test_the_published_block_is_as_published(data: Path, cache: Path) -> None:
    network = MobileNetStudentJob(block_recipe(6), data, cache).network
    convolutions = [
        one for one in network.split.bottleneck.encoder.modules() if isinstance(one, nn.Conv2d)
    ]
    assert [one.out_channels for one in convolutions] == [24, 96, 24, 6]
    assert network.first == f"features.{CUT + 1}"
    assert network.later == tuple(f"features.{number}" for number in FELT)


def test_what_is_compared_belongs_together(data: Path, cache: Path) -> None:
    job = MobileNetStudentJob(block_recipe(3), data, cache)
    batch = job.draw(np.random.default_rng(1), 2)
    taught = job._taught(batch["stem"].float(), batch)
    assert taught.logits is not None
    with torch.no_grad():
        features = dict(job.teacher.walk(batch["stem"].float(), after=CUT))
        logits = job.teacher.finish(batch["stem"].float(), after=CUT)
    wanted = {f"features.{number}": features[number] for number in (CUT + 1, *FELT)}
    assert taught.features.keys() == wanted.keys()
    for name, tensor in wanted.items():
        found = taught.features[name].float()
        assert float((found - tensor).abs().max() / tensor.abs().max()) < 0.05  # bfloat16
    assert float((taught.logits - logits).abs().max() / logits.abs().max()) < 0.05


def test_a_block_is_trained_once_and_exported(
    block: BlockFiles, data: Path, tmp_path: Path
) -> None:
    head, tail = OnnxStage(block.head), OnnxStage(block.tail)
    assert (head.inputs[0].shape, head.outputs[0].shape) == ((3, 224, 224), (3, 60, 60))
    crossed = head.run({"image": np.zeros((1, 3, 224, 224), dtype=np.float32)})["latents"]
    assert tail.run({"latents": crossed})["logits"].shape == (1, 1000)
    folder = block.head.parent.parent
    assert block_files(folder, 3) == block
    # No picture is looked for any more.
    assert make_block(folder, 3, data=tmp_path / "gone", cache=tmp_path / "none") == block


def test_blocks_of_other_widths_differ_in_nothing_else() -> None:
    three, twelve = block_recipe(3), block_recipe(12)
    assert twelve.options == three.options | {"channels": 12}
    assert twelve.stage == three.stage
