/* vec_bytes.h - bytes in lanes of 16 and 32 bits, and sums of their products; a part of vec.h.
 *
 * HYB_DOT_BYTES, which an instruction set defines before vec.h: 1 if it has an instruction that adds
 * four products of bytes to each lane of 32 bits; 2 if that is emulated, for tests. */
#ifndef HYB_DOT_BYTES
#define HYB_DOT_BYTES 0
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

/* HYB_LANES_16 bytes, each in a lane. */
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
#define HYB_WIDEN(p, kind) \
    (v_i16)_mm512_cvtep##kind##8_epi16(_mm256_loadu_si256((const void *)(p)))
static inline v_i16 v_widen_i8(const void *p) { return HYB_WIDEN(p, i); }
static inline v_i16 v_widen_u8(const void *p) { return HYB_WIDEN(p, u); }
#undef HYB_WIDEN
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
#define HYB_WIDEN(p, kind) (v_i16)_mm256_cvtep##kind##8_epi16(_mm_loadu_si128((const void *)(p)))
static inline v_i16 v_widen_i8(const void *p) { return HYB_WIDEN(p, i); }
static inline v_i16 v_widen_u8(const void *p) { return HYB_WIDEN(p, u); }
#undef HYB_WIDEN
#elif defined(__x86_64__)
static inline v_i16 v_widen_i8(const void *p)
{
    const __m128i bytes = _mm_loadl_epi64(p);
    return (v_i16)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
static inline v_i16 v_widen_u8(const void *p)
{
    return (v_i16)_mm_unpacklo_epi8(_mm_loadl_epi64(p), _mm_setzero_si128());
}
#else
typedef int8_t v_i8_16 __attribute__((vector_size(HYB_LANES_16)));
static inline v_i16 v_widen_i8(const void *p)
{
    v_i8_16 bytes;
    memcpy(&bytes, p, sizeof bytes);
    return __builtin_convertvector(bytes, v_i16);
}
static inline v_i16 v_widen_u8(const void *p)
{
    v_u8_16 bytes;
    memcpy(&bytes, p, sizeof bytes);
    return __builtin_convertvector(bytes, v_i16);
}
#endif

/* HYB_LANES_32 bytes, each in a lane. */
static inline v_u32 v_spread_u8(const void *p)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_u32)_mm512_cvtepu8_epi32(_mm_loadu_si128(p));
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    return (v_u32)_mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
#else
    v_u8_32 bytes;
    memcpy(&bytes, p, sizeof bytes);
    return __builtin_convertvector(bytes, v_u32);
#endif
}

/* Stores the lower half of each lane. */
static inline void v_store_halves_u32(void *to, v_u32 x)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16((__m512i)x));
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    const v_u32 low = x & 0xffff;
    const __m256i packed = _mm256_packus_epi32((__m256i)low, (__m256i)low);
    _mm_storeu_si128(to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 8)));
#else
    typedef uint16_t v_u16_32 __attribute__((vector_size(HYB_VECTOR_BYTES / 2)));
    const v_u16_32 low = __builtin_convertvector(x, v_u16_32);
    memcpy(to, &low, sizeof low);
#endif
}

/* Stores the last byte of each lane, which holds a number that a signed byte can be. */
static inline void v_store_bytes_u32(void *to, v_u32 x)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    _mm_storeu_si128(to, _mm512_cvtepi32_epi8((__m512i)x));
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)x),
                                          _mm256_extracti128_si256((__m256i)x, 1));
    _mm_storel_epi64(to, _mm_packs_epi16(words, words));
#elif defined(__x86_64__)
    const __m128i words = _mm_packs_epi32((__m128i)x, (__m128i)x);
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
    memcpy(to, &bytes, sizeof bytes);
#else
    const v_u8_32 bytes = __builtin_convertvector(x, v_u8_32);
    memcpy(to, &bytes, sizeof bytes);
#endif
}

/* Sums of products in lanes of 32 bits, and what they come to: lane i is of lanes 2i and 2i + 1 of
 * the products.  Adding both is an instruction on x86; elsewhere it is left for the end. */
#if defined(__aarch64__)
typedef struct { v_i32 low, high; } v_sums;
static inline v_sums v_add_pairs(v_sums sum, v_i16 a, v_i16 b)
{
    const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    sum.low = (v_i32)vmlal_s16((int32x4_t)sum.low, vget_low_s16(x), vget_low_s16(y));
    sum.high = (v_i32)vmlal_high_s16((int32x4_t)sum.high, x, y);
    return sum;
}
static inline v_i32 v_sums_total(v_sums sum)
{
    return (v_i32)vpaddq_s32((int32x4_t)sum.low, (int32x4_t)sum.high);
}
#else
typedef v_i32 v_sums;
static inline v_i32 v_add_pairs(v_i32 sum, v_i16 a, v_i16 b)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    const __m512i products = _mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    const __m256i products = _mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    const __m128i products = _mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    v_i32 products;
    for (int i = 0; i < HYB_LANES_32; i++)
        products[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
#endif
    return (v_i32)((v_u32)sum + (v_u32)products);
}
static inline v_i32 v_sums_total(v_i32 sum) { return sum; }
#endif

#if HYB_DOT_BYTES
/* Whether the bytes of b have to be signed for those of a: of x86 one factor is signed and the other
 * is not, of NEON both are or neither. */
#if defined(__aarch64__) && HYB_DOT_BYTES == 1
static inline bool v_dots_signed(bool a_signed) { return a_signed; }
#else
static inline bool v_dots_signed(bool a_signed) { return !a_signed; }
#endif

/* Adds the products of four bytes of a with four of b to each lane. */
static inline v_i32 v_add_dots(v_i32 sum, v_u8 a, v_u8 b, bool a_signed)
{
#if HYB_DOT_BYTES == 2
    for (int i = 0; i < HYB_VECTOR_BYTES; i++)
        sum[i / 4] = (int32_t)((uint32_t)sum[i / 4] +
                               (uint32_t)(a_signed ? (int8_t)a[i] * b[i] : a[i] * (int8_t)b[i]));
    return sum;
#elif defined(__aarch64__)
    if (a_signed)
        return (v_i32)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
    return (v_i32)vdotq_u32((uint32x4_t)sum, (uint8x16_t)a, (uint8x16_t)b);
#else
    const v_u8 u = a_signed ? b : a, s = a_signed ? a : b;
#if HYB_VECTOR_BYTES == 64
    return (v_i32)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u, (__m512i)s);
#else
    return (v_i32)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)u, (__m256i)s);
#endif
#endif
}
#endif
