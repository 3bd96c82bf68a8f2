/* unary.inc.c - one operand, element by element.
 *
 * Split      by elements.
 * Layout     rank 1, dense or one element repeated; the output is dense.
 * In place   allowed when the item sizes are equal.
 * Accuracy   arithmetic and roundings are exact or correctly rounded, rsqrt within 1.5 ulp;
 * math/family.inc.c gives the others; gelu_tanh and the slopes, whose terms may cancel, 4 epsilon.
 * Integers wrap: abs and negative of the least one give it back.
 * Attributes none.
 */
#pragma once

#include "kernels/math/family.inc.c"
#include "kernels/elementwise.inc.c"

#define UNARY_FLOAT(t)                                                                           \
    HYB_MAP_1(negative, t, 1, -x)                                                                \
    HYB_MAP_1(abs, t, 1, v_abs_##t(x))                                                           \
    HYB_MAP_1(sign, t, 2,                                                                        \
              v_select_##t((m_##t)(x == x), one_where_##t(x > 0) - one_where_##t(x < 0), x))     \
    HYB_MAP_1(square, t, 1, x * x)                                                               \
    HYB_MAP_1(relu, t, 1, v_select_##t((m_##t)(x <= 0), (v_##t){0}, x))                          \
    HYB_MAP_1(floor, t, 4, v_floor_##t(x))                                                       \
    HYB_MAP_1(ceil, t, 4, v_ceil_##t(x))                                                         \
    HYB_MAP_1(trunc, t, 4, v_trunc_##t(x))                                                       \
    HYB_MAP_1(round, t, 4, v_round_##t(x))                                                       \
    HYB_MAP_1(sqrt, t, 8, v_sqrt_##t(x))                                                         \
    HYB_MAP_1(rsqrt, t, 16, 1 / v_sqrt_##t(x))                                                   \
    HYB_MAP_1(reciprocal, t, 8, 1 / x)                                                           \
    HYB_MAP_1(exp, t, 16, v_exp_##t(x))                                                          \
    HYB_MAP_1(expm1, t, 20, v_expm1_##t(x))                                                      \
    HYB_MAP_1(log, t, 20, v_log_##t(x))                                                          \
    HYB_MAP_1(log1p, t, 24, v_log1p_##t(x))                                                      \
    HYB_MAP_1(log2, t, 20, v_log2_##t(x))                                                        \
    HYB_MAP_1(log10, t, 20, v_log10_##t(x))                                                      \
    HYB_MAP_1(sinh, t, 28, v_sinh_##t(x))                                                        \
    HYB_MAP_1(cosh, t, 28, v_cosh_##t(x))                                                        \
    HYB_MAP_1(tanh, t, 28, v_tanh_##t(x))                                                        \
    HYB_MAP_1(asinh, t, 40, v_asinh_##t(x))                                                      \
    HYB_MAP_1(acosh, t, 40, v_acosh_##t(x))                                                      \
    HYB_MAP_1(atanh, t, 40, v_atanh_##t(x))                                                      \
    HYB_MAP_1(sigmoid, t, 24, v_sigmoid_##t(x))                                                  \
    HYB_MAP_1(erf, t, 28, v_erf_##t(x))                                                          \
    HYB_MAP_1(sin, t, 24, v_sin_##t(x))                                                          \
    HYB_MAP_1(cos, t, 24, v_cos_##t(x))                                                          \
    HYB_MAP_1(tan, t, 32, v_tan_##t(x))                                                          \
    HYB_MAP_1(asin, t, 32, v_asin_##t(x))                                                        \
    HYB_MAP_1(acos, t, 32, v_acos_##t(x))                                                        \
    HYB_MAP_1(atan, t, 32, v_atan_##t(x))                                                        \
    HYB_MAP_1(gelu, t, 40, v_gelu_##t(x))                                                        \
    HYB_MAP_1(gelu_slope, t, 48, v_gelu_slope_##t(x))                                            \
    HYB_MAP_1(gelu_tanh, t, 28, v_gelu_tanh_##t(x))                                              \
    HYB_MAP_1(gelu_tanh_slope, t, 32, v_gelu_tanh_slope_##t(x))                                  \
    HYB_MAP_1(silu, t, 24, v_silu_##t(x))                                                        \
    HYB_MAP_1(silu_slope, t, 24, v_silu_slope_##t(x))                                            \
    HYB_MAP_1(softplus, t, 40, v_softplus_##t(x))                                                \
    HYB_TEST_1(isnan, t, x != x)                                                                 \
    HYB_TEST_1(isinf, t, v_abs_##t(x) == (c_##t)INFINITY)                                        \
    HYB_TEST_1(isfinite, t, v_abs_##t(x) < (c_##t)INFINITY)                                      \
    HYB_TEST_1(signbit, t, (m_##t)x < 0)                                                         \
    HYB_TEST_1(logical_not, t, x == 0)

#define UNARY_INTEGER(t)                                                                         \
    HYB_MAP_1(negative, t, 1, -(w_##t)x)                                                         \
    HYB_MAP_1(abs, t, 1, ((w_##t)x ^ (w_##t)(x < 0)) - (w_##t)(x < 0))                           \
    HYB_MAP_1(sign, t, 1, (w_##t)(x < 0) - (w_##t)(x > 0))                                       \
    HYB_MAP_1(square, t, 1, (w_##t)x * (w_##t)x)                                                 \
    HYB_MAP_1(relu, t, 1, x & (v_##t)(x > 0))                                                    \
    HYB_MAP_1(identity, t, 1, x)                                                                 \
    HYB_MAP_1(bitwise_invert, t, 1, ~x)                                                          \
    HYB_TEST_1(never, t, x != x)                                                                 \
    HYB_TEST_1(always, t, x == x)                                                                \
    HYB_TEST_1(logical_not, t, x == 0)

/* 1 where the mask is set, else 0. */
static inline v_f32 one_where_f32(v_i32 mask) { return (v_f32)((v_i32)v_splat_f32(1) & mask); }
static inline v_f64 one_where_f64(v_i64 mask) { return (v_f64)((v_i64)v_splat_f64(1) & mask); }

HYB_FLOATS(UNARY_FLOAT)
HYB_INTEGERS(UNARY_INTEGER)

/* A row whose kernel has another name. */
#define UNARY_ALIAS(name, t, kernel)                                                             \
    HYB_TABLE_ROW(name, HYB_DTYPE_##t, 1, 1, 0, HYB_ELEMENTWISE, kernel##_##t##_prepare,         \
                  kernel##_##t)

#define UNARY_NUMBER_ROWS(t)                                                                     \
    HYB_ROW(negative, t, 1) HYB_ROW(abs, t, 1) HYB_ROW(sign, t, 1) HYB_ROW(square, t, 1)         \
    HYB_ROW(relu, t, 1) HYB_ROW(logical_not, t, 1)

#define UNARY_FLOAT_ROWS(t)                                                                      \
    UNARY_NUMBER_ROWS(t)                                                                         \
    HYB_ROW(floor, t, 1) HYB_ROW(ceil, t, 1) HYB_ROW(trunc, t, 1) HYB_ROW(round, t, 1)           \
    HYB_ROW(sqrt, t, 1) HYB_ROW(rsqrt, t, 1) HYB_ROW(reciprocal, t, 1)                           \
    HYB_ROW(exp, t, 1) HYB_ROW(expm1, t, 1)                                                      \
    HYB_ROW(log, t, 1) HYB_ROW(log1p, t, 1) HYB_ROW(log2, t, 1) HYB_ROW(log10, t, 1)             \
    HYB_ROW(sinh, t, 1) HYB_ROW(cosh, t, 1)                                                      \
    HYB_ROW(asinh, t, 1) HYB_ROW(acosh, t, 1) HYB_ROW(atanh, t, 1)                               \
    HYB_ROW(asin, t, 1) HYB_ROW(acos, t, 1) HYB_ROW(atan, t, 1)                                  \
    HYB_ROW(tanh, t, 1) HYB_ROW(sigmoid, t, 1) HYB_ROW(erf, t, 1)                                \
    HYB_ROW(sin, t, 1) HYB_ROW(cos, t, 1) HYB_ROW(tan, t, 1)                                     \
    HYB_ROW(gelu, t, 1) HYB_ROW(gelu_tanh, t, 1) HYB_ROW(silu, t, 1) HYB_ROW(softplus, t, 1)     \
    HYB_ROW(gelu_slope, t, 1) HYB_ROW(gelu_tanh_slope, t, 1) HYB_ROW(silu_slope, t, 1)           \
    HYB_ROW(isnan, t, 1) HYB_ROW(isinf, t, 1) HYB_ROW(isfinite, t, 1) HYB_ROW(signbit, t, 1)

#define UNARY_INTEGER_ROWS(t)                                                                    \
    UNARY_NUMBER_ROWS(t)                                                                         \
    UNARY_ALIAS(floor, t, identity) UNARY_ALIAS(ceil, t, identity)                               \
    UNARY_ALIAS(trunc, t, identity) UNARY_ALIAS(round, t, identity)                              \
    UNARY_ALIAS(isnan, t, never) UNARY_ALIAS(isinf, t, never) UNARY_ALIAS(isfinite, t, always)   \
    HYB_ROW(bitwise_invert, t, 1)

const hyb_kernel HYB_SYM(hyb_unary_kernels)[] = {
    HYB_FLOATS(UNARY_FLOAT_ROWS)
    HYB_INTEGERS(UNARY_INTEGER_ROWS)
    HYB_BOOL_ROW(logical_not, logical_not, 1)
    HYB_BOOL_ROW(bitwise_invert, logical_not, 1)
    HYB_BOOL_ROW(isnan, never, 1)
    HYB_BOOL_ROW(isinf, never, 1)
    HYB_BOOL_ROW(isfinite, always, 1)
    {0},
};
