/* math/f64.inc.c - what math/typed.inc.c builds on, for float64. */

static const double v_exp_low_f64 = -746.0; /* exp is 0 below and infinite above */
static const double v_exp_high_f64 = 710.0;
static const double v_expm1_low_f64 = -38.0; /* expm1 is -1 below */
static const double v_tanh_high_f64 = 20.0;  /* tanh is 1 above */
static const double v_silu_low_f64 = -760.0; /* silu is -0 below */
static const double v_gelu_low_f64 = -39.0;  /* gelu is -0 below */

/* ln 2 in two parts; a whole number times the first is exact. */
static const double v_ln2_high_f64 = 0x1.62e42feep-1, v_ln2_low_f64 = 0x1.a39ef35793c76p-33;

/* The whole number nearest to x / ln 2, and x less so many ln 2. */
static inline v_f64 v_count_ln2_f64(v_f64 x)
{
    return (x * 0x1.71547652b82fep+0 + 0x1.8p52) - 0x1.8p52;
}
static inline v_f64 v_less_ln2_f64(v_f64 x, v_f64 n)
{
    return (x - n * v_ln2_high_f64) - n * v_ln2_low_f64;
}

/* (e^x - 1 - x) / x^2 of a reduced argument: with it e^x - 1 is good to 2^-61 of itself. */
static inline v_f64 v_expm1_tail_f64(v_f64 x)
{
    return v_polynomial_f64(x, 0x1p-1, 0x1.5555555555559p-3, 0x1.5555555555556p-5,
                            0x1.111111110f62fp-7, 0x1.6c16c16c160c6p-10, 0x1.a01a01b01e031p-13,
                            0x1.a01a01a75b5eap-16, 0x1.71ddf7b4f6bfdp-19, 0x1.27e4db01d785ap-22,
                            0x1.af5fecf56fe2ap-26, 0x1.1f7218d536712p-29);
}
static inline v_f64 v_expm1_reduced_f64(v_f64 x) { return x * x * v_expm1_tail_f64(x) + x; }

/* 2^n, -1022 <= n <= 1023. */
static inline v_f64 v_power_of_two_f64(v_f64 n)
{
    return (v_f64)((v_u64)(n + (0x1.8p52 + 1023.0)) << 52);
}

/* x = 2^exponent times the result, 1 <= result < 2, for normal x > 0. */
static inline v_f64 v_split_f64(v_f64 x, v_f64 *exponent)
{
#if HYB_SPLITS
    *exponent = v_exponent_f64(x);
    return v_mantissa_f64(x);
#else
    /* By way of the low bits of 2^52: AVX2 has no conversion from 64-bit integers. */
    *exponent = (v_f64)((v_u64)x >> 52 | 0x4330000000000000) - (0x1p52 + 1023.0);
    return (v_f64)(((v_u64)x & 0xfffffffffffff) | 0x3ff0000000000000);
#endif
}

/* x = 2^exponent times the result, sqrt(1/2) <= result < sqrt(2), for finite x > 0. */
static inline v_f64 v_reduce_log_f64(v_f64 x, v_f64 *exponent)
{
#if HYB_SPLITS
    const v_f64 m = v_mantissa_f64(x);
    const v_i64 above = m >= 0x1.6a09e667f3bcdp+0;
    *exponent = v_exponent_f64(x) + (v_f64)((v_i64)v_splat_f64(1.0) & above);
    return v_select_f64(above, m * 0.5, m);
#else
    const v_i64 tiny = x < DBL_MIN;
    const v_u64 bits = (v_u64)v_select_f64(tiny, x * 0x1p54, x);
    const v_u64 biased = (bits + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd)) >> 52;
    const v_f64 whole = (v_f64)(biased | 0x4330000000000000) - 0x1p52;
    *exponent = whole - v_select_f64(tiny, v_splat_f64(1077.0), v_splat_f64(1023.0));
    return (v_f64)(bits - ((biased - 1023) << 52));
#endif
}

/* log(1 + f) = f - (half - small) with half = f^2 / 2, through s = f / (2 + f):
 * log(1 + f) = 2 atanh(s) = 2 s + s r(s^2), and 2 s = f - s f, s f = half - s half. */
static inline v_f64 v_log_small_part_f64(v_f64 f)
{
    const v_f64 half = f * f * 0.5;
    const v_f64 s = f / (2.0 + f), square = s * s;
    const v_f64 r =
        square * v_polynomial_f64(square, 0x1.5555555555592p-1, 0x1.999999997ff2p-2,
                                  0x1.24924941e0c25p-2, 0x1.c71c5214dfa8p-3, 0x1.74663ccd0694cp-3,
                                  0x1.39a1ec448bf81p-3, 0x1.2f0395ab434c3p-3);
    return s * (half + r);
}

/* k + log2(1 + f): log(1 + f) in two parts times 1 / ln 2 in two parts; the product of the high
 * ones is exact. */
static inline v_f64 v_log2_reduced_f64(v_f64 f, v_f64 k)
{
    const v_f64 half = f * f * 0.5;
    const v_f64 high = (v_f64)((v_i64)(f - half) & INT64_C(-0x100000000));
    const v_f64 low = ((f - high) - half) + v_log_small_part_f64(f);
    const v_f64 most = high * 0x1.71547652p+0, sum = k + most;
    const v_f64 rest = (low + high) * 0x1.705fc2eefa1ffp-33 + low * 0x1.71547652p+0;
    return sum + (rest + ((k - sum) + most));
}

/* k log10(2) + log10(1 + f) in the same way, with log10(2) in two parts, too: what is large is
 * exact, and powers of 10 come out whole. */
static inline v_f64 v_log10_reduced_f64(v_f64 f, v_f64 k)
{
    const v_f64 half = f * f * 0.5;
    const v_f64 high = (v_f64)((v_i64)(f - half) & INT64_C(-0x8000000));
    const v_f64 low = ((f - high) - half) + v_log_small_part_f64(f);
    const v_f64 whole = k * 0x1.34413509f78p-2, most = high * 0x1.bcb7b18p-2, sum = whole + most;
    const v_f64 rest = (low + high) * -0x1.6c8d78e6acaa4p-29 + low * 0x1.bcb7b18p-2;
    return sum + ((rest + k * 0x1.fef311f12b358p-46) + ((whole - sum) + most));
}

/* tanh of 0 <= x <= 0.5625. */
static inline v_f64 v_tanh_near_f64(v_f64 x)
{
    const v_f64 square = x * x;
    const v_f64 tail = v_polynomial_f64(square, -0x1.5555555555549p-2, 0x1.111111110ff8dp-3,
                                        -0x1.ba1ba1b907d13p-5, 0x1.664f483f1863fp-6,
                                        -0x1.226e2bb6c051dp-7, 0x1.d6d21414104e2p-9,
                                        -0x1.7d890b5c14ec1p-10, 0x1.344c37662e158p-11,
                                        -0x1.e73f4b7a424ap-13, 0x1.573a789c991ap-14,
                                        -0x1.37d34c11eb448p-16);
    return x * square * tail + x;
}

/* Lanes of x beyond this go to far_angle. */
static const double v_angle_limit_f64 = 0x1p20;

/* x = quadrant pi/2 + the result, about pi/4 at most, for |x| below the limit: pi/2 in two parts of
 * 33 bits, whose products are exact, and one of 53.  The rounding error of the second difference is
 * carried along. */
static inline v_f64 v_reduce_angle_f64(v_f64 x, v_i64 *quadrant)
{
    const v_f64 shifted = x * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = shifted - 0x1.8p52;
    *quadrant = (v_i64)shifted;
    const v_f64 first = x - n * 0x1.921fb544p+0, product = n * 0x1.0b4611a6p-34;
    const v_f64 second = first - product;
    return second - (((second - first) + product) + n * 0x1.3198a2e037073p-69);
}

static inline v_f64 v_sin_reduced_f64(v_f64 x)
{
    const v_f64 square = x * x;
    const v_f64 tail = v_polynomial_f64(square, -0x1.5555555555549p-3, 0x1.111111110f89cp-7,
                                        -0x1.a01a019c141cbp-13, 0x1.71de3578eff8ap-19,
                                        -0x1.ae5e66a67aabap-26, 0x1.5d9301ab0582ap-33);
    const v_f64 y = x * square * tail + x;
    return v_or_f64(y, v_sign_f64(x)); /* the sum has lost the sign of -0 */
}

/* The rounding error of 1 - x^2 / 2 comes back with the small terms. */
static inline v_f64 v_cos_reduced_f64(v_f64 x)
{
    const v_f64 square = x * x, half = square * 0.5, most = 1.0 - half;
    const v_f64 tail =
        v_polynomial_f64(square, 0x1.555555555554cp-5, -0x1.6c16c16c15217p-10, 0x1.a01a019cbe0ap-16,
                         -0x1.27e4f8116c3e6p-22, 0x1.1ee9f044f363bp-29, -0x1.8fb09189bc51dp-37);
    return most + (square * square * tail + ((1.0 - most) - half));
}

/* (x + 5) e^(x^2 / 2) Phi(-x) for 0.75 <= x <= 39, from share = x / (x + 5).  All but the first two
 * terms are summed in two halves, which shortens the chain of sums. */
static const double v_mills_shift_f64 = 5.0;
static inline v_f64 v_mills_f64(v_f64 share)
{
    const v_f64 u = share * 2.0 - 1.0, square = u * u;
    const v_f64 even =
        v_polynomial_f64(square, 0x1.fb31653876f27p-2, 0x1.51f6329f04c67p-3, 0x1.54b4d4f246227p-6,
                         -0x1.a250341e1b472p-11, -0x1.f215f8f7518afp-15, 0x1.17ea3c77fb90ep-16,
                         -0x1.74b73c23d0c65p-19, 0x1.dda9f2bdfc393p-22, -0x1.451d0b25e0f6p-24,
                         0x1.77bf96751c0b6p-27);
    const v_f64 odd = v_polynomial_f64(
        square, -0x1.410ed5f875d49p-2, -0x1.1b1c254c854f6p-4, -0x1.88590ecd8306ap-9,
        0x1.1daf20fb7afa9p-11, -0x1.a171a84d31485p-15, 0x1.0b31db25efb4ap-18,
        -0x1.692225a6fdb3fp-22, 0x1.54c360d82cb2ap-25, -0x1.838ab5f7b1e82p-28);
    return ((odd * u + even) * u + -0x1.54ad03f27ca13p-1) * u + 0x1.89d3abe1f95aep-1;
}

/* The high half of x: its square is exact. */
static inline v_f64 v_high_half_f64(v_f64 x) { return (v_f64)((v_i64)x & INT64_C(-0x8000000)); }

/* x + x p(x^2), 0 <= x < 1. */
static inline v_f64 v_erf_near_f64(v_f64 x, v_f64 square)
{
    const v_f64 tail = v_polynomial_f64(square, 0x1.06eba8214db68p-3, -0x1.812746b0379a9p-2,
                                        0x1.ce2f21a040788p-4, -0x1.b82ce311fbc97p-6,
                                        0x1.565bccfb9ac08p-8, -0x1.c02db0db47ca8p-11,
                                        0x1.f9a2cdad6317ep-14, -0x1.f4cba0bf66852p-17,
                                        0x1.b98e3037b5363p-20, -0x1.5c6491f01fa97p-23,
                                        0x1.d9bb13db9fe89p-27, -0x1.b3b6f7fccf161p-31);
    return x * tail + x;
}

/* erf x is x + x p(x^2) near 0, and 1 - 2 Phi(-|x| sqrt 2) farther out. */
static inline v_f64 v_erf_f64(v_f64 x)
{
    const v_f64 size = v_abs_f64(x), square = x * x;
    const v_f64 near = v_erf_near_f64(size, square);
    const v_f64 bounded = v_at_most_f64(size, 6.0), high = v_high_half_f64(bounded);
    const v_f64 most = -(high * high), rest = (high - bounded) * (high + bounded);
    const v_f64 n = v_count_ln2_f64(most + rest);
    const v_f64 grown = v_expm1_reduced_f64(v_less_ln2_f64(most, n) + rest);
    const v_f64 scaled = bounded * 1.41421356237309504880;
    const v_f64 share = scaled / (scaled + v_mills_shift_f64);
    const v_f64 factor =
        v_power_of_two_f64(n) * v_mills_f64(share) * 2.0 / (scaled + v_mills_shift_f64);
    const v_f64 far = 1.0 - (factor * grown + factor);
    return v_or_f64(v_select_f64(size < 1.0, near, far), v_sign_f64(x));
}

/* pi/2 in two parts. */
static const double v_half_pi_high_f64 = 0x1.921fb54442d18p+0;
static const double v_half_pi_low_f64 = 0x1.1a62633145c07p-54;

/* Tails of odd functions, (f(r) - r) / r^3 of r^2: asin up to 1/2, atan up to 1. */
static inline v_f64 v_asin_tail_f64(v_f64 square)
{
    return v_polynomial_f64(square, 0x1.5555555555577p-3, 0x1.333333332e132p-4,
                            0x1.6db6db7212537p-5, 0x1.f1c71a94fd1e4p-6, 0x1.6e8bdedef7f56p-6,
                            0x1.1c49f074c8a6fp-6, 0x1.ca1f8b4055b9dp-7, 0x1.75859a4d0b15ap-7,
                            0x1.613c3938d37ep-7, 0x1.e5f9bc9fe10b5p-9, 0x1.639b67033ce7ap-6,
                            -0x1.57fc5bad3ab5ap-6, 0x1.0b4680746226fp-5);
}
static inline v_f64 v_atan_tail_f64(v_f64 square)
{
    return v_polynomial_f64(square, -0x1.555555555554dp-2, 0x1.9999999998c65p-3,
                            -0x1.2492492457698p-3, 0x1.c71c71b650bcap-4, -0x1.745d15d2c8417p-4,
                            0x1.3b139bec0094ap-4, -0x1.1110335790683p-4, 0x1.e1d4925e02e7fp-5,
                            -0x1.aeda85d9dc2e8p-5, 0x1.84b50928996dbp-5, -0x1.5f262a287bedfp-5,
                            0x1.3908d4a3ebeafp-5, -0x1.0c9c002c5c56ap-5, 0x1.ac8e54bebffb9p-6,
                            -0x1.3112208cf9747p-6, 0x1.7305387bcce86p-7, -0x1.70069b1b63a22p-8,
                            0x1.1a371262a50d7p-9, -0x1.371cd9e0c0046p-11, 0x1.b419fa561c67fp-14,
                            -0x1.22b622f399732p-17);
}

static const double v_cosh_high_f64 = 710.75; /* sinh and cosh are infinite above */
static const double v_square_alone_f64 = 0x1p28; /* x^2 + 1 is as good as x^2 above */

/* The same of sinh up to ln 2 / 2, of asinh up to 1 and of atanh up to 1/2;
 * (cosh r - 1 - r^2 / 2) / r^4 up to ln 2 / 2; (acosh(1 + t) / sqrt(2 t) - 1) / t up to 1. */
static inline v_f64 v_sinh_tail_f64(v_f64 square)
{
    return v_polynomial_f64(square, 0x1.5555555555559p-3, 0x1.111111110f624p-7,
                            0x1.a01a01b022fe2p-13, 0x1.71ddf7acc438ap-19, 0x1.af5fefc835009p-26);
}
static inline v_f64 v_cosh_tail_f64(v_f64 square)
{
    return v_polynomial_f64(square, 0x1.5555555555558p-5, 0x1.6c16c16c14ffap-10,
                            0x1.a01a01ad80ea6p-16, 0x1.27e4cc09c0294p-22, 0x1.1f8beca2a219ep-29);
}
static inline v_f64 v_asinh_tail_f64(v_f64 square)
{
    return v_polynomial_f64(square, -0x1.5555555555548p-3, 0x1.3333333332012p-4,
                            -0x1.6db6db6d1bbeep-5, 0x1.f1c71c497fdffp-6, -0x1.6e8b9fbf445b4p-6,
                            0x1.1c4e9ab07a141p-6, -0x1.c9967ca50f5p-7, 0x1.7a71e3b8325c8p-7,
                            -0x1.3f6c113a315bp-7, 0x1.111a8cf9b42cbp-7, -0x1.d35a7cdad4ac5p-8,
                            0x1.87989fe63db98p-8, -0x1.36be59d8cddc1p-8, 0x1.bf7d163b92512p-9,
                            -0x1.16c364693ea0fp-9, 0x1.1da99dce71103p-10, -0x1.c6cc6f98740d8p-12,
                            0x1.04d36c2738fb9p-13, -0x1.7ca3f444cb069p-16, 0x1.0810e0c415e14p-19);
}
static inline v_f64 v_atanh_tail_f64(v_f64 square)
{
    return v_polynomial_f64(square, 0x1.555555555554cp-2, 0x1.999999999b384p-3,
                            0x1.24924923c7ed8p-3, 0x1.c71c722afb446p-4, 0x1.745d08ad1768fp-4,
                            0x1.3b1511f44af4cp-4, 0x1.10fa6ddc8698cp-4, 0x1.e3eb1e9ec8db1p-5,
                            0x1.9e7d1f6e90685p-5, 0x1.e73e303b36f13p-5, -0x1.493d16c364f96p-8,
                            0x1.64cb92c0df5f6p-3, -0x1.8fa1f00a68211p-3, 0x1.ec9b84f3a464p-3);
}
static inline v_f64 v_acosh_tail_f64(v_f64 t)
{
    return v_polynomial_f64(t, -0x1.5555555555539p-4, 0x1.3333333330452p-6, -0x1.6db6db6c0344fp-8,
                            0x1.f1c71bf1555c4p-10, -0x1.6e8b9799c8cf1p-11, 0x1.1c4e1e4bfc84p-12,
                            -0x1.c98c559370e22p-14, 0x1.7a268b55769c5p-15, -0x1.3dd534934d85bp-16,
                            0x1.0ac562e3abec1p-17, -0x1.ade6c608fb096p-19, 0x1.358e77a9f299fp-20,
                            -0x1.65af69eff1417p-22, 0x1.1a954236b3f18p-24, -0x1.bb45ca622f08cp-28);
}
