/* program_bind.c - functions at the sizes of their inputs: which case serves them, and its plan there.
 *
 * The last few plans of a function are kept, for all forks and threads.  One that leaves them goes when
 * the last run of it is over. */
#include <stdio.h>

#include "runtime/program/program.h"

enum { NAME = 96 };
static const int64_t MOST_BYTES = INT64_C(1) << 46; /* of a value: sums of 2^16 of them do not wrap */

static hyb_status no_fit(const hyb_code *code, const hyb_function *function, int32_t i, const hyb_layout *given,
                         int64_t symbol, int64_t size)
{
    const hyb_value_row *value = hyb_values(code, function->row->first_input) + i;
    char name[NAME], input[NAME], found[HYB_TYPE_TEXT], wanted[HYB_TYPE_TEXT], label[NAME], where[2 * NAME] = "";
    if (symbol >= 0) {
        const hyb_symbol_row *row = &function->symbols[symbol];
        hyb_shown(&code->file, row->name, label, sizeof label);
        if (size >= 0)
            snprintf(where, sizeof where, " with %s = %lld", label, (long long)size);
        else
            snprintf(where, sizeof where, " with %s from %lld to %lld", label, (long long)row->low, (long long)row->high);
    }
    const bool shown = given->rank >= 0 && given->rank <= HYB_MAX_RANK;
    return hyb_fail(HYB_BAD_ARGUMENT, "%s: input %s is %s, not %s%s", hyb_shown(&code->file, function->row->name, name, NAME),
                    hyb_shown(&code->file, value->name, input, NAME), shown ? hyb_type_text(given, found) : "malformed",
                    hyb_open_text(code, function, &code->types[value->type].layout, wanted), where);
}

/* The inputs have the types that are declared, and symbols one size each. */
hyb_status hyb_sizes_of(const hyb_code *code, const hyb_function *function, const hyb_layout *layouts, int64_t *sizes)
{
    const hyb_function_row *row = function->row;
    for (int32_t s = 0; s < row->n_symbols; s++)
        sizes[s] = -1;
    if (!layouts && row->n_symbols > 0) {
        char name[NAME];
        return hyb_fail(HYB_BAD_ARGUMENT, "%s: its inputs have open axes, so it needs their layouts",
                        hyb_shown(&code->file, row->name, name, NAME));
    }
    for (int32_t i = 0; layouts && i < row->n_inputs; i++) {
        const hyb_layout *wanted = &code->types[hyb_values(code, row->first_input)[i].type].layout;
        const hyb_layout *given = &layouts[i];
        if (given->rank != wanted->rank || given->dtype != wanted->dtype)
            return no_fit(code, function, i, given, -1, -1);
        for (int32_t d = 0; d < wanted->rank; d++) {
            const int64_t symbol = -1 - wanted->shape[d], size = given->shape[d];
            if (symbol < 0 && size != wanted->shape[d])
                return no_fit(code, function, i, given, -1, -1);
            if (symbol < 0)
                continue;
            if (size < function->symbols[symbol].low || size > function->symbols[symbol].high)
                return no_fit(code, function, i, given, symbol, -1);
            if (sizes[symbol] >= 0 && sizes[symbol] != size)
                return no_fit(code, function, i, given, symbol, sizes[symbol]);
            sizes[symbol] = size;
        }
    }
    return HYB_OK;
}

/* Dense strides, but of axes before an open one, and the bytes.  The axis that is too large, or -1. */
int32_t hyb_make_dense(hyb_value_type *type)
{
    hyb_layout *layout = &type->layout;
    const int64_t itemsize = hyb_itemsize(layout->dtype);
    int64_t items = 1;
    bool open = false;
    for (int32_t d = layout->rank - 1; d >= 0; d--) {
        const int64_t size = layout->shape[d];
        layout->strides[d] = open ? 0 : itemsize * items;
        open |= size < 0;
        if (size > 0 && items > MOST_BYTES / itemsize / size)
            return d;
        items *= size > 0 ? size : 1;
    }
    type->nbytes = open ? -1 : itemsize * hyb_elements(layout);
    return -1;
}

/* A type at the numbers of a plan, dense. */
static hyb_status close_type(const hyb_value_type *type, const int64_t *numbers, int64_t n_numbers, hyb_value_type *found)
{
    *found = *type;
    if (type->nbytes >= 0)
        return HYB_OK;
    int64_t *shape = found->layout.shape;
    int32_t wrong = -1;
    for (int32_t d = type->layout.rank - 1; wrong < 0 && d >= 0; d--) {
        if (shape[d] < 0)
            shape[d] = -1 - shape[d] < n_numbers ? numbers[-1 - shape[d]] : -1;
        wrong = shape[d] < 0 ? d : -1;
    }
    if (wrong < 0)
        wrong = hyb_make_dense(found);
    if (wrong >= 0)
        return hyb_fail(HYB_BAD_FILE, "an axis of a value of it would have the size %lld", (long long)shape[wrong]);
    return HYB_OK;
}

const hyb_case *hyb_case_at(const hyb_code *code, const hyb_function *function, const int64_t *sizes)
{
    const hyb_function_row *row = function->row;
    int32_t most = 0;
    for (int32_t i = 0; i < row->n_cases; i++)
        if (function->cases[i].row->n_formulas > most)
            most = function->cases[i].row->n_formulas;
    int64_t *numbers = hyb_alloc(((size_t)row->n_symbols + (size_t)most + 1) * sizeof *numbers);
    const hyb_case *found = NULL;
    char name[NAME];
    if (!numbers) {
        hyb_fail(HYB_NO_MEMORY, "no memory for %d numbers", most);
        return NULL;
    }
    for (int32_t i = 0; !found && i < row->n_cases; i++) {
        for (int32_t s = 0; s < row->n_symbols; s++)
            numbers[s] = sizes[s];
        const hyb_case_row *one = function->cases[i].row;
        if (!hyb_evaluate(hyb_formulas(&code->file, one->first_formula), one->n_formulas, row->n_symbols, numbers))
            found = &function->cases[i];
    }
    hyb_free(numbers);
    if (found)
        return found;
    char text[2 * NAME] = "";
    for (int32_t s = 0, used = 0; s < row->n_symbols && used < NAME; s++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%.40s = %lld", s ? ", " : "",
                         hyb_shown(&code->file, function->symbols[s].name, name, NAME), (long long)sizes[s]);
    hyb_fail(HYB_BAD_ARGUMENT, "%s: the program was not exported for %s", hyb_shown(&code->file, row->name, name, NAME),
             text);
    return NULL;
}

static void bound_free(hyb_bound *bound)
{
    hyb_plan_free(bound->plan);
    hyb_free(bound);
}

void hyb_bound_release(hyb_bound *bound)
{
    if (bound && atomic_fetch_sub(&bound->users, 1) == 1)
        bound_free(bound);
}

/* The parts of a bound case, in one block. */
static hyb_bound *make_room(const hyb_function *function, const hyb_case *of)
{
    const size_t n = (size_t)of->plan_row->n_externals;
    const size_t parts[] = {
        sizeof(hyb_bound), n * sizeof(int32_t), n * sizeof(int64_t),
        ((size_t)function->row->n_inputs + (size_t)function->row->n_outputs) * sizeof(hyb_value_type),
        (size_t)function->row->n_symbols * sizeof(int64_t),
    };
    char *at[sizeof parts / sizeof *parts];
    hyb_bound *bound = (hyb_bound *)hyb_alloc_parts(parts, sizeof parts / sizeof *parts, at, "a plan");
    if (!bound)
        return NULL;
    bound->aliases = (int32_t *)at[1];
    bound->nbytes = (int64_t *)at[2];
    bound->values = (hyb_value_type *)at[3];
    bound->sizes = (int64_t *)at[4];
    bound->of = of;
    bound->users = 1;
    return bound;
}

static hyb_status close_types(const hyb_code *code, const hyb_function *function, hyb_bound *bound,
                              const int64_t *numbers, int64_t n_numbers)
{
    const hyb_case *of = bound->of;
    const hyb_function_row *row = function->row;
    const hyb_external_row *externals = hyb_externals(code, of->plan_row);
    const hyb_binding_row *bindings = hyb_bindings(code, of->row->first_binding);
    for (int32_t i = 0; i < row->n_inputs + row->n_outputs; i++) {
        const hyb_value_row *value = i < row->n_inputs ? hyb_values(code, row->first_input) + i
                                                       : hyb_values(code, of->row->first_output) + (i - row->n_inputs);
        TRY(close_type(&code->types[value->type], numbers, n_numbers, &bound->values[i]));
    }
    for (int32_t e = 0; e < of->plan_row->n_externals; e++) {
        hyb_value_type found;
        TRY(close_type(&code->types[externals[e].type], numbers, n_numbers, &found));
        bound->nbytes[e] = found.nbytes;
        if (bindings[e].kind == HYB_BIND_SCRATCH)
            bound->scratch_nbytes += (found.nbytes + 63) / 64 * 64;
    }
    return HYB_OK;
}

static hyb_status make_plan(hyb_code *code, const hyb_function *function, hyb_bound *bound, int64_t *numbers)
{
    const hyb_case *of = bound->of;
    const hyb_plan_row *plan = of->plan_row;
    const int32_t known = function->row->n_symbols;
    const int64_t n_numbers = (int64_t)known + plan->n_formulas;
    const char *wrong = hyb_evaluate(hyb_formulas(&code->file, plan->first_formula), plan->n_formulas, known, numbers);
    if (wrong)
        return hyb_fail(HYB_BAD_FILE, "%s", wrong);
    TRY(close_types(code, function, bound, numbers, n_numbers));
    int32_t *aliases = bound->aliases;
    bool moved = false;
    for (int32_t e = 0; e < plan->n_externals; e++) {
        aliases[e] = of->aliases[e];
        moved |= aliases[e] != e;
    }
    const int32_t number = of->row->plan;
    bound->plan = hyb_file_plan(&code->file, code->kernels, number, bound->nbytes, aliases, numbers, n_numbers);
    if (!bound->plan && moved) { /* then nothing is written in place; if that is not why, it says so again */
        for (int32_t e = 0; e < plan->n_externals; e++)
            aliases[e] = e;
        bound->plan = hyb_file_plan(&code->file, code->kernels, number, bound->nbytes, aliases, numbers, n_numbers);
    }
    if (!bound->plan)
        return HYB_BAD_FILE;
    hyb_plan_set_budget(bound->plan, atomic_load(&code->budget));
    if (known == 0)
        return HYB_OK;
    hyb_plan_share_arena(bound->plan); /* one of many that run in turn */
    return hyb_bound_fits(code, function, bound);
}

static hyb_status make_bound(hyb_code *code, const hyb_function *function, const int64_t *given, hyb_bound **made)
{
    const hyb_case *of = hyb_case_at(code, function, given);
    if (!of)
        return HYB_BAD_ARGUMENT;
    hyb_bound *bound = make_room(function, of);
    if (!bound)
        return HYB_NO_MEMORY;
    const size_t known = (size_t)function->row->n_symbols;
    int64_t *numbers = hyb_alloc((known + (size_t)of->plan_row->n_formulas + 1) * sizeof *numbers);
    hyb_status status = numbers ? HYB_OK : hyb_fail(HYB_NO_MEMORY, "no memory for %d numbers", of->plan_row->n_formulas);
    if (status == HYB_OK) {
        for (size_t s = 0; s < known; s++)
            bound->sizes[s] = numbers[s] = given[s];
        status = make_plan(code, function, bound, numbers);
        hyb_free(numbers);
    }
    if (status == HYB_OK)
        *made = bound;
    else
        bound_free(bound);
    return status;
}

static hyb_bound *kept_at(hyb_function *function, const int64_t *sizes)
{
    const size_t nbytes = (size_t)function->row->n_symbols * sizeof *sizes;
    for (int i = 0; i < HYB_BOUND_KEPT; i++)
        if (function->bound[i] && memcmp(function->bound[i]->sizes, sizes, nbytes) == 0) {
            function->bound[i]->used = ++function->clock;
            return function->bound[i];
        }
    return NULL;
}

/* The one at these sizes, which the caller has to release; another thread may have been faster. */
hyb_status hyb_bound_at(hyb_code *code, hyb_function *function, const int64_t *sizes, hyb_bound **found)
{
    if (function->row->n_symbols == 0)
        return make_bound(code, function, NULL, found);
    pthread_mutex_lock(&function->lock);
    hyb_bound *bound = kept_at(function, sizes);
    if (bound)
        atomic_fetch_add(&bound->users, 1);
    pthread_mutex_unlock(&function->lock);
    if (bound) {
        *found = bound;
        return HYB_OK;
    }
    const hyb_status status = make_bound(code, function, sizes, &bound);
    if (status != HYB_OK) {
        char name[NAME];
        return status == HYB_BAD_ARGUMENT ? status
            : hyb_fail_in(status, hyb_shown(&code->file, function->row->name, name, NAME));
    }
    hyb_bound *gone = NULL;
    pthread_mutex_lock(&function->lock);
    if (!kept_at(function, sizes)) {
        int oldest = 0;
        for (int i = 0; i < HYB_BOUND_KEPT; i++)
            if (!function->bound[i]) {
                oldest = i;
                break;
            } else if (function->bound[i]->used < function->bound[oldest]->used)
                oldest = i;
        gone = function->bound[oldest];
        function->bound[oldest] = bound;
        bound->used = ++function->clock;
        atomic_fetch_add(&bound->users, 1);
    }
    pthread_mutex_unlock(&function->lock);
    hyb_bound_release(gone);
    *found = bound;
    return HYB_OK;
}
