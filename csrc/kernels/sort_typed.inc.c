/* sort_typed.inc.c - sorting and searching one dtype; included by sort.inc.c once per dtype
 * (each_float.inc.c, each_integer.inc.c).
 */

/* Whether a belongs before b; false of equals. */
static inline bool N(sort_less)(T a, T b) { return a < b || (IS_NAN(b) && !IS_NAN(a)); }

static inline bool N(sort_before)(T a, T b, bool descending)
{
    return descending ? N(sort_less)(b, a) : N(sort_less)(a, b);
}

/* The bits of x; both ends of a number are where little-endian machines have them. */
static inline uint64_t N(sort_bits)(T x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    return bits;
}

/* A number whose order as an unsigned one is that of x, which is not NaN; that of -0 is below 0's. */
static inline uint64_t N(sort_rank)(T x, bool descending)
{
    const uint64_t sign = UINT64_C(1) << (8 * sizeof(T) - 1), mask = sign | (sign - 1);
    uint64_t       key = N(sort_bits)(x);
    if ((T)0.5 != 0)
        key ^= (key & sign ? mask : sign);
    else if ((T)-1 < (T)1)
        key ^= sign;
    return descending ? key ^ mask : key;
}

/* The same with one number for both zeros, and the greatest for NaN. */
static inline uint64_t N(sort_key)(T x, bool descending)
{
    const uint64_t mask = UINT64_MAX >> (64 - 8 * sizeof(T));
    return IS_NAN(x) ? (descending ? 0 : mask) : N(sort_rank)(x + (T)0, descending);
}

/* What has that rank. */
static inline T N(sort_number)(uint64_t key, bool descending)
{
    const uint64_t sign = UINT64_C(1) << (8 * sizeof(T) - 1), mask = sign | (sign - 1);
    key = descending ? key ^ mask : key;
    if ((T)0.5 != 0)
        key ^= (key & sign ? sign : mask);
    else if ((T)-1 < (T)1)
        key ^= sign;
    T x;
    memcpy(&x, &key, sizeof x);
    return x;
}

/* The bytes of scratch memory that sorting n places takes. */
static inline size_t N(sort_scratch)(int64_t n)
{
    return (size_t)n * 2 * (sizeof(T) <= 4 && n <= UINT32_MAX ? sizeof(uint64_t) : sizeof(sort_item));
}

/* The places of x[0..n) in its order, in `order`. */
static void N(sort_row)(const T *x, int64_t *order, void *scratch, int64_t n, bool descending)
{
    if (sizeof(T) <= 4 && n <= UINT32_MAX) { /* a key and a place in 64 bits */
        uint64_t *items = scratch;
        for (int64_t i = 0; i < n; i++)
            items[i] = N(sort_key)(x[i], descending) << 32 | (uint64_t)i;
        items = sort_keys_pair(items, items + n, n);
        for (int64_t i = 0; i < n; i++)
            order[i] = (int64_t)(items[i] & UINT32_MAX);
    } else {
        sort_item *items = scratch;
        for (int64_t i = 0; i < n; i++)
            items[i] = (sort_item){N(sort_key)(x[i], descending), i};
        items = sort_keys_item(items, items + n, n);
        for (int64_t i = 0; i < n; i++)
            order[i] = items[i].place;
    }
}

HYB_KERNEL(N(argsort))
{
    const int64_t n = call->layout[0].shape[1];
    const bool    descending = call->attrs[0].i != 0;
    void         *scratch = hyb_scratch(N(sort_scratch)(n));
    if (!scratch)
        return sort_no_memory(n);
    for (int64_t row = begin; row < end; row++)
        N(sort_row)((const T *)call->data[0] + row * n, (int64_t *)call->data[1] + row * n, scratch,
                    n, descending);
    return HYB_OK;
}

/* Whether there are equal elements that are not the same: NaN or -0. */
static bool N(sort_has_twins)(const T *x, int64_t n)
{
    const uint64_t sign = UINT64_C(1) << (8 * sizeof(T) - 1);
    bool           found = false;
    if ((T)0.5 != 0)
        for (int64_t i = 0; i < n; i++)
            found |= (IS_NAN(x[i])) | (N(sort_bits)(x[i]) == sign);
    return found;
}

HYB_KERNEL(N(sort))
{
    const int64_t n = call->layout[0].shape[1];
    const bool    descending = call->attrs[0].i != 0;
    const size_t  item = sizeof(T) <= 4 ? sizeof(uint32_t) : sizeof(uint64_t);
    const size_t  places = N(sort_scratch)(n), keys = 2 * (size_t)n * item;
    char         *scratch = hyb_scratch((size_t)n * sizeof(int64_t) + (places > keys ? places : keys));
    if (!scratch)
        return sort_no_memory(n);
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)call->data[0] + row * n;
        T       *y = (T *)call->data[1] + row * n;
        if (N(sort_has_twins)(x, n)) {
            int64_t *order = (int64_t *)scratch;
            N(sort_row)(x, order, order + n, n, descending);
            for (int64_t i = 0; i < n; i++)
                y[i] = x[order[i]];
        } else if (sizeof(T) <= 4) {
            uint32_t *found = (uint32_t *)scratch;
            for (int64_t i = 0; i < n; i++)
                found[i] = (uint32_t)N(sort_rank)(x[i], descending);
            found = sort_keys_32(found, found + n, n);
            for (int64_t i = 0; i < n; i++)
                y[i] = N(sort_number)(found[i], descending);
        } else {
            uint64_t *found = (uint64_t *)scratch;
            for (int64_t i = 0; i < n; i++)
                found[i] = N(sort_rank)(x[i], descending);
            found = sort_keys_64(found, found + n, n);
            for (int64_t i = 0; i < n; i++)
                y[i] = N(sort_number)(found[i], descending);
        }
    }
    return HYB_OK;
}

/* Few places of a long row: those found so far are kept in order, and most elements are passed by
 * with one comparison.  Many places: the row is put in order. */
HYB_KERNEL(N(topk))
{
    const int64_t n = call->layout[0].shape[1], k = call->layout[1].shape[1];
    const bool    largest = call->attrs[0].i != 0, few = k <= SORT_RUN;
    int64_t      *scratch = hyb_scratch(few ? 8 : (size_t)n * sizeof(int64_t) + N(sort_scratch)(n));
    if (!scratch)
        return sort_no_memory(n);
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)call->data[0] + row * n;
        int64_t *found = (int64_t *)call->data[1] + row * k;
        if (!few) {
            N(sort_row)(x, scratch, scratch + n, n, largest);
            memcpy(found, scratch, (size_t)k * sizeof *found);
            continue;
        }
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++) {
            if (count == k && !N(sort_before)(x[i], x[found[k - 1]], largest))
                continue;
            int64_t to = count < k ? count++ : k - 1;
            for (; to > 0 && N(sort_before)(x[i], x[found[to - 1]], largest); to--)
                found[to] = found[to - 1];
            found[to] = i;
        }
    }
    return HYB_OK;
}

/* A matrix, and one of dtype `into` with as many rows and, but for topk, as many columns. */
static hyb_status N(sort_prepare)(const hyb_call *call, int32_t into, bool whole, hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 2)) != HYB_OK ||
        (status = require_dense(call, 1, into, 2)) != HYB_OK ||
        (status = require_size(call, 1, 0, call->layout[0].shape[0])) != HYB_OK)
        return status;
    const int64_t n = call->layout[0].shape[1], k = call->layout[1].shape[1];
    if (k > n || (whole && k != n))
        return hyb_fail(HYB_BAD_ARGUMENT, "%lld of %lld elements", (long long)k, (long long)n);
    *range = (hyb_range){k > 0 ? call->layout[0].shape[0] : 0, grain_of(n < 4096 ? 16 * n : 65536)};
    return HYB_OK;
}

HYB_PREPARE(N(prepare_argsort)) { return N(sort_prepare)(call, HYB_I64, true, range); }
HYB_PREPARE(N(prepare_sort)) { return N(sort_prepare)(call, DTYPE, true, range); }
HYB_PREPARE(N(prepare_topk)) { return N(sort_prepare)(call, HYB_I64, false, range); }

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
