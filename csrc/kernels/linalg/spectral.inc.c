/* linalg/spectral.inc.c - eigenvalues of symmetric matrices, and singular values.
 *
 * A matrix is scaled to size 1, brought to a band by reflections, and the band made diagonal by the
 * rotations of linalg/iteration.  Both reductions pass over the rest of the matrix once for each row: the
 * row's own changes, and what the next reflection needs of it.  Vectors are rows throughout, and
 * of each the first component of at least half the size of the largest is positive (of singular
 * vectors those of V, or of U where the matrix is wide).
 *
 * Included once per dtype by linalg/typed.inc.c, which says what T, V, N and LANES are.
 */

static const T      N(linalg_largest) = DTYPE == HYB_F64 ? (T)DBL_MAX : (T)FLT_MAX;
static const double N(linalg_epsilon) = (DTYPE == HYB_F64 ? DBL_EPSILON : FLT_EPSILON) / 2;

/* The exponent by which x [n] is to be scaled to be below 1; false: there are NaN or infinities. */
static bool N(linalg_exponent)(const T *x, int64_t n, int *exponent)
{
    T    largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        const T size = x[i] < 0 ? -x[i] : x[i];
        finite &= size <= N(linalg_largest);
        largest = size > largest ? size : largest;
    }
    *exponent = 0;
    if (finite && largest > 0)
        frexp((double)largest, exponent);
    /* 2^-exponent is to be a normal number. */
    const int bound = DTYPE == HYB_F64 ? 1020 : 124;
    *exponent = *exponent > bound ? bound : *exponent < -bound ? -bound : *exponent;
    return finite;
}

/* The reflection of x [n] of a matrix of size 1: what is that small counts as 0. */
static T N(linalg_reflection_of_1)(T *x, int64_t n, T *tau, T *scale)
{
    const T small = DTYPE == HYB_F64 ? (T)1e-280 : (T)1e-30;
    const T alpha = x[0], tail = n > 1 ? N(linalg_dot)(x + 1, x + 1, n - 1) : 0;
    x[0] = 1;
    if (tail <= small) {
        for (int64_t i = 1; i < n; i++)
            x[i] = 0;
        *tau = *scale = 0;
        return alpha;
    }
    const T norm = N(linalg_root)(alpha * alpha + tail), beta = alpha < 0 ? norm : -norm;
    *tau = (beta - alpha) / beta;
    *scale = 1 / (alpha - beta);
    N(linalg_scale)(x + 1, *scale, n - 1);
    return beta;
}

/* Applies runs of rotations to `vectors` vectors of columns from `col` on. */
static inline __attribute__((always_inline)) void
N(linalg_rotate_strip)(const linalg_rotations *r, int64_t col, int vectors)
{
    const int64_t ld = r->ld;
    for (int64_t number = 0; number < r->n_runs; number++) {
        const linalg_run *run = &r->runs[number];
        const double     *c = r->c + run->at, *s = r->s + run->at;
        T                *row = (T *)r->rows + run->first * ld + col;
        V                 kept[4];
        if (run->backward) {
            row += run->count * ld;
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                kept[v] = N(v_load)(row + v * LANES);
            for (int64_t i = run->count - 1; i >= 0; i--, row -= ld) {
                const V cs = N(v_splat)((T)c[i]), sn = N(v_splat)((T)s[i]);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) {
                    const V low = N(v_load)(row - ld + v * LANES);
                    N(v_store)(row + v * LANES, cs * kept[v] - sn * low);
                    kept[v] = sn * kept[v] + cs * low;
                }
            }
        } else {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                kept[v] = N(v_load)(row + v * LANES);
            for (int64_t i = 0; i < run->count; i++, row += ld) {
                const V cs = N(v_splat)((T)c[i]), sn = N(v_splat)((T)s[i]);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) {
                    const V high = N(v_load)(row + ld + v * LANES);
                    N(v_store)(row + v * LANES, sn * high + cs * kept[v]);
                    kept[v] = cs * high - sn * kept[v];
                }
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            N(v_store)(row + v * LANES, kept[v]);
    }
}

static hyb_status N(linalg_rotate_strips)(void *context, int64_t begin, int64_t end)
{
    const linalg_rotations *r = context;
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t col = strip * 4 * LANES, vectors = matmul_ceil(r->n - col, LANES);
        if (vectors >= 4)
            N(linalg_rotate_strip)(r, col, 4);
        else
            for (int64_t v = 0; v < vectors; v++)
                N(linalg_rotate_strip)(r, col + v * LANES, 1);
    }
    return HYB_OK;
}

static void N(linalg_rotate_rows)(const linalg_rotations *rotations)
{
    linalg_rotations copy = *rotations;
    const int64_t    strips = matmul_ceil(copy.n, 4 * LANES);
    const double     work = 6.0 * (double)copy.used * (double)copy.n;
    if (strips > 1 && work >= (double)hyb_choice(HYB_WAKING_WORK)) {
        const double share = (double)hyb_choice(HYB_TASK_WORK) * (double)strips / work;
        hyb_parallel_for(strips, 1 + (int64_t)share, N(linalg_rotate_strips), &copy);
    } else {
        N(linalg_rotate_strips)(&copy, 0, strips);
    }
}

static linalg_rotations N(linalg_rotations_of)(double *room, T *rows, int64_t ld, int64_t n)
{
    return (linalg_rotations){.c = room, .s = room + LINALG_DELAYED * n, .apply = N(linalg_rotate_rows),
                              .rows = rows, .ld = ld, .n = n};
}

/* Whether the vector x [n] is to be turned around. */
static bool N(linalg_turned)(const T *x, int64_t n)
{
    T largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const T size = x[i] < 0 ? -x[i] : x[i];
        largest = size > largest ? size : largest;
    }
    for (int64_t i = 0; i < n; i++)
        if ((x[i] < 0 ? -x[i] : x[i]) >= largest / 2)
            return x[i] < 0;
    return false;
}

/* Symmetric matrices ----------------------------------------------------------------------------- */

/* Takes w, the upper triangle of a symmetric matrix, to tridiagonal form Q^T w Q; Q is the reflections.
 * `rows` is room of 4 ld.  All loops over columns work on the same vectors. */
static void N(linalg_tridiagonalize)(const N(linalg_reflections) *r, T *w, int64_t ld, double *d,
                                     double *e, T *rows)
{
    const int64_t n = r->m;
    T            *p = rows, *pending = rows + ld; /* w -= v pending^T + pending v^T, of the last v */
    T            *own = rows + 2 * ld;            /* what rows give to their own place in p */
    const T      *last = rows + 3 * ld;           /* none at first */
    T             after[2 * LANES] = {0};
    for (int i = 0; i < LANES; i++)
        after[LANES + i] = 1;
    memset(rows, 0, (size_t)(4 * ld) * sizeof(T));
    for (int64_t k = 0; k < n; k++) {
        T *row = w + k * ld, *v = r->v + k * r->ld;
        for (int64_t j = k; j < n; j++)
            row[j] -= last[k] * pending[j] + pending[k] * last[j];
        d[k] = (double)row[k];
        if (k + 1 == n)
            break;
        T tau, scale;
        memset(v, 0, (size_t)r->ld * sizeof(T));
        memcpy(v + k + 1, row + k + 1, (size_t)(n - k - 1) * sizeof(T));
        e[k] = (double)N(linalg_reflection_of_1)(v + k + 1, n - k - 1, &tau, &scale);
        r->tau[k] = tau;
        memset(p, 0, (size_t)ld * sizeof(T));
        for (int64_t i = k + 1; i < n; i++) {
            T      *to = w + i * ld;
            const T of_last = last[i], of_pending = pending[i], of_v = v[i];
            const T diagonal = to[i] - (of_last * pending[i] + of_pending * last[i]);
            V       sum = {0};
            int64_t j = (i + 1) / LANES * LANES;
            /* Of the first vector only what is after the diagonal. */
            V kept = N(v_load)(after + LANES - (i + 1 - j));
            for (; j < n; j += LANES) {
                const V x = (N(v_load)(to + j) - N(v_splat)(of_last) * N(v_load)(pending + j) -
                             N(v_splat)(of_pending) * N(v_load)(last + j)) * kept;
                N(v_store)(to + j, x);
                sum += x * N(v_load)(v + j);
                N(v_store)(p + j, N(v_load)(p + j) + N(v_splat)(of_v) * x);
                kept = N(v_splat)(1);
            }
            to[i] = diagonal;
            own[i] = diagonal * of_v + N(linalg_total)(sum);
        }
        for (int64_t i = k + 1; i < n; i++)
            p[i] += own[i];
        const T half = tau * tau / 2 * N(linalg_dot)(p + k + 1, v + k + 1, n - k - 1);
        for (int64_t j = 0; j < ld; j++)
            pending[j] = tau * p[j] - half * v[j];
        last = v;
    }
}

static hyb_status N(eigh_of)(const hyb_call *call, int64_t begin, int64_t end, const char *name,
                             bool vectors)
{
    const hyb_layout *layout = &call->layout[0];
    const int64_t     n = linalg_size(layout, 1), ld = N(linalg_ld)(n);
    const int64_t     wide = (int64_t)(sizeof(double) / sizeof(T));
    const double      square = (double)n * (double)ld, numbers = (double)n * (double)wide;
    const double items = 2 * square + 4.0 * (double)ld + N(linalg_reflection_items)(n, n) + 8 +
                         (vectors ? square : 0) +
                         (4 + linalg_rotation_items(1)) * numbers;
    double *d = linalg_scratch(items, sizeof(T));
    if (!d)
        return linalg_no_memory(n, n);
    double  *e = d + n;
    int64_t *order = (int64_t *)(e + n), *room = order + n;
    double  *turns = (double *)(room + n);
    T       *w = (T *)(turns + 2 * LINALG_DELAYED * n), *v = w + n * ld, *rows = v + n * ld;
    T       *rest = rows + 4 * ld;
    const N(linalg_reflections) r = N(linalg_reflections_at)(v, ld, n, n > 0 ? n - 1 : 0, 1, rest);
    /* Q after the room of the reflections. */
    T *q = vectors ? rest + (int64_t)N(linalg_reflection_items)(n, n) : NULL;
    for (int64_t i = begin; i < end; i++) {
        const T *x = (const T *)call->data[0] + i * n * n;
        T       *values = (T *)call->data[1] + i * n;
        int      exponent;
        if (!N(linalg_exponent)(x, n * n, &exponent))
            return linalg_refuse(HYB_NOT_CONVERGED, name, call, 1, layout, 2, i);
        N(linalg_symmetric)(w, ld, x, n, (T)ldexp(1, -exponent));
        N(linalg_tridiagonalize)(&r, w, ld, d, e, rows);
        linalg_rotations rotations = {0};
        if (vectors) {
            N(linalg_identity)(q, ld, n, n);
            N(linalg_apply)(&r, q, ld, n, true);
            memset(w, 0, (size_t)(n * ld) * sizeof(T));
            N(linalg_transpose)(w, ld, q, ld, NULL, n, n);
            rotations = N(linalg_rotations_of)(turns, w, ld, n);
        }
        if (!linalg_tridiagonal(d, e, n, N(linalg_epsilon), &rotations))
            return linalg_refuse(HYB_NOT_CONVERGED, name, call, 1, layout, 2, i);
        linalg_order(d, n, false, order, room);
        for (int64_t j = 0; j < n; j++)
            values[j] = (T)ldexp(d[order[j]], exponent);
        for (int64_t j = 0; vectors && j < n; j++)
            if (N(linalg_turned)(w + j * ld, n))
                N(linalg_scale)(w + j * ld, -1, n);
        if (vectors)
            N(linalg_transpose)((T *)call->data[2] + i * n * n, n, w, ld, order, n, n);
    }
    return HYB_OK;
}

HYB_KERNEL(N(eigh)) { return N(eigh_of)(call, begin, end, "eigh", true); }
HYB_KERNEL(N(eigvalsh)) { return N(eigh_of)(call, begin, end, "eigvalsh", false); }

HYB_PREPARE(N(prepare_eigh))
{
    return linalg_prepare(call, DTYPE, true, 1, 2, (const char *[]){"r", "rc"}, 10, range);
}

HYB_PREPARE(N(prepare_eigvalsh))
{
    return linalg_prepare(call, DTYPE, true, 1, 1, (const char *[]){"r"}, 2, range);
}

/* Singular values -------------------------------------------------------------------------------- */

/* What is found of x or, if that is wide, of its transpose, which then is [m, n] with m >= n:
 * left [m, n or m] diag(s) right, where row order[j] of `right` belongs to s[order[j]] and column j of
 * `left`.  The rest is room. */
typedef struct {
    int64_t  m, n, ld, m_ld, columns; /* columns of `left` */
    bool     wide, vectors, complete;
    T       *w, *right, *left, *other;
    double  *s, *e;
    int64_t *order, *room;
    double  *turns[2];
    int      exponent;
    bool     odd; /* whether the product of the determinants of both sides is -1, of square ones */
    N(linalg_reflections) tall, column, row;
    T       *rows;
} N(linalg_svd);

static bool N(linalg_svd_room)(N(linalg_svd) *f, int64_t rows, int64_t columns, bool vectors,
                               bool complete)
{
    const int64_t m = rows < columns ? columns : rows, n = rows < columns ? rows : columns;
    const int64_t ld = N(linalg_ld)(n), m_ld = N(linalg_ld)(m), wide = (int64_t)(sizeof(double) / sizeof(T));
    const int64_t size = complete ? m : n, left_ld = N(linalg_ld)(size);
    const double  square = (double)n * (double)ld, reflections = N(linalg_reflection_items)(n, size);
    const double  numbers = (4 + 4 * LINALG_DELAYED) * (double)n * (double)wide;
    const double  sides = vectors ? 2 * square + (double)m * (double)left_ld : 0;
    const double  items = numbers + (double)m * (double)ld + 2 * square + sides +
                         (m > n ? (double)n * (double)m_ld : 0) + 8.0 * (double)ld +
                         3 * (reflections + 1);
    double *first = linalg_scratch(items, sizeof(T));
    if (!first)
        return false;
    *f = (N(linalg_svd)){.m = m, .n = n, .ld = ld, .m_ld = left_ld, .columns = size,
                         .wide = rows < columns, .vectors = vectors, .complete = complete};
    f->s = first;
    f->e = f->s + n;
    f->order = (int64_t *)(f->e + n);
    f->room = f->order + n;
    f->turns[0] = (double *)(f->room + n);
    f->turns[1] = f->turns[0] + 2 * LINALG_DELAYED * n;
    T *next = (T *)(f->turns[1] + 2 * LINALG_DELAYED * n);
    const int64_t each = (int64_t)reflections;
    f->w = next, next += m * ld;
    f->right = next, next += vectors ? n * ld : 0;
    f->other = next, next += vectors ? n * ld : 0;
    f->left = next, next += vectors ? m * left_ld : 0;
    f->rows = next, next += 8 * ld;
    T *v = next;
    next += m > n ? n * m_ld : 0;
    f->tall = N(linalg_reflections_at)(v, m_ld, m, n, 0, next), next += each;
    v = next, next += n * ld;
    f->column = N(linalg_reflections_at)(v, ld, n, n, 0, next), next += each;
    v = next, next += n * ld;
    f->row = N(linalg_reflections_at)(v, ld, n, n > 0 ? n - 1 : 0, 1, next), next += each;
    return true;
}

/* Takes w [n, n] to upper bidiagonal form, s and e.  One pass over what is left of w for each row does three
 * things: it ends the reflection of the column, does that of the row, and sums the rows times the next
 * column. */
static void N(linalg_bidiagonalize)(N(linalg_svd) *f)
{
    const int64_t n = f->n, ld = f->ld;
    T            *w = f->w, *sums = f->rows, *next = f->rows + ld, *across = f->rows + 2 * ld;
    memset(f->rows, 0, (size_t)(3 * ld) * sizeof(T));
    if (n > 0)
        memset(f->column.v, 0, (size_t)f->column.ld * sizeof(T));
    for (int64_t i = 0; i < n; i++) {
        const T x = w[i * ld];
        f->column.v[i] = x;
        for (int64_t j = 1; i > 0 && j < n; j++)
            sums[j] += x * w[i * ld + j];
    }
    for (int64_t k = 0; k < n; k++) {
        T      *row = w + k * ld, *v = f->column.v + k * f->column.ld, *u = f->row.v + k * f->row.ld;
        T       tau, tau_of_row, scale, unused;
        f->s[k] = (double)N(linalg_reflection_of_1)(v + k, n - k, &tau, &scale);
        f->column.tau[k] = tau;
        f->odd ^= tau != 0;
        if (k + 1 == n)
            break;
        memset(across, 0, (size_t)ld * sizeof(T));
        for (int64_t j = k + 1; j < n; j++) {
            across[j] = tau * (row[j] + scale * sums[j]);
            row[j] -= across[j];
        }
        memset(u, 0, (size_t)f->row.ld * sizeof(T));
        memcpy(u + k + 1, row + k + 1, (size_t)(n - k - 1) * sizeof(T));
        f->e[k] = (double)N(linalg_reflection_of_1)(u + k + 1, n - k - 1, &tau_of_row, &unused);
        f->row.tau[k] = tau_of_row;
        f->odd ^= tau_of_row != 0;
        T *v_next = v + f->column.ld;
        memset(v_next, 0, (size_t)f->column.ld * sizeof(T));
        memset(next, 0, (size_t)ld * sizeof(T));
        const int64_t start = (k + 1) / LANES * LANES; /* the same vectors each time */
        for (int64_t i = k + 1; i < n; i++) {
            T      *to = w + i * ld;
            const V of_v = N(v_splat)(v[i]);
            V       sum = {0};
            for (int64_t j = start; j < n; j += LANES) {
                const V x = N(v_load)(to + j) - of_v * N(v_load)(across + j);
                N(v_store)(to + j, x);
                sum += x * N(v_load)(u + j);
            }
            const V by_u = N(v_splat)(tau_of_row * N(linalg_total)(sum));
            const T x = to[k + 1] - by_u[0] * u[k + 1];
            const V by_x = N(v_splat)(i > k + 1 ? x : 0);
            v_next[i] = x;
            for (int64_t j = start; j < n; j += LANES) {
                const V y = N(v_load)(to + j) - by_u * N(v_load)(u + j);
                N(v_store)(to + j, y);
                N(v_store)(next + j, N(v_load)(next + j) + by_x * y);
            }
        }
        T *kept = sums;
        sums = next;
        next = kept;
    }
}

/* The singular values of x [rows, columns], and with vectors both sides; false: no convergence. */
static bool N(linalg_svd_of)(N(linalg_svd) *f, const T *x)
{
    const int64_t m = f->m, n = f->n, ld = f->ld;
    if (!N(linalg_exponent)(x, m * n, &f->exponent))
        return false;
    const T scale = (T)ldexp(1, -f->exponent);
    f->odd = false;
    if (f->wide) {
        memset(f->w, 0, (size_t)(m * ld) * sizeof(T));
        N(linalg_transpose)(f->w, ld, x, m, NULL, n, m);
        for (int64_t i = 0; i < m; i++)
            N(linalg_scale)(f->w + i * ld, scale, n);
    } else {
        N(linalg_copy)(f->w, ld, x, n, m, n, scale);
    }
    if (m > n) {
        N(linalg_qr)(&f->tall, f->w, ld, n);
        for (int64_t i = 0; i < n; i++)
            memset(f->w + i * ld, 0, (size_t)i * sizeof(T));
        for (int64_t i = 0; i < n; i++)
            memset(f->w + i * ld + n, 0, (size_t)(ld - n) * sizeof(T));
    }
    N(linalg_bidiagonalize)(f);
    linalg_rotations left = {0}, right = {0};
    if (f->vectors) {
        T *made = f->left; /* room, until both sides are rows */
        N(linalg_identity)(made, ld, n, n);
        N(linalg_apply)(&f->column, made, ld, n, true);
        memset(f->other, 0, (size_t)(n * ld) * sizeof(T));
        N(linalg_transpose)(f->other, ld, made, ld, NULL, n, n);
        N(linalg_identity)(made, ld, n, n);
        N(linalg_apply)(&f->row, made, ld, n, true);
        memset(f->right, 0, (size_t)(n * ld) * sizeof(T));
        N(linalg_transpose)(f->right, ld, made, ld, NULL, n, n);
        left = N(linalg_rotations_of)(f->turns[0], f->other, ld, n);
        right = N(linalg_rotations_of)(f->turns[1], f->right, ld, n);
    }
    if (!linalg_bidiagonal(f->s, f->e, n, N(linalg_epsilon), &left, &right))
        return false;
    for (int64_t i = 0; i < n; i++) {
        if (f->s[i] < 0) {
            f->odd = !f->odd;
            if (f->vectors)
                N(linalg_scale)(f->right + i * ld, -1, n);
        }
        f->s[i] = fabs(f->s[i]);
    }
    linalg_order(f->s, n, true, f->order, f->room);
    if (!f->vectors)
        return true;
    for (int64_t i = 0; i < m; i++)
        memset(f->left + i * f->m_ld, 0, (size_t)f->columns * sizeof(T));
    N(linalg_transpose)(f->left, f->m_ld, f->other, ld, f->order, n, n);
    for (int64_t i = n; i < f->columns; i++)
        f->left[i * f->m_ld + i] = 1;
    if (m > n)
        N(linalg_apply)(&f->tall, f->left, f->m_ld, f->columns, false);
    return true;
}

/* Value number j, from the largest on. */
static inline T N(linalg_svd_value)(const N(linalg_svd) *f, int64_t j)
{
    return (T)ldexp(f->s[f->order[j]], f->exponent);
}

static hyb_status N(svd_of)(const hyb_call *call, int64_t begin, int64_t end, bool complete)
{
    const hyb_layout *layout = &call->layout[0];
    const int64_t     rows = linalg_size(layout, 2), columns = linalg_size(layout, 1);
    N(linalg_svd) f;
    if (!N(linalg_svd_room)(&f, rows, columns, true, complete))
        return linalg_no_memory(rows, columns);
    const int64_t n = f.n, m = f.m, size = f.columns, ld = f.ld;
    const int64_t u_size = f.wide ? n : size, v_size = f.wide ? size : n;
    for (int64_t i = begin; i < end; i++) {
        T *u = (T *)call->data[1] + i * rows * u_size, *s = (T *)call->data[2] + i * n;
        T *v = (T *)call->data[3] + i * v_size * columns;
        if (!N(linalg_svd_of)(&f, (const T *)call->data[0] + i * rows * columns))
            return linalg_refuse(HYB_NOT_CONVERGED, "svd", call, 1, layout, 2, i);
        for (int64_t j = 0; j < n; j++)
            s[j] = N(linalg_svd_value)(&f, j);
        if (f.wide) {
            N(linalg_transpose)(u, n, f.right, ld, f.order, n, n);
            N(linalg_transpose)(v, m, f.left, f.m_ld, NULL, m, size);
        } else {
            for (int64_t j = 0; j < n; j++)
                memcpy(v + j * n, f.right + f.order[j] * ld, (size_t)n * sizeof(T));
            N(linalg_copy)(u, size, f.left, f.m_ld, m, size, 1);
        }
        /* Signs, by the short side's vectors. */
        T *sign = f.rows;
        for (int64_t j = 0; j < n; j++)
            sign[j] = N(linalg_turned)(f.right + f.order[j] * ld, n) ? -1 : 1;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t j = 0; j < n; j++)
                u[row * u_size + j] *= sign[j];
        for (int64_t j = 0; j < n; j++)
            N(linalg_scale)(v + j * columns, sign[j], columns);
    }
    return HYB_OK;
}

HYB_KERNEL(N(svd)) { return N(svd_of)(call, begin, end, false); }
HYB_KERNEL(N(svd_full)) { return N(svd_of)(call, begin, end, true); }

HYB_PREPARE(N(prepare_svd))
{
    return linalg_prepare(call, DTYPE, false, 1, 3, (const char *[]){"rk", "k", "kc"}, 25, range);
}

HYB_PREPARE(N(prepare_svd_full))
{
    return linalg_prepare(call, DTYPE, false, 1, 3, (const char *[]){"rr", "k", "cc"}, 30, range);
}

HYB_KERNEL(N(svdvals))
{
    const hyb_layout *layout = &call->layout[0];
    const int64_t     rows = linalg_size(layout, 2), columns = linalg_size(layout, 1);
    N(linalg_svd) f;
    if (!N(linalg_svd_room)(&f, rows, columns, false, false))
        return linalg_no_memory(rows, columns);
    for (int64_t i = begin; i < end; i++) {
        T *s = (T *)call->data[1] + i * f.n;
        if (!N(linalg_svd_of)(&f, (const T *)call->data[0] + i * rows * columns))
            return linalg_refuse(HYB_NOT_CONVERGED, "svdvals", call, 1, layout, 2, i);
        for (int64_t j = 0; j < f.n; j++)
            s[j] = N(linalg_svd_value)(&f, j);
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_svdvals))
{
    return linalg_prepare(call, DTYPE, false, 1, 1, (const char *[]){"k"}, 4, range);
}

/* y = left diag(factor) right or, `turned`, its transpose.  Spoils `right`; factor[j] is of value j. */
static void N(linalg_svd_product)(N(linalg_svd) *f, const T *factor, bool turned, T *y, T *room)
{
    const int64_t n = f->n, m = f->m, ld = f->ld;
    for (int64_t j = 0; j < n; j++) {
        const T *from = f->right + f->order[j] * ld;
        for (int64_t i = 0; i < n; i++)
            f->other[j * ld + i] = factor[j] * from[i];
    }
    if (turned)
        N(linalg_multiply)((N(linalg_product)){
            .a = f->other, .b = f->left, .c = y, .m = n, .n = m, .k = n, .a_row = 1, .a_col = ld,
            .b_row = 1, .b_col = f->m_ld, .c_row = m, .sign = 1, .room = room});
    else
        N(linalg_multiply)((N(linalg_product)){
            .a = f->left, .b = f->other, .c = y, .m = m, .n = n, .k = n, .a_row = f->m_ld, .a_col = 1,
            .b_row = ld, .b_col = 1, .c_row = n, .sign = 1, .room = room});
}

HYB_KERNEL(N(pinv))
{
    const hyb_layout *layout = &call->layout[0], *bound = &call->layout[1];
    const int64_t     rows = linalg_size(layout, 2), columns = linalg_size(layout, 1);
    N(linalg_svd) f;
    if (!N(linalg_svd_room)(&f, rows, columns, true, false))
        return linalg_no_memory(rows, columns);
    for (int64_t i = begin; i < end; i++) {
        const T rtol = ((const T *)call->data[1])[linalg_matrix(bound, 0, layout, 2, i)];
        T      *factor = f.rows;
        if (!N(linalg_svd_of)(&f, (const T *)call->data[0] + i * rows * columns))
            return linalg_refuse(HYB_NOT_CONVERGED, "pinv", call, 1, layout, 2, i);
        const T limit = f.n > 0 ? rtol * N(linalg_svd_value)(&f, 0) : 0;
        for (int64_t j = 0; j < f.n; j++) {
            const T value = N(linalg_svd_value)(&f, j);
            factor[j] = value > limit ? 1 / value : 0;
        }
        N(linalg_svd_product)(&f, factor, !f.wide, (T *)call->data[2] + i * rows * columns,
                              f.tall.room);
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_pinv))
{
    const hyb_status status =
        linalg_prepare(call, DTYPE, false, 2, 1, (const char *[]){"cr"}, 27, range);
    return status != HYB_OK ? status
                            : linalg_require(call, 1, DTYPE, 0, &call->layout[0], 2, true);
}

/* The derivative of the product of the singular values: each by all others, and the sign of the
 * determinant. */
HYB_KERNEL(N(cofactors))
{
    const hyb_layout *layout = &call->layout[0];
    const int64_t     n = linalg_size(layout, 1);
    N(linalg_svd) f;
    if (!N(linalg_svd_room)(&f, n, n, true, false))
        return linalg_no_memory(n, n);
    for (int64_t i = begin; i < end; i++) {
        T *others = f.rows;
        if (!N(linalg_svd_of)(&f, (const T *)call->data[0] + i * n * n))
            return linalg_refuse(HYB_NOT_CONVERGED, "det", call, 1, layout, 2, i);
        T product = f.odd ? -1 : 1;
        for (int64_t j = 0; j < n; j++) {
            others[j] = product;
            product *= N(linalg_svd_value)(&f, j);
        }
        product = 1;
        for (int64_t j = n - 1; j >= 0; j--) {
            others[j] *= product;
            product *= N(linalg_svd_value)(&f, j);
        }
        N(linalg_svd_product)(&f, others, false, (T *)call->data[1] + i * n * n, f.tall.room);
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_cofactors))
{
    return linalg_prepare(call, DTYPE, true, 1, 1, (const char *[]){"rc"}, 27, range);
}
