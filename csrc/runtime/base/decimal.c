/* decimal.c - the decimal digits of floats, from the C library's printf, which rounds the exact value.
 * No locale shows: of what printf writes the digits alone are taken. */
#include "runtime/base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* `n` digits of x, correctly rounded, and where its point is. */
void hyb_round_to(double x, int n, hyb_decimal *found)
{
    char text[HYB_DECIMAL_DIGITS + 32];
    snprintf(text, sizeof text, "%.*e", n - 1, x);
    const char *e = strchr(text, 'e');
    found->n = 0;
    for (const char *c = text; c < e; c++) /* a locale's point may be anything else */
        if (*c >= '0' && *c <= '9' && found->n < n)
            found->digit[found->n++] = *c;
    found->point = (int)strtol(e + 1, NULL, 10) + 1;
}

/* So many digits behind the point. */
void hyb_round_behind(double x, int behind, hyb_decimal *found)
{
    char text[HYB_DECIMAL_DIGITS + 32];
    const int length = snprintf(text, sizeof text, "%.*f", behind, x);
    found->n = 0;
    for (int i = 0; i < length; i++)
        if (text[i] >= '0' && text[i] <= '9')
            found->digit[found->n++] = text[i];
    found->point = found->n - behind;
}

static bool is_same(const hyb_decimal *digits, double x, bool is_float)
{
    char text[64];
    snprintf(text, sizeof text, "%.*se%d", digits->n, digits->digit, digits->point - digits->n);
    return is_float ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x;
}

/* The neighbour above or below, of as many digits. */
static void step(hyb_decimal *digits, int by)
{
    for (int i = digits->n - 1; i >= 0; i--) {
        const int digit = digits->digit[i] - '0' + by;
        digits->digit[i] = (char)('0' + (digit + 10) % 10);
        if (digit >= 0 && digit <= 9)
            return;
    }
    if (by > 0) {
        digits->digit[0] = '1';
        digits->point++;
    }
}

void hyb_strip(hyb_decimal *digits, int least)
{
    while (digits->n > least && digits->digit[digits->n - 1] == '0')
        digits->n--;
}

/* As few digits as tell x from its neighbours.  Below a power of two these are nearer than above: there
 * the nearest decimal of so many digits may be another number, and the next one x. */
void hyb_shorten(double x, bool is_float, hyb_decimal *found)
{
    const int most = is_float ? 9 : 17;
    for (int n = 1; n < most; n++) {
        hyb_round_to(x, n, found);
        if (is_same(found, x, is_float))
            return hyb_strip(found, 1);
        for (int by = -1; by <= 1; by += 2) {
            hyb_decimal other = *found;
            step(&other, by);
            if (is_same(&other, x, is_float)) {
                *found = other;
                return hyb_strip(found, 1);
            }
        }
    }
    hyb_round_to(x, most, found);
    hyb_strip(found, 1);
}

hyb_number hyb_read_number(int32_t dtype, const void *element)
{
    int64_t i = 0;
    switch (dtype) {
    case HYB_F32: {
        float x;
        memcpy(&x, element, sizeof x);
        return (hyb_number){.real = fabsf(x), .negative = signbit(x) && !isnan(x), .floating = true};
    }
    case HYB_F64: {
        double x;
        memcpy(&x, element, sizeof x);
        return (hyb_number){.real = fabs(x), .negative = signbit(x) && !isnan(x), .floating = true};
    }
    case HYB_U64: {
        uint64_t u;
        memcpy(&u, element, sizeof u);
        return (hyb_number){.size = u};
    }
    case HYB_I8: i = *(const int8_t *)element; break;
    case HYB_I16: { int16_t v; memcpy(&v, element, sizeof v); i = v; break; }
    case HYB_I32: { int32_t v; memcpy(&v, element, sizeof v); i = v; break; }
    case HYB_I64: memcpy(&i, element, sizeof i); break;
    case HYB_U16: { uint16_t v; memcpy(&v, element, sizeof v); i = v; break; }
    case HYB_U32: { uint32_t v; memcpy(&v, element, sizeof v); i = v; break; }
    case HYB_BOOL: i = *(const uint8_t *)element != 0; break;
    default: i = *(const uint8_t *)element; break;
    }
    return (hyb_number){.size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i, .negative = i < 0};
}

int hyb_write_whole(char *out, uint64_t value, unsigned base, bool upper)
{
    char digits[64];
    int n = 0, written = 0;
    do {
        digits[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[value % base];
        value /= base;
    } while (value);
    while (n > 0)
        out[written++] = digits[--n];
    return written;
}
