/* matmul/sum.inc.c - the sum of a stack of products, added one after the other.
 *
 * c = (start + a[0] b[0]) + a[1] b[1] + ..., from the last one on if `backward`.  Every product is
 * one chain of multiply-adds, which is added to the sum when it is done: the bits are those of
 * matmul and add in turns.  Sums stay in registers, beside the product that is being made, while
 * some products pass by; the first panel of rows leaves a copy of its panel of b for the others.
 *
 * Included once per dtype by matmul/typed.inc.c.
 */

/* Some matrices of a stack: rows, columns and matrices are so many items apart. */
typedef struct { const T *data; int64_t row, col, next; } N(matmul_stack);

static inline __attribute__((always_inline)) void
N(matmul_sum_tile)(const int rows, const bool copying, N(matmul_stack) a, N(matmul_stack) b, T *c,
                   int64_t c_row, int64_t depth, int64_t count, T *copy)
{
    V total[MATMUL_SUM_ROWS][2];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            total[i][v] = N(v_load)(c + i * c_row + v * LANES);
    for (int64_t t = 0; t < count; t++) {
        const T *left = a.data + t * a.next, *right = b.data + t * b.next;
        V sum[MATMUL_SUM_ROWS][2] = {0};
        for (int64_t k = 0; k < depth; k++, left += a.col, right += b.row) {
            const V line[2] = {N(v_load)(right), N(v_load)(right + LANES)};
            if (copying) {
                N(v_store)(copy, line[0]);
                N(v_store)(copy + LANES, line[1]);
                copy += 2 * LANES;
            }
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++)
                    sum[i][v] += left[i * a.row] * line[v];
        }
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++)
                total[i][v] = total[i][v] + sum[i][v];
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            N(v_store)(c + i * c_row + v * LANES, total[i][v]);
}

typedef void (*N(matmul_sum_fn))(N(matmul_stack) a, N(matmul_stack) b, T *c, int64_t c_row,
                                 int64_t depth, int64_t count, T *copy);

#define SUM_TILE(rows, copying, name)                                                              \
    static void N(name##_##rows)(N(matmul_stack) a, N(matmul_stack) b, T *c, int64_t c_row,       \
                                 int64_t depth, int64_t count, T *copy)                            \
    {                                                                                              \
        N(matmul_sum_tile)(rows, copying, a, b, c, c_row, depth, count, copy);                     \
    }
#define SUM_TILES(rows)                                                                            \
    SUM_TILE(rows, false, matmul_summing) SUM_TILE(rows, true, matmul_summing_and_copying)
#define SUM_PLAIN(rows) N(matmul_summing_##rows),
#define SUM_COPYING(rows) N(matmul_summing_and_copying_##rows),
MATMUL_EACH_SUM_ROWS(SUM_TILES)
static const N(matmul_sum_fn) N(matmul_sum_tiles)[2][MATMUL_SUM_ROWS] = {
    {MATMUL_EACH_SUM_ROWS(SUM_PLAIN)}, {MATMUL_EACH_SUM_ROWS(SUM_COPYING)}};
#undef SUM_COPYING
#undef SUM_PLAIN
#undef SUM_TILES
#undef SUM_TILE

/* The last columns of b, with zeros behind. */
static void N(matmul_sum_last)(N(matmul_stack) b, int64_t cols, int64_t depth, int64_t count,
                               T *copy)
{
    for (int64_t t = 0; t < count; t++)
        for (int64_t k = 0; k < depth; k++)
            for (int64_t j = 0; j < 2 * LANES; j += LANES, copy += LANES) {
                const T *from = b.data + t * b.next + k * b.row + j;
                const V none = {0};
                N(v_store)(copy, cols - j >= LANES ? N(v_load)(from)
                                 : cols > j        ? N(v_load_part)(from, cols - j)
                                                   : none);
            }
}

/* Adds the products of `count` matrices to the rows [row, row_end) of c, which has n columns. */
static void N(matmul_sum_some)(N(matmul_stack) a, N(matmul_stack) b, T *c, int64_t row,
                               int64_t row_end, int64_t n, int64_t depth, int64_t count, T *copy)
{
    const int64_t wide = 2 * LANES;
    const N(matmul_stack) copied = {copy, wide, 1, depth * wide};
    for (int64_t col = 0; col < n; col += wide) {
        const int64_t cols = matmul_smaller(n - col, wide);
        const N(matmul_stack) in_place = {b.data + col, b.row, 1, b.next};
        bool copying = cols == wide;
        if (!copying)
            N(matmul_sum_last)(in_place, cols, depth, count, copy);
        for (int64_t i = row; i < row_end; i += MATMUL_SUM_ROWS, copying = false) {
            const int64_t rows = matmul_smaller(row_end - i, MATMUL_SUM_ROWS);
            const N(matmul_stack) left = {a.data + i * a.row, a.row, a.col, a.next};
            const N(matmul_sum_fn) tile = N(matmul_sum_tiles)[copying][rows - 1];
            T *to = c + i * n + col;
            if (cols == wide) {
                tile(left, copying ? in_place : copied, to, n, depth, count, copy);
                continue;
            }
            T buffer[MATMUL_SUM_ROWS * 2 * LANES] = {0};
            for (int64_t r = 0; r < rows; r++)
                memcpy(buffer + r * wide, to + r * n, (size_t)cols * sizeof(T));
            tile(left, copied, buffer, wide, depth, count, copy);
            for (int64_t r = 0; r < rows; r++)
                memcpy(to + r * n, buffer + r * wide, (size_t)cols * sizeof(T));
        }
    }
}

HYB_KERNEL(N(matmul_sum))
{
    const hyb_call products = {.data = call->data + 1, .layout = call->layout + 1};
    const matmul_operands o = matmul_operands_of(&products, sizeof(T));
    const int64_t wide = 2 * LANES, depth_items = o.k * wide;
    const int64_t most = MATMUL_SUM_BYTES / (int64_t)sizeof(T) / depth_items;
    const int64_t some = most > 0 ? most : 1;
    const bool backward = call->attrs[0].i != 0;
    const int64_t turn = backward ? -1 : 1;
    T *c = call->data[3], *copy = hyb_scratch((size_t)(some * depth_items) * sizeof(T));
    if (!copy)
        return hyb_fail(HYB_NO_MEMORY, "matmul_sum: no memory for a block");
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit * MATMUL_SUM_STRIPE;
        const int64_t row_end = matmul_smaller(row + MATMUL_SUM_STRIPE, o.m);
        memcpy(c + row * o.n, (const T *)call->data[0] + row * o.n,
               (size_t)((row_end - row) * o.n) * sizeof(T));
        for (int64_t t = 0; t < o.batch; t += some) {
            const int64_t at = backward ? o.batch - 1 - t : t;
            const N(matmul_stack) a = {(const T *)call->data[1] + at * o.a_batch, o.a_row, o.a_col,
                                       turn * o.a_batch};
            const N(matmul_stack) b = {(const T *)call->data[2] + at * o.b_batch, o.b_row, 1,
                                       turn * o.b_batch};
            N(matmul_sum_some)(a, b, c, row, row_end, o.n, o.k, matmul_smaller(some, o.batch - t),
                               copy);
        }
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_matmul_sum))
{
    const hyb_layout *a = &call->layout[1], *b = &call->layout[2];
    hyb_status status;
    if ((status = matmul_require_matrices(call, 1, DTYPE)) != HYB_OK ||
        (status = matmul_require_matrices(call, 2, DTYPE)) != HYB_OK ||
        (status = require_size(call, 2, 0, a->shape[0])) != HYB_OK ||
        (status = require_size(call, 2, 1, a->shape[2])) != HYB_OK)
        return status;
    for (int index = 0; index < 4; index += 3)
        if ((status = require_dense(call, index, DTYPE, 2)) != HYB_OK ||
            (status = require_size(call, index, 0, a->shape[1])) != HYB_OK ||
            (status = require_size(call, index, 1, b->shape[2])) != HYB_OK)
            return status;
    const int64_t m = a->shape[1], k = a->shape[2], n = b->shape[2];
    if (m < 2 || n < 2 || k < 1 || k > MATMUL_DEPTH_BYTES / (int64_t)sizeof(T) ||
        (a->shape[0] > 0 && b->strides[2] != (int64_t)sizeof(T)))
        return hyb_fail(HYB_BAD_ARGUMENT,
                        "matmul_sum: no sum of products of [%lld, %lld] and [%lld, %lld]",
                        (long long)m, (long long)k, (long long)k, (long long)n);
    *range = (hyb_range){matmul_ceil(m, MATMUL_SUM_STRIPE), 1};
    return HYB_OK;
}
