/* resample_typed.inc.c - interpolation of one float dtype; included by resample.inc.c once per
 * dtype (each_float.inc.c).
 */

/* y = (1 - weight) * low + weight * high, for `n` elements that lie side by side. */
static inline __attribute__((always_inline)) void
N(resample_row)(T *y, const T *low, const T *high, T weight, int64_t n)
{
    const V w = N(v_splat)(weight), rest = N(v_splat)(1 - weight);
    int64_t b = 0;
    for (; b + LANES <= n; b += LANES)
        N(v_store)(y + b, rest * N(v_load)(low + b) + w * N(v_load)(high + b));
    if (b < n)
        N(v_store_part)(y + b, rest * N(v_load_part)(low + b, n - b) +
                                   w * N(v_load_part)(high + b, n - b), n - b);
}

/* Short rows are worked on element by element, with a table of the places in scratch: for each of
 * [I, B], where it comes from in [R, B]. */
typedef struct {
    int64_t *low, *high;
    T       *weight;
} N(resample_table);

static hyb_status N(resample_prepare_table)(const hyb_call *call, int64_t count, int64_t size,
                                            int64_t width, N(resample_table) *table)
{
    const int64_t n = (count * width + LANES - 1) / LANES * LANES;
    table->low = hyb_scratch((size_t)n * (2 * sizeof(int64_t) + sizeof(T)));
    if (!table->low)
        return hyb_fail(HYB_NO_MEMORY, "resample: no memory for %lld places", (long long)n);
    table->high = table->low + n;
    table->weight = (T *)(table->high + n);
    for (int64_t i = 0; i * width < n; i++) {
        const int64_t row = i < count ? i : count - 1; /* what is behind is never stored */
        const resample_place place =
            resample_place_of(row, size, call->attrs[1].f, call->attrs[0].i != 0);
        for (int64_t b = 0; b < width && i * width + b < n; b++) {
            table->low[i * width + b] = place.low * width + b;
            table->high[i * width + b] = place.high * width + b;
            table->weight[i * width + b] = (T)place.weight;
        }
    }
    return HYB_OK;
}

HYB_KERNEL(N(resample))
{
    const int64_t *from = call->layout[0].shape, *to = call->layout[1].shape;
    const int64_t width = to[2], n = to[1] * width;
    const T *x = (const T *)call->data[0] + begin * from[1] * width;
    T *y = (T *)call->data[1] + begin * n;
    if (width >= LANES) {
        for (int64_t a = begin; a < end; a++, x += from[1] * width, y += n)
            for (int64_t i = 0; i < to[1]; i++) {
                const resample_place place =
                    resample_place_of(i, from[1], call->attrs[1].f, call->attrs[0].i != 0);
                N(resample_row)(y + i * width, x + place.low * width, x + place.high * width,
                                (T)place.weight, width);
            }
        return HYB_OK;
    }
    N(resample_table) table;
    const hyb_status status = N(resample_prepare_table)(call, to[1], from[1], width, &table);
    if (status != HYB_OK)
        return status;
    for (int64_t a = begin; a < end; a++, x += from[1] * width, y += n)
        for (int64_t i = 0; i < n; i += LANES) {
            V low = {0}, high = {0};
            for (int lane = 0; lane < LANES; lane++) {
                low[lane] = x[table.low[i + lane]];
                high[lane] = x[table.high[i + lane]];
            }
            const V w = N(v_load)(table.weight + i), found = (1 - w) * low + w * high;
            if (i + LANES <= n)
                N(v_store)(y + i, found);
            else
                N(v_store_part)(y + i, found, n - i);
        }
    return HYB_OK;
}

/* to[b] += share * from[b] */
static inline __attribute__((always_inline)) void
N(resample_add)(T *to, const T *from, T share, int64_t n)
{
    int64_t b = 0;
    for (; b + LANES <= n; b += LANES)
        N(v_store)(to + b, N(v_load)(to + b) + share * N(v_load)(from + b));
    if (b < n)
        N(v_store_part)(to + b, N(v_load_part)(to + b, n - b) + share * N(v_load_part)(from + b, n - b),
                        n - b);
}

/* Items `width` apart of `rows` stacks, each n items of y and `step` of x: sums of places next to
 * each other stay in registers. */
static inline __attribute__((always_inline)) void
N(resample_collect)(int rows, T *x, int64_t step, const T *y, const N(resample_table) *table,
                    int64_t n, int64_t width)
{
    int64_t place = table->low[0];
    T low[4] = {0}, high[4] = {0}; /* of x[place], x[place + width] */
    for (int64_t i = 0; i < n; i += width) {
        const T weight = table->weight[i];
        const bool moves = table->low[i] != place, jumps = moves && table->low[i] != place + width;
        const bool last = table->high[i] == table->low[i];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            if (moves) {
                x[r * step + place] = low[r];
                low[r] = high[r], high[r] = 0;
            }
            if (jumps) {
                x[r * step + place + width] = low[r];
                low[r] = 0;
            }
            low[r] += (1 - weight) * y[r * n + i];
            if (last)
                low[r] += weight * y[r * n + i];
            else
                high[r] += weight * y[r * n + i];
        }
        place = table->low[i];
    }
    for (int r = 0; r < rows; r++) {
        x[r * step + place] = low[r];
        if (table->high[n - width] != place)
            x[r * step + place + width] = high[r];
    }
}

HYB_KERNEL(N(resample_spread))
{
    const int64_t *from = call->layout[0].shape, *to = call->layout[1].shape, width = to[2];
    const int64_t n = from[1] * width;
    const T *y = (const T *)call->data[0] + begin * n;
    T *x = (T *)call->data[1] + begin * to[1] * width;
    N(resample_table) table;
    if (width < LANES && n > 0) {
        const hyb_status status = N(resample_prepare_table)(call, from[1], to[1], width, &table);
        if (status != HYB_OK)
            return status;
    }
    const int64_t step = to[1] * width;
    memset(x, 0, (size_t)((end - begin) * step) * sizeof(T));
    for (int64_t a = begin; a < end;) {
        const int rows = width < LANES && end - a >= 4 ? 4 : 1;
        for (int64_t b = 0; b < width && width < LANES && n > 0; b++)
            if (rows == 4)
                N(resample_collect)(4, x + b, step, y + b, &table, n, width);
            else
                N(resample_collect)(1, x + b, step, y + b, &table, n, width);
        for (int64_t i = 0; i < from[1] && width >= LANES; i++) {
            const resample_place place =
                resample_place_of(i, to[1], call->attrs[1].f, call->attrs[0].i != 0);
            const T *row = y + i * width;
            N(resample_add)(x + place.low * width, row, 1 - (T)place.weight, width);
            N(resample_add)(x + place.high * width, row, (T)place.weight, width);
        }
        a += rows, x += rows * step, y += rows * n;
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_resample)) { return resample_require(call, 0, 1, DTYPE, range); }

HYB_PREPARE(N(prepare_resample_spread)) { return resample_require(call, 1, 0, DTYPE, range); }
