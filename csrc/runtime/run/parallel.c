/* parallel.c - steps that run side by side: one parallel_for over the chunks of all of them.
 *
 * A member of one step has the chunks that it would have by itself, so its bits are the same.  One
 * of several steps runs whole, on one thread: its steps' chunks follow each other there.  Members
 * that are little work share a task, for handing it out costs as much as they do. */
#include "runtime/run/plan_run.h"

typedef struct {
    hyb_run *run;
    const hyb_group *group;
    _Atomic int64_t failed; /* the first task that failed, and its step in the lower half */
} group_run;

/* The pool takes the error of the first task that fails; this notes which step that was. */
static void note_failure(group_run *g, int64_t task, int32_t step)
{
    const int64_t mine = task << 32 | step;
    int64_t before = atomic_load_explicit(&g->failed, memory_order_relaxed);
    while (mine < before
           && !atomic_compare_exchange_weak_explicit(&g->failed, &before, mine,
                                                     memory_order_relaxed, memory_order_relaxed))
        continue;
}

static hyb_status run_chunk(group_run *g, const hyb_share *share, int64_t task)
{
    const hyb_run *run = g->run;
    const int32_t index = g->group->members[share->member].first;
    const hyb_plan_step *step = &run->plan->steps[index];
    const hyb_range range = hyb_step_range(step);
    const int64_t chunk = task - share->first, begin = chunk * range.grain;
    const int64_t end = range.n - begin > range.grain ? begin + range.grain : range.n;
    const int64_t since = run->recording ? hyb_clock() : 0;
    const hyb_status status = hyb_run_units(step, run->data + step->first_operand, begin, end);
    if (run->recording)
        hyb_record_part(run->recording, run->plan, index, since, (int32_t)chunk, share->chunks);
    if (status != HYB_OK)
        note_failure(g, task, index);
    return status;
}

/* The steps of `count` members, which follow each other, as one block. */
static hyb_block blocks_of(const hyb_group *group, int32_t member, int32_t count)
{
    const hyb_block *first = &group->members[member], *last = first + count - 1;
    return (hyb_block){first->first, last->first + last->count - first->first};
}

static hyb_status run_members(group_run *g, const hyb_share *share)
{
    const hyb_status status =
        hyb_run_block(g->run, blocks_of(g->group, share->member, share->n_members));
    if (status != HYB_OK)
        note_failure(g, share->first, hyb_last_step());
    return status;
}

static const hyb_share *share_of(const hyb_group *group, int64_t task)
{
    int32_t low = 0, high = group->n_shares;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (group->shares[middle].first <= task)
            low = middle;
        else
            high = middle;
    }
    return &group->shares[low];
}

static hyb_status run_tasks(void *context, int64_t begin, int64_t end)
{
    group_run *g = context;
    const hyb_share *share = share_of(g->group, begin);
    for (int64_t task = begin; task < end; task++) {
        while (task >= share[1].first)
            share++;
        TRY(share->chunks > 1 ? run_chunk(g, share, task) : run_members(g, share));
    }
    return HYB_OK;
}

hyb_status hyb_run_group(hyb_run *run, const hyb_group *group)
{
    if (group->n_tasks == 1 || hyb_is_alone()) /* as a plan without groups would */
        return hyb_run_block(run, blocks_of(group, 0, group->n_members));
    group_run g = {.run = run, .group = group, .failed = INT64_MAX};
    const hyb_status status = hyb_parallel_for(group->n_tasks, 1, run_tasks, &g);
    if (status != HYB_OK)
        hyb_set_last_step((int32_t)(atomic_load_explicit(&g.failed, memory_order_relaxed) & INT32_MAX));
    else if (run->plan->poison) /* each whole member has seen to its own */
        for (int32_t i = 0; i < group->n_shares; i++)
            if (group->shares[i].chunks > 1)
                hyb_poison_slots(run->plan, group->members[group->shares[i].member].first,
                                 run->arena);
    return status;
}
