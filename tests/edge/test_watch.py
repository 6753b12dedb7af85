"""A folder of bundles that changes while an edge serves."""

import logging
import shutil
from pathlib import Path

import pytest

from headtail_edge.registry import BundleRegistry
from headtail_edge.watch import Changes, FolderState, Watcher, WatchFolderError
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen


def test_what_is_still_changing_is_left_alone() -> None:
    state = FolderState()
    assert state.look({"a": (1, 10, 1)}) == Changes()
    assert state.look({"a": (2, 20, 1)}) == Changes()
    assert state.look({"a": (2, 20, 1)}) == Changes(load=("a",))
    assert state.look({"a": (2, 20, 1)}) == Changes()


def test_what_changes_is_loaded_again_and_what_goes_is_unloaded() -> None:
    state = FolderState()
    for _ in range(2):
        state.look({"a": (1, 10, 1), "b": (1, 10, 2)})
    assert state.look({"a": (5, 10, 3)}) == Changes(unload=("b",))
    assert state.look({"a": (5, 10, 3)}) == Changes(load=("a",))
    assert state.look({}) == Changes(unload=("a",))
    assert state.look({}) == Changes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "bundles"
    made.mkdir()
    return made


@pytest.fixture
def newer(tmp_path: Path) -> Bundle:
    return open_bundle(write_specimen(tmp_path / "newer", version="2.0"))


def settle(watcher: Watcher) -> None:
    watcher.look()
    watcher.look()


def test_folders_and_packed_bundles_are_served_and_taken_back(
    folder: Path, specimen_path: Path, specimen: Bundle, newer: Bundle, tmp_path: Path
) -> None:
    registry = BundleRegistry(cache_dir=tmp_path / "cache")
    watcher = Watcher(folder, registry)
    shutil.copytree(specimen_path, folder / "one")
    newer.pack(folder / "two.headtail")
    (folder / "notes.txt").write_text("no bundle")
    (folder / ".two.headtail.part").write_text("half of it")
    (folder / "empty").mkdir()
    watcher.look()
    assert len(registry) == 0
    watcher.look()
    assert set(registry.digests()) == {specimen.digest, newer.digest}
    shutil.rmtree(folder / "one")
    watcher.look()
    assert registry.digests() == (newer.digest,)


def test_a_new_version_is_served_before_the_old_one_goes(
    folder: Path, specimen: Bundle, newer: Bundle, tmp_path: Path
) -> None:
    told: list[int] = []
    registry = BundleRegistry(cache_dir=tmp_path / "cache")
    watcher = Watcher(folder, registry)
    specimen.pack(folder / "model.headtail")
    settle(watcher)
    registry.subscribe(lambda digests: told.append(len(digests)))
    newer.pack(folder / "model.headtail")
    settle(watcher)
    assert registry.digests() == (newer.digest,)
    assert told == [1, 2, 1]


def test_a_broken_new_version_leaves_the_old_one_in_place(
    folder: Path, specimen: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = BundleRegistry(cache_dir=tmp_path / "cache")
    watcher = Watcher(folder, registry)
    specimen.pack(folder / "model.headtail")
    settle(watcher)
    (folder / "model.headtail").write_bytes(b"nonsense")
    with caplog.at_level(logging.ERROR):
        settle(watcher)
        settle(watcher)
    assert registry.digests() == (specimen.digest,)
    assert [record.message for record in caplog.records] == ["bundle left out"]


def test_a_bundle_that_lies_there_twice_goes_when_both_are_gone(
    folder: Path, specimen: Bundle, tmp_path: Path
) -> None:
    registry = BundleRegistry(cache_dir=tmp_path / "cache")
    watcher = Watcher(folder, registry)
    for name in ("a", "b"):
        specimen.pack(folder / f"{name}.headtail")
    settle(watcher)
    (folder / "a.headtail").unlink()
    watcher.look()
    assert len(registry) == 1
    (folder / "b.headtail").unlink()
    watcher.look()
    assert len(registry) == 0


def test_a_bundle_that_the_settings_name_too_stays_when_it_goes_from_the_folder(
    folder: Path, specimen: Bundle, newer: Bundle, tmp_path: Path
) -> None:
    registry = BundleRegistry(cache_dir=tmp_path / "cache")
    registry.load(specimen.path)
    watcher = Watcher(folder, registry)
    newer.pack(folder / "a.headtail")
    settle(watcher)
    specimen.pack(folder / "a.headtail")
    settle(watcher)
    assert registry.digests() == (specimen.digest,)
    (folder / "a.headtail").unlink()
    watcher.look()
    assert registry.digests() == (specimen.digest,)


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(WatchFolderError, match="No such file"):
        Watcher(tmp_path / "nowhere", BundleRegistry())
