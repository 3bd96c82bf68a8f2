/* dot_families.h - the kernel families with instructions for dot products. */
#include "kernels/dot.inc.c"
#include "kernels/dot_bytes.inc.c"
#include "kernels/dot_convolutions.inc.c"
