/* convolution/blocked.inc.c - convolutions of which 16 channels lie side by side: x is
 * [N, C / 16, H, W, 16] or, for a first convolution, [N, C, H, W]; y is [N, O / 16, H, W, 16].
 *
 * A vector holds adjacent channels of one result, and each item of x that it meets is spread over
 * the lanes.  So no vector is lost in narrow planes, strides pass over whole blocks, and transforms
 * of tiles need no lanes to change places.  The register tiles multiply some results, evenly spaced
 * in a copy with zeros around it, by two vectors of weights; `place` says where each term lies.
 *
 * Bits       those of conv: the same way for the same shape, a result by the same chains in the
 *            same order.
 * Post-ops   of a few channels of a block of results at a time.
 *
 * Included by convolution/typed.inc.c for float32.
 */

typedef struct {
    N(conv_job) job; /* its result and source in blocks; weight: prepared */
    bool    blocked; /* the source, too */
    bool    whole;   /* it is read where it lies */
    int64_t step;    /* items from a result's first term to that of the next */
    size_t  items;   /* of a copy */
    /* Of planes that are not blocked: results of a block, copies of a line and of a channel. */
    int64_t height, highs;
    int64_t width, phases, pitch, channel;
} N(blocked_job);

typedef void (*N(blocked_tile_fn))(const T *a, int64_t step, const int64_t *place, const T *b, T *c,
                                   int64_t apart, int64_t depth, bool add, const T *next);

/* Results i < rows, CONV_BLOCK items apart: vector v of each is at c + v * apart.  On the way it
 * fetches a vector from `next` on for each k. */
static inline __attribute__((always_inline)) void
N(blocked_tile)(int rows, int vectors, const T *a, int64_t step, const int64_t *place, const T *b,
                T *c, int64_t apart, int64_t depth, bool add, const T *next)
{
    V sum[MATMUL_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            sum[i][v] = (V){0};
            __builtin_prefetch(c + i * CONV_BLOCK + v * apart, 1);
        }
    /* Rows are found from every third of them: one address each would spill. */
    for (int64_t k = 0; k < depth; k++, b += vectors * LANES, next += LANES) {
        const T *third[(MATMUL_ROWS + 2) / 3];
        third[0] = a + place[k];
#pragma GCC unroll 4
        for (int i = 1; i < (rows + 2) / 3; i++)
            third[i] = third[i - 1] + 3 * step;
        V line[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            line[v] = N(v_load)(b + v * LANES);
        __builtin_prefetch(next, 0, 2);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const T item = third[i / 3][i % 3 * step];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[i][v] += item * line[v];
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            T *to = c + i * CONV_BLOCK + v * apart;
            N(v_store)(to, add ? N(v_load)(to) + sum[i][v] : sum[i][v]);
        }
}

#define TILE(rows, vectors)                                                                        \
    static void N(blocked_tile_##rows##x##vectors)(const T *a, int64_t step, const int64_t *place, \
                                                   const T *b, T *c, int64_t apart, int64_t depth, \
                                                   bool add, const T *next)                        \
    {                                                                                              \
        N(blocked_tile)(rows, vectors, a, step, place, b, c, apart, depth, add, next);             \
    }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
MATMUL_EACH_ROWS(TILES)
#define ONE(rows) [rows - 1] = N(blocked_tile_##rows##x1),
#define TWO(rows) [rows - 1] = N(blocked_tile_##rows##x2),
static const N(blocked_tile_fn) N(blocked_tiles)[2][MATMUL_ROWS] = {
    {MATMUL_EACH_ROWS(ONE)}, {MATMUL_EACH_ROWS(TWO)}};
#undef TWO
#undef ONE
#undef TILES
#undef TILE

/* `count` adjacent results of `width` channels, in tiles of about one size.  The first ones fetch the
 * weights that follow, for which the memory has the time of all. */
static void N(blocked_row)(int64_t count, int64_t width, const T *a, int64_t step,
                           const int64_t *place, const T *b, T *c, int64_t apart, int64_t depth,
                           bool add)
{
    const int64_t tiles = matmul_ceil(count, MATMUL_ROWS), low = count / tiles;
    const int64_t tall = count - low * tiles;
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t rows = low + (tile < tall);
        const T *next = tile * LANES < width ? b + depth * (width + tile * LANES) : b;
        N(blocked_tiles)[width / LANES - 1][rows - 1](a, step, place, b, c, apart, depth, add, next);
        a += rows * step;
        c += rows * CONV_BLOCK;
    }
}

/* Channels that are finished together: whole blocks, and as many as the tiles have. */
#define BLOCKED_BAND (2 * LANES > CONV_BLOCK ? 2 * LANES : CONV_BLOCK)

static inline int64_t N(blocked_bands)(int64_t rows)
{
    return matmul_ceil(rows, BLOCKED_BAND);
}

/* From a vector of results to the next one of the same place; blocks are `plane` results apart. */
static inline int64_t N(blocked_apart)(int64_t plane)
{
    return LANES < CONV_BLOCK ? LANES : plane * CONV_BLOCK;
}

/* Where channel `row` of the first of `plane` results lies. */
static inline int64_t N(blocked_channel)(int64_t row, int64_t plane)
{
    return row / CONV_BLOCK * plane * CONV_BLOCK + row % CONV_BLOCK;
}

/* Where channel `row` of the results of a group lies. */
static inline int64_t N(blocked_row_of)(const conv_shape *s, int64_t image, int64_t group,
                                        int64_t row)
{
    return image * s->result_image + N(blocked_channel)(group * s->rows + row, s->result_plane);
}

/* Post-ops of a band of channels of `count` results from `first` on. */
static inline void N(blocked_finish)(const N(conv_job) *job, int64_t image, int64_t group,
                                     int64_t band, int64_t first, int64_t count)
{
    const conv_shape *s = &job->shape;
    const int64_t row = band * BLOCKED_BAND, rows = matmul_smaller(BLOCKED_BAND, s->rows - row);
    if (job->post)
        job->post->apply_rows(job->post->context,
                              N(blocked_row_of)(s, image, group, row) + first * CONV_BLOCK,
                              count * CONV_BLOCK, rows / CONV_BLOCK, s->result_plane * CONV_BLOCK);
}

/* Where term k of a result finds what it meets, counted from that of term 0. */
static void N(blocked_places)(const N(blocked_job) *blocked, int64_t *place)
{
    const conv_shape *s = &blocked->job.shape;
    const conv_planes *p = &blocked->job.planes;
    for (int64_t k = 0; k < s->terms; k++) {
        const int64_t c = k / s->taps;
        int64_t taps[3];
        conv_tap(s, k % s->taps, taps);
        const int64_t wide = taps[2] * s->axis[2].slide;
        if (!blocked->blocked) {
            const int64_t stride = s->axis[2].stride;
            place[k] = c * blocked->channel + taps[1] * s->axis[1].slide * blocked->pitch +
                       wide % stride * blocked->width + wide / stride;
            continue;
        }
        const int64_t line = conv_line(&s->axis[1], taps[1]), stride = s->axis[1].stride;
        const int64_t at =
            taps[2] * p->copy + (line % stride * p->lines + line / stride) * p->width;
        place[k] = (c / CONV_BLOCK * p->channel + at) * CONV_BLOCK + c % CONV_BLOCK;
    }
}

/* What the group of a block of results takes. */
static inline const T *N(blocked_source_of)(const N(blocked_job) *blocked, const conv_block *block)
{
    const conv_shape *s = &blocked->job.shape;
    return blocked->job.source + block->image * s->source_image +
           block->group * s->channels * s->source_plane;
}

/* Copies blocks [begin, end) of channels, of what a block of results needs. */
static void N(blocked_copy)(const N(blocked_job) *blocked, T *copy, const conv_block *block,
                            int64_t begin, int64_t end)
{
    const conv_shape *s = &blocked->job.shape;
    const conv_planes *p = &blocked->job.planes;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const T *from = N(blocked_source_of)(blocked, block) + begin * s->source_plane * CONV_BLOCK;
    T *to = copy + begin * p->channel * CONV_BLOCK;
    for (int64_t c = begin; c < end; c++, from += s->source_plane * CONV_BLOCK)
        for (int64_t tap = 0; tap < wide->taps; tap++) {
            const int64_t start = block->wide * wide->stride + wide->shift + tap * wide->slide;
            int64_t low, low_end;
            conv_inside(start, wide->stride, p->width, wide->size, &low, &low_end);
            for (int64_t line = 0; line < p->phases * p->lines; line++) {
                const int64_t h = p->lowest + block->high * high->stride + line / p->lines +
                                  line % p->lines * high->stride;
                if (h < 0 || h >= high->size || low == low_end) {
                    N(conv_zero)(to, p->width * CONV_BLOCK);
                    to += p->width * CONV_BLOCK;
                    continue;
                }
                N(conv_zero)(to, low * CONV_BLOCK);
                to += low * CONV_BLOCK;
                const T *row = from + (h * wide->size + start + low * wide->stride) * CONV_BLOCK;
                for (int64_t w = low; w < low_end; w++, to += CONV_BLOCK) {
                    N(conv_move)(to, row, CONV_BLOCK);
                    row += wide->stride * CONV_BLOCK;
                }
                N(conv_zero)(to, (p->width - low_end) * CONV_BLOCK);
                to += (p->width - low_end) * CONV_BLOCK;
            }
        }
}

/* The same of channels that lie apart: lines one below the other, each stride phase by phase. */
static void N(blocked_copy_planes)(const N(blocked_job) *blocked, T *copy, const conv_block *block,
                                   int64_t begin, int64_t end)
{
    const conv_shape *s = &blocked->job.shape;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t lines = blocked->channel / blocked->pitch;
    const T *from = N(blocked_source_of)(blocked, block) + begin * s->source_plane;
    T *to = copy + begin * blocked->channel;
    for (int64_t c = begin; c < end; c++, from += s->source_plane)
        for (int64_t line = 0; line < lines; line++) {
            const int64_t h = block->high * high->stride + high->shift + line;
            for (int64_t phase = 0; phase < blocked->phases; phase++, to += blocked->width) {
                const int64_t start = wide->shift + phase;
                int64_t low, low_end;
                conv_inside(start, wide->stride, blocked->width, wide->size, &low, &low_end);
                if (h < 0 || h >= high->size || low == low_end)
                    N(conv_zero)(to, blocked->width);
                else
                    N(conv_copy_row)(to, blocked->width,
                                     from + h * wide->size + start + low * wide->stride,
                                     wide->stride, low, low_end);
            }
        }
}

/* Bands [begin, end) of channels of a block of results. */
static void N(blocked_results)(const N(blocked_job) *blocked, const conv_block *block, const T *copy,
                               const int64_t *place, int64_t begin, int64_t end)
{
    const N(conv_job) *job = &blocked->job;
    const conv_shape *s = &job->shape;
    const int64_t plane = s->result_plane, apart = N(blocked_apart)(plane);
    const int64_t corner = block->high * s->axis[2].count + block->wide;
    const int64_t down = s->axis[1].stride * blocked->pitch, wide = s->axis[2].count;
    const bool one = blocked->blocked || down == wide * blocked->step; /* lines follow each other */
    const int64_t lines = one ? 1 : block->rows, length = block->columns / lines;
    for (int64_t band = begin; band < end; band++) {
        const int64_t last = matmul_smaller((band + 1) * BLOCKED_BAND, s->rows);
        for (int64_t row = band * BLOCKED_BAND; row < last; row += 2 * LANES) {
            const int64_t width = matmul_smaller(2 * LANES, last - row);
            T *to = job->result + N(blocked_row_of)(s, block->image, block->group, row) +
                    corner * CONV_BLOCK;
            for (int64_t k = 0; k < s->terms; k += job->depth) {
                const T *weights =
                    job->weight + (block->group * s->rows + row) * s->terms + k * width;
                const int64_t depth = matmul_smaller(job->depth, s->terms - k);
                for (int64_t line = 0; line < lines; line++)
                    N(blocked_row)(length, width, copy + line * down, blocked->step, place + k,
                                   weights, to + line * length * CONV_BLOCK, apart, depth, k > 0);
            }
        }
        N(blocked_finish)(job, block->image, block->group, band, corner, block->columns);
    }
}

static conv_block N(blocked_block)(const N(blocked_job) *blocked, int64_t unit)
{
    const conv_shape *s = &blocked->job.shape;
    if (blocked->blocked)
        return conv_block_of(s, &blocked->job.planes, unit);
    const int64_t image = unit / blocked->highs;
    conv_block block = {.group = image / s->batch, .image = image % s->batch,
                        .high = unit % blocked->highs * blocked->height};
    block.rows = matmul_smaller(blocked->height, s->axis[1].count - block.high);
    block.columns = block.rows * s->axis[2].count;
    return block;
}

/* A block whose copy and results threads share out. */
typedef struct {
    const N(blocked_job) *blocked;
    conv_block block;
    T         *copy;
    int64_t   *place;
} N(blocked_shared);

static hyb_status N(blocked_copies)(void *context, int64_t begin, int64_t end)
{
    const N(blocked_shared) *shared = context;
    if (shared->blocked->blocked)
        N(blocked_copy)(shared->blocked, shared->copy, &shared->block, begin, end);
    else
        N(blocked_copy_planes)(shared->blocked, shared->copy, &shared->block, begin, end);
    return HYB_OK;
}

static hyb_status N(blocked_shares)(void *context, int64_t begin, int64_t end)
{
    const N(blocked_shared) *shared = context;
    N(blocked_results)(shared->blocked, &shared->block, shared->copy, shared->place, begin, end);
    return HYB_OK;
}

/* Room for places, and behind it for a copy. */
static bool N(blocked_begin)(const N(blocked_job) *blocked, N(blocked_shared) *shared)
{
    const int64_t places = (blocked->job.shape.terms + 7) / 8 * 8;
    shared->blocked = blocked;
    shared->place = hyb_scratch((size_t)places * sizeof(int64_t) + blocked->items * sizeof(T));
    if (!shared->place)
        return false;
    shared->copy = (T *)(shared->place + places);
    N(blocked_places)(blocked, shared->place);
    return true;
}

/* Blocks [begin, end), or each shared out among threads. */
static hyb_status N(blocked_blocks_of)(const N(blocked_job) *blocked, int64_t begin, int64_t end,
                                       bool parallel)
{
    const conv_shape *s = &blocked->job.shape;
    const int64_t copies = blocked->blocked ? s->channels / CONV_BLOCK : s->channels;
    N(blocked_shared) shared;
    if (!N(blocked_begin)(blocked, &shared))
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of planes");
    hyb_status status = HYB_OK;
    for (int64_t unit = begin; unit < end && status == HYB_OK; unit++) {
        shared.block = N(blocked_block)(blocked, unit);
        if (blocked->whole)
            shared.copy = (T *)N(blocked_source_of)(blocked, &shared.block) +
                          shared.block.high * s->axis[2].count * CONV_BLOCK;
        else
            status = N(conv_share)(&shared, parallel, copies, 4, N(blocked_copies));
        if (status == HYB_OK)
            status = N(conv_share)(&shared, parallel, N(blocked_bands)(s->rows), 1,
                                   N(blocked_shares));
    }
    return status;
}

static hyb_status N(blocked_blocks)(void *context, int64_t begin, int64_t end)
{
    return N(blocked_blocks_of)(context, begin, end, false);
}

/* Plans copies of planes of blocks; more memory is taken only where a row does not do with less. */
static bool N(blocked_plan)(N(blocked_job) *blocked, int64_t wanted)
{
    conv_shape *s = &blocked->job.shape;
    conv_planes *p = &blocked->job.planes;
    p->channels = s->channels / CONV_BLOCK;
    int64_t bytes = CONV_BLOCKED_BYTES;
    while (!conv_plan_planes(s, p, bytes / (CONV_BLOCK * (int64_t)sizeof(T)), wanted)) {
        if (bytes > CONV_BLOCKED_LARGEST)
            return false;
        bytes *= 2;
    }
    blocked->step = CONV_BLOCK;
    blocked->items = (size_t)(p->channels * p->channel * CONV_BLOCK);
    blocked->whole = s->taps == 1 && p->wides == 1;
    for (int a = 1; a < 3; a++) {
        const conv_axis *axis = &s->axis[a];
        blocked->whole &= axis->stride == 1 && axis->shift == 0 && axis->size == axis->count;
    }
    if (blocked->whole) { /* the planes themselves are the copies */
        blocked->items = 0;
        p->channel = s->source_plane;
    }
    return true;
}

static bool N(blocked_plan_planes)(N(blocked_job) *blocked, int64_t wanted)
{
    const conv_shape *s = &blocked->job.shape;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t span = (high->taps - 1) * high->slide + 1;
    blocked->phases = 1;
    for (int64_t tap = 0; tap < wide->taps; tap++)
        if (tap * wide->slide % wide->stride >= blocked->phases)
            blocked->phases = tap * wide->slide % wide->stride + 1;
    blocked->width = wide->count + (wide->taps - 1) * wide->slide / wide->stride;
    blocked->pitch = blocked->phases * blocked->width;
    const double line = (double)blocked->pitch * (double)s->channels * (double)sizeof(T);
    if (line * (double)span > (double)CONV_BLOCKED_LARGEST)
        return false;
    const int64_t fit = (int64_t)(CONV_BLOCKED_BYTES / line) - span;
    blocked->height = fit > 0 ? 1 + fit / high->stride : 1;
    if (blocked->height * wanted > high->count)
        blocked->height = matmul_ceil(high->count, wanted);
    blocked->highs = matmul_ceil(high->count, blocked->height);
    blocked->height = matmul_ceil(high->count, blocked->highs);
    blocked->highs = matmul_ceil(high->count, blocked->height);
    const int64_t lines = (blocked->height - 1) * high->stride + span;
    blocked->channel = lines * blocked->pitch;
    blocked->items = (size_t)(s->channels * blocked->channel);
    blocked->step = 1;
    return true;
}

/* Terms in one chain: as conv has them. */
static int64_t N(blocked_depth)(const N(conv_job) *job)
{
    N(conv_job) plain = *job;
    plain.part = CONV_PREPARED;
    return N(conv_plan_blocks)(&plain) ? plain.depth
                                       : matmul_depth_of(job->shape.terms, sizeof(T));
}

static hyb_status N(blocked_direct)(N(blocked_job) *blocked)
{
    N(conv_job) *job = &blocked->job;
    const conv_shape *s = &job->shape;
    job->depth = N(blocked_depth)(job);
    job->parallel = N(conv_is_large)(s);
    const int64_t others = s->batch * s->groups;
    int64_t wanted = job->parallel && others < 8 ? matmul_ceil(8, others) : 1;
    wanted = matmul_smaller(wanted, 1 + s->result_plane / CONV_SHARED);
    if (!(blocked->blocked ? N(blocked_plan)(blocked, wanted)
                           : N(blocked_plan_planes)(blocked, wanted)))
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of planes");
    const int64_t blocks = blocked->blocked ? conv_n_blocks(s, &job->planes)
                                            : others * blocked->highs;
    if (blocks < CONV_BLOCKED_FEW)
        return N(blocked_blocks_of)(blocked, 0, blocks, job->parallel);
    return N(conv_share)(blocked, job->parallel, blocks, 1, N(blocked_blocks));
}

#include "kernels/convolution/blocked_few.inc.c"
#include "kernels/convolution/blocked_winograd.inc.c"
#include "kernels/convolution/blocked_each.inc.c"
#include "kernels/convolution/blocked_checks.inc.c"

HYB_KERNEL(N(conv_blocked))
{
    (void)begin;
    (void)end;
    const N(blocked_sizes) of = N(blocked_sizes_of)(call);
    N(blocked_job) blocked = {
        .job = {.shape = conv_forward(call, of.x, of.w, of.y), .source = call->data[0],
                .weight = call->data[2], .result = call->data[3], .part = CONV_PREPARED,
                .post = call->post},
        .blocked = call->layout[0].rank == 5};
    N(conv_job) *job = &blocked.job;
    if (job->shape.columns == 0)
        return HYB_OK;
    if (conv_plan_tiles(&job->shape, &job->tiles))
        return N(blocked_winograd)(job);
    return N(blocked_few)(&job->shape) ? N(blocked_each)(job) : N(blocked_direct)(&blocked);
}

/* Bands [begin, end) of the rows of weights in the order of the tiles: panels of two vectors, or
 * blocks of groups of few channels. */
HYB_KERNEL(N(conv_blocked_prepare))
{
    const N(blocked_sizes) of = N(blocked_described)(call);
    N(conv_job) job = {.shape = conv_forward(call, of.x, of.w, of.y), .panels = 1,
                       .part = CONV_PREPARES};
    const conv_shape *s = &job.shape;
    const T *from = call->data[0];
    T *to = call->data[1];
    const bool tiles = s->columns > 0 && conv_plan_tiles(s, &job.tiles);
    const int64_t rows = N(blocked_few)(s) ? CONV_BLOCK : s->rows, bands = N(blocked_bands)(rows);
    const int64_t most = N(blocked_few)(s) ? CONV_BLOCK : 2 * LANES;
    const int64_t place = N(winograd_apart)(rows, s->channels);
    const int64_t items = tiles ? WINOGRAD_PLACES * place : rows * s->terms;
    for (int64_t band = begin; band < end; band++) {
        const int64_t part = band / bands, row = band % bands * BLOCKED_BAND;
        const int64_t last = matmul_smaller(row + BLOCKED_BAND, rows);
        T *at = to + part * items;
        for (int64_t i = 1; tiles && row == 0 && i <= WINOGRAD_PLACES; i++) /* not all is used */
            N(conv_zero)(at + i * place - WINOGRAD_APART, WINOGRAD_APART);
        for (int64_t r = row; r < last; r += most) {
            const T *first = from + (part * rows + r) * s->weight_row;
            const int64_t width = matmul_smaller(most, last - r);
            if (tiles) {
                job.weight = first;
                job.low = width;
                N(winograd_weights)(&job, 0, 0, at + r * s->channels, place);
            } else {
                N(matmul_pack_along)(at + r * s->terms, width, first, s->weight_row, width,
                                     s->terms);
            }
        }
        if (N(blocked_few)(s))
            N(few_turn)(at, at, items, s->channels);
    }
    if (begin == 0) { /* nor all room */
        const int64_t used = s->rows * s->groups / rows * items;
        N(conv_zero)(to + used, hyb_elements(&call->layout[1]) - used);
    }
    return HYB_OK;
}

#undef BLOCKED_BAND
