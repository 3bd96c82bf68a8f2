/* vec_exponent.h - the exponents of floating-point lanes: taken out, and put in; a part of vec.h. */
/* Of finite x > 0: the whole part of log2 x, and x divided by 2 to that power; where each is one
 * instruction. */
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
#define HYB_SPLITS 1
static inline v_f32 v_exponent_f32(v_f32 x) { return (v_f32)_mm512_getexp_ps(x); }
static inline v_f64 v_exponent_f64(v_f64 x) { return (v_f64)_mm512_getexp_pd(x); }
static inline v_f32 v_mantissa_f32(v_f32 x)
{
    return (v_f32)_mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}
static inline v_f64 v_mantissa_f64(v_f64 x)
{
    return (v_f64)_mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}
#else
#define HYB_SPLITS 0
#endif

/* x * 2^n for x around 1 and a whole n, |n| <= 200 (float32) or 1500 (float64), rounded once even
 * where the result is subnormal. */
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
static inline v_f32 v_scale_f32(v_f32 x, v_f32 n) { return (v_f32)_mm512_scalef_ps(x, n); }
static inline v_f64 v_scale_f64(v_f64 x, v_f64 n) { return (v_f64)_mm512_scalef_pd(x, n); }
#else
/* Times two powers, of half the exponent each: the first product is exact, one rounding is left. */
static inline v_f32 v_scale_f32(v_f32 x, v_f32 n)
{
    const v_i32 whole = __builtin_convertvector(n, v_i32), half = whole >> 1;
    return x * (v_f32)((half + 127) << 23) * (v_f32)((whole - half + 127) << 23);
}
static inline v_f64 v_scale_f64(v_f64 x, v_f64 n)
{
    /* 1.5 * 2^52 keeps a whole number in its low bits: AVX2 has no 64-bit >> with a sign. */
    const v_f64 shifter = v_splat_f64(0x1.8p52), half = (n * 0.5 + shifter) - shifter;
    return x * (v_f64)((v_i64)(half + 0x1.8p52 + 1023) << 52) *
           (v_f64)((v_i64)(n - half + 0x1.8p52 + 1023) << 52);
}
#endif

/* The same, but 0 where `power` is below `low`; n may be anything there. */
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
static inline v_f32 v_scale_above_f32(v_f32 x, v_f32 n, v_f32 power, float low)
{
    const __mmask16 counts = _mm512_cmp_ps_mask(power, v_splat_f32(low), _CMP_NLT_UQ);
    return (v_f32)_mm512_maskz_scalef_ps(counts, x, n);
}
static inline v_f64 v_scale_above_f64(v_f64 x, v_f64 n, v_f64 power, double low)
{
    const __mmask8 counts = _mm512_cmp_pd_mask(power, v_splat_f64(low), _CMP_NLT_UQ);
    return (v_f64)_mm512_maskz_scalef_pd(counts, x, n);
}
#else
static inline v_f32 v_scale_above_f32(v_f32 x, v_f32 n, v_f32 power, float low)
{
    const v_i32 counts = ~(v_i32)(power < low);
    return (v_f32)((v_i32)v_scale_f32(x, (v_f32)((v_i32)n & counts)) & counts);
}
static inline v_f64 v_scale_above_f64(v_f64 x, v_f64 n, v_f64 power, double low)
{
    const v_i64 counts = ~(v_i64)(power < low);
    return (v_f64)((v_i64)v_scale_f64(x, (v_f64)((v_i64)n & counts)) & counts);
}
#endif
