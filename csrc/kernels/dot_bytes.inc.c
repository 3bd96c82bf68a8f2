/* dot_bytes.inc.c - the products of bytes of matmul/bytes.inc.c, by an instruction that adds four of
 * them: for instruction sets that have it, and take all else from another. */
#pragma once

#include "kernels/operands.inc.c"

#include "kernels/matmul/operands.inc.c"

#include "kernels/matmul/bytes.inc.c"

const hyb_kernel HYB_SYM(hyb_dot_bytes_kernels)[] = {
    MATMUL_INTEGER_ROWS(HYB_I8)
    MATMUL_INTEGER_ROWS(HYB_U8)
    {0},
};
