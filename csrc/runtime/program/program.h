/* program.h - a program that is loaded: functions with their plans, which forks share, and cells. */
#ifndef HYB_PROGRAM_H
#define HYB_PROGRAM_H
#include <pthread.h>

#include "runtime/program/program_file.h"
#include "runtime/run/plan_run.h"

typedef struct {
    hyb_layout layout; /* dense */
    int64_t nbytes;
} hyb_value_type;

/* A function, as it is in all forks. */
typedef struct {
    const hyb_function_row *row;
    const hyb_plan_row *plan_row, *early_row;
    hyb_plan *plan, *early;  /* early: NULL: nothing is kept */
    const int32_t *aliases;  /* of each external of the plan the one whose bytes it has */
    const int64_t *nbytes;   /* of each external of the plan, then of the early plan */
    int64_t scratch_nbytes;  /* of outputs that nobody asks for */
    bool writes;
} hyb_function;

/* What forks share. */
typedef struct {
    _Atomic int32_t users;
    hyb_file file;
    int32_t *kernels; /* of each row of the table */
    hyb_value_type *types;
    hyb_function *functions;
    bool *written; /* of each cell: whether a function writes it */
    int32_t n_functions, n_cells, n_types;
    char *memory; /* in which these stand */
} hyb_code;

typedef struct {
    char *data;     /* in the mapping, or in a block */
    char *spare;    /* where a content goes that is not written in place, or NULL */
    char *block[2]; /* what was allocated for these */
    int64_t nbytes;
    uint64_t version; /* counts writes */
} hyb_cell;

/* What an early plan has made of cells, and which versions of them. */
typedef struct {
    char *memory;
    char **data;
    uint64_t *seen;
    bool made;
} hyb_kept;

struct hyb_program {
    hyb_code *code;
    hyb_cell *cells;
    hyb_kept *kept; /* of each function */
    pthread_rwlock_t lock; /* runs that write a cell exclude others */
};

/* program_check.c: tables as they have to be; fills types, functions and what is written. */
hyb_status hyb_code_read(hyb_code *code, hyb_file *file);
void hyb_code_release(hyb_code *code);
const hyb_binding_row *hyb_bindings(const hyb_code *code, int32_t first);
const hyb_value_row *hyb_values(const hyb_code *code, int32_t first);
const hyb_cell_row *hyb_cell_rows(const hyb_code *code);

/* program_run.c: computes ahead what is kept for function f, while nothing else runs. */
hyb_status hyb_program_prepare(hyb_program *program, int32_t f);

/* program_text.c */
enum { HYB_TYPE_TEXT = 128 };
const char *hyb_type_text(const hyb_layout *layout, char *text); /* f32[32,64] */
/* The text of a file for a message: what does not print is a question mark. */
const char *hyb_shown(const hyb_file *file, hyb_text text, char *shown, size_t room);
#endif
