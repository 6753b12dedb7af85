"""Taking members out of archives that may be anything."""

import hashlib
import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headtail_models.assets import archive
from headtail_models.assets.archive import extract
from headtail_models.assets.catalogue import Asset, Member
from headtail_models.assets.errors import BadArchiveError, WrongContentError

Packer = Callable[[Path, dict[str, bytes]], Path]

DATA = bytes(range(256)) * 40


def _asset(path: str = "pack/data.bin", content: bytes = DATA) -> Asset:
    member = Member(path=path, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    return Asset(
        name="thing",
        purpose="tests",
        kind="pypi",
        package="thing",
        version="1.0",
        filename="thing-1.0.archive",
        size_bytes=1,
        sha256="0" * 64,
        licence="MIT",
        members=(member,),
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def _zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return path


def _tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return path


PACKERS = pytest.mark.parametrize("pack", [_zip, _tar])


@PACKERS
def test_only_the_named_member_comes_out(pack: Packer, tmp_path: Path, out: Path) -> None:
    files = {"pack/code.py": b"raise SystemExit", "../../escape": b"x", "pack/data.bin": DATA}
    extract(_asset(), pack(tmp_path / "packed", files), out)
    assert [path.name for path in out.iterdir()] == ["data.bin"]
    assert (out / "data.bin").read_bytes() == DATA
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "packed"]


@PACKERS
def test_a_member_named_like_a_way_out_lands_inside(
    pack: Packer, tmp_path: Path, out: Path
) -> None:
    extract(_asset("../../data.bin"), pack(tmp_path / "packed", {"../../data.bin": DATA}), out)
    assert (out / "data.bin").read_bytes() == DATA


@PACKERS
def test_a_member_that_is_missing(pack: Packer, tmp_path: Path, out: Path) -> None:
    with pytest.raises(BadArchiveError, match="does not hold pack/data"):
        extract(_asset(), pack(tmp_path / "packed", {"data.bin": DATA}), out)


@PACKERS
@pytest.mark.parametrize("content", [DATA[:-1], DATA + b"x", DATA[:-1] + b"x", bytes(50_000_000)])
def test_a_member_that_is_another(pack: Packer, content: bytes, tmp_path: Path, out: Path) -> None:
    with pytest.raises(WrongContentError, match="pack/data"):
        extract(_asset(), pack(tmp_path / "packed", {"pack/data.bin": content}), out)
    assert (out / "data.bin").stat().st_size <= len(DATA)


@PACKERS
@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_an_archive_that_was_cut_off(pack: Packer, kept: float, tmp_path: Path, out: Path) -> None:
    packed = pack(tmp_path / "packed", {"pack/data.bin": random.Random(0).randbytes(20_000)})
    whole = packed.read_bytes()
    packed.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises((BadArchiveError, WrongContentError)):
        extract(_asset(), packed, out)


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b" + bytes(100)])
def test_what_is_no_archive(content: bytes, tmp_path: Path, out: Path) -> None:
    (tmp_path / "packed").write_bytes(content)
    with pytest.raises(BadArchiveError):
        extract(_asset(), tmp_path / "packed", out)


def test_a_link_is_no_member(tmp_path: Path, out: Path) -> None:
    with tarfile.open(tmp_path / "packed", "w:gz") as packed:
        link = tarfile.TarInfo("pack/data.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
    with pytest.raises(BadArchiveError, match="does not hold"):
        extract(_asset(), tmp_path / "packed", out)


def test_a_tar_that_unpacks_without_end(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(BadArchiveError, match="unpacks to over 1000 bytes"):
        extract(_asset(), _tar(tmp_path / "packed", {"filler": bytes(2000)}), out)
