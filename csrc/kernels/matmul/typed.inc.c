/* matmul/typed.inc.c - the product of one float dtype; included by matmul/family.inc.c once per dtype
 * (each_float.inc.c).
 */
#include "kernels/matmul/lanes.inc.c"
#include "kernels/matmul/pack.inc.c"
#include "kernels/matmul/tile.inc.c"
#include "kernels/matmul/vector.inc.c"
#include "kernels/matmul/blocks.inc.c"

typedef struct {
    N(matmul_job) job; /* of the first product */
    matmul_operands by; /* distances from one product to the next */
} N(matmul_batch);

static hyb_status N(matmul_products)(void *context, int64_t begin, int64_t end)
{
    const N(matmul_batch) *batch = context;
    hyb_status status = HYB_OK;
    for (int64_t i = begin; i < end && status == HYB_OK; i++) {
        N(matmul_job) job = batch->job;
        job.a += i * batch->by.a_batch;
        job.b += i * batch->by.b_batch;
        job.first = i * job.m * job.n;
        job.c += job.first;
        status = N(matmul_blocks)(&job);
    }
    return status;
}

/* Whether to work on the transposed product: few columns do not fill a vector, and of two operands
 * along k the smaller one is to be copied across, if that saves more than turning C takes. */
static bool N(matmul_turns)(const N(matmul_job) *job)
{
    const int64_t m = job->m, n = job->n, k = job->k;
    if (m > n && n < (job->a_row == 1 ? LANES : LANES / 2))
        return true;
    const int64_t blocks = matmul_ceil(k, MATMUL_DEPTH_BYTES / (int64_t)sizeof(T));
    return job->a_col == 1 && job->b_col != 1 && 4 * m >= 3 * LANES &&
           (double)m * (double)(k + blocks * n) < (double)n * (double)k;
}

HYB_KERNEL(N(matmul))
{
    (void)begin;
    (void)end;
    matmul_operands o = matmul_operands_of(call, sizeof(T));
    const T *a = call->data[0], *b = call->data[1];
    T *c = call->data[2];
    const int64_t elements = o.batch * o.m * o.n;
    if (elements == 0)
        return HYB_OK;
    if (o.k == 0) {
        memset(c, 0, (size_t)elements * sizeof(T));
        if (call->post)
            call->post->apply(call->post->context, 0, elements);
        return HYB_OK;
    }

    /* With one right matrix for all, rows that are evenly apart are those of one product. */
    const bool even = o.m == 1 || o.a_batch == o.m * o.a_row;
    const int64_t a_row = o.m == 1 ? o.a_batch : o.a_row;
    const bool folds = o.batch > 1 && o.b_batch == 0 && even && (o.a_col == 1 || a_row == 1);

    /* The two ways sum in different orders: sizes alone decide, whatever the batch and where it
     * lies.  (So products of one row each are folded by callers alone, who know that they may.) */
    if (o.k >= LANES && (o.m == 1 || o.n == 1)) {
        N(matmul_vector_job) job = {.x = a, .w = b, .y = c, .n = o.n, .k = o.k, .w_row = o.b_row,
                                    .w_col = o.b_col, .batch = o.batch, .x_batch = o.a_batch,
                                    .w_batch = o.b_batch, .post = call->post};
        if (o.n > 1)
            return N(matmul_vector)(&job, o.a_col);
        job.x = b, job.w = a, job.n = o.m, job.w_row = o.a_col, job.w_col = o.a_row;
        job.x_batch = o.b_batch, job.w_batch = o.a_batch;
        if (folds)
            job.n *= o.batch, job.w_col = a_row, job.batch = 1;
        return N(matmul_vector)(&job, o.b_row);
    }

    /* From here on an element is summed in one order only, so layouts may choose the way. */
    if (folds) {
        o.m *= o.batch;
        o.a_row = a_row;
        o.batch = 1;
    }
    N(matmul_batch) batch = {
        {.a = a, .b = b, .c = c, .m = o.m, .n = o.n, .k = o.k, .a_row = o.a_row, .a_col = o.a_col,
         .b_row = o.b_row, .b_col = o.b_col, .c_row = o.n, .c_col = 1, .parallel = true,
         .post = call->post},
        o};
    if (N(matmul_turns)(&batch.job)) {
        N(matmul_job) *job = &batch.job;
        job->a = b, job->b = a, job->m = o.n, job->n = o.m;
        job->a_row = o.b_col, job->a_col = o.b_row, job->b_row = o.a_col, job->b_col = o.a_row;
        job->c_row = 1, job->c_col = o.n;
        batch.by.a_batch = o.b_batch, batch.by.b_batch = o.a_batch;
    }
    if (o.batch == 1)
        return N(matmul_blocks)(&batch.job);
    const double work = 2.0 * (double)o.m * (double)o.n * (double)o.k;
    if (work >= (o.batch < 8 ? 2 : 16) * hyb_choice(HYB_WAKING_WORK))
        return N(matmul_products)(&batch, 0, o.batch); /* threads share each product */
    batch.job.parallel = false;
    if (work * (double)o.batch < hyb_choice(HYB_WAKING_WORK))
        return N(matmul_products)(&batch, 0, o.batch);
    const int64_t grain = 1 + (int64_t)(hyb_choice(HYB_TASK_WORK) / work);
    return hyb_parallel_for(o.batch, grain, N(matmul_products), &batch);
}

HYB_PREPARE(N(prepare_matmul))
{
    *range = (hyb_range){1, 1};
    return matmul_prepare(call, DTYPE, DTYPE, DTYPE);
}

#include "kernels/matmul/prepared.inc.c"
#include "kernels/matmul/sum.inc.c"
