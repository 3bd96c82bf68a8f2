/* math/typed.inc.c - the functions that both float dtypes compute in the same way; included by
 * math/family.inc.c once per dtype, which defines T, V (a vector of T), I (its mask), N and SIGN_SHIFT
 * (bit 1 to the sign).
 */

/* e^x = 2^n times the result, within the bounds of v_exp.  Where products are rounded before they
 * are added, the reduced argument enters with its low part apart: only its square feels that. */
static inline V N(v_exp_parts)(V x, V *n)
{
    *n = N(v_count_ln2)(x);
#if HYB_FUSED
    const V reduced = N(v_less_ln2)(x, *n);
    return (N(v_expm1_tail)(reduced) * reduced + 1) * reduced + 1;
#else
    const V high = x - *n * N(v_ln2_high), low = *n * N(v_ln2_low);
    const V reduced = high - low, square = reduced * reduced;
    return (high + (square * N(v_expm1_tail)(reduced) - low)) + 1;
#endif
}
static inline V N(v_exp_bounded)(V x)
{
    V n;
    const V y = N(v_exp_parts)(x, &n);
    return N(v_scale)(y, n);
}
static inline V N(v_exp)(V x)
{
    return N(v_exp_bounded)(N(v_at_least)(N(v_at_most)(x, N(v_exp_high)), N(v_exp_low)));
}

/* 2^n p + (2^n - 1), halved on the way so that 2^n is finite wherever the result is. */
static inline V N(v_expm1)(V x)
{
    const V bounded = N(v_at_least)(N(v_at_most)(x, N(v_exp_high)), N(v_expm1_low));
    const V n = N(v_count_ln2)(bounded), grown = N(v_expm1_reduced)(N(v_less_ln2)(bounded, n));
    const V half = N(v_power_of_two)(n - 1);
    const V y = (half * grown + (half - (T)0.5)) * 2;
    return N(v_or)(N(v_select)((I)(n == 0), grown, y), N(v_sign)(x));
}

/* y, but for the x that have no logarithm (below 0), an infinite one (0), or are infinite or NaN
 * themselves. */
static inline V N(v_fix_log)(V x, V y)
{
    const I ordinary = (I)(x > 0) & (I)(x < (T)INFINITY);
    if (N(v_any)(~ordinary)) {
        const V infinite = N(v_select)((I)(x == 0), N(v_splat)(-(T)INFINITY), x);
        const V special = N(v_select)((I)(x < 0), N(v_splat)((T)NAN), infinite);
        return N(v_select)(ordinary, y, special);
    }
    return y;
}

/* k ln2_high + rest + log(1 + f). */
static inline V N(v_log_shifted)(V f, V k, V rest)
{
    const V half = f * f * (T)0.5;
    return k * N(v_ln2_high) + (f + ((N(v_log_small_part)(f) + rest) - half));
}

/* k ln 2 + log(1 + f). */
static inline V N(v_log_reduced)(V f, V k) { return N(v_log_shifted)(f, k, k * N(v_ln2_low)); }

static inline V N(v_log)(V x)
{
    V k;
    const V m = N(v_reduce_log)(x, &k);
    return N(v_fix_log)(x, N(v_log_reduced)(m - 1, k));
}

static inline V N(v_log2)(V x)
{
    V k;
    const V m = N(v_reduce_log)(x, &k);
    return N(v_fix_log)(x, N(v_log2_reduced)(m - 1, k));
}

static inline V N(v_log10)(V x)
{
    V k;
    const V m = N(v_reduce_log)(x, &k);
    return N(v_fix_log)(x, N(v_log10_reduced)(m - 1, k));
}

/* The exponent is that of the rounded sum 1 + x, but f = (1 + x) / 2^k - 1 is taken from x itself
 * with a single rounding; where 1 / 2^k is too small to matter, from the sum. */
static inline V N(v_log1p)(V x)
{
    V k;
    const V m = N(v_reduce_log)(x + 1, &k), power = N(v_power_of_two)(N(v_at_least)(-k, -(T)100));
    const V f = N(v_select)((I)(k > 99), m - 1, power * x + (power - 1));
    return N(v_or)(N(v_fix_log)(x + 1, N(v_log_reduced)(f, k)), N(v_sign)(x));
}

/* A polynomial near 0, 1 - 2 / (e^2x + 1) farther out. */
static inline V N(v_tanh)(V x)
{
    const V size = N(v_abs)(x), twice = N(v_at_most)(size, N(v_tanh_high)) * 2;
    const V n = N(v_count_ln2)(twice), power = N(v_power_of_two)(n);
    const V p = N(v_expm1_reduced)(N(v_less_ln2)(twice, n));
    const V far = 1 - 2 / (power * p + (power + 1));
    return N(v_or)(N(v_select)((I)(size < (T)0.5625), N(v_tanh_near)(size), far), N(v_sign)(x));
}

/* factor / (1 + e^-x), e^-x = 2^n (1 + p).  Below the fraction stands 1 + (2^n + 2^n p) or, where
 * n > 0 and both sides are divided by 2^n, 1 + (2^-n + p).  There 2^-n is put in at the end, so that
 * subnormal results are rounded once. */
static inline V N(v_times_sigmoid)(V factor, V x)
{
    const V bounded = N(v_at_least)(N(v_at_most)(-x, -N(v_silu_low)), N(v_silu_low));
    const V n = N(v_count_ln2)(bounded), p = N(v_expm1_reduced)(N(v_less_ln2)(bounded, n));
    const V down = N(v_or)(n, N(v_splat)(-(T)0)); /* -|n| */
    const V power = N(v_power_of_two)(N(v_at_least)(down, -(T)100));
    const V share = N(v_select)((I)(n > 0), N(v_splat)(1), power);
    return N(v_scale)(factor / (1 + (p * share + power)), N(v_at_most)(-n, 0));
}

static inline V N(v_sigmoid)(V x) { return N(v_times_sigmoid)(N(v_splat)(1), x); }

/* e^-|x|. */
static inline V N(v_exp_below)(V x)
{
    return N(v_exp_bounded)(N(v_at_least)(N(v_or)(x, N(v_splat)(-(T)0)), N(v_exp_low)));
}

/* Its limit, -0, at minus infinity. */
static inline V N(v_silu)(V x) { return N(v_times_sigmoid)(N(v_at_least)(x, N(v_silu_low)), x); }

/* max(x, 0) + log(1 + e), e = e^-|x| <= 1: the logarithm's exponent is 0 and its f is e, or 1 and
 * (1 + e) / 2 - 1. */
static inline V N(v_softplus)(V x)
{
    const V e = N(v_exp)(-N(v_abs)(x));
    const I large = (I)(e > (T)0.41421356);
    const V f = N(v_select)(large, (e - 1) * (T)0.5, e);
    const V k = N(v_select)(large, N(v_splat)(1), (V){0});
    return N(v_at_least)(x, 0) + N(v_log_reduced)(f, k);
}

/* x Phi(x).  Near 0 Phi(x) is 1/2 + erf(x / sqrt 2) / 2; farther out it is x - x Phi(-x) or x
 * Phi(x), by the sign, with e^(-x^2 / 2) in Phi taken of x^2 = high^2 + low exactly.  At minus
 * infinity: its limit, -0. */
static inline V N(v_gelu)(V x)
{
    const V size = N(v_at_most)(N(v_abs)(x), -N(v_gelu_low)), high = N(v_high_half)(size);
    const V most = high * high * (T)-0.5, rest = (high - size) * (high + size) * (T)0.5;
    const V n = N(v_count_ln2)(most + rest), p = N(v_expm1_reduced)(N(v_less_ln2)(most, n) + rest);
    const V share = size / (size + N(v_mills_shift)), factor = N(v_mills)(share) * share;
    const V tail = N(v_scale)(factor * p + factor, n); /* |x| Phi(-|x|) */
    const V far = N(v_select)((I)(x < 0), -tail, x - tail);
    const V scaled = size * (T)0.70710678118654752440, half = size * (T)0.5;
    const V near = x * (T)0.5 + half * N(v_erf_near)(scaled, scaled * scaled);
    const V y = N(v_select)((I)(size < (T)0.75), near, far);
    return N(v_or)(y, N(v_sign)(x)); /* -0 had lost its sign */
}

/* The logistic function s of x and its slope s (1 - s), without cancellation on either side. */
typedef struct { V value, slope; } N(v_logistic_pair);
static inline N(v_logistic_pair) N(v_logistic)(V x)
{
    const V e = N(v_exp_below)(x), upper = 1 / (1 + e), lower = e * upper;
    return (N(v_logistic_pair)){N(v_select)((I)(x < 0), lower, upper), lower * upper};
}

/* x held where the derivatives of the activations still change. */
static inline V N(v_within)(V x, T limit) { return N(v_at_least)(N(v_at_most)(x, limit), -limit); }

static const T N(v_gelu_linear) = (T)1.5957691216057307117; /* sqrt(8 / pi) */
static const T N(v_gelu_cubic) = (T)0.071354816272600247775;
static const T N(v_gelu_tanh_limit) = 22; /* the logistic function is 0 or 1 beyond */

/* x sigmoid(sqrt(8 / pi) (x + 0.044715 x^3)), as (1 + tanh z) / 2 is sigmoid(2 z). */
static inline V N(v_gelu_tanh)(V x)
{
    const V held = N(v_within)(x, N(v_gelu_tanh_limit));
    const V z = held * (held * held * N(v_gelu_cubic) + N(v_gelu_linear));
    const V e = N(v_exp_below)(z), least = N(v_at_least)(x, -N(v_gelu_tanh_limit));
    return N(v_select)((I)(z < 0), least * e, x) / (1 + e);
}

/* Derivatives of the activations. */
static inline V N(v_gelu_tanh_slope)(V x)
{
    const V held = N(v_within)(x, N(v_gelu_tanh_limit)), square = held * held;
    const N(v_logistic_pair) s =
        N(v_logistic)(held * (square * N(v_gelu_cubic) + N(v_gelu_linear)));
    return s.value + held * s.slope * (square * (3 * N(v_gelu_cubic)) + N(v_gelu_linear));
}
static inline V N(v_silu_slope)(V x)
{
    const N(v_logistic_pair) s = N(v_logistic)(x);
    return s.value + N(v_within)(x, 1000) * s.slope;
}
static inline V N(v_gelu_slope)(V x)
{
    const V held = N(v_within)(x, 40), density = N(v_exp)(held * held * (T)-0.5);
    const V below = N(v_erf)(held * (T)0.70710678118654752440) * (T)0.5 + (T)0.5;
    return below + held * density * (T)0.39894228040143267794;
}

/* x = quadrant pi/2 + the result, whatever x is. */
static inline V N(v_angle)(V x, I *quadrant)
{
    V angle = N(v_reduce_angle)(x, quadrant);
    const I far = ~(I)(N(v_abs)(x) < N(v_angle_limit));
    if (N(v_any)(far))
        for (size_t i = 0; i < sizeof(V) / sizeof(T); i++)
            if (far[i]) {
                int64_t lane_quadrant;
                angle[i] = (T)far_angle((double)x[i], &lane_quadrant);
                (*quadrant)[i] = (__typeof__((*quadrant)[0]))lane_quadrant;
            }
    return angle;
}

static inline V N(v_sin_or_cos)(V angle, I quadrant)
{
    const V y =
        N(v_select)((I)((quadrant & 1) != 0), N(v_cos_reduced)(angle), N(v_sin_reduced)(angle));
    return (V)((I)y ^ ((quadrant & 2) << SIGN_SHIFT));
}

static inline V N(v_sin)(V x)
{
    I quadrant;
    const V angle = N(v_angle)(x, &quadrant);
    return N(v_sin_or_cos)(angle, quadrant);
}

static inline V N(v_cos)(V x)
{
    I quadrant;
    const V angle = N(v_angle)(x, &quadrant);
    return N(v_sin_or_cos)(angle, quadrant + 1);
}

/* sin / cos, or -cos / sin in odd quadrants. */
static inline V N(v_tan)(V x)
{
    I quadrant;
    const V angle = N(v_angle)(x, &quadrant);
    const I odd = (I)((quadrant & 1) != 0);
    const V sine = N(v_sin_reduced)(angle), cosine = N(v_cos_reduced)(angle);
    return N(v_select)(odd, -cosine, sine) / N(v_select)(odd, sine, cosine);
}

/* To a whole number, ties to even: adding and taking away 1 / epsilon rounds away the fraction. */
static inline V N(v_round)(V x)
{
    const T whole = sizeof(T) == 4 ? (T)0x1p23 : (T)0x1p52;
    const V size = N(v_abs)(x), rounded = (size + whole) - whole;
    return N(v_or)(N(v_select)((I)(size < whole), rounded, size), N(v_sign)(x));
}
static inline V N(v_floor)(V x)
{
    const V rounded = N(v_round)(x);
    return N(v_or)(rounded - N(v_select)((I)(rounded > x), N(v_splat)(1), (V){0}), N(v_sign)(x));
}
static inline V N(v_ceil)(V x) { return -N(v_floor)(-x); }
static inline V N(v_trunc)(V x) { return N(v_or)(N(v_floor)(N(v_abs)(x)), N(v_sign)(x)); }

/* a b = the result + *low: exactly, but for underflow, where products are fused; to 2^-100 of it in
 * float64 where they are not. */
static inline V N(v_product)(V a, V b, V *low)
{
    const V product = a * b;
#if HYB_FUSED
    *low = N(v_fused)(a, b, -product);
#else
    const V a_high = N(v_high_half)(a), a_low = a - a_high;
    const V b_high = N(v_high_half)(b), b_low = b - b_high;
    *low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
    return product;
}

/* c - a b, where the product is about c: rounded once, or to 2^-100 of c. */
static inline V N(v_less_product)(V c, V a, V b)
{
#if HYB_FUSED
    return N(v_fused)(-a, b, c);
#else
    V       low;
    const V product = N(v_product)(a, b, &low);
    return (c - product) - low;
#endif
}
