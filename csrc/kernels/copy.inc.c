/* copy.inc.c - the same elements under other strides.
 *
 *   y[i, j, ...] = x[i, j, ...]
 *
 * Split      by elements in the order of the output's memory, or by panels of a transpose.
 * Layout     x: any strides, 0 and negative too; y: any strides that do not overlap; ranks to 8.
 * In place   not allowed.
 * Exact      bytes are moved, so one implementation per item size serves all dtypes.
 *
 * The axes are put in order of the output's strides and merged where both sides allow; what is left
 * is either lines along the innermost axis (of items repeated a few times each, where the input
 * repeats itself along the very innermost one) or, when the input is dense along another axis, a
 * transpose.
 */
#pragma once

#include "kernels/elementwise.inc.c"
#include "kernels/operands.inc.c"

enum {
    COPY_PANEL_BYTES = 64, /* of every input row that a transpose takes at once: a cache line */
    COPY_MIN_TILE = 8,     /* both sides of a transpose are at least this long */
    COPY_MOST_TIMES = 32,  /* of an item that is repeated within a line */
    COPY_GRAIN = 32768     /* elements */
};

typedef struct { int64_t size, from, to; } copy_axis; /* strides in bytes */

typedef struct {
    int32_t   rank;       /* at least 1: a single element is an axis of size 1 */
    int32_t   outer;      /* axes walked one by one: rank - 1, or rank - 2 for a transpose */
    copy_axis axis[HYB_MAX_RANK];
    int64_t   from, to;   /* where the first element lies */
    int64_t   item;
    int64_t   times;      /* how often each item comes in a row; 1: once */
    int64_t   panels;     /* panels of one transpose; 0: lines */
    int64_t   units;
} copy_plan;

/* Item numbers for __builtin_shufflevector: LANES / 2 pairs from i on, of an item of the first
 * vector and the item at the same place of the second; then that in each 16 bytes of a vector. */
#define COPY_GROUPS (HYB_VECTOR_BYTES / 16)
#define COPY_PAIRS_1(i) (i), (i) + LANES * COPY_GROUPS
#define COPY_PAIRS_2(i) COPY_PAIRS_1(i), COPY_PAIRS_1((i) + 1)
#define COPY_PAIRS_4(i) COPY_PAIRS_2(i), COPY_PAIRS_2((i) + 2)
#define COPY_PAIRS_8(i) COPY_PAIRS_4(i), COPY_PAIRS_4((i) + 4)
#if HYB_VECTOR_BYTES == 64
#define COPY_EACH_GROUP(pairs, i) \
    pairs(i), pairs((i) + LANES), pairs((i) + 2 * LANES), pairs((i) + 3 * LANES)
#elif HYB_VECTOR_BYTES == 32
#define COPY_EACH_GROUP(pairs, i) pairs(i), pairs((i) + LANES)
#else
#define COPY_EACH_GROUP(pairs, i) pairs(i)
#endif

/* Sixteen bytes of each of COPY_GROUPS rows. */
typedef uint64_t copy_piece __attribute__((vector_size(16)));
typedef uint64_t copy_pieces __attribute__((vector_size(HYB_VECTOR_BYTES)));

static inline copy_pieces copy_load_pieces(const char *from, int64_t row_stride)
{
    copy_piece piece[COPY_GROUPS];
    for (int g = 0; g < COPY_GROUPS; g++)
        memcpy(&piece[g], from + g * row_stride, sizeof piece[g]);
#if HYB_VECTOR_BYTES == 64
    return __builtin_shufflevector(__builtin_shufflevector(piece[0], piece[1], 0, 1, 2, 3),
                                   __builtin_shufflevector(piece[2], piece[3], 0, 1, 2, 3),
                                   0, 1, 2, 3, 4, 5, 6, 7);
#elif HYB_VECTOR_BYTES == 32
    return __builtin_shufflevector(piece[0], piece[1], 0, 1, 2, 3);
#else
    return piece[0];
#endif
}

#define T uint8_t
#define N(name) name##_1
#define LANES 16
#define PAIRS(i) COPY_PAIRS_8(i)
#include "kernels/copy_item.inc.c"

#define T uint16_t
#define N(name) name##_2
#define LANES 8
#define PAIRS(i) COPY_PAIRS_4(i)
#include "kernels/copy_item.inc.c"

#define T uint32_t
#define N(name) name##_4
#define LANES 4
#define PAIRS(i) COPY_PAIRS_2(i)
#include "kernels/copy_item.inc.c"

#define T uint64_t
#define N(name) name##_8
#define LANES 2
#define PAIRS(i) COPY_PAIRS_1(i)
#include "kernels/copy_item.inc.c"

/* The axes longer than 1, the output's strides made positive, longest first. */
static void copy_sort_axes(const hyb_layout *x, const hyb_layout *y, copy_plan *plan)
{
    for (int32_t i = 0; i < x->rank; i++) {
        copy_axis a = {x->shape[i], x->strides[i], y->strides[i]};
        if (a.size == 1)
            continue;
        if (a.to < 0) {
            plan->from += (a.size - 1) * a.from;
            plan->to += (a.size - 1) * a.to;
            a.from = -a.from;
            a.to = -a.to;
        }
        int32_t at = plan->rank++;
        for (; at > 0 && plan->axis[at - 1].to < a.to; at--)
            plan->axis[at] = plan->axis[at - 1];
        plan->axis[at] = a;
    }
}

/* Neighbours that both sides step through as one axis become one. */
static void copy_merge_axes(copy_plan *plan)
{
    int32_t last = 0;
    for (int32_t i = 1; i < plan->rank; i++) {
        copy_axis *a = &plan->axis[last];
        const copy_axis b = plan->axis[i];
        if (a->to == b.size * b.to && a->from == b.size * b.from)
            *a = (copy_axis){a->size * b.size, b.from, b.to};
        else
            plan->axis[++last] = b;
    }
    if (plan->rank == 0)
        plan->axis[0] = (copy_axis){1, plan->item, plan->item};
    plan->rank = last + 1;
}

/* Moves the axis along which the input is dense next to the innermost, where the output is. */
static void copy_find_transpose(copy_plan *plan)
{
    const copy_axis *inner = &plan->axis[plan->rank - 1];
    if (inner->to != plan->item || inner->from == plan->item || inner->from == 0 ||
        inner->size < COPY_MIN_TILE)
        return;
    for (int32_t i = plan->rank - 2; i >= 0; i--) {
        const copy_axis a = plan->axis[i];
        if (a.from != plan->item || a.size < COPY_MIN_TILE)
            continue;
        for (; i < plan->rank - 2; i++)
            plan->axis[i] = plan->axis[i + 1];
        plan->axis[i] = a;
        const int64_t panel = COPY_PANEL_BYTES / plan->item;
        plan->panels = (a.size + panel - 1) / panel;
        plan->outer--;
        return;
    }
}

/* Takes an innermost axis along which the input repeats itself for what it is. */
static void copy_find_times(copy_plan *plan)
{
    const copy_axis inner = plan->axis[plan->rank - 1];
    if (plan->rank > 1 && inner.from == 0 && inner.to == plan->item &&
        inner.size <= COPY_MOST_TIMES && plan->axis[plan->rank - 2].to == inner.size * plan->item) {
        plan->times = inner.size;
        plan->rank--;
    }
}

static copy_plan copy_plan_of(const hyb_call *call)
{
    const hyb_layout *x = &call->layout[0], *y = &call->layout[1];
    copy_plan plan = {.item = hyb_itemsize(x->dtype), .times = 1};
    if (hyb_elements(y) == 0)
        return (copy_plan){
            .rank = 1, .axis = {{1, plan.item, plan.item}}, .item = plan.item, .times = 1};
    copy_sort_axes(x, y, &plan);
    copy_merge_axes(&plan);
    copy_find_times(&plan);
    plan.outer = plan.rank - 1;
    copy_find_transpose(&plan);
    plan.units = plan.panels > 0 ? plan.panels : plan.axis[plan.rank - 1].size;
    for (int32_t i = 0; i < plan.outer; i++)
        plan.units *= plan.axis[i].size;
    return plan;
}

/* The outer axes as an odometer: where the current line or panel stands. */
typedef struct { int64_t at[HYB_MAX_RANK], from, to; } copy_position;

static copy_position copy_start(const copy_plan *plan, int64_t index)
{
    copy_position p = {.from = plan->from, .to = plan->to};
    for (int32_t i = plan->outer - 1; i >= 0; i--) {
        const copy_axis *a = &plan->axis[i];
        p.at[i] = index % a->size;
        index /= a->size;
        p.from += p.at[i] * a->from;
        p.to += p.at[i] * a->to;
    }
    return p;
}

static inline void copy_advance(const copy_plan *plan, copy_position *p)
{
    for (int32_t i = plan->outer - 1; i >= 0; i--) {
        const copy_axis *a = &plan->axis[i];
        p->from += a->from;
        p->to += a->to;
        if (++p->at[i] < a->size)
            return;
        p->at[i] = 0;
        p->from -= a->size * a->from;
        p->to -= a->size * a->to;
    }
}

static void copy_line(const copy_plan *plan, const char *from, int64_t from_step, char *to,
                      int64_t to_step, int64_t n)
{
    const int64_t item = plan->item, times = plan->times;
    if (times > 1) {
        switch (item) {
        case 1: copy_times_1(from, from_step, to, times, n); break;
        case 2: copy_times_2(from, from_step, to, times, n); break;
        case 4: copy_times_4(from, from_step, to, times, n); break;
        default: copy_times_8(from, from_step, to, times, n); break;
        }
        return;
    }
    if (from_step == item && to_step == item) {
        memcpy(to, from, (size_t)(n * item));
        return;
    }
    switch (item) {
    case 1: copy_line_1(from, from_step, to, to_step, n); break;
    case 2: copy_line_2(from, from_step, to, to_step, n); break;
    case 4: copy_line_4(from, from_step, to, to_step, n); break;
    default: copy_line_8(from, from_step, to, to_step, n); break;
    }
}

static void copy_lines(const copy_plan *plan, const char *x, char *y, int64_t begin, int64_t end)
{
    const copy_axis inner = plan->axis[plan->rank - 1];
    int64_t first = begin % inner.size; /* only the first line starts inside */
    copy_position p = copy_start(plan, begin / inner.size);
    while (begin < end) {
        const int64_t n = inner.size - first < end - begin ? inner.size - first : end - begin;
        copy_line(plan, x + p.from + first * inner.from, inner.from,
                  y + p.to + first * inner.to, inner.to, n);
        begin += n;
        first = 0;
        copy_advance(plan, &p);
    }
}

static void copy_panels(const copy_plan *plan, const char *x, char *y, int64_t begin, int64_t end)
{
    const copy_axis *across = &plan->axis[plan->rank - 2]; /* dense in the input */
    const copy_axis *along = &plan->axis[plan->rank - 1];  /* dense in the output */
    const int64_t panel = COPY_PANEL_BYTES / plan->item;
    for (int64_t unit = begin; unit < end; unit++) {
        const copy_position p = copy_start(plan, unit / plan->panels);
        const int64_t first = unit % plan->panels * panel;
        const int64_t columns = across->size - first < panel ? across->size - first : panel;
        const char *from = x + p.from + first * across->from;
        char *to = y + p.to + first * across->to;
        switch (plan->item) {
        case 1: copy_panel_1(from, along->from, to, across->to, columns, along->size); break;
        case 2: copy_panel_2(from, along->from, to, across->to, columns, along->size); break;
        case 4: copy_panel_4(from, along->from, to, across->to, columns, along->size); break;
        default: copy_panel_8(from, along->from, to, across->to, columns, along->size); break;
        }
    }
}

HYB_KERNEL(copy)
{
    const copy_plan plan = copy_plan_of(call);
    if (plan.panels > 0)
        copy_panels(&plan, call->data[0], call->data[1], begin, end);
    else
        copy_lines(&plan, call->data[0], call->data[1], begin, end);
    return HYB_OK;
}

/* Strides are whole items and what they span can be added up without overflow. */
static bool copy_strides_are_sane(const hyb_layout *layout, int64_t item)
{
    int64_t span = 0;
    for (int32_t i = 0; i < layout->rank; i++) {
        const int64_t stride = layout->strides[i];
        int64_t reach;
        if (layout->shape[i] < 2)
            continue;
        if (stride % item != 0 || stride == INT64_MIN ||
            __builtin_mul_overflow(layout->shape[i], stride < 0 ? -stride : stride, &reach) ||
            __builtin_add_overflow(span, reach, &span))
            return false;
    }
    return span <= INT64_MAX / 4;
}

HYB_PREPARE(prepare_copy)
{
    const hyb_layout *x = &call->layout[0], *y = &call->layout[1];
    if (!sizes_are_sane(x) || !sizes_are_sane(y))
        return hyb_fail(HYB_BAD_ARGUMENT, "an operand has a bad dtype, rank or size");
    if (x->dtype != y->dtype || !hyb_same_shape(x, y))
        return hyb_fail(HYB_BAD_ARGUMENT, "the operands of a copy differ in dtype or shape");
    const int64_t item = hyb_itemsize(x->dtype);
    if (!copy_strides_are_sane(x, item) || !copy_strides_are_sane(y, item))
        return hyb_fail(HYB_BAD_ARGUMENT, "an operand's strides split items or overflow");

    copy_plan plan = {.item = item};
    copy_sort_axes(x, y, &plan);
    int64_t span = item; /* bytes from first to last of what the axes further in write */
    for (int32_t i = plan.rank - 1; hyb_elements(y) > 0 && i >= 0; i--) {
        if (plan.axis[i].to < span)
            return hyb_fail(HYB_BAD_ARGUMENT, "the output of a copy overlaps itself");
        span += plan.axis[i].to * (plan.axis[i].size - 1);
    }

    plan = copy_plan_of(call);
    const int64_t length = plan.axis[plan.rank - 1].size;
    const int64_t unit = plan.panels > 0 ? COPY_PANEL_BYTES / item * length : plan.times;
    *range = (hyb_range){plan.units, (COPY_GRAIN + unit - 1) / unit};
    return HYB_OK;
}

#define COPY_ROW(dtype) HYB_TABLE_ROW(copy, dtype, 1, 1, 0, HYB_PLAIN, prepare_copy, copy)

#define COPY_ROW_OF(t) COPY_ROW(HYB_DTYPE_##t)

const hyb_kernel HYB_SYM(hyb_copy_kernels)[] = {
    COPY_ROW(HYB_BOOL)
    COPY_ROW(HYB_F16)
    COPY_ROW(HYB_BF16)
    HYB_NUMBERS(COPY_ROW_OF)
    {0},
};
