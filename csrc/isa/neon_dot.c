#if defined(__aarch64__)
/* neon_dot.c - the products of bytes that Armv8.2 has instructions for (SDOT and UDOT: Cortex-A76,
 * 2018); all else is that of neon.c. */
#include <arm_neon.h>

#include "kernel.h"

#define HYB_ISA neon_dot
#define HYB_VECTOR_BYTES 16
#define HYB_DOT_BYTES 1
#include "isa/begin_neon_dot.h"

#include "vec.h"
#include "kernels/operands.inc.c"
#include "isa/dot_families.h"

#include "isa/end.h"
#endif
