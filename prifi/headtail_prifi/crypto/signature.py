"""Ed25519 (RFC 8032) with a purpose in every signature.

What is signed is SHA-512 of the length-prefixed purpose and message, so a signature made for one
purpose is never valid for another. `cryptography` does the work where it is installed (46 us to
sign, 140 us to verify), else pycryptodome (160 us and 500 us).

All parties must agree on what is valid, else a signature that only some accept would frame whoever
passes it on. RFC 8032 allows two equations; both backends use the strict one, without cofactor:
R = encoding of s B - k A. Public keys of low order and non-canonical ones are refused.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import EncodingError, SignatureError

SEED_BYTES: Final = 32
VERIFY_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_PRIME: Final = 2**255 - 19
_ORDER_8_Y: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_LOW_ORDER_Y: Final = frozenset({0, 1, _PRIME - 1, _ORDER_8_Y, _PRIME - _ORDER_8_Y})


class Backend(Protocol):
    """A library that knows Ed25519."""

    def load(self, seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
        """The 32 public bytes of a key, and what signs with it."""
        ...

    def verify(self, verify_key: bytes, signature: bytes, data: bytes) -> bool:
        """Whether the signature holds; False for whatever is no key or signature at all."""
        ...


class SigningKey:
    """A private signing key; `verify_key` holds its 32 public bytes."""

    __slots__ = ("_sign", "verify_key")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a signing key of {len(seed)} bytes")
        self.verify_key, self._sign = _backend().load(seed)

    @classmethod
    def generate(cls, entropy: Entropy) -> "SigningKey":
        """A new key."""
        return cls(entropy.bytes(SEED_BYTES))

    def sign(self, message: bytes, *, purpose: str) -> bytes:
        """64 bytes, always the same for one message and purpose."""
        return self._sign(_digest(purpose, message))

    def __repr__(self) -> str:
        return f"SigningKey(verify_key={self.verify_key.hex()[:16]}..)"


def verify_signature(verify_key: bytes, signature: bytes, message: bytes, *, purpose: str) -> None:
    """Raises SignatureError unless the signature is the key's for this message and purpose."""
    try:
        check_verify_key(verify_key)
    except EncodingError as error:
        raise SignatureError(error.message) from None
    if len(signature) != SIGNATURE_BYTES or not _backend().verify(
        verify_key, signature, _digest(purpose, message)
    ):
        raise SignatureError(f"a signature for {purpose!r} does not hold", purpose=purpose)


def check_verify_key(verify_key: bytes) -> None:
    """Raises EncodingError for a key that isn't 32 bytes, isn't canonical or has low order."""
    if len(verify_key) != VERIFY_KEY_BYTES:
        raise EncodingError(f"a signature key of {len(verify_key)} bytes")
    y = int.from_bytes(verify_key, "little") & (2**255 - 1)
    if y >= _PRIME:
        raise EncodingError("a signature key that is not reduced")
    if y in _LOW_ORDER_Y:
        raise EncodingError("a signature key of low order")


def _digest(purpose: str, message: bytes) -> bytes:
    return hashlib.sha512(_label(purpose) + message).digest()


@cache
def _label(purpose: str) -> bytes:
    label = purpose.encode()
    return len(label).to_bytes(2) + label


@cache
def _backend() -> Backend:
    try:
        from headtail_prifi.crypto.signature_cryptography import CryptographySignatures
    except ImportError:
        from headtail_prifi.crypto.signature_pycryptodome import PyCryptodomeSignatures

        return PyCryptodomeSignatures()
    return CryptographySignatures()
