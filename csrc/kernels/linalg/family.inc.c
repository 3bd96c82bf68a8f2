/* linalg/family.inc.c - factorizations of matrices, and what follows from them.
 *
 *   cholesky      x [.., n, n] -> L [.., n, n]: L L^T is the symmetric part of x
 *   solve         a [.., n, n], b [.., n, k] -> y [.., n, k]: a y = b; the axes before broadcast
 *   solve_lower   the same, of the lower triangle of a; solve_upper: of the upper one
 *   inv           x [.., n, n] -> [.., n, n]
 *   det           x [.., n, n] -> [..]
 *   slogdet       x [.., n, n] -> sign [..], logarithm of the absolute value [..]
 *   qr            x [.., m, n] -> Q [.., m, k], R [.., k, n]; k is the smaller of m and n
 *   qr_complete   x [.., m, n] -> Q [.., m, m], R [.., m, n]
 *   eigh          x [.., n, n] -> values [.., n], ascending, vectors [.., n, n]: of the symmetric part
 *   eigvalsh      x [.., n, n] -> values [.., n]
 *   svd           x [.., m, n] -> U [.., m, k], S [.., k], descending, V^T [.., k, n]
 *   svd_full      x [.., m, n] -> U [.., m, m], S [.., k], V^T [.., n, n]
 *   svdvals       x [.., m, n] -> S [.., k]
 *   pinv          x [.., m, n], rtol [..], whose axes broadcast -> [.., n, m]
 *   cofactors     x [.., n, n] -> [.., n, n]: the derivatives of the determinant
 *
 * Split      by matrices; a large one by itself in its products and rotations, where threads wait.
 * Layout     dense, of any rank.
 * In place   not allowed.
 * Scratch    copies of the matrices, whose rows lie apart by more than they are long.
 * Order      given by the shape and the values of a matrix alone.
 * Refused    a matrix that is not positive definite, or singular (a pivot is 0), or whose iteration
 *            does not converge: HYB_NOT_DEFINITE, HYB_SINGULAR, HYB_NOT_CONVERGED; what is written of
 *            it is unspecified.  NaN and infinities end every loop: they are not positive definite
 *            and never converge; the others hand them on.
 * Accuracy   backward stable, each to a small multiple of n epsilon |x|, as LAPACK's are.
 *
 * Methods    G. Golub, C. Van Loan, "Matrix Computations" (2013): Cholesky 4.2, LU with partial
 *            pivoting 3.4, Householder QR and the WY form 5.1-5.2, tridiagonal form 8.3, bidiagonal
 *            form 5.4.  F. Gustavson, "Recursion leads to automatic variable blocking for dense
 *            linear-algebra algorithms" (1997).  J. Demmel, W. Kahan, "Accurate singular values of
 *            bidiagonal matrices" (1990); the iterations stop as those of LAPACK's steqr and bdsqr.
 *
 * parts: linalg/products (c -= a b), triangular (Cholesky, LU, systems), reflections (QR),
 * iteration (rotations that make a band diagonal), spectral (eigenvalues, singular values).
 */
#pragma once

#include "kernels/matmul/family.inc.c"

#define LINALG_BASE 16    /* rows or columns that recursion leaves to plain loops */
#define LINALG_DEPTH 128  /* of a block of k of a product */
#define LINALG_BLOCK 32   /* reflections that are applied together */
#define LINALG_FEW 16     /* reflections that are applied one by one */
#define LINALG_SQUARE 16  /* side of the pieces in which a matrix is transposed */
#define LINALG_DELAYED 8  /* sweeps of rotations that are applied together */

/* The matrices of one operand: how many rows and columns, and items from one to the next. */
static int64_t linalg_size(const hyb_layout *layout, int32_t from_end)
{
    return layout->shape[layout->rank - from_end];
}

/* Of how many matrices the last `rank` axes of an operand are. */
static int64_t linalg_count(const hyb_layout *layout, int32_t rank)
{
    int64_t count = 1;
    for (int32_t i = 0; i < layout->rank - rank; i++)
        count *= layout->shape[i];
    return count;
}

/* Where matrix `number` of the axes before the last `own` of `over` is found in `layout`, whose axes
 * before the last `rank` broadcast to those. */
static int64_t linalg_matrix(const hyb_layout *layout, int32_t rank, const hyb_layout *over,
                             int32_t own, int64_t number)
{
    int64_t found = 0, step = 1;
    int32_t axis = layout->rank - rank - 1;
    for (int32_t i = over->rank - own - 1; i >= 0 && axis >= 0; i--, axis--) {
        const int64_t at = number % over->shape[i];
        number /= over->shape[i];
        found += layout->shape[axis] == 1 ? 0 : at * step;
        step *= layout->shape[axis];
    }
    return found;
}

/* Fails for matrix `number` of the last output: name, operands and place as the ops say them. */
static hyb_status linalg_refuse(hyb_status status, const char *name, const hyb_call *call, int shown,
                                const hyb_layout *over, int32_t own, int64_t number)
{
#define LINALG_ADD(format, ...) hyb_fail(status, "%s" format, hyb_last_error(), __VA_ARGS__)
    hyb_fail(status, "%s cannot take ", name);
    for (int i = 0; i < shown; i++) {
        const hyb_layout *layout = &call->layout[i];
        LINALG_ADD("%s%s[", i ? " and " : "", layout->dtype == HYB_F32 ? "f32" : "f64");
        for (int32_t axis = 0; axis < layout->rank; axis++)
            LINALG_ADD("%s%lld", axis ? "," : "", (long long)layout->shape[axis]);
        LINALG_ADD("%s", "]");
    }
    int64_t step = 1;
    for (int32_t axis = 0; axis < over->rank - own; axis++)
        step *= over->shape[axis];
    for (int32_t axis = 0; axis < over->rank - own; axis++) {
        step /= over->shape[axis];
        LINALG_ADD("%s%lld", axis ? ", " : ", at [", (long long)(number / step));
        number %= step;
    }
    if (over->rank > own)
        LINALG_ADD("%s", "] of the stack");
#undef LINALG_ADD
    return status;
}

/* Scratch for `items` of `itemsize` bytes; NULL: there is none. */
static void *linalg_scratch(double items, size_t itemsize)
{
    const double nbytes = items * (double)itemsize;
    return nbytes < 1e15 ? hyb_scratch((size_t)nbytes) : NULL;
}

static hyb_status linalg_no_memory(int64_t m, int64_t n)
{
    return hyb_fail(HYB_NO_MEMORY, "no memory to work on a matrix of %lld x %lld", (long long)m,
                    (long long)n);
}

/* Units that are worth a chunk, each a matrix of about `work` operations. */
static int64_t linalg_grain(double work)
{
    return grain_of(work < 32768 ? (int64_t)work : 32768);
}

/* Operand `index` is dense, of at least `rank` axes, of which those before have the sizes of `over`
 * (its axes before the last `own`), or with `broadcasts` broadcast to them. */
static hyb_status linalg_require(const hyb_call *call, int index, int32_t dtype, int32_t rank,
                                 const hyb_layout *over, int32_t own, bool broadcasts)
{
    const hyb_layout *layout = &call->layout[index];
    const hyb_status  status = require_dense(call, index, dtype, layout->rank);
    if (status != HYB_OK)
        return status;
    const int32_t lead = layout->rank - rank, other = over->rank - own;
    bool          fits = lead >= 0 && (broadcasts ? lead <= other : lead == other);
    for (int32_t i = 0; fits && i < lead; i++) {
        const int64_t size = layout->shape[i];
        fits = size == over->shape[other - lead + i] || (broadcasts && size == 1);
    }
    return fits ? HYB_OK
                : hyb_fail(HYB_BAD_ARGUMENT, "operand %d is not a stack of matrices like the others",
                           index);
}

/* The last `rank` axes of operand `index` have sizes `m` and, of two, `n`. */
static hyb_status linalg_require_sizes(const hyb_call *call, int index, int32_t rank, int64_t m,
                                       int64_t n)
{
    const int32_t last = call->layout[index].rank - 1;
    hyb_status    status = HYB_OK;
    if (rank == 2)
        status = require_size(call, index, last, n);
    if (status == HYB_OK && rank > 0)
        status = require_size(call, index, rank == 2 ? last - 1 : last, m);
    return status;
}

/* What the first operand is, and each output, from operand `first` on, whose sizes follow from that
 * one's: r rows, c columns, k the smaller of both. */
static hyb_status linalg_prepare(const hyb_call *call, int32_t dtype, bool square, int first,
                                 int outputs, const char *const sizes[], double work,
                                 hyb_range *range)
{
    const hyb_layout *x = &call->layout[0];
    if (x->rank < 2)
        return hyb_fail(HYB_BAD_ARGUMENT, "operand 0 has rank %d: it holds no matrices",
                        (int)x->rank);
    hyb_status status = require_dense(call, 0, dtype, x->rank);
    if (status != HYB_OK)
        return status;
    const int64_t m = linalg_size(x, 2), n = linalg_size(x, 1), k = m < n ? m : n;
    if (square && (status = require_size(call, 0, x->rank - 1, m)) != HYB_OK)
        return status;
    for (int i = 0; i < outputs; i++) {
        int64_t       size[2] = {0, 0};
        const int32_t rank = (int32_t)strlen(sizes[i]);
        for (int32_t axis = 0; axis < rank; axis++)
            size[axis] = sizes[i][axis] == 'r' ? m : sizes[i][axis] == 'c' ? n : k;
        if ((status = linalg_require(call, first + i, dtype, rank, x, 2, false)) != HYB_OK ||
            (status = linalg_require_sizes(call, first + i, rank, size[0], size[1])) != HYB_OK)
            return status;
    }
    *range = (hyb_range){linalg_count(x, 2), linalg_grain(work * (double)m * (double)n * (double)k)};
    return HYB_OK;
}

#include "kernels/linalg/iteration.inc.c"

#define EACH "kernels/linalg/typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define LINALG_ROW(name, n_in, n_out, t)                                                         \
    HYB_TABLE_ROW(name, HYB_DTYPE_##t, n_in, n_out, 0, HYB_PLAIN, prepare_##name##_##t,          \
                  name##_##t)
#define LINALG_ROWS(t)                                                                           \
    LINALG_ROW(cholesky, 1, 1, t) LINALG_ROW(solve, 2, 1, t) LINALG_ROW(inv, 1, 1, t)            \
    LINALG_ROW(solve_lower, 2, 1, t) LINALG_ROW(solve_upper, 2, 1, t)                            \
    LINALG_ROW(det, 1, 1, t) LINALG_ROW(slogdet, 1, 2, t) LINALG_ROW(qr, 1, 2, t)                \
    LINALG_ROW(qr_complete, 1, 2, t) LINALG_ROW(eigh, 1, 2, t) LINALG_ROW(eigvalsh, 1, 1, t)     \
    LINALG_ROW(svd, 1, 3, t) LINALG_ROW(svd_full, 1, 3, t) LINALG_ROW(svdvals, 1, 1, t)          \
    LINALG_ROW(pinv, 2, 1, t) LINALG_ROW(cofactors, 1, 1, t)

const hyb_kernel HYB_SYM(hyb_linalg_kernels)[] = {
    HYB_FLOATS(LINALG_ROWS)
    {0},
};
#undef LINALG_ROWS
#undef LINALG_ROW
