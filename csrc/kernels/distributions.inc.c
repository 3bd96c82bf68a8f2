/* distributions.inc.c - random numbers by rejection: each element draws until one is accepted.
 *
 *   random_gamma             i64 [2], shape [n] -> [n]: density x^(a - 1) exp(-x) / Gamma(a)
 *   random_beta              i64 [2], a [n], b [n] -> [n]: density x^(a - 1) (1 - x)^(b - 1) / B
 *   random_poisson           i64 [2], f64 rate [n] -> f64 [n]: whole numbers
 *   random_truncated_normal  i64 [2] -> [n]: the standard normal density between two bounds
 *
 * State      (seed, draw counter), as in random.inc.c.  Element i reads the blocks of four words
 *            from i * 2^20 on, two numbers of 53 bits each, so it depends on the state and on i
 *            alone: not on the threads, nor on how often others are rejected.
 * Split      by elements.
 * Layout     dense.
 * Attributes random_truncated_normal f: low, high.
 * Special    gamma: 0 of shape 0, infinity of infinity; beta: both parameters above 0 and finite;
 *            poisson: 0 <= rate < 2^62; NaN for any other parameter.
 * Sources    gamma: Marsaglia, Tsang 2000; beta: Johnk 1964 and a quotient of gammas; poisson:
 *            Knuth's product and Hormann 1993 (PTRS); truncated normal: Robert 1995; normal:
 *            Marsaglia's polar method.
 *
 * Every element goes its own way, which is no work for vectors: one instruction set has it for all.
 */
#pragma once

#include "kernels/random.inc.c"

#if HYB_VECTOR_BYTES == 16

enum { DRAWS_OF_ELEMENT = 1 << 20, DISTRIBUTION_GRAIN = 256 };

typedef struct { uint64_t seed, draw, block, end; } draws;
typedef struct { double u, v; } draw_pair; /* each in (0, 1] */

static draws draws_of(const int64_t *state, int64_t i)
{
    const uint64_t first = (uint64_t)i * DRAWS_OF_ELEMENT;
    return (draws){(uint64_t)state[0], (uint64_t)state[1], first, first + DRAWS_OF_ELEMENT};
}

/* Whether the element has drawn all that it may, which no parameters lead to. */
static bool draws_spent(const draws *d) { return d->end - d->block < 8; }

static draw_pair next_pair(draws *d)
{
    uint32_t key0 = (uint32_t)d->seed, key1 = (uint32_t)(d->seed >> 32);
    uint32_t a = (uint32_t)d->block, b = (uint32_t)(d->block >> 32);
    uint32_t c = (uint32_t)d->draw, e = (uint32_t)(d->draw >> 32);
    d->block++;
    for (int round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)a * 0xD2511F53u, q = (uint64_t)c * 0xCD9E8D57u;
        a = (uint32_t)(q >> 32) ^ b ^ key0;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ e ^ key1;
        e = (uint32_t)p;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return (draw_pair){(random_53(a, b) + 1.0) * 0x1p-53, (random_53(c, e) + 1.0) * 0x1p-53};
}

static double log_of(double x) { return v_log_f64(v_splat_f64(x))[0]; }
static double exp_of(double x) { return v_exp_f64(v_splat_f64(x))[0]; }
static double root_of(double x) { return v_sqrt_f64(v_splat_f64(x))[0]; }

static double draw_normal(draws *d)
{
    for (;;) {
        const draw_pair r = next_pair(d);
        const double x = 2 * r.u - 1, y = 2 * r.v - 1, s = x * x + y * y;
        if (s < 1 && s > 0)
            return x * root_of(-2 * log_of(s) / s);
        if (draws_spent(d))
            return 0;
    }
}

static double draw_gamma(draws *d, double a)
{
    if (!(a > 0))
        return a == 0 ? 0 : NAN;
    if (a > DBL_MAX)
        return INFINITY;
    const double power = a < 1 ? exp_of(log_of(next_pair(d).u) / a) : 1;
    const double m = (a < 1 ? a + 1 : a) - 1.0 / 3.0, c = 1 / root_of(9 * m);
    while (!draws_spent(d)) {
        const double z = draw_normal(d), w = 1 + c * z, v = w * w * w;
        if (w <= 0)
            continue;
        const double u = next_pair(d).u, z2 = z * z;
        if (u < 1 - 0.0331 * z2 * z2 || log_of(u) < 0.5 * z2 + m * (1 - v + log_of(v)))
            return m * v * power;
    }
    return NAN;
}

static double draw_beta(draws *d, double a, double b)
{
    if (!(a > 0 && b > 0 && a <= DBL_MAX && b <= DBL_MAX))
        return NAN;
    if (a > 1 || b > 1) {
        const double x = draw_gamma(d, a), y = draw_gamma(d, b);
        return x / (x + y);
    }
    while (!draws_spent(d)) {
        const draw_pair r = next_pair(d);
        const double p = log_of(r.u) / a, q = log_of(r.v) / b;
        if (exp_of(p) + exp_of(q) <= 1) /* the quotient without underflow */
            return p > q ? 1 / (1 + exp_of(q - p)) : exp_of(p - q) / (1 + exp_of(p - q));
    }
    return NAN;
}

/* log k!, by Stirling's series from 10 on. */
static double log_factorial(double k)
{
    double product = 1;
    if (k < 10) {
        for (double i = 2; i <= k; i++)
            product *= i;
        return log_of(product);
    }
    const double i = 1 / k, i2 = i * i;
    return (k + 0.5) * log_of(k) - k + 0.91893853320467274178 +
           i * (1.0 / 12 - i2 * (1.0 / 360 - i2 * (1.0 / 1260 - i2 * (1.0 / 1680))));
}

static double draw_poisson(draws *d, double rate)
{
    if (!(rate >= 0 && rate < 0x1p62))
        return NAN;
    if (rate < 10) {
        const double limit = exp_of(-rate);
        double product = next_pair(d).u, k = 0;
        for (; product > limit && !draws_spent(d); k++)
            product *= next_pair(d).u;
        return rate == 0 ? 0 : k;
    }
    const double b = 0.931 + 2.53 * root_of(rate), a = 0.02483 * b - 0.059;
    const double scale = log_of(1.1239 + 1.1328 / (b - 3.4)), log_rate = log_of(rate);
    while (!draws_spent(d)) {
        const draw_pair r = next_pair(d);
        const double u = r.u - 0.5, s = 0.5 - (u < 0 ? -u : u);
        const double at = s > 0 ? (2 * a / s + b) * u + rate + 0.43 : -1;
        if (!(at >= 0 && at < 0x1p62))
            continue;
        const double k = (double)(int64_t)at;
        if (s >= 0.07 && r.v <= 0.9277 - 3.6224 / (b - 2))
            return k;
        if (s < 0.013 && r.v > s)
            continue;
        if (log_of(r.v) + scale - log_of(a / (s * s) + b) <=
            k * log_rate - rate - log_factorial(k))
            return k;
    }
    return NAN;
}

/* Between bounds that are no further below 0 than above it; three ways, each of which accepts four
 * of ten proposals at least. */
static double draw_bounded(draws *d, double low, double high)
{
    const double nearest = low > 0 ? low : 0;
    while (!draws_spent(d)) {
        double x, cost; /* accepted with the probability exp(-cost) */
        if (low >= 0.5) { /* exponential of rate `low` */
            const double span = exp_of(-low * (high - low));
            x = low - log_of(span + next_pair(d).u * (1 - span)) / low;
            cost = 0.5 * (x - low) * (x - low);
        } else if (high - low > 1.5) {
            x = draw_normal(d);
            if (low >= 0 && x < 0)
                x = -x;
            cost = 0;
        } else {
            x = low + next_pair(d).u * (high - low);
            cost = 0.5 * (x * x - nearest * nearest);
        }
        if (x >= low && x <= high && (cost == 0 || log_of(next_pair(d).u) <= -cost))
            return x;
    }
    return NAN;
}

static double draw_truncated(draws *d, double low, double high)
{
    if (!(low <= high))
        return NAN;
    return high < -low ? -draw_bounded(d, -high, -low) : draw_bounded(d, low, high);
}

/* ONE: element i, of the parameters p and q. */
#define DISTRIBUTION(name, T, dtype, n_in, ONE)                                                  \
    HYB_KERNEL(random_##name)                                                                    \
    {                                                                                            \
        const int64_t *state = call->data[0];                                                    \
        const T *p = call->data[n_in > 1 ? 1 : 0], *q = call->data[n_in > 2 ? 2 : 0];            \
        T *y = call->data[n_in];                                                                 \
        (void)p, (void)q;                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                  \
            draws d = draws_of(state, i);                                                        \
            y[i] = (T)ONE;                                                                       \
        }                                                                                        \
        return HYB_OK;                                                                           \
    }                                                                                            \
    HYB_PREPARE(prepare_random_##name) { return distribution_prepare(call, dtype, n_in, range); }

/* The state, then parameters, then the result. */
static hyb_status distribution_prepare(const hyb_call *call, int32_t dtype, int n_in,
                                       hyb_range *range)
{
    hyb_status status;
    if ((status = require_dense(call, 0, HYB_I64, 1)) != HYB_OK ||
        (status = require_size(call, 0, 0, 2)) != HYB_OK ||
        (status = require_dense(call, n_in, dtype, 1)) != HYB_OK)
        return status;
    const int64_t n = call->layout[n_in].shape[0];
    for (int i = 1; i < n_in; i++)
        if ((status = require_dense(call, i, dtype, 1)) != HYB_OK ||
            (status = require_size(call, i, 0, n)) != HYB_OK)
            return status;
    *range = (hyb_range){n, DISTRIBUTION_GRAIN};
    return HYB_OK;
}

#define TRUNCATED draw_truncated(&d, call->attrs[0].f, call->attrs[1].f)

DISTRIBUTION(gamma_f32, float, HYB_F32, 2, draw_gamma(&d, p[i]))
DISTRIBUTION(gamma_f64, double, HYB_F64, 2, draw_gamma(&d, p[i]))
DISTRIBUTION(beta_f32, float, HYB_F32, 3, draw_beta(&d, p[i], q[i]))
DISTRIBUTION(beta_f64, double, HYB_F64, 3, draw_beta(&d, p[i], q[i]))
DISTRIBUTION(poisson_f64, double, HYB_F64, 2, draw_poisson(&d, p[i]))
DISTRIBUTION(truncated_normal_f32, float, HYB_F32, 1, TRUNCATED)
DISTRIBUTION(truncated_normal_f64, double, HYB_F64, 1, TRUNCATED)

#define DISTRIBUTION_ROW(name, n_in, n_attrs)                                                 \
    HYB_TABLE_ROW(random_##name, HYB_I64, n_in, 1, n_attrs, HYB_PLAIN, prepare_random_##name, \
                  random_##name)

const hyb_kernel HYB_SYM(hyb_distributions_kernels)[] = {
    DISTRIBUTION_ROW(gamma_f32, 2, 0)
    DISTRIBUTION_ROW(gamma_f64, 2, 0)
    DISTRIBUTION_ROW(beta_f32, 3, 0)
    DISTRIBUTION_ROW(beta_f64, 3, 0)
    DISTRIBUTION_ROW(poisson_f64, 2, 0)
    DISTRIBUTION_ROW(truncated_normal_f32, 1, 2)
    DISTRIBUTION_ROW(truncated_normal_f64, 1, 2)
    {0},
};

#else

const hyb_kernel HYB_SYM(hyb_distributions_kernels)[] = {{0}};

#endif
