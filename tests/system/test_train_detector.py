"""The detector's trainings on a handful of pictures: from a recipe to files that a bundle takes."""

from pathlib import Path

import cv2
import msgspec
import numpy as np
import pytest
import torch

from headtail_fabric.rans import CodingModel
from headtail_models.assets.errors import UnreachableError
from headtail_models.stage import OnnxStage
from headtail_models.training import yolov3_release
from headtail_models.training.jobs import open_job
from headtail_models.training.recipe import Recipe, read_recipe
from headtail_models.training.trainer import train
from headtail_models.zoo.released import ReleasedCut
from photo_tar import write_tar

pytestmark = pytest.mark.system

SMALL = {
    "side": 96,
    "crops_coco": 2,
    "crops_photo": 1,
    "crops_frame": 1,
    "frame_every": 100,
    "held_out": 1,
}


def _photo(random: np.random.Generator) -> bytes:
    coarse = random.integers(0, 255, (6, 8, 3)).astype(np.uint8)
    picture = cv2.resize(coarse, (200, 150), interpolation=cv2.INTER_CUBIC)
    return cv2.imencode(".jpg", picture)[1].tobytes()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    coco = {f"images/train2017/{number}.jpg": _photo(random) for number in range(4)}
    write_tar(folder / "coco-photos.tar", coco)
    others = {f"{number}.jpg": _photo(random) for number in range(7)}
    write_tar(folder / "imagenet-samples.tar", others)
    return folder


def _short(name: str, **options: object) -> Recipe:
    """A known recipe cut down to three steps a stage."""
    recipe = read_recipe(name)
    return msgspec.structs.replace(
        recipe,
        options=recipe.options | SMALL | options,
        stage=tuple(
            msgspec.structs.replace(stage, steps=3, batch=2, evaluate_every=3)
            for stage in recipe.stage
        ),
    )


def test_from_recipes_to_released_parts(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = {name: _short(name) for name in ("yolov3-tiny-coco", "yolov3-tiny-filter")} | {
        "yolov3-tiny-light": _short("yolov3-tiny-light", teacher=str(tmp_path / "first"))
    }
    folders = {"yolov3-tiny-coco": "first", "yolov3-tiny-light": "light"}
    before = None
    for name, folder in folders.items():
        try:
            job = open_job(recipes[name], data, tmp_path / "cache")
        except UnreachableError as error:
            pytest.skip(str(error))
        before = {key: value.clone() for key, value in job.modules().state_dict().items()}
        outcome = train(job, recipes[name], tmp_path / folder)
        assert {"score", "agreement@1", "kilobytes@1", "felt@1.6"} <= set(outcome.best)
        last = torch.load(tmp_path / folder / "checkpoint.pt", weights_only=True)["network"]
        assert any(not torch.equal(last[key], value) for key, value in before.items())
    job = open_job(recipes["yolov3-tiny-filter"], data, tmp_path / "cache")
    train(job, recipes["yolov3-tiny-filter"], tmp_path / "filter")

    monkeypatch.setattr(yolov3_release, "read_recipe", recipes.__getitem__)
    arguments = ["--data", str(data), "--cache", str(tmp_path / "cache")]
    arguments += ["--bottleneck", str(tmp_path / "first"), "--light", str(tmp_path / "light")]
    assert yolov3_release.main([*arguments, "--out", str(tmp_path / "out")]) == 0
    out = tmp_path / "out" / "yolov3-tiny-coco"
    for name, after, share in (("bottleneck", "L5", 0.2), ("light", "L1", 0.08)):
        part = msgspec.json.decode((out / f"{name}.json").read_bytes(), type=ReleasedCut)
        assert (part.after, part.before) == (after, "L8")
        cut = part.cut
        assert cut.head.outputs[0].shape == cut.tail.inputs[0].shape == (64, 26, 26)
        assert cut.tail.outputs[0].shape == (256, 26, 26)
        trunk = {"L5": 473_000_000, "L1": 75_000_000}[after]
        assert trunk + cut.head.macs <= share * 2_782_480_896
        for coder in cut.coders.values():
            model = CodingModel.from_bytes((out / coder.file).read_bytes())
            assert model.context.channels == 64
        latents = np.zeros((1, 64, 26, 26), dtype=np.float32)
        joined = OnnxStage(out / cut.tail.file).run({"latents": latents})
        assert joined["L8"].shape == (1, 256, 26, 26)
