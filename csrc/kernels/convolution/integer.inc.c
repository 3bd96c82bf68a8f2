/* convolution/integer.inc.c - convolutions of bytes: exact sums of int32.
 *
 *   conv_integer   y[n, o, p] = sum over c, k of (x[n, c, i] - zero) * w[o, c, k]
 *
 * for i as in convolution/family.inc.c; where x has no such place, it counts as zero.
 *
 * Operands   conv_integer: x, w, zero -> y, room; conv_integer_prepare: w -> p;
 *            conv_integer_prepared: x, w, zero, p -> y.
 *            x is int8 or uint8 [N, groups * C, 3 axes], w int8 [groups * O, C, 3 axes], zero [1] of
 *            the dtype of x, y int32 [N, groups * O, 3 axes]; room and p are int32.  How many
 *            they are says what they are for (integer_words): sums as they stand, or those of
 *            transformed tiles (convolution/integer_winograd.inc.c).
 * Attributes of all three: i: stride (3), padding (3), dilation (3), groups.
 * Split      the kernel shares its work out itself; its range is one unit.
 * Layout     dense.
 * Aliasing   outputs overlap no input.
 * Post-ops   of a few rows of results as soon as they are finished.
 * Bits       exact; sums that int32 does not hold wrap.
 *
 * A word is 32 bits of neighbours among the channels: two of 16 bits, from which zero is taken, or,
 * with an instruction for dot products of bytes (HYB_DOT_BYTES), four of 8 bits; then sums begin with
 * what zero contributes.  Planes of words are copied as convolution/planes.inc.c copies those of
 * floats: once for each tap of the last axis, so that adjacent results meet adjacent words, rows
 * included.  A tile multiplies two vectors of words with the words of some rows of weights.
 * Groups of one channel: convolution/integer_each.inc.c.  3x3 kernels, as Python chooses:
 * convolution/integer_winograd.inc.c.
 */
#pragma once

#include "kernels/operands.inc.c"

#include "kernels/convolution/shapes.inc.c"

#if HYB_DOT_BYTES
#define INTEGER_PER 4
#else
#define INTEGER_PER 2
#endif
#define INTEGER_DEPTH 384                       /* words of the sum of a result that are a block */
#define INTEGER_NEAR (24 << 10)                 /* bytes of copies that stay in the first cache */
#define INTEGER_LARGEST (INT64_C(1) << 24)      /* words of copies, at most, for long rows */
#if HYB_VECTOR_BYTES == 64
#define INTEGER_ROWS 12
#define INTEGER_EACH_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12)
#else
#define INTEGER_ROWS 6
#define INTEGER_EACH_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6)
#endif
#define INTEGER_LANES HYB_LANES_32
#define INTEGER_EACH_MOST 16      /* results of a channel alone, by rows of it */
#define INTEGER_PLACES 16         /* products of a tile of 2x2 results of 3x3 kernels */
#define INTEGER_TILED_APART 16    /* words between the weights of places, beyond those */
#define INTEGER_TILED_MOST 1792   /* channels, of which sums stay exact */

typedef uint16_t integer_halves __attribute__((vector_size(HYB_VECTOR_BYTES / 2)));
typedef enum { INTEGER_WHOLE, INTEGER_PREPARED } integer_part;

/* Weights as the tiles read them: blocks of channels one after the other, in each all panels of
 * rows; behind those of all groups the sum of each row. */
typedef struct {
    int64_t groups, rows, given, taps; /* channels that are given; */
    int64_t channels, terms;           /* and in words */
    int64_t panels, low, tall;         /* the first `tall` panels have low + 1 rows, the others low */
    int64_t at_once;                   /* channels of a block, in words */
    const int8_t *from;
    uint32_t     *to;
} integer_weights;

typedef struct {
    conv_shape      shape; /* with channels in words */
    integer_weights weights;
    const uint8_t  *source;
    int32_t        *result;
    uint8_t         flip; /* makes uint8 of the source */
    int32_t         zero; /* of that */
    bool            parallel;
    const hyb_post *post;
    int64_t         strips; /* tasks for each block, which share its columns */
    conv_planes     planes;
} integer_job;

/* The words of all weights, with the sums of rows. */
static inline int64_t integer_words(const int64_t *of_w)
{
    const int64_t taps = of_w[2] * of_w[3] * of_w[4];
    return of_w[0] * (taps * ((of_w[1] + 1) / 2) + 1);
}

/* The same of transformed 3x3 kernels. */
static inline int64_t integer_tiled_words(const int64_t *of_w, int64_t groups)
{
    return INTEGER_PLACES * (of_w[0] * ((of_w[1] + 1) / 2) + INTEGER_TILED_APART * groups);
}

static integer_weights integer_weights_of(const int64_t *of_w, int64_t groups)
{
    integer_weights w = {.groups = groups, .rows = of_w[0] / groups, .given = of_w[1],
                         .taps = of_w[2] * of_w[3] * of_w[4],
                         .channels = matmul_ceil(of_w[1], INTEGER_PER)};
    w.terms = w.channels * w.taps;
    w.panels = matmul_ceil(w.rows, INTEGER_ROWS);
    w.low = w.rows / w.panels;
    w.tall = w.rows - w.low * w.panels;
    const int64_t deepest = w.taps > INTEGER_DEPTH ? 1 : INTEGER_DEPTH / w.taps;
    w.at_once = matmul_ceil(w.channels, matmul_ceil(w.channels, deepest));
    return w;
}

/* One channel makes so few results that copies of planes would cost more than products. */
static inline bool integer_is_each(const integer_weights *w)
{
    return w->given == 1 && w->rows <= INTEGER_EACH_MOST;
}

static inline int64_t integer_row(const integer_weights *w, int64_t panel)
{
    return panel * w->low + (panel < w->tall ? panel : w->tall);
}

static hyb_status integer_share(void *context, bool parallel, int64_t count, hyb_work_fn work)
{
    return parallel && count > 1 ? hyb_parallel_for(count, 1, work, context)
                                 : work(context, 0, count);
}

/* Panels [begin, end) of the weights, numbered group by group. */
static hyb_status integer_pack(void *context, int64_t begin, int64_t end)
{
    const integer_weights *w = context;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / w->panels, panel = unit % w->panels;
        const int64_t row = integer_row(w, panel), rows = w->low + (panel < w->tall);
        const int64_t whole = w->given * w->taps; /* of a row */
        const int8_t *from = w->from + (group * w->rows + row) * whole;
        for (int64_t c = 0; c < w->channels; c += w->at_once) {
            const int64_t here = matmul_smaller(w->at_once, w->channels - c), taps = w->taps;
            uint32_t *to = w->to + (group * w->terms + c * taps) * w->rows + row * here * taps;
            for (int64_t k = 0; k < here * taps; k++)
                for (int64_t r = 0; r < rows; r++) {
                    uint32_t word = 0;
                    for (int64_t e = 0; e < INTEGER_PER; e++) {
                        const int64_t channel = (c + k / taps) * INTEGER_PER + e;
                        const int bits = 32 / INTEGER_PER;
                        if (channel < w->given)
                            word |= ((uint32_t)from[r * whole + channel * taps + k % taps] &
                                     (0xffffffffu >> (32 - bits))) << (bits * e);
                    }
                    *to++ = word;
                }
        }
        uint32_t *sums = w->to + w->groups * w->rows * w->terms + group * w->rows + row;
        for (int64_t r = 0; INTEGER_PER == 4 && r < rows; r++) {
            sums[r] = 0;
            for (int64_t k = 0; k < whole; k++)
                sums[r] += (uint32_t)from[r * whole + k];
        }
    }
    return HYB_OK;
}

/* Post-ops of `count` results from `begin` on, and of those at their places in the next rows. */
static inline void integer_finish(const integer_job *job, int64_t begin, int64_t count, int64_t rows)
{
    const hyb_post *post = job->post;
    if (post)
        post->apply_rows(post->context, begin, count, rows, job->shape.result_plane);
}

/* What bytes of the source are turned by where they are multiplied four by four: the instruction may
 * take them signed, as weights are. */
static inline uint8_t integer_turn(void)
{
#if HYB_DOT_BYTES
    return v_dots_signed(true) ? 0x80 : 0;
#else
    return 0;
#endif
}

/* sum + the products of the neighbours in each word. */
static inline v_i32 integer_dot(v_i32 sum, v_i32 source, v_i32 weight)
{
#if HYB_DOT_BYTES
    return v_add_dots(sum, (v_u8)source, (v_u8)weight, integer_turn() != 0);
#else
    return sum + v_dot_i16((v_i16)source, (v_i16)weight);
#endif
}

#include "kernels/convolution/integer_planes.inc.c"

/* Tiles --------------------------------------------------------------------------------------- */

typedef void (*integer_tile_fn)(const uint32_t *w, const uint32_t *b, int64_t b_step, int32_t *c,
                                int64_t c_step, int64_t depth, bool add, const int64_t *place,
                                const int32_t *start);

/* c = or += w times the words at b + place[k], or b_step apart; inlined with constant `rows` and
 * `vectors`.  Sums begin with `start` of each row, if there are such. */
static inline __attribute__((always_inline)) void
integer_tile(int rows, int vectors, const uint32_t *w, const uint32_t *b, int64_t b_step, int32_t *c,
             int64_t c_step, int64_t depth, bool add, const int64_t *place, const int32_t *start)
{
    v_i32 sum[INTEGER_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[i][v] = v_splat_i32(start ? start[i] : 0);
    for (int64_t k = 0; k < depth; k++, w += rows) {
        const uint32_t *from = place ? b + place[k] : b;
        v_i32 line[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            line[v] = v_load_i32((const int32_t *)from + v * INTEGER_LANES);
            v_hold(line[v]);
        }
        b += place ? 0 : b_step;
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const v_i32 item = v_splat_i32((int32_t)w[i]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[i][v] = integer_dot(sum[i][v], line[v], item);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            int32_t *to = c + i * c_step + v * INTEGER_LANES;
            v_store_i32(to, add ? v_load_i32(to) + sum[i][v] : sum[i][v]);
        }
}

#define INTEGER_TILE(rows, vectors)                                                                \
    static void integer_placed_##rows##x##vectors(                                                 \
        const uint32_t *w, const uint32_t *b, int64_t b_step, int32_t *c, int64_t c_step,          \
        int64_t depth, bool add, const int64_t *place, const int32_t *start)                       \
    {                                                                                              \
        (void)b_step;                                                                              \
        integer_tile(rows, vectors, w, b, 0, c, c_step, depth, add, place, start);                 \
    }
#define INTEGER_TILES(rows) INTEGER_TILE(rows, 1) INTEGER_TILE(rows, 2)
#define INTEGER_PLACED(rows) {integer_placed_##rows##x1, integer_placed_##rows##x2},
INTEGER_EACH_ROWS(INTEGER_TILES)
static const integer_tile_fn integer_placed[INTEGER_ROWS][2] = {INTEGER_EACH_ROWS(INTEGER_PLACED)};

/* What the tiles of one block of results and of channels read and write. */
typedef struct {
    const integer_job *job;
    const uint32_t    *weights, *sums, *copy; /* sums of rows of weights */
    const int64_t     *place;
    int32_t           *results;
    int64_t            depth, columns;
    bool               add, ends; /* whether there are channels before and none behind */
} integer_step;

/* Columns [q, q_end) of the results of panels [first, last); they are finished while they are near. */
static void integer_panels(const integer_step *t, int64_t first, int64_t last, int64_t q,
                           int64_t q_end)
{
    const integer_weights *w = &t->job->weights;
    const int64_t plane = t->job->shape.result_plane;
    for (int64_t panel = first; panel < last; panel++) {
        const int64_t row = integer_row(w, panel), rows = w->low + (panel < w->tall);
        const uint32_t *a = t->weights + row * t->depth;
        int32_t start[INTEGER_ROWS];
        const uint32_t zero = (uint32_t)(t->job->zero - integer_turn());
        for (int64_t r = 0; INTEGER_PER == 4 && r < rows; r++)
            start[r] = t->add ? 0 : (int32_t)(0u - zero * t->sums[row + r]);
        for (int64_t at = q, n; at < q_end; at += n) {
            const int64_t left = q_end - at, size = left > INTEGER_LANES;
            const int64_t there = INTEGER_LANES << size;
            int32_t found[INTEGER_ROWS * 2 * INTEGER_LANES], *to = t->results + row * plane + at;
            n = matmul_smaller(there, left);
            const bool whole = n == there;
            integer_placed[rows - 1][size](a, t->copy + at, 0, whole ? to : found,
                                           whole ? plane : there, t->depth, whole && t->add,
                                           t->place, INTEGER_PER == 4 ? start : NULL);
            for (int64_t r = 0; !whole && r < rows; r++, to += plane)
                for (int64_t i = 0; i < n; i++) {
                    const uint32_t sum = (uint32_t)found[r * there + i];
                    to[i] = (int32_t)(t->add ? (uint32_t)to[i] + sum : sum);
                }
        }
        if (t->ends)
            integer_finish(t->job, t->results - t->job->result + row * plane + q, q_end - q, rows);
    }
}

/* Blocks of results [begin, end). */
static hyb_status integer_blocks(void *context, int64_t begin, int64_t end)
{
    const integer_job *job = context;
    const conv_shape *s = &job->shape;
    const integer_weights *w = &job->weights;
    const conv_planes *p = &job->planes;
    const int64_t most = w->at_once * w->taps, plane = s->result_plane, wide = 2 * INTEGER_LANES;
    int64_t *place = hyb_scratch((size_t)most * sizeof(int64_t) +
                                 (size_t)(p->channels * p->channel + wide) * sizeof(uint32_t));
    if (!place)
        return hyb_fail(HYB_NO_MEMORY, "conv_integer: no memory for copies of planes");
    uint32_t *copy = (uint32_t *)(place + most);
    conv_places(s, p, place, most);
    const bool near = p->channels * p->channel * (int64_t)sizeof(uint32_t) <= INTEGER_NEAR;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t strip = unit % job->strips;
        const int64_t first = strip * w->panels / job->strips;
        const int64_t last = (strip + 1) * w->panels / job->strips;
        const conv_block block = conv_block_of(s, p, unit / job->strips);
        const conv_run run = {block.image, {block.deep, block.high, block.wide}, 0};
        integer_step t = {.job = job, .copy = copy, .place = place, .columns = block.columns};
        t.results = job->result + block.group * s->rows * plane + conv_place(s, &run);
        t.sums = w->to + w->groups * w->rows * w->terms + block.group * w->rows;
        for (int64_t c = 0; c < w->channels; c += w->at_once) {
            t.depth = matmul_smaller(w->at_once, w->channels - c) * w->taps;
            t.weights = w->to + block.group * w->rows * w->terms + c * w->taps * w->rows;
            t.add = c > 0;
            t.ends = c + w->at_once >= w->channels;
            integer_copy_planes(job, copy, &block, c, c + t.depth / w->taps);
            /* As many columns as stay near serve all panels in turn. */
            const int64_t vectors = INTEGER_NEAR / (int64_t)sizeof(uint32_t) / wide / t.depth;
            const int64_t step = near ? block.columns : wide * (vectors > 1 ? vectors : 1);
            for (int64_t q = 0; q < block.columns; q += step)
                integer_panels(&t, first, last, q, matmul_smaller(q + step, block.columns));
        }
    }
    return HYB_OK;
}

#include "kernels/convolution/integer_each.inc.c"
#if INTEGER_PER == 2
#include "kernels/convolution/integer_winograd.inc.c"
#endif

/* The whole ------------------------------------------------------------------------------------ */

/* Planes of results [begin, end) by plain loops: where strides and dilations are so large that
 * copies of planes would not fit into memory. */
static hyb_status integer_plain(void *context, int64_t begin, int64_t end)
{
    const integer_job *job = context;
    const conv_shape *s = &job->shape;
    const integer_weights *w = &job->weights;
    const int64_t filters = s->groups * s->rows;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / filters, filter = unit % filters;
        const int8_t *weights = w->from + filter * w->given * w->taps;
        const uint8_t *from = job->source + image * s->source_image +
                              filter / s->rows * w->given * s->source_plane;
        int32_t *to = job->result + unit * s->result_plane;
        for (int64_t q = 0; q < s->result_plane; q++) {
            const int64_t wide = s->axis[2].count, high = s->axis[1].count;
            const int64_t j[3] = {q / wide / high, q / wide % high, q % wide};
            uint32_t sum = 0;
            for (int64_t t = 0; t < w->taps; t++) {
                int64_t taps[3], place = 0;
                bool inside = true;
                conv_tap(s, t, taps);
                for (int a = 0; a < 3; a++) {
                    const conv_axis *axis = &s->axis[a];
                    const int64_t i = j[a] * axis->stride + axis->shift + taps[a] * axis->slide;
                    inside &= i >= 0 && i < axis->size;
                    place = place * axis->size + i;
                }
                for (int64_t c = 0; inside && c < w->given; c++)
                    sum += (uint32_t)((from[c * s->source_plane + place] ^ job->flip) - job->zero) *
                           (uint32_t)weights[c * w->taps + t];
            }
            to[q] = (int32_t)sum;
        }
        integer_finish(job, unit * s->result_plane, s->result_plane, 1);
    }
    return HYB_OK;
}

/* Plans copies of planes; false if even those of a row are too large. */
static bool integer_plan(integer_job *job)
{
    const conv_shape *s = &job->shape;
    conv_planes *p = &job->planes;
    const int64_t plane = s->axis[1].count * s->axis[2].count;
    const int64_t others = s->batch * s->groups * s->axis[0].count;
    int64_t wanted = job->parallel && others < 8 ? matmul_ceil(8, others) : 1;
    wanted = matmul_smaller(wanted, 1 + plane / CONV_SHARED);
    p->channels = job->weights.at_once;
    if (!conv_plan_planes(s, p, CONV_SLICE_BYTES / (int64_t)sizeof(uint32_t), wanted) &&
        !conv_plan_planes(s, p, INTEGER_LARGEST, wanted))
        return false;
    const int64_t blocks = conv_n_blocks(s, p);
    job->strips = 1;
    if (job->parallel && blocks < 8)
        job->strips = matmul_smaller(matmul_ceil(8, blocks), matmul_ceil(job->weights.panels, 4));
    return true;
}

/* x, w, zero -> result, from weights in operand `room`, which are put there first if they are not
 * yet. */
static hyb_status integer_results(const hyb_call *call, int result, int room, integer_part part)
{
    const hyb_layout *layout = call->layout;
    const int64_t elements = hyb_elements(&layout[result]);
    if (elements == 0)
        return HYB_OK;
    integer_job job = {.shape = conv_forward(call, layout[0].shape, layout[1].shape,
                                             layout[result].shape),
                       .weights = integer_weights_of(layout[1].shape, call->attrs[9].i),
                       .source = call->data[0], .result = call->data[result],
                       .flip = layout[0].dtype == HYB_I8 ? 0x80 : 0, .post = call->post};
    job.zero = *(const uint8_t *)call->data[2] ^ job.flip;
    job.weights.from = call->data[1];
    job.weights.to = call->data[room];
    conv_shape *s = &job.shape;
    const double products = (double)elements * (double)s->terms;
    job.parallel = products >= CONV_PARALLEL_WORK;
    s->channels = job.weights.channels;
    conv_complete(s);
    if (s->terms == 0 || hyb_elements(&layout[0]) == 0) {
        memset(job.result, 0, (size_t)elements * sizeof(int32_t));
        if (call->post)
            call->post->apply(call->post->context, 0, elements);
        return HYB_OK;
    }
    integer_rows rows;
    const bool each = integer_is_each(&job.weights);
    if (each && integer_plan_each(&job, &rows)) {
        if (part == INTEGER_WHOLE)
            integer_pack_each(&job.weights, call->attrs, s->axis[2].taps);
        return integer_share(&rows, job.parallel, s->batch * s->groups, integer_each_units);
    }
#if INTEGER_PER == 2
    if (layout[room].shape[0] != integer_words(layout[1].shape)) {
        integer_tiled tiled;
        if (!integer_plan_tiled(&job, &tiled))
            return integer_share(&job, job.parallel, s->batch * s->groups * s->rows, integer_plain);
        hyb_status status = HYB_OK;
        if (part == INTEGER_WHOLE)
            status = integer_share(&job.weights, job.parallel, s->groups * job.weights.panels,
                                   integer_pack_tiled);
        return status == HYB_OK ? integer_share(&tiled, job.parallel,
                                                s->groups * tiled.blocks * tiled.strips,
                                                integer_tiled_blocks)
                                : status;
    }
#endif
    if (each || !integer_plan(&job))
        return integer_share(&job, job.parallel, s->batch * s->groups * s->rows, integer_plain);
    hyb_status status = HYB_OK;
    if (part == INTEGER_WHOLE)
        status = integer_share(&job.weights, job.parallel, s->groups * job.weights.panels,
                               integer_pack);
    if (status == HYB_OK)
        status = integer_share(&job, job.parallel, conv_n_blocks(s, &job.planes) * job.strips,
                               integer_blocks);
    return status;
}

HYB_KERNEL(conv_integer)
{
    (void)begin;
    (void)end;
    return integer_results(call, 3, 4, INTEGER_WHOLE);
}

HYB_KERNEL(conv_integer_prepared)
{
    (void)begin;
    (void)end;
    return integer_results(call, 4, 3, INTEGER_PREPARED);
}

HYB_KERNEL(conv_integer_prepare)
{
    (void)begin;
    (void)end;
    if (hyb_elements(&call->layout[0]) == 0)
        return HYB_OK;
    integer_weights w = integer_weights_of(call->layout[0].shape, call->attrs[9].i);
    w.from = call->data[0];
    w.to = call->data[1];
    memset(w.to, 0, (size_t)hyb_elements(&call->layout[1]) * sizeof(int32_t)); /* not all is used */
    if (integer_is_each(&w)) {
        integer_pack_each(&w, call->attrs, call->layout[0].shape[4]);
        return HYB_OK;
    }
#if INTEGER_PER == 2
    if (call->layout[1].shape[0] != integer_words(call->layout[0].shape))
        return integer_pack_tiled(&w, 0, w.groups * w.panels);
#endif
    return integer_pack(&w, 0, w.groups * w.panels);
}

/* Operand `index` has room for the weights in one of their orders. */
static hyb_status integer_require_room(const hyb_call *call, int index, const hyb_layout *w)
{
    const hyb_status status = require_dense(call, index, HYB_I32, 1);
    if (status != HYB_OK)
        return status;
    bool tiled = w->shape[1] > 1 && w->shape[1] <= INTEGER_TILED_MOST &&
                 w->shape[0] > 0 && w->shape[2] == 1;
    for (int axis = 1; axis < 3; axis++)
        tiled &= w->shape[2 + axis] == 3 && conv_attr(call, 0, axis) == 1 &&
                 conv_attr(call, 2, axis) == 1;
    if (tiled && call->layout[index].shape[0] == integer_tiled_words(w->shape, call->attrs[9].i))
        return HYB_OK;
    return require_size(call, index, 0, integer_words(w->shape));
}

static hyb_status integer_require(const hyb_call *call, int room, int result)
{
    const int32_t dtype = call->layout[0].dtype;
    hyb_status status;
    if (dtype != HYB_I8 && dtype != HYB_U8)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv_integer: operand 0 has dtype %d, not bytes",
                        (int)dtype);
    if ((status = require_dense(call, 0, dtype, 5)) != HYB_OK ||
        (status = require_dense(call, 1, HYB_I8, 5)) != HYB_OK ||
        (status = require_dense(call, 2, dtype, 1)) != HYB_OK ||
        (status = require_size(call, 2, 0, 1)) != HYB_OK ||
        (status = require_dense(call, result, HYB_I32, 5)) != HYB_OK ||
        (status = conv_require_sizes(call, 0, 1, result)) != HYB_OK ||
        (status = integer_require_room(call, room, &call->layout[1])) != HYB_OK)
        return status;
    const bool flat = call->layout[0].shape[2] == 1 && call->layout[result].shape[2] == 1 &&
                      conv_attr(call, 1, 0) == 0;
    return flat ? HYB_OK : require_size(call, room, 0, integer_words(call->layout[1].shape));
}

HYB_PREPARE(prepare_conv_integer)
{
    *range = (hyb_range){1, 1};
    return integer_require(call, 4, 3);
}

HYB_PREPARE(prepare_conv_integer_prepared)
{
    *range = (hyb_range){1, 1};
    return integer_require(call, 3, 4);
}

HYB_PREPARE(prepare_conv_integer_prepare)
{
    *range = (hyb_range){1, 1};
    const hyb_layout *w = &call->layout[0];
    hyb_status status = require_dense(call, 0, HYB_I8, 5);
    if (status != HYB_OK || (status = conv_require_attrs(call)) != HYB_OK)
        return status;
    if (w->shape[0] % call->attrs[9].i != 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: %lld groups do not divide the channels",
                        (long long)call->attrs[9].i);
    return integer_require_room(call, 1, w);
}

#define INTEGER_ROWS_OF(t)                                                                         \
    HYB_TABLE_ROW(conv_integer, t, 3, 2, 10, HYB_POST_OPS, prepare_conv_integer, conv_integer)     \
    HYB_TABLE_ROW(conv_integer_prepared, t, 4, 1, 10, HYB_POST_OPS, prepare_conv_integer_prepared, \
                  conv_integer_prepared)
#define INTEGER_TABLE                                                                              \
    INTEGER_ROWS_OF(HYB_I8) INTEGER_ROWS_OF(HYB_U8)                                                \
    HYB_TABLE_ROW(conv_integer_prepare, HYB_I8, 1, 1, 10, HYB_PLAIN, prepare_conv_integer_prepare, \
                  conv_integer_prepare)
