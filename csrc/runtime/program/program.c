/* program.c - programs: loading, forking and freeing them; their functions, values and cells. */
#include <stdlib.h>

#include "runtime/program/program.h"

/* The cells as they are in `from`, or in the file. */
static hyb_status make_cells(hyb_program *program, const hyb_program *from)
{
    hyb_code *code = program->code;
    const hyb_cell_row *rows = hyb_cell_rows(code);
    for (int32_t i = 0; i < code->n_cells; i++) {
        hyb_cell *cell = &program->cells[i];
        cell->nbytes = rows[i].nbytes;
        cell->data = from ? from->cells[i].data : (char *)code->file.section[HYB_SECTION_DATA].bytes + rows[i].offset;
        const bool shared = from ? !code->written[i] && !from->cells[i].block[0] : code->file.mapped;
        if (shared || cell->nbytes == 0)
            continue;
        TRY(hyb_cell_block(cell, 0));
        cell->data = memcpy(cell->block[0], cell->data, (size_t)cell->nbytes);
    }
    return HYB_OK;
}

/* Room for what is written anywhere but in place. */
static hyb_status make_spares(hyb_program *program)
{
    for (int32_t i = 0; i < program->code->n_cells; i++)
        if (program->code->swapped[i])
            TRY(hyb_cell_spare(&program->cells[i]));
    return HYB_OK;
}

/* A program of `code`, which it takes over whatever happens. */
static hyb_program *program_of(hyb_code *code, const hyb_program *from)
{
    const size_t n = sizeof(hyb_program) + (size_t)code->n_cells * sizeof(hyb_cell)
        + (size_t)code->n_aheads * sizeof(hyb_kept);
    hyb_program *program = calloc(1, n);
    if (!program || pthread_rwlock_init(&program->lock, NULL) != 0) {
        hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes of a program", n);
        free(program);
        hyb_code_release(code);
        return NULL;
    }
    program->code = code;
    program->cells = (hyb_cell *)(program + 1);
    program->kept = (hyb_kept *)(program->cells + code->n_cells);
    hyb_status status = make_cells(program, from);
    if (status == HYB_OK)
        status = make_spares(program);
    if (status == HYB_OK)
        return program;
    hyb_program_free(program);
    return NULL;
}

/* The code of a file, which it takes over whatever happens. */
static hyb_code *code_of(hyb_file *file, hyb_status opened, bool any_kernels)
{
    hyb_code *code = opened == HYB_OK ? calloc(1, sizeof *code) : NULL;
    if (!code) {
        if (opened == HYB_OK)
            hyb_fail(HYB_NO_MEMORY, "no memory for a program");
        hyb_file_close(file);
        return NULL;
    }
    if (hyb_code_read(code, file, any_kernels) == HYB_OK)
        return code;
    hyb_code_release(code);
    return NULL;
}

static hyb_program *loaded(hyb_file *file, hyb_status opened)
{
    hyb_code *code = code_of(file, opened, false);
    if (!code)
        return NULL;
    if (hyb_code_fits(code, !code->file.mapped) == HYB_OK)
        return program_of(code, NULL);
    hyb_code_release(code);
    return NULL;
}

/* The name of the file goes before what is wrong with it. */
hyb_program *hyb_program_load(const char *path, int32_t flags)
{
    if (!path) {
        hyb_fail(HYB_BAD_ARGUMENT, "a program needs a path");
        return NULL;
    }
    if (hyb_init() != HYB_OK)
        return NULL;
    hyb_file file;
    hyb_program *program = loaded(&file, hyb_file_open(&file, path, flags));
    if (!program)
        hyb_fail_in(HYB_BAD_FILE, path);
    return program;
}

hyb_program *hyb_program_load_memory(const void *bytes, size_t n, int32_t flags)
{
    if (!bytes) {
        hyb_fail(HYB_BAD_ARGUMENT, "a program needs bytes");
        return NULL;
    }
    if (hyb_init() != HYB_OK)
        return NULL;
    hyb_file file;
    return loaded(&file, hyb_file_take(&file, bytes, n, flags));
}

hyb_status hyb_program_check(const void *bytes, size_t n, int32_t flags)
{
    if (!bytes)
        return hyb_fail(HYB_BAD_ARGUMENT, "a program needs bytes");
    if (hyb_init() != HYB_OK)
        return HYB_BAD_ARGUMENT;
    hyb_file file;
    hyb_code *code = code_of(&file, hyb_file_take(&file, bytes, n, flags), flags & HYB_PROGRAM_ANY_KERNELS);
    if (!code)
        return HYB_BAD_FILE;
    const hyb_status status = hyb_code_fits(code, false); /* whoever asks has the cells already */
    hyb_code_release(code);
    return status;
}

hyb_program *hyb_program_fork(hyb_program *program)
{
    atomic_fetch_add(&program->code->users, 1);
    pthread_rwlock_rdlock(&program->lock);
    hyb_program *fork = program_of(program->code, program);
    pthread_rwlock_unlock(&program->lock);
    return fork;
}

void hyb_program_set_budget(hyb_program *program, int64_t iterations)
{
    hyb_code *code = program->code;
    atomic_store(&code->budget, iterations); /* of plans that are bound from now on, too */
    for (int32_t i = 0; i < code->n_aheads; i++)
        hyb_plan_set_budget(code->aheads[i].plan, iterations);
    for (int32_t f = 0; f < code->n_functions; f++) {
        hyb_function *function = &code->functions[f];
        pthread_mutex_lock(&function->lock); /* other threads may bind plans now */
        for (int i = 0; i < HYB_BOUND_KEPT; i++)
            if (function->bound[i])
                hyb_plan_set_budget(function->bound[i]->plan, iterations);
        pthread_mutex_unlock(&function->lock);
    }
}

void hyb_program_free(hyb_program *program)
{
    if (!program)
        return;
    for (int32_t i = 0; i < program->code->n_cells; i++) {
        hyb_free(program->cells[i].block[0]);
        hyb_free(program->cells[i].block[1]);
    }
    for (int32_t i = 0; i < program->code->n_aheads; i++)
        hyb_free(program->kept[i].memory);
    pthread_rwlock_destroy(&program->lock);
    hyb_code_release(program->code);
    free(program);
}

/* Names and types -------------------------------------------------------------------------------- */

static const char *string_of(const hyb_program *program, hyb_text text)
{
    size_t n;
    return hyb_file_text(&program->code->file, text, &n); /* checked when it was loaded */
}

int32_t hyb_program_functions(const hyb_program *program) { return program->code->n_functions; }

static bool has_function(const hyb_program *program, int32_t f)
{
    if (f >= 0 && f < program->code->n_functions)
        return true;
    hyb_fail(HYB_BAD_ARGUMENT, "there is no function %d of %d", f, program->code->n_functions);
    return false;
}

const char *hyb_program_function_name(const hyb_program *program, int32_t f)
{
    return has_function(program, f) ? string_of(program, program->code->functions[f].row->name) : NULL;
}

int32_t hyb_program_find(const hyb_program *program, const char *name)
{
    for (int32_t f = 0; f < program->code->n_functions; f++)
        if (strcmp(name, string_of(program, program->code->functions[f].row->name)) == 0)
            return f;
    hyb_fail(HYB_BAD_ARGUMENT, "there is no function %.200s", name);
    return -1;
}

int32_t hyb_program_inputs(const hyb_program *program, int32_t f)
{
    return has_function(program, f) ? program->code->functions[f].row->n_inputs : -1;
}

int32_t hyb_program_outputs(const hyb_program *program, int32_t f)
{
    return has_function(program, f) ? program->code->functions[f].row->n_outputs : -1;
}

static hyb_status describe(const hyb_program *program, const hyb_value_row *value, const char **name, hyb_layout *layout)
{
    if (name)
        *name = string_of(program, value->name);
    if (layout) {
        *layout = program->code->types[value->type].layout;
        for (int32_t d = 0; d < layout->rank; d++)
            if (layout->shape[d] < 0)
                layout->shape[d] = -1;
    }
    return HYB_OK;
}

hyb_status hyb_program_input(const hyb_program *program, int32_t f, int32_t i, const char **name, hyb_layout *layout)
{
    if (!has_function(program, f))
        return HYB_BAD_ARGUMENT;
    const hyb_function_row *row = program->code->functions[f].row;
    if (i < 0 || i >= row->n_inputs)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no input %d of %d", i, row->n_inputs);
    return describe(program, hyb_values(program->code, row->first_input) + i, name, layout);
}

hyb_status hyb_program_output(const hyb_program *program, int32_t f, int32_t i, const char **name, hyb_layout *layout)
{
    if (!has_function(program, f))
        return HYB_BAD_ARGUMENT;
    const hyb_function_row *row = program->code->functions[f].row;
    if (i < 0 || i >= row->n_outputs)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no output %d of %d", i, row->n_outputs);
    const hyb_function *function = &program->code->functions[f];
    TRY(describe(program, hyb_values(program->code, function->cases->row->first_output) + i, name, layout));
    for (int32_t k = 1; layout && k < row->n_cases; k++) { /* what another case has is open, too */
        hyb_layout other;
        TRY(describe(program, hyb_values(program->code, function->cases[k].row->first_output) + i, NULL, &other));
        for (int32_t d = 0; d < layout->rank; d++)
            if (other.shape[d] != layout->shape[d])
                layout->shape[d] = -1;
    }
    bool open = false;
    for (int32_t d = layout ? layout->rank - 1 : -1; d >= 0; d--) {
        if (open)
            layout->strides[d] = 0;
        open |= layout->shape[d] < 0;
    }
    return HYB_OK;
}

int32_t hyb_program_sizes(const hyb_program *program, int32_t f)
{
    return has_function(program, f) ? program->code->functions[f].row->n_symbols : -1;
}

hyb_status hyb_program_size(const hyb_program *program, int32_t f, int32_t i, const char **name, int64_t *low, int64_t *high)
{
    if (!has_function(program, f))
        return HYB_BAD_ARGUMENT;
    const hyb_function *function = &program->code->functions[f];
    if (i < 0 || i >= function->row->n_symbols)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no size %d of %d", i, function->row->n_symbols);
    if (name)
        *name = string_of(program, function->symbols[i].name);
    if (low)
        *low = function->symbols[i].low;
    if (high)
        *high = function->symbols[i].high;
    return HYB_OK;
}

/* The number of the symbol that an axis of a value has, or -1. */
static int32_t symbol_of(const hyb_program *program, int32_t f, const hyb_value_row *value, int32_t axis)
{
    const hyb_layout *layout = &program->code->types[value->type].layout;
    if (axis < 0 || axis >= layout->rank || layout->shape[axis] >= 0)
        return -1;
    const int64_t number = -1 - layout->shape[axis]; /* of the symbols, then of what is computed of them */
    return number < program->code->functions[f].row->n_symbols ? (int32_t)number : -1;
}

int32_t hyb_program_input_size(const hyb_program *program, int32_t f, int32_t i, int32_t axis)
{
    if (hyb_program_input(program, f, i, NULL, NULL) != HYB_OK)
        return -1;
    return symbol_of(program, f, hyb_values(program->code, program->code->functions[f].row->first_input) + i, axis);
}

int32_t hyb_program_output_size(const hyb_program *program, int32_t f, int32_t i, int32_t axis)
{
    if (hyb_program_output(program, f, i, NULL, NULL) != HYB_OK)
        return -1;
    const hyb_function *function = &program->code->functions[f];
    int32_t found = -1;
    for (int32_t k = 0; k < function->row->n_cases; k++) { /* in some of them it may have one size alone */
        const hyb_value_row *value = hyb_values(program->code, function->cases[k].row->first_output) + i;
        const hyb_layout *layout = &program->code->types[value->type].layout;
        if (axis < 0 || axis >= layout->rank || layout->shape[axis] >= 0)
            continue;
        const int32_t symbol = symbol_of(program, f, value, axis);
        if (symbol < 0 || (found >= 0 && found != symbol))
            return -1;
        found = symbol;
    }
    return found;
}

hyb_status hyb_program_output_layout(hyb_program *program, int32_t f, int32_t i, const hyb_layout *inputs, hyb_layout *layout)
{
    TRY(hyb_program_output(program, f, i, NULL, layout));
    hyb_function *function = &program->code->functions[f];
    int64_t sizes[HYB_MOST_SYMBOLS];
    if (!inputs || function->row->n_symbols == 0)
        return HYB_OK;
    TRY(hyb_sizes_of(program->code, function, inputs, sizes));
    hyb_bound *bound;
    TRY(hyb_bound_at(program->code, function, sizes, &bound));
    *layout = bound->values[function->row->n_inputs + i].layout;
    hyb_bound_release(bound);
    return HYB_OK;
}

/* Cells ------------------------------------------------------------------------------------------ */

int32_t hyb_program_states(const hyb_program *program) { return program->code->n_cells; }

hyb_status hyb_program_state(hyb_program *program, int32_t i, const char **name, hyb_layout *layout, void **data)
{
    if (i < 0 || i >= program->code->n_cells)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no state %d of %d", i, program->code->n_cells);
    const hyb_cell_row *row = hyb_cell_rows(program->code) + i;
    if (name)
        *name = string_of(program, row->name);
    if (layout)
        *layout = program->code->types[row->type].layout;
    if (data)
        *data = program->cells[i].data;
    return HYB_OK;
}

hyb_status hyb_program_touch(hyb_program *program, int32_t i)
{
    if (i < 0 || i >= program->code->n_cells)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no state %d of %d", i, program->code->n_cells);
    pthread_rwlock_wrlock(&program->lock);
    program->cells[i].version++;
    pthread_rwlock_unlock(&program->lock);
    return HYB_OK;
}
