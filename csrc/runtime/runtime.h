/* runtime.h - what the files of the runtime share; kernels see none of it. */
#ifndef HYB_RUNTIME_H
#define HYB_RUNTIME_H
#include "kernel.h"

#define HYB_TEXT 512 /* bytes of an error text */
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

/* dispatch.c: valid once hyb_init has succeeded. */
const hyb_kernel *hyb_kernel_at(int32_t kernel); /* NULL: no such kernel */

/* memory.c */
bool hyb_allocation_fails(void); /* whether fault injection wants this allocation to fail */
void hyb_memory_lock(void);      /* every lock of the allocator, around fork */
void hyb_memory_unlock(void);

/* scratch.c: a second scratch per thread, for the tiles of maps: a kernel may be using its own. */
void *hyb_tile_scratch(size_t nbytes);

/* profile.c */
void hyb_recording_forget(void); /* in a forked child: who was in it is gone */

/* pool.c */
hyb_status hyb_pool_init(void); /* reads HYBRID_NUM_THREADS */
bool hyb_is_alone(void);        /* whether parallel_for, called now, would use this thread only */
/* From now on this thread computes beside the pool, whose workers give up a seat for it; or no more. */
void hyb_compute_apart(bool apart);

/* stream.c: whether this is a stream's thread, and if so, whether that is being closed */
bool hyb_stream_own(bool *stops);

/* choices.c */
hyb_status hyb_choices_init(const char *isa); /* reads what HYBRID_TUNING names */

/* profile.c */
int64_t hyb_clock(void); /* ns, monotonic */

/* layout.c */
const char *hyb_dtype_name(int32_t dtype);
/* Bytes [*low, *high) that a layout touches, seen from its element 0; low <= 0.  False: the layout
 * is malformed (rank, dtype, a negative size) or its numbers overflow. */
bool hyb_layout_extent(const hyb_layout *layout, int64_t *low, int64_t *high);
#endif
