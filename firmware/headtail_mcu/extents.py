"""No operation may reach out of the arena or the blob: the viper kernels check nothing."""

import struct

from .errors import HeadError

_CONVOLUTION, _DEPTHWISE, _ADDITION, _MAX_POOL, _AVERAGE_POOL, _PACK = range(1, 7)
_MAX_INNER = 33000


def check(blob, rows, arena, end):
    """Raises HeadError. `end`: of the blob's data."""
    for index, row in enumerate(rows):
        if row + 64 > end:
            raise _damaged(index, "lies outside the blob")
        fields = struct.unpack_from("<12B6H10I", blob, row)
        fault = _fault(fields, arena, end)
        if fault:
            raise _damaged(index, fault)


def _damaged(index, fault):
    return HeadError(f"damaged head: operation {index} {fault}")


def _fault(fields, arena, end):
    kind = fields[0]
    kh, kw, sy, sx, top, left, h, w, c, oh, ow, oc = fields[6:18]
    src, src2, dst, scratch, data, k, shift = fields[18:25]
    source, made = h * w * c, oh * ow * oc
    if not source or not made or not kh * kw * sy * sx or fields[4] > fields[5]:
        return "has an empty shape"
    if src + source > arena or dst + made > arena or (kind == _ADDITION and src2 + source > arena):
        return "reaches out of the arena"
    if kind in (_CONVOLUTION, _DEPTHWISE):
        return _weights_fault(kind, fields, arena, end, data, k, scratch)
    if kind == _PACK:
        return None if shift in (2, 4) and dst <= src else f"packs to {shift} bits"
    if kind not in (_ADDITION, _MAX_POOL, _AVERAGE_POOL):
        return f"is of kind {kind}, which this firmware does not have"
    if oc != c or (kind == _ADDITION and source != made):
        return "changes the number of channels"
    if kind != _ADDITION and not _covers(h, oh, kh, sy, top) & _covers(w, ow, kw, sx, left):
        return "has a window outside its input"
    if kind != _MAX_POOL and not 1 <= shift <= 30:
        return f"shifts by {shift}"
    return None


def _weights_fault(kind, fields, arena, end, data, k, scratch):
    kh, kw, sy, sx, top, left, h, w, c, oh, ow, oc = fields[6:18]
    if not _covers(h, oh, kh, sy, top) & _covers(w, ow, kw, sx, left):
        return "has a window outside its input"
    if kind == _CONVOLUTION:
        inner = kh * kw * c
        fits = k % 8 == 0 and inner <= k < inner + 8 and k <= _MAX_INNER
        direct = kh == kw == 1 and not top + left + c % 8
        room = 0 if direct else k
    else:
        fits = k == kh * kw and oc == c
        room = kh * ((ow - 1) * sx + kw) * c
    if not fits or scratch + room > arena:
        return "needs more scratch than it has"
    if data % 4 or data + oc * (8 + k) > end:
        return "has weights outside the blob"
    return None


def _covers(size, out, kernel, stride, before):
    """Whether every window holds at least one value of the input."""
    return before < kernel and (out - 1) * stride - before < size
