/* convolution/integer_winograd.inc.c - convolutions of bytes with 3x3 kernels at stride 1 from fewer
 * products: as convolution/winograd.inc.c, exactly.
 *
 *   4 Y = A' [sum over c of ((2 G) g (2 G')) * (B' d B)] A
 *
 * Twice G has integers alone.  Items of B' d B are sums of four items of d, at most 1020, and those of
 * the weights at most 9 * 128, so both fit into 16 bits, and two channels into a word.  Sums wrap;
 * 4 Y does not, as the channels are few enough (INTEGER_TILED_MOST), so a shift gives Y.
 *
 * A block is some rows of tiles, of one image after the other.  For each panel of the weights the
 * products of all 16 places are made, and transformed while they are near.
 *
 * Included by convolution/integer.inc.c.
 */

#define INTEGER_TILED_BYTES (256 << 10) /* of the transformed source of a block, */
#define INTEGER_TILED_LARGEST (INT64_C(1) << 28) /* or more, for long rows */

#define INTEGER_PLAIN(rows, vectors)                                                               \
    static void integer_plain_##rows##x##vectors(                                                  \
        const uint32_t *w, const uint32_t *b, int64_t b_step, int32_t *c, int64_t c_step,          \
        int64_t depth, bool add, const int64_t *place, const int32_t *start)                       \
    {                                                                                              \
        (void)add, (void)place, (void)start;                                                       \
        integer_tile(rows, vectors, w, b, b_step, c, c_step, depth, false, NULL, NULL);            \
    }
#define INTEGER_PLAINS(rows) INTEGER_PLAIN(rows, 1) INTEGER_PLAIN(rows, 2)
#define INTEGER_PLAIN_NAMES(rows) {integer_plain_##rows##x1, integer_plain_##rows##x2},
INTEGER_EACH_ROWS(INTEGER_PLAINS)
static const integer_tile_fn integer_plain_tiles[INTEGER_ROWS][2] = {
    INTEGER_EACH_ROWS(INTEGER_PLAIN_NAMES)};

typedef struct {
    const integer_job *job;
    int64_t high, wide;    /* tiles of a plane */
    int64_t rows, blocks;  /* rows of tiles of a block, and blocks of all images */
    int64_t strips;        /* tasks for each block, which share its panels */
    int64_t pitch, length; /* words of a channel of a block, and of a padded line */
} integer_tiled;

/* From one place of the transform of weights to the next. */
static inline int64_t integer_apart(const integer_weights *w)
{
    return w->rows * w->channels + INTEGER_TILED_APART;
}

/* One axis of twice G g. */
static inline void integer_weight_axis(int16_t to[4], int16_t a, int16_t b, int16_t c)
{
    to[0] = (int16_t)(2 * a);
    to[1] = (int16_t)(a + b + c);
    to[2] = (int16_t)(a - b + c);
    to[3] = (int16_t)(2 * c);
}

/* Transforms panels [begin, end) of the weights, numbered group by group. */
static hyb_status integer_pack_tiled(void *context, int64_t begin, int64_t end)
{
    const integer_weights *w = context;
    const int64_t apart = integer_apart(w);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / w->panels, panel = unit % w->panels;
        const int64_t row = integer_row(w, panel), rows = w->low + (panel < w->tall);
        uint32_t *to = w->to + group * INTEGER_PLACES * apart + row * w->channels;
        for (int64_t c = 0; c < w->channels; c++)
            for (int64_t r = 0; r < rows; r++, to++) {
                uint32_t word[INTEGER_PLACES] = {0};
                for (int64_t e = 0; e < 2 && 2 * c + e < w->given; e++) {
                    const int8_t *g =
                        w->from + ((group * w->rows + row + r) * w->given + 2 * c + e) * 9;
                    int16_t high[3][4], found[4];
                    for (int j = 0; j < 3; j++)
                        integer_weight_axis(high[j], g[j], g[3 + j], g[6 + j]);
                    for (int i = 0; i < 4; i++) {
                        integer_weight_axis(found, high[0][i], high[1][i], high[2][i]);
                        for (int j = 0; j < 4; j++)
                            word[4 * i + j] |= (uint32_t)(uint16_t)found[j] << (16 * e);
                    }
                }
                for (int place = 0; place < INTEGER_PLACES; place++)
                    to[place * apart] = word[place];
            }
    }
    return HYB_OK;
}

/* Every second word, from the first and from the second on. */
static inline void integer_unzip(v_i16 found[2], const uint32_t *from)
{
    const v_i32 a = v_load_i32((const int32_t *)from);
    const v_i32 b = v_load_i32((const int32_t *)from + INTEGER_LANES);
#if INTEGER_LANES == 16
    found[0] = (v_i16)__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                                              28, 30);
    found[1] = (v_i16)__builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                              29, 31);
#elif INTEGER_LANES == 8
    found[0] = (v_i16)__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    found[1] = (v_i16)__builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    found[0] = (v_i16)__builtin_shufflevector(a, b, 0, 2, 4, 6);
    found[1] = (v_i16)__builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/* B' d of an axis of four: to, which may be d. */
static inline __attribute__((always_inline)) void integer_source_axis(v_i16 to[4], const v_i16 d[4])
{
    const v_i16 d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
    to[0] = d0 - d2, to[1] = d1 + d2, to[2] = d2 - d1, to[3] = d1 - d3;
}

/* A line of words as integer_source_axis leaves it, for adjacent tiles. */
static inline __attribute__((always_inline)) void integer_source_line(v_i16 to[4],
                                                                      const uint32_t *line)
{
    v_i16 d[4];
    integer_unzip(d, line);
    integer_unzip(d + 2, line + 2);
    integer_source_axis(to, d);
}

/* A line of the source in words, with zeros around it. */
static void integer_widen_line(const integer_tiled *t, uint32_t *to, const uint8_t *planes,
                               int64_t there, int64_t line)
{
    const conv_axis *high = &t->job->shape.axis[1], *wide = &t->job->shape.axis[2];
    int64_t low = 0, end = 0;
    if (line >= 0 && line < high->size)
        conv_inside(wide->shift, 1, t->length, wide->size, &low, &end);
    integer_blank(t->job, to, low);
    if (end > low)
        integer_copy(t->job, to + low, planes + line * wide->size + wide->shift + low, end - low, 1,
                     there);
    integer_blank(t->job, to + end, t->length - end);
}

/* Transforms the source of rows [first, first + rows) of tiles, channel by channel. */
static void integer_transform(const integer_tiled *t, uint32_t *to, uint32_t *lines, int64_t group,
                              int64_t first, int64_t rows)
{
    const conv_shape *s = &t->job->shape;
    const integer_weights *w = &t->job->weights;
    const int64_t place = w->channels * t->pitch;
    for (int64_t c = 0; c < w->channels; c++, to += t->pitch)
        for (int64_t row = first, held = -1; row < first + rows; row++) {
            const int64_t image = row / t->high, h = 2 * (row % t->high) + s->axis[1].shift;
            const uint8_t *planes =
                t->job->source + image * s->source_image +
                (group * w->given + c * INTEGER_PER) * s->source_plane;
            /* The last two lines of a row of tiles are the first two of the next. */
            const bool follows = held == image;
            if (follows)
                memcpy(lines, lines + 2 * t->length, (size_t)(2 * t->length) * sizeof *lines);
            for (int64_t l = follows ? 2 : 0; l < 4; l++)
                integer_widen_line(t, lines + l * t->length, planes, w->given - c * INTEGER_PER,
                                   h + l);
            held = image;
            uint32_t *out = to + (row - first) * t->wide;
            for (int64_t x = 0; x < t->wide; x += INTEGER_LANES) {
                const int64_t n = t->wide - x;
                v_i16 line[4][4];
#pragma GCC unroll 4
                for (int l = 0; l < 4; l++)
                    integer_source_line(line[l], lines + l * t->length + 2 * x);
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++) {
                    v_i16 found[4] = {line[0][j], line[1][j], line[2][j], line[3][j]};
                    integer_source_axis(found, found);
#pragma GCC unroll 4
                    for (int i = 0; i < 4; i++) {
                        int32_t *at = (int32_t *)out + (4 * i + j) * place + x;
                        if (n >= INTEGER_LANES)
                            v_store_i32(at, (v_i32)found[i]);
                        else
                            v_store_part_i32(at, (v_i32)found[i], n);
                    }
                }
            }
        }
}

/* A' m of an axis of four. */
static inline __attribute__((always_inline)) void integer_result_axis(v_i32 to[2], const v_i32 m[4])
{
    to[0] = m[0] + m[1] + m[2];
    to[1] = m[1] - m[2] - m[3];
}

/* Two lines of results of one row of tiles, `width` long, the second if `both`. */
static void integer_results_of(const int32_t *sums, int64_t place, int32_t *to, int64_t width,
                               bool both)
{
    const int64_t step = 2 * INTEGER_LANES;
    for (int64_t x = 0; x < width; x += step, sums += INTEGER_LANES, to += step) {
        v_i32 column[4][2], found[2][2];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const v_i32 m[4] = {v_load_i32(sums + j * place), v_load_i32(sums + (4 + j) * place),
                                v_load_i32(sums + (8 + j) * place),
                                v_load_i32(sums + (12 + j) * place)};
            integer_result_axis(column[j], m);
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            const v_i32 m[4] = {column[0][i], column[1][i], column[2][i], column[3][i]};
            integer_result_axis(found[i], m);
        }
        for (int i = 0; i < 1 + both; i++) {
            int32_t zipped[2 * INTEGER_LANES];
            const bool whole = width - x >= 2 * INTEGER_LANES;
            integer_zip(whole ? to + i * width : zipped, found[i][0] >> 2, found[i][1] >> 2);
            if (!whole)
                memcpy(to + i * width, zipped, (size_t)(width - x) * sizeof *to);
        }
    }
}

/* Blocks [begin, end). */
static hyb_status integer_tiled_blocks(void *context, int64_t begin, int64_t end)
{
    const integer_tiled *t = context;
    const integer_job *job = t->job;
    const conv_shape *s = &job->shape;
    const integer_weights *w = &job->weights;
    const int64_t place = w->channels * t->pitch, of_sums = INTEGER_ROWS * t->pitch;
    const int64_t slack = 2 * INTEGER_LANES, width = s->axis[2].count, height = s->axis[1].count;
    uint32_t *source = hyb_scratch((size_t)(INTEGER_PLACES * (place + of_sums) + 4 * t->length +
                                            4 * slack) * sizeof *source);
    if (!source)
        return hyb_fail(HYB_NO_MEMORY, "conv_integer: no memory for tiles");
    int32_t *sums = (int32_t *)(source + INTEGER_PLACES * place + slack);
    uint32_t *lines = (uint32_t *)(sums + INTEGER_PLACES * of_sums + slack);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t strip = unit % t->strips, block = unit / t->strips % t->blocks;
        const int64_t group = unit / t->strips / t->blocks, first = block * t->rows;
        const int64_t rows = matmul_smaller(t->rows, s->batch * t->high - first);
        const int64_t tiles = rows * t->wide, last = (strip + 1) * w->panels / t->strips;
        integer_transform(t, source, lines, group, first, rows);
        for (int64_t panel = strip * w->panels / t->strips; panel < last; panel++) {
            const int64_t own = integer_row(w, panel), n = w->low + (panel < w->tall);
            const uint32_t *weights =
                w->to + group * INTEGER_PLACES * integer_apart(w) + own * w->channels;
            for (int64_t k = 0; k < INTEGER_PLACES; k++, weights += integer_apart(w))
                for (int64_t q = 0; q < tiles; q += 2 * INTEGER_LANES)
                    integer_plain_tiles[n - 1][tiles - q > INTEGER_LANES](
                        weights, source + k * place + q, t->pitch, sums + k * of_sums + q, t->pitch,
                        w->channels, false, NULL, NULL);
            for (int64_t row = 0; row < rows;) { /* image by image */
                const int64_t image = (first + row) / t->high, h = (first + row) % t->high;
                const int64_t here = matmul_smaller(t->high - h, rows - row);
                int32_t *to = job->result + image * s->result_image + 2 * h * width +
                              (group * s->rows + own) * s->result_plane;
                for (int64_t r = 0; r < n; r++)
                    for (int64_t i = 0; i < here; i++)
                        integer_results_of(sums + r * t->pitch + (row + i) * t->wide, of_sums,
                                           to + r * s->result_plane + 2 * i * width, width,
                                           2 * (h + i) + 1 < height);
                const int64_t lines_made = matmul_smaller(2 * (h + here), height) - 2 * h;
                integer_finish(job, to - job->result, lines_made * width, n);
                row += here;
            }
        }
    }
    return HYB_OK;
}

/* Plans tiles; false if even those of a row are too large. */
static bool integer_plan_tiled(const integer_job *job, integer_tiled *t)
{
    const conv_shape *s = &job->shape;
    t->job = job;
    t->high = matmul_ceil(s->axis[1].count, 2);
    t->wide = matmul_ceil(s->axis[2].count, 2);
    const int64_t tile = INTEGER_PLACES * job->weights.channels * (int64_t)sizeof(uint32_t);
    if ((double)tile * (double)t->wide > INTEGER_TILED_LARGEST)
        return false;
    const int64_t all = s->batch * t->high, fit = INTEGER_TILED_BYTES / (tile * t->wide);
    t->rows = matmul_smaller(fit > 1 ? fit : 1, all);
    if (job->parallel)
        t->rows = matmul_smaller(t->rows, matmul_ceil(all, 4));
    t->blocks = matmul_ceil(all, t->rows);
    t->rows = matmul_ceil(all, t->blocks);
    t->blocks = matmul_ceil(all, t->rows);
    t->pitch = (matmul_ceil(t->rows * t->wide, 2 * INTEGER_LANES) * 2 + 1) * INTEGER_LANES;
    t->length = 2 * t->wide + 2 + 4 * INTEGER_LANES;
    const int64_t blocks = s->groups * t->blocks;
    t->strips = 1;
    if (job->parallel && blocks < 8)
        t->strips = matmul_smaller(matmul_ceil(8, blocks), matmul_ceil(job->weights.panels, 4));
    return true;
}
