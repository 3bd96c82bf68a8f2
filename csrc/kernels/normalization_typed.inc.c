/* normalization_typed.inc.c - normalised rows of one dtype; included by normalization.inc.c once
 * per dtype (each_float.inc.c).
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

/* The sums of the terms of one row, lane by lane. */
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
    return total;
#undef TERM
}

/* The sum of the terms over all pieces, in every lane. */
static inline __attribute__((always_inline)) V
N(norm_total)(norm_term what, const T *x, const T *g, norm_span span, V mean)
{
    V total = N(norm_sum)(what, x, g, span.n, mean);
    for (int64_t piece = 1; piece < span.pieces; piece++)
        total += N(norm_sum)(what, x + piece * span.apart, g + piece * span.apart, span.n, mean);
    return N(softmax_sum_of_lanes)(total);
}

static inline __attribute__((always_inline)) V
N(norm_mean)(norm_term what, const T *x, const T *g, norm_span span, V mean)
{
    return N(norm_total)(what, x, g, span, mean) / (T)(span.n * span.pieces);
}

/* The mean (0 unless centered), the mean square of what is left, and the scale, in every lane. */
typedef struct { V mean, variance, scale; } N(norm_row);

static inline __attribute__((always_inline)) N(norm_row)
N(norm_scan)(const T *x, norm_span span, T eps, bool centered)
{
    N(norm_row) row = {.mean = {0}};
    if (centered)
        row.mean = N(norm_mean)(NORM_X, x, x, span, row.mean);
    row.variance = N(norm_mean)(NORM_SQUARES, x, x, span, row.mean);
    row.scale = 1 / N(v_sqrt)(row.variance + eps);
    return row;
}

static inline __attribute__((always_inline)) void
N(norm_rows)(const hyb_call *call, int64_t begin, int64_t end, bool centered)
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    const T eps = (T)call->attrs[0].f;
    const T *weight = call->data[1], *bias = centered ? call->data[2] : weight;
#define NORMAL(x, w, b) \
    (centered ? ((x) - row.mean) * row.scale * (w) + (b) : (x) * row.scale * (w))
    for (int64_t r = begin; r < end; r++) {
        const T *x = (const T *)call->data[0] + r * n;
        T *y = (T *)call->data[centered ? 3 : 2] + r * n;
        const N(norm_row) row = N(norm_scan)(x, (norm_span){n, 1, 0}, eps, centered);
        for (int64_t i = 0; i < full; i += LANES)
            N(v_store)(y + i, NORMAL(N(v_load)(x + i), N(v_load)(weight + i), N(v_load)(bias + i)));
        const V w = N(v_load_part)(weight + full, n - full);
        const V b = N(v_load_part)(bias + full, n - full);
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
N(norm_pull_rows)(const hyb_call *call, int64_t begin, int64_t end, bool centered)
{
#define PULLED(x, g) (((g) - level) - ((x) - row.mean) * slope) * row.scale
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    const norm_span span = {n, 1, 0};
    for (int64_t r = begin; r < end; r++) {
        const T *g = (const T *)call->data[0] + r * n, *x = (const T *)call->data[1] + r * n;
        T *y = (T *)call->data[2] + r * n;
        const N(norm_row) row = N(norm_scan)(x, span, (T)call->attrs[0].f, centered);
        const V level = centered ? N(norm_mean)(NORM_G, x, g, span, row.mean) : (V){0};
        const V along = N(norm_mean)(NORM_G_TIMES_X, x, g, span, row.mean);
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
    N(norm_pull_rows)(call, begin, end, true);
    return HYB_OK;
}

HYB_KERNEL(N(rms_norm_pull))
{
    N(norm_pull_rows)(call, begin, end, false);
    return HYB_OK;
}

/* Channels: x is [count, channels, n], and a channel `count` pieces of n elements. */

/* What is known of some elements of a channel: their number, the mean of x, the sum and the mean of
 * g, and the sums of the squares of x and of its products with g, both taken from their means.  In
 * every lane. */
typedef struct {
    T count;
    V mean, total, level, squares, along;
} N(norm_moments);

/* Those of few elements, which stay in the first-level cache meanwhile. */
static inline __attribute__((always_inline)) N(norm_moments)
N(norm_moments_of)(const T *x, const T *g, bool pulls, norm_span span)
{
    N(norm_moments) m = {.count = (T)(span.n * span.pieces)};
    m.mean = N(norm_mean)(NORM_X, x, x, span, (V){0});
    m.squares = N(norm_total)(NORM_SQUARES, x, x, span, m.mean);
    if (pulls) {
        m.total = N(norm_total)(NORM_G, x, g, span, m.mean);
        m.level = m.total / m.count;
        m.along = N(norm_total)(NORM_G_TIMES_X, x, g, span, m.mean);
    }
    return m;
}

/* Those of all elements of a channel, block by block, each added to those before it. */
static inline __attribute__((always_inline)) N(norm_moments)
N(norm_channel_scan)(const T *x, const T *g, bool pulls, norm_span span)
{
    const int64_t pieces = span.n < NORM_ELEMENTS ? NORM_ELEMENTS / span.n : 1;
    const int64_t length = span.n < NORM_ELEMENTS ? span.n : NORM_ELEMENTS;
    N(norm_moments) all = {0};
    for (int64_t piece = 0; piece < span.pieces; piece += pieces)
        for (int64_t i = 0; i < span.n; i += length) {
            const int64_t at = piece * span.apart + i;
            const norm_span block = {span.n - i < length ? span.n - i : length,
                                     span.pieces - piece < pieces ? span.pieces - piece : pieces,
                                     span.apart};
            const N(norm_moments) m = N(norm_moments_of)(x + at, g + at, pulls, block);
            if (all.count == 0) {
                all = m;
                continue;
            }
            const T count = all.count + m.count, share = m.count / count;
            const V away = m.mean - all.mean, higher = m.level - all.level;
            all.squares += m.squares + away * away * (all.count * share);
            all.along += m.along + away * higher * (all.count * share);
            all.mean += away * share;
            all.level += higher * share;
            all.total += m.total;
            all.count = count;
        }
    return all;
}

static inline V N(norm_scale)(const N(norm_moments) *m, T eps)
{
    return 1 / N(v_sqrt)(m->squares / m->count + eps);
}

HYB_KERNEL(N(channel_norm))
{
    const norm_span span = norm_channel(&call->layout[0]);
    const int64_t n = span.n, full = n - n % LANES;
    const T *weight = call->data[1], *bias = call->data[2];
    for (int64_t c = begin; c < end; c++) {
        const T *x = (const T *)call->data[0] + c * n;
        T *y = (T *)call->data[3] + c * n;
        const N(norm_moments) m = N(norm_channel_scan)(x, x, false, span);
        const V scale = N(norm_scale)(&m, (T)call->attrs[0].f);
        const V w = N(v_splat)(weight[c]), b = N(v_splat)(bias[c]);
#define NORMAL(x) (((x) - m.mean) * scale * w + b)
        for (int64_t piece = 0; piece < span.pieces; piece++) {
            for (int64_t i = 0; i < full; i += LANES)
                N(v_store)(y + i, NORMAL(N(v_load)(x + i)));
            N(v_store_part)(y + full, NORMAL(N(v_load_part)(x + full, n - full)), n - full);
            x += span.apart, y += span.apart;
        }
#undef NORMAL
    }
    return HYB_OK;
}

HYB_KERNEL(N(channel_norm_pull))
{
    const norm_span span = norm_channel(&call->layout[0]);
    const int64_t n = span.n, full = n - n % LANES;
    const T *weight = call->data[2];
    T *by_weight = call->data[4], *by_bias = call->data[5];
    for (int64_t c = begin; c < end; c++) {
        const T *g = (const T *)call->data[0] + c * n, *x = (const T *)call->data[1] + c * n;
        T *y = (T *)call->data[3] + c * n;
        const N(norm_moments) m = N(norm_channel_scan)(x, g, true, span);
        const V scale = N(norm_scale)(&m, (T)call->attrs[0].f);
        const V slope = m.along / m.count * scale * scale, w = N(v_splat)(weight[c]) * scale;
        by_weight[c] = (m.along * scale)[0];
        by_bias[c] = m.total[0];
#define PULLED(x, g) ((((g) - m.level) - ((x) - m.mean) * slope) * w)
        for (int64_t piece = 0; piece < span.pieces; piece++) {
            for (int64_t i = 0; i < full; i += LANES)
                N(v_store)(y + i, PULLED(N(v_load)(x + i), N(v_load)(g + i)));
            const V last = N(v_load_part)(x + full, n - full);
            N(v_store_part)(y + full, PULLED(last, N(v_load_part)(g + full, n - full)), n - full);
            x += span.apart, g += span.apart, y += span.apart;
        }
#undef PULLED
    }
    return HYB_OK;
}

HYB_KERNEL(N(channel_moments))
{
    const norm_span span = norm_channel(&call->layout[0]);
    T *mean = call->data[1], *variance = call->data[2];
    for (int64_t c = begin; c < end; c++) {
        const T *x = (const T *)call->data[0] + c * span.n;
        const N(norm_moments) m = N(norm_channel_scan)(x, x, false, span);
        mean[c] = m.mean[0];
        variance[c] = (m.squares / m.count)[0];
    }
    return HYB_OK;
}

/* Operand 0 is [count, channels, n], and so are the others but those whose bits are set in
 * `columns`: they are [channels]. */
static hyb_status N(channel_prepare)(const hyb_call *call, int operands, unsigned columns,
                                     hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 3)) != HYB_OK)
        return status;
    const norm_span span = norm_channel(&call->layout[0]);
    const int64_t channels = call->layout[0].shape[1];
    for (int i = 1; i < operands; i++) {
        const bool column = columns >> i & 1;
        if ((status = require_dense(call, i, DTYPE, column ? 1 : 3)) != HYB_OK ||
            (column && (status = require_size(call, i, 0, channels)) != HYB_OK))
            return status;
        if (!column && !hyb_same_shape(&call->layout[0], &call->layout[i]))
            return hyb_fail(HYB_BAD_ARGUMENT, "operand %d has not the first one's shape", i);
    }
    if (span.n == 0 || span.pieces == 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "a channel without elements has no mean");
    const int64_t cost = span.pieces > 65536 / span.n ? 65536 : span.pieces * span.n;
    *range = (hyb_range){channels, grain_of(cost / 2 + 32)};
    return HYB_OK;
}

HYB_PREPARE(N(prepare_channel_norm)) { return N(channel_prepare)(call, 4, 6, range); }
HYB_PREPARE(N(prepare_channel_norm_pull)) { return N(channel_prepare)(call, 6, 52, range); }
HYB_PREPARE(N(prepare_channel_moments)) { return N(channel_prepare)(call, 3, 6, range); }

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
