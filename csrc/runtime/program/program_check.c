/* program_check.c - reads the tables of a file, which may say anything. */
#include <stdlib.h>

#include "runtime/base/utf8.h"
#include "runtime/program/program.h"

enum { MOST_ROWS = 1 << 16, NAME = 96 };

static bool is_text(const hyb_file *file, hyb_text text)
{
    size_t n;
    return hyb_file_text(file, text, &n) != NULL;
}

/* A name prints, and does nothing else to a terminal. */
static bool is_name(const hyb_file *file, hyb_text text)
{
    size_t n = 0, step = 1;
    const char *at = hyb_file_text(file, text, &n);
    for (; at && n > 0 && step > 0; at += step, n -= step)
        step = hyb_printed(at, n);
    return at && step > 0;
}

static hyb_status find_kernels(hyb_code *code)
{
    const hyb_file *file = &code->file;
    const hyb_kernel_row *rows = (const hyb_kernel_row *)file->section[HYB_SECTION_KERNELS].bytes;
    for (int64_t i = 0; i < file->section[HYB_SECTION_KERNELS].count; i++) {
        char name[NAME];
        if (!is_text(file, rows[i].name))
            return hyb_fail(HYB_BAD_FILE, "kernel %lld: its name is not there", (long long)i);
        hyb_shown(file, rows[i].name, name, sizeof name);
        code->kernels[i] = hyb_find_kernel(name, rows[i].dtype);
        if (code->kernels[i] < 0 && code->any_kernels) {
            code->lacks = true;
            continue;
        }
        if (code->kernels[i] < 0)
            return hyb_fail(HYB_NO_KERNEL, "it needs the kernel %s of %s, which this library does not have",
                            name, hyb_dtype_name(rows[i].dtype));
        const hyb_kernel *kernel = hyb_kernel_at(code->kernels[i]);
        const bool alike = kernel->n_in == rows[i].n_in && kernel->n_out == rows[i].n_out && kernel->n_attrs == rows[i].n_attrs;
        code->lacks |= !alike && code->any_kernels;
        if (!alike && !code->any_kernels)
            return hyb_fail(HYB_NO_KERNEL, "its kernel %s of %s takes other operands than that of this library",
                            name, hyb_dtype_name(rows[i].dtype));
    }
    return HYB_OK;
}

static hyb_status read_types(hyb_code *code)
{
    const hyb_file *file = &code->file;
    const hyb_type_row *rows = (const hyb_type_row *)file->section[HYB_SECTION_TYPES].bytes;
    const int64_t *dims = (const int64_t *)file->section[HYB_SECTION_DIMS].bytes;
    const int64_t numbers = file->section[HYB_SECTION_SYMBOLS].count + file->section[HYB_SECTION_FORMULAS].count;
    for (int32_t i = 0; i < code->n_types; i++) {
        hyb_layout *layout = &code->types[i].layout;
        int32_t wrong = -1;
        if (hyb_itemsize(rows[i].dtype) == 0 || rows[i].rank < 0 || rows[i].rank > HYB_MAX_RANK
            || !hyb_rows_hold(rows[i].first_dim, rows[i].rank, file->section[HYB_SECTION_DIMS].count))
            return hyb_fail(HYB_BAD_FILE, "type %d: dtype %d and rank %d", i, rows[i].dtype, rows[i].rank);
        *layout = (hyb_layout){.dtype = rows[i].dtype, .rank = rows[i].rank};
        for (int32_t d = 0; d < layout->rank; d++) {
            layout->shape[d] = dims[rows[i].first_dim + d];
            wrong = layout->shape[d] < -numbers ? d : wrong;
        }
        if (wrong < 0)
            wrong = hyb_make_dense(&code->types[i]);
        if (wrong >= 0)
            return hyb_fail(HYB_BAD_FILE, "type %d: size %lld of axis %d", i, (long long)layout->shape[wrong], wrong);
    }
    return HYB_OK;
}

static hyb_status check_cells(hyb_code *code)
{
    const hyb_file *file = &code->file;
    const hyb_cell_row *rows = hyb_cell_rows(code);
    for (int32_t i = 0; i < code->n_cells; i++) {
        const hyb_cell_row *row = &rows[i];
        bool good = is_name(file, row->name) && hyb_rows_hold(row->type, 1, code->n_types)
            && hyb_rows_hold(row->first_alias, row->n_aliases, file->section[HYB_SECTION_ALIASES].count)
            && row->offset % 64 == 0
            && hyb_rows_hold(row->offset, row->nbytes, file->section[HYB_SECTION_DATA].nbytes);
        for (int32_t a = 0; good && a < row->n_aliases; a++)
            good = is_name(file, ((const hyb_text *)file->section[HYB_SECTION_ALIASES].bytes)[row->first_alias + a]);
        if (!good || row->nbytes != code->types[row->type].nbytes) /* no open type has any */
            return hyb_fail(HYB_BAD_FILE, "cell %d: its name, type or %lld bytes are not there", i,
                            (long long)row->nbytes);
    }
    return HYB_OK;
}

/* A function while it is read: what the bindings of a case have named so far. */
typedef struct {
    hyb_code *code;
    hyb_function *function;
    hyb_case *of;
    int32_t number;
    int32_t *reads, *writes; /* of each cell: the external that is bound to it, or -1 */
} reading;

static hyb_status bad(const reading *f, const char *what, int64_t number)
{
    char name[NAME];
    hyb_shown(&f->code->file, f->function->row->name, name, sizeof name);
    return hyb_fail(HYB_BAD_FILE, "function %s: %s %lld", name, what, (long long)number);
}

/* A plan whose externals are there, and have types; NULL otherwise. */
static const hyb_plan_row *find_plan(const hyb_code *code, int32_t number, int32_t n_symbols)
{
    const hyb_file *file = &code->file;
    if (!hyb_rows_hold(number, 1, file->section[HYB_SECTION_PLANS].count)) {
        hyb_fail(HYB_BAD_FILE, "there is no plan %d", number);
        return NULL;
    }
    const hyb_plan_row *plan = (const hyb_plan_row *)file->section[HYB_SECTION_PLANS].bytes + number;
    bool good = plan->n_externals >= 0 && plan->n_externals <= MOST_ROWS && plan->n_outputs >= 0
        && plan->n_outputs <= plan->n_externals
        && hyb_rows_hold(plan->first_external, plan->n_externals, file->section[HYB_SECTION_EXTERNALS].count)
        && hyb_formulas_hold(file, plan->first_formula, plan->n_formulas, n_symbols);
    for (int32_t e = 0; good && e < plan->n_externals; e++)
        good = hyb_rows_hold(hyb_externals(code, plan)[e].type, 1, code->n_types);
    if (good)
        return plan;
    hyb_fail(HYB_BAD_FILE, "no such externals or formulas of plan %d", number);
    return NULL;
}

/* Sizes of open axes are those of one number: of one plan, or of the symbols of one function. */
static bool same_type(const hyb_code *code, int32_t a, int32_t b)
{
    const hyb_layout *one = &code->types[a].layout, *other = &code->types[b].layout;
    return a == b || (one->dtype == other->dtype && hyb_same_shape(one, other));
}

/* What an external is bound to is there, once, and has its type. */
static hyb_status check_binding(reading *f, int32_t e)
{
    hyb_code *code = f->code;
    const hyb_plan_row *plan = f->of->plan_row;
    const hyb_function_row *row = f->function->row;
    const hyb_binding_row *binding = hyb_bindings(code, f->of->row->first_binding) + e;
    const bool output = e < plan->n_outputs;
    const int32_t type = hyb_externals(code, plan)[e].type;
    if (output != (binding->kind <= HYB_BIND_SCRATCH))
        return bad(f, "a binding does not suit external", e);
    int32_t bound;
    switch (binding->kind) {
    case HYB_BIND_SCRATCH: return HYB_OK;
    case HYB_BIND_RESULT:
        if (!hyb_rows_hold(binding->index, 1, row->n_outputs))
            return bad(f, "no such result of external", e);
        bound = hyb_values(code, f->of->row->first_output)[binding->index].type;
        break;
    case HYB_BIND_INPUT:
        if (!hyb_rows_hold(binding->index, 1, row->n_inputs))
            return bad(f, "no such input of external", e);
        bound = hyb_values(code, row->first_input)[binding->index].type;
        break;
    case HYB_BIND_KEPT:
        if (f->of->row->ahead < 0 || !hyb_rows_hold(binding->index, 1, code->aheads[f->of->row->ahead].plan_row->n_outputs))
            return bad(f, "nothing is kept for external", e);
        bound = hyb_externals(code, code->aheads[f->of->row->ahead].plan_row)[binding->index].type;
        break;
    case HYB_BIND_CELL:
    case HYB_BIND_WRITE: {
        if (!hyb_rows_hold(binding->index, 1, code->n_cells))
            return bad(f, "no such cell of external", e);
        bound = hyb_cell_rows(code)[binding->index].type;
        int32_t *one = (binding->kind == HYB_BIND_CELL ? f->reads : f->writes) + binding->index;
        if (*one >= 0)
            return bad(f, "two externals are cell", binding->index);
        *one = e;
        break;
    }
    default: return bad(f, "unknown binding of external", e);
    }
    return same_type(code, type, bound) ? HYB_OK : bad(f, "another type than its binding has external", e);
}

static hyb_status check_values(const reading *f, int32_t first, int32_t n)
{
    const hyb_code *code = f->code;
    if (n > MOST_ROWS || !hyb_rows_hold(first, n, code->file.section[HYB_SECTION_VALUES].count))
        return bad(f, "its inputs or outputs are not there:", first);
    for (int32_t i = 0; i < n; i++) {
        const hyb_value_row *value = hyb_values(code, first) + i;
        if (!is_name(&code->file, value->name) || !hyb_rows_hold(value->type, 1, code->n_types))
            return bad(f, "no name or type of value", i);
    }
    return HYB_OK;
}

/* Each symbol is the size of an axis of an input, and no input has another open size. */
static hyb_status check_symbols(const reading *f)
{
    const hyb_code *code = f->code;
    const hyb_function_row *row = f->function->row;
    if (row->n_symbols > HYB_MOST_SYMBOLS
        || !hyb_rows_hold(row->first_symbol, row->n_symbols, code->file.section[HYB_SECTION_SYMBOLS].count))
        return bad(f, "its symbols are not there:", row->first_symbol);
    f->function->symbols = (const hyb_symbol_row *)code->file.section[HYB_SECTION_SYMBOLS].bytes + row->first_symbol;
    bool found[HYB_MOST_SYMBOLS] = {false};
    for (int32_t i = 0; i < row->n_inputs; i++) {
        const hyb_layout *layout = &code->types[hyb_values(code, row->first_input)[i].type].layout;
        for (int32_t d = 0; d < layout->rank; d++) {
            if (layout->shape[d] < -row->n_symbols)
                return bad(f, "no such symbol of input", i);
            if (layout->shape[d] < 0)
                found[-1 - layout->shape[d]] = true;
        }
    }
    for (int32_t i = 0; i < row->n_symbols; i++)
        if (!found[i] || !is_name(&code->file, f->function->symbols[i].name) || f->function->symbols[i].low < 0
            || f->function->symbols[i].low > f->function->symbols[i].high || f->function->symbols[i].high > INT32_MAX)
            return bad(f, "no input, name or range has symbol", i);
    return HYB_OK;
}

/* Where each output comes from: an output of the plan, an input, or a cell. */
static hyb_status check_outputs(const reading *f)
{
    const hyb_code *code = f->code;
    const hyb_function_row *row = f->function->row;
    const hyb_value_row *outputs = hyb_values(code, f->of->row->first_output);
    for (int32_t i = 0; i < row->n_outputs; i++) {
        const hyb_value_row *value = &outputs[i];
        const hyb_layout *first = &code->types[hyb_values(code, f->function->cases->row->first_output)[i].type].layout;
        const hyb_layout *own = &code->types[value->type].layout;
        if (first->rank != own->rank || first->dtype != own->dtype)
            return bad(f, "another type in another case has output", i);
        if (row->n_symbols == 0 && code->types[value->type].nbytes < 0) /* what is asked for is the declared one */
            return bad(f, "without open axes, an open one has output", i);
        int32_t type;
        switch (value->source) {
        case HYB_FROM_EXTERNAL:
            if (!hyb_rows_hold(value->index, 1, f->of->plan_row->n_outputs))
                return bad(f, "no such external of output", i);
            type = hyb_externals(code, f->of->plan_row)[value->index].type;
            const hyb_binding_row *binding = hyb_bindings(code, f->of->row->first_binding) + value->index;
            if (binding->kind == HYB_BIND_SCRATCH || (binding->kind == HYB_BIND_RESULT && binding->index > i))
                return bad(f, "another binding than its own has output", i);
            break;
        case HYB_FROM_INPUT:
            if (!hyb_rows_hold(value->index, 1, row->n_inputs))
                return bad(f, "no such input of output", i);
            type = hyb_values(code, row->first_input)[value->index].type;
            break;
        case HYB_FROM_CELL:
            if (!hyb_rows_hold(value->index, 1, code->n_cells))
                return bad(f, "no such cell of output", i);
            type = hyb_cell_rows(code)[value->index].type;
            break;
        default: return bad(f, "unknown source of output", i);
        }
        if (!same_type(code, type, value->type))
            return bad(f, "another type than its source has output", i);
    }
    for (int32_t e = 0; e < f->of->plan_row->n_outputs; e++) {
        const hyb_binding_row *binding = hyb_bindings(code, f->of->row->first_binding) + e;
        if (binding->kind != HYB_BIND_RESULT)
            continue;
        if (outputs[binding->index].source != HYB_FROM_EXTERNAL || outputs[binding->index].index != e)
            return bad(f, "another external than its own has result", binding->index);
    }
    return HYB_OK;
}

/* Outputs that become cells are written over these, where the plan may do so. */
static void lay_outputs(reading *f)
{
    int32_t *aliases = f->of->aliases;
    const hyb_plan_row *plan = f->of->plan_row;
    const hyb_external_row *rows = hyb_externals(f->code, plan);
    const hyb_binding_row *bindings = hyb_bindings(f->code, f->of->row->first_binding);
    for (int32_t e = 0; e < plan->n_externals; e++) {
        aliases[e] = e;
        if (e >= plan->n_outputs || bindings[e].kind != HYB_BIND_WRITE || rows[e].exposed)
            continue;
        const int32_t read = f->reads[bindings[e].index];
        if (read >= 0 && rows[e].donated == read - plan->n_outputs)
            aliases[e] = read;
    }
}

static hyb_status read_case(reading *f)
{
    hyb_code *code = f->code;
    const hyb_file *file = &code->file;
    const hyb_case_row *row = f->of->row;
    if (!is_text(file, row->graph)
        || !hyb_formulas_hold(file, row->first_formula, row->n_formulas, f->function->row->n_symbols))
        return bad(f, "no graph or no conditions of case", f->of - f->function->cases);
    if (f->function->row->n_symbols == 0 && row->n_formulas > 0)
        return bad(f, "without open axes, there are conditions:", row->n_formulas);
    TRY(check_values(f, row->first_output, f->function->row->n_outputs));
    if (!(f->of->plan_row = find_plan(code, row->plan, f->function->row->n_symbols)))
        return HYB_BAD_FILE;
    if (row->ahead >= code->n_aheads)
        return bad(f, "there is no plan that runs ahead of case", f->of - f->function->cases);
    const int32_t n = f->of->plan_row->n_externals;
    if (!hyb_rows_hold(row->first_binding, n, file->section[HYB_SECTION_BINDINGS].count))
        return bad(f, "its bindings are not there:", row->first_binding);
    for (int32_t i = 0; i < code->n_cells; i++)
        f->reads[i] = f->writes[i] = -1;
    for (int32_t e = 0; e < n; e++)
        TRY(check_binding(f, e));
    TRY(check_outputs(f));
    if (!(f->of->aliases = hyb_alloc((size_t)(n + 1) * sizeof *f->of->aliases)))
        return hyb_fail(HYB_NO_MEMORY, "no memory for %d externals", n);
    lay_outputs(f);
    for (int32_t i = 0; i < code->n_cells; i++) {
        code->written[i] |= f->writes[i] >= 0;
        f->function->writes |= f->writes[i] >= 0;
    }
    return HYB_OK;
}

static hyb_status read_function(reading *f)
{
    hyb_code *code = f->code;
    hyb_function *function = f->function;
    const hyb_function_row *row = function->row;
    const hyb_file *file = &code->file;
    if (pthread_mutex_init(&function->lock, NULL) != 0)
        return hyb_fail(HYB_NO_MEMORY, "no memory for a lock");
    code->n_locks++;
    if (!is_name(file, row->name) || !is_text(file, row->inputs) || !is_text(file, row->outputs))
        return bad(f, "no name, or no trees, of function", f->number);
    if (row->n_cases < 1 || !hyb_rows_hold(row->first_case, row->n_cases, code->n_cases))
        return bad(f, "its cases are not there:", row->first_case);
    if (row->n_symbols == 0 && row->n_cases > 1)
        return bad(f, "no open axis tells its cases apart, but there are", row->n_cases);
    TRY(check_values(f, row->first_input, row->n_inputs));
    TRY(check_symbols(f));
    function->cases = code->cases + row->first_case;
    const hyb_case_row *rows = (const hyb_case_row *)file->section[HYB_SECTION_CASES].bytes + row->first_case;
    for (int32_t i = 0; i < row->n_cases; i++) {
        f->of = &function->cases[i];
        if (f->of->row)
            return bad(f, "another function has case", i);
        f->of->row = &rows[i];
        TRY(read_case(f));
    }
    if (row->n_symbols > 0 || code->lacks)
        return HYB_OK;
    const hyb_status status = hyb_bound_at(code, function, NULL, &function->bound[0]);
    char where[NAME] = "function ";
    const size_t n = strlen(where);
    hyb_shown(file, row->name, where + n, sizeof where - n);
    return status == HYB_OK ? status : hyb_fail_in(status, where);
}

/* What runs ahead has cells as its inputs, and outputs that are kept. */
static hyb_status read_ahead(hyb_code *code, int32_t number)
{
    hyb_ahead *ahead = &code->aheads[number];
    ahead->row = (const hyb_ahead_row *)code->file.section[HYB_SECTION_AHEAD].bytes + number;
    const hyb_plan_row *plan = ahead->plan_row = find_plan(code, ahead->row->plan, 0);
    if (!plan)
        return HYB_BAD_FILE;
    if (!hyb_rows_hold(ahead->row->first_binding, plan->n_externals, code->file.section[HYB_SECTION_BINDINGS].count))
        return hyb_fail(HYB_BAD_FILE, "the bindings of plan %d are not there", ahead->row->plan);
    const hyb_binding_row *bindings = hyb_bindings(code, ahead->row->first_binding);
    const hyb_external_row *externals = hyb_externals(code, plan);
    int32_t *own = hyb_alloc((size_t)(plan->n_externals + 1) * sizeof *own);
    ahead->nbytes = hyb_alloc((size_t)(plan->n_externals + 1) * sizeof *ahead->nbytes);
    hyb_status status = own && ahead->nbytes ? HYB_OK : hyb_fail(HYB_NO_MEMORY, "no memory for %d externals", plan->n_externals);
    for (int32_t e = 0; status == HYB_OK && e < plan->n_externals; e++) {
        const bool output = e < plan->n_outputs;
        own[e] = e;
        ahead->nbytes[e] = code->types[externals[e].type].nbytes;
        if (bindings[e].kind != (output ? HYB_BIND_SCRATCH : HYB_BIND_CELL) || ahead->nbytes[e] < 0
            || (!output && (!hyb_rows_hold(bindings[e].index, 1, code->n_cells)
                            || !same_type(code, externals[e].type, hyb_cell_rows(code)[bindings[e].index].type))))
            status = hyb_fail(HYB_BAD_FILE, "plan %d: a binding does not suit external %d", ahead->row->plan, e);
    }
    if (status == HYB_OK && !code->lacks) {
        ahead->plan = hyb_file_plan(&code->file, code->kernels, ahead->row->plan, ahead->nbytes, own, NULL, 0);
        status = ahead->plan ? HYB_OK : HYB_BAD_FILE;
    }
    hyb_free(own);
    return status;
}

static hyb_status count_rows(hyb_code *code)
{
    static const struct { hyb_section_kind kind; const char *name; } LIMITED[] = {
        {HYB_SECTION_FUNCTIONS, "functions"}, {HYB_SECTION_CELLS, "cells"}, {HYB_SECTION_TYPES, "types"},
        {HYB_SECTION_KERNELS, "kernels"}, {HYB_SECTION_PLANS, "plans"}, {HYB_SECTION_CASES, "cases"},
        {HYB_SECTION_AHEAD, "plans that run ahead"},
    };
    for (size_t i = 0; i < sizeof LIMITED / sizeof *LIMITED; i++)
        if (code->file.section[LIMITED[i].kind].count > MOST_ROWS)
            return hyb_fail(HYB_BAD_FILE, "%lld %s are more than the %d there may be",
                            (long long)code->file.section[LIMITED[i].kind].count, LIMITED[i].name, MOST_ROWS);
    code->n_functions = (int32_t)code->file.section[HYB_SECTION_FUNCTIONS].count;
    code->n_cells = (int32_t)code->file.section[HYB_SECTION_CELLS].count;
    code->n_types = (int32_t)code->file.section[HYB_SECTION_TYPES].count;
    code->n_cases = (int32_t)code->file.section[HYB_SECTION_CASES].count;
    code->n_aheads = (int32_t)code->file.section[HYB_SECTION_AHEAD].count;
    return HYB_OK;
}

hyb_status hyb_code_read(hyb_code *code, hyb_file *file, bool any_kernels)
{
    *code = (hyb_code){.users = 1, .file = *file, .any_kernels = any_kernels};
    TRY(count_rows(code));
    const size_t n_cells = (size_t)code->n_cells;
    const size_t sizes[] = {
        (size_t)code->file.section[HYB_SECTION_KERNELS].count * sizeof(int32_t),
        (size_t)code->n_types * sizeof(hyb_value_type),
        (size_t)code->n_functions * sizeof(hyb_function),
        n_cells, n_cells * sizeof(int32_t), n_cells * sizeof(int32_t),
        (size_t)code->n_cases * sizeof(hyb_case), (size_t)code->n_aheads * sizeof(hyb_ahead),
        n_cells,
    };
    enum { PARTS = sizeof sizes / sizeof *sizes };
    char *parts[PARTS];
    if (!(code->memory = hyb_alloc_parts(sizes, PARTS, parts, "a program")))
        return HYB_NO_MEMORY;
    code->kernels = (int32_t *)parts[0];
    code->types = (hyb_value_type *)parts[1];
    code->functions = (hyb_function *)parts[2];
    code->written = (bool *)parts[3];
    code->cases = (hyb_case *)parts[6];
    code->aheads = (hyb_ahead *)parts[7];
    code->swapped = (bool *)parts[8];
    TRY(find_kernels(code));
    TRY(read_types(code));
    TRY(check_cells(code));
    for (int32_t i = 0; i < code->n_aheads; i++)
        TRY(read_ahead(code, i));
    for (int32_t i = 0; i < code->n_functions; i++) {
        code->functions[i].row = (const hyb_function_row *)code->file.section[HYB_SECTION_FUNCTIONS].bytes + i;
        reading f = {code, &code->functions[i], NULL, i, (int32_t *)parts[4], (int32_t *)parts[5]};
        TRY(read_function(&f));
    }
    return HYB_OK;
}

void hyb_code_release(hyb_code *code)
{
    if (atomic_fetch_sub(&code->users, 1) > 1)
        return;
    for (int32_t i = 0; code->functions && i < code->n_functions; i++) {
        for (int32_t k = 0; k < HYB_BOUND_KEPT; k++)
            hyb_bound_release(code->functions[i].bound[k]);
        if (i < code->n_locks)
            pthread_mutex_destroy(&code->functions[i].lock);
    }
    for (int32_t i = 0; code->cases && i < code->n_cases; i++)
        hyb_free(code->cases[i].aliases);
    for (int32_t i = 0; code->aheads && i < code->n_aheads; i++) {
        hyb_plan_free(code->aheads[i].plan);
        hyb_free(code->aheads[i].nbytes);
    }
    hyb_free(code->memory);
    hyb_file_close(&code->file);
    free(code);
}
