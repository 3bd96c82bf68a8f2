/* sort.inc.c - order along rows, and places in what is ordered.
 *
 *   argsort        [rows, n] -> i64 [rows, n]; attrs i: descending (0/1)
 *   sort           [rows, n] -> T [rows, n]; attrs i: descending (0/1)
 *   topk           [rows, n] -> i64 [rows, k], k <= n: the first of argsort; attrs i: largest (0/1)
 *   searchsorted   T [n] in ascending order, T [m] -> i64 [m]; attrs i: right (0/1)
 *   distinct       T [n] in order -> T [n], i64 []: each once, and how many; the rest is 0
 *   tally          T [n] in order -> T [n], i64 [n], i64 []: the same, and how often each occurs
 *
 * Split      by rows (a long one alone is sorted in halves); by values; sets are one unit.
 * Layout     dense.
 * In place   not allowed.
 * Order      stable: equals keep their order, also when descending.  NaN is greater than every
 *            number, and equal to NaN.  -0 equals 0.
 * Searching  gives the first place at which a value keeps the order (`right`: the last); of a row
 *            that is not ordered, some place.
 *
 * There is nothing here for vectors: one instruction set has it for all.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

#if HYB_VECTOR_BYTES == 16

enum {
    SORT_RUN = 16,      /* items that are put in order by insertion, below the merges */
    SORT_DIGITS = 256,  /* from so many on items are sorted by digits, the last one first */
    SORT_WIDE = 1 << 14, /* from so many on the digits are wide */
    SORT_SPLIT = 1 << 16 /* from so many on one row is worth several threads; of those each */
};

typedef struct {
    uint64_t key;
    int64_t  place;
} sort_item;

static hyb_status sort_no_memory(int64_t n)
{
    return hyb_fail(HYB_NO_MEMORY, "no memory to sort %lld elements", (long long)n);
}

/* Both sort n items by KEY(item), stably, in one of two places, and give the one where they end.
 *
 * sort_runs: insertion below merges.
 * sort_keys: a digit of 8 bits (11 in long rows) after the other, of the bits that are not the same
 * in all keys; of these up to 33 at the top, and then each group that is still equal by itself.
 * Counts of 64 bits would take twice the time, so the longest rows of all are merged. */
#define SORT_BY_KEYS(name, ITEM, KEY)                                                            \
    static ITEM *sort_runs_##name(ITEM *from, ITEM *to, int64_t n)                               \
    {                                                                                            \
        for (int64_t first = 0; first < n; first += SORT_RUN) {                                  \
            const int64_t end = n - first < SORT_RUN ? n : first + SORT_RUN;                     \
            for (int64_t i = first + 1; i < end; i++) {                                          \
                const ITEM item = from[i];                                                       \
                int64_t    at = i;                                                               \
                for (; at > first && KEY(item) < KEY(from[at - 1]); at--)                        \
                    from[at] = from[at - 1];                                                     \
                from[at] = item;                                                                 \
            }                                                                                    \
        }                                                                                        \
        for (int64_t run = SORT_RUN; run < n; run *= 2) {                                        \
            for (int64_t first = 0; first < n; first += 2 * run) {                               \
                const int64_t middle = n - first < run ? n : first + run;                        \
                const int64_t end = n - middle < run ? n : middle + run;                         \
                int64_t       a = first, b = middle;                                             \
                for (int64_t i = first; i < end; i++) {                                          \
                    const bool second = b < end && (a == middle || KEY(from[b]) < KEY(from[a])); \
                    to[i] = from[second ? b++ : a++];                                            \
                }                                                                                \
            }                                                                                    \
            ITEM *const made = to;                                                               \
            to = from;                                                                           \
            from = made;                                                                         \
        }                                                                                        \
        return from;                                                                             \
    }                                                                                            \
                                                                                                 \
    static ITEM *sort_keys_##name(ITEM *from, ITEM *to, int64_t n)                               \
    {                                                                                            \
        if (n < SORT_DIGITS || n > UINT32_MAX)                                                   \
            return sort_runs_##name(from, to, n);                                                \
        uint64_t varying = 0;                                                                    \
        for (int64_t i = 0; i < n; i++)                                                          \
            varying |= KEY(from[i]) ^ KEY(from[0]);                                              \
        if (!varying)                                                                            \
            return from;                                                                         \
        const int top = 64 - __builtin_clzll(varying), bits = n < SORT_WIDE ? 8 : 11;            \
        const int needed = (top + bits - 1) / bits, digits = needed < 3 ? needed : 3;            \
        const int low = top > bits * digits ? top - bits * digits : 0;                           \
        const uint64_t last = ((uint64_t)1 << bits) - 1;                                         \
        uint32_t       counts[3][2048];                                                          \
        memset(counts, 0, sizeof counts);                                                        \
        for (int64_t i = 0; i < n; i++) {                                                        \
            const uint64_t key = KEY(from[i]) >> low;                                            \
            counts[0][key & last]++;                                                             \
            counts[1][key >> bits & last]++;                                                     \
            counts[2][key >> 2 * bits & last]++;                                                 \
        }                                                                                        \
        for (int digit = 0; digit < digits; digit++) {                                           \
            const int shift = low + bits * digit;                                                \
            uint32_t *count = counts[digit], first = 0;                                          \
            for (uint64_t value = 0; value <= last; value++) {                                   \
                const uint32_t size = count[value];                                              \
                count[value] = first;                                                            \
                first += size;                                                                   \
            }                                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                    \
                const ITEM item = from[i];                                                       \
                to[count[KEY(item) >> shift & last]++] = item;                                   \
            }                                                                                    \
            ITEM *const made = to;                                                               \
            to = from;                                                                           \
            from = made;                                                                         \
        }                                                                                        \
        for (int64_t first = 0, end; low && first < n; first = end) {                            \
            const uint64_t group = KEY(from[first]) >> low;                                      \
            for (end = first + 1; end < n && KEY(from[end]) >> low == group;)                    \
                end++;                                                                           \
            if (end - first == 1)                                                                \
                continue;                                                                        \
            ITEM *const made = sort_keys_##name(from + first, to + first, end - first);          \
            if (made != from + first)                                                            \
                memcpy(from + first, made, (size_t)(end - first) * sizeof *made);                \
        }                                                                                        \
        return from;                                                                             \
    }
#define SORT_KEY_ITSELF(item) ((uint64_t)(item))
#define SORT_KEY_ABOVE(item) ((item) >> 32)
#define SORT_KEY_OF_ITEM(item) ((item).key)
SORT_BY_KEYS(32, uint32_t, SORT_KEY_ITSELF)
SORT_BY_KEYS(64, uint64_t, SORT_KEY_ITSELF)
SORT_BY_KEYS(pair, uint64_t, SORT_KEY_ABOVE)
SORT_BY_KEYS(item, sort_item, SORT_KEY_OF_ITEM)

#define EACH "kernels/sort_typed.inc.c"
#include "kernels/each_float.inc.c"
#include "kernels/each_integer.inc.c"
#undef EACH

#define SORT_ROWS(t)                                                                             \
    HYB_TABLE_ROW(argsort, HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, prepare_argsort_##t, argsort_##t)  \
    HYB_TABLE_ROW(sort, HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, prepare_sort_##t, sort_##t)           \
    HYB_TABLE_ROW(topk, HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, prepare_topk_##t, topk_##t)           \
    HYB_TABLE_ROW(searchsorted, HYB_DTYPE_##t, 2, 1, 1, HYB_PLAIN, prepare_searchsorted_##t,     \
                  searchsorted_##t)                                                              \
    HYB_TABLE_ROW(distinct, HYB_DTYPE_##t, 1, 2, 0, HYB_PLAIN, prepare_distinct_##t,             \
                  distinct_##t)                                                                  \
    HYB_TABLE_ROW(tally, HYB_DTYPE_##t, 1, 3, 0, HYB_PLAIN, prepare_tally_##t, tally_##t)

const hyb_kernel HYB_SYM(hyb_sort_kernels)[] = {
    HYB_NUMBERS(SORT_ROWS)
    {0},
};

#else

const hyb_kernel HYB_SYM(hyb_sort_kernels)[] = {{0}};

#endif
