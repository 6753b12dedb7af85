"""Distilling R-CNNs and training the filter, on a few small pictures."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tiny_coco import write_tiny_coco

pytest.importorskip(
    "torchvision", reason="needs torchvision: pip install 'headtail[rcnn]'", exc_type=ImportError
)

from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.rcnn import training
from headtail_models.rcnn.coco import read_people, read_split
from headtail_models.rcnn.detector import Variant, backbone, injected, untrained
from headtail_models.rcnn.errors import RcnnError
from headtail_models.rcnn.filter_job import FilterJob
from headtail_models.rcnn.ghnd_job import GhndJob
from headtail_models.rcnn.neural_filter import NeuralFilter
from headtail_models.rcnn.train import main
from headtail_models.training.errors import RecipeError
from headtail_models.training.recipe import StageRecipe

torch.set_num_threads(1)

RECIPE = """
name = "tiny"
job = "{job}"
seed = 1

[[stage]]
name = "few"
steps = 2
batch = 2
rate = 1e-3
evaluate_every = 2
"""


@cache
def tiny(variant: Variant) -> Any:
    torch.manual_seed(1)
    options: dict[str, object] = {} if variant == "keypoint" else {"num_classes": 91}
    return untrained(
        variant,
        min_size=64,
        max_size=96,
        box_detections_per_img=5,
        rpn_post_nms_top_n_test=10,
        **options,
    )


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    return write_tiny_coco(tmp_path / "coco")


def ghnd_job(coco: Path) -> GhndJob:
    teacher = tiny("faster")
    pictures = read_split(coco, "train2017")
    student = injected(teacher, hnd_ghnd(3))
    return GhndJob(teacher, student, pictures=pictures[:4], calibration=pictures[4:])


def stage(**settings: float) -> StageRecipe:
    return StageRecipe(name="s", steps=1, batch=1, rate=1e-3, settings=settings)


def test_the_distillation_loss_falls(coco: Path) -> None:
    job = ghnd_job(coco)
    groups = job.groups()
    parameters = [p.requires_grad_() for group in groups.values() for p in group]
    optimiser = torch.optim.Adam(parameters, lr=3e-3)
    random = np.random.default_rng(0)
    job.begin(stage())
    job.modules().train()
    losses, errors = [], []
    for _ in range(12):
        loss = job.loss(job.draw(random, 2), 0.0)
        optimiser.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.total.item())
        errors.append(loss.parts["error 0"])

    assert set(groups) == {"layer0", "encoder", "decoder"}
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])
    assert errors[-1] < errors[0]


def test_hnd_compares_layer1_alone(coco: Path) -> None:
    job = ghnd_job(coco)
    batch = job.draw(np.random.default_rng(0), 2)
    job.modules().eval()
    job.begin(stage(generalised=0.0))
    alone = job.loss(batch, 0.0).total
    job.begin(stage())

    assert alone < job.loss(batch, 0.0).total


def test_only_the_student_learns(coco: Path) -> None:
    teacher = tiny("faster")
    pictures = read_split(coco, "train2017")
    student = injected(teacher, hnd_ghnd(3))
    job = GhndJob(teacher, student, pictures=pictures, calibration=pictures)
    job.modules().train()
    for group in job.groups().values():
        for parameter in group:
            parameter.requires_grad_()
    job.loss(job.draw(np.random.default_rng(0), 2), 0.0).total.backward()  # type: ignore[no-untyped-call]

    learning = {name for name, p in student.named_parameters() if p.grad is not None}
    assert learning == {
        f"backbone.body.{name}"
        for name, _ in backbone(student).named_parameters()
        if name.startswith(("conv1", "bn1", "layer1"))
    }
    assert not any(p.requires_grad for p in teacher.parameters())
    assert not backbone(student)["layer2"].training


def test_the_filter_learns_and_is_measured(coco: Path) -> None:
    student = injected(tiny("keypoint"), hnd_ghnd(3))
    pictures = read_split(coco, "train2017")
    people = read_people(coco, "train2017")
    torch.manual_seed(0)
    job = FilterJob(student, NeuralFilter(), pictures=pictures, calibration=pictures, people=people)
    optimiser = torch.optim.Adam(job.groups()["filter"], lr=1e-3)
    random = np.random.default_rng(0)
    job.begin(stage(recall=1.0))
    job.modules().train()
    losses = []
    for _ in range(20):
        loss = job.loss(job.draw(random, 4), 0.0).total
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    job.modules().eval()
    with torch.no_grad():
        scores = job.evaluate()

    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    assert scores.keys() == {"score", "threshold", "stopped"}
    assert 0 <= scores["score"] <= 1


def test_unknown_settings_are_refused(coco: Path) -> None:
    with pytest.raises(RecipeError, match="generalized"):
        ghnd_job(coco).begin(stage(generalized=1.0))


def test_the_commands_from_end_to_end(
    coco: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "pretrained", tiny)
    distilling, filtering = tmp_path / "ghnd.toml", tmp_path / "filter.toml"
    distilling.write_text(RECIPE.format(job="rcnn-ghnd"))
    filtering.write_text(RECIPE.format(job="rcnn-filter"))
    out = tmp_path / "run"
    common = ["--coco", str(coco), "--out", str(out)]

    distil = ["distil", *common, "--variant", "keypoint", "--calibration", "1"]
    assert main([*distil, "--recipe", str(distilling)]) == 0
    assert (out / "best.pt").exists()
    # Once more: it is done, and nothing is trained again.
    assert main([*distil, "--recipe", str(distilling)]) == 0
    assert main(["filter", *common, "--calibration", "2", "--recipe", str(filtering)]) == 0
    assert main(["report", *common, "--variant", "keypoint", "--limit", "2"]) == 0
    shown = capsys.readouterr().err
    assert "split, 8 bits, filtered" in shown
    assert "best of 2 steps" in shown


@pytest.mark.parametrize("variant", ["faster", "keypoint", "filter"])
def test_the_built_in_recipes_can_be_read(variant: str) -> None:
    assert training._recipe(variant, None).steps > 500_000


def test_what_is_wrong_is_said(
    coco: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "pretrained", tiny)
    other = tmp_path / "other.toml"
    other.write_text(RECIPE.format(job="something"))
    common = ["--coco", str(coco), "--out", str(tmp_path / "run")]

    for arguments, message in (
        (["distil", *common, "--recipe", str(other)], "something"),
        (["distil", *common], "calibration alone"),
        (["distil", *common, "--device", "nonsense"], "nonsense"),
        (["filter", *common, "--calibration", "2"], "best.pt"),
        (["report", *common], "best.pt"),
    ):
        assert main(arguments) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["distil", *common, "--channels", "0"])


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(job="rcnn-ghnd").replace("seed = 1", "options = {b = 3}"))
    with pytest.raises(RecipeError, match="b"):
        training._recipe("faster", recipe)


def test_weights_that_can_not_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    from headtail_models.rcnn import detector

    def offline(**_: object) -> Any:
        raise OSError("no network")

    monkeypatch.setitem(detector._BUILDERS, "faster", offline)
    with pytest.raises(RcnnError, match="no network"):
        detector.pretrained("faster")
