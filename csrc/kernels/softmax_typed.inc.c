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

/* NaN is passed over: it comes back in the exponentials. */
static inline V N(softmax_larger)(V a, V b) { return N(v_select)((M)(b > a), b, a); }

/* The largest and the sum of all lanes, in every lane. */
static inline V N(softmax_largest_lane)(V v)
{
#define STEP(d) v = N(softmax_larger)(v, __builtin_shufflevector(v, v, PARTNERS(d)));
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
 * are spared the computation: numbers that fade through the subnormal range cost a hundred times as
 * much as others. */
static inline V N(softmax_exp)(V power)
{
    const M counts = ~(M)(power < FADED); /* NaN does */
    return (V)((M)N(v_exp_bounded)((V)((M)power & counts)) & counts);
}

/* One row: its largest element and the sum of exp(x[i] - top), in every lane, and the exponentials
 * of its tail.  Those of the whole vectors are kept in y unless y is NULL. */
typedef struct { V top, sum, tail; } N(softmax_row);

static inline __attribute__((always_inline)) N(softmax_row)
N(softmax_scan)(const T *x, int64_t n, T *y)
{
    const int64_t full = n - n % LANES;
    const V end = N(softmax_load_tail)(x + full, n - full);
    V a = end, b = end, c = end, d = end;
    int64_t i = 0;
    for (; i + 4 * LANES <= full; i += 4 * LANES) {
        a = N(softmax_larger)(a, N(v_load)(x + i));
        b = N(softmax_larger)(b, N(v_load)(x + i + LANES));
        c = N(softmax_larger)(c, N(v_load)(x + i + 2 * LANES));
        d = N(softmax_larger)(d, N(v_load)(x + i + 3 * LANES));
    }
    for (; i < full; i += LANES)
        a = N(softmax_larger)(a, N(v_load)(x + i));
    a = N(softmax_larger)(N(softmax_larger)(a, b), N(softmax_larger)(c, d));

    N(softmax_row) row = {.top = N(softmax_largest_lane)(a)};
    row.tail = N(softmax_exp)(end - row.top);
    V total = row.tail;
    for (i = 0; i < full;) {
        const int64_t stop = full - i < SOFTMAX_BLOCK * LANES ? full : i + SOFTMAX_BLOCK * LANES;
        V part = {0};
        for (; i < stop; i += LANES) {
            const V e = N(softmax_exp)(N(v_load)(x + i) - row.top);
            __builtin_prefetch(x + i + n);
            if (y != NULL) {
                N(v_store)(y + i, e);
                __builtin_prefetch(y + i + n, 1);
            }
            part += e;
        }
        total += part;
    }
    row.sum = N(softmax_sum_of_lanes)(total);
    return row;
}

HYB_KERNEL(N(softmax))
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    for (int64_t r = begin; r < end; r++) {
        T *y = (T *)call->data[1] + r * n;
        const N(softmax_row) row = N(softmax_scan)((const T *)call->data[0] + r * n, n, y);
        const V scale = 1 / row.sum;
        for (int64_t i = 0; i < full; i += LANES)
            N(v_store)(y + i, N(v_load)(y + i) * scale);
        N(v_store_part)(y + full, row.tail * scale, n - full);
    }
    return HYB_OK;
}

HYB_KERNEL(N(log_softmax))
{
    const int64_t n = call->layout[0].shape[1], full = n - n % LANES;
    for (int64_t r = begin; r < end; r++) {
        const T *x = (const T *)call->data[0] + r * n;
        T *y = (T *)call->data[1] + r * n;
        const N(softmax_row) row = N(softmax_scan)(x, n, NULL);
        const V log_sum = N(v_log)(row.sum);
        for (int64_t i = 0; i < full; i += LANES)
            N(v_store)(y + i, (N(v_load)(x + i) - row.top) - log_sum);
        const V end = N(v_load_part)(x + full, n - full);
        N(v_store_part)(y + full, (end - row.top) - log_sum, n - full);
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
    for (int64_t r = begin; r < end; r++) {
        const T *x = (const T *)call->data[0] + r * n;
        const hyb_status status = N(require_class)(target[r], r, n);
        if (status != HYB_OK)
            return status;
        const N(softmax_row) row = N(softmax_scan)(x, n, NULL);
        y[r] = N(v_log)(row.sum)[0] - (x[target[r]] - row.top[0]);
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

#undef PARTNERS
#undef EACH_DISTANCE
#undef FADED
