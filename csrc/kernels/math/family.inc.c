/* math/family.inc.c - exp, log, tanh ... of vectors, for every family to use; no table.
 *
 * v_<name>_f32 and v_<name>_f64 take and give vectors.  Lanes never influence each other.  Special
 * values are exact, subnormal numbers are honest on both sides, and arguments of sin, cos and tan
 * may be as large as the dtype holds.  Largest errors in ulp among the instruction sets, of every
 * 97th float32 value and 10^6 random float64 values (tests/csrc/math_exhaustive.c measures them):
 *
 *                   exp    expm1      log    log1p     log2    log10      sin      cos      tan
 *   float32        0.89     1.64     0.81     1.39     1.21     1.66     1.52     1.54     3.03
 *   float64        0.86     1.88     0.77     0.99     0.72     0.66     1.50     1.44     2.78
 *
 *                  asin     acos     atan    atan2     sinh     cosh     tanh    asinh    acosh
 *   float32        1.29     1.10     1.18     1.48     1.22     1.08     1.27     1.43     1.51
 *   float64        1.26     1.07     1.19     1.44     1.22     1.06     1.31     1.45     1.48
 *
 *                 atanh      pow  sigmoid      erf     gelu     silu softplus
 *   float32        1.18     1.16     2.00     1.09     3.28     2.00     1.71
 *   float64        1.18     1.12     1.99     1.29     3.40     1.97     1.70
 *
 * All coefficients are minimax fits (Remez), rounded one after another, the low powers first, or
 * all at once where the interval has 0 inside.
 */
#pragma once

/* Horner's rule with constant coefficients, the lowest power first. */
#define HYB_HORNER(T, V, name)                                                            \
    static inline __attribute__((always_inline)) V v_horner_##name(V x, const T *c, int n) \
    {                                                                                     \
        V y = v_splat_##name(c[n - 1]);                                                   \
        _Pragma("GCC unroll 32") for (int i = n - 2; i >= 0; i--) y = y * x + c[i];       \
        return y;                                                                         \
    }
HYB_HORNER(float, v_f32, f32)
HYB_HORNER(double, v_f64, f64)
#define HYB_POLYNOMIAL(T, name, x, ...)                                                   \
    ({                                                                                    \
        static const T coefficients_[] = {__VA_ARGS__};                                   \
        v_horner_##name(x, coefficients_, (int)(sizeof coefficients_ / sizeof(T)));       \
    })
#define v_polynomial_f32(x, ...) HYB_POLYNOMIAL(float, f32, x, __VA_ARGS__)
#define v_polynomial_f64(x, ...) HYB_POLYNOMIAL(double, f64, x, __VA_ARGS__)

#include "kernels/math/angle.inc.c"
#include "kernels/math/f32.inc.c"
#include "kernels/math/f64.inc.c"

#define T float
#define V v_f32
#define I v_i32
#define N(name) name##_f32
#define SIGN_SHIFT 30
#include "kernels/math/typed.inc.c"
#include "kernels/math/inverse.inc.c"
#include "kernels/math/hyperbolic.inc.c"
#undef T
#undef V
#undef I
#undef N
#undef SIGN_SHIFT

#define T double
#define V v_f64
#define I v_i64
#define N(name) name##_f64
#define SIGN_SHIFT 62
#include "kernels/math/typed.inc.c"
#include "kernels/math/inverse.inc.c"
#include "kernels/math/hyperbolic.inc.c"
#undef T
#undef V
#undef I
#undef N
#undef SIGN_SHIFT

#include "kernels/math/pow.inc.c"
