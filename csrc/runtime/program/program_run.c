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

hyb_status hyb_cell_block(hyb_cell *cell, int which)
{
    cell->block[which] = hyb_alloc((size_t)cell->nbytes);
    if (!cell->block[which])
        return hyb_fail(HYB_NO_MEMORY, "no memory for a cell of %lld bytes", (long long)cell->nbytes);
    return HYB_OK;
}

hyb_status hyb_cell_spare(hyb_cell *cell)
{
    if (cell->spare || cell->nbytes == 0)
        return HYB_OK;
    TRY(hyb_cell_block(cell, 1));
    cell->spare = cell->block[1];
    return HYB_OK;
}

/* Room for what a plan makes ahead. */
static hyb_status make_kept(hyb_kept *kept, const hyb_ahead *ahead)
{
    const hyb_plan_row *plan = ahead->plan_row;
    const size_t table = ((size_t)plan->n_externals * 8 + 63) / 64 * 64;
    size_t room = 2 * table + 64;
    for (int32_t e = 0; e < plan->n_outputs; e++)
        room += ((size_t)ahead->nbytes[e] + 63) / 64 * 64;
    char *at = kept->memory = hyb_alloc(room);
    if (!at)
        return hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes that are computed ahead", room);
    kept->data = (char **)at;
    kept->seen = (uint64_t *)(at + table);
    at += 2 * table;
    for (int32_t e = 0; e < plan->n_outputs; at += ((size_t)ahead->nbytes[e] + 63) / 64 * 64, e++)
        kept->data[e] = at;
    return HYB_OK;
}

/* Computes ahead what depends on cells alone, where they have been written since.  Nothing else runs. */
static hyb_status prepare(hyb_program *program, int32_t number)
{
    const hyb_ahead *ahead = &program->code->aheads[number];
    const hyb_plan_row *plan = ahead->plan_row;
    hyb_kept *kept = &program->kept[number];
    if (!kept->memory)
        TRY(make_kept(kept, ahead));
    void *on_stack[ON_STACK], **externals = on_stack;
    if (plan->n_externals > ON_STACK && !(externals = hyb_alloc((size_t)plan->n_externals * sizeof *externals)))
        return hyb_fail(HYB_NO_MEMORY, "no memory for %d externals", plan->n_externals);
    const hyb_binding_row *bindings = hyb_bindings(program->code, ahead->row->first_binding);
    for (int32_t e = 0; e < plan->n_externals; e++)
        externals[e] = e < plan->n_outputs ? kept->data[e] : program->cells[bindings[e].index].data;
    const hyb_status status = hyb_plan_run(ahead->plan, externals);
    for (int32_t e = plan->n_outputs; e < plan->n_externals; e++)
        kept->seen[e] = program->cells[bindings[e].index].version;
    kept->made = status == HYB_OK;
    if (externals != on_stack)
        hyb_free(externals);
    return status;
}

static bool is_stale(const hyb_program *program, int32_t number)
{
    if (number < 0)
        return false;
    const hyb_ahead *ahead = &program->code->aheads[number];
    const hyb_kept *kept = &program->kept[number];
    const hyb_binding_row *bindings = hyb_bindings(program->code, ahead->row->first_binding);
    bool stale = !kept->made;
    for (int32_t e = ahead->plan_row->n_outputs; !stale && e < ahead->plan_row->n_externals; e++)
        stale |= kept->seen[e] != program->cells[bindings[e].index].version;
    return stale;
}

/* Pointers are there; `room` is what inputs need that are not dense. */
static hyb_status check_pointers(const hyb_program *program, const hyb_function *function, const hyb_bound *bound,
                                 void *const *inputs, const hyb_layout *layouts, void *const *outputs, size_t *room)
{
    const hyb_function_row *row = function->row;
    char name[NAME], input[NAME];
    for (int32_t i = 0; i < row->n_inputs; i++) {
        const int64_t nbytes = bound->values[i].nbytes;
        if (!inputs[i] && nbytes > 0)
            return hyb_fail(HYB_BAD_ARGUMENT, "%s: input %s is NULL", name_of(program, row->name, name),
                            name_of(program, hyb_values(program->code, row->first_input)[i].name, input));
        if (layouts && !hyb_is_contiguous(&layouts[i]))
            *room += ((size_t)nbytes + 63) / 64 * 64;
    }
    for (int32_t i = 0; i < row->n_outputs; i++)
        if (!outputs || (!outputs[i] && bound->values[row->n_inputs + i].nbytes > 0))
            return hyb_fail(HYB_BAD_ARGUMENT, "output %d is NULL", i);
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

static hyb_status find_memory(const hyb_bound *bound, size_t room, running *run)
{
    const int32_t n = bound->of->plan_row->n_externals;
    const size_t table = n > ON_STACK ? ((size_t)n * sizeof(void *) + 63) / 64 * 64 : 0;
    const size_t nbytes = table + (size_t)bound->scratch_nbytes + room;
    run->memory = run->scratch = run->copies = NULL;
    run->externals = run->on_stack;
    if (nbytes == 0)
        return HYB_OK;
    if (!(run->memory = hyb_alloc(nbytes)))
        return hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes of a run", nbytes);
    if (table)
        run->externals = (void **)run->memory;
    run->scratch = run->memory + table;
    run->copies = run->scratch + bound->scratch_nbytes;
    return HYB_OK;
}

static hyb_status bind(hyb_program *program, const hyb_bound *bound, void *const *inputs, const hyb_layout *layouts,
                       void *const *outputs, running *run)
{
    const hyb_binding_row *bindings = hyb_bindings(program->code, bound->of->row->first_binding);
    char *scratch = run->scratch, *copies = run->copies;
    for (int32_t e = 0; e < bound->of->plan_row->n_externals; e++) {
        const int32_t index = bindings[e].index;
        switch (bindings[e].kind) {
        case HYB_BIND_RESULT: run->externals[e] = outputs[index]; break;
        case HYB_BIND_WRITE:
            if (bound->aliases[e] == e)
                TRY(hyb_cell_spare(&program->cells[index]));
            run->externals[e] = bound->aliases[e] == e ? program->cells[index].spare : program->cells[index].data;
            break;
        case HYB_BIND_SCRATCH:
            run->externals[e] = scratch;
            scratch += (bound->nbytes[e] + 63) / 64 * 64;
            break;
        case HYB_BIND_CELL: run->externals[e] = program->cells[index].data; break;
        case HYB_BIND_KEPT: run->externals[e] = program->kept[bound->of->row->ahead].data[index]; break;
        default:
            run->externals[e] = inputs[index];
            if (layouts && !hyb_is_contiguous(&layouts[index])) {
                copy_dense(copies, inputs[index], &layouts[index]);
                run->externals[e] = copies;
                copies += (bound->nbytes[e] + 63) / 64 * 64;
            }
        }
    }
    return HYB_OK;
}

/* The run has succeeded: cells get what was written, and outputs what is theirs by another way. */
static void deliver(hyb_program *program, const hyb_function *function, const hyb_bound *bound, void *const *inputs,
                    const hyb_layout *layouts, void *const *outputs)
{
    const hyb_code *code = program->code;
    const hyb_binding_row *bindings = hyb_bindings(code, bound->of->row->first_binding);
    for (int32_t e = 0; function->writes && e < bound->of->plan_row->n_outputs; e++) {
        if (bindings[e].kind != HYB_BIND_WRITE)
            continue;
        hyb_cell *cell = &program->cells[bindings[e].index];
        cell->version++;
        if (bound->aliases[e] != e || cell->nbytes == 0)
            continue;
        char *before = cell->data;
        cell->data = cell->spare;
        cell->spare = before;
    }
    for (int32_t i = 0; i < function->row->n_outputs; i++) {
        const hyb_value_row *value = hyb_values(code, bound->of->row->first_output) + i;
        const size_t nbytes = (size_t)bound->values[function->row->n_inputs + i].nbytes;
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

static hyb_status run_locked(hyb_program *program, const hyb_function *function, const hyb_bound *bound,
                             void *const *inputs, const hyb_layout *layouts, void *const *outputs, size_t room)
{
    running run;
    TRY(find_memory(bound, room, &run));
    hyb_status status = bind(program, bound, inputs, layouts, outputs, &run);
    if (status == HYB_OK)
        status = hyb_plan_run(bound->plan, run.externals);
    if (status == HYB_OK)
        deliver(program, function, bound, inputs, layouts, outputs);
    hyb_free(run.memory);
    return status;
}

/* Puts the function, and the line of the step that failed, to the text of a failure. */
static hyb_status located(const hyb_program *program, const hyb_function *function, const hyb_plan_row *plan,
                          hyb_status status)
{
    const hyb_file *file = &program->code->file;
    const int32_t step = hyb_last_step();
    const int32_t *lines = (const int32_t *)file->section[HYB_SECTION_LINES].bytes;
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

/* What is computed ahead is so of the cells as they are; the lock is held, and let go meanwhile. */
static hyb_status refresh(hyb_program *program, bool writes, int32_t ahead)
{
    hyb_status status = HYB_OK;
    while (status == HYB_OK && is_stale(program, ahead)) {
        if (!writes) {
            pthread_rwlock_unlock(&program->lock);
            pthread_rwlock_wrlock(&program->lock);
        }
        if (is_stale(program, ahead))
            status = prepare(program, ahead);
        if (!writes) {
            pthread_rwlock_unlock(&program->lock);
            pthread_rwlock_rdlock(&program->lock);
        }
    }
    return status;
}

static hyb_status run_bound(hyb_program *program, const hyb_function *function, const hyb_bound *bound,
                            void *const *inputs, const hyb_layout *layouts, void *const *outputs)
{
    size_t room = 0;
    TRY(check_pointers(program, function, bound, inputs, layouts, outputs, &room));
    if (function->writes)
        pthread_rwlock_wrlock(&program->lock);
    else
        pthread_rwlock_rdlock(&program->lock);
    hyb_status status = refresh(program, function->writes, bound->of->row->ahead);
    if (status == HYB_OK)
        status = run_locked(program, function, bound, inputs, layouts, outputs, room);
    pthread_rwlock_unlock(&program->lock);
    return status;
}

hyb_status hyb_program_run(hyb_program *program, int32_t f, void *const *inputs, const hyb_layout *layouts,
                           void *const *outputs)
{
    hyb_code *code = program->code;
    if (f < 0 || f >= code->n_functions)
        return hyb_fail(HYB_BAD_ARGUMENT, "there is no function %d of %d", f, code->n_functions);
    hyb_function *function = &code->functions[f];
    if (!inputs && function->row->n_inputs > 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "inputs are NULL");
    int64_t sizes[HYB_MOST_SYMBOLS];
    TRY(hyb_sizes_of(code, function, layouts, sizes));
    hyb_set_last_step(-1);
    const bool open = function->row->n_symbols > 0;
    hyb_bound *bound = function->bound[0];
    if (open)
        TRY(hyb_bound_at(code, function, sizes, &bound));
    const hyb_status status = run_bound(program, function, bound, inputs, layouts, outputs);
    if (status != HYB_OK && status != HYB_BAD_ARGUMENT)
        located(program, function, bound->of->plan_row, status);
    if (open)
        hyb_bound_release(bound);
    return status;
}
