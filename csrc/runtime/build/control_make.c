/* control_make.c - makes branches, loops and calls of the host for a plan. */
#include <string.h>

#include "runtime/build/plan_build.h"

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

/* A step that moves bytes between processes. */
static hyb_status make_transfer(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    const hyb_attr *attrs = builder->spec->attrs + step->first_attr;
    hyb_transfer *transfer = hyb_reserve(builder, sizeof *transfer);
    atomic_int *agreed = hyb_reserve(builder, sizeof *agreed);
    if (!transfer || !agreed)
        return HYB_NO_MEMORY;
    *transfer = (hyb_transfer){.agreed = agreed, .channel = (int32_t)attrs[0].i, .kind = (int32_t)attrs[1].i,
                               .root = (int32_t)attrs[2].i, .place = (int32_t)attrs[3].i};
    if (step->n_in > 0) {
        const hyb_layout *layout = &builder->spec->operands[step->first_operand].layout;
        transfer->block = hyb_elements(layout) * hyb_itemsize(layout->dtype);
    }
    if (transfer->kind == HYB_TRANSFER_EXCHANGE)
        transfer->block /= hyb_channel_ranks(transfer->channel);
    made->host = step->kernel;
    made->transfer = transfer;
    return HYB_OK;
}

hyb_status hyb_make_control(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    static const char *const names[] = {[HYB_STEP_COND] = "cond",
                                        [HYB_STEP_WHILE] = "while",
                                        [HYB_STEP_FOR] = "for",
                                        [HYB_STEP_HOST] = "host",
                                        [HYB_STEP_NEXT] = "next",
                                        [HYB_STEP_PARALLEL] = "parallel",
                                        [HYB_STEP_PRINT] = "print",
                                        [HYB_STEP_FAIL] = "fail",
                                        [HYB_STEP_TRANSFER] = "transfer"};
    *made = (hyb_plan_step){.name = names[step->kind],
                            .first_operand = step->first_operand,
                            .counts = step->n_out > 0};
    if (step->kind == HYB_STEP_HOST || step->kind == HYB_STEP_NEXT)
        return make_host(builder, step, made);
    if (step->kind == HYB_STEP_TRANSFER)
        return HYB_HAS_CHANNELS ? make_transfer(builder, step, made) : HYB_BAD_ARGUMENT;
    if (step->kind == HYB_STEP_PRINT || step->kind == HYB_STEP_FAIL)
        return HYB_HAS_MESSAGES ? hyb_make_message(builder, step, made)
                                : hyb_refuse(builder, "this library has no steps that print or raise");
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
