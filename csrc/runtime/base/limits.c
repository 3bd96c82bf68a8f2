/* limits.c - what this machine does at most, to hold other figures against: multiply-adds in
 * registers, dot products of bfloat16 and int8 where there are instructions for them, and a triad
 * (STREAM, J. McCalpin, 1995: a = b + s * c) over memory of a given size.
 *
 * Not by the kernel tables: these are the widest instructions there are, whatever HYBRID_ISA says.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/base/runtime.h"

/* The values in which a result ends, so that no loop is left out. */
static volatile float seen;

typedef double (*runner)(int64_t rounds, float *data, int64_t n);

/* CHAINS independent multiply-adds in each round: as many as hide the latency of one, on two ports,
 * and fit the registers.  Values go to 1. */
#define MULTIPLY_ADDS(name, T, nbytes, chains, attributes)                                    \
    attributes static double name(int64_t rounds, float *data, int64_t n)                     \
    {                                                                                         \
        typedef T lanes __attribute__((vector_size(nbytes)));                                 \
        lanes a[chains], m = (T)0.999 - (lanes){0}, c = (T)0.001 - (lanes){0};                \
        (void)data, (void)n;                                                                  \
        for (int i = 0; i < chains; i++)                                                      \
            a[i] = (T)i - (lanes){0};                                                         \
        for (int64_t round = 0; round < rounds; round++) {                                    \
            _Pragma("GCC unroll 32") for (int i = 0; i < chains; i++) a[i] = a[i] * m + c;    \
        }                                                                                     \
        T sum = 0;                                                                            \
        for (int i = 0; i < chains; i++)                                                      \
            sum += a[i][0];                                                                   \
        seen = (float)sum;                                                                    \
        return (double)rounds * chains * 2 * (double)(nbytes / sizeof(T));                    \
    }

/* data holds a, b and c, n floats each. */
#define TRIAD(name, nbytes, attributes)                                                       \
    attributes static double name(int64_t rounds, float *data, int64_t n)                     \
    {                                                                                         \
        typedef float lanes __attribute__((vector_size(nbytes), aligned(4)));                 \
        enum { LANES = nbytes / sizeof(float) };                                              \
        float *a = data, *b = data + n, *c = data + 2 * n;                                    \
        for (int64_t round = 0; round < rounds; round++) {                                    \
            const lanes s = (float)(round & 1) - (lanes){0};                                  \
            for (int64_t i = 0; i + LANES <= n; i += LANES)                                   \
                *(lanes *)(a + i) = *(lanes *)(b + i) + s * *(lanes *)(c + i);                \
            seen = a[n / 2];                                                                  \
        }                                                                                     \
        return (double)rounds * 12 * (double)(n / LANES * LANES);                             \
    }

#define NONE
#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,prefer-vector-width=512")))
MULTIPLY_ADDS(f32_avx2, float, 32, 12, AVX2)
MULTIPLY_ADDS(f64_avx2, double, 32, 12, AVX2)
TRIAD(triad_avx2, 32, AVX2)
MULTIPLY_ADDS(f32_avx512, float, 64, 16, AVX512)
MULTIPLY_ADDS(f64_avx512, double, 64, 16, AVX512)
TRIAD(triad_avx512, 64, AVX512)

enum { DOTS = 16 };

__attribute__((target("avx512f,avx512bf16"))) static double bf16_avx512(int64_t rounds, float *data,
                                                                        int64_t n)
{
    __m512 a[DOTS];
    (void)data, (void)n;
    for (int i = 0; i < DOTS; i++)
        a[i] = _mm512_set1_ps((float)i);
    const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(-0.5f));
    const __m512bh y = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.25f), _mm512_set1_ps(0.25f));
    for (int64_t round = 0; round < rounds; round++) {
        _Pragma("GCC unroll 32") for (int i = 0; i < DOTS; i++) a[i] = _mm512_dpbf16_ps(a[i], x, y);
    }
    float sum = 0;
    for (int i = 0; i < DOTS; i++)
        sum += _mm512_cvtss_f32(a[i]);
    seen = sum;
    return (double)rounds * DOTS * 64;
}

__attribute__((target("avx512f,avx512vnni"))) static double i8_avx512(int64_t rounds, float *data,
                                                                      int64_t n)
{
    __m512i a[DOTS];
    (void)data, (void)n;
    for (int i = 0; i < DOTS; i++)
        a[i] = _mm512_set1_epi32(i);
    const __m512i x = _mm512_set1_epi32(0x03030303), y = _mm512_set1_epi32(0x02020202);
    for (int64_t round = 0; round < rounds; round++) {
        _Pragma("GCC unroll 32") for (int i = 0; i < DOTS; i++)
            a[i] = _mm512_dpbusd_epi32(a[i], x, y);
    }
    int32_t sum = 0;
    for (int i = 0; i < DOTS; i++)
        sum ^= _mm512_cvtsi512_si32(a[i]);
    seen = (float)sum;
    return (double)rounds * DOTS * 128;
}
#endif
MULTIPLY_ADDS(f32_plain, float, 16, 8, NONE)
MULTIPLY_ADDS(f64_plain, double, 16, 8, NONE)
TRIAD(triad_plain, 16, NONE)

typedef struct {
    const char *instructions; /* "" where the machine has none */
    runner run;
} limit;

static limit find(int32_t which)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx512 = __builtin_cpu_supports("avx512f");
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    switch (which) {
    case HYB_LIMIT_F32:
        if (avx2)
            return avx512 ? (limit){"avx512f", f32_avx512} : (limit){"fma", f32_avx2};
        break;
    case HYB_LIMIT_F64:
        if (avx2)
            return avx512 ? (limit){"avx512f", f64_avx512} : (limit){"fma", f64_avx2};
        break;
    case HYB_LIMIT_BF16:
        if (avx512 && __builtin_cpu_supports("avx512bf16"))
            return (limit){"avx512bf16", bf16_avx512};
        break;
    case HYB_LIMIT_I8:
        if (avx512 && __builtin_cpu_supports("avx512vnni"))
            return (limit){"avx512vnni", i8_avx512};
        break;
    case HYB_LIMIT_TRIAD:
        if (avx2)
            return avx512 ? (limit){"avx512f", triad_avx512} : (limit){"avx2", triad_avx2};
        break;
    }
#endif
    switch (which) {
    case HYB_LIMIT_F32:
        return (limit){"baseline", f32_plain};
    case HYB_LIMIT_F64:
        return (limit){"baseline", f64_plain};
    case HYB_LIMIT_TRIAD:
        return (limit){"baseline", triad_plain};
    }
    return (limit){"", NULL};
}

const char *hyb_limit_instructions(int32_t which) { return find(which).instructions; }

double hyb_limit_run(int32_t which, int64_t rounds, float *data, int64_t n)
{
    const limit found = find(which);
    return found.run && rounds > 0 && (which != HYB_LIMIT_TRIAD || (data && n > 0))
             ? found.run(rounds, data, n)
             : 0.0;
}
