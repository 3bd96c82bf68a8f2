/* pooling_typed.inc.c - pooling of one float dtype; included by pooling.inc.c through
 * each_float.inc.c, which defines T, N, IS_NAN, LOWEST and DTYPE.
 */

static inline __attribute__((always_inline)) T N(pool_greater)(T a, T x)
{
    return (a >= x) | IS_NAN(a) ? a : x;
}

/* to[j] becomes the greater one of itself and from[j * stride], or their sum. */
static inline __attribute__((always_inline)) void
N(pool_join)(T *restrict to, const T *restrict from, int64_t stride, int64_t n, bool sum)
{
    for (int64_t j = 0; j < n; j++) {
        const T x = from[j * stride];
        to[j] = sum ? to[j] + x : N(pool_greater)(to[j], x);
    }
}

/* The same for the greatest, and their places: from[j * stride] lies at place + j * stride. */
static inline __attribute__((always_inline)) void
N(pool_join_places)(T *restrict to, int64_t *restrict places, const T *restrict from,
                    int64_t stride, int64_t n, int64_t place)
{
    for (int64_t j = 0; j < n; j++) {
        const T x = from[j * stride], a = to[j];
        const bool stays = (a >= x) | IS_NAN(a);
        to[j] = stays ? a : x;
        places[j] = stays ? places[j] : place + j * stride;
    }
}

/* One row of windows that are equally far apart: all of them meet one tap after the other.
 * `places` is NULL where they are not asked for. */
static inline __attribute__((always_inline)) void
N(pool_taps)(const pool_shape *s, const pool_row *row, const T *plane, T *to, int64_t *places,
             bool sum)
{
    const pool_axis *wide = &s->axis[2];
    for (int64_t d = 0; d < row->deep.n; d++)
        for (int64_t h = 0; h < row->high.n; h++) {
            const int64_t line = (row->deep.first + d * row->deep.step) * s->axis[1].size +
                                 row->high.first + h * row->high.step;
            for (int64_t k = 0; k < wide->kernel; k++) {
                const int64_t start = k * wide->dilation - wide->padding, stride = wide->stride;
                int64_t low, high;
                conv_inside(start, stride, wide->count, wide->size, &low, &high);
                const int64_t place = line * wide->size + start + low * stride;
                const T *from = plane + place;
                const int64_t n = high - low;
                if (places && stride == 1)
                    N(pool_join_places)(to + low, places + low, from, 1, n, place);
                else if (places && stride == 2)
                    N(pool_join_places)(to + low, places + low, from, 2, n, place);
                else if (places)
                    N(pool_join_places)(to + low, places + low, from, stride, n, place);
                else if (stride == 1)
                    N(pool_join)(to + low, from, 1, n, sum);
                else if (stride == 2)
                    N(pool_join)(to + low, from, 2, n, sum);
                else
                    N(pool_join)(to + low, from, stride, n, sum);
            }
        }
}

/* One window of any size, in the order of pool_taps, and the place of its greatest element. */
static inline __attribute__((always_inline)) T
N(pool_one)(const pool_shape *s, const pool_row *row, const pool_window *wide, const T *plane,
            bool sum, int64_t *place)
{
    T found = sum ? 0 : LOWEST;
    if (!sum && row->deep.n > 0 && row->high.n > 0 && wide->n > 0) {
        *place = (row->deep.first * s->axis[1].size + row->high.first) * s->axis[2].size + wide->first;
        found = plane[*place];
    }
    for (int64_t d = 0; d < row->deep.n; d++)
        for (int64_t h = 0; h < row->high.n; h++) {
            const int64_t line = (row->deep.first + d * row->deep.step) * s->axis[1].size +
                                 row->high.first + h * row->high.step;
            const int64_t first = line * s->axis[2].size + wide->first;
            for (int64_t k = 0; k < wide->n; k++) {
                const T x = plane[first + k * wide->step];
                const bool stays = (found >= x) | IS_NAN(found);
                *place = stays ? *place : first + k * wide->step;
                found = sum ? found + x : stays ? found : x;
            }
        }
    return found;
}

static inline __attribute__((always_inline)) void
N(pool_rows)(const hyb_call *call, int64_t begin, int64_t end, bool sum)
{
    const pool_shape s = pool_shape_of(call, 0, 1);
    const int64_t count = s.axis[2].count;
    for (int64_t unit = begin; unit < end; unit++) {
        const pool_row row = pool_row_of(&s, unit);
        const T *plane = (const T *)call->data[0] + row.plane * s.plane;
        T *to = (T *)call->data[1] + unit * count;
        if (s.axis[2].adaptive || count < POOL_FEW) {
            for (int64_t j = 0; j < count; j++) {
                const pool_window wide = pool_window_of(&s.axis[2], j);
                int64_t place = 0;
                to[j] = N(pool_one)(&s, &row, &wide, plane, sum, &place);
            }
        } else {
            for (int64_t j = 0; j < count; j++)
                to[j] = sum ? 0 : LOWEST;
            N(pool_taps)(&s, &row, plane, to, NULL, sum);
        }
        if (!sum || s.counts == 2)
            continue;
        const T outer = (T)pool_count_of(&s, &row.deep) * (T)pool_count_of(&s, &row.high);
        for (int64_t j = 0; j < count; j++) {
            const pool_window wide = pool_window_of(&s.axis[2], j);
            to[j] /= outer * (T)pool_count_of(&s, &wide);
        }
    }
}

HYB_KERNEL(N(max_pool))
{
    N(pool_rows)(call, begin, end, false);
    return HYB_OK;
}

HYB_KERNEL(N(avg_pool))
{
    N(pool_rows)(call, begin, end, true);
    return HYB_OK;
}

HYB_KERNEL(N(max_pool_places))
{
    const pool_shape s = pool_shape_of(call, 0, 1);
    const int64_t count = s.axis[2].count;
    T *greatest = hyb_scratch((size_t)count * sizeof(T));
    if (!greatest)
        return hyb_fail(HYB_NO_MEMORY, "max_pool_places: no memory for a row");
    for (int64_t unit = begin; unit < end; unit++) {
        const pool_row row = pool_row_of(&s, unit);
        const T *plane = (const T *)call->data[0] + row.plane * s.plane;
        int64_t *to = (int64_t *)call->data[1] + unit * count;
        const bool single = s.axis[2].adaptive || count < POOL_FEW;
        const int64_t line = row.deep.first * s.axis[1].size + row.high.first;
        for (int64_t j = 0; j < count; j++) {
            pool_window wide = pool_window_of(&s.axis[2], j);
            to[j] = 0;
            if (single) {
                N(pool_one)(&s, &row, &wide, plane, false, to + j);
                continue;
            }
            greatest[j] = LOWEST;
            if (row.deep.n > 0 && row.high.n > 0 && wide.n > 0) {
                to[j] = line * s.axis[2].size + wide.first;
                greatest[j] = plane[to[j]];
            }
        }
        if (!single)
            N(pool_taps)(&s, &row, plane, greatest, to, false);
    }
    return HYB_OK;
}

HYB_KERNEL(N(avg_pool_spread))
{
    const pool_shape s = pool_shape_of(call, 1, 0);
    const pool_axis *wide = &s.axis[2];
    const int64_t rows = s.axis[0].count * s.axis[1].count;
    const T *from = (const T *)call->data[0] + begin * s.windows;
    for (int64_t a = begin; a < end; a++) {
        T *plane = (T *)call->data[1] + a * s.plane;
        memset(plane, 0, (size_t)s.plane * sizeof(T));
        for (int64_t r = 0; r < rows && s.plane > 0; r++) {
            const pool_row row = pool_row_of(&s, r);
            const T outer = (T)pool_count_of(&s, &row.deep) * (T)pool_count_of(&s, &row.high);
            for (int64_t j = 0; j < wide->count; j++) {
                const pool_window window = pool_window_of(wide, j);
                const T share = *from++ / (outer * (T)pool_count_of(&s, &window));
                for (int64_t d = 0; d < row.deep.n; d++)
                    for (int64_t h = 0; h < row.high.n; h++) {
                        const int64_t line =
                            (row.deep.first + d * row.deep.step) * s.axis[1].size +
                            row.high.first + h * row.high.step;
                        T *to = plane + line * wide->size + window.first;
                        for (int64_t k = 0; k < window.n; k++)
                            to[k * window.step] += share;
                    }
            }
        }
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_max_pool)) { return pool_range(call, DTYPE, DTYPE, range); }

HYB_PREPARE(N(prepare_avg_pool)) { return pool_range(call, DTYPE, DTYPE, range); }

HYB_PREPARE(N(prepare_max_pool_places)) { return pool_range(call, HYB_I64, DTYPE, range); }

HYB_PREPARE(N(prepare_avg_pool_spread))
{
    const hyb_status status = pool_require(call, 1, 0, DTYPE, DTYPE);
    if (status != HYB_OK)
        return status;
    const pool_shape s = pool_shape_of(call, 1, 0);
    const double cost = (double)pool_cost(&s) * (double)s.axis[0].count * (double)s.axis[1].count;
    *range = (hyb_range){s.plane > 0 ? s.planes : 0, grain_of(cost < 65536 ? (int64_t)cost : 65536)};
    return HYB_OK;
}
