#if defined(__x86_64__)
/* avx_vnni.c - the products of bytes that AVX-VNNI has an instruction for (Alder Lake, 2021; Zen 5,
 * 2024); all else is that of avx2.c. */
#include <immintrin.h>

#include "kernel.h"

#define HYB_ISA avx_vnni
#define HYB_VECTOR_BYTES 32
#define HYB_DOT_BYTES 1
#include "isa/begin_avx_vnni.h"

#include "vec.h"
#include "kernels/operands.inc.c"
#include "isa/dot_families.h"

#include "isa/end.h"
#endif
