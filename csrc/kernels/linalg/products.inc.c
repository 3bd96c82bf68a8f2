/* linalg/products.inc.c - what the factorizations do to whole parts of matrices: products that are
 * added or subtracted, by the tiles of matmul, sums of rows, and copies.
 *
 * The room of a copy of a matrix is as wide as `linalg_ld` says: whole vectors may be read and written
 * from any of its columns, and columns do not all fall on one set of the cache.  What lies beyond the
 * columns is finite, and does not matter.
 *
 * Included once per dtype by linalg/typed.inc.c, which says what T, V, N and LANES are.
 */

static inline int64_t N(linalg_ld)(int64_t n)
{
    const int64_t line = 64 / (int64_t)sizeof(T), lines = (n + 2 * LANES + line - 1) / line;
    return (lines | (lines > 8)) * line;
}

/* c = a b, or c += sign a b.  Of the strides of a, and of those of b, one is 1. */
typedef struct {
    const T *a, *b;
    T       *c;
    int64_t  m, n, k;
    int64_t  a_row, a_col, b_row, b_col, c_row;
    T        sign;
    bool     add;   /* to what is in c */
    bool     upper; /* what is below the diagonal does not matter */
    T       *room;  /* linalg_room(n) items */
    int64_t  from, depth;
} N(linalg_product);

/* Items of room for products of up to n columns. */
static double N(linalg_room)(int64_t n)
{
    return (double)LINALG_DEPTH * (double)(n + 2 * LANES);
}

static hyb_status N(linalg_panels)(void *context, int64_t begin, int64_t end)
{
    const N(linalg_product) *p = context;
    const int64_t width = 2 * LANES, depth = p->depth, panels = matmul_ceil(p->m, MATMUL_ROWS);
    const int64_t low = matmul_quotient(p->m, panels), tall = p->m - low * panels;
    const bool    add = p->add || p->from > 0;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t row = panel * low + matmul_smaller(panel, tall);
        const int64_t rows = low + (panel < tall), first = p->upper ? row / width * width : 0;
        const T      *a = p->a + row * p->a_row + p->from * p->a_col;
        T            *c = p->c + row * p->c_row;
        T             left[MATMUL_ROWS * LINALG_DEPTH];
        if (p->a_row == 1)
            N(matmul_pack_across)(left, rows, a, p->a_col, rows, depth);
        else
            N(matmul_pack_along)(left, rows, a, p->a_row, rows, depth);
        if (p->sign != 1)
            for (int64_t i = 0; i < rows * depth; i++)
                left[i] = -left[i];
        for (int64_t col = first; col < p->n; col += width) {
            const int64_t cols = matmul_smaller(width, p->n - col), vectors = cols > LANES;
            const N(matmul_tile_fn) tile = N(matmul_tiles)[MATMUL_PLAIN][0][rows - 1][vectors];
            const T *b = p->room + col * depth;
            if (cols == width) {
                tile(left, rows, b, width, c + col, p->c_row, depth, add, NULL, 0, NULL);
                continue;
            }
            T buffer[MATMUL_ROWS * 2 * LANES];
            tile(left, rows, b, width, buffer, width, depth, false, NULL, 0, NULL);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j += LANES)
                    N(matmul_put)(c + i * p->c_row + col + j, N(v_load)(buffer + i * width + j),
                                  cols - j, add);
        }
    }
    return HYB_OK;
}

static void N(linalg_multiply)(N(linalg_product) p)
{
    const int64_t width = 2 * LANES;
    if (p.m == 0 || p.n == 0)
        return;
    for (int64_t i = 0; p.k == 0 && !p.add && i < p.m; i++)
        memset(p.c + i * p.c_row, 0, (size_t)p.n * sizeof(T));
    for (p.from = 0; p.from < p.k; p.from += p.depth) {
        p.depth = matmul_smaller(p.k - p.from, LINALG_DEPTH);
        for (int64_t col = 0; col < p.n; col += width) {
            const int64_t cols = matmul_smaller(width, p.n - col);
            const T      *b = p.b + p.from * p.b_row + col * p.b_col;
            if (p.b_col == 1)
                N(matmul_pack_across)(p.room + col * p.depth, width, b, p.b_row, cols, p.depth);
            else
                N(matmul_pack_along)(p.room + col * p.depth, width, b, p.b_col, cols, p.depth);
        }
        const int64_t panels = matmul_ceil(p.m, MATMUL_ROWS);
        const double  work = 2.0 * (double)p.m * (double)p.n * (double)p.depth;
        if (panels > 1 && work >= (double)hyb_choice(HYB_WAKING_WORK)) {
            const double share = (double)hyb_choice(HYB_TASK_WORK) * (double)panels / work;
            hyb_parallel_for(panels, 1 + (int64_t)share, N(linalg_panels), &p);
        } else {
            N(linalg_panels)(&p, 0, panels);
        }
    }
}

static inline T N(linalg_total)(V x)
{
    T lane[LANES];
    N(v_store)(lane, x);
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
#pragma GCC unroll 16
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* The sum of x[i] y[i]. */
static T N(linalg_dot)(const T *x, const T *y, int64_t n)
{
    V       sum[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[v] += N(v_load)(x + i + v * LANES) * N(v_load)(y + i + v * LANES);
    for (; i + LANES <= n; i += LANES)
        sum[0] += N(v_load)(x + i) * N(v_load)(y + i);
    if (i < n)
        sum[1] += N(v_load_part)(x + i, n - i) * N(v_load_part)(y + i, n - i);
    return N(linalg_total)((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* y -= the sum over t < count of factor[t * step] times row t of x. */
static void N(linalg_take_rows)(T *y, const T *x, int64_t x_row, const T *factor, int64_t step,
                                int64_t count, int64_t n)
{
    int64_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
        V sum[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[v] = N(v_load)(y + j + v * LANES);
        for (int64_t t = 0; t < count; t++) {
            const V f = N(v_splat)(factor[t * step]);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[v] -= f * N(v_load)(x + t * x_row + j + v * LANES);
        }
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            N(v_store)(y + j + v * LANES, sum[v]);
    }
    for (; j + LANES <= n; j += LANES) {
        V sum = N(v_load)(y + j);
        for (int64_t t = 0; t < count; t++)
            sum -= N(v_splat)(factor[t * step]) * N(v_load)(x + t * x_row + j);
        N(v_store)(y + j, sum);
    }
    if (j < n) {
        V sum = N(v_load_part)(y + j, n - j);
        for (int64_t t = 0; t < count; t++)
            sum -= N(v_splat)(factor[t * step]) * N(v_load_part)(x + t * x_row + j, n - j);
        N(v_store_part)(y + j, sum, n - j);
    }
}

static inline void N(linalg_scale)(T *x, T factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* to[j][i] = from[order[i]][j] of m rows and n columns; no order: the rows as they are. */
static void N(linalg_transpose)(T *restrict to, int64_t to_row, const T *restrict from,
                                int64_t from_row, const int64_t *order, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i += LINALG_SQUARE)
        for (int64_t j = 0; j < n; j += LINALG_SQUARE) {
            const int64_t i_end = matmul_smaller(i + LINALG_SQUARE, m);
            const int64_t j_end = matmul_smaller(j + LINALG_SQUARE, n);
            for (int64_t q = j; q < j_end; q++)
                for (int64_t p = i; p < i_end; p++)
                    to[q * to_row + p] = from[(order ? order[p] : p) * from_row + q];
        }
}

/* to = factor * from of m rows and n columns; what lies beyond them up to `to_row` is 0. */
static void N(linalg_copy)(T *restrict to, int64_t to_row, const T *restrict from, int64_t from_row,
                           int64_t m, int64_t n, T factor)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            to[i * to_row + j] = factor * from[i * from_row + j];
        for (int64_t j = n; j < to_row; j++)
            to[i * to_row + j] = 0;
    }
}

/* The upper triangle of the symmetric part of x, times `factor`; 0 below it and beyond. */
static void N(linalg_symmetric)(T *restrict to, int64_t ld, const T *restrict x, int64_t n, T factor)
{
    memset(to, 0, (size_t)(n * ld) * sizeof(T));
    for (int64_t i = 0; i < n; i += LINALG_SQUARE)
        for (int64_t j = i; j < n; j += LINALG_SQUARE) {
            const int64_t i_end = matmul_smaller(i + LINALG_SQUARE, n);
            const int64_t j_end = matmul_smaller(j + LINALG_SQUARE, n);
            for (int64_t p = i; p < i_end; p++) {
                to[p * ld + p] = i == j ? factor * x[p * n + p] : to[p * ld + p];
                for (int64_t q = i == j ? p + 1 : j; q < j_end; q++) {
                    const T below = factor * x[q * n + p], above = factor * x[p * n + q];
                    to[p * ld + q] = below + (above - below) / 2;
                }
            }
        }
}

static void N(linalg_identity)(T *to, int64_t ld, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        memset(to + i * ld, 0, (size_t)n * sizeof(T));
        if (i < n)
            to[i * ld + i] = 1;
    }
}
