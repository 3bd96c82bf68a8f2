/* matmul_integer.inc.c - the product of one integer dtype, by plain loops; included by matmul.inc.c
 * once per dtype, which defines T, U (the unsigned type: sums wrap), W (one that multiplies
 * without overflow trouble), N and DTYPE, and undefines none: this file does.
 *
 * Split: rows of the whole output.
 */
HYB_KERNEL(N(matmul))
{
    const matmul_operands o = matmul_operands_of(call, sizeof(T));
    for (int64_t row = begin; row < end; row++) {
        const U *a = (const U *)call->data[0] + row / o.m * o.a_batch + row % o.m * o.a_row;
        const U *b = (const U *)call->data[1] + row / o.m * o.b_batch;
        U *restrict c = (U *)call->data[2] + row * o.n;
        if (o.b_col == 1) {
            memset(c, 0, (size_t)o.n * sizeof(U));
            for (int64_t k = 0; k < o.k; k++, b += o.b_row) {
                const W item = a[k * o.a_col];
                for (int64_t j = 0; j < o.n; j++)
                    c[j] = (U)(c[j] + item * b[j]);
            }
        } else {
            for (int64_t j = 0; j < o.n; j++, b += o.b_col) {
                W sum = 0;
                for (int64_t k = 0; k < o.k; k++)
                    sum += (W)a[k * o.a_col] * b[k];
                c[j] = (U)sum;
            }
        }
    }
    if (call->post && begin < end && o.n > 0)
        call->post->apply(call->post->context, begin * o.n, (end - begin) * o.n);
    return HYB_OK;
}

HYB_PREPARE(N(prepare_matmul))
{
    const hyb_status status = matmul_prepare(call, DTYPE);
    if (status != HYB_OK)
        return status;
    const matmul_operands o = matmul_operands_of(call, sizeof(T));
    const double cost = (double)o.n * (double)o.k;
    *range = (hyb_range){o.batch * o.m, grain_of(cost < 32768 ? (int64_t)cost : 32768)};
    return HYB_OK;
}
#undef T
#undef U
#undef W
#undef N
#undef DTYPE
