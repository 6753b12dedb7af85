/* The entropy coder's inner loops.

What they compute is defined by the modules beside this folder: `lanes.py` (the coder),
`conv_context.py` and `table_context.py` (which table an element is coded with). They must agree
with those to the bit, and the tests compare them. Here elements are taken one after the other:
where numpy needs whole fronts to be fast, a loop may skip the zeros, which most latents are.

No header of Python's is needed. Nothing is allocated: memory to work in and for all results comes
from the caller. Sizes, tables and weights were checked when the model was made; of a payload nothing
is: whatever its bits, states stay within 14 bits, symbols within the alphabet, and reading stops at
the end. Compile with -fwrapv: sums of a table context may wrap, as they do in numpy. */

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { STATE_BITS = 14, PRECISION = 12, MAX_LANES = 1024, SEED_LANES = 3 };
enum { LOWEST = 1 << STATE_BITS, SLOTS = 1 << PRECISION, STATE_MASK = LOWEST - 1 };
enum { HIDDEN_LIMIT = 32767, MAX_HIDDEN = 256, MAX_CHANNELS = 512, EIGHTHS = 8, MAX_SCALE = 15 };
enum { MAX_TAPS = 12 };
enum { TAPS = 6, VALUE_BINS = 32, ACTIVITY_BINS = 8, SHIFT = 10 };
enum { DONE = 0, ENDS_TOO_EARLY = 1, ENDS_ELSEWHERE = 2 };

typedef struct {
    int64_t symbols;             /* of the alphabet */
    const uint16_t *frequencies; /* (tables, symbols) */
    const uint16_t *starts;      /* (tables, symbols): sum of the frequencies before */
    const uint8_t *owners;       /* (tables, 4096): whose slot it is */
} Tables;

/* A context laid out for one shape. A front's elements lie in the coding order between two starts;
   those of a convolution come image by image, in each channel by channel. */
typedef struct {
    int64_t fronts, images, channels;
    const int64_t *starts; /* (fronts + 1) */
    const int16_t *centres;
    int64_t convolution; /* else a table context */
    /* a convolution: what is known is (places with margins, channels) */
    int64_t hidden, outputs, taps, shift1, shift2; /* the first two filled up to whole blocks */
    const int16_t *weights1; /* (taps, pairs of channels, hidden, 2) */
    const int32_t *biases1;
    const int16_t *weights2; /* (pairs of hidden, outputs, 2): means, then scales */
    const int32_t *biases2;
    const int64_t *places; /* in coding order: rows of what is known */
    const int64_t *around; /* (places, taps): likewise */
    /* a table context: what is known is in coding order, and a zero behind it */
    const int64_t *neighbours; /* (elements, 6) */
    const int64_t *channel_of; /* (elements) */
    const int32_t *weights;    /* (channels, 2, 6) */
    const int32_t *biases;     /* (channels, 2) */
    const uint8_t *cells;      /* (channels, 8, 32) */
} Plan;

int64_t headtail_rans_version(void) { return 1; }

static inline int32_t clipped(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : value > high ? high : value;
}

/* ---- contexts --------------------------------------------------------------------------------- */

/* Two neighbouring inputs, not both zero. */
typedef struct {
    int64_t row;
    int16_t values[2];
} Term;

/* sums += values x rows of weights (rows, width, 2). Sums stay in registers from the first term to
   the last. */
typedef void Accumulate(int32_t *sums, int64_t width, const Term *terms, int64_t count,
                        const int16_t *weights);

#if defined(__x86_64__)

#define ACCUMULATE(NAME, TARGET, VECTOR, LANES, LOAD, STORE, ALL, ADD, PAIRS)                      \
    TARGET static void NAME(int32_t *sums, int64_t width, const Term *terms, int64_t count,        \
                            const int16_t *weights) {                                              \
        for (int64_t at = 0; at < width; at += 4 * LANES) {                                        \
            VECTOR *into = (VECTOR *)(sums + at);                                                  \
            VECTOR first = LOAD(into), second = LOAD(into + 1), third = LOAD(into + 2),            \
                   fourth = LOAD(into + 3);                                                        \
            for (int64_t term = 0; term < count; term++) {                                         \
                const VECTOR *row =                                                                \
                    (const VECTOR *)(weights + 2 * (terms[term].row * width + at));                \
                int32_t both;                                                                      \
                memcpy(&both, terms[term].values, sizeof both);                                    \
                const VECTOR values = ALL(both);                                                   \
                first = ADD(first, PAIRS(values, LOAD(row)));                                      \
                second = ADD(second, PAIRS(values, LOAD(row + 1)));                                \
                third = ADD(third, PAIRS(values, LOAD(row + 2)));                                  \
                fourth = ADD(fourth, PAIRS(values, LOAD(row + 3)));                                \
            }                                                                                      \
            STORE(into, first), STORE(into + 1, second);                                           \
            STORE(into + 2, third), STORE(into + 3, fourth);                                       \
        }                                                                                          \
    }

ACCUMULATE(accumulate_sse2, , __m128i, 4, _mm_loadu_si128, _mm_storeu_si128, _mm_set1_epi32,
           _mm_add_epi32, _mm_madd_epi16)
ACCUMULATE(accumulate_avx2, __attribute__((target("avx2"))), __m256i, 8, _mm256_loadu_si256,
           _mm256_storeu_si256, _mm256_set1_epi32, _mm256_add_epi32, _mm256_madd_epi16)

static Accumulate *fastest(void) {
    return __builtin_cpu_supports("avx2") ? accumulate_avx2 : accumulate_sse2;
}

#else

static void accumulate_plain(int32_t *sums, int64_t width, const Term *terms, int64_t count,
                             const int16_t *weights) {
    for (int64_t term = 0; term < count; term++) {
        const int16_t *row = weights + 2 * terms[term].row * width;
        const int32_t even = terms[term].values[0], odd = terms[term].values[1];
        for (int64_t at = 0; at < width; at++)
            sums[at] += even * row[2 * at] + odd * row[2 * at + 1];
    }
}

static Accumulate *fastest(void) { return accumulate_plain; }

#endif

static int64_t paired(Term *terms, int64_t count, int64_t row, const int16_t *values,
                      int64_t size) {
    for (int64_t at = 0; at < size; at += 2) {
        const int16_t even = values[at], odd = at + 1 < size ? values[at + 1] : 0;
        if (even | odd)
            terms[count++] = (Term){row + at / 2, {even, odd}};
    }
    return count;
}

/* Means and tables of all channels of one place. */
static void predict(const Plan *plan, Accumulate *accumulate, const int16_t *known,
                    const int64_t *around, int32_t *means, uint8_t *tables) {
    int32_t sums[MAX_HIDDEN], outputs[2 * MAX_CHANNELS];
    int16_t hidden[MAX_HIDDEN];
    Term terms[MAX_TAPS * MAX_CHANNELS / 2];
    const int64_t channels = plan->channels;
    int64_t count = 0;
    for (int64_t tap = 0; tap < plan->taps; tap++)
        count = paired(terms, count, tap * ((channels + 1) / 2), known + around[tap] * channels,
                       channels);
    memcpy(sums, plan->biases1, (size_t)plan->hidden * sizeof *sums);
    accumulate(sums, plan->hidden, terms, count, plan->weights1);
    for (int64_t unit = 0; unit < plan->hidden; unit++) {
        const int32_t value = sums[unit] >> plan->shift1, leaked = value >> 3;
        hidden[unit] = (int16_t)clipped(value > leaked ? value : leaked, -HIDDEN_LIMIT,
                                        HIDDEN_LIMIT);
    }
    count = paired(terms, 0, 0, hidden, plan->hidden);
    memcpy(outputs, plan->biases2, (size_t)plan->outputs * sizeof *outputs);
    accumulate(outputs, plan->outputs, terms, count, plan->weights2);
    for (int64_t channel = 0; channel < channels; channel++) {
        const int32_t mean = outputs[channel] >> plan->shift2;
        const int32_t scale = clipped(outputs[channels + channel] >> plan->shift2, 0, MAX_SCALE);
        means[channel] = mean >> 3;
        tables[channel] = (uint8_t)(scale * EIGHTHS + (mean & (EIGHTHS - 1)));
    }
}

/* The table of one element of a table context. */
static inline int64_t guess(const Plan *plan, const int16_t *known, int64_t element) {
    const int64_t channel = plan->channel_of[element];
    const int64_t *neighbours = plan->neighbours + element * TAPS;
    const int32_t *weights = plan->weights + channel * 2 * TAPS;
    int32_t value = plan->biases[2 * channel], activity = plan->biases[2 * channel + 1];
    for (int tap = 0; tap < TAPS; tap++) {
        const int32_t seen = known[neighbours[tap]];
        value += weights[tap] * seen;
        activity += weights[TAPS + tap] * (seen < 0 ? -seen : seen);
    }
    value = clipped(value >> SHIFT, 0, VALUE_BINS - 1);
    activity = clipped(activity >> SHIFT, 0, ACTIVITY_BINS - 1);
    return plan->cells[(channel * ACTIVITY_BINS + activity) * VALUE_BINS + value];
}

static inline int32_t wrapped(int32_t value, int32_t symbols) {
    if ((uint32_t)value < (uint32_t)symbols)
        return value; /* nearly always, and a division takes long */
    value %= symbols;
    return value < 0 ? value + symbols : value;
}

/* Table and code of each element, in coding order; `known` holds all of them. */
void headtail_rans_survey(const Plan *plan, int64_t symbols, const int16_t *known, int32_t *means,
                          uint8_t *row, uint8_t *chosen, uint8_t *codes) {
    const int64_t channels = plan->channels;
    Accumulate *accumulate = fastest();
    if (!plan->convolution) {
        for (int64_t element = 0; element < plan->starts[plan->fronts]; element++) {
            chosen[element] = (uint8_t)guess(plan, known, element);
            codes[element] = (uint8_t)(known[element] + plan->centres[plan->channel_of[element]]);
        }
        return;
    }
    for (int64_t front = 0; front < plan->fronts; front++) {
        const int64_t first = plan->starts[front];
        const int64_t each = (plan->starts[front + 1] - first) / channels / plan->images;
        for (int64_t place = 0; place < each * plan->images; place++) {
            const int64_t at = first / channels + place;
            const int16_t *own = known + plan->places[at] * channels;
            predict(plan, accumulate, known, plan->around + at * plan->taps, means, row);
            int64_t element = first + place / each * channels * each + place % each;
            for (int64_t channel = 0; channel < channels; channel++, element += each) {
                chosen[element] = row[channel];
                codes[element] = (uint8_t)wrapped(own[channel] - means[channel], (int32_t)symbols);
            }
        }
    }
}

/* ---- encoder ---------------------------------------------------------------------------------- */

static inline int length_of(uint32_t value) { return 32 - __builtin_clz(value); }

/* `bits` has a byte for each bit and is filled from its end: the result begins at the place that
   is returned. `stages` takes how many fronts each number of lanes but the widest took, narrowest
   first. */
int64_t headtail_rans_encode(const Tables *tables, const uint8_t *chosen, const uint8_t *codes,
                             const int64_t *starts, int64_t fronts, uint64_t seed, int64_t lanes,
                             int64_t max_lanes, uint8_t *bits, int64_t size, int64_t *stages,
                             int64_t *doublings) {
    uint32_t states[MAX_LANES];
    int64_t head = size, stage = 0;
    for (int64_t lane = 0; lane < MAX_LANES; lane++)
        states[lane] = LOWEST;
    for (int lane = 0; lane < SEED_LANES; lane++)
        states[lane] += (uint32_t)(seed >> STATE_BITS * lane) & STATE_MASK;
    *doublings = 0;
    for (int64_t front = fronts - 1; front >= 0; front--) {
        const int64_t first = starts[front], last = starts[front + 1];
        if (2 * lanes <= max_lanes && size - head >= lanes * STATE_BITS) {
            for (int64_t lane = lanes; lane < 2 * lanes; lane++) {
                uint32_t state = 0;
                for (int bit = 0; bit < STATE_BITS; bit++)
                    state = state << 1 | bits[head++];
                states[lane] = LOWEST + state;
            }
            stages[(*doublings)++] = stage;
            lanes *= 2, stage = 0;
        }
        for (int64_t low = first + (last - first - 1) / lanes * lanes; low >= first; low -= lanes) {
            const int64_t end = low + lanes < last ? low + lanes : last;
            for (int64_t element = end - 1; element >= low; element--) {
                const int64_t entry = chosen[element] * tables->symbols + codes[element];
                const uint32_t frequency = tables->frequencies[entry];
                uint32_t state = states[element - low];
                /* `most` bits go, or one fewer below the least state that bears `most`. */
                int moved = PRECISION + 1 - length_of(frequency);
                if (state < frequency << (STATE_BITS - PRECISION + moved))
                    moved--;
                for (int bit = 0; bit < moved; bit++)
                    bits[--head] = state >> bit & 1;
                state >>= moved;
                states[element - low] = (state / frequency << PRECISION) + tables->starts[entry] +
                                        state % frequency;
            }
        }
        stage++;
    }
    for (int64_t lane = lanes - 1; lane >= 0; lane--)
        for (int bit = 0; bit < STATE_BITS; bit++)
            bits[--head] = states[lane] >> bit & 1;
    return head;
}

/* ---- decoder ---------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *bytes; /* with four more behind the last bit */
    int64_t size, position;
    int64_t lanes;
    uint32_t states[MAX_LANES]; /* less 2^14 */
} Stream;

/* Up to 15 bits; zeros behind the end, where the position goes on. */
static inline uint32_t taken(Stream *stream, int count) {
    const int64_t at = stream->position;
    stream->position += count;
    if (at > stream->size)
        return 0;
    const uint8_t *bytes = stream->bytes + (at >> 3);
    const uint32_t window = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    return window >> (24 - (at & 7) - count) & ((1u << count) - 1);
}

static inline int64_t code_of(Stream *stream, const Tables *tables, int64_t lane, int64_t table) {
    const uint32_t state = stream->states[lane] + LOWEST, slot = state & (SLOTS - 1);
    const int64_t code = tables->owners[table * SLOTS + slot];
    const int64_t entry = table * tables->symbols + code;
    const uint32_t rest =
        tables->frequencies[entry] * (state >> PRECISION) + slot - tables->starts[entry];
    const int moved = STATE_BITS + 1 - length_of(rest);
    stream->states[lane] = (rest << moved | taken(stream, moved)) - LOWEST;
    return code;
}

/* Ends the upper half of the lanes; their states go back in front of the stream, where there is
   room since more than these were read. */
static void halve(Stream *stream) {
    stream->lanes /= 2;
    int64_t at = stream->position -= stream->lanes * STATE_BITS;
    for (int64_t lane = stream->lanes; lane < 2 * stream->lanes; lane++)
        for (int bit = STATE_BITS - 1; bit >= 0; bit--, at++) {
            const uint8_t mask = (uint8_t)(0x80 >> (at & 7));
            if (stream->states[lane] >> bit & 1)
                stream->bytes[at >> 3] |= mask;
            else
                stream->bytes[at >> 3] &= (uint8_t)~mask;
        }
}

static void take_convolution(const Plan *plan, const Tables *tables, Stream *stream, int64_t front,
                             int16_t *known, int32_t *means, uint8_t *chosen) {
    const int64_t channels = plan->channels, first = plan->starts[front] / channels;
    const int64_t places = plan->starts[front + 1] / channels - first;
    const int64_t each = places / plan->images;
    Accumulate *accumulate = fastest();
    for (int64_t place = 0; place < places; place++)
        predict(plan, accumulate, known, plan->around + (first + place) * plan->taps,
                means + place * channels, chosen + place * channels);
    int64_t lane = 0;
    for (int64_t image = 0; image < plan->images; image++)
        for (int64_t channel = 0; channel < channels; channel++)
            for (int64_t place = image * each; place < (image + 1) * each; place++) {
                const int64_t at = place * channels + channel;
                const int32_t code = (int32_t)code_of(stream, tables, lane, chosen[at]);
                const int32_t centre = plan->centres[channel];
                const int32_t symbol =
                    wrapped(code + means[at] + centre, (int32_t)tables->symbols);
                known[plan->places[first + place] * channels + channel] =
                    (int16_t)(symbol - centre);
                if (++lane == stream->lanes)
                    lane = 0;
            }
}

static void take_table(const Plan *plan, const Tables *tables, Stream *stream, int64_t front,
                       int16_t *known) {
    int64_t lane = 0;
    for (int64_t element = plan->starts[front]; element < plan->starts[front + 1]; element++) {
        const int64_t code = code_of(stream, tables, lane, guess(plan, known, element));
        known[element] = (int16_t)(code - plan->centres[plan->channel_of[element]]);
        if (++lane == stream->lanes)
            lane = 0;
    }
}

/* Fills `known`, which is zero, from the first `size` bits of `bytes`: states, then the stream.
   They are changed. `stages`: how many fronts each number of lanes takes, the widest last.
   `means` and `chosen` are for the largest front. `seed` takes the first three states. */
int64_t headtail_rans_decode(const Plan *plan, const Tables *tables, uint8_t *bytes, int64_t size,
                             int64_t lanes, int64_t *stages, int64_t doublings, int16_t *known,
                             int32_t *means, uint8_t *chosen, uint64_t *seed) {
    Stream stream = {bytes, size, 0, lanes, {0}};
    for (int64_t lane = 0; lane < lanes; lane++)
        stream.states[lane] = taken(&stream, STATE_BITS);
    for (int64_t front = 0; front < plan->fronts; front++) {
        while (stages[doublings] == 0) {
            if (stream.position > size)
                return ENDS_TOO_EARLY;
            halve(&stream);
            doublings--;
        }
        stages[doublings]--;
        if (plan->convolution)
            take_convolution(plan, tables, &stream, front, known, means, chosen);
        else
            take_table(plan, tables, &stream, front, known);
    }
    if (stream.position > size)
        return ENDS_TOO_EARLY;
    *seed = 0;
    for (int64_t lane = 0; lane < stream.lanes; lane++) {
        if (lane < SEED_LANES)
            *seed |= (uint64_t)stream.states[lane] << STATE_BITS * lane;
        else if (stream.states[lane])
            return ENDS_ELSEWHERE;
    }
    if (*seed >> 32 || size - stream.position >= 8)
        return ENDS_ELSEWHERE;
    while (stream.position < size)
        if (taken(&stream, 1))
            return ENDS_ELSEWHERE;
    return DONE;
}
