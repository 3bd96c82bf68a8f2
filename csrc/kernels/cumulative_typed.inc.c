/* cumulative_typed.inc.c - the running totals of one dtype; included by cumulative.inc.c once per
 * dtype (each_float.inc.c, each_integer.inc.c).
 */
#define CUMULATIVE(op, sign)                                                                     \
    HYB_KERNEL(N(cumulative_##op))                                                               \
    {                                                                                            \
        const int64_t rows = call->layout[0].shape[1], width = call->layout[0].shape[2];         \
        for (int64_t a = begin; a < end; a++) {                                                  \
            const T *x = (const T *)call->data[0] + a * rows * width;                            \
            T       *y = (T *)call->data[1] + a * rows * width;                                  \
            memcpy(y, x, (size_t)(rows > 0 ? width : 0) * sizeof(T));                            \
            for (int64_t i = width; i < rows * width; i++)                                       \
                y[i] = (T)((U)y[i - width] sign (U)x[i]);                                        \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }

CUMULATIVE(sum, +)
CUMULATIVE(prod, *)
#undef CUMULATIVE

HYB_PREPARE(N(prepare_cumulative)) { return cumulative_prepare(call, DTYPE, range); }
