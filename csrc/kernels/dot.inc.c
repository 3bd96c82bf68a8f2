/* dot.inc.c - products of matrices by dot products of neighbours along k.
 *
 *   c[i, m, n] = sum over k of a[i, m, k] * b[i, k, n]
 *
 * matmul             bfloat16 to bfloat16: sums in float32, rounded once at the end.
 * matmul_integer     int8 and uint8, in any combination, to int32.
 * conv_integer       convolution/integer.inc.c has its contract, and that of its two parts.
 *
 * Split      tasks: some columns of one product, or of some of its rows.
 * Layout     as matmul/family.inc.c.
 * Aliasing   c overlaps no input.
 * Post-ops   applied to the pieces of rows of a task when they are finished.
 * Accuracy   bfloat16: one chain over k, two at a time: |error| <= K / 2 half ulp of float32 of sum
 *            |a * b| before the last rounding; subnormal operands and sums count as 0.  Integers
 *            wrap.
 * Bits       the order of summation of an element is given by K alone.
 *
 * A word is 32 bits of neighbours along k: two bfloat16 or four int8.  An instruction multiplies the
 * words of a vector (16 columns of B) with one word of A and adds each to a sum.  B is copied into
 * words, 32 columns side by side; A is read in place where it runs along k.  Zeros stand where a
 * last word, or the last columns, have no items.
 *
 * The instruction for bytes takes those of A as unsigned and those of B as signed.  Those of the
 * other sign have their upper bit flipped, which adds 128 to A or takes it from B, and the sums
 * begin with what sets that right: -128 sum b, or 128 sum a.
 */
#pragma once

#include "kernels/operands.inc.c"

#include "kernels/matmul/operands.inc.c"

#define INTEGER_BYTES(sum, a, b)                                                                    \
    (v_i32)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(a), (__m512i)(b))
#include "kernels/convolution/integer.inc.c"

enum { DOT_LANES = 16, DOT_WIDTH = 2 * DOT_LANES, DOT_ROWS = 12 };
enum { DOT_FEWEST_ROWS = 48, DOT_TASKS = 8 }; /* of a task; wanted, where there is enough to do */

typedef uint32_t dot_words __attribute__((vector_size(64)));
typedef int dot_unaligned __attribute__((aligned(1), may_alias));
typedef enum { DOT_BF16, DOT_INT8 } dot_kind;

typedef struct {
    matmul_operands o;
    dot_kind kind;
    int64_t  item, per;              /* bytes of an item; items of a word */
    int64_t  words;                  /* of k */
    uint32_t flip_a, flip_b;         /* what turns their bytes' signs */
    int64_t  width, slices;          /* columns of a task; how many tasks they are */
    int64_t  height, groups;         /* rows of a task, and so on */
} dot_job;

static dot_job dot_job_of(const hyb_call *call)
{
    const hyb_layout *a = &call->layout[0], *b = &call->layout[1];
    dot_job job = {.item = hyb_itemsize(a->dtype)};
    job.kind = job.item == 2 ? DOT_BF16 : DOT_INT8;
    job.o = matmul_operands_of(call, (size_t)job.item);
    job.per = 4 / job.item;
    job.words = matmul_ceil(job.o.k, job.per);
    job.flip_a = a->dtype == HYB_I8 ? 0x80808080 : 0;
    job.flip_b = b->dtype == HYB_U8 ? 0x80808080 : 0;
    /* As many columns as keep the copy of B in the second-level cache, but enough tasks to share. */
    const int64_t m = job.o.m, n = job.o.n;
    const int64_t slice = hyb_choice(HYB_SLICE_BYTES) / 4 / (job.words > 0 ? job.words : 1);
    const int64_t most = slice / DOT_WIDTH > 1 ? slice / DOT_WIDTH : 1;
    const int64_t panels = matmul_ceil(n, DOT_WIDTH);
    const int64_t wanted = matmul_ceil(DOT_TASKS, job.o.batch > 0 ? job.o.batch : 1);
    job.slices = matmul_ceil(panels, most);
    if (n >= m && job.slices < wanted)
        job.slices = matmul_smaller(wanted, panels);
    if (job.slices < 1)
        job.slices = 1;
    job.width = matmul_ceil(panels, job.slices) * DOT_WIDTH;
    job.slices = job.width > 0 ? matmul_ceil(n, job.width) : 0;
    job.groups = 1;
    if (job.slices > 0 && job.slices < wanted)
        job.groups = matmul_smaller(matmul_ceil(wanted, job.slices), matmul_ceil(m, DOT_FEWEST_ROWS));
    job.height = job.groups > 0 ? matmul_ceil(matmul_ceil(m, job.groups), DOT_ROWS) * DOT_ROWS : 0;
    job.groups = job.height > 0 ? matmul_ceil(m, job.height) : 0;
    return job;
}

static inline dot_words dot_load(const uint32_t *from) { return (dot_words)_mm512_loadu_si512(from); }

/* The items of word `w` of a row or column along k: those past the last one are `blank`. */
static inline uint32_t dot_word(const dot_job *job, const char *along, int64_t w, uint32_t blank)
{
    uint32_t word = blank;
    const int64_t left = (job->o.k - w * job->per) * job->item;
    if (left >= 4)
        memcpy(&word, along + 4 * w, 4);
    else
        memcpy(&word, along + 4 * w, (size_t)left);
    return word;
}

/* 16 neighbours across k as 32-bit numbers; of fewer than 16 the rest are `blank`. */
static inline dot_words dot_across(const dot_job *job, const char *from, int64_t count,
                                   uint32_t blank)
{
    const __mmask16 there = count >= 16 ? 0xffff : (__mmask16)((1 << count) - 1);
    const __m512i items =
        job->item == 2
            ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, from))
            : _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, from));
    return (dot_words)_mm512_mask_mov_epi32(_mm512_set1_epi32((int)blank), there, items);
}

/* Words of `count` neighbours that run across k: to[w * width + i]; blanks come out as 0. */
static void dot_pack_across(const dot_job *job, uint32_t *to, int64_t width, const char *from,
                            int64_t step, int64_t count, uint32_t flip)
{
    const int bits = 8 * (int)job->item;
    const uint32_t blank = flip & (job->item == 2 ? 0xffff : 0xff);
    for (int64_t w = 0; w < job->words; w++, to += width)
        for (int64_t i = 0; i < width; i += DOT_LANES) {
            dot_words words = {0};
            for (int64_t s = 0; s < job->per; s++) {
                const int64_t k = w * job->per + s, left = k < job->o.k ? count - i : 0;
                const char *row = left > 0 ? from + (k * step + i) * job->item : from;
                words |= dot_across(job, row, left > 0 ? left : 0, blank) << (uint32_t)(bits * s);
            }
            _mm512_storeu_si512(to + i, (__m512i)(words ^ flip));
        }
}

/* Words of `count` rows or columns that run along k. */
static void dot_pack_along(const dot_job *job, uint32_t *to, int64_t width, const char *from,
                           int64_t step, int64_t count, uint32_t flip)
{
    const int64_t whole = job->o.k / job->per;
    for (int64_t i = 0; i < width; i += DOT_LANES) {
        const int64_t here = matmul_smaller(count - i, DOT_LANES);
        int64_t w = 0;
        if (here == DOT_LANES) {
            const int64_t apart = step * job->item;
            for (; w < whole; w += DOT_LANES) {
                const int64_t end = matmul_smaller(whole, w + DOT_LANES);
                for (int64_t lane = 0; lane < DOT_LANES; lane++) {
                    const char *at = from + (i + lane) * apart;
                    for (int64_t k = w; k < end; k++) {
                        uint32_t word;
                        memcpy(&word, at + 4 * k, 4);
                        to[k * width + i + lane] = word ^ flip;
                    }
                }
            }
            w = whole;
        }
        for (; w < job->words; w++)
            for (int64_t lane = 0; lane < DOT_LANES; lane++)
                to[w * width + i + lane] =
                    lane < here
                        ? dot_word(job, from + (i + lane) * step * job->item, w, flip) ^ flip
                        : 0;
    }
}

static inline dot_words dot_add(dot_kind kind, dot_words sum, dot_words a, dot_words b)
{
    if (kind == DOT_INT8)
        return (dot_words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
    return (dot_words)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/* The nearest bfloat16 numbers, ties to even; NaN stays NaN. */
static inline __m256i dot_narrow(dot_words sum)
{
    const __m512i bits = (__m512i)sum;
    const dot_words rounded = (sum + 0x7fff + (sum >> 16 & 1)) >> 16;
    const __mmask16 nan = _mm512_cmpgt_epu32_mask(
        _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)), _mm512_set1_epi32(0x7f800000));
    const dot_words quiet = sum >> 16 | 0x40;
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32((__m512i)rounded, nan, (__m512i)quiet));
}

/* What the tile of some rows and a panel of columns reads and writes. */
typedef struct {
    const char     *a; /* along k: rows are a_step bytes apart; else words, 16 rows side by side */
    int64_t         a_step;
    const uint32_t *last_a; /* along k: the last word of each row, if it lacks items */
    const uint32_t *b;
    const int32_t  *row_start, *column_start; /* of sums of integers */
    char           *c;
    int64_t         c_step, cols;
} dot_tile;

/* Inlined with constant `kind`, `along` and `rows` everywhere. */
static inline __attribute__((always_inline)) void
dot_multiply(dot_kind kind, bool along, int rows, const dot_job *job, const dot_tile *t)
{
    const bool partial = along && job->words * job->per != job->o.k;
    const int64_t whole = job->words - partial;
    dot_words sum[DOT_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            sum[i][v] = kind == DOT_BF16 ? (dot_words){0}
                                         : dot_load((const uint32_t *)t->column_start + 16 * v) +
                                               (uint32_t)t->row_start[i];
    /* Rows are found from every third of them: one address each would spill. */
    const char *third[(DOT_ROWS + 2) / 3];
#pragma GCC unroll 4
    for (int i = 0; i < (rows + 2) / 3; i++) {
        third[i] = along ? t->a + 3 * i * t->a_step : t->a + 12 * i;
        __asm__("" : "+r"(third[i]));
    }
    const uint32_t *b = t->b;
    int64_t apart = along ? t->a_step : 4;
    const int64_t next = along ? 4 : 4 * DOT_LANES;
    const dot_words flip = job->flip_a - (dot_words){0};
    for (int64_t left = whole;; left = 1) {
        for (; left > 0; left--, b += DOT_WIDTH) {
            const dot_words first = dot_load(b), second = dot_load(b + DOT_LANES);
#pragma GCC unroll 12
            for (int i = 0; i < rows; i++) {
                dot_words item = (dot_words)_mm512_set1_epi32(
                    *(const dot_unaligned *)(third[i / 3] + i % 3 * apart));
                if (along && kind == DOT_INT8)
                    item ^= flip;
                sum[i][0] = dot_add(kind, sum[i][0], item, first);
                sum[i][1] = dot_add(kind, sum[i][1], item, second);
            }
#pragma GCC unroll 4
            for (int i = 0; i < (rows + 2) / 3; i++)
                third[i] += next;
        }
        if (!partial || b == t->b + job->words * DOT_WIDTH)
            break;
        apart = 4;
#pragma GCC unroll 4
        for (int i = 0; i < (rows + 2) / 3; i++)
            third[i] = (const char *)(t->last_a + 3 * i);
    }
    const uint32_t there = t->cols >= DOT_WIDTH ? 0xffffffff : (1u << t->cols) - 1;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const __mmask16 lanes = (__mmask16)(there >> (16 * v));
            char *to = t->c + i * t->c_step;
            if (kind == DOT_INT8)
                _mm512_mask_storeu_epi32(to + 64 * v, lanes, (__m512i)sum[i][v]);
            else
                _mm256_mask_storeu_epi16(to + 32 * v, lanes, dot_narrow(sum[i][v]));
        }
}

typedef void (*dot_tile_fn)(const dot_job *job, const dot_tile *tile);

#define DOT_TILE(kind, along, rows)                                                                \
    static void dot_##kind##_##along##_##rows(const dot_job *job, const dot_tile *tile)            \
    {                                                                                              \
        dot_multiply(DOT_##kind, along, rows, job, tile);                                          \
    }
#define DOT_NAME(kind, along, rows) dot_##kind##_##along##_##rows,
#define DOT_EACH(f, kind, along)                                                                   \
    f(kind, along, 1) f(kind, along, 2) f(kind, along, 3) f(kind, along, 4) f(kind, along, 5)      \
    f(kind, along, 6) f(kind, along, 7) f(kind, along, 8) f(kind, along, 9) f(kind, along, 10)     \
    f(kind, along, 11) f(kind, along, 12)
DOT_EACH(DOT_TILE, BF16, 0)
DOT_EACH(DOT_TILE, BF16, 1)
DOT_EACH(DOT_TILE, INT8, 0)
DOT_EACH(DOT_TILE, INT8, 1)
static const dot_tile_fn dot_tiles[2][2][DOT_ROWS] = {
    {{DOT_EACH(DOT_NAME, BF16, 0)}, {DOT_EACH(DOT_NAME, BF16, 1)}},
    {{DOT_EACH(DOT_NAME, INT8, 0)}, {DOT_EACH(DOT_NAME, INT8, 1)}},
};

/* -128 times the sums of the columns of a panel of B, for an A whose signs were turned. */
static void dot_column_starts(const dot_job *job, int32_t *starts, const uint32_t *panel)
{
    const dot_words ones = 0x01010101 - (dot_words){0};
    dot_words sum[2] = {{0}, {0}};
    if (job->flip_a)
        for (int64_t w = 0; w < job->words; w++)
            for (int v = 0; v < 2; v++)
                sum[v] = dot_add(DOT_INT8, sum[v], ones, dot_load(panel + w * DOT_WIDTH + 16 * v));
    for (int v = 0; v < 2; v++)
        _mm512_storeu_si512(starts + 16 * v, (__m512i)(-(sum[v] << 7)));
}

/* 128 times the sum of a row of A, for a B whose signs were turned. */
static int32_t dot_row_start(const dot_job *job, const char *a, bool is_signed)
{
    uint32_t sum = 0;
    if (!job->flip_b)
        return 0;
    for (int64_t k = 0; k < job->o.k; k++) {
        const char item = a[k * job->o.a_col];
        sum += is_signed ? (uint32_t)(int32_t)(signed char)item : (uint32_t)(unsigned char)item;
    }
    return (int32_t)(sum << 7);
}

static hyb_status dot_task(const dot_job *job, const hyb_call *call, int64_t task)
{
    const matmul_operands *o = &job->o;
    const int64_t slice = task % job->slices, group = task / job->slices % job->groups;
    const int64_t batch = task / job->slices / job->groups;
    const int64_t col = slice * job->width, col_end = matmul_smaller(col + job->width, o->n);
    const int64_t row = group * job->height, row_end = matmul_smaller(row + job->height, o->m);
    const int64_t panels = matmul_ceil(col_end - col, DOT_WIDTH), out = job->kind == DOT_BF16 ? 2 : 4;
    const size_t panel = (size_t)job->words * DOT_WIDTH;
    const size_t copied = (size_t)panels * panel, starts = (size_t)panels * DOT_WIDTH;
    const bool along = o->a_col == 1;
    uint32_t *b = hyb_scratch((copied + starts + (along ? 0 : (size_t)job->words * DOT_LANES)) * 4);
    if (!b)
        return hyb_fail(HYB_NO_MEMORY, "matmul: no memory for a copy of an operand");
    int32_t *column_start = (int32_t *)(b + copied);
    uint32_t *own_a = (uint32_t *)(column_start + starts);
    const char *from_a = (const char *)call->data[0] + batch * o->a_batch * job->item;
    const char *from_b = (const char *)call->data[1] + batch * o->b_batch * job->item;
    char *c = (char *)call->data[2] + batch * o->m * o->n * out;
    for (int64_t p = 0; p < panels; p++) {
        const int64_t j = col + p * DOT_WIDTH, cols = matmul_smaller(DOT_WIDTH, col_end - j);
        if (o->b_col == 1)
            dot_pack_across(job, b + (size_t)p * panel, DOT_WIDTH, from_b + j * job->item, o->b_row,
                            cols, job->flip_b);
        else
            dot_pack_along(job, b + (size_t)p * panel, DOT_WIDTH, from_b + j * o->b_col * job->item,
                           o->b_col, cols, job->flip_b);
        if (job->kind == DOT_INT8)
            dot_column_starts(job, column_start + p * DOT_WIDTH, b + (size_t)p * panel);
    }
    for (int64_t i = row; i < row_end; i += DOT_ROWS) {
        const int64_t rows = matmul_smaller(DOT_ROWS, row_end - i);
        int32_t row_start[DOT_ROWS] = {0};
        uint32_t last[DOT_ROWS] = {0};
        const char *a = from_a + i * o->a_row * job->item;
        for (int64_t r = 0; r < rows; r++) {
            const char *at = a + r * o->a_row * job->item;
            row_start[r] = dot_row_start(job, at, job->flip_a != 0);
            if (along && job->words > 0)
                last[r] = dot_word(job, at, job->words - 1, job->flip_a);
        }
        if (!along)
            dot_pack_across(job, own_a, DOT_LANES, a, o->a_col, rows, job->flip_a);
        dot_tile tile = {.a = along ? a : (const char *)own_a,
                         .a_step = o->a_row * job->item,
                         .last_a = last,
                         .row_start = row_start,
                         .c_step = o->n * out};
        for (int64_t p = 0; p < panels; p++) {
            const int64_t j = col + p * DOT_WIDTH;
            tile.b = b + (size_t)p * panel;
            tile.column_start = column_start + p * DOT_WIDTH;
            tile.c = c + (i * o->n + j) * out;
            tile.cols = col_end - j;
            dot_tiles[job->kind][along][rows - 1](job, &tile);
        }
    }
    if (call->post && row < row_end && col < col_end)
        call->post->apply_rows(call->post->context, (batch * o->m + row) * o->n + col, col_end - col,
                               row_end - row, o->n);
    return HYB_OK;
}

HYB_KERNEL(matmul_dot)
{
    const dot_job job = dot_job_of(call);
    hyb_status status = HYB_OK;
    for (int64_t task = begin; task < end && status == HYB_OK; task++)
        status = dot_task(&job, call, task);
    return status;
}

static hyb_range dot_range(const hyb_call *call)
{
    const dot_job job = dot_job_of(call);
    const double work = (double)job.width * (double)job.height * (double)job.words;
    return (hyb_range){job.o.batch * job.slices * job.groups,
                       work > 32768 ? 1 : grain_of((int64_t)work)};
}

HYB_PREPARE(prepare_matmul_bf16)
{
    const hyb_status status = matmul_prepare(call, HYB_BF16, HYB_BF16, HYB_BF16);
    if (status == HYB_OK)
        *range = dot_range(call);
    return status;
}

HYB_PREPARE(prepare_matmul_integer)
{
    const hyb_status status = matmul_prepare_bytes(call);
    if (status == HYB_OK)
        *range = dot_range(call);
    return status;
}

const hyb_kernel HYB_SYM(hyb_dot_kernels)[] = {
    HYB_TABLE_ROW(matmul, HYB_BF16, 2, 1, 0, HYB_POST_OPS, prepare_matmul_bf16, matmul_dot)
    HYB_TABLE_ROW(matmul_integer, HYB_I8, 2, 1, 0, HYB_POST_OPS, prepare_matmul_integer,
                  matmul_dot)
    HYB_TABLE_ROW(matmul_integer, HYB_U8, 2, 1, 0, HYB_POST_OPS, prepare_matmul_integer,
                  matmul_dot)
    INTEGER_TABLE
    {0},
};
