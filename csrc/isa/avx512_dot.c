#if defined(__x86_64__)
/* avx512_dot.c - the products that AVX-512 BF16 and VNNI have instructions for (Cooper Lake, 2020;
 * Zen 4, 2022); all else is that of avx512.c. */
#include <immintrin.h>

#include "kernel.h"

#define HYB_ISA avx512_dot
#define HYB_VECTOR_BYTES 64
#define HYB_DOT_BYTES 1
#include "isa/begin_avx512_dot.h"

#include "vec.h"
#include "kernels/operands.inc.c"
#include "kernels/dot.inc.c"
#include "isa/dot_families.h"

#include "isa/end.h"
#endif
