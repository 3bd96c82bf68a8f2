/* optimizer_typed.inc.c - the optimizers of one dtype; included by optimizer.inc.c once per dtype
 * (each_float.inc.c).
 */

#define INPUT(name, index)   \
    T        name##_spread[LANES]; \
    N(input) name = N(open)(call, index, begin, name##_spread)

/* The direction of descent before any memory of earlier ones. */
static inline V N(descent)(V p, V g, T sign, T weight_decay)
{
    const V d = g * sign;
    return weight_decay != 0 ? p * weight_decay + d : d;
}

HYB_KERNEL(N(sgd))
{
    const T weight_decay = (T)call->attrs[0].f, sign = call->attrs[1].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(lr, 2);
    HYB_OUTPUT(T, new_p, 3);
    for (int64_t left = end - begin; left > 0; left -= LANES) {
        const V weight = N(next)(&p, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        N(put)(&new_p, weight - N(next)(&lr, left) * d, left);
    }
    return HYB_OK;
}

HYB_KERNEL(N(sgd_momentum))
{
    const T momentum = (T)call->attrs[0].f, share = (T)(1 - call->attrs[1].f),
            weight_decay = (T)call->attrs[2].f;
    const bool nesterov = call->attrs[3].f != 0;
    const T    sign = call->attrs[4].f != 0 ? -1 : 1;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(lr, 3);
    HYB_OUTPUT(T, new_p, 4);
    HYB_OUTPUT(T, new_m, 5);
    for (int64_t left = end - begin; left > 0; left -= LANES) {
        const V weight = N(next)(&p, left);
        const V d = N(descent)(weight, N(next)(&g, left), sign, weight_decay);
        const V velocity = N(next)(&m, left) * momentum + d * share;
        const V step = nesterov ? velocity * momentum + d : velocity;
        N(put)(&new_p, weight - N(next)(&lr, left) * step, left);
        N(put)(&new_m, velocity, left);
    }
    return HYB_OK;
}

/* 1 - beta^t: what is missing from a mean that began at 0.  In float64, the first lane alone if all
 * are equal. */
static V N(bias)(double beta, V t, bool repeated)
{
    if (repeated)
        return N(v_splat)((T)(1 - pow(beta, (double)t[0])));
    for (int i = 0; i < LANES; i++)
        t[i] = (T)(1 - pow(beta, (double)t[i]));
    return t;
}

HYB_KERNEL(N(adam))
{
    const double beta1 = call->attrs[0].f, beta2 = call->attrs[1].f;
    const T keep1 = (T)beta1, add1 = (T)(1 - beta1), keep2 = (T)beta2, add2 = (T)(1 - beta2);
    const T eps = (T)call->attrs[2].f, weight_decay = (T)call->attrs[3].f;
    const bool decoupled = call->attrs[4].f != 0;
    INPUT(p, 0);
    INPUT(g, 1);
    INPUT(m, 2);
    INPUT(v, 3);
    INPUT(lr, 4);
    INPUT(t, 5);
    HYB_OUTPUT(T, new_p, 6);
    HYB_OUTPUT(T, new_m, 7);
    HYB_OUTPUT(T, new_v, 8);
    V scale1 = {0}, scale2 = {0}; /* 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t) */
    for (int64_t left = end - begin; left > 0; left -= LANES) {
        const bool repeated = t.step == 0;
        if (!repeated || left == end - begin) {
            const V steps = N(next)(&t, left);
            scale1 = 1 / N(bias)(beta1, steps, repeated);
            scale2 = 1 / N(v_sqrt)(N(bias)(beta2, steps, repeated));
        }
        const V rate = N(next)(&lr, left), weight = N(next)(&p, left);
        const V kept = decoupled ? weight - weight * (rate * weight_decay) : weight;
        const V d = N(descent)(weight, N(next)(&g, left), 1, decoupled ? 0 : weight_decay);
        const V mean = N(next)(&m, left) * keep1 + d * add1;
        const V square = N(next)(&v, left) * keep2 + d * d * add2;
        const V size = N(v_sqrt)(square) * scale2 + eps;
        N(put)(&new_p, kept - rate * scale1 * (mean / size), left);
        N(put)(&new_m, mean, left);
        N(put)(&new_v, square, left);
    }
    return HYB_OK;
}

HYB_PREPARE(N(sgd_prepare)) { return hyb_prepare_elementwise(call, 3, 1, DTYPE, DTYPE, 4, range); }
HYB_PREPARE(N(sgd_momentum_prepare))
{
    return hyb_prepare_elementwise(call, 4, 2, DTYPE, DTYPE, 8, range);
}
HYB_PREPARE(N(adam_prepare))
{
    return hyb_prepare_elementwise(call, 6, 3, DTYPE, DTYPE, 32, range);
}

#undef INPUT
