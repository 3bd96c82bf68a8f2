/* reduce.inc.c - one axis becomes one number.
 *
 *   y[a, b] = x[a, 0, b] (+) x[a, 1, b] (+) ... (+) x[a, R - 1, b]
 *
 * Split      by (a, block of columns b); one huge reduction spreads its own rows over the threads.
 * Layout     dense [A, R, B] -> dense [A, B].
 * In place   not allowed.
 * Order      a binary tree over the rows of the axis, fixed by (R, B): see reduce_tree.inc.c.  The
 *            worst rounding error of a sum is about (12 + log2 R) ulp of the sum of magnitudes.
 * Special    integers wrap; max and min give NaN when any element is NaN; argmax and argmin give
 *            the first NaN, else the first of equals; mean divides once, at the end.
 * Empty      R = 0: sum 0, prod 1, mean NaN, any false, all true; the others refuse it.
 * Pre-ops    x may be made a few rows at a time: how many is no matter to the tree.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

typedef enum { REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN } reduce_op;

enum {
    REDUCE_LEAF = 64,          /* rows added one group of eight after the other, below the tree */
    REDUCE_CHUNK = 512,        /* rows of a huge reduction for one thread: 2^k leaves */
    REDUCE_NARROW = 64,        /* rows shorter than this are laid side by side */
    REDUCE_BLOCK_BYTES = 1024, /* columns reduced together, for each level of the tree */
    REDUCE_FEW = 8,            /* units: fewer, if deep, are one that calls the pool itself */
    /* Of what pre-ops make: work is divided sooner, rows are wider, and eight of them have room. */
    REDUCE_MADE_CHUNK = 128,
    REDUCE_MADE_BYTES = 4096,
    REDUCE_ROOM_BYTES = 8 * REDUCE_MADE_BYTES,
    REDUCE_NEAR_BYTES = 16384
};

/* A reduction seen as `outer` stacks of `rows` long rows, each of `fold` short ones in a row. */
typedef struct {
    int64_t outer, length, inner; /* A, R, B */
    int64_t fold;                 /* short rows in a long one: 2^k, or 1 when B is not short */
    int64_t rows;                 /* long rows; length - rows * fold short ones are left over */
    int64_t block, blocks;        /* columns of one unit; units in one stack */
    int64_t units;                /* outer * blocks */
    int64_t chunk, chunks;        /* long rows of a chunk; chunks in one unit */
    bool    deep;                 /* few units of many chunks: run them as one */
} reduce_shape;

static reduce_shape reduce_shape_of(const hyb_call *call)
{
    const hyb_layout *x = &call->layout[0];
    const int64_t     block_bytes = call->pre ? REDUCE_MADE_BYTES : REDUCE_BLOCK_BYTES;
    reduce_shape s = {.outer = x->shape[0], .length = x->shape[1], .inner = x->shape[2], .fold = 1};
    while (s.inner > 0 && s.fold * 2 * s.inner <= REDUCE_NARROW)
        s.fold *= 2;
    s.rows = s.length / s.fold;
    s.block = s.fold > 1 ? s.inner : block_bytes / hyb_itemsize(x->dtype);
    s.blocks = s.inner > s.block ? (s.inner + s.block - 1) / s.block : 1;
    s.units = s.inner > 0 ? s.outer * s.blocks : 0;
    s.chunk = call->pre ? REDUCE_MADE_CHUNK : REDUCE_CHUNK;
    s.chunks = (s.rows + s.chunk - 1) / s.chunk;
    s.deep = s.units > 0 && s.units < REDUCE_FEW && s.chunks >= (call->pre ? 2 : 4);
    return s;
}

/* Where a unit stands: elements before its first one in x and in y, and its columns. */
typedef struct { int64_t x, y, width; } reduce_place;

static inline reduce_place reduce_place_of(const reduce_shape *s, int64_t unit)
{
    if (s->blocks == 1)
        return (reduce_place){unit * s->length * s->inner, unit * s->inner, s->inner};
    const int64_t outer = unit / s->blocks, first = (unit - outer * s->blocks) * s->block;
    const int64_t left = s->inner - first;
    return (reduce_place){outer * s->length * s->inner + first, outer * s->inner + first,
                          left < s->block ? left : s->block};
}

/* Layouts of every reduction; `out` is the dtype of the result, `empty` whether R may be 0. */
static hyb_status reduce_prepare(const hyb_call *call, int32_t in, int32_t out, bool empty,
                                 reduce_shape *s)
{
    hyb_status status;
    if ((status = require_dense(call, 0, in, 3)) != HYB_OK ||
        (status = require_dense(call, 1, out, 2)) != HYB_OK ||
        (status = require_size(call, 1, 0, call->layout[0].shape[0])) != HYB_OK ||
        (status = require_size(call, 1, 1, call->layout[0].shape[2])) != HYB_OK)
        return status;
    *s = reduce_shape_of(call);
    if (!empty && s->length == 0 && s->units > 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "this reduction is undefined over an axis of size 0");
    return HYB_OK;
}

/* How many parts of `elements` are worth a task. */
static int64_t reduce_grain(const hyb_pre *pre, int64_t elements)
{
    if (!pre)
        return grain_of(elements + 32);
    const double grain = 1 / ((double)elements * (pre->work + 1.0 / 32768) + 32.0 / 32768);
    return grain > 1 ? (int64_t)grain : 1;
}

static hyb_range reduce_range(const hyb_call *call, const reduce_shape *s, bool deep)
{
    if (deep)
        return (hyb_range){1, 1};
    const int64_t columns = s->inner < s->block ? s->inner : s->block;
    return (hyb_range){s->units, reduce_grain(call->pre, s->length * columns)};
}

/* What `call` reduces, elements [at, limit) of it, with room for some of them. */
#define REDUCE_SOURCE(source, call, at, limit)        \
    T source##_room[REDUCE_ROOM_BYTES / sizeof(T)]; \
    N(reduce_source) source = N(reduce_source_of)(call, at, limit, source##_room)

/* One copy of the tree per dtype. */
#define EACH "kernels/reduce_tree.inc.c"
#include "kernels/each_float.inc.c"
#include "kernels/each_integer.inc.c"
#undef EACH

/* The outputs of units [begin, end), of which a deep reduction has only one. */
static void reduce_outputs(const reduce_shape *s, int64_t begin, int64_t end, int64_t *first,
                           int64_t *last)
{
    *first = reduce_place_of(s, begin).y;
    *last = reduce_place_of(s, s->deep ? s->units : end).y;
}

/* The mean of floats: the sum, divided once. */
#define REDUCE_MEAN(name, T)                                                                 \
    HYB_KERNEL(mean_##name)                                                                  \
    {                                                                                        \
        hyb_status status = reduce_run_##name(REDUCE_SUM, call, begin, end);                 \
        if (status != HYB_OK)                                                                \
            return status;                                                                   \
        const reduce_shape s = reduce_shape_of(call);                            \
        T *y = call->data[1];                                                                \
        int64_t first, last;                                                                 \
        reduce_outputs(&s, begin, end, &first, &last);                                       \
        for (int64_t i = first; i < last; i++)                                               \
            y[i] = (T)((double)y[i] / (double)s.length);                                     \
        return HYB_OK;                                                                       \
    }
REDUCE_MEAN(f32, float)
REDUCE_MEAN(f64, double)

/* any and all are the largest and the smallest byte; a byte other than 0 counts as true. */
static inline __attribute__((always_inline)) hyb_status
reduce_truth(const hyb_call *call, reduce_op op, int64_t begin, int64_t end)
{
    hyb_status status = reduce_run_u8(op, call, begin, end);
    if (status != HYB_OK)
        return status;
    const reduce_shape s = reduce_shape_of(call);
    uint8_t *y = call->data[1];
    int64_t first, last;
    reduce_outputs(&s, begin, end, &first, &last);
    for (int64_t i = first; i < last; i++)
        y[i] = y[i] != 0;
    return HYB_OK;
}

HYB_KERNEL(any_bool) { return reduce_truth(call, REDUCE_MAX, begin, end); }
HYB_KERNEL(all_bool) { return reduce_truth(call, REDUCE_MIN, begin, end); }

HYB_PREPARE(prepare_reduce_truth)
{
    reduce_shape s;
    hyb_status status = reduce_prepare(call, HYB_BOOL, HYB_BOOL, true, &s);
    if (status == HYB_OK)
        *range = reduce_range(call, &s, s.deep);
    return status;
}

HYB_PREPARE(prepare_reduce_arg_bool)
{
    reduce_shape s;
    hyb_status status = reduce_prepare(call, HYB_BOOL, HYB_I64, false, &s);
    if (status == HYB_OK)
        *range = reduce_range(call, &s, s.deep && s.inner == 1);
    return status;
}

#define REDUCE_PLACE(op, name, dtype, prepare) \
    HYB_TABLE_ROW(op, dtype, 1, 1, 0, HYB_PLAIN, prepare, op##_##name)
#define REDUCE_ROW(op, name, dtype, prepare)   \
    HYB_TABLE_ROW(op, dtype, 1, 1, 0, HYB_PRE_OPS, prepare, op##_##name)
#define REDUCE_ROWS(t)                                                \
    REDUCE_ROW(sum, t, HYB_DTYPE_##t, prepare_reduce_##t)             \
    REDUCE_ROW(prod, t, HYB_DTYPE_##t, prepare_reduce_##t)            \
    REDUCE_ROW(max, t, HYB_DTYPE_##t, prepare_reduce_extreme_##t)     \
    REDUCE_ROW(min, t, HYB_DTYPE_##t, prepare_reduce_extreme_##t)     \
    REDUCE_PLACE(argmax, t, HYB_DTYPE_##t, prepare_reduce_arg_##t)    \
    REDUCE_PLACE(argmin, t, HYB_DTYPE_##t, prepare_reduce_arg_##t)

const hyb_kernel HYB_SYM(hyb_reduce_kernels)[] = {
    HYB_NUMBERS(REDUCE_ROWS)
    REDUCE_ROW(mean, f32, HYB_F32, prepare_reduce_f32)
    REDUCE_ROW(mean, f64, HYB_F64, prepare_reduce_f64)
    REDUCE_ROW(any, bool, HYB_BOOL, prepare_reduce_truth)
    REDUCE_ROW(all, bool, HYB_BOOL, prepare_reduce_truth)
    HYB_TABLE_ROW(argmax, HYB_BOOL, 1, 1, 0, HYB_PLAIN, prepare_reduce_arg_bool, argmax_u8)
    HYB_TABLE_ROW(argmin, HYB_BOOL, 1, 1, 0, HYB_PLAIN, prepare_reduce_arg_bool, argmin_u8)
    {0},
};
