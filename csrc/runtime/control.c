/* control.c - runs branches, loops and calls of the host, inside a plan.
 *
 * Nothing is allocated and nothing is looked up: a slot that moves has the list of the operands in
 * it, and an iteration writes their new addresses. */
#include <stdatomic.h>
#include <string.h>

#include "plan.h"

/* Making them ---------------------------------------------------------------------------------- */

/* The operands in each slot that moves. */
static hyb_status fill_patches(hyb_builder *builder, hyb_mover *movers, const int32_t *mover_of)
{
    const hyb_plan_spec *spec = builder->spec;
    for (int32_t i = 0; i < spec->n_operands; i++)
        if (spec->operands[i].slot >= 0 && mover_of[spec->operands[i].slot] >= 0)
            movers[mover_of[spec->operands[i].slot]].n_patches++;
    for (int32_t k = 0; k < builder->plan->n_movers; k++) {
        movers[k].patches =
            hyb_reserve(builder, (size_t)movers[k].n_patches * sizeof(hyb_patch));
        if (!movers[k].patches)
            return HYB_NO_MEMORY;
        movers[k].n_patches = 0;
    }
    for (int32_t i = 0; i < spec->n_operands; i++) {
        const hyb_operand *operand = &spec->operands[i];
        if (operand->slot < 0 || mover_of[operand->slot] < 0)
            continue;
        hyb_mover *mover = &movers[mover_of[operand->slot]];
        ((hyb_patch *)mover->patches)[mover->n_patches++] = (hyb_patch){i, 0, operand->offset};
    }
    return HYB_OK;
}

hyb_status hyb_make_movers(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    hyb_plan *plan = builder->plan;
    for (int32_t i = 0; i < spec->n_slots; i++)
        plan->n_movers += !hyb_is_fixed(&spec->slots[i]);
    if (plan->n_movers == 0)
        return HYB_OK;
    hyb_mover *movers = hyb_reserve(builder, (size_t)plan->n_movers * sizeof *movers);
    int32_t *mover_of = hyb_reserve(builder, (size_t)spec->n_slots * sizeof *mover_of);
    if (!movers || !mover_of)
        return HYB_NO_MEMORY;
    int32_t n = 0;
    for (int32_t i = 0; i < spec->n_slots; i++) {
        mover_of[i] = -1;
        if (hyb_is_fixed(&spec->slots[i]))
            continue;
        movers[n] = (hyb_mover){.slot = spec->slots[i], .address = n};
        mover_of[i] = n++;
    }
    plan->movers = movers;
    plan->mover_of = mover_of;
    return fill_patches(builder, movers, mover_of);
}

static hyb_status make_loop(hyb_builder *builder, const hyb_control *control, hyb_loop *loop)
{
    const hyb_plan *plan = builder->plan;
    for (int32_t k = 0; k < plan->n_movers; k++)
        if (plan->movers[k].slot.loop == builder->step)
            *(plan->movers[k].slot.kind == HYB_SLOT_ROW ? &loop->n_rows : &loop->n_carried) += 1;
    loop->n_moves = control->n_moves;
    loop->rows = hyb_reserve(builder, (size_t)loop->n_rows * sizeof *loop->rows);
    loop->carried = hyb_reserve(builder, (size_t)loop->n_carried * sizeof *loop->carried);
    loop->to = hyb_reserve(builder, (size_t)loop->n_moves * sizeof *loop->to);
    int32_t *from = hyb_reserve(builder, (size_t)loop->n_moves * sizeof *from);
    if (!loop->rows || !loop->carried || !loop->to || !from)
        return HYB_NO_MEMORY;
    int32_t n_rows = 0, n_carried = 0;
    for (int32_t k = 0; k < plan->n_movers; k++) {
        const hyb_mover *mover = &plan->movers[k];
        if (mover->slot.loop != builder->step)
            continue;
        if (mover->slot.kind == HYB_SLOT_ROW)
            loop->rows[n_rows++] = mover;
        else
            loop->carried[n_carried++] = mover;
    }
    for (int32_t i = 0; i < control->n_moves; i++) {
        const hyb_move *move = &builder->spec->moves[control->first_move + i];
        loop->to[i] = &plan->movers[plan->mover_of[move->to]];
        from[i] = plan->mover_of[move->from];
    }
    loop->from = from;
    return HYB_OK;
}

/* The inputs that a step which asks a queue passes on. */
static hyb_status keep_inputs(const hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    const int64_t n_kept = builder->spec->attrs[step->first_attr].i;
    if (n_kept < 0 || n_kept >= step->n_in || n_kept > step->n_out)
        return hyb_refuse(builder, "a step that asks a queue passes %lld of %d inputs on",
                          (long long)n_kept, step->n_in);
    const hyb_operand *operands = &builder->spec->operands[step->first_operand];
    for (int64_t i = 0; i < n_kept; i++) {
        const hyb_layout *given = &operands[1 + i].layout;
        if (hyb_elements(given) * hyb_itemsize(given->dtype)
            != made->nbytes[step->n_out - n_kept + i])
            return hyb_refuse(builder, "output %lld is to be input %lld, of another size",
                              (long long)(step->n_out - n_kept + i), (long long)(1 + i));
    }
    made->n_kept = (int32_t)n_kept;
    return HYB_OK;
}

/* The loop whose body asks a queue by this step alone; -1: there is none. */
static int32_t asking_loop(const hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    const int32_t owner = builder->owner[builder->block[builder->step]];
    if (owner < 0 || spec->steps[owner].kind == HYB_STEP_COND)
        return -1;
    for (int32_t i = owner + 1; i < spec->n_steps; i++)
        if (i != builder->step && spec->steps[i].kind == HYB_STEP_NEXT
            && hyb_runs_inside(builder, i, owner))
            return -1;
    return owner;
}

/* Whether the slot of an operand is one place in all iterations of the loop, which its moves leave
 * alone: then it may also be another place in each. */
static bool is_lendable(const hyb_builder *builder, const hyb_operand *operand, int32_t loop)
{
    const hyb_plan_spec *spec = builder->spec;
    if (operand->slot < 0 || operand->offset != 0)
        return false;
    const hyb_slot *slot = &spec->slots[operand->slot];
    if (slot->kind != HYB_SLOT_ROW || slot->loop != loop || slot->stride != 0
        || slot->nbytes != hyb_elements(&operand->layout) * hyb_itemsize(operand->layout.dtype))
        return false;
    for (int32_t i = 0; i < spec->n_moves; i++)
        if (spec->moves[i].from == operand->slot)
            return false;
    return true;
}

static hyb_status lend_outputs(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    const int32_t n = made->n_out - made->n_kept, loop = asking_loop(builder);
    const hyb_operand *outputs = &builder->spec->operands[step->first_operand + step->n_in];
    if (loop < 0 || n < 1 || n > HYB_QUEUE_COLUMNS)
        return HYB_OK;
    for (int32_t i = 0; i < n; i++)
        if (!is_lendable(builder, &outputs[i], loop))
            return HYB_OK;
    const hyb_plan *plan = builder->plan;
    const hyb_mover **lent = hyb_reserve(builder, (size_t)n * sizeof *lent);
    if (!lent)
        return HYB_NO_MEMORY;
    for (int32_t i = 0; i < n; i++)
        lent[i] = &plan->movers[plan->mover_of[outputs[i].slot]];
    made->lent = lent;
    return HYB_OK;
}

/* A step that calls the host, or asks a queue first. */
static hyb_status make_host(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    int64_t *nbytes = hyb_reserve(builder, (size_t)step->n_out * sizeof *nbytes);
    if (!nbytes && step->n_out > 0)
        return HYB_NO_MEMORY;
    for (int32_t i = 0; i < step->n_out; i++) {
        const int32_t operand = step->first_operand + step->n_in + i;
        const hyb_layout *layout = &builder->spec->operands[operand].layout;
        nbytes[i] = hyb_elements(layout) * hyb_itemsize(layout->dtype);
    }
    made->host = step->kernel;
    made->n_in = step->n_in;
    made->n_out = step->n_out;
    made->nbytes = nbytes;
    if (step->kind != HYB_STEP_NEXT)
        return HYB_OK;
    TRY(keep_inputs(builder, step, made));
    return lend_outputs(builder, step, made);
}

hyb_status hyb_make_control(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    static const char *const names[] = {[HYB_STEP_COND] = "cond",
                                        [HYB_STEP_WHILE] = "while",
                                        [HYB_STEP_FOR] = "for",
                                        [HYB_STEP_HOST] = "host",
                                        [HYB_STEP_NEXT] = "next",
                                        [HYB_STEP_PARALLEL] = "parallel"};
    *made = (hyb_plan_step){.name = names[step->kind],
                            .first_operand = step->first_operand,
                            .counts = step->n_out > 0};
    if (step->kind == HYB_STEP_HOST || step->kind == HYB_STEP_NEXT)
        return make_host(builder, step, made);
    if (step->kind == HYB_STEP_PARALLEL) /* parallel.c makes those */
        return HYB_OK;
    const hyb_plan_spec *spec = builder->spec;
    const hyb_control *control = &spec->controls[step->kernel];
    hyb_loop *loop = hyb_reserve(builder, sizeof *loop);
    if (!loop)
        return HYB_NO_MEMORY;
    loop->body = spec->blocks[control->block];
    loop->limit = control->limit;
    loop->reverse = control->reverse != 0;
    for (int32_t i = loop->body.first; i < loop->body.first + loop->body.count; i++)
        loop->asks |= spec->steps[i].kind == HYB_STEP_NEXT;
    made->loop = loop;
    if (step->kind != HYB_STEP_COND)
        return make_loop(builder, control, loop);
    loop->otherwise = spec->blocks[control->otherwise];
    return HYB_OK;
}

/* Where slots are ------------------------------------------------------------------------------ */

static char *address_of(const hyb_run *run, int32_t index)
{
    const hyb_plan *plan = run->plan;
    const hyb_slot *slot = &plan->slots[index];
    switch (slot->kind) {
    case HYB_SLOT_EXTERNAL: return run->externals[slot->external];
    case HYB_SLOT_ARENA: return run->arena + slot->offset;
    case HYB_SLOT_CONSTANT: return plan->constants + slot->offset;
    default: return run->addresses[plan->mover_of[index]];
    }
}

static inline void move_to(hyb_run *run, const hyb_mover *mover, char *address)
{
    run->addresses[mover->address] = address;
    for (int32_t i = 0; i < mover->n_patches; i++)
        run->data[mover->patches[i].operand] = address + mover->patches[i].offset;
}

/* So that no operand ever has the address of a run before this one. */
void hyb_start_movers(hyb_run *run)
{
    for (int32_t k = 0; k < run->plan->n_movers; k++) {
        const hyb_mover *mover = &run->plan->movers[k];
        if (mover->slot.kind == HYB_SLOT_CARRIED)
            move_to(run, mover, address_of(run, mover->slot.base));
    }
}

/* Carried values to where they start; rows will be counted from the first. */
static void enter(hyb_run *run, const hyb_loop *loop)
{
    for (int32_t k = 0; k < loop->n_carried; k++)
        move_to(run, loop->carried[k], address_of(run, loop->carried[k]->slot.base));
    for (int32_t k = 0; k < loop->n_rows; k++) {
        const hyb_mover *row = loop->rows[k];
        run->coming[row->address] = address_of(run, row->slot.base) + row->slot.offset;
    }
}

static inline void point_rows(hyb_run *run, const hyb_loop *loop, int64_t index)
{
    for (int32_t k = 0; k < loop->n_rows; k++) {
        const hyb_mover *row = loop->rows[k];
        const hyb_slot *slot = &row->slot;
        move_to(run, row,
                index < slot->count ? run->coming[row->address] + index * slot->stride
                                    : address_of(run, slot->spare));
    }
}

static inline void move_carried(hyb_run *run, const hyb_loop *loop)
{
    for (int32_t i = 0; i < loop->n_moves; i++)
        run->coming[loop->to[i]->address] = run->addresses[loop->from[i]];
    for (int32_t i = 0; i < loop->n_moves; i++)
        move_to(run, loop->to[i], run->coming[loop->to[i]->address]);
}

/* Being interrupted ---------------------------------------------------------------------------- */

enum { LOOK_NS = 1000000, POLL_NS = 20000000, MOST_BETWEEN = 1 << 20 };

static _Atomic(hyb_poll_fn) poll;

void hyb_set_poll(hyb_poll_fn function) { atomic_store(&poll, function); }

void hyb_plan_set_budget(hyb_plan *plan, int64_t iterations) { plan->budget = iterations; }

/* Looks at the clock, about once in a millisecond; asks the host when it was not asked for long. */
static hyb_status look_at_clock(hyb_run *run)
{
    if (run->asking) {
        run->until_poll = run->between_polls;
        return HYB_OK;
    }
    const int64_t now = hyb_clock();
    if (run->last_look == 0)
        run->last_poll = now;
    else if (now - run->last_look < LOOK_NS && run->between_polls < MOST_BETWEEN)
        run->between_polls *= 2;
    else if (now - run->last_look > 4 * LOOK_NS && run->between_polls > 1)
        run->between_polls /= 2;
    run->last_look = now;
    run->until_poll = run->between_polls;
    if (now - run->last_poll < POLL_NS)
        return HYB_OK;
    run->last_poll = now;
    bool stops;
    const bool streams = hyb_stream_own(&stops);
    const hyb_poll_fn ask = atomic_load_explicit(&poll, memory_order_relaxed);
    const int32_t status = streams ? (stops ? HYB_INTERRUPTED : HYB_OK) : ask ? ask() : HYB_OK;
    return status == HYB_OK ? HYB_OK : hyb_fail((hyb_status)status, "the run was interrupted");
}

/* Does so, and counts the iterations: the next look comes when the budget is used up, or before. */
static __attribute__((noinline)) hyb_status look(hyb_run *run)
{
    const int64_t budget = run->plan->budget;
    run->iterations += run->since_look ? run->since_look : 1; /* the first look comes after one */
    TRY(look_at_clock(run));
    if (budget) {
        const int64_t left = budget - run->iterations;
        if (left < 0)
            return hyb_fail(HYB_EXHAUSTED, "its loops go round more than %lld times",
                            (long long)budget);
        if (run->until_poll > left + 1)
            run->until_poll = left + 1;
    }
    run->since_look = run->until_poll;
    return HYB_OK;
}

/* Runs the body once. */
static inline hyb_status iterate(hyb_run *run, const hyb_loop *loop, int32_t index)
{
    TRY(hyb_run_block(run, loop->body));
    if (__builtin_expect(--run->until_poll > 0, 1))
        return HYB_OK;
    const hyb_status status = look(run);
    if (status != HYB_OK)
        hyb_set_last_step(index);
    return status;
}

/* Running them --------------------------------------------------------------------------------- */

static bool truth(const void *data) { return *(const uint8_t *)data != 0; }

static hyb_status run_while(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    const hyb_loop *loop = step->loop;
    void **data = run->data + step->first_operand;
    int64_t trips = 0;
    enter(run, loop);
    for (bool go = truth(data[0]); go; trips++) {
        point_rows(run, loop, trips);
        TRY(iterate(run, loop, index));
        go = truth(data[1]); /* before its slot moves */
        move_carried(run, loop);
    }
    if (step->counts)
        *(int64_t *)data[2] = trips;
    return HYB_OK;
}

static hyb_status run_for(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    const hyb_loop *loop = step->loop;
    void **data = run->data + step->first_operand;
    int64_t count = *(const int64_t *)data[0];
    if (loop->limit >= 0 && count > loop->limit)
        count = loop->limit;
    int64_t *shown = step->counts ? data[1] : NULL;
    enter(run, loop);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = loop->reverse ? count - 1 - i : i;
        if (shown)
            *shown = at;
        point_rows(run, loop, at);
        TRY(iterate(run, loop, index));
        move_carried(run, loop);
    }
    return HYB_OK;
}

static hyb_status run_host(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    const hyb_plan *plan = run->plan;
    const hyb_status status = plan->host
        ? (hyb_status)plan->host(plan->host_context, step->host, run->data + step->first_operand)
        : hyb_fail(HYB_BAD_ARGUMENT, "the plan has no host function");
    if (status != HYB_OK)
        hyb_set_last_step(index);
    return status;
}

/* A queue's next batch.  The host gets it where the queue has none that fits, or where the host, being
 * polled, notes an interrupt: it is given the values written so far, too, and leaves them with what
 * it raises then. */
static hyb_status run_next(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    void *const *data = run->data + step->first_operand;
    const int64_t now = hyb_clock();
    const hyb_poll_fn ask = atomic_load_explicit(&poll, memory_order_relaxed);
    int32_t polled = HYB_OK;
    if (run->last_poll == 0)
        run->last_poll = now;
    if (ask && now - run->last_poll >= POLL_NS) {
        run->last_poll = now;
        polled = ask();
    }
    const int64_t number = *(const int64_t *)data[0];
    const int32_t n_made = step->n_out - step->n_kept;
    void *const *out = data + step->n_in;
    void *lent[HYB_QUEUE_COLUMNS];
    lent[0] = NULL;
    if (polled == HYB_OK
        && hyb_queue_lend(number, out, step->nbytes, n_made, step->lent ? lent : NULL) == HYB_OK) {
        for (int32_t i = 0; lent[0] && i < n_made; i++)
            move_to(run, step->lent[i], lent[i]);
        for (int32_t i = 0; i < step->n_kept; i++)
            memmove(out[n_made + i], data[1 + i], (size_t)step->nbytes[n_made + i]);
        return HYB_OK;
    }
    if (ask && polled == HYB_OK)
        ask();
    return run_host(run, step, index);
}

static hyb_status run_loop(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    const int32_t asks = step->loop->asks;
    run->asking += asks;
    const hyb_status status = step->kind == HYB_STEP_WHILE ? run_while(run, step, index)
                                                           : run_for(run, step, index);
    run->asking -= asks;
    return status;
}

hyb_status hyb_run_control(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    switch (step->kind) {
    case HYB_STEP_COND:
        return hyb_run_block(run, truth(run->data[step->first_operand]) ? step->loop->body
                                                                         : step->loop->otherwise);
    case HYB_STEP_WHILE:
    case HYB_STEP_FOR: return run_loop(run, step, index);
    case HYB_STEP_NEXT: return run_next(run, step, index);
    case HYB_STEP_PARALLEL: return hyb_run_group(run, step->group);
    default: return run_host(run, step, index);
    }
}

void hyb_plan_set_host(hyb_plan *plan, hyb_host_fn host, void *context)
{
    plan->host = host;
    plan->host_context = context;
}
