"""The loop: optimiser, schedule, checkpoints, choice of the best, log.

A killed training goes on from its last checkpoint, and takes the steps it would have taken: the
state of every random generator is part of it.
"""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from headtail_models.training.errors import (
    CheckpointError,
    DivergedError,
    OtherRecipeError,
    TrainingDataError,
)
from headtail_models.training.history import History
from headtail_models.training.job import SCORE, Job
from headtail_models.training.precision import bf16_helps
from headtail_models.training.recipe import Recipe, StageRecipe

CHECKPOINT: Final = "checkpoint.pt"
BEST: Final = "best.pt"
_SAVE_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a training has come; `rate` of the first group, `scores` of the last evaluation."""

    stage: str
    step: int
    steps: int
    loss: float
    rate: float
    scores: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a training ended with. The job holds the best weights, not the last."""

    best: dict[str, float]
    best_step: int
    steps: int
    folder: Path


def train(
    job: Job,
    recipe: Recipe,
    folder: Path,
    *,
    progress: Callable[[Progress], None] = lambda _: None,
    seconds: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Train `job` by `recipe`, from where the folder's checkpoint stands if there is one.

    Writes `checkpoint.pt`, `best.pt`, `steps.csv` and `scores.csv`. The best is the checkpoint
    with the highest score on the calibration split; each stage begins at the best of the one
    before. Torch is set to one thread: on shared cores more of them wait for each other. Raises
    OtherRecipeError, CheckpointError, DivergedError, TrainingDataError.
    """
    torch.set_num_threads(1)
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    return _Training(job, recipe, folder, progress, seconds).run()


class _Training:
    def __init__(
        self,
        job: Job,
        recipe: Recipe,
        folder: Path,
        progress: Callable[[Progress], None],
        seconds: Callable[[], float],
    ) -> None:
        self._job, self._recipe, self._folder = job, recipe, folder
        self._tell, self._seconds = progress, seconds
        self._random = np.random.default_rng(recipe.seed)
        torch.manual_seed(recipe.seed)
        self._stage = 0
        self._step = 0
        self._done = 0
        self._best: dict[str, float] = {}
        self._best_step = 0
        self._stale = 0
        self._scores: dict[str, float] = {}
        self._saved_at = seconds()
        self._history = History(folder)
        self._resumed: dict[str, Any] | None = None
        self._load()

    def run(self) -> Outcome:
        if not self._scores:
            self._evaluate("before")
        while self._stage < len(self._recipe.stage):
            self._run_stage(self._recipe.stage[self._stage])
            self._take_best()
            self._stage, self._step, self._stale = self._stage + 1, 0, 0
            self._save({})
        self._take_best()
        return Outcome(
            best=self._best, best_step=self._best_step, steps=self._done, folder=self._folder
        )

    def _run_stage(self, stage: StageRecipe) -> None:
        self._job.begin(stage)
        optimiser = self._optimiser(stage)
        base = [group["lr"] for group in optimiser.param_groups]
        if self._resumed:
            optimiser.load_state_dict(self._resumed)
            self._resumed = None
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        network = self._job.modules()
        device = parameters[0].device.type
        while self._step < stage.steps:
            share = _schedule(stage, self._step)
            for group, rate in zip(optimiser.param_groups, base, strict=True):
                group["lr"] = rate * share
            network.train()
            batch = self._job.draw(self._random, stage.batch)
            with torch.autocast(device, torch.bfloat16, enabled=stage.bf16 and bf16_helps(device)):
                loss = self._job.loss(batch, self._step / stage.steps)
            value = float(loss.total.detach())
            if not math.isfinite(value):
                raise DivergedError(f"stage {stage.name!r}, step {self._step}: the loss is {value}")
            optimiser.zero_grad(set_to_none=True)
            loss.total.backward()  # type: ignore[no-untyped-call]
            if stage.clip is not None:
                nn.utils.clip_grad_norm_(parameters, stage.clip)
            optimiser.step()
            self._step += 1
            self._done += 1
            rate = optimiser.param_groups[0]["lr"]
            self._history.add_step(self._done, stage.name, value, rate, loss.parts)
            self._report(stage, value, rate)
            if self._step % stage.evaluate_every == 0 or self._step == stage.steps:
                self._evaluate(stage.name)
                if stage.patience is not None and self._stale >= stage.patience:
                    self._step = stage.steps
            if self._seconds() - self._saved_at > _SAVE_EVERY_S:
                self._save(optimiser.state_dict())

    def _optimiser(self, stage: StageRecipe) -> torch.optim.Optimizer:
        groups = self._job.groups()
        unknown = (set(stage.rates) | set(stage.freeze)) - set(groups)
        if unknown:
            raise OtherRecipeError(
                f"stage {stage.name!r} names the groups {sorted(unknown)}; there are "
                f"{sorted(groups)}"
            )
        for name, parameters in groups.items():
            for parameter in parameters:
                parameter.requires_grad_(name not in stage.freeze)
        chosen = [
            {"params": parameters, "lr": stage.rates.get(name, stage.rate)}
            for name, parameters in groups.items()
            if name not in stage.freeze and parameters
        ]
        if stage.optimiser == "sgd":
            return torch.optim.SGD(
                chosen, lr=stage.rate, momentum=stage.momentum, weight_decay=stage.weight_decay
            )
        return torch.optim.AdamW(chosen, lr=stage.rate, weight_decay=stage.weight_decay)

    def _evaluate(self, stage: str) -> None:
        network = self._job.modules()
        network.eval()
        with torch.no_grad():
            scores = self._job.evaluate()
        if SCORE not in scores:
            raise TrainingDataError("the job gave no score: is its calibration split empty?")
        self._scores = scores
        self._history.add_scores(self._done, stage, scores)
        if not self._best or scores[SCORE] > self._best[SCORE]:
            self._best, self._best_step, self._stale = dict(scores), self._done, 0
            _write(self._folder / BEST, {"network": network.state_dict(), "scores": scores})
        else:
            self._stale += 1

    def _report(self, stage: StageRecipe, loss: float, rate: float) -> None:
        self._tell(
            Progress(
                stage=stage.name,
                step=self._done,
                steps=self._recipe.steps,
                loss=loss,
                rate=rate,
                scores=self._scores,
            )
        )

    def _take_best(self) -> None:
        self._job.modules().load_state_dict(_read(self._folder / BEST)["network"])

    def _save(self, optimiser: dict[str, Any]) -> None:
        self._history.flush()
        state = {
            "recipe": self._recipe.fingerprint(),
            "stage": self._stage,
            "step": self._step,
            "done": self._done,
            "best": self._best,
            "best_step": self._best_step,
            "stale": self._stale,
            "scores": self._scores,
            "random": self._random.bit_generator.state,
            "torch_random": torch.get_rng_state(),
            "network": self._job.modules().state_dict(),
            "optimiser": optimiser,
        }
        _write(self._folder / CHECKPOINT, state)
        self._saved_at = self._seconds()

    def _load(self) -> None:
        path = self._folder / CHECKPOINT
        if not path.exists():
            self._history.restart(0)
            return
        state = _read(path)
        if state.get("recipe") != self._recipe.fingerprint():
            raise OtherRecipeError(f"{self._folder} was begun with another recipe")
        try:
            self._job.modules().load_state_dict(state["network"])
            self._random.bit_generator.state = state["random"]
            torch.set_rng_state(state["torch_random"])
            self._stage, self._step, self._done = state["stage"], state["step"], state["done"]
            self._best, self._best_step = state["best"], state["best_step"]
            self._stale, self._scores = state["stale"], state["scores"]
            self._resumed = state["optimiser"]
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path}: {error}") from None
        self._history.restart(self._done)


def read_best(folder: Path) -> dict[str, torch.Tensor]:
    """The best weights of a training, by name. Raises CheckpointError."""
    network = _read(folder / BEST).get("network")
    if not isinstance(network, dict):
        raise CheckpointError(f"{folder / BEST} holds no network")
    return network


def _schedule(stage: StageRecipe, step: int) -> float:
    if step < stage.warmup:
        return (step + 1) / (stage.warmup + 1)
    share = (step - stage.warmup) / max(1, stage.steps - stage.warmup)
    return stage.end_rate + (1 - stage.end_rate) * 0.5 * (1 + math.cos(math.pi * share))


def _write(path: Path, state: dict[str, Any]) -> None:
    beside = path.with_suffix(".part")
    with beside.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    except Exception as error:  # noqa: BLE001  the unpickler raises errors of many kinds
        raise CheckpointError(f"{path}: {type(error).__name__}: {error}") from None
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} is not a checkpoint")
    return state
