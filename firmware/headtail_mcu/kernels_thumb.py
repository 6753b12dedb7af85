"""The two kernels that take most of the time, in assembler for ARM's Thumb (v6-M and later).

The same operations as `kernels_viper`, which has the others: viper prepares an output row, pixel by
pixel, and the assembler computes all channels of one. Only low registers and instructions of v6-M;
32-bit numbers that the blob holds are read by halves, since it may lie at any even address.

The ends of both functions are alike, since the assembler has no macros and a call would cost more.

State: 0 end of the window, 4 its start, 8 output, 12 channels left, 16 what is taken off the sum,
20 zero point, 24 least, 28 most, 32 the largest of 16 bits, 36 way from one line to the next.
"""

from array import array

import micropython
import uctypes

from . import kernels_viper

handles = kernels_viper.handles
_kept = array("i", bytes(48))
_STATE = uctypes.addressof(_kept)


@micropython.asm_thumb
def _dense(r0, r1, r2, r3):
    # r1 weights, r2 parameters, r3 state; the window's length is a multiple of 8.
    mov(r6, r2)
    mov(r7, r3)
    label(CHANNEL)
    ldr(r0, [r7, 4])
    ldr(r3, [r7, 0])
    mov(r2, 0)
    label(TAPS)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 0])
    mul(r4, r5)
    add(r2, r2, r4)
    ldrb(r4, [r0, 1])
    ldrb(r5, [r1, 1])
    mul(r4, r5)
    add(r2, r2, r4)
    ldrb(r4, [r0, 2])
    ldrb(r5, [r1, 2])
    mul(r4, r5)
    add(r2, r2, r4)
    ldrb(r4, [r0, 3])
    ldrb(r5, [r1, 3])
    mul(r4, r5)
    add(r2, r2, r4)
    ldrb(r4, [r0, 4])
    ldrb(r5, [r1, 4])
    mul(r4, r5)
    add(r2, r2, r4)
    ldrb(r4, [r0, 5])
    ldrb(r5, [r1, 5])
    mul(r4, r5)
    add(r2, r2, r4)
    ldrb(r4, [r0, 6])
    ldrb(r5, [r1, 6])
    mul(r4, r5)
    add(r2, r2, r4)
    ldrb(r4, [r0, 7])
    ldrb(r5, [r1, 7])
    mul(r4, r5)
    add(r2, r2, r4)
    add(r0, 8)
    add(r1, 8)
    cmp(r0, r3)
    bcc(TAPS)
    # Less what the offset of the weights adds, plus the bias.
    ldr(r4, [r7, 16])
    sub(r2, r2, r4)
    ldrh(r4, [r6, 2])
    lsl(r4, r4, 16)
    add(r2, r2, r4)
    ldrh(r4, [r6, 0])
    add(r2, r2, r4)
    # To 16 bits, by the factor, to the output's scale.
    ldrb(r4, [r6, 6])
    asr(r2, r4)
    ldr(r5, [r7, 32])
    cmp(r2, r5)
    ble(BELOW)
    mov(r2, r5)
    label(BELOW)
    neg(r5, r5)
    cmp(r2, r5)
    bge(ABOVE)
    mov(r2, r5)
    label(ABOVE)
    ldrh(r4, [r6, 4])
    mul(r2, r4)
    ldrb(r4, [r6, 7])
    mov(r5, 1)
    lsl(r5, r4)
    lsr(r5, r5, 1)
    add(r2, r2, r5)
    asr(r2, r4)
    ldr(r4, [r7, 20])
    add(r2, r2, r4)
    ldr(r4, [r7, 24])
    cmp(r2, r4)
    bge(LOW)
    mov(r2, r4)
    label(LOW)
    ldr(r4, [r7, 28])
    cmp(r2, r4)
    ble(HIGH)
    mov(r2, r4)
    label(HIGH)
    ldr(r5, [r7, 8])
    strb(r2, [r5, 0])
    add(r5, 1)
    str(r5, [r7, 8])
    add(r6, 8)
    ldr(r4, [r7, 12])
    sub(r4, 1)
    str(r4, [r7, 12])
    cmp(r4, 0)
    bne(CHANNEL)


@micropython.asm_thumb
def _depthwise_3x3(r0, r1, r2, r3):
    # r0 the window's first pixel, r1 weights, r2 parameters, r3 state, of which 36 is the way from
    # pixel to pixel and 40 that from a line's last pixel to the next line's first.
    mov(r6, r2)
    mov(r7, r3)
    ldr(r3, [r7, 36])
    label(CHANNEL)
    str(r0, [r7, 4])
    ldrb(r2, [r0, 0])
    ldrb(r5, [r1, 0])
    sub(r5, 128)
    mul(r2, r5)
    add(r0, r0, r3)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 1])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    add(r0, r0, r3)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 2])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    ldr(r4, [r7, 40])
    add(r0, r0, r4)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 3])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    add(r0, r0, r3)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 4])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    add(r0, r0, r3)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 5])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    ldr(r4, [r7, 40])
    add(r0, r0, r4)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 6])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    add(r0, r0, r3)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 7])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    add(r0, r0, r3)
    ldrb(r4, [r0, 0])
    ldrb(r5, [r1, 8])
    sub(r5, 128)
    mul(r4, r5)
    add(r2, r2, r4)
    add(r1, 9)
    ldrh(r4, [r6, 2])
    lsl(r4, r4, 16)
    add(r2, r2, r4)
    ldrh(r4, [r6, 0])
    add(r2, r2, r4)
    ldrb(r4, [r6, 6])
    asr(r2, r4)
    ldr(r5, [r7, 32])
    cmp(r2, r5)
    ble(BELOW)
    mov(r2, r5)
    label(BELOW)
    neg(r5, r5)
    cmp(r2, r5)
    bge(ABOVE)
    mov(r2, r5)
    label(ABOVE)
    ldrh(r4, [r6, 4])
    mul(r2, r4)
    ldrb(r4, [r6, 7])
    mov(r5, 1)
    lsl(r5, r4)
    lsr(r5, r5, 1)
    add(r2, r2, r5)
    asr(r2, r4)
    ldr(r4, [r7, 20])
    add(r2, r2, r4)
    ldr(r4, [r7, 24])
    cmp(r2, r4)
    bge(LOW)
    mov(r2, r4)
    label(LOW)
    ldr(r4, [r7, 28])
    cmp(r2, r4)
    ble(HIGH)
    mov(r2, r4)
    label(HIGH)
    ldr(r5, [r7, 8])
    strb(r2, [r5, 0])
    add(r5, 1)
    str(r5, [r7, 8])
    add(r6, 8)
    ldr(r0, [r7, 4])
    add(r0, 1)
    ldr(r4, [r7, 12])
    sub(r4, 1)
    str(r4, [r7, 12])
    cmp(r4, 0)
    beq(DONE)
    b(CHANNEL)
    label(DONE)


@micropython.viper
def convolution(acc: int, x: int, w: int, y: int):
    row = x + w
    b = ptr8(row)
    h = ptr16(row)
    u = ptr32(row)
    c = h[8]
    out_w = h[10]
    out_c = h[11]
    k = u[11]
    pixel = acc + u[6] + (y * b[8] - b[10]) * h[7] * c
    scratch = acc + u[9]
    params = x + u[10]
    direct = int(b[6] == 1) & int(b[7] == 1) & int(b[10] == 0) & int(b[11] == 0) & int(c & 7 == 0)
    state = ptr32(int(_STATE))
    state[2] = acc + u[8] + y * out_w * out_c
    state[5] = b[3]
    state[6] = b[4]
    state[7] = b[5]
    state[8] = 32767
    ox = 0
    while ox < out_w:
        start = pixel + ox * b[9] * c
        if not direct:
            kernels_viper.gather(scratch, row, pixel, y | ox << 16)
            start = scratch
        acc = 0
        x = start
        w = start + k
        while x < w:
            acc += ptr8(x)[0] + ptr8(x)[1] + ptr8(x)[2] + ptr8(x)[3]
            acc += ptr8(x)[4] + ptr8(x)[5] + ptr8(x)[6] + ptr8(x)[7]
            x += 8
        state[0] = w
        state[1] = start
        state[3] = out_c
        state[4] = acc << 7
        _dense(0, params + 8 * out_c, params, state)
        ox += 1


@micropython.viper
def depthwise(acc: int, x: int, w: int, y: int):
    row = x + w
    b = ptr8(row)
    if b[6] != 3 or b[7] != 3:
        kernels_viper.depthwise(acc, x, w, y)
        return
    kernels_viper.fill_strip(acc, x, w, y)
    h = ptr16(row)
    u = ptr32(row)
    c = h[8]
    out_w = h[10]
    state = ptr32(int(_STATE))
    state[2] = acc + u[8] + y * out_w * c
    state[5] = b[3]
    state[6] = b[4]
    state[7] = b[5]
    state[8] = 32767
    state[9] = c
    state[10] = ((out_w - 1) * b[9] + 1) * c
    params = x + u[10]
    pixel = acc + u[9]
    ox = 0
    while ox < out_w:
        state[3] = c
        _depthwise_3x3(pixel + ox * b[9] * c, params + 8 * c, params, state)
        ox += 1


KERNELS = (None, convolution, depthwise) + kernels_viper.KERNELS[3:]
