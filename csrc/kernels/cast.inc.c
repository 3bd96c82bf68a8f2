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

/* An integer from a float: below `low`, not below `above` and NaN never meet the conversion of C.
 */
#define CAST_SATURATING(F, f, T, t, low, above, least, most)                                     \
    static inline T cast_##f##_to_##t(F x)                                                       \
    {                                                                                            \
        const T inside = (T)(x >= (F)low && x < (F)above ? x : 0);                               \
        return x >= (F)above ? most : x < (F)low ? least : inside;                               \
    }
CAST_SATURATING(float, f32, uint8_t, u8, 0, 0x1p8, 0, UINT8_MAX)
CAST_SATURATING(float, f32, int32_t, i32, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
CAST_SATURATING(float, f32, int64_t, i64, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
CAST_SATURATING(double, f64, uint8_t, u8, 0, 0x1p8, 0, UINT8_MAX)
CAST_SATURATING(double, f64, int32_t, i32, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
CAST_SATURATING(double, f64, int64_t, i64, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)

#define CAST_C_LANGUAGE(f, t) \
    static inline c_##t cast_##f##_to_##t(c_##f x) { return (c_##t)x; }
CAST_C_LANGUAGE(f32, f32)
CAST_C_LANGUAGE(f32, f64)
CAST_C_LANGUAGE(f64, f32)
CAST_C_LANGUAGE(f64, f64)
#define CAST_FROM_INTEGER(f)                                                                     \
    CAST_C_LANGUAGE(f, u8) CAST_C_LANGUAGE(f, i32) CAST_C_LANGUAGE(f, i64)                       \
    CAST_C_LANGUAGE(f, f32) CAST_C_LANGUAGE(f, f64)
CAST_FROM_INTEGER(u8)
CAST_FROM_INTEGER(i32)
CAST_FROM_INTEGER(i64)

typedef uint8_t c_truth; /* `bool` is a macro: it cannot be part of a name */
#define HYB_DTYPE_truth HYB_BOOL
#define CAST_TO_BOOL(f) \
    static inline uint8_t cast_##f##_to_truth(c_##f x) { return x != 0; }
CAST_TO_BOOL(f32)
CAST_TO_BOOL(f64)
CAST_TO_BOOL(i32)
CAST_TO_BOOL(i64)
CAST_TO_BOOL(u8)

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
#define CAST_FROM(f) \
    CAST(f, truth) CAST(f, u8) CAST(f, i32) CAST(f, i64) CAST(f, f32) CAST(f, f64)
CAST_FROM(u8)
CAST_FROM(i32)
CAST_FROM(i64)
CAST_FROM(f32)
CAST_FROM(f64)

#define CAST_BOOL_PREPARE(t) HYB_ELEMENTWISE_PREPARE(cast_truth_##t, 1, 1, truth, t, 2)
CAST_BOOL_PREPARE(truth)
CAST_BOOL_PREPARE(u8)
CAST_BOOL_PREPARE(i32)
CAST_BOOL_PREPARE(i64)
CAST_BOOL_PREPARE(f32)
CAST_BOOL_PREPARE(f64)

/* From dtype f, with the kernel for k. */
#define CAST_ROW(name, f, k, t)                                                                  \
    {"cast_" name, HYB_DTYPE_##f, 1, 1, 0, HYB_ELEMENTWISE, HYB_SYM(cast_##f##_##t##_prepare),   \
     HYB_SYM(cast_##k##_##t)},
#define CAST_ROWS(f, k)                                                                          \
    CAST_ROW("bool", f, k, truth) CAST_ROW("u8", f, k, u8) CAST_ROW("i32", f, k, i32)            \
    CAST_ROW("i64", f, k, i64) CAST_ROW("f32", f, k, f32) CAST_ROW("f64", f, k, f64)

const hyb_kernel HYB_SYM(hyb_cast_kernels)[] = {
    CAST_ROWS(truth, u8)
    CAST_ROWS(u8, u8)
    CAST_ROWS(i32, i32)
    CAST_ROWS(i64, i64)
    CAST_ROWS(f32, f32)
    CAST_ROWS(f64, f64)
    {0},
};
