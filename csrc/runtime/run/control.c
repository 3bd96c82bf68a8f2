/* control.c - runs branches, loops and calls of the host, inside a plan.
 *
 * Nothing is allocated and nothing is looked up: a slot that moves has the list of the operands in
 * it, and an iteration writes their new addresses. */
#include <stdatomic.h>
#include <string.h>

#include "runtime/run/plan_run.h"

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
    bool watches;
    const bool stops = hyb_thread_stops(&watches);
    const hyb_poll_fn ask = atomic_load_explicit(&poll, memory_order_relaxed);
    const int32_t status = watches ? (stops ? HYB_INTERRUPTED : HYB_OK) : ask ? ask() : HYB_OK;
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

static _Atomic(hyb_batch_fn) batches;

void hyb_set_batches(hyb_batch_fn next) { atomic_store(&batches, next); }

static hyb_status next_batch(int64_t number, void *const *out, const int64_t *nbytes, int32_t n_out,
                             void **lent)
{
    const hyb_batch_fn next = atomic_load_explicit(&batches, memory_order_relaxed);
    return next ? next(number, out, nbytes, n_out, lent)
                : hyb_fail(HYB_BAD_ARGUMENT, "no queue %lld is open", (long long)number);
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
        && next_batch(number, out, step->nbytes, n_made, step->lent ? lent : NULL) == HYB_OK) {
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
    case HYB_STEP_PRINT:
    case HYB_STEP_FAIL: return HYB_HAS_MESSAGES ? hyb_run_message(run, step, index) : HYB_BAD_ARGUMENT;
    case HYB_STEP_TRANSFER: return HYB_HAS_CHANNELS ? hyb_run_transfer(run, step, index) : HYB_BAD_ARGUMENT;
    default: return run_host(run, step, index);
    }
}

void hyb_plan_set_host(hyb_plan *plan, hyb_host_fn host, void *context)
{
    plan->host = host;
    plan->host_context = context;
}
