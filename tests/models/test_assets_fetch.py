"""The cache: filled once, checked always, safe when several fill it, honest when it can't."""

import errno
import hashlib
import io
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from headtail_fabric.config import cache_home
from headtail_models.assets import State, cache, catalogue, fetch, state
from headtail_models.assets.cache import fetch_asset
from headtail_models.assets.catalogue import Asset, Member
from headtail_models.assets.errors import (
    CacheError,
    DiskFullError,
    UnknownAssetError,
    UnreachableError,
    WrongContentError,
)
from headtail_models.assets.progress import ProgressSink, Silence

DATA = bytes(range(256)) * 100


def _archive(content: bytes = DATA) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("pack/data.bin", content)
        packed.writestr("pack/code.py", "raise SystemExit")
    return buffer.getvalue()


ARCHIVE = _archive()


def _asset() -> Asset:
    return Asset(
        name="thing",
        purpose="tests",
        kind="pypi",
        package="thing",
        version="1.0",
        filename="thing-1.0.whl",
        size_bytes=len(ARCHIVE),
        sha256=hashlib.sha256(ARCHIVE).hexdigest(),
        licence="MIT",
        members=(
            Member(
                path="pack/data.bin",
                size_bytes=len(DATA),
                sha256=hashlib.sha256(DATA).hexdigest(),
            ),
        ),
    )


class _Shelf:
    """A registry that has one archive, or an error, and counts how often it is asked."""

    def __init__(self, content: bytes | Exception = ARCHIVE) -> None:
        self.content = content
        self.asked = 0

    def download(self, asset: Asset, part: Path, *, progress: ProgressSink) -> None:
        self.asked += 1
        if isinstance(self.content, Exception):
            raise self.content
        have = part.read_bytes() if part.exists() else b""
        part.write_bytes(have + self.content[len(have) :])


def _fetch(cache: Path, shelf: _Shelf) -> dict[str, Path]:
    return fetch_asset(_asset(), cache_dir=cache, progress=Silence(), registry=shelf)


def _files(cache: Path) -> list[str]:
    return sorted(
        str(path.relative_to(cache / "assets"))
        for path in (cache / "assets").rglob("*")
        if path.is_file() and path.suffix != ".lock"
    )


def test_it_is_fetched_once(tmp_path: Path) -> None:
    shelf = _Shelf()
    for _ in range(3):
        files = _fetch(tmp_path, shelf)
        assert files["data.bin"].read_bytes() == DATA
    assert shelf.asked == 1
    assert _files(tmp_path) == [f"thing-{_asset().sha256[:12]}/data.bin"]


@pytest.mark.parametrize("damage", [DATA[:-1], b"\x01" + DATA[1:], b""])
def test_what_was_damaged_is_fetched_again(tmp_path: Path, damage: bytes) -> None:
    shelf = _Shelf()
    path = _fetch(tmp_path, shelf)["data.bin"]
    path.write_bytes(damage)
    assert _fetch(tmp_path, shelf)["data.bin"].read_bytes() == DATA
    assert shelf.asked == 2


def test_an_interrupted_download_goes_on(tmp_path: Path) -> None:
    broken = _Shelf(UnreachableError("gone"))
    with pytest.raises(UnreachableError):
        _fetch(tmp_path, broken)
    part = tmp_path / "assets" / f"thing-{_asset().sha256[:12]}.part"
    part.write_bytes(ARCHIVE[:1000])
    shelf = _Shelf()
    _fetch(tmp_path, shelf)
    assert shelf.asked == 1
    assert not part.exists()


def test_a_rotten_leftover_is_thrown_away(tmp_path: Path) -> None:
    part = tmp_path / "assets" / f"thing-{_asset().sha256[:12]}.part"
    part.parent.mkdir()
    part.write_bytes(b"rotten")
    shelf = _Shelf()
    assert _fetch(tmp_path, shelf)["data.bin"].read_bytes() == DATA
    assert shelf.asked == 2


def test_a_wrong_archive_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(WrongContentError, match="checksum") as caught:
        _fetch(tmp_path, _Shelf(_archive(DATA[::-1])))
    assert "don't trust" in caught.value.advice
    assert _files(tmp_path) == []


def test_a_right_archive_that_does_not_hold_the_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def extract(asset: Asset, archive: Path, folder: Path) -> None:
        (folder / "data.bin").write_bytes(b"half")
        raise WrongContentError("not it")

    monkeypatch.setattr(cache, "extract", extract)
    with pytest.raises(WrongContentError):
        _fetch(tmp_path, _Shelf())
    assert _files(tmp_path) == [f"thing-{_asset().sha256[:12]}.part"]


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "headtail_models.assets.cache.shutil.disk_usage", lambda path: SimpleNamespace(free=10)
    )
    shelf = _Shelf()
    with pytest.raises(DiskFullError, match="are free"):
        _fetch(tmp_path, shelf)
    assert shelf.asked == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_disk_fills_up_on_the_way(tmp_path: Path, number: int) -> None:
    with pytest.raises(DiskFullError, match="disk is full") as caught:
        _fetch(tmp_path, _Shelf(OSError(number, "no space")))
    assert "XDG_CACHE_HOME" in caught.value.advice


def test_a_cache_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "assets").write_text("in the way")
    with pytest.raises(CacheError, match="assets"):
        _fetch(tmp_path, _Shelf())


def test_two_at_once_ask_once(tmp_path: Path) -> None:
    class Slow(_Shelf):
        def download(self, asset: Asset, part: Path, *, progress: ProgressSink) -> None:
            entered.set()
            assert go_on.wait(10)
            super().download(asset, part, progress=progress)

    entered, go_on, shelf = threading.Event(), threading.Event(), Slow()
    found: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(_fetch(tmp_path, shelf)["data.bin"].read_bytes())
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert found == [DATA, DATA]
    assert shelf.asked == 1


def test_states(tmp_path: Path) -> None:
    name = catalogue()[0].name
    assert state(name, cache_dir=tmp_path) is State.ABSENT
    asset = catalogue()[0]
    folder = tmp_path / "assets" / f"{name}-{asset.sha256[:12]}"
    folder.mkdir(parents=True)
    for member in asset.members:
        (folder / member.file).write_bytes(b"something else")
    assert state(name, cache_dir=tmp_path) is State.DAMAGED


def test_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownAssetError):
        fetch("nothing", cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("/somewhere", lambda home: Path("/somewhere/headtail")),
        ("", lambda home: home / ".cache" / "headtail"),
        ("relative", lambda home: home / ".cache" / "headtail"),
    ],
)
def test_where_the_cache_is(
    named: str,
    expected: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_home() == expected(tmp_path)
