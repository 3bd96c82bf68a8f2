/* pooling.inc.c - the greatest element, or the mean, of the windows of planes.
 *
 *   max_pool         y[a, p] = the greatest x[a, i] of window p
 *   max_pool_places  y[a, p] = its place in the plane, counted row by row
 *   avg_pool         y[a, p] = the sum of x[a, i] of window p, divided by the count of p
 *   avg_pool_spread  x[a, i] = the sum of y[a, p] / the count of p, over the windows p that have i
 *
 * Windows    along each axis window p has the places p * stride - padding + k * dilation for
 *            k < kernel that there are; if adaptive, from p * size / count rounded down to
 *            (p + 1) * size / count rounded up.
 * Counts     0: the places of the window that are in the plane or its padding, for dilation 1;
 *            1: those in the plane; 2: 1, so that means are sums.
 * Attributes i: kernel (3), stride (3), padding (3), dilation (3), adaptive (0/1), counts.
 * Split      by rows of results; avg_pool_spread by planes.
 * Layout     dense [A, 3 axes] -> dense [A, 3 axes].
 * In place   not allowed.
 * Order      along a window row by row.  Places in planes: the rows p in order.
 * Special    NaN is greater than every number; of equals the first one counts.  A window without
 *            a place gives -inf, place 0, and the mean 0.
 */
#pragma once

#include "kernels/convolution/family.inc.c"

enum { POOL_FEW = 6 }; /* windows of a row: fewer are taken one by one */

typedef struct {
    int64_t size, count; /* places of the plane; windows */
    int64_t kernel, stride, padding, dilation;
    bool    adaptive;
} pool_axis;

typedef struct {
    pool_axis axis[3];
    int64_t   planes, plane, windows; /* places of a plane; windows of a plane */
    int64_t   counts;
} pool_shape;

/* The places first, first + step ... of a window, `n` of them; its count with the padding. */
typedef struct { int64_t first, n, step, span; } pool_window;

static inline pool_window pool_window_of(const pool_axis *axis, int64_t p)
{
    if (axis->adaptive) {
        const int64_t first = p * axis->size / axis->count;
        const int64_t end = ((p + 1) * axis->size + axis->count - 1) / axis->count;
        return (pool_window){first, end - first, 1, end - first};
    }
    const int64_t start = p * axis->stride - axis->padding, step = axis->dilation;
    int64_t low, high;
    conv_inside(start, step, axis->kernel, axis->size, &low, &high);
    const int64_t room = axis->size + axis->padding - start;
    return (pool_window){start + low * step, high - low, step, matmul_smaller(axis->kernel, room)};
}

static inline int64_t pool_count_of(const pool_shape *s, const pool_window *window)
{
    const int64_t count = s->counts == 0 ? window->span : s->counts == 1 ? window->n : 1;
    return count > 0 ? count : 1;
}

static pool_shape pool_shape_of(const hyb_call *call, int planes, int windows)
{
    const int64_t *of_x = call->layout[planes].shape, *of_y = call->layout[windows].shape;
    pool_shape s = {.planes = of_x[0], .plane = of_x[1] * of_x[2] * of_x[3],
                    .windows = of_y[1] * of_y[2] * of_y[3], .counts = call->attrs[13].i};
    for (int a = 0; a < 3; a++)
        s.axis[a] = (pool_axis){of_x[1 + a], of_y[1 + a], call->attrs[a].i, call->attrs[3 + a].i,
                                call->attrs[6 + a].i, call->attrs[9 + a].i,
                                call->attrs[12].i != 0};
    return s;
}

/* Operand `planes` has the planes, operand `windows` their windows. */
static hyb_status pool_require(const hyb_call *call, int planes, int windows, int32_t dtype,
                               int32_t out)
{
    hyb_status status;
    if ((status = require_dense(call, 0, dtype, 4)) != HYB_OK ||
        (status = require_dense(call, 1, out, 4)) != HYB_OK ||
        (status = require_size(call, 1, 0, call->layout[0].shape[0])) != HYB_OK)
        return status;
    for (int a = 0; a < 3; a++) {
        for (int kind = 0; kind < 4; kind++) {
            const int64_t value = call->attrs[3 * kind + a].i;
            if (value < (kind == 2 ? 0 : 1) || value > CONV_LIMIT)
                return hyb_fail(HYB_BAD_ARGUMENT, "pooling: attribute %d is %lld", 3 * kind + a,
                                (long long)value);
        }
        if (call->layout[planes].shape[1 + a] > CONV_LIMIT ||
            call->layout[windows].shape[1 + a] > CONV_LIMIT)
            return hyb_fail(HYB_BAD_ARGUMENT, "pooling: axis %d is too long", 1 + a);
    }
    if (call->attrs[13].i < 0 || call->attrs[13].i > 2)
        return hyb_fail(HYB_BAD_ARGUMENT, "pooling: there is no count %lld",
                        (long long)call->attrs[13].i);
    return HYB_OK;
}

/* Elementary operations of a row of windows, roughly. */
static int64_t pool_cost(const pool_shape *s)
{
    double cost = (double)s->axis[2].count;
    for (int a = 0; a < 3; a++) {
        const pool_axis *axis = &s->axis[a];
        cost *= axis->adaptive ? 1 + (double)axis->size / (double)(axis->count + 1)
                               : (double)matmul_smaller(axis->kernel, axis->size);
    }
    return cost < 65536 ? (int64_t)cost : 65536;
}

static hyb_status pool_range(const hyb_call *call, int32_t out, int32_t dtype, hyb_range *range)
{
    const hyb_status status = pool_require(call, 0, 1, dtype, out);
    if (status != HYB_OK)
        return status;
    const pool_shape s = pool_shape_of(call, 0, 1);
    const int64_t rows = s.planes * s.axis[0].count * s.axis[1].count;
    *range = (hyb_range){s.axis[2].count > 0 ? rows : 0, grain_of(pool_cost(&s))};
    return HYB_OK;
}

/* Row `unit` of all windows: its plane, and its windows along the first two axes. */
typedef struct {
    int64_t     plane;
    pool_window deep, high;
} pool_row;

static inline pool_row pool_row_of(const pool_shape *s, int64_t unit)
{
    const int64_t h = unit % s->axis[1].count, rest = unit / s->axis[1].count;
    return (pool_row){rest / s->axis[0].count,
                      pool_window_of(&s->axis[0], rest % s->axis[0].count),
                      pool_window_of(&s->axis[1], h)};
}

#define EACH "kernels/pooling_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define POOLING_ROW(name, t)                                                                     \
    HYB_TABLE_ROW(name, HYB_DTYPE_##t, 1, 1, 14, HYB_PLAIN, prepare_##name##_##t, name##_##t)
#define POOLING_ROWS(t)                                                                          \
    POOLING_ROW(max_pool, t) POOLING_ROW(max_pool_places, t) POOLING_ROW(avg_pool, t)            \
    POOLING_ROW(avg_pool_spread, t)

const hyb_kernel HYB_SYM(hyb_pooling_kernels)[] = {
    HYB_FLOATS(POOLING_ROWS)
    {0},
};
#undef POOLING_ROWS
#undef POOLING_ROW
