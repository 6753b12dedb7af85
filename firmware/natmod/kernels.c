// The two kernels that take most of the time, in C, as a native module of MicroPython.
//
// The same operations as in headtail_mcu/kernels_viper.py, which has the others. Each computes
// output row y of the operation whose row of the table lies `row` bytes into the blob; arena and
// blob come as addresses. What the numbers mean is told in models/headtail_models/mcu/program.py;
// headtail_mcu/extents.py has checked that nothing reaches out of its memory.

#include "py/dynruntime.h"

// Neither lies at an aligned address for certain.
typedef struct __attribute__((packed)) {
    uint8_t kind, z_in, z_in2, z_out, low, high;
    uint8_t kernel_h, kernel_w, stride_h, stride_w, top, left;
    uint16_t h, w, c, out_h, out_w, out_c;
    uint32_t src, src2, dst, scratch, data, k, shift, m1, m2, crc;
} op_t;

typedef struct __attribute__((packed)) {
    int32_t bias;
    uint16_t multiplier;
    uint8_t drop, shift;
} channel_t;

// What a kernel works on.
typedef struct {
    const op_t *op;
    const channel_t *channels;
    const uint8_t *source;
    uint8_t *scratch, *out;
    int y;
} work_t;

enum { CLIP = 32767, OFFSET = 128 };

static work_t work_of(const mp_obj_t *args) {
    uint8_t *arena = (uint8_t *)mp_obj_get_int_truncated(args[0]);
    const uint8_t *blob = (const uint8_t *)mp_obj_get_int_truncated(args[1]);
    const op_t *op = (const op_t *)(blob + mp_obj_get_int(args[2]));
    int y = mp_obj_get_int(args[3]);
    work_t work = {
        .op = op,
        .channels = (const channel_t *)(blob + op->data),
        .source = arena + op->src,
        .scratch = arena + op->scratch,
        .out = arena + op->dst + y * op->out_w * op->out_c,
        .y = y,
    };
    return work;
}

static inline int clamped(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

// The output's zero point and its least and highest level.
typedef struct {
    int zero, low, high;
} range_t;

static inline uint8_t level_of(range_t range, const channel_t *channel, int32_t total) {
    total = clamped((total + channel->bias) >> channel->drop, -CLIP, CLIP);
    int shift = channel->shift;
    int32_t level = (total * channel->multiplier + (1 << shift >> 1)) >> shift;
    return clamped(level + range.zero, range.low, range.high);
}

static uint8_t *filled(uint8_t *to, int count, uint8_t value) {
    while (count-- > 0) {
        *to++ = value;
    }
    return to;
}

static uint8_t *copied(uint8_t *to, const uint8_t *from, int count) {
    if ((((uintptr_t)to | (uintptr_t)from) & 3) == 0) {
        for (; count >= 4; count -= 4, to += 4, from += 4) {
            *(uint32_t *)to = *(const uint32_t *)from;
        }
    }
    while (count-- > 0) {
        *to++ = *from++;
    }
    return to;
}

// `columns` pixels of input row y from column x on; outside lies the zero point.
static uint8_t *row_of(uint8_t *to, const work_t *work, int y, int x, int columns) {
    const op_t *op = work->op;
    int begin = clamped(-x, 0, columns), end = clamped(op->w - x, begin, columns);
    if (y < 0 || y >= op->h) {
        begin = end = columns;
    }
    to = filled(to, begin * op->c, op->z_in);
    to = copied(to, work->source + (y * op->w + x + begin) * op->c, (end - begin) * op->c);
    return filled(to, (columns - end) * op->c, op->z_in);
}

// Of one value with a weight of each of four channels.
#define FOUR_PRODUCTS { \
        int32_t value = *at++; \
        a0 += value * *w++; \
        a1 += value * *w1++; \
        a2 += value * *w2++; \
        a3 += value * *w3++; \
}

// All channels of one pixel, whose window is `x`: four at a time, so that each value is loaded once
// for four products. A window has a multiple of 8 values.
static uint8_t *dense(const work_t *work, const uint8_t *x, uint8_t *out) {
    const op_t *op = work->op;
    const channel_t *channel = work->channels;
    const range_t range = {op->z_out, op->low, op->high};
    const int k = op->k;
    const uint8_t *const end = x + k;
    const uint8_t *w = (const uint8_t *)(channel + op->out_c);
    int32_t offset = 0;
    for (const uint8_t *at = x; at < end; ++at) {
        offset -= *at;
    }
    offset *= OFFSET;
    int left = op->out_c;
    for (; left >= 4; left -= 4) {
        const uint8_t *w1 = w + k, *w2 = w1 + k, *w3 = w2 + k;
        int32_t a0 = offset, a1 = offset, a2 = offset, a3 = offset;
        for (const uint8_t *at = x; at < end;) {
            FOUR_PRODUCTS
            FOUR_PRODUCTS
            FOUR_PRODUCTS
            FOUR_PRODUCTS
            FOUR_PRODUCTS
            FOUR_PRODUCTS
            FOUR_PRODUCTS
            FOUR_PRODUCTS
        }
        *out++ = level_of(range, channel++, a0);
        *out++ = level_of(range, channel++, a1);
        *out++ = level_of(range, channel++, a2);
        *out++ = level_of(range, channel++, a3);
        w = w3;
    }
    for (; left > 0; --left) {
        int32_t total = offset;
        for (const uint8_t *at = x; at < end; ++at) {
            total += *at * *w++;
        }
        *out++ = level_of(range, channel++, total);
    }
    return out;
}

static mp_obj_t convolution(size_t count, const mp_obj_t *args) {
    work_t work = work_of(args);
    const op_t *op = work.op;
    bool direct = op->kernel_h == 1 && op->kernel_w == 1 && op->top == 0 && op->left == 0
        && op->c % 8 == 0;
    int y = work.y * op->stride_h - op->top;
    for (int ox = 0; ox < op->out_w; ++ox) {
        int x = ox * op->stride_w - op->left;
        const uint8_t *window = work.scratch;
        if (direct) {
            window = work.source + (y * op->w + x) * op->c;
        } else {
            uint8_t *to = work.scratch;
            for (int ky = 0; ky < op->kernel_h; ++ky) {
                to = row_of(to, &work, y + ky, x, op->kernel_w);
            }
        }
        work.out = dense(&work, window, work.out);
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(convolution_obj, 4, 4, convolution);

// The padded input rows that an output row needs, one below the other. Rows that the last output
// row needed as well move up: the output may lie over the input behind them.
static void fill_strip(const work_t *work, int columns) {
    const op_t *op = work->op;
    int width = columns * op->c;
    int kept = work->y > 0 && op->kernel_h > op->stride_h ? op->kernel_h - op->stride_h : 0;
    uint8_t *to = copied(work->scratch, work->scratch + op->stride_h * width, kept * width);
    for (; kept < op->kernel_h; ++kept) {
        to = row_of(to, work, work->y * op->stride_h - op->top + kept, -op->left, columns);
    }
}

static mp_obj_t depthwise(size_t count, const mp_obj_t *args) {
    work_t work = work_of(args);
    const op_t *op = work.op;
    const int c = op->c, columns = (op->out_w - 1) * op->stride_w + op->kernel_w;
    const int width = columns * c;
    const range_t range = {op->z_out, op->low, op->high};
    const bool plain = op->kernel_h == 3 && op->kernel_w == 3;
    fill_strip(&work, columns);
    for (int ox = 0; ox < op->out_w; ++ox) {
        const uint8_t *pixel = work.scratch + ox * op->stride_w * c;
        const uint8_t *w = (const uint8_t *)(work.channels + c);
        for (int channel = 0; channel < c; ++channel, ++pixel) {
            int32_t total = 0;
            if (plain) {
                const uint8_t *x = pixel;
                #pragma GCC unroll 3
                for (int ky = 0; ky < 3; ++ky, x += width) {
                    total += x[0] * (*w++ - OFFSET);
                    total += x[c] * (*w++ - OFFSET);
                    total += x[2 * c] * (*w++ - OFFSET);
                }
            } else {
                for (int ky = 0; ky < op->kernel_h; ++ky) {
                    for (int kx = 0; kx < op->kernel_w; ++kx) {
                        total += pixel[ky * width + kx * c] * (*w++ - OFFSET);
                    }
                }
            }
            *work.out++ = level_of(range, work.channels + channel, total);
        }
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(depthwise_obj, 4, 4, depthwise);

mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args) {
    MP_DYNRUNTIME_INIT_ENTRY
    mp_store_global(MP_QSTR_convolution, MP_OBJ_FROM_PTR(&convolution_obj));
    mp_store_global(MP_QSTR_depthwise, MP_OBJ_FROM_PTR(&depthwise_obj));
    MP_DYNRUNTIME_INIT_EXIT
}
