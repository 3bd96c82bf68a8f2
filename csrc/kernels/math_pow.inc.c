/* math_pow.inc.c - powers. */

/* x^y for x >= 0 as 2^(y log2 x), to about 2^-30 of it. */
static inline v_f64 v_pow_size_f64(v_f64 x, v_f64 y)
{
    v_f64 k;
    const v_f64 m = v_reduce_log_f64(x, &k);
    const v_f64 s = (m - 1.0) / (m + 1.0), square = s * s;
    const v_f64 log2_m =
        s * v_polynomial_f64(square, 0x1.71547652b8309p+1, 0x1.ec709dc38495ep-1,
                             0x1.2776c53ca7513p-1, 0x1.a6172abe5a3bp-2, 0x1.485b0189aea7dp-2,
                             0x1.0a5ded05cfc94p-2, 0x1.083025eab9d66p-2);
    const v_f64 exponent = y * v_fix_log_f64(x, k + log2_m);
    const v_f64 bounded = v_at_least_f64(v_at_most_f64(exponent, 300.0), -300.0);
    const v_f64 n = (bounded + 0x1.8p52) - 0x1.8p52;
    return v_power_of_two_f64(n) * v_polynomial_f64(bounded - n, 0x1.ffffffff4ce06p-1,
                                                    0x1.62e430d19dc82p-1, 0x1.ebfbe10fd99d4p-3,
                                                    0x1.c6aeca8a9561ep-5, 0x1.3b2994a861fbp-7,
                                                    0x1.5f49acb35e6cbp-10, 0x1.4499edf2ad8e4p-13);
}

/* C's pow in every special case.  The size is computed in float64, so one rounding makes the error.
 */
static inline v_f32 v_pow_f32(v_f32 x, v_f32 y)
{
    const v_f32 size_x = v_abs_f32(x);
    v_f32 size;
    for (int half = 0; half < 2; half++) {
        v_f32_half x_half, y_half, result;
        memcpy(&x_half, (const char *)&size_x + half * sizeof x_half, sizeof x_half);
        memcpy(&y_half, (const char *)&y + half * sizeof y_half, sizeof y_half);
        result = __builtin_convertvector(v_pow_size_f64(__builtin_convertvector(x_half, v_f64),
                                                        __builtin_convertvector(y_half, v_f64)),
                                         v_f32_half);
        memcpy((char *)&size + half * sizeof result, &result, sizeof result);
    }
    const v_f32 infinity = v_splat_f32(INFINITY), half_y = y * 0.5f;
    const v_i32 whole = v_round_f32(y) == y, odd = whole & (v_round_f32(half_y) != half_y);
    const v_i32 undefined = (x < 0.0f) & (size_x < infinity) & ~whole & (y == y);
    const v_i32 one = (y == 0.0f) | (x == 1.0f) | ((x == -1.0f) & (v_abs_f32(y) == infinity));
    const v_f32 with_sign = v_or_f32(size, (v_f32)((v_i32)v_sign_f32(x) & odd));
    return v_select_f32(one, v_splat_f32(1.0f),
                        v_select_f32(undefined, v_splat_f32(NAN), with_sign));
}
