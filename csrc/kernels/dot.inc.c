/* dot.inc.c - products of matrices of bfloat16 by dot products of neighbours along k.
 *
 *   c[i, m, n] = sum over k of a[i, m, k] * b[i, k, n]
 *
 * Split      tasks: some columns of one product, or of some of its rows.
 * Layout     as matmul/family.inc.c.
 * Aliasing   c overlaps no input.
 * Post-ops   applied to the pieces of rows of a task when they are finished.
 * Accuracy   sums in float32, rounded once at the end: one chain over k, two at a time: |error| <=
 *            K / 2 half ulp of float32 of sum |a * b| before the last rounding; subnormal operands
 *            and sums count as 0.
 * Bits       the order of summation of an element is given by K alone.
 *
 * A word is 32 bits: two neighbours along k.  An instruction multiplies the words of a vector (16
 * columns of B) with one word of A and adds each to a sum.  B is copied into words, 32 columns side
 * by side; A is read in place where it runs along k.  Zeros stand where a last word, or the last
 * columns, have no items.
 */
#pragma once

#include "kernels/operands.inc.c"

#include "kernels/matmul/operands.inc.c"

enum { DOT_LANES = 16, DOT_WIDTH = 2 * DOT_LANES, DOT_ROWS = 12 };
enum { DOT_ITEM = 2 }; /* bytes of an item, of which a word has two */
enum { DOT_FEWEST_ROWS = 48, DOT_TASKS = 8 }; /* of a task; wanted, where there is enough to do */

typedef uint32_t dot_words __attribute__((vector_size(64)));
typedef int dot_unaligned __attribute__((aligned(1), may_alias));

typedef struct {
    matmul_operands o;
    int64_t  words;                  /* of k */
    int64_t  width, slices;          /* columns of a task; how many tasks they are */
    int64_t  height, groups;         /* rows of a task, and so on */
} dot_job;

static dot_job dot_job_of(const hyb_call *call)
{
    dot_job job = {.o = matmul_operands_of(call, DOT_ITEM)};
    job.words = matmul_ceil(job.o.k, 2);
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

/* The items of word `w` of a row or column along k: those past the last one are 0. */
static inline uint32_t dot_word(const dot_job *job, const char *along, int64_t w)
{
    uint32_t word = 0;
    memcpy(&word, along + 4 * w, job->o.k - 2 * w >= 2 ? 4 : DOT_ITEM);
    return word;
}

/* 16 neighbours across k as 32-bit numbers; of fewer than 16 the rest are 0. */
static inline dot_words dot_across(const char *from, int64_t count)
{
    const __mmask16 there = count >= 16 ? 0xffff : (__mmask16)((1 << count) - 1);
    return (dot_words)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, from));
}

/* Words of `count` neighbours that run across k: to[w * width + i]. */
static void dot_pack_across(const dot_job *job, uint32_t *to, int64_t width, const char *from,
                            int64_t step, int64_t count)
{
    for (int64_t w = 0; w < job->words; w++, to += width)
        for (int64_t i = 0; i < width; i += DOT_LANES) {
            dot_words words = {0};
            for (int64_t s = 0; s < 2; s++) {
                const int64_t k = 2 * w + s, left = k < job->o.k ? count - i : 0;
                const char *row = left > 0 ? from + (k * step + i) * DOT_ITEM : from;
                words |= dot_across(row, left > 0 ? left : 0) << (uint32_t)(16 * s);
            }
            _mm512_storeu_si512(to + i, (__m512i)words);
        }
}

/* Words of `count` rows or columns that run along k. */
static void dot_pack_along(const dot_job *job, uint32_t *to, int64_t width, const char *from,
                           int64_t step, int64_t count)
{
    const int64_t whole = job->o.k / 2;
    for (int64_t i = 0; i < width; i += DOT_LANES) {
        const int64_t here = matmul_smaller(count - i, DOT_LANES);
        int64_t w = 0;
        if (here == DOT_LANES) {
            const int64_t apart = step * DOT_ITEM;
            for (; w < whole; w += DOT_LANES) {
                const int64_t end = matmul_smaller(whole, w + DOT_LANES);
                for (int64_t lane = 0; lane < DOT_LANES; lane++) {
                    const char *at = from + (i + lane) * apart;
                    for (int64_t k = w; k < end; k++) {
                        uint32_t word;
                        memcpy(&word, at + 4 * k, 4);
                        to[k * width + i + lane] = word;
                    }
                }
            }
            w = whole;
        }
        for (; w < job->words; w++)
            for (int64_t lane = 0; lane < DOT_LANES; lane++)
                to[w * width + i + lane] =
                    lane < here ? dot_word(job, from + (i + lane) * step * DOT_ITEM, w) : 0;
    }
}

static inline dot_words dot_add(dot_words sum, dot_words a, dot_words b)
{
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
    char           *c;
    int64_t         c_step, cols;
} dot_tile;

/* Inlined with constant `along` and `rows` everywhere. */
static inline __attribute__((always_inline)) void
dot_multiply(bool along, int rows, const dot_job *job, const dot_tile *t)
{
    const bool partial = along && job->words * 2 != job->o.k;
    const int64_t whole = job->words - partial;
    dot_words sum[DOT_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            sum[i][v] = (dot_words){0};
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
    for (int64_t left = whole;; left = 1) {
        for (; left > 0; left--, b += DOT_WIDTH) {
            const dot_words first = dot_load(b), second = dot_load(b + DOT_LANES);
#pragma GCC unroll 12
            for (int i = 0; i < rows; i++) {
                const dot_words item = (dot_words)_mm512_set1_epi32(
                    *(const dot_unaligned *)(third[i / 3] + i % 3 * apart));
                sum[i][0] = dot_add(sum[i][0], item, first);
                sum[i][1] = dot_add(sum[i][1], item, second);
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
            _mm256_mask_storeu_epi16(to + 32 * v, lanes, dot_narrow(sum[i][v]));
        }
}

typedef void (*dot_tile_fn)(const dot_job *job, const dot_tile *tile);

#define DOT_TILE(along, rows)                                                                      \
    static void dot_##along##_##rows(const dot_job *job, const dot_tile *tile)                     \
    {                                                                                              \
        dot_multiply(along, rows, job, tile);                                                      \
    }
#define DOT_NAME(along, rows) dot_##along##_##rows,
#define DOT_EACH(f, along)                                                                         \
    f(along, 1) f(along, 2) f(along, 3) f(along, 4) f(along, 5) f(along, 6) f(along, 7)            \
    f(along, 8) f(along, 9) f(along, 10) f(along, 11) f(along, 12)
DOT_EACH(DOT_TILE, 0)
DOT_EACH(DOT_TILE, 1)
static const dot_tile_fn dot_tiles[2][DOT_ROWS] = {{DOT_EACH(DOT_NAME, 0)},
                                                   {DOT_EACH(DOT_NAME, 1)}};

static hyb_status dot_task(const dot_job *job, const hyb_call *call, int64_t task)
{
    const matmul_operands *o = &job->o;
    const int64_t slice = task % job->slices, group = task / job->slices % job->groups;
    const int64_t batch = task / job->slices / job->groups;
    const int64_t col = slice * job->width, col_end = matmul_smaller(col + job->width, o->n);
    const int64_t row = group * job->height, row_end = matmul_smaller(row + job->height, o->m);
    const int64_t panels = matmul_ceil(col_end - col, DOT_WIDTH);
    const size_t panel = (size_t)job->words * DOT_WIDTH;
    const size_t copied = (size_t)panels * panel;
    const bool along = o->a_col == 1;
    uint32_t *b = hyb_scratch((copied + (along ? 0 : (size_t)job->words * DOT_LANES)) * 4);
    if (!b)
        return hyb_fail(HYB_NO_MEMORY, "matmul: no memory for a copy of an operand");
    uint32_t *own_a = b + copied;
    const char *from_a = (const char *)call->data[0] + batch * o->a_batch * DOT_ITEM;
    const char *from_b = (const char *)call->data[1] + batch * o->b_batch * DOT_ITEM;
    char *c = (char *)call->data[2] + batch * o->m * o->n * DOT_ITEM;
    for (int64_t p = 0; p < panels; p++) {
        const int64_t j = col + p * DOT_WIDTH, cols = matmul_smaller(DOT_WIDTH, col_end - j);
        if (o->b_col == 1)
            dot_pack_across(job, b + (size_t)p * panel, DOT_WIDTH, from_b + j * DOT_ITEM, o->b_row,
                            cols);
        else
            dot_pack_along(job, b + (size_t)p * panel, DOT_WIDTH, from_b + j * o->b_col * DOT_ITEM,
                           o->b_col, cols);
    }
    for (int64_t i = row; i < row_end; i += DOT_ROWS) {
        const int64_t rows = matmul_smaller(DOT_ROWS, row_end - i);
        uint32_t last[DOT_ROWS] = {0};
        const char *a = from_a + i * o->a_row * DOT_ITEM;
        for (int64_t r = 0; r < rows; r++) {
            if (along && job->words > 0)
                last[r] = dot_word(job, a + r * o->a_row * DOT_ITEM, job->words - 1);
        }
        if (!along)
            dot_pack_across(job, own_a, DOT_LANES, a, o->a_col, rows);
        dot_tile tile = {.a = along ? a : (const char *)own_a,
                         .a_step = o->a_row * DOT_ITEM,
                         .last_a = last,
                         .c_step = o->n * DOT_ITEM};
        for (int64_t p = 0; p < panels; p++) {
            const int64_t j = col + p * DOT_WIDTH;
            tile.b = b + (size_t)p * panel;
            tile.c = c + (i * o->n + j) * DOT_ITEM;
            tile.cols = col_end - j;
            dot_tiles[along][rows - 1](job, &tile);
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

const hyb_kernel HYB_SYM(hyb_dot_kernels)[] = {
    HYB_TABLE_ROW(matmul, HYB_BF16, 2, 1, 0, HYB_POST_OPS, prepare_matmul_bf16, matmul_dot)
    {0},
};
