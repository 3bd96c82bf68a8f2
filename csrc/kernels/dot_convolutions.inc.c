/* dot_convolutions.inc.c - the convolutions of bytes of convolution/integer.inc.c, by an instruction that
 * adds four products: for instruction sets that have it, and take all else from another. */
#pragma once

#include "kernels/operands.inc.c"

#define INTEGER_BYTES(sum, a, b)                                                                    \
    (v_i32)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(a), (__m512i)(b))
#include "kernels/convolution/integer.inc.c"

const hyb_kernel HYB_SYM(hyb_dot_convolutions_kernels)[] = {
    INTEGER_TABLE
    {0},
};
