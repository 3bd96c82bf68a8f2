/* utf8.h - characters of texts that may hold any bytes. */
#ifndef HYB_UTF8_H
#define HYB_UTF8_H
#include <stdbool.h>
#include <stddef.h>

/* The bytes of the character of UTF-8 that begins here, of `n` > 0 bytes; 0: there is none. */
static inline size_t hyb_character(const char *text, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)text, first = bytes[0];
    if (first < 0x80)
        return 1;
    const size_t all = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
    if (all == 0 || all > n)
        return 0;
    for (size_t i = 1; i < all; i++)
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
    /* Too long for what it says, half of a pair, or beyond the last one. */
    const unsigned char second = bytes[1];
    const bool odd = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0)
        || (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
    return odd ? 0 : all;
}

/* The same where it prints, too: none that tells a terminal what to do. */
static inline size_t hyb_printed(const char *text, size_t n)
{
    const unsigned char first = (unsigned char)text[0];
    const bool control = first < ' ' || first == 127 || (first == 0xC2 && n > 1 && (unsigned char)text[1] < 0xA0);
    return control ? 0 : hyb_character(text, n);
}
#endif
