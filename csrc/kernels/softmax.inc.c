/* softmax.inc.c - rows of exponentials, normalised.
 *
 *   softmax        y[r, i] = exp(x[r, i] - m) / s       m = max_i x[r, i]
 *   log_softmax    y[r, i] = (x[r, i] - m) - log s      s = sum_i exp(x[r, i] - m)
 *   cross_entropy  y[r]    = log s - (x[r, target[r]] - m)
 *
 * Split      by rows.
 * Layout     dense [rows, n]; targets i64 [rows].
 * In place   not allowed.
 * Accuracy   softmax 4 ulp plus that of the sum; the sum is taken in lanes, blocks of 256 vectors apart.
 * Special    a NaN or +inf in a row, or nothing but -inf, gives NaN throughout, as the formula says; a
 *            target outside 0 .. n - 1 is HYB_BAD_INDEX.
 */

enum { SOFTMAX_BLOCK = 128 }; /* vectors added one after the other before they join the sum */

#define T float
#define V v_f32
#define M v_i32
#define N(name) name##_f32
#define LANES HYB_LANES_32
#define DTYPE HYB_F32
#include "kernels/softmax_typed.inc.c"

#define T double
#define V v_f64
#define M v_i64
#define N(name) name##_f64
#define LANES HYB_LANES_64
#define DTYPE HYB_F64
#include "kernels/softmax_typed.inc.c"

#define SOFTMAX_ROW(op, prepare, dtype, name) \
    {#op, dtype, 1, 1, 0, HYB_PLAIN, HYB_SYM(prepare##_##name), HYB_SYM(op##_##name)}
#define CROSS_ENTROPY_ROW(dtype, name)                                              \
    {"cross_entropy", dtype, 2, 1, 0, HYB_PLAIN, HYB_SYM(prepare_cross_entropy_##name), \
     HYB_SYM(cross_entropy_##name)}

const hyb_kernel HYB_SYM(hyb_softmax_kernels)[] = {
    SOFTMAX_ROW(softmax, prepare_softmax, HYB_F32, f32),
    SOFTMAX_ROW(softmax, prepare_softmax, HYB_F64, f64),
    SOFTMAX_ROW(log_softmax, prepare_softmax, HYB_F32, f32),
    SOFTMAX_ROW(log_softmax, prepare_softmax, HYB_F64, f64),
    CROSS_ENTROPY_ROW(HYB_F32, f32),
    CROSS_ENTROPY_ROW(HYB_F64, f64),
    {0},
};
