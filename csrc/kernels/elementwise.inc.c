/* elementwise.inc.c - the loops of elementwise kernels; no table.
 *
 * A kernel walks its operands a vector at a time.  The last vector may be partial; it goes through
 * the same code as the others, with masked loads and stores.  An operand of stride 0 is spread over
 * one vector that is read over and over, so that there is one loop for every mix of operands.
 */
#pragma once

typedef float    c_f32;
typedef double   c_f64;
typedef int32_t  c_i32;
typedef int64_t  c_i64;
typedef uint8_t  c_u8;
typedef int8_t   c_i8;
typedef int16_t  c_i16;
typedef uint16_t c_u16;
typedef uint32_t c_u32;
typedef uint64_t c_u64;

/* The lanes as bits that wrap: C leaves the overflow of signed integers undefined. */
typedef v_f32 w_f32;
typedef v_f64 w_f64;
typedef v_u32 w_i32;
typedef v_u64 w_i64;
typedef v_u8  w_i8;
typedef v_u16 w_i16;
typedef v_u8  w_u8;
typedef v_u16 w_u16;
typedef v_u32 w_u32;
typedef v_u64 w_u64;

/* What comparing lanes gives, and the bytes of a bool operand beside them. */
typedef v_i32 m_f32;
typedef v_i64 m_f64;
typedef v_i32 m_i32;
typedef v_i64 m_i64;
typedef v_u8  m_i8;
typedef v_i16 m_i16;
typedef v_u8  m_u8;
typedef v_i16 m_u16;
typedef v_i32 m_u32;
typedef v_i64 m_u64;

#define HYB_DTYPE_f32 HYB_F32
#define HYB_DTYPE_f64 HYB_F64
#define HYB_DTYPE_i32 HYB_I32
#define HYB_DTYPE_i64 HYB_I64
#define HYB_DTYPE_i8 HYB_I8
#define HYB_DTYPE_i16 HYB_I16
#define HYB_DTYPE_u8 HYB_U8
#define HYB_DTYPE_u16 HYB_U16
#define HYB_DTYPE_u32 HYB_U32
#define HYB_DTYPE_u64 HYB_U64
#define HYB_DTYPE_bool HYB_BOOL
#define HYB_DTYPE_f16 HYB_F16
#define HYB_DTYPE_bf16 HYB_BF16

/* X of each dtype of a kind. */
#define HYB_FLOATS(X) X(f32) X(f64)
#define HYB_INTEGERS(X) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64)
#define HYB_NUMBERS(X) HYB_FLOATS(X) HYB_INTEGERS(X)

#define HYB_LANES(t) ((int64_t)(sizeof(v_##t) / sizeof(c_##t)))

/* How many bytes ahead inputs are prefetched: the longer ones of these kernels fill the processor's
 * window, which then reaches no load of the next lines. */
#define HYB_AHEAD 2048

/* An input: where its next lanes are and how far it is to the following ones. */
#define HYB_ELEMENTWISE_OPERANDS(t)                                                              \
    typedef struct {                                                                             \
        const c_##t *at;                                                                         \
        int64_t      step;                                                                       \
    } input_##t;                                                                                 \
    static inline input_##t open_##t(const hyb_call *call, int index, int64_t begin,             \
                                     c_##t *spread)                                              \
    {                                                                                            \
        const hyb_layout *layout = &call->layout[index];                                         \
        const c_##t      *x = call->data[index];                                                 \
        if (layout->strides[0] != 0)                                                             \
            return (input_##t){x + begin, HYB_LANES(t)};                                         \
        v_store_##t(spread, v_splat_##t(layout->shape[0] > 0 ? *x : 0));                         \
        return (input_##t){spread, 0};                                                           \
    }                                                                                            \
    static inline v_##t next_##t(input_##t *input, int64_t left)                                 \
    {                                                                                            \
        const c_##t *at = input->at;                                                             \
        input->at += input->step;                                                                \
        __builtin_prefetch((const char *)at + HYB_AHEAD);                                        \
        return left >= HYB_LANES(t) ? v_load_##t(at) : v_load_part_##t(at, left);                \
    }                                                                                            \
    static inline void put_##t(c_##t **out, v_##t x, int64_t left)                               \
    {                                                                                            \
        if (left >= HYB_LANES(t))                                                                \
            v_store_##t(*out, x);                                                                \
        else                                                                                     \
            v_store_part_##t(*out, x, left);                                                     \
        *out += HYB_LANES(t);                                                                    \
    }
HYB_NUMBERS(HYB_ELEMENTWISE_OPERANDS)

/* The same for bool operands beside lanes of 16 bits and more: a byte for each lane. */
#define HYB_BOOL_OPERANDS(bits)                                                                  \
    static inline v_i##bits next_mask_##bits(input_u8 *input, int64_t left)                      \
    {                                                                                            \
        v_u8_##bits bytes = {0};                                                                 \
        if (left >= HYB_LANES_##bits)                                                            \
            memcpy(&bytes, input->at, sizeof bytes);                                             \
        else                                                                                     \
            v_copy_bytes(&bytes, input->at, left);                                               \
        input->at += input->step ? HYB_LANES_##bits : 0;                                         \
        return v_mask_##bits(bytes);                                                             \
    }                                                                                            \
    static inline void put_mask_##bits(uint8_t **out, v_i##bits mask, int64_t left)              \
    {                                                                                            \
        const v_u8_##bits bytes = v_bytes_##bits(mask);                                          \
        if (left >= HYB_LANES_##bits)                                                            \
            memcpy(*out, &bytes, sizeof bytes);                                                  \
        else                                                                                     \
            v_copy_bytes(*out, &bytes, left);                                                    \
        *out += HYB_LANES_##bits;                                                                \
    }
HYB_BOOL_OPERANDS(16)
HYB_BOOL_OPERANDS(32)
HYB_BOOL_OPERANDS(64)
static inline m_u8 next_mask_8(input_u8 *input, int64_t left)
{
    return (m_u8)(next_u8(input, left) != 0);
}
static inline void put_mask_8(uint8_t **out, m_u8 mask, int64_t left)
{
    put_u8(out, mask & 1, left);
}

#define HYB_BITS_f32(name) name##_32
#define HYB_BITS_f64(name) name##_64
#define HYB_BITS_i32(name) name##_32
#define HYB_BITS_i64(name) name##_64
#define HYB_BITS_i8(name) name##_8
#define HYB_BITS_i16(name) name##_16
#define HYB_BITS_u8(name) name##_8
#define HYB_BITS_u16(name) name##_16
#define HYB_BITS_u32(name) name##_32
#define HYB_BITS_u64(name) name##_64

#define HYB_INPUT(t, name, index) \
    c_##t     name##_spread[HYB_LANES(t)]; \
    input_##t name = open_##t(call, index, begin, name##_spread)
#define HYB_OUTPUT(T, name, index) T *name = (T *)call->data[index] + begin

/* The check of a kernel of n_in inputs of dtype `in` and n_out outputs of dtype `out`. */
#define HYB_ELEMENTWISE_PREPARE(name, n_in, n_out, in, out, cost)                                \
    HYB_PREPARE(name##_prepare)                                                                  \
    {                                                                                            \
        return hyb_prepare_elementwise(call, n_in, n_out, HYB_DTYPE_##in, HYB_DTYPE_##out, cost, \
                                       range);                                                   \
    }

/* Kernels of one vector x, of two, x and y, or of three, x, y and z, to `expression`. */
#define HYB_MAP_1(name, t, cost, expression)                                                     \
    HYB_ELEMENTWISE_PREPARE(name##_##t, 1, 1, t, t, cost)                                        \
    HYB_KERNEL(name##_##t)                                                                       \
    {                                                                                            \
        HYB_INPUT(t, a, 0);                                                                      \
        HYB_OUTPUT(c_##t, out, 1);                                                               \
        for (int64_t left = end - begin; left > 0; left -= HYB_LANES(t)) {                       \
            const v_##t x = next_##t(&a, left);                                                  \
            put_##t(&out, (v_##t)(expression), left);                                            \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }
#define HYB_MAP_2(name, t, cost, expression)                                                     \
    HYB_ELEMENTWISE_PREPARE(name##_##t, 2, 1, t, t, cost)                                        \
    HYB_KERNEL(name##_##t)                                                                       \
    {                                                                                            \
        HYB_INPUT(t, a, 0);                                                                      \
        HYB_INPUT(t, b, 1);                                                                      \
        HYB_OUTPUT(c_##t, out, 2);                                                               \
        for (int64_t left = end - begin; left > 0; left -= HYB_LANES(t)) {                       \
            const v_##t x = next_##t(&a, left), y = next_##t(&b, left);                          \
            put_##t(&out, (v_##t)(expression), left);                                            \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }
#define HYB_MAP_3(name, t, cost, expression)                                                     \
    HYB_ELEMENTWISE_PREPARE(name##_##t, 3, 1, t, t, cost)                                        \
    HYB_KERNEL(name##_##t)                                                                       \
    {                                                                                            \
        HYB_INPUT(t, a, 0);                                                                      \
        HYB_INPUT(t, b, 1);                                                                      \
        HYB_INPUT(t, c, 2);                                                                      \
        HYB_OUTPUT(c_##t, out, 3);                                                               \
        for (int64_t left = end - begin; left > 0; left -= HYB_LANES(t)) {                       \
            const v_##t x = next_##t(&a, left), y = next_##t(&b, left), z = next_##t(&c, left);  \
            put_##t(&out, (v_##t)(expression), left);                                            \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }

/* The same to a mask. */
#define HYB_TEST_1(name, t, expression)                                                          \
    HYB_ELEMENTWISE_PREPARE(name##_##t, 1, 1, t, bool, 1)                                        \
    HYB_KERNEL(name##_##t)                                                                       \
    {                                                                                            \
        HYB_INPUT(t, a, 0);                                                                      \
        HYB_OUTPUT(uint8_t, out, 1);                                                             \
        for (int64_t left = end - begin; left > 0; left -= HYB_LANES(t)) {                       \
            const v_##t x = next_##t(&a, left);                                                  \
            HYB_BITS_##t(put_mask)(&out, (m_##t)(expression), left);                             \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }
#define HYB_TEST_2(name, t, expression)                                                          \
    HYB_ELEMENTWISE_PREPARE(name##_##t, 2, 1, t, bool, 1)                                        \
    HYB_KERNEL(name##_##t)                                                                       \
    {                                                                                            \
        HYB_INPUT(t, a, 0);                                                                      \
        HYB_INPUT(t, b, 1);                                                                      \
        HYB_OUTPUT(uint8_t, out, 2);                                                             \
        for (int64_t left = end - begin; left > 0; left -= HYB_LANES(t)) {                       \
            const v_##t x = next_##t(&a, left), y = next_##t(&b, left);                          \
            HYB_BITS_##t(put_mask)(&out, (m_##t)(expression), left);                             \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }

/* One element at a time, for what has no vector form; `function` takes and gives scalars. */
#define HYB_SCALAR_2(name, t, cost, function)                                                    \
    HYB_ELEMENTWISE_PREPARE(name##_##t, 2, 1, t, t, cost)                                        \
    HYB_KERNEL(name##_##t)                                                                       \
    {                                                                                            \
        const c_##t  *a = call->data[0], *b = call->data[1];                                     \
        c_##t        *out = call->data[2];                                                       \
        const int64_t a_step = call->layout[0].strides[0] != 0;                                  \
        const int64_t b_step = call->layout[1].strides[0] != 0;                                  \
        if (a_step && b_step)                                                                    \
            for (int64_t i = begin; i < end; i++)                                                \
                out[i] = function(a[i], b[i]);                                                   \
        else                                                                                     \
            for (int64_t i = begin; i < end; i++)                                                \
                out[i] = function(a[i * a_step], b[i * b_step]);                                 \
        return HYB_OK;                                                                           \
    }

/* Rows of a table.  The second form runs a kernel of bytes on bools, which hold 0 or 1. */
#define HYB_ROW(name, t, n_in)                                                                   \
    HYB_TABLE_ROW(name, HYB_DTYPE_##t, n_in, 1, 0, HYB_ELEMENTWISE, name##_##t##_prepare,        \
                  name##_##t)
#define HYB_BOOL_ROW(name, kernel, n_in)                                                         \
    HYB_TABLE_ROW(name, HYB_BOOL, n_in, 1, 0, HYB_ELEMENTWISE, bools_##n_in##_prepare,           \
                  kernel##_u8)
HYB_ELEMENTWISE_PREPARE(bools_1, 1, 1, bool, bool, 1)
HYB_ELEMENTWISE_PREPARE(bools_2, 2, 1, bool, bool, 1)
