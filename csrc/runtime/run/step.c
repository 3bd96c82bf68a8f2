/* step.c - runs plans.  Nothing is checked here: hyb_plan_create has proved that every step stays
 * within its slots, whatever bytes they hold. */
#include <stdatomic.h>

#include "runtime/run/plan_run.h"

/* A kernel cut into chunks. */
typedef struct {
    hyb_kernel_fn run;
    const hyb_call *call;
} kernel_run;

static hyb_status run_part(void *context, int64_t begin, int64_t end)
{
    const kernel_run *part = context;
    return part->run(part->call, begin, end);
}

static hyb_status run_kernel(const hyb_plan_step *step, void *const *data, const hyb_post *post,
                             const hyb_pre *pre)
{
    const hyb_call call = {step->layout, data, step->attrs, post, pre};
    if (step->range.n <= step->range.grain)
        return step->range.n > 0 ? step->run(&call, 0, step->range.n) : HYB_OK;
    kernel_run run = {step->run, &call};
    return hyb_parallel_for(step->range.n, step->range.grain, run_part, &run);
}

typedef struct {
    const hyb_map *map;
    void *const *data;
    atomic_int *failure; /* a kernel cannot pass on what its post-ops return */
} post_run;

static void apply_post(const void *context, int64_t begin, int64_t count)
{
    const post_run *run = context;
    const hyb_status status = hyb_map_stretch(run->map, run->data, NULL, begin, count);
    if (status != HYB_OK)
        atomic_store_explicit(run->failure, (int)status, memory_order_relaxed);
}

static void apply_post_rows(const void *context, int64_t begin, int64_t count, int64_t rows,
                            int64_t step)
{
    const post_run *run = context;
    const hyb_status status = hyb_map_rows(run->map, run->data, NULL, begin, count, rows, step);
    if (status != HYB_OK)
        atomic_store_explicit(run->failure, (int)status, memory_order_relaxed);
}

static hyb_status post_status(const hyb_plan_step *step, const atomic_int *failure)
{
    const hyb_status status = (hyb_status)atomic_load_explicit(failure, memory_order_relaxed);
    return status == HYB_OK ? HYB_OK
                            : hyb_fail(status, "a post-op of %s failed: %s", step->name,
                                       hyb_status_name((int32_t)status));
}

static hyb_status run_with_post_ops(const hyb_plan_step *step, void *const *data)
{
    atomic_int failure = HYB_OK;
    const post_run run = {step->map, data, &failure};
    const hyb_post post = {apply_post, apply_post_rows, &run};
    TRY(run_kernel(step, data, &post, NULL));
    return post_status(step, &failure);
}

typedef struct {
    const hyb_map *map;
    void *const *data;
} pre_run;

static hyb_status fill(const void *context, void *out, int64_t begin, int64_t count, int64_t rows,
                       int64_t step)
{
    const pre_run *run = context;
    return rows == 1 ? hyb_map_stretch(run->map, run->data, out, begin, count)
                     : hyb_map_rows(run->map, run->data, out, begin, count, rows, step);
}

static hyb_status run_with_pre_ops(const hyb_plan_step *step, void *const *data)
{
    const pre_run run = {step->map, data};
    return run_kernel(step, data, NULL, &(hyb_pre){fill, &run, step->map->work});
}

hyb_range hyb_step_range(const hyb_plan_step *step)
{
    if (step->run)
        return step->range;
    return step->map->single_tile ? (hyb_range){1, 1}
                                  : (hyb_range){step->map->n_tiles, step->map->grain};
}

hyb_status hyb_run_units(const hyb_plan_step *step, void *const *data, int64_t begin, int64_t end)
{
    if (!step->run)
        return hyb_map_tiles(step->map, data, begin, end);
    if (!step->map)
        return step->run(&(hyb_call){step->layout, data, step->attrs, NULL, NULL}, begin, end);
    if (step->map->feeds) {
        const pre_run run = {step->map, data};
        const hyb_pre pre = {fill, &run, step->map->work};
        return step->run(&(hyb_call){step->layout, data, step->attrs, NULL, &pre}, begin, end);
    }
    atomic_int failure = HYB_OK;
    const post_run run = {step->map, data, &failure};
    const hyb_post post = {apply_post, apply_post_rows, &run};
    TRY(step->run(&(hyb_call){step->layout, data, step->attrs, &post, NULL}, begin, end));
    return post_status(step, &failure);
}

static hyb_status run_step(const hyb_plan_step *step, void *const *data)
{
    if (!step->run)
        return hyb_map_run(step->map, data);
    if (!step->map)
        return run_kernel(step, data, NULL, NULL);
    return step->map->feeds ? run_with_pre_ops(step, data) : run_with_post_ops(step, data);
}

/* A stack that is largely untouched stays so: only the start of a slot is overwritten. */
enum { POISONED = 1 << 24 };

void hyb_poison_slots(const hyb_plan *plan, int32_t step, char *arena)
{
    for (int32_t i = 0; i < plan->n_slots; i++) {
        const hyb_slot *slot = &plan->slots[i];
        const int64_t nbytes = slot->nbytes < POISONED ? slot->nbytes : POISONED;
        if (slot->kind == HYB_SLOT_ARENA && slot->last_step == step)
            memset(arena + slot->offset, 0xff, (size_t)nbytes);
    }
}

/* `records`: whether the run has a recording.  Known where this is inlined: steps do not ask. */
static inline hyb_status run_block(hyb_run *run, hyb_block block, bool records)
{
    const hyb_plan *plan = run->plan;
    for (int32_t i = block.first; i < block.first + block.count; i++) {
        const hyb_plan_step *step = &plan->steps[i];
        const bool plain = step->kind <= HYB_STEP_MAP;
        const int64_t begin = records ? hyb_clock() : 0;
        const hyb_status status = plain ? run_step(step, run->data + step->first_operand)
                                        : hyb_run_control(run, step, i);
        if (records)
            hyb_record(run->recording, plan, i, begin);
        if (__builtin_expect(status != HYB_OK, 0)) {
            if (plain) /* others have said where they failed */
                hyb_set_last_step(i);
            return status;
        }
        if (plan->poison)
            hyb_poison_slots(plan, i, run->arena);
        if (HYB_HAS_CHANNELS && __builtin_expect(run->n_under_way > 0, 0))
            hyb_move_on(run);
    }
    return HYB_OK;
}

hyb_status hyb_run_block(hyb_run *run, hyb_block block)
{
    return __builtin_expect(run->recording != NULL, 0) ? run_block(run, block, true)
                                                       : run_block(run, block, false);
}

/* The main block, and what it leaves under way. */
static hyb_status run_main(hyb_run *run)
{
    const hyb_status status = hyb_run_block(run, run->plan->main);
    return HYB_HAS_CHANNELS && __builtin_expect(run->n_under_way > 0, 0)
        ? hyb_end_transfers(run, status)
        : status;
}

static hyb_status run_steps(hyb_run *run)
{
    const hyb_plan *plan = run->plan;
    for (int32_t i = 0; i < plan->n_patches; i++) {
        const hyb_patch *patch = &plan->patches[i];
        run->data[patch->operand] = (char *)run->externals[patch->external] + patch->offset;
    }
    if (plan->n_movers > 0)
        hyb_start_movers(run);
    run->recording = hyb_recording_enter();
    if (__builtin_expect(run->recording == NULL, 1))
        return run_main(run);
    const int64_t begin = hyb_clock();
    const hyb_status status = run_main(run);
    hyb_record(run->recording, plan, -1, begin);
    hyb_recording_leave(run->recording);
    return status;
}

static void set_arena(const hyb_plan *plan, hyb_state *state, char *arena)
{
    state->arena = arena;
    for (int32_t i = 0; i < plan->n_arena; i++)
        state->data[plan->arena[i].operand] = arena + plan->arena[i].offset;
}

static hyb_state *make_state(const hyb_plan *plan)
{
    const size_t words = (size_t)plan->n_operands + 2 * (size_t)plan->n_movers;
    const size_t before_arena = (sizeof(hyb_state) + words * sizeof(void *) + 63) / 64 * 64;
    const int64_t own_nbytes = plan->shares_arena ? 0 : plan->arena_nbytes;
    hyb_state *state = hyb_alloc(before_arena + (size_t)own_nbytes);
    if (!state)
        return NULL;
    state->addresses = (char **)state->data + plan->n_operands;
    state->coming = state->addresses + plan->n_movers;
    memcpy(state->data, plan->data, (size_t)plan->n_operands * sizeof(void *));
    if (plan->shares_arena)
        state->arena = NULL;
    else
        set_arena(plan, state, (char *)state + before_arena);
    return state;
}

/* An arena for one run: the last one, if nobody has it by now. */
static bool take_arena(const hyb_plan *plan, hyb_state *state)
{
    char *arena = hyb_alloc((size_t)plan->arena_nbytes);
    if (arena && arena != state->arena)
        set_arena(plan, state, arena);
    return arena != NULL;
}

static hyb_state *take_state(hyb_plan *plan)
{
    for (int i = 0; i < HYB_SPARE_STATES; i++)
        if (atomic_load_explicit(&plan->spare[i], memory_order_relaxed)) {
            hyb_state *state =
                atomic_exchange_explicit(&plan->spare[i], NULL, memory_order_acquire);
            if (state)
                return state;
        }
    return make_state(plan);
}

static void give_back(hyb_plan *plan, hyb_state *state)
{
    for (int i = 0; i < HYB_SPARE_STATES; i++) {
        hyb_state *empty = NULL;
        if (atomic_compare_exchange_strong_explicit(&plan->spare[i], &empty, state,
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
    hyb_free(state);
}

hyb_status hyb_plan_run(hyb_plan *plan, void *const *externals)
{
    if (plan->on_stack) {
        void *data[HYB_STACK_OPERANDS];
        for (int32_t i = 0; i < plan->n_operands; i++)
            data[i] = plan->data[i];
        return run_steps(&(hyb_run){.plan = plan, .externals = externals, .data = data,
                                    .until_poll = 1, .between_polls = 1});
    }
    hyb_state *state = take_state(plan);
    if (!state || (plan->shares_arena && !take_arena(plan, state))) {
        if (state)
            give_back(plan, state);
        hyb_set_last_step(-1);
        return HYB_NO_MEMORY;
    }
    const hyb_status status = run_steps(&(hyb_run){.plan = plan,
                                                   .externals = externals,
                                                   .data = state->data,
                                                   .arena = state->arena,
                                                   .addresses = state->addresses,
                                                   .coming = state->coming,
                                                   .until_poll = 1,
                                                   .between_polls = 1});
    if (plan->shares_arena)
        hyb_free(state->arena);
    give_back(plan, state);
    return status;
}

static hyb_status run_with(hyb_plan *plan, void *const *externals, int32_t n)
{
    if (plan->n_externals == n)
        return hyb_plan_run(plan, externals);
    hyb_set_last_step(-1);
    return hyb_fail(HYB_BAD_ARGUMENT, "the plan takes %d externals, %d were given",
                    plan->n_externals, n);
}

hyb_status hyb_run1(hyb_plan *plan, void *out, const void *a)
{
    void *const externals[] = {out, (void *)a};
    return run_with(plan, externals, 2);
}

hyb_status hyb_run2(hyb_plan *plan, void *out, const void *a, const void *b)
{
    void *const externals[] = {out, (void *)a, (void *)b};
    return run_with(plan, externals, 3);
}

hyb_status hyb_run3(hyb_plan *plan, void *out, const void *a, const void *b, const void *c)
{
    void *const externals[] = {out, (void *)a, (void *)b, (void *)c};
    return run_with(plan, externals, 4);
}
