#if defined(__x86_64__)
/* avx512.c - every kernel family, compiled for AVX-512 F/DQ/BW/VL (Skylake-X, 2017). */
#include <immintrin.h>

#include "kernel.h"

#define HYB_ISA avx512
#define HYB_VECTOR_BYTES 64
#include "isa/begin_avx512.h"

#include "vec.h"
#include "isa/families.h"

#include "isa/end.h"
#endif
