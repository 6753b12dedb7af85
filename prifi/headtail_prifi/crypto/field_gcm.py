"""Products in GF(2^128) by the carry-less multiplier behind AES-GCM."""

from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headtail_prifi.crypto.field import ELEMENT_BYTES, Multiplier, history_element

_NONCE: Final = bytes(12)


class GcmMultiplier(Multiplier):
    """A difference of two authentication tags is a product.

    With no plaintext and associated data A of one block, GCM's tag is
    (A * H + length) * H + mask, where H = AES(key, 0^16) (SP 800-38D, 7.1). The tag of A plus the
    tag of 0 is A * H^2. The key is public here, so the one nonce reveals nothing.
    """

    def __init__(self, key: bytes) -> None:
        self.element = history_element(key)
        self._gcm = AESGCM(key)
        self._of_zero = int.from_bytes(self._tag(bytes(ELEMENT_BYTES)))

    def times(self, lane: bytes) -> bytes:
        return (int.from_bytes(self._tag(lane)) ^ self._of_zero).to_bytes(ELEMENT_BYTES)

    def _tag(self, lane: bytes) -> bytes:
        if len(lane) != ELEMENT_BYTES:
            raise ValueError(f"a field element of {len(lane)} bytes")
        return self._gcm.encrypt(_NONCE, b"", lane)
