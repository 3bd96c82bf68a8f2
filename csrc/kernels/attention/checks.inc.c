/* attention/checks.inc.c - what makes the operands and attributes of attention safe; no table. */

/* Operand `index` is [outer, inner, rows, columns] with dense rows. */
static hyb_status attention_require(const hyb_call *call, int index, int32_t dtype,
                                    const int64_t shape[4])
{
    const hyb_layout *layout = &call->layout[index];
    const int64_t itemsize = hyb_itemsize(dtype);
    int64_t extent = 0;
    if (layout->dtype != dtype || layout->rank != 4 || !sizes_are_sane(layout))
        return hyb_fail(HYB_BAD_ARGUMENT, "attention: operand %d is not of dtype %d and rank 4",
                        index, (int)dtype);
    const bool empty = hyb_elements(layout) == 0;
    for (int axis = 0; axis < 4; axis++) {
        const int64_t size = layout->shape[axis], stride = layout->strides[axis];
        int64_t reach;
        if (size != shape[axis])
            return hyb_fail(HYB_BAD_ARGUMENT, "attention: axis %d of operand %d has size %lld",
                            axis, index, (long long)size);
        if (size < 2 || empty)
            continue;
        if (stride < 0 || stride % itemsize != 0 || (axis == 3 && stride != itemsize) ||
            __builtin_mul_overflow(size, stride, &reach) ||
            __builtin_add_overflow(extent, reach, &extent))
            return hyb_fail(HYB_BAD_ARGUMENT, "attention: axis %d of operand %d has stride %lld",
                            axis, index, (long long)stride);
    }
    return HYB_OK;
}

/* Operand `index` is the state of draws, and the third attribute a rate that keeps some. */
static hyb_status attention_draws_require(const hyb_call *call, int index)
{
    const double rate = call->attrs[2].f;
    const hyb_status status = require_state(call, index);
    if (status != HYB_OK)
        return status;
    return rate >= 0 && rate < 1 ? HYB_OK
                                 : hyb_fail(HYB_BAD_ARGUMENT, "attention: the rate is %g", rate);
}

/* Checks q, k and v, from operand `first` on, and rows [outer, inner, queries] without features. */
static hyb_status attention_checked(const hyb_call *call, int first, int32_t dtype, const int *rows,
                                    int n_rows, attention_sizes *sizes)
{
    const hyb_layout *q = &call->layout[first], *v = &call->layout[first + 2];
    if (q->rank != 4 || v->rank != 4)
        return hyb_fail(HYB_BAD_ARGUMENT, "attention: queries and values have rank 4");
    const attention_sizes z = *sizes = attention_sizes_of(q, v);
    hyb_status status;
    if (z.keys == 0 || z.features == 0 || z.values == 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "attention: there are no keys, or no features");
    if ((status = attention_require(call, first, dtype, q->shape)) != HYB_OK ||
        (status = attention_require(call, first + 1, dtype,
                                    (int64_t[]){z.outer, z.inner, z.keys, z.features})) != HYB_OK ||
        (status = attention_require(call, first + 2, dtype,
                                    (int64_t[]){z.outer, z.inner, z.keys, z.values})) != HYB_OK)
        return status;
    for (int i = 0; i < n_rows; i++)
        if ((status = require_dense(call, rows[i], dtype, 3)) != HYB_OK ||
            (status = require_size(call, rows[i], 0, z.outer)) != HYB_OK ||
            (status = require_size(call, rows[i], 1, z.inner)) != HYB_OK ||
            (status = require_size(call, rows[i], 2, z.queries)) != HYB_OK)
            return status;
    return HYB_OK;
}

static hyb_status attention_dense(const hyb_call *call, int index, int32_t dtype,
                                  const int64_t shape[4])
{
    const hyb_status status = require_dense(call, index, dtype, 4);
    return status != HYB_OK ? status : attention_require(call, index, dtype, shape);
}

/* A mask, operand `index`, if there is one (what it adds to every score), and behind it the state
 * of the draws. */
static hyb_status attention_more(const hyb_call *call, int index, int32_t dtype, attention_sizes z,
                                 bool masked, bool dropped)
{
    const int64_t shape[] = {z.outer, z.inner, z.queries, z.keys};
    const hyb_status status = masked ? attention_require(call, index, dtype, shape) : HYB_OK;
    return status == HYB_OK && dropped ? attention_draws_require(call, index + masked) : status;
}

static hyb_status attention_check(const hyb_call *call, int32_t dtype, hyb_range *range,
                                  bool masked, bool dropped)
{
    const int results = 3 + masked + dropped;
    attention_sizes z = {0};
    hyb_status status;
    if ((status = attention_checked(call, 0, dtype, (int[]){results + 1}, 1, &z)) != HYB_OK ||
        (status = attention_more(call, 3, dtype, z, masked, dropped)) != HYB_OK ||
        (status = attention_dense(
             call, results, dtype, (int64_t[]){z.outer, z.inner, z.queries, z.values})) != HYB_OK)
        return status;
    *range = (hyb_range){z.outer * z.inner * matmul_ceil(z.queries, ATTENTION_QUERIES), 1};
    return HYB_OK;
}

static hyb_status attention_pull_check(const hyb_call *call, int32_t dtype, hyb_range *range,
                                       bool masked, bool dropped)
{
    const int results = 6 + masked + dropped;
    attention_sizes z = {0};
    hyb_status status;
    if ((status = attention_checked(call, 3, dtype, (int[]){1, 2}, 2, &z)) != HYB_OK ||
        (status = attention_more(call, 6, dtype, z, masked, dropped)) != HYB_OK ||
        (status = attention_require(
             call, 0, dtype, (int64_t[]){z.outer, z.inner, z.queries, z.values})) != HYB_OK)
        return status;
    for (int i = 0; i < 3; i++)
        if ((status = attention_dense(call, results + i, dtype, call->layout[3 + i].shape)) !=
            HYB_OK)
            return status;
    *range = (hyb_range){z.outer * z.inner, 1};
    return HYB_OK;
}
