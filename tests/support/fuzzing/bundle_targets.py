"""Parsers of `headtail_models`: bundles, sounds, heads for boards."""

import functools
import io
import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fuzzing.target import Target
from headtail_models.audio.wav import parse_wav
from headtail_models.bundle import Limits, open_bundle
from headtail_models.bundle.archive import Archive
from headtail_models.bundle.consistency import check_consistency
from headtail_models.bundle.keys import SecretKey
from headtail_models.bundle.manifest import MANIFEST, decode_manifest
from headtail_models.bundle.signature import check_signature, sign_manifest
from headtail_models.bundle.specimen import write_specimen
from headtail_models.mcu.blob import read_blob
from headtail_models.mcu.export import ExitWish, export_head
from mcu_graphs import drawn_samples, every_kind

_LIMITS = Limits(max_files=64, max_total_bytes=2**22, max_manifest_bytes=2**18)


@functools.cache
def _specimens() -> tuple[bytes, bytes, bytes]:
    """A plain manifest, a gated one, and a packed bundle."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = write_specimen(folder / "plain")
        gated = write_specimen(folder / "gated", gated=True)
        packed = open_bundle(plain).pack(folder).read_bytes()
        return (plain / MANIFEST).read_bytes(), (gated / MANIFEST).read_bytes(), packed


def run_manifest(data: bytes) -> None:
    check_consistency(decode_manifest(data))


def run_signature(data: bytes) -> None:
    check_signature(b"manifest", data, trusted=None)


def signature_corpus() -> list[bytes]:
    return [sign_manifest(b"manifest", SecretKey(bytes(range(32))))]


def run_archive(data: bytes) -> None:
    """Everything that is done with a packed bundle before a file is written."""
    archive = Archive(Path("fuzz.headtail"), io.BytesIO(data), limits=_LIMITS)
    archive.signature()
    manifest = decode_manifest(archive.manifest())
    archive.check_listing(manifest.files)
    for entry in manifest.files:
        archive.copy(entry, io.BytesIO())


def wav_corpus() -> list[bytes]:
    draw = np.random.default_rng(7)
    kinds = [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32)]
    return [_wav(code, bits, draw.bytes(64 * bits // 8)) for code, bits in kinds]


def _wav(code: int, bits: int, samples: bytes) -> bytes:
    width = bits // 8
    form = struct.pack("<HHIIHH", code, 2, 16_000, 32_000 * width, 2 * width, bits)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form
    chunks += b"LIST" + struct.pack("<I", 4) + b"INFO"
    chunks += b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def mend_blob(data: bytes) -> bytes:
    """The announced size and the checksum."""
    sized = data[:4] + struct.pack("<I", len(data)) + data[8:-4]
    return sized + struct.pack("<I", zlib.crc32(sized))


@functools.cache
def blob_corpus() -> Sequence[bytes]:
    graph = every_kind()
    wish = ExitWish(output="logits", threshold=0.9)
    return [export_head(graph, drawn_samples(graph), bits=2, exit=wish).program.blob]


TARGETS = (
    Target(
        name="manifest",
        what="manifests of bundles",
        parsers=(run_manifest,),
        corpus=lambda: _specimens()[:2],
    ),
    Target(
        name="signature",
        what="signatures of bundles",
        parsers=(run_signature,),
        corpus=signature_corpus,
    ),
    Target(
        name="archive",
        what="packed bundles",
        parsers=(run_archive,),
        corpus=lambda: _specimens()[2:],
    ),
    Target(name="wav", what="sound files", parsers=(parse_wav,), corpus=wav_corpus),
    Target(
        name="blob",
        what="heads for boards",
        parsers=(read_blob,),
        corpus=blob_corpus,
        mend=mend_blob,
    ),
)
