"""The job's parts on tiny sounds: scenes, sounds of a folder, and what is trained."""

import io
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from headtail_models.audio.clips import split_of
from headtail_models.audio.log_mel import LogMel
from headtail_models.bottleneck.cost import cost
from headtail_models.nets.yamnet import YamnetNet
from headtail_models.nets.yamnet_bottleneck import YamnetBottleneck, YamnetExit
from headtail_models.training.errors import TrainingDataError
from headtail_models.training.recipe import read_recipe
from headtail_models.training.settings import settings_as
from headtail_models.training.yamnet import Options, Settings
from headtail_models.training.yamnet_release import exit_points
from headtail_models.training.yamnet_scenes import Scenes, noise
from headtail_models.training.yamnet_sounds import clip_patches, open_clips, scene_patches
from headtail_models.zoo.yamnet_layers import JOIN, TRUNK, shape
from random_yamnet import random_yamnet

FRONT = LogMel(patch_hop=96)
SIZES = {
    "channels": 24,
    "encoder_width": 24,
    "decoder_width": 64,
    "decoder_blocks": 2,
    "prior_hidden": 40,
}
"""Those of the recipe that Headtail is released with."""


def write_clip(path: Path, *, seconds: float) -> None:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        values = np.random.default_rng(0).integers(-9000, 9000, int(seconds * 16_000))
        file.writeframes(values.astype("<i2").tobytes())
    path.write_bytes(buffer.getvalue())


def test_scenes_are_as_long_and_as_loud_as_they_should() -> None:
    scenes = Scenes(
        clips=[np.full(500, 0.5, dtype=np.float32), np.zeros(0, dtype=np.float32)],
        length=FRONT.patch_samples,
        rate=FRONT.rate,
    )
    random = np.random.default_rng(0)
    drawn = [scenes.draw(random) for _ in range(60)]
    assert {scene.shape for scene in drawn} == {(FRONT.patch_samples,)}
    assert all(np.isfinite(scene).all() and np.abs(scene).max() <= 1 for scene in drawn)
    assert len({scene.tobytes() for scene in drawn}) > 40


def test_scenes_come_again_from_the_same_seed() -> None:
    clips = [np.ones(900, dtype=np.float32)]
    first, again = (
        np.concatenate(list(scene_patches(clips, FRONT, count=5, batch=2, seed=3)))
        for _ in range(2)
    )
    assert first.shape == (5, 1, 96, 64)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("colour", [0.0, 0.5, 1.0])
def test_noise_has_the_power_it_should(colour: float) -> None:
    wave_ = noise(4096, colour, np.random.default_rng(0))
    assert np.mean(wave_**2) == pytest.approx(1 / 9)
    power = np.abs(np.fft.rfft(wave_)) ** 2
    falls = power[20:40].mean() / power[1000:2000].mean()
    assert falls == pytest.approx(50 ** (2 * colour), rel=0.6)


def test_the_clips_of_a_folder_become_patches(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    for number in range(12):
        write_clip(tmp_path / "clips" / f"{number}.wav", seconds=2.5)
    clips = open_clips(tmp_path, "train")
    assert len(clips) == sum(split_of(f"{number}.wav") == "train" for number in range(12))
    assert clip_patches(clips, FRONT, most=2).shape == (2 * len(clips), 1, 96, 64)


def test_the_device_pays_at_most_a_fifth() -> None:
    network = random_yamnet()
    part = YamnetBottleneck(YamnetNet(network), **SIZES)
    branch = YamnetExit(width=48)
    places = shape(JOIN)[1] * shape(JOIN)[2]
    macs = (
        network.macs(after=0, until=TRUNK)
        + cost(part.encoder, 1, *shape(TRUNK)).macs
        + cost(branch, 1, *shape(TRUNK)).macs
        + part.prior.macs_per_position * places
    )
    assert macs <= 0.2 * network.macs(after=0, until=None)


def test_the_decoder_gives_back_what_the_layers_after_it_take() -> None:
    teacher = YamnetNet(random_yamnet()).requires_grad_(False)
    part = YamnetBottleneck(teacher, **SIZES)
    trunk = torch.rand(2, *shape(TRUNK))
    latents = part.encoder(trunk)
    assert latents.shape == (2, 24, *shape(JOIN)[1:])
    joined = part.restore(latents)
    assert joined.shape == (2, *shape(JOIN))
    joined.sum().backward()  # type: ignore[no-untyped-call]
    learns = {name for name, one in part.named_parameters() if one.grad is not None}
    assert "copies.0.0.weight" in learns
    assert all(one.grad is None for one in teacher.parameters())
    assert YamnetExit(width=48)(trunk).shape == (2, 3)


def test_the_recipe_names_what_the_job_knows() -> None:
    recipe = read_recipe("yamnet-audio")
    options = recipe.options_as(Options)
    assert {name: getattr(options, name) for name in SIZES} == SIZES
    for stage in recipe.stage:
        assert settings_as(stage, Settings).target_bits > 0


def test_no_sounds_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError, match=r"spoken-digits\.tar"):
        open_clips(tmp_path, "train")


def test_thresholds_of_the_exit_keep_their_budget() -> None:
    sure = np.linspace(0.99, 0.5, 100)
    fates = np.arange(100) % 2
    logits = np.full((110, 3), -20.0)
    logits[np.arange(100), fates] = np.log(sure / (1 - sure))
    logits[np.arange(100), 1 - fates] = 0.0
    logits[100:, 2] = 9.0
    told = np.concatenate([fates, np.full(10, 2)])
    told[60] = 2  # the 61st surest is wrong, and so are all after the 80th
    told[80:100] = 2
    eager, careful = exit_points(logits.astype(np.float32), told)
    assert (eager.name, careful.name) == ("drop-2", "drop-1")
    assert careful.coverage == pytest.approx(60 / 110, abs=1e-4)
    assert careful.threshold == pytest.approx(sure[59], abs=1e-5)
    assert eager.coverage == pytest.approx(80 / 110, abs=1e-4)
    assert eager.drop == pytest.approx(1 / 80, abs=1e-4)


def test_an_exit_that_is_always_wrong_is_closed() -> None:
    logits = np.tile(np.array([[5.0, 0.0, 0.0]], dtype=np.float32), (4, 1))
    for point in exit_points(logits, np.full(4, 1)):
        assert (point.coverage, point.drop) == (0.0, 0.0)
        assert point.threshold > 1
