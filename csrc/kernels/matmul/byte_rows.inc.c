/* matmul/byte_rows.inc.c - a row times a B of bytes whose rows are dense, as it lies.
 *
 * Such a product reads every item of B once, so it runs as fast as B arrives, and B is read in the
 * order in which it lies: eight k at a time go along the columns, and add to sums in the first-level
 * cache.  Neighbours along k are made pairs, of 16 bits each, in registers; the lanes of a vector of
 * columns are in the order in which that is one instruction, until the end.
 */
enum { BYTE_TOGETHER = 8, BYTE_PIECE = 2048 /* columns */ };

/* Of the lanes of a and b, those of each 16 bytes by turns: the lower, and the upper ones. */
static inline v_i16 byte_zip(v_i16 a, v_i16 b, bool upper)
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 64
    return (v_i16)(upper ? _mm512_unpackhi_epi16((__m512i)a, (__m512i)b)
                         : _mm512_unpacklo_epi16((__m512i)a, (__m512i)b));
#elif defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    return (v_i16)(upper ? _mm256_unpackhi_epi16((__m256i)a, (__m256i)b)
                         : _mm256_unpacklo_epi16((__m256i)a, (__m256i)b));
#elif defined(__x86_64__)
    return (v_i16)(upper ? _mm_unpackhi_epi16((__m128i)a, (__m128i)b)
                         : _mm_unpacklo_epi16((__m128i)a, (__m128i)b));
#elif defined(__aarch64__) && HYB_VECTOR_BYTES == 16
    return upper ? (v_i16)vzip2q_s16((int16x8_t)a, (int16x8_t)b)
                 : (v_i16)vzip1q_s16((int16x8_t)a, (int16x8_t)b);
#else
    v_i16 zipped;
    for (int i = 0; i < HYB_LANES_16; i++) {
        const int from = i / 8 * 8 + (upper ? 4 : 0) + i % 8 / 2;
        zipped[i] = i & 1 ? b[from] : a[from];
    }
    return zipped;
#endif
}

/* The column, of HYB_LANES_16, that lane i of both vectors of sums is of. */
static inline int64_t byte_zipped(int64_t i)
{
    const int64_t half = i / HYB_LANES_32, lane = i % HYB_LANES_32;
    return lane / 4 * 8 + half * 4 + lane % 4;
}

/* sum += BYTE_TOGETHER k of HYB_LANES_16 columns; inlined with constant `b_signed`. */
static inline __attribute__((always_inline)) void
byte_add_rows(v_sums sum[2], const v_i16 *items, const char *b, int64_t b_row, bool b_signed)
{
#pragma GCC unroll 4
    for (int p = 0; p < BYTE_TOGETHER / 2; p++, b += 2 * b_row) {
        const v_i16 first = b_signed ? v_widen_i8(b) : v_widen_u8(b);
        const v_i16 second = b_signed ? v_widen_i8(b + b_row) : v_widen_u8(b + b_row);
        sum[0] = v_add_pairs(sum[0], items[p], byte_zip(first, second, false));
        sum[1] = v_add_pairs(sum[1], items[p], byte_zip(first, second, true));
    }
}

static inline int32_t byte_item(const char *a, bool is_signed)
{
    return is_signed ? (signed char)*a : (unsigned char)*a;
}

/* c = a row times columns [0, cols) of B, cols <= BYTE_PIECE. */
static void byte_row(const char *a, int64_t a_col, bool a_signed, const char *b, int64_t b_row,
                     bool b_signed, int64_t k, int32_t *c, int64_t cols, v_sums (*sums)[2])
{
    const int64_t whole = cols / HYB_LANES_16 * HYB_LANES_16, part = cols - whole;
    memset(sums, 0, (size_t)matmul_ceil(cols, HYB_LANES_16) * sizeof *sums);
    for (int64_t i = 0; i < k; i += BYTE_TOGETHER, b += BYTE_TOGETHER * b_row) {
        const int64_t here = matmul_smaller(BYTE_TOGETHER, k - i);
        v_i16 items[BYTE_TOGETHER / 2];
        for (int64_t p = 0; p < BYTE_TOGETHER / 2; p++) {
            uint32_t pair = 0;
            for (int64_t s = 0; s < 2; s++)
                if (2 * p + s < here)
                    pair |= (uint32_t)(uint16_t)byte_item(a + (i + 2 * p + s) * a_col, a_signed)
                            << (16 * s);
            items[p] = (v_i16)v_splat_i32((int32_t)pair);
        }
        char copy[BYTE_TOGETHER][HYB_LANES_16];
        int64_t j = 0;
        if (here == BYTE_TOGETHER) {
            if (b_signed)
                for (; j < whole; j += HYB_LANES_16)
                    byte_add_rows(sums[j / HYB_LANES_16], items, b + j, b_row, true);
            else
                for (; j < whole; j += HYB_LANES_16)
                    byte_add_rows(sums[j / HYB_LANES_16], items, b + j, b_row, false);
        }
        for (; j < cols; j += HYB_LANES_16) {
            const int64_t wide = matmul_smaller(HYB_LANES_16, cols - j);
            memset(copy, 0, sizeof copy);
            for (int64_t r = 0; r < here; r++)
                memcpy(copy[r], b + r * b_row + j, (size_t)wide);
            if (b_signed)
                byte_add_rows(sums[j / HYB_LANES_16], items, copy[0], HYB_LANES_16, true);
            else
                byte_add_rows(sums[j / HYB_LANES_16], items, copy[0], HYB_LANES_16, false);
        }
    }
    for (int64_t j = 0; j < cols; j += HYB_LANES_16) {
        int32_t total[HYB_LANES_16], ordered[HYB_LANES_16];
        for (int half = 0; half < 2; half++)
            v_store_i32(total + half * HYB_LANES_32, v_sums_total(sums[j / HYB_LANES_16][half]));
        for (int64_t l = 0; l < HYB_LANES_16; l++)
            ordered[byte_zipped(l)] = total[l];
        memcpy(c + j, ordered, (size_t)(j < whole ? HYB_LANES_16 : part) * sizeof *c);
    }
}
