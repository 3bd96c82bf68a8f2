/* families.h - the kernel families, in the order in which they may use each other's helpers. */
#include "kernels/math/family.inc.c" /* exp, log, tanh ... of vectors; no table */
#include "kernels/elementwise.inc.c" /* the loops of the next five and of optimizer; no table */
#include "kernels/unary.inc.c"
#include "kernels/binary.inc.c"
#include "kernels/compare.inc.c"
#include "kernels/select.inc.c"
#include "kernels/cast.inc.c"
#include "kernels/operands.inc.c" /* checks of layouts; no table */
#include "kernels/reduce.inc.c"
#include "kernels/matmul/family.inc.c"
#include "kernels/linalg/family.inc.c" /* tiles of matmul */
#include "kernels/convolution/family.inc.c"
#include "kernels/pooling.inc.c"
#include "kernels/resample.inc.c"
#include "kernels/unfold.inc.c"
#include "kernels/softmax.inc.c"
#include "kernels/random.inc.c"
#include "kernels/attention/family.inc.c" /* tiles of matmul, exponentials of softmax, draws */
#include "kernels/copy.inc.c"
#include "kernels/gather.inc.c"
#include "kernels/sort.inc.c"
#include "kernels/cumulative.inc.c"
#include "kernels/normalization.inc.c" /* sums lanes as softmax does */
#include "kernels/distributions.inc.c"
#include "kernels/optimizer.inc.c"
