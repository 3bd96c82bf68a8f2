/* math/pow.inc.c - powers. */

/* y log2(2^k (1 + f)) = *n + the result, with a whole n: |result| <= 1/2. */
static inline v_f64 v_pow_exponent(v_f64 f, v_f64 k, v_f64 y, v_f64 *n)
{
    const v_f64 log2_m =
        f * v_polynomial_f64(f, 0x1.71547652a1ea5p+0, -0x1.715476565d5cbp-1, 0x1.ec709ebb8fe42p-2,
                             -0x1.7154709781936p-2, 0x1.277651fd4d596p-2, -0x1.ec72b5a01fb21p-3,
                             0x1.a63f442631afdp-3, -0x1.71416fec1ab1ap-3, 0x1.45291bdff8ef9p-3,
                             -0x1.252f44ea11a76p-3, 0x1.2871dfef2aec8p-3, -0x1.2488af483a943p-3,
                             0x1.3ce8264460258p-4);
    const v_f64 exponent = y * (k + log2_m);
    *n = (exponent + 0x1.8p52) - 0x1.8p52;
    return exponent - *n;
}

/* x^y for finite x > 0 and |y| below v_pow_most, as 2^(y log2 x) with the exponent in float64. */
static const float v_pow_most_f32 = 0x1p33f; /* log2 x is 0 or above 2^-24 */
static inline v_f32 v_pow_size_f32(v_f32 x, v_f32 y)
{
    v_f32       k;
    const v_f32 f = v_reduce_log_f32(x, &k) - 1.0f;
    v_f64       n1, n2;
    const v_f64 r1 = v_pow_exponent(v_widen_first(f), v_widen_first(k), v_widen_first(y), &n1);
    const v_f64 r2 = v_pow_exponent(v_widen_second(f), v_widen_second(k), v_widen_second(y), &n2);
    const v_f32 r = v_narrow(r1, r2), n = v_narrow(n1, n2);
    const v_f32 bounded = v_at_least_f32(v_at_most_f32(n, 200.0f), -200.0f);
    const v_f32 tail = v_polynomial_f32(r, 0x1.ebfbdcp-3f, 0x1.c6af88p-5f, 0x1.3b2e0cp-7f,
                                        0x1.5f04p-10f, 0x1.414f56p-13f);
    return v_scale_f32((r * r * tail + r * 0x1.62e43p-1f) + 1.0f, bounded);
}

/* log2 x = the result + *low, to about 2^-68 of it: of x = 2^k m from log2 m = 2 / ln 2 atanh s,
 * s = (m - 1) / (m + 1), and atanh s = s (1 + z (1/3 + z p(z))), z = s^2.  2 / ln 2 is in the
 * coefficients. */
static inline v_f64 v_log2_parts(v_f64 x, v_f64 *low)
{
    const double scale = 0x1.71547652b82fep+1, scale_low = 0x1.777d0ffda0d24p-55;
    const double third = 0x1.ec709dc3a03fdp-1, third_low = 0x1.d27f05548af0cp-55;

    v_f64       k, z_low, u_low, y_low;
    const v_f64 m = v_reduce_log_f64(x, &k), f = m - 1.0;
    const v_f64 below = m + 1.0, below_low = m - (below - 1.0), inverse = 1.0 / below;
    const v_f64 s = f * inverse;
    const v_f64 s_low = (v_less_product_f64(f, s, below) - s * below_low) * inverse;

    const v_f64 z = v_product_f64(s, s, &z_low), square = z * z;
    z_low += (s + s) * s_low;
    const v_f64 odd = v_polynomial_f64(square, 0x1.a61762a7aefa3p-2, 0x1.0c9a8543e0945p-2,
                                       0x1.8a0a4347961d8p-3, 0x1.623b2f445a2d4p-3);
    const v_f64 even = v_polynomial_f64(square, 0x1.2776c50ef9bfcp-1, 0x1.484b13d696e51p-2,
                                        0x1.c68ee5422dc9cp-3, 0x1.58f2eb7aebf72p-3);
    const v_f64 tail = z * (odd * z + even), t = tail + third;
    const v_f64 t_low = ((third - t) + tail) + third_low;

    const v_f64 u = v_product_f64(z, t, &u_low), w = u + scale;
    const v_f64 w_low = ((scale - w) + u) + (u_low + (z * t_low + (z_low * t + scale_low)));
    const v_f64 y = v_product_f64(s, w, &y_low), high = k + y;
    *low = ((k - high) + y) + (y_low + (s * w_low + s_low * w));
    return high;
}

static const double v_pow_most_f64 = 0x1p65; /* log2 x is 0 or above 2^-53 */
static inline v_f64 v_pow_size_f64(v_f64 x, v_f64 y)
{
    v_f64       log2_low, low;
    const v_f64 log2_high = v_log2_parts(x, &log2_low);
    v_f64       high = v_product_f64(y, log2_high, &low);
    low += y * log2_low;
    if (v_any_f64(~(v_i64)(v_abs_f64(high) < 1100.0))) {
        high = v_at_least_f64(v_at_most_f64(high, 1100.0), -1100.0);
        low = v_at_least_f64(v_at_most_f64(low, 1.0), -1.0);
    }
    /* 2^r - 1 = r ln 2 + r^2 q(r), where only the first term feels that r is in two parts */
    const v_f64 n = (high + 0x1.8p52) - 0x1.8p52, r = high - n, sum = r + low, square = sum * sum;
    const v_f64 odd =
        v_polynomial_f64(square, 0x1.c6b08d704a045p-5, 0x1.5d87fe78c3818p-10, 0x1.ffcbfbc794ecap-17,
                         0x1.b52653215f627p-24, 0x1.e7c6ad93f9838p-32);
    const v_f64 even =
        v_polynomial_f64(square, 0x1.ebfbdff82c5a1p-3, 0x1.3b2ab6fba0776p-7, 0x1.4309130dcbba8p-13,
                         0x1.62bfc9e406349p-20, 0x1.e617d54429969p-28);
    const v_f64 rest = square * (odd * sum + even) + low * 0x1.62e42fefa39efp-1;
    return v_scale_f64((r * 0x1.62e42fefa39efp-1 + rest) + 1.0, n);
}

/* C's pow in every special case. */
#define HYB_POW(V, I, t)                                                                         \
    static inline V v_pow_##t(V x, V y)                                                          \
    {                                                                                            \
        const V infinity = v_splat_##t(INFINITY), size_x = v_abs_##t(x);                         \
        V       size = v_pow_size_##t(size_x, y);                                                \
        const I ordinary = (I)(size_x > 0) & (I)(size_x < infinity)                              \
                         & (I)(v_abs_##t(y) < v_pow_most_##t);                                   \
        if (v_any_##t(~ordinary)) {                                                              \
            const I number = (I)(x == x) & (I)(y == y);                                          \
            const I one = (I)(y == 0) | (I)(x == 1) | ((I)(x == -1) & number);                   \
            const V limit = v_select_##t((I)(size_x > 1) ^ (I)(y > 0), (V){0}, infinity);        \
            const V special = v_select_##t(number, limit, v_splat_##t(NAN));                     \
            size = v_select_##t(ordinary, size, v_select_##t(one, v_splat_##t(1), special));     \
        }                                                                                        \
        if (v_any_##t((I)v_sign_##t(x) != 0)) {                                                  \
            const V half_y = y * v_splat_##t(0.5);                                               \
            const I whole = (I)(v_round_##t(y) == y);                                            \
            const I odd = whole & (I)(v_round_##t(half_y) != half_y);                            \
            const I undefined = (I)(x < 0) & (I)(size_x < infinity) & ~whole;                    \
            size = v_or_##t(size, (V)((I)v_sign_##t(x) & odd));                                  \
            size = v_select_##t(undefined, v_splat_##t(NAN), size);                              \
        }                                                                                        \
        return size;                                                                             \
    }
HYB_POW(v_f32, v_i32, f32)
HYB_POW(v_f64, v_i64, f64)
