"""Making a bundle of a folder of files."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from headtail_models.bundle import SecretKey, open_bundle, write_bundle
from headtail_models.bundle.errors import (
    BundleStorageError,
    InconsistentManifestError,
    InvalidManifestError,
    LinkInBundleError,
    TargetNotEmptyError,
    UnsafePathError,
)
from headtail_models.bundle.manifest import Manifest
from headtail_models.bundle.specimen import write_stages

KEY = SecretKey(bytes(range(32)))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return path


@pytest.fixture
def manifest(source: Path) -> Manifest:
    return write_stages(source)


def test_what_is_written_opens(source: Path, manifest: Manifest, tmp_path: Path) -> None:
    (source / "mcu").mkdir()
    (source / "mcu" / "head.bin").write_bytes(b"int8")
    bundle = open_bundle(write_bundle(source, manifest, tmp_path / "deep" / "target"))
    assert bundle.signed_by is None
    assert [entry.path for entry in bundle.manifest.files] == [
        "full.onnx",
        "head-early.onnx",
        "head-late.onnx",
        "mcu/head.bin",
        "segment-early.onnx",
        "tail-early.onnx",
        "tail-late.onnx",
        "weights.bin",
    ]
    assert replace(bundle.manifest, files=()) == manifest
    assert (bundle.path / "mcu" / "head.bin").read_bytes() == b"int8"


def test_the_same_files_give_the_same_digest(
    source: Path, manifest: Manifest, tmp_path: Path
) -> None:
    first, second = (
        open_bundle(write_bundle(source, manifest, tmp_path / name)) for name in ("one", "two")
    )
    assert first.digest == second.digest


def test_signed_at_once(source: Path, manifest: Manifest, tmp_path: Path) -> None:
    target = write_bundle(source, manifest, tmp_path / "target", key=KEY)
    assert open_bundle(target, trusted=[KEY.public]).signed_by == KEY.public


def test_a_bundle_can_be_written_anew(source: Path, manifest: Manifest, tmp_path: Path) -> None:
    """As when measurements are added: the old manifest and signature don't get in."""
    first = open_bundle(write_bundle(source, manifest, tmp_path / "one", key=KEY))
    changed = replace(first.manifest, full_value=0.5)
    second = open_bundle(write_bundle(first.path, changed, tmp_path / "two"))
    assert second.manifest == changed
    assert second.signed_by is None


def test_an_empty_target_is_used(source: Path, manifest: Manifest, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    open_bundle(write_bundle(source, manifest, tmp_path / "target"))


def test_nothing_is_overwritten(source: Path, manifest: Manifest, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "precious").touch()
    with pytest.raises(TargetNotEmptyError, match="target"):
        write_bundle(source, manifest, target)
    with pytest.raises(TargetNotEmptyError, match="precious"):
        write_bundle(source, manifest, target / "precious")
    assert [path.name for path in target.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"schema": 0}, InvalidManifestError),
        ({"name": "no name"}, InvalidManifestError),
        ({"full_value": float("inf"), "version": ""}, InvalidManifestError),
        ({"labels": ()}, InconsistentManifestError),
        ({"default_cut": "middle"}, InconsistentManifestError),
    ],
)
def test_a_manifest_that_no_reader_takes(
    source: Path, manifest: Manifest, tmp_path: Path, change: dict[str, object], error: type
) -> None:
    with pytest.raises(error):
        write_bundle(source, replace(manifest, **change), tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_stage_that_is_not_there(source: Path, manifest: Manifest, tmp_path: Path) -> None:
    (source / "full.onnx").unlink()
    with pytest.raises(InconsistentManifestError, match=r"full\.onnx"):
        write_bundle(source, manifest, tmp_path / "target")


def test_names_and_links_that_no_bundle_has(
    source: Path, manifest: Manifest, tmp_path: Path
) -> None:
    (source / "two words").touch()
    with pytest.raises(UnsafePathError, match="two words"):
        write_bundle(source, manifest, tmp_path / "target")
    (source / "two words").unlink()
    (source / "link").symlink_to("full.onnx")
    with pytest.raises(LinkInBundleError, match="link"):
        write_bundle(source, manifest, tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_the_disk_refuses(source: Path, manifest: Manifest, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BundleStorageError, match="file"):
        write_bundle(source, manifest, tmp_path / "file" / "target")
    with pytest.raises(BundleStorageError, match="nowhere"):
        write_bundle(tmp_path / "nowhere", manifest, tmp_path / "target")
