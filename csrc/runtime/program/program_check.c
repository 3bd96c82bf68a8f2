/* program_check.c - reads the tables of a file, which may say anything, and makes its plans. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/program/program.h"

enum { MOST_ROWS = 1 << 16, NAME = 96 };
static const int64_t MOST_BYTES = INT64_C(1) << 46; /* of a value: sums of MOST_ROWS of them do not wrap */

const hyb_binding_row *hyb_bindings(const hyb_code *code, int32_t first)
{
    return (const hyb_binding_row *)code->file.section[HYB_SECTION_BINDINGS].bytes + first;
}

const hyb_value_row *hyb_values(const hyb_code *code, int32_t first)
{
    return (const hyb_value_row *)code->file.section[HYB_SECTION_VALUES].bytes + first;
}

const hyb_cell_row *hyb_cell_rows(const hyb_code *code)
{
    return (const hyb_cell_row *)code->file.section[HYB_SECTION_CELLS].bytes;
}

static const hyb_external_row *externals_of(const hyb_code *code, const hyb_plan_row *plan)
{
    return (const hyb_external_row *)code->file.section[HYB_SECTION_EXTERNALS].bytes + plan->first_external;
}

static bool is_text(const hyb_file *file, hyb_text text)
{
    size_t n;
    return hyb_file_text(file, text, &n) != NULL;
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
        if (code->kernels[i] < 0)
            return hyb_fail(HYB_NO_KERNEL, "it needs the kernel %s of %s, which this library does not have",
                            name, hyb_dtype_name(rows[i].dtype));
        const hyb_kernel *kernel = hyb_kernel_at(code->kernels[i]);
        if (kernel->n_in != rows[i].n_in || kernel->n_out != rows[i].n_out || kernel->n_attrs != rows[i].n_attrs)
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
    for (int32_t i = 0; i < code->n_types; i++) {
        hyb_layout *layout = &code->types[i].layout;
        int64_t nbytes = hyb_itemsize(rows[i].dtype), items = 1;
        if (nbytes == 0 || rows[i].rank < 0 || rows[i].rank > HYB_MAX_RANK
            || !hyb_rows_hold(rows[i].first_dim, rows[i].rank, file->section[HYB_SECTION_DIMS].count))
            return hyb_fail(HYB_BAD_FILE, "type %d: dtype %d and rank %d", i, rows[i].dtype, rows[i].rank);
        *layout = (hyb_layout){.dtype = rows[i].dtype, .rank = rows[i].rank};
        for (int32_t d = layout->rank - 1; d >= 0; d--) {
            const int64_t size = dims[rows[i].first_dim + d];
            layout->shape[d] = size;
            layout->strides[d] = nbytes * items;
            if (size < 0 || (size > 0 && items > MOST_BYTES / nbytes / size))
                return hyb_fail(HYB_BAD_FILE, "type %d: size %lld of axis %d", i, (long long)size, d);
            items *= size > 0 ? size : 1;
        }
        code->types[i].nbytes = nbytes * hyb_elements(layout);
    }
    return HYB_OK;
}

static hyb_status check_cells(hyb_code *code)
{
    const hyb_file *file = &code->file;
    const hyb_cell_row *rows = hyb_cell_rows(code);
    for (int32_t i = 0; i < code->n_cells; i++) {
        const hyb_cell_row *row = &rows[i];
        bool good = is_text(file, row->name) && hyb_rows_hold(row->type, 1, code->n_types)
            && hyb_rows_hold(row->first_alias, row->n_aliases, file->section[HYB_SECTION_ALIASES].count)
            && row->offset % 64 == 0
            && hyb_rows_hold(row->offset, row->nbytes, file->section[HYB_SECTION_DATA].nbytes);
        if (!good || row->nbytes != code->types[row->type].nbytes)
            return hyb_fail(HYB_BAD_FILE, "cell %d: its name, type or %lld bytes are not there", i,
                            (long long)row->nbytes);
    }
    return HYB_OK;
}

/* A function while it is read: what its bindings have named so far. */
typedef struct {
    hyb_code *code;
    hyb_function *function;
    int32_t number;
    int32_t *reads, *writes; /* of each cell: the external that is bound to it, or -1 */
} reading;

static hyb_status bad(const reading *f, const char *what, int64_t number)
{
    char name[NAME];
    hyb_shown(&f->code->file, f->function->row->name, name, sizeof name);
    return hyb_fail(HYB_BAD_FILE, "function %s: %s %lld", name, what, (long long)number);
}

static hyb_status find_plan(const reading *f, int32_t number, const hyb_plan_row **found)
{
    const hyb_file *file = &f->code->file;
    if (!hyb_rows_hold(number, 1, file->section[HYB_SECTION_PLANS].count))
        return bad(f, "there is no plan", number);
    *found = (const hyb_plan_row *)file->section[HYB_SECTION_PLANS].bytes + number;
    if ((*found)->n_externals < 0 || (*found)->n_externals > MOST_ROWS || (*found)->n_outputs < 0
        || (*found)->n_outputs > (*found)->n_externals
        || !hyb_rows_hold((*found)->first_external, (*found)->n_externals, file->section[HYB_SECTION_EXTERNALS].count))
        return bad(f, "no such externals of plan", number);
    const hyb_external_row *rows = externals_of(f->code, *found);
    for (int32_t e = 0; e < (*found)->n_externals; e++)
        if (!hyb_rows_hold(rows[e].type, 1, f->code->n_types))
            return bad(f, "no type of external", e);
    return HYB_OK;
}

static bool same_type(const hyb_code *code, int32_t a, int32_t b)
{
    const hyb_layout *one = &code->types[a].layout, *other = &code->types[b].layout;
    return a == b || (one->dtype == other->dtype && hyb_same_shape(one, other));
}

/* What an external is bound to is there, once, and has its type. */
static hyb_status check_binding(reading *f, int32_t e, bool early)
{
    hyb_code *code = f->code;
    const hyb_plan_row *plan = early ? f->function->early_row : f->function->plan_row;
    const hyb_function_row *row = f->function->row;
    const hyb_binding_row *binding = hyb_bindings(code, early ? row->first_early : row->first_binding) + e;
    const bool output = e < plan->n_outputs;
    const int32_t type = externals_of(code, plan)[e].type;
    if (output != (binding->kind <= HYB_BIND_SCRATCH) || (early && binding->kind != (output ? HYB_BIND_SCRATCH : HYB_BIND_CELL)))
        return bad(f, "a binding does not suit external", e);
    int32_t bound;
    switch (binding->kind) {
    case HYB_BIND_SCRATCH: return HYB_OK;
    case HYB_BIND_RESULT:
        if (!hyb_rows_hold(binding->index, 1, row->n_outputs))
            return bad(f, "no such result of external", e);
        bound = hyb_values(code, row->first_output)[binding->index].type;
        break;
    case HYB_BIND_INPUT:
        if (!hyb_rows_hold(binding->index, 1, row->n_inputs))
            return bad(f, "no such input of external", e);
        bound = hyb_values(code, row->first_input)[binding->index].type;
        break;
    case HYB_BIND_KEPT:
        if (!f->function->early_row || !hyb_rows_hold(binding->index, 1, f->function->early_row->n_outputs))
            return bad(f, "nothing is kept for external", e);
        bound = externals_of(code, f->function->early_row)[binding->index].type;
        break;
    case HYB_BIND_CELL:
    case HYB_BIND_WRITE:
        if (!hyb_rows_hold(binding->index, 1, code->n_cells))
            return bad(f, "no such cell of external", e);
        bound = hyb_cell_rows(code)[binding->index].type;
        if (!early) {
            int32_t *one = (binding->kind == HYB_BIND_CELL ? f->reads : f->writes) + binding->index;
            if (*one >= 0)
                return bad(f, "two externals are cell", binding->index);
            *one = e;
        }
        break;
    default: return bad(f, "unknown binding of external", e);
    }
    return same_type(code, type, bound) ? HYB_OK : bad(f, "another type than its binding has external", e);
}

static hyb_status check_values(const reading *f)
{
    const hyb_code *code = f->code;
    const hyb_function_row *row = f->function->row;
    const int64_t values = code->file.section[HYB_SECTION_VALUES].count;
    if (!hyb_rows_hold(row->first_input, row->n_inputs, values) || !hyb_rows_hold(row->first_output, row->n_outputs, values)
        || row->n_inputs > MOST_ROWS || row->n_outputs > MOST_ROWS)
        return bad(f, "its inputs or outputs are not there:", row->first_input);
    for (int32_t i = 0; i < row->n_inputs + row->n_outputs; i++) {
        const hyb_value_row *value = i < row->n_inputs ? hyb_values(code, row->first_input) + i
                                                       : hyb_values(code, row->first_output) + (i - row->n_inputs);
        if (!is_text(&code->file, value->name) || !hyb_rows_hold(value->type, 1, code->n_types))
            return bad(f, "no name or type of value", i);
    }
    return HYB_OK;
}

/* Where each output comes from: an output of the plan, an input, or a cell. */
static hyb_status check_outputs(const reading *f)
{
    const hyb_code *code = f->code;
    const hyb_function_row *row = f->function->row;
    for (int32_t i = 0; i < row->n_outputs; i++) {
        const hyb_value_row *value = hyb_values(code, row->first_output) + i;
        int32_t type;
        switch (value->source) {
        case HYB_FROM_EXTERNAL:
            if (!hyb_rows_hold(value->index, 1, f->function->plan_row->n_outputs))
                return bad(f, "no such external of output", i);
            type = externals_of(code, f->function->plan_row)[value->index].type;
            const hyb_binding_row *binding = hyb_bindings(code, row->first_binding) + value->index;
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
    for (int32_t e = 0; e < f->function->plan_row->n_outputs; e++) {
        const hyb_binding_row *binding = hyb_bindings(code, row->first_binding) + e;
        if (binding->kind != HYB_BIND_RESULT)
            continue;
        const hyb_value_row *value = hyb_values(code, row->first_output) + binding->index;
        if (value->source != HYB_FROM_EXTERNAL || value->index != e)
            return bad(f, "another external than its own has result", binding->index);
    }
    return HYB_OK;
}

/* Outputs that become cells are written over these, where the plan may do so. */
static void lay_outputs(reading *f, int32_t *aliases)
{
    const hyb_plan_row *plan = f->function->plan_row;
    const hyb_external_row *rows = externals_of(f->code, plan);
    const hyb_binding_row *bindings = hyb_bindings(f->code, f->function->row->first_binding);
    for (int32_t e = 0; e < plan->n_externals; e++) {
        aliases[e] = e;
        if (e >= plan->n_outputs || bindings[e].kind != HYB_BIND_WRITE || rows[e].exposed)
            continue;
        const int32_t read = f->reads[bindings[e].index];
        if (read >= 0 && rows[e].donated == read - plan->n_outputs)
            aliases[e] = read;
    }
}

static hyb_status make_plans(reading *f, int32_t *aliases, int64_t *nbytes)
{
    hyb_code *code = f->code;
    hyb_function *function = f->function;
    const hyb_plan_row *plan = function->plan_row, *early = function->early_row;
    function->aliases = aliases;
    function->nbytes = nbytes;
    for (int32_t e = 0; e < plan->n_externals; e++) {
        nbytes[e] = code->types[externals_of(code, plan)[e].type].nbytes;
        const int32_t kind = hyb_bindings(code, function->row->first_binding)[e].kind;
        function->writes |= kind == HYB_BIND_WRITE;
        if (kind == HYB_BIND_SCRATCH)
            function->scratch_nbytes += (nbytes[e] + 63) / 64 * 64;
    }
    lay_outputs(f, aliases);
    function->plan = hyb_file_plan(&code->file, code->kernels, function->row->plan, nbytes, aliases);
    if (!function->plan) { /* then nothing is written in place; if that is not why, it says so again */
        for (int32_t e = 0; e < plan->n_externals; e++)
            aliases[e] = e;
        function->plan = hyb_file_plan(&code->file, code->kernels, function->row->plan, nbytes, aliases);
    }
    if (!function->plan)
        return HYB_BAD_FILE;
    if (!early)
        return HYB_OK;
    int32_t *own = aliases + plan->n_externals;
    int64_t *early_nbytes = nbytes + plan->n_externals;
    for (int32_t e = 0; e < early->n_externals; e++) {
        own[e] = e;
        early_nbytes[e] = code->types[externals_of(code, early)[e].type].nbytes;
    }
    function->early = hyb_file_plan(&code->file, code->kernels, function->row->early, early_nbytes, own);
    return function->early ? HYB_OK : HYB_BAD_FILE;
}

static hyb_status read_function(reading *f)
{
    hyb_code *code = f->code;
    hyb_function *function = f->function;
    const hyb_function_row *row = function->row;
    const hyb_file *file = &code->file;
    if (!is_text(file, row->name) || !is_text(file, row->inputs) || !is_text(file, row->outputs) || !is_text(file, row->graph))
        return bad(f, "no name, or no trees, of function", f->number);
    TRY(check_values(f));
    TRY(find_plan(f, row->plan, &function->plan_row));
    if (row->early >= 0)
        TRY(find_plan(f, row->early, &function->early_row));
    const int64_t bindings = file->section[HYB_SECTION_BINDINGS].count;
    const int32_t n = function->plan_row->n_externals, n_early = function->early_row ? function->early_row->n_externals : 0;
    if (!hyb_rows_hold(row->first_binding, n, bindings) || (n_early && !hyb_rows_hold(row->first_early, n_early, bindings)))
        return bad(f, "its bindings are not there:", row->first_binding);
    for (int32_t i = 0; i < code->n_cells; i++)
        f->reads[i] = f->writes[i] = -1;
    for (int32_t e = 0; e < n; e++)
        TRY(check_binding(f, e, false));
    for (int32_t e = 0; e < n_early; e++)
        TRY(check_binding(f, e, true));
    TRY(check_outputs(f));
    int32_t *aliases = hyb_alloc((size_t)(n + n_early + 1) * (sizeof(int32_t) + sizeof(int64_t)) + 64);
    if (!aliases)
        return hyb_fail(HYB_NO_MEMORY, "no memory for %d externals", n);
    function->aliases = aliases; /* whose block it is */
    int64_t *nbytes = (int64_t *)((char *)aliases + ((size_t)(n + n_early) * sizeof(int32_t) + 63) / 64 * 64);
    const hyb_status status = make_plans(f, aliases, nbytes);
    for (int32_t i = 0; i < code->n_cells; i++)
        code->written[i] |= f->writes[i] >= 0;
    if (status == HYB_OK)
        return HYB_OK;
    char name[NAME], text[HYB_TEXT - NAME];
    memcpy(text, hyb_last_error(), sizeof text);
    text[sizeof text - 1] = 0;
    return hyb_fail(status, "function %s: %s", hyb_shown(file, row->name, name, sizeof name), text);
}

static hyb_status count_rows(hyb_code *code)
{
    static const struct { hyb_section_kind kind; const char *name; } LIMITED[] = {
        {HYB_SECTION_FUNCTIONS, "functions"}, {HYB_SECTION_CELLS, "cells"}, {HYB_SECTION_TYPES, "types"},
        {HYB_SECTION_KERNELS, "kernels"}, {HYB_SECTION_PLANS, "plans"},
    };
    for (size_t i = 0; i < sizeof LIMITED / sizeof *LIMITED; i++)
        if (code->file.section[LIMITED[i].kind].count > MOST_ROWS)
            return hyb_fail(HYB_BAD_FILE, "%lld %s are more than the %d there may be",
                            (long long)code->file.section[LIMITED[i].kind].count, LIMITED[i].name, MOST_ROWS);
    code->n_functions = (int32_t)code->file.section[HYB_SECTION_FUNCTIONS].count;
    code->n_cells = (int32_t)code->file.section[HYB_SECTION_CELLS].count;
    code->n_types = (int32_t)code->file.section[HYB_SECTION_TYPES].count;
    return HYB_OK;
}

/* Which cells need a spare, once it is known what is written in place. */
static void note_swaps(hyb_code *code, const hyb_function *function)
{
    const hyb_binding_row *bindings = hyb_bindings(code, function->row->first_binding);
    for (int32_t e = 0; e < function->plan_row->n_outputs; e++)
        if (bindings[e].kind == HYB_BIND_WRITE && function->aliases[e] == e)
            code->swapped[bindings[e].index] = true;
}

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

hyb_status hyb_code_fits(const hyb_code *code, bool copies_cells)
{
    int64_t limit, all = 0;
    const char *what;
    TRY(find_limit(&limit, &what));
    for (int32_t i = 0; i < code->n_cells; i++) {
        const int64_t copies = code->swapped[i] + copies_cells;
        if (__builtin_add_overflow(all, copies * hyb_cell_rows(code)[i].nbytes, &all) || all > limit)
            return hyb_fail(HYB_NO_MEMORY, "its cells take %lld bytes beside the file, more than the %lld %s",
                            (long long)all, (long long)limit, what);
    }
    for (int32_t f = 0; f < code->n_functions; f++) {
        const hyb_function *function = &code->functions[f];
        int64_t own = hyb_plan_arena_nbytes(function->plan);
        bool wraps = __builtin_add_overflow(own, function->scratch_nbytes, &own);
        if (function->early)
            wraps |= __builtin_add_overflow(own, hyb_plan_arena_nbytes(function->early), &own);
        for (int32_t e = 0; function->early && e < function->early_row->n_outputs; e++)
            wraps |= __builtin_add_overflow(own, function->nbytes[function->plan_row->n_externals + e], &own);
        char name[NAME];
        if (wraps || __builtin_add_overflow(all, own, &all) || all > limit)
            return hyb_fail(HYB_NO_MEMORY, "function %s takes %lld bytes while it runs, %lld with what is before it: "
                            "more than the %lld %s", hyb_shown(&code->file, function->row->name, name, sizeof name),
                            (long long)own, (long long)all, (long long)limit, what);
    }
    return HYB_OK;
}

static size_t rounded(size_t n) { return (n + 63) / 64 * 64; }

hyb_status hyb_code_read(hyb_code *code, hyb_file *file)
{
    *code = (hyb_code){.users = 1, .file = *file};
    TRY(count_rows(code));
    const size_t sizes[] = {
        rounded((size_t)code->file.section[HYB_SECTION_KERNELS].count * sizeof(int32_t)),
        rounded((size_t)code->n_types * sizeof(hyb_value_type)),
        rounded((size_t)code->n_functions * sizeof(hyb_function)),
        rounded((size_t)code->n_cells), rounded((size_t)code->n_cells * sizeof(int32_t)),
        rounded((size_t)code->n_cells * sizeof(int32_t)), rounded((size_t)code->n_cells),
    };
    enum { PARTS = sizeof sizes / sizeof sizes[0] };
    char *parts[PARTS];
    size_t room = 64;
    for (int i = 0; i < PARTS; i++)
        room += sizes[i];
    char *at = code->memory = hyb_alloc(room);
    if (!at)
        return hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes of a program", room);
    memset(at, 0, room);
    for (int i = 0; i < PARTS; at += sizes[i], i++)
        parts[i] = at;
    code->kernels = (int32_t *)parts[0];
    code->types = (hyb_value_type *)parts[1];
    code->functions = (hyb_function *)parts[2];
    code->written = (bool *)parts[3];
    code->swapped = (bool *)parts[6];
    TRY(find_kernels(code));
    TRY(read_types(code));
    TRY(check_cells(code));
    for (int32_t i = 0; i < code->n_functions; i++) {
        code->functions[i].row = (const hyb_function_row *)code->file.section[HYB_SECTION_FUNCTIONS].bytes + i;
        reading f = {code, &code->functions[i], i, (int32_t *)parts[4], (int32_t *)parts[5]};
        TRY(read_function(&f));
        note_swaps(code, &code->functions[i]);
    }
    return HYB_OK;
}

void hyb_code_release(hyb_code *code)
{
    if (atomic_fetch_sub(&code->users, 1) > 1)
        return;
    for (int32_t i = 0; code->functions && i < code->n_functions; i++) {
        hyb_plan_free(code->functions[i].plan);
        hyb_plan_free(code->functions[i].early);
        hyb_free((void *)code->functions[i].aliases);
    }
    hyb_free(code->memory);
    hyb_file_close(&code->file);
    free(code);
}
