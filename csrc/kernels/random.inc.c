/* random.inc.c - random numbers addressed by position: Philox-4x32-10.
 *
 * Source     Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
 * Key        the 64-bit seed.  Counter: block number (low 64 bits), draw counter (high 64 bits).
 * Operands   i64 [2] (seed, draw counter) -> [n]; element i depends on (seed, draw counter, i) alone.
 * Split      by groups of 16 blocks of 4 words; word k of block 16 g + j is word 16 k + j of group g, so
 *            that a vector of blocks stores its words in a row.  Group g fills
 *              64 f32, one word each (a normal pair takes words k and k + 1 of one block), or
 *              32 f64 or i64, two words of one block each (a normal pair takes all four).
 * Uniform    k / 2^24 (f32) or k / 2^53 (f64), in [0, 1); the same bits under every instruction set.
 * Normal     Box-Muller: sqrt(-2 log u) cos 2 pi v and sqrt(-2 log u) sin 2 pi v; |y| < 6.7 (f32), 8.6 (f64).
 */

enum {
    PHILOX_BLOCKS = 16,      /* of one group */
    RANDOM_GROUP_32 = 64,    /* elements of one group, by item size */
    RANDOM_GROUP_64 = 32,
    RANDOM_GRAIN_GROUPS = 256
};

typedef struct { uint32_t word[4 * PHILOX_BLOCKS]; } philox_group; /* word k of block j: 16 k + j */

static inline uint32_t philox_high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* Ten rounds on 16 counters at once. */
static inline void philox_rounds(philox_group *g, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        for (int j = 0; j < PHILOX_BLOCKS; j++) {
            const uint32_t a = g->word[j], b = g->word[2 * PHILOX_BLOCKS + j];
            g->word[j] = philox_high(b, 0xCD9E8D57u) ^ g->word[PHILOX_BLOCKS + j] ^ key0;
            g->word[2 * PHILOX_BLOCKS + j] = philox_high(a, 0xD2511F53u) ^ g->word[3 * PHILOX_BLOCKS + j] ^ key1;
            g->word[PHILOX_BLOCKS + j] = b * 0xCD9E8D57u;
            g->word[3 * PHILOX_BLOCKS + j] = a * 0xD2511F53u;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

static inline philox_group random_words(const hyb_call *call, int64_t group)
{
    const int64_t *state = call->data[0];
    const uint64_t seed = (uint64_t)state[0], draw = (uint64_t)state[1];
    philox_group g;
    for (int j = 0; j < PHILOX_BLOCKS; j++) {
        const uint64_t block = (uint64_t)group * PHILOX_BLOCKS + (uint64_t)j;
        g.word[j] = (uint32_t)block;
        g.word[PHILOX_BLOCKS + j] = (uint32_t)(block >> 32);
        g.word[2 * PHILOX_BLOCKS + j] = (uint32_t)draw;
        g.word[3 * PHILOX_BLOCKS + j] = (uint32_t)(draw >> 32);
    }
    philox_rounds(&g, (uint32_t)seed, (uint32_t)(seed >> 32));
    return g;
}

/* 53 random bits as an integer below 2^53, exactly; 32-bit halves convert fast everywhere. */
static inline double random_53(uint32_t high, uint32_t low)
{
    return (double)(int32_t)(high >> 5) * 67108864.0 + (double)(int32_t)(low >> 6);
}

static inline void random_bits_group(const philox_group *g, int64_t *y)
{
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < PHILOX_BLOCKS; j++)
            y[half * PHILOX_BLOCKS + j] = (int64_t)(g->word[2 * half * PHILOX_BLOCKS + j] |
                                                    (uint64_t)g->word[(2 * half + 1) * PHILOX_BLOCKS + j] << 32);
}

static inline void random_uniform_f32_group(const philox_group *g, float *y)
{
    for (int i = 0; i < RANDOM_GROUP_32; i++)
        y[i] = (float)(int32_t)(g->word[i] >> 8) * 0x1p-24f;
}

static inline void random_uniform_f64_group(const philox_group *g, double *y)
{
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < PHILOX_BLOCKS; j++)
            y[half * PHILOX_BLOCKS + j] =
                random_53(g->word[2 * half * PHILOX_BLOCKS + j], g->word[(2 * half + 1) * PHILOX_BLOCKS + j]) * 0x1p-53;
}

/* The radius' uniform keeps 31 bits and half a step, so that it is never 0 and the tail is long. */
static inline void random_normal_f32_group(const philox_group *g, float *y)
{
    float u[PHILOX_BLOCKS], angle[PHILOX_BLOCKS];
    for (int pair = 0; pair < 2; pair++, y += 2 * PHILOX_BLOCKS) {
        for (int j = 0; j < PHILOX_BLOCKS; j++) {
            u[j] = ((float)(int32_t)(g->word[2 * pair * PHILOX_BLOCKS + j] >> 1) + 0.5f) * 0x1p-31f;
            angle[j] = (float)(int32_t)(g->word[(2 * pair + 1) * PHILOX_BLOCKS + j] >> 8) * (6.2831853071795864769f * 0x1p-24f);
        }
        for (int j = 0; j < PHILOX_BLOCKS; j += HYB_LANES_32) {
            const v_f32 radius = v_sqrt_f32(v_log_f32(v_load_f32(u + j)) * -2.0f);
            const v_f32 turn = v_load_f32(angle + j);
            v_store_f32(y + j, radius * v_cos_f32(turn));
            v_store_f32(y + PHILOX_BLOCKS + j, radius * v_sin_f32(turn));
        }
    }
}

static inline void random_normal_f64_group(const philox_group *g, double *y)
{
    double u[PHILOX_BLOCKS], angle[PHILOX_BLOCKS];
    for (int j = 0; j < PHILOX_BLOCKS; j++) {
        u[j] = (random_53(g->word[j], g->word[PHILOX_BLOCKS + j]) + 1.0) * 0x1p-53;
        angle[j] = random_53(g->word[2 * PHILOX_BLOCKS + j], g->word[3 * PHILOX_BLOCKS + j]) * (6.2831853071795864769 * 0x1p-53);
    }
    for (int j = 0; j < PHILOX_BLOCKS; j += HYB_LANES_64) {
        const v_f64 radius = v_sqrt_f64(v_log_f64(v_load_f64(u + j)) * -2.0);
        const v_f64 turn = v_load_f64(angle + j);
        v_store_f64(y + j, radius * v_cos_f64(turn));
        v_store_f64(y + PHILOX_BLOCKS + j, radius * v_sin_f64(turn));
    }
}

/* Whole groups are made in place; the last, cut short, beside it. */
#define RANDOM_KERNEL(name, T, GROUP)                                                            \
    HYB_KERNEL(name)                                                                             \
    {                                                                                            \
        const int64_t n = call->layout[1].shape[0];                                              \
        for (int64_t group = begin; group < end; group++) {                                      \
            const philox_group words = random_words(call, group);                                \
            T *y = (T *)call->data[1] + group * GROUP;                                           \
            const int64_t left = n - group * GROUP;                                              \
            if (left >= GROUP) {                                                                 \
                name##_group(&words, y);                                                         \
            } else {                                                                             \
                T last[GROUP];                                                                   \
                name##_group(&words, last);                                                      \
                memcpy(y, last, (size_t)left * sizeof(T));                                       \
            }                                                                                    \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }

RANDOM_KERNEL(random_bits, int64_t, RANDOM_GROUP_64)
RANDOM_KERNEL(random_uniform_f32, float, RANDOM_GROUP_32)
RANDOM_KERNEL(random_uniform_f64, double, RANDOM_GROUP_64)
RANDOM_KERNEL(random_normal_f32, float, RANDOM_GROUP_32)
RANDOM_KERNEL(random_normal_f64, double, RANDOM_GROUP_64)

static hyb_status random_prepare(const hyb_call *call, int32_t dtype, int64_t group, hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, HYB_I64, 1)) != HYB_OK ||
        (status = require_size(call, 0, 0, 2)) != HYB_OK ||
        (status = require_dense(call, 1, dtype, 1)) != HYB_OK)
        return status;
    const int64_t n = call->layout[1].shape[0];
    *range = (hyb_range){(n + group - 1) / group, RANDOM_GRAIN_GROUPS};
    return HYB_OK;
}

HYB_PREPARE(prepare_random_f32) { return random_prepare(call, HYB_F32, RANDOM_GROUP_32, range); }
HYB_PREPARE(prepare_random_f64) { return random_prepare(call, HYB_F64, RANDOM_GROUP_64, range); }
HYB_PREPARE(prepare_random_i64) { return random_prepare(call, HYB_I64, RANDOM_GROUP_64, range); }

#define RANDOM_ROW(kernel, name) \
    {#kernel, HYB_I64, 1, 1, 0, HYB_PLAIN, HYB_SYM(prepare_random_##name), HYB_SYM(kernel)}

const hyb_kernel HYB_SYM(hyb_random_kernels)[] = {
    RANDOM_ROW(random_uniform_f32, f32),
    RANDOM_ROW(random_uniform_f64, f64),
    RANDOM_ROW(random_normal_f32, f32),
    RANDOM_ROW(random_normal_f64, f64),
    RANDOM_ROW(random_bits, i64),
    {0},
};
