/* sort.inc.c - order along rows, and places in what is ordered.
 *
 *   argsort        [rows, n] -> i64 [rows, n]; attrs i: descending (0/1)
 *   sort           [rows, n] -> T [rows, n]; attrs i: descending (0/1)
 *   topk           [rows, n] -> i64 [rows, k], k <= n: the first of argsort; attrs i: largest (0/1)
 *   searchsorted   T [n] in ascending order, T [m] -> i64 [m]; attrs i: right (0/1)
 *
 * Split      by rows; by values.
 * Layout     dense.
 * In place   not allowed.
 * Order      stable: equals keep their order, also when descending.  NaN is greater than every
 *            number, and equal to NaN.  -0 equals 0.
 * Searching  gives the first place at which a value keeps the order (`right`: the last); of a row
 *            that is not ordered, some place.
 *
 * There is nothing here for vectors: one instruction set has it for all.
 */
#if HYB_VECTOR_BYTES == 16

enum {
    SORT_RUN = 16,    /* items that are put in order by insertion, below the merges */
    SORT_DIGITS = 256, /* from so many on rows are sorted by the digits of keys, the last one first */
    SORT_WIDE = 1 << 14 /* from so many on the digits are wide */
};

typedef struct {
    uint64_t key;
    int64_t  place;
} sort_item;

static hyb_status sort_no_memory(int64_t n)
{
    return hyb_fail(HYB_NO_MEMORY, "no memory to sort %lld elements", (long long)n);
}

/* Sorts n items by the `bytes` bytes of KEY(item), a digit of 8 bits (11 in long rows) after the
 * other, each pass from one of two places into the other; gives the place where they end.  A digit
 * that all keys share needs no pass. */
#define SORT_BY_DIGITS(name, ITEM, KEY)                                                          \
    static ITEM *sort_digits_##name(ITEM *from, ITEM *to, int64_t n, size_t bytes)               \
    {                                                                                            \
        const size_t bits = n < SORT_WIDE ? 8 : 11, values = (size_t)1 << bits;                  \
        const size_t digits = (8 * bytes + bits - 1) / bits;                                     \
        int64_t      counts[8][2048];                                                            \
        for (size_t digit = 0; digit < digits; digit++)                                          \
            memset(counts[digit], 0, values * sizeof(int64_t));                                  \
        for (int64_t i = 0; i < n; i++) {                                                        \
            const uint64_t key = KEY(from[i]);                                                   \
            for (size_t digit = 0; digit < digits; digit++)                                      \
                counts[digit][key >> bits * digit & (values - 1)]++;                             \
        }                                                                                        \
        for (size_t digit = 0; digit < digits; digit++) {                                        \
            const size_t shift = bits * digit;                                                   \
            int64_t     *count = counts[digit], first = 0;                                       \
            if (count[KEY(from[0]) >> shift & (values - 1)] == n)                                \
                continue;                                                                        \
            for (size_t value = 0; value < values; value++) {                                    \
                const int64_t size = count[value];                                               \
                count[value] = first;                                                            \
                first += size;                                                                   \
            }                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                      \
                to[count[KEY(from[i]) >> shift & (values - 1)]++] = from[i];                     \
            ITEM *const made = to;                                                               \
            to = from;                                                                           \
            from = made;                                                                         \
        }                                                                                        \
        return from;                                                                             \
    }
#define SORT_KEY_ITSELF(item) ((uint64_t)(item))
#define SORT_KEY_ABOVE(item) ((item) >> 32)
#define SORT_KEY_OF_ITEM(item) ((item).key)
SORT_BY_DIGITS(32, uint32_t, SORT_KEY_ITSELF)
SORT_BY_DIGITS(64, uint64_t, SORT_KEY_ITSELF)
SORT_BY_DIGITS(pair, uint64_t, SORT_KEY_ABOVE)
SORT_BY_DIGITS(item, sort_item, SORT_KEY_OF_ITEM)

#define EACH "kernels/sort_typed.inc.c"
#include "kernels/each_float.inc.c"
#include "kernels/each_integer.inc.c"
#undef EACH

#define SORT_ROWS(t)                                                                             \
    {"argsort", HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, HYB_SYM(prepare_argsort_##t),                 \
     HYB_SYM(argsort_##t)},                                                                      \
    {"sort", HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, HYB_SYM(prepare_sort_##t), HYB_SYM(sort_##t)},   \
    {"topk", HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, HYB_SYM(prepare_topk_##t), HYB_SYM(topk_##t)},   \
    {"searchsorted", HYB_DTYPE_##t, 2, 1, 1, HYB_PLAIN, HYB_SYM(prepare_searchsorted_##t),       \
     HYB_SYM(searchsorted_##t)},

const hyb_kernel HYB_SYM(hyb_sort_kernels)[] = {
    HYB_NUMBERS(SORT_ROWS)
    {0},
};

#else

const hyb_kernel HYB_SYM(hyb_sort_kernels)[] = {{0}};

#endif
