/* pooling_typed.inc.c - pooling of one float dtype; included by pooling.inc.c through
 * each_float.inc.c, which defines T, N, IS_NAN, LOWEST and DTYPE.
 */

/* What n <= LANES windows have found, and the places of it, unless `places` is NULL, meet x. */
static inline __attribute__((always_inline)) void
N(pool_meet)(T *to, I *places, V x, int64_t n, M place, bool sum)
{
    const V a = n < LANES ? N(v_load_part)(to, n) : N(v_load)(to);
    const M stays = (M)(a >= x) | (M)(a != a);
    const V found = sum ? a + x : N(v_select)(stays, a, x);
    if (n < LANES)
        N(v_store_part)(to, found, n);
    else
        N(v_store)(to, found);
    if (!places)
        return;
    M old;
    memcpy(&old, places, sizeof old); /* whole vectors of places are there */
    const M one = (M)(old & stays) | (M)(place & ~stays);
    if (n < LANES)
        memcpy(places, &one, (size_t)n * sizeof(I));
    else
        memcpy(places, &one, sizeof one);
}

/* to[j] becomes the greater one of itself and from[j * stride], or their sum; from[j * stride] lies
 * at place + j * stride. */
static inline __attribute__((always_inline)) void
N(pool_join)(T *to, I *places, const T *from, int64_t stride, int64_t n, int64_t place, bool sum)
{
    M at;
    for (int lane = 0; lane < LANES; lane++)
        at[lane] = (I)(lane * stride);
    at += (I)place;
    for (int64_t j = 0; j < n; j += LANES, at += (I)(LANES * stride)) {
        const int64_t left = matmul_smaller(n - j, LANES);
        const T *first = from + j * stride;
        V x;
        if (stride == 2) {
            x = N(lanes_load_even)(first, left);
        } else if (stride == 1) {
            x = left < LANES ? N(v_load_part)(first, left) : N(v_load)(first);
        } else {
            T item[LANES] = {0};
            for (int64_t i = 0; i < left; i++)
                item[i] = first[i * stride];
            x = N(v_load)(item);
        }
        N(pool_meet)(to + j, places ? places + j : NULL, x, left, at, sum);
    }
}

/* One row of windows that are equally far apart: all of them meet one tap after the other.
 * `places` is NULL where they are not asked for. */
static inline __attribute__((always_inline)) void
N(pool_taps)(const pool_shape *s, const pool_row *row, const T *plane, T *to, I *places,
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
                I *at = places ? places + low : NULL;
                if (stride == 1)
                    N(pool_join)(to + low, at, from, 1, n, place, sum);
                else if (stride == 2)
                    N(pool_join)(to + low, at, from, 2, n, place, sum);
                else
                    N(pool_join)(to + low, at, from, stride, n, place, sum);
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

/* Windows of one place of the last axis, such as blocks of channels are: vectors along it meet one
 * place of a window after the other, `vectors` of them from item `first` on. */
static inline __attribute__((always_inline)) void
N(pool_meet_all)(const pool_shape *s, const pool_row *row, const T *plane, T *to, int64_t first,
                 int vectors, int64_t n, T count, bool sum)
{
    V found[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        found[v] = sum ? (V){0} : (V){0} + LOWEST;
    for (int64_t d = 0; d < row->deep.n; d++) {
        const int64_t line = (row->deep.first + d * row->deep.step) * s->axis[1].size;
        for (int64_t h = 0; h < row->high.n; h++) {
            const T *from =
                plane + (line + row->high.first + h * row->high.step) * s->axis[2].size + first;
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const V x = n < LANES ? N(v_load_part)(from, n) : N(v_load)(from + v * LANES);
                const M stays = (M)(found[v] >= x) | (M)(found[v] != found[v]);
                found[v] = sum ? found[v] + x : N(v_select)(stays, found[v], x);
            }
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        const V y = sum && s->counts != 2 ? found[v] / count : found[v];
        if (n < LANES)
            N(v_store_part)(to + first, y, n);
        else
            N(v_store)(to + first + v * LANES, y);
    }
}

static inline __attribute__((always_inline)) void
N(pool_vectors)(const pool_shape *s, const hyb_call *call, int64_t begin, int64_t end, bool sum)
{
    const int64_t count = s->axis[2].count;
    int64_t h = begin % s->axis[1].count, deep = begin / s->axis[1].count % s->axis[0].count;
    pool_row row = pool_row_of(s, begin);
    T *to = (T *)call->data[1] + begin * count;
    for (int64_t unit = begin; unit < end; unit++, to += count) {
        const T *plane = (const T *)call->data[0] + row.plane * s->plane;
        const T divisor = (T)pool_count_of(s, &row.deep) * (T)pool_count_of(s, &row.high);
        int64_t j = 0;
        for (; j + 4 * LANES <= count; j += 4 * LANES)
            N(pool_meet_all)(s, &row, plane, to, j, 4, LANES, divisor, sum);
        for (; j < count; j += LANES)
            N(pool_meet_all)(s, &row, plane, to, j, 1, matmul_smaller(LANES, count - j), divisor,
                             sum);
        if (++h == s->axis[1].count) {
            h = 0;
            if (++deep == s->axis[0].count) {
                deep = 0;
                row.plane++;
            }
            row.deep = pool_window_of(&s->axis[0], deep);
        }
        row.high = pool_window_of(&s->axis[1], h);
    }
}

/* Whether the windows have one place of the last axis each, one after the other. */
static inline bool N(pool_is_thin)(const pool_axis *wide)
{
    const bool one = wide->adaptive || (wide->kernel == 1 && wide->stride == 1 && !wide->padding);
    return one && wide->size == wide->count && wide->count > 1;
}

static inline __attribute__((always_inline)) void
N(pool_rows)(const hyb_call *call, int64_t begin, int64_t end, bool sum)
{
    const pool_shape s = pool_shape_of(call, 0, 1);
    const int64_t count = s.axis[2].count;
    if (N(pool_is_thin)(&s.axis[2])) {
        N(pool_vectors)(&s, call, begin, end, sum);
        return;
    }
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
    const int64_t count = s.axis[2].count, padded = matmul_ceil(count, LANES) * LANES;
    T *greatest = hyb_scratch((size_t)padded * (sizeof(T) + sizeof(I)));
    if (!greatest)
        return hyb_fail(HYB_NO_MEMORY, "max_pool_places: no memory for a row");
    I *places = (I *)(greatest + padded);
    /* Places are counted in integers as wide as T. */
    const bool single = s.axis[2].adaptive || count < POOL_FEW || s.plane > CONV_LIMIT;
    for (int64_t unit = begin; unit < end; unit++) {
        const pool_row row = pool_row_of(&s, unit);
        const T *plane = (const T *)call->data[0] + row.plane * s.plane;
        int64_t *to = (int64_t *)call->data[1] + unit * count;
        const int64_t line = row.deep.first * s.axis[1].size + row.high.first;
        const bool any = row.deep.n > 0 && row.high.n > 0;
        for (int64_t j = 0; j < count; j++) {
            pool_window wide = pool_window_of(&s.axis[2], j);
            to[j] = 0;
            if (single) {
                N(pool_one)(&s, &row, &wide, plane, false, to + j);
                continue;
            }
            places[j] = any && wide.n > 0 ? (I)(line * s.axis[2].size + wide.first) : 0;
            greatest[j] = any && wide.n > 0 ? plane[places[j]] : LOWEST;
        }
        if (single)
            continue;
        N(pool_taps)(&s, &row, plane, greatest, places, false);
        for (int64_t j = 0; j < count; j++)
            to[j] = places[j];
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
