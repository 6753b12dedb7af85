"""X25519 and ChaCha20-Poly1305, by whichever library is here.

pycryptodome is always here. `cryptography` (OpenSSL) is taken when it is installed: it needs a
quarter of the time (`docs/security.md` has figures).
"""

from typing import Final, Protocol

from Crypto.Cipher import ChaCha20_Poly1305
from Crypto.Protocol import DH

from headtail_fabric.seal.errors import TamperedError
from headtail_fabric.wire import Buffer

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16


class SealCipher(Protocol):
    """Two primitives. All keys are 32 bytes, nonces 12."""

    def public(self, secret: bytes) -> bytes:
        """X25519(secret, 9): the public key of a secret one (RFC 7748, 6.1)."""
        ...

    def agree(self, secret: bytes, public: bytes) -> bytes:
        """X25519(secret, public). Raises TamperedError when that is zero: such a public key (of
        small order) gives everybody the same secret (RFC 9180, 7.1.4)."""
        ...

    def seal(self, key: bytes, nonce: bytes, plaintext: Buffer, associated: bytes) -> bytes:
        """The ciphertext with its 16-byte tag behind it (RFC 8439)."""
        ...

    def open(self, key: bytes, nonce: bytes, sealed: Buffer, associated: bytes) -> bytes:
        """The plaintext; `sealed` is at least a tag long. Raises TamperedError."""
        ...


class PycryptodomeCipher:
    """By pycryptodome, which every installation has."""

    def public(self, secret: bytes) -> bytes:
        return DH.import_x25519_private_key(secret).public_key().export_key(format="raw")

    def agree(self, secret: bytes, public: bytes) -> bytes:
        try:
            ours = DH.import_x25519_private_key(secret)
            theirs = DH.import_x25519_public_key(public)
            return bytes(DH.key_agreement(static_priv=ours, static_pub=theirs, kdf=bytes))
        except ValueError:
            raise TamperedError("a key that agrees on nothing") from None

    def seal(self, key: bytes, nonce: bytes, plaintext: Buffer, associated: bytes) -> bytes:
        cipher = ChaCha20_Poly1305.new(key=key, nonce=nonce)
        cipher.update(associated)
        ciphertext, tag = cipher.encrypt_and_digest(plaintext)
        return ciphertext + tag

    def open(self, key: bytes, nonce: bytes, sealed: Buffer, associated: bytes) -> bytes:
        view = memoryview(sealed)
        cipher = ChaCha20_Poly1305.new(key=key, nonce=nonce)
        cipher.update(associated)
        try:
            return cipher.decrypt_and_verify(view[:-TAG_BYTES], bytes(view[-TAG_BYTES:]))
        except ValueError:
            raise TamperedError("a sealed payload does not open") from None


def best_cipher() -> SealCipher:
    """The fastest that is installed."""
    try:
        from headtail_fabric.seal.cipher_cryptography import CryptographyCipher
    except ImportError:
        return PycryptodomeCipher()
    return CryptographyCipher()
