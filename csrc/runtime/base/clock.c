/* clock.c - the time, and whether this thread is asked to stop. */
#include <stdatomic.h>
#include <time.h>

#include "runtime/base/runtime.h"

static _Thread_local const atomic_bool *stop;

int64_t hyb_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void hyb_thread_watch(const atomic_bool *flag) { stop = flag; }

bool hyb_thread_stops(bool *watches)
{
    *watches = stop != NULL;
    return stop && atomic_load_explicit(stop, memory_order_relaxed);
}
