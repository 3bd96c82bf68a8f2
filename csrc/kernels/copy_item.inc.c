/* copy_item.inc.c - lines and transposes of one item size; included by copy.inc.c once per size,
 * which defines T (an unsigned integer of that size), N, LANES (items in 16 bytes) and PAIRS, the
 * item numbers of LANES / 2 interleaved pairs.
 */

/* Items may lie anywhere, so they travel through memcpy, which costs nothing at a constant size. */
static inline T N(copy_get)(const char *p)
{
    T item;
    memcpy(&item, p, sizeof item);
    return item;
}

static inline void N(copy_put)(char *p, T item) { memcpy(p, &item, sizeof item); }

/* n items, `from_step` and `to_step` bytes apart; the usual steps are spelt out as constants. */
static void N(copy_line)(const char *restrict from, int64_t from_step, char *restrict to,
                         int64_t to_step, int64_t n)
{
    const int64_t item = sizeof(T);
    if (to_step == item && from_step == 0) {
        const T value = N(copy_get)(from);
        for (int64_t i = 0; i < n; i++)
            N(copy_put)(to + i * item, value);
    } else if (to_step == item && from_step == -item) {
        for (int64_t i = 0; i < n; i++)
            N(copy_put)(to + i * item, N(copy_get)(from - i * item));
    } else if (to_step == item && from_step == 2 * item) {
        for (int64_t i = 0; i < n; i++)
            N(copy_put)(to + i * item, N(copy_get)(from + 2 * i * item));
    } else if (to_step == item) {
        for (int64_t i = 0; i < n; i++)
            N(copy_put)(to + i * item, N(copy_get)(from + i * from_step));
    } else {
        for (int64_t i = 0; i < n; i++)
            N(copy_put)(to + i * to_step, N(copy_get)(from + i * from_step));
    }
}

/* Each of n items, `from_step` bytes apart, `times` times in a row; inlined with constants. */
static inline __attribute__((always_inline)) void
N(copy_each)(const char *restrict from, int64_t from_step, char *restrict to, int64_t times,
             int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const T value = N(copy_get)(from + i * from_step);
        for (int64_t j = 0; j < times; j++)
            N(copy_put)(to + (i * times + j) * (int64_t)sizeof(T), value);
    }
}

static void N(copy_times)(const char *restrict from, int64_t from_step, char *restrict to,
                          int64_t times, int64_t n)
{
    const int64_t item = sizeof(T);
    if (times == 2 && from_step == item)
        N(copy_each)(from, item, to, 2, n);
    else if (times == 3 && from_step == item)
        N(copy_each)(from, item, to, 3, n);
    else if (times == 4 && from_step == item)
        N(copy_each)(from, item, to, 4, n);
    else
        N(copy_each)(from, from_step, to, times, n);
}

typedef T N(copy_vector) __attribute__((vector_size(HYB_VECTOR_BYTES)));

/* LANES columns of LANES * COPY_GROUPS rows, transposed in registers.  Each 16 bytes of the vectors
 * hold a square of LANES rows: interleaving row i with row i + LANES / 2, log2 LANES times over,
 * moves every item to its place. */
static inline void N(copy_squares)(const char *restrict from, int64_t from_stride,
                                   char *restrict to, int64_t to_stride)
{
    N(copy_vector) a[LANES], b[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        a[i] = (N(copy_vector))copy_load_pieces(from + i * from_stride, LANES * from_stride);
#pragma GCC unroll 4
    for (int span = 1; span < LANES; span *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            const N(copy_vector) x = a[i], y = a[i + LANES / 2];
            b[2 * i] = __builtin_shufflevector(x, y, COPY_EACH_GROUP(PAIRS, 0));
            b[2 * i + 1] = __builtin_shufflevector(x, y, COPY_EACH_GROUP(PAIRS, LANES / 2));
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            a[i] = b[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        memcpy(to + i * to_stride, &a[i], sizeof a[i]);
}

/* y[c, r] = x[r, c] for one cache line of columns and as many rows, or less; inlined with
 * constants. */
static inline __attribute__((always_inline)) void
N(copy_tile)(const char *from, int64_t from_stride, char *to, int64_t to_stride, int64_t columns,
             int64_t rows)
{
    enum { ROWS = LANES * COPY_GROUPS };
    const int64_t item = sizeof(T);
    const int64_t whole_columns = columns - columns % LANES, whole_rows = rows - rows % ROWS;
    for (int64_t c = 0; c < whole_columns; c += LANES)
        for (int64_t r = 0; r < whole_rows; r += ROWS)
            N(copy_squares)(from + r * from_stride + c * item, from_stride,
                            to + c * to_stride + r * item, to_stride);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; r++)
            N(copy_put)(to + c * to_stride + r * item,
                        N(copy_get)(from + r * from_stride + c * item));
}

/* The same for any number of rows: x is dense along c with rows `from_stride` bytes apart, y is
 * dense along r with rows `to_stride` apart. */
static void N(copy_panel)(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                          int64_t columns, int64_t rows)
{
    enum { SIDE = COPY_PANEL_BYTES / sizeof(T) };
    for (; rows >= SIDE && columns == SIDE; rows -= SIDE) {
        N(copy_tile)(from, from_stride, to, to_stride, SIDE, SIDE);
        from += SIDE * from_stride;
        to += COPY_PANEL_BYTES;
    }
    for (int64_t n; rows > 0; rows -= n) {
        n = rows < SIDE ? rows : SIDE;
        N(copy_tile)(from, from_stride, to, to_stride, columns, n);
        from += n * from_stride;
        to += n * (int64_t)sizeof(T);
    }
}

#undef T
#undef N
#undef LANES
#undef PAIRS
