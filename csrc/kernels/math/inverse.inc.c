/* math/inverse.inc.c - inverse trigonometric functions, for both float dtypes; included by
 * math/family.inc.c as math/typed.inc.c is.
 *
 * pi/2 is the sum of v_half_pi_high and v_half_pi_low.
 */

/* asin s = s + s z p(z), z = s^2, with s = x up to 1/2; beyond, asin x = pi/2 - 2 asin s and
 * acos x = 2 asin s with z = (1 - x) / 2, which is exact.  NaN for sizes above 1. */
static inline V N(v_half_angle)(V size, I far, V *square)
{
    *square = N(v_select)(far, (1 - size) * (T)0.5, size * size);
    return N(v_select)(far, N(v_sqrt)(*square), size);
}

/* Farther out the difference is taken from pi/4 twice, the second time with the high half of s,
 * which leaves nothing to round but the result. */
static inline V N(v_asin)(V x)
{
    const V size = N(v_abs)(x);
    const I far = (I)(size > (T)0.5);
    V square;
    const V s = N(v_half_angle)(size, far, &square);
    const V tail = s * square * N(v_asin_tail)(square);
    const V high = N(v_high_half)(s), quarter = N(v_splat)(N(v_half_pi_high) / 2);
    const V rest = ((s - high) + tail) * 2 - N(v_half_pi_low);
    const V y = N(v_select)(far, quarter - (rest - (quarter - high * 2)), s + tail);
    return N(v_or)(y, N(v_sign)(x));
}

/* pi/2 - asin x near 0; twice the half angle on the right, pi less that on the left. */
static inline V N(v_acos)(V x)
{
    const V size = N(v_abs)(x);
    const I far = (I)(size > (T)0.5);
    V square;
    const V s = N(v_half_angle)(size, far, &square), v = N(v_select)(far, s, x);
    const V tail = v * square * N(v_asin_tail)(square);
    const V rest = N(v_half_pi_high) - (v + (tail - N(v_half_pi_low)));
    const V half = N(v_select)(far & (I)(x > 0), v + tail, rest);
    return N(v_select)(far, half + half, half);
}

/* r + r^3 p(r^2) up to 1, pi/2 - atan(1 / |x|) beyond. */
static inline V N(v_atan)(V x)
{
    const V size = N(v_abs)(x);
    const I inverted = (I)(size > 1);
    const V r = N(v_select)(inverted, 1 / size, size), square = r * r;
    const V tail = r * square * N(v_atan_tail)(square);
    const V far = N(v_half_pi_high) - (r + (tail - N(v_half_pi_low)));
    return N(v_or)(N(v_select)(inverted, far, r + tail), N(v_sign)(x));
}

/* The angle of (x, y): that of the first octant, whose tangent r is the lesser coordinate over the
 * greater one, added to or taken from 0, pi/2 or pi.  At the origin r is 0, for infinities 1. */
static inline V N(v_atan2)(V y, V x)
{
    const V wide = N(v_abs)(x), tall = N(v_abs)(y);
    const I steep = (I)(tall > wide), left = (I)((I)x < 0);
    const V less = N(v_select)(steep, wide, tall), most = N(v_select)(steep, tall, wide);
    const V alike = (V)((I)N(v_splat)(1) & (I)(most > 0));
    const V size = N(v_select)((I)(less == most), alike, less / most), square = size * size;
    const V flip = N(v_sign)((V)(steep ^ left));
    const V r = (V)((I)size ^ (I)flip), tail = r * square * N(v_atan_tail)(square);
    const V quarters = N(v_select)(steep, N(v_splat)(1), (V)((I)N(v_splat)(2) & left));
    const V angle = quarters * N(v_half_pi_high) + (r + (tail + quarters * N(v_half_pi_low)));
    return N(v_or)(N(v_abs)(angle), N(v_sign)(y));
}
