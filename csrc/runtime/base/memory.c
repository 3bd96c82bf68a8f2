/* memory.c - a caching allocator: blocks of a few sizes, aligned to 64 bytes, kept for reuse when
 * freed.
 *
 * Sizes are rounded up to one of four classes per power of two, so a block serves every request of
 * its class. A class has its own list and shares its lock with few others: threads rarely meet, and
 * a hit costs one uncontended lock and one counter.  What is kept is bounded; when the bound is
 * passed the whole cache goes back to the system, which costs no more than having no cache, and
 * happens only to programs that changed their sizes.
 *
 * A request that machine memory and swap cannot hold fails here: the kernel would grant it and kill
 * the process when the pages are touched.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/sysinfo.h>
#endif

#include "runtime/base/runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, nbytes) ((void)(data), (void)(nbytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, nbytes) ((void)(data), (void)(nbytes))
#endif

enum {
    ALIGNMENT = 64,
    LARGEST_LOG2 = 47, /* bytes; what x86-64 can address */
    N_CLASSES = 4 * (LARGEST_LOG2 - 7) + 8,
    N_LOCKS = 16,
    HUGE_PAGE = 2 << 20
};

/* Stands in the 64 bytes before the data. */
typedef struct block {
    struct block *next; /* in its class's list */
    int32_t class;
} block;

static struct {
    block *free;
    int64_t allocations;
} classes[N_CLASSES];

static struct {
    _Alignas(64) pthread_mutex_t mutex;
} locks[N_LOCKS] = {[0 ... N_LOCKS - 1] = {PTHREAD_MUTEX_INITIALIZER}};

static atomic_int_least64_t held;     /* bytes got from the system: live and cached */
static atomic_int_least64_t live;     /* bytes handed out */
static atomic_int_least64_t peak;     /* highest `live` */
static atomic_int_least64_t fails_in; /* fault injection: allocations left, 0 is off */
static atomic_int_least64_t machine;  /* bytes of memory and swap; 0 until first asked for */

/* Units of 64 bytes: 1 2 3 4, 5 6 7 8, 10 12 14 16, 20 24 28 32 ... */
static int32_t class_of(size_t nbytes)
{
    const uint64_t last = nbytes > ALIGNMENT ? (nbytes - 1) / ALIGNMENT : 0;
    if (last < 4)
        return (int32_t)last;
    const int32_t shift = 61 - __builtin_clzll(last); /* the top three bits of `last` remain: 4..7
                                                       */
    return 4 * shift + (int32_t)(last >> shift);
}

static int64_t class_bytes(int32_t class)
{
    if (class < 8)
        return (class + 1) * (int64_t)ALIGNMENT;
    const int32_t shift = class / 4 - 1;
    return (class % 4 + 5LL) * ALIGNMENT << shift;
}

static void lock(int32_t class) { pthread_mutex_lock(&locks[class % N_LOCKS].mutex); }

static void unlock(int32_t class) { pthread_mutex_unlock(&locks[class % N_LOCKS].mutex); }

static char *data_of(block *b) { return (char *)b + ALIGNMENT; }

int64_t hyb_machine_bytes(void)
{
    int64_t bytes = atomic_load_explicit(&machine, memory_order_relaxed);
    if (bytes)
        return bytes;
    bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
#if defined(__linux__)
    struct sysinfo info;
    if (sysinfo(&info) == 0)
        bytes += (int64_t)info.totalswap * info.mem_unit;
#endif
    if (bytes <= 0)
        bytes = INT64_MAX;
    atomic_store_explicit(&machine, bytes, memory_order_relaxed);
    return bytes;
}

/* An eighth of the machine, but not more than 4 GiB: a training step's working set, not a large
 * dataset. */
static int64_t cache_limit(void)
{
    const int64_t share = hyb_machine_bytes() / 8, most = 4LL << 30;
    return share < most ? share : most;
}

/* Huge pages: a large block touched for the first time costs one fault per 2 MiB, not 512.  They begin
 * with the data: whoever allocates touches a small page before them, and what fills the block, on
 * all threads, the huge ones. */
static bool is_huge(int32_t class) { return class_bytes(class) + ALIGNMENT >= 2 * HUGE_PAGE; }

/* Bytes before the block. */
static int64_t lead(int32_t class) { return is_huge(class) ? HUGE_PAGE - ALIGNMENT : 0; }

static block *system_allocate(int32_t class)
{
    const int64_t bytes = lead(class) + class_bytes(class) + ALIGNMENT;
    const int64_t before = atomic_fetch_add(&held, class_bytes(class));
    void *data = NULL;
    const bool huge = is_huge(class);
    if (before > hyb_machine_bytes() - bytes
        || posix_memalign(&data, huge ? HUGE_PAGE : ALIGNMENT, (size_t)bytes) != 0) {
        atomic_fetch_sub(&held, class_bytes(class));
        return NULL;
    }
#if defined(MADV_HUGEPAGE)
    if (huge) {
        madvise(data, HUGE_PAGE, MADV_NOHUGEPAGE);
        madvise((char *)data + HUGE_PAGE, (size_t)class_bytes(class) / HUGE_PAGE * HUGE_PAGE,
                MADV_HUGEPAGE);
    }
#endif
    block *b = (block *)((char *)data + lead(class));
    b->class = class;
    return b;
}

static void system_free(block *b)
{
    atomic_fetch_sub(&held, class_bytes(b->class));
    ASAN_UNPOISON_MEMORY_REGION(data_of(b), class_bytes(b->class));
    free((char *)b - lead(b->class));
}

bool hyb_allocation_fails(void)
{
    if (atomic_load_explicit(&fails_in, memory_order_relaxed) <= 0)
        return false;
    return atomic_fetch_sub(&fails_in, 1) == 1;
}

void hyb_fail_allocation(int64_t nth) { atomic_store(&fails_in, nth > 0 ? nth : 0); }

static void *no_memory(size_t nbytes)
{
    hyb_fail(HYB_NO_MEMORY, "cannot allocate %zu bytes", nbytes);
    return NULL;
}

void *hyb_alloc(size_t nbytes)
{
    if (nbytes > (size_t)1 << LARGEST_LOG2 || hyb_allocation_fails())
        return no_memory(nbytes);
    const int32_t class = class_of(nbytes);
    lock(class);
    block *b = classes[class].free;
    if (b)
        classes[class].free = b->next;
    classes[class].allocations++;
    unlock(class);
    if (!b)
        b = system_allocate(class);
    if (!b) {
        hyb_memory_trim();
        b = system_allocate(class);
    }
    if (!b)
        return no_memory(nbytes);

    const int64_t now = atomic_fetch_add_explicit(&live, class_bytes(class), memory_order_relaxed)
                      + class_bytes(class);
    int64_t top = atomic_load_explicit(&peak, memory_order_relaxed);
    while (now > top
           && !atomic_compare_exchange_weak_explicit(&peak, &top, now, memory_order_relaxed,
                                                     memory_order_relaxed))
        ;
    ASAN_UNPOISON_MEMORY_REGION(data_of(b), class_bytes(class));
    ASAN_POISON_MEMORY_REGION(data_of(b) + nbytes, (size_t)class_bytes(class) - nbytes);
    return data_of(b);
}

void hyb_free(void *data)
{
    if (!data)
        return;
    block *b = (block *)((char *)data - ALIGNMENT);
    const int32_t class = b->class;
    const int64_t bytes = class_bytes(class);
    const int64_t kept = atomic_load_explicit(&held, memory_order_relaxed)
                       - (atomic_fetch_sub_explicit(&live, bytes, memory_order_relaxed) - bytes);
    if (kept > cache_limit()) {
        if (kept > bytes && bytes <= cache_limit())
            hyb_memory_trim();
        system_free(b);
        return;
    }
    ASAN_POISON_MEMORY_REGION(data, (size_t)bytes);
    lock(class);
    b->next = classes[class].free;
    classes[class].free = b;
    unlock(class);
}

void hyb_memory_trim(void)
{
    for (int32_t class = 0; class < N_CLASSES; class++) {
        lock(class);
        block *b = classes[class].free;
        classes[class].free = NULL;
        unlock(class);
        while (b) {
            block *next = b->next;
            system_free(b);
            b = next;
        }
    }
}

hyb_memory_stats hyb_memory(void)
{
    hyb_memory_stats stats = {.live_bytes = atomic_load(&live), .peak_bytes = atomic_load(&peak)};
    const int64_t cached = atomic_load(&held) - stats.live_bytes;
    stats.cached_bytes = cached > 0 ? cached : 0; /* two loads: another thread may have come between
                                                   */
    for (int32_t class = 0; class < N_CLASSES; class++) {
        lock(class);
        stats.allocations += classes[class].allocations;
        unlock(class);
    }
    return stats;
}

void hyb_memory_lock(void)
{
    for (int i = 0; i < N_LOCKS; i++)
        pthread_mutex_lock(&locks[i].mutex);
}

void hyb_memory_unlock(void)
{
    for (int i = N_LOCKS - 1; i >= 0; i--)
        pthread_mutex_unlock(&locks[i].mutex);
}
