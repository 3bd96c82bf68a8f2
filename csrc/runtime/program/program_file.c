/* program_file.c - opens program files: maps them, and shows that their sections are what they say.
 *
 * A file may be anything, and may change while it is mapped.  Its tables are copied, and the copy is
 * checked; what stays in the mapping are bytes that kernels compute with. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/program/program.h"

static const struct { const char *name; size_t row; } KINDS[HYB_SECTION_KINDS] = {
    [HYB_SECTION_STRINGS] = {"strings", 1},
    [HYB_SECTION_KERNELS] = {"kernels", sizeof(hyb_kernel_row)},
    [HYB_SECTION_TYPES] = {"types", sizeof(hyb_type_row)},
    [HYB_SECTION_DIMS] = {"dims", sizeof(int64_t)},
    [HYB_SECTION_FUNCTIONS] = {"functions", sizeof(hyb_function_row)},
    [HYB_SECTION_VALUES] = {"values", sizeof(hyb_value_row)},
    [HYB_SECTION_BINDINGS] = {"bindings", sizeof(hyb_binding_row)},
    [HYB_SECTION_PLANS] = {"plans", sizeof(hyb_plan_row)},
    [HYB_SECTION_EXTERNALS] = {"externals", sizeof(hyb_external_row)},
    [HYB_SECTION_ROWS] = {"rows of plans", 1},
    [HYB_SECTION_PLACES] = {"places", sizeof(hyb_place_row)},
    [HYB_SECTION_LINES] = {"lines", sizeof(int32_t)},
    [HYB_SECTION_CELLS] = {"cells", sizeof(hyb_cell_row)},
    [HYB_SECTION_ALIASES] = {"aliases", sizeof(hyb_text)},
    [HYB_SECTION_NOTES] = {"notes", sizeof(hyb_note_row)},
    [HYB_SECTION_SYMBOLS] = {"symbols", sizeof(hyb_symbol_row)},
    [HYB_SECTION_CASES] = {"cases", sizeof(hyb_case_row)},
    [HYB_SECTION_AHEAD] = {"plans that run ahead", sizeof(hyb_ahead_row)},
    [HYB_SECTION_FORMULAS] = {"formulas", sizeof(hyb_formula_row)},
    [HYB_SECTION_WORDS] = {"words", sizeof(hyb_word_row)},
    [HYB_SECTION_ARENAS] = {"places of arenas", sizeof(hyb_place)},
    [HYB_SECTION_FILLS] = {"literals", sizeof(hyb_fill_row)},
    [HYB_SECTION_CONSTANTS] = {"constants", 1},
    [HYB_SECTION_DATA] = {"data", 1},
};

bool hyb_rows_hold(int64_t first, int64_t count, int64_t all)
{
    return first >= 0 && count >= 0 && first <= all && count <= all - first;
}

const char *hyb_file_text(const hyb_file *file, hyb_text text, size_t *n)
{
    const int64_t all = file->section[HYB_SECTION_STRINGS].nbytes;
    *n = text.nbytes;
    if (!hyb_rows_hold(text.offset, (int64_t)text.nbytes + 1, all))
        return NULL;
    const char *bytes = file->section[HYB_SECTION_STRINGS].bytes + text.offset;
    return bytes[text.nbytes] == 0 ? bytes : NULL;
}

static bool is_bulk(uint32_t kind) { return kind == HYB_SECTION_CONSTANTS || kind == HYB_SECTION_DATA; }

/* The header alone: what can be said before anything is believed. */
static hyb_status check_header(hyb_file *file)
{
    hyb_file_header *header = &file->header;
    if (file->nbytes < sizeof *header)
        return hyb_fail(HYB_BAD_FILE, "%zu bytes are no program: its header has %zu", file->nbytes,
                        sizeof *header);
    memcpy(header, file->bytes, sizeof *header);
    if (memcmp(header->magic, HYB_FILE_MAGIC, 8) != 0)
        return hyb_fail(HYB_BAD_FILE, "it does not begin as a program does");
    if (header->major != HYB_FILE_MAJOR)
        return hyb_fail(HYB_BAD_FILE, "it has version %u.%u, and this library reads %d.x",
                        header->major, header->minor, HYB_FILE_MAJOR);
    if (header->nbytes != file->nbytes)
        return hyb_fail(HYB_BAD_FILE, "it has %zu bytes, and says %llu: it is cut off, or added to",
                        file->nbytes, (unsigned long long)header->nbytes);
    if (header->n_sections > HYB_MOST_SECTIONS)
        return hyb_fail(HYB_BAD_FILE, "%u sections are more than the %d there may be",
                        header->n_sections, HYB_MOST_SECTIONS);
    if (header->flags)
        return hyb_fail(HYB_BAD_FILE, "it has flags 0x%x, which this library does not know", header->flags);
    if (file->nbytes - sizeof *header < header->n_sections * sizeof(hyb_section_row))
        return hyb_fail(HYB_BAD_FILE, "its table of sections reaches beyond its end");
    return HYB_OK;
}

static bool is_known(uint32_t kind) { return kind > 0 && kind < HYB_SECTION_KINDS; }

static hyb_status check_section(const hyb_file *file, const hyb_section_row *row)
{
    const bool known = is_known(row->kind);
    if (!known && (row->flags & HYB_SECTION_NEEDED))
        return hyb_fail(HYB_BAD_FILE, "it needs a section of kind %u, which this library does not know",
                        row->kind);
    if (row->offset % 64 != 0 || row->offset > file->nbytes || row->nbytes > file->nbytes - row->offset)
        return hyb_fail(HYB_BAD_FILE, "section %s: bytes %llu + %llu are not within the file",
                        known ? KINDS[row->kind].name : "unknown", (unsigned long long)row->offset,
                        (unsigned long long)row->nbytes);
    if (!known)
        return HYB_OK;
    if (row->nbytes % KINDS[row->kind].row != 0)
        return hyb_fail(HYB_BAD_FILE, "section %s: %llu bytes are no whole rows of %zu",
                        KINDS[row->kind].name, (unsigned long long)row->nbytes, KINDS[row->kind].row);
    if (file->section[row->kind].bytes)
        return hyb_fail(HYB_BAD_FILE, "section %s: there are two", KINDS[row->kind].name);
    return HYB_OK;
}

/* Copies the tables and finds all sections. */
static hyb_status read_sections(hyb_file *file, int32_t flags)
{
    const hyb_file_header *header = &file->header;
    const hyb_section_row *rows = file->rows;
    size_t room = 64;
    for (uint32_t i = 0; i < header->n_sections; i++) {
        TRY(check_section(file, &rows[i]));
        if (is_known(rows[i].kind)) {
            file->section[rows[i].kind].bytes = file->bytes; /* seen */
            if (!is_bulk(rows[i].kind))
                room += (rows[i].nbytes + 63) / 64 * 64;
        }
    }
    file->tables = hyb_alloc(room);
    if (!file->tables)
        return hyb_fail(HYB_NO_MEMORY, "no memory for %zu bytes of tables", room);
    size_t used = 0;
    for (uint32_t i = 0; i < header->n_sections; i++) {
        const hyb_section_row *row = &rows[i];
        if (!is_known(row->kind))
            continue;
        const char *bytes = file->bytes + row->offset;
        if (!is_bulk(row->kind)) {
            bytes = memcpy(file->tables + used, bytes, row->nbytes);
            used += (row->nbytes + 63) / 64 * 64;
        }
        file->section[row->kind].bytes = bytes;
        file->section[row->kind].nbytes = (int64_t)row->nbytes;
        file->section[row->kind].count = (int64_t)(row->nbytes / KINDS[row->kind].row);
        const bool looks = is_bulk(row->kind) ? flags & HYB_PROGRAM_CHECK_DATA
                                              : !(flags & HYB_PROGRAM_NO_CHECKSUM);
        if (looks && hyb_hash(bytes, row->nbytes) != row->hash)
            return hyb_fail(HYB_BAD_FILE, "section %s is damaged: its hash is another one",
                            KINDS[row->kind].name);
    }
    for (uint32_t kind = 1; kind < HYB_SECTION_KINDS; kind++)
        if (!file->section[kind].bytes)
            file->section[kind].bytes = file->tables; /* no rows */
    return HYB_OK;
}

static hyb_status read_file(hyb_file *file, int32_t flags)
{
    TRY(check_header(file));
    const size_t table = file->header.n_sections * sizeof *file->rows;
    memcpy(file->rows, file->bytes + sizeof file->header, table);
    if (!(flags & HYB_PROGRAM_NO_CHECKSUM) && hyb_file_hash(file) != file->header.hash)
        return hyb_fail(HYB_BAD_FILE, "its table of sections is damaged: its hash is another one");
    return read_sections(file, flags);
}

uint64_t hyb_file_hash(const hyb_file *file)
{
    char bytes[sizeof file->header + sizeof file->rows];
    hyb_file_header header = file->header;
    header.hash = 0;
    const size_t table = header.n_sections * sizeof *file->rows;
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, file->rows, table);
    return hyb_hash(bytes, sizeof header + table);
}

hyb_status hyb_file_take(hyb_file *file, const void *bytes, size_t n, int32_t flags)
{
    *file = (hyb_file){.bytes = bytes, .nbytes = n};
    if ((uintptr_t)bytes % 64 != 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "the bytes of a program have to begin at a multiple of 64");
    return read_file(file, flags);
}

hyb_status hyb_file_open(hyb_file *file, const char *path, int32_t flags)
{
    *file = (hyb_file){0};
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return hyb_fail(HYB_BAD_FILE, "%s", strerror(errno));
    struct stat about;
    hyb_status status = HYB_OK;
    if (fstat(descriptor, &about) != 0)
        status = hyb_fail(HYB_BAD_FILE, "%s", strerror(errno));
    else if (!S_ISREG(about.st_mode))
        status = hyb_fail(HYB_BAD_FILE, "it is no regular file");
    else if (about.st_size == 0)
        status = hyb_fail(HYB_BAD_FILE, "it is empty");
    void *bytes = MAP_FAILED;
    if (status == HYB_OK) {
        /* Private: what runs write to cells stays in this process. */
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED)
            status = hyb_fail(HYB_NO_MEMORY, "it cannot be mapped: %s", strerror(errno));
    }
    close(descriptor);
    TRY(status);
    file->bytes = bytes;
    file->nbytes = (size_t)about.st_size;
    file->mapped = true;
    return read_file(file, flags);
}

void hyb_file_close(hyb_file *file)
{
    hyb_free(file->tables);
    if (file->mapped)
        munmap((void *)file->bytes, file->nbytes);
    *file = (hyb_file){0};
}
