/* convolution/weight.inc.c - conv_weight from copies of planes (convolution/planes.inc.c).
 *
 * A weight is a sum over all results of one channel, and the lanes are results next to each other:
 * for each row of y and each term a vector of sums meets vectors of both.  A tile keeps those of
 * some rows and CONV_TERMS terms in registers over some blocks of results, whose rows of y stay in
 * the first-level cache meanwhile, and adds them to those of the blocks before.  Lanes are added at
 * the end.
 *
 * Included once per dtype by convolution/typed.inc.c.
 */

typedef void (*N(conv_sums_fn))(const conv_piece *piece, int64_t pieces, const T *copies,
                                const T *y, int64_t y_row, int64_t y_step, const int64_t *place, T *sums, int64_t sums_row);

/* sums[row][term] += y[row] * x[term], lane by lane. */
static inline __attribute__((always_inline)) void
N(conv_sums)(int rows, const conv_piece *piece, int64_t pieces, const T *copies,
                                const T *y, int64_t y_row, int64_t y_step,
             const int64_t *place, T *sums, int64_t sums_row)
{
    V sum[CONV_WEIGHT_ROWS][CONV_TERMS];
    const int64_t places[CONV_TERMS] = {place[0], place[1], place[2]};
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int k = 0; k < CONV_TERMS; k++)
            sum[i][k] = N(v_load)(sums + i * sums_row + k * LANES);
#define CONV_STEP(load)                                                                            \
    V line[CONV_TERMS];                                                                            \
    _Pragma("GCC unroll 4") for (int k = 0; k < CONV_TERMS; k++) line[k] = load(x + places[k]);    \
    _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                         \
    {                                                                                              \
        V item = load(y + i * y_row);                                                              \
        v_hold(item);                                                                              \
        _Pragma("GCC unroll 4") for (int k = 0; k < CONV_TERMS; k++) sum[i][k] += item * line[k];  \
    }
#define CONV_PART(from) N(v_load_part)(from, left)
    for (int64_t p = 0; p < pieces; p++) {
        const T *x = copies + piece[p].copy;
        int64_t left = piece[p].columns;
        for (; left >= LANES; left -= LANES, x += LANES, y += y_step) {
            CONV_STEP(N(v_load))
        }
        if (left > 0) {
            CONV_STEP(CONV_PART)
            y += y_step;
        }
    }
#undef CONV_PART
#undef CONV_STEP
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int k = 0; k < CONV_TERMS; k++)
            N(v_store)(sums + i * sums_row + k * LANES, sum[i][k]);
}

#define SUMS(rows)                                                                                 \
    static void N(conv_sums_##rows)(const conv_piece *piece, int64_t pieces, const T *copies,      \
                                    const T *y, int64_t y_row, int64_t y_step,                     \
                                    const int64_t *place, T *sums, int64_t sums_row)               \
    {                                                                                              \
        N(conv_sums)(rows, piece, pieces, copies, y, y_row, y_step, place, sums, sums_row);        \
    }
CONV_EACH_WEIGHT_ROWS(SUMS)
#undef SUMS
#define SUMS(rows) [rows - 1] = N(conv_sums_##rows),
static const N(conv_sums_fn) N(conv_sums_of)[CONV_WEIGHT_ROWS] = {CONV_EACH_WEIGHT_ROWS(SUMS)};
#undef SUMS

/* Adds the lanes of each of `n` vectors. */
static void N(conv_add_lanes)(T *to, const T *sums, int64_t n)
{
    for (int64_t k = 0; k < n; k += LANES, sums += LANES * LANES) {
        const int64_t room = matmul_smaller(LANES, n - k);
        V row[LANES];
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++)
            row[lane] = lane < room ? N(v_load)(sums + lane * LANES) : (V){0};
        N(matmul_transpose)(row);
#pragma GCC unroll 4
        for (int half = LANES / 2; half > 0; half /= 2)
#pragma GCC unroll 8
            for (int lane = 0; lane < half; lane++)
                row[lane] += row[lane + half];
        if (room == LANES)
            N(v_store)(to + k, row[0]);
        else
            N(v_store_part)(to + k, row[0], room);
    }
}

/* Rows of y as tiles read them: for each vector of a piece those of all rows. */
static void N(conv_pack_rows)(T *to, const conv_piece *piece, int64_t pieces, const T *y,
                              int64_t rows, int64_t row_step)
{
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t n = piece[p].columns;
        for (int64_t row = 0; row < rows; row++) {
            const T *from = y + piece[p].place + row * row_step;
            T *at = to + row * LANES;
            int64_t left = n;
            for (; left >= LANES; left -= LANES, from += LANES, at += rows * LANES)
                N(v_store)(at, N(v_load)(from));
            if (left > 0)
                N(v_store)(at, N(v_load_part)(from, left));
        }
        to += matmul_ceil(n, LANES) * LANES * rows;
    }
}

/* What a thread works with. */
typedef struct {
    conv_piece *pieces;
    int64_t *place; /* of each term */
    int64_t sums_row;
    T *sums, *packed, *copies;
} N(conv_weight_space);

static hyb_status N(conv_weight_begin)(const N(conv_job) *job, N(conv_weight_space) *space)
{
    const conv_planes *p = &job->planes;
    const int64_t tiles = matmul_ceil(p->channels * job->shape.taps, CONV_TERMS);
    const int64_t padded = tiles * CONV_TERMS;
    const int64_t columns = job->depth * matmul_ceil(p->height * p->width, LANES) * LANES;
    const size_t lists = job->depth * sizeof(conv_piece) + (size_t)padded * sizeof(int64_t);
    const size_t aligned = (lists + 63) / 64 * 64;
    space->sums_row = padded * LANES;
    const int64_t sums = job->block * space->sums_row, packed = CONV_WEIGHT_ROWS * columns;
    const int64_t copies = job->depth * p->channels * p->channel;
    char *scratch = hyb_scratch(aligned + (size_t)(sums + packed + copies) * sizeof(T));
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of planes");
    space->pieces = (conv_piece *)scratch;
    space->place = (int64_t *)(space->pieces + job->depth);
    space->sums = (T *)(scratch + aligned);
    space->packed = space->sums + sums;
    space->copies = space->packed + packed;
    return HYB_OK;
}

/* Tasks [begin, end): some channels of a group, some rows of its weights, and a strip of terms. */
static hyb_status N(conv_weight_tasks)(void *context, int64_t begin, int64_t end)
{
    const N(conv_job) *job = context;
    const conv_shape *s = &job->shape;
    const conv_planes *p = &job->planes;
    const int64_t blocks = s->batch * s->axis[0].count * p->highs * p->wides;
    const int64_t channel_blocks = matmul_ceil(s->channels, p->channels);
    N(conv_weight_space) space;
    const hyb_status status = N(conv_weight_begin)(job, &space);
    if (status != HYB_OK)
        return status;
    for (int64_t task = begin; task < end; task++) {
        const int64_t strip = task % job->strips, rest = task / job->strips;
        const int64_t channel = rest / job->blocks % channel_blocks * p->channels;
        const int64_t channels = matmul_smaller(p->channels, s->channels - channel);
        const int64_t group = rest / job->blocks / channel_blocks;
        const int64_t first = rest % job->blocks * job->block;
        const int64_t rows = matmul_smaller(job->block, s->rows - first);
        const int64_t terms = channels * s->taps, tiles = matmul_ceil(terms, CONV_TERMS);
        const int64_t tile = strip * tiles / job->strips;
        const int64_t tile_end = (strip + 1) * tiles / job->strips;
        const int64_t panels = matmul_ceil(rows, CONV_WEIGHT_ROWS);
        conv_places(s, p, space.place, terms);
        for (int64_t k = terms; k < tiles * CONV_TERMS; k++)
            space.place[k] = space.place[terms - 1]; /* sums that are not looked at */
        N(conv_zero)(space.sums, rows * space.sums_row);
        for (int64_t b = 0; b < blocks; b += job->depth) {
            const int64_t pieces = matmul_smaller(job->depth, blocks - b);
            for (int64_t i = 0; i < pieces; i++) {
                const conv_block block = conv_block_of(s, p, group * blocks + b + i);
                const conv_run run = {block.image, {block.deep, block.high, block.wide}, 0};
                const int64_t copy = i * p->channels * p->channel;
                space.pieces[i] = (conv_piece){copy, conv_place(s, &run), block.columns};
                N(conv_copy_planes)(job, space.copies + copy, &block, channel, channel + channels);
            }
            for (int64_t panel = 0; panel < panels; panel++) {
                const int64_t row = panel * rows / panels;
                const int64_t tall = (panel + 1) * rows / panels - row;
                const T *y = job->weight + (group * s->rows + first + row) * s->result_plane;
                const T *rows_of_y = y + space.pieces[0].place;
                if (pieces > 1) {
                    N(conv_pack_rows)(space.packed, space.pieces, pieces, y, tall, s->result_plane);
                    rows_of_y = space.packed;
                }
                const int64_t y_row = pieces > 1 ? LANES : s->result_plane;
                const int64_t y_step = pieces > 1 ? tall * LANES : LANES;
                for (int64_t k = tile; k < tile_end; k++)
                    N(conv_sums_of)[tall - 1](
                        space.pieces, pieces, space.copies, rows_of_y, y_row, y_step,
                        space.place + k * CONV_TERMS,
                        space.sums + row * space.sums_row + k * CONV_TERMS * LANES, space.sums_row);
            }
        }
        const int64_t k = tile * CONV_TERMS, k_end = matmul_smaller(tile_end * CONV_TERMS, terms);
        T *result = job->result + (group * s->rows + first) * s->terms + channel * s->taps;
        for (int64_t row = 0; row < rows; row++)
            N(conv_add_lanes)(result + row * s->terms + k,
                              space.sums + row * space.sums_row + k * LANES, k_end - k);
    }
    return HYB_OK;
}

/* Plans the tasks of conv_weight; false where a product of copied columns is better: if rows are too
 * long, or columns too few for the lanes to be worth adding. */
static bool N(conv_plan_weight)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    conv_planes *p = &job->planes;
    const int64_t plane = s->axis[1].count * s->axis[2].count;
    const int64_t lost = matmul_ceil(plane, LANES) * LANES - plane;
    if (s->columns < CONV_WEIGHT_VECTORS * LANES ||
        (double)lost * (double)s->rows > 32.0 * (double)plane)
        return false;
    job->parallel = N(conv_is_large)(s);
    /* Packed rows of y serve all terms of a task, and copies all its rows; a few tasks are wanted. */
    const int64_t most = matmul_ceil(CONV_WEIGHT_MOST, s->taps);
    const int64_t least = matmul_ceil(CONV_WEIGHT_LEAST, s->taps);
    p->channels = matmul_smaller(most, matmul_ceil(s->channels, 8));
    p->channels = matmul_smaller(p->channels > least ? p->channels : least, s->channels);
    p->channels = matmul_ceil(s->channels, matmul_ceil(s->channels, p->channels));
    if (!conv_plan_planes(s, p, CONV_SLICE_BYTES / (int64_t)sizeof(T),
                          matmul_ceil(plane, CONV_COLUMNS)))
        return false;
    job->depth = CONV_COLUMNS / (p->height * p->width); /* blocks that a tile passes */
    job->depth = job->depth < 1 ? 1 : matmul_smaller(job->depth, CONV_PIECES);
    const int64_t largest = CONV_WEIGHT_SUMS / (p->channels * s->taps);
    const int64_t row_blocks = matmul_ceil(s->rows, largest > 8 ? largest : 8);
    job->block = matmul_ceil(s->rows, row_blocks);
    job->blocks = matmul_ceil(s->rows, job->block);
    const int64_t tasks = s->groups * matmul_ceil(s->channels, p->channels) * job->blocks;
    job->strips = 1;
    if (job->parallel && tasks < 4)
        job->strips = matmul_smaller(matmul_ceil(4, tasks), matmul_ceil(s->taps, CONV_TERMS));
    return true;
}

static hyb_status N(conv_weight_from_planes)(N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    const int64_t channel_blocks = matmul_ceil(s->channels, job->planes.channels);
    const int64_t tasks = s->groups * channel_blocks * job->blocks * job->strips;
    return N(conv_spread)(job, tasks, N(conv_weight_tasks));
}
