/* number_text.c - numbers as Python writes them: specifications are read, and texts put together from
 * digits. */
#include "runtime/base/number_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "runtime/base/decimal.h"
#include "runtime/base/utf8.h"

/* Reading a specification ------------------------------------------------------------------------ */

static bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

/* A count of at most three digits; -1: there is none, -2: more. */
static int32_t count(const char **text, const char *end)
{
    int32_t found = -1;
    for (int n = 0; *text < end && **text >= '0' && **text <= '9'; (*text)++) {
        if (++n > 3)
            return -2;
        found = (found < 0 ? 0 : found) * 10 + (**text - '0');
    }
    return found;
}

bool hyb_read_format(const char **text, const char *end, hyb_number_format *format)
{
    const char *at = *text, *start = at;
    *format = (hyb_number_format){.fill = " ", .align = 0, .sign = '-', .precision = -1};
    const size_t n = at < end ? hyb_character(at, (size_t)(end - at)) : 0;
    if (n > 0 && n < (size_t)(end - at) && is_align(at[n]) && *at != '{' && *at != '}') {
        memset(format->fill, 0, sizeof format->fill);
        memcpy(format->fill, at, n);
        format->align = at[n];
        at += n + 1;
    } else if (at < end && is_align(*at)) {
        format->align = *at++;
    }
    if (at < end && (*at == '-' || *at == '+' || *at == ' '))
        format->sign = *at++;
    if (at < end && *at == '#') {
        format->alternate = true;
        at++;
    }
    bool zero = false;
    if (at < end && *at == '0') {
        zero = true;
        at++;
        if (!format->align) {
            memcpy(format->fill, "0", 2);
            format->align = '=';
        }
    }
    const int32_t width = count(&at, end);
    if (at < end && (*at == ',' || *at == '_'))
        format->group = *at++;
    if (at < end && *at == '.') {
        at++;
        format->precision = count(&at, end);
        if (format->precision < 0)
            return false;
    }
    if (at < end && *at && strchr("bdoxXeEfFgG%", *at))
        format->type = *at++;
    format->given = at != start;
    format->width = width < 0 ? 0 : width;
    *text = at;
    /* Zeros that fill would be grouped, too. */
    return width != -2 && format->width <= HYB_MOST_WIDTH && format->precision <= HYB_MOST_PRECISION
        && !(format->group && (zero || (format->align == '=' && format->fill[0] == '0')));
}

static bool is_whole_type(char type) { return type && strchr("bdoxX", type); }

bool hyb_format_fits(const hyb_number_format *format, int32_t dtype)
{
    const bool floating = dtype == HYB_F32 || dtype == HYB_F64;
    if (dtype < HYB_BOOL || dtype > HYB_F64 || dtype == HYB_F16 || dtype == HYB_BF16)
        return false;
    if (floating)
        return !is_whole_type(format->type);
    const bool whole = !format->type || is_whole_type(format->type);
    if (whole && format->precision >= 0)
        return false;
    return !(format->group == ',' && format->type && strchr("boxX", format->type));
}

/* Texts of digits --------------------------------------------------------------------------------- */

typedef struct {
    char *out;
    int64_t n;
} text;

static void put(text *to, char c) { to->out[to->n++] = c; }

static void put_exponent(text *to, int exponent, char e)
{
    char written[16];
    const int n = snprintf(written, sizeof written, "%c%c%02d", e, exponent < 0 ? '-' : '+', abs(exponent));
    for (int i = 0; i < n; i++)
        put(to, written[i]);
}

static char digit_at(const hyb_decimal *digits, int place)
{
    return place >= 0 && place < digits->n ? digits->digit[place] : '0';
}

/* Digits before the point, and `behind` ones after it. */
static void put_fixed(text *to, const hyb_decimal *digits, int behind, bool point)
{
    if (digits->point < 1)
        put(to, '0');
    for (int i = 0; i < digits->point; i++)
        put(to, digit_at(digits, i));
    if (point || behind > 0)
        put(to, '.');
    for (int i = 0; i < behind; i++)
        put(to, digit_at(digits, digits->point + i));
}

static void put_scientific(text *to, const hyb_decimal *digits, int behind, bool point, char e)
{
    put(to, digit_at(digits, 0));
    if (point || behind > 0)
        put(to, '.');
    for (int i = 1; i <= behind; i++)
        put(to, digit_at(digits, i));
    const bool zero = digits->digit[0] == '0';
    put_exponent(to, zero ? 0 : digits->point - 1, e);
}

/* As %g: with a point even where nothing follows it, with zeros up to the precision, or with one digit
 * behind the point at least. */
typedef struct {
    bool point, zeros, digit;
} general;

static void put_general(text *to, const hyb_decimal *digits, int precision, general shows, char e)
{
    const int point = digits->digit[0] == '0' ? 1 : digits->point;
    hyb_decimal shown = *digits;
    shown.point = point;
    if (!shows.zeros)
        hyb_strip(&shown, 1);
    const int n = shows.zeros ? precision : shown.n;
    if (point <= -4 || point > precision - shows.digit) {
        put_scientific(to, &shown, n - 1, shows.point, e);
        return;
    }
    const int behind = n > point ? n - point : shows.digit;
    put_fixed(to, &shown, behind, shows.point);
}

static void put_words(text *to, const char *words, bool upper)
{
    for (; *words; words++)
        put(to, upper ? (char)(*words - 'a' + 'A') : *words);
}

static void put_float(text *to, double x, const hyb_number_format *format)
{
    const char type = format->type;
    const bool upper = type == 'E' || type == 'F' || type == 'G';
    if (type == '%')
        x *= 100;
    if (isnan(x) || isinf(x)) {
        put_words(to, isnan(x) ? "nan" : "inf", upper);
        if (type == '%')
            put(to, '%');
        return;
    }
    hyb_decimal digits;
    const char e = upper ? 'E' : 'e';
    const bool sharp = format->alternate;
    int precision = format->precision < 0 ? 6 : format->precision;
    switch (type) {
    case 'e':
    case 'E':
        hyb_round_to(x, precision + 1, &digits);
        put_scientific(to, &digits, precision, sharp, e);
        break;
    case 'f':
    case 'F':
    case '%':
        hyb_round_behind(x, precision, &digits);
        put_fixed(to, &digits, precision, sharp);
        break;
    case 'g':
    case 'G':
        precision = precision == 0 ? 1 : precision;
        hyb_round_to(x, precision, &digits);
        put_general(to, &digits, precision, (general){sharp, sharp, false}, e);
        break;
    default:
        if (format->precision < 0) {
            hyb_shorten(x, false, &digits);
            put_general(to, &digits, 17, (general){sharp, false, true}, e);
            break;
        }
        precision = precision == 0 ? 1 : precision;
        hyb_round_to(x, precision, &digits);
        put_general(to, &digits, precision, (general){sharp, sharp, true}, e);
    }
    if (type == '%')
        put(to, '%');
}

/* Elements ----------------------------------------------------------------------------------------- */

/* The digits, ungrouped, without sign and prefix. */
static void put_digits(text *to, const hyb_number *x, const hyb_number_format *format)
{
    switch (format->type) {
    case 'b': to->n += hyb_write_whole(to->out + to->n, x->size, 2, false); return;
    case 'o': to->n += hyb_write_whole(to->out + to->n, x->size, 8, false); return;
    case 'x':
    case 'X': to->n += hyb_write_whole(to->out + to->n, x->size, 16, format->type == 'X'); return;
    default: break;
    }
    if (x->floating) /* a number of Python's has 64 bits, whatever it came from */
        put_float(to, x->real, format);
    else if (!format->type || format->type == 'd')
        to->n += hyb_write_whole(to->out + to->n, x->size, 10, false);
    else
        put_float(to, (double)x->size, format);
}

static void put_grouped(text *to, const char *digits, int64_t n, char group, int every)
{
    int64_t whole = 0;
    while (whole < n && ((digits[whole] >= '0' && digits[whole] <= '9') || (every == 4 && digits[whole] != '.')))
        whole++;
    for (int64_t i = 0; i < n; i++) {
        put(to, digits[i]);
        if (i + 1 < whole && (whole - 1 - i) % every == 0)
            put(to, group);
    }
}

static void put_fill(text *to, const char *fill, int64_t times)
{
    for (; times > 0; times--)
        for (const char *c = fill; *c; c++)
            put(to, *c);
}

int64_t hyb_write_number(char *out, const hyb_number_format *format, int32_t dtype, const void *element)
{
    text to = {out, 0};
    if (dtype == HYB_BOOL && !format->given) {
        const bool holds = *(const uint8_t *)element != 0;
        for (const char *c = holds ? "True" : "False"; *c; c++)
            put(&to, *c);
        return to.n;
    }
    const hyb_number x = hyb_read_number(dtype, element);
    char plain[HYB_NUMBER_ROOM], grouped[HYB_NUMBER_ROOM];
    text digits = {plain, 0}, body = {grouped, 0};
    put_digits(&digits, &x, format);
    const bool radix = format->type && strchr("boxX", format->type);
    if (format->group)
        put_grouped(&body, plain, digits.n, format->group, radix ? 4 : 3);
    else
        body = digits;
    char before[4];
    int n_before = 0;
    if (x.negative || format->sign != '-')
        before[n_before++] = x.negative ? '-' : format->sign;
    if (radix && format->alternate) {
        before[n_before++] = '0';
        before[n_before++] = format->type;
    }
    const int64_t room = format->width - n_before - body.n, left = room > 0 ? room : 0;
    const char align = format->align ? format->align : '>';
    const int64_t first = align == '<' || align == '=' ? 0 : align == '^' ? left / 2 : left;
    put_fill(&to, format->fill, first);
    for (int i = 0; i < n_before; i++)
        put(&to, before[i]);
    put_fill(&to, format->fill, align == '=' ? left : 0);
    for (int64_t i = 0; i < body.n; i++)
        put(&to, body.out[i]);
    put_fill(&to, format->fill, align == '=' ? 0 : left - first);
    return to.n;
}
