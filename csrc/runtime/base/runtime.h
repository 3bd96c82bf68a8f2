/* runtime.h - what the files of the runtime share; kernels see none of it. */
#ifndef HYB_RUNTIME_H
#define HYB_RUNTIME_H
#include <stdatomic.h>

#include "kernel.h"

#define HYB_TEXT 2048 /* bytes of an error text */
#define HYB_MAX_THREADS 256

/* status.c */
void hyb_set_last_step(int32_t step);

/* cpu.c: instruction sets from the plainest to the widest. */
typedef struct {
    const char *name;
    int rank;
    bool supported;
} hyb_isa;
const hyb_isa *hyb_isas(int *count);
const hyb_isa *hyb_select_isa(void); /* the best one, or what HYBRID_ISA names; NULL on failure */
const char *hyb_isas_supported(void);

/* dispatch.c: valid once hyb_init has succeeded. */
hyb_status hyb_kernels_init(const hyb_isa *widest);
const hyb_kernel *hyb_kernel_at(int32_t kernel); /* NULL: no such kernel */
const hyb_isa *hyb_isa_of_kernel(int32_t kernel);
const char *hyb_family_of_kernel(int32_t kernel);
int32_t hyb_kernel_named(const char *name, int32_t dtype); /* -1, and an error: there is none */
int32_t hyb_kernels(void);                                 /* how many there are */

/* memory.c */
bool hyb_allocation_fails(void); /* whether fault injection wants this allocation to fail */
void hyb_memory_lock(void);      /* every lock of the allocator, around fork */
void hyb_memory_unlock(void);
int64_t hyb_machine_bytes(void); /* memory and swap */

/* scratch.c: a second scratch per thread, for the tiles of maps: a kernel may be using its own. */
void *hyb_tile_scratch(size_t nbytes);

/* pool.c */
hyb_status hyb_pool_init(void); /* reads HYBRID_NUM_THREADS */
hyb_status hyb_pool_set_threads(int32_t n);
int32_t hyb_pool_threads(void);
bool hyb_pool_confine(bool on); /* this thread; says whether it was */
bool hyb_is_alone(void);        /* whether parallel_for, called now, would use this thread only */
/* From now on this thread computes beside the pool, whose workers give up a seat for it; or no more. */
void hyb_compute_apart(bool apart);

/* cores.c: a whole number, after spaces; false: there is none.  scanf would be a tenth of a program that
 * stands alone. */
bool hyb_take_number(const char **at, int64_t *number);

/* choices.c */
typedef struct {
    const char *name;
    int64_t value, usual, least, most;
} hyb_choice_row;
typedef struct {
    char machine[128], path[1024], fault[HYB_TEXT];
} hyb_choice_source;
hyb_status hyb_choices_init(const char *isa); /* reads what HYBRID_TUNING names */
const hyb_choice_row *hyb_choice_row_of(int32_t choice); /* NULL: there is no such choice */
const hyb_choice_source *hyb_choices_source(void);

/* clock.c */
int64_t hyb_clock(void); /* ns, monotonic */
/* From now on this thread stops its runs once `flag` is set; NULL: nobody asks it to.  `waiting` is
 * how many threads wait for what it does; NULL: somebody does in any case. */
void hyb_thread_watch(const atomic_bool *flag, const _Atomic int32_t *waiting);
bool hyb_thread_stops(bool *watches); /* and whether anybody might ask */
bool hyb_thread_is_awaited(void);

/* layout.c */
const char *hyb_dtype_name(int32_t dtype);
/* Bytes [*low, *high) that a layout touches, seen from its element 0; low <= 0.  False: the layout
 * is malformed (rank, dtype, a negative size) or its numbers overflow. */
bool hyb_layout_extent(const hyb_layout *layout, int64_t *low, int64_t *high);
#endif
