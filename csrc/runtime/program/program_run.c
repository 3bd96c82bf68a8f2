/* program_run.c - runs functions of programs: from inputs and cells to outputs and cells. */
#include "runtime/program/program.h"

enum { ON_STACK = 256, NAME = 96 };

/* What a run needs of memory, found at once. */
typedef struct {
    void *on_stack[ON_STACK];
    void **externals;
    char *memory; /* of the externals, scratch outputs, and inputs that are copied; NULL: none */
    char *scratch, *copies;
} running;

static const char *name_of(const hyb_program *program, hyb_text text, char *shown)
{
    return hyb_shown(&program->code->file, text, shown, NAME);
}

/* Computes ahead what depends on cells alone, where they have been written since.  Nothing else runs. */
hyb_status hyb_program_prepare(hyb_program *program, int32_t f)
{
    const hyb_function *function = &program->code->functions[f];
    const hyb_plan_row *early = function->early_row;
    if (!early)
        return HYB_OK;
    hyb_kept *kept = &program->kept[f];
    void *on_stack[ON_STACK], **externals = on_stack;
    if (early->n_externals > ON_STACK && !(externals = hyb_alloc((size_t)early->n_externals * sizeof *externals)))
        return hyb_fail(HYB_NO_MEMORY, "no memory for %d externals", early->n_externals);
    const hyb_binding_row *bindings = hyb_bindings(program->code, function->row->first_early);
    for (int32_t e = 0; e < early->n_externals; e++)
        externals[e] = e < early->n_outputs ? kept->data[e] : program->cells[bindings[e].index].data;
    const hyb_status status = hyb_plan_run(function->early, externals);
    for (int32_t e = early->n_outputs; e < early->n_externals; e++)
        kept->seen[e] = program->cells[bindings[e].index].version;
    kept->made = status == HYB_OK;
    if (externals != on_stack)
        hyb_free(externals);
    return status;
}

static bool is_stale(const hyb_program *program, int32_t f)
{
    const hyb_function *function = &program->code->functions[f];
    if (!function->early)
        return false;
    const hyb_kept *kept = &program->kept[f];
    const hyb_binding_row *bindings = hyb_bindings(program->code, function->row->first_early);
    bool stale = !kept->made;
    for (int32_t e = function->early_row->n_outputs; e < function->early_row->n_externals; e++)
        stale |= kept->seen[e] != program->cells[bindings[e].index].version;
    return stale;
}

/* Inputs have the dtypes and sizes that are declared; `room` is what those need that are not dense. */
static hyb_status check_inputs(const hyb_program *program, const hyb_function *function, void *const *inputs,
                               const hyb_layout *layouts, size_t *room)
{
    const hyb_code *code = program->code;
    for (int32_t i = 0; i < function->row->n_inputs; i++) {
        const hyb_value_row *value = hyb_values(code, function->row->first_input) + i;
        const hyb_value_type *type = &code->types[value->type];
        char name[NAME], input[NAME], given[HYB_TYPE_TEXT], wanted[HYB_TYPE_TEXT];
        if (layouts && (layouts[i].rank < 0 || layouts[i].rank > HYB_MAX_RANK || layouts[i].dtype != type->layout.dtype
                        || !hyb_same_shape(&layouts[i], &type->layout))) {
            const bool shown = layouts[i].rank >= 0 && layouts[i].rank <= HYB_MAX_RANK;
            return hyb_fail(HYB_BAD_ARGUMENT, "%s: input %s is %s, not %s", name_of(program, function->row->name, name),
                            name_of(program, value->name, input), shown ? hyb_type_text(&layouts[i], given) : "malformed",
                            hyb_type_text(&type->layout, wanted));
        }
        if (!inputs[i] && type->nbytes > 0)
            return hyb_fail(HYB_BAD_ARGUMENT, "%s: input %s is NULL", name_of(program, function->row->name, name),
                            name_of(program, value->name, input));
        if (layouts && !hyb_is_contiguous(&layouts[i]))
            *room += ((size_t)type->nbytes + 63) / 64 * 64;
    }
    return HYB_OK;
}

/* Copies elements of `layout` to dense ones. */
static void copy_dense(char *to, const char *from, const hyb_layout *layout)
{
    const int64_t itemsize = hyb_itemsize(layout->dtype), n = hyb_elements(layout);
    int64_t at[HYB_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++, to += itemsize) {
        memcpy(to, from, (size_t)itemsize);
        for (int32_t d = layout->rank - 1; d >= 0; d--) {
            from += layout->strides[d];
            if (++at[d] < layout->shape[d])
                break;
            from -= layout->strides[d] * layout->shape[d];
            at[d] = 0;
        }
    }
}

static hyb_status find_memory(const hyb_function *function, size_t room, running *run)
{
    const int32_t n = function->plan_row->n_externals;
    const size_t table = n > ON_STACK ? ((size_t)n * sizeof(void *) + 63) / 64 * 64 : 0;
    const size_t nbytes = table + (size_t)function->scratch_nbytes + room;
    run->memory = NULL;
    if (nbytes > 0 && !(run->memory = hyb_alloc(nbytes)))
        return hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes of a run", nbytes);
    run->externals = table ? (void **)run->memory : run->on_stack;
    run->scratch = run->memory + table;
    run->copies = run->scratch + function->scratch_nbytes;
    return HYB_OK;
}

static void bind(const hyb_program *program, int32_t f, void *const *inputs, const hyb_layout *layouts,
                 void *const *outputs, running *run)
{
    const hyb_code *code = program->code;
    const hyb_function *function = &code->functions[f];
    const hyb_binding_row *bindings = hyb_bindings(code, function->row->first_binding);
    char *scratch = run->scratch, *copies = run->copies;
    for (int32_t e = 0; e < function->plan_row->n_externals; e++) {
        const int32_t index = bindings[e].index;
        switch (bindings[e].kind) {
        case HYB_BIND_RESULT: run->externals[e] = outputs[index]; break;
        case HYB_BIND_WRITE:
            run->externals[e] = function->aliases[e] == e ? program->cells[index].spare : program->cells[index].data;
            break;
        case HYB_BIND_SCRATCH:
            run->externals[e] = scratch;
            scratch += (function->nbytes[e] + 63) / 64 * 64;
            break;
        case HYB_BIND_CELL: run->externals[e] = program->cells[index].data; break;
        case HYB_BIND_KEPT: run->externals[e] = program->kept[f].data[index]; break;
        default:
            run->externals[e] = inputs[index];
            if (layouts && !hyb_is_contiguous(&layouts[index])) {
                copy_dense(copies, inputs[index], &layouts[index]);
                run->externals[e] = copies;
                copies += (function->nbytes[e] + 63) / 64 * 64;
            }
        }
    }
}

/* The run has succeeded: cells get what was written, and outputs what is theirs by another way. */
static void deliver(hyb_program *program, const hyb_function *function, void *const *inputs,
                    const hyb_layout *layouts, void *const *outputs)
{
    const hyb_code *code = program->code;
    const hyb_binding_row *bindings = hyb_bindings(code, function->row->first_binding);
    for (int32_t e = 0; function->writes && e < function->plan_row->n_outputs; e++) {
        if (bindings[e].kind != HYB_BIND_WRITE)
            continue;
        hyb_cell *cell = &program->cells[bindings[e].index];
        cell->version++;
        if (function->aliases[e] != e || cell->nbytes == 0)
            continue;
        char *before = cell->data;
        cell->data = cell->spare;
        cell->spare = before;
    }
    for (int32_t i = 0; i < function->row->n_outputs; i++) {
        const hyb_value_row *value = hyb_values(code, function->row->first_output) + i;
        const size_t nbytes = (size_t)code->types[value->type].nbytes;
        const void *from = NULL;
        if (value->source == HYB_FROM_CELL)
            from = program->cells[value->index].data;
        else if (value->source == HYB_FROM_INPUT && layouts && !hyb_is_contiguous(&layouts[value->index]))
            copy_dense(outputs[i], inputs[value->index], &layouts[value->index]);
        else if (value->source == HYB_FROM_INPUT)
            from = inputs[value->index];
        else if (bindings[value->index].kind == HYB_BIND_WRITE)
            from = program->cells[bindings[value->index].index].data;
        else if (bindings[value->index].index != i)
            from = outputs[bindings[value->index].index];
        if (from && nbytes > 0 && from != outputs[i])
            memmove(outputs[i], from, nbytes);
    }
}

static hyb_status run_locked(hyb_program *program, int32_t f, void *const *inputs, const hyb_layout *layouts,
                             void *const *outputs)
{
    const hyb_function *function = &program->code->functions[f];
    size_t room = 0;
    TRY(check_inputs(program, function, inputs, layouts, &room));
    running run;
    TRY(find_memory(function, room, &run));
    bind(program, f, inputs, layouts, outputs, &run);
    const hyb_status status = hyb_plan_run(function->plan, run.externals);
    if (status == HYB_OK)
        deliver(program, function, inputs, layouts, outputs);
    hyb_free(run.memory);
    return status;
}

/* Puts the function, and the line of the step that failed, to the text of a failure. */
static hyb_status located(const hyb_program *program, const hyb_function *function, hyb_status status)
{
    const hyb_file *file = &program->code->file;
    const int32_t step = hyb_last_step();
    const int32_t *lines = (const int32_t *)file->section[HYB_SECTION_LINES].bytes;
    const hyb_plan_row *plan = function->plan_row;
    char name[NAME], path[NAME], text[HYB_TEXT - 2 * NAME - 64];
    memcpy(text, hyb_last_error(), sizeof text);
    text[sizeof text - 1] = 0;
    name_of(program, function->row->name, name);
    if (step >= 0 && step < plan->n_steps
        && hyb_rows_hold((int64_t)plan->first_line + step, 1, file->section[HYB_SECTION_LINES].count)
        && hyb_rows_hold(lines[plan->first_line + step], 1, file->section[HYB_SECTION_PLACES].count)) {
        const hyb_place_row *place = (const hyb_place_row *)file->section[HYB_SECTION_PLACES].bytes
            + lines[plan->first_line + step];
        return hyb_fail(status, "%s: %s (%s:%d)", name, text, name_of(program, place->path, path), place->line);
    }
    return hyb_fail(status, "%s: %s", name, text);
}

hyb_status hyb_program_run(hyb_program *program, int32_t f, void *const *inputs, const hyb_layout *layouts,
                           void *const *outputs)
{
    if (f < 0 || f >= program->code->n_functions)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no function %d of %d", f, program->code->n_functions);
    const hyb_function *function = &program->code->functions[f];
    if (!inputs && function->row->n_inputs > 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "inputs are NULL");
    for (int32_t i = 0; i < function->row->n_outputs; i++)
        if (!outputs || (!outputs[i] && program->code->types[hyb_values(program->code, function->row->first_output)[i].type].nbytes > 0))
            return hyb_fail(HYB_BAD_ARGUMENT, "output %d is NULL", i);
    hyb_set_last_step(-1);
    if (function->writes)
        pthread_rwlock_wrlock(&program->lock);
    else
        pthread_rwlock_rdlock(&program->lock);
    hyb_status status = HYB_OK;
    while (status == HYB_OK && is_stale(program, f)) {
        if (!function->writes) {
            pthread_rwlock_unlock(&program->lock);
            pthread_rwlock_wrlock(&program->lock);
        }
        if (is_stale(program, f))
            status = hyb_program_prepare(program, f);
        if (!function->writes) {
            pthread_rwlock_unlock(&program->lock);
            pthread_rwlock_rdlock(&program->lock);
        }
    }
    if (status == HYB_OK)
        status = run_locked(program, f, inputs, layouts, outputs);
    pthread_rwlock_unlock(&program->lock);
    return status == HYB_OK || status == HYB_BAD_ARGUMENT ? status : located(program, function, status);
}
