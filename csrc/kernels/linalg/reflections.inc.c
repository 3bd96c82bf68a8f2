/* linalg/reflections.inc.c - Householder reflections H = I - tau v v^T, alone and in blocks, and QR.
 *
 * Vectors are kept as rows, with zeros before their first item, which is 1.  A block of them is
 * H_0 H_1 ... = I - V T V^T with T upper triangular (the compact WY form).
 *
 * Included once per dtype by linalg/typed.inc.c, which says what T, V, N and LANES are.
 */

/* Makes of x [n] the vector of the reflection that takes x to (beta, 0, 0 ...): the signs of beta and x[0]
 * differ.  tau is 0 where there is nothing to do.  Neither overflows, and tiny ones keep their digits. */
static T N(linalg_reflection)(T *x, int64_t n, T *tau)
{
    const T small = DTYPE == HYB_F64 ? (T)1e-280 : (T)1e-28, large = 1 / small;
    T       alpha = n > 0 ? x[0] : 0, tail = n > 1 ? N(linalg_dot)(x + 1, x + 1, n - 1) : 0;
    T       half = 1, rest = 1; /* powers of 2 whose product x was divided by */
    *tau = 0;
    if (n > 0)
        x[0] = 1;
    if (!(tail > small && tail < large && alpha * alpha < large)) {
        T largest = 0;
        for (int64_t i = 1; i < n; i++) {
            const T size = x[i] < 0 ? -x[i] : x[i];
            largest = size > largest ? size : largest;
        }
        if (largest == 0 && tail == 0)
            return alpha;
        const T size = alpha < 0 ? -alpha : alpha;
        int     exponent = 0;
        frexp((double)(size > largest ? size : largest), &exponent);
        half = (T)ldexp(1, exponent / 2);
        rest = (T)ldexp(1, exponent - exponent / 2);
        alpha = alpha / half / rest;
        for (int64_t i = 1; i < n; i++)
            x[i] = x[i] / half / rest;
        tail = N(linalg_dot)(x + 1, x + 1, n - 1);
        if (tail == 0) { /* beside alpha it is none */
            for (int64_t i = 1; i < n; i++)
                x[i] = 0;
            return alpha * half * rest;
        }
    }
    const T norm = N(linalg_root)(alpha * alpha + tail), beta = alpha < 0 ? norm : -norm;
    *tau = (beta - alpha) / beta;
    N(linalg_scale)(x + 1, 1 / (alpha - beta), n - 1);
    return beta * half * rest;
}

/* c -= tau v (v^T c) of c [m, n]. */
static void N(linalg_reflect)(T *c, int64_t ld, const T *v, T tau, int64_t m, int64_t n)
{
    if (tau == 0)
        return;
    int64_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
        V sum[4] = {{0}, {0}, {0}, {0}};
        for (int64_t i = 0; i < m; i++)
#pragma GCC unroll 4
            for (int p = 0; p < 4; p++)
                sum[p] += N(v_splat)(v[i]) * N(v_load)(c + i * ld + j + p * LANES);
#pragma GCC unroll 4
        for (int p = 0; p < 4; p++)
            sum[p] *= N(v_splat)(tau);
        for (int64_t i = 0; i < m; i++)
#pragma GCC unroll 4
            for (int p = 0; p < 4; p++) {
                T *to = c + i * ld + j + p * LANES;
                N(v_store)(to, N(v_load)(to) - N(v_splat)(v[i]) * sum[p]);
            }
    }
    for (; j < n; j += LANES) {
        const int64_t count = matmul_smaller(n - j, LANES);
        V             sum = {0};
        if (count == LANES) {
            for (int64_t i = 0; i < m; i++)
                sum += N(v_splat)(v[i]) * N(v_load)(c + i * ld + j);
            sum *= N(v_splat)(tau);
            for (int64_t i = 0; i < m; i++)
                N(v_store)(c + i * ld + j, N(v_load)(c + i * ld + j) - N(v_splat)(v[i]) * sum);
        } else {
            for (int64_t i = 0; i < m; i++)
                sum += N(v_splat)(v[i]) * N(v_load_part)(c + i * ld + j, count);
            sum *= N(v_splat)(tau);
            for (int64_t i = 0; i < m; i++) {
                const V row = N(v_load_part)(c + i * ld + j, count);
                N(v_store_part)(c + i * ld + j, row - N(v_splat)(v[i]) * sum, count);
            }
        }
    }
}

/* Reflections [0, count) of vectors of m items; that of number i begins at i + `off`. */
typedef struct {
    T      *v; /* [count, ld] */
    int64_t ld, m, count, off;
    T      *tau;
    T      *t;    /* [count, LINALG_BLOCK]: T of each block */
    T      *room; /* gram [LINALG_BLOCK, LINALG_BLOCK], two of [LINALG_BLOCK, columns], of a product */
} N(linalg_reflections);

/* Items beside v: tau and t of `count`, and room for c of up to n columns. */
static double N(linalg_reflection_items)(int64_t count, int64_t n)
{
    const double blocks = (double)count + LINALG_BLOCK;
    return (LINALG_BLOCK + 1) * blocks + LINALG_BLOCK * (double)LINALG_BLOCK +
           2.0 * LINALG_BLOCK * (double)(n + 2 * LANES) + N(linalg_room)(n + LINALG_BLOCK);
}

static N(linalg_reflections) N(linalg_reflections_at)(T *v, int64_t ld, int64_t m, int64_t count,
                                                      int64_t off, T *rest)
{
    const int64_t blocks = count + LINALG_BLOCK;
    return (N(linalg_reflections)){.v = v, .ld = ld, .m = m, .count = count, .off = off, .tau = rest,
                                   .t = rest + blocks, .room = rest + (LINALG_BLOCK + 1) * blocks};
}

/* T of the block that begins at `first`. */
static void N(linalg_block)(const N(linalg_reflections) *r, int64_t first)
{
    const int64_t count = matmul_smaller(r->count - first, LINALG_BLOCK), from = first + r->off;
    const T      *v = r->v + first * r->ld + from;
    T            *gram = r->room, *t = r->t + first * LINALG_BLOCK;
    N(linalg_multiply)((N(linalg_product)){
        .a = v, .b = v, .c = gram, .m = count, .n = count, .k = r->m - from, .a_row = r->ld,
        .a_col = 1, .b_row = 1, .b_col = r->ld, .c_row = LINALG_BLOCK, .sign = 1,
        .room = gram + LINALG_BLOCK * LINALG_BLOCK});
    for (int64_t j = 0; j < count; j++) {
        const T tau = r->tau[first + j];
        for (int64_t i = 0; i < count; i++) {
            T sum = 0;
            for (int64_t l = i; l < j; l++)
                sum += t[i * LINALG_BLOCK + l] * gram[l * LINALG_BLOCK + j];
            if (i >= j)
                t[i * LINALG_BLOCK + j] = i == j ? tau : 0;
            else
                t[i * LINALG_BLOCK + j] = -tau * sum;
        }
    }
}

/* c [m, n] = (I - V T V^T) c, or with T^T, for the block that begins at `first`; c stands for the rows
 * from the block's first one on. */
static void N(linalg_apply_block)(const N(linalg_reflections) *r, int64_t first, bool transposed, T *c,
                                  int64_t c_row, int64_t n)
{
    const int64_t count = matmul_smaller(r->count - first, LINALG_BLOCK), from = first + r->off;
    const int64_t ld = n + LANES, m = r->m - from;
    const T      *v = r->v + first * r->ld + from, *t = r->t + first * LINALG_BLOCK;
    T            *y = r->room + LINALG_BLOCK * LINALG_BLOCK, *z = y + LINALG_BLOCK * ld;
    T            *room = z + LINALG_BLOCK * ld;
    N(linalg_multiply)((N(linalg_product)){
        .a = v, .b = c, .c = y, .m = count, .n = n, .k = m, .a_row = r->ld, .a_col = 1,
        .b_row = c_row, .b_col = 1, .c_row = ld, .sign = 1, .room = room});
    N(linalg_multiply)((N(linalg_product)){
        .a = t, .b = y, .c = z, .m = count, .n = n, .k = count,
        .a_row = transposed ? 1 : LINALG_BLOCK, .a_col = transposed ? LINALG_BLOCK : 1, .b_row = ld,
        .b_col = 1, .c_row = ld, .sign = 1, .room = room});
    N(linalg_multiply)((N(linalg_product)){
        .a = v, .b = z, .c = c, .m = m, .n = n, .k = count, .a_row = 1, .a_col = r->ld, .b_row = ld,
        .b_col = 1, .c_row = c_row, .sign = -1, .add = true, .room = room});
}

/* c [m, n] = H_0 H_1 ... c; `identity`: c has ones on its diagonal and zeros elsewhere. */
static void N(linalg_apply)(const N(linalg_reflections) *r, T *c, int64_t c_row, int64_t n, bool identity)
{
    if (r->count <= LINALG_FEW) {
        for (int64_t i = r->count - 1; i >= 0; i--) {
            const int64_t row = i + r->off, col = identity ? row : 0;
            N(linalg_reflect)(c + row * c_row + col, c_row, r->v + i * r->ld + row, r->tau[i],
                              r->m - row, n - col);
        }
        return;
    }
    for (int64_t first = (r->count - 1) / LINALG_BLOCK * LINALG_BLOCK; first >= 0;
         first -= LINALG_BLOCK) {
        const int64_t row = first + r->off, col = identity ? row : 0;
        N(linalg_block)(r, first);
        N(linalg_apply_block)(r, first, false, c + row * c_row + col, c_row, n - col);
    }
}

/* QR ------------------------------------------------------------------------------------------- */

/* w [m, n] becomes R, where what is below the diagonal does not matter; Q is the reflections, as many as
 * the smaller of m and n. */
static void N(linalg_qr)(const N(linalg_reflections) *r, T *w, int64_t ld, int64_t n)
{
    const int64_t m = r->m, count = r->count;
    for (int64_t first = 0; first < count; first += LINALG_BLOCK) {
        const int64_t end = matmul_smaller(first + LINALG_BLOCK, count);
        const bool    few = count <= LINALG_FEW;
        const int64_t columns = few ? n : end;
        for (int64_t k = first; k < end; k++) {
            T *v = r->v + k * r->ld;
            for (int64_t i = first; i < m; i++)
                v[i] = i < k ? 0 : w[i * ld + k];
            const T       beta = N(linalg_reflection)(v + k, m - k, &r->tau[k]);
            const int64_t start = (k + 1) / LANES * LANES; /* the same vectors each time */
            N(linalg_reflect)(w + k * ld + start, ld, v + k, r->tau[k], m - k, columns - start);
            w[k * ld + k] = beta;
        }
        if (!few && end < n) {
            N(linalg_block)(r, first);
            N(linalg_apply_block)(r, first, true, w + first * ld + end, ld, n - end);
        }
    }
}

static hyb_status N(qr_of)(const hyb_call *call, int64_t begin, int64_t end, bool complete)
{
    const hyb_layout *layout = &call->layout[0];
    const int64_t     m = linalg_size(layout, 2), n = linalg_size(layout, 1), k = m < n ? m : n;
    const int64_t     size = complete ? m : k, ld = N(linalg_ld)(n), v_ld = N(linalg_ld)(m);
    T *w = linalg_scratch((double)m * (double)ld + (double)k * (double)v_ld +
                              N(linalg_reflection_items)(k, n > size ? n : size),
                          sizeof(T));
    if (!w)
        return linalg_no_memory(m, n);
    T *v = w + m * ld;
    const N(linalg_reflections) r = N(linalg_reflections_at)(v, v_ld, m, k, 0, v + k * v_ld);
    for (int64_t i = begin; i < end; i++) {
        T *q = (T *)call->data[1] + i * m * size, *upper = (T *)call->data[2] + i * size * n;
        N(linalg_copy)(w, ld, (const T *)call->data[0] + i * m * n, n, m, n, 1);
        N(linalg_qr)(&r, w, ld, n);
        for (int64_t row = 0; row < size; row++) {
            const int64_t zeros = row < n ? row : n;
            memset(upper + row * n, 0, (size_t)zeros * sizeof(T));
            memcpy(upper + row * n + zeros, w + row * ld + zeros, (size_t)(n - zeros) * sizeof(T));
        }
        N(linalg_identity)(q, size, m, size);
        N(linalg_apply)(&r, q, size, size, true);
    }
    return HYB_OK;
}

HYB_KERNEL(N(qr)) { return N(qr_of)(call, begin, end, false); }
HYB_KERNEL(N(qr_complete)) { return N(qr_of)(call, begin, end, true); }

HYB_PREPARE(N(prepare_qr))
{
    return linalg_prepare(call, DTYPE, false, 1, 2, (const char *[]){"rk", "kc"}, 4, range);
}

HYB_PREPARE(N(prepare_qr_complete))
{
    return linalg_prepare(call, DTYPE, false, 1, 2, (const char *[]){"rr", "rc"}, 4, range);
}
