/* quantization.inc.c - rows of numbers as bytes with a scale.
 *
 *   quantize_rows   s[r] = max_i |x[r, i]| / 127, or 1 where that is 0
 *                   q[r, i] = clip(rint(x[r, i] / s[r]), -127, 127), 0 where that is NaN
 *
 * Split      by rows.
 * Layout     dense x [rows, n], q [rows, n], s [rows, 1].
 * In place   not allowed.
 * Accuracy   each step is one operation of float32, rounded once, ties to even.
 * Special    a NaN in a row makes its scale NaN, and its bytes 0; a row with an infinity has that as
 *            its scale, and bytes 0.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

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

/* To a whole number between -127 and 127, ties to even: behind 1.5 * 2^23 no fraction has room, and
 * the last byte is the number. */
static inline v_u32 quantization_step(v_f32 x, v_f32 scale)
{
    const v_f32 most = v_splat_f32(127), least = -most, whole = v_splat_f32(12582912);
    v_f32 steps = x / scale;
    const v_i32 ordered = (v_i32)(steps == steps);
    steps = v_select_f32((v_i32)(steps < most), steps, most);
    steps = v_select_f32((v_i32)(steps > least), steps, least);
    const v_f32 rounded = steps + whole;
    return (v_u32)(((v_i32)rounded - (v_i32)whole) & ordered);
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
    HYB_TABLE_ROW(quantize_rows, HYB_F32, 1, 2, 0, HYB_PLAIN, prepare_quantize_rows, quantize_rows)
    {0},
};
