/* program_fuzz.c - libFuzzer: bytes as the file of a program, which is loaded, asked, run and copied.
 *
 *     make fuzz CC=clang        builds this file and the library with sanitizers, and runs it on seeds
 *
 * What is loaded may compute nonsense.  It stays within its memory, ends, and says why it fails. */
#include <stdlib.h>

#include "fuzz/mutation.h"
#include "runtime/program/program.h"

enum {
    MOST_BYTES = 1 << 20, /* of a value */
    MOST_ITEMS = 1 << 12, /* of an operand that is computed with */
    MOST_ITERATIONS = 64, /* of all loops of a run */
    MOST_VALUES = 64      /* inputs, and outputs, of a function */
};

static int32_t say_nothing(void *context, int32_t stream, const char *text, int64_t n)
{
    (void)context, (void)stream, (void)text, (void)n;
    return HYB_OK;
}

static void require_text(hyb_status status)
{
    if (status != HYB_OK && hyb_last_error()[0] == 0)
        abort();
}

/* Buffers of just the size of each value, for the sanitizer to watch. */
typedef struct {
    void *at[MOST_VALUES];
    int32_t n;
} buffers;

static bool add(buffers *made, const hyb_layout *layout)
{
    const int64_t nbytes = hyb_itemsize(layout->dtype) * hyb_elements(layout);
    if (made->n == MOST_VALUES || nbytes > MOST_BYTES)
        return false;
    char *bytes = malloc((size_t)nbytes + 1); /* an own address each */
    if (!bytes)
        return false;
    memset(bytes, 0, (size_t)nbytes + 1);
    for (int64_t i = 0; i + 4 <= nbytes; i += 4)
        bytes[i] = (char)i;
    made->at[made->n++] = realloc(bytes, nbytes ? (size_t)nbytes : 1);
    return true;
}

static void release(buffers *made)
{
    for (int32_t i = 0; i < made->n; i++)
        free(made->at[i]);
    made->n = 0;
}

/* Whether all operands of a plan are small, as far as the file says: nothing interrupts a kernel.
 * Plans that depend on sizes are checked when they are bound: those that are damaged never run. */
static bool is_small(const hyb_file *file, const hyb_plan_row *row)
{
    const int64_t words = 3 + 2 * (int64_t)row->rank;
    const int64_t offset = row->part[HYB_PART_OPERANDS].offset, nbytes = row->part[HYB_PART_OPERANDS].nbytes;
    if (row->rank < 0 || row->rank > HYB_MAX_RANK || offset % 8 != 0 || nbytes % (8 * words) != 0
        || !hyb_rows_hold(offset, nbytes, file->section[HYB_SECTION_ROWS].nbytes))
        return true;
    const int64_t *operands = (const int64_t *)(file->section[HYB_SECTION_ROWS].bytes + offset);
    const int64_t *end = operands + nbytes / 8;
    for (; operands < end; operands += words) {
        double items = 1;
        for (int32_t axis = 0; axis < row->rank; axis++)
            items *= operands[3 + axis] > 1 ? (double)operands[3 + axis] : 1;
        if (items > MOST_ITEMS)
            return false;
    }
    return true;
}

/* Axes that are open get a size that is allowed. */
static void close_axes(const hyb_function *function, const hyb_layout *declared, hyb_layout *layout, int32_t input,
                       const hyb_code *code)
{
    const hyb_layout *open = &code->types[hyb_values(code, function->row->first_input)[input].type].layout;
    *layout = *declared;
    int64_t stride = hyb_itemsize(layout->dtype);
    for (int32_t axis = layout->rank - 1; axis >= 0; axis--) {
        if (open->shape[axis] < 0) {
            const hyb_symbol_row *symbol = &function->symbols[-1 - open->shape[axis]];
            layout->shape[axis] = symbol->high - symbol->low > 3 ? symbol->low + 3 : symbol->high;
        }
        layout->strides[axis] = stride;
        if (__builtin_mul_overflow(stride, layout->shape[axis] > 1 ? layout->shape[axis] : 1, &stride))
            stride = 0;
    }
}

static void run(hyb_program *program, int32_t f)
{
    const hyb_function *function = &program->code->functions[f];
    buffers inputs = {.n = 0}, outputs = {.n = 0};
    hyb_layout layouts[MOST_VALUES], layout;
    const char *name;
    bool possible = true;
    for (int32_t i = 0; possible && i < hyb_program_inputs(program, f); i++) {
        const hyb_status status = hyb_program_input(program, f, i, &name, &layout);
        require_text(status);
        possible = status == HYB_OK && name && i < MOST_VALUES;
        if (possible)
            close_axes(function, &layout, &layouts[i], i, program->code);
        possible = possible && add(&inputs, &layouts[i]);
    }
    for (int32_t i = 0; possible && i < hyb_program_outputs(program, f); i++) {
        const hyb_status status = hyb_program_output_layout(program, f, i, layouts, &layout);
        require_text(status);
        for (int32_t d = 0; status == HYB_OK && d < layout.rank; d++)
            hyb_program_output_size(program, f, i, d);
        possible = status == HYB_OK && add(&outputs, &layout);
    }
    if (possible) {
        require_text(hyb_program_run(program, f, inputs.at, layouts, outputs.at));
        for (int32_t i = 0; i < inputs.n; i++) /* rows that are all the first one: they are copied */
            if (layouts[i].rank > 0)
                layouts[i].strides[0] = 0;
        require_text(hyb_program_run(program, f, inputs.at, layouts, outputs.at)); /* cells have been swapped */
    }
    release(&inputs);
    release(&outputs);
}

static void use(hyb_program *program)
{
    const hyb_code *code = program->code;
    const char *name;
    hyb_layout layout;
    void *data;
    for (int32_t i = 0; i < hyb_program_states(program); i++)
        require_text(hyb_program_state(program, i, &name, &layout, &data));
    bool small = true;
    const hyb_plan_row *plans = (const hyb_plan_row *)code->file.section[HYB_SECTION_PLANS].bytes;
    for (int64_t i = 0; i < code->file.section[HYB_SECTION_PLANS].count && small; i++)
        small = is_small(&code->file, &plans[i]);
    hyb_program_set_budget(program, MOST_ITERATIONS);
    for (int32_t f = 0; f < hyb_program_functions(program); f++) {
        if (!hyb_program_function_name(program, f))
            abort();
        if (small)
            run(program, f);
    }
    hyb_program *fork = hyb_program_fork(program);
    if (fork && hyb_program_states(fork) > 0)
        require_text(hyb_program_touch(fork, 0));
    hyb_program_free(fork);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    hyb_set_print(say_nothing, NULL);
    setenv("HYBRID_PROGRAM_MAX_BYTES", "4000000", 1);
    return hyb_set_num_threads(1) == HYB_OK ? 0 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *bytes = NULL;
    if (size == 0 || posix_memalign(&bytes, 64, size) != 0)
        return 0;
    memcpy(bytes, data, size);
    const int32_t flags = data[size - 1] & 1 ? HYB_PROGRAM_NO_CHECKSUM : HYB_PROGRAM_CHECK_DATA;
    hyb_program *program = hyb_program_load_memory(bytes, size, flags);
    if (program)
        use(program);
    else
        require_text(HYB_BAD_FILE);
    hyb_program_free(program);
    free(bytes);
    return 0;
}

/* The sections that lie within the file, of which there are `*n`. */
static hyb_section_row *sections(uint8_t *data, size_t size, uint32_t *n)
{
    const hyb_file_header *header = (const hyb_file_header *)data;
    const size_t most = (size - sizeof *header) / sizeof(hyb_section_row);
    *n = header->n_sections > most ? (uint32_t)most : header->n_sections;
    return (hyb_section_row *)(data + sizeof *header);
}

static void repair(uint8_t *data, size_t size)
{
    hyb_file_header *header = (hyb_file_header *)data;
    uint32_t n;
    hyb_section_row *rows = sections(data, size, &n);
    header->nbytes = size;
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].offset <= size && rows[i].nbytes <= size - rows[i].offset)
            rows[i].hash = hyb_hash(data + rows[i].offset, rows[i].nbytes);
    hyb_file file = {.header = *header};
    if (header->n_sections <= HYB_MOST_SECTIONS) {
        memcpy(file.rows, rows, n * sizeof *rows);
        header->hash = hyb_file_hash(&file);
    }
}

/* Words within one section, or in the table of sections; hashes are those of what comes out. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
    randomness state = {seed};
    if (size < sizeof(hyb_file_header) + sizeof(hyb_section_row) || below(&state, 32) == 0)
        return LLVMFuzzerMutate(data, size, most);
    uint32_t n;
    hyb_section_row *rows = sections(data, size, &n);
    for (uint32_t i = 0, times = 1 + below(&state, 4); n > 0 && i < times; i++) {
        const hyb_section_row *row = &rows[below(&state, n)];
        if (below(&state, 16) == 0)
            mutate_words(&state, (uint8_t *)rows, n * sizeof *rows);
        else if (row->offset < size && row->nbytes <= size - row->offset)
            mutate_words(&state, data + row->offset, row->nbytes);
    }
    repair(data, size);
    return size;
}
