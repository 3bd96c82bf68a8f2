/* convolution/blocked_each.inc.c - convolutions of blocks of channels in groups of few.  Those of
 * each channel alone are the sums of convolution/direct.inc.c, one tap after the other, of whole
 * vectors of channels; those of 4, 8 or 16 have tiles of their own (convolution/blocked_few.inc.c).
 *
 * Rows of the source are copied with zeros where it has no places.
 *
 * Included by convolution/blocked.inc.c.
 */

#define BLOCKED_VECTORS (CONV_BLOCK / LANES)
#define BLOCKED_RESULTS (8 / BLOCKED_VECTORS)

typedef struct {
    const N(conv_job) *job;
    const N(few_tile_fn) *tiles; /* of groups of more channels than one */
    N(few_walk) walk;
    int64_t height, highs; /* rows of results of a unit, and units of a plane */
    int64_t width, lines;  /* of a copy */
} N(blocked_each_work);

/* `results` adjacent results. */
static inline __attribute__((always_inline)) void
N(blocked_each_tile)(int results, const conv_shape *s, int64_t pitch, const T *from, const T *weight,
                     T *to)
{
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    V sum[BLOCKED_RESULTS][BLOCKED_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < results; i++)
#pragma GCC unroll 4
        for (int v = 0; v < BLOCKED_VECTORS; v++)
            sum[i][v] = (V){0};
    for (int64_t line = 0; line < high->taps; line++)
        for (int64_t tap = 0; tap < wide->taps; tap++, weight += CONV_BLOCK) {
            const T *at = from + line * high->slide * pitch + tap * wide->slide * CONV_BLOCK;
#pragma GCC unroll 8
            for (int i = 0; i < results; i++, at += wide->stride * CONV_BLOCK)
#pragma GCC unroll 4
                for (int v = 0; v < BLOCKED_VECTORS; v++)
                    sum[i][v] += N(v_load)(weight + v * LANES) * N(v_load)(at + v * LANES);
        }
#pragma GCC unroll 8
    for (int i = 0; i < results; i++)
#pragma GCC unroll 4
        for (int v = 0; v < BLOCKED_VECTORS; v++)
            N(v_store)(to + i * CONV_BLOCK + v * LANES, sum[i][v]);
}

/* Units [begin, end): rows of results of each block of channels of each image. */
static hyb_status N(blocked_each_units)(void *context, int64_t begin, int64_t end)
{
    const N(blocked_each_work) *work = context;
    const N(conv_job) *job = work->job;
    const conv_shape *s = &job->shape;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t pitch = work->width * CONV_BLOCK, blocks = s->groups * s->rows / CONV_BLOCK;
    T *copy = hyb_scratch((size_t)(work->lines * pitch) * sizeof(T));
    if (!copy)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of rows");
    int64_t low, low_end;
    conv_inside(wide->shift, 1, work->width, wide->size, &low, &low_end);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit % work->highs * work->height, plane = unit / work->highs;
        const int64_t rows = matmul_smaller(work->height, high->count - first);
        const int64_t lines = (rows - 1) * high->stride + (high->taps - 1) * high->slide + 1;
        const T *from = job->source + plane * s->source_plane * CONV_BLOCK;
        const T *weight = job->weight + plane % blocks * s->terms * CONV_BLOCK;
        T *to = copy;
        for (int64_t line = 0; line < lines; line++, to += pitch) {
            const int64_t h = first * high->stride + high->shift + line;
            if (h < 0 || h >= high->size) {
                N(conv_zero)(to, pitch);
                continue;
            }
            N(conv_zero)(to, low * CONV_BLOCK);
            N(few_turn)(to + low * CONV_BLOCK,
                        from + (h * wide->size + wide->shift + low) * CONV_BLOCK,
                        (low_end - low) * CONV_BLOCK, s->channels);
            N(conv_zero)(to + low_end * CONV_BLOCK, (work->width - low_end) * CONV_BLOCK);
        }
        const int64_t place = plane * s->result_plane + first * wide->count;
        to = job->result + place * CONV_BLOCK;
        for (int64_t row = 0; row < rows; row++) {
            const T *at = copy + row * high->stride * pitch;
            if (work->tiles) {
                N(few_row)(work->tiles, wide->count, &work->walk, at, weight,
                           to + row * wide->count * CONV_BLOCK);
                continue;
            }
            int64_t w = 0;
            for (; w + BLOCKED_RESULTS <= wide->count; w += BLOCKED_RESULTS)
                N(blocked_each_tile)(BLOCKED_RESULTS, s, pitch, at + w * wide->stride * CONV_BLOCK,
                                     weight, to + (row * wide->count + w) * CONV_BLOCK);
            for (; w < wide->count; w++)
                N(blocked_each_tile)(1, s, pitch, at + w * wide->stride * CONV_BLOCK, weight,
                                     to + (row * wide->count + w) * CONV_BLOCK);
        }
        if (job->post)
            job->post->apply(job->post->context, place * CONV_BLOCK,
                             rows * wide->count * CONV_BLOCK);
    }
    return HYB_OK;
}

static hyb_status N(blocked_each)(const N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const double span = (double)(high->taps - 1) * (double)high->slide + 1;
    const double width = (double)(wide->count - 1) * (double)wide->stride +
                         (double)(wide->taps - 1) * (double)wide->slide + 1;
    const double line = width * CONV_BLOCK * (double)sizeof(T);
    if (line * span > (double)CONV_BLOCKED_LARGEST)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of rows");
    N(blocked_each_work) work = {.job = job, .width = (int64_t)width};
    work.walk = (N(few_walk)){high->taps, high->slide * work.width * CONV_BLOCK, wide->taps,
                              wide->slide * CONV_BLOCK, wide->stride * CONV_BLOCK, true};
    work.tiles = N(few_tiles_of)(s->channels, &work.walk);
    const int64_t fit = (int64_t)(CONV_ROWS_BYTES / line) - (int64_t)span;
    work.height = matmul_smaller(fit > 0 ? 1 + fit / high->stride : 1, high->count);
    work.highs = matmul_ceil(high->count, work.height);
    work.height = matmul_ceil(high->count, work.highs);
    work.highs = matmul_ceil(high->count, work.height);
    work.lines = (work.height - 1) * high->stride + (int64_t)span;
    const int64_t units = s->batch * (s->groups * s->rows / CONV_BLOCK) * work.highs;
    const int64_t one = work.height * wide->count * s->terms * CONV_BLOCK;
    const int64_t grain = 1 + CONV_PARALLEL_WORK / 8 / (1 + one);
    if (units > grain && N(conv_is_large)(s))
        return hyb_parallel_for(units, grain, N(blocked_each_units), &work);
    return N(blocked_each_units)(&work, 0, units);
}

#undef BLOCKED_RESULTS
#undef BLOCKED_VECTORS
