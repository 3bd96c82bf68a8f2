/* pool.c - parallel_for on this thread and a few that wait.
 *
 * One job runs at a time.  Its chunks are taken from a counter by whoever comes: the caller at
 * once, the workers as they wake.  A caller that finds the pool busy (another thread's job, or a
 * call from inside a chunk) runs its chunks itself; for another thread's job a worker gives up its
 * seat meanwhile, so that no more threads compute than were asked for.  A thread may be confined:
 * it does so with every job of its own.  Chunks have the same bounds in every case, so results
 * depend on none of this.
 *
 * The gate is one word: how often it was opened and closed (upper half, odd while a job is open)
 * and how many workers are inside (lower half).  Workers enter by adding one while it is open; the
 * caller closes it when no chunk is left and waits until nobody is inside.  So a worker that wakes
 * late touches nothing of the job.
 *
 * Whoever waits first spins and then sleeps: to wake a thread takes longer on some machines than a
 * step of a plan.  A worker spins for twice the time that usually lies between jobs of late, if that
 * is short, and the caller for as long as its job has taken so far.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/runtime.h"

#define YIELD_NS 2000   /* from then on offer the core: whoever we wait for may need it */
#define SOON_NS 400000  /* between jobs: the most for which workers spin longer than usual */
#define LATE_NS 2000000 /* between jobs, beyond which it is all the same; and no caller spins longer */

typedef struct {
    hyb_work_fn fn;
    void *context;
    int64_t n, grain, chunks;
    _Alignas(64) atomic_int_least64_t next; /* chunk */
    pthread_mutex_t failure;                /* guards the rest */
    int64_t failed_chunk;
    hyb_status status;
    char text[HYB_TEXT];
} job;

#define ONE_TURN ((uint64_t)1 << 32)

static struct {
    _Alignas(64) atomic_uint_least64_t gate;
    _Alignas(64) atomic_bool busy; /* whoever sets it owns the job, `seats` and `started` */
    atomic_int seats;              /* workers that may enter */
    atomic_int alone;              /* callers that run their chunks themselves */
    atomic_int sleepers;
    atomic_bool caller_sleeps;
    job *job;
    int64_t began, ended;  /* the last job, on hyb_clock; for the thread that took the pool, as is gap */
    int64_t gap;           /* between jobs of late, in ns */
    atomic_int_least64_t patience; /* ns that workers spin */
    int started;           /* workers */
    pthread_mutex_t mutex; /* for the two conditions */
    pthread_cond_t wake, done;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static atomic_int n_threads; /* 0 until hyb_init */

static uint32_t turn_of(uint64_t gate) { return (uint32_t)(gate >> 32); }
static uint32_t inside(uint64_t gate) { return (uint32_t)gate; }

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins until `holds(argument)` or `patience` ns are over; says which. */
static bool spin_until(bool (*holds)(uint32_t), uint32_t argument, int64_t patience)
{
    const int64_t start = hyb_clock();
    int64_t now = start;
    do {
        if (now - start > YIELD_NS)
            sched_yield();
        for (int i = 0; i < 16; i++) {
            if (holds(argument))
                return true;
            relax();
        }
    } while ((now = hyb_clock()) - start < patience);
    return false;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Notes when a job begins, and how long workers will spin for the one after it. */
static void begin_job(void)
{
    pool.began = hyb_clock();
    pool.gap += (smaller(pool.began - pool.ended, LATE_NS) - pool.gap) / 4;
    const int64_t usual = hyb_choice(HYB_SPIN_NS);
    atomic_store_explicit(&pool.patience,
                          pool.gap < SOON_NS ? larger(2 * pool.gap, usual) : usual,
                          memory_order_relaxed);
}

static bool job_is_open(uint32_t seen)
{
    const uint32_t turn = turn_of(atomic_load(&pool.gate));
    return (turn & 1) && turn != seen;
}

static bool all_left(uint32_t unused)
{
    (void)unused;
    return inside(atomic_load(&pool.gate)) == 0;
}

/* Whether this thread is in a chunk, or the caller of one: it is counted already. */
static _Thread_local bool counted;

/* Whether this thread never takes the pool: of some that run beside each other already. */
static _Thread_local bool confined;

/* Workers that may be inside. */
static uint32_t free_seats(void)
{
    const int seats = atomic_load(&pool.seats) - atomic_load(&pool.alone);
    return seats > 0 ? (uint32_t)seats : 0;
}

/* `seat` is 0 for the caller, which stays until no chunk is left. */
static void take_chunks(job *j, uint32_t seat)
{
    while (seat == 0 || seat <= free_seats()) {
        const int64_t chunk = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (chunk >= j->chunks)
            return;
        const int64_t begin = chunk * j->grain;
        const int64_t end = j->n - begin > j->grain ? begin + j->grain : j->n;
        const hyb_status status = j->fn(j->context, begin, end);
        if (status == HYB_OK)
            continue;
        /* Chunks are handed out in order, so every earlier one is done or under way: the first
         * failing one will be known although no more are handed out. */
        atomic_store_explicit(&j->next, j->chunks, memory_order_relaxed);
        pthread_mutex_lock(&j->failure);
        if (chunk < j->failed_chunk) {
            j->failed_chunk = chunk;
            j->status = status;
            snprintf(j->text, sizeof j->text, "%s", hyb_last_error());
        }
        pthread_mutex_unlock(&j->failure);
    }
}

/* Or until one was, and is over: where jobs are shorter than waking takes, the next one comes soon. */
static void sleep_until_job(uint32_t seen)
{
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    const uint32_t before = turn_of(atomic_load(&pool.gate));
    while (!job_is_open(seen) && turn_of(atomic_load(&pool.gate)) == before)
        pthread_cond_wait(&pool.wake, &pool.mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
}

/* The seat, or 0 if the job is over or has workers enough. */
static uint32_t enter(uint32_t turn)
{
    uint64_t gate = atomic_load(&pool.gate);
    while (turn_of(gate) == turn && inside(gate) < free_seats())
        if (atomic_compare_exchange_weak(&pool.gate, &gate, gate + 1))
            return inside(gate) + 1;
    return 0;
}

static void leave(void)
{
    const uint64_t gate = atomic_fetch_sub(&pool.gate, 1) - 1;
    if (inside(gate) == 0 && atomic_load(&pool.caller_sleeps)) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.mutex);
    }
}

static void *work(void *unused)
{
    uint32_t seen = 0, seat;
    counted = true;
    for (;;) {
        if (!spin_until(job_is_open, seen, atomic_load_explicit(&pool.patience, memory_order_relaxed)))
            sleep_until_job(seen);
        seen = turn_of(atomic_load(&pool.gate));
        if ((seen & 1) && (seat = enter(seen)) > 0) {
            take_chunks(pool.job, seat);
            leave();
        }
    }
    return unused;
}

/* As many workers as asked for, or as many as the system gives: fewer is slower, not wrong. */
static void start_workers(int wanted)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's own threads' */
    while (pool.started < wanted) {
        pthread_t thread;
        if (hyb_allocation_fails() || pthread_create(&thread, NULL, work, NULL) != 0)
            break;
        pthread_detach(thread);
        pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wake_workers(int wanted)
{
    const int awake = pool.started - atomic_load(&pool.sleepers);
    if (wanted <= awake)
        return;
    pthread_mutex_lock(&pool.mutex);
    for (int i = awake; i < wanted; i++)
        pthread_cond_signal(&pool.wake);
    pthread_mutex_unlock(&pool.mutex);
}

static void wait_for_workers(void)
{
    if (inside(atomic_fetch_add(&pool.gate, ONE_TURN)) == 0)
        return;
    const int64_t taken = smaller(hyb_clock() - pool.began, LATE_NS);
    if (spin_until(all_left, 0, larger(taken, hyb_choice(HYB_SPIN_NS))))
        return;
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&pool.caller_sleeps, true);
    while (!all_left(0))
        pthread_cond_wait(&pool.done, &pool.mutex);
    atomic_store(&pool.caller_sleeps, false);
    pthread_mutex_unlock(&pool.mutex);
}

static hyb_status run_chunks(int64_t n, int64_t grain, hyb_work_fn fn, void *context)
{
    for (int64_t begin = 0; begin < n;) {
        const int64_t end = n - begin > grain ? begin + grain : n;
        const hyb_status status = fn(context, begin, end);
        if (status != HYB_OK)
            return status;
        begin = end;
    }
    return HYB_OK;
}

void hyb_compute_apart(bool apart)
{
    counted = apart;
    atomic_fetch_add(&pool.alone, apart ? 1 : -1);
}

/* The pool is busy, or not for this thread. */
static hyb_status run_inline(int64_t n, int64_t grain, hyb_work_fn fn, void *context)
{
    hyb_compute_apart(true);
    const hyb_status status = run_chunks(n, grain, fn, context);
    hyb_compute_apart(false);
    return status;
}

static hyb_status run_shared(int64_t n, int64_t grain, hyb_work_fn fn, void *context, int threads)
{
    job j = {.fn = fn,
             .context = context,
             .n = n,
             .grain = grain,
             .chunks = (n - 1) / grain + 1,
             .failure = PTHREAD_MUTEX_INITIALIZER,
             .failed_chunk = INT64_MAX};
    const int wanted = j.chunks < threads ? (int)j.chunks - 1 : threads - 1;
    if (pool.started < wanted)
        start_workers(wanted);
    atomic_store_explicit(&pool.seats, wanted, memory_order_relaxed);
    begin_job();
    pool.job = &j;
    atomic_fetch_add(&pool.gate, ONE_TURN);
    wake_workers(wanted < pool.started ? wanted : pool.started);
    counted = true;
    take_chunks(&j, 0);
    counted = false;
    wait_for_workers();
    pool.ended = hyb_clock();
    return j.status == HYB_OK ? HYB_OK : hyb_fail(j.status, "%s", j.text);
}

bool hyb_is_alone(void)
{
    return counted || confined || atomic_load_explicit(&n_threads, memory_order_relaxed) < 2;
}

hyb_status hyb_parallel_for(int64_t n, int64_t grain, hyb_work_fn fn, void *context)
{
    if (n <= grain)
        return n > 0 ? fn(context, 0, n) : HYB_OK;
    if (grain < 1)
        grain = 1;
    const int threads = atomic_load_explicit(&n_threads, memory_order_relaxed);
    if (counted || threads < 2) /* a chunk's own chunks never take the pool */
        return run_chunks(n, grain, fn, context);
    if (confined || atomic_load_explicit(&pool.busy, memory_order_relaxed)
        || atomic_exchange_explicit(&pool.busy, true, memory_order_acquire))
        return run_inline(n, grain, fn, context);
    const hyb_status status = run_shared(n, grain, fn, context, threads);
    atomic_store_explicit(&pool.busy, false, memory_order_release);
    return status;
}

/* Only the thread that forks lives on in the child: forget the workers, and whatever they held. */
static void reset_in_child(void)
{
    hyb_memory_unlock();
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.alone, 0);
    counted = false;
    atomic_store(&pool.caller_sleeps, false);
    atomic_store(&pool.busy, false);
    pool.started = 0;
    pthread_mutex_init(&pool.mutex, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
}

__attribute__((constructor)) static void handle_forks(void)
{
    pthread_atfork(hyb_memory_lock, hyb_memory_unlock, reset_in_child);
}

hyb_status hyb_pool_init(void)
{
    const char *asked = getenv("HYBRID_NUM_THREADS");
    if (asked && asked[0]) {
        char *end;
        errno = 0;
        const long n = strtol(asked, &end, 10);
        if (*end || errno || n < 1 || n > HYB_MAX_THREADS)
            return hyb_fail(HYB_BAD_ARGUMENT,
                            "HYBRID_NUM_THREADS=%.40s: expected a number from 1 to %d", asked,
                            HYB_MAX_THREADS);
        atomic_store(&n_threads, (int)n);
        return HYB_OK;
    }
    const int cores = hyb_core_count("");
    atomic_store(&n_threads, cores < HYB_MAX_THREADS ? cores : HYB_MAX_THREADS);
    return HYB_OK;
}

hyb_status hyb_pool_set_threads(int32_t n)
{
    if (n < 1 || n > HYB_MAX_THREADS)
        return hyb_fail(HYB_BAD_ARGUMENT, "%d threads: expected a number from 1 to %d", n,
                        HYB_MAX_THREADS);
    atomic_store(&n_threads, n);
    return HYB_OK;
}

int32_t hyb_pool_threads(void) { return atomic_load(&n_threads); }

bool hyb_pool_confine(bool on)
{
    const bool before = confined;
    confined = on;
    return before;
}
