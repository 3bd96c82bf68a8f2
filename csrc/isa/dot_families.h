/* dot_families.h - the kernel families with products of bytes by an instruction that adds four. */
#include "kernels/dot_bytes.inc.c"
#include "kernels/dot_convolutions.inc.c"
