"""The log-mel front end in viper, for `frontend`: the same steps as `frontend_py`.

The rules of `kernels_viper` hold here: few hot locals, halves instead of signed 32-bit loads, no
store to a computed index of ptr16, nothing beyond 30 bits.
"""

import micropython
import uctypes


def address(buffer):
    """What the steps take for a buffer; whoever calls keeps it alive."""
    return uctypes.addressof(buffer)


@micropython.viper
def shifted(x: int, tables: int, work: int) -> int:
    h = ptr16(tables)
    size = h[1]
    end = x + 2 * size
    p = x
    peak = 0
    while p < end:
        s = (ptr16(p)[0] ^ 0x8000) - 0x8000
        if s < 0:
            s = 0 - s
        if s > peak:
            peak = s
        p += 2
    exponent = 0
    if peak:
        exponent = 14
        while peak:
            peak >>= 1
            exponent -= 1
        if exponent < -1:
            exponent = -1
    drop = 15 - exponent
    half = 1 << (drop - 1)
    w = tables + h[16]
    order = tables + h[18]
    pairs = 1 << ptr8(tables)[1]
    # The window is padded to whole pairs, and all pairs behind it are silent.
    p = work
    while p < work + 4 * pairs:
        ptr16(p)[0] = 0
        ptr16(p)[1] = 0
        p += 4
    odd = 0
    p = x
    while p < end:
        s = (((ptr16(p)[0] ^ 0x8000) - 0x8000) * ptr16(w)[0] + half) >> drop
        ptr16(work + 4 * ptr8(order)[0] + odd)[0] = s
        if odd:
            order += 1
        odd ^= 2
        p += 2
        w += 2
    return exponent


@micropython.viper
def transform(work: int, tables: int):
    turns = tables + ptr16(tables)[17]
    pairs = 1 << ptr8(tables)[1]
    end = work + 4 * pairs
    span = 4
    stride = 4 * pairs
    while span < 4 * pairs:
        t = turns
        first = work
        while first < work + span:
            cos = (ptr16(t)[0] ^ 0x8000) - 0x8000
            sin = (ptr16(t)[1] ^ 0x8000) - 0x8000
            p = first
            while p < end:
                q = p + span
                br = (ptr16(q)[0] ^ 0x8000) - 0x8000
                bi = (ptr16(q)[1] ^ 0x8000) - 0x8000
                tr = br * cos + bi * sin
                ti = bi * cos - br * sin
                br = (((ptr16(p)[0] ^ 0x8000) - 0x8000) << 14) + 16384
                bi = (((ptr16(p)[1] ^ 0x8000) - 0x8000) << 14) + 16384
                ptr16(p)[0] = (br + tr) >> 15
                ptr16(p)[1] = (bi + ti) >> 15
                ptr16(q)[0] = (br - tr) >> 15
                ptr16(q)[1] = (bi - ti) >> 15
                p = q + span
            first += 4
            t += stride
        span <<= 1
        stride >>= 1


@micropython.viper
def magnitudes(work: int, tables: int):
    pairs = 1 << ptr8(tables)[1]
    t = tables + ptr16(tables)[17]
    p = work
    q = work + 4 * pairs
    # Bin 0 once more behind the last, where its mirror image is looked for.
    ptr16(q)[0] = ptr16(p)[0]
    ptr16(q)[1] = ptr16(p)[1]
    while p <= q:
        cos = (ptr16(t)[0] ^ 0x8000) - 0x8000
        sin = (ptr16(t)[1] ^ 0x8000) - 0x8000
        a = (ptr16(p)[0] ^ 0x8000) - 0x8000
        b = (ptr16(p)[1] ^ 0x8000) - 0x8000
        c = (ptr16(q)[0] ^ 0x8000) - 0x8000
        d = (ptr16(q)[1] ^ 0x8000) - 0x8000
        turned = (b + d) * cos + (c - a) * sin
        still = ((a + c) << 14) + 16384
        re = (still + turned) >> 15
        mirrored_re = (still - turned) >> 15
        turned = (c - a) * cos - (b + d) * sin
        still = (b - d) << 14
        im = (still + 16384 + turned) >> 15
        mirrored_im = (turned + 16384 - still) >> 15
        last = 1
        n = (re * re + im * im) << 2
        spot = p
        while last >= 0:
            bit = 1 << 28
            while bit > n:
                bit >>= 2
            root = 0
            while bit:
                if n >= root + bit:
                    n -= root + bit
                    root = (root >> 1) + bit
                else:
                    root >>= 1
                bit >>= 2
            ptr16(spot)[0] = root
            n = (mirrored_re * mirrored_re + mirrored_im * mirrored_im) << 2
            spot = q
            last -= 1
        p += 4
        q -= 4
        t += 4


@micropython.viper
def levels(work: int, tables: int, out: int, exponent: int):
    h = ptr16(tables)
    u = ptr32(tables)
    logarithms = tables + h[19]
    band = tables + h[20]
    weight = tables + h[21]
    count = h[4]
    offset = (int(u[4]) << (exponent + 1)) >> 1
    bias = h[12] + (((h[13] ^ 0x8000) - 0x8000) << 16)
    factor = int(u[5])
    shift = ptr8(tables)[28]
    while count:
        p = work + 4 * ptr16(band)[0]
        end = p + 4 * ptr16(band)[1]
        total = offset
        while p < end:
            total += ptr16(p)[0] * ptr8(weight)[0]
            weight += 1
            p += 4
        if total < 1:
            total = 1
        whole = 15
        while total >= 65536:
            total >>= 1
            whole += 1
        while total < 32768:
            total <<= 1
            whole -= 1
        total -= 32768
        p = logarithms + ((total >> 9) << 1)
        rest = total & 511
        low = ptr16(p)[0]
        total = ((low << 9) + (ptr16(p)[1] - low) * rest + 4096) >> 13
        total = (((whole - exponent) << 11) + total) * factor + bias
        total >>= shift
        if total < 0:
            total = 0
        if total > 255:
            total = 255
        ptr8(out)[0] = total
        out += 1
        band += 4
        count -= 1
