"""COCO as it is published: what is read, drawn and refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headtail_models.rcnn.coco import Drawing, read_people, read_split
from headtail_models.rcnn.errors import CocoFolderError
from tiny_coco import DOG, PERSON, write_tiny_coco


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    return write_tiny_coco(tmp_path / "coco")


def test_pictures_and_boxes(coco: Path) -> None:
    pictures = read_split(coco, "train2017")

    assert [one.number for one in pictures] == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(
        pictures[0].boxes, [[DOG, 10, 20, 40, 60], [PERSON, 10, 20, 40, 60]]
    )
    # The second person is a crowd.
    assert [one.shows(PERSON) for one in pictures] == [True, False] * 3
    assert len(pictures[0].only(PERSON).boxes) == 1
    picture = pictures[2].read()
    assert picture.shape == (3, 128, 96)
    assert 0 <= picture.min() < picture.max() <= 1


def test_people_have_ten_visible_keypoints(coco: Path) -> None:
    assert read_people(coco, "val2017") == {1, 3, 5}


def test_batches_have_like_proportions_and_some_are_mirrored(coco: Path) -> None:
    pictures = read_split(coco, "train2017")
    drawing = Drawing(pictures)
    random = np.random.default_rng(0)
    mirrored = 0
    for _ in range(20):
        chosen, drawn = drawing.draw(random, 3)
        assert len({tuple(one.shape) for one in drawn}) == 1
        same = [torch.equal(a.read(), b) for a, b in zip(chosen, drawn, strict=True)]
        mirrored += same.count(False)
    assert 15 < mirrored < 45


def test_the_same_seed_draws_the_same(coco: Path) -> None:
    drawing = Drawing(read_split(coco, "train2017"))
    one, other = (drawing.draw(np.random.default_rng(3), 2)[1] for _ in range(2))

    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_folder_without_annotations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CocoFolderError, match="No such file"):
        read_split(tmp_path, "train2017")
    with pytest.raises(CocoFolderError, match="no picture"):
        Drawing(())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense", "malformed"),
        ('{"images": []}', "annotations"),
        ('{"images": [], "annotations": []}', "no pictures"),
        (
            json.dumps(
                {
                    "images": [{"id": 1, "file_name": "../x.jpg", "height": 1, "width": 1}],
                    "annotations": [],
                }
            ),
            "plain name",
        ),
    ],
)
def test_bad_annotations_are_refused(coco: Path, content: str, message: str) -> None:
    (coco / "annotations" / "instances_train2017.json").write_text(content)
    with pytest.raises(CocoFolderError, match=message):
        read_split(coco, "train2017")


def test_a_missing_picture_is_said(coco: Path) -> None:
    pictures = read_split(coco, "train2017")
    pictures[0].path.unlink()
    with pytest.raises(CocoFolderError, match="000000000001"):
        pictures[0].read()
