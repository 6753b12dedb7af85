"""The job `board-int8`: from a float training to a bundle whose head rounds as it was trained."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from headtail_models.bundle import Bundle, open_bundle, write_bundle
from headtail_models.mcu.cut_reader import RANGES, SAMPLES, read_cut
from headtail_models.mcu.errors import UnsupportedCutError
from headtail_models.mcu.twin import Twin
from headtail_models.nets.board_split import TOP
from headtail_models.training import board_int8
from headtail_models.training.board_int8 import BoardInt8Job, settled_split
from headtail_models.training.board_release import CUT, Given, command, exported, release
from headtail_models.training.board_split import BoardSplitJob, Labelled
from headtail_models.training.errors import CheckpointError, RecipeError, TrainingDataError
from headtail_models.training.recipe import Recipe, parse_recipe, read_recipe
from headtail_models.training.trainer import read_best, train
from headtail_models.zoo.own_bundle import assemble
from tiny_board import given, inputs, make, waves

FLOAT = """
name = "motion"
job = "waves"
[[stage]]
name = "learn"
steps = 20
batch = 16
rate = 3e-3
evaluate_every = 10
"""
INT8 = """
name = "waves-int8"
job = "board-int8"
[options]
recipe = "{recipe}"
trained = "{trained}"
[[stage]]
name = "round"
steps = 6
batch = 16
rate = 1e-3
rates = {{ steps = 1e-2 }}
evaluate_every = 1
"""


class WavesJob(BoardSplitJob):
    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        self._train = labelled(3, 64)
        super().__init__(given().network, labelled(4, 32))

    def take(self, random: np.random.Generator, count: int) -> Labelled:
        chosen = torch.from_numpy(random.integers(0, len(self._train), count))
        return Labelled(inputs=self._train.inputs[chosen], labels=self._train.labels[chosen])


def labelled(seed: int, count: int) -> Labelled:
    found = waves(count, seed=seed)
    return Labelled(
        inputs=torch.from_numpy(inputs(found.samples)), labels=torch.from_numpy(found.labels)
    )


def open_job(recipe: Recipe, data: Path, cache: Path) -> WavesJob:
    assert (recipe.name, cache.name) == ("motion", "motion")
    return WavesJob(recipe, data, cache)


@pytest.fixture(autouse=True)
def known_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_int8, "open_job", open_job)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make(tmp_path_factory.mktemp("board"))[0]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Of the rounding training, behind a float one that is done."""
    path = tmp_path / "motion.toml"
    path.write_text(FLOAT)
    base = read_recipe(str(path))
    train(WavesJob(base, tmp_path, tmp_path), base, tmp_path / "float")
    return parse_recipe(INT8.format(recipe=path, trained=tmp_path / "float"), name="int8")


def job_of(recipe: Recipe, folder: Path) -> BoardInt8Job:
    return BoardInt8Job(recipe, folder, folder / "cache" / "waves-int8")


def test_begins_at_the_float_weights_as_calibration_rounds_them(
    recipe: Recipe, tmp_path: Path
) -> None:
    job = job_of(recipe, tmp_path)
    plain = WavesJob(recipe, tmp_path, tmp_path).network
    plain.load_state_dict(read_best(tmp_path / "float"))
    plain.eval()
    x = labelled(5, 16).inputs
    with torch.no_grad():
        near, far = plain.answers(x, 8), job.network.eval().answers(x, 8)
    for one, other in zip(near, far, strict=True):
        assert float((one - other).square().mean() / one.square().mean()) < 0.01
    assert set(job.groups()) == {"trunk", "branch", "encoder", "steps", "tail"}
    trained = [id(one) for group in job.groups().values() for one in group]
    assert sorted(trained) == sorted(id(one) for one in job.modules().parameters())


def test_what_is_released_is_what_was_trained(recipe: Recipe, tmp_path: Path) -> None:
    """Down to the level: the blob of the bundle against the network that the training left."""
    job = job_of(recipe, tmp_path)
    outcome = train(job, recipe, tmp_path / "int8")
    assert set(outcome.best) == {"score", "exit", "tail@8", "tail@4", "tail@2"}
    torch.manual_seed(1)
    with torch.no_grad():  # further away than a few steps bring it
        for one in job.modules().parameters():
            one.add_(0.03 * torch.randn(one.shape))
    state = {"network": job.modules().state_dict(), "scores": {}}
    torch.save(state, tmp_path / "int8" / "best.pt")
    (tmp_path / "int8.toml").write_text(
        INT8.format(recipe=tmp_path / "motion.toml", trained=tmp_path / "float")
    )

    def build(base: Recipe, data: Path, cache: Path) -> Given:
        assert base.name == "motion"
        return given()

    words = [f"--{name}={tmp_path / name}" for name in ("data", "cache", "out")]
    words += [f"--trained={tmp_path / 'int8'}", f"--recipe={tmp_path / 'int8.toml'}"]
    assert command("motion", build, words) == 0
    bundle = bundle_of(tmp_path)
    cut = read_cut(bundle, CUT, bits=4)
    program = exported(cut, bundle.path / SAMPLES)
    found = Twin(program).run(np.moveaxis(labelled(6, 24).inputs.numpy(), 1, -1))
    with torch.no_grad():
        logits, code = job.network.eval().board(labelled(6, 24).inputs)
    quantiser = program.outputs[0].quantiser
    ours = quantiser.levels(logits.numpy()).astype(int)
    board = np.stack([one.levels[0].reshape(-1) for one in found]).astype(int)
    assert np.abs(ours - board).max() <= 1
    assert (ours.argmax(axis=1) == board.argmax(axis=1)).all()
    sent = (code.numpy() / TOP * 15).round().transpose(0, 2, 3, 1)
    assert np.abs(sent - np.stack([one.levels[1] for one in found])).max() <= 1


def bundle_of(folder: Path) -> Bundle:
    (folder / "source").mkdir()
    manifest = assemble(folder / "out", folder / "source")
    return open_bundle(write_bundle(folder / "source", manifest, folder / "bundle"))


def test_a_release_without_ranges_leaves_none_behind(tmp_path: Path) -> None:
    (tmp_path / RANGES).write_text("of an earlier release")
    release(given(), tmp_path)
    assert not (tmp_path / RANGES).exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[", "ranges.json: "),
        ('[{"scale": -1, "zero": 0}]', "ranges.json: .*scale"),
        ('[{"scale": 1, "zero": 256}]', "ranges.json: .*zero"),
        ('[{"scale": 1, "zero": 0}]', "has 1 ranges, the head has 7 tensors"),
    ],
)
def test_ranges_of_another_head_are_refused(
    made: Bundle, tmp_path: Path, content: str, why: str
) -> None:
    shutil.copytree(made.path, tmp_path / "bundle")
    (tmp_path / "bundle" / RANGES).write_text(content)
    with pytest.raises(UnsupportedCutError, match=why):
        read_cut(dataclasses.replace(made, path=tmp_path / "bundle"), CUT, bits=4)


def test_it_says_what_it_can_not_go_on_from(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="weights of another network"):
        settled_split(given().network, labelled(0, 1).inputs, read_best(tmp_path / "float"))
    monkeypatch.setattr(board_int8, "open_job", lambda *_: object())
    with pytest.raises(RecipeError, match="trains no head for boards"):
        job_of(recipe, tmp_path)
    monkeypatch.setattr(board_int8, "open_job", open_job)
    weights = {"network": {"trunk.0.weight": torch.zeros(1)}}
    torch.save(weights, tmp_path / "float" / "best.pt")
    with pytest.raises(TrainingDataError, match="holds other shapes"):
        job_of(recipe, tmp_path)


@pytest.mark.parametrize("name", ["spoken-digits-int8", "motion-int8"])
def test_recipes_go_on_from_those_of_the_heads(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.job == board_int8.JOB
    assert board_int8.base_of(recipe).name == name.removesuffix("-int8")
