/* matmul_tile.inc.c - the register tiles: some rows of A times some vectors of B, over one block of
 * k.
 *
 * A tile keeps all its sums in registers: for each k it loads `vectors` vectors of B and, for every
 * row, multiplies them by one broadcast item of A.  It reads A either along k (the items of a row
 * are adjacent, rows are `a_step` apart) or across (the rows of one k are adjacent, the k are
 * `a_step` apart); that is the only place where the layouts of A differ, and the sums are the same.
 *
 * On the way it fetches what comes next: its own lines of C, the lines of B a few k ahead, and,
 * across k, one item for each k from `ahead` on: the next panel of a copy of A.
 *
 * Included once per dtype by matmul_typed.inc.c, which says what T, V, N and LANES are.
 */

typedef void (*N(matmul_tile_fn))(const T *a, int64_t a_step, const T *b, int64_t b_step, T *c,
                                  int64_t c_step, int64_t depth, bool add, const T *ahead,
                                  int64_t ahead_step);

/* c = or += a @ b; inlined with constant `rows`, `vectors` and `along` everywhere. */
static inline __attribute__((always_inline)) void
N(matmul_tile)(int rows, int vectors, bool along, const T *a, int64_t a_step, const T *b,
               int64_t b_step, T *c, int64_t c_step, int64_t depth, bool add, const T *ahead,
               int64_t ahead_step)
{
    V sum[MATMUL_ROWS][4];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[i][v] = (V){0};
            __builtin_prefetch(c + i * c_step + v * LANES, 1);
        }
    for (int64_t k = 0; k < depth; k++) {
        V line[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            line[v] = N(v_load)(b + k * b_step + v * LANES);
            __builtin_prefetch(b + (k + MATMUL_AHEAD) * b_step + v * LANES);
        }
        if (!along)
            __builtin_prefetch(ahead + k * ahead_step, 0, 2);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const T item = along ? a[i * a_step + k] : a[k * a_step + i];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[i][v] += item * line[v];
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            T *to = c + i * c_step + v * LANES;
            N(v_store)(to, add ? N(v_load)(to) + sum[i][v] : sum[i][v]);
        }
}

#define TILE(rows, vectors, along, name)                                                           \
    static void N(name##_##rows##x##vectors)(const T *a, int64_t a_step, const T *b,               \
                                             int64_t b_step, T *c, int64_t c_step, int64_t depth,  \
                                             bool add, const T *ahead, int64_t ahead_step)         \
    {                                                                                              \
        N(matmul_tile)(rows, vectors, along, a, a_step, b, b_step, c, c_step, depth, add, ahead,   \
                       ahead_step);                                                                \
    }
#define TILES(rows)                                                                                \
    TILE(rows, 1, false, matmul_across) TILE(rows, 1, true, matmul_along)                          \
    TILE(rows, 2, false, matmul_across) TILE(rows, 2, true, matmul_along)
#define WIDE_TILES(rows)                                                                           \
    TILE(rows, 4, false, matmul_across) TILE(rows, 4, true, matmul_along)
MATMUL_EACH_ROWS(TILES)
MATMUL_EACH_WIDE(WIDE_TILES)

/* [along k][rows - 1][log2 of vectors]; only few rows come four vectors wide. */
#define ROW(rows, name) [rows - 1] = {N(name##_##rows##x1), N(name##_##rows##x2), NULL},
#define WIDE_ROW(rows, name)                                                                       \
    [rows - 1] = {N(name##_##rows##x1), N(name##_##rows##x2), N(name##_##rows##x4)},
#define ROW_ACROSS(rows) ROW(rows, matmul_across)
#define ROW_ALONG(rows) ROW(rows, matmul_along)
#define WIDE_ACROSS(rows) WIDE_ROW(rows, matmul_across)
#define WIDE_ALONG(rows) WIDE_ROW(rows, matmul_along)
static const N(matmul_tile_fn) N(matmul_tiles)[2][MATMUL_ROWS][3] = {
    {MATMUL_EACH_WIDE(WIDE_ACROSS) MATMUL_EACH_TALL(ROW_ACROSS)},
    {MATMUL_EACH_WIDE(WIDE_ALONG) MATMUL_EACH_TALL(ROW_ALONG)},
};

#undef WIDE_ALONG
#undef WIDE_ACROSS
#undef ROW_ALONG
#undef ROW_ACROSS
#undef WIDE_ROW
#undef ROW
#undef WIDE_TILES
#undef TILES
#undef TILE
