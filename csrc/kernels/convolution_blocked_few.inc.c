/* convolution_blocked_few.inc.c - sums of blocks of channels that hold 4 or 2 groups, of 4 or 8
 * channels: lanes of one group meet its channels in turn, each spread over them.
 *
 * Items are loaded from the channel on and the first lane of each group is spread, so that one order
 * of lanes serves all channels.  What is spread for three adjacent taps serves all results that meet it.
 *
 * Included by convolution_blocked.inc.c.
 */

#if LANES == 16
#define FEW_ROWS 12
#define FEW_EACH_ROWS(f, few, stride) f(1, few, stride) f(2, few, stride) f(3, few, stride) \
    f(4, few, stride) f(5, few, stride) f(6, few, stride) f(7, few, stride) f(8, few, stride) \
    f(9, few, stride) f(10, few, stride) f(11, few, stride) f(12, few, stride)
#else
#define FEW_ROWS 8
#define FEW_EACH_ROWS(f, few, stride) f(1, few, stride) f(2, few, stride) f(3, few, stride) \
    f(4, few, stride) f(5, few, stride) f(6, few, stride) f(7, few, stride) f(8, few, stride)
#endif

/* What a result meets for each channel: lines and taps, and items from one to the next of each, and
 * of results. */
typedef struct {
    int64_t lines, line, taps, tap, step;
} N(few_walk);

typedef void (*N(few_tile_fn))(const N(few_walk) *walk, const T *from, const T *weight, T *to);

/* The first item of each group, for all its lanes. */
static inline __attribute__((always_inline)) V N(few_spread)(int few, const T *from)
{
    if (LANES <= few)
        return N(v_splat)(*from);
    const V found = N(v_load)(from);
    return few == 4 ? N(lanes_fours)(found) : N(lanes_eights)(found);
}

/* `rows` results.  Three adjacent taps, and results `stride` places apart, if that is not 0. */
static inline __attribute__((always_inline)) void N(few_tile)(int rows, int few, int stride,
                                                              const N(few_walk) *walk,
                                                              const T *from, const T *weight, T *to)
{
    for (int v = 0; v < CONV_BLOCK / LANES; v++) {
        const T *line = from + v * LANES / few * few, *of_tap = weight + v * LANES;
        if (LANES > few)
            line = from + v * LANES;
        V sum[FEW_ROWS];
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
            sum[i] = (V){0};
        for (int c = 0; c < few; c++, line += 1 - walk->lines * walk->line)
            for (int64_t l = 0; l < walk->lines; l++, line += walk->line) {
                if (stride > 0) {
                    V taps[3];
#pragma GCC unroll 3
                    for (int t = 0; t < 3; t++)
                        taps[t] = N(v_load)(of_tap + t * CONV_BLOCK);
                    of_tap += 3 * CONV_BLOCK;
#pragma GCC unroll 32
                    for (int place = 0; place < (rows - 1) * stride + 3; place++) {
                        const V item = N(few_spread)(few, line + place * CONV_BLOCK);
#pragma GCC unroll 3
                        for (int t = 0; t < 3; t++)
                            if (place >= t && (place - t) % stride == 0 &&
                                (place - t) / stride < rows)
                                sum[(place - t) / stride] += item * taps[t];
                    }
                    continue;
                }
                const T *at = line;
                for (int64_t t = 0; t < walk->taps; t++, at += walk->tap, of_tap += CONV_BLOCK) {
                    const V tap = N(v_load)(of_tap);
#pragma GCC unroll 12
                    for (int i = 0; i < rows; i++)
                        sum[i] += N(few_spread)(few, at + i * walk->step) * tap;
                }
            }
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
            N(v_store)(to + i * CONV_BLOCK + v * LANES, sum[i]);
    }
}

#define TILE(rows, few, stride)                                                                    \
    static void N(few_tile_##rows##x##few##x##stride)(const N(few_walk) *walk, const T *from,      \
                                                      const T *weight, T *to)                      \
    {                                                                                              \
        N(few_tile)(rows, few, stride, walk, from, weight, to);                                    \
    }
#define TILES(few) FEW_EACH_ROWS(TILE, few, 0) FEW_EACH_ROWS(TILE, few, 1) FEW_EACH_ROWS(TILE, few, 2)
TILES(4)
TILES(8)
#define NAME(rows, few, stride) [rows - 1] = N(few_tile_##rows##x##few##x##stride),
#define NAMES(few)                                                                                 \
    {{FEW_EACH_ROWS(NAME, few, 0)}, {FEW_EACH_ROWS(NAME, few, 1)}, {FEW_EACH_ROWS(NAME, few, 2)}}
static const N(few_tile_fn) N(few_tiles)[2][3][FEW_ROWS] = {NAMES(4), NAMES(8)};
#undef NAMES
#undef NAME
#undef TILES
#undef TILE

/* The tiles for groups of `few` channels; NULL for single channels. */
static const N(few_tile_fn) *N(few_tiles_of)(int64_t few, const N(few_walk) *walk)
{
    const bool adjacent = walk->taps == 3 && walk->tap == CONV_BLOCK;
    const bool near = walk->step == CONV_BLOCK || walk->step == 2 * CONV_BLOCK;
    return few == 1 ? NULL
                    : N(few_tiles)[few == 8][adjacent && near ? walk->step / CONV_BLOCK : 0];
}

/* `count` adjacent results, in tiles of about one size. */
static void N(few_row)(const N(few_tile_fn) *tiles, int64_t count, const N(few_walk) *walk,
                       const T *from, const T *weight, T *to)
{
    const int64_t n = matmul_ceil(count, FEW_ROWS), low = count / n, tall = count - low * n;
    for (int64_t tile = 0; tile < n; tile++) {
        const int64_t rows = low + (tile < tall);
        tiles[rows - 1](walk, from, weight, to);
        from += rows * walk->step;
        to += rows * CONV_BLOCK;
    }
}

#undef FEW_EACH_ROWS
#undef FEW_ROWS
