/* scratch.c - memory that belongs to a thread: it grows to what was asked for, stays, and ends with
 * the thread. */
#include <pthread.h>

#include "runtime/base/runtime.h"

typedef struct {
    void *data;
    size_t nbytes;
} scratch;

static _Thread_local struct {
    scratch kernel, tiles;
} mine;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor runs at the end of every thread that has set it */
static bool key_exists;

static void release(void *unused)
{
    (void)unused;
    hyb_free(mine.kernel.data);
    hyb_free(mine.tiles.data);
    mine.kernel = mine.tiles = (scratch){0};
}

static void create_key(void) { key_exists = pthread_key_create(&key, release) == 0; }

static __attribute__((noinline)) void *grow(scratch *s, size_t nbytes)
{
    pthread_once(&once, create_key);
    if (!key_exists || pthread_setspecific(key, &mine) != 0) {
        hyb_fail(HYB_NO_MEMORY, "no thread-specific storage is left for scratch memory");
        return NULL;
    }
    void *data = hyb_alloc(nbytes);
    if (!data)
        return NULL;
    hyb_free(s->data);
    *s = (scratch){data, nbytes};
    return data;
}

void *hyb_scratch(size_t nbytes)
{
    return nbytes <= mine.kernel.nbytes && mine.kernel.data ? mine.kernel.data
                                                            : grow(&mine.kernel, nbytes);
}

void *hyb_tile_scratch(size_t nbytes)
{
    return nbytes <= mine.tiles.nbytes && mine.tiles.data ? mine.tiles.data
                                                          : grow(&mine.tiles, nbytes);
}
