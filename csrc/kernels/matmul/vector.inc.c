/* matmul/vector.inc.c - one row times a matrix, or a stack of such products: y[j] = sum over k of
 * x[k] * w(k, j).
 *
 * Such a product reads every item of W once, so it runs as fast as W arrives, and W must be read in
 * the order in which it lies in memory.  The sum of a column is therefore LANES interleaved sums,
 * which suit both orders: sum l takes the k with k mod LANES = l, in order; the k of an incomplete
 * last group are aligned to the end (sum l takes k = K - LANES + l), the other sums add +0; then
 * the upper half of the sums is added to the lower half until one is left.
 *
 * Included once per dtype by matmul/typed.inc.c, which says what T, V, N and LANES are.
 */

/* Vectors of a piece of a row of W, 1 KiB: long enough to be read as fast as whole rows, and its
 * LANES sums per column stay in the first-level cache. */
#define PIECE (1024 / HYB_VECTOR_BYTES)
#define MATMUL_SUMS (HYB_VECTOR_BYTES == 64 ? 16 : 8) /* in registers */

typedef struct {
    const T        *x; /* dense */
    const T        *w;
    T              *y;
    int64_t         n, k, w_row, w_col;
    int64_t         batch, x_batch, w_batch; /* products, and from one to the next */
    const hyb_post *post;
    int64_t         chunk, units; /* columns of one unit of work; units of a product */
} N(matmul_vector_job);

static inline __attribute__((always_inline)) V N(matmul_fold)(V sum[LANES])
{
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

/* One vector of sums for each of `columns` columns that run along k. */
static inline __attribute__((always_inline)) void
N(matmul_dots)(const N(matmul_vector_job) *job, int columns, const T *w, V *sums)
{
    const int64_t k = job->k, tail = k % LANES;
    V sum[4];
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++)
        sum[j] = (V){0};
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        const V x = N(v_load)(job->x + i);
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++)
            sum[j] += x * N(v_load)(w + j * job->w_col + i);
    }
    if (tail != 0) {
        /* Lanes that were summed before count as 0 * 0: masking x alone would let 0 * inf in. */
        M keep;
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            keep[l] = l < LANES - tail ? 0 : -1;
        const V x = (V)((M)N(v_load)(job->x + k - LANES) & keep);
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++)
            sum[j] += x * (V)((M)N(v_load)(w + j * job->w_col + k - LANES) & keep);
    }
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++)
        sums[j] = sum[j];
}

/* Columns [begin, end) of a W whose columns run along k. */
static __attribute__((noinline)) void
N(matmul_vector_along)(const N(matmul_vector_job) *job, int64_t begin, int64_t end)
{
    for (int64_t first = begin; first < end; first += LANES) {
        const int64_t count = end - first < LANES ? end - first : LANES;
        const T *w = job->w + first * job->w_col;
        V sums[LANES] = {{0}};
        int64_t j = 0;
#if LANES >= 4
        for (; j + 4 <= count; j += 4)
            N(matmul_dots)(job, 4, w + j * job->w_col, sums + j);
#else
        for (; j + 2 <= count; j += 2)
            N(matmul_dots)(job, 2, w + j * job->w_col, sums + j);
#endif
        for (; j < count; j++)
            N(matmul_dots)(job, 1, w + j * job->w_col, sums + j);
        V square[LANES];
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            square[l] = sums[l];
        N(matmul_transpose)(square);
        const V result = N(matmul_fold)(square);
        if (count == LANES)
            N(v_store)(job->y + first, result);
        else
            N(v_store_part)(job->y + first, result, count);
    }
}

/* y of `vectors` vectors of columns: the sums of each, `step` vectors apart, are folded. */
static inline void N(matmul_vector_put)(const V *sum, int64_t step, int64_t vectors, T *y,
                                        int64_t count)
{
    for (int64_t v = 0; v < vectors; v++, count -= LANES) {
        V column[LANES];
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            column[l] = sum[l * step + v];
        const V result = N(matmul_fold)(column);
        if (count >= LANES)
            N(v_store)(y + v * LANES, result);
        else
            N(v_store_part)(y + v * LANES, result, count);
    }
}

/* total[l][v] += x[l] * w(l, v) of some rows and vectors, the last one of `last` items. */
static inline __attribute__((always_inline)) void
N(matmul_add_rows)(V (*total)[4], int rows, int vectors, const T *x, const T *w, int64_t w_row,
                   int64_t last)
{
#pragma GCC unroll 16
    for (int l = 0; l < rows; l++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const T *from = w + l * w_row + v * LANES;
            const bool whole = v + 1 < vectors || last == LANES;
            total[l][v] += x[l] * (whole ? N(v_load)(from) : N(v_load_part)(from, last));
        }
}

/* A few vectors of columns: as many sums of each at a time as stay in registers. */
static inline __attribute__((always_inline)) void
N(matmul_few)(const N(matmul_vector_job) *job, const int vectors, const T *w, T *y, int64_t count)
{
    const int rows = MATMUL_SUMS / vectors < LANES ? MATMUL_SUMS / vectors : LANES;
    const int64_t k = job->k, tail = k % LANES, step = job->w_row;
    const int64_t last = matmul_smaller(count - (vectors - 1) * LANES, LANES);
    V sum[LANES][4];
    for (int first = 0; first < LANES; first += rows) {
        V total[LANES][4];
#pragma GCC unroll 16
        for (int l = 0; l < rows; l++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                total[l][v] = (V){0};
        const T *x = job->x + first, *row = w + first * step;
        if (last == LANES)
            for (int64_t left = k; left >= LANES; left -= LANES, x += LANES, row += LANES * step)
                N(matmul_add_rows)(total, rows, vectors, x, row, step, LANES);
        else
            for (int64_t left = k; left >= LANES; left -= LANES, x += LANES, row += LANES * step)
                N(matmul_add_rows)(total, rows, vectors, x, row, step, last);
        if (tail != 0) {
            x -= LANES - tail, row -= (LANES - tail) * step;
#pragma GCC unroll 16
            for (int l = 0; l < rows; l++) {
                if (first + l >= LANES - tail)
                    N(matmul_add_rows)(total + l, 1, vectors, x + l, row + l * step, step, last);
                else
#pragma GCC unroll 4
                    for (int v = 0; v < vectors; v++)
                        total[l][v] += (V){0};
            }
        }
#pragma GCC unroll 16
        for (int l = 0; l < rows; l++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[first + l][v] = total[l][v];
    }
    N(matmul_vector_put)(&sum[0][0], 4, vectors, y, count);
}

/* sum[v] += x[0] * w(0, v) + x[step] * w(step, v) ..., `groups` times, in this order. */
static inline __attribute__((always_inline)) void
N(matmul_piece)(V *sum, int groups, const T *x, const T *w, int64_t w_row, int64_t count)
{
    const int64_t whole = count / LANES;
    for (int64_t v = 0; v < whole; v++)
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            sum[v] += x[g * LANES] * N(v_load)(w + g * LANES * w_row + v * LANES);
    if (whole * LANES < count)
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            sum[whole] += x[g * LANES] * N(v_load_part)(w + g * LANES * w_row + whole * LANES,
                                                        count - whole * LANES);
}

/* Columns [begin, end) of a W whose rows are dense. */
static __attribute__((noinline)) void
N(matmul_vector_across)(const N(matmul_vector_job) *job, int64_t begin, int64_t end)
{
    const int64_t k = job->k, tail = k % LANES, step = job->w_row;
    for (int64_t first = begin; first < end; first += PIECE * LANES) {
        const int64_t count = matmul_smaller(end - first, PIECE * LANES);
        const int64_t vectors = (count + LANES - 1) / LANES;
        const T *w = job->w + first;
        V sum[LANES][PIECE];
        for (int l = 0; l < LANES; l++)
            for (int64_t v = 0; v < vectors; v++)
                sum[l][v] = (V){0};
        int64_t i = 0;
        for (; i + 4 * LANES <= k; i += 4 * LANES)
            for (int l = 0; l < LANES; l++)
                N(matmul_piece)(sum[l], 4, job->x + i + l, w + (i + l) * step, step, count);
        for (; i + LANES <= k; i += LANES)
            for (int l = 0; l < LANES; l++)
                N(matmul_piece)(sum[l], 1, job->x + i + l, w + (i + l) * step, step, count);
        for (int l = 0; l < LANES && tail != 0; l++) {
            if (l < LANES - tail)
                for (int64_t v = 0; v < vectors; v++)
                    sum[l][v] += (V){0};
            else
                N(matmul_piece)(sum[l], 1, job->x + k - LANES + l, w + (k - LANES + l) * step, step,
                                count);
        }
        N(matmul_vector_put)(&sum[0][0], PIECE, vectors, job->y + first, count);
    }
}

/* The same where W is near: its pieces need not be long. */
static __attribute__((noinline)) void
N(matmul_vector_near)(const N(matmul_vector_job) *job, int64_t begin, int64_t end)
{
    for (int64_t left = end - begin, wide; left > 0; left -= wide) {
        const T *w = job->w + end - left;
        T *y = job->y + end - left;
        wide = LANES * (left > 3 * LANES ? 4 : left > LANES ? 2 : 1);
        if (wide == 4 * LANES)
            N(matmul_few)(job, 4, w, y, matmul_smaller(left, wide));
        else if (wide == 2 * LANES)
            N(matmul_few)(job, 2, w, y, matmul_smaller(left, wide));
        else
            N(matmul_few)(job, 1, w, y, left);
    }
}

static hyb_status N(matmul_vector_chunks)(void *context, int64_t begin, int64_t end)
{
    const N(matmul_vector_job) *job = context;
    const bool near = job->k * job->n <= MATMUL_NEAR_BYTES / (int64_t)sizeof(T);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t i = job->units == 1 ? unit : matmul_quotient(unit, job->units);
        const int64_t first = (unit - i * job->units) * job->chunk;
        const int64_t last = matmul_smaller(first + job->chunk, job->n);
        const N(matmul_vector_job) *one = job;
        N(matmul_vector_job) other;
        if (job->batch > 1) {
            other = *job;
            other.x += i * job->x_batch;
            other.w += i * job->w_batch;
            other.y += i * job->n;
            one = &other;
        }
        if (job->w_row == 1)
            N(matmul_vector_along)(one, first, last);
        else if (near)
            N(matmul_vector_near)(one, first, last);
        else
            N(matmul_vector_across)(one, first, last);
        if (job->post)
            job->post->apply(job->post->context, i * job->n + first, last - first);
    }
    return HYB_OK;
}

/* Takes products of one row; x_step is the distance of the items of x. */
static hyb_status N(matmul_vector)(N(matmul_vector_job) *job, int64_t x_step)
{
    const int64_t k = job->k;
    if (x_step != 1) {
        const int64_t rows = job->x_batch == 0 ? 1 : job->batch;
        T *x = hyb_scratch((size_t)(rows * k) * sizeof(T));
        if (!x)
            return hyb_fail(HYB_NO_MEMORY, "matmul: no memory for %lld rows of %lld items",
                            (long long)rows, (long long)k);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t i = 0; i < k; i++)
                x[row * k + i] = job->x[row * job->x_batch + i * x_step];
        job->x = x;
        job->x_batch = rows == 1 ? 0 : k;
    }
    /* Units of whole pieces, about MATMUL_VECTOR_BYTES of W each, and not many more than 64. */
    const int64_t piece = PIECE * LANES, pieces = (job->n + piece - 1) / piece;
    int64_t per_unit = MATMUL_VECTOR_BYTES / (piece * (int64_t)sizeof(T)) / k;
    if (per_unit < 1 + pieces / 64)
        per_unit = 1 + pieces / 64;
    job->chunk = per_unit * piece;
    job->units = (pieces + per_unit - 1) / per_unit;
    const int64_t count = job->batch * job->units;
    if (job->batch == 1)
        return count < 2 ? N(matmul_vector_chunks)(job, 0, count)
                         : hyb_parallel_for(count, 1, N(matmul_vector_chunks), job);
    const int64_t items = matmul_smaller(job->chunk, job->n) * k;
    const int64_t grain = 1 + MATMUL_VECTOR_BYTES / (int64_t)sizeof(T) / (items + 1);
    return count <= grain ? N(matmul_vector_chunks)(job, 0, count)
                          : hyb_parallel_for(count, grain, N(matmul_vector_chunks), job);
}

#undef MATMUL_SUMS
#undef PIECE
