/* vec_bytes.h - bytes and halves of bytes: lanes of 16 and 32 bits, tables in registers, and exact
 * sums of products; a part of vec.h.
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

/* a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1], in 32 bits. */
static inline v_i32 v_dot_i16(v_i16 a, v_i16 b)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_i32)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    return (v_i32)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    return (v_i32)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    const v_i32 even = ((v_i32)a << 16 >> 16) * ((v_i32)b << 16 >> 16);
    return even + ((v_i32)a >> 16) * ((v_i32)b >> 16);
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
    return (v_i32)((v_u32)sum + (v_u32)v_dot_i16(a, b));
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

/* Lanes of v by their numbers. */
static inline v_f32 v_pick_f32(v_f32 v, v_i32 lane)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_f32)_mm512_permutexvar_ps((__m512i)lane, (__m512)v);
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    return (v_f32)_mm256_permutevar8x32_ps((__m256)v, (__m256i)lane);
#else
    v_f32 picked;
    for (int i = 0; i < HYB_LANES_32; i++)
        picked[i] = v[lane[i]];
    return picked;
#endif
}

/* As many bytes as there are lanes, each with its sign. */
static inline v_i32 v_spread_i8(const void *bytes)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_i32)_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes));
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    return (v_i32)_mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes));
#else
    int32_t word;
    memcpy(&word, bytes, sizeof word);
    const v_u32 every = v_splat_u32((uint32_t)word);
    const v_u32 power = {1u << 24, 1u << 16, 1u << 8, 1}; /* SSE2 has no shifts lane by lane */
    return (v_i32)(every * power) >> 24;
#endif
}

/* 1 where 16 numbers are a table in registers: table[index] for each lane, 0 <= index < 16. */
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
#define HYB_TABLES_OF_16 1
static inline v_f32 v_look_up_f32(const float *table, v_i32 index)
{
    return (v_f32)_mm512_permutexvar_ps((__m512i)index, (__m512)v_load_f32(table));
}
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
#define HYB_TABLES_OF_16 1
static inline v_f32 v_look_up_f32(const float *table, v_i32 index)
{
    const __m256 low = _mm256_permutevar8x32_ps((__m256)v_load_f32(table), (__m256i)index);
    const __m256 high = _mm256_permutevar8x32_ps((__m256)v_load_f32(table + 8), (__m256i)index);
    return (v_f32)_mm256_blendv_ps(low, high, (__m256)(v_i32)(index << 28));
}
#else
#define HYB_TABLES_OF_16 0
static inline v_f32 v_look_up_f32(const float *table, v_i32 index)
{
    v_f32 found;
    for (int i = 0; i < HYB_LANES_32; i++)
        found[i] = table[index[i]];
    return found;
}
#endif

/* 1 where a table is faster byte by byte: of each of its numbers there is one byte in each of four
 * planes.  Of 32 bytes, the numbers of the lower halves go to 0 to 3, those of the upper ones to 4
 * to 7: lane 4 h + l of number i is that of byte 16 h + 4 i + l. */
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 32
#define HYB_TABLES_OF_PLANES 1
static inline void v_planes_of(const float *table, v_u8 planes[4])
{
    unsigned char bytes[4][32];
    for (int i = 0; i < 16; i++) {
        unsigned char item[4];
        memcpy(item, table + i, 4);
        for (int p = 0; p < 4; p++)
            bytes[p][i] = bytes[p][16 + i] = item[p];
    }
    for (int p = 0; p < 4; p++)
        planes[p] = v_load_u8(bytes[p]);
}
static inline __attribute__((always_inline)) void v_look_up_halves(v_u8 bytes, const v_u8 planes[4],
                                                                   v_f32 found[8])
{
    const __m256i fifteen = _mm256_set1_epi8(15);
    const __m256i of[2] = {
        _mm256_and_si256((__m256i)bytes, fifteen),
        _mm256_and_si256(_mm256_srli_epi16((__m256i)bytes, 4), fifteen),
    };
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        __m256i plane[4];
#pragma GCC unroll 4
        for (int p = 0; p < 4; p++)
            plane[p] = _mm256_shuffle_epi8((__m256i)planes[p], of[h]);
        const __m256i a = _mm256_unpacklo_epi8(plane[0], plane[1]);
        const __m256i b = _mm256_unpackhi_epi8(plane[0], plane[1]);
        const __m256i c = _mm256_unpacklo_epi8(plane[2], plane[3]);
        const __m256i d = _mm256_unpackhi_epi8(plane[2], plane[3]);
        found[4 * h] = (v_f32)_mm256_unpacklo_epi16(a, c);
        found[4 * h + 1] = (v_f32)_mm256_unpackhi_epi16(a, c);
        found[4 * h + 2] = (v_f32)_mm256_unpacklo_epi16(b, d);
        found[4 * h + 3] = (v_f32)_mm256_unpackhi_epi16(b, d);
    }
}
/* The first bytes of four words, then the second ones and so on, in each 128 bits: what
 * v_look_up_halves takes to find halves 2 i (number i) and 2 i + 1 (number 4 + i) of all words. */
static inline v_u8 v_words_turned(v_u8 words)
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return (v_u8)_mm256_shuffle_epi8((__m256i)words, _mm256_broadcastsi128_si256(order));
}

/* Of 64 numbers those that meet what v_look_up_halves finds: every second one, then the others. */
static inline __attribute__((always_inline)) void v_as_halves(const float *x, v_f32 found[8])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m256 a = _mm256_loadu_ps(x + 8 * i), b = _mm256_loadu_ps(x + 32 + 8 * i);
#define IN_ORDER(v) (v_f32)_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8)
        found[i] = IN_ORDER(_mm256_shuffle_ps(a, b, 0x88));
        found[4 + i] = IN_ORDER(_mm256_shuffle_ps(a, b, 0xdd));
#undef IN_ORDER
    }
}
#else
#define HYB_TABLES_OF_PLANES 0
#endif

/* a[2i] b[2i] + a[2i+1] b[2i+1] of unsigned and signed bytes, where that fits into 16 bits. */
static inline v_i16 v_pairs_of_bytes(v_u8 a, v_i8 b)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES > 16
    return (v_i16)HYB_X86(maddubs_epi16)(HYB_X86_WORDS(a), HYB_X86_WORDS(b));
#else
    const v_i16 first = (v_i16)((v_u16)a & 255) * ((v_i16)((v_u16)b << 8) >> 8);
    return first + (v_i16)((v_u16)a >> 8) * ((v_i16)b >> 8);
#endif
}

/* The sums of four neighbours of a, then of b, c, and d. */
static inline v_i32 v_sums_of_4(v_i32 a, v_i32 b, v_i32 c, v_i32 d)
{
#if defined(__x86_64__)
#define SUMS_OF_2(a, b, size)                                                        \
    ((v_i32)HYB_X86(unpacklo_epi##size)(HYB_X86_WORDS(a), HYB_X86_WORDS(b)) +        \
     (v_i32)HYB_X86(unpackhi_epi##size)(HYB_X86_WORDS(a), HYB_X86_WORDS(b)))
    const v_i32 first = SUMS_OF_2(a, b, 32), second = SUMS_OF_2(c, d, 32);
    const v_i32 sums = SUMS_OF_2(first, second, 64); /* of a, b, c, d in each 128 bits */
#undef SUMS_OF_2
#if HYB_VECTOR_BYTES == 64
    const v_i32 order = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return (v_i32)_mm512_permutexvar_epi32((__m512i)order, (__m512i)sums);
#elif HYB_VECTOR_BYTES == 32
    const v_i32 order = {0, 4, 1, 5, 2, 6, 3, 7};
    return (v_i32)_mm256_permutevar8x32_epi32((__m256i)sums, (__m256i)order);
#else
    return sums;
#endif
#else
    const v_i32 of[4] = {a, b, c, d};
    v_i32 sums;
    for (int i = 0; i < HYB_LANES_32; i++) {
        const int v = i / (HYB_LANES_32 / 4), lane = i % (HYB_LANES_32 / 4) * 4;
        sums[i] = of[v][lane] + of[v][lane + 1] + of[v][lane + 2] + of[v][lane + 3];
    }
    return sums;
#endif
}
