/* fills.c - literals that depend on sizes: numbers, ranges, masks, as NumPy makes them. */
#include <math.h>

#include "isa/selection.h"
#include "runtime/program/program.h"

static const int64_t MOST_BYTES = INT64_C(1) << 40;

/* Of each kind, how many numbers it takes, and which of these are floats. */
static const struct { int32_t given; unsigned floats; } KINDS[HYB_FILLS] = {
    [HYB_FILL_INT] = {1, 0}, [HYB_FILL_FLOAT] = {1, 1}, [HYB_FILL_RANGE] = {3, 0}, [HYB_FILL_FLOAT_RANGE] = {3, 7},
    [HYB_FILL_LINSPACE] = {4, 3}, [HYB_FILL_EYE] = {3, 0}, [HYB_FILL_LOWER] = {3, 0}, [HYB_FILL_UPPER] = {3, 0},
    [HYB_FILL_NEAREST] = {4, 4},
};

/* What a literal is made of: its numbers, and how many elements there are. */
typedef struct {
    int64_t whole[4];
    double real[4];
    int64_t elements;
} given;

static bool count(int32_t kind, given *from)
{
    const int64_t *whole = from->whole;
    int64_t span, around;
    switch (kind) {
    case HYB_FILL_INT:
    case HYB_FILL_FLOAT: from->elements = 1; return true;
    case HYB_FILL_RANGE:
        if (whole[2] == 0 || whole[2] == INT64_MIN || __builtin_sub_overflow(whole[1], whole[0], &span)
            || __builtin_add_overflow(span, whole[2] > 0 ? whole[2] - 1 : whole[2] + 1, &around)
            || around == INT64_MIN) /* which -1 does not divide */
            return false;
        from->elements = around / whole[2] > 0 ? around / whole[2] : 0;
        return true;
    case HYB_FILL_FLOAT_RANGE: {
        const double n = ceil((from->real[1] - from->real[0]) / from->real[2]);
        if (!(n < 0x1p40))
            return false;
        from->elements = n > 0 ? (int64_t)n : 0;
        return true;
    }
    case HYB_FILL_LINSPACE: from->elements = whole[2]; return true;
    case HYB_FILL_NEAREST: from->elements = whole[1]; return true;
    default:
        return whole[0] >= 0 && whole[1] >= 0 && !__builtin_mul_overflow(whole[0], whole[1], &from->elements);
    }
}

/* A product that is rounded before it is added to anything. */
static double times(double a, double b)
{
    const volatile double found = a * b;
    return found;
}

/* Element i: a float where the first number is one, or an int. */
static bool element(int32_t kind, const given *from, int64_t i, int64_t *whole, double *real)
{
    const int64_t *n = from->whole;
    const double *x = from->real;
    switch (kind) {
    case HYB_FILL_INT: *whole = n[0]; return false;
    case HYB_FILL_FLOAT: *real = x[0]; return true;
    case HYB_FILL_RANGE: *whole = (int64_t)((uint64_t)n[0] + (uint64_t)i * (uint64_t)n[2]); return false;
    case HYB_FILL_FLOAT_RANGE: { /* NumPy goes on with the distance of the first two */
        const double next = x[0] + x[2];
        *real = i == 0 ? x[0] : i == 1 ? next : x[0] + times((double)i, next - x[0]);
        return true;
    }
    case HYB_FILL_LINSPACE: {
        const int64_t parts = n[3] ? n[2] - 1 : n[2];
        const double all = x[1] - x[0], step = parts > 0 ? all / (double)parts : 0;
        *real = parts <= 0 ? times((double)i, all) : step == 0 ? times((double)i / (double)parts, all) : times((double)i, step);
        *real += x[0];
        if (n[3] && n[2] > 1 && i == n[2] - 1)
            *real = x[1];
        return true;
    }
    case HYB_FILL_NEAREST: {
        const float at = ((float)i + (n[3] ? 0.5f : 0.0f)) * (float)x[2];
        *whole = fabsf(at) < 0x1p62f ? (int64_t)floorf(at) : n[0] - 1; /* a file may have any scale */
        if (*whole > n[0] - 1)
            *whole = n[0] - 1;
        return false;
    }
    default: {
        const int64_t row = i / n[1], column = i % n[1], ahead = column - row;
        *whole = kind == HYB_FILL_EYE ? ahead == n[2] : kind == HYB_FILL_LOWER ? ahead <= n[2] : ahead > n[2];
        return false;
    }
    }
}

/* The nearest half, ties to even. */
static uint16_t half_of(double number)
{
    const uint16_t sign = signbit(number) ? 0x8000 : 0;
    const double size = fabs(number);
    if (!(size < 65520)) /* or no number */
        return sign | (size >= 65520 ? 0x7C00 : 0x7E00);
    int exponent;
    frexp(size, &exponent);
    exponent = size == 0 || exponent < -13 ? -13 : exponent; /* below that there are no more digits */
    const int64_t digits = (int64_t)nearbyint(ldexp(size, 11 - exponent));
    return (uint16_t)(sign + digits + ((int64_t)(exponent + 13) << 10));
}

/* The nearest bfloat16 of a float. */
static uint16_t brain_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, 4);
    if (number != number)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* A number as one of `dtype`, as NumPy casts it. */
static void store(int32_t dtype, bool is_real, int64_t whole, double real, char *to)
{
    const bool floats = dtype >= HYB_F16;
    if (is_real && !floats && dtype != HYB_BOOL)
        whole = real >= -0x1p63 && real < 0x1p63 ? (int64_t)real : INT64_MIN;
    switch (dtype) {
    case HYB_BOOL: *(bool *)to = is_real ? real != 0 : whole != 0; break;
    case HYB_I8: case HYB_U8: *to = (char)whole; break;
    case HYB_I16: case HYB_U16: memcpy(to, &(int16_t){(int16_t)whole}, 2); break;
    case HYB_I32: case HYB_U32: memcpy(to, &(int32_t){(int32_t)whole}, 4); break;
    case HYB_F16: memcpy(to, &(uint16_t){half_of(is_real ? real : (double)(float)whole)}, 2); break;
    case HYB_BF16: memcpy(to, &(uint16_t){brain_of(is_real ? (float)real : (float)whole)}, 2); break;
    case HYB_F32: memcpy(to, &(float){is_real ? (float)real : (float)whole}, 4); break;
    case HYB_F64: memcpy(to, &(double){is_real ? real : (double)whole}, 8); break;
    default: memcpy(to, &whole, 8); break;
    }
}

int64_t hyb_fill(const hyb_fill_row *row, const int64_t *numbers, int64_t n_numbers, char *to)
{
    if (!HYB_HAS_SIZES)
        return -1;
    const int64_t itemsize = hyb_itemsize(row->dtype);
    if (row->kind < 0 || row->kind >= HYB_FILLS || itemsize == 0)
        return -1;
    given from = {{0}, {0}, 0};
    for (int i = 0; i < KINDS[row->kind].given; i++) {
        if (row->given[i] < 0 || row->given[i] >= n_numbers)
            return -1;
        const int64_t bits = numbers[row->given[i]];
        if (KINDS[row->kind].floats >> i & 1)
            memcpy(&from.real[i], &bits, 8);
        else
            from.whole[i] = bits;
    }
    if (!count(row->kind, &from) || from.elements < 0 || from.elements > MOST_BYTES / itemsize)
        return -1;
    for (int64_t i = 0; to && i < from.elements; i++) {
        int64_t whole = 0;
        double real = 0;
        const bool is_real = element(row->kind, &from, i, &whole, &real);
        store(row->dtype, is_real, whole, real, to + i * itemsize);
    }
    return from.elements * itemsize;
}
