"""The training loop: it learns, goes on after a kill as if nothing had been, and keeps the best."""

from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from headtail_models.training.errors import (
    CheckpointError,
    DivergedError,
    OtherRecipeError,
    TrainingDataError,
)
from headtail_models.training.history import draw
from headtail_models.training.job import Loss
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.trainer import BEST, CHECKPOINT, Progress, train


class _Line:
    """Fits y = 2 x + 1; its score is the negative distance from there."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.network = nn.Linear(1, 1)
        self.begun: list[str] = []
        self.batches: list[torch.Tensor] = []
        self.spoiled = False
        self.stop_after = -1

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        slope, offset = self.network.parameters()
        return {"slope": [slope], "offset": [offset]}

    def begin(self, stage: StageRecipe) -> None:
        self.begun.append(stage.name)

    def draw(self, random: np.random.Generator, count: int) -> torch.Tensor:
        batch = torch.from_numpy(random.normal(size=(count, 1)).astype(np.float32))
        self.batches.append(batch)
        if len(self.batches) == self.stop_after:
            raise KeyboardInterrupt
        return batch

    def loss(self, batch: torch.Tensor, progress: float) -> Loss:
        assert 0 <= progress < 1
        # Noise of torch's own generator: it, too, must go on where it was.
        noise = 0.01 * torch.rand_like(batch)
        error = (self.network(batch) - 2 * batch - 1 + noise).square().mean()
        if self.spoiled:
            error = error * torch.nan
        return Loss(total=error, parts={"error": float(error.detach())})

    def evaluate(self) -> dict[str, float]:
        distance = abs(self.network.weight.item() - 2) + abs(self.network.bias.item() - 1)
        return {"score": -distance}


def _recipe(**changes: object) -> Recipe:
    stage = {"name": "first", "steps": 60, "batch": 8, "rate": 0.1, "evaluate_every": 20}
    one = StageRecipe(**(stage | changes))  # type: ignore[arg-type]
    two = StageRecipe(
        name="second", steps=40, batch=8, rate=0.02, freeze=("slope",), optimiser="sgd", warmup=0
    )
    return Recipe(name="toy", job="toy", seed=3, stage=(one, two))


def test_it_learns_and_takes_the_stages_in_order(tmp_path: Path) -> None:
    job, seen = _Line(), list[Progress]()
    first = job.evaluate()["score"]
    outcome = train(job, _recipe(), tmp_path, progress=seen.append)
    assert job.begun == ["first", "second"]
    assert outcome.steps == 100
    assert outcome.best["score"] > -0.4
    assert outcome.best["score"] > first / 4
    assert -job.evaluate()["score"] == pytest.approx(-outcome.best["score"])
    assert [at.step for at in seen] == list(range(1, 101))
    assert seen[0].rate < seen[30].rate
    assert seen[55].rate < seen[30].rate


def test_a_frozen_group_does_not_move(tmp_path: Path) -> None:
    job = _Line()
    before = job.network.weight.detach().clone()
    train(job, _recipe(freeze=("slope",)), tmp_path)
    assert torch.equal(job.network.weight, before)
    assert job.network.bias.item() == pytest.approx(1, abs=0.2)


def test_a_killed_training_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole = _Line()
    train(whole, _recipe(), tmp_path / "whole")
    for stop in (30, 75):
        folder, killed = tmp_path / f"killed{stop}", _Line()
        killed.stop_after = stop
        with pytest.raises(KeyboardInterrupt):
            # A clock that makes it write a checkpoint every third step.
            train(killed, _recipe(), folder, seconds=count(0.0, 25.0).__next__)
        resumed = _Line()
        train(resumed, _recipe(), folder)
        assert len(resumed.batches) < 100
        assert all(
            torch.equal(mine, theirs)
            for mine, theirs in zip(
                reversed(resumed.batches), reversed(whole.batches), strict=False
            )
        )
        for mine, theirs in zip(
            resumed.network.parameters(), whole.network.parameters(), strict=True
        ):
            assert torch.equal(mine, theirs)
        for name in ("steps.csv", "scores.csv"):
            assert (folder / name).read_text() == (tmp_path / "whole" / name).read_text()


def test_a_finished_training_is_not_done_again(tmp_path: Path) -> None:
    first = train(_Line(), _recipe(), tmp_path)
    again = _Line()
    assert train(again, _recipe(), tmp_path) == first
    assert again.batches == []


def test_a_stage_ends_when_nothing_gets_better(tmp_path: Path) -> None:
    job = _Line()
    with torch.no_grad():
        job.network.weight.fill_(2)
        job.network.bias.fill_(1)
    outcome = train(job, _recipe(patience=2), tmp_path)
    assert outcome.best_step == 0
    assert len(job.batches) < 100
    assert job.network.weight.item() == 2


def test_another_recipe_does_not_go_on_in_the_same_folder(tmp_path: Path) -> None:
    train(_Line(), _recipe(), tmp_path)
    with pytest.raises(OtherRecipeError):
        train(_Line(), _recipe(rate=0.01), tmp_path)


def test_a_group_that_the_job_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(OtherRecipeError, match="slip"):
        train(_Line(), _recipe(rates={"slip": 0.1}), tmp_path)


@pytest.mark.parametrize("name", [CHECKPOINT, BEST])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    train(_Line(), _recipe(), tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(CheckpointError, match=name):
        train(_Line(), _recipe(), tmp_path)


def test_a_loss_that_is_no_number_stops_it(tmp_path: Path) -> None:
    job = _Line()
    job.spoiled = True
    with pytest.raises(DivergedError, match="first"):
        train(job, _recipe(), tmp_path)


def test_a_job_without_a_score_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = _Line()
    monkeypatch.setattr(job, "evaluate", lambda: {"other": 1.0})
    with pytest.raises(TrainingDataError):
        train(job, _recipe(), tmp_path)


def test_the_curves_are_drawn(tmp_path: Path) -> None:
    train(_Line(), _recipe(), tmp_path)
    drawn = draw(tmp_path)
    assert drawn is not None
    assert drawn.read_bytes()[:4] == b"\x89PNG"
