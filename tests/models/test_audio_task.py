"""From logits to tags and back, with hostile numbers on the way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headtail_fabric.codec.base import Array
from headtail_models.audio.task import TAGS, Tagger, scores

LABELS = ("Speech", "Music", "Bell", "Silence")
TAGGER = Tagger(labels=LABELS, output="logits", threshold=0.25, most=2)


def logits(*rows: list[float]) -> dict[str, Array]:
    return {"logits": np.array(rows, dtype=np.float32)}


def test_the_best_come_first_and_the_unsure_not_at_all() -> None:
    first, second = TAGGER.finish(logits([0.0, 3.0, 1.0, -9.0], [-9.0] * 4))
    answer = TAGGER.answer(first[TAGS])
    assert repr(answer) == "<TagAnswer Music 0.95, Bell 0.73>"
    assert answer.to_json() == {
        "task": "tag",
        "tags": [
            {"label": "Music", "class_id": 1, "score": 0.9526},
            {"label": "Bell", "class_id": 2, "score": 0.7311},
        ],
    }
    assert second[TAGS].shape == (0, 2)
    assert TAGGER.answer(second[TAGS]) == TAGGER.nothing()
    assert repr(TAGGER.nothing()) == "<TagAnswer nothing>"


@given(arrays.arrays(np.float32, (3, 4), elements=st.floats(width=32)))
def test_whatever_the_network_gives_the_answer_is_sound(values: Array) -> None:
    for tensors in TAGGER.finish({"logits": values}):
        answer = TAGGER.answer(tensors[TAGS])
        assert all(0.25 <= tag.score <= 1 for tag in answer.tags)


def test_scores_are_finite_for_whatever_comes() -> None:
    found = scores(np.array([np.nan, np.inf, -np.inf, 0, -900], dtype=np.float32))
    np.testing.assert_allclose(found, [0.5, 1, 0, 0.5, 0], atol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    "outputs",
    [{}, {"other": np.zeros((1, 4))}, {"logits": np.zeros((1, 3))}, {"logits": np.zeros(4)}],
)
def test_an_output_that_does_not_fit_is_refused(outputs: dict[str, Array]) -> None:
    with pytest.raises(ValueError, match="logits"):
        TAGGER.finish(outputs)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (np.zeros((1, 2), dtype=np.float64), "float64"),
        (np.zeros((1, 3), dtype=np.float32), "shape"),
        (np.zeros((3, 2), dtype=np.float32), "at most 2"),
        (np.array([[0, np.nan]], dtype=np.float32), "finite"),
        (np.array([[4, 0.5]], dtype=np.float32), "none of the 4"),
        (np.array([[0.5, 0.5]], dtype=np.float32), "none of the 4"),
        (np.array([[1, 1.5]], dtype=np.float32), "between 0 and 1"),
    ],
)
def test_an_answer_that_no_tail_gives_is_refused(tags: Array, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TAGGER.answer(tags)


def test_an_exit_names_some_of_the_classes() -> None:
    sure = TAGGER.early_answer(np.array([0.1, 0.8, 0.1], dtype=np.float32), (3, 0))
    assert repr(sure) == "<TagAnswer Speech 0.80>"
    assert TAGGER.early_answer(np.full(4, 0.25, dtype=np.float32), ()).tags[0].label == "Speech"
    with pytest.raises(ValueError, match="2 classes"):
        TAGGER.early_answer(np.ones(1, dtype=np.float32), (3, 0))


@pytest.mark.parametrize("wrong", [{"labels": ()}, {"threshold": 1.5}, {"most": 0}])
def test_a_tagger_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    values: dict[str, object] = {"labels": LABELS, "output": "x"}
    with pytest.raises(ValueError, match="labels, threshold"):
        Tagger(**(values | wrong))  # type: ignore[arg-type]
