/* init.c - hyb_init, which alone calls what the other files of the base make ready, and the part of
 * the interface that has to be ready first. */
#include <pthread.h>

#include "runtime/base/runtime.h"

static struct {
    pthread_once_t once;
    hyb_status status;
    char text[HYB_TEXT]; /* why status is not HYB_OK */
    const hyb_isa *isa;
} library = {.once = PTHREAD_ONCE_INIT};

static hyb_status begin(void)
{
    hyb_status status;
    library.isa = hyb_select_isa();
    if (!library.isa)
        return HYB_BAD_ARGUMENT;
    if ((status = hyb_kernels_init(library.isa)) != HYB_OK
        || (status = hyb_choices_init(library.isa->name)) != HYB_OK)
        return status;
    return hyb_pool_init();
}

static void initialise(void)
{
    library.status = begin();
    if (library.status != HYB_OK)
        memcpy(library.text, hyb_last_error(), sizeof library.text);
}

hyb_status hyb_init(void)
{
    pthread_once(&library.once, initialise);
    return library.status == HYB_OK ? HYB_OK : hyb_fail(library.status, "%s", library.text);
}

static bool is_ready(void) { return hyb_init() == HYB_OK; }

/* Instruction sets and kernels ------------------------------------------------------------------- */

const char *hyb_isa_name(void) { return is_ready() ? library.isa->name : ""; }

const char *hyb_isa_supported(void)
{
    hyb_init();
    return hyb_isas_supported();
}

int32_t hyb_find_kernel(const char *name, int32_t dtype)
{
    return is_ready() ? hyb_kernel_named(name, dtype) : -1;
}

int32_t hyb_kernel_count(void) { return is_ready() ? hyb_kernels() : 0; }

static const hyb_kernel *ready_kernel(int32_t kernel)
{
    return is_ready() ? hyb_kernel_at(kernel) : NULL;
}

const char *hyb_kernel_name(int32_t kernel)
{
    const hyb_kernel *found = ready_kernel(kernel);
    return found ? found->name : NULL;
}

int32_t hyb_kernel_dtype(int32_t kernel)
{
    const hyb_kernel *found = ready_kernel(kernel);
    return found ? found->dtype : -1;
}

const char *hyb_kernel_isa(int32_t kernel)
{
    return ready_kernel(kernel) ? hyb_isa_of_kernel(kernel)->name : NULL;
}

const char *hyb_kernel_family(int32_t kernel)
{
    return ready_kernel(kernel) ? hyb_family_of_kernel(kernel) : NULL;
}

hyb_status hyb_kernel_counts(int32_t kernel, int32_t counts[3])
{
    const hyb_kernel *found = ready_kernel(kernel);
    if (!found)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no kernel %d", kernel);
    counts[0] = found->n_in;
    counts[1] = found->n_out;
    counts[2] = found->n_attrs;
    return HYB_OK;
}

/* Threads ---------------------------------------------------------------------------------------- */

hyb_status hyb_set_num_threads(int32_t n)
{
    const hyb_status status = hyb_init(); /* first: it sets the default */
    return status == HYB_OK ? hyb_pool_set_threads(n) : status;
}

int32_t hyb_num_threads(void) { return is_ready() ? hyb_pool_threads() : 1; }

int32_t hyb_confine_thread(int32_t confined) { return hyb_pool_confine(confined != 0); }

/* Choices ---------------------------------------------------------------------------------------- */

const char *hyb_choice_name(int32_t choice)
{
    const hyb_choice_row *row = hyb_choice_row_of(choice);
    return row ? row->name : NULL;
}

int64_t hyb_choice_value(int32_t choice)
{
    const hyb_choice_row *row = hyb_choice_row_of(choice);
    return is_ready() && row ? row->value : -1;
}

int64_t hyb_choice_usual(int32_t choice)
{
    const hyb_choice_row *row = hyb_choice_row_of(choice);
    return is_ready() && row ? row->usual : -1;
}

const char *hyb_choice_machine(void) { return is_ready() ? hyb_choices_source()->machine : ""; }

const char *hyb_choice_file(void) { return is_ready() ? hyb_choices_source()->path : ""; }

const char *hyb_choice_fault(void) { return is_ready() ? hyb_choices_source()->fault : ""; }
