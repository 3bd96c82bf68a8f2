/* npy_fuzz.c - libFuzzer: bytes as a .npy file, which is read, written and read again.
 *
 * What is read has just the bytes that its header says, and comes back from a file as it was. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/mutation.h"
#include "kernel.h"
#include "tools/npy.h"

enum { HEAD = 10 }; /* bytes before the header of format 1 */

/* A file in memory, and the path of it. */
typedef struct {
    int descriptor;
    char path[32];
} file;

static file given, written;

static void make(file *made)
{
    made->descriptor = memfd_create("npy", 0);
    if (made->descriptor < 0)
        abort();
    snprintf(made->path, sizeof made->path, "/proc/self/fd/%d", made->descriptor);
}

static void fill(const file *made, const uint8_t *data, size_t size)
{
    if (ftruncate(made->descriptor, 0) != 0 || pwrite(made->descriptor, data, size, 0) != (ssize_t)size)
        abort();
}

static void compare(const hyb_layout *layout, const void *data)
{
    char text[NPY_TEXT];
    hyb_layout again;
    fill(&written, NULL, 0); /* an open descriptor is written where it stands */
    if (lseek(written.descriptor, 0, SEEK_SET) != 0)
        abort();
    if (!npy_write(written.path, layout, data, text))
        abort();
    void *copy = npy_read(written.path, &again, text);
    if (!copy || again.dtype != layout->dtype || again.rank != layout->rank
        || memcmp(again.shape, layout->shape, (size_t)layout->rank * sizeof *layout->shape) != 0
        || memcmp(copy, data, (size_t)npy_nbytes(layout)) != 0)
        abort();
    hyb_free(copy);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    make(&given);
    make(&written);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[NPY_TEXT] = "";
    hyb_layout layout;
    fill(&given, data, size);
    uint8_t *read = npy_read(given.path, &layout, text);
    if (!read) {
        if (text[0] == 0)
            abort();
        return 0;
    }
    uint8_t sum = 0; /* of all bytes: the sanitizer sees whether they are there */
    for (int64_t i = 0; i < npy_nbytes(&layout); i++)
        sum ^= read[i];
    if (layout.dtype == HYB_BOOL && sum > 1)
        abort();
    if (hyb_is_contiguous(&layout))
        compare(&layout, read);
    hyb_free(read);
    return 0;
}

/* A header whose length is right, and as many bytes behind it as it says. */
static size_t repaired(uint8_t *data, size_t size, size_t most)
{
    memcpy(data, "\x93NUMPY\1", 7);
    const uint8_t *end = memchr(data + HEAD, '\n', size - HEAD);
    const size_t n = end ? (size_t)(end - data) + 1 - HEAD : size - HEAD;
    data[8] = (uint8_t)(n & 255);
    data[9] = (uint8_t)(n >> 8 & 255);
    char text[NPY_TEXT];
    hyb_layout layout;
    long long wanted, there;
    fill(&given, data, size);
    void *read = npy_read(given.path, &layout, text);
    hyb_free(read);
    if (!read && sscanf(text, "its header says that %lld bytes follow, and %lld do", &wanted, &there) == 2
        && wanted >= 0 && wanted - there <= (long long)(most - size)) {
        if (wanted > there)
            memset(data + size, 1, (size_t)(wanted - there));
        size = (size_t)((long long)size + wanted - there);
    }
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
    randomness state = {seed};
    if (size <= HEAD + 1 || below(&state, 4) == 0)
        return LLVMFuzzerMutate(data, size, most);
    const size_t room = most - HEAD, n = LLVMFuzzerMutate(data + HEAD, size - HEAD, room);
    return below(&state, 4) ? repaired(data, HEAD + n, most) : HEAD + n;
}
