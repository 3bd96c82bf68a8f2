/* cpu.c - which instruction sets this machine runs, which one is asked for, and how many cores are
 * ours. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include "isa/tables.h"
#include "runtime.h"

#define NAME(isa, rank) {#isa, rank, false},
static hyb_isa isas[] = {HYB_ISAS(NAME)};
#undef NAME
enum { N_ISAS = sizeof isas / sizeof isas[0] };

static char supported_names[64];

static bool supports(const char *isa)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(isa, "avx2") == 0)
        return avx2;
    if (strcmp(isa, "avx512") == 0)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
    (void)isa; /* baseline and neon are what the compiler's default target has */
    return true;
}

const hyb_isa *hyb_isas(int *count)
{
    *count = N_ISAS;
    return isas;
}

const hyb_isa *hyb_select_isa(void)
{
    const hyb_isa *best = NULL, *asked = NULL;
    const char *name = getenv("HYBRID_ISA");
    supported_names[0] = 0;
    for (int i = 0; i < N_ISAS; i++) {
        isas[i].supported = supports(isas[i].name);
        if (!isas[i].supported)
            continue;
        if (best)
            strcat(supported_names, " ");
        strcat(supported_names, isas[i].name);
        best = &isas[i];
        if (name && strcmp(name, isas[i].name) == 0)
            asked = &isas[i];
    }
    if (!name || !name[0])
        return best;
    if (!asked)
        hyb_fail(HYB_BAD_ARGUMENT,
                 "HYBRID_ISA=%.40s: not an instruction set of this machine, which has: %s", name,
                 supported_names);
    return asked;
}

const char *hyb_isa_supported(void)
{
    hyb_init();
    return supported_names;
}

static int affinity_count(void)
{
#if defined(__linux__)
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return CPU_COUNT(&cores);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Cores that the control group may use, rounded up; INT32_MAX when it sets no limit. */
static int quota_count(void)
{
    long long quota = -1, period = -1;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re"); /* version 2: "max 100000" or "150000
                                                           100000" */
    if (file) {
        if (fscanf(file, "%lld %lld", &quota, &period) != 2)
            quota = -1;
        fclose(file);
    } else {
        const char *const names[] = {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                     "/sys/fs/cgroup/cpu/cpu.cfs_period_us"};
        long long *const values[] = {&quota, &period};
        for (int i = 0; i < 2; i++) {
            file = fopen(names[i], "re");
            if (file && fscanf(file, "%lld", values[i]) != 1)
                *values[i] = -1;
            if (file)
                fclose(file);
        }
    }
    if (quota <= 0 || period <= 0 || quota / period >= HYB_MAX_THREADS)
        return INT32_MAX;
    return (int)((quota + period - 1) / period);
}

int hyb_core_count(void)
{
    const int cores = affinity_count(), quota = quota_count();
    const int least = cores < quota ? cores : quota;
    return least > 1 ? least : 1;
}
