/* dispatch.c - one table of kernels, merged once from every family and instruction set. */
#include <stdlib.h>

#include "isa/tables.h"
#include "runtime/base/runtime.h"

#define DECLARE_TABLE(family, isa) extern const hyb_kernel hyb_##family##_kernels_##isa[];
HYB_TABLES(DECLARE_TABLE)

#define LIST_TABLE(family, isa) {#isa, #family, hyb_##family##_kernels_##isa},
static const struct {
    const char *isa, *family;
    const hyb_kernel *kernels;
} tables[] = {HYB_TABLES(LIST_TABLE)};
enum { N_TABLES = sizeof tables / sizeof tables[0] };

typedef struct {
    const hyb_kernel *kernel;
    const hyb_isa *isa;
    const char *family;
} entry;

static struct {
    entry *entries; /* sorted by name, then dtype */
    int32_t count;
} merged;

static int compare_keys(const hyb_kernel *a, const hyb_kernel *b)
{
    const int order = strcmp(a->name, b->name);
    return order ? order : (a->dtype > b->dtype) - (a->dtype < b->dtype); /* dtypes may be any */
}

/* The widest instruction set first among kernels of the same name and dtype. */
static int compare_entries(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    const int order = compare_keys(a->kernel, b->kernel);
    return order ? order : b->isa->rank - a->isa->rank;
}

static const hyb_isa *isa_named(const char *name)
{
    int count;
    const hyb_isa *isas = hyb_isas(&count);
    while (strcmp(isas->name, name) != 0)
        isas++;
    return isas;
}

/* Writes the entries of every usable table (none when `entries` is NULL) and returns how many there
 * are. */
static int32_t collect(const hyb_isa *widest, entry *entries)
{
    int32_t count = 0;
    for (int t = 0; t < N_TABLES; t++) {
        const hyb_isa *isa = isa_named(tables[t].isa);
        if (!isa->supported || isa->rank > widest->rank)
            continue;
        for (const hyb_kernel *kernel = tables[t].kernels; kernel->name; kernel++, count++)
            if (entries)
                entries[count] = (entry){kernel, isa, tables[t].family};
    }
    return count;
}

hyb_status hyb_kernels_init(const hyb_isa *widest)
{
    const int32_t all = collect(widest, NULL);
    merged.entries = malloc((size_t)(all > 0 ? all : 1) * sizeof(entry));
    if (!merged.entries)
        return hyb_fail(HYB_NO_MEMORY, "no memory for the table of kernels");
    collect(widest, merged.entries);
    qsort(merged.entries, (size_t)all, sizeof(entry), compare_entries);
    for (int32_t i = 0; i < all; i++) {
        const entry *candidate = &merged.entries[i];
        const entry *kept = merged.count > 0 ? &merged.entries[merged.count - 1] : NULL;
        if (!kept || compare_keys(kept->kernel, candidate->kernel) != 0)
            merged.entries[merged.count++] = *candidate;
        else if (kept->isa == candidate->isa)
            return hyb_fail(HYB_BAD_ARGUMENT, "kernel %s %s is declared twice for %s",
                            candidate->kernel->name, hyb_dtype_name(candidate->kernel->dtype),
                            candidate->isa->name);
    }
    return HYB_OK;
}

const hyb_kernel *hyb_kernel_at(int32_t kernel)
{
    return kernel >= 0 && kernel < merged.count ? merged.entries[kernel].kernel : NULL;
}

int32_t hyb_kernel_named(const char *name, int32_t dtype)
{
    const hyb_kernel wanted = {.name = name, .dtype = dtype};
    int32_t low = 0, high = merged.count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const int order = compare_keys(merged.entries[middle].kernel, &wanted);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    hyb_fail(HYB_NO_KERNEL, "no kernel %.100s for %s", name, hyb_dtype_name(dtype));
    return -1;
}

int32_t hyb_kernels(void) { return merged.count; }

const hyb_isa *hyb_isa_of_kernel(int32_t kernel) { return merged.entries[kernel].isa; }

const char *hyb_family_of_kernel(int32_t kernel) { return merged.entries[kernel].family; }
