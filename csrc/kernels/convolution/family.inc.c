/* convolution/family.inc.c - convolutions over one to three axes, and their two transposes.
 *
 *   conv            y[n, o, p] = sum over c, k of x[n, c, i] * w[o, c, k]
 *   conv_transpose  x[n, c, i] = sum over o, k of y[n, o, p] * w[o, c, k]
 *   conv_weight     w[o, c, k] = sum over n, p of y[n, o, p] * x[n, c, i]
 *
 * for i = p * stride - padding + k * dilation along each axis; where x or y has no such place, it
 * counts as 0.  The shapes of all three are given, so that any sizes are good.
 *
 * Operands   conv: x, w -> y, room; conv_transpose: y, w -> x, room; conv_weight: x, y -> w;
 *            conv_prepare: w -> p; conv_prepared: x, w, p -> y.
 *            x is [N, groups * C, 3 axes], y [N, groups * O, 3 axes], w [groups * O, C, 3 axes];
 *            room is as large as w, and what is left in it has no meaning.  p is what conv makes of
 *            w in its room: with it conv_prepared begins where conv has done so, and reads no w.
 *            conv_blocked_prepare and conv_blocked: likewise, of two axes, with 16 channels side by
 *            side (convolution/blocked.inc.c).  Of bytes: convolution/integer.inc.c.
 * Attributes i: stride (3), padding (3), dilation (3), groups; conv_prepare: and N, the axes of x (3)
 *            and those of y (3).
 * Split      the kernel shares its work out itself, so that threads can share a copy of the
 *            weights; its range is one unit.
 * Layout     dense.
 * Aliasing   outputs overlap no input.
 * Post-ops   of conv and conv_transpose, of a few rows of results as soon as they are finished; of
 *            a transpose of several phases at the end.
 * Ways       groups of few channels: convolution/direct.inc.c.  3x3 kernels of float32 at stride 1:
 *            with fewer products (convolution/winograd.inc.c).  Else from copies of planes, with a
 *            register tile for the results (convolution/planes.inc.c) or for the weights
 *            (convolution/weight.inc.c).  Where planes are small against a vector, or the results
 *            few, as a product of matrices whose columns are copied.
 * Accuracy   as matmul: chains of multiply-adds of about D terms, added in order; with few
 *            channels in a group one chain; conv_weight: a chain for each lane.
 * Bits       the order of summation of an element is given by the shapes and attributes.
 *
 * A transposed convolution of stride s falls apart into s convolutions of stride 1 along each
 * axis: the results at places r, r + s, r + 2 s ... need every s-th item of the kernel only.  So one
 * description, conv_axis, serves both, and nothing is multiplied by an inserted zero.
 */
#pragma once

#include "kernels/matmul/family.inc.c"

#include "kernels/convolution/shapes.inc.c"

#define CONV_ROWS_BYTES (64 << 10)     /* of padded rows */
#define CONV_FEW 4                     /* products of channels in a group: no matrices */
#define CONV_UNPACKED 256              /* results of a row, at most, to read weights in place */

#define CONV_BLOCK 16                     /* channels that lie side by side, for conv_blocked */
#define CONV_BLOCKED_BYTES (512 << 10)    /* of copies for a block of results, */
#define CONV_BLOCKED_LARGEST (INT64_C(1) << 30) /* or more, but so many, for long rows */
#define CONV_BLOCKED_FEW 4                /* blocks */


/* conv_weight from copies of planes: a tile has that many terms, and at most so many rows. */
#if HYB_VECTOR_BYTES == 64
#define CONV_WEIGHT_ROWS 8
#define CONV_EACH_WEIGHT_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8)
#else
#define CONV_WEIGHT_ROWS 3
#define CONV_EACH_WEIGHT_ROWS(f) f(1) f(2) f(3)
#endif
#define CONV_TERMS 3
#define CONV_WEIGHT_LEAST 36   /* terms of a task, and at most: */
#define CONV_WEIGHT_MOST 144
#define CONV_WEIGHT_SUMS 4608  /* of vectors of a task */
#define CONV_WEIGHT_VECTORS 32 /* of columns, at least */
#define CONV_COLUMNS 1024      /* of the blocks that a tile passes at a time */
#define CONV_PIECES 32         /* and their number */

#define CONV_POST_ITEMS (1 << 14) /* results worth a task of post-ops alone */

#define WINOGRAD_LANES HYB_LANES_32 /* float32 alone */
#define WINOGRAD_PLACES 16          /* products of a tile */
#define WINOGRAD_BYTES (2 << 20)    /* of a block, to stay in a core's share of the caches */
#define WINOGRAD_TILES 192          /* of a block, at least: as often are the weights used */
#define WINOGRAD_CHANNELS 8         /* of source and result, at least */
#define WINOGRAD_LEAST 64           /* results of a channel: they pay for transforming the weights */
#define WINOGRAD_APART 16           /* items between the weights of places, beyond those */
#define WINOGRAD_FEW 4              /* blocks */
#define WINOGRAD_LARGEST (64 << 20) /* bytes of a block */

#include "kernels/convolution/checks.inc.c"

static int64_t conv_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The phase of a transposed convolution (y, w -> x) whose results begin at `first`. */
static conv_shape conv_phase(const hyb_call *call, const int64_t first[3])
{
    const int64_t *of_y = call->layout[0].shape, *of_w = call->layout[1].shape;
    const int64_t *of_x = call->layout[2].shape, groups = call->attrs[9].i;
    conv_shape s = {.batch = of_x[0], .groups = groups, .channels = of_w[0] / groups,
                    .rows = of_w[1]};
    for (int a = 0; a < 3; a++) {
        const int64_t stride = conv_attr(call, 0, a), dilation = conv_attr(call, 2, a);
        const int64_t kernel = of_w[2 + a], start = first[a] + conv_attr(call, 1, a);
        const int64_t common = conv_gcd(stride, dilation), tap_step = stride / common;
        int64_t tap = 0; /* the first item k for which start - k * dilation is a multiple of stride */
        while (tap < kernel && tap < tap_step && (start - tap * dilation) % stride != 0)
            tap++;
        const bool any = tap < kernel && tap < tap_step;
        s.axis[a] = (conv_axis){.count = (of_x[2 + a] - first[a] + stride - 1) / stride,
                                .first = first[a], .step = stride, .stride = 1,
                                .shift = any ? (start - tap * dilation) / stride : 0,
                                .slide = -(dilation / common), .size = of_y[2 + a],
                                .taps = any ? (kernel - 1 - tap) / tap_step + 1 : 0,
                                .tap = tap, .tap_step = tap_step};
        s.kernel_sizes[a] = kernel;
        s.result_sizes[a] = of_x[2 + a];
    }
    s.kernel_plane = of_w[2] * of_w[3] * of_w[4];
    s.source_plane = of_y[2] * of_y[3] * of_y[4];
    s.result_plane = of_x[2] * of_x[3] * of_x[4];
    s.source_image = s.source_plane * of_y[1];
    s.result_image = s.result_plane * of_x[1];
    s.weight_row = s.kernel_plane;
    s.weight_channel = s.rows * s.kernel_plane;
    s.weight_group = s.channels * s.weight_channel;
    conv_complete(&s);
    return s;
}

/* Some phase of a transposed convolution has no item of the kernel: its results are 0. */
static bool conv_has_gaps(const hyb_call *call)
{
    for (int a = 0; a < 3; a++) {
        const int64_t stride = conv_attr(call, 0, a);
        if (call->layout[1].shape[2 + a] < stride ||
            conv_gcd(stride, conv_attr(call, 2, a)) > 1)
            return true;
    }
    return false;
}

/* Columns [begin, end), which is not empty, as runs. */
static int64_t conv_runs(const conv_shape *s, int64_t begin, int64_t end, conv_run *runs)
{
    const int64_t size = s->axis[2].count;
    int64_t rest = begin / size, n = 0;
    conv_run run = {.j = {0, 0, begin % size}};
    run.j[1] = rest % s->axis[1].count;
    rest /= s->axis[1].count;
    run.j[0] = rest % s->axis[0].count;
    run.image = rest / s->axis[0].count;
    for (int64_t left = end - begin; left > 0; left -= run.length) {
        run.length = matmul_smaller(size - run.j[2], left);
        runs[n++] = run;
        run.j[2] = 0;
        if (++run.j[1] < s->axis[1].count)
            continue;
        run.j[1] = 0;
        if (++run.j[0] < s->axis[0].count)
            continue;
        run.j[0] = 0;
        run.image++;
    }
    return n;
}

/* A block of results that a tile of conv_weight passes: where its copies and its part of the first
 * row of y lie. */
typedef struct {
    int64_t copy, place, columns;
} conv_piece;

/* How results are cut in tiles of 2x2, and those in blocks (convolution/winograd.inc.c). */
typedef struct {
    int64_t high, wide;   /* tiles of a plane */
    int64_t rows, blocks; /* rows of tiles of a block, of one image after the other; all blocks */
    int64_t pitch;        /* items of a channel of a block */
    bool    few;          /* blocks: threads share one, and transform the weights that they use */
    int64_t own;          /* items of a thread's part of the scratch */
    size_t  nbytes;       /* of scratch */
} conv_tiles;

/* Blocks of tiles; false where they do not pay: for other kernels, few channels or few tiles. */
static bool conv_plan_tiles(const conv_shape *s, conv_tiles *t)
{
    const conv_axis *deep = &s->axis[0];
    if (deep->count != 1 || deep->size != 1 || deep->taps != 1 || deep->shift != 0)
        return false;
    for (int a = 1; a < 3; a++) {
        const conv_axis *axis = &s->axis[a];
        if (axis->taps != 3 || s->kernel_sizes[a] != 3 || axis->stride != 1 || axis->step != 1 ||
            (axis->slide != 1 && axis->slide != -1))
            return false;
    }
    t->high = matmul_ceil(s->axis[1].count, 2);
    t->wide = matmul_ceil(s->axis[2].count, 2);
    const int64_t rows = s->batch * t->high, channels = s->channels + s->rows;
    if (s->channels < WINOGRAD_CHANNELS || s->rows < WINOGRAD_CHANNELS ||
        s->columns < WINOGRAD_LEAST)
        return false;
    const int64_t tile = WINOGRAD_PLACES * channels * (int64_t)sizeof(float);
    if ((double)tile * (double)t->wide > WINOGRAD_LARGEST)
        return false;
    int64_t tiles = WINOGRAD_BYTES / tile;
    if (tiles < WINOGRAD_TILES)
        tiles = WINOGRAD_TILES;
    const int64_t wanted = tiles / t->wide > 1 ? tiles / t->wide : 1;
    t->blocks = matmul_ceil(rows, matmul_smaller(wanted, rows));
    t->rows = matmul_ceil(rows, t->blocks);
    t->blocks = matmul_ceil(rows, t->rows);
    return true;
}

/* Of the whole way from weights to results, what a kernel does. */
typedef enum { CONV_WHOLE, CONV_PREPARES, CONV_PREPARED } conv_part;

#define EACH "kernels/convolution/typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define CONVOLUTION_ROWS(t)                                                                      \
    HYB_TABLE_ROW(conv, HYB_DTYPE_##t, 2, 2, 10, HYB_POST_OPS, prepare_conv_##t, conv_##t)       \
    HYB_TABLE_ROW(conv_transpose, HYB_DTYPE_##t, 2, 2, 10, HYB_POST_OPS,                         \
                  prepare_conv_transpose_##t, conv_transpose_##t)                                \
    HYB_TABLE_ROW(conv_prepare, HYB_DTYPE_##t, 1, 1, 17, HYB_PLAIN, prepare_conv_prepare_##t,    \
                  conv_prepare_##t)                                                              \
    HYB_TABLE_ROW(conv_prepared, HYB_DTYPE_##t, 3, 1, 10, HYB_POST_OPS,                          \
                  prepare_conv_prepared_##t, conv_prepared_##t)                                  \
    HYB_TABLE_ROW(conv_weight, HYB_DTYPE_##t, 2, 1, 10, HYB_PLAIN, prepare_conv_weight_##t,      \
                  conv_weight_##t)

#define CONVOLUTION_BLOCKED_ROWS(t)                                                              \
    HYB_TABLE_ROW(conv_blocked_prepare, HYB_DTYPE_##t, 1, 1, 15, HYB_PLAIN,                      \
                  prepare_conv_blocked_prepare_##t, conv_blocked_prepare_##t)                    \
    HYB_TABLE_ROW(conv_blocked, HYB_DTYPE_##t, 3, 1, 10, HYB_POST_OPS, prepare_conv_blocked_##t, \
                  conv_blocked_##t)

#include "kernels/convolution/integer.inc.c"

const hyb_kernel HYB_SYM(hyb_convolution_kernels)[] = {
    HYB_FLOATS(CONVOLUTION_ROWS)
    CONVOLUTION_BLOCKED_ROWS(f32)
    INTEGER_TABLE
    {0},
};
#undef CONVOLUTION_BLOCKED_ROWS
#undef CONVOLUTION_ROWS
