"""The detached signature of a bundle, `manifest.sig`.

Signed are the bytes `headtail bundle manifest v1`, one zero byte, then manifest.json as it lies in
the bundle, with Ed25519 (RFC 8032). The prefix keeps a signature made for anything else from
passing as one of a bundle. The manifest lists each file's SHA-256, so the signature covers them
all. The file is JSON and holds the signer's public key too, so that one can tell an untrusted
signer from a damaged signature; the key proves nothing until somebody pins it.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from headtail_models.bundle.errors import (
    BadSignatureError,
    UnsignedBundleError,
    UntrustedSignerError,
)
from headtail_models.bundle.keys import PublicKey, SecretKey
from headtail_models.bundle.manifest import SIGNATURE

PURPOSE: Final = b"headtail bundle manifest v1\x00"


class _SignatureFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    algorithm: Literal["ed25519"]
    public_key: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    signature: Annotated[str, Meta(pattern=r"^[0-9a-f]{128}\Z")]


def sign_manifest(manifest: bytes, key: SecretKey) -> bytes:
    """What goes into `manifest.sig` for that `manifest.json`."""
    file = _SignatureFile(
        algorithm="ed25519",
        public_key=key.public.raw.hex(),
        signature=key.sign(PURPOSE + manifest).hex(),
    )
    return msgspec.json.encode(file) + b"\n"


def check_signature(
    manifest: bytes, signature: bytes | None, *, trusted: Sequence[PublicKey] | None
) -> PublicKey | None:
    """Who signed: None when nobody did and nobody had to.

    With `trusted` one of those keys must have signed (an empty sequence trusts nobody). Raises
    UnsignedBundleError, UntrustedSignerError, or BadSignatureError, which never says how far the
    check went.
    """
    if signature is None:
        if trusted is not None:
            raise UnsignedBundleError(f"the bundle has no {SIGNATURE}")
        return None
    signer = _signer(manifest, signature)
    if signer is None:
        raise BadSignatureError(f"{SIGNATURE} is not a signature of the bundle's manifest")
    if trusted is not None and signer not in trusted:
        raise UntrustedSignerError(
            f"the bundle is signed by {signer.fingerprint}, which is not trusted here",
            fingerprint=signer.fingerprint,
        )
    return signer


def _signer(manifest: bytes, signature: bytes) -> PublicKey | None:
    try:
        file = msgspec.json.decode(signature, type=_SignatureFile)
        key = PublicKey(bytes.fromhex(file.public_key))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return key if key.verifies(PURPOSE + manifest, bytes.fromhex(file.signature)) else None
