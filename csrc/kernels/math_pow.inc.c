/* math_pow.inc.c - powers. */

/* Half of the lanes of a v_f32. */
static inline v_f64 v_wide_half(v_f32 x, int half)
{
    v_f32_half part;
    memcpy(&part, (const char *)&x + half * sizeof part, sizeof part);
    return __builtin_convertvector(part, v_f64);
}

/* x^y for finite x > 0 as 2^(y log2 x), computed in float64 to about 2^-29 of it, so that one
 * rounding makes the error. */
static inline v_f32 v_pow_size_f32(v_f32 x, v_f32 y)
{
    v_f32       count, result;
    const v_f32 fraction = v_reduce_log_f32(x, &count) - 1.0f;
    y = v_at_least_f32(v_at_most_f32(y, 0x1p33f), -0x1p33f); /* log2 x is 0 or above 2^-25 */
    for (int half = 0; half < 2; half++) {
        const v_f64 f = v_wide_half(fraction, half), k = v_wide_half(count, half);
        const v_f64 log2_m =
            f * v_polynomial_f64(f, 0x1.71547652b58fbp+0, -0x1.71547651b4fc2p-1,
                                 0x1.ec709de331ba8p-2, -0x1.7154788c1856cp-2, 0x1.2776b6d83b3aep-2,
                                 -0x1.ec6f2c211b5c1p-3, 0x1.a61b779afffd4p-3, -0x1.7188fa3dab3b7p-3,
                                 0x1.482037a3b2675p-3, -0x1.23d55ba11b256p-3, 0x1.0acab8fce0f4cp-3,
                                 -0x1.13ba02517bf9p-3, 0x1.0f5ec5c43f3f4p-3, -0x1.1d80925640d29p-4);
        const v_f64 exponent = v_wide_half(y, half) * (k + log2_m);
        const v_f64 bounded = v_at_least_f64(v_at_most_f64(exponent, 300.0), -300.0);
        const v_f64 n = (bounded + 0x1.8p52) - 0x1.8p52;
        const v_f64 power =
            v_power_of_two_f64(n) *
            v_polynomial_f64(bounded - n, 0x1.ffffffff4ce06p-1, 0x1.62e430d19dc82p-1,
                             0x1.ebfbe10fd99d4p-3, 0x1.c6aeca8a9561ep-5, 0x1.3b2994a861fbp-7,
                             0x1.5f49acb35e6cbp-10, 0x1.4499edf2ad8e4p-13);
        const v_f32_half part = __builtin_convertvector(power, v_f32_half);
        memcpy((char *)&result + half * sizeof part, &part, sizeof part);
    }
    return result;
}

/* The same in two parts throughout: log2 x = high + low to about 2^-70 of it, from
 * log m = 2 atanh s, s = (m - 1) / (m + 1), atanh s = s (1 + z (1/3 + z p(z))) and z = s^2. */
static inline v_f64 v_log2_parts(v_f64 x, v_f64 *low)
{
    v_f64       k, p_low, z_low, u_low, a_low, b_low;
    const v_f64 m = v_reduce_log_f64(x, &k), f = m - 1.0;
    const v_f64 below = m + 1.0, below_low = m - (below - 1.0), inverse = 1.0 / below;
    const v_f64 s = f * inverse, p = v_product_f64(s, below, &p_low);
    const v_f64 s_low = (((f - p) - p_low) - s * below_low) * inverse;

    const v_f64 z = v_product_f64(s, s, &z_low);
    z_low += (s + s) * s_low;
    const v_f64 tail = z * v_polynomial_f64(z, 0x1.9999999999996p-3, 0x1.2492492492f51p-3,
                                            0x1.c71c71c5968c8p-4, 0x1.745d18295a1ddp-4,
                                            0x1.3b1364c7a9614p-4, 0x1.11206f8d4987ep-4,
                                            0x1.de3d5ac66a078p-5, 0x1.eac6b8691eadfp-5);
    const v_f64 t = tail + 0x1.5555555555555p-2;
    const v_f64 t_low = ((0x1.5555555555555p-2 - t) + tail) + 0x1.5555555555555p-56;
    const v_f64 u = v_product_f64(z, t, &u_low), w = u + 1.0;
    const v_f64 w_low = ((1.0 - w) + u) + (u_low + (z * t_low + z_low * t));

    const v_f64 a = v_product_f64(s, w, &a_low);
    a_low += s * w_low + s_low * w;
    const v_f64 b = v_product_f64(a, v_splat_f64(0x1.71547652b82fep+1), &b_low);
    b_low += a * 0x1.777d0ffda0d24p-55 + a_low * 0x1.71547652b82fep+1;
    const v_f64 high = k + b;
    *low = ((k - high) + b) + b_low;
    return high;
}

static inline v_f64 v_pow_size_f64(v_f64 x, v_f64 y)
{
    v_f64       log2_low, e_low, g_low;
    const v_f64 log2_high = v_log2_parts(x, &log2_low);
    /* No logarithm but 0 is below 2^-53, so that larger exponents add nothing. */
    const v_f64 bounded = v_at_least_f64(v_at_most_f64(y, 0x1p65), -0x1p65);
    const v_f64 e = v_product_f64(bounded, log2_high, &e_low);
    e_low += bounded * log2_low;
    const v_f64 within = v_at_least_f64(v_at_most_f64(e, 1100.0), -1100.0);
    const v_f64 n = (within + 0x1.8p52) - 0x1.8p52, r = within - n;
    const v_f64 r_low = v_at_least_f64(v_at_most_f64(e_low, 0.5), -0.5); /* where |e| is too large */
    const v_f64 g = v_product_f64(r, v_splat_f64(0x1.62e42fefa39efp-1), &g_low);
    g_low += r * 0x1.abc9e3b39803fp-56 + r_low * 0x1.62e42fefa39efp-1;
    const v_f64 reduced = g + g_low, square = reduced * reduced;
    return v_scale_f64((g + (square * v_expm1_tail_f64(reduced) + g_low)) + 1.0, n);
}

/* C's pow in every special case. */
#define HYB_POW(V, I, t)                                                                         \
    static inline V v_pow_##t(V x, V y)                                                          \
    {                                                                                            \
        const V infinity = v_splat_##t(INFINITY), size_x = v_abs_##t(x);                         \
        V       size = v_pow_size_##t(size_x, y);                                                \
        const I ordinary = (I)(size_x > 0) & (I)(size_x < infinity) & (I)(y == y);               \
        if (v_any_##t(~ordinary)) {                                                              \
            const I zero = (I)(size_x == 0);                                                     \
            const I grows = (zero & (I)(y < 0)) | (~zero & (I)(y > 0));                          \
            const I number = (I)(x == x) & (I)(y == y), one = (I)(y == 0) | (I)(x == 1);         \
            const V limit = v_select_##t(grows, infinity, (V){0});                               \
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
