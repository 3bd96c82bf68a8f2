/* profile.c - notes when, and on which thread, each step of each run began and ended.
 *
 * While nothing is recorded a run looks at one pointer, and its steps at none.  One recording is
 * under way at a time; runs that are in it when it stops are waited for. */
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "plan.h"

struct hyb_recording {
    int64_t capacity;
    _Atomic int64_t n; /* events so far, those that found no room included */
    hyb_event events[];
};

static _Atomic(hyb_recording *) current, stopped;
static _Atomic int64_t running, threads;

int64_t hyb_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int32_t thread_number(void)
{
    static _Thread_local int32_t number;
    if (number == 0)
        number = (int32_t)(atomic_fetch_add(&threads, 1) + 1);
    return number;
}

hyb_recording *hyb_recording_enter(void)
{
    if (!atomic_load_explicit(&current, memory_order_relaxed))
        return NULL;
    atomic_fetch_add(&running, 1);
    hyb_recording *recording = atomic_load(&current);
    if (!recording) /* it has stopped, and may not have seen this run */
        atomic_fetch_sub(&running, 1);
    return recording;
}

void hyb_recording_leave(void) { atomic_fetch_sub(&running, 1); }

void hyb_record(hyb_recording *recording, const hyb_plan *plan, int32_t step, int64_t begin)
{
    const int64_t i = atomic_fetch_add_explicit(&recording->n, 1, memory_order_relaxed);
    if (i < recording->capacity)
        recording->events[i] =
            (hyb_event){plan->number, begin, hyb_clock(), step, thread_number()};
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
    while (atomic_load(&running) > 0)
        sched_yield();
    hyb_free(atomic_exchange(&stopped, recording));
    return atomic_load(&recording->n);
}

const hyb_event *hyb_profile_events(void)
{
    const hyb_recording *recording = atomic_load(&stopped);
    return recording ? recording->events : NULL;
}

void hyb_profile_free(void) { hyb_free(atomic_exchange(&stopped, NULL)); }
