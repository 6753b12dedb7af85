"""Inner products in GF(2^128) by the carry-less multiplier behind AES-GCM."""

from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headtail_prifi.crypto.field import ELEMENT_BYTES, InnerProduct, history_element, row_bytes

_NONCE: Final = bytes(12)
_ZERO: Final = bytes(ELEMENT_BYTES)


class GcmInnerProduct(InnerProduct):
    """A difference of two authentication tags is a product.

    With no plaintext and associated data A of one block, GCM's tag is
    (A * H + length) * H + mask, where H = AES(key, 0^16) (SP 800-38D, 7.1). The tag of A plus the
    tag of 0 is A * H^2. The key is public here, so the one nonce reveals nothing. Of the tags of 0
    only the sum is ever needed: two tags a lane and two for all lanes make the inner products.
    """

    def __init__(self, first: bytes, second: bytes) -> None:
        self._keys = (first, second)
        self._first_tag = AESGCM(first).encrypt
        self._second_tag = AESGCM(second).encrypt

    @property
    def elements(self) -> tuple[bytes, bytes]:
        first, second = self._keys
        return history_element(first), history_element(second)

    def with_rows(self, rows: bytes) -> bytes:
        half = row_bytes(rows)
        first_tag, second_tag, number = self._first_tag, self._second_tag, int.from_bytes
        of_zeros = number(first_tag(_NONCE, b"", _ZERO)) ^ number(second_tag(_NONCE, b"", _ZERO))
        products = []
        for start in range(0, half, ELEMENT_BYTES):
            one = first_tag(_NONCE, b"", rows[start : start + ELEMENT_BYTES])
            start += half
            other = second_tag(_NONCE, b"", rows[start : start + ELEMENT_BYTES])
            products.append((number(one) ^ number(other) ^ of_zeros).to_bytes(ELEMENT_BYTES))
        return b"".join(products)
