/* validate.c - what can be said of a plan's spec without its kernels.  A spec may come from a file:
 * every index, offset and size is wrong until shown to be right, and sums are made so that they
 * cannot overflow. */
#include "runtime/build/plan_build.h"

static hyb_status check_table(const char *name, const void *rows, int32_t count)
{
    if (count < 0 || (count > 0 && !rows))
        return hyb_fail(HYB_BAD_ARGUMENT, "%s: %d of them at %s", name, count,
                        rows ? "an address" : "no address");
    return HYB_OK;
}

static hyb_status check_tables(const hyb_plan_spec *spec)
{
    TRY(check_table("steps", spec->steps, spec->n_steps));
    TRY(check_table("operands", spec->operands, spec->n_operands));
    TRY(check_table("slots", spec->slots, spec->n_slots));
    TRY(check_table("ops", spec->ops, spec->n_ops));
    TRY(check_table("attrs", spec->attrs, spec->n_attrs));
    TRY(check_table("blocks", spec->blocks, spec->n_blocks));
    TRY(check_table("controls", spec->controls, spec->n_controls));
    TRY(check_table("moves", spec->moves, spec->n_moves));
    if (spec->constants_nbytes < 0 || (spec->constants_nbytes > 0 && !spec->constants))
        return hyb_fail(HYB_BAD_ARGUMENT, "constants: %lld bytes at %s",
                        (long long)spec->constants_nbytes,
                        spec->constants ? "an address" : "no address");
    if (spec->arena_nbytes < 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "arena: %lld bytes", (long long)spec->arena_nbytes);
    if (spec->n_externals < 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "externals: %d of them", spec->n_externals);
    return HYB_OK;
}

static hyb_status check_slot(const hyb_plan_spec *spec, int32_t index)
{
    const hyb_slot *slot = &spec->slots[index];
    if (slot->nbytes < 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: %lld bytes", index, (long long)slot->nbytes);
    int64_t room;
    switch (slot->kind) {
    case HYB_SLOT_EXTERNAL:
        if (slot->external < 0 || slot->external >= spec->n_externals)
            return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: external %d of %d", index, slot->external,
                            spec->n_externals);
        return HYB_OK;
    case HYB_SLOT_ARENA: room = spec->arena_nbytes; break;
    case HYB_SLOT_CONSTANT: room = spec->constants_nbytes; break;
    case HYB_SLOT_ROW:
    case HYB_SLOT_CARRIED: return HYB_OK; /* blocks.c looks at them */
    default: return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: unknown kind %d", index, slot->kind);
    }
    if (!hyb_in_range(slot->offset, slot->nbytes, room))
        return hyb_fail(HYB_BAD_ARGUMENT,
                        "slot %d: bytes %lld + %lld are not within the %lld of the %s", index,
                        (long long)slot->offset, (long long)slot->nbytes, (long long)room,
                        slot->kind == HYB_SLOT_ARENA ? "arena" : "constants");
    if (slot->last_step >= spec->n_steps)
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: last step %d of %d", index, slot->last_step,
                        spec->n_steps);
    return HYB_OK;
}

static hyb_status check_operand(const hyb_builder *builder, int32_t index)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_operand *operand = &spec->operands[index];
    const hyb_layout *layout = &operand->layout;
    if (operand->slot < -1 || operand->slot >= spec->n_slots)
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d: slot %d of %d", index, operand->slot,
                        spec->n_slots);
    int64_t low, high;
    if (!hyb_layout_extent(layout, &low, &high))
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d: malformed layout (dtype %d, rank %d)", index,
                        layout->dtype, layout->rank);
    if (operand->slot < 0)
        return HYB_OK; /* steps say where that may be */
    const hyb_slot *slot = &spec->slots[operand->slot];
    /* low <= 0 <= high, so the three tests below cannot overflow. */
    if (operand->offset < 0 || operand->offset > slot->nbytes || operand->offset + low < 0
        || high > slot->nbytes - operand->offset)
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d: reaches beyond the %lld bytes of slot %d",
                        index, (long long)slot->nbytes, operand->slot);
    const int64_t itemsize = hyb_itemsize(layout->dtype);
    /* A fixed slot may start anywhere, if only the operand starts well. */
    const bool within = slot->kind == HYB_SLOT_ARENA || slot->kind == HYB_SLOT_CONSTANT;
    bool aligned = within ? (slot->offset + operand->offset) % itemsize == 0
                          : operand->offset % itemsize == 0
                                && builder->grain[operand->slot] % itemsize == 0;
    for (int32_t d = 0; d < layout->rank; d++)
        aligned &= layout->shape[d] < 2 || layout->strides[d] % itemsize == 0;
    if (!aligned)
        return hyb_fail(HYB_BAD_ARGUMENT, "operand %d: not aligned to its items of %lld bytes",
                        index, (long long)itemsize);
    return HYB_OK;
}

hyb_status hyb_check_spec(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    TRY(check_tables(spec));
    for (int32_t i = 0; i < spec->n_slots; i++)
        TRY(check_slot(spec, i));
    TRY(hyb_check_blocks(builder));
    TRY(hyb_check_movers(builder));
    for (int32_t i = 0; i < spec->n_operands; i++)
        TRY(check_operand(builder, i));
    return HYB_OK;
}

/* Rows of a loop exist in its body alone. */
static hyb_status check_place(const hyb_builder *builder, int32_t operand, int32_t number)
{
    const hyb_plan_spec *spec = builder->spec;
    if (spec->operands[operand].slot < 0) {
        const hyb_step *step = &spec->steps[builder->step];
        if (number > 0 || step->n_in == 0 || step->kind != HYB_STEP_KERNEL)
            return hyb_refuse(builder, "operand %d lies nowhere", number);
        return HYB_OK;
    }
    const hyb_slot *slot = &spec->slots[spec->operands[operand].slot];
    if (slot->kind == HYB_SLOT_ROW && !hyb_runs_inside(builder, builder->step, slot->loop))
        return hyb_refuse(builder, "operand %d is a row of step %d, which is not around it", number,
                          slot->loop);
    return HYB_OK;
}

hyb_status hyb_check_step(const hyb_builder *builder, const hyb_step *step)
{
    const hyb_plan_spec *spec = builder->spec;
    if (step->kind < HYB_STEP_KERNEL || step->kind > HYB_STEP_TRANSFER)
        return hyb_refuse(builder, "unknown kind %d", step->kind);
    const int32_t fewest = step->kind > HYB_STEP_MAP ? 0 : 1;
    if (step->n_in < 0 || step->n_out < fewest || step->n_extra < 0)
        return hyb_refuse(builder, "%d inputs, %d outputs, %d extra operands", step->n_in,
                          step->n_out, step->n_extra);
    const int64_t operands = (int64_t)step->n_in + step->n_out + step->n_extra;
    if (!hyb_in_range(step->first_operand, operands, spec->n_operands))
        return hyb_refuse(builder, "operands %d + %lld of %d", step->first_operand,
                          (long long)operands, spec->n_operands);
    if (!hyb_in_range(step->first_attr, step->n_attrs, spec->n_attrs))
        return hyb_refuse(builder, "attributes %d + %d of %d", step->first_attr, step->n_attrs,
                          spec->n_attrs);
    if (!hyb_in_range(step->first_op, step->n_ops, spec->n_ops))
        return hyb_refuse(builder, "ops %d + %d of %d", step->first_op, step->n_ops, spec->n_ops);
    for (int32_t i = 0; i < step->n_out; i++) {
        const int32_t k = step->first_operand + step->n_in + i;
        if (spec->operands[k].slot < 0)
            continue; /* check_place refuses it */
        const hyb_slot *slot = &spec->slots[spec->operands[k].slot];
        if (hyb_root(spec, slot)->kind == HYB_SLOT_CONSTANT)
            return hyb_refuse(builder, "output %d is a constant", i);
    }
    for (int32_t i = 0; i < operands; i++)
        TRY(check_place(builder, step->first_operand + i, i));
    return step->kind > HYB_STEP_MAP ? hyb_check_control(builder, step) : HYB_OK;
}
