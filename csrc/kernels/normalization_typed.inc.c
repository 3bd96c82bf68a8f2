/* normalization_typed.inc.c - normalised rows of one dtype; included by normalization.inc.c once per
 * dtype, which defines T, V (a vector of T), M (its mask), I (a lane of M), N, LANES and DTYPE.
 */

static inline __attribute__((always_inline)) V N(norm_of)(norm_term what, V x, V g, V mean)
{
    switch (what) {
    case NORM_X: return x;
    case NORM_SQUARES: return (x - mean) * (x - mean);
    case NORM_G: return g;
    default: return g * (x - mean);
    }
}

/* The sum of the terms of one row, in every lane. */
static inline __attribute__((always_inline)) V
N(norm_sum)(norm_term what, const T *x, const T *g, int64_t n, V mean)
{
#define TERM(at) \
    N(norm_of)(what, N(v_load)(x + (at)), N(v_load)(g + (at)), mean)
    const int64_t full = n - n % LANES;
    M lane;
    memcpy(&lane, N(softmax_lane), sizeof lane);
    const V end = N(norm_of)(what, N(v_load_part)(x + full, n - full),
                             N(v_load_part)(g + full, n - full), mean);
    V total = N(v_select)((M)(lane < (I)(n - full)), end, (V){0});
    for (int64_t i = 0; i < full;) {
        const int64_t stop = full - i < NORM_BLOCK * LANES ? full : i + NORM_BLOCK * LANES;
        V a = {0}, b = {0}, c = {0}, d = {0};
        for (; i + 4 * LANES <= stop; i += 4 * LANES) {
            a += TERM(i);
            b += TERM(i + LANES);
            c += TERM(i + 2 * LANES);
            d += TERM(i + 3 * LANES);
        }
        for (; i < stop; i += LANES)
            a += TERM(i);
        total += (a + b) + (c + d);
    }
    return N(softmax_sum_of_lanes)(total);
#undef TERM
}

/* The mean (0 unless centered) and the scale of a row, in every lane. */
typedef struct { V mean, scale; } N(norm_row);

static inline __attribute__((always_inline)) N(norm_row)
N(norm_scan)(const T *x, int64_t n, T eps, bool centered)
{
    N(norm_row) row = {.mean = {0}};
    if (centered)
        row.mean = N(norm_sum)(NORM_X, x, x, n, row.mean) / (T)n;
    const V squares = N(norm_sum)(NORM_SQUARES, x, x, n, row.mean);
    row.scale = 1 / N(v_sqrt)(squares / (T)n + eps);
    return row;
}

static inline __attribute__((always_inline)) void
N(norm_rows)(const hyb_call *call, int64_t begin, int64_t end, bool centered)
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    const T eps = (T)call->attrs[0].f;
    const T *weight = call->data[1], *bias = centered ? call->data[2] : weight;
#define NORMAL(x, w, b) (centered ? ((x) - row.mean) * row.scale * (w) + (b) : (x) * row.scale * (w))
    for (int64_t r = begin; r < end; r++) {
        const T *x = (const T *)call->data[0] + r * n;
        T *y = (T *)call->data[centered ? 3 : 2] + r * n;
        const N(norm_row) row = N(norm_scan)(x, n, eps, centered);
        for (int64_t i = 0; i < full; i += LANES)
            N(v_store)(y + i, NORMAL(N(v_load)(x + i), N(v_load)(weight + i), N(v_load)(bias + i)));
        const V w = N(v_load_part)(weight + full, n - full), b = N(v_load_part)(bias + full, n - full);
        N(v_store_part)(y + full, NORMAL(N(v_load_part)(x + full, n - full), w, b), n - full);
    }
#undef NORMAL
}

HYB_KERNEL(N(layer_norm))
{
    N(norm_rows)(call, begin, end, true);
    return HYB_OK;
}

HYB_KERNEL(N(rms_norm))
{
    N(norm_rows)(call, begin, end, false);
    return HYB_OK;
}

static inline __attribute__((always_inline)) void
N(norm_pull)(const hyb_call *call, int64_t begin, int64_t end, bool centered)
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    const T eps = (T)call->attrs[0].f;
#define PULLED(x, g) (((g) - level) - ((x) - row.mean) * slope) * row.scale
    for (int64_t r = begin; r < end; r++) {
        const T *g = (const T *)call->data[0] + r * n, *x = (const T *)call->data[1] + r * n;
        T *y = (T *)call->data[2] + r * n;
        const N(norm_row) row = N(norm_scan)(x, n, eps, centered);
        const V level = centered ? N(norm_sum)(NORM_G, x, g, n, row.mean) / (T)n : (V){0};
        const V along = N(norm_sum)(NORM_G_TIMES_X, x, g, n, row.mean) / (T)n;
        const V slope = along * row.scale * row.scale;
        for (int64_t i = 0; i < full; i += LANES)
            N(v_store)(y + i, PULLED(N(v_load)(x + i), N(v_load)(g + i)));
        const V last = N(v_load_part)(x + full, n - full);
        N(v_store_part)(y + full, PULLED(last, N(v_load_part)(g + full, n - full)), n - full);
    }
#undef PULLED
}

HYB_KERNEL(N(layer_norm_pull))
{
    N(norm_pull)(call, begin, end, true);
    return HYB_OK;
}

HYB_KERNEL(N(rms_norm_pull))
{
    N(norm_pull)(call, begin, end, false);
    return HYB_OK;
}

/* Operand 0 and the output are [rows, n]; those between are [n], or [rows, n] too for a pull. */
static hyb_status N(norm_prepare)(const hyb_call *call, int n_in, bool pull, hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 2)) != HYB_OK)
        return status;
    const int64_t rows = call->layout[0].shape[0], n = call->layout[0].shape[1];
    for (int i = 1; i <= n_in; i++) {
        const int rank = pull || i == n_in ? 2 : 1;
        if ((status = require_dense(call, i, DTYPE, rank)) != HYB_OK ||
            (status = require_size(call, i, rank - 1, n)) != HYB_OK ||
            (rank == 2 && (status = require_size(call, i, 0, rows)) != HYB_OK))
            return status;
    }
    *range = (hyb_range){n > 0 ? rows : 0, grain_of(n / 2 + 32)};
    return HYB_OK;
}

HYB_PREPARE(N(prepare_layer_norm)) { return N(norm_prepare)(call, 3, false, range); }
HYB_PREPARE(N(prepare_rms_norm)) { return N(norm_prepare)(call, 2, false, range); }
HYB_PREPARE(N(prepare_norm_pull)) { return N(norm_prepare)(call, 2, true, range); }

#undef T
#undef V
#undef M
#undef I
#undef N
#undef LANES
#undef DTYPE
