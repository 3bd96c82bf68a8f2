/* emulated.h - what programs share that run kernels of an instruction set that this machine may lack;
 * test_emulated.py builds and runs them.
 *
 * -DWIDTH=16, 32 or 64 are the bytes of a vector, -DDOT=0 or 2 whether four products of bytes are added
 * at a time, by plain loops; -DPLAIN is without any instruction of x86.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdio.h>
#include <stdlib.h>

#include "kernel.h"

#if defined(PLAIN)
#undef __x86_64__
#endif
#define HYB_ISA tested
#define HYB_VECTOR_BYTES WIDTH
#define HYB_DOT_BYTES DOT
#include "vec.h"

hyb_status hyb_fail(hyb_status status, const char *format, ...)
{
    fprintf(stderr, "%s\n", format);
    return status;
}

void *hyb_scratch(size_t nbytes)
{
    static void *kept;
    free(kept);
    kept = aligned_alloc(64, (nbytes + 63) / 64 * 64 + 64);
    memset(kept, 0xa5, nbytes); /* what nobody has written there must not count */
    return kept;
}

int64_t hyb_itemsize(int32_t dtype) { return dtype == HYB_I32 ? 4 : 1; }

bool hyb_is_contiguous(const hyb_layout *layout)
{
    int64_t step = hyb_itemsize(layout->dtype);
    for (int32_t axis = layout->rank - 1; axis >= 0; axis--) {
        if (layout->shape[axis] != 1 && layout->strides[axis] != step)
            return false;
        step *= layout->shape[axis];
    }
    return true;
}

static const hyb_kernel *kernel_of(const hyb_kernel *table, const char *name, int32_t dtype)
{
    while (strcmp(table->name, name) != 0 || table->dtype != dtype)
        table++;
    return table;
}

static uint64_t random_bits(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}
