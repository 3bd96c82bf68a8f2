/* convolution/planes.inc.c - convolutions from copies of planes.
 *
 * For every tap along the last axis the source is copied once, shifted by that tap and with zeros
 * where it has no places, so that a copy is as wide as the results.  Under a tap of the other axes
 * adjacent results, rows included, then meet adjacent items some lines further on: a term is a
 * place in the copies from which whole vectors are loaded, and results of any width fill them.
 *
 * The lines of the source that the rows of results meet under one tap are `stride` apart; a copy
 * holds them phase by phase, so that those lie together.
 *
 * Included once per dtype by convolution/typed.inc.c.
 */

/* Zeros at the edges of a row: `low` items before and what follows `high`. */
static inline __attribute__((always_inline)) void
N(conv_copy_row)(T *to, int64_t width, const T *from, int64_t stride, int64_t low, int64_t high)
{
    N(conv_zero)(to, low);
    int64_t i = low;
    if (stride == 1) {
        N(conv_move)(to + low, from, high - low);
        i = high;
    }
    if (stride == 2) /* what follows the last one may not be there */
        for (; i + LANES < high; i += LANES, from += 2 * LANES)
            N(v_store)(to + i, N(lanes_even)(N(v_load)(from), N(v_load)(from + LANES)));
    if (stride == 2 && i < high) {
        const V even = N(lanes_load_even)(from, high - i);
        if (high - i < LANES)
            N(v_store_part)(to + i, even, high - i);
        else
            N(v_store)(to + i, even);
        i = high;
    }
    for (; i < high; i++, from += stride)
        to[i] = *from;
    N(conv_zero)(to + high, width - high);
}

/* One copy of lines of a plane: item w of line l is (line + l * stride, start + w * step) of it. */
static void N(conv_copy_plane)(T *to, int64_t lines, int64_t width, const T *plane,
                               const conv_axis *high, const conv_axis *wide, int64_t line,
                               int64_t start)
{
    int64_t first, end, low, low_end;
    conv_inside(line, high->stride, lines, high->size, &first, &end);
    conv_inside(start, wide->stride, width, wide->size, &low, &low_end);
    if (low == low_end)
        first = end = 0;
    N(conv_zero)(to, first * width);
    N(conv_zero)(to + end * width, (lines - end) * width);
    if (first == end)
        return;
    const T *from = plane + (line + first * high->stride) * wide->size + start;
    if (high->stride == 1 && wide->stride == 1 && width == wide->size) {
        /* All lines at once; then the items that have come from the line before or after. */
        N(conv_move)(to + first * width + low, from + low,
                     (end - first - 1) * width + low_end - low);
        for (int64_t l = first; l < end; l++) {
            for (int64_t w = 0; w < low; w++)
                to[l * width + w] = 0;
            for (int64_t w = low_end; w < width; w++)
                to[l * width + w] = 0;
        }
        return;
    }
    for (int64_t l = first; l < end; l++, from += high->stride * wide->size)
        N(conv_copy_row)(to + l * width, width, from + low * wide->stride, wide->stride, low,
                         low_end);
}

/* The copies of channels [channel, channel_end) of a group that a block of rows needs. */
static void N(conv_copy_planes)(const N(conv_job) *job, T *to, const conv_block *block,
                                int64_t channel, int64_t channel_end)
{
    const conv_shape *s = &job->shape;
    const conv_planes *p = &job->planes;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1], *wide = &s->axis[2];
    const T *from = job->source + block->image * s->source_image +
                    (block->group * s->channels + channel) * s->source_plane;
    for (int64_t c = channel; c < channel_end; c++, from += s->source_plane)
        for (int64_t deep_tap = 0; deep_tap < deep->taps; deep_tap++) {
            const int64_t d = block->deep * deep->stride + deep->shift + deep_tap * deep->slide;
            const bool inside = d >= 0 && d < deep->size;
            for (int64_t tap = 0; tap < wide->taps; tap++) {
                const int64_t start =
                    block->wide * wide->stride + wide->shift + tap * wide->slide;
                for (int64_t phase = 0; phase < p->phases; phase++, to += p->lines * p->width) {
                    const int64_t line = p->lowest + block->high * high->stride + phase;
                    if (inside)
                        N(conv_copy_plane)(to, p->lines, p->width,
                                           from + d * high->size * wide->size, high, wide, line,
                                           start);
                    else
                        N(conv_zero)(to, p->lines * p->width);
                }
            }
        }
}

/* to[j] = or += from[j]. */
static inline __attribute__((always_inline)) void N(conv_put_row)(T *to, const T *from, int64_t n,
                                                                  bool add)
{
    for (; n >= LANES; n -= LANES, to += LANES, from += LANES)
        N(v_store)(to, add ? N(v_load)(to) + N(v_load)(from) : N(v_load)(from));
    if (n > 0)
        N(v_store_part)(to, add ? N(v_load_part)(to, n) + N(v_load)(from) : N(v_load)(from), n);
}

/* to[2 * j + odd] = or += from[j]; `room` items of `to` are there. */
static inline __attribute__((always_inline)) void
N(conv_put_pairs)(T *to, bool odd, int64_t room, const T *from, int64_t n, bool add)
{
    int64_t j = 0;
    for (; j + LANES <= n && 2 * (j + LANES) <= room; j += LANES, to += 2 * LANES) {
        const V first = N(v_load)(to), second = N(v_load)(to + LANES);
        V halves[2] = {N(lanes_even)(first, second), N(lanes_odd)(first, second)};
        halves[odd] = add ? halves[odd] + N(v_load)(from + j) : N(v_load)(from + j);
        N(v_store)(to, N(lanes_first)(halves[0], halves[1]));
        N(v_store)(to + LANES, N(lanes_second)(halves[0], halves[1]));
    }
    for (to += odd; j < n; j++, to += 2)
        *to = add ? *to + from[j] : from[j];
}

/* Columns [q, q + n) of `rows` rows of a block, to where they belong. */
static void N(conv_put)(const N(conv_job) *job, const conv_block *block, const T *tile,
                        int64_t tile_step, T *result, int64_t rows, int64_t q, int64_t n, bool add)
{
    const conv_shape *s = &job->shape;
    const conv_axis *wide = &s->axis[2];
    const int64_t width = job->planes.width;
    for (int64_t done = 0; done < n;) {
        const int64_t h = (q + done) / width, w = (q + done) % width;
        const int64_t length = s->dense ? n : matmul_smaller(width - w, n - done);
        const conv_run run = {block->image, {block->deep, block->high + h, block->wide + w}, length};
        T *to = result + conv_place(s, &run);
        for (int64_t i = 0; i < rows; i++, to += s->result_plane) {
            const T *from = tile + i * tile_step + done;
            if (wide->step == 1)
                N(conv_put_row)(to, from, length, add);
            else if (wide->step == 2 && wide->first == 0)
                N(conv_put_pairs)(to, false, s->result_sizes[2] - 2 * run.j[2], from, length, add);
            else if (wide->step == 2)
                N(conv_put_pairs)(to - 1, true, s->result_sizes[2] - 2 * run.j[2], from, length, add);
            else
                for (int64_t j = 0; j < length; j++)
                    to[j * wide->step] = add ? to[j * wide->step] + from[j] : from[j];
        }
        done += length;
    }
}

/* Blocks of results [begin, end). */
static hyb_status N(conv_blocks)(void *context, int64_t begin, int64_t end)
{
    const N(conv_job) *job = context;
    const conv_shape *s = &job->shape;
    const conv_planes *p = &job->planes;
    int64_t *place = hyb_scratch((size_t)job->depth * sizeof(int64_t) +
                                 (size_t)(p->channels * p->channel + 4 * LANES) * sizeof(T));
    if (!place)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of planes");
    T *copy = (T *)(place + job->depth);
    conv_places(s, p, place, job->depth);
    const int64_t plane = s->result_plane, widest = job->width == 4 * LANES ? 2 : 1;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t strip = unit % job->strips;
        const int64_t panel_end = (strip + 1) * job->panels / job->strips;
        const conv_block block = conv_block_of(s, p, unit / job->strips);
        const conv_run run = {block.image, {block.deep, block.high, block.wide}, 0};
        T *results = job->result + block.group * s->rows * plane;
        const int64_t corner = conv_place(s, &run);
        for (int64_t k = 0; k < s->terms; k += job->depth) {
            const int64_t depth = matmul_smaller(job->depth, s->terms - k);
            N(conv_copy_planes)(job, copy, &block, k / s->taps, (k + depth) / s->taps);
            for (int64_t panel = strip * job->panels / job->strips; panel < panel_end; panel++) {
                const int64_t row = N(conv_row)(job, panel), rows = job->low + (panel < job->tall);
                const T *a = N(conv_rows_at)(job, block.group, row, k, depth);
                const int64_t a_step = job->packed ? rows : s->weight_row;
                const N(matmul_tile_fn) *tiles =
                    N(matmul_tiles)[MATMUL_PLACED][!job->packed][rows - 1];
                T *result = results + row * plane;
                for (int64_t q = 0; q < block.columns;) {
                    const int64_t left = block.columns - q;
                    int64_t size = widest;
                    while (size > 0 && left <= (int64_t)LANES << (size - 1))
                        size--;
                    const int64_t wide = (int64_t)LANES << size, n = matmul_smaller(wide, left);
                    if (n == wide && s->dense) {
                        tiles[size](a, a_step, copy + q, 0, result + corner + q, plane, depth,
                                    k > 0, place, 0, NULL);
                    } else {
                        T tile[(MATMUL_ROWS * 2 + MATMUL_WIDE * 2) * LANES];
                        tiles[size](a, a_step, copy + q, 0, tile, wide, depth, false, place, 0,
                                    NULL);
                        N(conv_put)(job, &block, tile, wide, result, rows, q, n, k > 0);
                    }
                    q += wide;
                }
                if (k + depth == s->terms)
                    N(conv_finish)(job, result - job->result + corner, block.columns, rows);
            }
        }
    }
    return HYB_OK;
}

/* Plans one phase from copies of planes; false where a product of copied columns is better: if rows
 * are too long, columns too few, or many more lost in vectors that planes do not fill than a product
 * of all columns loses while many rows share the work of copying. */
static bool N(conv_plan_blocks)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    conv_planes *p = &job->planes;
    const int64_t plane = s->axis[1].count * s->axis[2].count, planes = s->columns / plane;
    const int64_t lost = matmul_ceil(plane, LANES) * planes - matmul_ceil(s->columns, LANES);
    N(conv_plan_rows)(job, s->rows);
    job->width = s->rows <= MATMUL_WIDE ? 4 * LANES : 2 * LANES;
    if (s->columns <= job->width ||
        (double)(lost * LANES) * (double)s->rows > 16.0 * (double)s->columns)
        return false;
    job->parallel = N(conv_is_large)(s);
    job->packed = job->part != CONV_WHOLE || !s->in_order || s->columns > CONV_UNPACKED;
    const int64_t deepest = MATMUL_DEPTH_BYTES / (int64_t)sizeof(T) / s->taps;
    p->channels = matmul_ceil(s->channels, matmul_ceil(s->channels, deepest > 0 ? deepest : 1));
    job->depth = p->channels * s->taps;

    /* A few tasks to share out: blocks; of a single one two strips of rows that each copy its planes. */
    const int64_t others = s->batch * s->groups * s->axis[0].count;
    int64_t wanted = job->parallel && others < 8 ? matmul_ceil(8, others) : 1;
    wanted = matmul_smaller(wanted, 1 + plane / CONV_SHARED);
    if (!conv_plan_planes(s, p, CONV_SLICE_BYTES / (int64_t)sizeof(T), wanted))
        return false;
    job->strips = job->parallel && conv_n_blocks(s, p) == 1 ? matmul_smaller(2, job->panels) : 1;
    return true;
}

static hyb_status N(conv_from_planes)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    hyb_status status = HYB_OK;
    if (job->packed && job->part != CONV_PREPARED)
        status = N(conv_spread)(job, s->groups * job->panels, N(conv_pack));
    if (status == HYB_OK && job->part != CONV_PREPARES)
        status = N(conv_spread)(job, conv_n_blocks(s, &job->planes) * job->strips, N(conv_blocks));
    return status;
}
