/* overlap.c - which bytes may be the same, wherever slots move.
 *
 * A slot that moves may be at several places: all of them are looked at.  Two carried slots of one
 * loop are never at one place, for its moves only exchange places that are apart. */
#include "runtime/build/plan_build.h"

typedef struct {
    int64_t low, high; /* bytes from the start of a slot */
} range;

bool hyb_is_fixed(const hyb_slot *slot)
{
    return slot->kind != HYB_SLOT_ROW && slot->kind != HYB_SLOT_CARRIED;
}

const hyb_slot *hyb_root(const hyb_plan_spec *spec, const hyb_slot *slot)
{
    while (!hyb_is_fixed(slot))
        slot = &spec->slots[slot->base];
    return slot;
}

static bool fixed_meet(const hyb_slot *a, range x, const hyb_slot *b, range y)
{
    if (a->kind != b->kind || (a->kind == HYB_SLOT_EXTERNAL && a->external != b->external))
        return false;
    const bool external = a->kind == HYB_SLOT_EXTERNAL; /* its address is its own */
    const int64_t from_a = external ? 0 : a->offset, from_b = external ? 0 : b->offset;
    return from_a + x.low < from_b + y.high && from_b + y.low < from_a + x.high;
}

/* From row 0 to the last, in the slot that has the rows. */
static range all_rows(const hyb_slot *row, range x)
{
    const int64_t last = (row->count - 1) * row->stride;
    return (range){row->offset + x.low + (last < 0 ? last : 0),
                   row->offset + x.high + (last > 0 ? last : 0)};
}

static const hyb_control *control_of(const hyb_plan_spec *spec, const hyb_slot *slot)
{
    return &spec->controls[spec->steps[slot->loop].kernel];
}

/* Whether a carried slot is never where another slot of its loop is. */
static bool kept_apart(const hyb_plan_spec *spec, int32_t index, int32_t other)
{
    const hyb_slot *carried = &spec->slots[index], *slot = &spec->slots[other];
    if (carried->kind != HYB_SLOT_CARRIED || hyb_is_fixed(slot) || slot->loop != carried->loop)
        return false;
    if (slot->kind == HYB_SLOT_CARRIED)
        return true;
    const hyb_control *control = control_of(spec, carried);
    for (int32_t i = 0; i < control->n_moves; i++) /* it was a row that is left behind */
        if (spec->moves[control->first_move + i].from == other)
            return true;
    return false;
}

static bool meet(const hyb_builder *builder, int32_t a, range x, int32_t b, range y)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_slot *first = &spec->slots[a], *second = &spec->slots[b];
    if (a == b)
        return x.low < y.high && y.low < x.high;
    if (hyb_is_fixed(first) && hyb_is_fixed(second))
        return fixed_meet(first, x, second, y);
    if (hyb_is_fixed(first))
        return meet(builder, b, y, a, x);
    if (kept_apart(spec, a, b) || kept_apart(spec, b, a))
        return false;
    if (first->kind != HYB_SLOT_ROW && second->kind == HYB_SLOT_ROW)
        return meet(builder, b, y, a, x); /* its base may be kept apart from the other */
    if (first->kind == HYB_SLOT_ROW)
        return (first->count > 0 && meet(builder, first->base, all_rows(first, x), b, y))
            || (first->spare >= 0 && meet(builder, first->spare, x, b, y));
    int32_t slot = a;
    do { /* where one of the ring started, or the row that it comes to */
        if (meet(builder, spec->slots[slot].base, x, b, y)
            || (builder->row[slot] >= 0 && meet(builder, builder->row[slot], x, b, y)))
            return true;
        slot = builder->next[slot];
    } while (slot != a);
    return false;
}

bool hyb_slots_meet(const hyb_builder *builder, int32_t a, int32_t b)
{
    const hyb_slot *slots = builder->spec->slots;
    const range x = {0, slots[a].nbytes}, y = {0, slots[b].nbytes};
    return x.high > 0 && y.high > 0 && meet(builder, a, x, b, y);
}

static range range_of(const hyb_operand *operand)
{
    int64_t low = 0, high = 0;
    hyb_layout_extent(&operand->layout, &low, &high);
    return (range){operand->offset + low, operand->offset + high};
}

bool hyb_operands_meet(const hyb_builder *builder, const hyb_operand *a, const hyb_operand *b)
{
    const range x = range_of(a), y = range_of(b);
    return a->slot >= 0 && b->slot >= 0 && x.low < x.high && y.low < y.high
        && meet(builder, a->slot, x, b->slot, y);
}

bool hyb_coincide(const hyb_builder *builder, const hyb_operand *a, const hyb_operand *b)
{
    range x = range_of(a), y = range_of(b);
    if (a->slot != b->slot) {
        const hyb_slot *first = &builder->spec->slots[a->slot];
        const hyb_slot *second = &builder->spec->slots[b->slot];
        if (!hyb_is_fixed(first) || first->kind != second->kind
            || (first->kind == HYB_SLOT_EXTERNAL && first->external != second->external))
            return false;
        const int64_t between =
            first->kind == HYB_SLOT_EXTERNAL ? 0 : second->offset - first->offset;
        y.low += between;
        y.high += between;
    }
    return x.low == y.low && x.high == y.high;
}
