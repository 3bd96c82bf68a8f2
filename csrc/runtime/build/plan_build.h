/* plan_build.h - what the files that make plans share. */
#ifndef HYB_PLAN_BUILD_H
#define HYB_PLAN_BUILD_H
#include "runtime/run/plan_run.h"

enum { HYB_REGION_BYTES = 2048 }; /* of the first region: enough for a plan of one step */

/* While a plan is made. */
typedef struct {
    const hyb_plan_spec *spec;
    hyb_plan *plan;
    int32_t step;         /* the one being made */
    const int32_t *block; /* of each step */
    const int32_t *owner; /* of each block: a step; -1 for the first */
    const int64_t *grain; /* of each slot: a power of 2 that divides its addresses */
    /* Of each carried slot: the next in the ring of those that go round the same places; and the
     * row that it comes to, or -1. */
    const int32_t *next, *row;
} hyb_builder;

/* builder.c */
void *hyb_reserve(hyb_builder *builder, size_t nbytes); /* zeroed; lives as long as the plan */
hyb_status hyb_refuse(const hyb_builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts the step and the kernel's name before the text of a failed `prepare`. */
hyb_status hyb_refuse_kernel(const hyb_builder *builder, const hyb_kernel *kernel,
                             hyb_status status);
hyb_status hyb_check_kernel(const hyb_builder *builder, int32_t index, const hyb_kernel **kernel);
bool hyb_in_range(int64_t first, int64_t count, int64_t all);

/* validate.c: what can be said of a spec without its kernels. */
hyb_status hyb_check_spec(hyb_builder *builder);
hyb_status hyb_check_step(const hyb_builder *builder, const hyb_step *step);

/* blocks.c: blocks, loops and the slots that move. */
hyb_status hyb_check_blocks(hyb_builder *builder);
hyb_status hyb_check_movers(hyb_builder *builder);
hyb_status hyb_check_control(const hyb_builder *builder, const hyb_step *step);
/* Whether step `inner` runs inside a block of step `outer`. */
bool hyb_runs_inside(const hyb_builder *builder, int32_t inner, int32_t outer);

/* overlap.c: which bytes may be the same, wherever slots move. */
bool hyb_operands_meet(const hyb_builder *builder, const hyb_operand *a, const hyb_operand *b);
bool hyb_slots_meet(const hyb_builder *builder, int32_t a, int32_t b);
/* Whether operands that meet begin and end together. */
bool hyb_coincide(const hyb_builder *builder, const hyb_operand *a, const hyb_operand *b);
bool hyb_is_fixed(const hyb_slot *slot);
const hyb_slot *hyb_root(const hyb_plan_spec *spec, const hyb_slot *slot); /* whose bytes it has */

/* control_make.c */
hyb_status hyb_make_control(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made);
hyb_status hyb_make_movers(hyb_builder *builder);

/* message_make.c: a step that prints or fails. */
hyb_status hyb_check_message(const hyb_builder *builder, const hyb_step *step);
hyb_status hyb_make_message(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made);

/* parallel_make.c */
hyb_status hyb_make_groups(hyb_builder *builder); /* once all steps are made */

/* map_make.c: makes the map of a step; `kernel` is the one whose post- or pre-ops it is, or NULL. */
hyb_status hyb_make_map(hyb_builder *builder, const hyb_step *step, const hyb_kernel *kernel,
                        hyb_map **made);
#endif
