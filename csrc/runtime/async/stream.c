/* stream.c - streams: runs of plans, one after the other, by a thread of the stream's own.
 *
 * A stream is a ring of records.  Whoever submits a run gets its number; runs are numbered from 1 and
 * finish in that order, so one counter says which are over.  When a run fails, what was submitted
 * after it is cancelled until hyb_stream_clear: nothing is computed from what is not there.  A run may
 * wait for runs of other streams, which must have been submitted before it: so there are no circles.
 * The record of a run that others wait for stays in the ring until they have looked at its status.
 *
 * The thread starts with the first run.  When there is nothing to do it spins for some microseconds
 * and then sleeps.  It calls no poll: what asks whether a loop is to go on is told whether the stream is
 * being closed.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "runtime/run/plan_run.h"

enum { FEW = 6, MOST_RECORDS = 1 << 16, SLICE_NS = 20000000 };

typedef struct {
    hyb_plan *plan;
    void **externals;
    hyb_ticket *after;
    void *few[FEW];    /* the externals, if there are so few and nothing to wait for */
    void *many;        /* or memory of its own */
    int32_t n_after;
    int32_t observers; /* runs of other streams that have yet to look at it */
    hyb_status status;
} record;

struct hyb_stream {
    pthread_mutex_t mutex; /* guards what is not atomic, and who sleeps */
    pthread_cond_t arrived, moved;
    _Atomic int64_t submitted, finished, failed; /* numbers; failed: the first one, or 0 */
    atomic_bool stop;
    hyb_status status; /* of the run that failed, its step and its text */
    int32_t step;
    char text[HYB_TEXT];
    bool started, sleeps;
    _Atomic int32_t waiters;
    int64_t references; /* of its owner, and of runs that wait for its runs */
    uint32_t generation;
    int32_t capacity;
    pthread_t thread;
    record ring[];
};

static _Atomic uint32_t generation; /* how many forks have led here: threads stay behind */

static bool is_lost(const hyb_stream *s) { return s->generation != atomic_load(&generation); }

static record *place(hyb_stream *s, int64_t number)
{
    return &s->ring[(number - 1) % s->capacity];
}

/* Waits until something moves, or for so long. */
static void wait_on(hyb_stream *s, int64_t timeout_ns)
{
    const int64_t until = hyb_clock() + timeout_ns;
    const struct timespec time = {until / 1000000000, until % 1000000000};
    s->waiters++;
    pthread_cond_timedwait(&s->moved, &s->mutex, &time);
    s->waiters--;
}

static void notify(hyb_stream *s)
{
    if (s->waiters > 0)
        pthread_cond_broadcast(&s->moved);
}

/* Unlocks `s` and lets go of it. */
static void release(hyb_stream *s)
{
    const bool last = --s->references == 0;
    pthread_mutex_unlock(&s->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&s->arrived);
    pthread_cond_destroy(&s->moved);
    pthread_mutex_destroy(&s->mutex);
    hyb_free(s);
}

/* The run of a ticket has been looked at. */
static void leave(const hyb_ticket *ticket)
{
    hyb_stream *other = ticket->stream;
    place(other, ticket->number)->observers--;
    notify(other); /* there may be room */
    release(other);
}

/* Whether the runs that `r` waits for are over and none was in vain; looks at all of them. */
static bool others_are_fine(const hyb_stream *s, const record *r)
{
    bool fine = true;
    for (int32_t i = 0; i < r->n_after; i++) {
        hyb_stream *other = r->after[i].stream;
        const int64_t number = r->after[i].number;
        pthread_mutex_lock(&other->mutex);
        while (atomic_load(&other->finished) < number && !atomic_load(&s->stop)
               && !atomic_load(&s->failed))
            wait_on(other, SLICE_NS);
        fine = fine && atomic_load(&other->finished) >= number
            && place(other, number)->status == HYB_OK;
        leave(&r->after[i]);
    }
    return fine;
}

static void finish(hyb_stream *s, int64_t number, hyb_status status)
{
    record *r = place(s, number);
    void *many = r->many;
    pthread_mutex_lock(&s->mutex);
    if (status != HYB_OK && !atomic_load(&s->failed)) {
        s->status = status;
        s->step = status == HYB_CANCELLED ? -1 : hyb_last_step();
        snprintf(s->text, sizeof s->text, "%s",
                 status == HYB_CANCELLED ? "what the run waits for was in vain" : hyb_last_error());
        atomic_store(&s->failed, number);
    }
    r->status = status;
    r->many = NULL;
    atomic_store(&s->finished, number);
    notify(s);
    pthread_mutex_unlock(&s->mutex);
    hyb_free(many);
}

static bool spin_until(const hyb_stream *s, int64_t number)
{
    const int64_t start = hyb_clock();
    do {
        for (int i = 0; i < 32; i++)
            if (atomic_load(&s->submitted) >= number || atomic_load(&s->stop))
                return true;
        sched_yield();
    } while (hyb_clock() - start < hyb_choice(HYB_SPIN_NS));
    return false;
}

/* False: the stream is being closed. */
static bool has_come(hyb_stream *s, int64_t number)
{
    if (!spin_until(s, number)) {
        pthread_mutex_lock(&s->mutex);
        s->sleeps = true;
        while (atomic_load(&s->submitted) < number && !atomic_load(&s->stop))
            pthread_cond_wait(&s->arrived, &s->mutex);
        s->sleeps = false;
        pthread_mutex_unlock(&s->mutex);
    }
    return !atomic_load(&s->stop);
}

static void *work(void *context)
{
    hyb_stream *s = context;
    hyb_thread_watch(&s->stop, &s->waiters);
    for (int64_t number = 1; has_come(s, number); number++) {
        const record *r = place(s, number);
        hyb_status status = HYB_CANCELLED;
        if (others_are_fine(s, r) && !atomic_load(&s->failed))
            status = hyb_plan_run(r->plan, r->externals);
        finish(s, number, status);
    }
    return NULL;
}

hyb_stream *hyb_stream_open(int32_t capacity)
{
    if (capacity < 1 || capacity > MOST_RECORDS) {
        hyb_fail(HYB_BAD_ARGUMENT, "a stream of %d runs: expected a number from 1 to %d", capacity,
                 MOST_RECORDS);
        return NULL;
    }
    const size_t nbytes = sizeof(hyb_stream) + (size_t)capacity * sizeof(record);
    hyb_stream *s = hyb_init() == HYB_OK ? hyb_alloc(nbytes) : NULL;
    if (!s)
        return NULL;
    memset(s, 0, nbytes);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->arrived, NULL);
    pthread_cond_init(&s->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->references = 1;
    s->generation = atomic_load(&generation);
    s->capacity = capacity;
    return s;
}

static hyb_status start(hyb_stream *s)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's own threads' */
    s->started = !hyb_allocation_fails() && pthread_create(&s->thread, NULL, work, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s->started ? HYB_OK : hyb_fail(HYB_NO_MEMORY, "the system gives no thread for a stream");
}

/* Copies what the run needs. */
static hyb_status fill(record *r, hyb_plan *plan, void *const *externals, int32_t n,
                       const hyb_ticket *after, int32_t n_after)
{
    *r = (record){.plan = plan, .externals = r->few, .n_after = n_after};
    if (n > FEW || n_after > 0) {
        const size_t pointers = (size_t)n * sizeof(void *);
        r->many = hyb_alloc(pointers + (size_t)n_after * sizeof(hyb_ticket));
        if (!r->many)
            return HYB_NO_MEMORY;
        r->externals = r->many;
        r->after = (hyb_ticket *)((char *)r->many + pointers);
    }
    for (int32_t i = 0; i < n; i++)
        r->externals[i] = externals[i];
    for (int32_t i = 0; i < n_after; i++)
        r->after[i] = after[i];
    return HYB_OK;
}

/* Sees to it that the run of a ticket stays in its ring until it has been looked at. */
static hyb_status observe(const hyb_stream *s, const hyb_ticket *ticket)
{
    hyb_stream *other = ticket->stream;
    if (!other || other == s || is_lost(other))
        return hyb_fail(HYB_BAD_ARGUMENT, "a run cannot wait for %s stream",
                        !other ? "no" : other == s ? "its own" : "a lost");
    pthread_mutex_lock(&other->mutex);
    const int64_t last = atomic_load(&other->submitted);
    const bool known = ticket->number > 0 && ticket->number <= last
        && ticket->number > last - other->capacity;
    if (known) {
        place(other, ticket->number)->observers++;
        other->references++;
    }
    pthread_mutex_unlock(&other->mutex);
    return known ? HYB_OK
                 : hyb_fail(HYB_BAD_ARGUMENT, "a run cannot wait for run %lld of a stream",
                            (long long)ticket->number);
}

static bool has_room(hyb_stream *s)
{
    const int64_t last = atomic_load(&s->submitted);
    return last - atomic_load(&s->finished) < s->capacity && place(s, last + 1)->observers == 0;
}

/* Once the others are observed; `*number` stays 0 if there is no room. */
static hyb_status enqueue(hyb_stream *s, hyb_plan *plan, void *const *externals, int32_t n,
                          const hyb_ticket *after, int32_t n_after, int64_t *number)
{
    if (!has_room(s))
        return HYB_OK;
    const int64_t next = atomic_load(&s->submitted) + 1;
    record *r = place(s, next);
    TRY(fill(r, plan, externals, n, after, n_after));
    if (!s->started && start(s) != HYB_OK) {
        hyb_free(r->many);
        r->many = NULL;
        return HYB_NO_MEMORY;
    }
    atomic_store(&s->submitted, *number = next);
    return HYB_OK;
}

hyb_status hyb_stream_submit(hyb_stream *s, hyb_plan *plan, void *const *externals, int32_t n,
                             const hyb_ticket *after, int32_t n_after, int64_t *number)
{
    *number = 0;
    if (is_lost(s) || atomic_load(&s->stop))
        return hyb_fail(HYB_BAD_ARGUMENT, is_lost(s) ? "the thread of the stream stayed behind in a fork"
                                                     : "the stream is stopped");
    if (n != plan->n_externals || n_after < 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "the plan takes %d externals, %d were given",
                        plan->n_externals, n);
    int32_t observed = 0;
    hyb_status status = HYB_OK;
    while (observed < n_after && (status = observe(s, &after[observed])) == HYB_OK)
        observed++;
    if (status == HYB_OK) {
        pthread_mutex_lock(&s->mutex);
        status = enqueue(s, plan, externals, n, after, n_after, number);
        const bool wake = s->sleeps;
        pthread_mutex_unlock(&s->mutex);
        if (wake) /* it needs the mutex first */
            pthread_cond_signal(&s->arrived);
    }
    if (*number == 0)
        for (int32_t i = 0; i < observed; i++) {
            pthread_mutex_lock(&after[i].stream->mutex);
            leave(&after[i]);
        }
    return status;
}

int64_t hyb_stream_finished(const hyb_stream *s) { return atomic_load(&s->finished); }

int32_t hyb_stream_wait(hyb_stream *s, int64_t number, int64_t timeout_ns)
{
    if (atomic_load(&s->finished) >= number)
        return 1;
    if (is_lost(s))
        return -1;
    pthread_mutex_lock(&s->mutex);
    if (number > atomic_load(&s->submitted))
        number = INT64_MAX; /* nobody will tell */
    const int64_t until = hyb_clock() + timeout_ns;
    for (int64_t left = timeout_ns; left > 0 && atomic_load(&s->finished) < number;
         left = until - hyb_clock())
        wait_on(s, left);
    pthread_mutex_unlock(&s->mutex);
    return atomic_load(&s->finished) >= number;
}

int32_t hyb_stream_room(hyb_stream *s, int64_t timeout_ns)
{
    if (is_lost(s))
        return -1;
    pthread_mutex_lock(&s->mutex);
    const int64_t until = hyb_clock() + timeout_ns;
    for (int64_t left = timeout_ns; left > 0 && !has_room(s); left = until - hyb_clock())
        wait_on(s, left);
    const bool room = has_room(s);
    pthread_mutex_unlock(&s->mutex);
    return room;
}

hyb_status hyb_stream_failure(hyb_stream *s, int64_t *number)
{
    *number = atomic_load(&s->failed);
    if (*number == 0)
        return HYB_OK;
    hyb_set_last_step(s->step);
    return hyb_fail(s->status, "%s", s->text);
}

hyb_status hyb_stream_clear(hyb_stream *s)
{
    pthread_mutex_lock(&s->mutex);
    const bool idle = atomic_load(&s->finished) == atomic_load(&s->submitted);
    if (idle)
        atomic_store(&s->failed, 0);
    pthread_mutex_unlock(&s->mutex);
    return idle ? HYB_OK : hyb_fail(HYB_BAD_ARGUMENT, "runs of the stream are under way");
}

void hyb_stream_stop(hyb_stream *s)
{
    if (!s || is_lost(s))
        return;
    pthread_mutex_lock(&s->mutex);
    atomic_store(&s->stop, true);
    pthread_cond_signal(&s->arrived);
    pthread_mutex_unlock(&s->mutex);
    if (s->started)
        pthread_join(s->thread, NULL);
    s->started = false;
    while (atomic_load(&s->finished) < atomic_load(&s->submitted)) {
        const int64_t number = atomic_load(&s->finished) + 1;
        others_are_fine(s, place(s, number)); /* they are not waited for any longer */
        finish(s, number, HYB_CANCELLED);
    }
}

void hyb_stream_close(hyb_stream *s)
{
    if (!s || is_lost(s)) /* its locks may be anyone's: it is left where it is */
        return;
    hyb_stream_stop(s);
    pthread_mutex_lock(&s->mutex);
    release(s);
}

static void count_fork(void) { atomic_fetch_add(&generation, 1); }

__attribute__((constructor)) static void handle_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}
