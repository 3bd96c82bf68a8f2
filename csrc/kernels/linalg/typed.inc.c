/* linalg/typed.inc.c - matrices of one float dtype; included by linalg/family.inc.c once per dtype
 * (each_float.inc.c).
 */
#include "kernels/linalg/products.inc.c"
#include "kernels/linalg/triangular.inc.c"
#include "kernels/linalg/reflections.inc.c"
#include "kernels/linalg/spectral.inc.c"
