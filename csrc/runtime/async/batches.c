/* batches.c - what batches of a queue are made of: rows of columns, or what plans make of them. */
#include <string.h>

#include "runtime/async/batches.h"

int64_t hyb_batch_rows(const hyb_batches *b, int64_t at)
{
    const int64_t left = b->n - (at - b->first) * b->batch;
    return left < b->batch ? left : b->batch;
}

/* How many of the rows that `order` names are neighbours from the first one on. */
static int64_t stretch(const int64_t *order, int64_t rows)
{
    int64_t run = 1;
    while (run < rows && order[run] == order[0] + run)
        run++;
    return run;
}

static void gather(const hyb_column *column, const int64_t *order, int64_t rows, char *out)
{
    const int64_t nbytes = column->nbytes;
    for (int64_t i = 0, run; i < rows; i += run) {
        run = stretch(order + i, rows - i);
        memcpy(out + i * nbytes, (const char *)column->rows + order[i] * nbytes,
               (size_t)(run * nbytes));
    }
}

bool hyb_is_made(const hyb_column *column) { return column->whole || column->rest; }

/* Makes batch `at`. */
hyb_status hyb_make_batch(const hyb_batches *b, int64_t at, void *const *out)
{
    const int64_t *order = b->order + (at - b->first) * b->batch, rows = hyb_batch_rows(b, at);
    for (int32_t c = 0; c < b->n_columns; c++) {
        const hyb_column *column = &b->columns[c];
        if (!hyb_is_made(column)) {
            gather(column, order, rows, out[c]);
            continue;
        }
        const char *from = (const char *)column->rows + order[0] * column->nbytes;
        if (stretch(order, rows) < rows) {
            gather(column, order, rows, b->rows);
            from = b->rows;
        }
        void *const externals[] = {out[c], (void *)from};
        TRY(hyb_plan_run(rows < b->batch ? column->rest : column->whole, externals));
    }
    return HYB_OK;
}

/* Whether the plan makes what it is to of so many bytes, and that alone. */
static bool plan_fits(const hyb_plan *plan, int64_t made_nbytes, int64_t nbytes)
{
    if (!plan || plan->host || plan->n_externals != 2)
        return false;
    for (int32_t i = 0; i < plan->n_slots; i++) {
        const hyb_slot *slot = &plan->slots[i];
        if (slot->kind == HYB_SLOT_EXTERNAL
            && slot->nbytes != (slot->external == 0 ? made_nbytes : nbytes))
            return false;
    }
    return true;
}

hyb_status hyb_check_order(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                           int64_t n, int64_t batch)
{
    const int64_t rest = n % batch;
    for (int64_t i = 0; i < n; i++)
        if (order[i] < 0 || order[i] >= columns[0].n_rows)
            return hyb_fail(HYB_BAD_INDEX, "row %lld of %lld in the order of a queue",
                            (long long)order[i], (long long)columns[0].n_rows);
    for (int32_t c = 0; c < n_columns; c++) {
        const hyb_column *column = &columns[c];
        if (!hyb_is_made(column))
            continue;
        const int64_t made = column->made_nbytes, given = column->nbytes;
        if ((n >= batch && !plan_fits(column->whole, made * batch, given * batch))
            || (rest && !plan_fits(column->rest, made * rest, given * rest)))
            return hyb_fail(HYB_BAD_ARGUMENT, "column %d of a queue has no plan for its batches", c);
    }
    return HYB_OK;
}

/* Whether batches of so many bytes a row can be; 64 of them, that is. */
static bool is_size(int64_t nbytes, int64_t batch)
{
    int64_t all;
    return nbytes >= 0 && !__builtin_mul_overflow(nbytes, batch, &all)
        && all <= INT64_MAX / 64 / HYB_QUEUE_COLUMNS;
}

hyb_status hyb_check_batches(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                             int64_t n, int64_t batch)
{
    if (n_columns < 1 || n_columns > HYB_QUEUE_COLUMNS || n < 0 || batch < 1)
        return hyb_fail(HYB_BAD_ARGUMENT, "a queue of %d columns, %lld rows, %lld in a batch",
                        n_columns, (long long)n, (long long)batch);
    for (int32_t c = 0; c < n_columns; c++) {
        const hyb_column *column = &columns[c];
        if (column->n_rows < 0 || column->n_rows != columns[0].n_rows
            || !is_size(column->nbytes, batch) || !is_size(column->made_nbytes, batch)
            || (!hyb_is_made(column) && column->made_nbytes != column->nbytes))
            return hyb_fail(HYB_BAD_ARGUMENT, "column %d of a queue: %lld rows of %lld bytes", c,
                            (long long)column->n_rows, (long long)column->nbytes);
    }
    return hyb_check_order(columns, n_columns, order, n, batch);
}
