/* batches.h - the batches that a queue makes one after the other. */
#ifndef HYB_BATCHES_H
#define HYB_BATCHES_H
#include "runtime/run/plan_run.h"

typedef struct {
    int64_t batch;
    int32_t n_columns;
    const hyb_column *columns;
    char *rows;        /* room for those of one column, which a plan is about to make something of */
    int64_t *order, n; /* of the batches from `first` on */
    int64_t first;
} hyb_batches;

int64_t hyb_batch_rows(const hyb_batches *b, int64_t at);
bool hyb_is_made(const hyb_column *column); /* of rows, by plans */
hyb_status hyb_make_batch(const hyb_batches *b, int64_t at, void *const *out);

/* Whether there can be such batches; the second one asks about the order alone. */
hyb_status hyb_check_batches(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                             int64_t n, int64_t batch);
hyb_status hyb_check_order(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                           int64_t n, int64_t batch);
#endif
