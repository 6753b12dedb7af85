"""A built-in bundle is there when a run needs it, and is this release's."""

import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from headtail.provision import ensure_bundle
from headtail_models import zoo
from headtail_models.assets.errors import UnreachableError
from headtail_models.bundle import BundleCache, open_bundle, write_bundle
from headtail_models.bundle.errors import NoSuchBundleError
from headtail_models.bundle.specimen import write_stages
from headtail_models.zoo.errors import MissingExtraError
from headtail_models.zoo.versions import VERSIONS

NAME = "yolov3-tiny-coco"


def _specimen(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as draft:
        manifest = replace(write_stages(Path(draft), version=version), name=NAME)
        return write_bundle(Path(draft), manifest, folder / "bundle")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were built, by a `zoo.build` that makes specimens."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names: list[str] = []

    def build(name: str, out: Path, **_: object) -> Path:
        names.append(name)
        return _specimen(out, VERSIONS[name])

    monkeypatch.setattr(zoo, "build", build)
    return names


def _version(path: Path) -> str:
    return open_bundle(path).manifest.version


def test_it_is_built_once(built: list[str]) -> None:
    first = ensure_bundle(NAME)
    assert ensure_bundle(NAME) == first
    assert built == [NAME]


def test_an_older_one_is_not_taken_for_this_releases(built: list[str], tmp_path: Path) -> None:
    BundleCache().adopt(_specimen(tmp_path / "old", "0.1"))
    assert _version(ensure_bundle(NAME)) == VERSIONS[NAME]
    assert built == [NAME]


@pytest.mark.parametrize("fault", [MissingExtraError("no onnx"), UnreachableError("no network")])
def test_an_older_one_serves_where_none_can_be_built(
    built: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def refuse(*_: object, **__: object) -> Path:
        raise fault

    monkeypatch.setattr(zoo, "build", refuse)
    with pytest.raises(type(fault)):
        ensure_bundle(NAME)
    BundleCache().adopt(_specimen(tmp_path / "old", "0.1"))
    assert _version(ensure_bundle(NAME)) == "0.1"


def test_what_is_not_built_in_is_only_looked_for(built: list[str]) -> None:
    with pytest.raises(NoSuchBundleError):
        ensure_bundle("another")
    assert built == []


def test_every_built_in_bundle_has_a_version() -> None:
    assert set(VERSIONS) == set(zoo.known())
