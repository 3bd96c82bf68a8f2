/* choices.c - sizes that decide how work is cut up, never what comes out of it.
 *
 * They come from the caches of this machine, or as `hybrid tune` measured them on it: a file of lines
 * "MACHINE NAME VALUE", of which those of this machine (or of any: "*") count.  It is the one that
 * HYBRID_TUNING names (none if that is empty), or hybrid/tuning in the user's cache folder.  They are
 * read once; nothing changes them while kernels run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime/base/runtime.h"

enum { LINE_BYTES = 256, LARGEST_FILE = 1 << 20 };
enum { LEAST_SLICE = 128 << 10, LARGEST_SLICE = 4 << 20 }; /* one panel fits; cores may share */

/* The usual value is for 32 KiB of first-level and 1 MiB of second-level cache. */
static hyb_choice_row choices[HYB_CHOICE_COUNT] = {
    [HYB_SLICE_BYTES] = {"slice_bytes", 0, 512 << 10, LEAST_SLICE, 64 << 20},
    [HYB_NEAR_BYTES] = {"near_bytes", 0, 64 << 10, 1 << 10, 16 << 20},
    [HYB_WAKING_WORK] = {"waking_work", 0, 2 << 20, 1 << 10, 1 << 30},
    [HYB_TASK_WORK] = {"task_work", 0, 1 << 19, 1 << 10, 1 << 30},
    [HYB_CHUNK_WORK] = {"chunk_work", 0, 256 << 10, 4 << 10, 64 << 20},
    [HYB_SPIN_NS] = {"spin_ns", 0, 30000, 0, 10000000},
};

static hyb_choice_source source;

static int64_t cache_bytes(int level)
{
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
    const long found = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
    return found > 0 ? found : 0;
#else
    (void)level;
    return 0;
#endif
}

/* The processor's signature, which names its model and stepping; 0 where nobody tells. */
static unsigned signature(void)
{
#if defined(__x86_64__)
    unsigned a = 0, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) ? a : 0;
#else
    return 0;
#endif
}

static void take_usual(int64_t second)
{
    for (int i = 0; i < HYB_CHOICE_COUNT; i++)
        choices[i].value = choices[i].usual;
    if (second > 0) {
        const int64_t half = second / 2 < LARGEST_SLICE ? second / 2 : LARGEST_SLICE;
        choices[HYB_SLICE_BYTES].usual = half > LEAST_SLICE ? half : LEAST_SLICE;
        choices[HYB_SLICE_BYTES].value = choices[HYB_SLICE_BYTES].usual;
    }
}

/* The path of the file, "" for none. */
static void find_path(void)
{
    const char *asked = getenv("HYBRID_TUNING"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n = 0;
    if (asked)
        n = snprintf(source.path, sizeof source.path, "%s", asked);
    else if (cache && cache[0] == '/')
        n = snprintf(source.path, sizeof source.path, "%s/hybrid/tuning", cache);
    else if (home && home[0] == '/')
        n = snprintf(source.path, sizeof source.path, "%s/.cache/hybrid/tuning", home);
    if (n < 0 || n >= (int)sizeof source.path)
        source.path[0] = 0;
}

/* One line: whether it can be understood.  Those of other machines change nothing. */
static bool take_line(const char *line, int64_t *values)
{
    static const char spaces[] = " \t\n\r\v\f";
    char words[LINE_BYTES], *rest;
    snprintf(words, sizeof words, "%s", line);
    const char *whose = strtok_r(words, spaces, &rest);
    if (!whose || whose[0] == '#')
        return true; /* empty, or a comment */
    const char *name = strtok_r(NULL, spaces, &rest), *number = strtok_r(NULL, spaces, &rest);
    int64_t value;
    if (!number || !hyb_take_number(&number, &value) || *number || strtok_r(NULL, spaces, &rest))
        return false;
    if (strcmp(whose, "*") != 0 && strcmp(whose, source.machine) != 0)
        return true;
    for (int i = 0; i < HYB_CHOICE_COUNT; i++)
        if (strcmp(choices[i].name, name) == 0) {
            values[i] = value;
            return value >= choices[i].least && value <= choices[i].most;
        }
    return false;
}

static bool take_lines(FILE *file)
{
    char line[LINE_BYTES];
    int64_t values[HYB_CHOICE_COUNT];
    for (int i = 0; i < HYB_CHOICE_COUNT; i++)
        values[i] = choices[i].value;
    for (int number = 1; fgets(line, sizeof line, file); number++)
        if (!take_line(line, values)) {
            line[strcspn(line, "\n")] = 0;
            snprintf(source.fault, sizeof source.fault, "line %d of it is no choice: %.60s", number, line);
            return false;
        }
    for (int i = 0; i < HYB_CHOICE_COUNT; i++)
        choices[i].value = values[i];
    return true;
}

/* All of the file or nothing of it.  Anything but a plain file of some size is left alone: opening a
 * pipe would wait, reading a device would never end. */
static void take_file(void)
{
    const int opened = open(source.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat told;
    if (opened < 0) {
        snprintf(source.fault, sizeof source.fault, "it cannot be read: %s", strerror(errno));
        return;
    }
    FILE *file = NULL;
    if (fstat(opened, &told) != 0 || !S_ISREG(told.st_mode) || told.st_size > LARGEST_FILE)
        snprintf(source.fault, sizeof source.fault, "it is no file of at most %d bytes", LARGEST_FILE);
    else if (!(file = fdopen(opened, "r")))
        snprintf(source.fault, sizeof source.fault, "it cannot be read: %s", strerror(errno));
    if (!file) {
        close(opened);
        return;
    }
    take_lines(file);
    fclose(file);
}

hyb_status hyb_choices_init(const char *isa)
{
    const int64_t first = cache_bytes(1), second = cache_bytes(2);
    snprintf(source.machine, sizeof source.machine, "%08x-%s-%lld-%lld", signature(), isa, (long long)first,
             (long long)second);
    take_usual(second);
    find_path();
    if (!source.path[0])
        return HYB_OK;
    const bool asked = getenv("HYBRID_TUNING") != NULL;
    if (!asked && access(source.path, F_OK) != 0) {
        source.path[0] = 0;
        return HYB_OK;
    }
    take_file();
    if (asked && source.fault[0])
        return hyb_fail(HYB_BAD_ARGUMENT, "HYBRID_TUNING=%.200s: %s", source.path, source.fault);
    return HYB_OK;
}

int64_t hyb_choice(hyb_choice_kind kind) { return choices[kind].value; }

static bool is_choice(int32_t choice) { return choice >= 0 && choice < HYB_CHOICE_COUNT; }

const hyb_choice_row *hyb_choice_row_of(int32_t choice) { return is_choice(choice) ? &choices[choice] : NULL; }

const hyb_choice_source *hyb_choices_source(void) { return &source; }
