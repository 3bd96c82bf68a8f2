/* each_float.inc.c - includes EACH once for each floating dtype, as each_integer.inc.c does; no
 * table.  IS_NAN costs nothing where there is no NaN.
 */
#define IS_NAN(x) ((x) != (x))

#define T float
#define U float
#define N(name) name##_f32
#define HIGHEST INFINITY
#define LOWEST (-INFINITY)
#define DTYPE HYB_F32
#include EACH
#include "kernels/each_end.inc.c"

#define T double
#define U double
#define N(name) name##_f64
#define HIGHEST ((double)INFINITY)
#define LOWEST (-(double)INFINITY)
#define DTYPE HYB_F64
#include EACH
#include "kernels/each_end.inc.c"

#undef IS_NAN
