/* each_integer.inc.c - includes EACH, the path of a file, once for each integer dtype; no table.
 *
 * That file finds T, the element; U, a type that adds and multiplies elements without overflow
 * trouble; N(name), which names what it defines; IS_NAN(x), HIGHEST and LOWEST, the ends of T; and
 * DTYPE.
 */
#define IS_NAN(x) 0

#define T int8_t
#define U uint32_t
#define N(name) name##_i8
#define HIGHEST INT8_MAX
#define LOWEST INT8_MIN
#define DTYPE HYB_I8
#include EACH
#include "kernels/each_end.inc.c"

#define T int16_t
#define U uint32_t
#define N(name) name##_i16
#define HIGHEST INT16_MAX
#define LOWEST INT16_MIN
#define DTYPE HYB_I16
#include EACH
#include "kernels/each_end.inc.c"

#define T int32_t
#define U uint32_t
#define N(name) name##_i32
#define HIGHEST INT32_MAX
#define LOWEST INT32_MIN
#define DTYPE HYB_I32
#include EACH
#include "kernels/each_end.inc.c"

#define T int64_t
#define U uint64_t
#define N(name) name##_i64
#define HIGHEST INT64_MAX
#define LOWEST INT64_MIN
#define DTYPE HYB_I64
#include EACH
#include "kernels/each_end.inc.c"

#define T uint8_t
#define U uint32_t
#define N(name) name##_u8
#define HIGHEST UINT8_MAX
#define LOWEST 0
#define DTYPE HYB_U8
#include EACH
#include "kernels/each_end.inc.c"

#define T uint16_t
#define U uint32_t
#define N(name) name##_u16
#define HIGHEST UINT16_MAX
#define LOWEST 0
#define DTYPE HYB_U16
#include EACH
#include "kernels/each_end.inc.c"

#define T uint32_t
#define U uint32_t
#define N(name) name##_u32
#define HIGHEST UINT32_MAX
#define LOWEST 0
#define DTYPE HYB_U32
#include EACH
#include "kernels/each_end.inc.c"

#define T uint64_t
#define U uint64_t
#define N(name) name##_u64
#define HIGHEST UINT64_MAX
#define LOWEST 0
#define DTYPE HYB_U64
#include EACH
#include "kernels/each_end.inc.c"

#undef IS_NAN
