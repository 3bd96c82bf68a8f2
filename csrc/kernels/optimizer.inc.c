/* optimizer.inc.c - one step of an optimizer, element by element.
 *
 *   sgd           d = +-g + weight_decay p;  p' = p - lr d
 *   sgd_momentum  d as above;  m' = momentum m + (1 - dampening) d;  p' = p - lr e
 *                 with e = m', or d + momentum m' (nesterov)
 *   adam          d = g + weight_decay p, or d = g and p shrunk by lr weight_decay first
 * (decoupled: AdamW); m' = beta1 m + (1 - beta1) d;  v' = beta2 v + (1 - beta2) d^2 p' = p - lr /
 * (1 - beta1^t) m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
 *
 * -g where `maximize` is set.  Sources: Sutskever et al. 2013; Kingma and Ba 2015; Loshchilov and
 * Hutter 2019.
 *
 * Split      by elements.
 * Layout     rank 1, dense or one element repeated (lr and t usually are); outputs are dense.
 * In place   allowed: p', m' and v' may be p, m and v.
 * Accuracy   a few roundings of the dtype; the corrections for t are computed in float64.
 * Attributes sgd: weight_decay, maximize.  sgd_momentum: momentum, dampening, weight_decay,
 * nesterov, maximize. adam: beta1, beta2, eps, weight_decay, decoupled.  Flags are 0 or 1.
 */

#define EACH "kernels/optimizer_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define OPTIMIZER_ROWS(t)                                                                        \
    {"sgd", HYB_DTYPE_##t, 3, 1, 2, HYB_ELEMENTWISE, HYB_SYM(sgd_prepare_##t), HYB_SYM(sgd_##t)}, \
    {"sgd_momentum", HYB_DTYPE_##t, 4, 2, 5, HYB_ELEMENTWISE, HYB_SYM(sgd_momentum_prepare_##t), \
     HYB_SYM(sgd_momentum_##t)},                                                                 \
    {"adam", HYB_DTYPE_##t, 6, 3, 5, HYB_ELEMENTWISE, HYB_SYM(adam_prepare_##t), HYB_SYM(adam_##t)},

const hyb_kernel HYB_SYM(hyb_optimizer_kernels)[] = {
    OPTIMIZER_ROWS(f32)
    OPTIMIZER_ROWS(f64)
    {0},
};
