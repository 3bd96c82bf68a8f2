/* layout.c - dtypes and layouts: sizes, extents, and the prepare step of elementwise kernels. */
#include "runtime/base/runtime.h"

static const struct {
    const char *name;
    int64_t itemsize;
} dtypes[HYB_DTYPE_COUNT] = {
    [HYB_BOOL] = {"bool", 1}, [HYB_I8] = {"i8", 1},     [HYB_I16] = {"i16", 2},
    [HYB_I32] = {"i32", 4},   [HYB_I64] = {"i64", 8},   [HYB_U8] = {"u8", 1},
    [HYB_U16] = {"u16", 2},   [HYB_U32] = {"u32", 4},   [HYB_U64] = {"u64", 8},
    [HYB_F16] = {"f16", 2},   [HYB_BF16] = {"bf16", 2}, [HYB_F32] = {"f32", 4},
    [HYB_F64] = {"f64", 8},
};

static bool known(int32_t dtype) { return dtype >= 0 && dtype < HYB_DTYPE_COUNT; }

int64_t hyb_itemsize(int32_t dtype) { return known(dtype) ? dtypes[dtype].itemsize : 0; }

const char *hyb_dtype_name(int32_t dtype) { return known(dtype) ? dtypes[dtype].name : "unknown"; }

int64_t hyb_elements(const hyb_layout *layout)
{
    int64_t n = 1;
    for (int32_t d = 0; d < layout->rank; d++)
        n *= layout->shape[d];
    return n;
}

bool hyb_is_contiguous(const hyb_layout *layout)
{
    int64_t expected = hyb_itemsize(layout->dtype);
    for (int32_t d = layout->rank - 1; d >= 0; d--) {
        if (layout->shape[d] != 1 && layout->strides[d] != expected)
            return hyb_elements(layout) == 0;
        expected *= layout->shape[d];
    }
    return true;
}

bool hyb_same_shape(const hyb_layout *a, const hyb_layout *b)
{
    if (a->rank != b->rank)
        return false;
    for (int32_t d = 0; d < a->rank; d++)
        if (a->shape[d] != b->shape[d])
            return false;
    return true;
}

bool hyb_layout_extent(const hyb_layout *layout, int64_t *low, int64_t *high)
{
    const int64_t itemsize = hyb_itemsize(layout->dtype);
    if (itemsize == 0 || layout->rank < 0 || layout->rank > HYB_MAX_RANK)
        return false;
    /* Any partial product of the sizes, in bytes, must fit: kernels multiply without checking.
     * An axis of size 0 counts as 1, so that the others are bounded all the same. */
    int64_t bytes = itemsize, first = 0, last = 0;
    bool empty = false;
    for (int32_t d = 0; d < layout->rank; d++) {
        const int64_t size = layout->shape[d], stride = layout->strides[d];
        int64_t reach;
        if (size < 0 || __builtin_mul_overflow(bytes, size > 1 ? size : 1, &bytes)
            || __builtin_mul_overflow(size > 1 ? size : 1, stride, &reach) || reach == INT64_MIN)
            return false;
        empty |= size == 0;
        if (size < 2)
            continue;
        int64_t *end = stride < 0 ? &first : &last;
        if (__builtin_add_overflow(*end, (size - 1) * stride, end))
            return false;
    }
    if (__builtin_add_overflow(last, itemsize, &last))
        return false;
    *low = empty ? 0 : first;
    *high = empty ? 0 : last;
    return true;
}

/* Every kernel also pays for moving its bytes, about as much as three additions: a chunk is some 8 us
 * of work out of the second-level cache. */
#define MEMORY_COST 3

hyb_status hyb_prepare_elementwise(const hyb_call *call, int n_in, int n_out, int32_t in,
                                   int32_t out, int cost, hyb_range *range)
{
    const int64_t n = call->layout[0].shape[0];
    for (int i = 0; i < n_in + n_out; i++) {
        const hyb_layout *layout = &call->layout[i];
        const int32_t dtype = i < n_in ? in : out;
        const int64_t itemsize = hyb_itemsize(dtype);

        if (layout->dtype != dtype)
            return hyb_fail(HYB_BAD_ARGUMENT, "operand %d is %s, expected %s", i,
                            hyb_dtype_name(layout->dtype), hyb_dtype_name(dtype));
        if (layout->rank != 1 || layout->shape[0] != n)
            return hyb_fail(
                HYB_BAD_ARGUMENT,
                "operand %d of an elementwise kernel must have rank 1 and %lld elements", i,
                (long long)n);
        const bool dense = layout->strides[0] == itemsize || (i >= n_in && n <= 1);
        const bool repeated = layout->strides[0] == 0 && i < n_in;
        if (!dense && !repeated)
            return hyb_fail(HYB_BAD_ARGUMENT, "operand %d of an elementwise kernel must be dense%s",
                            i, i < n_in ? " or one element" : "");
    }
    const int64_t most = hyb_choice(HYB_CHUNK_WORK) / (MEMORY_COST + (cost > 0 ? cost : 0));
    const int64_t grain = most / HYB_TILE * HYB_TILE;
    *range = (hyb_range){n, grain > HYB_TILE ? grain : HYB_TILE};
    return HYB_OK;
}
