"""The packed bundle: the same bytes each time, and no zip gets through that lies."""

import hashlib
import io
import os
import random
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import pytest

from headtail_models.bundle import Limits, SecretKey, open_bundle, sign_bundle, write_bundle
from headtail_models.bundle.content import CHUNK_BYTES, Nowhere, copy_checked, copy_measured
from headtail_models.bundle.errors import (
    AlteredFileError,
    BadSignatureError,
    BundleError,
    BundleStorageError,
    DamagedArchiveError,
    DuplicateEntryError,
    ExtraFileError,
    LinkInBundleError,
    MissingFileError,
    MissingManifestError,
    NotABundleError,
    OversizedBundleError,
    TruncatedFileError,
    UnsafePathError,
    UnsignedBundleError,
    UnsupportedArchiveError,
    UntrustedSignerError,
)
from headtail_models.bundle.manifest import FileEntry, decode_manifest
from headtail_models.bundle.pack import write_archive
from headtail_models.bundle.specimen import write_specimen

KEY = SecretKey(bytes(range(32)))
OTHER = SecretKey(bytes(32))

Entries = list[tuple[zipfile.ZipInfo, bytes]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("archive") / "specimen")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    return open_bundle(folder).pack(tmp_path / "specimen.headtail")


def _entries(packed: Path) -> Entries:
    with zipfile.ZipFile(packed) as archive:
        return [(info, archive.read(info)) for info in archive.infolist()]


def _write(path: Path, entries: Entries, *, comment: bytes = b"") -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = comment
        for info, data in entries:
            archive.writestr(info, data)


def _named(name: str, data: bytes = b"", *, mode: int = 0) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    return info, data


def _rewritten(source: Path, target: Path, *, compression: int) -> Path:
    manifest = decode_manifest((source / "manifest.json").read_bytes())
    folder = write_bundle(source, manifest, target.with_suffix(".folder"))
    with zipfile.ZipFile(target, "w", compression=compression) as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    return target


def _refused(path: Path, cache: Path, error: type[BundleError], told: str) -> None:
    with pytest.raises(error, match=told) as caught:
        open_bundle(path, cache_dir=cache)
    assert type(caught.value) is error
    # Whatever was wrong, nothing of it stays behind.
    assert not cache.exists() or [path.name for path in cache.iterdir()] == [".lock"]


def test_packs_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    for path in copy.iterdir():
        os.utime(path, (1_000_000, 1_000_000))
        path.chmod(0o600)
    (tmp_path / "out").mkdir()
    first = open_bundle(folder).pack(tmp_path / "first.headtail")
    second = open_bundle(copy).pack(tmp_path / "out")
    assert second.name == "specimen-1.0.headtail"
    assert first.read_bytes() == second.read_bytes()


def test_packs_to_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 9)
    with (tmp_path / "weights.bin").open("rb") as file:
        entry = copy_measured(file, Nowhere(), "weights.bin")
    target = tmp_path / "frozen.headtail"
    write_archive(target, folder=tmp_path, files=[entry], own={"manifest.json": b"{}\n"})
    assert hashlib.sha256(target.read_bytes()).hexdigest() == (
        "e1ecc781328c95b43e2d5a211071ab1833c1dff2618884fc265bb71cd3acb3b7"
    )


def test_unpacks_to_the_same_bundle(folder: Path, packed: Path, cache: Path) -> None:
    bundle = open_bundle(packed, cache_dir=cache)
    assert bundle.digest == open_bundle(folder).digest
    assert bundle.path == cache / bundle.digest.hex()
    assert bundle.pack(packed.with_name("again.headtail")).read_bytes() == packed.read_bytes()


def test_entries_are_sorted_stored_and_undated(packed: Path) -> None:
    infos = [info for info, _ in _entries(packed)]
    assert [info.filename for info in infos] == sorted(info.filename for info in infos)
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.external_attr >> 16 for info in infos} == {stat.S_IFREG | 0o644}


def test_any_plain_zip_of_the_folder_will_do(folder: Path, tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "by-hand.zip"
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("mcu")
        for file in sorted(folder.iterdir(), reverse=True):
            archive.write(file, file.name)
    assert open_bundle(path, cache_dir=cache).digest == open_bundle(folder).digest


def test_packing_leaves_what_is_there_when_it_fails(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    bundle = open_bundle(copy)
    target = tmp_path / "specimen.headtail"
    target.write_bytes(b"the old one")
    os.truncate(copy / "weights.bin", 10)
    with pytest.raises(TruncatedFileError, match=r"weights\.bin"):
        bundle.pack(target)
    assert target.read_bytes() == b"the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "specimen.headtail"]


def test_packing_to_nowhere(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleStorageError, match="No such file"):
        open_bundle(folder).pack(tmp_path / "nowhere" / "specimen.headtail")


@pytest.mark.parametrize("data", [b"", b"PK", b"hello", bytes(1000), b"PK\x05\x06" + bytes(18)])
def test_not_a_bundle_at_all(tmp_path: Path, cache: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    _refused(path, cache, NotABundleError, "neither a folder nor a zip")


def test_a_zip_of_something_else(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "file.zip"
    _write(path, [_named("specimen/manifest.json", b"{}")])
    _refused(path, cache, MissingManifestError, r"manifest\.json")


def test_missing_file(packed: Path, cache: Path) -> None:
    _write(packed, [entry for entry in _entries(packed) if entry[0].filename != "weights.bin"])
    _refused(packed, cache, MissingFileError, r"weights\.bin")


def test_extra_file(packed: Path, cache: Path) -> None:
    _write(packed, [*_entries(packed), _named("spare.onnx")])
    _refused(packed, cache, ExtraFileError, r"spare\.onnx")


def _changed(packed: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    _write(
        packed,
        [
            (_named(info.filename)[0], change(data) if info.filename == name else data)
            for info, data in _entries(packed)
        ],
    )


def test_truncated_file(packed: Path, cache: Path) -> None:
    _changed(packed, "weights.bin", lambda data: data[:-1])
    _refused(packed, cache, TruncatedFileError, r"weights\.bin' has 4463 of 4464")


def test_longer_file(packed: Path, cache: Path) -> None:
    _changed(packed, "weights.bin", lambda data: data + b"\x00")
    _refused(packed, cache, AlteredFileError, r"weights\.bin")


def test_altered_file(packed: Path, cache: Path) -> None:
    _changed(packed, "weights.bin", lambda data: b"\x01" + data[1:])
    _refused(packed, cache, AlteredFileError, r"weights\.bin' has another SHA-256")


@pytest.mark.parametrize(
    "name",
    ["../evil", "/evil", "..\\evil", "C:evil", "a/../../evil", "evil\x00.onnx", "x/" * 5 + "evil"],
)
def test_paths_out_of_the_bundle(packed: Path, cache: Path, name: str) -> None:
    info, data = _named("evil", b"evil")
    info.filename = name
    _write(packed, [*_entries(packed), (info, data)])
    _refused(packed, cache, UnsafePathError, "evil")


def test_a_folder_out_of_the_bundle(packed: Path, cache: Path) -> None:
    _write(packed, [*_entries(packed), _named("../", mode=stat.S_IFDIR | 0o755)])
    _refused(packed, cache, UnsafePathError, r"\.\.")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices(packed: Path, cache: Path, kind: int) -> None:
    _write(packed, [*_entries(packed), _named("evil", b"/etc/passwd", mode=kind | 0o777)])
    _refused(packed, cache, LinkInBundleError, "evil")


@pytest.mark.parametrize("name", ["weights.bin", "WEIGHTS.bin", "weights.bin/a"])
def test_duplicate_entries(packed: Path, cache: Path, name: str) -> None:
    with zipfile.ZipFile(packed, "a") as archive:
        if name == "weights.bin":
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr(name, b"")
        else:
            archive.writestr(name, b"")
    _refused(packed, cache, DuplicateEntryError, name)


def _patched(packed: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(packed.read_bytes())
    change(data)
    packed.write_bytes(data)


def _directory(data: bytearray) -> int:
    (at,) = struct.unpack_from("<L", data, len(data) - 6)
    assert isinstance(at, int)
    return at


@pytest.mark.parametrize("flag", [0x1, 0x40, 0x2000])
def test_encrypted(packed: Path, cache: Path, flag: int) -> None:
    _patched(packed, lambda data: struct.pack_into("<H", data, _directory(data) + 8, flag))
    _refused(packed, cache, UnsupportedArchiveError, "encrypted")


def test_unknown_method(packed: Path, cache: Path) -> None:
    _patched(packed, lambda data: struct.pack_into("<H", data, _directory(data) + 10, 99))
    _refused(packed, cache, UnsupportedArchiveError, "method 99")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_bundles_dont_have(packed: Path, cache: Path, method: int) -> None:
    entries = _entries(packed)
    entries[-1][0].compress_type = method
    _write(packed, entries)
    _refused(packed, cache, UnsupportedArchiveError, f"method {method}")


def test_a_later_version_of_zip(packed: Path, cache: Path) -> None:
    _patched(packed, lambda data: struct.pack_into("<H", data, _directory(data) + 6, 99))
    _refused(packed, cache, UnsupportedArchiveError, "version")


def test_one_part_of_several(packed: Path, cache: Path) -> None:
    _patched(packed, lambda data: struct.pack_into("<H", data, len(data) - 18, 1))
    _refused(packed, cache, UnsupportedArchiveError, "part of several")


def test_overlapping_entries(packed: Path, cache: Path) -> None:
    """Fifield, "A better zip bomb", WOOT 2019: many entries of the same bytes."""

    def overlap(data: bytearray) -> None:
        at, lengths = _directory(data), struct.Struct("<3H")
        second = at + 46 + sum(lengths.unpack_from(data, at + 28))
        data[second + 42 : second + 46] = data[at + 42 : at + 46]

    _patched(packed, overlap)
    _refused(packed, cache, UnsupportedArchiveError, "overlaps")


def test_an_entry_that_runs_beyond_the_end(packed: Path, cache: Path) -> None:
    def stretch(data: bytearray) -> None:
        last = data.rindex(b"PK\x01\x02")
        struct.pack_into("<L", data, last + 20, 1 << 20)

    _patched(packed, stretch)
    _refused(packed, cache, DamagedArchiveError, "runs into")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.extend(b"trailing"),
        lambda data: data.__delitem__(slice(len(data) // 2, None)),
        lambda data: data.__delitem__(slice(-1, None)),
        lambda data: data.__delitem__(slice(10, None)),
        lambda data: data.__setitem__(slice(-22, -22), b"gap"),
        lambda data: struct.pack_into("<L", data, len(data) - 10, 7),
        lambda data: struct.pack_into("<L", data, _directory(data), 0),
        lambda data: data.__setitem__(slice(-22, -22), struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)),
    ],
)
def test_damaged(packed: Path, cache: Path, change: Callable[[bytearray], None]) -> None:
    _patched(packed, change)
    _refused(packed, cache, DamagedArchiveError, r"specimen\.headtail")


def test_a_comment_may_hide_things(packed: Path, cache: Path) -> None:
    _write(packed, _entries(packed), comment=b"hello")
    _refused(packed, cache, DamagedArchiveError, "comment")


def test_an_end_of_64_bits(folder: Path, packed: Path, cache: Path) -> None:
    """The form that archives beyond 4 GiB have is understood."""

    def widen(data: bytearray) -> None:
        _, _, _, _, count, length, offset, _ = struct.unpack("<4s4H2LH", data[-22:])
        at = len(data) - 22
        record = (b"PK\6\6", 44, 45, 45, 0, 0, count, count, length, offset)
        end = (b"PK\5\6", 0, 0, count, count, length, 0xFFFFFFFF, 0)
        data[-22:] = (
            struct.pack("<4sQ2H2L4Q", *record)
            + struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
            + struct.pack("<4s4H2LH", *end)
        )

    _patched(packed, widen)
    assert open_bundle(packed, cache_dir=cache).digest == open_bundle(folder).digest


def test_too_many_entries(packed: Path, cache: Path) -> None:
    _write(packed, [*_entries(packed), *(_named(f"f{at}/") for at in range(2000))])
    _refused(packed, cache, OversizedBundleError, "entries")


def test_a_bomb_that_the_manifest_announces(folder: Path, tmp_path: Path, cache: Path) -> None:
    """A file of zeros, deflated by a thousand to one."""
    source = shutil.copytree(folder, tmp_path / "source")
    (source / "zeros.bin").write_bytes(bytes(20_000_000))
    bomb = _rewritten(source, tmp_path / "bomb.zip", compression=zipfile.ZIP_DEFLATED)
    _refused(bomb, cache, OversizedBundleError, "would unpack to")


def test_a_bomb_that_it_does_not_announce(packed: Path, cache: Path) -> None:
    """The true size is hidden from the list of entries, too: only one chunk of it is unpacked."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for info, content in _entries(packed):
            zeros = bytes(20_000_000) if info.filename == "weights.bin" else content
            archive.writestr(info.filename, zeros)
    raw = bytearray(data.getvalue())
    last = raw.rindex(b"PK\x01\x02")
    struct.pack_into("<L", raw, last + 24, 4464)
    packed.write_bytes(raw)
    with pytest.raises((AlteredFileError, DamagedArchiveError), match=r"weights\.bin"):
        open_bundle(packed, cache_dir=cache)
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_a_stream_that_does_not_end() -> None:
    """What grows while it is read is given up after one chunk too many."""

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return bytes(size)

    class Counting:
        size_bytes = 0

        def write(self, data: bytes, /) -> None:
            self.size_bytes += len(data)

    sink = Counting()
    entry = FileEntry(path="weights.bin", size_bytes=10, sha256="0" * 64)
    with pytest.raises(AlteredFileError, match="more than the 10 bytes"):
        copy_checked(cast(IO[bytes], Endless()), sink, entry)
    assert sink.size_bytes == CHUNK_BYTES


def test_a_huge_manifest(packed: Path, cache: Path) -> None:
    _changed(packed, "manifest.json", lambda data: data + b" " * 2_000_000)
    with pytest.raises(OversizedBundleError, match=r"manifest\.json"):
        open_bundle(packed, cache_dir=cache, limits=Limits(max_manifest_bytes=1_000_000))


def test_a_huge_signature(packed: Path, cache: Path) -> None:
    _write(packed, [*_entries(packed), _named("manifest.sig", b" " * 2000)])
    _refused(packed, cache, OversizedBundleError, r"manifest\.sig")


def test_signed_where_it_lies(packed: Path, cache: Path) -> None:
    with pytest.raises(UnsignedBundleError):
        open_bundle(packed, cache_dir=cache, trusted=[KEY.public])
    digest = sign_bundle(packed, KEY, cache_dir=cache).digest
    bundle = open_bundle(packed, cache_dir=cache, trusted=[KEY.public])
    assert (bundle.digest, bundle.signed_by) == (digest, KEY.public)
    with pytest.raises(UntrustedSignerError):
        open_bundle(packed, cache_dir=cache, trusted=[OTHER.public])


def test_a_bad_signature_is_refused_before_anything_is_unpacked(packed: Path, cache: Path) -> None:
    _write(packed, [*_entries(packed), _named("manifest.sig", b"{}")])
    _refused(packed, cache, BadSignatureError, r"manifest\.sig")
    assert not cache.exists()


def test_the_cached_signature_changes_for_a_trusted_one_alone(packed: Path, cache: Path) -> None:
    def cached() -> bytes:
        return (bundle.path / "manifest.sig").read_bytes()

    sign_bundle(packed, KEY, cache_dir=cache)
    bundle = open_bundle(packed, cache_dir=cache)
    first = cached()
    sign_bundle(packed, OTHER, cache_dir=cache)
    assert open_bundle(packed, cache_dir=cache).signed_by == OTHER.public
    assert cached() == first
    open_bundle(packed, cache_dir=cache, trusted=[OTHER.public])
    assert cached() != first


def test_scrambled_archives_give_typed_errors(packed: Path, cache: Path) -> None:
    original, draw = packed.read_bytes(), random.Random(8)
    for _ in range(150):
        data = bytearray(original)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.3:
            del data[draw.randrange(len(data)) :]
        packed.write_bytes(data)
        try:
            bundle = open_bundle(packed, cache_dir=cache)
        except BundleError:
            continue
        # Changed was something that does not matter, such as a date.
        assert bundle.manifest_bytes in original
