/* matmul/byte_panels.inc.c - copies of parts of A and B in the order in which byte tiles read them.
 *
 * Rows of A become words (matmul/byte_tiles.inc.c), with zeros behind the last item up to a whole
 * vector.  A panel of B is words of BYTE_COLS columns side by side, for as many k as a block has,
 * rounded up to whole fours; what it has beyond the items of B stands for zeros.
 */

/* `count` items, `step` bytes apart, as words at `to`; gives their sum. */
static uint32_t byte_pack_row(char *to, const char *from, int64_t step, int64_t count,
                              bool is_signed)
{
    byte_sums sum = {0};
    const byte_words ones = byte_words_at((const char *)byte_ones);
    for (int64_t k = 0; k < count; k += BYTE_CHUNK, to += HYB_VECTOR_BYTES) {
        const int64_t left = count - k;
        char part[BYTE_CHUNK];
        const char *at = from + k;
        if (step != 1 || left < BYTE_CHUNK) {
            memset(part, 0, sizeof part);
            if (step == 1)
                memcpy(part, at, (size_t)left);
            else
                for (int64_t i = 0; i < left && i < BYTE_CHUNK; i++)
                    part[i] = from[(k + i) * step];
            at = part;
        }
        const byte_words words = byte_widened(at, is_signed);
        memcpy(to, &words, sizeof words);
        sum = byte_add(sum, words, ones, is_signed);
    }
    const v_i32 total = byte_total(sum);
    uint32_t all = 0;
    for (int i = 0; i < HYB_LANES_32; i++)
        all += (uint32_t)total[i];
    return all;
}

#define BYTE_EACH(f) BYTE_EACH_(f)
#if HYB_LANES_32 == 16
#define BYTE_EACH_(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11),   \
        f(12), f(13), f(14), f(15)
#elif HYB_LANES_32 == 8
#define BYTE_EACH_(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#else
#define BYTE_EACH_(f) f(0), f(1), f(2), f(3)
#endif
/* Of two rows `d` apart: every 2d-wide square of the matrix swaps the quarters off its diagonal. */
#define BYTE_SWAP(d)                                                                               \
    _Pragma("GCC unroll 16") for (int i = 0; i < HYB_LANES_32; i++)                                \
        if (!(i & (d))) {                                                                          \
            const v_u32 upper = row[i], lower = row[i + (d)];                                      \
            row[i] = __builtin_shufflevector(upper, lower, BYTE_EACH(BYTE_UPPER_##d));             \
            row[i + (d)] = __builtin_shufflevector(upper, lower, BYTE_EACH(BYTE_LOWER_##d));       \
        }
#define BYTE_UPPER(lane, d) (((lane) & (d)) ? HYB_LANES_32 + (lane) - (d) : (lane))
#define BYTE_LOWER(lane, d) (((lane) & (d)) ? HYB_LANES_32 + (lane) : (lane) + (d))
#define BYTE_UPPER_1(lane) BYTE_UPPER(lane, 1)
#define BYTE_UPPER_2(lane) BYTE_UPPER(lane, 2)
#define BYTE_UPPER_4(lane) BYTE_UPPER(lane, 4)
#define BYTE_UPPER_8(lane) BYTE_UPPER(lane, 8)
#define BYTE_LOWER_1(lane) BYTE_LOWER(lane, 1)
#define BYTE_LOWER_2(lane) BYTE_LOWER(lane, 2)
#define BYTE_LOWER_4(lane) BYTE_LOWER(lane, 4)
#define BYTE_LOWER_8(lane) BYTE_LOWER(lane, 8)

static inline __attribute__((always_inline)) void byte_transpose(v_u32 row[HYB_LANES_32])
{
#if HYB_LANES_32 > 8
    BYTE_SWAP(8)
#endif
#if HYB_LANES_32 > 4
    BYTE_SWAP(4)
#endif
    BYTE_SWAP(2)
    BYTE_SWAP(1)
}

/* Four k of half a panel, of which lane i has those of column i. */
static inline void byte_store_four(char *panel, int64_t k, int half, v_u32 four, uint32_t flip)
{
    four ^= flip;
    char *to = panel + k * BYTE_COLS + half * BYTE_LINE;
#if BYTE_PER == 4
    v_store_u32((void *)to, four);
#else
    v_store_halves_u32(to, four);
    v_store_halves_u32(to + 2 * BYTE_LINE, four >> 16);
#endif
}

/* A panel of `count` columns that run across k: rows are `step` bytes apart. */
static void byte_pack_across(char *panel, const char *from, int64_t step, int64_t count,
                             int64_t depth, uint32_t flip)
{
    char part[4][BYTE_COLS];
    for (int64_t k = 0; k < depth; k += 4) {
        const char *row[4];
        for (int s = 0; s < 4; s++) {
            row[s] = from + (k + s) * step;
            if (count < BYTE_COLS || k + s >= depth) {
                memset(part[s], 0, BYTE_COLS);
                if (k + s < depth)
                    memcpy(part[s], row[s], (size_t)matmul_smaller(count, BYTE_COLS));
                row[s] = part[s];
            }
        }
        for (int half = 0; half < 2; half++) {
            const int at = half * HYB_LANES_32;
            const v_u32 four = v_spread_u8(row[0] + at) | v_spread_u8(row[1] + at) << 8 |
                               v_spread_u8(row[2] + at) << 16 | v_spread_u8(row[3] + at) << 24;
            byte_store_four(panel, k, half, four, flip);
        }
    }
}

/* A panel of `count` columns that run along k: they are `step` bytes apart. */
static void byte_pack_along(char *panel, const char *from, int64_t step, int64_t count,
                            int64_t depth, uint32_t flip)
{
    for (int half = 0; half < 2; half++) {
        const char *columns = from + half * HYB_LANES_32 * step;
        const int64_t there = count - half * HYB_LANES_32;
        for (int64_t k = 0; k < depth; k += HYB_VECTOR_BYTES) {
            const int64_t left = depth - k;
            v_u32 row[HYB_LANES_32];
#pragma GCC unroll 16
            for (int i = 0; i < HYB_LANES_32; i++) {
                row[i] = (v_u32){0};
                if (i < there && left >= HYB_VECTOR_BYTES)
                    memcpy(&row[i], columns + i * step + k, sizeof row[i]);
                else if (i < there)
                    v_copy_bytes(&row[i], columns + i * step + k, left);
            }
            byte_transpose(row);
            for (int s = 0; s < HYB_LANES_32 && 4 * s < left; s++)
                byte_store_four(panel, k + 4 * s, half, row[s], flip);
        }
    }
}

/* Columns of B over a block of k, panel by panel. */
static void byte_pack_columns(char *to, int64_t panel_bytes, const char *from, int64_t row,
                              int64_t col, int64_t count, int64_t depth, bool b_signed)
{
    const uint32_t flip = b_signed ? 0x80808080 : 0;
    for (int64_t j = 0; j < count; j += BYTE_COLS, to += panel_bytes) {
        const int64_t cols = matmul_smaller(BYTE_COLS, count - j);
        if (col == 1)
            byte_pack_across(to, from + j, row, cols, depth, flip);
        else
            byte_pack_along(to, from + j * col, col, cols, depth, flip);
    }
}
#undef BYTE_EACH
#undef BYTE_EACH_
#undef BYTE_SWAP
