"""The log-mel front end in plain Python: slow, and right wherever Python is.

What the numbers mean is told in the exporter (`models/headtail_models/mcu/log_mel_front.py`).
`work` holds a pair of 16-bit numbers for each pair of samples, and one more.
"""

import struct


def address(buffer):
    """What the steps take for a buffer."""
    return buffer


def shifted(samples, tables, work):
    """Window the samples into `work`, in the FFT's order; returns by how many bits they grew."""
    size = _u16(tables, 2)
    pairs = 1 << tables[1]
    window, order = _u16(tables, 32), _u16(tables, 36)
    peak = max(abs(_i16(samples, 2 * i)) for i in range(size))
    exponent = max(14 - _bits(peak), -1) if peak else 0
    drop = 15 - exponent
    for at in range(4 * pairs):
        work[at] = 0
    for i in range(size):
        value = _i16(samples, 2 * i) * _u16(tables, window + 2 * i)
        place = 4 * tables[order + i // 2] + 2 * (i & 1)
        struct.pack_into("<h", work, place, (value + (1 << (drop - 1))) >> drop)
    return exponent


def transform(work, tables):
    """FFT in place, halved by each stage."""
    turns = _u16(tables, 34)
    pairs = 1 << tables[1]
    span = 1
    while span < pairs:
        for k in range(span):
            cos, sin = struct.unpack_from("<hh", tables, turns + 4 * k * (pairs // span))
            for p in range(k, pairs, 2 * span):
                ar, ai = struct.unpack_from("<hh", work, 4 * p)
                br, bi = struct.unpack_from("<hh", work, 4 * (p + span))
                ar, ai = (ar << 14) + 16384, (ai << 14) + 16384
                tr, ti = br * cos + bi * sin, bi * cos - br * sin
                struct.pack_into("<hh", work, 4 * p, (ar + tr) >> 15, (ai + ti) >> 15)
                struct.pack_into("<hh", work, 4 * (p + span), (ar - tr) >> 15, (ai - ti) >> 15)
        span *= 2


def magnitudes(work, tables):
    """Twice the magnitude of each bin of the real samples, over the first half of its pair."""
    turns = _u16(tables, 34)
    pairs = 1 << tables[1]
    work[4 * pairs : 4 * pairs + 4] = work[:4]
    for k in range(pairs // 2 + 1):
        m = pairs - k
        cos, sin = struct.unpack_from("<hh", tables, turns + 4 * k)
        a, b = struct.unpack_from("<hh", work, 4 * k)
        c, d = struct.unpack_from("<hh", work, 4 * m)
        tr, ti = (b + d) * cos + (c - a) * sin, (c - a) * cos - (b + d) * sin
        sr, si = ((a + c) << 14) + 16384, (b - d) << 14
        struct.pack_into("<H", work, 4 * k, _length((sr + tr) >> 15, (si + 16384 + ti) >> 15))
        struct.pack_into("<H", work, 4 * m, _length((sr - tr) >> 15, (ti + 16384 - si) >> 15))


def levels(work, tables, out, exponent):
    """What the head reads of one window, a byte a band."""
    offset, factor, bias = struct.unpack_from("<Iii", tables, 16)
    logarithms, band, weight = (_u16(tables, at) for at in (38, 40, 42))
    for number in range(_u16(tables, 8)):
        total = (offset << (exponent + 1)) >> 1
        first, count = struct.unpack_from("<HH", tables, band + 4 * number)
        for k in range(first, first + count):
            total += _u16(work, 4 * k) * tables[weight]
            weight += 1
        total = max(total, 1)
        whole = _bits(total) - 1
        total = total >> (whole - 15) if whole > 15 else total << (15 - whole)
        total -= 32768
        low, high = struct.unpack_from("<HH", tables, logarithms + 2 * (total >> 9))
        part = ((low << 9) + (high - low) * (total & 511) + 4096) >> 13
        value = ((((whole - exponent) << 11) + part) * factor + bias) >> tables[28]
        out[number] = min(max(value, 0), 255)


def _length(re, im):
    n = (re * re + im * im) << 2
    bit, root = 1 << 28, 0
    while bit:
        if n >= root + bit:
            n -= root + bit
            root = (root >> 1) + bit
        else:
            root >>= 1
        bit >>= 2
    return root


def _bits(value):
    count = 0
    while value:
        value >>= 1
        count += 1
    return count


def _u16(data, at):
    return data[at] | data[at + 1] << 8


def _i16(data, at):
    return (_u16(data, at) ^ 0x8000) - 0x8000
