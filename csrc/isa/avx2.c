#if defined(__x86_64__)
/* avx2.c - every kernel family, compiled for AVX2 + FMA + F16C (Haswell, 2013). */
#include <immintrin.h>

#include "kernel.h"

#define HYB_ISA avx2
#define HYB_VECTOR_BYTES 32
#include "isa/begin_avx2.h"

#include "vec.h"
#include "isa/families.h"

#include "isa/end.h"
#endif
