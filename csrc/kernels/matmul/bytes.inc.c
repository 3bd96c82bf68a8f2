/* matmul/bytes.inc.c - products of int8 and uint8, in any combination, to int32; sums wrap.
 *
 *            matmul_integer: a [b, M, K], b [b, K, N] -> c [b, M, N]
 *            matmul_integer_prepare: b [K, N] -> p, of the dtype of b; matmul_integer_prepared: a
 *            [M, K], p -> c [M, N].  p are the panels that tiles read (matmul/byte_panels.inc.c),
 *            each for all of K: K rounded up to whole fours, N to whole 64, of which every
 *            instruction set makes panels.
 *
 * Split      tasks: some columns of one product, or of some of its rows; of prepare: panels.
 * Layout     as matmul/family.inc.c.
 * Aliasing   c overlaps no input.
 * Post-ops   applied to the pieces of rows of a task when they are finished.
 * Bits       integers that wrap: the same in any order, by any instruction set.
 *
 * Rows of A are made words, a panel of rows at a time; columns of B panels, as many at a time as
 * stay in the second-level cache.  With few rows a B whose columns run along k is read as it lies,
 * one that runs across k in pieces of whole lines.
 */
#pragma once

#include "kernels/operands.inc.c"

#include "kernels/matmul/operands.inc.c"

#include "kernels/matmul/byte_tiles.inc.c"

#include "kernels/matmul/byte_panels.inc.c"

#include "kernels/matmul/byte_rows.inc.c"

enum {
    BYTE_FEW = 8,             /* rows, up to which B is read once */
    BYTE_DEPTH = 1024,        /* of a block of k, at least */
    BYTE_A_ITEMS = 8192,      /* of few rows, that stay in the first-level cache */
    BYTE_FEW_BYTES = 16384,   /* of B, that are copied at a time for few rows */
    BYTE_ROWS_READ = 2,       /* rows, up to which a B with dense rows is read as it lies */
    BYTE_ROWS_TASKS = 4,      /* wanted then: tasks of long pieces of rows */
    BYTE_PADDING = 64,        /* columns that any panel divides */
    BYTE_TASKS = 8,           /* wanted, where there is enough to do */
    BYTE_FEWEST_ROWS = 48,    /* of a task */
    BYTE_TASK_WORK = 1 << 17, /* products that are worth a task */
    BYTE_CEILING = 12,        /* rows of which words are made at a time, at most */
};

typedef struct {
    matmul_operands o;
    bool    a_signed, b_signed;
    bool    prepared;       /* whether b are panels */
    bool    dots, rows;     /* whether b is read as it lies: by columns, by rows */
    int64_t depth;          /* of a block of k: a multiple of a vector of bytes */
    int64_t slice;          /* columns at a time */
    int64_t a_step;         /* bytes of the words of a row */
    int64_t width, slices;  /* columns of a task; how many tasks they are */
    int64_t height, groups; /* rows of a task, and so on */
} byte_job;

static int64_t byte_rounded(int64_t n, int64_t to) { return matmul_ceil(n, to) * to; }

/* Cuts the work up. */
static void byte_plan(byte_job *job)
{
    const int64_t m = job->o.m, n = job->o.n, k = job->o.k;
    const bool few = m <= BYTE_FEW;
    job->dots = few && !job->prepared && job->o.b_col != 1;
    job->rows = m <= BYTE_ROWS_READ && !job->prepared && !job->dots;
    job->depth = BYTE_DEPTH;
    if (few && m > 0 && BYTE_A_ITEMS / m > BYTE_DEPTH)
        job->depth = BYTE_A_ITEMS / m;
    int64_t budget = hyb_choice(HYB_SLICE_BYTES);
    if (few && !job->prepared && !job->dots) { /* whole lines of B */
        budget = BYTE_FEW_BYTES;
        job->depth = budget / BYTE_PADDING;
    }
    job->depth = byte_rounded(matmul_smaller(job->depth, k > 0 ? k : 1), HYB_VECTOR_BYTES);
    job->a_step = job->depth * (4 / BYTE_PER) + 64; /* not a multiple of a page */
    const int64_t most = budget / job->depth / BYTE_COLS;
    job->slice = BYTE_COLS * (most > 1 ? most : 1);

    const int64_t batch = job->o.batch > 0 ? job->o.batch : 1;
    const int64_t panels = matmul_ceil(n, BYTE_COLS);
    const double enough = 1 + (double)m * (double)n * (double)k / BYTE_TASK_WORK;
    int64_t wanted = matmul_ceil(job->rows ? BYTE_ROWS_TASKS : BYTE_TASKS, batch);
    if (enough < (double)wanted)
        wanted = (int64_t)enough;
    const int64_t largest = job->slice / BYTE_COLS;
    job->slices = few ? 1 : matmul_ceil(panels, largest);
    if ((few || n >= m) && job->slices < wanted)
        job->slices = matmul_smaller(wanted, panels);
    if (job->slices < 1)
        job->slices = 1;
    job->width = matmul_ceil(panels, job->slices) * BYTE_COLS;
    job->slices = job->width > 0 ? matmul_ceil(n, job->width) : 0;
    job->slice = matmul_smaller(job->slice, job->width);
    job->groups = 1;
    if (job->slices > 0 && job->slices < wanted)
        job->groups = matmul_smaller(matmul_ceil(wanted, job->slices),
                                     matmul_ceil(m, BYTE_FEWEST_ROWS));
    job->height =
        job->groups > 0 ? byte_rounded(matmul_ceil(m, job->groups), BYTE_ROWS) : 0;
    job->groups = job->height > 0 ? matmul_ceil(m, job->height) : 0;
}

static byte_job byte_job_of(const hyb_call *call)
{
    byte_job job = {.o = matmul_operands_of(call, 1),
                    .a_signed = call->layout[0].dtype == HYB_I8,
                    .b_signed = call->layout[1].dtype == HYB_I8};
    if (job.o.n == 1 && job.o.b_row == 1) /* a column, which runs along k */
        job.o.b_col = job.o.k;
    byte_plan(&job);
    return job;
}

static byte_job byte_prepared_job_of(const hyb_call *call)
{
    const int64_t *of_a = call->layout[0].shape, *of_c = call->layout[2].shape;
    byte_job job = {.o = {.batch = 1, .m = of_a[0], .n = of_c[1], .k = of_a[1], .a_row = of_a[1],
                          .a_col = 1, .b_col = 1},
                    .a_signed = call->layout[0].dtype == HYB_I8,
                    .b_signed = call->layout[1].dtype == HYB_I8,
                    .prepared = true};
    byte_plan(&job);
    return job;
}

/* What a task works on: `rows` rows of words at `a`, which is where they are made. */
typedef struct {
    const byte_job *job;
    const char     *b; /* of the panels of a slice, or B at the block of k */
    int64_t         panel_bytes, depth;
    char           *a;
    int32_t        *start;
} byte_block;

/* Some rows times the columns [0, cols). */
static void byte_meet(const byte_block *block, int64_t rows, int32_t *c, int64_t cols, bool add)
{
    const byte_job *job = block->job;
    byte_tile tile = {.a_step = job->a_step, .b_step = job->o.b_col, .items = block->depth,
                      .c_step = job->o.n, .add = add, .a_signed = job->a_signed,
                      .b_signed = job->b_signed};
    if (!job->dots) {
        tile.a = block->a;
        tile.start = block->start;
        for (int64_t j = 0; j < cols; j += BYTE_COLS) {
            tile.b = block->b + j / BYTE_COLS * block->panel_bytes;
            tile.c = c + j;
            tile.cols = cols - j;
            byte_tiles[rows - 1](&tile);
        }
        return;
    }
    for (int64_t j = 0; j < cols; j += BYTE_DOTS) {
        tile.b = block->b + j * job->o.b_col;
        tile.cols = cols - j;
        for (int64_t i = 0; i < rows; i += 2) {
            tile.a = block->a + i * job->a_step;
            tile.start = block->start + i;
            tile.c = c + i * job->o.n + j;
            if (rows - i > 1)
                byte_dots_2(&tile);
            else
                byte_dots_1(&tile);
        }
    }
}

/* A task of few rows, a piece at a time. */
static hyb_status byte_rows_task(const byte_job *job, const hyb_call *call, int64_t task)
{
    const matmul_operands *o = &job->o;
    const int64_t col = task % job->slices * job->width, batch = task / job->slices;
    const int64_t col_end = matmul_smaller(col + job->width, o->n);
    const char *a = (const char *)call->data[0] + batch * o->a_batch;
    const char *b = (const char *)call->data[1] + batch * o->b_batch;
    const int64_t most = matmul_smaller(BYTE_PIECE, byte_rounded(job->width, HYB_LANES_16));
    v_sums(*sums)[2] = hyb_scratch((size_t)(most / HYB_LANES_16) * sizeof *sums);
    if (!sums)
        return hyb_fail(HYB_NO_MEMORY, "matmul_integer: no memory for a row of sums");
    for (int64_t j = col, cols; j < col_end; j += cols) {
        cols = matmul_smaller(most, col_end - j);
        for (int64_t i = 0; i < o->m; i++) {
            const int64_t first = (batch * o->m + i) * o->n + j;
            byte_row(a + i * o->a_row, o->a_col, job->a_signed, b + j, o->b_row, job->b_signed,
                     o->k, (int32_t *)call->data[2] + first, cols, sums);
            if (call->post)
                call->post->apply(call->post->context, first, cols);
        }
    }
    return HYB_OK;
}

static hyb_status byte_task(const byte_job *job, const hyb_call *call, int64_t task)
{
    const matmul_operands *o = &job->o;
    const int64_t slice = task % job->slices, group = task / job->slices % job->groups;
    const int64_t batch = task / job->slices / job->groups;
    const int64_t col = slice * job->width, col_end = matmul_smaller(col + job->width, o->n);
    const int64_t row = group * job->height, row_end = matmul_smaller(row + job->height, o->m);
    const int64_t together = job->dots ? BYTE_FEW : BYTE_ROWS;
    const int64_t of_b = job->prepared || job->dots ? 0 : job->slice * job->depth;
    char *scratch = hyb_scratch((size_t)(BYTE_CEILING * job->a_step + of_b));
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "matmul_integer: no memory for a copy of an operand");
    const char *from_a = (const char *)call->data[0] + batch * o->a_batch;
    const char *from_b = (const char *)call->data[1] + batch * o->b_batch;
    int32_t *c = (int32_t *)call->data[2] + batch * o->m * o->n, start[BYTE_CEILING];
    char *copied = scratch + BYTE_CEILING * job->a_step;
    const uint32_t excess =
        (uint32_t)byte_excess(job->a_signed, job->b_signed, !job->dots);
    byte_block block = {.job = job, .a = scratch, .start = start};
    for (int64_t j = col; j < col_end; j += job->slice) {
        const int64_t cols = matmul_smaller(job->slice, col_end - j);
        int64_t k = 0;
        do {
            block.depth = matmul_smaller(job->depth, o->k - k);
            if (job->prepared) {
                block.panel_bytes = byte_rounded(o->k, 4) * BYTE_COLS;
                block.b = from_b + j / BYTE_COLS * block.panel_bytes + k * BYTE_COLS;
            } else {
                block.b = from_b + k * o->b_row + j * o->b_col;
            }
            if (of_b) {
                block.panel_bytes = job->depth * BYTE_COLS;
                byte_pack_columns(copied, block.panel_bytes, block.b, o->b_row, o->b_col, cols,
                                  block.depth, job->b_signed);
                block.b = copied;
            }
            for (int64_t i = row, rows; i < row_end; i += rows) {
                rows = matmul_ceil(row_end - i, matmul_ceil(row_end - i, together));
                for (int64_t r = 0; r < rows; r++) {
                    const char *from = from_a + (i + r) * o->a_row + k * o->a_col;
                    const uint32_t sum = byte_pack_row(block.a + r * job->a_step, from, o->a_col,
                                                       block.depth, job->a_signed);
                    start[r] = (int32_t)(0 - excess * sum);
                }
                byte_meet(&block, rows, c + i * o->n + j, cols, k > 0);
                if (call->post && k + block.depth == o->k)
                    call->post->apply_rows(call->post->context, (batch * o->m + i) * o->n + j, cols,
                                           rows, o->n);
            }
            k += block.depth;
        } while (k < o->k);
    }
    return HYB_OK;
}

static hyb_status byte_tasks(const byte_job *job, const hyb_call *call, int64_t begin, int64_t end)
{
    hyb_status status = HYB_OK;
    for (int64_t task = begin; task < end && status == HYB_OK; task++)
        status = job->rows ? byte_rows_task(job, call, task) : byte_task(job, call, task);
    return status;
}

static hyb_range byte_range(const byte_job *job)
{
    const double work = (double)job->width * (double)job->height * (double)job->o.k / 8;
    return (hyb_range){job->o.batch * job->slices * job->groups,
                       work > 32768 ? 1 : grain_of((int64_t)work)};
}

HYB_KERNEL(matmul_integer)
{
    const byte_job job = byte_job_of(call);
    return byte_tasks(&job, call, begin, end);
}

HYB_PREPARE(prepare_matmul_integer)
{
    const hyb_status status = matmul_prepare_bytes(call);
    if (status != HYB_OK)
        return status;
    const byte_job job = byte_job_of(call);
    *range = byte_range(&job);
    return HYB_OK;
}

HYB_KERNEL(matmul_integer_prepared)
{
    const byte_job job = byte_prepared_job_of(call);
    return byte_tasks(&job, call, begin, end);
}

/* Bytes of what is prepared, and that operand `index` is that. */
static hyb_status byte_require_prepared(const hyb_call *call, int index, int64_t k, int64_t n)
{
    int64_t items;
    const int32_t dtype = call->layout[index].dtype;
    if (dtype != HYB_I8 && dtype != HYB_U8)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: operand %d has dtype %d, not bytes",
                        index, (int)dtype);
    const hyb_status status = require_dense(call, index, dtype, 1);
    if (status != HYB_OK)
        return status;
    if (n > INT64_MAX / 4 || k > INT64_MAX / 4 ||
        __builtin_mul_overflow(byte_rounded(k, 4), byte_rounded(n, BYTE_PADDING), &items))
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: what is prepared would overflow");
    return require_size(call, index, 0, items);
}

HYB_PREPARE(prepare_matmul_integer_prepared)
{
    const int32_t left = call->layout[0].dtype;
    hyb_status status;
    if (left != HYB_I8 && left != HYB_U8)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: operand 0 has dtype %d, not bytes",
                        (int)left);
    if ((status = require_dense(call, 0, left, 2)) != HYB_OK ||
        (status = require_dense(call, 2, HYB_I32, 2)) != HYB_OK)
        return status;
    const int64_t *of_a = call->layout[0].shape, *of_c = call->layout[2].shape;
    if ((status = require_size(call, 2, 0, of_a[0])) != HYB_OK ||
        (status = byte_require_prepared(call, 1, of_a[1], of_c[1])) != HYB_OK)
        return status;
    const byte_job job = byte_prepared_job_of(call);
    *range = byte_range(&job);
    return HYB_OK;
}

HYB_KERNEL(matmul_integer_prepare)
{
    const hyb_layout *b = &call->layout[0];
    const int64_t k = b->shape[0], n = b->shape[1], panel_bytes = byte_rounded(k, 4) * BYTE_COLS;
    const int64_t row = k == 1 ? 1 : b->strides[0], col = n == 1 ? 1 : b->strides[1];
    char *to = (char *)call->data[1] + begin * panel_bytes;
    memset(to, 0, (size_t)((end - begin) * panel_bytes));
    const int64_t first = begin * BYTE_COLS, last = matmul_smaller(end * BYTE_COLS, n);
    if (first < last && k > 0)
        byte_pack_columns(to, panel_bytes, (const char *)call->data[0] + first * col, row,
                          row == 1 ? col : 1, last - first, k, b->dtype == HYB_I8);
    return HYB_OK;
}

HYB_PREPARE(prepare_matmul_integer_prepare)
{
    const hyb_layout *b = &call->layout[0];
    if (b->rank != 2 || (b->dtype != HYB_I8 && b->dtype != HYB_U8) || !sizes_are_sane(b))
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: operand 0 is no matrix of bytes");
    bool dense = false;
    int64_t extent = 0;
    for (int axis = 0; axis < 2; axis++) {
        const int64_t size = b->shape[axis], stride = b->strides[axis];
        int64_t reach;
        dense |= size < 2 || stride == 1;
        if (size >= 2 && (stride < 0 || __builtin_mul_overflow(size, stride, &reach) ||
                          __builtin_add_overflow(extent, reach, &extent)))
            return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: axis %d of operand 0 has stride %lld",
                            axis, (long long)stride);
    }
    if (!dense)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: neither axis of operand 0 is dense");
    if (call->layout[1].dtype != b->dtype)
        return hyb_fail(HYB_BAD_ARGUMENT, "matmul_integer: what is prepared has dtype %d, not %d",
                        (int)call->layout[1].dtype, (int)b->dtype);
    const hyb_status status = byte_require_prepared(call, 1, b->shape[0], b->shape[1]);
    if (status != HYB_OK)
        return status;
    const int64_t panels = byte_rounded(b->shape[1], BYTE_PADDING) / BYTE_COLS;
    *range = (hyb_range){panels, grain_of(b->shape[0] < 32768 ? b->shape[0] * BYTE_COLS : 32768)};
    return HYB_OK;
}

#define MATMUL_INTEGER_ROWS(dtype)                                                                 \
    HYB_TABLE_ROW(matmul_integer, dtype, 2, 1, 0, HYB_POST_OPS, prepare_matmul_integer,            \
                  matmul_integer)                                                                  \
    HYB_TABLE_ROW(matmul_integer_prepare, dtype, 1, 1, 0, HYB_PLAIN,                               \
                  prepare_matmul_integer_prepare, matmul_integer_prepare)                          \
    HYB_TABLE_ROW(matmul_integer_prepared, dtype, 2, 1, 0, HYB_POST_OPS,                           \
                  prepare_matmul_integer_prepared, matmul_integer_prepared)
