"""Salsa20's core (Bernstein, "The Salsa20 family of stream ciphers", 2007) in viper.

Words are stored through ptr32, which cuts a 64-bit port's sums to 32 bits; rotations mask what
they bring in, so it does not matter whether a shift drags the sign along.
"""

import micropython


@micropython.viper
def core(out, state, add: int):
    """Twenty rounds of the 64 bytes of `state` into `out`; `add`: plus the state, as Salsa20 has it
    and HSalsa20 does not."""
    x = ptr32(out)
    p = int(x)
    q = int(ptr32(state))
    end = p + 64
    while p < end:
        ptr32(p)[0] = ptr32(q)[0]
        p += 4
        q += 4
    i = 0
    while i < 10:
        t = x[0] + x[12]
        x[4] = x[4] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[4] + x[0]
        x[8] = x[8] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[8] + x[4]
        x[12] = x[12] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[12] + x[8]
        x[0] = x[0] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        t = x[5] + x[1]
        x[9] = x[9] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[9] + x[5]
        x[13] = x[13] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[13] + x[9]
        x[1] = x[1] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[1] + x[13]
        x[5] = x[5] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        t = x[10] + x[6]
        x[14] = x[14] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[14] + x[10]
        x[2] = x[2] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[2] + x[14]
        x[6] = x[6] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[6] + x[2]
        x[10] = x[10] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        t = x[15] + x[11]
        x[3] = x[3] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[3] + x[15]
        x[7] = x[7] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[7] + x[3]
        x[11] = x[11] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[11] + x[7]
        x[15] = x[15] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        t = x[0] + x[3]
        x[1] = x[1] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[1] + x[0]
        x[2] = x[2] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[2] + x[1]
        x[3] = x[3] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[3] + x[2]
        x[0] = x[0] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        t = x[5] + x[4]
        x[6] = x[6] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[6] + x[5]
        x[7] = x[7] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[7] + x[6]
        x[4] = x[4] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[4] + x[7]
        x[5] = x[5] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        t = x[10] + x[9]
        x[11] = x[11] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[11] + x[10]
        x[8] = x[8] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[8] + x[11]
        x[9] = x[9] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[9] + x[8]
        x[10] = x[10] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        t = x[15] + x[14]
        x[12] = x[12] ^ ((t << 7) | ((t >> 25) & 0x7F))
        t = x[12] + x[15]
        x[13] = x[13] ^ ((t << 9) | ((t >> 23) & 0x1FF))
        t = x[13] + x[12]
        x[14] = x[14] ^ ((t << 13) | ((t >> 19) & 0x1FFF))
        t = x[14] + x[13]
        x[15] = x[15] ^ ((t << 18) | ((t >> 14) & 0x3FFFF))
        i += 1
    if add:
        while p > int(x):
            p -= 4
            q -= 4
            ptr32(p)[0] = ptr32(p)[0] + ptr32(q)[0]


@micropython.viper
def xor(data, at: int, block, begin: int, count: int):
    """`count` bytes of `block` from `begin` onto `data` at `at`."""
    a = int(ptr8(data)) + at
    b = int(ptr8(block)) + begin
    while count > 0:
        ptr8(a)[0] = ptr8(a)[0] ^ ptr8(b)[0]
        a += 1
        b += 1
        count -= 1
