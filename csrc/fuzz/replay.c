/* replay.c - runs the target of a fuzzer on files and on what it makes of them, without libFuzzer.
 *
 *     program_replay TIMES FILE ...        each file as it is, then TIMES changed, always in the same way
 *
 * For compilers that have sanitizers but no libFuzzer; what fails is named. */
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/mutation.h"

enum { MOST = 1 << 18 };

static const char *path = "";
static unsigned int change; /* 0: as it is */
static randomness numbers;

static void tell(void) { fprintf(stderr, "%s, change %u\n", path, change); }

/* A few bytes changed, added or taken away. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
{
    for (uint32_t times = 1 + below(&numbers, 4); times > 0; times--) {
        const size_t at = below(&numbers, (uint32_t)size + 1);
        switch (below(&numbers, 4)) {
        case 0:
            if (size < most) {
                memmove(data + at + 1, data + at, size - at);
                data[at] = (uint8_t)next_number(&numbers);
                size++;
            }
            break;
        case 1:
            if (at < size && size > 1) {
                memmove(data + at, data + at + 1, size - at - 1);
                size--;
            }
            break;
        default:
            if (at < size)
                data[at] = (uint8_t)(below(&numbers, 2) ? telling_number(&numbers, data[at]) : next_number(&numbers));
        }
    }
    return size;
}

static size_t read_file(uint8_t *data)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    const size_t n = fread(data, 1, MOST, file);
    fclose(file);
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t whole[MOST], changed[MOST];
    if (argc < 3 || LLVMFuzzerInitialize(&argc, &argv) != 0) {
        fprintf(stderr, "usage: %s TIMES FILE ...\n", argv[0]);
        return 2;
    }
    __sanitizer_set_death_callback(tell);
    const unsigned int times = (unsigned int)strtoul(argv[1], NULL, 10);
    for (int i = 2; i < argc; i++) {
        path = argv[i];
        const size_t n = read_file(whole);
        if (n == 0) {
            fprintf(stderr, "%s cannot be read\n", path);
            return 2;
        }
        change = 0;
        LLVMFuzzerTestOneInput(whole, n);
        for (change = 1; change <= times; change++) {
            memcpy(changed, whole, n);
            numbers.state = change;
            LLVMFuzzerTestOneInput(changed, LLVMFuzzerCustomMutator(changed, n, MOST, change));
        }
    }
    printf("%lld executions\n", (long long)(argc - 2) * (1 + (long long)times));
    return 0;
}
