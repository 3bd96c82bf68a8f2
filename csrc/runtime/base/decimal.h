/* decimal.h - the decimal digits of floats: exactly rounded, or as few as tell a number from others. */
#ifndef HYB_DECIMAL_H
#define HYB_DECIMAL_H
#include <stdbool.h>
#include <stdint.h>

enum { HYB_DECIMAL_DIGITS = 512 }; /* of a float: 309 before its point, and 100 or so behind it */

/* A finite number without its sign: 0.d1d2d3... times 10 to the power of `point`.  Of zero the only
 * digit is 0, and its point stands behind it. */
typedef struct {
    char digit[HYB_DECIMAL_DIGITS];
    int n, point;
} hyb_decimal;

void hyb_round_to(double x, int n, hyb_decimal *found);           /* n digits */
void hyb_round_behind(double x, int behind, hyb_decimal *found);  /* so many behind the point */
void hyb_shorten(double x, bool is_float, hyb_decimal *found);    /* that are read as x again */
void hyb_strip(hyb_decimal *digits, int least);                   /* of zeros at the end, but for so many digits */

/* An element of a tensor as a number; its parts have no sign. */
typedef struct {
    double real;
    uint64_t size; /* of a whole number */
    bool negative, floating;
} hyb_number;

hyb_number hyb_read_number(int32_t dtype, const void *element); /* any but f16 and bf16 */
int hyb_write_whole(char *out, uint64_t value, unsigned base, bool upper); /* at most 64 bytes */
#endif
