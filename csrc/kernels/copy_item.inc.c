/* copy_item.inc.c - lines and transposes of one item size; included by copy.inc.c once per size, which
 * defines T (an unsigned integer of that size), N, LANES (items in 16 bytes) and the item numbers LOW and
 * HIGH of two interleaved vectors.
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
static void N(copy_line)(const char *restrict from, int64_t from_step, char *restrict to, int64_t to_step,
                         int64_t n)
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

typedef T N(copy_vector) __attribute__((vector_size(16)));

/* LANES rows of LANES items, transposed in registers: interleaving row i with row i + LANES / 2, log2 LANES
 * times over, moves every item to its place. */
static inline void N(copy_square)(const char *restrict from, int64_t from_stride, char *restrict to,
                                  int64_t to_stride)
{
    N(copy_vector) a[LANES], b[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        memcpy(&a[i], from + i * from_stride, sizeof a[i]);
#pragma GCC unroll 4
    for (int span = 1; span < LANES; span *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + LANES / 2], LOW);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + LANES / 2], HIGH);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            a[i] = b[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        memcpy(to + i * to_stride, &a[i], sizeof a[i]);
}

/* y[c, r] = x[r, c] for `columns` (one cache line of them at most) and `rows`; x is dense along c with rows
 * `from_stride` bytes apart, y is dense along r with rows `to_stride` apart. */
static void N(copy_panel)(const char *restrict from, int64_t from_stride, char *restrict to,
                          int64_t to_stride, int64_t columns, int64_t rows)
{
    enum { SIDE = COPY_PANEL_BYTES / sizeof(T) };
    const int64_t item = sizeof(T);
    int64_t r = 0;
    if (columns == SIDE) {
        for (; r + SIDE <= rows; r += SIDE)
            for (int64_t c = 0; c < SIDE; c += LANES)
                for (int64_t i = r; i < r + SIDE; i += LANES)
                    N(copy_square)(from + i * from_stride + c * item, from_stride,
                                   to + c * to_stride + i * item, to_stride);
    }
    for (; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            N(copy_put)(to + c * to_stride + r * item, N(copy_get)(from + r * from_stride + c * item));
}

#undef T
#undef N
#undef LANES
#undef LOW
#undef HIGH
