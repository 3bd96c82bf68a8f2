/* attention/family.inc.c - means of values, weighted by how queries meet keys; the weights are never all
 * there at once.
 *
 *   s[i, j] = scale * sum over e of q[i, e] k[j, e];  causal: -inf where j > i;
 *   masked: + m[i, j], or -inf where that is -inf
 *   attention       n[i] = log sum over j of exp s[i, j],   o[i] = sum over j of p[i, j] v[j]
 *                   with p[i, j] = exp(s[i, j] - n[i])
 *                   (masked and nothing but -inf: o[i] = 0, n[i] = inf)
 *   attention_pull  with a cotangent g of o and a shift t, d = scale * p * (g vT - t):
 *                   dq = d k,  dk = dT q,  dv = pT g
 *   dropped: w p in place of p for o and dv, w (g vT) for g vT, where w[i, j] is 1 / (1 - rate) if
 *            element [i, j] of the uniform f32 [a, b, l, s] is at least `rate`, else 0
 *
 * Sources    Dao, Fu, Ermon, Rudra, Re 2022 (blocks of keys, weights computed again backward);
 *            Milakov, Gimelshein 2018 (the sum of exponentials kept while the maximum grows).
 * Split      by heads, forward by stretches of queries as well.
 * Layout     q [a, b, l, e], k [a, b, s, e], v [a, b, s, d], m [a, b, l, s]: the last axis dense,
 *            the others of any stride, 0 too.  n and t [a, b, l], o and g [a, b, l, d] and the
 *            gradients are dense, g like the inputs of any stride.  The state of the draws is i64
 *            [2] (seed, draw counter).
 * In place   not allowed.
 * Accuracy   about that of s, whose rounding, half an ulp of itself, the exponential takes over.
 * Bits       the order of summation of an element is given by the sizes alone, and the draw of a
 *            weight by its place alone (random.inc.c), so that the way back draws it again.
 * Attributes f: scale; f: causal (0 or 1); dropped: f: rate.
 * Special    as the formulas say; blocks of keys that no query of a tile may see are not looked at.
 */
#pragma once

#include "kernels/matmul/family.inc.c"
#include "kernels/softmax.inc.c"
#include "kernels/random.inc.c"

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

/* What decides which weights are dropped; `words` holds the draws of a stretch of one row. */
typedef struct {
    const int64_t *state; /* NULL: none is */
    uint64_t first;       /* by which the numbers of all weights are larger */
    uint32_t least;       /* of the draws, of 24 bits, that keep a weight */
    double scale;         /* of the weights that are kept */
    philox_group words[ATTENTION_KEYS / RANDOM_GROUP_32 + 1];
} attention_draws;

static attention_draws attention_draws_of(const hyb_call *call, int index)
{
    const double rate = call->attrs[2].f;
    return (attention_draws){.state = call->data[index],
                             .first = random_first(call, index),
                             .least = (uint32_t)ceilf((float)rate * 0x1p24f),
                             .scale = 1.0 / (1.0 - rate)};
}

/* The draws of `count` weights (ATTENTION_KEYS at most) from number `first` on. */
static const uint32_t *attention_drawn(attention_draws *draws, uint64_t first, int64_t count)
{
    first += draws->first;
    const int64_t skip = (int64_t)(first % RANDOM_GROUP_32);
    for (int64_t i = 0; i * RANDOM_GROUP_32 < skip + count; i++)
        philox_words((uint64_t)draws->state[0], (uint64_t)draws->state[1],
                     (int64_t)(first / RANDOM_GROUP_32) + i, draws->words + i);
    return (const uint32_t *)draws->words + skip;
}

#include "kernels/attention/checks.inc.c"

#define EACH "kernels/attention/typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define ATTENTION_ROWS(dtype, name)                                                              \
    HYB_TABLE_ROW(attention_dropped, dtype, 5, 2, 3, HYB_PLAIN,                                  \
                  prepare_attention_dropped_##name, attention_dropped_##name)                    \
    HYB_TABLE_ROW(attention_dropped_pull, dtype, 8, 3, 3, HYB_PLAIN,                             \
                  prepare_attention_dropped_pull_##name, attention_dropped_pull_##name)          \
    HYB_TABLE_ROW(attention, dtype, 3, 2, 2, HYB_PLAIN, prepare_attention_##name,                \
                  attention_##name)                                                              \
    HYB_TABLE_ROW(attention_masked, dtype, 4, 2, 2, HYB_PLAIN, prepare_attention_masked_##name,  \
                  attention_masked_##name)                                                       \
    HYB_TABLE_ROW(attention_masked_pull, dtype, 7, 3, 2, HYB_PLAIN,                              \
                  prepare_attention_masked_pull_##name, attention_masked_pull_##name)            \
    HYB_TABLE_ROW(attention_pull, dtype, 6, 3, 2, HYB_PLAIN, prepare_attention_pull_##name,      \
                  attention_pull_##name)

const hyb_kernel HYB_SYM(hyb_attention_kernels)[] = {
    ATTENTION_ROWS(HYB_F32, f32)
    ATTENTION_ROWS(HYB_F64, f64)
    {0},
};
#undef ATTENTION_ROWS
