"""AES by OpenSSL, through the `cryptography` package."""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from headtail_prifi.crypto.cipher import (
    BLOCK_BYTES,
    TAG_BYTES,
    Buffer,
    PadStream,
    check_pad_key,
    check_seal_arguments,
)
from headtail_prifi.crypto.errors import SealError


class CryptographyCipher:
    """Cheap per call (0.3 us going on, 0.7 us after a jump) and per byte (6 GB/s)."""

    name: Final = "cryptography"

    def stream(self, key: bytes) -> PadStream:
        return _Stream(key)

    def seal(
        self, *, key: bytes, nonce: bytes, plaintext: Buffer, associated: bytes = b""
    ) -> bytes:
        check_seal_arguments(key, nonce)
        return AESGCM(key).encrypt(nonce, plaintext, associated)

    def open(self, *, key: bytes, nonce: bytes, sealed: Buffer, associated: bytes = b"") -> bytes:
        check_seal_arguments(key, nonce)
        if len(sealed) < TAG_BYTES:
            raise SealError("a sealed message shorter than its tag")
        try:
            return AESGCM(key).decrypt(nonce, sealed, associated)
        except InvalidTag:
            raise SealError("a sealed message does not open") from None


class _Stream:
    def __init__(self, key: bytes) -> None:
        check_pad_key(key)
        self._cipher = Cipher(AES(key), CTR(bytes(BLOCK_BYTES))).encryptor()
        self._position = 0

    def xor_into(self, buffer: bytearray | memoryview, block: int) -> None:
        self._seek(block, len(buffer))
        self._cipher.update_into(buffer, buffer)

    def keystream(self, block: int, size: int) -> bytes:
        self._seek(block, size)
        return self._cipher.update(bytes(size))

    def _seek(self, block: int, size: int) -> None:
        if block != self._position:
            self._cipher.reset_nonce(block.to_bytes(BLOCK_BYTES))
        self._position = -1 if size % BLOCK_BYTES else block + size // BLOCK_BYTES
