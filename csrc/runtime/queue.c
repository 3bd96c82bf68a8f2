/* queue.c - queues of batches: rows of arrays in an order that is given.
 *
 * A queue is known by a number, so that whoever asks for a batch need not be believed: a number that
 * was never given out, or a queue that is closed, is an error.  Large batches are made ahead of time
 * by a thread of the queue's own, in a ring of a few; small ones are made where they are asked for,
 * which takes less time than handing them over.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "runtime.h"

enum {
    RING = 3,             /* batches that are made ahead of time */
    SMALL_BATCH = 1 << 16, /* bytes: up to here they are not */
    MOST_QUEUES = 1 << 12
};

typedef struct {
    int64_t number, n, batch, n_batches, entry_nbytes;
    int32_t n_columns;
    const hyb_column *columns;
    const int64_t *order, *offset; /* of columns, in a batch of the ring */
    char *ring;                    /* NULL: nothing is made ahead of time */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t moved;
    int64_t made, taken; /* batches */
    int users;           /* calls of hyb_queue_next under way */
    bool closed;
} queue;

static struct {
    pthread_mutex_t mutex;
    queue *open[MOST_QUEUES];
    int64_t opened;
} queues = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The queue of this number, which stays until `leave`; NULL if there is none. */
static queue *enter(int64_t number)
{
    if (number <= 0)
        return NULL;
    pthread_mutex_lock(&queues.mutex);
    queue *q = queues.open[number % MOST_QUEUES];
    if (q && q->number == number) {
        pthread_mutex_lock(&q->mutex);
        q->users++;
        pthread_mutex_unlock(&q->mutex);
    } else {
        q = NULL;
    }
    pthread_mutex_unlock(&queues.mutex);
    return q;
}

static void leave(queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->users--;
    pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->mutex);
}

static int64_t rows_of(const queue *q, int64_t at)
{
    const int64_t left = q->n - at * q->batch;
    return left < q->batch ? left : q->batch;
}

/* The rows of batch `at`; neighbours go together. */
static void gather(const queue *q, int64_t at, void *const *out)
{
    const int64_t *order = q->order + at * q->batch, rows = rows_of(q, at);
    for (int32_t c = 0; c < q->n_columns; c++) {
        const hyb_column *column = &q->columns[c];
        const int64_t nbytes = column->nbytes;
        for (int64_t i = 0, run; i < rows; i += run) {
            for (run = 1; i + run < rows && order[i + run] == order[i] + run;)
                run++;
            memcpy((char *)out[c] + i * nbytes, (const char *)column->rows + order[i] * nbytes,
                   (size_t)(run * nbytes));
        }
    }
}

static void places(const queue *q, int64_t at, void **out)
{
    for (int32_t c = 0; c < q->n_columns; c++)
        out[c] = q->ring + at % RING * q->entry_nbytes + q->offset[c];
}

static void *make_ahead(void *context)
{
    queue *q = context;
    void *out[HYB_QUEUE_COLUMNS];
    for (int64_t at = 0; at < q->n_batches; at++) {
        pthread_mutex_lock(&q->mutex);
        while (at - q->taken >= RING && !q->closed)
            pthread_cond_wait(&q->moved, &q->mutex);
        const bool closed = q->closed;
        pthread_mutex_unlock(&q->mutex);
        if (closed)
            break;
        places(q, at, out);
        gather(q, at, out);
        pthread_mutex_lock(&q->mutex);
        q->made = at + 1;
        pthread_cond_broadcast(&q->moved);
        pthread_mutex_unlock(&q->mutex);
    }
    return NULL;
}

static hyb_status check(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                        int64_t n, int64_t batch)
{
    if (n_columns < 1 || n_columns > HYB_QUEUE_COLUMNS || n < 0 || batch < 1)
        return hyb_fail(HYB_BAD_ARGUMENT, "a queue of %d columns, %lld rows, %lld in a batch",
                        n_columns, (long long)n, (long long)batch);
    for (int32_t c = 0; c < n_columns; c++) {
        const hyb_column *column = &columns[c];
        int64_t all;
        if (column->n_rows < 0 || column->nbytes < 0 || column->n_rows != columns[0].n_rows ||
            __builtin_mul_overflow(column->nbytes, batch, &all) || all > INT64_MAX / 64)
            return hyb_fail(HYB_BAD_ARGUMENT, "column %d of a queue: %lld rows of %lld bytes", c,
                            (long long)column->n_rows, (long long)column->nbytes);
    }
    for (int64_t i = 0; i < n; i++)
        if (order[i] < 0 || order[i] >= columns[0].n_rows)
            return hyb_fail(HYB_BAD_INDEX, "row %lld of %lld in the order of a queue",
                            (long long)order[i], (long long)columns[0].n_rows);
    return HYB_OK;
}

/* Ends a queue that nobody else knows. */
static void end(queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->closed = true;
    pthread_cond_broadcast(&q->moved);
    while (q->users > 0)
        pthread_cond_wait(&q->moved, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
    if (q->ring)
        pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->moved);
    pthread_mutex_destroy(&q->mutex);
    hyb_free(q->ring);
    hyb_free(q);
}

static hyb_status make(const hyb_column *columns, int32_t n_columns, const int64_t *order, int64_t n,
                       int64_t batch, queue **made)
{
    const size_t parts[] = {(sizeof(queue) + 63) / 64 * 64, (size_t)n_columns * sizeof *columns,
                            (size_t)n_columns * sizeof(int64_t), (size_t)n * sizeof *order};
    char *memory = hyb_alloc(parts[0] + parts[1] + parts[2] + parts[3]);
    if (!memory)
        return hyb_fail(HYB_NO_MEMORY, "cannot allocate a queue of %lld rows", (long long)n);
    queue *q = (queue *)memory;
    hyb_column *own = (hyb_column *)(memory + parts[0]);
    int64_t *offset = (int64_t *)(memory + parts[0] + parts[1]);
    int64_t *numbers = (int64_t *)(memory + parts[0] + parts[1] + parts[2]);
    *q = (queue){.n = n, .batch = batch, .n_batches = n / batch + (n % batch > 0),
                 .n_columns = n_columns, .columns = own, .order = numbers, .offset = offset};
    memcpy(own, columns, parts[1]);
    memcpy(numbers, order, parts[3]);
    for (int32_t c = 0; c < n_columns; c++) {
        offset[c] = q->entry_nbytes;
        q->entry_nbytes += (columns[c].nbytes * batch + 63) / 64 * 64;
    }
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->moved, NULL);
    *made = q;
    return HYB_OK;
}

/* Lets a thread make batches ahead; without one they are made where they are asked for. */
static void start(queue *q)
{
    sigset_t all, before;
    q->ring = hyb_alloc((size_t)(RING * q->entry_nbytes));
    if (!q->ring)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for threads of the program's own */
    if (pthread_create(&q->thread, NULL, make_ahead, q) != 0) {
        hyb_free(q->ring);
        q->ring = NULL;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Gives it a number; false where too many are open. */
static bool enroll(queue *q)
{
    pthread_mutex_lock(&queues.mutex);
    for (int i = 0; i < MOST_QUEUES && q->number == 0; i++) {
        const int64_t number = ++queues.opened;
        if (!queues.open[number % MOST_QUEUES]) {
            q->number = number;
            queues.open[number % MOST_QUEUES] = q;
        }
    }
    pthread_mutex_unlock(&queues.mutex);
    return q->number != 0;
}

hyb_status hyb_queue_open(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                          int64_t n, int64_t batch, int64_t *number)
{
    queue *q;
    hyb_status status;
    if ((status = check(columns, n_columns, order, n, batch)) != HYB_OK ||
        (status = make(columns, n_columns, order, n, batch, &q)) != HYB_OK)
        return status;
    if (q->n_batches > 1 && q->entry_nbytes > SMALL_BATCH)
        start(q);
    if (!enroll(q)) {
        end(q);
        return hyb_fail(HYB_NO_MEMORY, "%d queues are open", MOST_QUEUES);
    }
    *number = q->number;
    return HYB_OK;
}

/* Copies the batch `at`, which is made, from the ring. */
static void copy_out(const queue *q, int64_t at, void *const *out)
{
    void *from[HYB_QUEUE_COLUMNS];
    places(q, at, from);
    for (int32_t c = 0; c < q->n_columns; c++)
        memcpy(out[c], from[c], (size_t)(rows_of(q, at) * q->columns[c].nbytes));
}

static hyb_status take(queue *q, void *const *out, const int64_t *nbytes, int32_t n_out)
{
    pthread_mutex_lock(&q->mutex);
    const int64_t at = q->taken;
    const bool alone = q->users == 1;
    while (alone && q->ring && at < q->n_batches && q->made == at && !q->closed)
        pthread_cond_wait(&q->moved, &q->mutex);
    const bool over = q->closed || at >= q->n_batches;
    pthread_mutex_unlock(&q->mutex);
    if (!alone)
        return hyb_fail(HYB_BAD_ARGUMENT, "two threads ask for one batch of a queue");
    if (over)
        return hyb_fail(HYB_BAD_INDEX, "the queue has no batch %lld", (long long)at);
    bool fits = n_out == q->n_columns;
    for (int32_t c = 0; fits && c < n_out; c++)
        fits = nbytes[c] == rows_of(q, at) * q->columns[c].nbytes;
    if (!fits)
        return hyb_fail(HYB_BAD_ARGUMENT, "batch %lld of the queue is of another size",
                        (long long)at);
    if (q->ring)
        copy_out(q, at, out);
    else
        gather(q, at, out);
    pthread_mutex_lock(&q->mutex);
    q->taken = at + 1;
    if (q->ring)
        pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->mutex);
    return HYB_OK;
}

hyb_status hyb_queue_next(int64_t number, void *const *out, const int64_t *nbytes, int32_t n_out)
{
    queue *q = enter(number);
    if (!q)
        return hyb_fail(HYB_BAD_ARGUMENT, "no queue %lld is open", (long long)number);
    const hyb_status status = take(q, out, nbytes, n_out);
    leave(q);
    return status;
}

int64_t hyb_queue_taken(int64_t number)
{
    queue *q = enter(number);
    if (!q)
        return -1;
    pthread_mutex_lock(&q->mutex);
    const int64_t taken = q->taken;
    pthread_mutex_unlock(&q->mutex);
    leave(q);
    return taken;
}

void hyb_queue_close(int64_t number)
{
    pthread_mutex_lock(&queues.mutex);
    queue *q = number > 0 ? queues.open[number % MOST_QUEUES] : NULL;
    if (q && q->number == number)
        queues.open[number % MOST_QUEUES] = NULL;
    else
        q = NULL;
    pthread_mutex_unlock(&queues.mutex);
    if (q)
        end(q);
}

static void lock_queues(void) { pthread_mutex_lock(&queues.mutex); }

static void unlock_queues(void) { pthread_mutex_unlock(&queues.mutex); }

/* In a forked child: the threads of queues have stayed behind, so no batch comes of any. */
static void forget_queues(void)
{
    memset(queues.open, 0, sizeof queues.open);
    unlock_queues();
}

__attribute__((constructor)) static void handle_forks(void)
{
    pthread_atfork(lock_queues, unlock_queues, forget_queues);
}
