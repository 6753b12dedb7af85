"""Ed25519 by OpenSSL, through the `cryptography` package."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class CryptographySignatures:
    """See `signature`."""

    def public(self, seed: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()

    def sign(self, seed: bytes, data: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(seed).sign(data)

    def verify(self, public: bytes, signature: bytes, data: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True
