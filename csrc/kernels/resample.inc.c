/* resample.inc.c - linear interpolation along one axis, and its transpose.
 *
 *   resample         y[a, i, b] = (1 - w) * x[a, l, b] + w * x[a, h, b]
 *   resample_spread  x[a, l, b] += (1 - w) * y[a, i, b],  x[a, h, b] += w * y[a, i, b]  from 0 on
 *
 * for the place p = i * scale if align, else (i + 1/2) * scale - 1/2, held within 0 .. R - 1:
 * l = floor(p), w = p - l, and h = l + 1, or l at the end.
 *
 * Attributes i: align (0/1); f: scale.  Places are computed in float64.
 * Split      by a.
 * Layout     dense [A, R, B] -> dense [A, I, B], and back.
 * In place   not allowed.
 * Order      i = 0, 1 ...; l before h.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

enum { RESAMPLE_CHUNKS = 16 }; /* of short rows: each begins with a table of all places */

/* Where an element of the result comes from; elements of one [R, B]. */
typedef struct { int64_t low, high; double weight; } resample_place;

static inline resample_place resample_place_of(int64_t i, int64_t size, double scale, bool align)
{
    double p = align ? (double)i * scale : ((double)i + 0.5) * scale - 0.5;
    if (!(p > 0))
        p = 0;
    if (p >= (double)(size - 1))
        return (resample_place){size - 1, size - 1, 0};
    const int64_t low = (int64_t)p;
    return (resample_place){low, low + 1, p - (double)low};
}

/* Operand `whole` is [A, R, B] and operand `other` [A, I, B]. */
static hyb_status resample_require(const hyb_call *call, int whole, int other, int32_t dtype,
                                   hyb_range *range)
{
    hyb_status status;
    const int64_t *of_x = call->layout[whole].shape, *of_y = call->layout[other].shape;
    if ((status = require_dense(call, 0, dtype, 3)) != HYB_OK ||
        (status = require_dense(call, 1, dtype, 3)) != HYB_OK ||
        (status = require_size(call, other, 0, of_x[0])) != HYB_OK ||
        (status = require_size(call, other, 2, of_x[2])) != HYB_OK)
        return status;
    if (of_x[1] == 0 && of_y[1] != 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "resample: the axis is empty");
    const double cost = 4.0 * (double)(of_y[1] + of_x[1]) * (double)of_x[2];
    const bool any = of_x[2] > 0 && call->layout[1].shape[1] > 0;
    int64_t grain = grain_of(cost < 65536 ? (int64_t)cost : 65536);
    if (of_x[2] * hyb_itemsize(dtype) < HYB_VECTOR_BYTES && grain < of_x[0] / RESAMPLE_CHUNKS)
        grain = of_x[0] / RESAMPLE_CHUNKS;
    *range = (hyb_range){any ? of_x[0] : 0, grain};
    return HYB_OK;
}

#define EACH "kernels/resample_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define RESAMPLE_ROW(name, t)                                                                    \
    HYB_TABLE_ROW(name, HYB_DTYPE_##t, 1, 1, 2, HYB_PLAIN, prepare_##name##_##t, name##_##t)
#define RESAMPLE_ROWS(t) RESAMPLE_ROW(resample, t) RESAMPLE_ROW(resample_spread, t)

const hyb_kernel HYB_SYM(hyb_resample_kernels)[] = {
    HYB_FLOATS(RESAMPLE_ROWS)
    {0},
};
#undef RESAMPLE_ROWS
#undef RESAMPLE_ROW
