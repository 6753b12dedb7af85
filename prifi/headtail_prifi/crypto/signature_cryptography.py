"""Ed25519 by OpenSSL, through the `cryptography` package."""

from collections.abc import Callable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class CryptographySignatures:
    """See `signature.Backend`."""

    def load(self, seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
        key = Ed25519PrivateKey.from_private_bytes(seed)
        return key.public_key().public_bytes_raw(), key.sign

    def verify(self, verify_key: bytes, signature: bytes, data: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(verify_key).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True
