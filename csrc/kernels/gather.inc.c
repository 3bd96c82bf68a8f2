/* gather.inc.c - elements picked, or added to, by index.
 *
 *   take               y[a, i, b] = x[a, index[i], b]
 *   scatter            y = x;  y[a, index[i], b] = u[a, i, b]   the last of equal indices stays
 *   scatter_add        y = x;  y[a, index[i], b] += u[a, i, b]  for i = 0, 1, ...
 *   take_along         y[r, k] = x[r, index[r, k]]
 *   scatter_along      y = x;  y[r, index[r, k]] = u[r, k]   the last of equal indices stays
 *   scatter_along_add  y = x;  y[r, index[r, k]] += u[r, k]  for k = 0, 1, ...
 *
 * Split      take: rows (a, i); scatter: a; scatter_add: (a, block of b); the others: rows r.
 * Layout     dense; take [A, R, B], [I] -> [A, I, B]; along [rows, n], [rows, k].
 * In place   the scatters, over x; then only the elements that are updated are touched.
 * Indices    negative ones count from the end; one outside the axis is HYB_BAD_INDEX.  The scatters
 *            check all the indices of a call before they write.
 * Order      updates of one element are added in the order of the indices, whatever the threads.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

enum { SCATTER_BLOCK = 256 }; /* columns of one unit of scatter_add */

static hyb_status gather_bad_index(int64_t index, int64_t position, int64_t size)
{
    return hyb_fail(HYB_BAD_INDEX,
                    "index %lld at position %lld is out of range for an axis of size %lld",
                    (long long)index, (long long)position, (long long)size);
}

/* What an update starts from: nothing to do when it is in place. */
static inline void gather_start(void *y, const void *x, size_t nbytes)
{
    if (y != x)
        memcpy(y, x, nbytes);
}

/* Where `index` points on an axis of `size`; the caller has checked it. */
static inline int64_t gather_wrap(int64_t index, int64_t size)
{
    return index < 0 ? index + size : index;
}

static inline bool gather_outside(int64_t index, int64_t size)
{
    return (index < -size) | (index >= size);
}

static hyb_status gather_check(const int64_t *index, int64_t begin, int64_t end, int64_t size)
{
    for (int64_t i = begin; i < end; i++)
        if (gather_outside(index[i], size))
            return gather_bad_index(index[i], i, size);
    return HYB_OK;
}

/* Rows [begin, end) of the output [A, I, B], one of `nbytes`; inlined with a constant size for
 * short rows, whose memcpy is then a single move. */
static inline __attribute__((always_inline)) hyb_status
take_rows(const hyb_call *call, int64_t begin, int64_t end, int64_t nbytes)
{
    const char *x = call->data[0];
    const int64_t *index = call->data[1];
    char *y = call->data[2];
    const int64_t size = call->layout[0].shape[1], count = call->layout[1].shape[0];
    y += begin * nbytes;
    for (int64_t a = begin / count, i = begin % count; a * count + i < end; a++, i = 0) {
        const char *rows = x + a * size * nbytes;
        const int64_t last = end - a * count < count ? end - a * count : count;
        for (; i < last; i++, y += nbytes) {
            if (gather_outside(index[i], size))
                return gather_bad_index(index[i], i, size);
            memcpy(y, rows + gather_wrap(index[i], size) * nbytes, (size_t)nbytes);
        }
    }
    return HYB_OK;
}

HYB_KERNEL(take)
{
    const int64_t nbytes = call->layout[0].shape[2] * hyb_itemsize(call->layout[0].dtype);
    switch (nbytes) {
    case 1: return take_rows(call, begin, end, 1);
    case 2: return take_rows(call, begin, end, 2);
    case 4: return take_rows(call, begin, end, 4);
    case 8: return take_rows(call, begin, end, 8);
    case 16: return take_rows(call, begin, end, 16);
    case 32: return take_rows(call, begin, end, 32);
    default: return take_rows(call, begin, end, nbytes);
    }
}

/* Of take and the scatters: operand `whole` is [A, R, B], `part` [A, I, B], 1 the index. */
static hyb_status gather_prepare(const hyb_call *call, int whole, int part, int32_t dtype)
{
    hyb_status status;
    if ((status = require_dense(call, whole, dtype, 3)) != HYB_OK ||
        (status = require_dense(call, 1, HYB_I64, 1)) != HYB_OK ||
        (status = require_dense(call, part, dtype, 3)) != HYB_OK ||
        (status = require_size(call, part, 0, call->layout[whole].shape[0])) != HYB_OK ||
        (status = require_size(call, part, 1, call->layout[1].shape[0])) != HYB_OK)
        return status;
    return require_size(call, part, 2, call->layout[whole].shape[2]);
}

HYB_PREPARE(prepare_take)
{
    const hyb_layout *y = &call->layout[2];
    hyb_status status = gather_prepare(call, 0, 2, call->layout[0].dtype);
    if (status != HYB_OK)
        return status;
    const int64_t cost = 4 + y->shape[2] * hyb_itemsize(y->dtype) / 8;
    *range = (hyb_range){y->shape[2] > 0 ? y->shape[0] * y->shape[1] : 0, grain_of(cost)};
    return HYB_OK;
}

HYB_KERNEL(scatter)
{
    const char *x = call->data[0], *update = call->data[2];
    const int64_t *index = call->data[1];
    char *y = call->data[3];
    const int64_t size = call->layout[0].shape[1], count = call->layout[1].shape[0];
    const int64_t nbytes = call->layout[0].shape[2] * hyb_itemsize(call->layout[0].dtype);
    hyb_status status = gather_check(index, 0, count, size);
    if (status != HYB_OK)
        return status;
    const int64_t plane = size * nbytes;
    gather_start(y + begin * plane, x + begin * plane, (size_t)((end - begin) * plane));
    for (int64_t a = begin; a < end; a++)
        for (int64_t i = 0; i < count; i++)
            memcpy(y + a * plane + gather_wrap(index[i], size) * nbytes,
                   update + (a * count + i) * nbytes, (size_t)nbytes);
    return HYB_OK;
}

HYB_PREPARE(prepare_scatter)
{
    const int32_t dtype = call->layout[0].dtype;
    hyb_status status;
    if ((status = gather_prepare(call, 0, 2, dtype)) != HYB_OK ||
        (status = require_dense(call, 3, dtype, 3)) != HYB_OK)
        return status;
    if (!hyb_same_shape(&call->layout[0], &call->layout[3]))
        return hyb_fail(HYB_BAD_ARGUMENT, "the output's shape is not the first input's");
    const int64_t *shape = call->layout[0].shape;
    const int64_t count = call->layout[1].shape[0];
    *range = (hyb_range){shape[0], grain_of(count + (shape[1] + count) * shape[2] / 4)};
    return HYB_OK;
}

static inline __attribute__((always_inline)) hyb_status
take_along_rows(const hyb_call *call, int64_t begin, int64_t end, int64_t item)
{
    const char *x = call->data[0];
    const int64_t *index = call->data[1];
    char *y = call->data[2];
    const int64_t size = call->layout[0].shape[1], count = call->layout[1].shape[1];
    for (int64_t row = begin; row < end; row++) {
        const char *line = x + row * size * item;
        for (int64_t i = row * count; i < (row + 1) * count; i++) {
            if (gather_outside(index[i], size))
                return gather_bad_index(index[i], i, size);
            memcpy(y + i * item, line + gather_wrap(index[i], size) * item, (size_t)item);
        }
    }
    return HYB_OK;
}

HYB_KERNEL(take_along)
{
    switch (hyb_itemsize(call->layout[0].dtype)) {
    case 1: return take_along_rows(call, begin, end, 1);
    case 2: return take_along_rows(call, begin, end, 2);
    case 4: return take_along_rows(call, begin, end, 4);
    default: return take_along_rows(call, begin, end, 8);
    }
}

/* Of the along kernels: operand `whole` is [rows, n], `part` and 1, the index, [rows, k]. */
static hyb_status along_prepare(const hyb_call *call, int whole, int part, int32_t dtype)
{
    hyb_status status;
    if ((status = require_dense(call, whole, dtype, 2)) != HYB_OK ||
        (status = require_dense(call, 1, HYB_I64, 2)) != HYB_OK ||
        (status = require_dense(call, part, dtype, 2)) != HYB_OK ||
        (status = require_size(call, 1, 0, call->layout[whole].shape[0])) != HYB_OK ||
        (status = require_size(call, part, 0, call->layout[whole].shape[0])) != HYB_OK)
        return status;
    return require_size(call, part, 1, call->layout[1].shape[1]);
}

HYB_PREPARE(prepare_take_along)
{
    hyb_status status = along_prepare(call, 0, 2, call->layout[0].dtype);
    if (status == HYB_OK)
        *range = (hyb_range){call->layout[1].shape[0], grain_of(2 * call->layout[1].shape[1])};
    return status;
}

static inline __attribute__((always_inline)) hyb_status
scatter_along_rows(const hyb_call *call, int64_t begin, int64_t end, int64_t item)
{
    const char *x = call->data[0], *update = call->data[2];
    const int64_t *index = call->data[1];
    char *y = call->data[3];
    const int64_t size = call->layout[0].shape[1], count = call->layout[1].shape[1];
    hyb_status status = gather_check(index, begin * count, end * count, size);
    if (status != HYB_OK)
        return status;
    const int64_t line = size * item;
    gather_start(y + begin * line, x + begin * line, (size_t)((end - begin) * line));
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = row * count; i < (row + 1) * count; i++)
            memcpy(y + row * line + gather_wrap(index[i], size) * item, update + i * item,
                   (size_t)item);
    return HYB_OK;
}

HYB_KERNEL(scatter_along)
{
    switch (hyb_itemsize(call->layout[0].dtype)) {
    case 1: return scatter_along_rows(call, begin, end, 1);
    case 2: return scatter_along_rows(call, begin, end, 2);
    case 4: return scatter_along_rows(call, begin, end, 4);
    default: return scatter_along_rows(call, begin, end, 8);
    }
}

static hyb_status scatter_along_prepare(const hyb_call *call, int32_t dtype, hyb_range *range)
{
    hyb_status status;
    if ((status = along_prepare(call, 0, 2, dtype)) != HYB_OK ||
        (status = require_dense(call, 3, dtype, 2)) != HYB_OK)
        return status;
    if (!hyb_same_shape(&call->layout[0], &call->layout[3]))
        return hyb_fail(HYB_BAD_ARGUMENT, "the output's shape is not the first input's");
    const int64_t size = call->layout[0].shape[1], count = call->layout[1].shape[1];
    *range = (hyb_range){call->layout[0].shape[0], grain_of(size + 2 * count)};
    return HYB_OK;
}

HYB_PREPARE(prepare_scatter_along)
{
    return scatter_along_prepare(call, call->layout[0].dtype, range);
}

#define EACH "kernels/scatter_typed.inc.c"
#include "kernels/each_float.inc.c"
#include "kernels/each_integer.inc.c"
#undef EACH

#define TAKE_ROWS(dtype)                                                                 \
    HYB_TABLE_ROW(take, dtype, 2, 1, 0, HYB_PLAIN, prepare_take, take)                   \
    HYB_TABLE_ROW(scatter, dtype, 3, 1, 0, HYB_IN_PLACE, prepare_scatter, scatter)       \
    HYB_TABLE_ROW(take_along, dtype, 2, 1, 0, HYB_PLAIN, prepare_take_along, take_along) \
    HYB_TABLE_ROW(scatter_along, dtype, 3, 1, 0, HYB_IN_PLACE, prepare_scatter_along,    \
                  scatter_along)

#define SCATTER_ROW(op, dtype, name) \
    HYB_TABLE_ROW(op, dtype, 3, 1, 0, HYB_IN_PLACE, prepare_##op##_##name, op##_##name)
#define SCATTER_ROWS(t) \
    SCATTER_ROW(scatter_add, HYB_DTYPE_##t, t) SCATTER_ROW(scatter_along_add, HYB_DTYPE_##t, t)
#define TAKE_ROWS_OF(t) TAKE_ROWS(HYB_DTYPE_##t)

const hyb_kernel HYB_SYM(hyb_gather_kernels)[] = {
    TAKE_ROWS(HYB_BOOL)
    HYB_NUMBERS(TAKE_ROWS_OF)
    HYB_NUMBERS(SCATTER_ROWS)
    {0},
};
