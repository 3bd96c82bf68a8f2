/* optimizer_typed.inc.c - the optimizers of one dtype; included by optimizer.inc.c once per dtype
 * (each_float.inc.c).
 */

#define INPUT(name, index)   \
    T        name##_spread[LANES]; \
    N(input) name = N(open)(call, index, begin, name##_spread)
#define EACH_VECTOR for (int64_t left = end - begin; left > 0; left -= LANES)

/* The direction of descent before any memory of earlier ones. */
static inline V N(descent)(V p, V g, T sign, T weight_decay)
{
    const V d = g * sign;
    return weight_decay != 0 ? p * weight_decay + d : d;
}

/* The greater one; nan if one is. */
static inline V N(greater)(V a, V b) { return N(v_select)((a > b) | (a != a), a, b); }

/* Factors that depend on the count of steps and on the decay of the first moment alone. */
typedef struct N(factors) {
    V first, second, choice;
} N(factors);

/* Fills `factors` lane by lane, in float64 as `RULE(beta1, t, rest, &first, &second, &choice)` says:
 * the first lane alone, for all, where the operands are `repeated`. */
#define FACTORS(factors, beta1, t, rest, repeated, RULE)                                          \
    for (int i = 0; i < ((repeated) ? 1 : LANES); i++) {                                          \
        double first = 0, second = 0, choice = 0;                                                 \
        RULE((double)(beta1)[i], (double)(t)[i], (double)(rest)[i], &first, &second, &choice);     \
        (factors).first[i] = (T)first;                                                            \
        (factors).second[i] = (T)second;                                                          \
        (factors).choice[i] = (T)choice;                                                          \
    }                                                                                             \
    if (repeated) {                                                                               \
        (factors).first = N(v_splat)((factors).first[0]);                                         \
        (factors).second = N(v_splat)((factors).second[0]);                                       \
        (factors).choice = N(v_splat)((factors).choice[0]);                                       \
    }

HYB_KERNEL(N(sgd))
{
    const T weight_decay = (T)call->attrs[0].f, sign = call->attrs[1].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(lr, 2);
    HYB_OUTPUT(T, new_p, 3);
    EACH_VECTOR {
        const V weight = N(next)(&p, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        N(put)(&new_p, weight - N(next)(&lr, left) * d, left);
    }
    return HYB_OK;
}

HYB_KERNEL(N(sgd_momentum))
{
    const T    weight_decay = (T)call->attrs[0].f, sign = call->attrs[2].f != 0 ? -1 : 1;
    const bool nesterov = call->attrs[1].f != 0;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(lr, 3);
    INPUT(momentum, 4);
    HYB_OUTPUT(T, new_p, 5);
    HYB_OUTPUT(T, new_m, 6);
    EACH_VECTOR {
        const V weight = N(next)(&p, left), kept = N(next)(&momentum, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        const V velocity = N(next)(&m, left) * kept + d;
        const V step = nesterov ? velocity * kept + d : velocity;
        N(put)(&new_p, weight - N(next)(&lr, left) * step, left);
        N(put)(&new_m, velocity, left);
    }
    return HYB_OK;
}

HYB_KERNEL(N(sgd_dampened))
{
    const T share = (T)(1 - call->attrs[0].f), weight_decay = (T)call->attrs[1].f;
    const T sign = call->attrs[2].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(lr, 3);
    INPUT(momentum, 4);
    INPUT(t, 5);
    HYB_OUTPUT(T, new_p, 6);
    HYB_OUTPUT(T, new_m, 7);
    EACH_VECTOR {
        const V weight = N(next)(&p, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        const V added = N(v_select)(N(next)(&t, left) <= 1, d, d * share);
        const V velocity = N(next)(&m, left) * N(next)(&momentum, left) + added;
        N(put)(&new_p, weight - N(next)(&lr, left) * velocity, left);
        N(put)(&new_m, velocity, left);
    }
    return HYB_OK;
}

/* 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t): what is missing from means that began at 0. */
#define ADAM_RULE(beta1, t, rest, first, second, choice) \
    (*(first) = 1 / (1 - pow(beta1, t)), *(second) = 1 / sqrt(1 - pow(beta2, t)))

static inline hyb_status N(adam_step)(const hyb_call *call, int64_t begin, int64_t end,
                                      const bool keeps_greatest)
{
    const double beta2 = call->attrs[0].f;
    const T keep2 = (T)beta2, add2 = (T)(1 - beta2), eps = (T)call->attrs[1].f;
    const T weight_decay = (T)call->attrs[2].f, sign = call->attrs[4].f != 0 ? -1 : 1;
    const bool decoupled = call->attrs[3].f != 0;
    const int  more = keeps_greatest ? 1 : 0;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(v, 3);
    INPUT(x, 3 + more);
    INPUT(lr, 4 + more);
    INPUT(beta1, 5 + more);
    INPUT(t, 6 + more);
    HYB_OUTPUT(T, new_p, 7 + more);
    HYB_OUTPUT(T, new_m, 8 + more);
    HYB_OUTPUT(T, new_v, 9 + more);
    HYB_OUTPUT(T, new_x, 9 + 2 * more);
    const bool repeated = t.step == 0 && beta1.step == 0;
    N(factors) scale = {0};
    EACH_VECTOR {
        const V keep1 = N(next)(&beta1, left), steps = N(next)(&t, left);
        if (!repeated || left == end - begin) {
            FACTORS(scale, keep1, steps, steps, repeated, ADAM_RULE)
        }
        const V rate = N(next)(&lr, left), weight = N(next)(&p, left);
        const V kept = decoupled ? weight - weight * (rate * weight_decay) : weight;
        const V d = N(descent)(weight, N(next)(&g, left), sign, decoupled ? 0 : weight_decay);
        const V mean = N(next)(&m, left) * keep1 + d * (1 - keep1);
        V       square = N(next)(&v, left) * keep2 + d * d * add2;
        N(put)(&new_m, mean, left);
        N(put)(&new_v, square, left);
        if (keeps_greatest) {
            square = N(greater)(square, N(next)(&x, left));
            N(put)(&new_x, square, left);
        }
        const V size = N(v_sqrt)(square) * scale.second + eps;
        N(put)(&new_p, kept - rate * scale.first * (mean / size), left);
    }
    return HYB_OK;
}

HYB_KERNEL(N(adam)) { return N(adam_step)(call, begin, end, false); }
HYB_KERNEL(N(amsgrad)) { return N(adam_step)(call, begin, end, true); }

#define ADAMAX_RULE(beta1, t, rest, first, second, choice) (*(first) = 1 / (1 - pow(beta1, t)))

HYB_KERNEL(N(adamax))
{
    const T beta2 = (T)call->attrs[0].f, eps = (T)call->attrs[1].f;
    const T weight_decay = (T)call->attrs[2].f, sign = call->attrs[3].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(u, 3);
    INPUT(lr, 4);
    INPUT(beta1, 5);
    INPUT(t, 6);
    HYB_OUTPUT(T, new_p, 7);
    HYB_OUTPUT(T, new_m, 8);
    HYB_OUTPUT(T, new_u, 9);
    const bool repeated = t.step == 0 && beta1.step == 0;
    N(factors) scale = {0};
    EACH_VECTOR {
        const V keep1 = N(next)(&beta1, left), steps = N(next)(&t, left);
        if (!repeated || left == end - begin) {
            FACTORS(scale, keep1, steps, steps, repeated, ADAMAX_RULE)
        }
        const V weight = N(next)(&p, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        const V mean = N(next)(&m, left) * keep1 + d * (1 - keep1);
        const V norm = N(greater)(N(v_abs)(d) + eps, N(next)(&u, left) * beta2);
        N(put)(&new_p, weight - N(next)(&lr, left) * scale.first * (mean / norm), left);
        N(put)(&new_m, mean, left);
        N(put)(&new_u, norm, left);
    }
    return HYB_OK;
}

/* The momentum of step t: it grows to beta1. */
static inline double N(nadam_momentum_of)(double beta1, double t, double decay)
{
    return beta1 * (1 - 0.5 * pow(0.96, t * decay));
}

#define NADAM_PRODUCT_RULE(beta1, t, before, first, second, choice) \
    (*(first) = (before) * N(nadam_momentum_of)(beta1, t, decay))

HYB_KERNEL(N(nadam_product))
{
    const double decay = call->attrs[0].f;
    INPUT(product, 0);
    INPUT(beta1, 1);
    INPUT(t, 2);
    HYB_OUTPUT(T, out, 3);
    EACH_VECTOR {
        N(factors) made = {0};
        const V before = N(next)(&product, left), beta = N(next)(&beta1, left);
        const V steps = N(next)(&t, left);
        FACTORS(made, beta, steps, before, left == 1, NADAM_PRODUCT_RULE)
        N(put)(&out, made.first, left);
    }
    return HYB_OK;
}

/* What multiplies the gradient and the mean, and 1 / sqrt(1 - beta2^t). */
static inline void N(nadam_factors)(double beta1, double beta2, double decay, double t,
                                    double product, double *first, double *second, double *choice)
{
    const double now = N(nadam_momentum_of)(beta1, t, decay);
    const double next = N(nadam_momentum_of)(beta1, t + 1, decay);
    *first = (1 - now) / (1 - product);
    *second = next / (1 - product * next);
    *choice = 1 / sqrt(1 - pow(beta2, t));
}

#define NADAM_RULE(beta1, t, product, first, second, choice) \
    N(nadam_factors)(beta1, beta2, decay, t, product, first, second, choice)

HYB_KERNEL(N(nadam))
{
    const double beta2 = call->attrs[0].f, decay = call->attrs[3].f;
    const T keep2 = (T)beta2, add2 = (T)(1 - beta2), eps = (T)call->attrs[1].f;
    const T weight_decay = (T)call->attrs[2].f, sign = call->attrs[5].f != 0 ? -1 : 1;
    const bool decoupled = call->attrs[4].f != 0;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(v, 3);
    INPUT(lr, 4);
    INPUT(beta1, 5);
    INPUT(t, 6);
    INPUT(product, 7);
    HYB_OUTPUT(T, new_p, 8);
    HYB_OUTPUT(T, new_m, 9);
    HYB_OUTPUT(T, new_v, 10);
    const bool repeated = t.step == 0 && beta1.step == 0 && product.step == 0;
    N(factors) scale = {0};
    EACH_VECTOR {
        const V keep1 = N(next)(&beta1, left), steps = N(next)(&t, left);
        const V products = N(next)(&product, left);
        if (!repeated || left == end - begin) {
            FACTORS(scale, keep1, steps, products, repeated, NADAM_RULE)
        }
        const V rate = N(next)(&lr, left), weight = N(next)(&p, left);
        const V kept = decoupled ? weight - weight * (rate * weight_decay) : weight;
        const V d = N(descent)(weight, N(next)(&g, left), sign, decoupled ? 0 : weight_decay);
        const V mean = N(next)(&m, left) * keep1 + d * (1 - keep1);
        const V square = N(next)(&v, left) * keep2 + d * d * add2;
        const V size = N(v_sqrt)(square) * scale.choice + eps;
        N(put)(&new_p, kept - rate * ((d * scale.first + mean * scale.second) / size), left);
        N(put)(&new_m, mean, left);
        N(put)(&new_v, square, left);
    }
    return HYB_OK;
}

/* The factor of the mean, and whether it is to be divided by the root of the square: only once
 * enough steps were taken for its variance to be bounded. */
static inline void N(radam_factors)(double beta1, double beta2, double t, double *first,
                                    double *choice)
{
    const double bias1 = 1 - pow(beta1, t), power = pow(beta2, t), bias2 = 1 - power;
    const double most = 2 / (1 - beta2) - 1, length = most - 2 * t * power / bias2;
    *choice = length > 5;
    *first = 1 / bias1;
    if (length > 5)
        *first *= sqrt(bias2 * ((length - 4) * (length - 2) * most) /
                       ((most - 4) * (most - 2) * length));
}

#define RADAM_RULE(beta1, t, rest, first, second, choice) \
    N(radam_factors)(beta1, beta2, t, first, choice)

HYB_KERNEL(N(radam))
{
    const double beta2 = call->attrs[0].f;
    const T keep2 = (T)beta2, add2 = (T)(1 - beta2), eps = (T)call->attrs[1].f;
    const T weight_decay = (T)call->attrs[2].f, sign = call->attrs[4].f != 0 ? -1 : 1;
    const bool decoupled = call->attrs[3].f != 0;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(v, 3);
    INPUT(lr, 4);
    INPUT(beta1, 5);
    INPUT(t, 6);
    HYB_OUTPUT(T, new_p, 7);
    HYB_OUTPUT(T, new_m, 8);
    HYB_OUTPUT(T, new_v, 9);
    const bool repeated = t.step == 0 && beta1.step == 0;
    N(factors) scale = {0};
    EACH_VECTOR {
        const V keep1 = N(next)(&beta1, left), steps = N(next)(&t, left);
        if (!repeated || left == end - begin) {
            FACTORS(scale, keep1, steps, steps, repeated, RADAM_RULE)
        }
        const V rate = N(next)(&lr, left), weight = N(next)(&p, left);
        const V kept = decoupled ? weight - weight * (rate * weight_decay) : weight;
        const V d = N(descent)(weight, N(next)(&g, left), sign, decoupled ? 0 : weight_decay);
        const V mean = N(next)(&m, left) * keep1 + d * (1 - keep1);
        const V square = N(next)(&v, left) * keep2 + d * d * add2;
        const V plain = mean * scale.first, sized = plain / (N(v_sqrt)(square) + eps);
        N(put)(&new_p, kept - rate * N(v_select)(scale.choice != 0, sized, plain), left);
        N(put)(&new_m, mean, left);
        N(put)(&new_v, square, left);
    }
    return HYB_OK;
}

/* Operands: p, g, s, with momentum its buffer, if centred the mean; lr, with momentum that. */
static inline hyb_status N(rmsprop_step)(const hyb_call *call, int64_t begin, int64_t end,
                                         const bool moves, const bool centered)
{
    const T keep = (T)call->attrs[0].f, add = (T)(1 - call->attrs[0].f), eps = (T)call->attrs[1].f;
    const T weight_decay = (T)call->attrs[2].f, sign = call->attrs[3].f != 0 ? -1 : 1;
    const int rate_at = 3 + moves + centered, out_at = rate_at + 1 + moves;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(s, 2);
    INPUT(b, 2 + moves);
    INPUT(a, 2 + moves + centered);
    INPUT(lr, rate_at);
    INPUT(momentum, rate_at + moves);
    HYB_OUTPUT(T, new_p, out_at);
    HYB_OUTPUT(T, new_s, out_at + 1);
    HYB_OUTPUT(T, new_b, out_at + 1 + moves);
    HYB_OUTPUT(T, new_a, out_at + 1 + moves + centered);
    EACH_VECTOR {
        const V weight = N(next)(&p, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        const V square = N(next)(&s, left) * keep + d * d * add;
        V       spread = square;
        N(put)(&new_s, square, left);
        if (centered) {
            const V mean = N(next)(&a, left) * keep + d * add;
            const V variance = square - mean * mean; /* rounded, it may be below 0 */
            spread = N(v_select)(variance < 0, (V){0}, variance);
            N(put)(&new_a, mean, left);
        }
        V step = d / (N(v_sqrt)(spread) + eps);
        if (moves) {
            step = N(next)(&b, left) * N(next)(&momentum, left) + step;
            N(put)(&new_b, step, left);
        }
        N(put)(&new_p, weight - N(next)(&lr, left) * step, left);
    }
    return HYB_OK;
}

HYB_KERNEL(N(rmsprop)) { return N(rmsprop_step)(call, begin, end, false, false); }
HYB_KERNEL(N(rmsprop_momentum)) { return N(rmsprop_step)(call, begin, end, true, false); }
HYB_KERNEL(N(rmsprop_centered)) { return N(rmsprop_step)(call, begin, end, false, true); }
HYB_KERNEL(N(rmsprop_centered_momentum)) { return N(rmsprop_step)(call, begin, end, true, true); }

HYB_KERNEL(N(adagrad))
{
    const T lr_decay = (T)call->attrs[0].f, eps = (T)call->attrs[1].f;
    const T weight_decay = (T)call->attrs[2].f, sign = call->attrs[3].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(s, 2);
    INPUT(lr, 3);
    INPUT(t, 4);
    HYB_OUTPUT(T, new_p, 5);
    HYB_OUTPUT(T, new_s, 6);
    EACH_VECTOR {
        const V weight = N(next)(&p, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        const V sum = N(next)(&s, left) + d * d;
        const V rate = N(next)(&lr, left) / ((N(next)(&t, left) - 1) * lr_decay + 1);
        N(put)(&new_p, weight - rate * (d / (N(v_sqrt)(sum) + eps)), left);
        N(put)(&new_s, sum, left);
    }
    return HYB_OK;
}

HYB_KERNEL(N(adadelta))
{
    const T keep = (T)call->attrs[0].f, add = (T)(1 - call->attrs[0].f), eps = (T)call->attrs[1].f;
    const T weight_decay = (T)call->attrs[2].f, sign = call->attrs[3].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(s, 2);
    INPUT(a, 3);
    INPUT(lr, 4);
    HYB_OUTPUT(T, new_p, 5);
    HYB_OUTPUT(T, new_s, 6);
    HYB_OUTPUT(T, new_a, 7);
    EACH_VECTOR {
        const V weight = N(next)(&p, left), before = N(next)(&a, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        const V square = N(next)(&s, left) * keep + d * d * add;
        const V step = N(v_sqrt)(before + eps) / N(v_sqrt)(square + eps) * d;
        N(put)(&new_p, weight - N(next)(&lr, left) * step, left);
        N(put)(&new_s, square, left);
        N(put)(&new_a, before * keep + step * step * add, left);
    }
    return HYB_OK;
}

HYB_KERNEL(N(lion))
{
    const T keep2 = (T)call->attrs[0].f, add2 = (T)(1 - call->attrs[0].f);
    const T weight_decay = (T)call->attrs[1].f, sign = call->attrs[2].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(lr, 3);
    INPUT(beta1, 4);
    HYB_OUTPUT(T, new_p, 5);
    HYB_OUTPUT(T, new_m, 6);
    EACH_VECTOR {
        const V rate = N(next)(&lr, left), weight = N(next)(&p, left);
        const V d = N(next)(&g, left) * sign, mean = N(next)(&m, left);
        const V keep1 = N(next)(&beta1, left), along = mean * keep1 + d * (1 - keep1);
        const V below = N(v_select)(along < 0, N(v_splat)(-1), along); /* 0 and nan stay */
        const V step = N(v_select)(along > 0, N(v_splat)(1), below);
        N(put)(&new_p, weight - weight * (rate * weight_decay) - rate * step, left);
        N(put)(&new_m, mean * keep2 + d * add2, left);
    }
    return HYB_OK;
}

#define OPTIMIZER_PREPARE(name, n_in, n_out, n_attrs, cost)                             \
    HYB_PREPARE(N(name##_prepare))                                                      \
    {                                                                                   \
        return hyb_prepare_elementwise(call, n_in, n_out, DTYPE, DTYPE, cost, range);   \
    }
EACH_OPTIMIZER(OPTIMIZER_PREPARE)

#undef OPTIMIZER_PREPARE
#undef RADAM_RULE
#undef NADAM_RULE
#undef NADAM_PRODUCT_RULE
#undef ADAMAX_RULE
#undef ADAM_RULE
#undef FACTORS
#undef EACH_VECTOR
#undef INPUT
