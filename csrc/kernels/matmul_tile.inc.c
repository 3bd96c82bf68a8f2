/* matmul_tile.inc.c - the register tiles: some rows of A times some vectors of B, over one block of
 * k.
 *
 * A tile keeps all its sums in registers: for each k it loads `vectors` vectors of B and, for every
 * row, multiplies them by one broadcast item of A.  It reads A either along k (the items of a row
 * are adjacent, rows are `a_step` apart) or across (the rows of one k are adjacent, the k are
 * `a_step` apart); that is the only place where the layouts of A differ, and the sums are the same.
 *
 * On the way it fetches its lines of C and, if B is read in place from afar, the lines of B a few k
 * ahead; the machine itself fetches what lies in order.  It may leave a copy of its panel of B for
 * the tiles below it: stores cost next to nothing here, a pass of their own would.
 *
 * Included once per dtype by matmul_typed.inc.c, which says what T, V, N and LANES are.
 */

typedef void (*N(matmul_tile_fn))(const T *a, int64_t a_step, const T *b, int64_t b_step, T *c,
                                  int64_t c_step, int64_t depth, bool add, T *copy);

/* c = or += a @ b; inlined with constant `rows`, `vectors`, `along` and `source` everywhere. */
static inline __attribute__((always_inline)) void
N(matmul_tile)(int rows, int vectors, bool along, matmul_source source, const T *a, int64_t a_step,
               const T *b, int64_t b_step, T *c, int64_t c_step, int64_t depth, bool add, T *copy)
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
    for (int64_t k = 0; k < depth; k++) {
        V line[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            line[v] = N(v_load)(b + v * LANES);
            if (source == MATMUL_COPIED)
                N(v_store)(copy + v * LANES, line[v]);
            if (source != MATMUL_NEAR)
                __builtin_prefetch(b + MATMUL_AHEAD * b_step + v * LANES);
        }
        b += b_step;
        if (source == MATMUL_COPIED)
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

#define TILE(rows, vectors, along, source, name)                                                   \
    static void N(name##_##rows##x##vectors)(const T *a, int64_t a_step, const T *b,               \
                                             int64_t b_step, T *c, int64_t c_step, int64_t depth,  \
                                             bool add, T *copy)                                    \
    {                                                                                              \
        N(matmul_tile)(rows, vectors, along, source, a, a_step, b, b_step, c, c_step, depth, add,  \
                       copy);                                                                      \
    }
#define BOTH(rows, vectors, source, name)                                                          \
    TILE(rows, vectors, false, source, name##_across)                                              \
    TILE(rows, vectors, true, source, name##_along)
#define TILES(rows)                                                                                \
    BOTH(rows, 1, MATMUL_NEAR, matmul_near) BOTH(rows, 2, MATMUL_NEAR, matmul_near)                \
    BOTH(rows, 2, MATMUL_FAR, matmul_far) BOTH(rows, 2, MATMUL_COPIED, matmul_copied)
#define WIDE_TILES(rows)                                                                           \
    BOTH(rows, 4, MATMUL_NEAR, matmul_near) BOTH(rows, 4, MATMUL_FAR, matmul_far)
MATMUL_EACH_ROWS(TILES)
MATMUL_EACH_WIDE(WIDE_TILES)

/* [source][along k][rows - 1][log2 of vectors].  Only few rows come four vectors wide; one vector
 * is always read as if it were near. */
#define TALL(rows, source, layout)                                                                 \
    [rows - 1] = {N(matmul_near_##layout##_##rows##x1),                                            \
                  N(matmul_##source##_##layout##_##rows##x2), NULL},
#define WIDE(rows, source, layout)                                                                 \
    [rows - 1] = {N(matmul_near_##layout##_##rows##x1),                                            \
                  N(matmul_##source##_##layout##_##rows##x2),                                      \
                  N(matmul_##source##_##layout##_##rows##x4)},
#define NEAR_ACROSS(rows) TALL(rows, near, across)
#define NEAR_ALONG(rows) TALL(rows, near, along)
#define FAR_ACROSS(rows) TALL(rows, far, across)
#define FAR_ALONG(rows) TALL(rows, far, along)
#define COPIED_ACROSS(rows) TALL(rows, copied, across)
#define COPIED_ALONG(rows) TALL(rows, copied, along)
#define WIDE_NEAR_ACROSS(rows) WIDE(rows, near, across)
#define WIDE_NEAR_ALONG(rows) WIDE(rows, near, along)
#define WIDE_FAR_ACROSS(rows) WIDE(rows, far, across)
#define WIDE_FAR_ALONG(rows) WIDE(rows, far, along)
static const N(matmul_tile_fn) N(matmul_tiles)[3][2][MATMUL_ROWS][3] = {
    [MATMUL_NEAR] = {{MATMUL_EACH_WIDE(WIDE_NEAR_ACROSS) MATMUL_EACH_TALL(NEAR_ACROSS)},
                     {MATMUL_EACH_WIDE(WIDE_NEAR_ALONG) MATMUL_EACH_TALL(NEAR_ALONG)}},
    [MATMUL_FAR] = {{MATMUL_EACH_WIDE(WIDE_FAR_ACROSS) MATMUL_EACH_TALL(FAR_ACROSS)},
                    {MATMUL_EACH_WIDE(WIDE_FAR_ALONG) MATMUL_EACH_TALL(FAR_ALONG)}},
    [MATMUL_COPIED] = {{MATMUL_EACH_ROWS(COPIED_ACROSS)}, {MATMUL_EACH_ROWS(COPIED_ALONG)}},
};

#undef WIDE_FAR_ALONG
#undef WIDE_FAR_ACROSS
#undef WIDE_NEAR_ALONG
#undef WIDE_NEAR_ACROSS
#undef COPIED_ALONG
#undef COPIED_ACROSS
#undef FAR_ALONG
#undef FAR_ACROSS
#undef NEAR_ALONG
#undef NEAR_ACROSS
#undef WIDE
#undef TALL
#undef WIDE_TILES
#undef TILES
#undef BOTH
#undef TILE
