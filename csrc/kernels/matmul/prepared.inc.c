/* matmul/prepared.inc.c - B in the order in which the tiles read it, and products from there on.
 *
 * Block of k by block of k all panels of columns, as matmul_copy_b makes them; how wide they are
 * depends on the rows of A.  The order of summation is that of matmul.
 *
 * Included once per dtype by matmul/typed.inc.c.
 */

/* What both kernels agree on: the plan of a product of so many rows. */
static N(matmul_job) N(matmul_prepared_job)(int64_t m, int64_t n, int64_t k)
{
    return (N(matmul_job)){.m = m, .n = n, .k = k, .a_row = k, .a_col = 1, .b_row = n, .b_col = 1,
                           .c_row = n, .c_col = 1, .parallel = true};
}

HYB_KERNEL(N(matmul_prepare))
{
    (void)begin;
    (void)end;
    const hyb_layout *b = &call->layout[0];
    N(matmul_job) job =
        N(matmul_prepared_job)(call->attrs[0].i, b->shape[1], b->shape[0]);
    T *to = call->data[1];
    memset(to, 0, (size_t)hyb_elements(&call->layout[1]) * sizeof(T)); /* not all is used */
    if (job.k == 0 || job.n == 0)
        return HYB_OK;
    job.prepared = to;
    N(matmul_plan)(&job);
    job.b = call->data[0];
    job.b_row = b->shape[0] == 1 ? 1 : b->strides[0] / (int64_t)sizeof(T);
    job.b_col = b->shape[1] == 1 ? 1 : b->strides[1] / (int64_t)sizeof(T);
    const int64_t last = (job.columns - 1) * job.width, left = job.n - last;
    for (int64_t k = 0; k < job.k; k += job.depth) {
        const int64_t depth = matmul_smaller(job.depth, job.k - k);
        T *block = to + k * job.columns * job.width;
        N(matmul_copy_b)(&job, block, 0, job.n, k, depth);
        for (int64_t i = 0; i < depth; i++) /* what is copied past the last column is any item */
            memset(block + last * depth + i * job.width + left, 0,
                   (size_t)(job.width - left) * sizeof(T));
    }
    return HYB_OK;
}

HYB_KERNEL(N(matmul_prepared))
{
    (void)begin;
    (void)end;
    const int64_t *of_c = call->layout[2].shape, k = call->layout[0].shape[1];
    if (of_c[0] == 0 || of_c[1] == 0)
        return HYB_OK;
    N(matmul_job) job = N(matmul_prepared_job)(of_c[0], of_c[1], k);
    job.a = call->data[0];
    job.prepared = call->data[1];
    job.c = call->data[2];
    job.post = call->post;
    return N(matmul_blocks)(&job);
}

/* Items of what is prepared: whole panels, of whatever width. */
static hyb_status N(matmul_require_prepared)(const hyb_call *call, int index, int64_t k, int64_t n)
{
    int64_t items;
    hyb_status status = require_dense(call, index, DTYPE, 1);
    if (status != HYB_OK)
        return status;
    if (n > INT64_MAX - MATMUL_PADDING ||
        __builtin_mul_overflow(k, (n + MATMUL_PADDING - 1) / MATMUL_PADDING * MATMUL_PADDING,
                               &items))
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: what is prepared would overflow");
    return require_size(call, index, 0, items);
}

HYB_PREPARE(N(prepare_matmul_prepare))
{
    *range = (hyb_range){1, 1};
    const hyb_layout *b = &call->layout[0];
    if (b->rank != 2 || b->dtype != DTYPE || !sizes_are_sane(b))
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: operand 0 is no matrix");
    if (call->attrs[0].i < 2)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: nothing is prepared for %lld rows",
                        (long long)call->attrs[0].i);
    bool dense = false;
    int64_t extent = 0;
    for (int axis = 0; axis < 2; axis++) {
        const int64_t size = b->shape[axis], stride = b->strides[axis];
        int64_t reach;
        dense |= size < 2 || stride == (int64_t)sizeof(T);
        if (size >= 2 && (stride < 0 || stride % (int64_t)sizeof(T) != 0 ||
                          __builtin_mul_overflow(size, stride, &reach) ||
                          __builtin_add_overflow(extent, reach, &extent)))
            return hyb_fail(HYB_BAD_ARGUMENT, "matmul: axis %d of operand 0 has stride %lld", axis,
                            (long long)stride);
    }
    if (!dense)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: neither axis of operand 0 is dense");
    return N(matmul_require_prepared)(call, 1, b->shape[0], b->shape[1]);
}

HYB_PREPARE(N(prepare_matmul_prepared))
{
    *range = (hyb_range){1, 1};
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, 2)) != HYB_OK ||
        (status = require_dense(call, 2, DTYPE, 2)) != HYB_OK)
        return status;
    const int64_t *of_a = call->layout[0].shape, *of_c = call->layout[2].shape;
    if ((status = require_size(call, 2, 0, of_a[0])) != HYB_OK)
        return status;
    if (of_a[0] < 2 || of_c[1] < 2 || of_a[1] < 1)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: nothing is prepared for %lld rows, %lld columns",
                        (long long)of_a[0], (long long)of_c[1]);
    return N(matmul_require_prepared)(call, 1, of_a[1], of_c[1]);
}
