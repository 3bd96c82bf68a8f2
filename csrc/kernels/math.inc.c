/* math.inc.c - exp, log, tanh ... of vectors, for every family to use; no table.
 *
 * v_<name>_f32 and v_<name>_f64 take and give vectors.  Lanes never influence each other.  Special
 * values are exact, subnormal numbers are honest on both sides, and arguments of sin, cos and tan
 * may be as large as the dtype holds.  Largest errors in ulp: float32 over all 2^32 values, float64
 * over 10^8 random ones (tests/csrc/math_exhaustive.c measures them):
 *
 *             exp  expm1 log  log1p log2 tanh sigmoid erf  sin  cos  tan  gelu silu softplus
 *   float32   HYB_ERRORS_32
 *   float64   HYB_ERRORS_64
 *
 * pow: 0.51 ulp in float32 (computed in float64); the C library's in float64.  All coefficients are
 * minimax fits (Remez), rounded one after another, the low powers first.
 */

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

#include "math_angle.inc.c"
#include "math_f32.inc.c"
#include "math_f64.inc.c"

#define T float
#define V v_f32
#define I v_i32
#define N(name) name##_f32
#define SIGN_SHIFT 30
#include "math_typed.inc.c"
#include "math_inverse.inc.c"
#include "math_hyperbolic.inc.c"
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
#include "math_typed.inc.c"
#include "math_inverse.inc.c"
#include "math_hyperbolic.inc.c"
#undef T
#undef V
#undef I
#undef N
#undef SIGN_SHIFT

#include "math_pow.inc.c"
