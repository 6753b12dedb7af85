"""Half-received bundles on the disk."""

import errno
import os
from pathlib import Path

import pytest

from headtail_edge.part_store import PartStore, PartStoreError
from headtail_edge.push import Held

DIGEST = bytes(range(32))


def test_parts_are_appended_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "pushed"
    store = PartStore(folder)
    assert store.held(DIGEST) is None
    store.append(DIGEST, offset=0, total=6, payload=b"abc")
    store.append(DIGEST, offset=3, total=6, payload=memoryview(b"de"))
    assert PartStore(folder).held(DIGEST) == Held(offset=5, total=6)
    assert store.path(DIGEST, 6).read_bytes() == b"abcde"
    store.discard(DIGEST)
    assert list(folder.iterdir()) == []


def test_only_its_user_may_look_into_the_folder(tmp_path: Path) -> None:
    PartStore(tmp_path / "pushed")
    assert (tmp_path / "pushed").stat().st_mode & 0o777 == 0o700


def test_what_begins_again_replaces_what_there_was(tmp_path: Path) -> None:
    store = PartStore(tmp_path)
    store.append(DIGEST, offset=0, total=9, payload=b"old text")
    store.append(DIGEST, offset=0, total=9, payload=b"new")
    assert store.held(DIGEST) == Held(offset=3, total=9)


def test_a_file_that_makes_no_sense_is_thrown_away(tmp_path: Path) -> None:
    store = PartStore(tmp_path)
    store.path(DIGEST, 2).write_bytes(b"too long")
    (tmp_path / f"{DIGEST.hex()}-x.part").write_bytes(b"")
    assert store.held(DIGEST) is None
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_part_makes_room_for_a_new_one(tmp_path: Path) -> None:
    store = PartStore(tmp_path, max_files=2)
    for number, digest in enumerate((b"a" * 32, b"b" * 32)):
        store.append(digest, offset=0, total=9, payload=b"x")
        os.utime(store.path(digest, 9), (number, number))
    store.append(DIGEST, offset=0, total=9, payload=b"x")
    assert store.held(b"a" * 32) is None
    assert store.held(b"b" * 32) is not None
    assert store.held(DIGEST) is not None


def test_a_disk_that_refuses_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PartStoreError, match="file"):
        PartStore(tmp_path / "file" / "pushed")


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PartStore(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(PartStoreError, match="No space left on device"):
        store.append(DIGEST, offset=0, total=9, payload=b"x")
