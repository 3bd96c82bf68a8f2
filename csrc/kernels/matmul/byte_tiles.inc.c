/* matmul/byte_tiles.inc.c - what registers do of products of bytes: tiles, and dot products.
 *
 * A word is 32 bits of neighbours along k: four bytes where an instruction multiplies those
 * (HYB_DOT_BYTES), else two, widened to 16 bits, of which no product overflows.  An instruction
 * multiplies a vector of words with another and adds what each gives to a sum.
 *
 * A tile multiplies some rows of A, in words, with a panel of B: words of BYTE_COLS columns side by
 * side.  It keeps all its sums in registers, and broadcasts a word of A at a time.  A few rows and a
 * B whose columns run along k are multiplied as they lie, vectors of words along k.
 *
 * Bytes of B in a panel are unsigned: those of an int8 have 128 added to them.  Each sum begins with
 * what sets that right, -128 times the sum of the row of A.
 */
#if HYB_DOT_BYTES
#define BYTE_PER 4
#else
#define BYTE_PER 2
#endif
#if HYB_VECTOR_BYTES == 64
#define BYTE_ROWS 12
#define BYTE_EACH_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12)
#elif HYB_VECTOR_BYTES == 32
#define BYTE_ROWS 6
#define BYTE_EACH_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6)
#else
#define BYTE_ROWS 4
#define BYTE_EACH_ROWS(f) f(1) f(2) f(3) f(4)
#endif
enum {
    BYTE_COLS = 2 * HYB_LANES_32,
    BYTE_LINE = HYB_LANES_32 * BYTE_PER,          /* bytes of the words of half a panel */
    BYTE_CHUNK = HYB_VECTOR_BYTES * BYTE_PER / 4, /* bytes of a vector of words */
    BYTE_DOTS = 4,                                /* columns of a dot product */
    BYTE_FETCHING = 4,                            /* rows of tiles that fetch their panel */
    BYTE_AHEAD = 512,                             /* bytes */
};

typedef int byte_unaligned __attribute__((aligned(1), may_alias));

#if HYB_DOT_BYTES
typedef v_u8  byte_words;
typedef v_i32 byte_sums;
static inline v_i32 byte_total(byte_sums sum) { return sum; }
static inline byte_sums byte_add(byte_sums sum, byte_words a, byte_words b, bool a_signed)
{
    return v_add_dots(sum, a, b, a_signed);
}
static inline byte_words byte_widened(const char *p, bool is_signed)
{
    (void)is_signed;
    return v_load_u8((const uint8_t *)p);
}
/* Words of a panel, signed where A is such that they have to be. */
static inline byte_words byte_line(const char *p, bool a_signed)
{
    const byte_words line = v_load_u8((const uint8_t *)p);
    return v_dots_signed(a_signed) ? line ^ 128 : line;
}
/* Words of a B as it lies. */
static inline byte_words byte_along(const char *p, bool a_signed, bool b_signed)
{
    const byte_words line = v_load_u8((const uint8_t *)p);
    return v_dots_signed(a_signed) != b_signed ? line ^ 128 : line;
}
/* By how much more than they are bytes of B count: in a panel, and where they lie. */
static inline int32_t byte_excess(bool a_signed, bool b_signed, bool panel)
{
    (void)panel;
    return (b_signed ? 128 : 0) - (v_dots_signed(a_signed) ? 128 : 0);
}
static const uint8_t byte_ones[HYB_VECTOR_BYTES] = {[0 ... HYB_VECTOR_BYTES - 1] = 1};
#else
typedef v_i16  byte_words;
typedef v_sums byte_sums;
static inline v_i32 byte_total(byte_sums sum) { return v_sums_total(sum); }
static inline byte_sums byte_add(byte_sums sum, byte_words a, byte_words b, bool a_signed)
{
    (void)a_signed;
    return v_add_pairs(sum, a, b);
}
static inline byte_words byte_widened(const char *p, bool is_signed)
{
    return is_signed ? v_widen_i8(p) : v_widen_u8(p);
}
static inline byte_words byte_line(const char *p, bool a_signed)
{
    (void)a_signed;
    return v_widen_u8(p);
}
static inline byte_words byte_along(const char *p, bool a_signed, bool b_signed)
{
    (void)a_signed;
    return byte_widened(p, b_signed);
}
static inline int32_t byte_excess(bool a_signed, bool b_signed, bool panel)
{
    (void)a_signed;
    return panel && b_signed ? 128 : 0;
}
static const int16_t byte_ones[HYB_LANES_16] = {[0 ... HYB_LANES_16 - 1] = 1};
#endif

/* Keeps sums in registers. */
static inline __attribute__((always_inline)) void byte_hold(byte_sums *sum)
{
#if defined(__aarch64__) && !HYB_DOT_BYTES
    v_hold(sum->low);
    v_hold(sum->high);
#else
    v_hold(*sum);
#endif
}

static inline byte_words byte_words_at(const char *p)
{
    byte_words words;
    memcpy(&words, p, sizeof words);
    return words;
}

static inline byte_words byte_broadcast(const char *p)
{
    return (byte_words)v_splat_i32(*(const byte_unaligned *)p);
}

/* What the tile of some rows and a panel of columns reads and writes. */
typedef struct {
    const char    *a; /* words: rows are a_step bytes apart */
    int64_t        a_step;
    const char    *b; /* a panel; or columns b_step bytes apart */
    int64_t        b_step;
    int64_t        items; /* of k */
    const int32_t *start; /* of the sums of each row */
    int32_t       *c;
    int64_t        c_step, cols;
    bool           add, a_signed, b_signed;
} byte_tile;

static inline void byte_put(int32_t *to, v_i32 sum, int64_t count, bool add)
{
    if (count >= HYB_LANES_32) {
        v_store_i32(to, (v_i32)((v_u32)sum + (v_u32)(add ? v_load_i32(to) : (v_i32){0})));
    } else if (count > 0) {
        if (add)
            sum = (v_i32)((v_u32)sum + (v_u32)v_load_part_i32(to, count));
        v_store_part_i32(to, sum, count);
    }
}

/* Inlined with constant `rows` and `a_signed` everywhere. */
static inline __attribute__((always_inline)) void
byte_multiply(int rows, bool a_signed, const byte_tile *t)
{
    byte_sums sum[BYTE_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            sum[i][v] = (byte_sums){0};
    /* Rows are found from every third of them: one address each would spill. */
    const char *third[(BYTE_ROWS + 2) / 3];
    const int64_t a_step = t->a_step;
#pragma GCC unroll 4
    for (int i = 0; i < (rows + 2) / 3; i++) {
        third[i] = t->a + 3 * i * a_step;
        __asm__("" : "+r"(third[i]));
    }
    const char *b = t->b;
    for (int64_t left = t->items; left > 0; left -= BYTE_PER, b += 2 * BYTE_LINE) {
        byte_words first = byte_line(b, a_signed), second = byte_line(b + BYTE_LINE, a_signed);
        if (rows <= BYTE_FETCHING) /* with few rows the panel comes from afar */
            __builtin_prefetch(b + BYTE_AHEAD);
        v_hold(first);
        v_hold(second);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const byte_words item = byte_broadcast(third[i / 3] + i % 3 * a_step);
            sum[i][0] = byte_add(sum[i][0], item, first, a_signed);
            sum[i][1] = byte_add(sum[i][1], item, second, a_signed);
        }
#pragma GCC unroll 4
        for (int i = 0; i < (rows + 2) / 3; i++)
            third[i] += 4;
        /* Else some compilers also store each sum at every turn. */
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++)
                byte_hold(&sum[i][v]);
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const v_u32 total = (v_u32)byte_total(sum[i][v]) + (uint32_t)t->start[i];
            byte_put(t->c + i * t->c_step + v * HYB_LANES_32, (v_i32)total,
                     t->cols - v * HYB_LANES_32, t->add);
        }
}

/* The sums of the lanes of four vectors. */
static inline void byte_fold(const v_i32 sum[BYTE_DOTS], int32_t total[BYTE_DOTS])
{
#if defined(__x86_64__) && HYB_VECTOR_BYTES == 32
    const __m256i low = _mm256_hadd_epi32((__m256i)sum[0], (__m256i)sum[1]);
    const __m256i high = _mm256_hadd_epi32((__m256i)sum[2], (__m256i)sum[3]);
    const __m256i both = _mm256_hadd_epi32(low, high);
    _mm_storeu_si128((__m128i *)total, _mm_add_epi32(_mm256_castsi256_si128(both),
                                                     _mm256_extracti128_si256(both, 1)));
#else
    for (int j = 0; j < BYTE_DOTS; j++) {
        uint32_t all = 0;
        for (int i = 0; i < HYB_LANES_32; i++)
            all += (uint32_t)sum[j][i];
        total[j] = (int32_t)all;
    }
#endif
}

/* At most four columns as they lie; inlined with constant `rows` and signs everywhere. */
static inline __attribute__((always_inline)) void
byte_dots(int rows, bool a_signed, bool b_signed, const byte_tile *t)
{
    byte_sums sum[2][BYTE_DOTS];
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < BYTE_DOTS; j++)
            sum[i][j] = (byte_sums){0};
    const char *a = t->a, *column[BYTE_DOTS];
#pragma GCC unroll 4
    for (int j = 0; j < BYTE_DOTS; j++)
        column[j] = t->b + (j < t->cols ? j : 0) * t->b_step;
    const int64_t tail = t->items % BYTE_CHUNK, whole = t->items - tail;
    char last[BYTE_DOTS][BYTE_CHUNK];
    for (int64_t k = 0, end = whole;; end = BYTE_CHUNK) {
        for (; k < end; k += BYTE_CHUNK, a += HYB_VECTOR_BYTES) {
            byte_words row[2];
#pragma GCC unroll 2
            for (int i = 0; i < rows; i++)
                row[i] = byte_words_at(a + i * t->a_step);
#pragma GCC unroll 4
            for (int j = 0; j < BYTE_DOTS; j++) {
                const byte_words words = byte_along(column[j] + k, a_signed, b_signed);
#pragma GCC unroll 2
                for (int i = 0; i < rows; i++)
                    sum[i][j] = byte_add(sum[i][j], row[i], words, a_signed);
            }
        }
        if (tail == 0 || column[0] == last[0])
            break;
#pragma GCC unroll 4
        for (int j = 0; j < BYTE_DOTS; j++) {
            memset(last[j], 0, BYTE_CHUNK); /* and so are the words of A */
            memcpy(last[j], column[j] + whole, (size_t)tail);
            column[j] = last[j];
        }
        k = 0;
    }
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++) {
        v_i32 each[BYTE_DOTS];
        int32_t total[BYTE_DOTS];
#pragma GCC unroll 4
        for (int j = 0; j < BYTE_DOTS; j++)
            each[j] = byte_total(sum[i][j]);
        byte_fold(each, total);
        int32_t *c = t->c + i * t->c_step;
        for (int j = 0; j < BYTE_DOTS && j < t->cols; j++)
            c[j] = (int32_t)((uint32_t)total[j] + (uint32_t)t->start[i] +
                             (uint32_t)(t->add ? c[j] : 0));
    }
}

typedef void (*byte_tile_fn)(const byte_tile *tile);

#if HYB_DOT_BYTES
#define BYTE_TILE(rows)                                                                            \
    static void byte_tile_##rows(const byte_tile *t)                                               \
    {                                                                                              \
        if (t->a_signed)                                                                           \
            byte_multiply(rows, true, t);                                                          \
        else                                                                                       \
            byte_multiply(rows, false, t);                                                         \
    }
#else
#define BYTE_TILE(rows)                                                                            \
    static void byte_tile_##rows(const byte_tile *t) { byte_multiply(rows, true, t); }
#endif
#define BYTE_NAME(rows) byte_tile_##rows,
BYTE_EACH_ROWS(BYTE_TILE)
static const byte_tile_fn byte_tiles[BYTE_ROWS] = {BYTE_EACH_ROWS(BYTE_NAME)};

#define BYTE_DOTS_OF(rows)                                                                         \
    static void byte_dots_##rows(const byte_tile *t)                                               \
    {                                                                                              \
        if (t->a_signed && t->b_signed)                                                            \
            byte_dots(rows, true, true, t);                                                        \
        else if (t->a_signed)                                                                      \
            byte_dots(rows, true, false, t);                                                       \
        else if (t->b_signed)                                                                      \
            byte_dots(rows, false, true, t);                                                       \
        else                                                                                       \
            byte_dots(rows, false, false, t);                                                      \
    }
BYTE_DOTS_OF(1)
BYTE_DOTS_OF(2)
#undef BYTE_TILE
#undef BYTE_NAME
#undef BYTE_DOTS_OF
