/* normalization.inc.c - rows shifted to mean 0 and scaled to variance 1, or scaled alone.
 *
 *   m = mean_i x[r, i]                s = 1 / sqrt(mean_i (x[r, i] - m)^2 + eps)
 *   layer_norm       y[r, i] = (x[r, i] - m) * s * weight[i] + bias[i]
 *   rms_norm         y[r, i] = x[r, i] * s * weight[i]        with 0 in place of m
 *   layer_norm_pull  y[r, i] = s * (g[r, i] - mean_k g[r, k] - h[i] * mean_k (g[r, k] h[k]))
 *   rms_norm_pull    y[r, i] = s * (g[r, i] - h[i] * mean_k (g[r, k] h[k]))
 *                    with h[i] = (x[r, i] - m) * s: the Jacobian of h, which is symmetric, times g
 *   channel_norm, channel_norm_pull  the same for each channel of [count, channels, n], with a
 *                    weight and a bias for each: the pull gives the gradients by x, weight and bias;
 *                    channel_moments gives its mean and variance
 *
 * Sources    Ba, Kiros, Hinton 2016 (layer norm); Zhang, Sennrich 2019 (RMS norm), Ioffe,
 *            Szegedy 2015 (channels).
 * Split      by rows, or by channels.
 * Layout     dense; x, g and y [rows, n], weight and bias [n]; channels as above.
 * In place   not allowed.
 * Accuracy   the mean comes first and then the squares of what is left (two passes over a row that
 *            stays in cache), so that a mean far from 0 costs no digits; sums are taken in lanes,
 *            blocks of 128 vectors apart.  Channels are read once: so are blocks of 1024 of their
 *            elements summed, and the moments of blocks added (Chan, Golub, LeVeque 1979).
 * Attributes f: eps.
 * Special    a NaN or an infinity in a row gives NaN throughout (rms_norm: an infinity makes the
 *            others 0); eps = 0 and no variance give NaN.
 */
#pragma once

#include "kernels/softmax.inc.c"

/* What is normalised together: pieces of n elements, each `apart` from the one before. */
typedef struct { int64_t n, pieces, apart; } norm_span;

/* One channel of [count, channels, n]. */
static inline norm_span norm_channel(const hyb_layout *x)
{
    return (norm_span){x->shape[2], x->shape[0], x->shape[1] * x->shape[2]};
}

enum { NORM_BLOCK = 128 }; /* vectors added one after the other before they join the sum */
enum { NORM_ELEMENTS = 1024 }; /* of a channel whose moments are added to those before */

/* What is summed over a row. */
typedef enum { NORM_X, NORM_SQUARES, NORM_G, NORM_G_TIMES_X } norm_term;

#define EACH "kernels/normalization_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define NORM_ROWS(dtype, name)                                                                   \
    HYB_TABLE_ROW(layer_norm, dtype, 3, 1, 1, HYB_PLAIN, prepare_layer_norm_##name,              \
                  layer_norm_##name)                                                             \
    HYB_TABLE_ROW(rms_norm, dtype, 2, 1, 1, HYB_PLAIN, prepare_rms_norm_##name, rms_norm_##name) \
    HYB_TABLE_ROW(layer_norm_pull, dtype, 2, 1, 1, HYB_PLAIN, prepare_norm_pull_##name,          \
                  layer_norm_pull_##name)                                                        \
    HYB_TABLE_ROW(rms_norm_pull, dtype, 2, 1, 1, HYB_PLAIN, prepare_norm_pull_##name,            \
                  rms_norm_pull_##name)                                                          \
    HYB_TABLE_ROW(channel_norm, dtype, 3, 1, 1, HYB_PLAIN, prepare_channel_norm_##name,          \
                  channel_norm_##name)                                                           \
    HYB_TABLE_ROW(channel_norm_pull, dtype, 3, 3, 1, HYB_PLAIN,                                  \
                  prepare_channel_norm_pull_##name, channel_norm_pull_##name)                    \
    HYB_TABLE_ROW(channel_moments, dtype, 1, 2, 0, HYB_PLAIN, prepare_channel_moments_##name,    \
                  channel_moments_##name)

const hyb_kernel HYB_SYM(hyb_normalization_kernels)[] = {
    NORM_ROWS(HYB_F32, f32)
    NORM_ROWS(HYB_F64, f64)
    {0},
};
