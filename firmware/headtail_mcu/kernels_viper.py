"""The kernels in viper: machine code that MicroPython makes, on addresses instead of objects.

The same operations as `kernels_py`. Rules that make them fast and right on every port:

* The first three locals live in registers, so the parameters bear the names of what is hot. They
  arrive as the arena's address, the blob's address and the row's place in the blob.
* Values and weights lie with an offset of 128, so a byte load needs no sign.
* 32-bit numbers with a sign are put together from two halves: ptr32 loads are without sign on
  64-bit ports. No unary minus, no store to a computed index of ptr16 or ptr32 (both were
  miscompiled by MicroPython 1.26 and 1.27 on Thumb).
* No assignment to several names at once: it makes a tuple of objects.
"""

import micropython
import uctypes


def handles(arena, blob):
    """What the kernels take for the arena and the blob; whoever calls keeps both alive."""
    return uctypes.addressof(arena), uctypes.addressof(blob)


@micropython.viper
def gather(x: int, w: int, acc: int, y: int):
    """A window to `x`, with the zero point for what lies outside: `w` is the operation's row, `acc`
    where the window's first line begins, `y` the output's line and, above 16 bits, its column."""
    b = ptr8(w)
    h = ptr16(w)
    columns = h[7]
    c = h[8]
    pixel = acc
    left = (y >> 16) * b[9] - b[11]
    iy = (y & 0xFFFF) * b[8] - b[10]
    ky = 0
    while ky < b[6]:
        skip = b[7]
        stop = b[7]
        if iy >= 0:
            if iy < h[6]:
                skip = 0
                if left < 0:
                    skip = 0 - left
                    if skip > b[7]:
                        skip = b[7]
                if left + stop > columns:
                    stop = columns - left
                    if stop < skip:
                        stop = skip
        w = x + skip * c
        while x < w:
            ptr8(x)[0] = b[1]
            x += 1
        w = pixel + (ky * columns + left + skip) * c
        acc = (stop - skip) * c
        while acc > 0:
            ptr8(x)[0] = ptr8(w)[0]
            x += 1
            w += 1
            acc -= 1
        w = x + (b[7] - stop) * c
        while x < w:
            ptr8(x)[0] = b[1]
            x += 1
        ky += 1
        iy += 1


@micropython.viper
def convolution(acc: int, x: int, w: int, y: int):
    row = x + w
    b = ptr8(row)
    h = ptr16(row)
    u = ptr32(row)
    columns = h[7]
    c = h[8]
    out_w = h[10]
    out_c = h[11]
    step = b[9] * c
    k = u[11]
    pixel = acc + u[6] + (y * b[8] - b[10]) * columns * c
    out = acc + u[8] + y * out_w * out_c
    scratch = acc + u[9]
    params = x + u[10]
    weights = params + 8 * out_c
    direct = int(b[6] == 1) & int(b[7] == 1) & int(b[10] == 0) & int(b[11] == 0) & int(c & 7 == 0)
    z_out = b[3]
    low = b[4]
    high = b[5]
    ox = 0
    while ox < out_w:
        start = pixel + ox * step
        if not direct:
            gather(scratch, row, pixel, y | ox << 16)
            start = scratch
        end = start + k
        acc = 0
        x = start
        while x < end:
            acc += ptr8(x)[0] + ptr8(x)[1] + ptr8(x)[2] + ptr8(x)[3]
            acc += ptr8(x)[4] + ptr8(x)[5] + ptr8(x)[6] + ptr8(x)[7]
            x += 8
        total = acc << 7
        w = weights
        p = params
        channel = out_c
        while channel > 0:
            acc = 0
            x = start
            while x < end:
                acc += ptr8(x)[0] * ptr8(w)[0]
                acc += ptr8(x)[1] * ptr8(w)[1]
                acc += ptr8(x)[2] * ptr8(w)[2]
                acc += ptr8(x)[3] * ptr8(w)[3]
                acc += ptr8(x)[4] * ptr8(w)[4]
                acc += ptr8(x)[5] * ptr8(w)[5]
                acc += ptr8(x)[6] * ptr8(w)[6]
                acc += ptr8(x)[7] * ptr8(w)[7]
                x += 8
                w += 8
            x = p
            acc += ptr16(x)[0] + (((ptr16(x)[1] ^ 0x8000) - 0x8000) << 16) - total
            acc >>= ptr8(x)[6]
            if acc > 32767:
                acc = 32767
            if acc < -32767:
                acc = -32767
            acc = ((acc * ptr16(x)[2] + ((1 << ptr8(x)[7]) >> 1)) >> ptr8(x)[7]) + z_out
            if acc < low:
                acc = low
            if acc > high:
                acc = high
            ptr8(out)[0] = acc
            out += 1
            p = x + 8
            channel -= 1
        ox += 1


@micropython.viper
def fill_strip(acc: int, x: int, w: int, y: int):
    """The padded input rows that an output row of a depthwise layer needs, one below the other."""
    row = x + w
    b = ptr8(row)
    h = ptr16(row)
    u = ptr32(row)
    columns = h[7]
    c = h[8]
    out_w = h[10]
    width = ((out_w - 1) * b[9] + b[7]) * c
    strip = acc + u[9]
    source = acc + u[6]
    # Rows that the last output row needed as well move up; the others are fetched, padded.
    kept = 0
    if y > 0:
        if b[6] > b[8]:
            kept = b[6] - b[8]
    x = strip
    w = strip + b[8] * width
    acc = kept * width
    if (x | w | acc) & 3 == 0:
        while acc > 0:
            ptr32(x)[0] = ptr32(w)[0]
            x += 4
            w += 4
            acc -= 4
    while acc > 0:
        ptr8(x)[0] = ptr8(w)[0]
        x += 1
        w += 1
        acc -= 1
    while kept < b[6]:
        iy = y * b[8] - b[10] + kept
        rest = x + width
        if iy >= 0:
            if iy < h[6]:
                acc = b[11] * c
                while acc > 0:
                    ptr8(x)[0] = b[1]
                    x += 1
                    acc -= 1
                w = source + iy * columns * c
                acc = columns * c
                if acc > rest - x:
                    acc = rest - x
                if (x | w | acc) & 3 == 0:
                    while acc > 0:
                        ptr32(x)[0] = ptr32(w)[0]
                        x += 4
                        w += 4
                        acc -= 4
                while acc > 0:
                    ptr8(x)[0] = ptr8(w)[0]
                    x += 1
                    w += 1
                    acc -= 1
        while x < rest:
            ptr8(x)[0] = b[1]
            x += 1
        kept += 1


@micropython.viper
def depthwise(acc: int, x: int, w: int, y: int):
    fill_strip(acc, x, w, y)
    row = x + w
    b = ptr8(row)
    h = ptr16(row)
    u = ptr32(row)
    c = h[8]
    out_w = h[10]
    width = ((out_w - 1) * b[9] + b[7]) * c
    strip = acc + u[9]
    out = acc + u[8] + y * out_w * c
    params = x + u[10]
    plain = int(b[6] == 3) & int(b[7] == 3)
    skip = width - 2 * c
    z_out = b[3]
    low = b[4]
    high = b[5]
    ox = 0
    while ox < out_w:
        w = params + 8 * c
        p = params
        pixel = strip + ox * b[9] * c
        end = pixel + c
        while pixel < end:
            x = pixel
            if plain:
                acc = ptr8(x)[0] * (ptr8(w)[0] - 128)
                x += c
                acc += ptr8(x)[0] * (ptr8(w)[1] - 128)
                x += c
                acc += ptr8(x)[0] * (ptr8(w)[2] - 128)
                x += skip
                acc += ptr8(x)[0] * (ptr8(w)[3] - 128)
                x += c
                acc += ptr8(x)[0] * (ptr8(w)[4] - 128)
                x += c
                acc += ptr8(x)[0] * (ptr8(w)[5] - 128)
                x += skip
                acc += ptr8(x)[0] * (ptr8(w)[6] - 128)
                x += c
                acc += ptr8(x)[0] * (ptr8(w)[7] - 128)
                x += c
                acc += ptr8(x)[0] * (ptr8(w)[8] - 128)
                w += 9
            else:
                acc = 0
                ky = b[6]
                while ky > 0:
                    kx = b[7]
                    while kx > 0:
                        acc += ptr8(x)[0] * (ptr8(w)[0] - 128)
                        x += c
                        w += 1
                        kx -= 1
                    x += width - b[7] * c
                    ky -= 1
            x = p
            acc += ptr16(x)[0] + (((ptr16(x)[1] ^ 0x8000) - 0x8000) << 16)
            acc >>= ptr8(x)[6]
            if acc > 32767:
                acc = 32767
            if acc < -32767:
                acc = -32767
            acc = ((acc * ptr16(x)[2] + ((1 << ptr8(x)[7]) >> 1)) >> ptr8(x)[7]) + z_out
            if acc < low:
                acc = low
            if acc > high:
                acc = high
            ptr8(out)[0] = acc
            out += 1
            p = x + 8
            pixel += 1
        ox += 1


@micropython.viper
def addition(acc: int, x: int, w: int, y: int):
    row = x + w
    b = ptr8(row)
    h = ptr16(row)
    u = ptr32(row)
    size = h[10] * h[11]
    shift = u[12]
    m1 = u[13]
    m2 = u[14]
    z = b[1]
    z2 = b[2]
    z_out = b[3]
    low = b[4]
    high = b[5]
    half = (1 << shift) >> 1
    out = acc + u[8] + y * size
    x = acc + u[6] + y * size
    w = acc + u[7] + y * size
    end = x + size
    while x < end:
        acc = (ptr8(x)[0] - z) * m1 + (ptr8(w)[0] - z2) * m2 + half
        acc = (acc >> shift) + z_out
        if acc < low:
            acc = low
        if acc > high:
            acc = high
        ptr8(out)[0] = acc
        out += 1
        x += 1
        w += 1


@micropython.viper
def max_pool(acc: int, x: int, w: int, y: int):
    row = x + w
    b = ptr8(row)
    h = ptr16(row)
    u = ptr32(row)
    columns = h[7]
    c = h[8]
    out_w = h[10]
    source = acc + u[6]
    out = acc + u[8] + y * out_w * c
    top = y * b[8] - b[10]
    bottom = top + b[6]
    if top < 0:
        top = 0
    if bottom > h[6]:
        bottom = int(h[6])
    ox = 0
    while ox < out_w:
        left = ox * b[9] - b[11]
        right = left + b[7]
        if left < 0:
            left = 0
        if right > columns:
            right = columns
        channel = 0
        while channel < c:
            acc = 0
            iy = top
            while iy < bottom:
                x = source + (iy * columns + left) * c + channel
                w = x + (right - left) * c
                while x < w:
                    if ptr8(x)[0] > acc:
                        acc = ptr8(x)[0]
                    x += c
                iy += 1
            if acc < b[4]:
                acc = b[4]
            if acc > b[5]:
                acc = b[5]
            ptr8(out)[0] = acc
            out += 1
            channel += 1
        ox += 1


@micropython.viper
def average_pool(acc: int, x: int, w: int, y: int):
    row = x + w
    b = ptr8(row)
    h = ptr16(row)
    u = ptr32(row)
    columns = h[7]
    c = h[8]
    out_w = h[10]
    shift = u[12]
    m1 = u[13]
    source = acc + u[6]
    out = acc + u[8] + y * out_w * c
    top = y * b[8] - b[10]
    bottom = top + b[6]
    if top < 0:
        top = 0
    if bottom > h[6]:
        bottom = int(h[6])
    ox = 0
    while ox < out_w:
        left = ox * b[9] - b[11]
        right = left + b[7]
        if left < 0:
            left = 0
        if right > columns:
            right = columns
        zeros = (bottom - top) * (right - left) * b[1]
        channel = 0
        while channel < c:
            acc = 0
            iy = top
            while iy < bottom:
                x = source + (iy * columns + left) * c + channel
                w = x + (right - left) * c
                while x < w:
                    acc += ptr8(x)[0]
                    x += c
                iy += 1
            acc = (((acc - zeros) * m1 + ((1 << shift) >> 1)) >> shift) + b[3]
            if acc < b[4]:
                acc = b[4]
            if acc > b[5]:
                acc = b[5]
            ptr8(out)[0] = acc
            out += 1
            channel += 1
        ox += 1


@micropython.viper
def pack(acc: int, x: int, w: int, y: int):
    row = x + w
    h = ptr16(row)
    u = ptr32(row)
    bits = u[12]
    x = acc + u[6]
    w = acc + u[8]
    end = x + h[6] * h[7] * h[8]
    while x < end:
        acc = 0
        shift = 0
        while shift < 8:
            if x < end:
                acc |= ptr8(x)[0] << shift
            x += 1
            shift += bits
        ptr8(w)[0] = acc
        w += 1


KERNELS = (None, convolution, depthwise, addition, max_pool, average_pool, pack)
