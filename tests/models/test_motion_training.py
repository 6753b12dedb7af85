"""The job `motion` on made-up recordings, in the form that the published ones have."""

import copyreg
import gzip
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headtail_models.training.errors import TrainingDataError
from headtail_models.training.motion import MotionJob
from headtail_models.training.motion_data import (
    CHANNELS,
    COUNTS,
    FILE,
    read_recordings,
    scaled,
    split_of,
    windows,
)
from headtail_models.training.recipe import Recipe, StageRecipe

Table = tuple[NDArray[Any], NDArray[Any]]
Dump = Callable[[Path, int, Table], None]


class Reduced:
    """Is pickled as a call with a state."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def __reduce__(self) -> Any:
        return self._parts


@pytest.fixture
def dump(monkeypatch: pytest.MonkeyPatch) -> Dump:
    """Writes readings (n, 6) and labels (n,) of a person as pandas once pickled its tables."""
    kinds: dict[str, type] = {}
    names = {
        "pandas": (),
        "pandas.core": (),
        "pandas.core.frame": ("DataFrame",),
        "pandas.core.internals": (),
        "pandas.core.internals.managers": ("BlockManager",),
        "pandas.core.indexes": (),
        "pandas.core.indexes.base": ("Index", "_new_Index"),
    }
    for module, own in names.items():
        stub = ModuleType(module)
        monkeypatch.setitem(sys.modules, module, stub)
        for name in own:
            kinds[name] = type(name, (), {"__module__": module})
            setattr(stub, name, kinds[name])

    def built(kind: str, state: Any) -> Reduced:
        return Reduced(copyreg._reconstructor, (kinds[kind], object, None), state)  # type: ignore[attr-defined]

    def index(*labels: str) -> Reduced:
        fields = {"data": np.array(labels, dtype=object), "name": None}
        return Reduced(kinds["_new_Index"], (kinds["Index"], fields))

    def write(path: Path, person: int, table: Table) -> None:
        readings, labels = table
        blocks = [readings.T.astype(np.float64), labels[np.newaxis].astype(np.int64)]
        items = [index(*CHANNELS), index("label")]
        manager = built("BlockManager", ([index(*CHANNELS, "label")], blocks, items, {}))
        frame = built("DataFrame", {"_data": manager})
        with gzip.open(path, "wb") as file:
            pickle.dump({person: [frame]}, file, protocol=2)

    return write


def recording(labels: list[int], *, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    found = np.repeat(labels, 192)
    return random.normal(0, 0.5, (found.size, 6)), found


def test_reads_readings_as_counts(tmp_path: Path, dump: Dump) -> None:
    readings, labels = recording([1, 4])
    readings[0] = 100.0  # beyond what the sensor measures
    dump(tmp_path / FILE, 3, (readings, labels))
    (found,) = read_recordings(tmp_path / FILE)
    assert found.person == 3
    assert found.labels.tolist() == labels.tolist()
    assert found.readings[0].tolist() == [32767] * 6
    np.testing.assert_allclose(found.readings[1:] / np.array(COUNTS), readings[1:], atol=2e-4)


def test_windows_hold_one_activity(tmp_path: Path, dump: Dump) -> None:
    dump(tmp_path / FILE, 3, recording([-1, 1, 7, 6]))
    recordings = read_recordings(tmp_path / FILE)
    found = windows(recordings, "train")
    assert found.samples.shape == (4, 128, 6)
    assert found.labels.tolist() == [0, 0, 5, 5]
    assert scaled(found.samples).shape == (4, 1, 128, 6)
    with pytest.raises(TrainingDataError, match="no recordings of the persons to use for test"):
        windows(recordings, "test")


def test_every_person_is_in_one_split() -> None:
    counted = [split_of(person) for person in range(1, 31)]
    assert [counted.count(one) for one in ("train", "calibration", "test")] == [18, 6, 6]


class Evil:
    """Would run a command when a plain unpickler reads it."""

    def __reduce__(self) -> Any:
        return os.system, ("false",)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (gzip.compress(pickle.dumps({1: [Evil()]}, protocol=2)), "it wants (posix|nt).system"),
        (gzip.compress(pickle.dumps({1: [3]}, protocol=2)), "AttributeError"),
        (gzip.compress(pickle.dumps([1], protocol=2)), "IndexError"),
        (gzip.compress(b"\x80\x02c"), "Unpickling|EOF"),
        (b"no gzip", "BadGzipFile"),
        (gzip.compress(b"cut short")[:-9], "EOFError|Unpickling"),
    ],
    # The bytes would have the time in them, and each of several test processes its own name.
    ids=["a call", "no lists", "no dict", "no end", "no gzip", "cut short"],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(TrainingDataError, match=why):
        read_recordings(tmp_path / FILE)


def test_the_job_learns_and_is_judged(
    tmp_path: Path, dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for person in (3, 20):
        dump(tmp_path / FILE, person, recording([1, 2, 3], seed=person))
        found += read_recordings(tmp_path / FILE)
    monkeypatch.setattr("headtail_models.training.motion.read_recordings", lambda _: found)
    stage = StageRecipe(name="one", steps=1, batch=4, rate=1e-3)
    recipe = Recipe(name="motion", job="motion", options={"width": 8}, stage=(stage,))
    job = MotionJob(recipe, tmp_path, tmp_path)
    batch = job.draw(np.random.default_rng(0), 4)
    assert batch.samples.inputs.shape == (4, 1, 128, 6)
    loss = job.loss(batch, 0.0)
    assert torch.isfinite(loss.total)
    assert set(job.evaluate()) == {"score", "exit", "tail@8", "tail@4", "tail@2"}


def test_turning_the_sensor_keeps_lengths(
    tmp_path: Path, dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gain and noise, acceleration and turning are only seen from elsewhere."""
    monkeypatch.setattr("headtail_models.training.motion._NOISE", 0.0)
    found = []
    for person in (3, 20):
        dump(tmp_path / FILE, person, recording([1, 2], seed=person))
        found += read_recordings(tmp_path / FILE)
    monkeypatch.setattr("headtail_models.training.motion.read_recordings", lambda _: found)
    stage = StageRecipe(name="one", steps=1, batch=4, rate=1e-3)
    options = {"width": 8, "gain": 0.0, "tilt": 60.0}
    job = MotionJob(Recipe(name="m", job="m", options=options, stage=(stage,)), tmp_path, tmp_path)
    taken = job.take(np.random.default_rng(0), 4).inputs.numpy().reshape(4, 128, 2, 3)
    plain = scaled(windows(found, "train").samples).reshape(-1, 128, 2, 3)
    lengths = np.linalg.norm(plain, axis=3)
    for one in taken:
        ours = np.linalg.norm(one, axis=2)
        (near,) = np.flatnonzero(np.abs(lengths - ours).max(axis=(1, 2)) < 1e-4)
        assert np.abs(plain[near] - one).max() > 0.05
