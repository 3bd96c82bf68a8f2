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
    HYB_SECTION_SYMBOLS,     /* hyb_symbol_row: sizes of open axes */
    HYB_SECTION_CASES,       /* hyb_case_row: what serves which sizes of a function */
    HYB_SECTION_AHEAD,       /* hyb_ahead_row: plans that run before those of functions */
    HYB_SECTION_FORMULAS,    /* hyb_formula_row: numbers that depend on sizes */
    HYB_SECTION_WORDS,       /* hyb_word_row: where they stand in the arrays of plans */
    HYB_SECTION_ARENAS,      /* hyb_place: what is laid out when a plan is bound to sizes */
    HYB_SECTION_FILLS,       /* hyb_fill_row: literals that depend on sizes */
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
    int64_t first_dim; /* a size below 0 is number -1 - size of the plan; of an input: of the symbols */
} hyb_type_row;

typedef enum { HYB_FROM_EXTERNAL, HYB_FROM_INPUT, HYB_FROM_CELL } hyb_value_source;

/* An input or output.  Of an output, `source` and `index` say where it comes from. */
typedef struct {
    hyb_text name;
    int32_t type, number; /* number: 0 a tensor; 1 to 3 a bool, int or float for Python */
    int32_t source, index;
} hyb_value_row;

typedef struct {
    hyb_text name, inputs, outputs; /* trees of the arguments and results */
    int32_t first_input, n_inputs, n_outputs;
    int32_t first_symbol, n_symbols; /* of the open axes of its inputs */
    int32_t first_case, n_cases;     /* the first whose conditions hold serves a call */
    int32_t unused;
} hyb_function_row;

typedef struct {
    hyb_text name;
    int64_t low, high; /* both included */
} hyb_symbol_row;

typedef struct {
    hyb_text graph;     /* its text */
    int32_t plan, ahead; /* ahead: what makes what is kept, or -1 */
    int32_t first_output;
    int32_t first_binding; /* one for each external of the plan */
    int32_t first_formula, n_formulas; /* its conditions */
} hyb_case_row;

typedef struct {
    int32_t plan, first_binding;
} hyb_ahead_row;

/* One number, of those before it: first the symbols of the function, then what the formulas of one case
 * or plan give, in their order.  Floats are the integers of their bits. */
typedef hyb_formula hyb_formula_row; /* `op` is a hyb_formula_op */

typedef enum {
    HYB_F_CONSTANT, /* b */
    HYB_F_ADD, HYB_F_SUB, HYB_F_MUL, HYB_F_DIV, HYB_F_MOD, /* as Python's, which round down */
    HYB_F_AND, HYB_F_OR, HYB_F_XOR, HYB_F_SHL, HYB_F_SHR, HYB_F_POW, HYB_F_ABS, HYB_F_BITS, HYB_F_ISQRT,
    HYB_F_FLOAT, /* of an int of at most 2^53 */
    HYB_F_FADD, HYB_F_FSUB, HYB_F_FMUL, HYB_F_FDIV, HYB_F_FFLOORDIV, HYB_F_FMOD, HYB_F_FPOW, HYB_F_FABS,
    HYB_F_TRUNC, HYB_F_FLOOR, HYB_F_CEIL, HYB_F_ROUND, /* from floats to ints; half to even */
    HYB_F_MATH,  /* function b of HYB_MATH */
    /* That a compares with b in this way, or not; these give 0. */
    HYB_F_EQ, HYB_F_NE, HYB_F_LT, HYB_F_GE, HYB_F_LE, HYB_F_GT,
    HYB_F_FEQ, HYB_F_FNE, HYB_F_FLT, HYB_F_FNLT, HYB_F_FLE, HYB_F_FNLE,
    HYB_F_KINDS
} hyb_formula_op;

typedef enum { HYB_WORD_FORMULA, HYB_WORD_PLACE, HYB_WORD_FILL } hyb_word_kind;

/* 8 bytes of a plan: a number of a formula, or the offset of a place of the arena or of a literal. */
typedef struct {
    int32_t part, word; /* a hyb_plan_part */
    int32_t kind, number;
} hyb_word_row;

typedef enum {
    HYB_FILL_INT, HYB_FILL_FLOAT,            /* one element: a number */
    HYB_FILL_RANGE, HYB_FILL_FLOAT_RANGE,    /* start, stop, step */
    HYB_FILL_LINSPACE,                       /* start, stop, elements, whether stop is the last */
    HYB_FILL_EYE, HYB_FILL_LOWER, HYB_FILL_UPPER, /* rows, columns, diagonal */
    HYB_FILL_NEAREST,                        /* of how many, how many, scale, from the middle of each */
    HYB_FILLS
} hyb_fill_kind;

typedef struct {
    int32_t kind, dtype;
    int32_t given[4]; /* by their places among the numbers of the plan */
} hyb_fill_row;

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
    int32_t first_formula, n_formulas, first_word, n_words; /* what depends on sizes */
    int32_t first_place, n_places, first_fill, n_fills;
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

/* formulas.c: whether rows are of what stands before them, behind `known` symbols. */
enum { HYB_MOST_FORMULAS = 1 << 20 };
bool hyb_formulas_hold(const hyb_file *file, int32_t first, int32_t n, int32_t known);
bool hyb_rows_follow(const hyb_formula_row *rows, int32_t n, int32_t known);
const hyb_formula_row *hyb_formulas(const hyb_file *file, int32_t first); /* those from there on */
/* The numbers that `n` rows, which have been checked, give behind those of `known` symbols.  NULL, or what is
 * wrong. */
const char *hyb_evaluate(const hyb_formula_row *rows, int32_t n, int32_t known, int64_t *numbers);

/* fills.c: the bytes of a literal; written to `to`, if it is not NULL.  -1: there is no such one. */
int64_t hyb_fill(const hyb_fill_row *row, const int64_t *numbers, int64_t n_numbers, char *to);

/* plan_file.c: the plan of row `plan`, whose outputs lie where `aliases` says: of each external the one
 * that has its bytes.  `numbers` are those of its symbols and formulas.  NULL on failure. */
hyb_plan *hyb_file_plan(const hyb_file *file, const int32_t *kernels, int64_t plan, const int64_t *nbytes,
                        const int32_t *aliases, const int64_t *numbers, int64_t n_numbers);

typedef struct {
    hyb_layout layout; /* dense; sizes of open axes are those of the file */
    int64_t nbytes;    /* -1: axes are open */
} hyb_value_type;

/* What serves some sizes of a function, as it is in all forks. */
typedef struct {
    const hyb_case_row *row;
    const hyb_plan_row *plan_row;
    int32_t *aliases; /* of each external of the plan the one whose bytes it had best have */
} hyb_case;

/* A case at sizes. */
typedef struct {
    const hyb_case *of;
    hyb_plan *plan;
    int32_t *aliases; /* of each external of the plan the one whose bytes it has */
    int64_t *nbytes;  /* of each external of the plan */
    hyb_value_type *values; /* inputs, then outputs of the function */
    int64_t *sizes;         /* of its symbols */
    int64_t scratch_nbytes; /* of outputs that nobody asks for */
    uint64_t used;          /* when it was last asked for */
    _Atomic int32_t users;
} hyb_bound;

enum { HYB_BOUND_KEPT = 8, HYB_MOST_SYMBOLS = 64 };

typedef struct {
    const hyb_function_row *row;
    const hyb_symbol_row *symbols;
    hyb_case *cases;
    bool writes;
    pthread_mutex_t lock; /* of what follows */
    hyb_bound *bound[HYB_BOUND_KEPT]; /* the first alone, for good, where there are no symbols */
    uint64_t clock;
} hyb_function;

/* A plan that makes what is kept. */
typedef struct {
    const hyb_ahead_row *row;
    const hyb_plan_row *plan_row;
    hyb_plan *plan;
    int64_t *nbytes; /* of its externals */
} hyb_ahead;

/* What forks share. */
typedef struct {
    _Atomic int32_t users;
    hyb_file file;
    int32_t *kernels; /* of each row of the table */
    hyb_value_type *types;
    hyb_function *functions;
    hyb_case *cases;
    hyb_ahead *aheads;
    bool *written; /* of each cell: whether a function writes it */
    bool *swapped; /* and whether one does so elsewhere, so that it needs a spare */
    int32_t n_functions, n_cells, n_types, n_cases, n_aheads;
    int32_t n_locks; /* of functions, that are made */
    bool any_kernels, lacks; /* kernels may be missing; some are, so there are no plans: nothing runs */
    int64_t taken;           /* bytes beside the file, without what functions of open axes take */
    _Atomic int64_t budget;  /* iterations of a run; 0: any number */
    char *memory; /* in which these stand */
} hyb_code;

typedef struct {
    char *data;     /* in the mapping, or in a block */
    char *spare;    /* where a content goes that is not written in place, or NULL */
    char *block[2]; /* what was allocated for these */
    int64_t nbytes;
    uint64_t version; /* counts writes */
} hyb_cell;

/* What a plan has made ahead of cells, and of which versions of them. */
typedef struct {
    char *memory; /* NULL: it has not run */
    char **data;
    uint64_t *seen;
    bool made;
} hyb_kept;

struct hyb_program {
    hyb_code *code;
    hyb_cell *cells;
    hyb_kept *kept; /* of each ahead */
    pthread_rwlock_t lock; /* runs that write a cell exclude others */
};

static inline const hyb_binding_row *hyb_bindings(const hyb_code *code, int32_t first)
{
    return (const hyb_binding_row *)code->file.section[HYB_SECTION_BINDINGS].bytes + first;
}

static inline const hyb_value_row *hyb_values(const hyb_code *code, int32_t first)
{
    return (const hyb_value_row *)code->file.section[HYB_SECTION_VALUES].bytes + first;
}

static inline const hyb_cell_row *hyb_cell_rows(const hyb_code *code)
{
    return (const hyb_cell_row *)code->file.section[HYB_SECTION_CELLS].bytes;
}

static inline const hyb_external_row *hyb_externals(const hyb_code *code, const hyb_plan_row *plan)
{
    return (const hyb_external_row *)code->file.section[HYB_SECTION_EXTERNALS].bytes + plan->first_external;
}

/* program_check.c: tables as they have to be; fills types, functions and what is written. */
hyb_status hyb_code_read(hyb_code *code, hyb_file *file, bool any_kernels);
void hyb_code_release(hyb_code *code);

/* program_limit.c: whether the memory that a program takes beside its file is within the limit; and what
 * a function takes at sizes, and the literals of one plan, before they are made. */
hyb_status hyb_code_fits(hyb_code *code, bool copies_cells);
hyb_status hyb_bound_fits(const hyb_code *code, const hyb_function *function, const hyb_bound *bound);
hyb_status hyb_literals_fit(int64_t nbytes);
/* One block of zeros: parts of so many bytes, each at a multiple of 64.  NULL: there is no memory for `what`. */
char *hyb_alloc_parts(const size_t *nbytes, int n, char **parts, const char *what);

/* program_bind.c: types, sizes of inputs, and functions at these. */
int32_t hyb_make_dense(hyb_value_type *type);
hyb_status hyb_sizes_of(const hyb_code *code, const hyb_function *function, const hyb_layout *layouts, int64_t *sizes);
hyb_status hyb_bound_at(hyb_code *code, hyb_function *function, const int64_t *sizes, hyb_bound **bound);
void hyb_bound_release(hyb_bound *bound); /* NULL: nothing */
const hyb_case *hyb_case_at(const hyb_code *code, const hyb_function *function, const int64_t *sizes); /* NULL: none */

/* program_run.c: the blocks of a cell. */
hyb_status hyb_cell_block(hyb_cell *cell, int which);
hyb_status hyb_cell_spare(hyb_cell *cell); /* there is room for what is not written in place */

/* program_text.c */
enum { HYB_TYPE_TEXT = 128 };
const char *hyb_type_text(const hyb_layout *layout, char *text); /* f32[32,64] */
const char *hyb_open_text(const hyb_code *code, const hyb_function *function, const hyb_layout *layout, char *text);
/* The text of a file for a message: what does not print is a question mark. */
const char *hyb_shown(const hyb_file *file, hyb_text text, char *shown, size_t room);
/* The last error again, behind where it is. */
hyb_status hyb_fail_in(hyb_status status, const char *where);
#endif
