"""Ed25519 by pycryptodome."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_BASE_X: Final = 0x216936D3CD6E53FEC0A4E231FDD6DC5C692CC7609525A7B2C9562D608F25D51A
_BASE_Y: Final = 0x6666666666666666666666666666666666666666666666666666666666666658


class PyCryptodomeSignatures:
    """See `signature.Backend`.

    The library's own verification multiplies by the cofactor, so the equation is written out.
    """

    def __init__(self) -> None:
        self._base = ECC.construct(curve="Ed25519", point_x=_BASE_X, point_y=_BASE_Y).pointQ

    def load(self, seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
        key = eddsa.import_private_key(seed)
        return bytes(key.public_key().export_key(format="raw")), eddsa.new(key, "rfc8032").sign

    def verify(self, verify_key: bytes, signature: bytes, data: bytes) -> bool:
        try:
            point = eddsa.import_public_key(verify_key).pointQ
        except ValueError:
            return False
        nonce, response = signature[:32], int.from_bytes(signature[32:], "little")
        if response >= _ORDER:
            return False
        digest = hashlib.sha512(nonce + verify_key + data).digest()
        challenge = int.from_bytes(digest, "little") % _ORDER
        x, y = (self._base * response + -point * challenge).xy
        expected = (int(y) | (int(x) & 1) << 255).to_bytes(32, "little")
        return hmac.compare_digest(expected, nonce)
