/* matmul.inc.c - products of matrices.
 *
 *   c[i, m, n] = sum over k of a[i, m, k] * b[i, k, n]
 *
 * Split      floats: the kernel shares its work out itself, so that threads can share copies of
 *            the operands; its range is one unit.  Integers: rows of the output.
 * Layout     a, b: of the last two axes one is dense, the other has any stride, so transposed
 *            operands come as they are; a batch stride may be 0.  c: dense.
 * Aliasing   c overlaps no input.
 * Post-ops   applied to ranges of rows, or to pieces of rows, as soon as they are finished.
 * Accuracy   a chain of multiply-adds for each block of at most D k (384 f32, 192 f64), blocks
 *            added in order; one row or one column, without a batch: interleaved chains
 *            (matmul_vector.inc.c).  |error| <= (D + K / D) half ulp of sum |a * b|; in practice
 *            about the square root of that.
 * Bits       the order of summation of an element is given by K, and by whether the product is a
 *            single row or column; never by the layout of a and b.  Integers wrap.
 */

#define MATMUL_DEPTH_BYTES 1536         /* of at most this many items of k is one chain */
#define MATMUL_AHEAD 8                  /* k between a line of B and its use */
#define MATMUL_VECTOR_BYTES (128 << 10) /* of a matrix, for one task of a product with a vector */
#define MATMUL_FEW 4                    /* panels of rows that go down the columns together */
#define MATMUL_STRIPE 2048              /* rows of a shared copy of A */

static inline int64_t matmul_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* a / b of numbers >= 0: divisions of 64 bits are slow enough to be noticed in small products. */
static inline int64_t matmul_quotient(int64_t a, int64_t b)
{
    return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

static inline int64_t matmul_ceil(int64_t a, int64_t b) { return matmul_quotient(a + b - 1, b); }

/* The depth of all blocks of k but the last, which may be shallower. */
static int64_t matmul_depth_of(int64_t k, int64_t itemsize)
{
    const int64_t blocks = matmul_ceil(k, MATMUL_DEPTH_BYTES / itemsize);
    return (matmul_ceil(k, blocks) + 7) / 8 * 8;
}

/* Rows of the register tile: as many as leave all sums of two vectors each, one line of B and one
 * item of A in the registers.  Up to MATMUL_WIDE rows may be four vectors wide. */
#if HYB_VECTOR_BYTES == 64
#define MATMUL_ROWS 12
#define MATMUL_WIDE 4
#define MATMUL_EACH_WIDE(f) f(1) f(2) f(3) f(4)
#define MATMUL_EACH_TALL(f) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12)
#elif HYB_VECTOR_BYTES == 32
#define MATMUL_ROWS 6
#define MATMUL_WIDE 2
#define MATMUL_EACH_WIDE(f) f(1) f(2)
#define MATMUL_EACH_TALL(f) f(3) f(4) f(5) f(6)
#else
#define MATMUL_ROWS 4
#define MATMUL_WIDE 2
#define MATMUL_EACH_WIDE(f) f(1) f(2)
#define MATMUL_EACH_TALL(f) f(3) f(4)
#endif
#define MATMUL_EACH_ROWS(f) MATMUL_EACH_WIDE(f) MATMUL_EACH_TALL(f)

/* What a tile does besides: nothing, it fetches lines of B, or it copies its panel of B. */
typedef enum { MATMUL_PLAIN, MATMUL_FETCHING, MATMUL_COPYING } matmul_way;

/* Sizes, and distances in items. */
typedef struct {
    int64_t batch, m, n, k;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col;
} matmul_operands;

static matmul_operands matmul_operands_of(const hyb_call *call, size_t itemsize)
{
    const hyb_layout *a = &call->layout[0], *b = &call->layout[1];
    int64_t distance[2][3];
    for (int side = 0; side < 2; side++)
        for (int axis = 0; axis < 3; axis++) {
            /* An axis of one element has any stride: a dense one never stands in the way. */
            const hyb_layout *layout = side ? b : a;
            const int64_t single = axis == 0 ? 0 : 1;
            distance[side][axis] = layout->shape[axis] == 1
                                       ? single
                                       : layout->strides[axis] / (int64_t)itemsize;
        }
    return (matmul_operands){
        .batch = a->shape[0], .m = a->shape[1], .k = a->shape[2], .n = b->shape[2],
        .a_batch = distance[0][0], .a_row = distance[0][1], .a_col = distance[0][2],
        .b_batch = distance[1][0], .b_row = distance[1][1], .b_col = distance[1][2],
    };
}

/* An input is a stack of matrices as described above, and no address within it overflows. */
static hyb_status matmul_require_matrices(const hyb_call *call, int index, int32_t dtype)
{
    const hyb_layout *layout = &call->layout[index];
    if (layout->dtype != dtype || layout->rank != 3)
        return hyb_fail(HYB_BAD_ARGUMENT,
                        "matmul: operand %d has dtype %d and rank %d, not %d and 3", index,
                        (int)layout->dtype, (int)layout->rank, (int)dtype);
    if (!sizes_are_sane(layout))
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: operand %d has a negative or overflowing size",
                        index);
    const int64_t itemsize = hyb_itemsize(dtype);
    int64_t extent = 0;
    bool dense = false;
    for (int axis = 0; axis < 3; axis++) {
        const int64_t size = layout->shape[axis], stride = layout->strides[axis];
        int64_t reach;
        if (axis > 0)
            dense |= size < 2 || stride == itemsize;
        if (size < 2)
            continue;
        if (stride < 0 || stride % itemsize != 0)
            return hyb_fail(HYB_BAD_ARGUMENT,
                            "matmul: axis %d of operand %d has stride %lld, not a multiple of %lld",
                            axis, index, (long long)stride, (long long)itemsize);
        if (__builtin_mul_overflow(size, stride, &reach) ||
            __builtin_add_overflow(extent, reach, &extent))
            return hyb_fail(HYB_BAD_ARGUMENT, "matmul: the strides of operand %d overflow", index);
    }
    if (!dense)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: neither inner axis of operand %d is dense",
                        index);
    return HYB_OK;
}

static hyb_status matmul_prepare(const hyb_call *call, int32_t dtype)
{
    const hyb_layout *a = &call->layout[0];
    hyb_status status;
    if ((status = matmul_require_matrices(call, 0, dtype)) != HYB_OK ||
        (status = matmul_require_matrices(call, 1, dtype)) != HYB_OK ||
        (status = require_dense(call, 2, dtype, 3)) != HYB_OK ||
        (status = require_size(call, 1, 0, a->shape[0])) != HYB_OK ||
        (status = require_size(call, 1, 1, a->shape[2])) != HYB_OK ||
        (status = require_size(call, 2, 0, a->shape[0])) != HYB_OK ||
        (status = require_size(call, 2, 1, a->shape[1])) != HYB_OK ||
        (status = require_size(call, 2, 2, call->layout[1].shape[2])) != HYB_OK)
        return status;
    return HYB_OK;
}

#define EACH "kernels/matmul_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define EACH "kernels/matmul_integer.inc.c"
#include "kernels/each_integer.inc.c"
#undef EACH

#define MATMUL_ROW(t)                                                                              \
    {"matmul", HYB_DTYPE_##t, 2, 1, 0, HYB_POST_OPS, HYB_SYM(prepare_matmul_##t),                  \
     HYB_SYM(matmul_##t)},

const hyb_kernel HYB_SYM(hyb_matmul_kernels)[] = {
    HYB_NUMBERS(MATMUL_ROW)
    {0},
};
#undef MATMUL_ROW
