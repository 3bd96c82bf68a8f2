/* hybrid.h - the whole C interface.
 *
 * A tensor is bytes plus a layout (dtype, shape, strides).  A kernel is one C
 * function over a range of work.  A plan is a list of steps over slots: it is
 * described by flat arrays (hyb_plan_spec), validated once by hyb_plan_create,
 * and then run any number of times, by any number of threads, with no
 * allocation and no further checks.  Steps may own blocks of steps: branches,
 * the bodies of loops, and what runs side by side.
 *
 * Every function that can fail returns hyb_status (or NULL / a negative index)
 * and leaves its text in hyb_last_error() of the calling thread.  Nothing
 * aborts, and nothing prints but steps that are told to (hyb_set_print).
 *
 * The part between the cffi marks is parsed by cffi as it stands: plain C, no
 * #if, no inline functions, integer #defines only.
 */
#ifndef HYBRID_H
#define HYBRID_H
#include <stddef.h>
#include <stdint.h>

#if defined(HYB_SHARED)
#pragma GCC visibility push(default) /* the rest of the library is compiled with -fvisibility=hidden */
#endif

/* cffi: begin */
#define HYB_ABI 3
#define HYB_MAX_RANK 32
#define HYB_MAP_ARGS 12 /* inputs and outputs of one map op, together */
#define HYB_TILE 1024   /* elements of the largest tile of a map */
#define HYB_MAX_TILES 16 /* tile buffers of one map */
#define HYB_MAX_DEPTH 200 /* blocks inside blocks */
#define HYB_QUEUE_COLUMNS 64

typedef enum {
    HYB_OK = 0,
    HYB_BAD_ARGUMENT, /* the caller's mistake; the text says which */
    HYB_NO_MEMORY,
    HYB_NO_KERNEL,
    HYB_BAD_INDEX,    /* an index tensor holds a value outside its axis */
    HYB_INTERRUPTED,
    HYB_HOST_FAILED,  /* a host function ended the run */
    HYB_CANCELLED,    /* a run before it, or one that it waits for, has failed */
    HYB_EXHAUSTED,    /* the loops of a run have gone round more often than they may */
    HYB_SINGULAR,     /* a matrix has no inverse */
    HYB_NOT_DEFINITE, /* a matrix is not positive definite */
    HYB_NOT_CONVERGED, /* an iteration found no eigenvalues or singular values */
    HYB_BAD_FILE,     /* a file that is damaged, of another version, or cannot be read or written */
    HYB_OVERFLOW,     /* an int of the host's has no place in 64 bits */
    HYB_RAISED,       /* the program says so: `raise`, `assert` or what it must not be given */
    HYB_OUT_OF_DOMAIN /* a tensor holds what is no probability, variance or power of integers */
} hyb_status;

typedef enum {
    HYB_BOOL, HYB_I8, HYB_I16, HYB_I32, HYB_I64, HYB_U8, HYB_U16, HYB_U32, HYB_U64,
    HYB_F16, HYB_BF16, HYB_F32, HYB_F64, HYB_DTYPE_COUNT
} hyb_dtype;

typedef struct {
    int32_t dtype;
    int32_t rank;
    int64_t shape[32];
    int64_t strides[32]; /* in bytes; 0 repeats, negative walks backwards */
} hyb_layout;

typedef union { int64_t i; double f; } hyb_attr;

typedef enum { HYB_LIMIT_F32, HYB_LIMIT_F64, HYB_LIMIT_BF16, HYB_LIMIT_I8, HYB_LIMIT_TRIAD } hyb_limit;

/* Where the bytes of a value live.
 *
 * The last two kinds belong to a loop, the step `loop`, and move from one of its iterations to the
 * next.  HYB_SLOT_ROW is row i of slot `base` in the iteration of index i: the bytes at offset +
 * i * stride.  It can be used in the loop's body alone.  A while, and a for whose limit does not end
 * it before, may come past the last of the `count` rows: then slot `spare` stands for them.
 * HYB_SLOT_CARRIED starts where slot `base` is, and goes where the loop's moves say; when the loop is
 * over, it stays. */
typedef enum {
    HYB_SLOT_EXTERNAL, HYB_SLOT_ARENA, HYB_SLOT_CONSTANT, HYB_SLOT_ROW, HYB_SLOT_CARRIED
} hyb_slot_kind;

typedef struct {
    int32_t kind;
    int32_t external;  /* HYB_SLOT_EXTERNAL: index into the pointers given to a run */
    int64_t offset;    /* bytes into the arena, into the constants, or of row 0 into its base */
    int64_t nbytes;
    int32_t last_step; /* arena: the step after which the value is dead (-1: never) */
    int32_t loop, base, spare; /* spare: -1 for rows that a FOR never passes */
    int64_t stride, count;
} hyb_slot;

/* One operand of a step: a slot, seen through a layout. */
typedef struct {
    int32_t    slot; /* -1: it lies nowhere, for the step's pre-ops make it */
    int32_t    reserved;
    int64_t    offset; /* bytes from the start of the slot to element 0 */
    hyb_layout layout;
} hyb_operand;

typedef enum {
    HYB_STEP_KERNEL, HYB_STEP_MAP, HYB_STEP_COND, HYB_STEP_WHILE, HYB_STEP_FOR, HYB_STEP_HOST,
    HYB_STEP_NEXT, HYB_STEP_PARALLEL, HYB_STEP_PRINT, HYB_STEP_FAIL, HYB_STEP_TRANSFER
} hyb_step_kind;

/* A step's operands stand in a row: n_in inputs, n_out outputs, n_extra inputs of its post- or pre-ops.
 *
 * HYB_STEP_KERNEL runs `kernel`; map ops, if any, are its post-ops: they are applied to each finished
 * part of the kernel's first output, reading it and the extra operands, writing any of the outputs.
 * Those of a reduction are its pre-ops: they make its first input, part by part, from the extra
 * operands, and may write outputs beyond its own, all of as many elements.
 * HYB_STEP_MAP runs its map ops tile by tile over the common shape of its operands.
 *
 * HYB_STEP_COND runs one of two blocks; its input is a bool, true for the first.
 * HYB_STEP_WHILE runs a block while a bool holds: its first input at the start, its second after
 * each iteration.  Its output, if it has one, is the number of iterations, an i64.
 * HYB_STEP_FOR runs a block as often as its input says, an i64.  Its output, if any, is the index.
 * HYB_STEP_PARALLEL runs its blocks, its members, side by side: no member writes what another one reads
 * or writes.  A member of one step is cut into that kernel's own chunks; one of several steps runs
 * whole, on one thread.  Members have kernels and maps alone; the step itself has no operands.
 * These four find what they own in row `kernel` of the controls.
 * HYB_STEP_HOST calls the plan's host function with the number `kernel` and its operands.
 * HYB_STEP_NEXT has the next batch of the queue whose number its first input is, an i64, for its
 * outputs; its attribute says how many of the last ones are the inputs after that.  Where that queue has none of their sizes, and where a poll says so, it is a
 * HYB_STEP_HOST.  A loop with such a step in its body is not interrupted elsewhere.
 * HYB_STEP_PRINT prints a text, to the stream `kernel`: HYB_TO_OUTPUT or HYB_TO_ERRORS.  HYB_STEP_FAIL ends
 * the run with HYB_RAISED and a text, whose first word is the name of an exception; its `kernel` is 0.
 * Their first input is the text: a constant, u8[n], of UTF-8.  "{3:.2f}" in it is the element of the
 * fourth input after that, as Python's str.format writes it; "{3!t}" is that input as NumPy writes an
 * array; "{{" and "}}" are braces.
 * HYB_STEP_TRANSFER moves bytes between the processes of a channel.  Its attributes are the channel, what it
 * does (hyb_transfer_kind), the root, and -1 or the place in which it stays under way until a step waits
 * for it; its input and output are dense.  When that takes long, the host
 * function `kernel` is called with NULL in place of operands: what is not HYB_OK ends the run. */
typedef struct {
    int32_t kind;
    int32_t kernel; /* from hyb_find_kernel; -1 for a map; see above for the others */
    int32_t first_operand, n_in, n_out, n_extra;
    int32_t first_attr, n_attrs;
    int32_t first_op, n_ops;
} hyb_step;

/* Steps [first, first + count).  Block 0 is what a run runs; every other block belongs to one control
 * step, in a block before it.  Blocks follow each other without gaps. */
typedef struct {
    int32_t first, count;
} hyb_block;

/* After each iteration slot `to` is where slot `from` was; all moves of a loop happen at once. */
typedef struct {
    int32_t to, from;
} hyb_move;

/* What a control step owns. */
typedef struct {
    int32_t block, otherwise; /* the body of a loop and -1, or the two blocks of a cond; see members */
    int32_t first_move, n_moves;
    int64_t limit;   /* a for never runs more iterations than this; -1: any number */
    int32_t reverse; /* 1: a for counts down to 0 */
    int32_t members; /* of a parallel step: that many blocks, the first of which is `block` */
} hyb_control;

/* One elementwise kernel inside a map.  arg[] lists its inputs, then its outputs:
 * a >= 0 is operand a of the step, a < 0 is tile buffer -1 - a. */
typedef struct {
    int32_t kernel;
    int32_t n_in, n_out;
    int32_t first_attr, n_attrs;
    int32_t arg[12];
} hyb_map_op;

typedef struct {
    const hyb_step    *steps;     int32_t n_steps;
    const hyb_operand *operands;  int32_t n_operands;
    const hyb_slot    *slots;     int32_t n_slots;
    const hyb_map_op  *ops;       int32_t n_ops;
    const hyb_attr    *attrs;     int32_t n_attrs;
    const void        *constants; int64_t constants_nbytes;
    int64_t arena_nbytes;
    int32_t n_externals;
    int32_t poison; /* 1: overwrite dead arena slots with 0xff bytes (a debugging aid) */
    const hyb_block   *blocks;    int32_t n_blocks; /* none: all steps are one block */
    const hyb_control *controls;  int32_t n_controls;
    const hyb_move    *moves;     int32_t n_moves;
} hyb_plan_spec;

/* A scratch value: `size` bytes, in use from time `first` to `last`.  Where one member of a parallel step
 * alone uses it during that step, `member` says which, and `enters` and `leaves` when; else it is -1. */
typedef struct {
    int64_t size;
    int32_t first, last, member, enters, leaves, unused;
} hyb_place;

/* One number, of those before it: first the values of symbols, then what the formulas give, in their
 * order.  Floats are the integers of their bits.  The ops are those of files of programs. */
typedef struct {
    int32_t op, a; /* its first operand, by its place among these */
    int64_t b;     /* the second one; of a constant its value */
} hyb_formula;

/* 8 bytes of a plan that depend on sizes: `word` counts those of the rows of `part`. */
typedef enum { HYB_OPEN_OPERANDS, HYB_OPEN_SLOTS, HYB_OPEN_ATTRS, HYB_OPEN_CONTROLS, HYB_OPEN_PARTS } hyb_open_part;

typedef struct {
    int32_t part, word;
    int32_t number; /* of the symbols, the formulas, the offsets of places, and those that come with sizes */
    int32_t whole;  /* 1: an integer; 0: the bits of a float */
} hyb_open_word;

/* A plan for many sizes: its spec has any number where `words` say which it is at the sizes at hand. */
typedef struct {
    hyb_plan_spec spec;
    const hyb_formula *formulas; int32_t n_formulas;
    int32_t n_symbols, n_given; /* n_given: numbers that come with sizes */
    const hyb_place *places; int32_t n_places; /* of the arena */
    const int32_t *place_numbers;              /* of each place: which number is its size; -1: it is known */
    const hyb_open_word *words; int32_t n_words;
} hyb_open_spec;

typedef struct hyb_open_plan hyb_open_plan;

/* HYB_STEP_HOST: `data` has the addresses of the step's operands.  What is not HYB_OK ends the run,
 * and is its status. */
typedef int32_t (*hyb_host_fn)(void *context, int32_t number, void *const *data);

/* Where HYB_STEP_PRINT prints: `text` has a 0 behind its bytes.  What is not HYB_OK ends the run, and is its
 * status. */
#define HYB_TO_OUTPUT 1
#define HYB_TO_ERRORS 2
typedef int32_t (*hyb_print_fn)(void *context, int32_t stream, const char *text, int64_t nbytes);

/* Called now and then while a loop runs; what is not HYB_OK ends the run, and is its status. */
typedef int32_t (*hyb_poll_fn)(void);

typedef struct hyb_plan hyb_plan;

typedef struct {
    int64_t plan;         /* its number; of a batch the number of its queue */
    int64_t begin, end;   /* ns of the monotonic clock */
    int32_t step, thread; /* threads count from 1; -1: a run; -2: a batch made ahead, which is `part` */
    int32_t part, parts;  /* of a step that is cut up beside others; 0 and 1 for the rest */
} hyb_event;

typedef struct {
    int64_t live_bytes;   /* handed out and not yet freed */
    int64_t cached_bytes; /* kept for reuse */
    int64_t peak_bytes;   /* highest live_bytes so far */
    int64_t allocations;  /* hyb_alloc calls so far */
} hyb_memory_stats;

/* Status and build. */
int32_t     hyb_abi(void);
const char *hyb_compiler(void);
const char *hyb_status_name(int32_t status);
const char *hyb_last_error(void);     /* of this thread; valid until its next failure */
int32_t     hyb_last_step(void);      /* step of the last failed run of this thread, or -1 */

/* Instruction sets: "baseline", "avx2", "avx512", "neon".  HYBRID_ISA forces one. */
hyb_status  hyb_init(void);           /* idempotent; fails on an unknown or unsupported HYBRID_ISA */
const char *hyb_isa_name(void);
const char *hyb_isa_supported(void);  /* all that this machine runs, separated by spaces */

/* Kernel tables. */
int32_t     hyb_find_kernel(const char *name, int32_t dtype); /* dtype of its first input; -1: none */
int32_t     hyb_kernel_count(void);
const char *hyb_kernel_name(int32_t kernel);
int32_t     hyb_kernel_dtype(int32_t kernel);
const char *hyb_kernel_isa(int32_t kernel);
const char *hyb_kernel_family(int32_t kernel); /* the table that it is in */
hyb_status  hyb_kernel_counts(int32_t kernel, int32_t counts[3]); /* of inputs, outputs and attributes */

/* Memory: 64-byte aligned, cached by size; safe from any thread. */
void       *hyb_alloc(size_t nbytes);
void        hyb_free(void *data);
void        hyb_memory_trim(void);    /* give the cache back to the system */
hyb_memory_stats hyb_memory(void);
void        hyb_fail_allocation(int64_t nth); /* tests: the nth allocation from now fails; 0 turns it off */

/* Threads. */
hyb_status  hyb_set_num_threads(int32_t n);
int32_t     hyb_num_threads(void);
int32_t     hyb_confine_thread(int32_t confined); /* kernels that this thread calls use no other one; what was so before */
int32_t     hyb_core_count(const char *root); /* in the affinity mask and quotas; files under root */

/* How work is cut up: by the caches of this machine, or as measured and kept in a file. */
const char *hyb_choice_name(int32_t choice); /* NULL: there are no more */
int64_t     hyb_choice_value(int32_t choice);
int64_t     hyb_choice_usual(int32_t choice); /* without a file */
const char *hyb_choice_machine(void); /* what lines of the file that are for this machine begin with */
const char *hyb_choice_file(void);    /* "" if there is none */
const char *hyb_choice_fault(void);   /* why nothing of it was taken; "" if it was */

/* What this machine does at most, on the calling thread: operations in registers, or the bytes of a
 * triad a = b + s * c over `data`, which holds a, b and c, n floats each. */
const char *hyb_limit_instructions(int32_t limit); /* "" where there are none */
double      hyb_limit_run(int32_t limit, int64_t rounds, float *data, int64_t n); /* what it has done */

/* The offset of each place in an arena, so that none that are in use together overlap; returns the bytes
 * of the arena, or -1 where there is no memory for it. */
int64_t     hyb_lay_out(const hyb_place *places, int32_t n, int64_t *offsets);

/* Plans. */
hyb_plan   *hyb_plan_create(const hyb_plan_spec *spec); /* copies what it needs; NULL on failure */
void        hyb_plan_free(hyb_plan *plan);
hyb_status  hyb_plan_run(hyb_plan *plan, void *const *externals);
int64_t     hyb_plan_arena_nbytes(const hyb_plan *plan);
void        hyb_plan_set_host(hyb_plan *plan, hyb_host_fn host, void *context); /* before it runs */
/* How often the loops of a run may go round, all together, before it runs; 0: any number. */
void        hyb_plan_set_budget(hyb_plan *plan, int64_t iterations);
/* Take the arena of each run from the cache, and give it back, before it runs: for one of many plans that
 * run in turn, which have arenas of about one size. */
void        hyb_plan_share_arena(hyb_plan *plan);
int64_t     hyb_plan_nbytes(const hyb_plan *plan); /* of the plan itself, without what runs take */
void        hyb_set_poll(hyb_poll_fn poll); /* for all plans; NULL: none */
void        hyb_set_print(hyb_print_fn print, void *context); /* for all plans; NULL: stdout and stderr */
int64_t     hyb_plan_number(const hyb_plan *plan); /* no other plan has it, nor will */

/* Open plans: lowered once, and checked whole at each of their sizes, as every plan is. */
hyb_open_plan *hyb_open_create(const hyb_open_spec *spec); /* copies what it needs; NULL on failure */
void        hyb_open_free(hyb_open_plan *open);
/* The plan at the values of the symbols.  `given` are the numbers that come with them; `constants` stand in
 * place of those of the spec, if there are any. */
hyb_plan   *hyb_open_bind(const hyb_open_plan *open, const void *symbols, const int64_t *given,
                          const void *constants, int64_t constants_nbytes);
/* One run at the values of the symbols, of a plan that is not kept and takes no other numbers. */
hyb_status  hyb_open_run(const hyb_open_plan *open, const void *symbols, void *const *externals);

/* Profiles: one event for each step that runs (for each part of it, if it is cut up beside others), and
 * one for each run, whose step is -1, and for each batch that a queue makes ahead of time. */
hyb_status     hyb_profile_start(int64_t capacity); /* events; fails while one is under way */
int64_t        hyb_profile_stop(void);   /* how many there were; waits for runs that are in it */
const hyb_event *hyb_profile_events(void); /* of the last one: as many as there was room for */
void           hyb_profile_free(void);     /* those */

/* Channels: groups of processes between which plans move bytes, by the MPI that the host has loaded. */
typedef enum {
    HYB_TRANSFER_GATHER,   /* what each rank has, one behind the other */
    HYB_TRANSFER_EXCHANGE, /* block i goes to rank i */
    HYB_TRANSFER_SPREAD,   /* what the root has goes to all */
    HYB_TRANSFER_BARRIER,  /* nothing: all wait for each other */
    /* The host function compares what is to come with the other ranks: before the first run; with root 1
     * before each, while hyb_channels_compare says so. */
    HYB_TRANSFER_AGREE,
    /* The transfer in this place is waited for: what it was given and what it gives are its operands,
     * which nothing else may use in between. */
    HYB_TRANSFER_WAIT
} hyb_transfer_kind;

enum { HYB_MOST_UNDER_WAY = 4 }; /* transfers of a run that are not waited for yet */

typedef struct {
    int32_t pointers; /* whether handles are pointers (Open MPI), not ints (MPICH) */
    void (*all_gather)(void), (*all_to_all)(void), (*broadcast)(void), (*barrier)(void); /* MPI_I... */
    void (*test)(void);
    uint64_t byte; /* MPI_BYTE */
} hyb_mpi;

/* Its number, for processes that have it alike; -1 on failure.  It stays open. */
int32_t    hyb_channel_open(const hyb_mpi *functions, uint64_t comm, int32_t rank, int32_t ranks);
/* How many transfers have begun, once `more` are added that the host does itself; -1: no such channel. */
int64_t    hyb_channel_begun(int32_t channel, int32_t more);
int32_t    hyb_channel_ranks(int32_t channel); /* 0: there is no such channel */
void       hyb_channels_compare(int32_t compare); /* 1 at first */
void       hyb_channels_stop(int32_t stop); /* 1: the host is asked before each transfer */

/* Queues of batches: `batch` rows of each column at a time, those that `order` names, the last one
 * with what is left; or what a plan makes of them.  External 0 of such a plan is what it makes, 1 the
 * rows.  Rows and plans must stay where they are until the queue is closed. */
typedef struct {
    const void *rows;
    int64_t n_rows, nbytes; /* of a row */
    int64_t made_nbytes;    /* of what is made of a row: as many, if there are no plans */
    hyb_plan *whole, *rest; /* for `batch` rows, and for a last batch of fewer; NULL: none */
} hyb_column;

hyb_status hyb_queue_open(const hyb_column *columns, int32_t n_columns, const int64_t *order,
                          int64_t n, int64_t batch, int64_t *queue); /* its number */
/* Fails if there is no such queue, no batch left, or one of other sizes. */
hyb_status hyb_queue_next(int64_t queue, void *const *out, const int64_t *nbytes, int32_t n_out);
/* Goes on with the batches of another order, when all are taken. */
hyb_status hyb_queue_refill(int64_t queue, const int64_t *order, int64_t n);
int64_t    hyb_queue_taken(int64_t queue); /* batches of the last order; -1: no such queue */
void       hyb_queue_close(int64_t queue); /* of any thread; none is left running */

/* Streams: runs that a thread of the stream's own does, one after the other, while the caller goes on.
 * They are numbered from 1.  Plans, and what the externals point to, must stay until their runs are
 * over.  Plans do without host functions, and their loops without a poll: closing the stream ends them. */
typedef struct hyb_stream hyb_stream;

typedef struct {
    hyb_stream *stream;
    int64_t number;
} hyb_ticket; /* one run of a stream */

hyb_stream *hyb_stream_open(int32_t capacity); /* runs that it holds; NULL on failure */
/* A run, once those of `after`, all of other streams, are over.  `*number` is 0 where there is no room:
 * then nothing was submitted.  One of the last `capacity` runs of a stream can be waited for. */
hyb_status hyb_stream_submit(hyb_stream *stream, hyb_plan *plan, void *const *externals,
                             int32_t n_externals, const hyb_ticket *after, int32_t n_after,
                             int64_t *number);
int64_t    hyb_stream_finished(const hyb_stream *stream); /* the last run that is over */
/* 1: it is over, or there is room; 0: not within the time; -1: the stream stayed behind in a fork. */
int32_t    hyb_stream_wait(hyb_stream *stream, int64_t number, int64_t timeout_ns);
int32_t    hyb_stream_room(hyb_stream *stream, int64_t timeout_ns);
/* The status of the run that failed, and its number; its text and step are then this thread's last
 * ones.  HYB_OK and 0: none has.  Those after it are cancelled until `clear`, which fails while runs
 * are under way. */
hyb_status hyb_stream_failure(hyb_stream *stream, int64_t *number);
hyb_status hyb_stream_clear(hyb_stream *stream);
void       hyb_stream_stop(hyb_stream *stream); /* cancels what has not begun; takes no more */
void       hyb_stream_close(hyb_stream *stream); /* once nobody uses it */

/* Programs: functions and the cells that they share, from a file that the library alone runs.  Functions
 * that write no cell run from any number of threads; one that writes a cell excludes others.  A run that
 * fails leaves all cells as they were; what is in its outputs then is not said.
 *
 * A program that would take more memory than HYBRID_PROGRAM_MAX_BYTES says, beside its file, is not
 * loaded; without that variable it is the memory of the machine. */
#define HYB_PROGRAM_CHECK_DATA 1  /* look for damage in the cells, too, which takes time */
#define HYB_PROGRAM_NO_CHECKSUM 2 /* do not look for damage at all */
#define HYB_PROGRAM_ANY_KERNELS 4 /* of a check: kernels may be missing, and then plans are not looked at */

typedef struct hyb_program hyb_program;

hyb_program *hyb_program_load(const char *path, int32_t flags); /* maps it; NULL on failure */
hyb_program *hyb_program_load_memory(const void *bytes, size_t n, int32_t flags); /* 64-byte aligned; they stay */
void         hyb_program_free(hyb_program *program);
hyb_status   hyb_program_check(const void *bytes, size_t n, int32_t flags); /* whether they would be loaded */
hyb_program *hyb_program_fork(hyb_program *program); /* shares the cells that no function writes */
hyb_status   hyb_program_save(hyb_program *program, const char *path); /* the same file, cells as they are */
/* How often the loops of one run may go round, all together, before anything runs; 0: any number.  Forks
 * have the same one. */
void         hyb_program_set_budget(hyb_program *program, int64_t iterations);
int32_t      hyb_program_functions(const hyb_program *program);
const char  *hyb_program_function_name(const hyb_program *program, int32_t function);
int32_t      hyb_program_find(const hyb_program *program, const char *name); /* -1: none */
int32_t      hyb_program_inputs(const hyb_program *program, int32_t function);
int32_t      hyb_program_outputs(const hyb_program *program, int32_t function);
/* Sizes of axes that are open are -1. */
hyb_status   hyb_program_input(const hyb_program *program, int32_t function, int32_t i, const char **name,
                               hyb_layout *layout);
hyb_status   hyb_program_output(const hyb_program *program, int32_t function, int32_t i, const char **name,
                                hyb_layout *layout);
/* The sizes of open axes: their names, and the range of each, both ends included. */
int32_t      hyb_program_sizes(const hyb_program *program, int32_t function);
hyb_status   hyb_program_size(const hyb_program *program, int32_t function, int32_t i, const char **name, int64_t *low,
                              int64_t *high);
/* Which of these an axis of an input has, or of an output; -1: none, or one that is computed of them. */
int32_t      hyb_program_input_size(const hyb_program *program, int32_t function, int32_t i, int32_t axis);
int32_t      hyb_program_output_size(const hyb_program *program, int32_t function, int32_t i, int32_t axis);
/* The layout that an output has for these inputs; without any, as it is declared. */
hyb_status   hyb_program_output_layout(hyb_program *program, int32_t function, int32_t i,
                                       const hyb_layout *inputs, hyb_layout *layout);
/* Outputs are dense, as they are declared; inputs are as their layouts say, or without any dense.  Where
 * axes are open, layouts of all inputs are needed. */
hyb_status   hyb_program_run(hyb_program *program, int32_t function, void *const *inputs,
                             const hyb_layout *layouts, void *const *outputs);
int32_t      hyb_program_states(const hyb_program *program);
/* A cell; a run may move its data.  Who writes to it, between runs, says so by hyb_program_touch. */
hyb_status   hyb_program_state(hyb_program *program, int32_t i, const char **name, hyb_layout *layout, void **data);
hyb_status   hyb_program_touch(hyb_program *program, int32_t i);
uint64_t     hyb_hash(const void *bytes, size_t n); /* XXH64 with seed 0, as files have it */

/* The same for plans of one output: external 0 is the output. */
hyb_status  hyb_run1(hyb_plan *plan, void *out, const void *a);
hyb_status  hyb_run2(hyb_plan *plan, void *out, const void *a, const void *b);
hyb_status  hyb_run3(hyb_plan *plan, void *out, const void *a, const void *b, const void *c);
hyb_status  hyb_open_run0(const hyb_open_plan *open, const void *symbols, void *out);
hyb_status  hyb_open_run1(const hyb_open_plan *open, const void *symbols, void *out, const void *a);
hyb_status  hyb_open_run2(const hyb_open_plan *open, const void *symbols, void *out, const void *a, const void *b);
hyb_status  hyb_open_run3(const hyb_open_plan *open, const void *symbols, void *out, const void *a, const void *b, const void *c);
/* cffi: end */
#if defined(HYB_SHARED)
#pragma GCC visibility pop
#endif
#endif
