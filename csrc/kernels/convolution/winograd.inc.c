/* convolution/winograd.inc.c - convolutions of 3x3 kernels at stride 1 from fewer products: the
 * minimal filtering F(2x2, 3x3) of Winograd, for convolutions by Lavin and Gray (2016).
 *
 *   Y = A' [sum over c of (G g G') * (B' d B)] A     * item by item, ' the transpose
 *
 *        | 1  0 -1  0 |       | 1    0    0   |        | 1  1  1  0 |
 *   B' = | 0  1  1  0 |   G = | 1/2  1/2  1/2 |   A' = | 0  1 -1 -1 |
 *        | 0 -1  1  0 |       | 1/2 -1/2  1/2 |
 *        | 0  1  0 -1 |       | 0    0    1   |
 *
 * A tile Y of 2x2 results comes from 4x4 places d of the source and the 3x3 kernel g in 16 products
 * and not 36.  For each of the 16 places, all tiles and channels are one product of matrices.
 *
 * A block is some rows of tiles, of one image after the other.  Of many blocks each thread works on
 * its own, from weights that were transformed before, place by place.  A few are shared: each thread
 * takes some rows of results, from transforming their weights to the results themselves; or, of
 * prepared weights, some places.
 *
 * Accuracy   all coefficients are powers of 2: only sums and products are rounded, and what small
 *            integers give is exact.  With chains of D of the C channels and u half an ulp of 1,
 *              |error| <= (D + C / D + 11) u |A'| [sum over c of (|G| |g| |G'|) * (|B'| |d| |B|)] |A|
 *            (an addition in each transform of d, two in those of g and of the sums; the bound of
 *            Demmel, Dumitriu, Holtz and Kleinberg 2007 for bilinear algorithms; Barabasz,
 *            Anderson, Soodhalter and Gregg 2020).  That is at most 16 max |d| sum |g| times as
 *            much, and for factors of even size a few sum |d| |g|; larger where large items of d
 *            have small items of g and the other way round.
 *            F(4x4, 3x3), of 36 products for 16 results, is not here: its coefficients are no powers
 *            of 2, so small integers would not be exact, and of normal factors with 64 to 512
 *            channels its root mean square error is 3.6 times that of direct sums, its largest 4
 *            to 6 times; that of F(2x2, 3x3) is 0.6 times and 0.5.
 * Special    a NaN or an infinity in the source makes NaN of what it meets.
 *
 * Included by convolution/typed.inc.c for float32.
 */

/* One axis of a window as places of the transform see it: m, which may be v. */
#define WINOGRAD_SOURCE(m, v)                                                                      \
    do {                                                                                           \
        const V d0 = (v)[0], d1 = (v)[1], d2 = (v)[2], d3 = (v)[3];                                \
        (m)[0] = d0 - d2, (m)[1] = d1 + d2, (m)[2] = d2 - d1, (m)[3] = d1 - d3;                    \
    } while (0)

/* From one place of a transform to the next: never a multiple of a page, so that the same items of
 * all places do not meet in one set of a cache. */
static inline int64_t N(winograd_apart)(int64_t rows, int64_t length)
{
    return rows * length + WINOGRAD_APART;
}

/* The taps of kernels `step` apart, lane by lane; what follows the last of `count` has no meaning. */
static inline __attribute__((always_inline)) void N(winograd_taps)(V taps[9], const T *from,
                                                                   int64_t step, int64_t count)
{
#if LANES >= 9
    V row[LANES];
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < LANES; lane++)
        row[lane] = N(v_load_part)(from + matmul_smaller(lane, count - 1) * step, 9);
    N(matmul_transpose)(row);
#pragma GCC unroll 9
    for (int tap = 0; tap < 9; tap++)
        taps[tap] = row[tap];
#else
    T items[9][LANES];
    for (int64_t lane = 0; lane < LANES; lane++)
        for (int tap = 0; tap < 9; tap++)
            items[tap][lane] = from[matmul_smaller(lane, count - 1) * step + tap];
    memcpy(taps, items, sizeof items);
#endif
}

/* The first `n` lanes, if there are any. */
static inline __attribute__((always_inline)) void N(winograd_store)(T *to, V v, int64_t n)
{
    if (n >= LANES)
        N(v_store)(to, v);
    else if (n > 0)
        N(v_store_part)(to, v, n);
}

/* G g for a column g of three. */
static inline __attribute__((always_inline)) void N(winograd_weight)(V to[4], V a, V b, V c)
{
    const V ends = a + c;
    to[0] = a;
    to[1] = (ends + b) * (T)0.5;
    to[2] = (ends - b) * (T)0.5;
    to[3] = c;
}

/* Transforms a panel of the weights: for each place, `place` apart, channel by channel its rows. */
static void N(winograd_weights)(const N(conv_job) *job, int64_t group, int64_t panel, T *to,
                                int64_t place)
{
    const conv_shape *s = &job->shape;
    const bool turned = s->axis[1].slide < 0;
    const int64_t row = N(conv_row)(job, panel), rows = job->low + (panel < job->tall);
    const T *from = job->weight + group * s->weight_group + row * s->weight_row;
    for (int64_t c = 0; c < s->channels; c++, from += s->weight_channel)
        for (int64_t r = 0; r < rows; r += LANES) {
            const int64_t count = matmul_smaller(LANES, rows - r);
            V taps[9], high[3][4], found[4];
            N(winograd_taps)(taps, from + r * s->weight_row, s->weight_row, count);
#pragma GCC unroll 3
            for (int k = 0; k < 3; k++)
                N(winograd_weight)(high[k], taps[turned ? 8 - k : k], taps[turned ? 5 - k : 3 + k],
                                   taps[turned ? 2 - k : 6 + k]);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                N(winograd_weight)(found, high[0][i], high[1][i], high[2][i]);
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++)
                    N(winograd_store)(to + (4 * i + j) * place, found[j], count);
            }
            to += count;
        }
}

/* Panels [begin, end) of all weights, numbered group by group. */
static hyb_status N(winograd_pack)(void *context, int64_t begin, int64_t end)
{
    const N(conv_job) *job = context;
    const conv_shape *s = &job->shape;
    const int64_t place = N(winograd_apart)(s->rows, s->channels);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / job->panels, panel = unit % job->panels;
        N(winograd_weights)(job, group, panel,
                            job->room + group * WINOGRAD_PLACES * place +
                                N(conv_row)(job, panel) * s->channels,
                            place);
    }
    return HYB_OK;
}

/* What a block of tiles is worked on with. */
typedef struct {
    const N(conv_job) *job;
    int64_t group, first, rows; /* of tiles */
    T *source;                  /* for each place those of channels, `pitch` apart */
    T *sums;                    /* and of all results before their transform, or NULL */
} N(winograd_block);

static N(winograd_block) N(winograd_block_of)(const N(conv_job) *job, int64_t unit, T *source)
{
    const conv_tiles *t = &job->tiles;
    const int64_t first = unit % t->blocks * t->rows, all = job->shape.batch * t->high;
    return (N(winograd_block)){.job = job, .group = unit / t->blocks, .first = first,
                               .rows = matmul_smaller(t->rows, all - first), .source = source};
}

/* A part of a block within one image. */
typedef struct {
    int64_t image, high, rows, tile;
} N(winograd_piece);

static N(winograd_piece) N(winograd_piece_of)(const N(winograd_block) *block, int64_t tile)
{
    const conv_tiles *t = &block->job->tiles;
    const int64_t row = block->first + tile / t->wide, end = block->first + block->rows;
    return (N(winograd_piece)){row / t->high, row % t->high,
                               matmul_smaller(t->high - row % t->high, end - row), tile};
}

/* Places [start, start + LANES) of a line of `size`; others count as 0. */
static inline __attribute__((always_inline)) V N(winograd_load)(const T *line, int64_t start,
                                                                int64_t size)
{
    if (start >= 0 && start + LANES <= size)
        return N(v_load)(line + start);
    const int64_t low = start < 0 ? matmul_smaller(-start, LANES) : 0;
    const int64_t high = size - start < LANES ? size - start : LANES;
    return N(v_load_between)(line + start, low, high > low ? high : low);
}

/* A line of a plane from `start` on as WINOGRAD_SOURCE leaves it, for adjacent tiles. */
static inline __attribute__((always_inline)) void
N(winograd_line)(V to[4], const T *plane, int64_t line, int64_t lines, int64_t start, int64_t size)
{
    if (line < 0 || line >= lines) {
        to[0] = to[1] = to[2] = to[3] = (V){0};
        return;
    }
    const T *from = plane + line * size;
    const V a = N(winograd_load)(from, start, size);
    const V b = N(winograd_load)(from, start + LANES, size);
    const V c = N(winograd_load)(from, start + 2, size);
    const V d = N(winograd_load)(from, start + LANES + 2, size);
    const V found[4] = {N(lanes_even)(a, b), N(lanes_odd)(a, b), N(lanes_even)(c, d),
                        N(lanes_odd)(c, d)};
    WINOGRAD_SOURCE(to, found);
}

/* Transforms the source of channels [begin, end). */
static hyb_status N(winograd_sources)(void *context, int64_t begin, int64_t end)
{
    const N(winograd_block) *block = context;
    const N(conv_job) *job = block->job;
    const conv_shape *s = &job->shape;
    const conv_tiles *t = &job->tiles;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t place = N(winograd_apart)(s->channels, t->pitch);
    const int64_t back = high->slide < 0 ? 2 : 0;
    for (int64_t c = begin; c < end; c++)
        for (int64_t tile = 0; tile < block->rows * t->wide;) {
            const N(winograd_piece) piece = N(winograd_piece_of)(block, tile);
            const T *plane = job->source + piece.image * s->source_image +
                             (block->group * s->channels + c) * s->source_plane;
            for (int64_t w = 0; w < t->wide; w += LANES) {
                const int64_t n = matmul_smaller(LANES, t->wide - w);
                const int64_t start = 2 * w + wide->shift - back;
                int64_t h = 2 * piece.high + high->shift - back;
                T *to = block->source + c * t->pitch + tile + w;
                V line[4][4];
                N(winograd_line)(line[0], plane, h, high->size, start, wide->size);
                N(winograd_line)(line[1], plane, h + 1, high->size, start, wide->size);
                for (int64_t row = 0; row < piece.rows; row++, to += t->wide) {
                    h += 2;
                    N(winograd_line)(line[2], plane, h, high->size, start, wide->size);
                    N(winograd_line)(line[3], plane, h + 1, high->size, start, wide->size);
#pragma GCC unroll 4
                    for (int j = 0; j < 4; j++) {
                        const V column[4] = {line[0][j], line[1][j], line[2][j], line[3][j]};
                        V found[4];
                        WINOGRAD_SOURCE(found, column);
#pragma GCC unroll 4
                        for (int i = 0; i < 4; i++)
                            N(winograd_store)(to + (4 * i + j) * place, found[i], n);
                        line[0][j] = line[2][j];
                        line[1][j] = line[3][j];
                    }
                }
            }
            tile += piece.rows * t->wide;
        }
    return HYB_OK;
}

/* The product of one place: `rows` rows of results from as many packed rows of weights.  Weights that
 * come from afar are fetched: those at `next`, if it is not NULL, while these are worked on. */
static void N(winograd_multiply)(const N(winograd_block) *block, int64_t place, int64_t rows,
                                 const T *weights, T *to, const T *next)
{
    const N(conv_job) *job = block->job;
    const conv_tiles *t = &job->tiles;
    const int64_t tiles = block->rows * t->wide, channels = job->shape.channels;
    for (int64_t k = 0; k < channels; k += job->depth) {
        const int64_t depth = matmul_smaller(job->depth, channels - k);
        const T *from =
            block->source + place * N(winograd_apart)(channels, t->pitch) + k * t->pitch;
        for (int64_t tile = 0; tile < tiles;) {
            const int64_t left = tiles - tile;
            int size = left > LANES;
            if (left > 2 * LANES && rows <= MATMUL_WIDE)
                size = 2;
            const matmul_way way =
                next && size == 1 && tile == 0 ? MATMUL_FETCHING : MATMUL_PLAIN;
            N(matmul_tiles)[way][0][rows - 1][size](weights + k * rows, rows, from + tile, t->pitch,
                                                    to + tile, t->pitch, depth, k > 0,
                                                    next ? next + k * rows : NULL, rows, NULL);
            tile += (int64_t)LANES << size;
        }
    }
}

/* Products of places [begin, end) of a block from transformed weights. */
static hyb_status N(winograd_places)(void *context, int64_t begin, int64_t end)
{
    const N(winograd_block) *block = context;
    const N(conv_job) *job = block->job;
    const conv_shape *s = &job->shape;
    const int64_t apart = N(winograd_apart)(s->rows, s->channels);
    for (int64_t place = begin; place < end; place++) {
        const T *weights = job->room + (block->group * WINOGRAD_PLACES + place) * apart;
        T *sums = block->sums + place * N(winograd_apart)(s->rows, job->tiles.pitch);
        for (int64_t panel = 0; panel < job->panels; panel++) {
            const int64_t row = N(conv_row)(job, panel), rows = job->low + (panel < job->tall);
            const T *here = weights + row * s->channels;
            const bool more = job->part == CONV_PREPARED && panel + 1 < job->panels;
            N(winograd_multiply)(block, place, rows, here, sums + row * job->tiles.pitch,
                                 more ? here + rows * s->channels : NULL);
        }
    }
    return HYB_OK;
}

/* Transforms sums to results [row, row + rows) of a block; `place` is from one place to the next. */
static void N(winograd_results)(const N(winograd_block) *block, const T *sums, int64_t place,
                                int64_t row, int64_t rows)
{
    const N(conv_job) *job = block->job;
    const conv_shape *s = &job->shape;
    const conv_tiles *t = &job->tiles;
    const int64_t width = s->axis[2].count, height = s->axis[1].count;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t tile = 0; tile < block->rows * t->wide;) {
            const N(winograd_piece) piece = N(winograd_piece_of)(block, tile);
            T *to = job->result + piece.image * s->result_image +
                    (block->group * s->rows + row + r) * s->result_plane + 2 * piece.high * width;
            for (int64_t h = 0; h < piece.rows; h++, to += 2 * width, tile += t->wide) {
                const int both = 1 + (2 * (piece.high + h) + 1 < height);
                const T *from = sums + r * t->pitch + tile;
                for (int64_t w = 0; w < t->wide; w += LANES, from += LANES) {
                    V line[2][4];
#pragma GCC unroll 4
                    for (int j = 0; j < 4; j++) {
                        const V a = N(v_load)(from + j * place);
                        const V b = N(v_load)(from + (4 + j) * place);
                        const V c = N(v_load)(from + (8 + j) * place);
                        const V d = N(v_load)(from + (12 + j) * place);
                        line[0][j] = a + b + c;
                        line[1][j] = b - c - d;
                    }
#pragma GCC unroll 2
                    for (int i = 0; i < both; i++) {
                        const V even = line[i][0] + line[i][1] + line[i][2];
                        const V odd = line[i][1] - line[i][2] - line[i][3];
                        T *at = to + i * width + 2 * w;
                        const int64_t n = width - 2 * w;
                        N(winograd_store)(at, N(lanes_first)(even, odd), n);
                        N(winograd_store)(at + LANES, N(lanes_second)(even, odd), n - LANES);
                    }
                }
            }
        }
    for (int64_t tile = 0; job->post && tile < block->rows * t->wide;) {
        const N(winograd_piece) piece = N(winograd_piece_of)(block, tile);
        const int64_t lines = matmul_smaller(2 * piece.rows, height - 2 * piece.high);
        N(conv_finish)(job, piece.image * s->result_image +
                                (block->group * s->rows + row) * s->result_plane +
                                2 * piece.high * width, lines * width, rows);
        tile += piece.rows * t->wide;
    }
}

/* Results of panels [begin, end) of a block from the sums of all. */
static hyb_status N(winograd_rows)(void *context, int64_t begin, int64_t end)
{
    const N(winograd_block) *block = context;
    const N(conv_job) *job = block->job;
    const int64_t pitch = job->tiles.pitch;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t row = N(conv_row)(job, panel);
        N(winograd_results)(block, block->sums + row * pitch,
                            N(winograd_apart)(job->shape.rows, pitch), row,
                            job->low + (panel < job->tall));
    }
    return HYB_OK;
}

/* Blocks [begin, end), numbered group by group, once the weights are transformed. */
static hyb_status N(winograd_blocks)(void *context, int64_t begin, int64_t end)
{
    const N(conv_job) *job = context;
    const conv_shape *s = &job->shape;
    const conv_tiles *t = &job->tiles;
    T *scratch = hyb_scratch(t->nbytes);
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for tiles");
    for (int64_t unit = begin; unit < end; unit++) {
        N(winograd_block) block = N(winograd_block_of)(job, unit, scratch);
        block.sums = scratch + WINOGRAD_PLACES * N(winograd_apart)(s->channels, t->pitch);
        N(winograd_sources)(&block, 0, s->channels);
        N(winograd_places)(&block, 0, WINOGRAD_PLACES);
        N(winograd_rows)(&block, 0, job->panels);
    }
    return HYB_OK;
}

/* Panels [begin, end) of the results of a block, from weights as they are. */
static hyb_status N(winograd_panels)(void *context, int64_t begin, int64_t end)
{
    const N(winograd_block) *block = context;
    const N(conv_job) *job = block->job;
    const conv_tiles *t = &job->tiles;
    T *scratch = hyb_scratch(t->nbytes);
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for tiles");
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t row = N(conv_row)(job, panel), rows = job->low + (panel < job->tall);
        const int64_t apart = N(winograd_apart)(rows, job->shape.channels);
        const int64_t of_sums = N(winograd_apart)(rows, t->pitch);
        T *sums = scratch + WINOGRAD_PLACES * apart;
        N(winograd_weights)(job, block->group, panel, scratch, apart);
        for (int64_t place = 0; place < WINOGRAD_PLACES; place++)
            N(winograd_multiply)(block, place, rows, scratch + place * apart,
                                 sums + place * of_sums, NULL);
        N(winograd_results)(block, sums, of_sums, row, rows);
    }
    return HYB_OK;
}

/* Plans a phase as transformed tiles; false where it cannot be or does not pay. */
static bool N(conv_plan_winograd)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    conv_tiles *t = &job->tiles;
    if (!conv_plan_tiles(s, t))
        return false;
    N(conv_plan_rows)(job, s->rows);
    job->depth = matmul_depth_of(s->channels, sizeof(T));
    job->parallel = N(conv_is_large)(s);
    t->pitch = (matmul_ceil(t->rows * t->wide, LANES) | 1) * LANES; /* odd, as WINOGRAD_APART */
    t->few = s->groups * t->blocks < WINOGRAD_FEW;
    t->own = 0;
    if (t->few && job->part != CONV_PREPARED)
        t->own = WINOGRAD_PLACES * (N(winograd_apart)(job->low + 1, s->channels) +
                                    N(winograd_apart)(job->low + 1, t->pitch));
    const int64_t rows = s->channels + (t->own > 0 ? 0 : s->rows);
    t->nbytes = (size_t)(t->own + WINOGRAD_PLACES * (N(winograd_apart)(rows, t->pitch) +
                                                     WINOGRAD_APART)) * sizeof(T);
    return true;
}

static hyb_status N(conv_winograd)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    const conv_tiles *t = &job->tiles;
    const int64_t blocks = s->groups * t->blocks;
    hyb_status status = HYB_OK;
    if (job->part == CONV_PREPARES || (job->part == CONV_WHOLE && !t->few))
        status = N(conv_spread)(job, s->groups * job->panels, N(winograd_pack));
    if (status != HYB_OK || job->part == CONV_PREPARES)
        return status;
    if (!t->few)
        return N(conv_spread)(job, blocks, N(winograd_blocks));
    /* All threads ask for the same size, so this moves nothing under the calling thread. */
    T *scratch = hyb_scratch(t->nbytes);
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for tiles");
    for (int64_t unit = 0; unit < blocks && status == HYB_OK; unit++) {
        N(winograd_block) block = N(winograd_block_of)(job, unit, scratch + t->own);
        block.sums = block.source + WINOGRAD_PLACES * N(winograd_apart)(s->channels, t->pitch);
        status = N(conv_share)(&block, job->parallel, s->channels, 8, N(winograd_sources));
        if (status == HYB_OK && job->part == CONV_PREPARED)
            status = N(conv_share)(&block, job->parallel, WINOGRAD_PLACES, 1, N(winograd_places));
        if (status == HYB_OK)
            status = N(conv_share)(&block, job->parallel, job->panels, 1,
                                   job->part == CONV_PREPARED ? N(winograd_rows)
                                                              : N(winograd_panels));
    }
    return status;
}
