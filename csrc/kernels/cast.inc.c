/* cast.inc.c - to another dtype, element by element.
 *
 * Split      by elements.
 * Layout     rank 1, dense or one element repeated; the output is dense.
 * In place   allowed when the item sizes are equal.
 * Accuracy   to a float: correctly rounded.  To an integer: from an integer the low bits; from a
 * float towards zero, saturating, NaN to 0.  To bool: whether it differs from 0 (NaN does).
 * Attributes none.
 *
 * A bool operand is bytes 0 or 1, so it is cast as u8.
 */
#pragma once

#include "kernels/elementwise.inc.c"

/* An integer from a float: below `low`, not below `above` and NaN never meet the conversion of C.
 */
#define CAST_SATURATING(F, f, T, t, low, above, least, most)                                     \
    static inline T cast_##f##_to_##t(F x)                                                       \
    {                                                                                            \
        const T inside = (T)(x >= (F)low && x < (F)above ? x : 0);                               \
        return x >= (F)above ? most : x < (F)low ? least : inside;                               \
    }
#define CAST_FROM_FLOAT(F, f)                                                                    \
    CAST_SATURATING(F, f, int8_t, i8, -0x1p7, 0x1p7, INT8_MIN, INT8_MAX)                         \
    CAST_SATURATING(F, f, int16_t, i16, -0x1p15, 0x1p15, INT16_MIN, INT16_MAX)                   \
    CAST_SATURATING(F, f, int32_t, i32, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)                   \
    CAST_SATURATING(F, f, int64_t, i64, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)                   \
    CAST_SATURATING(F, f, uint8_t, u8, 0, 0x1p8, 0, UINT8_MAX)                                   \
    CAST_SATURATING(F, f, uint16_t, u16, 0, 0x1p16, 0, UINT16_MAX)                               \
    CAST_SATURATING(F, f, uint32_t, u32, 0, 0x1p32, 0, UINT32_MAX)                               \
    CAST_SATURATING(F, f, uint64_t, u64, 0, 0x1p64, 0, UINT64_MAX)
CAST_FROM_FLOAT(float, f32)
CAST_FROM_FLOAT(double, f64)

#define CAST_C_LANGUAGE(f, t) \
    static inline c_##t cast_##f##_to_##t(c_##f x) { return (c_##t)x; }
CAST_C_LANGUAGE(f32, f32)
CAST_C_LANGUAGE(f32, f64)
CAST_C_LANGUAGE(f64, f32)
CAST_C_LANGUAGE(f64, f64)
#define CAST_FROM_INTEGER(f)                                                                     \
    CAST_C_LANGUAGE(f, i8) CAST_C_LANGUAGE(f, i16) CAST_C_LANGUAGE(f, i32)                       \
    CAST_C_LANGUAGE(f, i64) CAST_C_LANGUAGE(f, u8) CAST_C_LANGUAGE(f, u16)                       \
    CAST_C_LANGUAGE(f, u32) CAST_C_LANGUAGE(f, u64) CAST_C_LANGUAGE(f, f32)                      \
    CAST_C_LANGUAGE(f, f64)
HYB_INTEGERS(CAST_FROM_INTEGER)

typedef uint8_t c_truth; /* `bool` is a macro: it cannot be part of a name */
#define HYB_DTYPE_truth HYB_BOOL
#define CAST_TO_BOOL(f) \
    static inline uint8_t cast_##f##_to_truth(c_##f x) { return x != 0; }
HYB_NUMBERS(CAST_TO_BOOL)

/* float16 and bfloat16 are storage: they are cast to and from float32 alone, and held as bits.
 * Rounding is to the nearest, ties to even; NaN stays NaN. */
typedef uint16_t c_f16, c_bf16;

static inline uint32_t cast_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float cast_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Below the least normal number, 0.5 is added, whose last place is the least subnormal one. */
static inline c_f16 cast_f32_to_f16(float x)
{
    const uint32_t bits = cast_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    const uint32_t tiny = cast_bits(cast_of_bits(size) + 0.5f) - 0x3f000000;
    const uint32_t normal = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
    const uint32_t special = size > 0x7f800000 ? 0x7e00 | (size >> 13 & 0x3ff) : 0x7c00;
    const uint32_t finite = size < 0x38800000 ? tiny : normal;
    return (c_f16)(sign | (size >= 0x477ff000 ? special : finite));
}

static inline float cast_f16_to_f32(c_f16 x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, size = x & 0x7fff;
    const float    tiny = (float)size * 0x1p-24f;
    const uint32_t normal = (size << 13) + (size >= 0x7c00 ? 0x70000000 : 0x38000000);
    return cast_of_bits(sign | (size < 0x400 ? cast_bits(tiny) : normal));
}

static inline c_bf16 cast_f32_to_bf16(float x)
{
    const uint32_t bits = cast_bits(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (c_bf16)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

static inline float cast_bf16_to_f32(c_bf16 x) { return cast_of_bits((uint32_t)x << 16); }

#define CAST(f, t)                                                                               \
    HYB_ELEMENTWISE_PREPARE(cast_##f##_##t, 1, 1, f, t, 2)                                       \
    HYB_KERNEL(cast_##f##_##t)                                                                   \
    {                                                                                            \
        const c_##f *x = call->data[0];                                                          \
        c_##t       *out = call->data[1];                                                        \
        if (call->layout[0].strides[0] == 0)                                                     \
            for (int64_t i = begin; i < end; i++)                                                \
                out[i] = cast_##f##_to_##t(x[0]);                                                \
        else                                                                                     \
            for (int64_t i = begin; i < end; i++)                                                \
                out[i] = cast_##f##_to_##t(x[i]);                                                \
        return HYB_OK;                                                                           \
    }
#define CAST_FROM(f)                                                                             \
    CAST(f, truth) CAST(f, i8) CAST(f, i16) CAST(f, i32) CAST(f, i64) CAST(f, u8) CAST(f, u16)   \
    CAST(f, u32) CAST(f, u64) CAST(f, f32) CAST(f, f64)
HYB_NUMBERS(CAST_FROM)
CAST(f32, f16)
CAST(f32, bf16)
CAST(f16, f32)
CAST(bf16, f32)

#define CAST_BOOL_PREPARE(t) HYB_ELEMENTWISE_PREPARE(cast_truth_##t, 1, 1, truth, t, 2)
CAST_BOOL_PREPARE(truth)
HYB_NUMBERS(CAST_BOOL_PREPARE)

/* From dtype f, with the kernel for k. */
#define CAST_ROW(name, f, k, t)                                                                  \
    HYB_TABLE_ROW(cast_##name, HYB_DTYPE_##f, 1, 1, 0, HYB_ELEMENTWISE,                          \
                  cast_##f##_##t##_prepare, cast_##k##_##t)
#define CAST_ROWS_OF(f, k)                                                                       \
    CAST_ROW(bool, f, k, truth) CAST_ROW(i8, f, k, i8) CAST_ROW(i16, f, k, i16)                  \
    CAST_ROW(i32, f, k, i32) CAST_ROW(i64, f, k, i64) CAST_ROW(u8, f, k, u8)                     \
    CAST_ROW(u16, f, k, u16) CAST_ROW(u32, f, k, u32) CAST_ROW(u64, f, k, u64)                   \
    CAST_ROW(f32, f, k, f32) CAST_ROW(f64, f, k, f64)
#define CAST_ROWS(f) CAST_ROWS_OF(f, f)

const hyb_kernel HYB_SYM(hyb_cast_kernels)[] = {
    CAST_ROWS_OF(truth, u8)
    HYB_NUMBERS(CAST_ROWS)
    CAST_ROW(f16, f32, f32, f16)
    CAST_ROW(bf16, f32, f32, bf16)
    CAST_ROW(f32, f16, f16, f32)
    CAST_ROW(f32, bf16, bf16, f32)
    {0},
};
