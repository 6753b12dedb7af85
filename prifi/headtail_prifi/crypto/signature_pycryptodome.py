"""Ed25519 by pycryptodome."""

from Crypto.Signature import eddsa


class PyCryptodomeSignatures:
    """See `signature`."""

    def public(self, seed: bytes) -> bytes:
        key = eddsa.import_private_key(seed).public_key()
        return bytes(key.export_key(format="raw"))

    def sign(self, seed: bytes, data: bytes) -> bytes:
        return eddsa.new(eddsa.import_private_key(seed), "rfc8032").sign(data)

    def verify(self, public: bytes, signature: bytes, data: bytes) -> bool:
        try:
            eddsa.new(eddsa.import_public_key(public), "rfc8032").verify(data, signature)
        except ValueError:
            return False
        return True
