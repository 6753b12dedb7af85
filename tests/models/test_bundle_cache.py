"""Where bundles lie on this machine."""

import logging
import os
import shutil
from pathlib import Path

import pytest

from headtail_fabric.errors import ConfigError
from headtail_models.bundle import Bundle, BundleCache, open_bundle
from headtail_models.bundle.cache import default_root
from headtail_models.bundle.errors import (
    BundleStorageError,
    MissingManifestError,
    NoSuchBundleError,
)
from headtail_models.bundle.specimen import write_specimen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("cache") / "specimen")


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    return open_bundle(folder).pack(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> BundleCache:
    return BundleCache(tmp_path / "cache")


def _opened(packed: Path, cache: BundleCache) -> Bundle:
    return open_bundle(packed, cache_dir=cache.root)


def _inode(bundle: Bundle) -> int:
    return (bundle.path / "weights.bin").stat().st_ino


def test_a_whole_copy_is_used_again(packed: Path, cache: BundleCache) -> None:
    first = _opened(packed, cache)
    assert _inode(_opened(packed, cache)) == _inode(first)
    assert (first.path / "weights.bin").stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "weights.bin").unlink(),
        lambda path: (path / "spare.onnx").touch(),
        lambda path: (path / "manifest.json").unlink(),
        lambda path: (path / "manifest.json").write_bytes(b"{}"),
        lambda path: (path / "manifest.json").write_bytes(bytes(9_000_000)),
        lambda path: ((path / "full.onnx").unlink(), (path / "full.onnx").symlink_to("x")),
    ],
)
def test_a_damaged_copy_is_replaced(
    packed: Path, cache: BundleCache, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(damage)
    first = _opened(packed, cache)
    damage(first.path)
    with caplog.at_level(logging.WARNING):
        second = _opened(packed, cache)
    assert open_bundle(second.path).digest == first.digest
    assert caplog.messages == ["cached bundle is damaged"]
    assert sorted(path.name for path in cache.root.iterdir()) == [
        ".lock",
        first.digest.hex(),
    ]


def test_a_file_in_its_place_is_replaced(packed: Path, cache: BundleCache) -> None:
    first = _opened(packed, cache)
    shutil.rmtree(first.path)
    first.path.touch()
    assert _opened(packed, cache).path.is_dir()


def test_what_a_dead_process_left_half_unpacked_is_removed(
    packed: Path, cache: BundleCache
) -> None:
    (cache.root / ".unpack-dead").mkdir(parents=True)
    (cache.root / ".unpack-dead" / "weights.bin").touch()
    _opened(packed, cache)
    assert not (cache.root / ".unpack-dead").exists()


def test_a_full_disk_leaves_nothing_behind(
    packed: Path, cache: BundleCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_bytes(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(BundleStorageError, match="No space left"):
        _opened(packed, cache)
    assert [path.name for path in cache.root.iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_made(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BundleStorageError, match="file"):
        open_bundle(packed, cache_dir=tmp_path / "file" / "cache")


def test_adopting_moves_a_folder_in(cache: BundleCache) -> None:
    with cache.workshop() as workshop:
        folder = write_specimen(workshop / "bundle")
        path = cache.adopt(folder)
        assert not folder.exists()
    assert not workshop.exists()
    assert open_bundle(path).digest.hex() == path.name
    with cache.workshop() as workshop:
        before = path.stat().st_ino
        assert cache.adopt(write_specimen(workshop / "bundle")) == path
        assert path.stat().st_ino == before


def test_adopting_no_bundle(cache: BundleCache) -> None:
    with cache.workshop() as workshop, pytest.raises(MissingManifestError):
        cache.adopt(workshop)


def _added(cache: BundleCache, version: str, *, at_s: float) -> Path:
    with cache.workshop() as workshop:
        path = cache.adopt(write_specimen(workshop / "bundle", version=version))
    os.utime(path, (at_s, at_s))
    return path


def test_an_empty_cache(cache: BundleCache) -> None:
    assert list(cache.entries()) == []
    with pytest.raises(NoSuchBundleError, match="no bundle 'specimen'"):
        cache.find("specimen")


def test_the_newest_version_comes_first(cache: BundleCache) -> None:
    paths = {version: _added(cache, version, at_s=1.0) for version in ("1.9", "1.10", "1.2")}
    assert [entry.path for entry in cache.entries()] == [
        paths["1.10"],
        paths["1.9"],
        paths["1.2"],
    ]
    assert cache.find("specimen") == paths["1.10"]
    assert cache.find("specimen-1.9") == paths["1.9"]
    assert cache.find(paths["1.2"].name[:8]) == paths["1.2"]
    assert cache.find(paths["1.2"].name) == paths["1.2"]


def test_paths_are_found_too(cache: BundleCache, packed: Path, folder: Path) -> None:
    _added(cache, "1.0", at_s=1.0)
    assert cache.find(str(packed)) == packed
    assert cache.find(str(folder)) == folder


def test_a_name_means_the_cache_before_the_folder_at_hand(
    cache: BundleCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specimen").mkdir()
    assert cache.find("specimen") == Path("specimen")
    added = _added(cache, "1.0", at_s=1.0)
    assert cache.find("specimen") == added
    assert cache.find("./specimen") == Path("specimen")


@pytest.mark.parametrize("reference", ["specimn", "abcdef", "x/y", "x.headtail", "", "n\x00l"])
def test_what_is_not_found(cache: BundleCache, reference: str) -> None:
    _added(cache, "1.0", at_s=1.0)
    if reference == "":
        reference = "nowhere"
    with pytest.raises(NoSuchBundleError) as caught:
        cache.find(reference)
    assert ("did you mean 'specimen'?" in caught.value.message) == (reference == "specimn")


def test_a_name_too_long_for_a_file(cache: BundleCache) -> None:
    with pytest.raises(BundleStorageError, match="too long"):
        cache.find("x" * 5000)


@pytest.mark.parametrize(
    ("content", "fault"), [(b"{}", "another one"), (None, "has no manifest.json")]
)
def test_a_damaged_entry_is_shown_as_such(
    cache: BundleCache, content: bytes | None, fault: str
) -> None:
    path = _added(cache, "1.0", at_s=1.0)
    (path / "manifest.json").unlink()
    if content is not None:
        (path / "manifest.json").write_bytes(content)
    (entry,) = cache.entries()
    assert entry.manifest is None
    assert fault in entry.fault
    assert cache.find(str(path)) == path
    with pytest.raises(NoSuchBundleError):
        cache.find("specimen")


@pytest.mark.parametrize(
    ("named", "root"),
    [
        ("/var/cache/x", "/var/cache/x/headtail/bundles"),
        ("relative", "/home/x/.cache/headtail/bundles"),
        ("", "/home/x/.cache/headtail/bundles"),
    ],
)
def test_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, named: str, root: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", "/home/x")
    assert default_root() == Path(root)
    assert BundleCache().root == Path(root)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        default_root()
