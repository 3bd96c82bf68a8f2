/* math/angle.inc.c - angles too large for a few multiples of pi/2 to be subtracted (Payne and
 * Hanek, 1983).
 *
 * x = m 2^e with a whole m of 53 bits.  Of 2/pi only the 192 bits that, times m 2^e, fall below 4
 * and are not lost to rounding matter: a nearest multiple of pi/2 cancels at most 62 of them in
 * float64.
 */
static const uint64_t two_over_pi[20] = {
    0, /* the whole part: angles around 2^20 begin to read here */
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
};

/* x = quadrant pi/2 + the result, at most pi/4 in size, for |x| >= 2^10; NaN for infinities and
 * NaN. */
static __attribute__((noinline, cold)) double far_angle(double x, int64_t *quadrant)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7ff);
    *quadrant = 0;
    if (exponent == 0x7ff)
        return (double)NAN;
    const uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    const int      first = exponent - 1075 + 62; /* the bit of the table that weighs 2 / m */
    const int      word = first >> 6, shift = first & 63;

    uint64_t window[3];
    for (int i = 0; i < 3; i++)
        window[i] = two_over_pi[word + i] << shift
                  | (shift ? two_over_pi[word + i + 1] >> (64 - shift) : 0);

    const unsigned __int128 low = (unsigned __int128)m * window[2];
    const unsigned __int128 middle = (unsigned __int128)m * window[1] + (uint64_t)(low >> 64);
    const uint64_t top = m * window[0] + (uint64_t)(middle >> 64);
    const __int128 fraction = (__int128)((((unsigned __int128)top << 64 | (uint64_t)middle) << 2)
                                         | (uint64_t)low >> 62);
    const double angle =
        (double)((long double)fraction * 0x1p-128L * 1.5707963267948966192313216916397514L);
    const int64_t  turns = (int64_t)(top >> 62) + (fraction < 0);
    *quadrant = x < 0 ? -turns : turns;
    return x < 0 ? -angle : angle;
}
