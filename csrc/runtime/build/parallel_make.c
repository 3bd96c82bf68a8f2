/* parallel_make.c - makes groups of steps that run side by side: no member writes what another one
 * reads or writes, and members that are little work share a task. */
#include <stdlib.h>

#include "runtime/build/plan_build.h"

/* Shares of the chunk that a thread takes from a large kernel. */
static const double LEAST_TASK = 1.0 / 16, EVERY_STEP = 1.0 / 64;

/* The bytes that a member reaches in one fixed slot. */
typedef struct {
    int64_t place; /* memory: a kind, and which one */
    int64_t low, high;
    int32_t operand, member;
    bool written, fixed;
} reach;

static int by_place(const void *left, const void *right)
{
    const reach *a = left, *b = right;
    if (a->fixed != b->fixed)
        return a->fixed ? 1 : -1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->low < b->low ? -1 : a->low > b->low;
}

static hyb_status refuse_pair(const hyb_builder *builder, const reach *a, const reach *b)
{
    const bool swap = a->operand > b->operand;
    const int32_t first = swap ? b->operand : a->operand, second = swap ? a->operand : b->operand;
    return hyb_refuse(builder, "operands %d and %d share bytes, in members that run side by side",
                      first, second);
}

/* `found` is sorted: slots that move come first, each of which is compared with everything. */
static hyb_status compare(const hyb_builder *builder, const reach *found, int64_t n)
{
    const hyb_operand *operands = builder->spec->operands;
    for (int64_t i = 0; i < n; i++) {
        const reach *a = &found[i];
        for (int64_t j = i + 1; j < n; j++) {
            const reach *b = &found[j];
            if (a->fixed && (b->place != a->place || b->low >= a->high))
                break;
            if (a->member == b->member || !(a->written || b->written))
                continue;
            if (a->fixed || hyb_operands_meet(builder, &operands[a->operand], &operands[b->operand]))
                return refuse_pair(builder, a, b);
        }
    }
    return HYB_OK;
}

static reach reach_of(const hyb_plan_spec *spec, int32_t index, int32_t member, bool written)
{
    const hyb_operand *operand = &spec->operands[index];
    const hyb_slot *slot = &spec->slots[operand->slot];
    int64_t low = 0, high = 0;
    hyb_layout_extent(&operand->layout, &low, &high);
    const bool external = slot->kind == HYB_SLOT_EXTERNAL, fixed = hyb_is_fixed(slot);
    const int64_t start = operand->offset + (fixed && !external ? slot->offset : 0);
    return (reach){.place = external ? ((int64_t)1 << 32) + slot->external : slot->kind,
                   .low = start + low,
                   .high = start + high,
                   .operand = index,
                   .member = member,
                   .written = written,
                   .fixed = fixed};
}

/* No member may write what another one reads or writes. */
static hyb_status check_apart(const hyb_builder *builder, const hyb_block *members, int32_t count)
{
    const hyb_plan_spec *spec = builder->spec;
    const int32_t first = members[0].first; /* blocks follow each other */
    const int32_t end = members[count - 1].first + members[count - 1].count;
    int64_t most = 1, n = 0;
    for (int32_t i = first; i < end; i++)
        most += spec->steps[i].n_in + spec->steps[i].n_out + spec->steps[i].n_extra;
    reach *found = hyb_alloc((size_t)most * sizeof *found);
    if (!found)
        return HYB_NO_MEMORY;
    for (int32_t m = 0; m < count; m++)
        for (int32_t i = members[m].first; i < members[m].first + members[m].count; i++) {
            const hyb_step *step = &spec->steps[i];
            const int32_t all = step->n_in + step->n_out + step->n_extra;
            for (int32_t k = 0; k < all; k++) {
                const int32_t index = step->first_operand + k;
                if (spec->operands[index].slot < 0)
                    continue; /* pre-ops make it */
                const bool written = k >= step->n_in && k < step->n_in + step->n_out;
                found[n] = reach_of(spec, index, m, written);
                n += found[n].low < found[n].high;
            }
        }
    qsort(found, (size_t)n, sizeof *found, by_place);
    const hyb_status status = compare(builder, found, n);
    hyb_free(found);
    return status;
}

static int64_t chunks_of(const hyb_plan_step *step)
{
    const hyb_range range = hyb_step_range(step);
    return range.n <= range.grain ? 1 : (range.n - 1) / range.grain + 1;
}

static double work_of(const hyb_plan *plan, hyb_block member)
{
    double work = 0;
    for (int32_t i = member.first; i < member.first + member.count; i++) {
        const hyb_range range = hyb_step_range(&plan->steps[i]);
        work += EVERY_STEP + (double)range.n / (double)range.grain;
    }
    return work;
}

static hyb_status make_shares(const hyb_builder *builder, hyb_group *group, hyb_share *shares)
{
    const hyb_plan *plan = builder->plan;
    int64_t tasks = 0;
    double room = 0; /* for more work, in the last share */
    int32_t n = 0;
    for (int32_t m = 0; m < group->n_members; m++) {
        const hyb_block member = group->members[m];
        const int64_t chunks = member.count == 1 ? chunks_of(&plan->steps[member.first]) : 1;
        if (chunks > INT32_MAX - tasks)
            return hyb_refuse(builder, "its members have more than %d chunks", INT32_MAX);
        const double work = work_of(plan, member);
        if (chunks == 1 && work <= room) {
            shares[n - 1].n_members++;
            room -= work;
            continue;
        }
        room = chunks > 1 ? 0 : LEAST_TASK - work;
        shares[n++] = (hyb_share){tasks, m, 1, (int32_t)chunks};
        tasks += chunks;
    }
    shares[n] = (hyb_share){tasks, 0, 0, 0};
    group->shares = shares;
    group->n_shares = n;
    group->n_tasks = tasks;
    return HYB_OK;
}

static hyb_status make_group(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_control *control = &spec->controls[step->kernel];
    const size_t count = (size_t)control->members;
    hyb_group *group = hyb_reserve(builder, sizeof *group);
    hyb_block *members = hyb_reserve(builder, count * sizeof *members);
    hyb_share *shares = hyb_reserve(builder, (count + 1) * sizeof *shares);
    if (!group || !members || !shares)
        return HYB_NO_MEMORY;
    memcpy(members, spec->blocks + control->block, count * sizeof *members);
    group->members = members;
    group->n_members = control->members;
    made->group = group;
    TRY(check_apart(builder, members, control->members));
    return make_shares(builder, group, shares);
}

hyb_status hyb_make_groups(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    for (builder->step = 0; builder->step < spec->n_steps; builder->step++)
        if (spec->steps[builder->step].kind == HYB_STEP_PARALLEL)
            TRY(make_group(builder, &spec->steps[builder->step],
                           (hyb_plan_step *)&builder->plan->steps[builder->step]));
    return HYB_OK;
}
