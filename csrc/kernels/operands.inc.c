/* operands.inc.c - what prepare functions ask of operands, and how they size a chunk; no table. */
#pragma once

/* Units of work that make about 32 Ki elementary operations, when one unit is `cost` of them. */
static inline int64_t grain_of(int64_t cost)
{
    return cost >= 32768 ? 1 : 32768 / (cost < 1 ? 1 : cost);
}

/* Rank and sizes are sane: the product of the nonzero sizes, in bytes, stays far below overflow, so
 * that a kernel may multiply any of them. */
static bool sizes_are_sane(const hyb_layout *layout)
{
    int64_t nbytes = hyb_itemsize(layout->dtype);
    if (nbytes == 0 || layout->rank < 0 || layout->rank > HYB_MAX_RANK)
        return false;
    for (int32_t i = 0; i < layout->rank; i++) {
        const int64_t size = layout->shape[i];
        if (size < 0 || (size > 0 && __builtin_mul_overflow(nbytes, size, &nbytes)))
            return false;
    }
    return nbytes <= INT64_MAX / 4;
}

/* Operand `index` is a dense array of this dtype and rank. */
static hyb_status require_dense(const hyb_call *call, int index, int32_t dtype, int32_t rank)
{
    const hyb_layout *layout = &call->layout[index];
    if (layout->dtype != dtype)
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d has dtype %d where the kernel takes %d",
                        index, (int)layout->dtype, (int)dtype);
    if (layout->rank != rank)
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d has rank %d where the kernel takes %d", index,
                        (int)layout->rank, (int)rank);
    if (!sizes_are_sane(layout))
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d has a negative or overflowing size", index);
    if (!hyb_is_contiguous(layout))
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d is not dense", index);
    return HYB_OK;
}

/* Axis `axis` of operand `index` has `size` elements. */
static hyb_status require_size(const hyb_call *call, int index, int axis, int64_t size)
{
    const int64_t actual = call->layout[index].shape[axis];
    if (actual == size)
        return HYB_OK;
    return hyb_fail(HYB_BAD_ARGUMENT,
                    "axis %d of operand %d has size %lld where the others say %lld", axis, index,
                    (long long)actual, (long long)size);
}
