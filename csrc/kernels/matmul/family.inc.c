/* matmul/family.inc.c - products of matrices.
 *
 *   c[i, m, n] = sum over k of a[i, m, k] * b[i, k, n]
 *
 *            matmul_prepare: b [K, N] -> p; matmul_prepared: a [M, K], p -> c [M, N], with b in the
 *            order in which the tiles read it (matmul/prepared.inc.c).
 *            matmul_grouped, matmul_grouped_zero, matmul_grouped_integer: weights of 4 or 8 bits in
 *            groups along k (matmul/grouped.inc.c, matmul/grouped_integer.inc.c).
 *            matmul_sum: start [M, N], a [T, M, K], b [T, K, N] -> start plus all products, in
 *            turn (matmul/sum.inc.c).
 * Attributes of matmul_prepare i: M; of matmul_sum i: backward (0 or 1).
 *            matmul_integer, matmul_integer_prepare, matmul_integer_prepared: the same of bytes,
 *            to int32 (matmul/bytes.inc.c).
 * Split      floats: the kernel shares its work out itself, so that threads can share copies of
 *            the operands; its range is one unit.  Integers: rows of the output; bytes: tasks.
 * Layout     a, b: of the last two axes one is dense, the other has any stride, so transposed
 *            operands come as they are; a batch stride may be 0.  c: dense.
 * Aliasing   c overlaps no input.
 * Post-ops   applied to ranges of rows, or to pieces of rows, as soon as they are finished.
 * Accuracy   a chain of multiply-adds for each block of at most D k (384 f32, 192 f64), blocks
 *            added in order; of products with one row or one column: interleaved chains
 *            (matmul/vector.inc.c).  |error| <= (D + K / D) half ulp of sum |a * b|; in practice
 *            about the square root of that.
 * Bits       the order of summation of an element is given by K, and by whether M or N is 1; never
 *            by the batch, nor by the layout of a and b.  Integers wrap.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

#include "kernels/matmul/operands.inc.c"

#define MATMUL_DEPTH_BYTES 1536         /* of at most this many items of k is one chain */
#define MATMUL_AHEAD 8                  /* k between a line of B and its use */
#define MATMUL_VECTOR_BYTES (128 << 10) /* of a matrix, for one task of a product with a vector */
#define MATMUL_NEAR_BYTES (128 << 10)   /* of a matrix, up to which a row of it is read in pieces */
#define MATMUL_FEW 4                    /* panels of rows that go down the columns together */
#define MATMUL_SHARES 4                 /* of this many, or twice, ... tasks threads have as many each */
#define MATMUL_STRIPE 2048              /* rows of a shared copy of A */
#define MATMUL_PADDING 64               /* columns that any panel divides */
#define MATMUL_SUM_BYTES (32 << 10)     /* of a copied panel of b of a sum of products */
#define MATMUL_SUM_STRIPE 192           /* rows of one, which share those copies */

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
/* As many rows as leave the sums of two vectors in the registers twice. */
#if HYB_VECTOR_BYTES == 64
#define MATMUL_SUM_ROWS 6
#define MATMUL_EACH_SUM_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6)
#elif HYB_VECTOR_BYTES == 32
#define MATMUL_SUM_ROWS 3
#define MATMUL_EACH_SUM_ROWS(f) f(1) f(2) f(3)
#else
#define MATMUL_SUM_ROWS 2
#define MATMUL_EACH_SUM_ROWS(f) f(1) f(2)
#endif
#define MATMUL_EACH_ROWS(f) MATMUL_EACH_WIDE(f) MATMUL_EACH_TALL(f)

/* What a tile does besides: nothing, it fetches lines of B, or it copies its panel of B; or where it
 * finds the lines of B. */
typedef enum { MATMUL_PLAIN, MATMUL_FETCHING, MATMUL_COPYING, MATMUL_PLACED } matmul_way;

#define EACH "kernels/matmul/typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

/* The range of a kernel that is split by rows of the output. */
static hyb_range matmul_rows(const hyb_call *call, size_t itemsize)
{
    const matmul_operands o = matmul_operands_of(call, itemsize);
    const double cost = (double)o.n * (double)o.k;
    return (hyb_range){o.batch * o.m, grain_of(cost < 32768 ? (int64_t)cost : 32768)};
}

#define EACH "kernels/matmul/integer.inc.c"
#include "kernels/each_integer.inc.c"
#undef EACH

#include "kernels/matmul/bytes.inc.c"
#include "kernels/matmul/grouped.inc.c"
#include "kernels/matmul/grouped_integer.inc.c"

#define MATMUL_ROW(t)                                                                            \
    HYB_TABLE_ROW(matmul, HYB_DTYPE_##t, 2, 1, 0, HYB_POST_OPS, prepare_matmul_##t, matmul_##t)

#define MATMUL_PREPARED_ROWS(t)                                                                  \
    HYB_TABLE_ROW(matmul_prepare, HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, prepare_matmul_prepare_##t, \
                  matmul_prepare_##t)                                                            \
    HYB_TABLE_ROW(matmul_prepared, HYB_DTYPE_##t, 2, 1, 0, HYB_POST_OPS,                         \
                  prepare_matmul_prepared_##t, matmul_prepared_##t)                              \
    HYB_TABLE_ROW(matmul_sum, HYB_DTYPE_##t, 3, 1, 1, HYB_PLAIN, prepare_matmul_sum_##t,         \
                  matmul_sum_##t)

const hyb_kernel HYB_SYM(hyb_matmul_kernels)[] = {
    HYB_NUMBERS(MATMUL_ROW)
    HYB_FLOATS(MATMUL_PREPARED_ROWS)
    MATMUL_INTEGER_ROWS(HYB_I8)
    MATMUL_INTEGER_ROWS(HYB_U8)
    HYB_TABLE_ROW(matmul_grouped, HYB_F32, 3, 1, 2, HYB_PLAIN, prepare_matmul_grouped,
                  matmul_grouped)
    HYB_TABLE_ROW(matmul_grouped_zero, HYB_F32, 4, 1, 2, HYB_PLAIN, prepare_matmul_grouped_zero,
                  matmul_grouped_zero)
    HYB_TABLE_ROW(matmul_grouped, HYB_F64, 3, 1, 2, HYB_PLAIN, prepare_matmul_grouped_f64,
                  matmul_grouped_f64)
    HYB_TABLE_ROW(matmul_grouped_zero, HYB_F64, 4, 1, 2, HYB_PLAIN,
                  prepare_matmul_grouped_zero_f64, matmul_grouped_zero_f64)
    HYB_TABLE_ROW(matmul_grouped_integer, HYB_I8, 3, 1, 1, HYB_PLAIN,
                  prepare_matmul_grouped_integer, matmul_grouped_integer)
    {0},
};
#undef MATMUL_ROW
#undef MATMUL_PREPARED_ROWS
