/* plan_run.h - what a plan is once it is made: everything looked up, checked and laid out. */
#ifndef HYB_PLAN_RUN_H
#define HYB_PLAN_RUN_H
#include "runtime/base/number_text.h"
#include "runtime/base/runtime.h"

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
    int64_t period; /* gathered, and tiles of a stretch have the same elements within each period of so
                     * many; or 0 */
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
    bool single_tile;   /* and nothing to gather */
    int32_t outer_rank; /* axes of the space that number the rows */
    int32_t n_operands, n_tile_buffers, n_gathered, n_direct, n_calls;
    const hyb_view *views;
    const int32_t *gathered, *direct; /* the views of either kind */
    const hyb_map_call *calls;
    size_t buffer_bytes, values_bytes, scratch_bytes;
    bool feeds;    /* pre-ops: they make operand 0, wherever they are told to */
    int32_t step;  /* bytes from one element of that to the next */
    double work;   /* of one element, as a share of a task */
} hyb_map;

/* Where an operand's address comes from. */
typedef struct {
    int32_t operand;
    int32_t external; /* unused elsewhere */
    int64_t offset;
} hyb_patch;

/* A slot that moves; it has a place among the addresses of a run. */
typedef struct {
    hyb_slot slot;
    int32_t address, n_patches;
    const hyb_patch *patches; /* the operands in it */
} hyb_mover;

/* What a step prints, or says when it ends the run. */
typedef struct {
    const char *literal; /* before the number, or array */
    int32_t n_literal;
    int32_t operand;     /* of the step; -1: nothing follows */
    hyb_layout layout;   /* of that operand, which is dense */
    bool is_array;
    hyb_number_format format;
} hyb_message_part;

typedef struct {
    const hyb_message_part *parts;
    int32_t n_parts, stream; /* stream: 0 where it ends the run */
    int64_t room;            /* bytes that it has at most */
} hyb_message;

/* What a step moves between processes. */
typedef struct {
    int32_t channel, kind, root;
    int32_t place; /* among the transfers under way, where it is waited for later; else -1 */
    int64_t block; /* bytes that go to, or come from, one process */
    atomic_int *agreed; /* whether the ranks have */
} hyb_transfer;

typedef struct hyb_loop hyb_loop;
typedef struct hyb_group hyb_group;

typedef struct {
    hyb_kernel_fn run; /* NULL: the step is its map */
    const hyb_layout *layout;
    const hyb_attr *attrs;
    hyb_range range;
    const hyb_map *map; /* the step itself, or the kernel's post- or pre-ops; NULL: none */
    const char *name;
    int32_t first_operand;
    int32_t kind;
    int32_t host;         /* the number of a host step */
    int32_t n_in, n_out;  /* of a step that asks a queue */
    int32_t n_kept;       /* the last outputs of such a step, which are the inputs after the first */
    const int64_t *nbytes; /* of its outputs */
    const hyb_mover *const *lent; /* the slots of what it asks for, which go where that is; or NULL */
    bool counts;          /* a loop with an output */
    const hyb_loop *loop; /* what a control step owns */
    const hyb_group *group; /* what a parallel step runs */
    const hyb_message *message;
    const hyb_transfer *transfer;
} hyb_plan_step;

/* A control step.  `moves` speak of places among the addresses. */
struct hyb_loop {
    hyb_block body, otherwise;
    int32_t n_rows, n_carried, n_moves;
    const hyb_mover **rows, **carried;
    const hyb_mover **to; /* of each move */
    const int32_t *from;
    int64_t limit;
    bool reverse, asks; /* asks: a queue, in each iteration */
};

/* Some members of a group, whole, or the chunks of one. */
typedef struct {
    int64_t first;             /* number of its first task; the chunks of a member are tasks */
    int32_t member, n_members; /* one, if it has chunks */
    int32_t chunks;            /* 1: its members are one task */
} hyb_share;

struct hyb_group {
    const hyb_block *members;
    const hyb_share *shares; /* one more than there are: its first is the number of all tasks */
    int32_t n_members, n_shares;
    int64_t n_tasks;
};

/* What a run needs: the addresses of all operands; of slots that move, each with a second place
 * for the address to come; and the arena. */
typedef struct {
    char *arena; /* of one that is shared: where the last run had it */
    char **addresses, **coming;
    void *data[];
} hyb_state;

typedef struct hyb_recording hyb_recording;

typedef union {
    int number;
    void *pointer;
} hyb_handle;

/* A transfer that has begun, and is waited for later. */
typedef struct {
    const hyb_plan_step *step; /* that has begun it; NULL: none */
    hyb_handle request;
    int32_t index; /* of that step */
    bool over;
} hyb_under_way;

/* A run under way. */
typedef struct {
    const struct hyb_plan *plan;
    void *const *externals;
    void **data;
    char *arena, **addresses, **coming;
    int64_t until_poll, between_polls; /* iterations */
    int64_t iterations, since_look;    /* done at the last look; from there to the next one */
    int64_t last_look, last_poll;      /* ns */
    int32_t asking;                    /* loops that ask a queue, and see to being interrupted */
    int32_t n_under_way;               /* transfers */
    hyb_under_way under_way[HYB_MOST_UNDER_WAY];
    hyb_recording *recording;          /* NULL: none */
} hyb_run;

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
    int32_t n_operands, n_externals, n_patches, n_arena, n_slots, n_movers;
    bool on_stack, poison, shares_arena;
    hyb_block main;
    const hyb_plan_step *steps;
    const hyb_patch *patches; /* operands in external slots */
    const hyb_patch *arena;   /* operands in the arena */
    void *const *data;        /* addresses of the operands that are constants, NULL elsewhere */
    const hyb_slot *slots;    /* for poison, and for slots that move */
    const hyb_mover *movers;
    const int32_t *mover_of; /* of each slot: -1 for those that stay */
    char *constants;
    int64_t arena_nbytes, number;
    int64_t budget; /* iterations of a run; 0: any number */
    hyb_host_fn host;
    void *host_context;
    hyb_region *regions;
    _Atomic(hyb_state *) spare[HYB_SPARE_STATES];
};

/* control.c */
void hyb_start_movers(hyb_run *run); /* to where they start */
hyb_status hyb_run_control(hyb_run *run, const hyb_plan_step *step, int32_t index);
/* What gives the next batch of a queue: hyb_queue_next, which leaves a batch of the ring where it is,
 * and says where: that is the caller's until it asks again.  A batch that there is no place for is put
 * into `out`: lent[0] is NULL then. */
typedef hyb_status (*hyb_batch_fn)(int64_t number, void *const *out, const int64_t *nbytes,
                                   int32_t n_out, void **lent);
void hyb_set_batches(hyb_batch_fn next);

/* profile.c */
hyb_recording *hyb_recording_enter(void); /* NULL: nothing is recorded; else leave it */
void hyb_recording_leave(hyb_recording *recording);
void hyb_record(hyb_recording *recording, const hyb_plan *plan, int32_t step, int64_t begin);
void hyb_record_part(hyb_recording *recording, const hyb_plan *plan, int32_t step, int64_t begin,
                     int32_t part, int32_t parts);
void hyb_record_batch(hyb_recording *recording, int64_t queue, int64_t batch, int64_t begin);

/* message.c */
hyb_status hyb_run_message(hyb_run *run, const hyb_plan_step *step, int32_t index);

/* channel.c */
hyb_status hyb_run_transfer(hyb_run *run, const hyb_plan_step *step, int32_t index);
/* Lets the transfers under way get on. */
void hyb_move_on(hyb_run *run);
/* Waits for all of them, when a run that ends with `status` leaves some: what it ends with then. */
hyb_status hyb_end_transfers(hyb_run *run, hyb_status status);

/* step.c */
hyb_status hyb_run_block(hyb_run *run, hyb_block block);
/* The units of a plain step, as parallel_for would get them, and some of them on this thread. */
hyb_range hyb_step_range(const hyb_plan_step *step);
hyb_status hyb_run_units(const hyb_plan_step *step, void *const *data, int64_t begin, int64_t end);
void hyb_poison_slots(const hyb_plan *plan, int32_t step, char *arena);

/* parallel.c */
hyb_status hyb_run_group(hyb_run *run, const hyb_group *group);

/* space.c */
/* The space of those of `n` operands whose views are used (one at least; all of one shape), and the
 * views' strides and item sizes over it. */
void hyb_make_space(const hyb_operand *operands, int32_t n, hyb_space *space, hyb_view *views);
/* Copies elements [begin, begin + count) of an operand of the space, dense, to `out`. */
void hyb_gather(void *out, const void *data, const hyb_space *space, const hyb_view *view,
                int64_t begin, int64_t count);

/* map.c */
hyb_status hyb_map_run(const hyb_map *map, void *const *data);
hyb_status hyb_map_tiles(const hyb_map *map, void *const *data, int64_t begin, int64_t end);
/* Elements [begin, begin + count): where post-ops come in.  `made` is where pre-ops make theirs. */
hyb_status hyb_map_stretch(const hyb_map *map, void *const *data, void *made, int64_t begin,
                           int64_t count);
/* And over `rows` such stretches, whose starts are `step` elements apart. */
hyb_status hyb_map_rows(const hyb_map *map, void *const *data, void *made, int64_t begin,
                        int64_t count, int64_t rows, int64_t step);
#endif
