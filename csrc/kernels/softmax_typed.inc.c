/* softmax_typed.inc.c - softmax of one dtype; included by softmax.inc.c once per dtype
 * (each_float.inc.c).
 */

/* The exponentials of anything less are 0. */
#define FADED (sizeof(T) == 4 ? (T)-104 : (T)-746)

#if LANES == 16
#define PARTNERS(d) SOFTMAX_PARTNERS_16(d)
#define EACH_DISTANCE(step) step(8) step(4) step(2) step(1)
#elif LANES == 8
#define PARTNERS(d) SOFTMAX_PARTNERS_8(0, d)
#define EACH_DISTANCE(step) step(4) step(2) step(1)
#elif LANES == 4
#define PARTNERS(d) SOFTMAX_PARTNERS_4(0, d)
#define EACH_DISTANCE(step) step(2) step(1)
#else
#define PARTNERS(d) SOFTMAX_PARTNERS_2(0, d)
#define EACH_DISTANCE(step) step(1)
#endif

/* The largest and the sum of all lanes, in every lane.  Maxima pass NaN over: it comes back in the
 * exponentials. */
static inline V N(softmax_largest_lane)(V v)
{
#define STEP(d) v = N(v_larger)(v, __builtin_shufflevector(v, v, PARTNERS(d)));
    EACH_DISTANCE(STEP)
#undef STEP
    return v;
}

static inline V N(softmax_sum_of_lanes)(V v)
{
#define STEP(d) v += __builtin_shufflevector(v, v, PARTNERS(d));
    EACH_DISTANCE(STEP)
#undef STEP
    return v;
}

/* The n < LANES elements that end a row; the lanes behind add nothing to a maximum or a sum. */
static inline V N(softmax_load_tail)(const T *x, int64_t n)
{
    M lane;
    memcpy(&lane, N(softmax_lane), sizeof lane);
    return N(v_select)((M)(lane < (I)n), N(v_load_part)(x, n), N(v_splat)(-(T)INFINITY));
}

/* e to a power that is small or below 0.  Powers whose exponential is 0 (masked elements are -inf)
 * are spared the last step: numbers that fade through the subnormal range cost a hundred times as
 * much as others. */
static inline V N(softmax_exp)(V power)
{
    V n;
    const V y = N(v_exp_parts)(power, &n);
    return N(v_scale_above)(y, n, power, FADED);
}

/* The largest element of a row. */
static inline T N(softmax_top)(const T *x, int64_t n)
{
    const int64_t full = n - n % LANES;
    const V end = N(softmax_load_tail)(x + full, n - full);
    V a = end, b = end, c = end, d = end;
    int64_t i = 0;
    for (; i + 4 * LANES <= full; i += 4 * LANES) {
        a = N(v_larger)(a, N(v_load)(x + i));
        b = N(v_larger)(b, N(v_load)(x + i + LANES));
        c = N(v_larger)(c, N(v_load)(x + i + 2 * LANES));
        d = N(v_larger)(d, N(v_load)(x + i + 3 * LANES));
    }
    for (; i < full; i += LANES)
        a = N(v_larger)(a, N(v_load)(x + i));
    return N(softmax_largest_lane)(N(v_larger)(N(v_larger)(a, b), N(v_larger)(c, d)))[0];
}

/* The sum of exp(x[i] - top) of a row; the exponentials themselves are kept in y, or it is NULL. */
static inline __attribute__((always_inline)) T
N(softmax_sum)(const T *x, int64_t n, T top, T *y)
{
    const int64_t full = n - n % LANES;
    V total = {0};
    if (full < n) {
        total = N(softmax_exp)(N(softmax_load_tail)(x + full, n - full) - top);
        if (y != NULL)
            N(v_store_part)(y + full, total, n - full);
    }
    for (int64_t i = 0; i < full;) {
        const int64_t stop = full - i < SOFTMAX_BLOCK * LANES ? full : i + SOFTMAX_BLOCK * LANES;
        V part = {0};
        for (; i < stop; i += LANES) {
            const V e = N(softmax_exp)(N(v_load)(x + i) - top);
            if (y != NULL)
                N(v_store)(y + i, e);
            part += e;
        }
        total += part;
    }
    return N(softmax_sum_of_lanes)(total)[0];
}

/* Some rows, at most LANES and as many as stay in cache, step by step, so that the processor need
 * not wait for the end of one row's step: the next row's is there to go on with. */
typedef struct { T top[LANES], sum[LANES]; } N(softmax_rows);

static inline int64_t N(softmax_some)(int64_t left, int64_t n)
{
    const int64_t fit = SOFTMAX_BYTES / (n * (int64_t)sizeof(T) + 1);
    const int64_t some = fit < 1 ? 1 : fit < LANES ? fit : LANES;
    return left < some ? left : some;
}

static inline __attribute__((always_inline)) void
N(softmax_scan)(const T *x, int64_t count, int64_t n, T *y, N(softmax_rows) *rows)
{
    N(v_store)(rows->sum, N(v_splat)(1)); /* those of no row */
    for (int64_t r = 0; r < count; r++)
        rows->top[r] = N(softmax_top)(x + r * n, n);
    for (int64_t r = 0; r < count; r++)
        rows->sum[r] = N(softmax_sum)(x + r * n, n, rows->top[r], y != NULL ? y + r * n : NULL);
}

HYB_KERNEL(N(softmax))
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    for (int64_t first = begin; first < end;) {
        T *y = (T *)call->data[1] + first * n;
        const int64_t count = N(softmax_some)(end - first, n);
        N(softmax_rows) rows;
        N(softmax_scan)((const T *)call->data[0] + first * n, count, n, y, &rows);
        N(v_store)(rows.sum, 1 / N(v_load)(rows.sum));
        for (int64_t r = 0; r < count; r++, y += n) {
            const T scale = rows.sum[r];
            for (int64_t i = 0; i < full; i += LANES)
                N(v_store)(y + i, N(v_load)(y + i) * scale);
            if (full < n)
                N(v_store_part)(y + full, N(v_load_part)(y + full, n - full) * scale, n - full);
        }
        first += count;
    }
    return HYB_OK;
}

HYB_KERNEL(N(log_softmax))
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    for (int64_t first = begin; first < end;) {
        const T *x = (const T *)call->data[0] + first * n;
        T *y = (T *)call->data[1] + first * n;
        const int64_t count = N(softmax_some)(end - first, n);
        N(softmax_rows) rows;
        N(softmax_scan)(x, count, n, NULL, &rows);
        N(v_store)(rows.sum, N(v_log)(N(v_load)(rows.sum)));
        for (int64_t r = 0; r < count; r++, x += n, y += n) {
            const T top = rows.top[r], log_sum = rows.sum[r];
            for (int64_t i = 0; i < full; i += LANES)
                N(v_store)(y + i, (N(v_load)(x + i) - top) - log_sum);
            if (full == n)
                continue;
            const V last = N(v_load_part)(x + full, n - full);
            N(v_store_part)(y + full, (last - top) - log_sum, n - full);
        }
        first += count;
    }
    return HYB_OK;
}

static hyb_status N(require_class)(int64_t target, int64_t row, int64_t n)
{
    if (target >= 0 && target < n)
        return HYB_OK;
    return hyb_fail(HYB_BAD_INDEX,
                    "target %lld at position %lld is out of range for %lld classes",
                    (long long)target, (long long)row, (long long)n);
}

static hyb_status N(require_classes)(const int64_t *target, int64_t first, int64_t count, int64_t n)
{
    hyb_status status = HYB_OK;
    for (int64_t r = first; status == HYB_OK && r < first + count; r++)
        status = N(require_class)(target[r], r, n);
    return status;
}

HYB_KERNEL(N(class_at))
{
    const int64_t n = call->layout[0].shape[1];
    const int64_t *target = call->data[1];
    T *y = call->data[2];
    for (int64_t r = begin; r < end; r++) {
        const hyb_status status = N(require_class)(target[r], r, n);
        if (status != HYB_OK)
            return status;
        y[r] = ((const T *)call->data[0])[r * n + target[r]];
    }
    return HYB_OK;
}

HYB_KERNEL(N(cross_entropy))
{
    const int64_t n = call->layout[0].shape[1];
    const int64_t *target = call->data[1];
    T *y = call->data[2];
    for (int64_t first = begin; first < end;) {
        const T *x = (const T *)call->data[0] + first * n;
        const int64_t count = N(softmax_some)(end - first, n);
        const hyb_status status = N(require_classes)(target, first, count, n);
        if (status != HYB_OK)
            return status;
        N(softmax_rows) rows;
        N(softmax_scan)(x, count, n, NULL, &rows);
        N(v_store)(rows.sum, N(v_log)(N(v_load)(rows.sum)));
        for (int64_t r = 0; r < count; r++, x += n)
            y[first + r] = rows.sum[r] - (x[target[first + r]] - rows.top[r]);
        first += count;
    }
    return HYB_OK;
}

/* The slope of cross_entropy by the logits: softmax, scaled by ct, which is taken off at the target. */
HYB_KERNEL(N(cross_entropy_pull))
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    const int64_t *target = call->data[1];
    const T *ct = call->data[2];
    for (int64_t first = begin; first < end;) {
        const T *x = (const T *)call->data[0] + first * n;
        T *y = (T *)call->data[3] + first * n;
        const int64_t count = N(softmax_some)(end - first, n);
        const hyb_status status = N(require_classes)(target, first, count, n);
        if (status != HYB_OK)
            return status;
        N(softmax_rows) rows;
        N(softmax_scan)(x, count, n, y, &rows);
        N(v_store)(rows.sum, 1 / N(v_load)(rows.sum));
        for (int64_t r = 0; r < count; r++, y += n) {
            const T scale = rows.sum[r], slope = ct[first + r];
            for (int64_t i = 0; i < full; i += LANES)
                N(v_store)(y + i, N(v_load)(y + i) * scale * slope);
            if (full < n)
                N(v_store_part)(y + full, N(v_load_part)(y + full, n - full) * scale * slope,
                                n - full);
        }
        y -= count * n;
        for (int64_t r = first; r < first + count; r++, y += n) /* by now the stores are over */
            y[target[r]] -= ct[r];
        first += count;
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_softmax))
{
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 2)) != HYB_OK ||
        (status = require_dense(call, 1, DTYPE, 2)) != HYB_OK)
        return status;
    if (!hyb_same_shape(&call->layout[0], &call->layout[1]))
        return hyb_fail(HYB_BAD_ARGUMENT, "the output's shape is not the input's");
    const int64_t rows = call->layout[0].shape[0], n = call->layout[0].shape[1];
    *range = (hyb_range){n > 0 ? rows : 0, grain_of(4 * n + 64)};
    return HYB_OK;
}

HYB_PREPARE(N(prepare_cross_entropy))
{
    hyb_status status;
    const int64_t rows = call->layout[0].shape[0], n = call->layout[0].shape[1];
    if ((status = require_dense(call, 0, DTYPE, 2)) != HYB_OK ||
        (status = require_dense(call, 1, HYB_I64, 1)) != HYB_OK ||
        (status = require_dense(call, 2, DTYPE, 1)) != HYB_OK ||
        (status = require_size(call, 1, 0, rows)) != HYB_OK ||
        (status = require_size(call, 2, 0, rows)) != HYB_OK)
        return status;
    *range = (hyb_range){rows, grain_of(4 * n + 64)};
    return HYB_OK;
}

HYB_PREPARE(N(prepare_cross_entropy_pull))
{
    hyb_status status = HYB_SYM(N(prepare_cross_entropy))(call, range);
    if (status == HYB_OK)
        status = require_dense(call, 3, DTYPE, 2);
    if (status == HYB_OK && !hyb_same_shape(&call->layout[0], &call->layout[3]))
        status = hyb_fail(HYB_BAD_ARGUMENT, "the output's shape is not the input's");
    return status;
}

#undef PARTNERS
#undef EACH_DISTANCE
#undef FADED
