/* checks.inc.c - elements handed on, unless one lies where the op has no meaning.
 *
 *   require_values: y = x; HYB_OUT_OF_DOMAIN, which says what and the first such element
 *
 * Split      by elements.
 * Layout     dense rank 1 -> dense rank 1.
 * In place   allowed.
 * Special    NaN passes.
 * Attributes the subject, by its place in SUBJECTS; hybrid/errors.py has the same table.
 *
 * Bound by memory: one instruction set has it for all.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

#if HYB_VECTOR_BYTES == 16

static const struct { const char *name; double least, greatest; } SUBJECTS[] = {
    {"exponent", 0, INFINITY},
    {"probability", 0, 1},
    {"variance", 0, INFINITY},
};
enum { N_SUBJECTS = sizeof SUBJECTS / sizeof *SUBJECTS };

static hyb_status checks_prepare(const hyb_call *call, int32_t dtype, hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, dtype, 1)) != HYB_OK ||
        (status = require_dense(call, 1, dtype, 1)) != HYB_OK ||
        (status = require_size(call, 1, 0, call->layout[0].shape[0])) != HYB_OK)
        return status;
    if (call->attrs[0].i < 0 || call->attrs[0].i >= N_SUBJECTS)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no subject %lld", (long long)call->attrs[0].i);
    *range = (hyb_range){call->layout[0].shape[0], grain_of(1)};
    return HYB_OK;
}

/* A double is compared with bounds that each dtype has: 0, 1, and infinity, which bounds none. */
#define CHECK(t)                                                                                 \
    HYB_KERNEL(require_values_##t)                                                               \
    {                                                                                            \
        const int      subject = (int)call->attrs[0].i;                                          \
        const c_##t   *x = call->data[0];                                                        \
        c_##t         *y = call->data[1];                                                        \
        const double   least = SUBJECTS[subject].least, greatest = SUBJECTS[subject].greatest;   \
        int            outside = 0;                                                              \
        for (int64_t i = begin; i < end; i++)                                                    \
            outside |= ((double)x[i] < least) | ((double)x[i] > greatest);                       \
        for (int64_t i = begin; outside && i < end; i++)                                         \
            if ((double)x[i] < least || (double)x[i] > greatest)                                 \
                return hyb_fail(HYB_OUT_OF_DOMAIN, "%s %g", SUBJECTS[subject].name, (double)x[i]); \
        if (x != y)                                                                              \
            memcpy(y + begin, x + begin, (size_t)(end - begin) * sizeof *y);                     \
        return HYB_OK;                                                                           \
    }                                                                                            \
    HYB_PREPARE(prepare_require_values_##t) { return checks_prepare(call, HYB_DTYPE_##t, range); }

HYB_NUMBERS(CHECK)

#define CHECK_ROW(t)                                                                             \
    HYB_TABLE_ROW(require_values, HYB_DTYPE_##t, 1, 1, 1, HYB_PLAIN, prepare_require_values_##t, \
                  require_values_##t)

const hyb_kernel HYB_SYM(hyb_checks_kernels)[] = {
    HYB_NUMBERS(CHECK_ROW)
    {0},
};

#else

const hyb_kernel HYB_SYM(hyb_checks_kernels)[] = {{0}};

#endif
