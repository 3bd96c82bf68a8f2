/* random.inc.c - random numbers addressed by position: Philox-4x32-10.
 *
 * Source     Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
 * Key        the 64-bit seed.  Counter: block number (low 64 bits), draw counter (high 64 bits).
 * Operands   i64 [2] (seed, draw counter) -> [n]; element i depends on the two and on i alone.
 *            i64 [3] has a third number, by which all i are larger: a stretch of a longer draw.
 * Split      by groups of 16 blocks of 4 words; word k of block 16 g + j is word 16 k + j of group
 *            g, so that a vector of blocks stores its words in a row.  Group g fills
 *              64 f32, one word each (a normal pair takes words k and k + 1 of one block), or
 *              32 f64 or i64, two words of one block each (a normal pair takes all four).
 * Uniform    k / 2^24 (f32) or k / 2^53 (f64), in [0, 1); the same bits on every machine.
 * Normal     Box-Muller: sqrt(-2 log u) cos 2 pi v and sqrt(-2 log u) sin 2 pi v; |y| < 6.7 (f32)
 *            or 8.6 (f64).  u has 31 or 53 bits, v 32 or 58.
 * Dropout    T x [n], i64 [2] or [3] -> [n]: x / (1 - rate) where element i of the uniform f32 is at least
 *            `rate`, else 0.
 */
#pragma once

#include "kernels/math/family.inc.c"
#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

enum {
    PHILOX_BLOCKS = 16,      /* of one group */
    RANDOM_GROUP_32 = 64,    /* elements of one group, by item size */
    RANDOM_GROUP_64 = 32,
    RANDOM_GRAIN_GROUPS = 256
};

typedef struct { uint32_t word[4 * PHILOX_BLOCKS]; } philox_group; /* word k of block j: 16 k + j */

static const uint64_t philox_block[PHILOX_BLOCKS] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                     8, 9, 10, 11, 12, 13, 14, 15};

/* The low halves of 64-bit lanes. */
static inline void philox_put(uint32_t *word, v_u64 lanes)
{
    typedef uint32_t half __attribute__((vector_size(HYB_VECTOR_BYTES / 2)));
    const half low = __builtin_convertvector(lanes, half);
    memcpy(word, &low, sizeof low);
}

/* The blocks of one group.  Words stand in the low halves of 64-bit lanes, where the products need
 * them; the high halves hold rubbish that nothing reads. */
static inline void philox_words(uint64_t seed, uint64_t draw, int64_t group, philox_group *g)
{
    for (int j = 0; j < PHILOX_BLOCKS; j += 2 * HYB_LANES_64) {
        uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
        v_u64 a[2], b[2], c[2], d[2]; /* two vectors at a time: a round is one long chain */
        for (int t = 0; t < 2; t++) {
            memcpy(&a[t], philox_block + j + t * HYB_LANES_64, sizeof a[t]);
            a[t] += (uint64_t)group * PHILOX_BLOCKS;
            b[t] = a[t] >> 32;
            c[t] = (v_u64){0} + draw;
            d[t] = c[t] >> 32;
        }
        for (int round = 0; round < 10; round++) {
            for (int t = 0; t < 2; t++) {
                const v_u64 p = v_mul_low_u64(a[t], (v_u64){0} + 0xD2511F53u);
                const v_u64 q = v_mul_low_u64(c[t], (v_u64){0} + 0xCD9E8D57u);
                a[t] = (q >> 32) ^ b[t] ^ key0;
                b[t] = q;
                c[t] = (p >> 32) ^ d[t] ^ key1;
                d[t] = p;
            }
            key0 += 0x9E3779B9u;
            key1 += 0xBB67AE85u;
        }
        for (int t = 0; t < 2; t++) {
            uint32_t *word = g->word + j + t * HYB_LANES_64;
            philox_put(word, a[t]);
            philox_put(word + PHILOX_BLOCKS, b[t]);
            philox_put(word + 2 * PHILOX_BLOCKS, c[t]);
            philox_put(word + 3 * PHILOX_BLOCKS, d[t]);
        }
    }
}

/* 53 random bits as an integer below 2^53, exactly; 32-bit halves convert fast everywhere. */
static inline double random_53(uint32_t high, uint32_t low)
{
    return (double)(int32_t)(high >> 5) * 67108864.0 + (double)(int32_t)(low >> 6);
}

static inline void random_bits_group(const philox_group *g, int64_t *y)
{
    for (int half = 0; half < 2; half++, y += PHILOX_BLOCKS) {
        const uint32_t *low = g->word + 2 * half * PHILOX_BLOCKS, *high = low + PHILOX_BLOCKS;
#pragma GCC unroll 1 /* taken apart, the loop would no longer vectorise */
        for (int j = 0; j < PHILOX_BLOCKS; j++)
            y[j] = (int64_t)(low[j] | (uint64_t)high[j] << 32);
    }
}

static inline void random_uniform_f32_group(const philox_group *g, float *y)
{
    for (int i = 0; i < RANDOM_GROUP_32; i++)
        y[i] = (float)(int32_t)(g->word[i] >> 8) * 0x1p-24f;
}

static inline void random_uniform_f64_group(const philox_group *g, double *y)
{
    for (int half = 0; half < 2; half++, y += PHILOX_BLOCKS) {
        const uint32_t *high = g->word + 2 * half * PHILOX_BLOCKS, *low = high + PHILOX_BLOCKS;
#pragma GCC unroll 1
        for (int j = 0; j < PHILOX_BLOCKS; j++)
            y[j] = random_53(high[j], low[j]) * 0x1p-53;
    }
}

/* The radius' uniform has 31 bits and half a step, so that it is never 0 and the tail is long; the
 * angle's word is a quadrant and what is left of it, exactly. */
static inline void random_normal_f32_group(const philox_group *g, float *y)
{
    for (int pair = 0; pair < 4; pair += 2)
        for (int j = 0; j < PHILOX_BLOCKS; j += HYB_LANES_32) {
            const uint32_t *word = g->word + pair * PHILOX_BLOCKS + j;
            float *first = y + pair * PHILOX_BLOCKS + j;
            v_u32 length, turn;
            memcpy(&length, word, sizeof length);
            memcpy(&turn, word + PHILOX_BLOCKS, sizeof turn);
            const v_f32 u = __builtin_convertvector((v_i32)(length >> 1), v_f32) + 0.5f;
            const v_f32 radius = v_sqrt_f32(v_log_f32(u * 0x1p-31f) * -2.0f);
            const v_u32 quadrant = (turn + (1u << 29)) >> 30;
            const v_i32 rest = (v_i32)(turn - (quadrant << 30));
            const v_f32 angle =
                __builtin_convertvector(rest, v_f32) * (1.57079632679489661923f * 0x1p-30f);
            v_store_f32(first, radius * v_sin_or_cos_f32(angle, (v_i32)quadrant + 1));
            v_store_f32(first + PHILOX_BLOCKS, radius * v_sin_or_cos_f32(angle, (v_i32)quadrant));
        }
}

static inline void random_normal_f64_group(const philox_group *g, double *y)
{
    double u[PHILOX_BLOCKS], angle[PHILOX_BLOCKS];
    int64_t quadrant[PHILOX_BLOCKS];
#pragma GCC unroll 1
    for (int j = 0; j < PHILOX_BLOCKS; j++) {
        const uint32_t turn = g->word[2 * PHILOX_BLOCKS + j];
        u[j] = (random_53(g->word[j], g->word[PHILOX_BLOCKS + j]) + 1.0) * 0x1p-53;
        quadrant[j] = (turn + (1u << 29)) >> 30;
        angle[j] = (double)(int32_t)(turn - ((turn + (1u << 29)) >> 30 << 30)) * 0x1p26 +
                   (double)(int32_t)(g->word[3 * PHILOX_BLOCKS + j] >> 6);
    }
    for (int j = 0; j < PHILOX_BLOCKS; j += HYB_LANES_64) {
        const v_f64 radius = v_sqrt_f64(v_log_f64(v_load_f64(u + j)) * -2.0);
        const v_f64 rest = v_load_f64(angle + j) * (1.57079632679489661923 * 0x1p-56);
        const v_i64 q = v_load_i64(quadrant + j);
        v_store_f64(y + j, radius * v_sin_or_cos_f64(rest, q + 1));
        v_store_f64(y + PHILOX_BLOCKS + j, radius * v_sin_or_cos_f64(rest, q));
    }
}

/* The number of the first element, where operand `index` is a state that tells it. */
static inline uint64_t random_first(const hyb_call *call, int index)
{
    return call->layout[index].shape[0] == 3 ? ((const uint64_t *)call->data[index])[2] : 0;
}

/* Operand `index` is a state. */
static hyb_status require_state(const hyb_call *call, int index)
{
    const hyb_status status = require_dense(call, index, HYB_I64, 1);
    if (status != HYB_OK || call->layout[index].shape[0] == 3)
        return status;
    return require_size(call, index, 0, 2);
}

/* Whole groups are made in place; the last, cut short, beside it, and so are those that lie across
 * two groups of the longer draw that they are of. */
#define RANDOM_KERNEL(name, T, GROUP)                                                            \
    HYB_KERNEL(name)                                                                             \
    {                                                                                            \
        const int64_t n = call->layout[1].shape[0], *state = call->data[0];                      \
        const uint64_t seed = (uint64_t)state[0], draw = (uint64_t)state[1];                     \
        const uint64_t first = random_first(call, 0);                                            \
        const int64_t before = (int64_t)(first / GROUP), skip = (int64_t)(first % GROUP);        \
        for (int64_t group = begin; group < end; group++) {                                      \
            T *y = (T *)call->data[1] + group * GROUP, found[2 * GROUP];                         \
            const int64_t left = n - group * GROUP, count = left < GROUP ? left : GROUP;         \
            const bool whole = count == GROUP && skip == 0;                                      \
            for (int64_t part = 0; part <= (skip != 0); part++) {                                \
                philox_group words;                                                              \
                philox_words(seed, draw, before + group + part, &words);                         \
                name##_group(&words, (whole ? y : found) + part * GROUP);                        \
            }                                                                                    \
            if (!whole)                                                                          \
                memcpy(y, found + skip, (size_t)count * sizeof(T));                              \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }

RANDOM_KERNEL(random_bits, int64_t, RANDOM_GROUP_64)
RANDOM_KERNEL(random_uniform_f32, float, RANDOM_GROUP_32)
RANDOM_KERNEL(random_uniform_f64, double, RANDOM_GROUP_64)
RANDOM_KERNEL(random_normal_f32, float, RANDOM_GROUP_32)
RANDOM_KERNEL(random_normal_f64, double, RANDOM_GROUP_64)

static hyb_status random_prepare(const hyb_call *call, int32_t dtype, int64_t group,
                                 hyb_range *range)
{
    hyb_status status;
    if ((status = require_state(call, 0)) != HYB_OK ||
        (status = require_dense(call, 1, dtype, 1)) != HYB_OK)
        return status;
    const int64_t n = call->layout[1].shape[0];
    *range = (hyb_range){(n + group - 1) / group, RANDOM_GRAIN_GROUPS};
    return HYB_OK;
}

HYB_PREPARE(prepare_random_f32) { return random_prepare(call, HYB_F32, RANDOM_GROUP_32, range); }
HYB_PREPARE(prepare_random_f64) { return random_prepare(call, HYB_F64, RANDOM_GROUP_64, range); }
HYB_PREPARE(prepare_random_i64) { return random_prepare(call, HYB_I64, RANDOM_GROUP_64, range); }

#define DROPOUT_KERNEL(name, T, dtype)                                                           \
    HYB_KERNEL(dropout_##name)                                                                   \
    {                                                                                            \
        const int64_t n = call->layout[0].shape[0], *state = call->data[1];                      \
        const double all = call->attrs[0].f;                                                     \
        const float rate = (float)all;                                                           \
        const T scale = (T)(1.0 / (1.0 - all));                                                  \
        const uint64_t first = random_first(call, 1), seed = (uint64_t)state[0];                 \
        const int64_t before = (int64_t)(first / RANDOM_GROUP_32);                               \
        const int64_t skip = (int64_t)(first % RANDOM_GROUP_32);                                 \
        for (int64_t group = begin; group < end; group++) {                                      \
            const T *x = (const T *)call->data[0] + group * RANDOM_GROUP_32;                     \
            T *y = (T *)call->data[2] + group * RANDOM_GROUP_32;                                 \
            const int64_t left = n - group * RANDOM_GROUP_32;                                    \
            const int64_t count = left < RANDOM_GROUP_32 ? left : RANDOM_GROUP_32;               \
            float found[2 * RANDOM_GROUP_32], *drawn = found + skip;                             \
            for (int64_t part = 0; part <= (skip != 0); part++) {                                \
                philox_group words;                                                              \
                philox_words(seed, (uint64_t)state[1], before + group + part, &words);           \
                random_uniform_f32_group(&words, found + part * RANDOM_GROUP_32);                \
            }                                                                                    \
            for (int64_t i = 0; i < count; i++) {                                                \
                const T scaled = x[i] * scale;                                                   \
                y[i] = drawn[i] >= rate ? scaled : 0;                                            \
            }                                                                                    \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }                                                                                            \
    HYB_PREPARE(prepare_dropout_##name)                                                          \
    {                                                                                            \
        hyb_status status;                                                                       \
        if ((status = require_dense(call, 0, dtype, 1)) != HYB_OK ||                             \
            (status = require_state(call, 1)) != HYB_OK ||                                       \
            (status = require_dense(call, 2, dtype, 1)) != HYB_OK ||                             \
            (status = require_size(call, 2, 0, call->layout[0].shape[0])) != HYB_OK)             \
            return status;                                                                       \
        const int64_t groups = (call->layout[0].shape[0] + RANDOM_GROUP_32 - 1) / RANDOM_GROUP_32; \
        *range = (hyb_range){groups, RANDOM_GRAIN_GROUPS};                                       \
        return HYB_OK;                                                                           \
    }

DROPOUT_KERNEL(f32, float, HYB_F32)
DROPOUT_KERNEL(f64, double, HYB_F64)

#define DROPOUT_ROW(name, dtype) \
    HYB_TABLE_ROW(dropout, dtype, 2, 1, 1, HYB_PLAIN, prepare_dropout_##name, dropout_##name)
#define RANDOM_ROW(kernel, name) \
    HYB_TABLE_ROW(kernel, HYB_I64, 1, 1, 0, HYB_PLAIN, prepare_random_##name, kernel)

const hyb_kernel HYB_SYM(hyb_random_kernels)[] = {
    RANDOM_ROW(random_uniform_f32, f32)
    RANDOM_ROW(random_uniform_f64, f64)
    RANDOM_ROW(random_normal_f32, f32)
    RANDOM_ROW(random_normal_f64, f64)
    RANDOM_ROW(random_bits, i64)
    DROPOUT_ROW(f32, HYB_F32)
    DROPOUT_ROW(f64, HYB_F64)
    {0},
};
