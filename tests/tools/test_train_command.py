"""`headtail train`: what it says before it trains, and that it trains."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from headtail.cli import main
from headtail_models.training import jobs
from headtail_models.training.job import Loss
from headtail_models.training.recipe import StageRecipe

RECIPE = """
name = "toy"
job = "toy"
[[stage]]
name = "only"
steps = 5
batch = 2
rate = 0.1
evaluate_every = 5
"""


class _Toy:
    def __init__(self) -> None:
        self.network = nn.Linear(1, 1)

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        return {"all": list(self.network.parameters())}

    def begin(self, stage: StageRecipe) -> None:
        pass

    def draw(self, random: np.random.Generator, count: int) -> torch.Tensor:
        return torch.ones(count, 1)

    def loss(self, batch: torch.Tensor, progress: float) -> Loss:
        return Loss(total=self.network(batch).square().mean())

    def evaluate(self) -> dict[str, float]:
        return {"score": 0.25}


def test_the_list_names_every_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "yolov3-tiny-coco" in shown
    assert "resnet-cifar10" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name a recipe"),
        (["gone.toml"], "gone.toml"),
        (["yolov3-tiny-coco"], "--data"),
        (["yolov3-tiny-coco", "--data", "/no/such/folder"], "--data"),
    ],
)
def test_what_is_missing_is_said(
    words: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HEADTAIL_DATA", raising=False)
    assert main(["train", *words]) == 1
    assert told in capsys.readouterr().err


def test_it_trains_and_says_where_the_weights_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "toy.toml"
    recipe.write_text(RECIPE)
    monkeypatch.setattr(jobs, "open_job", lambda *_: _Toy())
    out = tmp_path / "out"
    assert main(["train", str(recipe), "--data", str(tmp_path), "--out", str(out)]) == 0
    shown = capsys.readouterr().out.replace("\n", "")
    assert "0.25" in shown
    assert "best.pt" in shown
    assert (out / "best.pt").exists()
    assert (out / "curves.png").exists()
