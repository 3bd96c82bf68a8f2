/* queue.c - queues of batches: rows of arrays in an order that is given, or what plans make of them.
 *
 * A queue is known by a number, so that whoever asks for a batch need not be believed: a number that
 * was never given out, or a queue that is closed, is an error.  Large batches are made ahead of time
 * by a thread of the queue's own, in a ring of a few; small ones are made where they are asked for,
 * which takes less time than handing them over.  While that thread makes a batch, one of the pool's
 * gives up its seat.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "runtime/async/batches.h"

enum {
    RING = 3,             /* batches that are made ahead of time */
    SMALL_BATCH = 1 << 16, /* bytes: up to here they are not */
    MOST_QUEUES = 1 << 12
};

typedef struct {
    int64_t entry_nbytes;
    const int64_t *offset; /* of columns, in a batch of the ring */
    char *ring;            /* NULL: nothing is made ahead of time */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t moved;
    int64_t number;
    hyb_batches of;        /* their order changes when all are taken */
    int64_t end;           /* batches, counted from the opening on, as the next three are */
    int64_t made, taken;
    int64_t lent;          /* the last one that was left in the ring for whoever took it; or -1 */
    int users;             /* calls under way */
    bool closed;
    hyb_status status;     /* of batch `made`, which could not be made */
    char text[HYB_TEXT];
} queue;

static struct {
    pthread_mutex_t mutex;
    queue *open[MOST_QUEUES];
    int64_t opened;
} queues = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The queue of this number, if there is one, for as long as `queues` is locked. */
static queue *find(int64_t number)
{
    queue *q = number > 0 ? queues.open[number % MOST_QUEUES] : NULL;
    return q && q->number == number ? q : NULL;
}

/* The queue of this number, which stays until `leave`; NULL if there is none. */
static queue *enter(int64_t number)
{
    pthread_mutex_lock(&queues.mutex);
    queue *q = find(number);
    if (q) {
        pthread_mutex_lock(&q->mutex);
        q->users++;
        pthread_mutex_unlock(&q->mutex);
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

static void places(const queue *q, int64_t at, void **out)
{
    for (int32_t c = 0; c < q->of.n_columns; c++)
        out[c] = q->ring + at % RING * q->entry_nbytes + q->offset[c];
}

/* The same, for a profile to tell of. */
static hyb_status make_noted(const queue *q, int64_t at, void *const *out)
{
    hyb_recording *recording = hyb_recording_enter();
    const int64_t begin = recording ? hyb_clock() : 0;
    const hyb_status status = hyb_make_batch(&q->of, at, out);
    if (recording) {
        hyb_record_batch(recording, q->number, at - q->of.first, begin);
        hyb_recording_leave(recording);
    }
    return status;
}

/* The first batch whose place in the ring is not free, if it was made. */
static int64_t kept_from(const queue *q) { return q->lent >= 0 ? q->lent : q->taken; }

/* Whether the next batch is to wait for a place in the ring. */
static bool is_full(const queue *q) { return q->made - kept_from(q) >= RING; }

/* Waits until there is room for a batch that is wanted; -1: no more are. */
static int64_t wait_for_room(queue *q)
{
    pthread_mutex_lock(&q->mutex);
    while (!q->closed && (q->number == 0 || q->made == q->end || is_full(q)))
        pthread_cond_wait(&q->moved, &q->mutex);
    const int64_t at = q->closed ? -1 : q->made;
    pthread_mutex_unlock(&q->mutex);
    return at;
}

static void *make_ahead(void *context)
{
    queue *q = context;
    void *out[HYB_QUEUE_COLUMNS];
    hyb_status status = HYB_OK;
    for (int64_t at; status == HYB_OK && (at = wait_for_room(q)) >= 0;) {
        places(q, at, out);
        hyb_compute_apart(true);
        status = make_noted(q, at, out);
        hyb_compute_apart(false);
        pthread_mutex_lock(&q->mutex);
        if (status == HYB_OK)
            q->made = at + 1;
        else
            snprintf(q->text, sizeof q->text, "%s", hyb_last_error());
        q->status = status;
        pthread_cond_broadcast(&q->moved);
        pthread_mutex_unlock(&q->mutex);
    }
    return NULL;
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
    hyb_free(q->of.order);
    hyb_free(q);
}

/* Lets the queue go on with the batches of an order, of which it keeps a copy. */
static hyb_status set_order(queue *q, const int64_t *order, int64_t n)
{
    int64_t *own = hyb_alloc((size_t)(n > 0 ? n : 1) * sizeof *order);
    if (!own)
        return hyb_fail(HYB_NO_MEMORY, "cannot allocate a queue of %lld rows", (long long)n);
    memcpy(own, order, (size_t)n * sizeof *order);
    hyb_free(q->of.order);
    q->of.order = own;
    q->of.n = n;
    q->of.first = q->end;
    q->end += n / q->of.batch + (n % q->of.batch > 0);
    return HYB_OK;
}

static size_t rounded(int64_t nbytes) { return (size_t)(nbytes + 63) / 64 * 64; }

static hyb_status make(const hyb_column *columns, int32_t n_columns, const int64_t *order, int64_t n,
                       int64_t batch, queue **made)
{
    int64_t most = 0; /* bytes of rows that a plan is given */
    for (int32_t c = 0; c < n_columns; c++)
        if (hyb_is_made(&columns[c]) && columns[c].nbytes * batch > most)
            most = columns[c].nbytes * batch;
    const size_t parts[] = {rounded(sizeof(queue)), rounded(n_columns * (int64_t)sizeof *columns),
                            rounded(n_columns * (int64_t)sizeof(int64_t)), (size_t)most};
    char *memory = hyb_alloc(parts[0] + parts[1] + parts[2] + parts[3]);
    if (!memory)
        return hyb_fail(HYB_NO_MEMORY, "cannot allocate a queue of %lld rows", (long long)n);
    queue *q = (queue *)memory;
    hyb_column *own = (hyb_column *)(memory + parts[0]);
    int64_t *offset = (int64_t *)(memory + parts[0] + parts[1]);
    *q = (queue){.lent = -1, .offset = offset,
                 .of = {.batch = batch, .n_columns = n_columns, .columns = own,
                        .rows = memory + parts[0] + parts[1] + parts[2]}};
    memcpy(own, columns, (size_t)n_columns * sizeof *columns);
    for (int32_t c = 0; c < n_columns; c++) {
        offset[c] = q->entry_nbytes;
        q->entry_nbytes += (int64_t)rounded(columns[c].made_nbytes * batch);
    }
    const hyb_status status = set_order(q, order, n);
    if (status != HYB_OK) {
        hyb_free(q);
        return status;
    }
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->moved, NULL);
    *made = q;
    return HYB_OK;
}

/* Lets a thread make batches ahead, where that pays; without one they are made where they are asked
 * for. */
static void start(queue *q)
{
    sigset_t all, before;
    if (q->ring || q->of.n <= q->of.batch || q->entry_nbytes <= SMALL_BATCH)
        return;
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
            pthread_mutex_lock(&q->mutex);
            q->number = number;
            pthread_cond_broadcast(&q->moved);
            pthread_mutex_unlock(&q->mutex);
            queues.open[number % MOST_QUEUES] = q;
        }
    }
    pthread_mutex_unlock(&queues.mutex);
    return q->number != 0;
}

hyb_status hyb_queue_open(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                          int64_t n, int64_t batch, int64_t *number)
{
    queue *q = NULL;
    hyb_status status;
    if ((status = hyb_check_batches(columns, n_columns, order, n, batch)) != HYB_OK ||
        (status = make(columns, n_columns, order, n, batch, &q)) != HYB_OK)
        return status;
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
    for (int32_t c = 0; c < q->of.n_columns; c++)
        memcpy(out[c], from[c], (size_t)(hyb_batch_rows(&q->of, at) * q->of.columns[c].made_nbytes));
}

/* Whether whoever asks for the batch makes it: nobody else does, while what is lent is in the way. */
static bool makes_itself(const queue *q) { return !q->ring || (q->made == q->taken && is_full(q)); }

/* What is wrong with asking for a batch; waits for the batch, or says that it is still to be made.  A
 * batch that was lent goes back if another one is to be. */
static hyb_status wait_for_batch(queue *q, bool lends, bool *makes)
{
    pthread_mutex_lock(&q->mutex);
    const int64_t at = q->taken;
    const bool alone = q->users == 1;
    if (alone && lends && q->lent >= 0) {
        q->lent = -1;
        pthread_cond_broadcast(&q->moved);
    }
    while (alone && at < q->end && q->made == at && !makes_itself(q) && !q->closed
           && q->status == HYB_OK)
        pthread_cond_wait(&q->moved, &q->mutex);
    const bool over = q->closed || at >= q->end;
    *makes = makes_itself(q);
    const bool failed = !*makes && q->made == at;
    pthread_mutex_unlock(&q->mutex);
    if (!alone)
        return hyb_fail(HYB_BAD_ARGUMENT, "two threads ask for one batch of a queue");
    if (over)
        return hyb_fail(HYB_BAD_INDEX, "the queue has no batch %lld",
                        (long long)(at - q->of.first));
    return failed ? hyb_fail(q->status, "%s", q->text) : HYB_OK;
}

static hyb_status take(queue *q, void *const *out, const int64_t *nbytes, int32_t n_out,
                       void **lent)
{
    bool makes;
    TRY(wait_for_batch(q, lent != NULL, &makes));
    const int64_t at = q->taken; /* by this thread alone */
    bool fits = n_out == q->of.n_columns;
    for (int32_t c = 0; fits && c < n_out; c++)
        fits = nbytes[c] == hyb_batch_rows(&q->of, at) * q->of.columns[c].made_nbytes;
    if (!fits)
        return hyb_fail(HYB_BAD_ARGUMENT, "batch %lld of the queue is of another size",
                        (long long)(at - q->of.first));
    if (makes)
        TRY(hyb_make_batch(&q->of, at, out));
    else if (lent)
        places(q, at, lent);
    else
        copy_out(q, at, out);
    pthread_mutex_lock(&q->mutex);
    q->taken = at + 1;
    if (makes)
        q->made = at + 1;
    else if (lent)
        q->lent = at;
    if (q->ring)
        pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->mutex);
    return HYB_OK;
}

static hyb_status lend(int64_t number, void *const *out, const int64_t *nbytes, int32_t n_out,
                       void **lent)
{
    queue *q = enter(number);
    if (!q)
        return hyb_fail(HYB_BAD_ARGUMENT, "no queue %lld is open", (long long)number);
    const hyb_status status = take(q, out, nbytes, n_out, lent);
    leave(q);
    return status;
}

hyb_status hyb_queue_next(int64_t number, void *const *out, const int64_t *nbytes, int32_t n_out)
{
    return lend(number, out, nbytes, n_out, NULL);
}

/* Asked by the only user: the thread of the queue has made all there was, and waits. */
static hyb_status refill(queue *q, const int64_t *order, int64_t n)
{
    if (n < 0 || q->users > 1 || q->closed || q->taken < q->end)
        return hyb_fail(HYB_BAD_ARGUMENT, "a queue that is not empty, or closed, gets %lld rows",
                        (long long)n);
    TRY(hyb_check_order(q->of.columns, q->of.n_columns, order, n, q->of.batch));
    TRY(set_order(q, order, n));
    start(q);
    pthread_cond_broadcast(&q->moved);
    return HYB_OK;
}

hyb_status hyb_queue_refill(int64_t number, const int64_t *order, int64_t n)
{
    queue *q = enter(number);
    if (!q)
        return hyb_fail(HYB_BAD_ARGUMENT, "no queue %lld is open", (long long)number);
    pthread_mutex_lock(&q->mutex);
    const hyb_status status = refill(q, order, n);
    pthread_mutex_unlock(&q->mutex);
    leave(q);
    return status;
}

int64_t hyb_queue_taken(int64_t number)
{
    int64_t taken = -1;
    pthread_mutex_lock(&queues.mutex); /* which nobody closes meanwhile, nor need anybody wait */
    queue *q = find(number);
    if (q) {
        pthread_mutex_lock(&q->mutex);
        taken = q->taken - q->of.first;
        pthread_mutex_unlock(&q->mutex);
    }
    pthread_mutex_unlock(&queues.mutex);
    return taken;
}

void hyb_queue_close(int64_t number)
{
    pthread_mutex_lock(&queues.mutex);
    queue *q = find(number);
    if (q)
        queues.open[number % MOST_QUEUES] = NULL;
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

__attribute__((constructor)) static void begin(void)
{
    hyb_set_batches(lend);
    pthread_atfork(lock_queues, unlock_queues, forget_queues);
}
