/* number_text.h - numbers as Python writes them: str.format with a format specification. */
#ifndef HYB_NUMBER_TEXT_H
#define HYB_NUMBER_TEXT_H
#include <stdbool.h>
#include <stdint.h>

enum {
    HYB_MOST_WIDTH = 256,
    HYB_MOST_PRECISION = 100,
    HYB_NUMBER_ROOM = 4 * HYB_MOST_WIDTH + 768 /* bytes of one text, at most */
};

/* [[fill]align][sign][#][0][width][, or _][.precision][type], as far as it has these. */
typedef struct {
    char fill[5]; /* a character of UTF-8, and a 0 */
    char align;   /* < > = ^ */
    char sign;    /* - + or a space */
    char group;   /* 0 , _ */
    char type;    /* 0 b d o x X e E f F g G % */
    bool alternate, given; /* given: not empty */
    int32_t width, precision; /* precision: -1 if there is none */
} hyb_number_format;

/* Reads the specification [*text, end), up to what ends it; false: there is no such one. */
bool hyb_read_format(const char **text, const char *end, hyb_number_format *format);
/* Whether numbers of a dtype can be written so. */
bool hyb_format_fits(const hyb_number_format *format, int32_t dtype);
/* Writes one element; at most HYB_NUMBER_ROOM bytes, which it returns the number of. */
int64_t hyb_write_number(char *out, const hyb_number_format *format, int32_t dtype, const void *element);
#endif
