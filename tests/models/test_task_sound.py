"""A task whose frames are sounds: the way in, and what a hostile edge may answer."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from msgspec.structs import replace

from headtail_models.bundle.manifest import (
    ClassifyTask,
    LogMel,
    Manifest,
    Preprocess,
    StageEntry,
    TagTask,
)
from headtail_models.entrance import pictures_of
from headtail_models.task import AnswerError, ClassifyAnswer, TagAnswer, TaskError, task_for

MANIFEST = Manifest(
    schema=1,
    name="sounds",
    version="1",
    task=TagTask(output="logits", threshold=0.25, max_tags=2),
    labels=("Speech", "Music", "Silence"),
    preprocess=LogMel(),
    full=StageEntry(file="full.onnx", inputs=(), outputs=(), macs=0),
    cuts=(),
    default_cut="none",
    default_codec="raw",
    files=(),
)
TASK = task_for(MANIFEST)


def noise(samples: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return (0.1 * np.random.default_rng(0).normal(size=samples)).astype(np.float32)


@pytest.mark.parametrize("samples", [1, 15_599, 15_600])
def test_a_sound_becomes_one_patch_and_has_no_place(samples: int) -> None:
    tensor, place = TASK.prepare(noise(samples))
    assert tensor.shape == (1, 1, 96, 64)
    assert tensor.dtype == np.float32
    assert place is None
    assert TASK.geometry(1, samples) is None


def test_frames_of_a_long_sound_are_its_patches() -> None:
    front = LogMel().front()
    sound = noise(3 * front.hop_samples + front.patch_samples)
    frames = [sound[at * front.hop_samples :][: front.patch_samples] for at in range(4)]
    apart = np.concatenate([TASK.prepare(frame)[0] for frame in frames])
    np.testing.assert_array_equal(apart, front.patches(sound))


@pytest.mark.parametrize(
    "frame",
    [
        noise(0),
        noise(15_601),
        noise(100).astype(np.float64),
        noise(100).reshape(2, 50),
        np.full(100, np.nan, dtype=np.float32),
        np.zeros((8, 8, 3), dtype=np.uint8),
    ],
)
def test_what_is_no_patch_of_sound_is_refused(frame: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ValueError, match="samples"):
        TASK.prepare(frame)


def test_logits_become_tags() -> None:
    sent = TASK.finish({"logits": np.array([[0, 3, -9]], dtype=np.float32)})[0]
    answer = TASK.answer(sent, None)
    assert repr(answer) == "<TagAnswer Music 0.95, Speech 0.50>"
    assert answer.to_json()["task"] == "tag"


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({}, "no 'tags'"),
        ({"tags": np.zeros((1, 2), dtype=np.float64)}, "float64"),
        ({"tags": np.array([[0, np.inf]], dtype=np.float32)}, "not finite"),
        ({"tags": np.zeros((3, 2), dtype=np.float32)}, "at most 2"),
        ({"tags": np.array([[3, 0.5]], dtype=np.float32)}, "none of the 3 labels"),
        ({"tags": np.array([[0, 1.5]], dtype=np.float32)}, "between 0 and 1"),
    ],
)
def test_hostile_tags_are_refused(tensors: dict[str, Any], words: str) -> None:
    with pytest.raises(AnswerError, match=words):
        TASK.answer(tensors, None)


@given(
    arrays.arrays(
        np.float32,
        arrays.array_shapes(max_dims=3, max_side=3),
        elements=st.floats(width=32) | st.floats(0, 1, width=32),
    )
)
def test_whatever_arrives_is_an_answer_or_refused(tensor: np.ndarray[Any, Any]) -> None:
    try:
        answer = TASK.answer({"tags": tensor}, None)
    except AnswerError:
        return
    json.dumps(answer.to_json(), allow_nan=False)


def test_an_exit_tells_one_label_and_its_doubt_none() -> None:
    shares = np.array([0.95, 0.03, 0.02], dtype=np.float32)
    assert repr(TASK.early_answer(shares, (2, 0))) == "<TagAnswer Silence 0.95>"
    with pytest.raises(ValueError, match="for 2 classes"):
        TASK.early_answer(np.ones(1, dtype=np.float32), (2, 0))
    assert TASK.nothing() == TagAnswer(tags=())


def test_what_a_task_means_and_how_frames_enter_are_two_things() -> None:
    spoken = task_for(replace(MANIFEST, task=ClassifyTask(output="logits")))
    assert spoken.prepare(noise(400))[0].shape == (1, 1, 96, 64)
    assert isinstance(spoken.nothing(), ClassifyAnswer)
    way = Preprocess(kind="letterbox", width=8, height=8)
    seen = task_for(replace(MANIFEST, preprocess=way))
    assert seen.prepare(np.zeros((4, 4, 3), dtype=np.uint8))[0].shape == (1, 3, 8, 8)
    assert seen.nothing() == TagAnswer(tags=())


def test_what_works_on_pictures_refuses_sounds() -> None:
    with pytest.raises(TaskError, match="does not take pictures"):
        pictures_of(MANIFEST)


def test_a_front_end_that_makes_no_sense() -> None:
    with pytest.raises(TaskError, match="bundle sounds"):
        task_for(replace(MANIFEST, preprocess=LogMel(hop=500)))
