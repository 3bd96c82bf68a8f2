/* each_float.inc.c - includes EACH once for each floating dtype, as each_integer.inc.c does; no
 * table.
 *
 * That file finds besides V, a vector of T; M, its mask; I, an integer as wide as T; and LANES, how
 * many T a vector has.
 */
#define IS_NAN(x) ((x) != (x))

#define T float
#define U float
#define N(name) name##_f32
#define V v_f32
#define M v_i32
#define I int32_t
#define LANES HYB_LANES_32
#define HIGHEST INFINITY
#define LOWEST (-INFINITY)
#define DTYPE HYB_F32
#include EACH
#include "kernels/each_end.inc.c"
#undef V
#undef M
#undef I
#undef LANES

#define T double
#define U double
#define N(name) name##_f64
#define V v_f64
#define M v_i64
#define I int64_t
#define LANES HYB_LANES_64
#define HIGHEST ((double)INFINITY)
#define LOWEST (-(double)INFINITY)
#define DTYPE HYB_F64
#include EACH
#include "kernels/each_end.inc.c"
#undef V
#undef M
#undef I
#undef LANES

#undef IS_NAN
