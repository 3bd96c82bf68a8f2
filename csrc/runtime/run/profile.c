/* profile.c - notes when, and on which thread, each step of each run began and ended.
 *
 * While nothing is recorded a run looks at one pointer, and its steps at none.  One recording is
 * under way at a time; runs that are in it when it stops are waited for, but for those that stop it
 * from inside, through a host function: they go on to note their steps, unread. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "runtime/run/plan_run.h"

struct hyb_recording {
    int64_t capacity;
    _Atomic int64_t n;     /* events so far, those that found no room included */
    _Atomic int64_t users; /* runs in it, and whoever reads it: the last one frees it */
    hyb_event events[];
};

static _Atomic(hyb_recording *) current, stopped;
static _Atomic int64_t entering, threads;
static _Thread_local int64_t depth; /* recorded runs of this thread */

static int32_t thread_number(void)
{
    static _Thread_local int32_t number;
    if (number == 0)
        number = (int32_t)(atomic_fetch_add(&threads, 1) + 1);
    return number;
}

static void release(hyb_recording *recording)
{
    if (recording && atomic_fetch_sub(&recording->users, 1) == 1)
        hyb_free(recording);
}

hyb_recording *hyb_recording_enter(void)
{
    if (!atomic_load_explicit(&current, memory_order_relaxed))
        return NULL;
    atomic_fetch_add(&entering, 1); /* it is not freed meanwhile */
    hyb_recording *recording = atomic_load(&current);
    if (recording) {
        atomic_fetch_add(&recording->users, 1);
        depth++;
    }
    atomic_fetch_sub(&entering, 1);
    return recording;
}

void hyb_recording_leave(hyb_recording *recording)
{
    depth--;
    release(recording);
}

/* In a forked child who was in the recording is gone. */
static void forget(void)
{
    atomic_store(&current, NULL);
    atomic_store(&entering, 0);
}

__attribute__((constructor)) static void handle_forks(void) { pthread_atfork(NULL, NULL, forget); }

void hyb_record(hyb_recording *recording, const hyb_plan *plan, int32_t step, int64_t begin)
{
    hyb_record_part(recording, plan, step, begin, 0, 1);
}

static void note(hyb_recording *recording, int64_t number, int32_t step, int64_t begin, int32_t part,
                 int32_t parts)
{
    const int64_t i = atomic_fetch_add_explicit(&recording->n, 1, memory_order_relaxed);
    if (i < recording->capacity)
        recording->events[i] =
            (hyb_event){number, begin, hyb_clock(), step, thread_number(), part, parts};
}

void hyb_record_part(hyb_recording *recording, const hyb_plan *plan, int32_t step, int64_t begin,
                     int32_t part, int32_t parts)
{
    note(recording, plan->number, step, begin, part, parts);
}

void hyb_record_batch(hyb_recording *recording, int64_t queue, int64_t batch, int64_t begin)
{
    note(recording, queue, -2, begin, (int32_t)batch, 1);
}

hyb_status hyb_profile_start(int64_t capacity)
{
    if (capacity < 1 || capacity > INT64_MAX / (int64_t)sizeof(hyb_event) - 1)
        return hyb_fail(HYB_BAD_ARGUMENT, "a profile of %lld events", (long long)capacity);
    hyb_recording *made =
        hyb_alloc(sizeof(hyb_recording) + (size_t)capacity * sizeof(hyb_event));
    if (!made)
        return HYB_NO_MEMORY;
    made->capacity = capacity;
    atomic_init(&made->n, 0);
    atomic_init(&made->users, 1);
    hyb_recording *none = NULL;
    if (atomic_compare_exchange_strong(&current, &none, made))
        return HYB_OK;
    hyb_free(made);
    return hyb_fail(HYB_BAD_ARGUMENT, "a profile is under way already");
}

int64_t hyb_profile_stop(void)
{
    hyb_recording *recording = atomic_exchange(&current, NULL);
    if (!recording)
        return 0;
    while (atomic_load(&entering) > 0 || atomic_load(&recording->users) > 1 + depth)
        sched_yield();
    const int64_t n = atomic_load(&recording->n);
    release(atomic_exchange(&stopped, recording));
    return n;
}

const hyb_event *hyb_profile_events(void)
{
    const hyb_recording *recording = atomic_load(&stopped);
    return recording ? recording->events : NULL;
}

void hyb_profile_free(void) { release(atomic_exchange(&stopped, NULL)); }
