/* matmul/operands.inc.c - stacks of matrices as products take them; no table. */
#pragma once

static inline int64_t matmul_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* a / b of numbers >= 0: divisions of 64 bits are slow enough to be noticed in small products. */
static inline int64_t matmul_quotient(int64_t a, int64_t b)
{
    return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

static inline int64_t matmul_ceil(int64_t a, int64_t b) { return matmul_quotient(a + b - 1, b); }

/* Sizes, and distances in items. */
typedef struct {
    int64_t batch, m, n, k;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col;
} matmul_operands;

static matmul_operands matmul_operands_of(const hyb_call *call, size_t itemsize)
{
    const hyb_layout *a = &call->layout[0], *b = &call->layout[1];
    int64_t distance[2][3];
    for (int side = 0; side < 2; side++)
        for (int axis = 0; axis < 3; axis++) {
            /* An axis of one element has any stride: a dense one never stands in the way. */
            const hyb_layout *layout = side ? b : a;
            const int64_t single = axis == 0 ? 0 : 1;
            distance[side][axis] = layout->shape[axis] == 1
                                       ? single
                                       : layout->strides[axis] / (int64_t)itemsize;
        }
    return (matmul_operands){
        .batch = a->shape[0], .m = a->shape[1], .k = a->shape[2], .n = b->shape[2],
        .a_batch = distance[0][0], .a_row = distance[0][1], .a_col = distance[0][2],
        .b_batch = distance[1][0], .b_row = distance[1][1], .b_col = distance[1][2],
    };
}

/* An input is a stack of matrices as described above, and no address within it overflows. */
static hyb_status matmul_require_matrices(const hyb_call *call, int index, int32_t dtype)
{
    const hyb_layout *layout = &call->layout[index];
    if (layout->dtype != dtype || layout->rank != 3)
        return hyb_fail(HYB_BAD_ARGUMENT,
                        "matmul: operand %d has dtype %d and rank %d, not %d and 3", index,
                        (int)layout->dtype, (int)layout->rank, (int)dtype);
    if (!sizes_are_sane(layout))
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: operand %d has a negative or overflowing size",
                        index);
    const int64_t itemsize = hyb_itemsize(dtype);
    int64_t extent = 0;
    bool dense = false;
    for (int axis = 0; axis < 3; axis++) {
        const int64_t size = layout->shape[axis], stride = layout->strides[axis];
        int64_t reach;
        if (axis > 0)
            dense |= size < 2 || stride == itemsize;
        if (size < 2)
            continue;
        if (stride < 0 || stride % itemsize != 0)
            return hyb_fail(HYB_BAD_ARGUMENT,
                            "matmul: axis %d of operand %d has stride %lld, not a multiple of %lld",
                            axis, index, (long long)stride, (long long)itemsize);
        if (__builtin_mul_overflow(size, stride, &reach) ||
            __builtin_add_overflow(extent, reach, &extent))
            return hyb_fail(HYB_BAD_ARGUMENT, "matmul: the strides of operand %d overflow", index);
    }
    if (!dense)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul: neither inner axis of operand %d is dense",
                        index);
    return HYB_OK;
}

static hyb_status matmul_prepare(const hyb_call *call, int32_t left, int32_t right, int32_t out)
{
    const hyb_layout *a = &call->layout[0];
    hyb_status status;
    if ((status = matmul_require_matrices(call, 0, left)) != HYB_OK ||
        (status = matmul_require_matrices(call, 1, right)) != HYB_OK ||
        (status = require_dense(call, 2, out, 3)) != HYB_OK ||
        (status = require_size(call, 1, 0, a->shape[0])) != HYB_OK ||
        (status = require_size(call, 1, 1, a->shape[2])) != HYB_OK ||
        (status = require_size(call, 2, 0, a->shape[0])) != HYB_OK ||
        (status = require_size(call, 2, 1, a->shape[1])) != HYB_OK ||
        (status = require_size(call, 2, 2, call->layout[1].shape[2])) != HYB_OK)
        return status;
    return HYB_OK;
}

/* int8 and uint8 in any combination, to int32. */
static hyb_status matmul_prepare_bytes(const hyb_call *call)
{
    for (int index = 0; index < 2; index++) {
        const int32_t dtype = call->layout[index].dtype;
        if (dtype != HYB_I8 && dtype != HYB_U8)
            return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: operand %d has dtype %d, not bytes",
                            index, (int)dtype);
    }
    return matmul_prepare(call, call->layout[0].dtype, call->layout[1].dtype, HYB_I32);
}
