/* matmul/grouped.inc.c - products with weights of 4 or 8 bits in groups along k, in float32; included
 * by matmul/family.inc.c.
 *
 *   y[m, n] = sum over k of x[m, k] * (q[n, k] * scale[n, k / group] + zero[n, k / group])
 *
 * matmul_grouped: x [M, K], w, scale [N, G] -> y [M, N]; matmul_grouped_zero has zero [N, G] behind.
 * w is int8 [N, K], or uint8 [N, K / 2 rounded up]: two weights to a byte, the first in the lower
 * half, which are 8 more than q, or numbers of the 16 values of "NormalFloat" (Dettmers et al. 2023,
 * appendix E).  Attributes i: group, table (0 or 1).
 * Split      columns, GROUPED_COLUMNS at a time.
 * Layout     all operands dense.
 * Accuracy   that of matmul, times the largest of the 16 values over those there are.
 * Bits       the order of summation is given by K, group, kind of weight, and whether M is large.
 *
 * Few rows: matmul/grouped_dots.inc.c; many: matmul/grouped_tiles.inc.c.  float64: plain loops.
 */
enum { GROUPED_COLUMNS = 64, GROUPED_FEW = 8, GROUPED_TOGETHER = 4, GROUPED_DEPTH = 2048 };
enum { GROUPED_BYTES_OF_CHUNK = 128 << 10 };

static const float grouped_values[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f,
};

typedef enum {
    GROUPED_HALVES, GROUPED_TABLE, GROUPED_PLANES, GROUPED_BYTES
} grouped_kind;

typedef struct {
    const float   *x, *scale, *zero; /* no zero: NULL */
    const uint8_t *w;
    float         *y;
    int64_t        m, n, k, pitch, group, groups;
    grouped_kind   kind;
    int64_t        block, blocks; /* weights of a vector; vectors of a row */
    int64_t        span;          /* vectors of a group, or 0 */
    v_i32          lane;          /* the group of each lane, where a vector has several */
    bool           lanes;         /* whether products are summed vector by vector, if rows are few */
} grouped_job;

static grouped_job grouped_job_of(const hyb_call *call, bool zero)
{
    const hyb_layout *x = &call->layout[0], *w = &call->layout[1];
    grouped_job job = {
        .x = call->data ? call->data[0] : NULL, .w = call->data ? call->data[1] : NULL,
        .scale = call->data ? call->data[2] : NULL,
        .zero = zero && call->data ? call->data[3] : NULL,
        .y = call->data ? call->data[zero ? 4 : 3] : NULL,
        .m = x->shape[0], .k = x->shape[1], .n = w->shape[0], .pitch = w->shape[1],
        .group = call->attrs[0].i, .groups = call->layout[2].shape[1],
    };
    const bool bytes = w->dtype == HYB_I8, table = call->attrs[1].i != 0;
    job.kind = bytes ? GROUPED_BYTES : table ? GROUPED_TABLE : GROUPED_HALVES;
    job.block = bytes ? HYB_LANES_32 : 8 * HYB_LANES_32;
    job.blocks = matmul_ceil(job.k, job.block);
    if (job.groups == 1) /* however long */
        job.group = job.blocks * job.block;
    job.span = job.group % job.block == 0 ? job.group / job.block : 0;
    job.lanes = job.span > 0 || (!bytes && job.group % 8 == 0 && job.block % job.group == 0);
    if (table) {
        job.lanes = job.lanes && HYB_TABLES_OF_16;
        if (HYB_TABLES_OF_PLANES && job.group % 32 == 0)
            job.kind = GROUPED_PLANES;
    }
    if (job.lanes && job.span == 0)
        for (int l = 0; l < HYB_LANES_32; l++)
            job.lane[l] = (int32_t)(8 * l / job.group);
    return job;
}

/* Rows of weights in float32 -------------------------------------------------------------------- */

/* A vector of the n items that are left, or of as many as it has. */
static inline v_f32 grouped_load(const float *from, int64_t n)
{
    return n >= HYB_LANES_32 ? v_load_f32(from) : v_load_part_f32(from, n);
}

/* Weights [begin, end) of row n. */
static void grouped_row(const grouped_job *job, int64_t n, int64_t begin, int64_t end, float *to)
{
    const uint8_t *w = job->w + n * job->pitch;
    for (int64_t k = begin; k < end;) {
        const int64_t g = matmul_quotient(k, job->group);
        const int64_t stop = matmul_smaller(end, (g + 1) * job->group);
        const float scale = job->scale[n * job->groups + g];
        const float zero = job->zero ? job->zero[n * job->groups + g] : 0.0f;
        if (job->kind == GROUPED_BYTES) {
            for (; k < stop; k++)
                *to++ = (float)(int8_t)w[k] * scale + zero;
            continue;
        }
        float values[16];
        for (int i = 0; i < 16; i++)
            values[i] = (job->kind == GROUPED_HALVES ? (float)(i - 8) : grouped_values[i]) * scale + zero;
        for (; k < stop; k++)
            *to++ = values[w[k / 2] >> 4 * (k & 1) & 15];
    }
}

/* Few rows, groups of any size: a row of weights at a time. */
static void grouped_by_rows(const grouped_job *job, int64_t begin, int64_t end, float *row)
{
    for (int64_t n = begin; n < end; n++) {
        grouped_row(job, n, 0, job->k, row);
        for (int64_t r = 0; r < job->m; r++) {
            const float *x = job->x + r * job->k;
            v_f32 sum[4] = {{0}};
            int64_t k = 0;
            for (; k + 4 * HYB_LANES_32 <= job->k; k += 4 * HYB_LANES_32)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++)
                    sum[i] += v_load_f32(x + k + i * HYB_LANES_32) *
                              v_load_f32(row + k + i * HYB_LANES_32);
            for (; k < job->k; k += HYB_LANES_32) {
                const int64_t left = job->k - k;
                sum[0] += grouped_load(x + k, left) * grouped_load(row + k, left);
            }
            sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            float total = 0;
            for (int l = 0; l < HYB_LANES_32; l++)
                total += sum[0][l];
            job->y[r * job->n + n] = total;
        }
    }
}

#include "kernels/matmul/grouped_dots.inc.c"
#include "kernels/matmul/grouped_tiles.inc.c"

/* Kernels --------------------------------------------------------------------------------------- */

static hyb_status grouped_run(const hyb_call *call, bool zero, int64_t begin, int64_t end)
{
    const grouped_job job = grouped_job_of(call, zero);
    begin *= GROUPED_COLUMNS;
    end = matmul_smaller(end * GROUPED_COLUMNS, job.n);
    if (begin >= end || job.m == 0)
        return HYB_OK;
    if (job.k == 0) {
        for (int64_t r = 0; r < job.m; r++)
            memset(job.y + r * job.n + begin, 0, (size_t)(end - begin) * sizeof(float));
        return HYB_OK;
    }
    size_t items = (size_t)job.k;
    if (job.m > GROUPED_FEW)
        items = (size_t)(matmul_depth_of(job.k, sizeof(float)) *
                         (GROUPED_COLUMNS + 2 * HYB_LANES_32));
    else if (job.lanes)
        items = grouped_rows_items(&job);
    float *scratch = hyb_scratch(items * sizeof(float));
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "matmul_grouped: no memory for %lld numbers",
                        (long long)items);
    if (job.m > GROUPED_FEW) {
        grouped_by_tiles(&job, begin, end, scratch);
    } else if (job.lanes) {
        const grouped_rows rows = grouped_rows_of(&job, scratch);
        grouped_by_vectors(&job, &rows, begin, end);
    } else {
        grouped_by_rows(&job, begin, end, scratch);
    }
    return HYB_OK;
}

/* Float64, which gradients are checked in. */
static hyb_status grouped_run_double(const hyb_call *call, bool has_zero, int64_t begin,
                                     int64_t end)
{
    const hyb_layout *w = &call->layout[1];
    const int64_t m = call->layout[0].shape[0], k = call->layout[0].shape[1], n = w->shape[0];
    const int64_t pitch = w->shape[1], groups = call->layout[2].shape[1];
    const bool bytes = w->dtype == HYB_I8, table = call->attrs[1].i != 0;
    const double *x = call->data[0], *scale = call->data[2];
    const double *zero = has_zero ? call->data[3] : NULL;
    double *y = call->data[has_zero ? 4 : 3];
    end = matmul_smaller(end * GROUPED_COLUMNS, n);
    for (int64_t c = begin * GROUPED_COLUMNS; c < end; c++) {
        const uint8_t *from = (const uint8_t *)call->data[1] + c * pitch;
        for (int64_t r = 0; r < m; r++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) {
                const int64_t g = c * groups + i / call->attrs[0].i;
                const int half = bytes ? 0 : from[i / 2] >> 4 * (i & 1) & 15;
                const double value = bytes   ? (int8_t)from[i]
                                     : table ? (double)grouped_values[half]
                                             : half - 8;
                sum += x[r * k + i] * (value * scale[g] + (zero ? zero[g] : 0));
            }
            y[r * n + c] = sum;
        }
    }
    return HYB_OK;
}

HYB_KERNEL(matmul_grouped_f64) { return grouped_run_double(call, false, begin, end); }
HYB_KERNEL(matmul_grouped_zero_f64) { return grouped_run_double(call, true, begin, end); }
HYB_KERNEL(matmul_grouped) { return grouped_run(call, false, begin, end); }
HYB_KERNEL(matmul_grouped_zero) { return grouped_run(call, true, begin, end); }

/* x [M, K] of dtype, w, scale and zero [N, G] -> y [M, N], floats of dtype real. */
static hyb_status grouped_require(const hyb_call *call, const char *name, int32_t dtype,
                                  int32_t real, bool zero)
{
    const hyb_layout *w = &call->layout[1];
    const int64_t k = call->layout[0].rank == 2 ? call->layout[0].shape[1] : 0;
    const int64_t group = call->attrs[0].i;
    const int y = zero ? 4 : 3;
    hyb_status status;
    if ((status = require_dense(call, 0, dtype, 2)) != HYB_OK)
        return status;
    if (w->dtype != HYB_I8 && w->dtype != HYB_U8)
        return hyb_fail(HYB_BAD_ARGUMENT, "%s: operand 1 has dtype %d, not bytes", name,
                        (int)w->dtype);
    if (group < 1)
        return hyb_fail(HYB_BAD_ARGUMENT, "%s: groups of %lld weights", name, (long long)group);
    const int64_t groups = k == 0 ? 0 : (k - 1) / group + 1;
    if ((status = require_dense(call, 1, w->dtype, 2)) != HYB_OK ||
        (status = require_dense(call, 2, real, 2)) != HYB_OK ||
        (zero && (status = require_dense(call, 3, real, 2)) != HYB_OK) ||
        (status = require_dense(call, y, real, 2)) != HYB_OK)
        return status;
    const int64_t n = w->shape[0];
    if ((status = require_size(call, 1, 1, w->dtype == HYB_I8 ? k : k / 2 + k % 2)) != HYB_OK ||
        (status = require_size(call, 2, 0, n)) != HYB_OK ||
        (status = require_size(call, 2, 1, groups)) != HYB_OK ||
        (zero && (status = require_size(call, 3, 0, n)) != HYB_OK) ||
        (zero && (status = require_size(call, 3, 1, groups)) != HYB_OK) ||
        (status = require_size(call, y, 0, call->layout[0].shape[0])) != HYB_OK ||
        (status = require_size(call, y, 1, n)) != HYB_OK)
        return status;
    return HYB_OK;
}

/* Pieces of columns, so many that what is made of x is worth it. */
static hyb_range grouped_range(const hyb_call *call)
{
    const int64_t n = call->layout[1].shape[0], pitch = call->layout[1].shape[1];
    const double rows = (double)call->layout[0].shape[0];
    const double piece = (double)GROUPED_COLUMNS * (double)(pitch < 1 ? 1 : pitch);
    const double share = rows <= GROUPED_FEW ? 1 : (rows < 64 ? rows / 4 : 16);
    const double grain = GROUPED_BYTES_OF_CHUNK / share / piece;
    return (hyb_range){matmul_ceil(n, GROUPED_COLUMNS), grain < 1 ? 1 : (int64_t)grain};
}

static hyb_status grouped_prepare(const hyb_call *call, hyb_range *range, int32_t real, bool zero)
{
    const char *name = zero ? "matmul_grouped_zero" : "matmul_grouped";
    const hyb_status status = grouped_require(call, name, real, real, zero);
    if (status != HYB_OK)
        return status;
    if (call->attrs[1].i != 0 && (zero || call->layout[1].dtype != HYB_U8))
        return hyb_fail(HYB_BAD_ARGUMENT, "%s: no table has weights of 8 bits, or zeros", name);
    *range = grouped_range(call);
    return HYB_OK;
}

HYB_PREPARE(prepare_matmul_grouped) { return grouped_prepare(call, range, HYB_F32, false); }
HYB_PREPARE(prepare_matmul_grouped_zero) { return grouped_prepare(call, range, HYB_F32, true); }
HYB_PREPARE(prepare_matmul_grouped_f64) { return grouped_prepare(call, range, HYB_F64, false); }
HYB_PREPARE(prepare_matmul_grouped_zero_f64)
{
    return grouped_prepare(call, range, HYB_F64, true);
}
