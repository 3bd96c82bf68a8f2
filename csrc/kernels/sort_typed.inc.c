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

/* A number whose order as an unsigned one is that of x, which is not NaN; -0 comes before 0. */
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
    const bool narrow = sizeof(T) <= 4 && n <= UINT32_MAX;
    return (size_t)n * 2 * (narrow ? sizeof(uint64_t) : sizeof(sort_item));
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

/* The values of a row, none of which is another one's twin, in order by their ranks.  A long row on
 * several threads: its halves, apart, and then pieces of the result, each merged by itself. */
typedef __typeof__(__builtin_choose_expr(sizeof(T) <= 4, (uint32_t)0, (uint64_t)0)) N(sort_ranks);

typedef struct {
    const T       *x;
    T             *y;
    N(sort_ranks) *ranks; /* [2, n] */
    N(sort_ranks) *made[2];
    int64_t        n, middle; /* the second half begins there; n: there is none */
    bool           descending;
} N(sort_job);

static hyb_status N(sort_halves)(void *context, int64_t begin, int64_t end)
{
    N(sort_job) *job = context;
    for (int64_t half = begin; half < end; half++) {
        const int64_t  first = half ? job->middle : 0, last = half ? job->n : job->middle;
        N(sort_ranks) *ranks = job->ranks;
        for (int64_t i = first; i < last; i++)
            ranks[i] = (N(sort_ranks))N(sort_rank)(job->x[i], job->descending);
        job->made[half] = __builtin_choose_expr(sizeof(T) <= 4, sort_keys_32, sort_keys_64)(
            ranks + first, ranks + job->n + first, last - first);
    }
    return HYB_OK;
}

static hyb_status N(sort_join)(void *context, int64_t begin, int64_t end)
{
    const N(sort_job)   *job = context;
    const N(sort_ranks) *a = job->made[0], *b = job->made[1];
    const int64_t        all_a = job->middle, all_b = job->n - job->middle;
    int64_t low = begin > all_b ? begin - all_b : 0, high = begin < all_a ? begin : all_a;
    while (low < high) { /* how many of the first `begin` are of a */
        const int64_t middle = low + (high - low) / 2;
        const bool    more = a[middle] <= b[begin - middle - 1];
        low = more ? middle + 1 : low;
        high = more ? high : middle;
    }
    int64_t at_a = low, at_b = begin - low;
    for (int64_t i = begin; i < end;) {
        const int64_t left_a = all_a - at_a, left_b = all_b - at_b;
        const int64_t sure = left_a < left_b ? left_a : left_b;
        const int64_t stop = sure < end - i ? i + sure : end;
        if (sure == 0)
            for (; i < end; i++)
                job->y[i] = N(sort_number)(left_a ? a[at_a++] : b[at_b++], job->descending);
        for (; i < stop; i++) {
            const bool          second = b[at_b] < a[at_a];
            const N(sort_ranks) rank = second ? b[at_b] : a[at_a];
            at_b += second;
            at_a += !second;
            job->y[i] = N(sort_number)(rank, job->descending);
        }
    }
    return HYB_OK;
}

static hyb_status N(sort_values)(N(sort_job) *job, bool alone)
{
    const bool split = alone && job->n >= SORT_SPLIT && hyb_num_threads() > 1;
    job->middle = split ? job->n / 2 : job->n;
    hyb_status status = split ? hyb_parallel_for(2, 1, N(sort_halves), job)
                              : N(sort_halves)(job, 0, 1);
    if (split && status == HYB_OK)
        return hyb_parallel_for(job->n, SORT_SPLIT, N(sort_join), job);
    for (int64_t i = 0; status == HYB_OK && i < job->n; i++)
        job->y[i] = N(sort_number)(job->made[0][i], job->descending);
    return status;
}

HYB_KERNEL(N(sort))
{
    const int64_t n = call->layout[0].shape[1];
    const bool    descending = call->attrs[0].i != 0;
    const size_t  ranks = 2 * (size_t)n * sizeof(N(sort_ranks));
    const size_t  places = (size_t)n * sizeof(int64_t) + N(sort_scratch)(n);
    char         *scratch = hyb_scratch(places > ranks ? places : ranks);
    hyb_status    status = scratch ? HYB_OK : sort_no_memory(n);
    for (int64_t row = begin; status == HYB_OK && row < end; row++) {
        const T *x = (const T *)call->data[0] + row * n;
        T       *y = (T *)call->data[1] + row * n;
        if (N(sort_has_twins)(x, n)) {
            int64_t *order = (int64_t *)scratch;
            N(sort_row)(x, order, order + n, n, descending);
            for (int64_t i = 0; i < n; i++)
                y[i] = x[order[i]];
        } else {
            N(sort_job) job = {.x = x, .y = y, .ranks = (void *)scratch, .n = n,
                               .descending = descending};
            status = N(sort_values)(&job, call->layout[0].shape[0] == 1);
        }
    }
    return status;
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

/* Each of n > 0 items in order once, to y; if `begins`, where its equals begin, there.  Gives how
 * many there are.  The loop does not branch: it writes every item, and goes on where it is new. */
static inline __attribute__((always_inline)) int64_t
N(sort_distinct)(const T *restrict x, int64_t n, T *restrict y, int64_t *restrict begins)
{
    int64_t count = 0, first = 0;
    T       item = x[0];
    y[0] = item;
    if (begins)
        begins[0] = 0;
    for (int64_t i = 1; i < n; i++) {
        const bool is_new = x[i] != x[i - 1];
        count += is_new;
        item = is_new ? x[i] : item;
        first = is_new ? i : first;
        y[count] = item;
        if (begins)
            begins[count] = first;
    }
    return count + 1;
}

HYB_KERNEL(N(distinct))
{
    const int64_t n = call->layout[0].shape[0];
    T            *y = call->data[1];
    const int64_t count = n > 0 ? N(sort_distinct)(call->data[0], n, y, NULL) : 0;
    memset(y + count, 0, (size_t)(n - count) * sizeof *y);
    *(int64_t *)call->data[2] = count;
    return HYB_OK;
}

HYB_KERNEL(N(tally))
{
    const int64_t n = call->layout[0].shape[0];
    T            *y = call->data[1];
    int64_t      *counts = call->data[2];
    const int64_t count = n > 0 ? N(sort_distinct)(call->data[0], n, y, counts) : 0;
    for (int64_t i = 0; i < count; i++)
        counts[i] = (i + 1 < count ? counts[i + 1] : n) - counts[i];
    memset(y + count, 0, (size_t)(n - count) * sizeof *y);
    memset(counts + count, 0, (size_t)(n - count) * sizeof *counts);
    *(int64_t *)call->data[3] = count;
    return HYB_OK;
}

static hyb_status N(prepare_sets)(const hyb_call *call, int outputs, hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 1)) != HYB_OK)
        return status;
    for (int i = 1; i <= outputs; i++) {
        const int32_t rank = i < outputs ? 1 : 0;
        if ((status = require_dense(call, i, i == 1 ? DTYPE : HYB_I64, rank)) != HYB_OK ||
            (rank && (status = require_size(call, i, 0, call->layout[0].shape[0])) != HYB_OK))
            return status;
    }
    *range = (hyb_range){1, 1};
    return HYB_OK;
}

HYB_PREPARE(N(prepare_distinct)) { return N(prepare_sets)(call, 2, range); }
HYB_PREPARE(N(prepare_tally)) { return N(prepare_sets)(call, 3, range); }
