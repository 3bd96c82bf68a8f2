/* cumulative_typed.inc.c - the running totals of one dtype; included by cumulative.inc.c once per
 * dtype (each_float.inc.c, each_integer.inc.c).
 */
HYB_KERNEL(N(cumulative_prod))
{
    const int64_t rows = call->layout[0].shape[1], width = call->layout[0].shape[2];
    for (int64_t a = begin; a < end; a++) {
        const T *x = (const T *)call->data[0] + a * rows * width;
        T       *y = (T *)call->data[1] + a * rows * width;
        memcpy(y, x, (size_t)(rows > 0 ? width : 0) * sizeof(T));
        for (int64_t i = width; i < rows * width; i++)
            y[i] = (T)((U)y[i - width] * (U)x[i]);
    }
    return HYB_OK;
}

HYB_KERNEL(N(cumulative_sum))
{
    const int64_t rows = call->layout[0].shape[1], width = call->layout[0].shape[2];
    for (int64_t a = begin; a < end; a++) {
        const T *x = (const T *)call->data[0] + a * rows * width;
        T       *y = (T *)call->data[1] + a * rows * width;
        for (int64_t first = 0; first < width; first += TOTALS) {
            const int64_t columns = width - first < TOTALS ? width - first : TOTALS;
            TOTAL         totals[TOTALS];
            for (int64_t b = 0; b < columns; b++)
                totals[b] = NOTHING;
            for (int64_t i = first; i < rows * width; i += width)
                for (int64_t b = 0; b < columns; b++)
                    y[i + b] = (T)ADDED(&totals[b], x[i + b]);
        }
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_cumulative)) { return cumulative_prepare(call, DTYPE, range); }
