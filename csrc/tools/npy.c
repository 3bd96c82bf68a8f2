/* npy.c - reads and writes arrays in files of NumPy: docs of numpy.lib.format say what is in them. */
#include "tools/npy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/output.h"

/* NumPy has no bfloat16: two bytes of any kind. */
static const struct {
    const char *name, *description;
    int64_t itemsize;
} dtypes[HYB_DTYPE_COUNT] = {
    [HYB_BOOL] = {"bool", "|b1", 1}, [HYB_I8] = {"i8", "|i1", 1},    [HYB_I16] = {"i16", "<i2", 2},
    [HYB_I32] = {"i32", "<i4", 4},   [HYB_I64] = {"i64", "<i8", 8},  [HYB_U8] = {"u8", "|u1", 1},
    [HYB_U16] = {"u16", "<u2", 2},   [HYB_U32] = {"u32", "<u4", 4},  [HYB_U64] = {"u64", "<u8", 8},
    [HYB_F16] = {"f16", "<f2", 2},   [HYB_BF16] = {"bf16", "<V2", 2}, [HYB_F32] = {"f32", "<f4", 4},
    [HYB_F64] = {"f64", "<f8", 8},
};

enum { MOST_HEADER = 1 << 16 };
static const int64_t MOST_BYTES = INT64_C(1) << 46;

const char *npy_dtype_name(int32_t dtype) { return dtypes[dtype].name; }

int64_t npy_itemsize(int32_t dtype) { return dtypes[dtype].itemsize; }

int64_t npy_elements(const hyb_layout *layout)
{
    int64_t n = 1;
    for (int32_t d = 0; d < layout->rank; d++)
        n *= layout->shape[d];
    return n;
}

int64_t npy_nbytes(const hyb_layout *layout)
{
    return npy_elements(layout) * npy_itemsize(layout->dtype);
}

__attribute__((format(printf, 2, 3))) static bool fail(char *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, NPY_TEXT, format, arguments);
    va_end(arguments);
    return false;
}

/* The header: {'descr': '<f4', 'fortran_order': False, 'shape': (16, 64), } ----------------------- */

typedef struct {
    const char *at, *end;
    char *text;
} reader;

static void skip_spaces(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n'))
        r->at++;
}

static bool next_is(reader *r, char wanted)
{
    skip_spaces(r);
    if (r->at == r->end || *r->at != wanted)
        return false;
    r->at++;
    return true;
}

/* A word in quotes, of fewer than `room` bytes. */
static bool read_word(reader *r, char *word, size_t room)
{
    skip_spaces(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"'))
        return fail(r->text, "its header is not understood");
    const char quote = *r->at++;
    size_t n = 0;
    for (; r->at < r->end && *r->at != quote; r->at++) {
        if (n + 1 >= room)
            return fail(r->text, "its header is not understood");
        word[n++] = *r->at;
    }
    if (r->at++ >= r->end)
        return fail(r->text, "its header is not understood");
    word[n] = 0;
    return true;
}

static bool read_dtype(reader *r, hyb_layout *layout)
{
    char word[16];
    skip_spaces(r);
    if (r->at < r->end && *r->at == '[')
        return fail(r->text, "its elements are records, which hybrid does not have");
    if (!read_word(r, word, sizeof word))
        return false;
    if (word[0] == '>')
        return fail(r->text, "its bytes are in the other order (%s)", word);
    if (strcmp(word, "|V2") == 0)
        word[0] = '<';
    for (layout->dtype = 0; layout->dtype < HYB_DTYPE_COUNT; layout->dtype++)
        if (strcmp(word, dtypes[layout->dtype].description) == 0)
            return true;
    for (char *at = word; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    return fail(r->text, "its elements are %s, which hybrid does not have", word);
}

static bool read_order(reader *r, bool *fortran)
{
    static const char *const words[] = {"False", "True"};
    skip_spaces(r);
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i], n) == 0) {
            r->at += n;
            *fortran = i;
            return true;
        }
    }
    return fail(r->text, "its header is not understood");
}

static bool read_shape(reader *r, hyb_layout *layout)
{
    layout->rank = 0;
    if (!next_is(r, '('))
        return fail(r->text, "its header is not understood");
    while (!next_is(r, ')')) {
        int64_t size = 0;
        const char *first = r->at;
        for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
            size = 10 * size + (*r->at - '0');
            if (size > MOST_BYTES)
                return fail(r->text, "an axis of it is larger than any there is");
        }
        if (r->at == first)
            return fail(r->text, "its header is not understood");
        if (layout->rank == HYB_MAX_RANK)
            return fail(r->text, "it has more than the %d axes there may be", HYB_MAX_RANK);
        layout->shape[layout->rank++] = size;
        if (next_is(r, ')'))
            return true;
        if (!next_is(r, ','))
            return fail(r->text, "its header is not understood");
    }
    return true;
}

static bool read_header(reader *r, hyb_layout *layout, bool *fortran)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    if (!next_is(r, '{'))
        return fail(r->text, "its header is not understood");
    while (!next_is(r, '}')) {
        char key[16];
        if (!read_word(r, key, sizeof key))
            return false;
        const int found = strcmp(key, "descr") == 0 ? DESCR : strcmp(key, "fortran_order") == 0 ? ORDER
                        : strcmp(key, "shape") == 0 ? SHAPE : 0;
        if (!found || (seen & found) || !next_is(r, ':'))
            return fail(r->text, "its header is not understood");
        seen |= found;
        if (!(found == DESCR ? read_dtype(r, layout)
              : found == ORDER ? read_order(r, fortran) : read_shape(r, layout)))
            return false;
        if (next_is(r, '}'))
            break;
        if (!next_is(r, ','))
            return fail(r->text, "its header is not understood");
    }
    skip_spaces(r);
    return (seen == ALL && r->at == r->end) || fail(r->text, "its header is not understood");
}

/* Strides, and the bytes of all elements; sizes whose product is too large are refused. */
static bool lay_out(hyb_layout *layout, bool fortran, int64_t *nbytes, char *text)
{
    int64_t stride = npy_itemsize(layout->dtype);
    for (int32_t i = 0; i < layout->rank; i++) {
        const int32_t d = fortran ? i : layout->rank - 1 - i;
        layout->strides[d] = stride;
        const int64_t size = layout->shape[d] > 0 ? layout->shape[d] : 1;
        if (size > MOST_BYTES / stride)
            return fail(text, "it has more than the %lld bytes there may be", (long long)MOST_BYTES);
        stride *= size;
    }
    *nbytes = npy_nbytes(layout);
    return true;
}

/* Files ------------------------------------------------------------------------------------------- */

static bool read_open(FILE *file, hyb_layout *layout, void **data, char *text)
{
    struct stat about;
    if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode))
        return fail(text, "it is no regular file");
    unsigned char head[12];
    char header[MOST_HEADER];
    if (fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY", 6) != 0)
        return fail(text, "it is no .npy file");
    if (head[6] != 1 && head[6] != 2)
        return fail(text, "it has format %d, and 1 and 2 are known", head[6]);
    const int wide = head[6] == 2;
    if (wide && fread(head + 10, 1, 2, file) != 2)
        return fail(text, "it is cut off");
    const size_t n = head[8] + ((size_t)head[9] << 8)
        + (wide ? ((size_t)head[10] << 16) + ((size_t)head[11] << 24) : 0);
    if (n > sizeof header)
        return fail(text, "its header has %zu bytes, more than the %d there may be", n, MOST_HEADER);
    if (fread(header, 1, n, file) != n)
        return fail(text, "it is cut off");
    reader r = {header, header + n, text};
    bool fortran = false;
    int64_t nbytes = 0;
    if (!read_header(&r, layout, &fortran) || !lay_out(layout, fortran, &nbytes, text))
        return false;
    const int64_t there = (int64_t)about.st_size - (wide ? 12 : 10) - (int64_t)n;
    if (there != nbytes)
        return fail(text, "its header says that %lld bytes follow, and %lld do", (long long)nbytes,
                    (long long)there);
    *data = hyb_alloc(nbytes > 0 ? (size_t)nbytes : 1);
    if (!*data)
        return fail(text, "no memory for its %lld bytes", (long long)nbytes);
    if (fread(*data, 1, (size_t)nbytes, file) != (size_t)nbytes)
        return fail(text, "it cannot be read: %s", strerror(errno));
    if (layout->dtype == HYB_BOOL) /* kernels count on 0 and 1 */
        for (int64_t i = 0; i < nbytes; i++)
            ((unsigned char *)*data)[i] = ((unsigned char *)*data)[i] != 0;
    return true;
}

void *npy_read(const char *path, hyb_layout *layout, char *text)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail(text, "it cannot be read: %s", strerror(errno));
        return NULL;
    }
    void *data = NULL;
    if (!read_open(file, layout, &data, text)) {
        hyb_free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

bool npy_write(const char *path, const hyb_layout *layout, const void *data, char *text)
{
    char header[1024];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     dtypes[layout->dtype].description);
    for (int32_t d = 0; d < layout->rank; d++)
        n += snprintf(header + n, sizeof header - (size_t)n, d ? ", %lld" : "%lld", (long long)layout->shape[d]);
    n += snprintf(header + n, sizeof header - (size_t)n, layout->rank == 1 ? ",), }" : "), }");
    while ((10 + n + 1) % 64 != 0) /* the data begins at a multiple of 64 */
        header[n++] = ' ';
    header[n++] = '\n';
    const unsigned char head[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    const size_t nbytes = (size_t)npy_nbytes(layout);
    hyb_output output;
    const char *fault = hyb_output_open(&output, path);
    if (!fault)
        fault = hyb_output_write(&output, head, sizeof head);
    if (!fault)
        fault = hyb_output_write(&output, header, (size_t)n);
    if (!fault)
        fault = hyb_output_write(&output, data, nbytes);
    const char *late = hyb_output_close(&output, !fault);
    return fault || late ? fail(text, "it cannot be written: %s", fault ? fault : late) : true;
}
