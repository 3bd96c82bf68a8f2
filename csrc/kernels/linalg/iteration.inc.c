/* linalg/iteration.inc.c - rotations that make bidiagonal and symmetric tridiagonal matrices diagonal;
 * no table.
 *
 * The numbers of a band are float64 in either dtype.  Each sweep over a band is a run of rotations of
 * neighbouring rows of a matrix that gathers them; some sweeps are kept until they are applied together,
 * because then the matrix is read from near.  The number of sweeps is bounded: NaN end as "did not
 * converge".
 */

/* Rotations of rows (first + i, first + i + 1) for all i < count, from the first on or, backward, from the
 * last on; the next c and s each. */
typedef struct {
    int64_t first, count, at;
    bool    backward;
} linalg_run;

typedef struct linalg_rotations {
    double     *c, *s;
    linalg_run  runs[LINALG_DELAYED];
    int64_t     used, n_runs;
    void      (*apply)(const struct linalg_rotations *rotations); /* NULL: nothing gathers them */
    void       *rows;
    int64_t     ld, n; /* columns */
} linalg_rotations;

/* Items of float64 that the rotations of a band of n need. */
static double linalg_rotation_items(int64_t n) { return 2.0 * LINALG_DELAYED * (double)n; }

static void linalg_rotations_end(linalg_rotations *r)
{
    if (r->n_runs > 0)
        r->apply(r);
    r->used = r->n_runs = 0;
}

/* Where the c and s of `count` rotations go, which are the next run; NULL: nobody needs them. */
static linalg_run *linalg_rotations_next(linalg_rotations *r, int64_t first, int64_t count, bool backward)
{
    if (!r->apply)
        return NULL;
    if (r->n_runs == LINALG_DELAYED)
        linalg_rotations_end(r);
    linalg_run *run = &r->runs[r->n_runs++];
    *run = (linalg_run){first, count, r->used, backward};
    r->used += count;
    return run;
}

/* Rotation of rows (row, row + 1) of the run. */
static inline void linalg_rotation(linalg_rotations *r, const linalg_run *run, int64_t row, double c,
                                   double s)
{
    if (!run)
        return;
    r->c[run->at + row - run->first] = c;
    r->s[run->at + row - run->first] = s;
}

/* c f + s g = r, c g - s f = 0. */
static inline double linalg_rotate(double f, double g, double *c, double *s)
{
    if (g == 0) {
        *c = 1;
        *s = 0;
        return f;
    }
    const double squares = f * f + g * g;
    const double size = squares > 1e-280 && squares < 1e280 ? __builtin_sqrt(squares) : hypot(f, g);
    const double r = copysign(size, f);
    *c = fabs(f) / size;
    *s = g / r;
    return r;
}

static inline double linalg_hypot_1(double x)
{
    return fabs(x) > 1e100 ? fabs(x) : __builtin_sqrt(x * x + 1);
}

/* Eigenvalues of [[a, b], [b, c]], the larger one in size first, and the unit vector (cs, sn) of it. */
static double linalg_pair(double a, double b, double c, double *second, double *cs, double *sn)
{
    const double sum = a + c, gap = a - c, twice = b + b;
    const double high = fabs(a) > fabs(c) ? a : c, low = fabs(a) > fabs(c) ? c : a;
    const double root = hypot(gap, twice);
    double       first = 0.5 * root;
    *second = -0.5 * root;
    const bool negative = sum < 0;
    if (sum != 0) {
        first = 0.5 * (negative ? sum - root : sum + root);
        *second = (high / first) * low - (b / first) * b;
    }
    const bool   minus = gap < 0;
    const double along = minus ? gap - root : gap + root;
    if (fabs(along) > fabs(twice)) {
        const double cotangent = -twice / along;
        *sn = 1 / __builtin_sqrt(1 + cotangent * cotangent);
        *cs = cotangent * *sn;
    } else if (twice == 0) {
        *cs = 1;
        *sn = 0;
    } else {
        const double tangent = -along / twice;
        *cs = 1 / __builtin_sqrt(1 + tangent * tangent);
        *sn = tangent * *cs;
    }
    if (negative == minus) {
        const double kept = *cs;
        *cs = -*sn;
        *sn = kept;
    }
    return first;
}

/* The eigenvalues of the symmetric tridiagonal matrix of d [n] and e [n - 1], of size 1 at most, to d, in
 * no order; rows of Q^T become rows of eigenvectors.  Implicit QL or QR, from the end that is smaller,
 * with Wilkinson's shift (LAPACK's steqr). */
static bool linalg_tridiagonal(double *d, double *e, int64_t n, double epsilon, linalg_rotations *rows)
{
    const double squared = epsilon * epsilon;
    int64_t      left = 30 * n, next = 0;
    while (next < n) {
        int64_t first = next, last = next;
        while (last + 1 < n && fabs(e[last]) > epsilon * __builtin_sqrt(fabs(d[last])) *
                                                   __builtin_sqrt(fabs(d[last + 1])))
            last++;
        if (last + 1 < n)
            e[last] = 0;
        next = last + 1;
        /* `step` leads from the end at which eigenvalues appear, `at`, to the other one, `end`. */
        const bool    down = fabs(d[last]) >= fabs(d[first]);
        const int64_t step = down ? 1 : -1, end = down ? last : first;
        int64_t       at = down ? first : last;
        double       *off = down ? e : e - 1; /* off[i] stands between i and i + step */
        while (at != end + step) {
            int64_t m = at;
            for (; m != end; m += step) {
                const double size = off[m] * off[m];
                if (size <= squared * fabs(d[m]) * fabs(d[m + step]) + DBL_MIN)
                    break;
            }
            if (m != end)
                off[m] = 0;
            if (m == at) {
                at += step;
                continue;
            }
            const int64_t low = down ? at : m, count = down ? m - at : at - m;
            double        c = 1, s = 1;
            if (count == 1) {
                linalg_run *run = linalg_rotations_next(rows, low, 1, down);
                d[low] = linalg_pair(d[low], e[low], d[low + 1], &d[low + 1], &c, &s);
                linalg_rotation(rows, run, low, c, s);
                e[low] = 0;
                at += 2 * step;
                continue;
            }
            if (left-- == 0)
                return false;
            linalg_run *run = linalg_rotations_next(rows, low, count, down);
            double      p = d[at], g = (d[at + step] - p) / (2 * off[at]);
            g = d[m] - p + off[at] / (g + copysign(linalg_hypot_1(g), g));
            p = 0;
            for (int64_t i = m - step;; i -= step) {
                const double f = s * off[i], b = c * off[i];
                const double r = linalg_rotate(g, f, &c, &s);
                if (i != m - step)
                    off[i + step] = r;
                g = d[i + step] - p;
                const double turned = (d[i] - g) * s + 2 * c * b;
                p = s * turned;
                d[i + step] = g + p;
                g = c * turned - b;
                linalg_rotation(rows, run, down ? i : i - 1, c, down ? -s : s);
                if (i == at)
                    break;
            }
            d[at] -= p;
            off[at] = g;
        }
    }
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(d[i]) <= DBL_MAX))
            return false;
    if (rows->apply)
        linalg_rotations_end(rows);
    return true;
}

/* The smaller singular value of [[f, g], [0, h]]. */
static double linalg_smaller_value(double f, double g, double h)
{
    const double fa = fabs(f), ga = fabs(g), ha = fabs(h);
    const double low = fa < ha ? fa : ha, high = fa < ha ? ha : fa;
    if (low == 0)
        return 0;
    const double as = 1 + low / high, at = (high - low) / high;
    if (ga < high) {
        const double au = (ga / high) * (ga / high);
        return low * (2 / (__builtin_sqrt(as * as + au) + __builtin_sqrt(at * at + au)));
    }
    const double au = high / ga;
    if (au == 0)
        return low * high / ga;
    const double c = 1 / (__builtin_sqrt(1 + (as * au) * (as * au)) +
                          __builtin_sqrt(1 + (at * au) * (at * au)));
    return 2 * (low * c) * au;
}

/* One sweep over rows first .. last of an upper bidiagonal matrix, from its top to its bottom, or the
 * other way where `up`; with a shift or, where it is 0, so that small values keep their digits. */
static void linalg_bidiagonal_sweep(double *d, double *e, int64_t first, int64_t last, bool up,
                                    double shift, linalg_rotations *left, linalg_rotations *right)
{
    const int64_t step = up ? -1 : 1, begin = up ? last : first, end = up ? first : last;
    double       *off = up ? e - 1 : e; /* off[i] stands between i and i + step */
    /* Going up, the transpose is worked on: left and right change their parts. */
    linalg_rotations *near = up ? left : right, *far = up ? right : left;
    linalg_run *near_run = linalg_rotations_next(near, first, last - first, up);
    linalg_run *far_run = linalg_rotations_next(far, first, last - first, up);
    const double sign = up ? -1 : 1;
    double       c = 1, s = 0, c_far = 1, s_far = 0;
    if (shift == 0) {
        for (int64_t i = begin; i != end; i += step) {
            const double r = linalg_rotate(d[i] * c, off[i], &c, &s);
            if (i != begin)
                off[i - step] = s_far * r;
            d[i] = linalg_rotate(c_far * r, d[i + step] * s, &c_far, &s_far);
            linalg_rotation(near, near_run, up ? i - 1 : i, c, sign * s);
            linalg_rotation(far, far_run, up ? i - 1 : i, c_far, sign * s_far);
        }
        const double h = d[end] * c;
        d[end] = h * c_far;
        off[end - step] = h * s_far;
        return;
    }
    double f = (fabs(d[begin]) - shift) * (copysign(1, d[begin]) + shift / d[begin]);
    double g = off[begin];
    for (int64_t i = begin; i != end; i += step) {
        double r = linalg_rotate(f, g, &c, &s);
        if (i != begin)
            off[i - step] = r;
        f = c * d[i] + s * off[i];
        off[i] = c * off[i] - s * d[i];
        g = s * d[i + step];
        d[i + step] = c * d[i + step];
        d[i] = linalg_rotate(f, g, &c_far, &s_far);
        f = c_far * off[i] + s_far * d[i + step];
        d[i + step] = c_far * d[i + step] - s_far * off[i];
        if (i + step != end) {
            g = s_far * off[i + step];
            off[i + step] = c_far * off[i + step];
        }
        linalg_rotation(near, near_run, up ? i - 1 : i, c, sign * s);
        linalg_rotation(far, far_run, up ? i - 1 : i, c_far, sign * s_far);
    }
    off[end - step] = f;
}

/* The singular values of the upper bidiagonal matrix of d [n] and e [n - 1], of size 1 at most, to d, of
 * either sign and in no order; rows of U^T and V^T become rows of singular vectors.  The implicit QR of
 * Demmel and Kahan (LAPACK's bdsqr). */
static bool linalg_bidiagonal(double *d, double *e, int64_t n, double epsilon, linalg_rotations *left,
                              linalg_rotations *right)
{
    double tolerance = pow(epsilon, -0.125);
    tolerance = epsilon * (tolerance < 10 ? 10 : tolerance > 100 ? 100 : tolerance);
    double least = n > 0 ? fabs(d[0]) : 0, bound = least;
    for (int64_t i = 1; i < n && bound > 0; i++) {
        least = fabs(d[i]) * (least / (least + fabs(e[i - 1])));
        bound = least < bound ? least : bound;
    }
    const double floor_value = 6.0 * (double)n * (double)n * DBL_MIN;
    double       threshold = tolerance * bound / __builtin_sqrt((double)(n > 0 ? n : 1));
    threshold = threshold > floor_value ? threshold : floor_value;

    double  left_over = 6.0 * (double)n * (double)n + 60;
    int64_t last = n - 1, old_first = -1, old_last = -1;
    bool    up = false;
    while (last > 0) {
        if (!(left_over > 0))
            return false;
        /* The last block without a zero beside its diagonal. */
        double  largest = fabs(d[last]);
        int64_t first = last;
        for (; first > 0; first--) {
            if (fabs(e[first - 1]) <= threshold) {
                e[first - 1] = 0;
                break;
            }
            const double of_d = fabs(d[first - 1]), of_e = fabs(e[first - 1]);
            largest = of_d > largest ? of_d : largest;
            largest = of_e > largest ? of_e : largest;
        }
        if (first == last) {
            last--;
            continue;
        }
        if (first > old_last || last < old_first)
            up = fabs(d[first]) < fabs(d[last]);
        /* Converged at the end of a sweep, or anywhere on the way. */
        const int64_t step = up ? -1 : 1, begin = up ? last : first, end = up ? first : last;
        double       *off = up ? e - 1 : e;
        if (fabs(off[end - step]) <= tolerance * fabs(d[end])) {
            off[end - step] = 0;
            continue;
        }
        double mu = fabs(d[begin]), smallest = mu;
        bool   split = false;
        for (int64_t i = begin; i != end && !split; i += step) {
            split = fabs(off[i]) <= tolerance * mu;
            if (split)
                off[i] = 0;
            mu = fabs(d[i + step]) * (mu / (mu + fabs(off[i])));
            smallest = mu < smallest ? mu : smallest;
        }
        if (split)
            continue;
        old_first = first;
        old_last = last;
        double       shift = 0;
        const double limit = 0.01 * tolerance > epsilon ? 0.01 * tolerance : epsilon;
        if ((double)n * tolerance * (smallest / largest) > limit) {
            const double size = fabs(d[begin]);
            shift = up ? linalg_smaller_value(d[first], e[first], d[first + 1])
                       : linalg_smaller_value(d[last - 1], e[last - 1], d[last]);
            if (size > 0 && (shift / size) * (shift / size) < epsilon)
                shift = 0;
        }
        left_over -= (double)(last - first);
        linalg_bidiagonal_sweep(d, e, first, last, up, shift, left, right);
        if (fabs(off[end - step]) <= threshold)
            off[end - step] = 0;
    }
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(d[i]) <= DBL_MAX))
            return false;
    if (left->apply)
        linalg_rotations_end(left);
    if (right->apply)
        linalg_rotations_end(right);
    return true;
}

/* order: the places of d [n] from the smallest on, or descending the largest; equals stay in order. */
static void linalg_order(const double *d, int64_t n, bool descending, int64_t *order, int64_t *room)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t first = 0; first < n; first += 2 * run) {
            const int64_t middle = n - first < run ? n : first + run;
            const int64_t end = n - middle < run ? n : middle + run;
            int64_t       a = first, b = middle;
            for (int64_t i = first; i < end; i++) {
                bool second = b < end && a == middle;
                if (b < end && a < middle)
                    second = descending ? d[order[b]] > d[order[a]] : d[order[b]] < d[order[a]];
                room[i] = order[second ? b++ : a++];
            }
        }
        memcpy(order, room, (size_t)n * sizeof *order);
    }
}
