/* cores.c - how many threads are worth having: the cores that are ours.
 *
 * Two hardware threads of one core share its multipliers, so they count once; a control group's
 * quota, its own or that of a group around it, counts in full cores, rounded up.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include "runtime/base/runtime.h"

enum { PATH_BYTES = 1024, LINE_BYTES = 512 };

/* The file root/path/name, or NULL. */
static FILE *open_under(const char *root, const char *path, const char *name)
{
    char full[PATH_BYTES];
    const int n = snprintf(full, sizeof full, "%s%s/%s", root, path, name);
    return n > 0 && n < (int)sizeof full ? fopen(full, "re") : NULL;
}

#if defined(__linux__)
/* Whether `cpu` is the first of its core's hardware threads that is among `ours`. */
static bool comes_first(const char *root, int cpu, const cpu_set_t *ours)
{
    char path[64], line[LINE_BYTES];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology", cpu);
    FILE *file = open_under(root, path, "thread_siblings_list");
    if (!file)
        return true;
    const bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const char *at = line;
    int low, high, used;
    while (read && sscanf(at, "%d%n", &low, &used) == 1) { /* "0,4" or "0-1" */
        at += used;
        if (low < 0)
            break;
        high = low;
        if (*at == '-' && sscanf(at + 1, "%d%n", &high, &used) == 1)
            at += 1 + used;
        for (int sibling = low; sibling <= high && sibling < cpu && sibling < CPU_SETSIZE; sibling++)
            if (CPU_ISSET(sibling, ours))
                return false;
        if (*at != ',')
            break;
        at++;
    }
    return true;
}
#endif

static int core_count(const char *root)
{
#if defined(__linux__)
    cpu_set_t ours;
    if (sched_getaffinity(0, sizeof ours, &ours) == 0) {
        int count = 0;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            count += CPU_ISSET(cpu, &ours) && comes_first(root, cpu, &ours);
        return count;
    }
#endif
    (void)root;
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static int cores_of(long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota / period >= HYB_MAX_THREADS)
        return INT_MAX;
    return (int)((quota + period - 1) / period);
}

/* What the one group at `path` allows; INT_MAX: all there is. */
static int quota_at(const char *root, const char *path)
{
    long long quota = -1, period = -1;
    FILE *file = open_under(root, path, "cpu.max"); /* "max 100000" or "150000 100000" */
    if (file) {
        if (fscanf(file, "%lld %lld", &quota, &period) != 2)
            quota = -1;
        fclose(file);
        return cores_of(quota, period);
    }
    const char *const names[] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"}; /* version 1 */
    long long *const values[] = {&quota, &period};
    for (int i = 0; i < 2; i++) {
        file = open_under(root, path, names[i]);
        if (file && fscanf(file, "%lld", values[i]) != 1)
            *values[i] = -1;
        if (file)
            fclose(file);
    }
    return cores_of(quota, period);
}

/* What the group `group` under `mount` and all groups around it allow. */
static int quota_above(const char *root, const char *mount, char *group)
{
    int least = INT_MAX;
    for (;;) {
        char path[PATH_BYTES];
        const int n = snprintf(path, sizeof path, "%s%s", mount, group);
        const int found = n > 0 && n < (int)sizeof path ? quota_at(root, path) : INT_MAX;
        least = found < least ? found : least;
        char *end = strrchr(group, '/');
        if (!end)
            return least;
        *end = 0;
    }
}

static int quota_count(const char *root)
{
    char top[] = "";
    int least = quota_above(root, "/sys/fs/cgroup", top);
    const int old = quota_above(root, "/sys/fs/cgroup/cpu", top);
    least = old < least ? old : least;
    char line[LINE_BYTES];
    FILE *file = open_under(root, "/proc/self", "cgroup");
    while (file && fgets(line, sizeof line, file)) { /* "0::/a/b" or "4:cpu,cpuacct:/a/b" */
        line[strcspn(line, "\n")] = 0;
        char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        const bool unified = kinds[1] == 0, counts = strncmp(kinds + 1, "cpu", 3) == 0;
        if (!unified && !counts)
            continue;
        const int found =
            quota_above(root, unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu", group);
        least = found < least ? found : least;
    }
    if (file)
        fclose(file);
    return least;
}

int32_t hyb_core_count(const char *root)
{
    const int cores = core_count(root), quota = quota_count(root);
    const int least = cores < quota ? cores : quota;
    return least > 1 ? least : 1;
}
