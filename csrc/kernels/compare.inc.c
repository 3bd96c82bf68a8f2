/* compare.inc.c - comparisons of two operands of one dtype, to bool.
 *
 * Split      by elements.
 * Layout     rank 1, dense or one element repeated; the output is dense, a byte 0 or 1 for each
 * element. In place   allowed when the item sizes are equal. Accuracy   exact; NaN is unequal to
 * everything and neither less nor greater. Attributes none.
 */
#pragma once

#include "kernels/elementwise.inc.c"

#define COMPARE(t)                                                                               \
    HYB_TEST_2(equal, t, x == y)                                                                 \
    HYB_TEST_2(not_equal, t, x != y)                                                             \
    HYB_TEST_2(less, t, x < y)                                                                   \
    HYB_TEST_2(less_equal, t, x <= y)                                                            \
    HYB_TEST_2(greater, t, x > y)                                                                \
    HYB_TEST_2(greater_equal, t, x >= y)

HYB_NUMBERS(COMPARE)

#define COMPARE_ROWS(t)                                                                          \
    HYB_ROW(equal, t, 2) HYB_ROW(not_equal, t, 2) HYB_ROW(less, t, 2) HYB_ROW(less_equal, t, 2)  \
    HYB_ROW(greater, t, 2) HYB_ROW(greater_equal, t, 2)

const hyb_kernel HYB_SYM(hyb_compare_kernels)[] = {
    HYB_NUMBERS(COMPARE_ROWS)
    HYB_BOOL_ROW(equal, equal, 2)
    HYB_BOOL_ROW(not_equal, not_equal, 2)
    HYB_BOOL_ROW(less, less, 2)
    HYB_BOOL_ROW(less_equal, less_equal, 2)
    HYB_BOOL_ROW(greater, greater, 2)
    HYB_BOOL_ROW(greater_equal, greater_equal, 2)
    {0},
};
