/* convolution/blocked_winograd.inc.c - convolutions of blocks of channels by transformed tiles: the
 * sums of convolution/winograd.inc.c, of whole vectors of channels of one place.  Groups of few
 * channels are transformed as one group for each block; products are of the channels of each.
 *
 * Included by convolution/blocked.inc.c.
 */

/* Rows of tiles, of one image after the other. */
typedef struct {
    const N(conv_job) *job;
    int64_t  few; /* channels of a group, if there are few */
    int64_t  group, first, rows;
    int64_t *place; /* of channels in the transformed source */
    T       *source, *sums;
} N(blocked_tiling);

static inline int64_t N(blocked_tiles_of)(const N(blocked_tiling) *block)
{
    return block->rows * block->job->tiles.wide;
}

/* One line of four places under a tile, as WINOGRAD_SOURCE leaves it. */
static inline __attribute__((always_inline)) void
N(blocked_line)(V to[4], const T *line, int64_t start, int64_t size)
{
    V found[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        found[i] = start + i >= 0 && start + i < size
                       ? N(v_load)(line + (start + i) * CONV_BLOCK)
                       : (V){0};
    WINOGRAD_SOURCE(to, found);
}

/* Transforms a row of tiles of a block of channels. */
static void N(blocked_source)(const N(blocked_tiling) *block, int64_t c, int64_t row)
{
    const N(conv_job) *job = block->job;
    const conv_shape *s = &job->shape;
    const conv_tiles *t = &job->tiles;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t n = N(blocked_tiles_of)(block), place = N(winograd_apart)(s->channels, n);
    const int64_t image = (block->first + row) / t->high, at = (block->first + row) % t->high;
    const T *plane = job->source + image * s->source_image +
                     (block->group * s->channels + c * CONV_BLOCK) * s->source_plane;
    T *to = block->source + (c * n + row * t->wide) * CONV_BLOCK;
    const int64_t h = 2 * at + high->shift;
    for (int lanes = 0; lanes < CONV_BLOCK; lanes += LANES)
        for (int64_t w = 0; w < t->wide; w++) {
            const int64_t start = 2 * w + wide->shift;
            V line[4][4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                const T *from = plane + (h + i) * wide->size * CONV_BLOCK + lanes;
                if (block->few && i >= 2) { /* of the next row, for which little time is left */
                    __builtin_prefetch(from + (2 * wide->size + start) * CONV_BLOCK);
                    __builtin_prefetch(from + (2 * wide->size + start + 1) * CONV_BLOCK);
                }
                if (h + i < 0 || h + i >= high->size)
                    line[i][0] = line[i][1] = line[i][2] = line[i][3] = (V){0};
                else if (start >= 0 && start + 4 <= wide->size)
                    N(blocked_line)(line[i], from, start, INT64_MAX);
                else
                    N(blocked_line)(line[i], from, start, wide->size);
            }
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const V column[4] = {line[0][j], line[1][j], line[2][j], line[3][j]};
                V found[4];
                WINOGRAD_SOURCE(found, column);
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++)
                    N(v_store)(to + (4 * i + j) * place + w * CONV_BLOCK + lanes,
                               N(lanes_turned)(found[i], block->few));
            }
        }
}

/* Units [begin, end): the rows of tiles of each block of channels. */
static hyb_status N(blocked_sources)(void *context, int64_t begin, int64_t end)
{
    const N(blocked_tiling) *block = context;
    for (int64_t unit = begin; unit < end; unit++)
        N(blocked_source)(block, unit / block->rows, unit % block->rows);
    return HYB_OK;
}

/* Units [begin, end): the bands of channels of each place. */
static hyb_status N(blocked_products)(void *context, int64_t begin, int64_t end)
{
    const N(blocked_tiling) *block = context;
    const N(conv_job) *job = block->job;
    const conv_shape *s = &job->shape;
    const int64_t bands = N(blocked_bands)(s->rows), n = N(blocked_tiles_of)(block);
    const int64_t terms = block->few ? block->few : s->channels;
    const int64_t apart = N(winograd_apart)(s->rows, terms);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t place = unit / bands, band = unit % bands;
        const int64_t last = matmul_smaller((band + 1) * BLOCKED_BAND, s->rows);
        const T *source = block->source + place * N(winograd_apart)(s->channels, n);
        const T *weights = job->weight + (block->group * WINOGRAD_PLACES + place) * apart;
        T *sums = block->sums + place * N(winograd_apart)(s->rows, n);
        if (block->few) {
            const N(few_walk) walk = {.lines = 1, .taps = 1, .step = CONV_BLOCK};
            N(few_row)(N(few_tiles_of)(block->few, &walk), n, &walk, source, weights, sums);
            continue;
        }
        for (int64_t row = band * BLOCKED_BAND; row < last; row += 2 * LANES) {
            const int64_t width = matmul_smaller(2 * LANES, last - row);
            for (int64_t k = 0; k < s->channels; k += job->depth)
                N(blocked_row)(n, width, source, CONV_BLOCK, block->place + k,
                               weights + row * s->channels + k * width,
                               sums + N(blocked_channel)(row, n), N(blocked_apart)(n),
                               matmul_smaller(job->depth, s->channels - k), k > 0);
        }
    }
    return HYB_OK;
}

/* Results of a row of tiles of a block of channels. */
static void N(blocked_result)(const N(blocked_tiling) *block, int64_t c, int64_t row)
{
    const N(conv_job) *job = block->job;
    const conv_shape *s = &job->shape;
    const conv_tiles *t = &job->tiles;
    const int64_t width = s->axis[2].count, height = s->axis[1].count;
    const int64_t n = N(blocked_tiles_of)(block), place = N(winograd_apart)(s->rows, n);
    const int64_t image = (block->first + row) / t->high, h = 2 * ((block->first + row) % t->high);
    const int both = 1 + (h + 1 < height);
    const T *from = block->sums + (c * n + row * t->wide) * CONV_BLOCK;
    T *to = job->result + N(blocked_row_of)(s, image, block->group, c * CONV_BLOCK) +
            h * width * CONV_BLOCK;
    for (int64_t w = 0; w < width; w += 2, from += CONV_BLOCK, to += 2 * CONV_BLOCK)
        for (int lanes = 0; lanes < CONV_BLOCK; lanes += LANES) {
            V line[2][4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const V a = N(v_load)(from + j * place + lanes);
                const V b = N(v_load)(from + (4 + j) * place + lanes);
                const V d = N(v_load)(from + (8 + j) * place + lanes);
                const V e = N(v_load)(from + (12 + j) * place + lanes);
                line[0][j] = a + b + d;
                line[1][j] = b - d - e;
            }
#pragma GCC unroll 2
            for (int i = 0; i < both; i++) {
                T *at = to + i * width * CONV_BLOCK + lanes;
                N(v_store)(at, N(lanes_back)(line[i][0] + line[i][1] + line[i][2], block->few));
                if (w + 1 < width)
                    N(v_store)(at + CONV_BLOCK,
                               N(lanes_back)(line[i][1] - line[i][2] - line[i][3], block->few));
            }
        }
}

/* Bands [begin, end) of the channels of results. */
static hyb_status N(blocked_sums)(void *context, int64_t begin, int64_t end)
{
    const N(blocked_tiling) *block = context;
    const N(conv_job) *job = block->job;
    const conv_shape *s = &job->shape;
    const conv_tiles *t = &job->tiles;
    for (int64_t band = begin; band < end; band++) {
        const int64_t last = matmul_smaller((band + 1) * BLOCKED_BAND, s->rows) / CONV_BLOCK;
        for (int64_t c = band * BLOCKED_BAND / CONV_BLOCK; c < last; c++)
            for (int64_t row = 0; row < block->rows; row++)
                N(blocked_result)(block, c, row);
        for (int64_t row = 0; job->post && row < block->rows;) { /* image by image */
            const int64_t image = (block->first + row) / t->high;
            const int64_t at = (block->first + row) % t->high;
            const int64_t rows = matmul_smaller(t->high - at, block->rows - row);
            const int64_t lines = matmul_smaller(2 * rows, s->axis[1].count - 2 * at);
            N(blocked_finish)(job, image, block->group, band, 2 * at * s->axis[2].count,
                              lines * s->axis[2].count);
            row += rows;
        }
    }
    return HYB_OK;
}

/* What the blocks of tiles of all groups are worked on with. */
typedef struct {
    N(conv_job) job;
    int64_t     few;
} N(blocked_tiled);

/* Blocks of tiles [begin, end), numbered group by group, or each shared out among threads. */
static hyb_status N(blocked_tilings_of)(const N(blocked_tiled) *tiled, int64_t begin, int64_t end,
                                        bool parallel)
{
    const conv_shape *s = &tiled->job.shape;
    const conv_tiles *t = &tiled->job.tiles;
    const int64_t most = t->rows * t->wide, places = (s->channels + 7) / 8 * 8;
    const int64_t items = WINOGRAD_PLACES * N(winograd_apart)(s->channels, most);
    N(blocked_tiling) block = {.job = &tiled->job, .few = tiled->few};
    block.place = hyb_scratch((size_t)places * sizeof(int64_t) + t->nbytes);
    if (!block.place)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for tiles");
    block.source = (T *)(block.place + places);
    block.sums = block.source + items;
    hyb_status status = HYB_OK;
    for (int64_t unit = begin; unit < end && status == HYB_OK; unit++) {
        block.group = unit / t->blocks;
        block.first = unit % t->blocks * t->rows;
        block.rows = matmul_smaller(t->rows, s->batch * t->high - block.first);
        const int64_t n = N(blocked_tiles_of)(&block);
        for (int64_t c = 0; c < s->channels; c++)
            block.place[c] = N(blocked_channel)(c, n);
        status = N(conv_share)(&block, parallel, s->channels / CONV_BLOCK * block.rows, 4,
                               N(blocked_sources));
        if (status == HYB_OK)
            status = N(conv_share)(&block, parallel,
                                   WINOGRAD_PLACES * N(blocked_bands)(s->rows), 1,
                                   N(blocked_products));
        if (status == HYB_OK)
            status = N(conv_share)(&block, parallel, N(blocked_bands)(s->rows), 1,
                                   N(blocked_sums));
    }
    return status;
}

static hyb_status N(blocked_tilings)(void *context, int64_t begin, int64_t end)
{
    return N(blocked_tilings_of)(context, begin, end, false);
}

static hyb_status N(blocked_winograd)(const N(conv_job) *job)
{
    N(blocked_tiled) tiled = {.job = *job, .few = N(blocked_few)(&job->shape)};
    conv_shape *s = &tiled.job.shape;
    conv_tiles *t = &tiled.job.tiles;
    tiled.job.depth = matmul_depth_of(s->channels, sizeof(T));
    if (tiled.few) {
        s->groups = s->groups * s->rows / CONV_BLOCK;
        s->channels = s->rows = CONV_BLOCK;
        /* Few weights are soon there, so that little has to be kept of tiles. */
        const int64_t row = WINOGRAD_PLACES * 2 * CONV_BLOCK * (int64_t)sizeof(T) * t->wide;
        const int64_t fit = CONV_ROWS_BYTES / row, rows = s->batch * t->high;
        t->rows = matmul_smaller(fit > 1 ? fit : 1, t->rows);
        t->blocks = matmul_ceil(rows, t->rows);
    }
    const int64_t blocks = s->groups * t->blocks;
    const bool parallel = N(conv_is_large)(&job->shape);
    t->nbytes = (size_t)(WINOGRAD_PLACES *
                         (N(winograd_apart)(s->channels + s->rows, t->rows * t->wide) +
                          WINOGRAD_APART)) * sizeof(T);
    if (blocks < WINOGRAD_FEW)
        return N(blocked_tilings_of)(&tiled, 0, blocks, parallel);
    return N(conv_share)(&tiled, parallel, blocks, 1, N(blocked_tilings));
}
