/* byte_products.c - the products of bytes of csrc/kernels/matmul/bytes.inc.c, emulated.
 *
 * Every combination of signs and layouts of some shapes is compared with plain loops, from B as it lies
 * and prepared; the program prints how many products it made, and ends with 1 where one is wrong.
 */
#include "emulated.h"
#include "kernels/dot_bytes.inc.c"

int64_t hyb_choice(hyb_choice_kind kind) { return kind == HYB_SLICE_BYTES ? 20000 : 0; }

static int run(const char *name, const hyb_layout *layouts, void *const *data)
{
    const hyb_kernel *kernel = kernel_of(HYB_SYM(hyb_dot_bytes_kernels), name, layouts[0].dtype);
    const hyb_call call = {layouts, data, NULL, NULL, NULL};
    hyb_range range;
    if (kernel->prepare(&call, &range) != HYB_OK)
        return 1;
    for (int64_t i = 0; i < range.n; i += range.grain)
        if (kernel->run(&call, i, matmul_smaller(i + range.grain, range.n)) != HYB_OK)
            return 1;
    return 0;
}

static unsigned char drawn(void)
{
    const unsigned char byte = (unsigned char)(random_bits() >> 23);
    return byte < 32 ? 128 : byte < 64 ? 127 : byte < 96 ? 255 : byte;
}

static hyb_layout layout_of(int32_t dtype, int rank, const int64_t *shape, const int64_t *strides)
{
    hyb_layout layout = {.dtype = dtype, .rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        layout.shape[axis] = shape[axis];
        layout.strides[axis] = strides[axis];
    }
    return layout;
}

static int compare(int64_t batch, int64_t m, int64_t k, int64_t n, int variant)
{
    const bool a_signed = variant & 1, b_signed = variant & 2, a_turned = variant & 4,
               b_turned = variant & 8;
    const int32_t left = a_signed ? HYB_I8 : HYB_U8, right = b_signed ? HYB_I8 : HYB_U8;
    const int64_t of_p = (k + 3) / 4 * 4 * ((n + 63) / 64 * 64);
    /* Exactly as large as they are: a sanitizer sees what is read behind them. */
    unsigned char *a = malloc((size_t)(batch * m * k) + 1), *b = malloc((size_t)(batch * k * n) + 1);
    unsigned char *p = malloc((size_t)of_p + 1);
    int32_t *c = malloc((size_t)(batch * m * n) * 4 + 1), *d = malloc((size_t)(m * n) * 4 + 1);
    int wrong = 0;
    for (int64_t i = 0; i < batch * m * k; i++)
        a[i] = drawn();
    for (int64_t i = 0; i < batch * k * n; i++)
        b[i] = drawn();
    const int64_t a_row = a_turned ? 1 : k, a_col = a_turned ? m : 1;
    const int64_t b_row = b_turned ? 1 : n, b_col = b_turned ? k : 1;
    const hyb_layout layouts[] = {
        layout_of(left, 3, (int64_t[]){batch, m, k}, (int64_t[]){m * k, a_row, a_col}),
        layout_of(right, 3, (int64_t[]){batch, k, n}, (int64_t[]){k * n, b_row, b_col}),
        layout_of(HYB_I32, 3, (int64_t[]){batch, m, n}, (int64_t[]){4 * m * n, 4 * n, 4})};
    wrong += run("matmul_integer", layouts, (void *const[]){a, b, c});
    const hyb_layout prepared = layout_of(right, 1, &of_p, (int64_t[]){1});
    const hyb_layout to[] = {layout_of(right, 2, (int64_t[]){k, n}, (int64_t[]){b_row, b_col}),
                             prepared};
    const hyb_layout from[] = {layout_of(left, 2, (int64_t[]){m, k}, (int64_t[]){k, 1}), prepared,
                               layout_of(HYB_I32, 2, (int64_t[]){m, n}, (int64_t[]){4 * n, 4})};
    const bool both = !a_turned && batch == 1;
    if (both) {
        wrong += run("matmul_integer_prepare", to, (void *const[]){b, p});
        wrong += run("matmul_integer_prepared", from, (void *const[]){a, p, d});
    }
    for (int64_t s = 0; s < batch && !wrong; s++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                int32_t sum = 0;
                for (int64_t h = 0; h < k; h++) {
                    const unsigned char x = a[s * m * k + i * a_row + h * a_col];
                    const unsigned char y = b[s * k * n + h * b_row + j * b_col];
                    sum += (a_signed ? (signed char)x : x) * (b_signed ? (signed char)y : y);
                }
                wrong += c[(s * m + i) * n + j] != sum || (both && d[i * n + j] != sum);
            }
    if (wrong)
        printf("%d wrong: batch %d, %d x %d x %d, variant %d\n", wrong, (int)batch, (int)m, (int)k,
               (int)n, variant);
    free(a);
    free(b);
    free(p);
    free(c);
    free(d);
    return wrong;
}

int main(void)
{
    static const int sizes[][3] = {{1, 1, 1},    {1, 3, 70},   {2, 17, 33},  {3, 8, 64},
                                   {5, 33, 31},  {7, 4, 129},  {8, 66, 5},   {9, 65, 40},
                                   {13, 35, 65}, {29, 7, 17},  {50, 130, 2}, {1, 300, 1},
                                   {12, 64, 1},  {4, 0, 3},    {0, 3, 4},    {3, 4, 0},
                                   {1, 64, 200}, {2, 9, 2100}, {14, 1100, 9}, {1, 8200, 5}};
    int wrong = 0, made = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < 16; variant++)
            for (int64_t batch = 1; batch < 3; batch++, made++)
                wrong += compare(batch, sizes[i][0], sizes[i][1], sizes[i][2], variant);
    printf("%d products, %d wrong\n", made, wrong);
    return wrong != 0;
}
