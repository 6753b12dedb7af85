"""The kernels in plain Python: slow, and right wherever Python is.

Each computes output row `y` of the operation whose table row lies at `row` of the blob. What the
numbers mean is told in the exporter (`models/headtail_models/mcu/program.py`, `fixed_point.py`).
"""

import struct

_ROW = "<12B6H10I"
_CLIP = 32767


def handles(arena, blob):
    """What the kernels take for the arena and the blob."""
    return arena, blob


def convolution(arena, blob, row, y):
    _, z, _, zo, low, high, kh, kw, sy, sx, top, left, h, w, c, _, ow, oc, *words = (
        struct.unpack_from(_ROW, blob, row)
    )
    src, _, dst, _, data, k, _, _, _, _ = words
    inner = kh * kw * c
    window = bytearray(inner)
    weights = data + 8 * oc
    at = dst + y * ow * oc
    for ox in range(ow):
        _gather(window, arena, src, y * sy - top, ox * sx - left, h, w, c, kh, kw, z)
        for o in range(oc):
            first = weights + o * k
            total = 0
            for i in range(inner):
                total += window[i] * (blob[first + i] - 128)
            arena[at] = _requantised(blob, data + 8 * o, total, zo, low, high)
            at += 1


def depthwise(arena, blob, row, y):
    _, z, _, zo, low, high, kh, kw, sy, sx, top, left, h, w, c, _, ow, _, *words = (
        struct.unpack_from(_ROW, blob, row)
    )
    src, _, dst, scratch, data, taps, _, _, _, _ = words
    width = ((ow - 1) * sx + kw) * c
    _fill_strip(arena, src, scratch, width, y, kh, sy, top, left, h, w, c, z)
    weights = data + 8 * c
    at = dst + y * ow * c
    for ox in range(ow):
        pixel = scratch + ox * sx * c
        for channel in range(c):
            first = weights + channel * taps
            total = 0
            for tap in range(taps):
                x = arena[pixel + tap // kw * width + tap % kw * c + channel]
                total += x * (blob[first + tap] - 128)
            arena[at] = _requantised(blob, data + 8 * channel, total, zo, low, high)
            at += 1


def addition(arena, blob, row, y):
    _, z, z2, zo, low, high, _, _, _, _, _, _, _, _, _, _, ow, oc, *words = struct.unpack_from(
        _ROW, blob, row
    )
    src, src2, dst, _, _, _, shift, m1, m2, _ = words
    half = 1 << (shift - 1)
    begin = y * ow * oc
    for i in range(begin, begin + ow * oc):
        total = (arena[src + i] - z) * m1 + (arena[src2 + i] - z2) * m2
        value = ((total + half) >> shift) + zo
        arena[dst + i] = min(max(value, low), high)


def max_pool(arena, blob, row, y):
    for at, values, op in _windows(arena, blob, row, y):
        arena[at] = min(max(max(values), op[4]), op[5])


def average_pool(arena, blob, row, y):
    for at, values, op in _windows(arena, blob, row, y):
        shift, m1 = op[24], op[25]
        total = (sum(values) - len(values) * op[1]) * m1
        value = ((total + (1 << (shift - 1))) >> shift) + op[3]
        arena[at] = min(max(value, op[4]), op[5])


def pack(arena, blob, row, y):
    """All rows at once: `y` is 0."""
    op = struct.unpack_from(_ROW, blob, row)
    src, dst, bits = op[18], op[20], op[24]
    size = op[12] * op[13] * op[14]
    each = 8 // bits
    for at in range((size + each - 1) // each):
        value = 0
        for lane in range(each):
            if at * each + lane < size:
                value |= arena[src + at * each + lane] << (lane * bits)
        arena[dst + at] = value


def _windows(arena, blob, row, y):
    """For each output of a pool's row: its place, the values in its window, the operation."""
    op = struct.unpack_from(_ROW, blob, row)
    kh, kw, sy, sx, top, left, h, w, c, _, ow = op[6:17]
    src = op[18]
    at = op[20] + y * ow * c
    rows = range(max(0, y * sy - top), min(h, y * sy - top + kh))
    for ox in range(ow):
        columns = range(max(0, ox * sx - left), min(w, ox * sx - left + kw))
        for channel in range(c):
            values = [arena[src + (iy * w + ix) * c + channel] for iy in rows for ix in columns]
            yield at, values, op
            at += 1


def _gather(window, arena, src, y0, x0, h, w, c, kh, kw, z):
    """The window with its first value at row `y0`, column `x0`; outside lies the zero point."""
    at = 0
    for iy in range(y0, y0 + kh):
        for ix in range(x0, x0 + kw):
            inside = 0 <= iy < h and 0 <= ix < w
            first = src + (iy * w + ix) * c
            for channel in range(c):
                window[at] = arena[first + channel] if inside else z
                at += 1


def _fill_strip(arena, src, scratch, width, y, kh, sy, top, left, h, w, c, z):
    """The input rows of output row `y`, padded: the output may lie over the input behind them."""
    kept = max(0, kh - sy) if y else 0
    for i in range(kept * width):
        arena[scratch + i] = arena[scratch + sy * width + i]
    for r in range(kept, kh):
        iy = y * sy - top + r
        for i in range(width):
            ix = i // c - left
            inside = 0 <= iy < h and 0 <= ix < w
            arena[scratch + r * width + i] = arena[src + (iy * w + ix) * c + i % c] if inside else z


def _requantised(blob, at, total, zo, low, high):
    """By the channel's parameters at `at`."""
    bias, multiplier, drop, shift = struct.unpack_from("<iHBB", blob, at)
    total = min(max((total + bias) >> drop, -_CLIP), _CLIP)
    value = ((total * multiplier + (1 << shift >> 1)) >> shift) + zo
    return min(max(value, low), high)


KERNELS = (None, convolution, depthwise, addition, max_pool, average_pool, pack)
