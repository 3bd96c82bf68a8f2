/* sort.inc.c - order along rows, and places in what is ordered.
 *
 *   argsort        [rows, n] -> i64 [rows, n]; attrs i: descending (0/1)
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

enum { SORT_RUN = 16 }; /* items that are put in order by insertion, below the merges */

#define EACH "kernels/sort_typed.inc.c"
#include "kernels/each_float.inc.c"
#include "kernels/each_integer.inc.c"
#undef EACH

#define SORT_ROWS(t)                                                                             \
    {"argsort", HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, HYB_SYM(prepare_argsort_##t),                 \
     HYB_SYM(argsort_##t)},                                                                      \
    {"searchsorted", HYB_DTYPE_##t, 2, 1, 1, HYB_PLAIN, HYB_SYM(prepare_searchsorted_##t),       \
     HYB_SYM(searchsorted_##t)},

const hyb_kernel HYB_SYM(hyb_sort_kernels)[] = {
    HYB_NUMBERS(SORT_ROWS)
    {0},
};

#else

const hyb_kernel HYB_SYM(hyb_sort_kernels)[] = {{0}};

#endif
