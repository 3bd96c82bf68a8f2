/* cores.c - how many threads are worth having: the cores that are ours.
 *
 * Two hardware threads of one core share its multipliers, so they count once; a control group's
 * quota, its own or that of a group around it, counts in full cores, rounded up.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The first line of a file, which is closed; false: there is none. */
static bool read_line(FILE *file, char *line)
{
    const bool read = file && fgets(line, LINE_BYTES, file) != NULL;
    if (file)
        fclose(file);
    return read;
}

bool hyb_take_number(const char **at, int64_t *number)
{
    char *end;
    errno = 0;
    const long long found = strtoll(*at, &end, 10);
    if (end == *at || errno)
        return false;
    *at = end;
    *number = found;
    return true;
}

#if defined(__linux__)
/* Whether `cpu` is the first of its core's hardware threads that is among `ours`. */
static bool comes_first(const char *root, int cpu, const cpu_set_t *ours)
{
    char path[64], line[LINE_BYTES];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology", cpu);
    const char *at = line;
    int64_t low, high;
    if (!read_line(open_under(root, path, "thread_siblings_list"), line))
        return true;
    while (hyb_take_number(&at, &low) && low >= 0) { /* "0,4" or "0-1" */
        high = low;
        if (*at == '-') {
            at++;
            hyb_take_number(&at, &high);
        }
        for (int64_t sibling = low; sibling <= high && sibling < cpu && sibling < CPU_SETSIZE; sibling++)
            if (CPU_ISSET((int)sibling, ours))
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

static int cores_of(int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0 || quota / period >= HYB_MAX_THREADS)
        return INT_MAX;
    return (int)((quota + period - 1) / period);
}

/* What the one group at `path` allows; INT_MAX: all there is. */
static int quota_at(const char *root, const char *path)
{
    int64_t quota = -1, period = -1;
    char line[LINE_BYTES];
    const char *at = line;
    FILE *file = open_under(root, path, "cpu.max"); /* "max 100000" or "150000 100000" */
    if (file) {
        if (!read_line(file, line) || !hyb_take_number(&at, &quota) || !hyb_take_number(&at, &period))
            quota = -1;
        return cores_of(quota, period);
    }
    const char *const names[] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"}; /* version 1 */
    int64_t *const values[] = {&quota, &period};
    for (int i = 0; i < 2; i++) {
        at = line;
        if (read_line(open_under(root, path, names[i]), line) && !hyb_take_number(&at, values[i]))
            *values[i] = -1;
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
