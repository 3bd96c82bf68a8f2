/* unfold.inc.c - the windows of planes side by side, and sums of them put back.
 *
 *   unfold  y[a, k, p] = x[a, i]                          0 where x has no such place
 *   fold    x[a, i] = the sum of the y[a, k, p] that have this place
 *
 * for i = p * stride - padding + k * dilation along each axis, as for convolutions.
 *
 * Operands   x [A, 3 axes]; y [A, 3 axes of k, 3 axes of p].
 * Attributes i: stride (3), padding (3), dilation (3).
 * Split      by a.
 * Layout     dense.
 * In place   not allowed.
 * Order      fold adds from 0 on, k by k in order.
 */
#pragma once

#include "kernels/convolution/family.inc.c"

/* Operand `planes` has the planes, operand `windows` the windows. */
static hyb_status unfold_require(const hyb_call *call, int planes, int windows, int32_t dtype,
                                 hyb_range *range)
{
    hyb_status status;
    const hyb_layout *x = &call->layout[planes], *y = &call->layout[windows];
    if ((status = require_dense(call, planes, dtype, 4)) != HYB_OK ||
        (status = require_dense(call, windows, dtype, 7)) != HYB_OK ||
        (status = require_size(call, windows, 0, x->shape[0])) != HYB_OK)
        return status;
    for (int a = 0; a < 3; a++) {
        for (int kind = 0; kind < 3; kind++) {
            const int64_t value = conv_attr(call, kind, a);
            if (value < (kind == 1 ? 0 : 1) || value > CONV_LIMIT)
                return hyb_fail(HYB_BAD_ARGUMENT, "unfold: attribute %d is %lld", 3 * kind + a,
                                (long long)value);
        }
        if (x->shape[1 + a] > CONV_LIMIT || y->shape[1 + a] > CONV_LIMIT ||
            y->shape[4 + a] > CONV_LIMIT)
            return hyb_fail(HYB_BAD_ARGUMENT, "unfold: axis %d is too long", 1 + a);
    }
    const hyb_layout *out = &call->layout[1];
    const double planes_each = hyb_elements(out) > 0 ? (double)out->shape[0] : 1;
    const double cost = (double)(hyb_elements(x) + hyb_elements(y)) / planes_each;
    *range = (hyb_range){hyb_elements(out) > 0 ? out->shape[0] : 0,
                         grain_of(cost < 65536 ? (int64_t)cost : 65536)};
    return HYB_OK;
}

#define UNFOLD(t)                                                                                \
    /* One plane and its windows; `back`: from the windows into the plane. */                    \
    static inline __attribute__((always_inline)) void unfold_plane_##t(                          \
        const hyb_call *call, const int64_t *sizes, const int64_t *shape, c_##t *restrict plane, \
        c_##t *restrict windows, bool back)                                                      \
    {                                                                                            \
        const int64_t *kernel = shape + 1, *counts = shape + 4, items = kernel[1] * kernel[2];   \
        const int64_t stride = conv_attr(call, 0, 2);                                            \
        for (int64_t k = 0; k < kernel[0] * items; k++) {                                        \
            const int64_t tap[3] = {k / items, k / kernel[2] % kernel[1], k % kernel[2]};        \
            int64_t offset[3], low, high;                                                        \
            for (int a = 0; a < 3; a++)                                                          \
                offset[a] = tap[a] * conv_attr(call, 2, a) - conv_attr(call, 1, a);              \
            conv_inside(offset[2], stride, counts[2], sizes[2], &low, &high);                    \
            for (int64_t p = 0; p < counts[0] * counts[1]; p++, windows += counts[2]) {          \
                const int64_t d = p / counts[1] * conv_attr(call, 0, 0) + offset[0];             \
                const int64_t h = p % counts[1] * conv_attr(call, 0, 1) + offset[1];             \
                const bool inside = d >= 0 && d < sizes[0] && h >= 0 && h < sizes[1];            \
                if (!back && (!inside || low > 0 || high < counts[2]))                           \
                    memset(windows, 0, (size_t)counts[2] * sizeof *windows);                     \
                if (!inside || low == high)                                                      \
                    continue;                                                                    \
                c_##t *line = plane + (d * sizes[1] + h) * sizes[2] + offset[2] + low * stride;  \
                if (!back && stride == 1)                                                        \
                    memcpy(windows + low, line, (size_t)(high - low) * sizeof *windows);         \
                else if (!back)                                                                  \
                    for (int64_t j = 0; j < high - low; j++)                                     \
                        windows[low + j] = line[j * stride];                                     \
                else                                                                             \
                    for (int64_t j = 0; j < high - low; j++)                                     \
                        line[j * stride] += windows[low + j];                                    \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    HYB_KERNEL(unfold_##t)                                                                       \
    {                                                                                            \
        const int64_t *sizes = call->layout[0].shape + 1, *shape = call->layout[1].shape;        \
        const int64_t in = sizes[0] * sizes[1] * sizes[2];                                       \
        const int64_t out = hyb_elements(&call->layout[1]) / shape[0];                           \
        for (int64_t a = begin; a < end; a++)                                                    \
            unfold_plane_##t(call, sizes, shape, (c_##t *)call->data[0] + a * in,                \
                             (c_##t *)call->data[1] + a * out, false);                           \
        return HYB_OK;                                                                           \
    }                                                                                            \
    HYB_KERNEL(fold_##t)                                                                         \
    {                                                                                            \
        const int64_t *sizes = call->layout[1].shape + 1, *shape = call->layout[0].shape;        \
        const int64_t out = sizes[0] * sizes[1] * sizes[2];                                      \
        const int64_t in = hyb_elements(&call->layout[0]) / shape[0];                            \
        for (int64_t a = begin; a < end; a++) {                                                  \
            c_##t *plane = (c_##t *)call->data[1] + a * out;                                     \
            memset(plane, 0, (size_t)out * sizeof *plane);                                       \
            unfold_plane_##t(call, sizes, shape, plane, (c_##t *)call->data[0] + a * in, true);  \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }                                                                                            \
    HYB_PREPARE(prepare_unfold_##t) { return unfold_require(call, 0, 1, HYB_DTYPE_##t, range); } \
    HYB_PREPARE(prepare_fold_##t) { return unfold_require(call, 1, 0, HYB_DTYPE_##t, range); }

HYB_FLOATS(UNFOLD)

#define UNFOLD_ROWS(t)                                                                           \
    HYB_TABLE_ROW(unfold, HYB_DTYPE_##t, 1, 1, 9, HYB_PLAIN, prepare_unfold_##t, unfold_##t)     \
    HYB_TABLE_ROW(fold, HYB_DTYPE_##t, 1, 1, 9, HYB_PLAIN, prepare_fold_##t, fold_##t)

const hyb_kernel HYB_SYM(hyb_unfold_kernels)[] = {
    HYB_FLOATS(UNFOLD_ROWS)
    {0},
};
#undef UNFOLD_ROWS
#undef UNFOLD
