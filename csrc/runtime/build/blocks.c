/* blocks.c - what can be said of a plan's blocks, loops and moving slots without running them: that
 * blocks nest, that every place a slot comes to lies within a slot that stays, and that what moves
 * never comes to where something else is. */
#include "runtime/build/plan_build.h"

enum { GRAIN = 64 }; /* the alignment of the arena and of the constants */

static bool is_loop(int32_t kind) { return kind == HYB_STEP_WHILE || kind == HYB_STEP_FOR; }

static bool owns_blocks(int32_t kind)
{
    return kind == HYB_STEP_COND || kind == HYB_STEP_PARALLEL || is_loop(kind);
}

static hyb_status check_owned(hyb_builder *builder, int32_t block, int32_t n_blocks, int32_t *owner)
{
    if (block <= builder->block[builder->step] || block >= n_blocks)
        return hyb_refuse(builder, "block %d is not one of the later ones of %d", block, n_blocks);
    if (owner[block] >= 0)
        return hyb_refuse(builder, "block %d belongs to step %d", block, owner[block]);
    owner[block] = builder->step;
    return HYB_OK;
}

/* They are what runs on several threads: neither control, which moves slots, nor calls of the host. */
static hyb_status check_members(hyb_builder *builder, const hyb_control *control, int32_t n_blocks,
                                int32_t *owner)
{
    const hyb_plan_spec *spec = builder->spec;
    if (control->members < 1 || !hyb_in_range(control->block, control->members, n_blocks))
        return hyb_refuse(builder, "members in blocks %d + %d of %d", control->block,
                          control->members, n_blocks);
    if (control->n_moves != 0 || control->otherwise != -1)
        return hyb_refuse(builder, "a parallel step with moves or another block");
    for (int32_t b = control->block; b < control->block + control->members; b++) {
        TRY(check_owned(builder, b, n_blocks, owner));
        const hyb_block block = spec->blocks[b];
        if (block.count == 0)
            return hyb_refuse(builder, "block %d is an empty member", b);
        for (int32_t i = block.first; i < block.first + block.count; i++)
            if (spec->steps[i].kind > HYB_STEP_MAP)
                return hyb_refuse(builder, "step %d of a member is neither a kernel nor a map", i);
    }
    return HYB_OK;
}

static hyb_status check_owner(hyb_builder *builder, const hyb_step *step, int32_t n_blocks,
                              int32_t *owner)
{
    const hyb_plan_spec *spec = builder->spec;
    if (step->kernel < 0 || step->kernel >= spec->n_controls)
        return hyb_refuse(builder, "control %d of %d", step->kernel, spec->n_controls);
    const hyb_control *control = &spec->controls[step->kernel];
    if (step->kind == HYB_STEP_PARALLEL)
        return check_members(builder, control, n_blocks, owner);
    TRY(check_owned(builder, control->block, n_blocks, owner));
    if (step->kind == HYB_STEP_COND)
        TRY(check_owned(builder, control->otherwise, n_blocks, owner));
    else if (control->otherwise != -1)
        return hyb_refuse(builder, "a loop with a second block, %d", control->otherwise);
    if (!hyb_in_range(control->first_move, control->n_moves, spec->n_moves))
        return hyb_refuse(builder, "moves %d + %d of %d", control->first_move, control->n_moves,
                          spec->n_moves);
    if (step->kind == HYB_STEP_COND && control->n_moves > 0)
        return hyb_refuse(builder, "a cond with moves");
    return HYB_OK;
}

/* Blocks are given in order: the owner of one stands in an earlier one, so its depth is known. */
static hyb_status check_depths(hyb_builder *builder, const int32_t *owner, int32_t n_blocks)
{
    int32_t *depth = hyb_reserve(builder, (size_t)n_blocks * sizeof *depth);
    if (!depth)
        return HYB_NO_MEMORY;
    for (int32_t b = 1; b < n_blocks; b++) {
        if (owner[b] < 0)
            return hyb_fail(HYB_BAD_ARGUMENT, "block %d: belongs to no step", b);
        depth[b] = depth[builder->block[owner[b]]] + 1;
        if (depth[b] > HYB_MAX_DEPTH)
            return hyb_fail(HYB_BAD_ARGUMENT, "block %d: more than %d blocks inside each other", b,
                            HYB_MAX_DEPTH);
    }
    return HYB_OK;
}

hyb_status hyb_check_blocks(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_block all = {0, spec->n_steps};
    const hyb_block *blocks = spec->n_blocks > 0 ? spec->blocks : &all;
    const int32_t n_blocks = spec->n_blocks > 0 ? spec->n_blocks : 1;
    int32_t *block = hyb_reserve(builder, (size_t)spec->n_steps * sizeof *block);
    int32_t *owner = hyb_reserve(builder, (size_t)n_blocks * sizeof *owner);
    if (!block || !owner)
        return HYB_NO_MEMORY;
    int32_t end = 0;
    for (int32_t b = 0; b < n_blocks; b++) {
        if (blocks[b].first != end || !hyb_in_range(end, blocks[b].count, spec->n_steps))
            return hyb_fail(HYB_BAD_ARGUMENT, "block %d: steps %d + %d do not follow the %d before",
                            b, blocks[b].first, blocks[b].count, end);
        for (int32_t i = 0; i < blocks[b].count; i++)
            block[end++] = b;
        owner[b] = -1;
    }
    if (end != spec->n_steps)
        return hyb_fail(HYB_BAD_ARGUMENT, "blocks: they have %d of %d steps", end, spec->n_steps);
    builder->block = block;
    builder->owner = owner;
    builder->plan->main = blocks[0];
    for (builder->step = 0; builder->step < spec->n_steps; builder->step++)
        if (owns_blocks(spec->steps[builder->step].kind))
            TRY(check_owner(builder, &spec->steps[builder->step], n_blocks, owner));
    return check_depths(builder, owner, n_blocks);
}

bool hyb_runs_inside(const hyb_builder *builder, int32_t inner, int32_t outer)
{
    for (int32_t b = builder->block[inner]; b > 0; b = builder->block[builder->owner[b]])
        if (builder->owner[b] == outer)
            return true;
    return false;
}

/* Slots that move ------------------------------------------------------------------------------ */

static hyb_status check_slot_of_loop(const hyb_plan_spec *spec, int32_t index)
{
    const hyb_slot *slot = &spec->slots[index];
    if (slot->loop < 0 || slot->loop >= spec->n_steps || !is_loop(spec->steps[slot->loop].kind))
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: step %d is not a loop", index, slot->loop);
    if (slot->base < 0 || slot->base >= index)
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: its base, %d, does not come before it", index,
                        slot->base);
    return HYB_OK;
}

static hyb_status check_rows_within(const hyb_plan_spec *spec, int32_t index)
{
    const hyb_slot *slot = &spec->slots[index], *base = &spec->slots[slot->base];
    int64_t last;
    if (slot->count < 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: %lld rows", index, (long long)slot->count);
    if (slot->count == 0)
        return HYB_OK;
    if (__builtin_mul_overflow(slot->count - 1, slot->stride, &last)
        || __builtin_add_overflow(last, slot->offset, &last) || slot->stride == INT64_MIN
        || !hyb_in_range(slot->offset, slot->nbytes, base->nbytes)
        || !hyb_in_range(last, slot->nbytes, base->nbytes))
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: rows beyond the %lld bytes of slot %d", index,
                        (long long)base->nbytes, slot->base);
    return HYB_OK;
}

static hyb_status check_row(const hyb_builder *builder, int32_t index)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_slot *slot = &spec->slots[index], *base = &spec->slots[slot->base];
    TRY(check_rows_within(spec, index));
    if ((!hyb_is_fixed(base) && base->loop == slot->loop)
        || (base->kind == HYB_SLOT_ROW && !hyb_runs_inside(builder, slot->loop, base->loop)))
        return hyb_fail(HYB_BAD_ARGUMENT,
                        "slot %d: its base, slot %d, has no place when step %d starts", index,
                        slot->base, slot->loop);
    if (spec->steps[slot->loop].kind == HYB_STEP_FOR) {
        const int64_t limit = spec->controls[spec->steps[slot->loop].kernel].limit;
        const bool enough = (limit >= 0 && limit <= slot->count) || slot->count == INT64_MAX;
        if (enough && slot->spare == -1)
            return HYB_OK;
        if (enough)
            return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: a for of %lld iterations needs no spare row",
                            index, (long long)limit);
        if (slot->spare == -1)
            return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: %lld rows for %lld iterations", index,
                            (long long)slot->count, (long long)limit);
    }
    if (slot->spare < 0 || slot->spare >= index)
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: its spare row, %d, does not come before it",
                        index, slot->spare);
    const hyb_slot *spare = &spec->slots[slot->spare];
    if (spare->kind != HYB_SLOT_ARENA || spare->nbytes < slot->nbytes)
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: slot %d is no spare row for it", index,
                        slot->spare);
    return HYB_OK;
}

static hyb_status check_carried(const hyb_builder *builder, int32_t index)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_slot *slot = &spec->slots[index], *base = &spec->slots[slot->base];
    if ((base->kind != HYB_SLOT_ARENA && base->kind != HYB_SLOT_EXTERNAL)
        || slot->nbytes > base->nbytes || (base->kind == HYB_SLOT_ARENA && base->offset % GRAIN))
        return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: slot %d is no place for it", index, slot->base);
    return HYB_OK;
}

static int64_t lowest_bit(int64_t number) { return number == 0 ? GRAIN : number & -number; }

static int64_t grain_of(const hyb_slot *slot, const int64_t *grain)
{
    int64_t least = GRAIN;
    const int64_t bounds[] = {
        slot->kind == HYB_SLOT_ROW ? grain[slot->base] : GRAIN,
        slot->kind == HYB_SLOT_ROW && slot->spare >= 0 ? grain[slot->spare] : GRAIN,
        slot->kind == HYB_SLOT_ROW && slot->count > 1 ? lowest_bit(slot->stride) : GRAIN,
        slot->kind == HYB_SLOT_EXTERNAL || slot->kind == HYB_SLOT_CARRIED
            ? GRAIN
            : lowest_bit(slot->offset),
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if (bounds[i] < least)
            least = bounds[i];
    return least;
}

/* A move takes a slot to where another one of the loop was; nobody else may be there then. */
static hyb_status check_move(const hyb_builder *builder, const hyb_control *control, int32_t index)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_move *moves = spec->moves + control->first_move, *move = &moves[index];
    if (move->to < 0 || move->to >= spec->n_slots || move->from < 0 || move->from >= spec->n_slots)
        return hyb_refuse(builder, "move %d: slots %d and %d of %d", index, move->to, move->from,
                          spec->n_slots);
    const hyb_slot *to = &spec->slots[move->to], *from = &spec->slots[move->from];
    if (to->kind != HYB_SLOT_CARRIED || to->loop != builder->step || hyb_is_fixed(from)
        || from->loop != builder->step || to->nbytes != from->nbytes)
        return hyb_refuse(builder, "move %d: slot %d cannot go where slot %d is", index, move->to,
                          move->from);
    bool left = from->kind == HYB_SLOT_ROW;
    for (int32_t i = 0; i < control->n_moves; i++) {
        left |= moves[i].to == move->from;
        if (i != index && (moves[i].to == move->to || moves[i].from == move->from))
            return hyb_refuse(builder, "move %d: like move %d", index, i);
    }
    if (!left)
        return hyb_refuse(builder, "move %d: slot %d does not leave its place", index, move->from);
    if (from->kind != HYB_SLOT_ROW)
        return HYB_OK;
    /* Rows that are left behind are read: they stay apart from each other and from other stacks. */
    const int64_t apart = from->stride < 0 ? -from->stride : from->stride;
    if (from->spare >= 0 || hyb_root(spec, from)->kind == HYB_SLOT_CONSTANT
        || builder->grain[move->from] < GRAIN || (apart < from->nbytes && from->count > 1))
        return hyb_refuse(builder, "move %d: row %d cannot be carried", index, move->from);
    return HYB_OK;
}

/* The places where a loop's carried slots start are apart from each other, and from rows that they
 * come to.  `before` leads from each to the one before it. */
static hyb_status check_places(const hyb_builder *builder, int32_t index, const int32_t *before)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_slot *slot = &spec->slots[index];
    for (int32_t i = before[index]; i >= 0; i = before[i])
        if (hyb_slots_meet(builder, slot->base, spec->slots[i].base))
            return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: starts where slot %d does", index, i);
    const hyb_control *control = &spec->controls[spec->steps[slot->loop].kernel];
    for (int32_t i = 0; i < control->n_moves; i++) {
        const int32_t from = spec->moves[control->first_move + i].from;
        if (spec->slots[from].kind != HYB_SLOT_ROW)
            continue;
        if (hyb_slots_meet(builder, from, slot->base))
            return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: starts where row %d comes", index, from);
        if (builder->row[index] >= 0 && builder->row[index] != from
            && hyb_slots_meet(builder, from, builder->row[index]))
            return hyb_fail(HYB_BAD_ARGUMENT, "slot %d: row %d overlaps row %d", index,
                            builder->row[index], from);
    }
    return HYB_OK;
}

/* Checks all moves.  Slots that a move connects go round the same places. */
static hyb_status make_rings(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    const size_t nbytes = (size_t)spec->n_slots * sizeof(int32_t);
    int32_t *next = hyb_reserve(builder, nbytes), *row = hyb_reserve(builder, nbytes);
    int32_t *reader = hyb_reserve(builder, nbytes);
    if (!next || !row || !reader)
        return HYB_NO_MEMORY;
    for (int32_t i = 0; i < spec->n_slots; i++) {
        next[i] = i;
        row[i] = reader[i] = -1;
    }
    for (builder->step = 0; builder->step < spec->n_steps; builder->step++) {
        if (!is_loop(spec->steps[builder->step].kind))
            continue;
        const hyb_control *control = &spec->controls[spec->steps[builder->step].kernel];
        for (int32_t i = 0; i < control->n_moves; i++)
            TRY(check_move(builder, control, i));
        for (int32_t i = 0; i < control->n_moves; i++) {
            const hyb_move *move = &spec->moves[control->first_move + i];
            reader[move->from] = move->to;
            if (spec->slots[move->from].kind == HYB_SLOT_ROW)
                row[move->to] = move->from;
            else
                next[move->to] = move->from;
        }
        for (int32_t i = 0; i < control->n_moves; i++) { /* a chain from a row is closed */
            const int32_t start = spec->moves[control->first_move + i].to;
            int32_t end = start;
            while (row[start] >= 0 && reader[end] >= 0)
                end = reader[end];
            if (row[start] >= 0)
                next[start] = end;
        }
    }
    builder->next = next;
    builder->row = row;
    return HYB_OK;
}

hyb_status hyb_check_movers(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    int64_t *grain = hyb_reserve(builder, (size_t)spec->n_slots * sizeof *grain);
    int32_t *before = hyb_reserve(builder, (size_t)spec->n_slots * sizeof *before);
    int32_t *latest = hyb_reserve(builder, (size_t)spec->n_steps * sizeof *latest);
    if (!grain || !before || !latest)
        return HYB_NO_MEMORY;
    builder->grain = grain;
    for (int32_t i = 0; i < spec->n_steps; i++)
        latest[i] = -1;
    for (int32_t i = 0; i < spec->n_slots; i++) {
        const hyb_slot *slot = &spec->slots[i];
        if (!hyb_is_fixed(slot))
            TRY(check_slot_of_loop(spec, i));
        if (slot->kind == HYB_SLOT_ROW)
            TRY(check_row(builder, i));
        grain[i] = grain_of(slot, grain);
        if (slot->kind != HYB_SLOT_CARRIED)
            continue;
        TRY(check_carried(builder, i));
        before[i] = latest[slot->loop];
        latest[slot->loop] = i;
    }
    TRY(make_rings(builder));
    for (int32_t i = 0; i < spec->n_slots; i++)
        if (spec->slots[i].kind == HYB_SLOT_CARRIED)
            TRY(check_places(builder, i, before));
    return HYB_OK;
}

/* Control steps -------------------------------------------------------------------------------- */

static hyb_status check_scalar(const hyb_builder *builder, const hyb_step *step, int32_t operand,
                               int32_t dtype)
{
    const hyb_layout *layout = &builder->spec->operands[step->first_operand + operand].layout;
    if (layout->dtype != dtype || hyb_elements(layout) != 1)
        return hyb_refuse(builder, "operand %d is not one %s", operand, hyb_dtype_name(dtype));
    return HYB_OK;
}

static hyb_status check_host(const hyb_builder *builder, const hyb_step *step)
{
    const hyb_operand *operands = builder->spec->operands + step->first_operand;
    if (step->kernel < 0)
        return hyb_refuse(builder, "host function %d", step->kernel);
    for (int32_t o = step->n_in; o < step->n_in + step->n_out; o++) {
        if (!hyb_is_contiguous(&operands[o].layout))
            return hyb_refuse(builder, "output %d is not contiguous", o - step->n_in);
        for (int32_t k = 0; k < o; k++)
            if (hyb_operands_meet(builder, &operands[o], &operands[k]))
                return hyb_refuse(builder, "output %d overlaps operand %d", o - step->n_in, k);
    }
    return HYB_OK;
}

static hyb_status check_transfer(const hyb_builder *builder, const hyb_step *step)
{
    const hyb_attr *attrs = builder->spec->attrs + step->first_attr;
    const int64_t kind = attrs[1].i, root = attrs[2].i, place = attrs[3].i;
    const int64_t ranks =
        attrs[0].i < 0 || attrs[0].i > INT32_MAX ? 0 : hyb_channel_ranks((int32_t)attrs[0].i);
    if (ranks == 0 || kind < HYB_TRANSFER_GATHER || kind > HYB_TRANSFER_WAIT)
        return hyb_refuse(builder, "transfer %lld by channel %lld", (long long)kind,
                          (long long)attrs[0].i);
    const bool nothing = kind == HYB_TRANSFER_BARRIER || kind == HYB_TRANSFER_AGREE;
    const int32_t n = nothing ? 0 : 1;
    if (place < (kind == HYB_TRANSFER_WAIT ? 0 : -1) || place >= (nothing ? 0 : HYB_MOST_UNDER_WAY))
        return hyb_refuse(builder, "transfer %lld in place %lld", (long long)kind, (long long)place);
    if (step->n_in != n || step->n_out != n || root < 0 || root >= ranks)
        return hyb_refuse(builder, "%d inputs, %d outputs and root %lld of a transfer", step->n_in,
                          step->n_out, (long long)root);
    TRY(check_host(builder, step));
    if (n == 0 || kind == HYB_TRANSFER_WAIT)
        return HYB_OK;
    const hyb_operand *operands = builder->spec->operands + step->first_operand;
    const hyb_layout *in = &operands[0].layout, *out = &operands[1].layout;
    const int64_t gives = hyb_elements(in) * hyb_itemsize(in->dtype);
    const int64_t takes = hyb_elements(out) * hyb_itemsize(out->dtype);
    const int64_t times = kind == HYB_TRANSFER_GATHER ? ranks : 1;
    if (!hyb_is_contiguous(in) || gives > INT32_MAX || takes != gives * times
        || (kind == HYB_TRANSFER_EXCHANGE && gives % ranks != 0))
        return hyb_refuse(builder, "%lld bytes cannot become %lld by transfer %lld of %lld ranks",
                          (long long)gives, (long long)takes, (long long)kind, (long long)ranks);
    return HYB_OK;
}

hyb_status hyb_check_control(const hyb_builder *builder, const hyb_step *step)
{
    static const struct {
        int32_t n_in, most_out, in, out;
    } shapes[] = {
        [HYB_STEP_COND] = {1, 0, HYB_BOOL, HYB_BOOL},
        [HYB_STEP_WHILE] = {2, 1, HYB_BOOL, HYB_I64},
        [HYB_STEP_FOR] = {1, 1, HYB_I64, HYB_I64},
        [HYB_STEP_PARALLEL] = {0, 0, HYB_BOOL, HYB_BOOL},
    };
    const bool speaks = step->kind == HYB_STEP_PRINT || step->kind == HYB_STEP_FAIL;
    const int32_t n_attrs =
        step->kind == HYB_STEP_NEXT ? 1 : step->kind == HYB_STEP_TRANSFER ? 4 : 0;
    if (step->n_extra != 0 || step->n_attrs != n_attrs || step->n_ops != 0)
        return hyb_refuse(builder, "extra operands, attributes or ops, which only kernels have");
    if (step->kind == HYB_STEP_NEXT && (step->n_in < 1 || step->n_out > HYB_QUEUE_COLUMNS))
        return hyb_refuse(builder, "%d inputs and %d outputs of a queue", step->n_in, step->n_out);
    if (step->kind == HYB_STEP_NEXT)
        TRY(check_scalar(builder, step, 0, HYB_I64));
    if (step->kind == HYB_STEP_HOST || step->kind == HYB_STEP_NEXT)
        return check_host(builder, step);
    if (step->kind == HYB_STEP_TRANSFER)
        return HYB_HAS_CHANNELS ? check_transfer(builder, step)
                                : hyb_refuse(builder, "this library moves no bytes between processes");
    if (speaks)
        return hyb_check_message(builder, step);
    const int32_t n_in = shapes[step->kind].n_in, most = shapes[step->kind].most_out;
    if (step->n_in != n_in || step->n_out > most)
        return hyb_refuse(builder, "%d inputs and %d outputs, not %d and at most %d", step->n_in,
                          step->n_out, n_in, most);
    for (int32_t i = 0; i < n_in; i++)
        TRY(check_scalar(builder, step, i, shapes[step->kind].in));
    for (int32_t i = n_in; i < n_in + step->n_out; i++)
        TRY(check_scalar(builder, step, i, shapes[step->kind].out));
    return HYB_OK;
}
