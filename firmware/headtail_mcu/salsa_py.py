"""Salsa20's core (Bernstein, "The Salsa20 family of stream ciphers", 2007) in plain Python."""

import struct

_QUARTERS = (
    (0, 4, 8, 12),
    (5, 9, 13, 1),
    (10, 14, 2, 6),
    (15, 3, 7, 11),
    (0, 1, 2, 3),
    (5, 6, 7, 4),
    (10, 11, 8, 9),
    (15, 12, 13, 14),
)
_MASK = 0xFFFFFFFF


def core(out, state, add):
    """Twenty rounds of the 64 bytes of `state` into `out`; `add`: plus the state, as Salsa20 has it
    and HSalsa20 does not."""
    words = struct.unpack("<16I", state)
    x = list(words)
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            x[b] ^= _rotated(x[a] + x[d], 7)
            x[c] ^= _rotated(x[b] + x[a], 9)
            x[d] ^= _rotated(x[c] + x[b], 13)
            x[a] ^= _rotated(x[d] + x[c], 18)
    if add:
        x = [(a + b) & _MASK for a, b in zip(x, words)]
    struct.pack_into("<16I", out, 0, *x)


def xor(data, at, block, begin, count):
    """`count` bytes of `block` from `begin` onto `data` at `at`."""
    for i in range(count):
        data[at + i] ^= block[begin + i]


def _rotated(word, by):
    word &= _MASK
    return (word << by | word >> (32 - by)) & _MASK
