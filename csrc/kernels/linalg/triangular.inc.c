/* linalg/triangular.inc.c - Cholesky and LU, and the systems that they solve.
 *
 * All of them recur on halves, so that nearly all work is in products; what is left has LINALG_BASE
 * rows or columns.  Both factors of LU lie in one matrix, the lower one with an unwritten diagonal of
 * ones.
 *
 * Included once per dtype by linalg/typed.inc.c, which says what T, V, N and LANES are.
 */

/* Half of more than LINALG_BASE, a multiple of 8. */
static inline int64_t N(linalg_half)(int64_t n) { return n / 16 * 8; }

static inline T N(linalg_root)(T x) { return (T)__builtin_sqrt((double)x); }

/* The first r of c rows of U, upper triangular with U^T U = w; false: not positive definite. */
static bool N(cholesky_rows)(T *w, int64_t ld, int64_t r, int64_t c, T *room)
{
    if (r > LINALG_BASE) {
        const int64_t half = N(linalg_half)(r);
        if (!N(cholesky_rows)(w, ld, half, c, room))
            return false;
        T *rest = w + half * ld + half;
        N(linalg_multiply)((N(linalg_product)){
            .a = w + half, .b = w + half, .c = rest, .m = r - half, .n = c - half, .k = half,
            .a_row = 1, .a_col = ld, .b_row = ld, .b_col = 1, .c_row = ld, .sign = -1, .add = true,
            .upper = true, .room = room});
        return N(cholesky_rows)(rest, ld, r - half, c - half, room);
    }
    for (int64_t k = 0; k < r; k++) {
        const int64_t start = k / LANES * LANES; /* the same vectors in all rows */
        T            *row = w + k * ld;
        N(linalg_take_rows)(row + start, w + start, ld, w + k, ld, k, c - start);
        if (!(row[k] > 0))
            return false;
        const T root = N(linalg_root)(row[k]);
        N(linalg_scale)(row + start, 1 / root, c - start);
        row[k] = root;
    }
    return true;
}

HYB_KERNEL(N(cholesky))
{
    const hyb_layout *layout = &call->layout[0];
    const int64_t     n = linalg_size(layout, 1), ld = N(linalg_ld)(n);
    T *w = linalg_scratch((double)n * (double)ld + N(linalg_room)(n), sizeof(T));
    if (!w)
        return linalg_no_memory(n, n);
    for (int64_t i = begin; i < end; i++) {
        T *y = (T *)call->data[1] + i * n * n;
        N(linalg_symmetric)(w, ld, (const T *)call->data[0] + i * n * n, n, 1);
        if (!N(cholesky_rows)(w, ld, n, n, w + n * ld))
            return linalg_refuse(HYB_NOT_DEFINITE, "cholesky", call, 1, layout, 2, i);
        N(linalg_transpose)(y, n, w, ld, NULL, n, n);
        for (int64_t row = 0; row < n; row++)
            memset(y + row * n + row + 1, 0, (size_t)(n - row - 1) * sizeof(T));
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_cholesky))
{
    return linalg_prepare(call, DTYPE, true, 1, 1, (const char *[]){"rc"}, 0.5, range);
}

/* LU ------------------------------------------------------------------------------------------- */

typedef struct {
    T       *w; /* [n, ld] */
    int64_t  n, ld;
    int64_t *pivots; /* row i was exchanged with row pivots[i], from the first on */
    bool     singular, odd;
    T       *room;
} N(linalg_lu);

/* x = L^-1 x, of L [n, n] and x [n, c]; `unit`: the diagonal of L counts as ones. */
static void N(linalg_lower)(const T *l, int64_t ld, bool unit, T *x, int64_t x_row, int64_t n,
                            int64_t c, T *room)
{
    if (n <= LINALG_BASE) {
        for (int64_t i = 0; i < n; i++) {
            T *row = x + i * x_row;
            N(linalg_take_rows)(row, x, x_row, l + i * ld, 1, i, c);
            for (int64_t j = 0; !unit && j < c; j++)
                row[j] /= l[i * ld + i];
        }
        return;
    }
    const int64_t half = N(linalg_half)(n);
    N(linalg_lower)(l, ld, unit, x, x_row, half, c, room);
    N(linalg_multiply)((N(linalg_product)){
        .a = l + half * ld, .b = x, .c = x + half * x_row, .m = n - half, .n = c, .k = half,
        .a_row = ld, .a_col = 1, .b_row = x_row, .b_col = 1, .c_row = x_row, .sign = -1, .add = true,
        .room = room});
    N(linalg_lower)(l + half * ld + half, ld, unit, x + half * x_row, x_row, n - half, c, room);
}

/* x = U^-1 x, of U [n, n] and x [n, c]. */
static void N(linalg_upper)(const T *u, int64_t ld, T *x, int64_t x_row, int64_t n, int64_t c, T *room)
{
    if (n <= LINALG_BASE) {
        for (int64_t i = n - 1; i >= 0; i--) {
            const T diagonal = u[i * ld + i];
            T      *row = x + i * x_row;
            N(linalg_take_rows)(row, row + x_row, x_row, u + i * ld + i + 1, 1, n - i - 1, c);
            for (int64_t j = 0; j < c; j++)
                row[j] /= diagonal;
        }
        return;
    }
    const int64_t half = N(linalg_half)(n);
    N(linalg_upper)(u + half * ld + half, ld, x + half * x_row, x_row, n - half, c, room);
    N(linalg_multiply)((N(linalg_product)){
        .a = u + half, .b = x + half * x_row, .c = x, .m = half, .n = c, .k = n - half, .a_row = ld,
        .a_col = 1, .b_row = x_row, .b_col = 1, .c_row = x_row, .sign = -1, .add = true,
        .room = room});
    N(linalg_upper)(u, ld, x, x_row, half, c, room);
}

static void N(linalg_exchange)(T *restrict a, T *restrict b, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const T kept = a[j];
        a[j] = b[j];
        b[j] = kept;
    }
}

/* The inverse of no smaller number is finite. */
static const T N(linalg_least) = DTYPE == HYB_F64 ? (T)DBL_MIN : (T)FLT_MIN;

/* At most LINALG_BASE columns from `first` on.  The row of a pivot is copied with zeros up to its
 * diagonal: then whole vectors of the rows below may be changed. */
static void N(linalg_lu_few)(N(linalg_lu) *f, int64_t first, int64_t count)
{
    const int64_t ld = f->ld, vectors = (count + LANES - 1) / LANES;
    int64_t       pivot = first;
    T             best = -1;
    for (int64_t i = first; i < f->n; i++) {
        const T size = f->w[i * ld + first] < 0 ? -f->w[i * ld + first] : f->w[i * ld + first];
        pivot = size > best ? i : pivot;
        best = size > best ? size : best;
    }
    for (int64_t k = first; k < first + count; k++) {
        T *row = f->w + k * ld;
        f->pivots[k] = pivot;
        if (pivot != k) {
            N(linalg_exchange)(row, f->w + pivot * ld, f->n);
            f->odd = !f->odd;
        }
        const T diagonal = row[k];
        const T    size_of = diagonal < 0 ? -diagonal : diagonal;
        const bool zero = diagonal == 0, tiny = size_of < N(linalg_least); /* 1 / tiny is infinite */
        const T    inverse = tiny ? 1 : 1 / diagonal;
        f->singular |= zero;
        T copy[LINALG_BASE + LANES] = {0};
        for (int64_t j = k + 1; j < first + count; j++)
            copy[j - first] = row[j];
        const bool    more = k + 1 < first + count;
        const int64_t start = (k + 1 - first) / LANES;
        pivot = k + 1;
        best = -1;
        for (int64_t i = k + 1; i < f->n; i++) {
            T      *below = f->w + i * ld;
            T       factor = below[k] * inverse;
            if (tiny)
                factor = zero ? 0 : factor / diagonal;
            for (int64_t v = start; v < vectors; v++) {
                T *to = below + first + v * LANES;
                N(v_store)(to, N(v_load)(to) - N(v_splat)(factor) * N(v_load)(copy + v * LANES));
            }
            below[k] = factor; /* not before: it lies in a vector that is loaded */
            if (more) {
                const T size = below[k + 1] < 0 ? -below[k + 1] : below[k + 1];
                pivot = size > best ? i : pivot;
                best = size > best ? size : best;
            }
        }
    }
}

static void N(linalg_lu_columns)(N(linalg_lu) *f, int64_t first, int64_t count)
{
    if (count <= LINALG_BASE) {
        N(linalg_lu_few)(f, first, count);
        return;
    }
    const int64_t half = N(linalg_half)(count), next = first + half, ld = f->ld;
    T            *right = f->w + first * ld + next;
    N(linalg_lu_columns)(f, first, half);
    N(linalg_lower)(f->w + first * ld + first, ld, true, right, ld, half, count - half, f->room);
    N(linalg_multiply)((N(linalg_product)){
        .a = f->w + next * ld + first, .b = right, .c = right + half * ld, .m = f->n - next,
        .n = count - half, .k = half, .a_row = ld, .a_col = 1, .b_row = ld, .b_col = 1, .c_row = ld,
        .sign = -1, .add = true, .room = f->room});
    N(linalg_lu_columns)(f, next, count - half);
}

/* Room for the factors of a matrix of n rows, and for products of up to c columns. */
static bool N(linalg_lu_room)(N(linalg_lu) *f, int64_t n, int64_t c)
{
    const int64_t ld = N(linalg_ld)(n), pivots = n * (int64_t)(sizeof(int64_t) / sizeof(T));
    const double  items = (double)n * (double)ld + (double)pivots + N(linalg_room)(n > c ? n : c);
    T            *w = linalg_scratch(items, sizeof(T));
    if (w)
        *f = (N(linalg_lu)){.w = w, .n = n, .ld = ld, .pivots = (int64_t *)(w + n * ld),
                            .room = w + n * ld + pivots};
    return w != NULL;
}

static void N(linalg_lu_of)(N(linalg_lu) *f, const T *x)
{
    f->singular = f->odd = false;
    for (int64_t i = 0; i < f->n; i++)
        memcpy(f->w + i * f->ld, x + i * f->n, (size_t)f->n * sizeof(T));
    N(linalg_lu_columns)(f, 0, f->n);
}

/* x [n, c], whose rows are in the order of the right-hand sides, becomes the solution. */
static void N(linalg_lu_solve)(const N(linalg_lu) *f, T *x, int64_t c)
{
    for (int64_t i = 0; i < f->n; i++)
        if (f->pivots[i] != i)
            N(linalg_exchange)(x + i * c, x + f->pivots[i] * c, c);
    N(linalg_lower)(f->w, f->ld, true, x, c, f->n, c, f->room);
    N(linalg_upper)(f->w, f->ld, x, c, f->n, c, f->room);
}

HYB_KERNEL(N(solve))
{
    const hyb_layout *a = &call->layout[0], *b = &call->layout[1], *over = &call->layout[2];
    const int64_t     n = linalg_size(a, 1), c = linalg_size(b, 1);
    int64_t           known = -1; /* the matrix whose factors are there */
    N(linalg_lu) f;
    if (!N(linalg_lu_room)(&f, n, c))
        return linalg_no_memory(n, n);
    for (int64_t i = begin; i < end; i++) {
        const int64_t of_a = linalg_matrix(a, 2, over, 2, i), of_b = linalg_matrix(b, 2, over, 2, i);
        T            *y = (T *)call->data[2] + i * n * c;
        if (of_a != known)
            N(linalg_lu_of)(&f, (const T *)call->data[0] + of_a * n * n);
        if (f.singular)
            return linalg_refuse(HYB_SINGULAR, "solve", call, 2, over, 2, i);
        known = of_a;
        memcpy(y, (const T *)call->data[1] + of_b * n * c, (size_t)(n * c) * sizeof(T));
        N(linalg_lu_solve)(&f, y, c);
    }
    return HYB_OK;
}

/* a [.., n, n], b [.., n, c] -> [.., n, c], whose axes before broadcast; `share` of n^3 is the work
 * that is done once for each matrix. */
static hyb_status N(linalg_prepare_systems)(const hyb_call *call, double share, hyb_range *range)
{
    const hyb_layout *a = &call->layout[0], *b = &call->layout[1], *over = &call->layout[2];
    if (a->rank < 2 || b->rank < 2 || over->rank < 2)
        return hyb_fail(HYB_BAD_ARGUMENT, "an operand of a system holds no matrices");
    hyb_status status;
    if ((status = linalg_require(call, 2, DTYPE, 2, over, 2, false)) != HYB_OK ||
        (status = linalg_require(call, 0, DTYPE, 2, over, 2, true)) != HYB_OK ||
        (status = linalg_require(call, 1, DTYPE, 2, over, 2, true)) != HYB_OK)
        return status;
    const int64_t n = linalg_size(a, 2), c = linalg_size(b, 1);
    if ((status = linalg_require_sizes(call, 0, 2, n, n)) != HYB_OK ||
        (status = linalg_require_sizes(call, 1, 2, n, c)) != HYB_OK ||
        (status = linalg_require_sizes(call, 2, 2, n, c)) != HYB_OK)
        return status;
    /* Several systems of one matrix are one unit, so that it is factored once. */
    const int64_t count = linalg_count(over, 2);
    const int64_t least = share > 0 && linalg_count(a, 2) == 1 ? count : 1;
    const int64_t grain = linalg_grain((double)n * (double)n * (share * (double)n + (double)c));
    *range = (hyb_range){count, grain > least ? grain : least};
    return HYB_OK;
}

HYB_PREPARE(N(prepare_solve)) { return N(linalg_prepare_systems)(call, 0.7, range); }

static hyb_status N(solve_triangular)(const hyb_call *call, int64_t begin, int64_t end, bool lower)
{
    const hyb_layout *a = &call->layout[0], *b = &call->layout[1], *over = &call->layout[2];
    const int64_t     n = linalg_size(a, 1), c = linalg_size(b, 1);
    T                *room = linalg_scratch(N(linalg_room)(c), sizeof(T));
    if (!room)
        return linalg_no_memory(n, c);
    for (int64_t i = begin; i < end; i++) {
        const T *x = (const T *)call->data[0] + linalg_matrix(a, 2, over, 2, i) * n * n;
        const T *from = (const T *)call->data[1] + linalg_matrix(b, 2, over, 2, i) * n * c;
        T       *y = (T *)call->data[2] + i * n * c;
        for (int64_t j = 0; j < n; j++)
            if (x[j * n + j] == 0)
                return linalg_refuse(HYB_SINGULAR, "solve_triangular", call, 2, over, 2, i);
        memcpy(y, from, (size_t)(n * c) * sizeof(T));
        if (lower)
            N(linalg_lower)(x, n, false, y, c, n, c, room);
        else
            N(linalg_upper)(x, n, y, c, n, c, room);
    }
    return HYB_OK;
}

HYB_KERNEL(N(solve_lower)) { return N(solve_triangular)(call, begin, end, true); }
HYB_KERNEL(N(solve_upper)) { return N(solve_triangular)(call, begin, end, false); }

HYB_PREPARE(N(prepare_solve_lower)) { return N(linalg_prepare_systems)(call, 0, range); }
HYB_PREPARE(N(prepare_solve_upper)) { return N(linalg_prepare_systems)(call, 0, range); }

HYB_KERNEL(N(inv))
{
    const hyb_layout *layout = &call->layout[0];
    const int64_t     n = linalg_size(layout, 1);
    N(linalg_lu) f;
    if (!N(linalg_lu_room)(&f, n, n))
        return linalg_no_memory(n, n);
    for (int64_t i = begin; i < end; i++) {
        T *y = (T *)call->data[1] + i * n * n;
        N(linalg_lu_of)(&f, (const T *)call->data[0] + i * n * n);
        if (f.singular)
            return linalg_refuse(HYB_SINGULAR, "inv", call, 1, layout, 2, i);
        N(linalg_identity)(y, n, n, n);
        N(linalg_lu_solve)(&f, y, n);
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_inv))
{
    return linalg_prepare(call, DTYPE, true, 1, 1, (const char *[]){"rc"}, 2, range);
}

/* The determinant as fraction * 2^exponent: no product of the diagonal overflows on the way. */
static double N(linalg_determinant)(const N(linalg_lu) *f, int64_t *exponent)
{
    double fraction = f->odd ? -1 : 1;
    *exponent = 0;
    for (int64_t i = 0; i < f->n; i++) {
        int by = 0;
        fraction = frexp(fraction * (double)f->w[i * f->ld + i], &by);
        *exponent += by;
    }
    return fraction;
}

HYB_KERNEL(N(det))
{
    const int64_t n = linalg_size(&call->layout[0], 1);
    N(linalg_lu) f;
    if (!N(linalg_lu_room)(&f, n, n))
        return linalg_no_memory(n, n);
    for (int64_t i = begin; i < end; i++) {
        int64_t exponent;
        N(linalg_lu_of)(&f, (const T *)call->data[0] + i * n * n);
        const double fraction = N(linalg_determinant)(&f, &exponent);
        const int    by = exponent > 5000 ? 5000 : exponent < -5000 ? -5000 : (int)exponent;
        ((T *)call->data[1])[i] = (T)ldexp(fraction, by);
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_det))
{
    return linalg_prepare(call, DTYPE, true, 1, 1, (const char *[]){""}, 0.7, range);
}

HYB_KERNEL(N(slogdet))
{
    const int64_t n = linalg_size(&call->layout[0], 1);
    N(linalg_lu) f;
    if (!N(linalg_lu_room)(&f, n, n))
        return linalg_no_memory(n, n);
    for (int64_t i = begin; i < end; i++) {
        int64_t exponent;
        N(linalg_lu_of)(&f, (const T *)call->data[0] + i * n * n);
        double fraction = N(linalg_determinant)(&f, &exponent);
        double size = fabs(fraction);
        if (size > 0 && size < 0.70710678118654752) { /* near 1 nothing cancels */
            size *= 2;
            exponent--;
        }
        ((T *)call->data[1])[i] = (T)(fraction > 0 ? 1 : fraction < 0 ? -1 : fraction);
        ((T *)call->data[2])[i] = (T)(log(size) + (double)exponent * 0.69314718055994531);
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_slogdet))
{
    return linalg_prepare(call, DTYPE, true, 1, 2, (const char *[]){"", ""}, 0.7, range);
}
