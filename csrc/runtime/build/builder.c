/* builder.c - the memory of a plan that is being made, and what is said of a spec that is wrong. */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/build/plan_build.h"

void *hyb_reserve(hyb_builder *builder, size_t nbytes)
{
    hyb_region *region = builder->plan->regions;
    nbytes = (nbytes + 15) / 16 * 16;
    if (region->size - region->used < nbytes) {
        const size_t header = (sizeof(hyb_region) + 15) / 16 * 16;
        const size_t size = header + nbytes > 4 * HYB_REGION_BYTES ? header + nbytes : 4 * HYB_REGION_BYTES;
        region = hyb_alloc(size);
        if (!region)
            return NULL;
        *region = (hyb_region){builder->plan->regions, header, size};
        builder->plan->regions = region;
    }
    void *data = (char *)region + region->used;
    region->used += nbytes;
    return memset(data, 0, nbytes);
}

hyb_status hyb_refuse(const hyb_builder *builder, const char *format, ...)
{
    char text[HYB_TEXT - 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return hyb_fail(HYB_BAD_ARGUMENT, "step %d: %s", builder->step, text);
}

hyb_status hyb_refuse_kernel(const hyb_builder *builder, const hyb_kernel *kernel,
                             hyb_status status)
{
    return hyb_fail(status, "step %d: %s %s: %.400s", builder->step, kernel->name,
                    hyb_dtype_name(kernel->dtype), hyb_last_error());
}

hyb_status hyb_check_kernel(const hyb_builder *builder, int32_t index, const hyb_kernel **kernel)
{
    *kernel = hyb_kernel_at(index);
    return *kernel ? HYB_OK : hyb_refuse(builder, "kernel %d of %d", index, hyb_kernels());
}

bool hyb_in_range(int64_t first, int64_t count, int64_t all)
{
    return first >= 0 && count >= 0 && first <= all && count <= all - first;
}
