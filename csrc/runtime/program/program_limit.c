/* program_limit.c - what a program takes beside its file, which HYBRID_PROGRAM_MAX_BYTES bounds. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/program/program.h"

enum { NAME = 96 };

/* What HYBRID_PROGRAM_MAX_BYTES allows, and how it is called in a message. */
static hyb_status find_limit(int64_t *limit, const char **name)
{
    const char *text = getenv("HYBRID_PROGRAM_MAX_BYTES");
    *limit = hyb_machine_bytes();
    *name = "of the memory of this machine";
    if (!text || !text[0])
        return HYB_OK;
    char *end;
    errno = 0;
    *limit = strtoll(text, &end, 10);
    *name = "that HYBRID_PROGRAM_MAX_BYTES allows";
    if (errno || *end || *limit <= 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "HYBRID_PROGRAM_MAX_BYTES=%.40s: not a number of bytes", text);
    return HYB_OK;
}

/* Which cells need a spare: those that the case writes, and had best not write in place. */
static void note_swaps(hyb_code *code, const hyb_case *of, const int32_t *aliases)
{
    const hyb_binding_row *bindings = hyb_bindings(code, of->row->first_binding);
    for (int32_t e = 0; e < of->plan_row->n_outputs; e++)
        if (bindings[e].kind == HYB_BIND_WRITE && aliases[e] == e)
            code->swapped[bindings[e].index] = true;
}

static bool add(int64_t *all, int64_t nbytes) { return !__builtin_add_overflow(*all, nbytes, all); }

/* The bytes of a run, and of what is made ahead of it; -1: they are beyond counting. */
static int64_t run_nbytes(const hyb_code *code, const hyb_bound *bound)
{
    int64_t own = hyb_plan_arena_nbytes(bound->plan);
    bool counts = add(&own, bound->scratch_nbytes);
    if (bound->of->row->ahead < 0)
        return counts ? own : -1;
    const hyb_ahead *ahead = &code->aheads[bound->of->row->ahead];
    counts = counts && add(&own, hyb_plan_arena_nbytes(ahead->plan));
    for (int32_t e = 0; e < ahead->plan_row->n_outputs; e++)
        counts = counts && add(&own, ahead->nbytes[e]);
    return counts ? own : -1;
}

static hyb_status too_much(const hyb_code *code, const hyb_function *function, int64_t own, int64_t all,
                           int64_t limit, const char *what)
{
    char name[NAME];
    return hyb_fail(HYB_NO_MEMORY, "function %s takes %lld bytes while it runs, %lld with what is before it: "
                    "more than the %lld %s", hyb_shown(&code->file, function->row->name, name, sizeof name),
                    (long long)own, (long long)all, (long long)limit, what);
}

hyb_status hyb_bound_fits(const hyb_code *code, const hyb_function *function, const hyb_bound *bound)
{
    int64_t limit, all = code->taken;
    const char *what;
    TRY(find_limit(&limit, &what));
    const int64_t own = run_nbytes(code, bound);
    if (own < 0 || !add(&all, own) || all > limit)
        return too_much(code, function, own, all, limit, what);
    return HYB_OK;
}

char *hyb_alloc_parts(const size_t *nbytes, int n, char **parts, const char *what)
{
    size_t room = 64;
    for (int i = 0; i < n; i++)
        room += (nbytes[i] + 63) / 64 * 64;
    char *memory = hyb_alloc(room);
    if (!memory) {
        hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes of %s", room, what);
        return NULL;
    }
    memset(memory, 0, room);
    char *at = memory;
    for (int i = 0; i < n; at += (nbytes[i] + 63) / 64 * 64, i++)
        parts[i] = at;
    return memory;
}

hyb_status hyb_literals_fit(int64_t nbytes)
{
    int64_t limit;
    const char *what;
    TRY(find_limit(&limit, &what));
    if (nbytes > limit)
        return hyb_fail(HYB_NO_MEMORY, "its literals take %lld bytes at these sizes: more than the %lld %s",
                        (long long)nbytes, (long long)limit, what);
    return HYB_OK;
}

hyb_status hyb_code_fits(hyb_code *code, bool copies_cells)
{
    int64_t limit, all = 0;
    const char *what;
    TRY(find_limit(&limit, &what));
    for (int32_t f = 0; f < code->n_functions; f++) {
        const hyb_function *function = &code->functions[f];
        const hyb_bound *bound = function->row->n_symbols == 0 ? function->bound[0] : NULL;
        for (int32_t i = 0; i < function->row->n_cases; i++)
            note_swaps(code, &function->cases[i], bound ? bound->aliases : function->cases[i].aliases);
    }
    for (int32_t i = 0; i < code->n_cells; i++) {
        const int64_t copies = code->swapped[i] + copies_cells;
        if (!add(&all, copies * hyb_cell_rows(code)[i].nbytes) || all > limit)
            return hyb_fail(HYB_NO_MEMORY, "its cells take %lld bytes beside the file, more than the %lld %s",
                            (long long)all, (long long)limit, what);
    }
    for (int32_t f = 0; f < code->n_functions; f++) {
        const hyb_function *function = &code->functions[f];
        const hyb_bound *bound = function->row->n_symbols == 0 ? function->bound[0] : NULL;
        const int64_t own = bound ? run_nbytes(code, bound) : 0;
        if (own < 0 || !add(&all, own) || all > limit)
            return too_much(code, function, own, all, limit, what);
    }
    code->taken = all;
    return HYB_OK;
}
