/* plan.c - makes plans: checks the spec, looks up kernels, and lays out what running needs. */
#include "runtime/build/plan_build.h"

/* An output may share its bytes with nothing, but for elementwise kernels, which may overwrite an
 * input exactly, and those that may overwrite the first. */
static hyb_status check_overlaps(const hyb_builder *builder, const hyb_step *step,
                                 const hyb_kernel *kernel)
{
    const hyb_operand *operands = builder->spec->operands + step->first_operand;
    const int32_t n = kernel->n_in + kernel->n_out;
    for (int32_t o = kernel->n_in; o < n; o++) {
        const hyb_operand *out = &operands[o];
        for (int32_t i = 0; i < o; i++) {
            const hyb_operand *other = &operands[i];
            const bool allowed = (kernel->flags & HYB_ELEMENTWISE)
                || ((kernel->flags & HYB_IN_PLACE) && i == 0 && o == kernel->n_in);
            const bool replaced = i < kernel->n_in && allowed
                && hyb_coincide(builder, out, other) && hyb_is_contiguous(&other->layout)
                && hyb_itemsize(other->layout.dtype) == hyb_itemsize(out->layout.dtype);
            if (!replaced && hyb_operands_meet(builder, out, other))
                return hyb_refuse(builder, "output %d of %s overlaps its operand %d",
                                  o - kernel->n_in, kernel->name, i);
        }
    }
    return HYB_OK;
}

static hyb_status prepare(const hyb_builder *builder, const hyb_kernel *kernel,
                          const hyb_call *call, hyb_range *range)
{
    *range = (hyb_range){0, 1};
    const hyb_status status = kernel->prepare(call, range);
    if (status != HYB_OK)
        return hyb_refuse_kernel(builder, kernel, status);
    if (range->n < 0 || range->grain < 1)
        return hyb_refuse(builder, "%s gave a range of %lld units in grains of %lld", kernel->name,
                          (long long)range->n, (long long)range->grain);
    return HYB_OK;
}

static hyb_status make_kernel_step(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_kernel *kernel;
    TRY(hyb_check_kernel(builder, step->kernel, &kernel));
    if (step->n_ops > 0 && !(kernel->flags & (HYB_POST_OPS | HYB_PRE_OPS)))
        return hyb_refuse(builder, "%s takes no post-ops", kernel->name);
    const bool more_outputs = step->n_ops > 0 && step->n_out > kernel->n_out;
    if (step->n_in != kernel->n_in || (step->n_out != kernel->n_out && !more_outputs)
        || step->n_attrs != kernel->n_attrs)
        return hyb_refuse(builder,
                          "%s has %d inputs, %d outputs and %d attributes, not %d, %d and %d",
                          kernel->name, kernel->n_in, kernel->n_out, kernel->n_attrs, step->n_in,
                          step->n_out, step->n_attrs);
    if (step->n_extra > 0 && step->n_ops == 0)
        return hyb_refuse(builder, "extra operands without post-ops");
    const bool feeds = step->n_ops > 0 && (kernel->flags & HYB_PRE_OPS);
    if (feeds != (kernel->n_in > 0 && spec->operands[step->first_operand].slot < 0))
        return hyb_refuse(builder, feeds ? "%s has an input and pre-ops to make it"
                                         : "the first input of %s lies nowhere", kernel->name);
    TRY(check_overlaps(builder, step, kernel));

    const int32_t n = kernel->n_in + kernel->n_out;
    hyb_layout *layouts = hyb_reserve(builder, (size_t)n * sizeof(hyb_layout));
    if (!layouts)
        return HYB_NO_MEMORY;
    for (int32_t i = 0; i < n; i++)
        layouts[i] = spec->operands[step->first_operand + i].layout;
    hyb_attr *attrs = hyb_reserve(builder, (size_t)step->n_attrs * sizeof(hyb_attr));
    if (!attrs)
        return HYB_NO_MEMORY;
    if (step->n_attrs > 0)
        memcpy(attrs, spec->attrs + step->first_attr, (size_t)step->n_attrs * sizeof(hyb_attr));

    *made = (hyb_plan_step){.run = kernel->run,
                            .layout = layouts,
                            .attrs = attrs,
                            .name = kernel->name,
                            .first_operand = step->first_operand};
    hyb_map *map = NULL;
    hyb_pre pre = {0};
    if (feeds) {
        TRY(hyb_make_map(builder, step, kernel, &map));
        pre.work = map->work;
    }
    const hyb_call call = {layouts, NULL, attrs, NULL, feeds ? &pre : NULL};
    TRY(prepare(builder, kernel, &call, &made->range));
    if (step->n_ops > 0 && !feeds)
        TRY(hyb_make_map(builder, step, kernel, &map));
    made->map = map;
    return HYB_OK;
}

/* A map of a single op on operands that need no gathering is that kernel, called once per chunk,
 * not per tile. */
static hyb_status make_single(hyb_builder *builder, const hyb_step *step, const hyb_map *map,
                              hyb_plan_step *made)
{
    const hyb_map_call *op = &map->calls[0];
    const hyb_kernel *kernel = hyb_kernel_at(builder->spec->ops[step->first_op].kernel);
    hyb_layout *layouts = hyb_reserve(builder, (size_t)op->n_args * sizeof(hyb_layout));
    if (!layouts)
        return HYB_NO_MEMORY;
    for (int32_t i = 0; i < op->n_args; i++) {
        layouts[i] = op->layout[i];
        layouts[i].shape[0] = map->elements;
    }
    *made = (hyb_plan_step){.run = kernel->run,
                            .layout = layouts,
                            .attrs = op->attrs,
                            .name = kernel->name,
                            .first_operand = step->first_operand};
    const hyb_call call = {layouts, NULL, op->attrs, NULL, NULL};
    return prepare(builder, kernel, &call, &made->range);
}

static bool is_single(const hyb_step *step, const hyb_map *map)
{
    if (map->n_calls != 1 || map->outer_rank > 0 || map->n_gathered > 0 || map->n_tile_buffers > 0)
        return false;
    for (int32_t i = 0; i < map->calls[0].n_args; i++)
        if (map->calls[0].value[i] != i)
            return false;
    return map->calls[0].n_args == step->n_in + step->n_out;
}

static hyb_status make_map_step(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    if (step->kernel != -1 || step->n_attrs != 0 || step->n_extra != 0 || step->n_ops < 1)
        return hyb_refuse(builder,
                          "a map has ops, and no kernel, attributes or extra operands of its own");
    hyb_map *map;
    TRY(hyb_make_map(builder, step, NULL, &map));
    *made = (hyb_plan_step){.map = map, .name = "map", .first_operand = step->first_operand};
    return is_single(step, map) ? make_single(builder, step, map, made) : HYB_OK;
}

static hyb_status make_steps(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    hyb_plan_step *steps = hyb_reserve(builder, (size_t)spec->n_steps * sizeof(hyb_plan_step));
    if (!steps)
        return HYB_NO_MEMORY;
    for (builder->step = 0; builder->step < spec->n_steps; builder->step++) {
        const hyb_step *step = &spec->steps[builder->step];
        TRY(hyb_check_step(builder, step));
        hyb_plan_step *made = &steps[builder->step];
        switch (step->kind) {
        case HYB_STEP_KERNEL: TRY(make_kernel_step(builder, step, made)); break;
        case HYB_STEP_MAP: TRY(make_map_step(builder, step, made)); break;
        default: TRY(hyb_make_control(builder, step, made)); break;
        }
        made->kind = step->kind;
    }
    builder->plan->steps = steps;
    return HYB_OK;
}

/* Where each operand's address comes from: constants are copied into the plan, the rest is known
 * when it runs. */
static hyb_status make_addresses(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    hyb_plan *plan = builder->plan;
    const size_t n = (size_t)spec->n_operands;
    void **data = hyb_reserve(builder, n * sizeof(void *));
    hyb_patch *patches = hyb_reserve(builder, n * sizeof(hyb_patch));
    hyb_patch *arena =
        spec->arena_nbytes > 0 ? hyb_reserve(builder, n * sizeof(hyb_patch)) : patches;
    char *constants = hyb_reserve(builder, (size_t)spec->constants_nbytes + 64);
    if (!data || !patches || !arena || !constants)
        return HYB_NO_MEMORY;
    constants += 63 - ((uintptr_t)constants + 63) % 64;
    if (spec->constants_nbytes > 0)
        memcpy(constants, spec->constants, (size_t)spec->constants_nbytes);

    for (int32_t i = 0; i < spec->n_operands; i++) {
        const hyb_operand *operand = &spec->operands[i];
        if (operand->slot < 0)
            continue; /* pre-ops make it */
        const hyb_slot *slot = &spec->slots[operand->slot];
        if (slot->kind == HYB_SLOT_EXTERNAL)
            patches[plan->n_patches++] = (hyb_patch){i, slot->external, operand->offset};
        else if (slot->kind == HYB_SLOT_CONSTANT)
            data[i] = constants + slot->offset + operand->offset;
        else if (!hyb_is_fixed(slot))
            continue; /* its slot will say */
        else if (spec->arena_nbytes > 0)
            arena[plan->n_arena++] = (hyb_patch){i, 0, slot->offset + operand->offset};
        else
            data[i] = constants; /* an empty value in an empty arena: any address does */
    }
    plan->data = data;
    plan->patches = patches;
    plan->arena = arena;
    plan->n_operands = spec->n_operands;
    plan->n_externals = spec->n_externals;
    plan->arena_nbytes = spec->arena_nbytes;
    plan->constants = constants;
    plan->on_stack = spec->arena_nbytes == 0 && spec->n_operands <= HYB_STACK_OPERANDS
        && plan->n_movers == 0;
    return HYB_OK;
}

static hyb_status keep_slots(hyb_builder *builder)
{
    const hyb_plan_spec *spec = builder->spec;
    if (spec->n_slots == 0)
        return HYB_OK;
    hyb_slot *slots = hyb_reserve(builder, (size_t)spec->n_slots * sizeof(hyb_slot));
    if (!slots)
        return HYB_NO_MEMORY;
    memcpy(slots, spec->slots, (size_t)spec->n_slots * sizeof(hyb_slot));
    builder->plan->slots = slots;
    builder->plan->n_slots = spec->n_slots;
    builder->plan->poison = spec->poison && spec->arena_nbytes > 0;
    return HYB_OK;
}

hyb_plan *hyb_plan_create(const hyb_plan_spec *spec)
{
    if (!spec)
        hyb_fail(HYB_BAD_ARGUMENT, "a plan needs a spec");
    if (!spec || hyb_init() != HYB_OK)
        return NULL;
    hyb_region *region = hyb_alloc(HYB_REGION_BYTES);
    if (!region)
        return NULL;
    const size_t header = (sizeof(hyb_region) + 15) / 16 * 16;
    *region = (hyb_region){NULL, header + sizeof(hyb_plan), HYB_REGION_BYTES};
    region->used = (region->used + 15) / 16 * 16;
    hyb_plan *plan = memset((char *)region + header, 0, sizeof(hyb_plan));
    plan->regions = region;

    static _Atomic int64_t made;
    plan->number = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;

    hyb_builder builder = {.spec = spec, .plan = plan};
    if (hyb_check_spec(&builder) == HYB_OK && hyb_make_movers(&builder) == HYB_OK
        && make_steps(&builder) == HYB_OK && hyb_make_groups(&builder) == HYB_OK
        && make_addresses(&builder) == HYB_OK && keep_slots(&builder) == HYB_OK)
        return plan;
    hyb_plan_free(plan);
    return NULL;
}

void hyb_plan_free(hyb_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < HYB_SPARE_STATES; i++)
        hyb_free(atomic_load_explicit(&plan->spare[i], memory_order_acquire));
    for (hyb_region *region = plan->regions, *next; region; region = next) {
        next = region->next; /* the plan itself stands in the last one */
        hyb_free(region);
    }
}

int64_t hyb_plan_number(const hyb_plan *plan) { return plan->number; }

void hyb_plan_share_arena(hyb_plan *plan) { plan->shares_arena = plan->arena_nbytes > 0; }

int64_t hyb_plan_nbytes(const hyb_plan *plan)
{
    int64_t nbytes = 0;
    for (const hyb_region *region = plan->regions; region; region = region->next)
        nbytes += (int64_t)region->size;
    return nbytes;
}

int64_t hyb_plan_arena_nbytes(const hyb_plan *plan) { return plan->arena_nbytes; }
