"""RSA signatures, checked: PKCS #1 v1.5 with SHA-256 (RFC 8017, 8.2.2), public exponent 65537."""

_EXPONENT = 65537
_DIGEST_INFO = b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"
_LEAST_BYTES = 256


def verifies(digest, signature, modulus):
    """Whether `signature` is that of a SHA-256 digest under a key of 2048 bits or more.

    The padding is built and compared whole, never parsed.
    """
    size = len(modulus)
    if size < _LEAST_BYTES or len(signature) != size or not modulus[0] & 0x80:
        return False
    n = int.from_bytes(modulus, "big")
    s = int.from_bytes(signature, "big")
    if s >= n:
        return False
    tail = b"\x00" + _DIGEST_INFO + digest
    expected = b"\x00\x01" + b"\xff" * (size - 2 - len(tail)) + tail
    return pow(s, _EXPONENT, n).to_bytes(size, "big") == expected
