/* plan.h - what a plan is once it is made: everything looked up, checked and laid out. */
#ifndef HYB_PLAN_H
#define HYB_PLAN_H
#include <stdatomic.h>

#include "runtime.h"

#define TRY(expression)                             \
    do {                                            \
        const hyb_status try_status = (expression); \
        if (try_status != HYB_OK)                   \
            return try_status;                      \
    } while (0)

/* The elements of a map's operands, in row-major order of the shape they share.  Neighbouring axes
 * that every operand crosses with one stride are merged, so most maps have rank 1. */
typedef struct {
    int32_t rank;
    int64_t shape[HYB_MAX_RANK];
} hyb_space;

/* One operand of a map. */
typedef struct {
    int64_t strides[HYB_MAX_RANK]; /* bytes, over the map's space */
    int64_t column;                /* bytes from one column to the next: the item size, or 0 */
    int32_t itemsize;
    bool used;
    bool gathered; /* no such step fits: its elements are copied to a buffer, tile by tile */
    bool repeats;  /* gathered, and every tile of a stretch has the same elements */
} hyb_view;

/* One op of a map.  Its arguments' addresses are found in the row of values: the step's operands,
 * then the tile buffers. */
typedef struct {
    hyb_kernel_fn run;
    const hyb_layout *layout;
    const hyb_attr *attrs;
    const int32_t *value;
    int32_t n_args;
} hyb_map_call;

/* A map walks rows of `columns` elements in tiles that never cross a row.  A map whose space does
 * not have long rows is seen as one row, and operands that are not dense in it are gathered. */
typedef struct {
    hyb_space space;
    int64_t elements, columns;
    int64_t tile; /* elements of a tile */
    int64_t tiles_per_row, n_tiles;
    int64_t grain;      /* tiles */
    int32_t outer_rank; /* axes of the space that number the rows */
    int32_t n_operands, n_tile_buffers, n_gathered, n_direct, n_calls;
    const hyb_view *views;
    const int32_t *gathered, *direct; /* the views of either kind */
    const hyb_map_call *calls;
    size_t buffer_bytes, values_bytes, scratch_bytes;
} hyb_map;

typedef struct {
    hyb_kernel_fn run; /* NULL: the step is its map */
    const hyb_layout *layout;
    const hyb_attr *attrs;
    hyb_range range;
    const hyb_map *map; /* the step itself, or the kernel's post-ops; NULL: none */
    const char *name;
    int32_t first_operand;
} hyb_plan_step;

/* Where an operand's address comes from. */
typedef struct {
    int32_t operand;
    int32_t external; /* unused for the arena */
    int64_t offset;
} hyb_patch;

/* What a run needs: the addresses of all operands, and the arena behind them. */
typedef struct {
    char *arena;
    void *data[];
} hyb_state;

/* A piece of the memory that a plan's parts are cut from. */
typedef struct hyb_region {
    struct hyb_region *next;
    size_t used, size; /* bytes, this header included */
} hyb_region;

enum {
    HYB_SPARE_STATES = 8,   /* runs at the same time that reuse their memory */
    HYB_STACK_OPERANDS = 24 /* a plan of so few operands and no arena runs without a state */
};

struct hyb_plan {
    int32_t n_steps, n_operands, n_externals, n_patches, n_arena, n_slots;
    bool on_stack, poison;
    const hyb_plan_step *steps;
    const hyb_patch *patches; /* operands in external slots */
    const hyb_patch *arena;   /* operands in the arena */
    void *const *data;        /* addresses of the operands that are constants, NULL elsewhere */
    const hyb_slot *slots;    /* for poison alone */
    int64_t arena_nbytes;
    hyb_region *regions;
    _Atomic(hyb_state *) spare[HYB_SPARE_STATES];
};

/* While a plan is made. */
typedef struct {
    const hyb_plan_spec *spec;
    hyb_plan *plan;
    int32_t step; /* the one being made */
} hyb_builder;

/* Bytes that an operand touches.  Two operands can meet only in the same space. */
typedef struct {
    int64_t space; /* an external's index, or one of these */
    int64_t low, high;
} hyb_extent;
enum { HYB_SPACE_ARENA = -1, HYB_SPACE_CONSTANTS = -2 };

/* plan.c */
void *hyb_reserve(hyb_builder *builder, size_t nbytes); /* zeroed; lives as long as the plan */
hyb_status hyb_refuse(const hyb_builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts the step and the kernel's name before the text of a failed `prepare`. */
hyb_status hyb_refuse_kernel(const hyb_builder *builder, const hyb_kernel *kernel,
                             hyb_status status);
hyb_status hyb_check_kernel(const hyb_builder *builder, int32_t index, const hyb_kernel **kernel);

/* validate.c: what can be said of a spec without its kernels. */
hyb_status hyb_check_spec(const hyb_plan_spec *spec);
hyb_status hyb_check_step(const hyb_builder *builder, const hyb_step *step);
bool hyb_overlap(hyb_extent a, hyb_extent b);
hyb_extent hyb_operand_extent(const hyb_plan_spec *spec, const hyb_operand *operand);
bool hyb_in_range(int64_t first, int64_t count, int64_t all);

/* map_plan.c: makes the map of a step; `kernel` is the kernel whose post-ops it is, or NULL. */
hyb_status hyb_make_map(hyb_builder *builder, const hyb_step *step, const hyb_kernel *kernel,
                        hyb_map **made);

/* space.c */
/* The space of those of `n` operands whose views are used (one at least; all of one shape), and the
 * views' strides and item sizes over it. */
void hyb_make_space(const hyb_operand *operands, int32_t n, hyb_space *space, hyb_view *views);
/* Copies elements [begin, begin + count) of an operand of the space, dense, to `out`. */
void hyb_gather(void *out, const void *data, const hyb_space *space, const hyb_view *view,
                int64_t begin, int64_t count);

/* map.c */
hyb_status hyb_map_run(const hyb_map *map, void *const *data);
/* Elements [begin, begin + count): where post-ops come in. */
hyb_status hyb_map_stretch(const hyb_map *map, void *const *data, int64_t begin, int64_t count);
#endif
