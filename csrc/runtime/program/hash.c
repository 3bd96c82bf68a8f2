/* hash.c - XXH64 of Y. Collet (xxHash fast digest algorithm, version 0.1.1), with seed 0.
 *
 * It finds damage, not forgery: nothing rests on it but the text of an error. */
#include "runtime/program/program.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t turned(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t word(const unsigned char *bytes)
{
    uint64_t found;
    memcpy(&found, bytes, sizeof found);
    return found;
}

static uint64_t half(const unsigned char *bytes)
{
    uint32_t found;
    memcpy(&found, bytes, sizeof found);
    return found;
}

static uint64_t round_of(uint64_t lane, uint64_t input) { return turned(lane + input * P2, 31) * P1; }

static uint64_t merged(uint64_t hash, uint64_t lane) { return (hash ^ round_of(0, lane)) * P1 + P4; }

uint64_t hyb_hash(const void *bytes, size_t n)
{
    const unsigned char *at = bytes, *end = at + n;
    uint64_t hash = P5;
    if (n >= 32) {
        uint64_t lane[4] = {P1 + P2, P2, 0, 0 - P1};
        for (; end - at >= 32; at += 32)
            for (int i = 0; i < 4; i++)
                lane[i] = round_of(lane[i], word(at + 8 * i));
        hash = turned(lane[0], 1) + turned(lane[1], 7) + turned(lane[2], 12) + turned(lane[3], 18);
        for (int i = 0; i < 4; i++)
            hash = merged(hash, lane[i]);
    }
    hash += n;
    for (; end - at >= 8; at += 8)
        hash = turned(hash ^ round_of(0, word(at)), 27) * P1 + P4;
    if (end - at >= 4) {
        hash = turned(hash ^ half(at) * P1, 23) * P2 + P3;
        at += 4;
    }
    for (; at < end; at++)
        hash = turned(hash ^ *at * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}
