/* math/hyperbolic.inc.c - hyperbolic functions but for tanh, and their inverses, for both float
 * dtypes; included by math/family.inc.c as math/typed.inc.c is.
 */

/* sinh |x| and cosh |x| from |x| = n ln 2 + r, S = sinh r and C = cosh r, with U = 2^n and
 * D = 2^-n:
 *
 *   sinh |x| = (U + D) / 2 S + (U - D) / 2 C,   cosh |x| = (U + D) / 2 C + (U - D) / 2 S
 *
 * The large terms, of C = 1 + ... and S = high + ..., are added last.  All is computed halved, so
 * that 2^n is finite wherever the result is. */
typedef struct {
    V n, high, sine, cosine; /* S = high + sine, C = 1 + cosine */
    V sum, difference;       /* of U and D, over 4 */
    V lost;                  /* what the rounding of the sum has taken from it */
} N(hyperbolic_parts);

static inline N(hyperbolic_parts) N(v_hyperbolic_parts)(V x)
{
    const V size = N(v_at_most)(N(v_abs)(x), N(v_cosh_high)), n = N(v_count_ln2)(size);
    const V high = size - n * N(v_ln2_high), low = n * N(v_ln2_low), r = high - low, square = r * r;
    const V up = N(v_power_of_two)(n - 2), down = N(v_power_of_two)(N(v_at_least)(-2 - n, -(T)100));
    const V sum = up + down;
    return (N(hyperbolic_parts)){
        .n = n,
        .high = high,
        .sine = r * square * N(v_sinh_tail)(square) - low,
        .cosine = square * square * N(v_cosh_tail)(square) + square * (T)0.5,
        .sum = sum,
        .difference = up - down,
        .lost = (up - sum) + down,
    };
}

static inline V N(v_sinh)(V x)
{
    const N(hyperbolic_parts) p = N(v_hyperbolic_parts)(x);
    const V rest = p.sum * p.sine + p.difference * p.cosine;
    const V far = (p.difference + (p.sum * p.high + rest)) * 2;
    return N(v_or)(N(v_select)((I)(p.n == 0), p.high + p.sine, far), N(v_sign)(x));
}

static inline V N(v_cosh)(V x)
{
    const N(hyperbolic_parts) p = N(v_hyperbolic_parts)(x);
    const V rest = p.difference * p.sine + (p.sum * p.cosine + p.lost);
    return (p.sum + (p.difference * p.high + rest)) * 2;
}

/* log(large + small), plus ln 2 where `doubled`, for |large| >= |small|.  What the sum loses comes
 * back times 1 / (1 + f), of which a sketch will do. */
static inline V N(v_log_sum)(V large, V small, I doubled)
{
    V k;
    const V sum = large + small, lost = (large - sum) + small;
    const V f = N(v_reduce_log)(sum, &k) - 1, power = N(v_power_of_two)(N(v_at_least)(-k, -(T)100));
    const V count = k + (V)((I)N(v_splat)(1) & doubled);
    const V rest = lost * power * ((f * (T)0.9 - (T)1.02) * f + 1) + count * N(v_ln2_low);
    return N(v_fix_log)(sum, N(v_log_shifted)(f, count, rest));
}

/* x + x^3 p(x^2) up to 1; log(|x| + sqrt(x^2 + 1)), with 2 |x| for the sum where 1 is nothing
 * beside the square, farther out. */
static inline V N(v_asinh)(V x)
{
    const V size = N(v_abs)(x), square = size * size;
    V y = size * square * N(v_asinh_tail)(square) + size;
    const I far = ~(I)(size < 1);
    if (N(v_any)(far)) {
        const I    huge = (I)(size > N(v_square_alone));
        const V    root = N(v_sqrt)(size * size + 1);
        const V    large = N(v_select)(huge, size, root), small = (V)((I)size & ~huge);
        const V    log_sum = N(v_log_sum)(large, small, huge);
        y = N(v_select)(far, log_sum, y);
    }
    return N(v_or)(y, N(v_sign)(x));
}

/* sqrt(2 t) (1 + t p(t)) of t = x - 1 up to 2; log(x + sqrt(x^2 - 1)) farther out.  NaN below 1. */
static inline V N(v_acosh)(V x)
{
    const I near = (I)(x < 2), huge = (I)(x > N(v_square_alone));
    const V t = x - 1, root = N(v_sqrt)(N(v_select)(near, t + t, x * x - 1));
    V y = root * t * N(v_acosh_tail)(t) + root;
    if (N(v_any)(~near)) {
        const V log_sum = N(v_log_sum)(x, (V)((I)root & ~huge), huge);
        y = N(v_select)(near, y, log_sum);
    }
    return y;
}

/* s + s^3 p(s^2), |s| <= 1/2.  For |x| >= 1/2 with 1 - |x| = 2^-k m, 1 <= m < 2, it is
 * log((1 + |x|) / (1 - |x|)) / 2 = k ln 2 / 2 + atanh s, s = (|x| - (m - 1)) / (1 + |x| + m). */
static inline V N(v_atanh)(V x)
{
    V exponent;
    const V size = N(v_abs)(x), m = N(v_split)(1 - size, &exponent);
    const I far = (I)(size >= (T)0.5);
    const V quotient = (size - (m - 1)) / ((size + 1) + m);
    const V s = N(v_select)(far, quotient, size), k = (V)((I)(exponent * (T)-0.5) & far);
    const V square = s * s, tail = s * square * N(v_atanh_tail)(square);
    V       y = k * N(v_ln2_high) + (s + (tail + k * N(v_ln2_low)));
    const I outside = ~(I)(size < 1);
    if (N(v_any)(outside)) {
        const V limit = N(v_select)((I)(size == 1), N(v_splat)((T)INFINITY), N(v_splat)((T)NAN));
        y = N(v_select)(outside, limit, y);
    }
    return N(v_or)(y, N(v_sign)(x));
}
