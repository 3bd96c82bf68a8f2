/* sort_typed.inc.c - sorting and searching one dtype; included by sort.inc.c once per dtype
 * (each_float.inc.c, each_integer.inc.c).
 */

/* Whether a belongs before b; false of equals. */
static inline bool N(sort_less)(T a, T b) { return a < b || (IS_NAN(b) && !IS_NAN(a)); }

static inline bool N(sort_before)(T a, T b, bool descending)
{
    return descending ? N(sort_less)(b, a) : N(sort_less)(a, b);
}

/* Puts n places in the order of x, by insertion. */
static void N(sort_insert)(const T *x, int64_t *order, int64_t n, bool descending)
{
    for (int64_t i = 1; i < n; i++) {
        const int64_t place = order[i];
        int64_t       to = i;
        for (; to > 0 && N(sort_before)(x[place], x[order[to - 1]], descending); to--)
            order[to] = order[to - 1];
        order[to] = place;
    }
}

/* Merges two runs of places, of which the second comes later in x. */
static void N(sort_merge)(const T *x, const int64_t *from, int64_t middle, int64_t n, int64_t *to,
                          bool descending)
{
    int64_t a = 0, b = middle;
    for (int64_t i = 0; i < n; i++) {
        const bool second =
            b < n && (a == middle || N(sort_before)(x[from[b]], x[from[a]], descending));
        to[i] = from[second ? b++ : a++];
    }
}

/* The places of x[0..n) in its order, in `order`; `other` is as long. */
static void N(sort_places)(const T *x, int64_t *order, int64_t *other, int64_t n, bool descending)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = 0; i < n; i += SORT_RUN)
        N(sort_insert)(x, order + i, n - i < SORT_RUN ? n - i : SORT_RUN, descending);
    int64_t *from = order, *to = other;
    for (int64_t run = SORT_RUN; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            const int64_t left = n - i < 2 * run ? n - i : 2 * run;
            N(sort_merge)(x, from + i, left < run ? left : run, left, to + i, descending);
        }
        int64_t *const made = to;
        to = from;
        from = made;
    }
    if (from != order)
        memcpy(order, from, (size_t)n * sizeof *order);
}

HYB_KERNEL(N(argsort))
{
    const int64_t n = call->layout[0].shape[1];
    const bool    descending = call->attrs[0].i != 0;
    int64_t      *other = n > SORT_RUN ? hyb_scratch((size_t)n * sizeof(int64_t)) : NULL;
    if (n > SORT_RUN && !other)
        return hyb_fail(HYB_NO_MEMORY, "no memory to sort %lld elements", (long long)n);
    for (int64_t row = begin; row < end; row++)
        N(sort_places)((const T *)call->data[0] + row * n, (int64_t *)call->data[1] + row * n,
                       other, n, descending);
    return HYB_OK;
}

HYB_PREPARE(N(prepare_argsort))
{
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 2)) != HYB_OK ||
        (status = require_dense(call, 1, HYB_I64, 2)) != HYB_OK ||
        (status = require_size(call, 1, 0, call->layout[0].shape[0])) != HYB_OK ||
        (status = require_size(call, 1, 1, call->layout[0].shape[1])) != HYB_OK)
        return status;
    const int64_t n = call->layout[0].shape[1];
    *range = (hyb_range){n > 0 ? call->layout[0].shape[0] : 0, grain_of(n < 4096 ? 16 * n : 65536)};
    return HYB_OK;
}

HYB_KERNEL(N(searchsorted))
{
    const T      *x = call->data[0], *values = call->data[1];
    int64_t      *y = call->data[2];
    const int64_t n = call->layout[0].shape[0];
    const bool    right = call->attrs[0].i != 0;
    for (int64_t i = begin; i < end; i++) {
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const bool    after = right ? !N(sort_less)(values[i], x[middle])
                                        : N(sort_less)(x[middle], values[i]);
            low = after ? middle + 1 : low;
            high = after ? high : middle;
        }
        y[i] = low;
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_searchsorted))
{
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 1)) != HYB_OK ||
        (status = require_dense(call, 1, DTYPE, 1)) != HYB_OK ||
        (status = require_dense(call, 2, HYB_I64, 1)) != HYB_OK ||
        (status = require_size(call, 2, 0, call->layout[1].shape[0])) != HYB_OK)
        return status;
    *range = (hyb_range){call->layout[1].shape[0], grain_of(64)};
    return HYB_OK;
}
