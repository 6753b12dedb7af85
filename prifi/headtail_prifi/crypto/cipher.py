"""Pads and sealing: AES in counter mode and AES-GCM, behind one interface with two backends.

`PyCryptodomeCipher` is always there, `CryptographyCipher` (OpenSSL) where the extra is installed.
Both give the same bytes; `tests/vectors/prifi-cipher-v1.json` freezes them.
"""

from functools import cache
from typing import Final, Protocol

from headtail_fabric.errors import ConfigError

BLOCK_BYTES: Final = 16
PAD_KEY_BYTES: Final = 32
SEAL_KEY_BYTES: Final = (16, 32)
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16

Buffer = bytes | bytearray | memoryview


class PadStream(Protocol):
    """The keystream of one pad key: AES-256-CTR, the counter being the 128-bit block index.

    Seekable: block b is AES(key, b), so no call depends on another. Going on where the last call
    ended (a multiple of 16 bytes further) is cheaper than a jump. One thread at a time.
    """

    def xor_into(self, buffer: bytearray | memoryview, block: int) -> None:
        """XOR the keystream from `block` on into the whole buffer, in place.

        A memoryview must be contiguous and of format B. Several streams one after the other over
        one buffer give a cell: no pad is ever stored.
        """
        ...

    def keystream(self, block: int, size: int) -> bytes:
        """`size` bytes from `block` on; ask for many rounds at once where that is possible."""
        ...


class PadCipher(Protocol):
    """A backend. Stateless, so it can be shared."""

    @property
    def name(self) -> str:
        """`pycryptodome` or `cryptography`."""
        ...

    def stream(self, key: bytes) -> PadStream:
        """The keystream of a 32-byte key. Keep it: making one costs more than using it."""
        ...

    def seal(
        self, *, key: bytes, nonce: bytes, plaintext: Buffer, associated: bytes = b""
    ) -> bytes:
        """AES-GCM: ciphertext, then a 16-byte tag. The key has 16 or 32 bytes, the nonce 12.

        A nonce must never be used twice with one key.
        """
        ...

    def open(self, *, key: bytes, nonce: bytes, sealed: Buffer, associated: bytes = b"") -> bytes:
        """The plaintext; SealError when key, nonce, associated data or bytes don't fit."""
        ...


@cache
def cipher_named(name: str) -> PadCipher:
    """A backend by its name; ConfigError when there is none, or it is not installed."""
    if name == "pycryptodome":
        from headtail_prifi.crypto.cipher_pycryptodome import PyCryptodomeCipher

        return PyCryptodomeCipher()
    if name == "cryptography":
        try:
            from headtail_prifi.crypto.cipher_cryptography import CryptographyCipher
        except ImportError as error:
            raise ConfigError(
                "the cipher backend needs cryptography: pip install 'headtail[prifi]'"
            ) from error
        return CryptographyCipher()
    raise ConfigError(f"no cipher is named {name!r}; there are pycryptodome and cryptography")


def default_cipher() -> PadCipher:
    """The backend that measures best where both are installed: `cryptography`.

    Microseconds of CPU to XOR one cell in place, going on in a stream (and after a jump), best of
    seven runs on a shared x86-64 core with AES-NI (`headtail bench prifi-core` has the rates):

        cell         128 B        1 KiB        4 KiB        16 KiB        64 KiB
        cryptography 0.2 (0.6)    0.4 (0.7)    0.9 (1.3)    2.8 (3.2)     10.4 (10.8)
        pycryptodome 3.0 (13.9)   3.4 (14.1)   4.7 (15.4)   9.5 (20.2)    29.2 (40.8)

    The difference below 16 KiB is the cost of a call, which batches of rounds take away.
    AES-GCM of 1 KiB costs 2.4 us against 57 us.
    """
    try:
        return cipher_named("cryptography")
    except ConfigError:
        return cipher_named("pycryptodome")


def check_seal_arguments(key: bytes, nonce: bytes) -> None:
    """What both backends demand alike; ValueError otherwise."""
    if len(key) not in SEAL_KEY_BYTES or len(nonce) != NONCE_BYTES:
        raise ValueError(f"AES-GCM with a key of {len(key)} and a nonce of {len(nonce)} bytes")


def check_pad_key(key: bytes) -> None:
    """ValueError unless the key has 32 bytes."""
    if len(key) != PAD_KEY_BYTES:
        raise ValueError(f"a pad key of {len(key)} bytes")
