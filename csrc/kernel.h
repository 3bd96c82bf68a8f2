/* kernel.h - the contract between the runtime and the kernels, and the macros that name symbols per ISA. */
#ifndef HYB_KERNEL_H
#define HYB_KERNEL_H
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "hybrid.h"
#include "isa/selection.h"

/* Post-ops of a kernel: call apply(context, begin, count) once for every finished stretch of elements
 * [begin, begin + count) of the (contiguous) first output; stretches never overlap and cover it.
 * apply_rows is the same for `rows` stretches, whose starts are `step` elements apart. */
typedef struct {
    void (*apply)(const void *context, int64_t begin, int64_t count);
    void (*apply_rows)(const void *context, int64_t begin, int64_t count, int64_t rows, int64_t step);
    const void *context;
} hyb_post;

/* Pre-ops of a kernel: its first input lies nowhere.  fill(context, out, begin, count, rows, step) makes
 * elements [begin, begin + count) of it and so on, `rows` stretches whose starts are `step` elements
 * apart, one after the other at `out`.  Every element is asked for once. */
typedef struct {
    hyb_status (*fill)(const void *context, void *out, int64_t begin, int64_t count, int64_t rows, int64_t step);
    const void *context;
    double work; /* of one element, as a share of a task */
} hyb_pre;

/* One call of a kernel: inputs, then outputs, in one row. */
typedef struct {
    const hyb_layout *layout;
    void *const      *data;
    const hyb_attr   *attrs;
    const hyb_post   *post; /* NULL when there is nothing to apply; kernels with HYB_POST_OPS look at it */
    const hyb_pre    *pre;  /* the same for HYB_PRE_OPS; they also look at it when they are prepared */
} hyb_call;

/* How much work a call is: units [0, n), never split finer than `grain` of them. */
typedef struct { int64_t n, grain; } hyb_range;

/* Runs units [begin, end).  Any partition of [0, n) at multiples of grain gives the same bits. */
typedef hyb_status (*hyb_kernel_fn)(const hyb_call *call, int64_t begin, int64_t end);

/* Checks the layouts and attributes of a call (data is NULL) and gives its range; runs once per plan. */
typedef hyb_status (*hyb_prepare_fn)(const hyb_call *call, hyb_range *range);

typedef enum {
    HYB_PLAIN = 0,
    HYB_ELEMENTWISE = 1, /* operands are rank 1, each dense (stride = item size) or one element (stride 0) */
    HYB_POST_OPS = 2,    /* honours call->post */
    HYB_IN_PLACE = 4,    /* the first output may be the very bytes of the first input */
    HYB_PRE_OPS = 8      /* honours call->pre */
} hyb_kernel_flags;

typedef struct {
    const char    *name;
    int8_t         dtype; /* of the first input; of the first output when there is no input */
    int8_t         n_in, n_out, n_attrs;
    int8_t         flags;
    hyb_prepare_fn prepare;
    hyb_kernel_fn  run;
} hyb_kernel;

#define HYB_CAT_(a, b) a##_##b
#define HYB_CAT(a, b) HYB_CAT_(a, b)
#define HYB_SYM(name) HYB_CAT(name, HYB_ISA)
#define HYB_KERNEL(name) static hyb_status HYB_SYM(name)(const hyb_call *call, int64_t begin, int64_t end)
#define HYB_PREPARE(name) static hyb_status HYB_SYM(name)(const hyb_call *call, hyb_range *range)

/* HYB_IF(condition)(text) is that text if the condition has two parts, and nothing if it has one. */
#define HYB_IF(condition) HYB_IF_(condition, HYB_YES, HYB_NO, )
#define HYB_IF_(first, second, then, ...) then
#define HYB_YES(...) __VA_ARGS__
#define HYB_NO(...)

/* A row of a table, if the library has this kernel; prepare and run without the instruction set. */
#define HYB_TABLE_ROW(name, dtype, ...) HYB_TABLE_ROW_(name, dtype, __VA_ARGS__)
#define HYB_TABLE_ROW_(name, dtype, n_in, n_out, n_attrs, flags, prepare, run) \
    HYB_IF(HYB_HAS_KERNEL(name, dtype))                                        \
    ({#name, dtype, n_in, n_out, n_attrs, flags, HYB_SYM(prepare), HYB_SYM(run)}, )

/* What the runtime gives to kernels. */
hyb_status hyb_fail(hyb_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void      *hyb_scratch(size_t nbytes); /* this thread's scratch, 64-byte aligned, grows and stays; NULL: no memory */

typedef hyb_status (*hyb_work_fn)(void *context, int64_t begin, int64_t end);
/* Runs fn over [0, n) in chunks of `grain`, on this thread and the pool; the first failing chunk's status. */
hyb_status hyb_parallel_for(int64_t n, int64_t grain, hyb_work_fn fn, void *context);

/* Sizes that decide how work is cut up, never what comes out of it (runtime/base/choices.c). */
typedef enum {
    HYB_SLICE_BYTES, /* of an operand, to stay in the second-level cache */
    HYB_NEAR_BYTES,  /* a matrix that small is read in place */
    HYB_WAKING_WORK, /* additions and multiplications of a product worth waking threads */
    HYB_TASK_WORK,   /* and worth a task */
    HYB_CHUNK_WORK,  /* additions of an elementwise kernel that are a chunk */
    HYB_SPIN_NS,     /* for which threads spin at least before they sleep */
    HYB_CHOICE_COUNT
} hyb_choice_kind;
int64_t    hyb_choice(hyb_choice_kind kind);

/* Layout helpers for prepare functions (runtime/base/layout.c). */
int64_t    hyb_itemsize(int32_t dtype);          /* 0 for an unknown dtype */
int64_t    hyb_elements(const hyb_layout *layout);
bool       hyb_is_contiguous(const hyb_layout *layout); /* row-major, no gaps; size-1 axes may have any stride */
bool       hyb_same_shape(const hyb_layout *a, const hyb_layout *b);
/* `n` operands are rank 1, dense or stride 0, inputs of dtype `in` and outputs dense of dtype `out`:
 * the prepare step shared by every elementwise kernel.  `cost` is in units of one addition. */
hyb_status hyb_prepare_elementwise(const hyb_call *call, int n_in, int n_out, int32_t in, int32_t out, int cost, hyb_range *range);
#endif
