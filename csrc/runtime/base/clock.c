/* clock.c - the time, whether this thread is asked to stop, and whether it is waited for. */
#include <stdatomic.h>
#include <time.h>

#include "runtime/base/runtime.h"

static _Thread_local const atomic_bool *stop;
static _Thread_local const _Atomic int32_t *waiters;

int64_t hyb_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void hyb_thread_watch(const atomic_bool *flag, const _Atomic int32_t *waiting)
{
    stop = flag;
    waiters = waiting;
}

bool hyb_thread_is_awaited(void)
{
    return !waiters || atomic_load_explicit(waiters, memory_order_relaxed) > 0;
}

bool hyb_thread_stops(bool *watches)
{
    *watches = stop != NULL;
    return stop && atomic_load_explicit(stop, memory_order_relaxed);
}
