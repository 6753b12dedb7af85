"""HPKE in base mode (RFC 9180) with one suite, and both ends of a context.

    suite       DHKEM(X25519, HKDF-SHA256) 0x0020, HKDF-SHA256 0x0001, ChaCha20-Poly1305 0x0003
    set-up      SetupBaseS and SetupBaseR (5.1.1), with Encap and Decap (4.1)
    messages    as ContextS.Seal and ContextR.Open (5.2), but with the sequence number given by the
                caller, who sends it along: messages may be lost or come out of order
    secrets     Context.Export (5.3)

Not here: the other modes and suites, DeriveKeyPair, one-shot calls. `tests/vectors/seal-v1.json`
holds the RFC's own vector of this suite (A.2.1).
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from headtail_fabric.seal.cipher import KEY_BYTES, NONCE_BYTES, SealCipher
from headtail_fabric.wire import Buffer

_MODE_BASE: Final = b"\x00"
_KEM: Final = b"KEM\x00\x20"
_SUITE: Final = b"HPKE\x00\x20\x00\x01\x00\x03"
_HASH_BYTES: Final = 32

MAX_SEQUENCE: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What both ends share after set-up; `enc` (32 bytes) is what the sender sends of it."""

    enc: bytes
    key: bytes = field(repr=False)
    base_nonce: bytes = field(repr=False)
    exporter_secret: bytes = field(repr=False)
    cipher: SealCipher = field(repr=False, compare=False)

    def seal(self, sequence: int, plaintext: Buffer, associated: bytes) -> bytes:
        """Message `sequence` (below 2^63, never used twice), 16 bytes longer."""
        return self.cipher.seal(self.key, self._nonce(sequence), plaintext, associated)

    def open(self, sequence: int, sealed: Buffer, associated: bytes) -> bytes:
        """The plaintext of message `sequence`. Raises TamperedError."""
        return self.cipher.open(self.key, self._nonce(sequence), sealed, associated)

    def export(self, context: bytes, size: int) -> bytes:
        """A secret of `size` bytes for another purpose."""
        return labeled_expand(self.exporter_secret, _SUITE, b"sec", context, size)

    def _nonce(self, sequence: int) -> bytes:
        base = int.from_bytes(self.base_nonce)
        return (base ^ sequence).to_bytes(NONCE_BYTES)


def set_up_sender(
    cipher: SealCipher, recipient: bytes, *, info: bytes, ephemeral: bytes
) -> Context:
    """A context with the owner of the public key `recipient`.

    `ephemeral` is 32 secret random bytes, used for this once. Raises TamperedError when `recipient`
    is a key of small order.
    """
    enc = cipher.public(ephemeral)
    shared = _shared_secret(cipher.agree(ephemeral, recipient), enc, recipient)
    return _schedule(cipher, shared, enc, info)


def set_up_recipient(cipher: SealCipher, secret: bytes, *, enc: bytes, info: bytes) -> Context:
    """The context that the sender of `enc` has set up with this secret key's owner. Raises
    TamperedError when `enc` is a key of small order."""
    shared = _shared_secret(cipher.agree(secret, enc), enc, cipher.public(secret))
    return _schedule(cipher, shared, enc, info)


def extract(salt: bytes, material: bytes) -> bytes:
    """HKDF-Extract with SHA-256 (RFC 5869, 2.2)."""
    return hmac.digest(salt or bytes(_HASH_BYTES), material, hashlib.sha256)


def expand(key: bytes, info: bytes, size: int) -> bytes:
    """HKDF-Expand with SHA-256 (RFC 5869, 2.3)."""
    output = block = b""
    counter = 1
    while len(output) < size:
        block = hmac.digest(key, block + info + bytes([counter]), hashlib.sha256)
        output += block
        counter += 1
    return output[:size]


def labeled_extract(salt: bytes, suite: bytes, label: bytes, material: bytes) -> bytes:
    """RFC 9180, 4."""
    return extract(salt, b"HPKE-v1" + suite + label + material)


def labeled_expand(key: bytes, suite: bytes, label: bytes, info: bytes, size: int) -> bytes:
    """RFC 9180, 4."""
    return expand(key, size.to_bytes(2) + b"HPKE-v1" + suite + label + info, size)


def _shared_secret(agreed: bytes, enc: bytes, recipient: bytes) -> bytes:
    """ExtractAndExpand of the KEM (4.1)."""
    key = labeled_extract(b"", _KEM, b"eae_prk", agreed)
    return labeled_expand(key, _KEM, b"shared_secret", enc + recipient, KEY_BYTES)


def _schedule(cipher: SealCipher, shared: bytes, enc: bytes, info: bytes) -> Context:
    """KeySchedule (5.1) without a pre-shared key."""
    psk_id_hash = labeled_extract(b"", _SUITE, b"psk_id_hash", b"")
    info_hash = labeled_extract(b"", _SUITE, b"info_hash", info)
    context = _MODE_BASE + psk_id_hash + info_hash
    secret = labeled_extract(shared, _SUITE, b"secret", b"")
    return Context(
        enc=enc,
        key=labeled_expand(secret, _SUITE, b"key", context, KEY_BYTES),
        base_nonce=labeled_expand(secret, _SUITE, b"base_nonce", context, NONCE_BYTES),
        exporter_secret=labeled_expand(secret, _SUITE, b"exp", context, _HASH_BYTES),
        cipher=cipher,
    )
