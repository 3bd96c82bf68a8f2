/* program_save.c - writes a program as the file that it was, with its cells as they are. */
#include "runtime/base/output.h"
#include "runtime/program/program.h"

/* A file on its way out. */
typedef struct {
    hyb_output output;
    uint64_t written;
} sink;

static hyb_status result_of(const char *fault)
{
    return fault ? hyb_fail(HYB_BAD_FILE, "%s", fault) : HYB_OK;
}

static hyb_status put(sink *to, const void *bytes, size_t n)
{
    to->written += n;
    return result_of(hyb_output_write(&to->output, bytes, n));
}

static hyb_status pad(sink *to, uint64_t offset)
{
    static const char zeros[64];
    while (to->written < offset) {
        const uint64_t n = offset - to->written;
        TRY(put(to, zeros, n < sizeof zeros ? n : sizeof zeros));
    }
    return HYB_OK;
}

/* The data of all cells as one block, in the order of the file. */
static char *data_of(const hyb_program *program)
{
    const hyb_file *file = &program->code->file;
    const size_t n = (size_t)file->section[HYB_SECTION_DATA].nbytes;
    char *data = hyb_alloc(n > 0 ? n : 1);
    if (!data) {
        hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes of cells", n);
        return NULL;
    }
    memcpy(data, file->section[HYB_SECTION_DATA].bytes, n);
    const hyb_cell_row *rows = hyb_cell_rows(program->code);
    for (int32_t i = 0; i < program->code->n_cells; i++)
        memcpy(data + rows[i].offset, program->cells[i].data, (size_t)rows[i].nbytes);
    return data;
}

/* The sections are where they were: only what cells hold is another. */
static hyb_status write_all(const hyb_program *program, const char *data, sink *to)
{
    hyb_file file = program->code->file;
    const hyb_file_header *header = &file.header;
    const hyb_section_row *rows = file.rows;
    for (uint32_t i = 0; i < header->n_sections; i++)
        if (rows[i].kind == HYB_SECTION_DATA)
            file.rows[i].hash = hyb_hash(data, (size_t)file.section[HYB_SECTION_DATA].nbytes);
    file.header.hash = hyb_file_hash(&file);
    TRY(put(to, header, sizeof *header));
    TRY(put(to, rows, header->n_sections * sizeof *rows));
    for (;;) { /* in the order of their offsets */
        const hyb_section_row *next = NULL;
        for (uint32_t i = 0; i < header->n_sections; i++)
            if (rows[i].offset >= to->written && rows[i].nbytes > 0 && (!next || rows[i].offset < next->offset))
                next = &rows[i];
        if (!next)
            break;
        TRY(pad(to, next->offset));
        const bool known = next->kind > 0 && next->kind < HYB_SECTION_KINDS;
        const char *bytes = next->kind == HYB_SECTION_DATA ? data
            : known ? file.section[next->kind].bytes : file.bytes + next->offset;
        TRY(put(to, bytes, next->nbytes));
    }
    return pad(to, header->nbytes);
}

hyb_status hyb_program_save(hyb_program *program, const char *path)
{
    if (!path)
        return hyb_fail(HYB_BAD_ARGUMENT, "a path is needed");
    pthread_rwlock_rdlock(&program->lock);
    char *data = data_of(program);
    pthread_rwlock_unlock(&program->lock);
    if (!data)
        return HYB_NO_MEMORY;
    sink to = {.written = 0};
    hyb_status status = result_of(hyb_output_open(&to.output, path));
    if (status == HYB_OK)
        status = write_all(program, data, &to);
    const char *fault = hyb_output_close(&to.output, status == HYB_OK);
    if (fault)
        status = result_of(fault);
    if (status != HYB_OK)
        hyb_fail_in(status, path);
    hyb_free(data);
    return status;
}
