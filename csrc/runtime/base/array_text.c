/* array_text.c - arrays as NumPy writes them: at most eight digits behind a point, all elements alike;
 * of more than 1000 elements three at either end of each axis; lines of 75 columns. */
#include "runtime/base/array_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/decimal.h"

enum {
    BEHIND = 8,       /* digits behind the point */
    THRESHOLD = 1000, /* elements that are all shown */
    EDGE = 3,
    WIDTH = 75,
    INDENT = 8,            /* of further lines: behind "tensor([" */
    MOST_SHOWN = 1 << 14,  /* elements */
    ELEMENT_ROOM = 512     /* bytes of one, with what stands between it and the next */
};

/* How all elements are written. */
typedef struct {
    bool floating, is_float, exponent;
    int left, right;          /* columns before and behind the point; of whole numbers `left` alone */
    int precision, exp_digits; /* with an exponent */
    bool endless, below;      /* whether there are numbers that are not finite, and -inf among these */
    double most, least;       /* of the absolute values that are not zero */
} style;

typedef struct {
    char *out;
    int64_t n, line; /* line: where the last one begins */
    const hyb_layout *layout;
    int64_t stride[HYB_MAX_RANK]; /* bytes */
    bool summary;
    style style;
} writer;

typedef void (*visit_fn)(writer *to, const char *element);

/* Places of an axis that are shown: the first ones and, from `last` on, the last ones. */
static int64_t first_of(const writer *to, int32_t axis)
{
    const int64_t n = to->layout->shape[axis];
    return to->summary && n > 2 * EDGE ? EDGE : n;
}

static void visit(writer *to, int32_t axis, const char *data, visit_fn each)
{
    if (axis == to->layout->rank) {
        each(to, data);
        return;
    }
    const int64_t n = to->layout->shape[axis], first = first_of(to, axis);
    for (int64_t i = 0; i < n; i++) {
        if (i == first)
            i = n - EDGE;
        visit(to, axis + 1, data + i * to->stride[axis], each);
    }
}

static bool is_finite(const hyb_number *x) { return isfinite(x->real); }

/* The first look: how large numbers are. */
static void note_size(writer *to, const char *element)
{
    style *all = &to->style;
    const hyb_number x = hyb_read_number(to->layout->dtype, element);
    if (!is_finite(&x)) {
        all->endless = true;
        all->below |= isinf(x.real) && x.negative;
        return;
    }
    if (x.real == 0)
        return;
    all->most = fmax(all->most, x.real);
    all->least = all->least == 0 ? x.real : fmin(all->least, x.real);
}

static void digits_of(const style *all, const hyb_number *x, hyb_decimal *digits)
{
    hyb_shorten(x->real, all->is_float, digits);
    if (all->exponent && digits->n > BEHIND + 1) {
        hyb_round_to(x->real, BEHIND + 1, digits);
        hyb_strip(digits, 1);
    } else if (!all->exponent && digits->n - digits->point > BEHIND) {
        hyb_round_behind(x->real, BEHIND, digits);
        hyb_strip(digits, digits->point > 1 ? digits->point : 1);
    }
}

static int larger(int a, int b) { return a > b ? a : b; }

static int exponent_digits(int exponent)
{
    return exponent > 99 || exponent < -99 ? 3 : 2;
}

/* The second: how many columns they take. */
static void note_columns(writer *to, const char *element)
{
    style *all = &to->style;
    const hyb_number x = hyb_read_number(to->layout->dtype, element);
    if (!all->floating) {
        char text[64];
        all->left = larger(all->left, hyb_write_whole(text, x.size, 10, false) + x.negative);
        return;
    }
    if (!is_finite(&x))
        return;
    hyb_decimal digits;
    digits_of(all, &x, &digits);
    if (all->exponent) {
        all->left = larger(all->left, 1 + x.negative);
        all->precision = larger(all->precision, digits.n - 1);
        all->exp_digits = larger(all->exp_digits, exponent_digits(digits.point - 1));
        return;
    }
    all->left = larger(all->left, larger(digits.point, 1) + x.negative);
    all->right = larger(all->right, digits.n - digits.point);
}

static void choose_style(writer *to, const char *data)
{
    style *all = &to->style;
    const int32_t dtype = to->layout->dtype;
    all->is_float = dtype == HYB_F32;
    all->floating = all->is_float || dtype == HYB_F64;
    if (all->floating) {
        visit(to, 0, data, note_size);
        const double ratio = all->is_float ? (double)((float)all->most / (float)all->least) : all->most / all->least;
        all->exponent = all->least > 0
            && (all->most >= (all->is_float ? 1e6 : 1e8)
                || all->least < (all->is_float ? (double)0.0001f : 0.0001) || ratio > 1000);
    }
    visit(to, 0, data, note_columns);
    if (all->exponent)
        all->right = all->precision + 2 + all->exp_digits;
    if (all->endless) {
        all->left = larger(all->left, 3 - (all->right + 1));
        all->left = larger(all->left, 3 + all->below - (all->right + 1));
    }
}

/* Writing ----------------------------------------------------------------------------------------- */

static void put(writer *to, char c)
{
    to->out[to->n++] = c;
    if (c == '\n')
        to->line = to->n;
}

static void put_words(writer *to, const char *words)
{
    while (*words)
        put(to, *words++);
}

static void put_spaces(writer *to, int64_t count)
{
    while (count-- > 0)
        put(to, ' ');
}

static void put_digits(writer *to, const hyb_decimal *digits, int first, int count)
{
    for (int i = first; i < first + count; i++)
        put(to, i >= 0 && i < digits->n ? digits->digit[i] : '0');
}

static void put_float(writer *to, const hyb_number *x)
{
    const style *all = &to->style;
    if (!is_finite(x)) {
        const char *word = isnan(x->real) ? "nan" : x->negative ? "-inf" : "inf";
        put_spaces(to, all->left + all->right + 1 - (int64_t)strlen(word));
        put_words(to, word);
        return;
    }
    hyb_decimal digits;
    digits_of(all, x, &digits);
    const int before = all->exponent ? 1 : larger(digits.point, 1);
    put_spaces(to, all->left - before - x->negative);
    if (x->negative)
        put(to, '-');
    if (all->exponent) {
        char exponent[16];
        if (digits.n <= all->precision) /* the rest are those of the exact value, no zeros */
            hyb_round_to(x->real, all->precision + 1, &digits);
        put_digits(to, &digits, 0, 1);
        put(to, '.');
        put_digits(to, &digits, 1, all->precision);
        const int power = digits.point - 1;
        snprintf(exponent, sizeof exponent, "e%c%0*d", power < 0 ? '-' : '+', all->exp_digits, power < 0 ? -power : power);
        put_words(to, exponent);
        return;
    }
    const int behind = larger(digits.n - digits.point, 0);
    put_digits(to, &digits, digits.point - before, before);
    put(to, '.');
    put_digits(to, &digits, digits.point, behind);
    put_spaces(to, all->right - behind);
}

static void put_element(writer *to, const char *element)
{
    if (to->layout->dtype == HYB_BOOL) {
        const bool holds = *(const uint8_t *)element != 0;
        put_words(to, holds ? (to->layout->rank > 0 ? " True" : "True") : "False");
        return;
    }
    const hyb_number x = hyb_read_number(to->layout->dtype, element);
    if (x.floating) {
        put_float(to, &x);
        return;
    }
    char text[64];
    const int n = hyb_write_whole(text, x.size, 10, false);
    put_spaces(to, to->style.left - n - x.negative);
    if (x.negative)
        put(to, '-');
    for (int i = 0; i < n; i++)
        put(to, text[i]);
}

/* One element of a row, or the dots: on a new line if this one has no room for it. */
static void put_word(writer *to, const char *element, int64_t width, int64_t indent)
{
    const int64_t start = to->n, line = to->line;
    if (element)
        put_element(to, element);
    else
        put_words(to, "...");
    const int64_t length = to->n - start, column = start - line;
    if (column + length <= width || column <= indent)
        return;
    char word[64];
    memcpy(word, to->out + start, (size_t)length);
    to->n = start;
    while (to->n > line && to->out[to->n - 1] == ' ')
        to->n--;
    put(to, '\n');
    put_spaces(to, indent);
    memcpy(to->out + to->n, word, (size_t)length);
    to->n += length;
}

/* An axis, from its bracket on; the line has come to `indent` columns. */
static void put_axis(writer *to, int32_t axis, const char *data, int64_t width)
{
    const int64_t n = to->layout->shape[axis], first = first_of(to, axis), indent = INDENT + axis;
    const int32_t left = to->layout->rank - axis;
    put(to, '[');
    for (int64_t i = 0; i < n; i++) {
        const bool dots = i == first;
        if (left == 1) {
            put_word(to, dots ? NULL : data + i * to->stride[axis], width - 1, indent);
            if (dots || i + 1 < n)
                put_words(to, ", ");
        } else {
            if (dots)
                put_words(to, "...");
            else
                put_axis(to, axis + 1, data + i * to->stride[axis], width - 1);
            if (dots || i + 1 < n) {
                put(to, ',');
                for (int32_t k = 1; k < left; k++)
                    put(to, '\n');
                put_spaces(to, indent);
            }
        }
        if (dots)
            i = n - EDGE - 1;
    }
    put(to, ']');
}

int64_t hyb_array_room(const hyb_layout *layout)
{
    const int64_t elements = hyb_elements(layout);
    int64_t shown = 1;
    for (int32_t axis = 0; axis < layout->rank; axis++) {
        const int64_t n = layout->shape[axis];
        shown *= elements > THRESHOLD && n > 2 * EDGE ? 2 * EDGE + 1 : n;
        if (shown > MOST_SHOWN)
            return -1;
    }
    return (shown + 1) * ELEMENT_ROOM;
}

int64_t hyb_write_array(char *out, const hyb_layout *layout, const void *data)
{
    const int64_t elements = hyb_elements(layout);
    if (elements == 0) {
        memcpy(out, "[]", 2);
        return 2;
    }
    writer to = {.out = out, .layout = layout, .summary = elements > THRESHOLD};
    int64_t stride = hyb_itemsize(layout->dtype);
    for (int32_t axis = layout->rank - 1; axis >= 0; axis--) {
        to.stride[axis] = stride;
        stride *= layout->shape[axis];
    }
    choose_style(&to, data);
    if (layout->rank == 0) {
        put_element(&to, data);
        return to.n;
    }
    to.line = -(INDENT - 1); /* "tensor(" stands before it */
    put_axis(&to, 0, data, WIDTH);
    return to.n;
}
