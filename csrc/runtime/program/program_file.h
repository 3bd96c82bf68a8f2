/* program_file.h - what a program file holds; docs/file_format.md says it in words.
 *
 * Little-endian.  Sections begin at multiples of 64 bytes and are found by one table; each but the
 * data is a table of equal rows, or bytes that rows point into. */
#ifndef HYB_PROGRAM_FILE_H
#define HYB_PROGRAM_FILE_H
#include "runtime/base/runtime.h"

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

/* A file that has been checked: its sections are within it, its tables consist of whole rows. */
typedef struct {
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
bool hyb_rows_hold(int64_t first, int64_t count, int64_t all);
const char *hyb_file_text(const hyb_file *file, hyb_text text, size_t *n); /* ends with a 0; NULL: not within */

/* plan_file.c: the plan of row `plan`, whose outputs lie where `aliases` says: of each external the one
 * that has its bytes.  NULL on failure. */
hyb_plan *hyb_file_plan(const hyb_file *file, const int32_t *kernels, int64_t plan, const int64_t *nbytes,
                        const int32_t *aliases);
#endif
