/* matmul/tile.inc.c - the register tiles: some rows of A times some vectors of B, over one block of
 * k.
 *
 * A tile keeps all its sums in registers: for each k it loads `vectors` vectors of B and, for every
 * row, multiplies them by one broadcast item of A.  It reads A either along k (the items of a row
 * are adjacent, rows are `a_step` apart) or across (the rows of one k are adjacent, the k are
 * `a_step` apart); that is the only place where the layouts of A differ, and the sums are the same.
 *
 * On the way it fetches its lines of C and, across, the lines of B a few k ahead (along k the
 * machine does better alone).  It may also fetch, for each k, what lies at `next`, and on in steps:
 * B in place, whose rows are far apart.  Or it leaves a copy of its panel of B for the tiles below
 * it, and fetches the next panel: stores cost next to nothing here, a pass of their own would.  Or the lines of B are not evenly
 * spaced, and `next` has the place of each: so convolutions go through copies of planes.
 *
 * Included once per dtype by matmul/typed.inc.c, which says what T, V, N and LANES are.
 */

typedef void (*N(matmul_tile_fn))(const T *a, int64_t a_step, const T *b, int64_t b_step, T *c,
                                  int64_t c_step, int64_t depth, bool add,
                                  const void *next, int64_t next_step, T *copy);

/* c = or += a @ b; inlined with constant `rows`, `vectors`, `along` and `way` everywhere. */
static inline __attribute__((always_inline)) void
N(matmul_tile)(int rows, int vectors, bool along, matmul_way way, const T *a, int64_t a_step,
               const T *b, int64_t b_step, T *c, int64_t c_step, int64_t depth, bool add,
               const void *next, int64_t next_step, T *copy)
{
    V sum[MATMUL_ROWS][4];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[i][v] = (V){0};
            __builtin_prefetch(c + i * c_step + v * LANES, 1);
        }
    /* Rows along k are found from every third of them: one address each would spill. */
    const T *third[(MATMUL_ROWS + 2) / 3];
    if (along)
#pragma GCC unroll 4
        for (int i = 0; i < (rows + 2) / 3; i++) {
            third[i] = a + 3 * i * a_step;
            __asm__("" : "+r"(third[i]));
        }
    const T *fetched = next;
    const int64_t *place = next;
    for (int64_t k = 0; k < depth; k++) {
        const T *from = way == MATMUL_PLACED ? b + place[k] : b;
        V line[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            line[v] = N(v_load)(from + v * LANES);
            if (way == MATMUL_COPYING)
                N(v_store)(copy + v * LANES, line[v]);
            if (way == MATMUL_PLAIN && !along)
                __builtin_prefetch(b + MATMUL_AHEAD * b_step + v * LANES);
            if (way == MATMUL_FETCHING)
                __builtin_prefetch(fetched + v * LANES);
            if (way == MATMUL_COPYING)
                __builtin_prefetch(fetched + v * LANES, 0, 2);
        }
        if (way != MATMUL_PLACED)
            b += b_step;
        if (way == MATMUL_FETCHING || way == MATMUL_COPYING)
            fetched += next_step;
        if (way == MATMUL_COPYING)
            copy += vectors * LANES;
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const T item = along ? third[i / 3][i % 3 * a_step] : a[i];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[i][v] += item * line[v];
        }
        if (along)
#pragma GCC unroll 4
            for (int i = 0; i < (rows + 2) / 3; i++)
                third[i]++;
        else
            a += a_step;
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            T *to = c + i * c_step + v * LANES;
            N(v_store)(to, add ? N(v_load)(to) + sum[i][v] : sum[i][v]);
        }
}

#define TILE(rows, vectors, along, way, name)                                                      \
    static void N(name##_##rows##x##vectors)(const T *a, int64_t a_step, const T *b,               \
                                             int64_t b_step, T *c, int64_t c_step, int64_t depth,  \
                                             bool add, const void *next, int64_t next_step,        \
                                             T *copy)                                              \
    {                                                                                              \
        N(matmul_tile)(rows, vectors, along, way, a, a_step, b, b_step, c, c_step, depth, add,     \
                       next, next_step, copy);                                                     \
    }
#define BOTH(rows, vectors, way, name)                                                             \
    TILE(rows, vectors, false, way, name##_across) TILE(rows, vectors, true, way, name##_along)
#define TILES(rows)                                                                                \
    BOTH(rows, 1, MATMUL_PLAIN, matmul_plain) BOTH(rows, 2, MATMUL_PLAIN, matmul_plain)            \
    BOTH(rows, 2, MATMUL_FETCHING, matmul_fetching) BOTH(rows, 2, MATMUL_COPYING, matmul_copying)  \
    BOTH(rows, 1, MATMUL_PLACED, matmul_placed) BOTH(rows, 2, MATMUL_PLACED, matmul_placed)
#define WIDE_TILES(rows)                                                                           \
    BOTH(rows, 4, MATMUL_PLAIN, matmul_plain) BOTH(rows, 4, MATMUL_PLACED, matmul_placed)
MATMUL_EACH_ROWS(TILES)
MATMUL_EACH_WIDE(WIDE_TILES)

/* [way][along k][rows - 1][log2 of vectors].  Plain and placed tiles come in all widths, of few rows
 * even four vectors wide; the others come in one. */
#define TALL(rows, way, layout)                                                                    \
    [rows - 1] = {N(matmul_##way##_##layout##_##rows##x1),                                         \
                  N(matmul_##way##_##layout##_##rows##x2), NULL},
#define WIDE(rows, way, layout)                                                                    \
    [rows - 1] = {N(matmul_##way##_##layout##_##rows##x1),                                         \
                  N(matmul_##way##_##layout##_##rows##x2),                                         \
                  N(matmul_##way##_##layout##_##rows##x4)},
#define OTHER(rows, way, layout) [rows - 1] = {NULL, N(matmul_##way##_##layout##_##rows##x2), NULL},
#define PLAIN_ACROSS(rows) TALL(rows, plain, across)
#define PLAIN_ALONG(rows) TALL(rows, plain, along)
#define WIDE_PLAIN_ACROSS(rows) WIDE(rows, plain, across)
#define WIDE_PLAIN_ALONG(rows) WIDE(rows, plain, along)
#define PLACED_ACROSS(rows) TALL(rows, placed, across)
#define PLACED_ALONG(rows) TALL(rows, placed, along)
#define WIDE_PLACED_ACROSS(rows) WIDE(rows, placed, across)
#define WIDE_PLACED_ALONG(rows) WIDE(rows, placed, along)
#define FETCHING_ACROSS(rows) OTHER(rows, fetching, across)
#define FETCHING_ALONG(rows) OTHER(rows, fetching, along)
#define COPYING_ACROSS(rows) OTHER(rows, copying, across)
#define COPYING_ALONG(rows) OTHER(rows, copying, along)
static const N(matmul_tile_fn) N(matmul_tiles)[4][2][MATMUL_ROWS][3] = {
    [MATMUL_PLAIN] = {{MATMUL_EACH_WIDE(WIDE_PLAIN_ACROSS) MATMUL_EACH_TALL(PLAIN_ACROSS)},
                      {MATMUL_EACH_WIDE(WIDE_PLAIN_ALONG) MATMUL_EACH_TALL(PLAIN_ALONG)}},
    [MATMUL_PLACED] = {{MATMUL_EACH_WIDE(WIDE_PLACED_ACROSS) MATMUL_EACH_TALL(PLACED_ACROSS)},
                       {MATMUL_EACH_WIDE(WIDE_PLACED_ALONG) MATMUL_EACH_TALL(PLACED_ALONG)}},
    [MATMUL_FETCHING] = {{MATMUL_EACH_ROWS(FETCHING_ACROSS)}, {MATMUL_EACH_ROWS(FETCHING_ALONG)}},
    [MATMUL_COPYING] = {{MATMUL_EACH_ROWS(COPYING_ACROSS)}, {MATMUL_EACH_ROWS(COPYING_ALONG)}},
};

#undef COPYING_ALONG
#undef COPYING_ACROSS
#undef FETCHING_ALONG
#undef FETCHING_ACROSS
#undef WIDE_PLACED_ALONG
#undef WIDE_PLACED_ACROSS
#undef PLACED_ALONG
#undef PLACED_ACROSS
#undef WIDE_PLAIN_ALONG
#undef WIDE_PLAIN_ACROSS
#undef PLAIN_ALONG
#undef PLAIN_ACROSS
#undef OTHER
#undef WIDE
#undef TALL
#undef WIDE_TILES
#undef TILES
#undef BOTH
#undef TILE
