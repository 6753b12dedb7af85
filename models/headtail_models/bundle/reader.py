"""Opening a bundle: nothing is used before all of it is known to be what its manifest says.

read manifest and signature -> check the signature -> check the manifest -> unpack -> hash
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headtail_fabric.codec import Quantiser
from headtail_fabric.rans import CodingModel
from headtail_models.bundle.archive import Archive
from headtail_models.bundle.cache import BundleCache
from headtail_models.bundle.codecs import TensorCodecs, read_codecs, read_coding_model
from headtail_models.bundle.consistency import check_consistency
from headtail_models.bundle.content import storage_errors
from headtail_models.bundle.errors import NoSuchBundleError, NotABundleError, UnknownCutError
from headtail_models.bundle.folder import (
    check_folder,
    read_manifest,
    read_signature,
    write_signature,
)
from headtail_models.bundle.keys import PublicKey, SecretKey
from headtail_models.bundle.limits import DEFAULT_LIMITS, Limits
from headtail_models.bundle.manifest import (
    MANIFEST,
    SIGNATURE,
    Cut,
    Manifest,
    StageEntry,
    TensorSpec,
    decode_manifest,
)
from headtail_models.bundle.pack import packed_name, write_archive
from headtail_models.bundle.signature import check_signature, sign_manifest
from headtail_models.stage import OnnxStage, StageMismatchError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bundle:
    """A bundle that has been verified; a read-only view, safe to share by threads.

    `path` is the folder its files lie in. `signed_by` is whose signature was verified; unless the
    key was asked for, that only says that its owner once signed this manifest.
    """

    path: Path
    digest: bytes
    """32 bytes, SHA-256 of the manifest: what both sides of a cut agree on."""
    manifest: Manifest
    manifest_bytes: bytes
    signature: bytes | None = None
    signed_by: PublicKey | None = None

    def __repr__(self) -> str:
        signer = f"signed by {self.signed_by.fingerprint}" if self.signed_by else "unsigned"
        return f"<Bundle {self.name} {self.digest.hex()[:12]}, {signer}>"

    @property
    def name(self) -> str:
        """Name and version, for people."""
        return f"{self.manifest.name}-{self.manifest.version}"

    def cut(self, name: str) -> Cut:
        """Raises UnknownCutError."""
        cut = self.manifest.cut(name)
        if cut is None:
            known = ", ".join(cut.name for cut in self.manifest.cuts)
            raise UnknownCutError(f"{self.name} has no cut {name[:64]!r}, only {known}", cut=name)
        return cut

    def head(self, cut: str) -> StageEntry:
        """From what the cut's last gate left, or the picture where it has none, to the tensor that
        crosses; `head_chain.HeadChain` runs all of it. Raises UnknownCutError."""
        return self.cut(cut).head

    def tail(self, cut: str) -> StageEntry:
        """From the tensor that crosses to the outputs. Raises UnknownCutError."""
        return self.cut(cut).tail

    def full(self) -> StageEntry:
        """The whole network."""
        return self.manifest.full

    def quantiser(self, cut: str, base_codec: str) -> Quantiser:
        """The table of codec `q8` or `q4` at a cut. Raises UnknownCutError for either."""
        tables = self.cut(cut).quantisers
        if base_codec not in tables:
            known = ", ".join(sorted(tables)) or "none"
            raise UnknownCutError(
                f"{self.name} has no table {base_codec[:32]!r} at {cut!r}, only {known}", cut=cut
            )
        return tables[base_codec].quantiser()

    def coding_model(self, cut: str, codec: str) -> CodingModel:
        """The model of an entropy-coded codec at a cut. Raises UnknownCutError,
        CodecNotAllowedError when the cut has no such coder, BadCoderError, BundleStorageError."""
        return read_coding_model(self.path, self.cut(cut), codec)

    def codecs(self, cut: str) -> TensorCodecs:
        """All codecs of a cut; what they need is read now. Raises UnknownCutError, BadCoderError,
        BundleStorageError."""
        return read_codecs(self.path, self.cut(cut))

    def open_stage(self, entry: StageEntry, *, threads: int = 1) -> OnnxStage:
        """Load a stage. Raises StageLoadError, also when the model is not the one described."""
        stage = OnnxStage(self.path / entry.file, threads=threads)
        if _by_name(stage) != _by_name(entry):
            raise StageMismatchError(
                f"{stage!r} has other tensors than the manifest of {self.name} says",
                path=str(self.path / entry.file),
            )
        return stage

    def pack(self, path: Path) -> Path:
        """Write the bundle as one file, at `path`, or as `name-version.headtail` in that folder.

        The same bundle and signature always give the same bytes. Takes the place of a file that
        is there, but only once the new one is whole. Raises BundleStorageError, and BundleError
        when a file has changed since the bundle was opened.
        """
        target = path / packed_name(self.manifest) if path.is_dir() else path
        own = {MANIFEST: self.manifest_bytes}
        if self.signature is not None:
            own[SIGNATURE] = self.signature
        with storage_errors(target):
            write_archive(target, folder=self.path, files=self.manifest.files, own=own)
        return target


def open_bundle(
    path: Path,
    *,
    trusted: Sequence[PublicKey] | None = None,
    cache_dir: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Bundle:
    """Open and verify a bundle, a folder or a packed one.

    With `trusted` one of those keys must have signed it. A packed bundle is unpacked into
    `cache_dir`, or the user's cache folder, once. Raises a kind of BundleError that says what is
    wrong and with which file, or BundleStorageError; never anything else, whatever lies there.
    """
    return _Opening(trusted=trusted, limits=limits, cache=BundleCache(cache_dir)).open(path)


def sign_bundle(path: Path, key: SecretKey, *, cache_dir: Path | None = None) -> Bundle:
    """Verify a bundle and sign it where it lies, in place of a signature that may be there.

    Raises what `open_bundle` does, but for signatures.
    """
    opening = _Opening(heed_signature=False, cache=BundleCache(cache_dir))
    bundle = opening.open(path)
    signature = sign_manifest(bundle.manifest_bytes, key)
    signed = replace(bundle, signature=signature, signed_by=key.public)
    if path.is_dir():
        with storage_errors(path):
            write_signature(path, signature)
    else:
        signed.pack(path)
    return signed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """How bundles are opened."""

    cache: BundleCache
    limits: Limits = DEFAULT_LIMITS
    trusted: Sequence[PublicKey] | None = None
    heed_signature: bool = True

    def open(self, path: Path) -> Bundle:
        with storage_errors(path):
            if path.is_dir():
                return self._folder(path)
            if path.is_file():
                return self._archive(path)
            if path.exists():
                raise NotABundleError(f"{path} is neither a folder nor a file", path=str(path))
        raise NoSuchBundleError(f"{path} does not exist", path=str(path))

    def _folder(self, path: Path) -> Bundle:
        manifest = read_manifest(path, limits=self.limits)
        bundle = self._view(path, manifest, read_signature(path) if self.heed_signature else None)
        check_folder(path, bundle.manifest.files)
        return bundle

    def _archive(self, path: Path) -> Bundle:
        with path.open("rb") as file:
            archive = Archive(path, file, limits=self.limits)
            signature = archive.signature() if self.heed_signature else None
            bundle = self._view(path, archive.manifest(), signature)
            folder = self.cache.unpack(
                archive,
                manifest=bundle.manifest_bytes,
                signature=bundle.signature,
                files=bundle.manifest.files,
                renew_signature=self.trusted is not None,
            )
        return replace(bundle, path=folder)

    def _view(self, path: Path, data: bytes, signature: bytes | None) -> Bundle:
        # The signature comes first: who may not speak here is not parsed.
        signer = check_signature(data, signature, trusted=self.trusted)
        manifest = decode_manifest(data)
        check_consistency(manifest, limits=self.limits)
        return Bundle(
            path=path,
            digest=hashlib.sha256(data).digest(),
            manifest=manifest,
            manifest_bytes=data,
            signature=signature,
            signed_by=signer,
        )


def _by_name(stage: OnnxStage | StageEntry) -> tuple[dict[str, TensorSpec], ...]:
    return tuple({spec.name: spec for spec in specs} for specs in (stage.inputs, stage.outputs))
