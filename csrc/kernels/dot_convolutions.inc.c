/* dot_convolutions.inc.c - the convolutions of bytes of convolution/integer.inc.c, by an instruction that
 * adds four products: for instruction sets that have it, and take all else from another. */
#pragma once

#include "kernels/operands.inc.c"

#include "kernels/convolution/integer.inc.c"

const hyb_kernel HYB_SYM(hyb_dot_convolutions_kernels)[] = {
    INTEGER_TABLE
    {0},
};
