/* softmax.inc.c - rows of exponentials, normalised.
 *
 *   softmax        y[r, i] = exp(x[r, i] - m) / s       m = max_i x[r, i]
 *   log_softmax    y[r, i] = (x[r, i] - m) - log s      s = sum_i exp(x[r, i] - m)
 *   cross_entropy  y[r]    = log s - (x[r, target[r]] - m)
 *   class_at       y[r]    = x[r, target[r]]
 *
 * Split      by rows.
 * Layout     dense [rows, n]; targets i64 [rows].
 * In place   not allowed.
 * Accuracy   softmax 4 ulp, and half |x - m| more, for x - m is rounded; the sum is taken in
 *            lanes, blocks of 128 vectors apart.
 * Special    a NaN or +inf in a row, or nothing but -inf, gives NaN throughout, as the formula
 *            says; a target outside 0 .. n - 1 is HYB_BAD_INDEX.
 */
#pragma once

#include "kernels/math/family.inc.c"
#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

enum { SOFTMAX_BLOCK = 128 }; /* vectors added one after the other before they join the sum */
enum { SOFTMAX_BYTES = 16384 }; /* of rows that are worked on together */

/* For __builtin_shufflevector: the lanes whose number differs from i, i + 1 ... in the bit d. */
#define SOFTMAX_PARTNERS_2(i, d) (i) ^ (d), ((i) + 1) ^ (d)
#define SOFTMAX_PARTNERS_4(i, d) SOFTMAX_PARTNERS_2(i, d), SOFTMAX_PARTNERS_2((i) + 2, d)
#define SOFTMAX_PARTNERS_8(i, d) SOFTMAX_PARTNERS_4(i, d), SOFTMAX_PARTNERS_4((i) + 4, d)
#define SOFTMAX_PARTNERS_16(d) SOFTMAX_PARTNERS_8(0, d), SOFTMAX_PARTNERS_8(8, d)

static const int32_t softmax_lane_f32[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const int64_t softmax_lane_f64[8] = {0, 1, 2, 3, 4, 5, 6, 7};

#define EACH "kernels/softmax_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define SOFTMAX_ROW(op, prepare, dtype, name) \
    HYB_TABLE_ROW(op, dtype, 1, 1, 0, HYB_PLAIN, prepare##_##name, op##_##name)
#define TARGET_ROW(op, dtype, name)                                                 \
    HYB_TABLE_ROW(op, dtype, 2, 1, 0, HYB_PLAIN, prepare_cross_entropy_##name, op##_##name)

const hyb_kernel HYB_SYM(hyb_softmax_kernels)[] = {
    SOFTMAX_ROW(softmax, prepare_softmax, HYB_F32, f32)
    SOFTMAX_ROW(softmax, prepare_softmax, HYB_F64, f64)
    SOFTMAX_ROW(log_softmax, prepare_softmax, HYB_F32, f32)
    SOFTMAX_ROW(log_softmax, prepare_softmax, HYB_F64, f64)
    HYB_TABLE_ROW(cross_entropy_pull, HYB_F32, 3, 1, 0, HYB_PLAIN,
                  prepare_cross_entropy_pull_f32, cross_entropy_pull_f32)
    HYB_TABLE_ROW(cross_entropy_pull, HYB_F64, 3, 1, 0, HYB_PLAIN,
                  prepare_cross_entropy_pull_f64, cross_entropy_pull_f64)
    TARGET_ROW(cross_entropy, HYB_F32, f32)
    TARGET_ROW(class_at, HYB_F32, f32)
    TARGET_ROW(cross_entropy, HYB_F64, f64)
    TARGET_ROW(class_at, HYB_F64, f64)
    {0},
};
