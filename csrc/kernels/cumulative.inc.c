/* cumulative.inc.c - running sums and products along one axis.
 *
 *   y[a, r, b] = x[a, 0, b] (+) ... (+) x[a, r, b]
 *   recurrence: y[a, r, b] = x[a, r, b] + factor[a, r, b] * y[a, r - 1, b], from 0 on; floats alone
 *
 * Split      by (a, b): a unit is one stack of rows.
 * Layout     dense [A, R, B] -> dense [A, R, B]; recurrence takes x, then factor.
 * In place   not allowed.
 * Order      one after the other, from the first.
 * Accuracy   products and recurrences are rounded at each element; sums of f32 are kept in f64, those
 *            of f64 with what each addition has lost (Neumaier 1974).
 * Special    integers wrap.
 *
 * A running total is no work for vectors: one instruction set has it for all.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

#if HYB_VECTOR_BYTES == 16

static hyb_status cumulative_prepare(const hyb_call *call, int32_t dtype, hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, dtype, 3)) != HYB_OK ||
        (status = require_dense(call, 1, dtype, 3)) != HYB_OK)
        return status;
    if (!hyb_same_shape(&call->layout[0], &call->layout[1]))
        return hyb_fail(HYB_BAD_ARGUMENT, "the output's shape is not the input's");
    const int64_t *shape = call->layout[0].shape;
    const int64_t  cost = shape[2] > 0 && shape[1] > 65536 / shape[2] ? 65536 : shape[1] * shape[2];
    *range = (hyb_range){shape[1] > 0 && shape[2] > 0 ? shape[0] : 0, grain_of(2 * cost)};
    return HYB_OK;
}

#define RECURRENCE(t)                                                                            \
    HYB_KERNEL(recurrence_##t)                                                                   \
    {                                                                                            \
        const int64_t rows = call->layout[0].shape[1], width = call->layout[0].shape[2];         \
        for (int64_t a = begin; a < end; a++) {                                                  \
            const int64_t first = a * rows * width;                                              \
            const c_##t  *x = (const c_##t *)call->data[0] + first;                              \
            const c_##t  *factor = (const c_##t *)call->data[1] + first;                         \
            c_##t        *y = (c_##t *)call->data[2] + first;                                    \
            memcpy(y, x, (size_t)(rows > 0 ? width : 0) * sizeof *y);                            \
            for (int64_t i = width; i < rows * width; i++)                                       \
                y[i] = x[i] + factor[i] * y[i - width];                                          \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }                                                                                            \
    HYB_PREPARE(prepare_recurrence_##t)                                                          \
    {                                                                                            \
        const hyb_layout others[2] = {call->layout[1], call->layout[2]};                         \
        const hyb_call   second = {.layout = others};                                            \
        const hyb_status status = cumulative_prepare(&second, HYB_DTYPE_##t, range);             \
        return status == HYB_OK ? cumulative_prepare(call, HYB_DTYPE_##t, range) : status;       \
    }

HYB_FLOATS(RECURRENCE)

/* Running sums.  The first element is added to -0, which leaves every number as it is; `lost` is 0
 * as long as nothing was, and NaN once the sum is infinite. */
typedef struct { double sum, lost; } total_float;
enum { TOTALS = 32 };

static inline uint64_t add_int(uint64_t *total, uint64_t x) { return *total += x; }

static inline double add_f32(total_float *total, double x) { return total->sum += x; }

static inline double add_f64(total_float *total, double x)
{
    const double former = total->sum, sum = former + x;
    total->sum = sum;
    total->lost += fabs(former) < fabs(x) ? x - sum + former : former - sum + x;
    return total->lost > 0 || total->lost < 0 ? sum + total->lost : sum;
}

#define EACH "kernels/cumulative_typed.inc.c"
#define TOTAL total_float
#define NOTHING (total_float){-0.0, 0}
#define ADDED N(add)
#include "kernels/each_float.inc.c"
#undef TOTAL
#undef NOTHING
#undef ADDED
#define TOTAL uint64_t
#define NOTHING 0
#define ADDED add_int
#include "kernels/each_integer.inc.c"
#undef TOTAL
#undef NOTHING
#undef ADDED
#undef EACH

#define CUMULATIVE_ROWS(t)                                                                       \
    HYB_TABLE_ROW(cumulative_sum, HYB_DTYPE_##t, 1, 1, 0, HYB_PLAIN, prepare_cumulative_##t,     \
                  cumulative_sum_##t)                                                            \
    HYB_TABLE_ROW(cumulative_prod, HYB_DTYPE_##t, 1, 1, 0, HYB_PLAIN, prepare_cumulative_##t,    \
                  cumulative_prod_##t)

#define RECURRENCE_ROW(t)                                                                        \
    HYB_TABLE_ROW(recurrence, HYB_DTYPE_##t, 2, 1, 0, HYB_PLAIN, prepare_recurrence_##t,         \
                  recurrence_##t)

const hyb_kernel HYB_SYM(hyb_cumulative_kernels)[] = {
    HYB_NUMBERS(CUMULATIVE_ROWS)
    HYB_FLOATS(RECURRENCE_ROW)
    {0},
};

#else

const hyb_kernel HYB_SYM(hyb_cumulative_kernels)[] = {{0}};

#endif
