/* optimizer.inc.c - one step of an optimizer, element by element.
 *
 *   sgd           d = +-g + weight_decay p;  p' = p - lr d
 *   sgd_momentum  m' = momentum m + d;  p' = p - lr e with e = m', or d + momentum m' (nesterov)
 *   sgd_dampened  m' = momentum m + (1 - dampening) d, or + d at the first step;  p' = p - lr m'
 *   adam          m' = beta1 m + (1 - beta1) d;  v' = beta2 v + (1 - beta2) d^2;
 *                 p' = p - lr / (1 - beta1^t) m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
 *   amsgrad       adam, with the greatest v' so far in the root
 *   adamax        u' = max(beta2 u, |d| + eps);  p' = p - lr / (1 - beta1^t) m' / u'
 *   nadam         mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2), r the product of mu(1) ... mu(t);
 *                 p' = p - lr ((1 - mu(t)) / (1 - r) d + mu(t+1) / (1 - r mu(t+1)) m')
 *                          / (sqrt(v') / sqrt(1 - beta2^t) + eps)
 *   nadam_product r mu(t)
 *   radam         adam with a rectified step, whose eps is added before sqrt(1 - beta2^t) is;
 *                 without the root while the variance of that is unbounded
 *   rmsprop       s' = alpha s + (1 - alpha) d^2;  p' = p - lr d / (sqrt(s') + eps)
 *     _centered   a' = alpha a + (1 - alpha) d;  the root is of s' - a'^2
 *     _momentum   b' = momentum b + d / (...);  p' = p - lr b'
 *   adagrad       s' = s + d^2;  p' = p - lr / (1 + (t - 1) lr_decay) d / (sqrt(s') + eps)
 *   adadelta      s' as in rmsprop;  e = sqrt(a + eps) / sqrt(s' + eps) d;  p' = p - lr e;
 *                 a' = rho a + (1 - rho) e^2
 *   lion          p' = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) d) for d = +-g;
 *                 m' = beta2 m + (1 - beta2) d
 *
 * -g where `maximize` is set; t counts steps from 1.  Where `decoupled` is set, weight_decay is not
 * in d: p is shrunk by lr weight_decay p first (AdamW).  Sources: Sutskever et al. 2013; Kingma and
 * Ba 2015; Reddi et al. 2018; Dozat 2016; Liu et al. 2020; Loshchilov and Hutter 2019; Tieleman and
 * Hinton 2012; Graves 2013; Duchi et al. 2011; Zeiler 2012; Chen et al. 2023.
 *
 * Split      by elements.
 * Layout     rank 1, dense or one element repeated (lr, momentum, beta1, t and r usually are);
 *            outputs are dense.
 * Operands   p, g, the moments in the order of the formulas (of rmsprop s, b, a), lr, momentum or
 *            beta1, t, r; results p and the moments.
 * In place   allowed: results may be the operands that they follow from.
 * Accuracy   a few roundings of the dtype; what depends on t alone is computed in float64.
 * Attributes sgd: weight_decay, maximize.  sgd_momentum: weight_decay, nesterov, maximize.
 *            sgd_dampened: dampening, weight_decay, maximize.
 *            adam, amsgrad, radam: beta2, eps, weight_decay, decoupled, maximize.
 *            adamax: beta2, eps, weight_decay, maximize.  nadam_product: momentum_decay.
 *            nadam: beta2, eps, weight_decay, momentum_decay, decoupled, maximize.
 *            rmsprop: alpha, eps, weight_decay, maximize.  adadelta: rho and the same.
 *            adagrad: lr_decay, eps, weight_decay, maximize.  lion: beta2, weight_decay, maximize.
 *            Flags are 0 or 1.
 */
#pragma once

#include "kernels/math/family.inc.c"
#include "kernels/elementwise.inc.c"

/* name, operands, results, attributes, cost of an element */
#define EACH_OPTIMIZER(ROW)               \
    ROW(sgd, 3, 1, 2, 4)                  \
    ROW(sgd_momentum, 5, 2, 3, 8)         \
    ROW(sgd_dampened, 6, 2, 3, 8)         \
    ROW(adam, 7, 3, 5, 32)                \
    ROW(amsgrad, 8, 4, 5, 32)             \
    ROW(adamax, 7, 3, 4, 24)              \
    ROW(nadam, 8, 3, 6, 32)               \
    ROW(nadam_product, 3, 1, 1, 128)      \
    ROW(radam, 7, 3, 5, 32)               \
    ROW(rmsprop, 4, 2, 4, 24)             \
    ROW(rmsprop_momentum, 6, 3, 4, 24)    \
    ROW(rmsprop_centered, 5, 3, 4, 24)    \
    ROW(rmsprop_centered_momentum, 7, 4, 4, 24) \
    ROW(adagrad, 5, 2, 4, 32)             \
    ROW(adadelta, 5, 3, 4, 32)            \
    ROW(lion, 5, 2, 3, 12)

#define EACH "kernels/optimizer_typed.inc.c"
#include "kernels/each_float.inc.c"
#undef EACH

#define OPTIMIZER_ROW_f32(name, n_in, n_out, n_attrs, cost)                                      \
    HYB_TABLE_ROW(name, HYB_DTYPE_f32, n_in, n_out, n_attrs, HYB_ELEMENTWISE,                    \
                  name##_prepare_f32, name##_f32)
#define OPTIMIZER_ROW_f64(name, n_in, n_out, n_attrs, cost)                                      \
    HYB_TABLE_ROW(name, HYB_DTYPE_f64, n_in, n_out, n_attrs, HYB_ELEMENTWISE,                    \
                  name##_prepare_f64, name##_f64)

const hyb_kernel HYB_SYM(hyb_optimizer_kernels)[] = {
    EACH_OPTIMIZER(OPTIMIZER_ROW_f32)
    EACH_OPTIMIZER(OPTIMIZER_ROW_f64)
    {0},
};
