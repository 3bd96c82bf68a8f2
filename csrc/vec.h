/* vec.h - lanes of one instruction set, on GCC/Clang vector extensions.
 *
 * Included once by every isa/<name>.c, inside its target pragma, after HYB_ISA and HYB_VECTOR_BYTES
 * are defined (and, on x86, <immintrin.h> before the pragma).  Masks are integer vectors of the
 * lane's size: all ones or zero.  Intrinsics live here and nowhere else, only where the vector
 * extensions have no word for an instruction; each has a plain twin for other machines. */
#ifndef HYB_VEC_H
#define HYB_VEC_H

#define HYB_LANES_16 (HYB_VECTOR_BYTES / 2)
#define HYB_LANES_32 (HYB_VECTOR_BYTES / 4)
#define HYB_LANES_64 (HYB_VECTOR_BYTES / 8)

#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
#define HYB_X86(name) _mm512_##name
#define HYB_X86_WORDS(v) ((__m512i)(v))
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
#define HYB_X86(name) _mm256_##name
#define HYB_X86_WORDS(v) ((__m256i)(v))
#elif defined(__x86_64__)
#define HYB_X86(name) _mm_##name
#define HYB_X86_WORDS(v) ((__m128i)(v))
#endif

/* 1 where a * b + c is one instruction that rounds once.  -ffp-contract=fast makes it of the
 * expression when optimising; v_fused_<dtype> is for the places that depend on it. */
#if defined(__aarch64__) || HYB_VECTOR_BYTES >= 32
#define HYB_FUSED 1
#else
#define HYB_FUSED 0
#endif

#define HYB_VEC_TYPE(T, name, nbytes) typedef T name __attribute__((vector_size(nbytes)));
HYB_VEC_TYPE(float, v_f32, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(double, v_f64, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(int32_t, v_i32, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(uint32_t, v_u32, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(int64_t, v_i64, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(uint64_t, v_u64, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(uint8_t, v_u8, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(int8_t, v_i8, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(int16_t, v_i16, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(uint16_t, v_u16, HYB_VECTOR_BYTES)
HYB_VEC_TYPE(float, v_f32_half, HYB_VECTOR_BYTES / 2) /* as many lanes as v_f64 */
HYB_VEC_TYPE(uint8_t, v_u8_16, HYB_LANES_16)          /* one byte for each lane of v_i16 */
HYB_VEC_TYPE(uint8_t, v_u8_32, HYB_LANES_32)          /* one byte for each lane of v_i32 */
HYB_VEC_TYPE(uint8_t, v_u8_64, HYB_LANES_64)          /* one byte for each lane of v_i64 */

/* Copies nbytes < HYB_VECTOR_BYTES in a few fixed pieces: no call, no loop. */
static inline void v_copy_bytes(void *to, const void *from, int64_t nbytes)
{
    char       *d = to;
    const char *s = from;
#define HYB_COPY_PIECE(size)       \
    if (nbytes & size) {           \
        memcpy(d, s, size);        \
        d += size;                 \
        s += size;                 \
    }
#if HYB_VECTOR_BYTES > 32
    HYB_COPY_PIECE(32)
#endif
#if HYB_VECTOR_BYTES > 16
    HYB_COPY_PIECE(16)
#endif
    HYB_COPY_PIECE(8)
    HYB_COPY_PIECE(4)
    HYB_COPY_PIECE(2)
    if (nbytes & 1)
        *d = *s;
#undef HYB_COPY_PIECE
}

/* load, store, splat. */
#define HYB_VEC_MEMORY(T, V, name)                                                        \
    static inline V v_load_##name(const T *p) { V v; memcpy(&v, p, sizeof v); return v; } \
    static inline void v_store_##name(T *p, V v) { memcpy(p, &v, sizeof v); }             \
    static inline V v_splat_##name(T x) { return x - (V){0}; }

HYB_VEC_MEMORY(float, v_f32, f32)
HYB_VEC_MEMORY(double, v_f64, f64)
HYB_VEC_MEMORY(int32_t, v_i32, i32)
HYB_VEC_MEMORY(int64_t, v_i64, i64)
HYB_VEC_MEMORY(uint8_t, v_u8, u8)
HYB_VEC_MEMORY(int8_t, v_i8, i8)
HYB_VEC_MEMORY(int16_t, v_i16, i16)
HYB_VEC_MEMORY(uint16_t, v_u16, u16)
HYB_VEC_MEMORY(uint32_t, v_u32, u32)
HYB_VEC_MEMORY(uint64_t, v_u64, u64)

/* Load the first n lanes (the rest are zero) and store the first n lanes, 0 <= n < lanes. */
#define HYB_VEC_PART(T, V, name)                                                          \
    static inline V v_load_part_##name(const T *p, int64_t n)                             \
    {                                                                                     \
        V v = {0};                                                                        \
        v_copy_bytes(&v, p, n * (int64_t)sizeof(T));                                      \
        return v;                                                                         \
    }                                                                                     \
    static inline void v_store_part_##name(T *p, V v, int64_t n)                          \
    {                                                                                     \
        v_copy_bytes(p, &v, n * (int64_t)sizeof(T));                                      \
    }

#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
#define HYB_VEC_PART_MASKED(T, V, name, X, mask, load, store)                             \
    static inline V v_load_part_##name(const T *p, int64_t n)                             \
    {                                                                                     \
        return (V)_mm512_maskz_##load((mask)((UINT64_C(1) << n) - 1), p);                 \
    }                                                                                     \
    static inline void v_store_part_##name(T *p, V v, int64_t n)                          \
    {                                                                                     \
        _mm512_mask_##store(p, (mask)((UINT64_C(1) << n) - 1), (X)v);                     \
    }
HYB_VEC_PART_MASKED(float, v_f32, f32, __m512, __mmask16, loadu_ps, storeu_ps)
HYB_VEC_PART_MASKED(double, v_f64, f64, __m512d, __mmask8, loadu_pd, storeu_pd)
HYB_VEC_PART_MASKED(int32_t, v_i32, i32, __m512i, __mmask16, loadu_epi32, storeu_epi32)
HYB_VEC_PART_MASKED(int64_t, v_i64, i64, __m512i, __mmask8, loadu_epi64, storeu_epi64)
HYB_VEC_PART_MASKED(uint32_t, v_u32, u32, __m512i, __mmask16, loadu_epi32, storeu_epi32)
HYB_VEC_PART_MASKED(uint64_t, v_u64, u64, __m512i, __mmask8, loadu_epi64, storeu_epi64)
HYB_VEC_PART_MASKED(int16_t, v_i16, i16, __m512i, __mmask32, loadu_epi16, storeu_epi16)
HYB_VEC_PART_MASKED(uint16_t, v_u16, u16, __m512i, __mmask32, loadu_epi16, storeu_epi16)
HYB_VEC_PART_MASKED(int8_t, v_i8, i8, __m512i, __mmask64, loadu_epi8, storeu_epi8)
HYB_VEC_PART_MASKED(uint8_t, v_u8, u8, __m512i, __mmask64, loadu_epi8, storeu_epi8)
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
/* Eight ones, then eight zeros: read from 8 - n on, the first n lanes of 32 bits. */
static const int32_t v_first_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static inline __m256i v_first_words(int64_t words)
{
    return (__m256i)v_load_i32(v_first_lanes + 8 - words);
}
#define HYB_VEC_PART_MASKED(T, V, name, P, X, words, suffix)                                  \
    static inline V v_load_part_##name(const T *p, int64_t n)                                 \
    {                                                                                         \
        return (V)_mm256_maskload_##suffix((P)p, v_first_words(n * words));                   \
    }                                                                                         \
    static inline void v_store_part_##name(T *p, V v, int64_t n)                              \
    {                                                                                         \
        _mm256_maskstore_##suffix((void *)p, v_first_words(n * words), (X)v);                 \
    }
HYB_VEC_PART_MASKED(float, v_f32, f32, const float *, __m256, 1, ps)
HYB_VEC_PART_MASKED(double, v_f64, f64, const double *, __m256d, 2, pd)
HYB_VEC_PART_MASKED(int32_t, v_i32, i32, const int *, __m256i, 1, epi32)
HYB_VEC_PART_MASKED(int64_t, v_i64, i64, const long long *, __m256i, 2, epi64)
HYB_VEC_PART_MASKED(uint32_t, v_u32, u32, const int *, __m256i, 1, epi32)
HYB_VEC_PART_MASKED(uint64_t, v_u64, u64, const long long *, __m256i, 2, epi64)
HYB_VEC_PART(int16_t, v_i16, i16)
HYB_VEC_PART(uint16_t, v_u16, u16)
HYB_VEC_PART(int8_t, v_i8, i8)
HYB_VEC_PART(uint8_t, v_u8, u8)
#else
HYB_VEC_PART(float, v_f32, f32)
HYB_VEC_PART(double, v_f64, f64)
HYB_VEC_PART(int32_t, v_i32, i32)
HYB_VEC_PART(int64_t, v_i64, i64)
HYB_VEC_PART(uint32_t, v_u32, u32)
HYB_VEC_PART(uint64_t, v_u64, u64)
HYB_VEC_PART(int16_t, v_i16, i16)
HYB_VEC_PART(uint16_t, v_u16, u16)
HYB_VEC_PART(int8_t, v_i8, i8)
HYB_VEC_PART(uint8_t, v_u8, u8)
#endif

/* Load lanes [low, high), 0 <= low <= high <= lanes, but not all; the others are zero. */
static inline v_f32 v_load_between_f32(const float *p, int64_t low, int64_t high)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_f32)_mm512_maskz_loadu_ps((__mmask16)((1u << high) - (1u << low)), p);
#else
    v_f32 v = {0};
    v_copy_bytes((float *)&v + low, p + low, (high - low) * (int64_t)sizeof(float));
    return v;
#endif
}

/* Keeps a vector that has been loaded in a register, where the compiler would load it again for each
 * use: loads are what a loop of multiply-adds has least of. */
#if defined(__x86_64__)
#define v_hold(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define v_hold(x) __asm__("" : "+w"(x))
#else
#define v_hold(x) (void)(x)
#endif

/* mask ? a : b, lane by lane (GCC 12 has no vector ?: in C; this becomes a blend). */
static inline v_f32 v_select_f32(v_i32 mask, v_f32 a, v_f32 b)
{
    return (v_f32)(((v_i32)a & mask) | ((v_i32)b & ~mask));
}
static inline v_f64 v_select_f64(v_i64 mask, v_f64 a, v_f64 b)
{
    return (v_f64)(((v_i64)a & mask) | ((v_i64)b & ~mask));
}
#define HYB_VEC_SELECT(M, V, name)                                                        \
    static inline V v_select_##name(M mask, V a, V b)                                     \
    {                                                                                     \
        return (a & (V)mask) | (b & ~(V)mask);                                            \
    }
HYB_VEC_SELECT(v_u8, v_i8, i8)
HYB_VEC_SELECT(v_u8, v_u8, u8)
HYB_VEC_SELECT(v_i16, v_i16, i16)
HYB_VEC_SELECT(v_i16, v_u16, u16)
HYB_VEC_SELECT(v_i32, v_i32, i32)
HYB_VEC_SELECT(v_i32, v_u32, u32)
HYB_VEC_SELECT(v_i64, v_i64, i64)
HYB_VEC_SELECT(v_i64, v_u64, u64)

/* The sign bit alone, and everything but it. */
static inline v_f32 v_sign_f32(v_f32 x) { return (v_f32)((v_i32)x & INT32_MIN); }
static inline v_f64 v_sign_f64(v_f64 x) { return (v_f64)((v_i64)x & INT64_MIN); }
static inline v_f32 v_abs_f32(v_f32 x) { return (v_f32)((v_i32)x & INT32_MAX); }
static inline v_f64 v_abs_f64(v_f64 x) { return (v_f64)((v_i64)x & INT64_MAX); }
static inline v_f32 v_or_f32(v_f32 a, v_f32 b) { return (v_f32)((v_i32)a | (v_i32)b); }
static inline v_f64 v_or_f64(v_f64 a, v_f64 b) { return (v_f64)((v_i64)a | (v_i64)b); }

/* b > a ? b : a, so NaN in b is passed over; b < a ? b : a.  x held below / above a bound; NaN stays NaN.  Correctly
 * rounded square root. */
#if defined(__x86_64__)
static inline v_f32 v_larger_f32(v_f32 a, v_f32 b) { return (v_f32)HYB_X86(max_ps)(b, a); }
static inline v_f64 v_larger_f64(v_f64 a, v_f64 b) { return (v_f64)HYB_X86(max_pd)(b, a); }
static inline v_f32 v_smaller_f32(v_f32 a, v_f32 b) { return (v_f32)HYB_X86(min_ps)(b, a); }
static inline v_f32 v_at_most_f32(v_f32 x, float y)
{
    return (v_f32)HYB_X86(min_ps)(v_splat_f32(y), x);
}
static inline v_f64 v_at_most_f64(v_f64 x, double y)
{
    return (v_f64)HYB_X86(min_pd)(v_splat_f64(y), x);
}
static inline v_f32 v_at_least_f32(v_f32 x, float y)
{
    return (v_f32)HYB_X86(max_ps)(v_splat_f32(y), x);
}
static inline v_f64 v_at_least_f64(v_f64 x, double y)
{
    return (v_f64)HYB_X86(max_pd)(v_splat_f64(y), x);
}
static inline v_f32 v_sqrt_f32(v_f32 x) { return (v_f32)HYB_X86(sqrt_ps)(x); }
static inline v_f64 v_sqrt_f64(v_f64 x) { return (v_f64)HYB_X86(sqrt_pd)(x); }
#else
static inline v_f32 v_larger_f32(v_f32 a, v_f32 b) { return v_select_f32(b > a, b, a); }
static inline v_f64 v_larger_f64(v_f64 a, v_f64 b) { return v_select_f64(b > a, b, a); }
static inline v_f32 v_smaller_f32(v_f32 a, v_f32 b) { return v_select_f32(b < a, b, a); }
static inline v_f32 v_at_most_f32(v_f32 x, float y)
{
    return v_select_f32(x > y, v_splat_f32(y), x);
}
static inline v_f64 v_at_most_f64(v_f64 x, double y)
{
    return v_select_f64(x > y, v_splat_f64(y), x);
}
static inline v_f32 v_at_least_f32(v_f32 x, float y)
{
    return v_select_f32(x < y, v_splat_f32(y), x);
}
static inline v_f64 v_at_least_f64(v_f64 x, double y)
{
    return v_select_f64(x < y, v_splat_f64(y), x);
}
static inline v_f32 v_sqrt_f32(v_f32 x)
{
    for (int i = 0; i < HYB_LANES_32; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
}
static inline v_f64 v_sqrt_f64(v_f64 x)
{
    for (int i = 0; i < HYB_LANES_64; i++)
        x[i] = __builtin_sqrt(x[i]);
    return x;
}
#endif

#if HYB_FUSED
static inline v_f32 v_fused_f32(v_f32 a, v_f32 b, v_f32 c)
{
#if defined(__x86_64__)
    return (v_f32)HYB_X86(fmadd_ps)(a, b, c);
#else
    for (int i = 0; i < HYB_LANES_32; i++)
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#endif
}
static inline v_f64 v_fused_f64(v_f64 a, v_f64 b, v_f64 c)
{
#if defined(__x86_64__)
    return (v_f64)HYB_X86(fmadd_pd)(a, b, c);
#else
    for (int i = 0; i < HYB_LANES_64; i++)
        c[i] = __builtin_fma(a[i], b[i], c[i]);
    return c;
#endif
}
#endif

/* The first and the second half of the lanes in float64, and back. */
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
static inline v_f64 v_widen_first(v_f32 x)
{
    return (v_f64)_mm512_cvtps_pd(_mm512_castps512_ps256(x));
}
static inline v_f64 v_widen_second(v_f32 x)
{
    return (v_f64)_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}
static inline v_f32 v_narrow(v_f64 first, v_f64 second)
{
    const __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps(first));
    return (v_f32)_mm512_insertf32x8(low, _mm512_cvtpd_ps(second), 1);
}
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
static inline v_f64 v_widen_first(v_f32 x)
{
    return (v_f64)_mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
static inline v_f64 v_widen_second(v_f32 x)
{
    return (v_f64)_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}
static inline v_f32 v_narrow(v_f64 first, v_f64 second)
{
    return (v_f32)_mm256_set_m128(_mm256_cvtpd_ps(second), _mm256_cvtpd_ps(first));
}
#elif defined(__x86_64__)
static inline v_f64 v_widen_first(v_f32 x) { return (v_f64)_mm_cvtps_pd(x); }
static inline v_f64 v_widen_second(v_f32 x) { return (v_f64)_mm_cvtps_pd(_mm_movehl_ps(x, x)); }
static inline v_f32 v_narrow(v_f64 first, v_f64 second)
{
    return (v_f32)_mm_movelh_ps(_mm_cvtpd_ps(first), _mm_cvtpd_ps(second));
}
#else
static inline v_f64 v_widen_first(v_f32 x)
{
    v_f32_half half;
    memcpy(&half, &x, sizeof half);
    return __builtin_convertvector(half, v_f64);
}
static inline v_f64 v_widen_second(v_f32 x)
{
    v_f32_half half;
    memcpy(&half, (const char *)&x + sizeof half, sizeof half);
    return __builtin_convertvector(half, v_f64);
}
static inline v_f32 v_narrow(v_f64 first, v_f64 second)
{
    const v_f32_half halves[2] = {__builtin_convertvector(first, v_f32_half),
                                  __builtin_convertvector(second, v_f32_half)};
    v_f32            result;
    memcpy(&result, halves, sizeof result);
    return result;
}
#endif

#include "vec_exponent.h"
#include "vec_bytes.h"

/* Masks to bytes 0 or 1, and bytes (0: false) to masks: _16, _32 and _64 for masks of lanes of as
 * many bits. */
static inline v_u8_16 v_bytes_16(v_i16 mask)
{
    return __builtin_convertvector(mask, v_u8_16) & 1;
}
static inline v_i16 v_mask_16(v_u8_16 bytes)
{
    return (v_i16)(__builtin_convertvector(bytes, v_i16) != 0);
}
static inline v_u8_32 v_bytes_32(v_i32 mask)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    const __m128i bytes = _mm_maskz_set1_epi8(_mm512_movepi32_mask((__m512i)mask), 1);
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    const __m128i low = _mm256_castsi256_si128((__m256i)mask);
    const __m128i high = _mm256_extracti128_si256((__m256i)mask, 1);
    const __m128i words = _mm_packs_epi32(low, high);
    const int64_t bytes = _mm_cvtsi128_si64(_mm_packs_epi16(words, words)) & 0x0101010101010101;
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 16
    const __m128i words = _mm_packs_epi32((__m128i)mask, (__m128i)mask);
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(words, words)) & 0x01010101;
#else
    const v_u8_32 bytes = __builtin_convertvector(mask, v_u8_32) & 1;
#endif
    v_u8_32 result;
    memcpy(&result, &bytes, sizeof result);
    return result;
}
static inline v_u8_64 v_bytes_64(v_i64 mask)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    const int64_t bytes =
        _mm_cvtsi128_si64(_mm_maskz_set1_epi8(_mm512_movepi64_mask((__m512i)mask), 1));
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    const __m128i low = _mm256_castsi256_si128((__m256i)mask);
    const __m128i high = _mm256_extracti128_si256((__m256i)mask, 1);
    const __m128i words = _mm_packs_epi32(_mm_packs_epi32(low, high), low);
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(words, words)) & 0x01010101;
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 16
    const int     lanes = _mm_movemask_pd((__m128d)mask);
    const int16_t bytes = (int16_t)((lanes & 1) | (lanes & 2) << 7);
#else
    const v_u8_64 bytes = __builtin_convertvector(mask, v_u8_64) & 1;
#endif
    v_u8_64 result;
    memcpy(&result, &bytes, sizeof result);
    return result;
}
static inline v_i32 v_mask_32(v_u8_32 bytes)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_i32)((v_i32)_mm512_cvtepu8_epi32((__m128i)bytes) != 0);
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    return (v_i32)((v_i32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)&bytes)) != 0);
#elif defined(__x86_64__)
    int32_t word;
    memcpy(&word, &bytes, sizeof word);
    const __m128i zero = _mm_setzero_si128();
    const __m128i words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(word), zero);
    return (v_i32)((v_i32)_mm_unpacklo_epi16(words, zero) != 0);
#else
    return (v_i32)(__builtin_convertvector(bytes, v_i32) != 0);
#endif
}
static inline v_i64 v_mask_64(v_u8_64 bytes)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_i64)((v_i64)_mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)&bytes)) != 0);
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    int32_t word;
    memcpy(&word, &bytes, sizeof word);
    return (v_i64)((v_i64)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(word)) != 0);
#elif defined(__x86_64__)
    return (v_i64){bytes[0], bytes[1]} != 0;
#else
    return (v_i64)(__builtin_convertvector(bytes, v_i64) != 0);
#endif
}

/* The products of the low halves of 64-bit lanes. */
static inline v_u64 v_mul_low_u64(v_u64 a, v_u64 b)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_u64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    return (v_u64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    return (v_u64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & UINT32_MAX) * (b & UINT32_MAX);
#endif
}

/* Is the mask of a v_f64, of a v_f32 set anywhere? */
static inline bool v_any_f64(v_i64 mask)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__x86_64__)
    return HYB_X86(movemask_pd)((v_f64)mask) != 0;
#else
    int64_t any = 0;
    for (int i = 0; i < HYB_LANES_64; i++)
        any |= mask[i];
    return any != 0;
#endif
}
static inline bool v_any_f32(v_i32 mask)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES < 64
    return HYB_X86(movemask_ps)((v_f32)mask) != 0;
#else
    return v_any_f64((v_i64)mask);
#endif
}
#endif
