/* convolution/typed.inc.c - the convolutions of one float dtype; included by convolution/family.inc.c once
 * per dtype (each_float.inc.c).
 */

typedef struct {
    conv_shape shape;
    const T   *source, *weight; /* of conv_weight: x and y */
    T         *result, *room;
    conv_part  part;
    bool       parallel;
    const hyb_post *post; /* NULL where later phases are to come between the results */

    /* The plan of a product of matrices. */
    int64_t panels, low, tall; /* panels of rows: the first `tall` have low + 1, the others low */
    int64_t width;             /* columns of a panel */
    int64_t depth;             /* of a block of terms */
    int64_t block, blocks;     /* columns of a task, and tasks for each group */
    int64_t strips;            /* tasks for each block, which share its columns */
    bool    packed;
    conv_planes planes;
    conv_tiles  tiles;
} N(conv_job);

static hyb_status N(conv_share)(void *context, bool parallel, int64_t count, int64_t grain,
                                hyb_work_fn work)
{
    if (parallel && count > grain)
        return hyb_parallel_for(count, grain, work, context);
    return work(context, 0, count);
}

static hyb_status N(conv_spread)(N(conv_job) *job, int64_t count, hyb_work_fn work)
{
    return N(conv_share)(job, job->parallel, count, 1, work);
}

static inline int64_t N(conv_row)(const N(conv_job) *job, int64_t panel)
{
    return panel * job->low + (panel < job->tall ? panel : job->tall);
}

/* Post-ops of `count` results from `begin` on, and of those at their places in the next rows. */
static inline void N(conv_finish)(const N(conv_job) *job, int64_t begin, int64_t count,
                                  int64_t rows)
{
    const hyb_post *post = job->post;
    if (post)
        post->apply_rows(post->context, begin, count, rows, job->shape.result_plane);
}

static inline __attribute__((always_inline)) void N(conv_zero)(T *to, int64_t n)
{
    for (; n >= LANES; n -= LANES, to += LANES)
        N(v_store)(to, (V){0});
    if (n > 0)
        N(v_store_part)(to, (V){0}, n);
}

static inline __attribute__((always_inline)) void N(conv_move)(T *to, const T *from, int64_t n)
{
    for (; n >= LANES; n -= LANES, to += LANES, from += LANES)
        N(v_store)(to, N(v_load)(from));
    if (n > 0)
        N(v_store_part)(to, N(v_load_part)(from, n), n);
}

/* to[(k - k0) * width + column] = what term k in [k0, k1) of `group` finds in the source, for the
 * columns of the runs. */
static void N(conv_gather)(const N(conv_job) *job, T *to, int64_t width, const conv_run *runs,
                           int64_t n_runs, int64_t group, int64_t k0, int64_t k1)
{
    const conv_shape *s = &job->shape;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1], *wide = &s->axis[2];
    for (int64_t k = k0; k < k1 && k < k0 + s->taps; k++) {
        /* The same tap of one channel after the other. */
        const int64_t channel = k / s->taps, channels = (k1 - k + s->taps - 1) / s->taps;
        const T *plane = job->source + (group * s->channels + channel) * s->source_plane;
        int64_t taps[3];
        conv_tap(s, k % s->taps, taps);
        T *rows = to + (k - k0) * width;
        for (const conv_run *run = runs; run < runs + n_runs; rows += run->length, run++) {
            const int64_t d = run->j[0] * deep->stride + deep->shift + taps[0] * deep->slide;
            const int64_t h = run->j[1] * high->stride + high->shift + taps[1] * high->slide;
            const int64_t start = run->j[2] * wide->stride + wide->shift + taps[2] * wide->slide;
            const int64_t length = run->length, stride = wide->stride;
            int64_t low = length, end = length;
            if (d >= 0 && d < deep->size && h >= 0 && h < high->size)
                conv_inside(start, stride, length, wide->size, &low, &end);
            T *row = rows;
            if (low == end) {
                for (int64_t c = 0; c < channels; c++, row += s->taps * width)
                    N(conv_zero)(row, length);
                continue;
            }
            const T *from = plane + run->image * s->source_image +
                            (d * high->size + h) * wide->size + start + low * stride;
            for (int64_t c = 0; c < channels; c++) {
                if (low > 0)
                    N(conv_zero)(row, low);
                if (stride == 1)
                    N(conv_move)(row + low, from, end - low);
                else
                    for (int64_t i = 0; i < end - low; i++)
                        row[low + i] = from[i * stride];
                if (end < length)
                    N(conv_zero)(row + end, length - end);
                row += s->taps * width;
                from += s->source_plane;
            }
        }
    }
}

/* Copies panels [begin, end) of the weights, numbered group by group, as the tiles read them:
 * blocks of terms one after the other, in each all panels. */
static hyb_status N(conv_pack)(void *context, int64_t begin, int64_t end)
{
    const N(conv_job) *job = context;
    const conv_shape *s = &job->shape;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / job->panels, panel = unit % job->panels;
        const int64_t row = N(conv_row)(job, panel), rows = job->low + (panel < job->tall);
        const T *from = job->weight + group * s->weight_group + row * s->weight_row;
        for (int64_t k = 0; k < s->terms; k += job->depth) {
            const int64_t depth = matmul_smaller(job->depth, s->terms - k);
            T *to = job->room + group * s->rows * s->terms + k * s->rows + row * depth;
            if (s->in_order) {
                N(matmul_pack_along)(to, rows, from + k, s->weight_row, rows, depth);
                continue;
            }
            for (int64_t i = 0; i < depth; i++) {
                int64_t taps[3];
                conv_tap(s, (k + i) % s->taps, taps);
                const T *item = from + (k + i) / s->taps * s->weight_channel + conv_item(s, taps);
                for (int64_t r = 0; r < rows; r++)
                    to[i * rows + r] = item[r * s->weight_row];
            }
        }
    }
    return HYB_OK;
}

/* Where a panel of the weights that begins with `row` has `depth` terms from k on. */
static inline const T *N(conv_rows_at)(const N(conv_job) *job, int64_t group, int64_t row, int64_t k,
                                       int64_t depth)
{
    const conv_shape *s = &job->shape;
    if (job->packed)
        return job->room + group * s->rows * s->terms + k * s->rows + row * depth;
    return job->weight + group * s->weight_group + row * s->weight_row + k;
}

/* Adds a tile that does not lie in the result as it stands to the columns of the runs. */
static void N(conv_settle)(const N(conv_job) *job, const T *tile, int64_t tile_step, T *result,
                           int64_t rows, const conv_run *runs, int64_t n_runs, bool add)
{
    const conv_shape *s = &job->shape;
    const int64_t step = s->axis[2].step;
    for (const conv_run *run = runs; run < runs + n_runs;) {
        const int64_t place = conv_place(s, run);
        int64_t length = run->length;
        for (run++; s->dense && run < runs + n_runs && conv_place(s, run) == place + length; run++)
            length += run->length;
        for (int64_t i = 0; i < rows; i++) {
            const T *from = tile + i * tile_step;
            T *to = result + i * s->result_plane + place;
            if (step != 1) {
                for (int64_t j = 0; j < length; j++)
                    to[j * step] = add ? to[j * step] + from[j] : from[j];
                continue;
            }
            for (int64_t left = length; left > 0; left -= LANES, from += LANES, to += LANES) {
                const V sum = N(v_load)(from);
                if (left >= LANES)
                    N(v_store)(to, add ? N(v_load)(to) + sum : sum);
                else
                    N(v_store_part)(to, add ? N(v_load_part)(to, left) + sum : sum, left);
            }
        }
        tile += length;
    }
}

/* Columns of a phase: tasks [begin, end), numbered group by group. */
static hyb_status N(conv_columns)(void *context, int64_t begin, int64_t end)
{
    const N(conv_job) *job = context;
    const conv_shape *s = &job->shape;
    T *copy = hyb_scratch((size_t)(job->block * job->depth) * sizeof(T));
    if (!copy)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for a block of columns");
    conv_run runs[4 * LANES];
    const int64_t plane = s->result_plane;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / job->blocks, first = unit % job->blocks * job->block;
        const int64_t last = matmul_smaller(first + job->block, s->columns);
        for (int64_t k = 0; k < s->terms; k += job->depth) {
            const int64_t depth = matmul_smaller(job->depth, s->terms - k);
            for (int64_t q = first; q < last; q += job->width) {
                const int64_t q_end = matmul_smaller(q + job->width, last);
                const int64_t n_runs = conv_runs(s, q, q_end, runs);
                N(conv_gather)(job, copy + (q - first) * depth, job->width, runs, n_runs, group, k,
                               k + depth);
            }
            for (int64_t panel = 0; panel < job->panels; panel++) {
                const int64_t row = N(conv_row)(job, panel), rows = job->low + (panel < job->tall);
                const T *a = N(conv_rows_at)(job, group, row, k, depth);
                const int64_t a_step = job->packed ? rows : s->weight_row;
                const N(matmul_tile_fn) *tiles =
                    N(matmul_tiles)[MATMUL_PLAIN][!job->packed][rows - 1];
                T *result = job->result + (group * s->rows + row) * plane;
                for (int64_t q = first; q < last; q += job->width) {
                    const T *b = copy + (q - first) * depth;
                    const int64_t columns = matmul_smaller(job->width, last - q);
                    const int64_t place = s->dense ? q % plane : plane;
                    if (columns == job->width && place + columns <= plane) {
                        T *c = result + q / plane * s->result_image + place;
                        tiles[job->width == 4 * LANES ? 2 : 1](a, a_step, b, job->width, c, plane,
                                                               depth, k > 0, NULL, 0, NULL);
                        continue;
                    }
                    const int size = columns <= LANES ? 0 : columns <= 2 * LANES ? 1 : 2;
                    T tile[(MATMUL_ROWS * 2 + MATMUL_WIDE * 2 + 1) * LANES];
                    tiles[size](a, a_step, b, job->width, tile, (int64_t)LANES << size, depth,
                                false, NULL, 0, NULL);
                    const int64_t n_runs = conv_runs(s, q, q + columns, runs);
                    N(conv_settle)(job, tile, (int64_t)LANES << size, result, rows, runs, n_runs,
                                   k > 0);
                }
                for (int64_t q = first; k + depth == s->terms && q < last;) { /* image by image */
                    const int64_t n = matmul_smaller(plane - q % plane, last - q);
                    N(conv_finish)(job, result - job->result + q / plane * s->result_image +
                                            q % plane, n, rows);
                    q += n;
                }
            }
        }
    }
    return HYB_OK;
}

static void N(conv_plan_rows)(N(conv_job) *job, int64_t rows)
{
    job->panels = (rows + MATMUL_ROWS - 1) / MATMUL_ROWS;
    job->low = rows / job->panels;
    job->tall = rows - job->low * job->panels;
}

static bool N(conv_is_large)(const conv_shape *s)
{
    const double products = (double)s->columns * (double)s->terms;
    return products * (double)s->rows * (double)s->groups >= CONV_PARALLEL_WORK;
}

/* One phase, as a product of matrices for each group. */
static hyb_status N(conv_product)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    N(conv_plan_rows)(job, s->rows);
    job->width = s->rows <= MATMUL_WIDE ? 4 * LANES : 2 * LANES;
    job->depth = matmul_depth_of(s->terms, sizeof(T));
    job->parallel = N(conv_is_large)(s);
    job->packed = job->part != CONV_WHOLE || !s->in_order || s->columns > 4 * job->width;

    /* Tasks whose columns fit the cache, and a few to share out. */
    const int64_t panels = matmul_ceil(s->columns, job->width);
    const int64_t largest = CONV_SLICE_BYTES / (int64_t)sizeof(T) / (job->depth * job->width);
    int64_t wanted = job->parallel ? matmul_ceil(8, s->groups) : 1;
    if (wanted < matmul_ceil(panels, largest))
        wanted = matmul_ceil(panels, largest);
    job->block = matmul_ceil(panels, wanted) * job->width;
    job->blocks = matmul_ceil(s->columns, job->block);

    hyb_status status = HYB_OK;
    if (job->packed && job->part != CONV_PREPARED)
        status = N(conv_spread)(job, s->groups * job->panels, N(conv_pack));
    if (status == HYB_OK && job->part != CONV_PREPARES)
        status = N(conv_spread)(job, s->groups * job->blocks, N(conv_columns));
    return status;
}

/* Rows of conv_weight - the terms of conv - in tasks [begin, end): the tiles multiply some rows of
 * the source by some channels of y, over one block of columns. */
static hyb_status N(conv_terms)(void *context, int64_t begin, int64_t end)
{
    const N(conv_job) *job = context;
    const conv_shape *s = &job->shape;
    const int64_t plane = s->result_plane, strip = job->block, width = job->width;
    const size_t items = (size_t)(job->depth * (strip + MATMUL_ROWS));
    T *other = hyb_scratch(items * sizeof(T) + (size_t)job->depth * sizeof(conv_run));
    if (!other)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for a block of columns");
    T *own = other + job->depth * strip;
    conv_run *runs = (conv_run *)(other + items);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t panel = unit % job->strips * job->panels / job->strips;
        const int64_t panel_end = (unit % job->strips + 1) * job->panels / job->strips;
        const int64_t first = unit / job->strips % job->blocks * strip;
        const int64_t last = matmul_smaller(first + strip, s->rows);
        const int64_t group = unit / job->strips / job->blocks;
        const T *from = job->weight + (group * s->rows + first) * plane;
        for (int64_t q = 0; q < s->columns; q += job->depth) {
            const int64_t depth = matmul_smaller(job->depth, s->columns - q);
            for (int64_t i = 0; i < depth;) { /* image by image */
                const int64_t image = (q + i) / plane, place = (q + i) % plane;
                const int64_t steps = matmul_smaller(plane - place, depth - i);
                for (int64_t c = first; c < last; c += width)
                    N(matmul_pack_along)(other + (c - first) * depth + i * width, width,
                                         from + image * s->result_image + (c - first) * plane +
                                             place,
                                         plane, matmul_smaller(width, last - c), steps);
                i += steps;
            }
            const int64_t n_runs = conv_runs(s, q, q + depth, runs);
            for (int64_t p = panel; p < panel_end; p++) {
                const int64_t row = N(conv_row)(job, p), rows = job->low + (p < job->tall);
                N(conv_gather)(job, own, depth, runs, n_runs, group, row, row + rows);
                for (int64_t c = first; c < last; c += width) {
                    const int64_t columns = matmul_smaller(width, last - c);
                    const int size = columns > LANES, wide = LANES << size;
                    T tile[(MATMUL_ROWS * 2 + 1) * LANES];
                    const N(matmul_tile_fn) *tiles = N(matmul_tiles)[MATMUL_PLAIN][1][rows - 1];
                    tiles[size](own, depth, other + (c - first) * depth, width, tile, wide, depth,
                                false, NULL, 0, NULL);
                    T *to = job->result + (group * s->rows + c) * s->terms + row;
                    for (int64_t j = 0; j < columns; j++, to += s->terms)
                        for (int64_t i = 0; i < rows; i++)
                            to[i] = q > 0 ? to[i] + tile[i * wide + j] : tile[i * wide + j];
                }
            }
        }
    }
    return HYB_OK;
}

static hyb_status N(conv_weight_product)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    N(conv_plan_rows)(job, s->terms);
    job->width = 2 * LANES;
    job->depth = matmul_depth_of(s->columns, sizeof(T));
    job->parallel = N(conv_is_large)(s);
    const int64_t panels = matmul_ceil(s->rows, job->width);
    const int64_t largest = CONV_SLICE_BYTES / (int64_t)sizeof(T) / (job->depth * job->width);
    const int64_t at_once = matmul_ceil(panels, matmul_ceil(panels, largest));
    job->block = at_once * job->width;
    job->blocks = matmul_ceil(s->rows, job->block);
    const int64_t wanted = job->parallel ? matmul_ceil(4, s->groups * job->blocks) : 1;
    job->strips = matmul_smaller(wanted, job->panels);
    return N(conv_spread)(job, s->groups * job->blocks * job->strips, N(conv_terms));
}

#include "kernels/convolution/planes.inc.c"
#if WINOGRAD_LANES == LANES
#include "kernels/convolution/winograd.inc.c"
#endif
#include "kernels/convolution/weight.inc.c"
#include "kernels/convolution/direct.inc.c"

static hyb_status N(conv_run_phase)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    if (s->columns == 0 || s->terms == 0)
        return HYB_OK;
    if (s->channels * s->rows <= CONV_FEW)
        return N(conv_direct)(job);
#if WINOGRAD_LANES == LANES
    if (N(conv_plan_winograd)(job))
        return N(conv_winograd)(job);
#endif
    return N(conv_plan_blocks)(job) ? N(conv_from_planes)(job) : N(conv_product)(job);
}

/* x, w -> result, or with `part` from prepared weights in `room`. */
static hyb_status N(conv_results)(const hyb_call *call, int result, T *room, conv_part part)
{
    const hyb_layout *layout = call->layout;
    N(conv_job) job = {.shape = conv_forward(call, layout[0].shape, layout[1].shape,
                                             layout[result].shape),
                       .source = call->data[0], .weight = call->data[1],
                       .result = call->data[result], .room = room, .part = part,
                       .post = call->post};
    const int64_t elements = hyb_elements(&layout[result]);
    if (elements == 0)
        return HYB_OK;
    if (job.shape.terms > 0)
        return N(conv_run_phase)(&job);
    memset(job.result, 0, (size_t)elements * sizeof(T));
    if (call->post)
        call->post->apply(call->post->context, 0, elements);
    return HYB_OK;
}

HYB_KERNEL(N(conv))
{
    (void)begin;
    (void)end;
    return N(conv_results)(call, 2, call->data[3], CONV_WHOLE);
}

/* Post-ops of planes [begin, end) of the first output. */
static hyb_status N(conv_finish_planes)(void *context, int64_t begin, int64_t end)
{
    const hyb_call *call = context;
    const int64_t *sizes = call->layout[2].shape + 2, plane = sizes[0] * sizes[1] * sizes[2];
    call->post->apply(call->post->context, begin * plane, (end - begin) * plane);
    return HYB_OK;
}

HYB_KERNEL(N(conv_transpose))
{
    (void)begin;
    (void)end;
    T *result = call->data[2];
    const int64_t *sizes = call->layout[2].shape + 2, elements = hyb_elements(&call->layout[2]);
    if (elements == 0)
        return HYB_OK;
    const bool none = hyb_elements(&call->layout[0]) == 0 || hyb_elements(&call->layout[1]) == 0;
    if (none || conv_has_gaps(call))
        memset(result, 0, (size_t)elements * sizeof(T));
    int64_t phases[3], at[3];
    for (int a = 0; a < 3; a++)
        phases[a] = none ? 0 : matmul_smaller(conv_attr(call, 0, a), sizes[a]);
    const bool single = phases[0] * phases[1] * phases[2] == 1 && !conv_has_gaps(call);
    hyb_status status = HYB_OK;
    for (at[0] = 0; at[0] < phases[0]; at[0]++)
        for (at[1] = 0; at[1] < phases[1]; at[1]++)
            for (at[2] = 0; at[2] < phases[2] && status == HYB_OK; at[2]++) {
                N(conv_job) job = {.shape = conv_phase(call, at), .source = call->data[0],
                                   .weight = call->data[1], .result = result,
                                   .room = call->data[3], .post = single ? call->post : NULL};
                status = N(conv_run_phase)(&job);
            }
    if (!call->post || single || status != HYB_OK)
        return status;
    const int64_t plane = sizes[0] * sizes[1] * sizes[2];
    return N(conv_share)((void *)call, true, elements / plane, 1 + CONV_POST_ITEMS / plane,
                         N(conv_finish_planes));
}

HYB_KERNEL(N(conv_weight))
{
    (void)begin;
    (void)end;
    const hyb_layout *layout = call->layout;
    N(conv_job) job = {.shape = conv_forward(call, layout[0].shape, layout[2].shape,
                                             layout[1].shape),
                       .source = call->data[0], .weight = call->data[1], .result = call->data[2]};
    const conv_shape *s = &job.shape;
    const int64_t elements = hyb_elements(&call->layout[2]);
    if (elements == 0)
        return HYB_OK;
    if (s->columns == 0) {
        memset(job.result, 0, (size_t)elements * sizeof(T));
        return HYB_OK;
    }
    if (s->channels * s->rows <= CONV_FEW)
        return N(conv_weight_direct)(&job);
    return N(conv_plan_weight)(&job) ? N(conv_weight_from_planes)(&job)
                                     : N(conv_weight_product)(&job);
}

HYB_PREPARE(N(prepare_conv))
{
    *range = (hyb_range){1, 1};
    const hyb_status status = conv_require(call, DTYPE, 0, 1, 2);
    return status == HYB_OK ? conv_require_room(call, DTYPE, 3, &call->layout[1],
                                                call->layout[2].shape)
                            : status;
}

HYB_PREPARE(N(prepare_conv_transpose))
{
    *range = (hyb_range){1, 1};
    const hyb_status status = conv_require(call, DTYPE, 2, 1, 0);
    return status == HYB_OK ? conv_require_room(call, DTYPE, 3, &call->layout[1],
                                                call->layout[2].shape)
                            : status;
}

HYB_PREPARE(N(prepare_conv_weight))
{
    *range = (hyb_range){1, 1};
    return conv_require(call, DTYPE, 0, 2, 1);
}

#include "kernels/convolution/prepared.inc.c"
#if WINOGRAD_LANES == LANES
#include "kernels/convolution/blocked.inc.c"
#endif
