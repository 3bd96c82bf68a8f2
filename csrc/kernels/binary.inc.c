/* binary.inc.c - two operands of one dtype, element by element.
 *
 * Split      by elements.
 * Layout     rank 1, dense or one element repeated; the output is dense.
 * In place   allowed: the output may be either input.
 * Accuracy   correctly rounded, but for pow, atan2 (math/family.inc.c) and hypot (1 ulp, the C library's).
 * Attributes none.
 *
 * Integers wrap.  Division by zero gives 0, for the remainder too; floor_divide and remainder of
 * the least integer by -1 give it back and 0.  A shift count outside 0..bits-1 shifts everything
 * out: 0, or -1 where a negative number goes right.  pow of an integer with a negative exponent is
 * 0, but 1 or -1 for a base of 1 or -1.  maximum and minimum propagate NaN.  remainder has the sign
 * of the divisor.
 *
 * add_exact, subtract_exact and multiply_exact are Python's, of ints that have 64 bits: dense operands of
 * any rank, and HYB_OVERFLOW where a result has not.  quotient is Python's `/` of such ints, rounded once,
 * to f64; what is divided by 0 is as for floats.
 */
#pragma once

#include "kernels/math/family.inc.c"
#include "kernels/elementwise.inc.c"

#define BINARY_NUMBER(t)                                                                         \
    HYB_MAP_2(add, t, 1, (w_##t)x + (w_##t)y)                                                    \
    HYB_MAP_2(subtract, t, 1, (w_##t)x - (w_##t)y)                                               \
    HYB_MAP_2(multiply, t, 1, (w_##t)x * (w_##t)y)

#define BINARY_INTEGER(t)                                                                        \
    BINARY_NUMBER(t)                                                                             \
    HYB_MAP_2(maximum, t, 1, v_select_##t((m_##t)(x > y), x, y))                                 \
    HYB_MAP_2(minimum, t, 1, v_select_##t((m_##t)(x < y), x, y))                                 \
    HYB_MAP_2(bitwise_and, t, 1, x & y)                                                          \
    HYB_MAP_2(bitwise_or, t, 1, x | y)                                                           \
    HYB_MAP_2(bitwise_xor, t, 1, x ^ y)                                                          \
    HYB_SCALAR_2(floor_divide, t, 16, floor_divide_##t)                                          \
    HYB_SCALAR_2(remainder, t, 16, remainder_##t)                                                \
    HYB_SCALAR_2(pow, t, 32, pow_##t)

#define BINARY_FLOAT(t)                                                                          \
    BINARY_NUMBER(t)                                                                             \
    HYB_MAP_2(maximum, t, 2, v_select_##t((m_##t)(x > y) | (m_##t)(x != x), x, y))               \
    HYB_MAP_2(minimum, t, 2, v_select_##t((m_##t)(x < y) | (m_##t)(x != x), x, y))               \
    HYB_MAP_2(divide, t, 8, x / y)                                                               \
    HYB_MAP_2(copysign, t, 1, v_or_##t(v_abs_##t(x), v_sign_##t(y)))                             \
    HYB_SCALAR_2(nextafter, t, 16, nextafter_##t)                                                \
    HYB_SCALAR_2(floor_divide, t, 64, floor_divide_##t)                                          \
    HYB_SCALAR_2(remainder, t, 64, remainder_##t)                                                \
    HYB_MAP_2(atan2, t, 40, v_atan2_##t(x, y))                                                   \
    HYB_MAP_2(pow, t, 64, v_pow_##t(x, y))                                                       \
    HYB_SCALAR_2(hypot, t, 16, hypot_##t)

/* U is T without a sign. */
#define INTEGER_FUNCTIONS(T, U, t)                                                               \
    static inline T floor_divide_##t(T x, T y)                                                   \
    {                                                                                            \
        if (y == 0 || y == -1)                                                                   \
            return y == 0 ? 0 : (T)(0 - (U)x);                                                   \
        return x / y - (x % y != 0 && (x < 0) != (y < 0));                                       \
    }                                                                                            \
    static inline T remainder_##t(T x, T y)                                                      \
    {                                                                                            \
        const T rest = y == 0 || y == -1 ? 0 : x % y;                                            \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;                             \
    }                                                                                            \
    static inline T pow_##t(T base, T exponent)                                                  \
    {                                                                                            \
        if (exponent < 0)                                                                        \
            return base == 1 || base == -1 ? (exponent & 1 ? base : 1) : 0;                      \
        U power = 1;                                                                             \
        for (U square = (U)base; exponent; exponent >>= 1, square *= square)                     \
            power *= exponent & 1 ? square : 1;                                                  \
        return (T)power;                                                                         \
    }
INTEGER_FUNCTIONS(int32_t, uint32_t, i32)
INTEGER_FUNCTIONS(int64_t, uint64_t, i64)

#define UNSIGNED_FUNCTIONS(T, t)                                                                 \
    static inline T floor_divide_##t(T x, T y) { return y == 0 ? 0 : x / y; }                    \
    static inline T remainder_##t(T x, T y) { return y == 0 ? 0 : x % y; }                       \
    static inline T pow_##t(T base, T exponent)                                                  \
    {                                                                                            \
        T power = 1;                                                                             \
        for (T square = base; exponent; exponent >>= 1, square *= square)                        \
            power *= exponent & 1 ? square : 1;                                                  \
        return power;                                                                            \
    }
UNSIGNED_FUNCTIONS(uint32_t, u32)
UNSIGNED_FUNCTIONS(uint64_t, u64)

/* The low bits of the wider result are the result.  No instruction set shifts bytes, and few shift
 * words, by counts of their own. */
#define NARROW_FUNCTION(name, t) \
    static inline c_##t name##_##t(c_##t x, c_##t y) { return (c_##t)name##_i32(x, y); }
#define NARROW_FUNCTIONS(t, bits)                                                                \
    NARROW_FUNCTION(floor_divide, t)                                                             \
    NARROW_FUNCTION(remainder, t)                                                                \
    NARROW_FUNCTION(pow, t)                                                                      \
    static inline c_##t left_shift_##t(c_##t x, c_##t count)                                     \
    {                                                                                            \
        return (c_##t)(count >= 0 && count < bits ? (uint32_t)x << count : 0);                   \
    }                                                                                            \
    static inline c_##t right_shift_##t(c_##t x, c_##t count)                                    \
    {                                                                                            \
        return (c_##t)(x >> (count >= 0 && count < bits ? count : bits));                        \
    }                                                                                            \
    HYB_SCALAR_2(bitwise_left_shift, t, 2, left_shift_##t)                                       \
    HYB_SCALAR_2(bitwise_right_shift, t, 2, right_shift_##t)
NARROW_FUNCTIONS(i8, 8)
NARROW_FUNCTIONS(i16, 16)
NARROW_FUNCTIONS(u8, 8)
NARROW_FUNCTIONS(u16, 16)

/* From the exact remainder, as Python and NumPy do: floor(x / y) itself would be wrong next to
 * whole numbers. */
#define FLOAT_FUNCTIONS(T, t, f)                                                                 \
    static inline T remainder_##t(T x, T y)                                                      \
    {                                                                                            \
        const T rest = fmod##f(x, y);                                                            \
        if (rest == 0)                                                                           \
            return copysign##f(0, y);                                                            \
        return (rest < 0) != (y < 0) ? rest + y : rest;                                          \
    }                                                                                            \
    static inline T floor_divide_##t(T x, T y)                                                   \
    {                                                                                            \
        if (y == 0 || isinf(x))                                                                  \
            return x / y;                                                                        \
        if (isinf(y) && !isnan(x))                                                               \
            return copysign##f(0, x / y);                                                        \
        const T rest = fmod##f(x, y);                                                            \
        const T quotient = (x - rest) / y - (rest != 0 && (rest < 0) != (y < 0));                \
        if (quotient == 0)                                                                       \
            return copysign##f(0, x / y);                                                        \
        const T whole = floor##f(quotient);                                                      \
        return quotient - whole > (T)0.5 ? whole + 1 : whole;                                    \
    }                                                                                            \
    static inline T nextafter_##t(T x, T y) { return nextafter##f(x, y); }
FLOAT_FUNCTIONS(float, f32, f)
FLOAT_FUNCTIONS(double, f64, )

/* The squares are exact in float64, and so far from its limits that nothing needs scaling. */
static inline float hypot_f32(float x, float y)
{
    const double length = sqrt((double)x * x + (double)y * y);
    return isinf(x) || isinf(y) ? INFINITY : (float)length;
}
static inline double hypot_f64(double x, double y) { return hypot(x, y); }

#define BINARY_LEFT_SHIFT(t, bits)                                                               \
    HYB_MAP_2(bitwise_left_shift, t, 2,                                                          \
              ((w_##t)x << ((w_##t)y & (bits - 1))) & (w_##t)((w_##t)y < bits))
#define BINARY_SIGNED_SHIFTS(t, bits)                                                            \
    BINARY_LEFT_SHIFT(t, bits)                                                                   \
    HYB_MAP_2(bitwise_right_shift, t, 2,                                                         \
              x >> v_select_##t((m_##t)((w_##t)y < bits), y, v_splat_##t(bits - 1)))
#define BINARY_UNSIGNED_SHIFTS(t, bits)                                                          \
    BINARY_LEFT_SHIFT(t, bits)                                                                   \
    HYB_MAP_2(bitwise_right_shift, t, 2, (x >> (y & (bits - 1))) & (v_##t)(y < bits))
BINARY_SIGNED_SHIFTS(i32, 32)
BINARY_SIGNED_SHIFTS(i64, 64)
BINARY_UNSIGNED_SHIFTS(u32, 32)
BINARY_UNSIGNED_SHIFTS(u64, 64)

HYB_INTEGERS(BINARY_INTEGER)
HYB_FLOATS(BINARY_FLOAT)

#define BINARY_NUMBER_ROWS(t)                                                                    \
    HYB_ROW(add, t, 2) HYB_ROW(subtract, t, 2) HYB_ROW(multiply, t, 2) HYB_ROW(maximum, t, 2)    \
    HYB_ROW(minimum, t, 2) HYB_ROW(floor_divide, t, 2) HYB_ROW(remainder, t, 2) HYB_ROW(pow, t, 2)

#define BINARY_INTEGER_ROWS(t)                                                                   \
    BINARY_NUMBER_ROWS(t)                                                                        \
    HYB_ROW(bitwise_and, t, 2) HYB_ROW(bitwise_or, t, 2) HYB_ROW(bitwise_xor, t, 2)              \
    HYB_ROW(bitwise_left_shift, t, 2) HYB_ROW(bitwise_right_shift, t, 2)

#define BINARY_FLOAT_ROWS(t) \
    BINARY_NUMBER_ROWS(t) HYB_ROW(divide, t, 2) HYB_ROW(atan2, t, 2) HYB_ROW(hypot, t, 2)         \
    HYB_ROW(copysign, t, 2) HYB_ROW(nextafter, t, 2)

/* Two operands, dense i64 of one shape, and a result like them or of f64. */
static hyb_status prepare_ints(const hyb_call *call, int32_t result, hyb_range *range)
{
    for (int i = 0; i < 3; i++)
        if (call->layout[i].dtype != (i < 2 ? HYB_I64 : result) || !hyb_is_contiguous(&call->layout[i])
            || !hyb_same_shape(&call->layout[i], &call->layout[0]))
            return hyb_fail(HYB_BAD_ARGUMENT, "operand %d is not dense, %s and of the shape of the others", i,
                            i < 2 || result == HYB_I64 ? "i64" : "f64");
    *range = (hyb_range){hyb_elements(&call->layout[0]), 4096};
    return HYB_OK;
}
HYB_PREPARE(exact_prepare) { return prepare_ints(call, HYB_I64, range); }
HYB_PREPARE(quotient_prepare) { return prepare_ints(call, HYB_F64, range); }

/* As many bits of the quotient as there are, the last one saying whether there are more: so that rounding
 * it is rounding once. */
static double divide_ints(int64_t a, int64_t b)
{
    const int64_t exact = (int64_t)1 << 53;
    if ((a >= -exact && a <= exact && b >= -exact && b <= exact) || b == 0)
        return (double)a / (double)b;
    const uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (x == 0)
        return b < 0 ? -0.0 : 0.0;
    const int shift = 64 + __builtin_clzll(x);
    const unsigned __int128 wide = (unsigned __int128)x << shift;
    const double size = ldexp((double)(wide / y | (wide % y != 0)), -shift);
    return (a < 0) != (b < 0) ? -size : size;
}

HYB_KERNEL(quotient)
{
    const int64_t *a = call->data[0], *b = call->data[1];
    double        *out = call->data[2];
    for (int64_t i = begin; i < end; i++)
        out[i] = divide_ints(a[i], b[i]);
    return HYB_OK;
}

/* As Python counts: the bits of the absolute value. */
static hyb_status grew(__int128 exact)
{
    const unsigned __int128 size = exact < 0 ? -(unsigned __int128)exact : (unsigned __int128)exact;
    const uint64_t high = (uint64_t)(size >> 64), low = (uint64_t)size;
    const int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll(low);
    return hyb_fail(HYB_OVERFLOW, "an int grew to %d bits", bits);
}

#define EXACT(name, builtin, sign)                                                               \
    HYB_KERNEL(name)                                                                             \
    {                                                                                            \
        const int64_t *a = call->data[0], *b = call->data[1];                                    \
        int64_t       *out = call->data[2];                                                      \
        for (int64_t i = begin; i < end; i++)                                                    \
            if (__builtin_expect(builtin(a[i], b[i], &out[i]), 0))                               \
                return grew((__int128)a[i] sign (__int128)b[i]);                                 \
        return HYB_OK;                                                                           \
    }
EXACT(add_exact, __builtin_add_overflow, +)
EXACT(subtract_exact, __builtin_sub_overflow, -)
EXACT(multiply_exact, __builtin_mul_overflow, *)

#define EXACT_ROW(name) HYB_TABLE_ROW(name, HYB_I64, 2, 1, 0, HYB_PLAIN, exact_prepare, name)

const hyb_kernel HYB_SYM(hyb_binary_kernels)[] = {
    EXACT_ROW(add_exact) EXACT_ROW(subtract_exact) EXACT_ROW(multiply_exact)
    {"quotient", HYB_I64, 2, 1, 0, HYB_PLAIN, HYB_SYM(quotient_prepare), HYB_SYM(quotient)},
    HYB_FLOATS(BINARY_FLOAT_ROWS)
    HYB_INTEGERS(BINARY_INTEGER_ROWS)
    HYB_BOOL_ROW(bitwise_and, bitwise_and, 2)
    HYB_BOOL_ROW(bitwise_or, bitwise_or, 2)
    HYB_BOOL_ROW(bitwise_xor, bitwise_xor, 2)
    HYB_BOOL_ROW(logical_and, bitwise_and, 2)
    HYB_BOOL_ROW(logical_or, bitwise_or, 2)
    HYB_BOOL_ROW(logical_xor, bitwise_xor, 2)
    {0},
};
