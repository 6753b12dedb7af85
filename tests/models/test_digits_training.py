"""The job `spoken-digits` on made-up utterances: tones of six speakers."""

import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from headtail_models.nets.board_split import TOP, sent
from headtail_models.nets.digits import digits_net
from headtail_models.training.digits import DigitsJob, splits
from headtail_models.training.digits_data import (
    FILE,
    FRONT,
    SPEAKERS,
    centred,
    clip_of,
    read_digits,
    spectra,
    varied,
)
from headtail_models.training.errors import RecipeError, TrainingDataError
from headtail_models.training.recipe import Recipe, StageRecipe, read_recipe

SIZES = {"width": 8, "code": 2, "tail_width": 8, "tail_blocks": 1, "times": 2}


def wav(digit: int, speaker: int) -> bytes:
    buffer = io.BytesIO()
    at = np.arange(2400) / 8000
    tone = 0.2 * np.sin(2 * np.pi * (200 + 150 * digit + 10 * speaker) * at)
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((tone * 32767).astype("<i2").tobytes())
    return buffer.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    with tarfile.open(folder / FILE, "w") as tar:
        for number, speaker in enumerate(SPEAKERS):
            for digit in range(3):
                content = wav(digit, number)
                entry = tarfile.TarInfo(f"recordings/{digit}_{speaker}_0.wav")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        tar.addfile(tarfile.TarInfo("recordings/README.md"))
    return folder


@pytest.fixture
def job(data: Path, tmp_path: Path) -> DigitsJob:
    stage = StageRecipe(name="one", steps=1, batch=4, rate=1e-3)
    recipe = Recipe(name="digits", job="spoken-digits", options=SIZES, stage=(stage,))
    return DigitsJob(recipe, data, tmp_path)


def test_every_speaker_is_in_one_split() -> None:
    for first in range(6):
        found = splits(first)
        assert sorted(name for names in found.values() for name in names) == sorted(SPEAKERS)
        assert [len(names) for names in found.values()] == [4, 1, 1]
    assert splits(0)["test"] == ("yweweler",)
    assert splits(1)["test"] == ("george",)


def test_reading_keeps_to_the_speakers(data: Path) -> None:
    found = read_digits(data / FILE, ["theo"])
    assert [one.digit for one in found] == [0, 1, 2]
    assert {one.speaker for one in found} == {"theo"}
    assert found[0].samples.size == 2400
    with pytest.raises(TrainingDataError, match="nothing said by nobody"):
        read_digits(data / FILE, ["nobody"])
    with pytest.raises(TrainingDataError, match="absent"):
        read_digits(data / "absent.tar", SPEAKERS)


def test_clips_have_a_length_and_a_place() -> None:
    ones = np.ones(100, dtype=np.float32)
    for place, first in ((0.0, 0), (0.5, 3910), (1.0, 7820)):
        clip = clip_of(ones, place=place)
        assert clip.size == FRONT.patch_samples == 7920
        assert np.flatnonzero(clip)[0] == first
        assert clip.sum() == 100
    long = np.arange(8000, dtype=np.float32)
    assert clip_of(long, place=0.3)[0] == 40


def test_varied_sounds_are_as_many_and_never_the_same(data: Path) -> None:
    utterances = read_digits(data / FILE, ["theo"])
    found = varied(utterances, times=2, seed=0)
    assert found.patches.shape == (6, 1, 49, 10)
    assert found.digits.tolist() == [0, 1, 2, 0, 1, 2]
    assert np.abs(found.patches[0] - found.patches[3]).max() > 0.1
    plain = centred(utterances)
    assert plain.samples.dtype == np.int16
    assert spectra(plain.samples).shape == (3, 1, 49, 10)


def test_the_job_learns_and_is_judged(job: DigitsJob) -> None:
    batch = job.draw(np.random.default_rng(0), 4)
    assert batch.samples.inputs.shape == (4, 1, 49, 10)
    assert batch.bits in (8, 4, 2)
    loss = job.loss(batch, 0.0)
    assert set(loss.parts) == {"exit", "tail"}
    loss.total.backward()  # type: ignore[no-untyped-call]
    scores = job.evaluate()
    assert set(scores) == {"score", "exit", "tail@8", "tail@4", "tail@2"}


def test_a_stage_names_what_counts_and_what_stays(job: DigitsJob) -> None:
    recipe = read_recipe("spoken-digits")
    job.network.train()
    job.begin(recipe.stage[0])
    batch = job.draw(np.random.default_rng(0), 4)
    assert set(job.loss(batch, 0.0).parts) == {"helper", "tail"}
    job.begin(recipe.stage[1])
    before = {name: value.clone() for name, value in job.network.trunk.state_dict().items()}
    assert set(job.loss(batch, 0.0).parts) == {"exit"}
    for name, value in job.network.trunk.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert job.network.branch.training
    with pytest.raises(RecipeError, match="colour"):
        job.begin(StageRecipe(name="x", steps=1, batch=1, rate=1.0, settings={"colour": 1.0}))


def test_no_data_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError, match=FILE):
        DigitsJob(read_recipe("spoken-digits"), tmp_path, tmp_path)


def test_the_network_is_half_of_the_keyword_spotter() -> None:
    network = digits_net(classes=10).eval()
    near = network.trunk(torch.zeros(1, 1, 49, 10))
    assert near.shape == (1, 64, 25, 5)
    assert network.encoder(near).shape == (1, 8, 13, 3)
    assert network.branch(near).shape == (1, 10)
    assert network(torch.zeros(2, 1, 49, 10)).shape == (2, 10)


def test_what_is_sent_is_a_level_and_gradients_pass() -> None:
    code = torch.linspace(0, TOP, 50, requires_grad=True)
    for bits in (8, 4, 2):
        arrived = sent(code, bits)
        levels = arrived.detach() * ((1 << bits) - 1) / TOP
        torch.testing.assert_close(levels, levels.round(), atol=1e-4, rtol=0)
        (gradient,) = torch.autograd.grad(arrived.sum(), code)
        assert torch.equal(gradient, torch.ones(50))
