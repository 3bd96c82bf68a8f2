/* softmax_typed.inc.c - softmax of one dtype; included by softmax.inc.c once per dtype, which defines T, V
 * (a vector of T), M (its mask), N, LANES and DTYPE.
 */

/* The n < LANES elements that end a row; the lanes behind them add nothing to a maximum or a sum. */
static inline V N(softmax_load_tail)(const T *x, int64_t n)
{
    V v = N(v_splat)(-(T)INFINITY);
    memcpy(&v, x, (size_t)n * sizeof(T));
    return v;
}

/* NaN is passed over: it comes back in the exponentials. */
static inline V N(softmax_larger)(V a, V b) { return N(v_select)((M)(b > a), b, a); }

static inline T N(softmax_max)(const T *x, int64_t n)
{
    const int64_t full = n - n % LANES;
    V a = N(softmax_load_tail)(x + full, n - full), b = a, c = a, d = a;
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
    T top = a[0];
    for (int lane = 1; lane < LANES; lane++)
        top = a[lane] > top ? a[lane] : top;
    return top;
}

/* The sum of exp(x[i] - top), each kept in y unless y is NULL. */
static inline __attribute__((always_inline)) T N(softmax_sum)(const T *x, int64_t n, T top, T *y)
{
    const int64_t full = n - n % LANES;
    V total = {0};
    for (int64_t i = 0; i < full;) {
        const int64_t stop = full - i < SOFTMAX_BLOCK * LANES ? full : i + SOFTMAX_BLOCK * LANES;
        V part = {0};
        for (; i < stop; i += LANES) {
            const V e = N(v_exp)(N(v_load)(x + i) - top);
            if (y != NULL)
                N(v_store)(y + i, e);
            part += e;
        }
        total += part;
    }
    if (full < n) {
        const V e = N(v_exp)(N(softmax_load_tail)(x + full, n - full) - top);
        if (y != NULL)
            N(v_store_part)(y + full, e, n - full);
        total += e;
    }
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            total[lane] += total[lane + width];
    return total[0];
}

HYB_KERNEL(N(softmax))
{
    const int64_t n = call->layout[0].shape[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)call->data[0] + row * n;
        T *restrict y = (T *)call->data[1] + row * n;
        const T scale = 1 / N(softmax_sum)(x, n, N(softmax_max)(x, n), y);
        for (int64_t i = 0; i < n; i++)
            y[i] *= scale;
    }
    return HYB_OK;
}

HYB_KERNEL(N(log_softmax))
{
    const int64_t n = call->layout[0].shape[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)call->data[0] + row * n;
        T *restrict y = (T *)call->data[1] + row * n;
        const T top = N(softmax_max)(x, n);
        const T log_sum = N(v_log)(N(v_splat)(N(softmax_sum)(x, n, top, NULL)))[0];
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - top) - log_sum;
    }
    return HYB_OK;
}

HYB_KERNEL(N(cross_entropy))
{
    const int64_t n = call->layout[0].shape[1];
    const int64_t *target = call->data[1];
    T *y = call->data[2];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)call->data[0] + row * n;
        if (target[row] < 0 || target[row] >= n)
            return hyb_fail(HYB_BAD_INDEX, "target %lld at position %lld is out of range for %lld classes",
                            (long long)target[row], (long long)row, (long long)n);
        const T top = N(softmax_max)(x, n);
        const T log_sum = N(v_log)(N(v_splat)(N(softmax_sum)(x, n, top, NULL)))[0];
        y[row] = log_sum - (x[target[row]] - top);
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

#undef T
#undef V
#undef M
#undef N
#undef LANES
#undef DTYPE
