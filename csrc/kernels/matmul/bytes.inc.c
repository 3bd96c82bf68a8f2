/* matmul/bytes.inc.c - products of int8 and uint8, in any combination, to int32, by plain loops;
 * included by matmul/family.inc.c; sums wrap.
 *
 * Split: rows of the whole output.
 */
static inline int32_t matmul_byte(const char *at, bool is_signed)
{
    return is_signed ? (signed char)*at : (unsigned char)*at;
}

/* Inlined with constant signs. */
static inline __attribute__((always_inline)) void
matmul_bytes_row(const matmul_operands *o, const char *a, bool a_signed, const char *b,
                 bool b_signed, int32_t *restrict c)
{
    if (o->b_col == 1) {
        memset(c, 0, (size_t)o->n * sizeof *c);
        for (int64_t k = 0; k < o->k; k++, b += o->b_row) {
            const uint32_t item = (uint32_t)matmul_byte(a + k * o->a_col, a_signed);
            for (int64_t j = 0; j < o->n; j++)
                c[j] = (int32_t)((uint32_t)c[j] + item * (uint32_t)matmul_byte(b + j, b_signed));
        }
        return;
    }
    for (int64_t j = 0; j < o->n; j++, b += o->b_col) {
        uint32_t sum = 0;
        for (int64_t k = 0; k < o->k; k++)
            sum += (uint32_t)matmul_byte(a + k * o->a_col, a_signed) *
                   (uint32_t)matmul_byte(b + k, b_signed);
        c[j] = (int32_t)sum;
    }
}

HYB_KERNEL(matmul_integer)
{
    const matmul_operands o = matmul_operands_of(call, 1);
    const bool a_signed = call->layout[0].dtype == HYB_I8;
    const bool b_signed = call->layout[1].dtype == HYB_I8;
    for (int64_t row = begin; row < end; row++) {
        const char *a = (const char *)call->data[0] + row / o.m * o.a_batch + row % o.m * o.a_row;
        const char *b = (const char *)call->data[1] + row / o.m * o.b_batch;
        int32_t *c = (int32_t *)call->data[2] + row * o.n;
        if (a_signed && b_signed)
            matmul_bytes_row(&o, a, true, b, true, c);
        else if (a_signed)
            matmul_bytes_row(&o, a, true, b, false, c);
        else if (b_signed)
            matmul_bytes_row(&o, a, false, b, true, c);
        else
            matmul_bytes_row(&o, a, false, b, false, c);
    }
    if (call->post && begin < end && o.n > 0)
        call->post->apply(call->post->context, begin * o.n, (end - begin) * o.n);
    return HYB_OK;
}

HYB_PREPARE(prepare_matmul_integer)
{
    const hyb_status status = matmul_prepare_bytes(call);
    if (status == HYB_OK)
        *range = matmul_rows(call, 1);
    return status;
}
