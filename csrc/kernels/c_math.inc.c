/* c_math.inc.c - functions of the C library, for numbers that Python computes by the same ones.
 *
 *   c_function: z = f(x, y), or f(x) where f has one argument
 *
 * Split      by elements.
 * Layout     dense rank 1, of float64.
 * In place   not allowed.
 * Accuracy   that of the C library: the bits are those of Python's math module on the same machine.
 * Special    what the C library gives where Python raises: NaN, infinities.
 * Attributes the function, by its place in FUNCTIONS; hybrid/ops/elementwise/c_functions.py has the same table.
 *
 * Numbers are few: one instruction set has it for all.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

#if HYB_VECTOR_BYTES == 16

static const struct { double (*one)(double); double (*two)(double, double); } FUNCTIONS[] = {
    {.one = sin}, {.one = cos}, {.one = tan}, {.one = asin}, {.one = acos}, {.one = atan},
    {.one = sinh}, {.one = cosh}, {.one = tanh}, {.one = asinh}, {.one = acosh}, {.one = atanh},
    {.one = exp}, {.one = expm1}, {.one = log}, {.one = log1p}, {.one = log2}, {.one = log10},
    {.two = pow}, {.two = atan2}, {.two = fmod},
};
enum { N_FUNCTIONS = sizeof FUNCTIONS / sizeof *FUNCTIONS };

HYB_PREPARE(c_function_prepare)
{
    for (int i = 0; i < 3; i++) {
        const hyb_status status = require_dense(call, i, HYB_F64, 1);
        if (status != HYB_OK)
            return status;
        if (call->layout[i].shape[0] != call->layout[0].shape[0])
            return hyb_fail(HYB_BAD_ARGUMENT, "operand %d has another size than the first", i);
    }
    if (call->attrs[0].i < 0 || call->attrs[0].i >= N_FUNCTIONS)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no function %lld", (long long)call->attrs[0].i);
    *range = (hyb_range){call->layout[0].shape[0], grain_of(64)};
    return HYB_OK;
}

HYB_KERNEL(c_function)
{
    const int     function = (int)call->attrs[0].i;
    const double *x = call->data[0], *y = call->data[1];
    double       *z = call->data[2];
    for (int64_t i = begin; i < end; i++)
        z[i] = FUNCTIONS[function].one ? FUNCTIONS[function].one(x[i]) : FUNCTIONS[function].two(x[i], y[i]);
    return HYB_OK;
}

const hyb_kernel HYB_SYM(hyb_c_math_kernels)[] = {
    HYB_TABLE_ROW(c_function, HYB_F64, 2, 1, 1, HYB_PLAIN, c_function_prepare, c_function)
    {0},
};

#else

const hyb_kernel HYB_SYM(hyb_c_math_kernels)[] = {{0}};

#endif
