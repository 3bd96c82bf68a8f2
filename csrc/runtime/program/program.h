/* program.h - the file of a program, and a program that is loaded: functions with their plans, which
 * forks share, and cells. */
#ifndef HYB_PROGRAM_H
#define HYB_PROGRAM_H
#include <pthread.h>

#include "runtime/run/plan_run.h"

/* The file: docs/file_format.md says it in words.  Little-endian.  Sections begin at multiples of 64
 * bytes and are found by one table; each but the data is a table of equal rows, or bytes that rows
 * point into. */
#define HYB_FILE_MAGIC "\x89HYB\r\n\x1a\n"
#define HYB_FILE_MAJOR 1
#define HYB_FILE_MINOR 0

typedef struct {
    char magic[8];
    uint32_t major, minor;
    uint64_t nbytes; /* of the file */
    uint32_t n_sections, flags;
    uint64_t hash; /* of header and section table, with 0 in its place */
    uint64_t unused[3];
} hyb_file_header;

typedef enum {
    HYB_SECTION_STRINGS = 1, /* bytes of all texts */
    HYB_SECTION_KERNELS,     /* hyb_kernel_row: plans name kernels by their places here */
    HYB_SECTION_TYPES,       /* hyb_type_row */
    HYB_SECTION_DIMS,        /* int64_t: sizes of the axes of types */
    HYB_SECTION_FUNCTIONS,   /* hyb_function_row */
    HYB_SECTION_VALUES,      /* hyb_value_row: inputs and outputs of functions */
    HYB_SECTION_BINDINGS,    /* hyb_binding_row: what the externals of plans are */
    HYB_SECTION_PLANS,       /* hyb_plan_row */
    HYB_SECTION_EXTERNALS,   /* hyb_external_row */
    HYB_SECTION_ROWS,        /* bytes of the arrays of plans */
    HYB_SECTION_PLACES,      /* hyb_place_row: lines of the author's */
    HYB_SECTION_LINES,       /* int32_t: of each step of a plan its place, or -1 */
    HYB_SECTION_CELLS,       /* hyb_cell_row */
    HYB_SECTION_ALIASES,     /* hyb_text: further names of cells */
    HYB_SECTION_NOTES,       /* hyb_note_row */
    HYB_SECTION_CONSTANTS,   /* bytes of literals */
    HYB_SECTION_DATA,        /* bytes of cells */
    HYB_SECTION_KINDS
} hyb_section_kind;

enum { HYB_SECTION_NEEDED = 1 }; /* a reader that does not know the kind must refuse the file */

typedef struct {
    uint32_t kind, flags;
    uint64_t offset, nbytes, hash;
} hyb_section_row;

typedef struct {
    uint32_t offset, nbytes; /* in the strings */
} hyb_text;

typedef struct {
    hyb_text name;
    int32_t dtype, n_in, n_out, n_attrs;
} hyb_kernel_row;

typedef struct {
    int32_t dtype, rank;
    int64_t first_dim;
} hyb_type_row;

typedef enum { HYB_FROM_EXTERNAL, HYB_FROM_INPUT, HYB_FROM_CELL } hyb_value_source;

/* An input or output.  Of an output, `source` and `index` say where it comes from. */
typedef struct {
    hyb_text name;
    int32_t type, number; /* number: 0 a tensor; 1 to 3 a bool, int or float for Python */
    int32_t source, index;
} hyb_value_row;

typedef struct {
    hyb_text name, inputs, outputs, graph; /* trees of the arguments and results; text of the graph */
    int32_t plan, early; /* early: the plan that makes what is kept, or -1 */
    int32_t first_input, n_inputs, first_output, n_outputs;
    int32_t first_binding, first_early; /* one for each external of the plan */
} hyb_function_row;

typedef enum {
    HYB_BIND_RESULT,  /* output `index` of the function */
    HYB_BIND_WRITE,   /* takes the place of cell `index` */
    HYB_BIND_SCRATCH, /* nobody asks for it */
    HYB_BIND_INPUT,   /* input `index` of the function */
    HYB_BIND_CELL,
    HYB_BIND_KEPT     /* output `index` of the early plan */
} hyb_binding_kind;

typedef struct {
    int32_t kind, index;
} hyb_binding_row;

/* The arrays of a plan, in the order of hyb_plan_spec. */
typedef enum {
    HYB_PART_STEPS, HYB_PART_OPERANDS, HYB_PART_SLOTS, HYB_PART_OPS, HYB_PART_ATTRS,
    HYB_PART_BLOCKS, HYB_PART_CONTROLS, HYB_PART_MOVES, HYB_PARTS
} hyb_plan_part;

typedef struct {
    int64_t arena_nbytes, constants, constants_nbytes;
    int32_t n_externals, n_outputs, first_external;
    int32_t rank;         /* axes of the operands: their shapes, then their strides */
    int32_t first_line, n_steps;
    struct { int64_t offset, nbytes; } part[HYB_PARTS];
} hyb_plan_row;

typedef struct {
    int32_t type;
    int32_t donated; /* of an output: the input whose bytes it may overwrite, or -1 */
    int32_t exposed; /* of an output: written before a step that may fail */
    int32_t unused;
} hyb_external_row;

typedef struct {
    hyb_text path, text;
    int32_t line, unused;
} hyb_place_row;

typedef enum { HYB_CELL_PARAMETER = 1, HYB_CELL_BUFFER = 2, HYB_CELL_OPTIMIZER = 4, HYB_CELL_RANDOM = 8 } hyb_cell_flags;

typedef struct {
    hyb_text name;
    int32_t type, flags;
    int64_t offset, nbytes; /* in the data */
    int32_t first_alias, n_aliases;
} hyb_cell_row;

typedef struct {
    hyb_text key, value;
} hyb_note_row;

enum { HYB_MOST_SECTIONS = 64 };

/* A file that has been checked: its sections are within it, its tables consist of whole rows.  What was
 * checked has been copied: the file may change. */
typedef struct {
    hyb_file_header header;
    hyb_section_row rows[HYB_MOST_SECTIONS];
    const char *bytes; /* of the file */
    size_t nbytes;
    bool mapped;
    char *tables; /* a copy of all sections but constants and data */
    struct { const char *bytes; int64_t nbytes, count; } section[HYB_SECTION_KINDS];
} hyb_file;

/* program_file.c */
hyb_status hyb_file_open(hyb_file *file, const char *path, int32_t flags);
hyb_status hyb_file_take(hyb_file *file, const void *bytes, size_t n, int32_t flags);
void hyb_file_close(hyb_file *file);
uint64_t hyb_file_hash(const hyb_file *file); /* what the header's has to be */
bool hyb_rows_hold(int64_t first, int64_t count, int64_t all);
const char *hyb_file_text(const hyb_file *file, hyb_text text, size_t *n); /* ends with a 0; NULL: not within */

/* plan_file.c: the plan of row `plan`, whose outputs lie where `aliases` says: of each external the one
 * that has its bytes.  NULL on failure. */
hyb_plan *hyb_file_plan(const hyb_file *file, const int32_t *kernels, int64_t plan, const int64_t *nbytes,
                        const int32_t *aliases);

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
    bool *swapped; /* and whether one does so elsewhere, so that it needs a spare */
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
/* Whether the memory that a program takes beside its file is within the limit. */
hyb_status hyb_code_fits(const hyb_code *code, bool copies_cells);
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
