/* convolution/blocked_few.inc.c - sums of groups of 4, 8 or 16 channels, of which a block holds
 * several, or one: lanes of a group meet its channels in turn.
 *
 * Lanes change places, in copies and in weights, so that the same channel of all groups of a vector
 * lies in adjacent lanes: they are loaded together and repeated.  What is loaded for three adjacent
 * taps serves all results that meet it.  Results go back to where they belong.
 *
 * Included by convolution/blocked.inc.c.
 */

#if LANES == 16
#define FEW_ROWS 12
#define FEW_EACH_ROWS(f, ...)                                                                      \
    f(1, __VA_ARGS__) f(2, __VA_ARGS__) f(3, __VA_ARGS__) f(4, __VA_ARGS__) f(5, __VA_ARGS__)      \
        f(6, __VA_ARGS__) f(7, __VA_ARGS__) f(8, __VA_ARGS__) f(9, __VA_ARGS__) f(10, __VA_ARGS__) \
            f(11, __VA_ARGS__) f(12, __VA_ARGS__)
#else
#define FEW_ROWS 8
#define FEW_EACH_ROWS(f, ...)                                                                      \
    f(1, __VA_ARGS__) f(2, __VA_ARGS__) f(3, __VA_ARGS__) f(4, __VA_ARGS__) f(5, __VA_ARGS__)      \
        f(6, __VA_ARGS__) f(7, __VA_ARGS__) f(8, __VA_ARGS__)
#endif

/* The channels of a group, if there are so few, and their sums are single chains; else 0. */
static inline int64_t N(blocked_few)(const conv_shape *s)
{
    const bool single = s->channels == 1 || s->terms <= MATMUL_DEPTH_BYTES / (int64_t)sizeof(T);
    const bool few = s->groups > 1 && s->channels == s->rows && s->channels <= CONV_BLOCK;
    return few && single ? s->channels : 0;
}

/* What a result meets for each channel: lines and taps, and items from one to the next of each, and
 * of results. */
typedef struct {
    int64_t lines, line, taps, tap, step;
    bool    back; /* lanes of results go back */
} N(few_walk);

typedef void (*N(few_tile_fn))(const N(few_walk) *walk, const T *from, const T *weight, T *to);

/* The items of all groups of a vector, again and again. */
static inline __attribute__((always_inline)) V N(few_repeat)(int few, const T *from)
{
#if HYB_VECTOR_BYTES == 64
    if (few == 4)
        return (V)_mm512_broadcast_f32x4(_mm_loadu_ps(from));
    if (few == 8)
        return (V)_mm512_broadcastsd_pd(_mm_load_sd((const double *)from));
#elif HYB_VECTOR_BYTES == 32
    if (few == 4)
        return (V)_mm256_broadcastsd_pd(_mm_load_sd((const double *)from));
#endif
    (void)few;
    return N(v_splat)(*from);
}

/* `rows` results.  If `taps` is not 0, so many are adjacent, and results `stride` places apart. */
static inline __attribute__((always_inline)) void N(few_tile)(int rows, int few, int taps,
                                                              int stride, const N(few_walk) *walk,
                                                              const T *from, const T *weight, T *to)
{
    const int several = LANES > few ? LANES / few : 1; /* groups of a vector */
    for (int v = 0; v < CONV_BLOCK / LANES; v++) {
        const T *first = from + (several > 1 ? v * LANES : v * LANES / few * few);
        const T *of_tap = weight + v * LANES;
        V sum[FEW_ROWS];
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
            sum[i] = (V){0};
        for (int c = 0; c < few; c++, first += several) {
            const T *line = first;
            for (int64_t l = 0; l < walk->lines; l++, line += walk->line) {
                if (taps > 0) {
                    V tap[3];
#pragma GCC unroll 3
                    for (int t = 0; t < taps; t++, of_tap += CONV_BLOCK)
                        tap[t] = N(v_load)(of_tap);
#pragma GCC unroll 32
                    for (int place = 0; place < (rows - 1) * stride + taps; place++) {
                        const V items = N(few_repeat)(few, line + place * CONV_BLOCK);
#pragma GCC unroll 3
                        for (int t = 0; t < taps; t++)
                            if (place >= t && (place - t) % stride == 0 &&
                                (place - t) / stride < rows)
                                sum[(place - t) / stride] += items * tap[t];
                    }
                    continue;
                }
                const T *at = line;
                for (int64_t t = 0; t < walk->taps; t++, at += walk->tap, of_tap += CONV_BLOCK) {
                    const V tap = N(v_load)(of_tap);
#pragma GCC unroll 12
                    for (int i = 0; i < rows; i++)
                        sum[i] += N(few_repeat)(few, at + i * walk->step) * tap;
                }
            }
        }
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
            N(v_store)(to + i * CONV_BLOCK + v * LANES,
                       walk->back ? N(lanes_back)(sum[i], few) : sum[i]);
    }
}

#define TILE(rows, few, taps, stride)                                                              \
    static void N(few_tile_##rows##x##few##x##taps##x##stride)(                                    \
        const N(few_walk) *walk, const T *from, const T *weight, T *to)                            \
    {                                                                                              \
        N(few_tile)(rows, few, taps, stride, walk, from, weight, to);                              \
    }
#define TILES(few)                                                                                 \
    FEW_EACH_ROWS(TILE, few, 0, 0) FEW_EACH_ROWS(TILE, few, 1, 1)                                  \
    FEW_EACH_ROWS(TILE, few, 3, 1) FEW_EACH_ROWS(TILE, few, 3, 2)
TILES(4)
TILES(8)
TILES(16)
#define NAME(rows, few, taps, stride) [rows - 1] = N(few_tile_##rows##x##few##x##taps##x##stride),
#define NAMES(few)                                                                                 \
    {{FEW_EACH_ROWS(NAME, few, 0, 0)}, {FEW_EACH_ROWS(NAME, few, 1, 1)},                           \
     {FEW_EACH_ROWS(NAME, few, 3, 1)}, {FEW_EACH_ROWS(NAME, few, 3, 2)}}
static const N(few_tile_fn) N(few_tiles)[3][4][FEW_ROWS] = {NAMES(4), NAMES(8), NAMES(16)};
#undef NAMES
#undef NAME
#undef TILES
#undef TILE

/* The tiles for groups of `few` channels; NULL for single channels. */
static const N(few_tile_fn) *N(few_tiles_of)(int64_t few, const N(few_walk) *walk)
{
    int kind = 0;
    if (walk->taps == 1 && walk->step == CONV_BLOCK)
        kind = 1;
    else if (walk->taps == 3 && walk->tap == CONV_BLOCK && walk->step <= 2 * CONV_BLOCK)
        kind = 1 + (int)(walk->step / CONV_BLOCK);
    return few == 1 ? NULL : N(few_tiles)[few / 8][kind];
}

/* Whole blocks, with their lanes turned. */
static inline __attribute__((always_inline)) void N(few_turn)(T *to, const T *from, int64_t n,
                                                              int64_t few)
{
    for (; n > 0; n -= LANES, to += LANES, from += LANES)
        N(v_store)(to, N(lanes_turned)(N(v_load)(from), few));
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
