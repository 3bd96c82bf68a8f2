/* mutation.h - changes to tables of numbers that keep their structure: for libFuzzer's custom mutators. */
#ifndef HYB_MUTATION_H
#define HYB_MUTATION_H
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most); /* of libFuzzer, or of fuzz/replay.c */

/* What a target has. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed);

typedef struct {
    uint64_t state;
} randomness;

/* SplitMix64 of G. Steele, D. Lea and C. Flood (2014). */
static inline uint64_t next_number(randomness *random)
{
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint32_t below(randomness *random, uint32_t limit)
{
    return limit ? (uint32_t)(next_number(random) % limit) : 0;
}

/* Numbers at which checks go wrong. */
static inline uint64_t telling_number(randomness *random, uint64_t was)
{
    switch (below(random, 10)) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return was + 1;
    case 3: return was - 1;
    case 4: return 0 - was;
    case 5: return (uint64_t)1 << below(random, 64);
    case 6: return ((uint64_t)1 << below(random, 63)) - 1;
    case 7: return was * 2;
    case 8: return was ^ (uint64_t)1 << below(random, 64);
    default: return below(random, 64);
    }
}

/* Change one word of 4 or 8 bytes, or copy one over another; or what libFuzzer makes of a few bytes. */
static inline void mutate_words(randomness *random, uint8_t *bytes, size_t n)
{
    const size_t width = below(random, 2) ? 8 : 4, words = n / width;
    if (words == 0 || below(random, 8) == 0) {
        const size_t first = n ? below(random, (uint32_t)n) : 0;
        if (n)
            LLVMFuzzerMutate(bytes + first, 1 + below(random, (uint32_t)(n - first)), n - first);
        return;
    }
    uint8_t *at = bytes + width * below(random, (uint32_t)words);
    uint64_t number = 0; /* little-endian */
    memcpy(&number, at, width);
    if (below(random, 4) == 0)
        memcpy(&number, bytes + width * below(random, (uint32_t)words), width);
    else
        number = telling_number(random, number);
    memcpy(at, &number, width);
}
#endif
