"""Products in GF(2^128) by the carry-less multiplier behind AES-GCM."""

from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headtail_prifi.crypto.field import ELEMENT_BYTES, Multiplier, history_element, split_lanes

_NONCE: Final = bytes(12)


class GcmMultiplier(Multiplier):
    """A difference of two authentication tags is a product.

    With no plaintext and associated data A of one block, GCM's tag is
    (A * H + length) * H + mask, where H = AES(key, 0^16) (SP 800-38D, 7.1). The tag of A plus the
    tag of 0 is A * H^2. The key is public here, so the one nonce reveals nothing.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._encrypt = AESGCM(key).encrypt
        self._of_zero = self._encrypt(_NONCE, b"", bytes(ELEMENT_BYTES))

    @property
    def element(self) -> bytes:
        return history_element(self._key)

    def times_lanes(self, lanes: bytes) -> bytes:
        rows = split_lanes(lanes)
        tags = b"".join([self._encrypt(_NONCE, b"", lane) for lane in rows])
        zeros = self._of_zero * len(rows)
        return (int.from_bytes(tags) ^ int.from_bytes(zeros)).to_bytes(len(tags))
