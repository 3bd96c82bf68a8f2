/* select.inc.c - one of several values.
 *
 *   where(condition, a, b)   a where the condition holds, else b
 *   clamp(x, low, high)      low where x <= low, else high where x >= high, else x (NaN, too)
 *   clip(x, low, high)       minimum(maximum(x, low), high): NaN when one of them is
 *
 * Split      by elements.
 * Layout     rank 1, dense or one element repeated; the output is dense.
 * In place   allowed: the output may be a or b.
 * Accuracy   exact: bytes are copied; any nonzero byte of the condition is true.
 * Attributes none.
 */
#pragma once

#include "kernels/elementwise.inc.c"

/* The condition is checked as operand 0 of a call of its own, a and b as the operands of another.
 */
static hyb_status prepare_where(const hyb_call *call, int32_t dtype, hyb_range *range)
{
    const hyb_layout condition[2] = {call->layout[0], call->layout[0]};
    const hyb_call   first = {.layout = condition}, others = {.layout = call->layout + 1};
    const hyb_status status = hyb_prepare_elementwise(&first, 2, 0, HYB_BOOL, HYB_BOOL, 1, range);
    if (status != HYB_OK)
        return status;
    if (call->layout[0].shape[0] != call->layout[1].shape[0])
        return hyb_fail(HYB_BAD_ARGUMENT,
                        "the condition of where has %lld elements, the first choice %lld",
                        (long long)call->layout[0].shape[0], (long long)call->layout[1].shape[0]);
    return hyb_prepare_elementwise(&others, 2, 1, dtype, dtype, 2, range);
}

#define WHERE(t)                                                                                 \
    HYB_KERNEL(where_##t)                                                                        \
    {                                                                                            \
        HYB_INPUT(u8, condition, 0);                                                             \
        HYB_INPUT(t, a, 1);                                                                      \
        HYB_INPUT(t, b, 2);                                                                      \
        HYB_OUTPUT(c_##t, out, 3);                                                               \
        for (int64_t left = end - begin; left > 0; left -= HYB_LANES(t)) {                       \
            const m_##t mask = HYB_BITS_##t(next_mask)(&condition, left);                        \
            const v_##t x = next_##t(&a, left), y = next_##t(&b, left);                          \
            put_##t(&out, v_select_##t(mask, x, y), left);                                       \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }
HYB_NUMBERS(WHERE)

#define WHERE_PREPARE(t) \
    HYB_PREPARE(where_##t##_prepare) { return prepare_where(call, HYB_DTYPE_##t, range); }
HYB_NUMBERS(WHERE_PREPARE)
WHERE_PREPARE(bool)
WHERE_PREPARE(f16)
WHERE_PREPARE(bf16)

#define WHERE_ROW_OF(t, kernel)                                                                  \
    HYB_TABLE_ROW(where_##t, HYB_BOOL, 3, 1, 0, HYB_ELEMENTWISE, where_##t##_prepare,            \
                  where_##kernel)

#define WHERE_ROW(t) WHERE_ROW_OF(t, t)

#define CLAMP(t)                                                                                 \
    HYB_MAP_3(clamp, t, 2,                                                                       \
              v_select_##t((m_##t)(x <= y), y, v_select_##t((m_##t)(x >= z), z, x)))
HYB_NUMBERS(CLAMP)
#define LARGER(t, x, y) v_select_##t((m_##t)(x > y) | (m_##t)(x != x), x, y)
#define SMALLER(t, x, y) v_select_##t((m_##t)(x < y) | (m_##t)(x != x), x, y)
#define CLIP(t) HYB_MAP_3(clip, t, 4, SMALLER(t, LARGER(t, x, y), z))
HYB_NUMBERS(CLIP)
#define CLAMP_ROW(t) HYB_ROW(clamp, t, 3) HYB_ROW(clip, t, 3)

const hyb_kernel HYB_SYM(hyb_select_kernels)[] = {
    HYB_NUMBERS(WHERE_ROW)
    WHERE_ROW_OF(bool, u8)
    WHERE_ROW_OF(f16, u16)
    WHERE_ROW_OF(bf16, u16)
    HYB_NUMBERS(CLAMP_ROW)
    {0},
};
