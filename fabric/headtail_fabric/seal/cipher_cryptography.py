"""X25519 and ChaCha20-Poly1305 by OpenSSL, through the `cryptography` package."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from headtail_fabric.seal.errors import TamperedError
from headtail_fabric.wire import Buffer


class CryptographyCipher:
    """See `SealCipher`."""

    def public(self, secret: bytes) -> bytes:
        return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()

    def agree(self, secret: bytes, public: bytes) -> bytes:
        try:
            ours = X25519PrivateKey.from_private_bytes(secret)
            return ours.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise TamperedError("a key that agrees on nothing") from None

    def seal(self, key: bytes, nonce: bytes, plaintext: Buffer, associated: bytes) -> bytes:
        return ChaCha20Poly1305(key).encrypt(nonce, plaintext, associated)

    def open(self, key: bytes, nonce: bytes, sealed: Buffer, associated: bytes) -> bytes:
        try:
            return ChaCha20Poly1305(key).decrypt(nonce, sealed, associated)
        except InvalidTag:
            raise TamperedError("a sealed payload does not open") from None
