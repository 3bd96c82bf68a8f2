/* convolution/shapes.inc.c - the sizes of convolutions, and how they are cut in blocks of results
 * that copies of planes are made for; no table.
 *
 * Their attributes are i: stride (3), padding (3), dilation (3), groups.
 */
#pragma once

#include "kernels/matmul/operands.inc.c"

#define CONV_LIMIT INT32_MAX         /* of strides, paddings, dilations and the sizes of axes */
#define CONV_SLICE_BYTES (384 << 10) /* of copied columns, to stay in the second-level cache */
#define CONV_SHARED 192              /* results of a plane, at least, in each block */
#define CONV_PARALLEL_WORK (1 << 20) /* multiplications and additions worth waking threads */

/* One axis of one phase.  A result is counted by j, an item of the kernel that it needs by t. */
typedef struct {
    int64_t count;               /* of j */
    int64_t first, step;         /* result j lies at first + j * step */
    int64_t stride, shift, slide; /* it meets item t at place j * stride + shift + t * slide */
    int64_t size;                /* places of the source; others count as 0 */
    int64_t taps, tap, tap_step; /* item t is tap + t * tap_step of the kernel */
} conv_axis;

/* The sizes of one phase, and distances in items. */
typedef struct {
    conv_axis axis[3];
    int64_t   batch, groups;
    int64_t   channels, rows;               /* of the source and of the result, in a group */
    int64_t   taps, terms;                  /* terms = channels * taps, of the sum of a result */
    int64_t   columns;                      /* results in a row: batch * counts */
    int64_t   source_plane, source_image;   /* items */
    int64_t   result_plane, result_image;
    int64_t   kernel_sizes[3], kernel_plane;
    int64_t   result_sizes[3];
    bool      dense;                        /* the results lie as they are counted */
    int64_t   weight_group, weight_row, weight_channel;
    bool      in_order;                     /* the weights of a row lie as its terms are counted */
} conv_shape;

static inline int64_t conv_attr(const hyb_call *call, int kind, int axis)
{
    return call->attrs[3 * kind + axis].i;
}

/* Attributes are in range. */
static hyb_status conv_require_attrs(const hyb_call *call)
{
    for (int axis = 0; axis < 3; axis++) {
        const int64_t stride = conv_attr(call, 0, axis), padding = conv_attr(call, 1, axis);
        const int64_t dilation = conv_attr(call, 2, axis);
        if (stride < 1 || stride > CONV_LIMIT || dilation < 1 || dilation > CONV_LIMIT ||
            padding < 0 || padding > CONV_LIMIT)
            return hyb_fail(HYB_BAD_ARGUMENT,
                            "conv: stride %lld, padding %lld or dilation %lld is out of range",
                            (long long)stride, (long long)padding, (long long)dilation);
    }
    if (call->attrs[9].i < 1)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: %lld groups do not divide the channels",
                        (long long)call->attrs[9].i);
    return HYB_OK;
}

/* Attributes and the sizes of operands fit together.  `x`, `w` and `y` say where they are. */
static hyb_status conv_require_sizes(const hyb_call *call, int x, int w, int y)
{
    const int operands[3] = {x, w, y};
    hyb_status status;
    if ((status = conv_require_attrs(call)) != HYB_OK)
        return status;
    for (int axis = 0; axis < 3; axis++)
        for (int i = 0; i < 3; i++)
            if (call->layout[operands[i]].shape[2 + axis] > CONV_LIMIT)
                return hyb_fail(HYB_BAD_ARGUMENT, "conv: axis %d of operand %d is too long",
                                2 + axis, operands[i]);
    const int64_t *of_x = call->layout[x].shape, *of_w = call->layout[w].shape;
    const int64_t groups = call->attrs[9].i;
    if (of_x[1] % groups != 0 || of_w[0] % groups != 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: %lld groups do not divide the channels",
                        (long long)groups);
    if ((status = require_size(call, y, 0, of_x[0])) != HYB_OK ||
        (status = require_size(call, y, 1, of_w[0])) != HYB_OK ||
        (status = require_size(call, w, 1, of_x[1] / groups)) != HYB_OK)
        return status;
    return HYB_OK;
}

/* Fills in what follows from the axes. */
static void conv_complete(conv_shape *s)
{
    s->taps = s->axis[0].taps * s->axis[1].taps * s->axis[2].taps;
    s->terms = s->channels * s->taps;
    s->columns = s->batch * s->axis[0].count * s->axis[1].count * s->axis[2].count;
    s->dense = s->axis[0].step == 1 && s->axis[1].step == 1 && s->axis[2].step == 1;
}

/* A convolution of such shapes: one phase. */
static conv_shape conv_forward(const hyb_call *call, const int64_t *of_x, const int64_t *of_w,
                               const int64_t *of_y)
{
    const int64_t groups = call->attrs[9].i;
    conv_shape s = {.batch = of_x[0], .groups = groups, .channels = of_w[1],
                    .rows = of_w[0] / groups, .in_order = true};
    for (int a = 0; a < 3; a++) {
        s.axis[a] = (conv_axis){.count = of_y[2 + a], .step = 1,
                                .stride = conv_attr(call, 0, a), .shift = -conv_attr(call, 1, a),
                                .slide = conv_attr(call, 2, a), .size = of_x[2 + a],
                                .taps = of_w[2 + a], .tap_step = 1};
        s.kernel_sizes[a] = of_w[2 + a];
        s.result_sizes[a] = of_y[2 + a];
    }
    s.kernel_plane = of_w[2] * of_w[3] * of_w[4];
    s.source_plane = of_x[2] * of_x[3] * of_x[4];
    s.result_plane = of_y[2] * of_y[3] * of_y[4];
    s.source_image = s.source_plane * of_x[1];
    s.result_image = s.result_plane * of_y[1];
    s.weight_channel = s.kernel_plane;
    s.weight_row = s.channels * s.kernel_plane;
    s.weight_group = s.rows * s.weight_row;
    conv_complete(&s);
    return s;
}

/* Tap t of a phase along the three axes. */
static inline void conv_tap(const conv_shape *s, int64_t t, int64_t taps[3])
{
    taps[2] = t % s->axis[2].taps;
    t /= s->axis[2].taps;
    taps[1] = t % s->axis[1].taps;
    taps[0] = t / s->axis[1].taps;
}

/* Its place in the kernel. */
static inline int64_t conv_item(const conv_shape *s, const int64_t taps[3])
{
    int64_t place = 0;
    for (int a = 0; a < 3; a++)
        place = place * s->kernel_sizes[a] + s->axis[a].tap + taps[a] * s->axis[a].tap_step;
    return place;
}

/* Columns that follow each other along the last axis. */
typedef struct {
    int64_t image;  /* of the batch */
    int64_t j[3];   /* of the first */
    int64_t length;
} conv_run;

/* Where the first result of a run lies in the result of one channel. */
static inline int64_t conv_place(const conv_shape *s, const conv_run *run)
{
    int64_t place = 0;
    for (int a = 0; a < 3; a++)
        place = place * s->result_sizes[a] + s->axis[a].first + run->j[a] * s->axis[a].step;
    return run->image * s->result_image + place;
}

/* Of `length` places start, start + stride ...: those of [low, high) are in [0, size). */
static inline void conv_inside(int64_t start, int64_t stride, int64_t length, int64_t size,
                               int64_t *low, int64_t *high)
{
    int64_t first = start < 0 ? -start : 0, end = start < size ? size - start : 0;
    if (stride != 1) {
        first = (first + stride - 1) / stride;
        end = (end + stride - 1) / stride;
    }
    *low = matmul_smaller(first, length);
    *high = matmul_smaller(end, length);
    if (*high < *low)
        *high = *low;
}

/* How results are cut in blocks, and what copies of the source one of them needs
 * (convolution/planes.inc.c). */
typedef struct {
    int64_t height, width; /* of a block; narrower than the results only if it has one row */
    int64_t highs, wides;  /* blocks of a plane */
    int64_t channels;      /* that are copied at a time */
    int64_t lowest;        /* the line of the source that row 0 of results meets first */
    int64_t phases, lines; /* of a copy */
    int64_t copy, channel; /* items of a copy, and of the copies of a channel */
} conv_planes;

typedef struct {
    int64_t image, group, deep, high, wide; /* the first result */
    int64_t rows, columns;
} conv_block;

/* Where the first line under a tap of the middle axis lies, counted from the lowest. */
static inline int64_t conv_line(const conv_axis *high, int64_t tap)
{
    const int64_t reach = (high->taps - 1) * high->slide;
    return tap * high->slide - (reach < 0 ? reach : 0);
}

/* Plans copies of p->channels channels in at most `items` items, and at least `wanted` blocks of a
 * plane if there are as many rows; false if even a row is too large. */
static bool conv_plan_planes(const conv_shape *s, conv_planes *p, int64_t items, int64_t wanted)
{
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t reach = (high->taps - 1) * high->slide, copies = s->axis[0].taps * wide->taps;
    int64_t last = 0; /* lines of a phase beyond those of one tap */
    p->phases = 1;
    for (int64_t tap = 0; tap < high->taps; tap++) {
        const int64_t line = conv_line(high, tap);
        if (line % high->stride >= p->phases)
            p->phases = line % high->stride + 1;
        if (line / high->stride > last)
            last = line / high->stride;
    }
    p->lowest = high->shift + (reach < 0 ? reach : 0);
    const double line = (double)p->channels * (double)copies * (double)p->phases; /* one item wide */
    if (line * (double)(last + 1) > (double)items)
        return false;
    const int64_t at_once = items / (p->channels * copies * p->phases);
    p->width = matmul_smaller(wide->count, at_once / (last + 1));
    p->height = matmul_smaller(high->count, at_once / p->width - last);
    if (p->width < wide->count)
        p->height = 1;
    if (p->height * wanted > high->count)
        p->height = matmul_ceil(high->count, wanted);
    p->highs = matmul_ceil(high->count, p->height);
    p->height = matmul_ceil(high->count, p->highs);
    p->highs = matmul_ceil(high->count, p->height);
    p->wides = matmul_ceil(wide->count, p->width);
    p->width = matmul_ceil(wide->count, p->wides);
    p->lines = p->height + last;
    p->copy = p->phases * p->lines * p->width;
    p->channel = copies * p->copy;
    return true;
}

static inline int64_t conv_n_blocks(const conv_shape *s, const conv_planes *p)
{
    return s->groups * s->batch * s->axis[0].count * p->highs * p->wides;
}

/* Block `unit`: those of a group follow each other. */
static conv_block conv_block_of(const conv_shape *s, const conv_planes *p, int64_t unit)
{
    conv_block block;
    block.wide = unit % p->wides * p->width;
    unit /= p->wides;
    block.high = unit % p->highs * p->height;
    unit /= p->highs;
    block.deep = unit % s->axis[0].count;
    unit /= s->axis[0].count;
    block.image = unit % s->batch;
    block.group = unit / s->batch;
    block.rows = matmul_smaller(p->height, s->axis[1].count - block.high);
    block.columns = block.rows * matmul_smaller(p->width, s->axis[2].count - block.wide);
    return block;
}

/* Where the first `n` terms of the copied channels find what the first result of a block meets. */
static void conv_places(const conv_shape *s, const conv_planes *p, int64_t *place, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t taps[3];
        conv_tap(s, k % s->taps, taps);
        const int64_t line = conv_line(&s->axis[1], taps[1]), stride = s->axis[1].stride;
        place[k] = k / s->taps * p->channel + (taps[0] * s->axis[2].taps + taps[2]) * p->copy +
                   (line % stride * p->lines + line / stride) * p->width;
    }
}
