/* math_exhaustive.c - measures the errors of csrc/kernels/math/family.inc.c; test_math_exhaustive.py
 * builds and runs it.
 *
 * Compiled with -DPART_<isa> it is the functions of that instruction set, compiled without it is
 * the program:
 *
 *   math_exhaustive FUNCTION STRIDE ISA...
 *
 * takes every STRIDE-th of the 2^32 float32 values (1: all of them) and some millions of float64
 * values, prints the largest error in ulp for each instruction set and where it is, and ends with 1
 * if one is above its limit. References: the C library in float64 for float32, in long double for
 * float64.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    void (*run_f32)(float *y, const float *x, int64_t n);  /* n is a multiple of 16 */
    void (*run_f64)(double *y, const double *x, int64_t n);
} function_row;

#if defined(PART_baseline) || defined(PART_avx2) || defined(PART_avx512) || defined(PART_neon)
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include "kernel.h"
#if defined(PART_avx512)
#define HYB_ISA avx512
#define HYB_VECTOR_BYTES 64
#include "isa/begin_avx512.h"
#elif defined(PART_avx2)
#define HYB_ISA avx2
#define HYB_VECTOR_BYTES 32
#include "isa/begin_avx2.h"
#elif defined(PART_neon)
#define HYB_ISA neon
#define HYB_VECTOR_BYTES 16
#else
#define HYB_ISA baseline
#define HYB_VECTOR_BYTES 16
#endif
#include "vec.h"
#include "kernels/math/family.inc.c"

#define RUN(name, t, T)                                                                          \
    static void run_##name##_##t(T *y, const T *x, int64_t n)                                    \
    {                                                                                            \
        for (int64_t i = 0; i < n; i += (int64_t)(sizeof(v_##t) / sizeof(T)))                    \
            v_store_##t(y + i, v_##name##_##t(v_load_##t(x + i)));                               \
    }
#define FUNCTIONS(X)                                                                             \
    X(exp) X(expm1) X(log) X(log1p) X(log2) X(tanh) X(sigmoid) X(erf) X(sin) X(cos) X(tan)       \
    X(gelu) X(silu) X(softplus) X(log10) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh)        \
    X(acosh) X(atanh) X(floor) X(ceil) X(trunc) X(round)
#define RUN_BOTH(name) RUN(name, f32, float) RUN(name, f64, double)
FUNCTIONS(RUN_BOTH)

/* Pairs: the first operands in the first half of x, the second ones in the second. */
#define RUN_PAIRS(name, t, T)                                                                    \
    static void run_##name##_##t(T *y, const T *x, int64_t n)                                    \
    {                                                                                            \
        for (int64_t i = 0; i < n; i += (int64_t)(sizeof(v_##t) / sizeof(T)))                    \
            v_store_##t(y + i, v_##name##_##t(v_load_##t(x + i), v_load_##t(x + n + i)));        \
    }
RUN_PAIRS(pow, f32, float)
RUN_PAIRS(pow, f64, double)
RUN_PAIRS(atan2, f32, float)
RUN_PAIRS(atan2, f64, double)

#define ROW(name) {#name, run_##name##_f32, run_##name##_f64},
const function_row HYB_SYM(function_rows)[] = {FUNCTIONS(ROW) ROW(pow) ROW(atan2){0}};

#else /* the program */

#define WEAK __attribute__((weak))
extern const function_row function_rows_baseline[] WEAK, function_rows_avx2[] WEAK;
extern const function_row function_rows_avx512[] WEAK, function_rows_neon[] WEAK;
static const struct {
    const char         *name;
    const function_row *rows;
} isas[] = {{"baseline", function_rows_baseline},
            {"avx2", function_rows_avx2},
            {"avx512", function_rows_avx512},
            {"neon", function_rows_neon}};
enum { N_ISAS = sizeof isas / sizeof isas[0], BLOCK = 4096 };

#define REFERENCES(T, f, name)                                                                   \
    static T sigmoid_##name(T x) { return 1 / (1 + exp##f(-x)); }                                \
    static T gelu_##name(T x)                                                                    \
    {                                                                                            \
        const T root = 0.707106781186547524400844362104849039L;                                  \
        return isinf(x) && x < 0 ? -(T)0 : x / 2 * erfc##f(-x * root);                           \
    }                                                                                            \
    static T silu_##name(T x) { return isinf(x) && x < 0 ? -(T)0 : x / (1 + exp##f(-x)); }       \
    static T softplus_##name(T x)                                                                \
    {                                                                                            \
        return isnan(x) ? x : fmax##f(x, 0) + log1p##f(exp##f(-fabs##f(x)));                     \
    }
REFERENCES(double, , f64)
REFERENCES(long double, l, wide)

/* The reference and, for float64, where the samples are drawn from; the limits in ulp. */
static const struct {
    const char *name;
    double (*narrow)(double);
    long double (*wide)(long double);
    double low, high;
    double limit_f32, limit_f64;
} functions[] = {
    {"exp", exp, expl, -745, 709.7, 1, 1},
    {"expm1", expm1, expm1l, -40, 709.7, 2, 2},
    {"log", log, logl, 0, 4, 1, 1},
    {"log1p", log1p, log1pl, -1, 4, 2, 2},
    {"log2", log2, log2l, 0, 4, 2, 1},
    {"tanh", tanh, tanhl, -20, 20, 2, 2},
    {"sigmoid", sigmoid_f64, sigmoid_wide, -745, 40, 2, 2},
    {"erf", erf, erfl, -6, 6, 2, 2},
    {"sin", sin, sinl, -100, 100, 2, 2},
    {"cos", cos, cosl, -100, 100, 2, 2},
    {"tan", tan, tanl, -100, 100, 3.5, 3},
    {"gelu", gelu_f64, gelu_wide, -38, 10, 4, 4},
    {"silu", silu_f64, silu_wide, -745, 40, 2, 2},
    {"softplus", softplus_f64, softplus_wide, -745, 40, 2, 2},
    {"log10", log10, log10l, 0, 4, 2, 1},
    {"asin", asin, asinl, -1, 1, 2, 2},
    {"acos", acos, acosl, -1, 1, 2, 2},
    {"atan", atan, atanl, -8, 8, 2, 2},
    {"sinh", sinh, sinhl, -710.5, 710.5, 2, 2},
    {"cosh", cosh, coshl, -710.5, 710.5, 2, 2},
    {"asinh", asinh, asinhl, -20, 20, 2, 2},
    {"acosh", acosh, acoshl, 1, 20, 2, 2},
    {"atanh", atanh, atanhl, -1, 1, 2, 2},
    {"floor", floor, floorl, -1e6, 1e6, 0, 0},
    {"ceil", ceil, ceill, -1e6, 1e6, 0, 0},
    {"trunc", trunc, truncl, -1e6, 1e6, 0, 0},
    {"round", rint, rintl, -1e6, 1e6, 0, 0},
};
static const struct {
    const char *name;
    double (*narrow)(double, double);
    long double (*wide)(long double, long double);
    double limit_f32, limit_f64;
} pairs[] = {{"pow", pow, powl, 1.5, 1.5}, {"atan2", atan2, atan2l, 2, 2}};
enum {
    N_FUNCTIONS = sizeof functions / sizeof functions[0],
    N_PAIRS = sizeof pairs / sizeof pairs[0]
};

typedef struct {
    double      error;
    long double at, at2;
} worst;

static uint64_t random_state = 1;

static uint64_t next_random(void) /* splitmix64 */
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static double next_uniform(void) { return (double)(next_random() >> 11) * 0x1p-53; }

/* |y - reference| in units of the dtype's last place at the reference; infinity when a special
 * value is wrong. `digits` and `least` describe the dtype; `rounded` is the reference in it; an
 * overflow counts as 2^emax. */
static double ulps(long double y, long double reference, long double rounded, int digits, int least,
                   int most)
{
    if (isnan(y) || isnan(rounded))
        return isnan(y) && isnan(rounded) ? 0 : INFINITY;
    if (y == 0 && rounded == 0)
        return signbit(y) == signbit(rounded) ? 0 : INFINITY;
    if (y == rounded && isinf(y))
        return 0;
    if (isinf(y))
        y = copysignl(ldexpl(1, most), y);
    int exponent;
    if (isinf(reference) || reference == 0)
        return y == reference     ? 0
               : isinf(reference) ? INFINITY
                                  : (double)ldexpl(fabsl(y), digits - least);
    frexpl(reference, &exponent);
    exponent = exponent < least ? least : exponent > most ? most : exponent;
    return (double)ldexpl(fabsl(y - reference), digits - exponent);
}

static void keep_worst(worst *w, double error, long double at, long double at2)
{
    if (!(error <= w->error))
        *w = (worst){error, at, at2};
}

static const function_row *find(const function_row *rows, const char *name)
{
    while (strcmp(rows->name, name) != 0)
        rows++;
    return rows;
}

/* A quick look at what is nearly always so: a float32 result's error is below the worst one so far. */
static inline bool clearly_better(float y, double reference, double error)
{
    const double distance = fabs((double)y - reference) * 0x1p24, size = fabs(reference);
    return (size > 0 && distance <= error * size) || (y == (float)reference && y != 0 && error >= 0.5);
}

static void measure_f32(int f, uint64_t stride, const function_row *const *rows, worst *worsts)
{
    static float  x[BLOCK], y[BLOCK];
    static double reference[BLOCK];
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
        for (int i = 0; i < BLOCK; i++, bits += stride) {
            const uint32_t word = (uint32_t)bits;
            memcpy(&x[i], &word, sizeof word);
            reference[i] = functions[f].narrow((double)x[i]);
        }
        for (int isa = 0; isa < N_ISAS; isa++) {
            if (!rows[isa])
                continue;
            rows[isa]->run_f32(y, x, BLOCK);
            for (int i = 0; i < BLOCK; i++)
                if (!clearly_better(y[i], reference[i], worsts[isa].error))
                    keep_worst(&worsts[isa],
                               ulps(y[i], reference[i], (float)reference[i], 24, -125, 128), x[i],
                               0);
        }
    }
}

/* Even values of the range that matters, values of every size, values near 0 and near 1. */
static double sample_f64(int f, int kind)
{
    const double u = next_uniform();
    double x = functions[f].low + (functions[f].high - functions[f].low) * u;
    if (kind == 1)
        x = ldexp(u - 0.5, -(int)(next_random() % 60));
    else if (kind == 2)
        x = (u - 0.5) * 4;
    else if (kind == 3) {
        const uint64_t bits = next_random();
        memcpy(&x, &bits, sizeof x);
    }
    return functions[f].low == 0 ? fabs(x) : x;
}

static void measure_f64(int f, int64_t blocks, const function_row *const *rows, worst *worsts)
{
    static double      x[BLOCK], y[BLOCK];
    static long double reference[BLOCK];
    for (int64_t block = 0; block < blocks; block++) {
        for (int i = 0; i < BLOCK; i++) {
            x[i] = sample_f64(f, (int)(block % 4));
            reference[i] = functions[f].wide(x[i]);
        }
        for (int isa = 0; isa < N_ISAS; isa++) {
            if (!rows[isa])
                continue;
            rows[isa]->run_f64(y, x, BLOCK);
            for (int i = 0; i < BLOCK; i++)
                keep_worst(&worsts[isa],
                           ulps(y[i], reference[i], (double)reference[i], 53, -1021, 1024), x[i],
                           0);
        }
    }
}

/* Of every size, and of the ranges, whole numbers and special values where pairs are interesting. */
#define SAMPLE_PAIR(T, t, word, tiny, large, exact)                                              \
    static T sample_pair_##t(int kind)                                                           \
    {                                                                                            \
        static const T special[] = {0, 1,   (T)0.5, 2,    3,     4,                              \
                                    1.5, exact, tiny, large, INFINITY, NAN};                     \
        const word bits = (word)next_random();                                                   \
        T          x;                                                                            \
        memcpy(&x, &bits, sizeof x);                                                             \
        if (kind == 1)                                                                           \
            x = (T)(next_uniform() * 4);                                                         \
        else if (kind == 2)                                                                      \
            x = (T)((next_uniform() - 0.5) * 64);                                                \
        else if (kind == 3)                                                                      \
            x = (T)(int)((bits >> 8) % 41) - 20;                                                 \
        else if (kind == 4)                                                                      \
            x = special[(bits >> 1) % (sizeof special / sizeof *special)] * (bits & 1 ? -1 : 1); \
        return x;                                                                                \
    }
SAMPLE_PAIR(float, f32, uint32_t, 1e-45f, 3e38f, 16777217.0f)
SAMPLE_PAIR(double, f64, uint64_t, 5e-324, 1.7e308, 9007199254740991.0)

#define MEASURE_PAIRS(T, t, W, reference_function, digits, least, most)                          \
    static void measure_pairs_##t(int f, int64_t blocks, const function_row *const *rows,        \
                                  worst *worsts)                                                 \
    {                                                                                            \
        static T x[2 * BLOCK], y[BLOCK];                                                         \
        static W reference[BLOCK];                                                               \
        for (int64_t block = 0; block < blocks; block++) {                                       \
            for (int i = 0; i < BLOCK; i++) {                                                    \
                x[i] = sample_pair_##t((int)(block % 5));                                        \
                x[BLOCK + i] = sample_pair_##t((int)(block / 5 % 5));                            \
                reference[i] = pairs[f].reference_function(x[i], x[BLOCK + i]);                  \
            }                                                                                    \
            for (int isa = 0; isa < N_ISAS; isa++) {                                             \
                if (!rows[isa])                                                                  \
                    continue;                                                                    \
                rows[isa]->run_##t(y, x, BLOCK);                                                 \
                for (int i = 0; i < BLOCK; i++)                                                  \
                    keep_worst(&worsts[isa],                                                     \
                               ulps(y[i], reference[i], (T)reference[i], digits, least, most),   \
                               x[i], x[BLOCK + i]);                                              \
            }                                                                                    \
        }                                                                                        \
    }
MEASURE_PAIRS(float, f32, double, narrow, 24, -125, 128)
MEASURE_PAIRS(double, f64, long double, wide, 53, -1021, 1024)

static bool report(const char *name, const char *dtype, const function_row *const *rows,
                   const worst *worsts, double limit)
{
    bool fine = true;
    printf("%-9s %s", name, dtype);
    for (int isa = 0; isa < N_ISAS; isa++)
        if (rows[isa]) {
            printf("  %s %.3f at %.17Lg", isas[isa].name, worsts[isa].error, worsts[isa].at);
            if (worsts[isa].at2 != 0)
                printf(", %.17Lg", worsts[isa].at2);
            fine = fine && worsts[isa].error <= limit;
        }
    printf("%s\n", fine ? "" : "  ABOVE ITS LIMIT");
    return fine;
}

int main(int count, char **words)
{
    const char *name = count < 4 ? "" : words[1];
    int         f = 0, pair = 0;
    while (f < N_FUNCTIONS && strcmp(name, functions[f].name) != 0)
        f++;
    while (pair < N_PAIRS && strcmp(name, pairs[pair].name) != 0)
        pair++;
    if (f == N_FUNCTIONS && pair == N_PAIRS) {
        fprintf(stderr, "usage: math_exhaustive FUNCTION STRIDE ISA...\n");
        return 2;
    }
    const uint64_t      stride = strtoull(words[2], NULL, 10);
    const function_row *rows[N_ISAS] = {0};
    for (int i = 3; i < count; i++)
        for (int isa = 0; isa < N_ISAS; isa++)
            if (strcmp(words[i], isas[isa].name) == 0 && isas[isa].rows)
                rows[isa] = find(isas[isa].rows, name);

    const int64_t blocks = 25 + 20000 / (int64_t)stride;
    worst         narrow[N_ISAS] = {{0}}, wide[N_ISAS] = {{0}};
    double        limit_f32, limit_f64;
    if (f < N_FUNCTIONS) {
        measure_f32(f, stride, rows, narrow);
        measure_f64(f, blocks, rows, wide);
        limit_f32 = functions[f].limit_f32;
        limit_f64 = functions[f].limit_f64;
    } else {
        measure_pairs_f32(pair, blocks, rows, narrow);
        measure_pairs_f64(pair, blocks, rows, wide);
        limit_f32 = pairs[pair].limit_f32;
        limit_f64 = pairs[pair].limit_f64;
    }
    const bool fine = report(name, "float32", rows, narrow, limit_f32);
    return !(report(name, "float64", rows, wide, limit_f64) && fine);
}
#endif
