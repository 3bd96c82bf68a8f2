/* baseline.c - every kernel family, compiled for the compiler's default target (x86-64: SSE2). */
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernel.h"

#define HYB_ISA baseline
#define HYB_VECTOR_BYTES 16

#include "vec.h"
#include "isa/families.h"
