"""A bundle as a folder: whatever is wrong with it, it is not opened and the error names it."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from headtail_fabric.codec import codec_for
from headtail_models.bundle import Limits, SecretKey, open_bundle, sign_bundle
from headtail_models.bundle.errors import (
    AlteredFileError,
    BadSignatureError,
    BundleError,
    BundleStorageError,
    ExtraFileError,
    FutureSchemaError,
    InconsistentManifestError,
    InvalidManifestError,
    LinkInBundleError,
    MissingFileError,
    MissingManifestError,
    NoSuchBundleError,
    NotABundleError,
    OversizedBundleError,
    TruncatedFileError,
    UnknownCutError,
    UnsafePathError,
    UnsignedBundleError,
    UntrustedSignerError,
)
from headtail_models.bundle.specimen import noise, write_specimen
from headtail_models.stage import StageMismatchError

KEY = SecretKey(bytes(range(32)))
OTHER = SecretKey(bytes(32))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("folder") / "specimen", key=KEY)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "specimen")


def _refused(folder: Path, error: type[BundleError], told: str) -> None:
    with pytest.raises(error, match=told) as caught:
        open_bundle(folder)
    assert type(caught.value) is error


def test_a_whole_bundle_opens(folder: Path) -> None:
    bundle = open_bundle(folder)
    assert bundle.digest == hashlib.sha256((folder / "manifest.json").read_bytes()).digest()
    assert bundle.path == folder
    assert bundle.name == "specimen-1.0"
    assert bundle.signed_by == KEY.public
    assert repr(bundle) == (
        f"<Bundle specimen-1.0 {bundle.digest.hex()[:12]}, signed by {KEY.public.fingerprint}>"
    )


def test_head_and_tail_are_the_full_model(folder: Path) -> None:
    bundle, picture = open_bundle(folder), noise(3, seed=7)
    full = bundle.open_stage(bundle.full()).run({"picture": picture})["logits"]
    assert full.shape == (3, 3)
    for cut in ("early", "late"):
        crossing = bundle.open_stage(bundle.head(cut)).run({"picture": picture})
        rest = bundle.open_stage(bundle.tail(cut)).run(crossing)["logits"]
        assert abs(rest - full).max() <= 1e-6


def test_quantiser_of_a_cut_carries_its_tensor(folder: Path) -> None:
    bundle, picture = open_bundle(folder), noise(1, seed=7)
    crossing = bundle.open_stage(bundle.head("late")).run({"picture": picture})["late"]
    quantiser = bundle.quantiser("late", "q8")
    codec = codec_for("q8", quantiser=quantiser)
    back = codec.decode(codec.encode(crossing), crossing.shape)
    assert abs(back - crossing).max() <= (quantiser.high - quantiser.low).max() / 100


def test_unknown_cut_and_table(folder: Path) -> None:
    bundle = open_bundle(folder)
    with pytest.raises(UnknownCutError, match="only early, late"):
        bundle.head("middle")
    with pytest.raises(UnknownCutError, match="only early, late"):
        bundle.quantiser("middle", "q8")
    with pytest.raises(UnknownCutError, match="only q4, q8"):
        bundle.quantiser("late", "raw")


def test_nothing_there(tmp_path: Path) -> None:
    _refused(tmp_path / "nowhere", NoSuchBundleError, "does not exist")


def test_missing_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    _refused(folder, MissingManifestError, r"manifest\.json")


def test_neither_folder_nor_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    _refused(tmp_path / "pipe", NotABundleError, "neither a folder nor a file")


def test_missing_file(folder: Path) -> None:
    (folder / "weights.bin").unlink()
    _refused(folder, MissingFileError, r"weights\.bin")


@pytest.mark.parametrize("name", ["spare.onnx", "mcu/head.bin", ".hidden", "Weights.bin"])
def test_extra_file(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    _refused(folder, ExtraFileError, name)


def test_folders_without_end(folder: Path) -> None:
    folder.joinpath(*"abcdefgh").mkdir(parents=True)
    _refused(folder, ExtraFileError, "too deep")


def test_truncated_file(folder: Path) -> None:
    os.truncate(folder / "weights.bin", 4000)
    _refused(folder, TruncatedFileError, r"weights\.bin' has 4000 of 4464 bytes")


def test_longer_file(folder: Path) -> None:
    with (folder / "weights.bin").open("ab") as file:
        file.write(b"\x00")
    _refused(folder, AlteredFileError, r"weights\.bin' has more than the 4464 bytes")


def test_altered_file(folder: Path) -> None:
    data = bytearray((folder / "weights.bin").read_bytes())
    data[2000] ^= 1
    (folder / "weights.bin").write_bytes(data)
    _refused(folder, AlteredFileError, r"weights\.bin")


def test_sizes_come_before_contents(folder: Path) -> None:
    """A cut-off download is called that, even when an earlier file was altered, too."""
    (folder / "full.onnx").write_bytes(bytes((folder / "full.onnx").stat().st_size))
    os.truncate(folder / "weights.bin", 0)
    _refused(folder, TruncatedFileError, r"weights\.bin")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b'"schema": 1', b'"schema": 2', FutureSchemaError),
        (b'"schema": 1', b'"schema": 1,\n "extra": 0', InvalidManifestError),
        (b'"schema": 1', b'"schema": one', InvalidManifestError),
        (b'"default_cut": "late"', b'"default_cut": "l"', InconsistentManifestError),
        (b'"path": "weights.bin"', b'"path": "../weights.bin"', UnsafePathError),
        (b'"path": "weights.bin"', b'"path": "/weights.bin"', UnsafePathError),
        (b'"path": "weights.bin"', b'"path": "C:\\\\weights.bin"', UnsafePathError),
    ],
)
def test_edited_manifest(folder: Path, old: bytes, new: bytes, error: type[BundleError]) -> None:
    data = (folder / "manifest.json").read_bytes()
    assert data.count(old) == 1
    (folder / "manifest.json").write_bytes(data.replace(old, new))
    _refused(folder, BadSignatureError, r"manifest\.sig")
    (folder / "manifest.sig").unlink()
    _refused(folder, error, ".")


def test_a_link_is_not_a_file(folder: Path, original: Path) -> None:
    (folder / "weights.bin").unlink()
    (folder / "weights.bin").symlink_to(original / "weights.bin")
    _refused(folder, LinkInBundleError, r"weights\.bin")


def test_a_link_is_not_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "mcu").symlink_to(tmp_path / "elsewhere")
    _refused(folder, LinkInBundleError, "mcu")


@pytest.mark.parametrize("name", ["manifest.json", "manifest.sig"])
def test_a_link_is_no_manifest(folder: Path, original: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to(original / name)
    _refused(folder, LinkInBundleError, name)


def test_a_pipe_does_not_block(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    _refused(folder, LinkInBundleError, "not a plain file")


def test_a_folder_in_place_of_a_file(folder: Path) -> None:
    (folder / "weights.bin").unlink()
    (folder / "weights.bin").mkdir()
    _refused(folder, MissingFileError, r"weights\.bin")


def test_the_disk_refuses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(BundleStorageError, match="Permission denied"):
        open_bundle(folder)


def test_more_than_the_reader_takes(folder: Path) -> None:
    with pytest.raises(OversizedBundleError):
        open_bundle(folder, limits=Limits(max_files=2))
    with pytest.raises(OversizedBundleError, match=r"manifest\.json"):
        open_bundle(folder, limits=Limits(max_manifest_bytes=100))
    (folder / "manifest.sig").write_bytes(b" " * 2000)
    with pytest.raises(OversizedBundleError, match=r"manifest\.sig"):
        open_bundle(folder)


def test_pinned_keys(folder: Path) -> None:
    assert open_bundle(folder, trusted=[OTHER.public, KEY.public]).signed_by == KEY.public
    with pytest.raises(UntrustedSignerError, match=KEY.public.fingerprint):
        open_bundle(folder, trusted=[OTHER.public])
    (folder / "manifest.sig").unlink()
    assert open_bundle(folder).signed_by is None
    with pytest.raises(UnsignedBundleError):
        open_bundle(folder, trusted=[KEY.public])


def test_another_bundles_signature(folder: Path, tmp_path: Path) -> None:
    other = write_specimen(tmp_path / "other", key=KEY, version="2.0")
    shutil.copy(other / "manifest.sig", folder / "manifest.sig")
    _refused(folder, BadSignatureError, r"manifest\.sig")


def test_signing_replaces_a_signature_good_or_bad(folder: Path) -> None:
    assert sign_bundle(folder, OTHER).signed_by == OTHER.public
    assert open_bundle(folder, trusted=[OTHER.public]).signed_by == OTHER.public
    (folder / "manifest.sig").write_bytes(b"scribble")
    digest = sign_bundle(folder, KEY).digest
    bundle = open_bundle(folder, trusted=[KEY.public])
    assert bundle.digest == digest
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_nothing_damaged_is_signed(folder: Path) -> None:
    before = (folder / "manifest.sig").read_bytes()
    os.truncate(folder / "weights.bin", 1)
    with pytest.raises(TruncatedFileError):
        sign_bundle(folder, OTHER)
    assert (folder / "manifest.sig").read_bytes() == before


def test_a_stage_that_is_not_what_the_manifest_says(folder: Path) -> None:
    bundle = open_bundle(folder)
    wrong = replace(bundle.head("late"), outputs=bundle.full().outputs)
    with pytest.raises(StageMismatchError, match=r"head-late\.onnx"):
        bundle.open_stage(wrong)
