/* quantization.inc.c - numbers as small integers with a scale.
 *
 *   quantize_T      clip(rint(x / s) + z, low, high), z where that is NaN, of dtype T
 *   scale_sums      float(a) * b * c + d, from left to right
 *   quantize_rows   s[r] = max_i |x[r, i]| / 127, or 1 where that is 0
 *                   q[r, i] = clip(rint(x[r, i] / s[r]), -127, 127), 0 where that is NaN
 *
 * Split      by elements; by rows.
 * Layout     quantize_T, scale_sums: rank 1, operands dense or one element repeated; the output is
 *            dense.
 *            quantize_rows: dense x [rows, n], q [rows, n], s [rows, 1].
 * In place   not allowed, but the output of scale_sums may be an operand.
 * Accuracy   each step is one operation of float32, rounded once, ties to even.
 * Special    a NaN in a row makes its scale NaN, and its bytes 0; a row with an infinity has that as
 *            its scale, and bytes 0.
 * Attributes quantize_T: low and high, whole numbers that T holds.
 */
#pragma once

#include "kernels/math/family.inc.c"
#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

/* What is below 2^22 as an integer, ties to even: behind 1.5 * 2^23 no fraction has room, and the
 * last bits are the number. */
static inline v_i32 quantization_integer(v_f32 x)
{
    const v_f32 whole = v_splat_f32(12582912);
    return (v_i32)(x + whole) - (v_i32)whole;
}

static inline v_i32 quantization_number(v_f32 x, v_f32 scale, v_f32 zero, v_f32 low, v_f32 high)
{
    const v_f32 rounded = v_round_f32(x / scale);
    const v_f32 steps = v_select_f32((v_i32)(rounded == rounded), rounded + zero, zero);
    return quantization_integer(v_smaller_f32(high, v_larger_f32(low, steps)));
}

/* The same less a zero point that low and high are less, too: all whole, so they may be compared
 * before x is rounded. */
static inline v_i32 quantization_steps(v_f32 x, v_f32 scale, v_f32 low, v_f32 high)
{
    v_f32 steps = x / scale;
    steps = (v_f32)((v_i32)steps & (v_i32)(steps == steps));
    return quantization_integer(v_smaller_f32(high, v_larger_f32(low, steps)));
}

/* The last byte of each lane: the number that has it as a signed byte. */
static inline void quantization_store_bytes(void *to, v_i32 x)
{
    v_store_bytes_u32(to, (v_u32)((v_i32)((v_u32)x << 24) >> 24));
}

static inline void quantization_store_halves(void *to, v_i32 x)
{
    v_store_halves_u32(to, (v_u32)x);
}

/* Whether a zero point and limits less it are whole numbers that float32 and 22 bits hold. */
static inline bool quantization_is_small(float zero, float low, float high)
{
    const float most = 1 << 17;
    return zero >= -most && zero <= most && zero == (float)(int32_t)zero && low >= -most &&
           high <= most && low == (float)(int32_t)low && high == (float)(int32_t)high;
}

/* Whole vectors by one scale and one zero point that is a small whole number: how many items. */
#define QUANTIZE_ALIKE(t, store)                                                                 \
    static int64_t quantize_alike_##t(const float *x, float divisor, float point, float least,   \
                                      float most, c_##t *out, int64_t n)                         \
    {                                                                                            \
        const v_f32 scale = v_splat_f32(divisor), low = v_splat_f32(least - point);              \
        const v_f32 high = v_splat_f32(most - point);                                            \
        const v_i32 zero = v_splat_i32((int32_t)point);                                          \
        int64_t i = 0;                                                                           \
        for (; i + HYB_LANES_32 <= n; i += HYB_LANES_32) {                                       \
            __builtin_prefetch((const char *)(x + i) + HYB_AHEAD);                               \
            store(out + i, quantization_steps(v_load_f32(x + i), scale, low, high) + zero);      \
        }                                                                                        \
        return i;                                                                                \
    }

#define QUANTIZE(t, store)                                                                       \
    QUANTIZE_ALIKE(t, store)                                                                     \
    HYB_ELEMENTWISE_PREPARE(quantize_##t, 3, 1, f32, t, 8)                                       \
    HYB_KERNEL(quantize_##t)                                                                     \
    {                                                                                            \
        const float least = (float)call->attrs[0].f, most = (float)call->attrs[1].f;             \
        const hyb_layout *layout = call->layout;                                                 \
        const bool dense = layout[0].strides[0] != 0 && begin < end;                             \
        if (dense && layout[1].strides[0] == 0 && layout[2].strides[0] == 0 &&                   \
            quantization_is_small(*(const float *)call->data[2], least, most))                   \
            begin += quantize_alike_##t((const float *)call->data[0] + begin,                    \
                                        *(const float *)call->data[1],                           \
                                        *(const float *)call->data[2], least, most,              \
                                        (c_##t *)call->data[3] + begin, end - begin);            \
        HYB_INPUT(f32, a, 0);                                                                    \
        HYB_INPUT(f32, b, 1);                                                                    \
        HYB_INPUT(f32, c, 2);                                                                    \
        HYB_OUTPUT(c_##t, out, 3);                                                               \
        const v_f32 low = v_splat_f32(least), high = v_splat_f32(most);                          \
        for (int64_t left = end - begin; left > 0; left -= HYB_LANES_32, out += HYB_LANES_32) {  \
            const v_f32 x = next_f32(&a, left), y = next_f32(&b, left), z = next_f32(&c, left);  \
            const v_i32 number = quantization_number(x, y, z, low, high);                        \
            if (left >= HYB_LANES_32) {                                                          \
                store(out, number);                                                              \
            } else {                                                                             \
                c_##t last[HYB_LANES_32];                                                        \
                store(last, number);                                                             \
                memcpy(out, last, (size_t)left * sizeof *last);                                  \
            }                                                                                    \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }
QUANTIZE(i8, quantization_store_bytes)
QUANTIZE(u8, quantization_store_bytes)
QUANTIZE(i16, quantization_store_halves)
QUANTIZE(u16, quantization_store_halves)

#define QUANTIZE_ROW(t)                                                                          \
    HYB_TABLE_ROW(quantize_##t, HYB_F32, 3, 1, 2, HYB_ELEMENTWISE, quantize_##t##_prepare,       \
                  quantize_##t)

HYB_KERNEL(scale_sums)
{
    HYB_INPUT(i32, a, 0);
    HYB_INPUT(f32, b, 1);
    HYB_INPUT(f32, c, 2);
    HYB_INPUT(f32, d, 3);
    HYB_OUTPUT(float, out, 4);
    for (int64_t left = end - begin; left > 0; left -= HYB_LANES_32) {
        v_f32 y = __builtin_convertvector(next_i32(&a, left), v_f32) * next_f32(&b, left);
        v_hold(y); /* rounded before it is multiplied again, and before the sum */
        y *= next_f32(&c, left);
        v_hold(y);
        put_f32(&out, y + next_f32(&d, left), left);
    }
    return HYB_OK;
}

/* The sums are checked as the operand of a call of its own. */
HYB_PREPARE(prepare_scale_sums)
{
    const hyb_call first = {.layout = call->layout}, others = {.layout = call->layout + 1};
    const hyb_status status = hyb_prepare_elementwise(&first, 1, 0, HYB_I32, HYB_I32, 1, range);
    if (status != HYB_OK)
        return status;
    if (call->layout[0].shape[0] != call->layout[1].shape[0])
        return hyb_fail(HYB_BAD_ARGUMENT, "scale_sums has %lld sums and %lld factors",
                        (long long)call->layout[0].shape[0], (long long)call->layout[1].shape[0]);
    return hyb_prepare_elementwise(&others, 3, 1, HYB_F32, HYB_F32, 4, range);
}

/* The bits of |x| in order: NaN is greater than every number. */
static inline v_i32 quantization_size(v_f32 x) { return (v_i32)x & INT32_MAX; }

static inline v_i32 quantization_larger(v_i32 a, v_i32 b)
{
    const v_i32 first = a > b;
    return (a & first) | (b & ~first);
}

static float quantization_top(const float *x, int64_t n)
{
    v_i32 a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;
    for (; i + 4 * HYB_LANES_32 <= n; i += 4 * HYB_LANES_32) {
        a = quantization_larger(a, quantization_size(v_load_f32(x + i)));
        b = quantization_larger(b, quantization_size(v_load_f32(x + i + HYB_LANES_32)));
        c = quantization_larger(c, quantization_size(v_load_f32(x + i + 2 * HYB_LANES_32)));
        d = quantization_larger(d, quantization_size(v_load_f32(x + i + 3 * HYB_LANES_32)));
    }
    for (; i + HYB_LANES_32 <= n; i += HYB_LANES_32)
        a = quantization_larger(a, quantization_size(v_load_f32(x + i)));
    if (i < n)
        b = quantization_larger(b, quantization_size(v_load_part_f32(x + i, n - i)));
    a = quantization_larger(quantization_larger(a, b), quantization_larger(c, d));
    int32_t top = a[0];
    for (int lane = 1; lane < HYB_LANES_32; lane++)
        top = a[lane] > top ? a[lane] : top;
    float size;
    memcpy(&size, &top, sizeof size);
    return size;
}

/* A whole number between -127 and 127, ties to even. */
static inline v_u32 quantization_step(v_f32 x, v_f32 scale)
{
    const v_f32 most = v_splat_f32(127), least = -most;
    v_f32 steps = x / scale;
    const v_i32 ordered = (v_i32)(steps == steps);
    steps = v_larger_f32(least, v_smaller_f32(most, steps));
    return (v_u32)(quantization_integer(steps) & ordered);
}

HYB_KERNEL(quantize_rows)
{
    const int64_t n = call->layout[0].shape[1];
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->data[0] + row * n;
        char *q = (char *)call->data[1] + row * n;
        float scale = quantization_top(x, n) / 127;
        if (scale == 0)
            scale = 1;
        ((float *)call->data[2])[row] = scale;
        const v_f32 divisor = v_splat_f32(scale);
        int64_t i = 0;
        for (; i + HYB_LANES_32 <= n; i += HYB_LANES_32)
            v_store_bytes_u32(q + i, quantization_step(v_load_f32(x + i), divisor));
        if (i < n) {
            char last[HYB_LANES_32];
            v_store_bytes_u32(last, quantization_step(v_load_part_f32(x + i, n - i), divisor));
            memcpy(q + i, last, (size_t)(n - i));
        }
    }
    return HYB_OK;
}

HYB_PREPARE(prepare_quantize_rows)
{
    hyb_status status;
    const hyb_layout *x = &call->layout[0];
    if ((status = require_dense(call, 0, HYB_F32, 2)) != HYB_OK ||
        (status = require_dense(call, 1, HYB_I8, 2)) != HYB_OK ||
        (status = require_dense(call, 2, HYB_F32, 2)) != HYB_OK ||
        (status = require_size(call, 1, 0, x->shape[0])) != HYB_OK ||
        (status = require_size(call, 1, 1, x->shape[1])) != HYB_OK ||
        (status = require_size(call, 2, 0, x->shape[0])) != HYB_OK ||
        (status = require_size(call, 2, 1, 1)) != HYB_OK)
        return status;
    *range = (hyb_range){x->shape[0], grain_of(x->shape[1])};
    return HYB_OK;
}

const hyb_kernel HYB_SYM(hyb_quantization_kernels)[] = {
    QUANTIZE_ROW(i8)
    QUANTIZE_ROW(u8)
    QUANTIZE_ROW(i16)
    QUANTIZE_ROW(u16)
    HYB_TABLE_ROW(scale_sums, HYB_I32, 4, 1, 0, HYB_ELEMENTWISE, prepare_scale_sums, scale_sums)
    HYB_TABLE_ROW(quantize_rows, HYB_F32, 1, 2, 0, HYB_PLAIN, prepare_quantize_rows, quantize_rows)
    {0},
};
