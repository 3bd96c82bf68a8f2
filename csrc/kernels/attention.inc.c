/* attention.inc.c - means of values, weighted by how queries meet keys; the weights are never all
 * there at once.
 *
 *   s[i, j] = scale * sum over e of q[i, e] k[j, e];  causal: -inf where j > i;
 *   masked: + m[i, j], or -inf where that is -inf
 *   attention       n[i] = log sum over j of exp s[i, j],   o[i] = sum over j of p[i, j] v[j]
 *                   with p[i, j] = exp(s[i, j] - n[i])
 *                   (masked and nothing but -inf: o[i] = 0, n[i] = inf)
 *   attention_pull  with a cotangent g of o and a shift t, d = scale * p * (g vT - t):
 *                   dq = d k,  dk = dT q,  dv = pT g
 *
 * Sources    Dao, Fu, Ermon, Rudra, Re 2022 (blocks of keys, weights computed again backward);
 *            Milakov, Gimelshein 2018 (the sum of exponentials kept while the maximum grows).
 * Split      by heads, forward by stretches of queries as well.
 * Layout     q [a, b, l, e], k [a, b, s, e], v [a, b, s, d], m [a, b, l, s]: the last axis dense,
 *            the others of any stride, 0 too.  n and t [a, b, l], o and g [a, b, l, d] and the
 *            gradients are dense, g like the inputs of any stride.
 * In place   not allowed.
 * Accuracy   about that of s, whose rounding, half an ulp of itself, the exponential takes over.
 * Bits       the order of summation of an element is given by the sizes alone.
 * Attributes f: scale; f: causal (0 or 1).
 * Special    as the formulas say; blocks of keys that no query of a tile may see are not looked at.
 */

enum {
    ATTENTION_KEYS = 128,    /* of a block, forward */
    ATTENTION_QUERIES = 192, /* of a stretch, forward: the block of keys is copied once for them */
    ATTENTION_SIDE = 64      /* queries and keys of a block, backward */
};

/* Sizes of a call, and the distances in items of an operand's heads and rows. */
typedef struct {
    int64_t outer, inner, queries, keys, features, values;
} attention_sizes;

static attention_sizes attention_sizes_of(const hyb_layout *q, const hyb_layout *v)
{
    return (attention_sizes){q->shape[0], q->shape[1], q->shape[2],
                             v->shape[2], q->shape[3], v->shape[3]};
}

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

#define EACH "kernels/attention_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define ATTENTION_ROWS(dtype, name)                                                               \
    {"attention", dtype, 3, 2, 2, HYB_PLAIN, HYB_SYM(prepare_attention_##name),                   \
     HYB_SYM(attention_##name)},                                                                  \
    {"attention_masked", dtype, 4, 2, 2, HYB_PLAIN, HYB_SYM(prepare_attention_masked_##name),     \
     HYB_SYM(attention_masked_##name)},                                                           \
    {"attention_masked_pull", dtype, 7, 3, 2, HYB_PLAIN,                                          \
     HYB_SYM(prepare_attention_masked_pull_##name), HYB_SYM(attention_masked_pull_##name)},       \
    {"attention_pull", dtype, 6, 3, 2, HYB_PLAIN, HYB_SYM(prepare_attention_pull_##name),         \
     HYB_SYM(attention_pull_##name)}

const hyb_kernel HYB_SYM(hyb_attention_kernels)[] = {
    ATTENTION_ROWS(HYB_F32, f32),
    ATTENTION_ROWS(HYB_F64, f64),
    {0},
};
#undef ATTENTION_ROWS
