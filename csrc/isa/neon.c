#if defined(__aarch64__)
/* neon.c - every kernel family, compiled for AArch64 Advanced SIMD. */
#include "kernel.h"

#define HYB_ISA neon
#define HYB_VECTOR_BYTES 16

#include "vec.h"
#include "isa/families.h"
#endif
