/* math/f32.inc.c - what math/typed.inc.c builds on, for float32. */

static const float v_exp_low_f32 = -104.0f; /* exp is 0 below and infinite above */
static const float v_exp_high_f32 = 89.0f;
static const float v_expm1_low_f32 = -18.0f; /* expm1 is -1 below */
static const float v_tanh_high_f32 = 10.0f;  /* tanh is 1 above */
static const float v_silu_low_f32 = -112.0f; /* silu is -0 below */
static const float v_gelu_low_f32 = -15.0f;  /* gelu is -0 below */

/* ln 2 in two parts; a whole number times the first is exact. */
static const float v_ln2_high_f32 = 0x1.62e4p-1f, v_ln2_low_f32 = 0x1.7f7d1cp-20f;

/* The whole number nearest to x / ln 2, and x less so many ln 2. */
static inline v_f32 v_count_ln2_f32(v_f32 x)
{
    return (x * 0x1.715476p+0f + 0x1.8p23f) - 0x1.8p23f;
}
static inline v_f32 v_less_ln2_f32(v_f32 x, v_f32 n)
{
    return (x - n * v_ln2_high_f32) - n * v_ln2_low_f32;
}

/* (e^x - 1 - x) / x^2 of a reduced argument: with it e^x - 1 is good to 2^-26 of itself. */
static inline v_f32 v_expm1_tail_f32(v_f32 x)
{
    return v_polynomial_f32(x, 0x1.fffffep-2f, 0x1.5554aap-3f, 0x1.555798p-5f, 0x1.122ca8p-7f,
                            0x1.6ab9ccp-10f);
}
static inline v_f32 v_expm1_reduced_f32(v_f32 x) { return x * x * v_expm1_tail_f32(x) + x; }

/* 2^n, -126 <= n <= 127. */
static inline v_f32 v_power_of_two_f32(v_f32 n)
{
    return (v_f32)((v_u32)(n + (0x1.8p23f + 127.0f)) << 23);
}

/* x = 2^exponent times the result, 1 <= result < 2, for normal x > 0. */
static inline v_f32 v_split_f32(v_f32 x, v_f32 *exponent)
{
#if HYB_SPLITS
    *exponent = v_exponent_f32(x);
    return v_mantissa_f32(x);
#else
    *exponent = __builtin_convertvector((v_i32)((v_u32)x >> 23), v_f32) - 127.0f;
    return (v_f32)(((v_u32)x & 0x7fffff) | 0x3f800000);
#endif
}

/* x = 2^exponent times the result, sqrt(1/2) <= result < sqrt(2), for finite x > 0. */
static inline v_f32 v_reduce_log_f32(v_f32 x, v_f32 *exponent)
{
#if HYB_SPLITS
    const v_f32 m = v_mantissa_f32(x);
    const v_i32 above = m >= 0x1.6a09e6p+0f;
    *exponent = v_exponent_f32(x) + (v_f32)((v_i32)v_splat_f32(1.0f) & above);
    return v_select_f32(above, m * 0.5f, m);
#else
    const v_i32 tiny = x < FLT_MIN;
    const v_u32 bits = (v_u32)v_select_f32(tiny, x * 0x1p23f, x);
    const v_u32 biased = (bits + (0x3f800000 - 0x3f3504f3)) >> 23;
    *exponent = __builtin_convertvector((v_i32)biased, v_f32) -
                v_select_f32(tiny, v_splat_f32(150.0f), v_splat_f32(127.0f));
    return (v_f32)(bits - ((biased - 127) << 23));
#endif
}

/* log(1 + f) - f + f^2 / 2. */
static inline v_f32 v_log_small_part_f32(v_f32 f)
{
    const v_f32 tail =
        v_polynomial_f32(f, 0x1.55554ap-2f, -0x1.00022p-2f, 0x1.99a5b4p-3f, -0x1.5478acp-3f,
                         0x1.226c3ap-3f, -0x1.0cdd0ap-3f, 0x1.07db58p-3f, -0x1.4216f2p-4f);
    return f * f * f * tail;
}

/* k + log2(1 + f): 1 / ln 2 is 1 + 0.44, so the leading term needs no product. */
static inline v_f32 v_log2_reduced_f32(v_f32 f, v_f32 k)
{
    const v_f32 tail = v_polynomial_f32(
        f, 0x1.c551dap-2f, -0x1.71546ep-1f, 0x1.ec6f9cp-2f, -0x1.715bcap-2f, 0x1.27b44p-2f,
        -0x1.ead566p-3f, 0x1.9b7de6p-3f, -0x1.7f1414p-3f, 0x1.a7d12ep-3f, -0x1.27b44p-3f);
    return (f * tail + f) + k;
}

/* k log10(2) + log10(1 + f), log10(2) and 1 / ln 10 in two parts; k times the first is exact, and
 * powers of 10 come out whole. */
static inline v_f32 v_log10_reduced_f32(v_f32 f, v_f32 k)
{
    const v_f32 tail = v_polynomial_f32(
        f, -0x1.5bbfc8p-27f, -0x1.bcb7aap-3f, 0x1.287a72p-3f, -0x1.bcbeeap-4f, 0x1.63cf1ep-4f,
        -0x1.2773eap-4f, 0x1.f88d8cp-5f, -0x1.d72afp-5f, 0x1.cb1d3ap-5f, -0x1.0f23d8p-5f);
    const v_f32 rest = f * tail + k * -0x1.95ec1p-19f;
    return k * 0x1.3442p-2f + (f * 0x1.bcb7b2p-2f + rest);
}

/* tanh of 0 <= x <= 0.5625. */
static inline v_f32 v_tanh_near_f32(v_f32 x)
{
    const v_f32 square = x * x;
    const v_f32 tail = v_polynomial_f32(square, -0x1.555548p-2f, 0x1.110c44p-3f, -0x1.b8fefp-5f,
                                        0x1.57cbacp-6f, -0x1.929028p-8f);
    return x * square * tail + x;
}

/* Lanes of x beyond this go to far_angle. */
static const float v_angle_limit_f32 = 0x1p16f;

/* x = quadrant pi/2 + the result, about pi/4 at most, for |x| below the limit.  With fused products
 * pi/2 in three parts of 24 bits does it; without, the products must be exact, and float64 has room
 * for that. */
static inline v_f32 v_reduce_angle_f32(v_f32 x, v_i32 *quadrant)
{
    const v_f32 shifted = x * 0x1.45f306p-1f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    *quadrant = (v_i32)shifted;
#if HYB_FUSED
    const v_f32 first = v_fused_f32(n, v_splat_f32(-0x1.921fb4p+0f), x);
    const v_f32 second = v_fused_f32(n, v_splat_f32(-0x1.4442dp-24f), first);
    return v_fused_f32(n, v_splat_f32(-0x1.846988p-48f), second);
#else
    v_f32 angle;
    for (int i = 0; i < HYB_LANES_32; i++)
        angle[i] = (float)(((double)x[i] - (double)n[i] * 0x1.921fb544p+0) -
                           (double)n[i] * 0x1.0b4611a626331p-34);
    return angle;
#endif
}

static inline v_f32 v_sin_reduced_f32(v_f32 x)
{
    const v_f32 square = x * x;
    const v_f32 y =
        x * square * v_polynomial_f32(square, -0x1.555546p-3f, 0x1.11077ap-7f, -0x1.9954a4p-13f) +
        x;
    return v_or_f32(y, v_sign_f32(x)); /* the sum has lost the sign of -0 */
}

/* The rounding error of 1 - x^2 / 2 comes back with the small terms. */
static inline v_f32 v_cos_reduced_f32(v_f32 x)
{
    const v_f32 square = x * x, half = square * 0.5f, most = 1.0f - half;
    const v_f32 tail = v_polynomial_f32(square, 0x1.55554ap-5f, -0x1.6c0c1ap-10f, 0x1.99e1p-16f);
    return most + (square * square * tail + ((1.0f - most) - half));
}

/* (x + 3.5) e^(x^2 / 2) Phi(-x) for 0.75 <= x <= 15, from share = x / (x + 3.5). */
static const float v_mills_shift_f32 = 3.5f;
static inline v_f32 v_mills_f32(v_f32 share)
{
    return v_polynomial_f32(share * 2.0f - 1.0f, 0x1.7d241ap-1f, -0x1.219156p-1f, 0x1.42ff2ep-2f,
                            -0x1.db54d6p-4f, 0x1.1cd924p-6f, 0x1.a6faep-8f, -0x1.94ce3ap-9f,
                            -0x1.92e7bap-12f, 0x1.44d01ap-12f);
}

/* The high half of x: its square is exact. */
static inline v_f32 v_high_half_f32(v_f32 x) { return (v_f32)((v_i32)x & ~0xfff); }

/* x + x p(x^2), 0 <= x < 0.85. */
static inline v_f32 v_erf_near_f32(v_f32 x, v_f32 square)
{
    const v_f32 tail = v_polynomial_f32(square, 0x1.06eba8p-3f, -0x1.812726p-2f, 0x1.ce256ap-4f,
                                        -0x1.b735eap-6f, 0x1.4b763p-8f, -0x1.4cd85p-11f);
    return x * tail + x;
}

/* erf x is x + x p(x^2) near 0, and 1 - exp(-q(|x|)) farther out. */
static inline v_f32 v_erf_f32(v_f32 x)
{
    const v_f32 size = v_abs_f32(x), square = x * x;
    const v_f32 near = v_erf_near_f32(size, square);
    const v_f32 bounded = v_at_most_f32(size, 4.0f);
    const v_f32 exponent =
        v_polynomial_f32(bounded, 0x1.417d5p-13f, -0x1.212102p+0f, -0x1.44626ap-1f, -0x1.ba85acp-4f,
                         0x1.98f23ap-6f, -0x1.0d54e8p-8f, 0x1.ba1c56p-12f, -0x1.4f1598p-16f);
    const v_f32 n = v_count_ln2_f32(exponent), power = v_power_of_two_f32(n);
    const v_f32 grown = v_expm1_reduced_f32(v_less_ln2_f32(exponent, n));
    const v_f32 far = (1.0f - power) - power * grown;
    return v_or_f32(v_select_f32(size < 0.84375f, near, far), v_sign_f32(x));
}

/* pi/2 in two parts. */
static const float v_half_pi_high_f32 = 0x1.921fb6p+0f;
static const float v_half_pi_low_f32 = -0x1.777a5cp-25f;

/* Tails of odd functions, (f(r) - r) / r^3 of r^2: asin up to 1/2, atan up to 1. */
static inline v_f32 v_asin_tail_f32(v_f32 square)
{
    return v_polynomial_f32(square, 0x1.5555c8p-3f, 0x1.330204p-4f, 0x1.747c6ap-5f, 0x1.8c2e08p-6f,
                            0x1.5973ap-5f);
}
static inline v_f32 v_atan_tail_f32(v_f32 square)
{
    return v_polynomial_f32(square, -0x1.55553ep-2f, 0x1.9991e4p-3f, -0x1.242086p-3f, 0x1.c08c5p-4f,
                            -0x1.580952p-4f, 0x1.da2c4ep-5f, -0x1.fd8752p-6f, 0x1.64353p-7f,
                            -0x1.d3842cp-10f);
}

static const float v_cosh_high_f32 = 89.75f; /* sinh and cosh are infinite above */
static const float v_square_alone_f32 = 0x1p13f; /* x^2 + 1 is as good as x^2 above */

/* The same of sinh up to ln 2 / 2, of asinh up to 1 and of atanh up to 1/2;
 * (cosh r - 1 - r^2 / 2) / r^4 up to ln 2 / 2; (acosh(1 + t) / sqrt(2 t) - 1) / t up to 1. */
static inline v_f32 v_sinh_tail_f32(v_f32 square)
{
    return v_polynomial_f32(square, 0x1.555556p-3f, 0x1.110fbep-7f, 0x1.a2e308p-13f);
}
static inline v_f32 v_cosh_tail_f32(v_f32 square)
{
    return v_polynomial_f32(square, 0x1.5554e6p-5f, 0x1.6d4f1ap-10f);
}
static inline v_f32 v_asinh_tail_f32(v_f32 square)
{
    return v_polynomial_f32(square, -0x1.555524p-3f, 0x1.3325bcp-4f, -0x1.6c71d8p-5f, 0x1.e29cap-6f,
                            -0x1.3a4784p-6f, 0x1.55ccfap-7f, -0x1.f72012p-9f, 0x1.6161eap-11f);
}
static inline v_f32 v_atanh_tail_f32(v_f32 square)
{
    return v_polynomial_f32(square, 0x1.55554p-2f, 0x1.99a678p-3f, 0x1.234d6p-3f, 0x1.e4046ep-4f,
                            0x1.a69686p-5f, 0x1.69482ep-3f);
}
static inline v_f32 v_acosh_tail_f32(v_f32 t)
{
    return v_polynomial_f32(t, -0x1.555514p-4f, 0x1.331e6ap-6f, -0x1.6b7b4cp-8f, 0x1.d4c4fap-10f,
                            -0x1.09b4b4p-11f, 0x1.5b329ep-14f);
}
