/* matmul/integer.inc.c - the product of one integer dtype, by plain loops; included by matmul/family.inc.c
 * once per dtype (each_integer.inc.c); sums wrap.
 *
 * Split: rows of the whole output.
 */
HYB_KERNEL(N(matmul))
{
    const matmul_operands o = matmul_operands_of(call, sizeof(T));
    for (int64_t row = begin; row < end; row++) {
        const T *a = (const T *)call->data[0] + row / o.m * o.a_batch + row % o.m * o.a_row;
        const T *b = (const T *)call->data[1] + row / o.m * o.b_batch;
        T *restrict c = (T *)call->data[2] + row * o.n;
        if (o.b_col == 1) {
            memset(c, 0, (size_t)o.n * sizeof(T));
            for (int64_t k = 0; k < o.k; k++, b += o.b_row) {
                const U item = (U)a[k * o.a_col];
                for (int64_t j = 0; j < o.n; j++)
                    c[j] = (T)((U)c[j] + item * (U)b[j]);
            }
        } else {
            for (int64_t j = 0; j < o.n; j++, b += o.b_col) {
                U sum = 0;
                for (int64_t k = 0; k < o.k; k++)
                    sum += (U)a[k * o.a_col] * (U)b[k];
                c[j] = (T)sum;
            }
        }
    }
    if (call->post && begin < end && o.n > 0)
        call->post->apply(call->post->context, begin * o.n, (end - begin) * o.n);
    return HYB_OK;
}

HYB_PREPARE(N(prepare_matmul))
{
    const hyb_status status = matmul_prepare(call, DTYPE, DTYPE, DTYPE);
    if (status != HYB_OK)
        return status;
    *range = matmul_rows(call, sizeof(T));
    return HYB_OK;
}
