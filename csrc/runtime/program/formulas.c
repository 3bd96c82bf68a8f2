/* formulas.c - numbers of plans that depend on sizes.
 *
 * They are those that Python has at these sizes, to the bit: quotients round down, and floats are
 * doubles of the same library of the system.  Nothing wraps: what does not fit is an error. */
#include <math.h>

#include "isa/selection.h"
#include "runtime/program/program.h"

static const struct { const char *name; double (*compute)(double); } HYB_MATH[] = {
    {"sqrt", sqrt}, {"log", log}, {"log2", log2}, {"log10", log10}, {"log1p", log1p}, {"exp", exp},
    {"expm1", expm1}, {"sin", sin}, {"cos", cos}, {"tan", tan}, {"tanh", tanh}, {"atan", atan}, {"fabs", fabs},
};

static double real(int64_t bits)
{
    double found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

static int64_t bits_of(double number)
{
    int64_t found;
    memcpy(&found, &number, sizeof found);
    return found;
}

static const char OVERFLOWS[] = "a number of it does not fit into 64 bits";
static const char UNDEFINED[] = "a function of it is not defined";
static const char DIVIDES[] = "it divides by 0";

static const char *of_ints(int32_t op, int64_t a, int64_t b, int64_t *to)
{
    switch (op) {
    case HYB_F_ADD: return __builtin_add_overflow(a, b, to) ? OVERFLOWS : NULL;
    case HYB_F_SUB: return __builtin_sub_overflow(a, b, to) ? OVERFLOWS : NULL;
    case HYB_F_MUL: return __builtin_mul_overflow(a, b, to) ? OVERFLOWS : NULL;
    case HYB_F_DIV:
    case HYB_F_MOD: {
        if (b == 0)
            return DIVIDES;
        if (b == -1) {
            *to = 0;
            return op == HYB_F_DIV && __builtin_sub_overflow((int64_t)0, a, to) ? OVERFLOWS : NULL;
        }
        const int64_t rest = a % b;
        const bool down = rest != 0 && (rest < 0) != (b < 0);
        *to = op == HYB_F_DIV ? a / b - down : down ? rest + b : rest;
        return NULL;
    }
    case HYB_F_AND: *to = a & b; return NULL;
    case HYB_F_OR: *to = a | b; return NULL;
    case HYB_F_XOR: *to = a ^ b; return NULL;
    case HYB_F_SHL:
        if (b < 0)
            return UNDEFINED;
        if (a == 0)
            b = 0;
        return b > 62 || __builtin_mul_overflow(a, INT64_C(1) << b, to) ? OVERFLOWS : NULL;
    case HYB_F_SHR:
        if (b < 0)
            return UNDEFINED;
        *to = a >> (b > 63 ? 63 : b);
        return NULL;
    case HYB_F_POW:
        if (b < 0)
            return UNDEFINED;
        for (*to = 1; b > 0; b >>= 1) {
            if (b & 1 && __builtin_mul_overflow(*to, a, to))
                return OVERFLOWS;
            if (b > 1 && __builtin_mul_overflow(a, a, &a))
                return OVERFLOWS;
        }
        return NULL;
    default: return UNDEFINED;
    }
}

static const char *of_int(int32_t op, int64_t a, int64_t *to)
{
    switch (op) {
    case HYB_F_ABS: return a < 0 ? __builtin_sub_overflow((int64_t)0, a, to) ? OVERFLOWS : NULL : (*to = a, NULL);
    case HYB_F_BITS: {
        const uint64_t n = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
        *to = n ? 64 - __builtin_clzll(n) : 0;
        return NULL;
    }
    case HYB_F_ISQRT: {
        if (a < 0)
            return UNDEFINED;
        int64_t root = (int64_t)sqrt((double)a);
        while (root > 0 && root > a / root)
            root--;
        while (root + 1 <= a / (root + 1))
            root++;
        *to = root;
        return NULL;
    }
    case HYB_F_FLOAT:
        if (a > INT64_C(1) << 53 || a < -(INT64_C(1) << 53))
            return OVERFLOWS;
        *to = bits_of((double)a);
        return NULL;
    default: return UNDEFINED;
    }
}

/* Floor division as CPython's float_divmod has it. */
static void divide(double a, double b, double *quotient, double *rest)
{
    *rest = fmod(a, b);
    double found = (a - *rest) / b;
    if (*rest != 0) {
        if ((b < 0) != (*rest < 0)) {
            *rest += b;
            found -= 1;
        }
    } else
        *rest = copysign(0, b);
    if (found != 0) {
        *quotient = floor(found);
        if (found - *quotient > 0.5)
            *quotient += 1;
    } else
        *quotient = copysign(0, a / b);
}

static const char *of_floats(int32_t op, double a, double b, int64_t *to)
{
    double quotient, rest, found;
    switch (op) {
    case HYB_F_FADD: found = a + b; break;
    case HYB_F_FSUB: found = a - b; break;
    case HYB_F_FMUL: found = a * b; break;
    case HYB_F_FDIV:
    case HYB_F_FFLOORDIV:
    case HYB_F_FMOD:
        if (b == 0)
            return DIVIDES;
        divide(a, b, &quotient, &rest);
        found = op == HYB_F_FDIV ? a / b : op == HYB_F_FMOD ? rest : quotient;
        break;
    case HYB_F_FPOW:
        if ((a == 0 && b < 0) || (a < 0 && floor(b) != b))
            return UNDEFINED;
        found = pow(a, b);
        if (!isfinite(found) && isfinite(a) && isfinite(b))
            return OVERFLOWS;
        break;
    default: return UNDEFINED;
    }
    *to = bits_of(found);
    return NULL;
}

static const char *of_float(int32_t op, double a, int64_t b, int64_t *to)
{
    if (op == HYB_F_FABS) {
        *to = bits_of(fabs(a));
        return NULL;
    }
    if (op == HYB_F_MATH) {
        if (b < 0 || b >= (int64_t)(sizeof HYB_MATH / sizeof *HYB_MATH))
            return UNDEFINED;
        const double found = HYB_MATH[b].compute(a);
        if (!isfinite(found) && isfinite(a)) /* where Python raises */
            return UNDEFINED;
        *to = bits_of(found);
        return NULL;
    }
    const double whole = op == HYB_F_FLOOR ? floor(a) : op == HYB_F_CEIL ? ceil(a)
        : op == HYB_F_ROUND ? nearbyint(a) : trunc(a);
    if (!(whole >= -0x1p62 && whole <= 0x1p62))
        return OVERFLOWS;
    *to = (int64_t)whole;
    return NULL;
}

static bool meets(int32_t op, int64_t a, int64_t b)
{
    const double x = real(a), y = real(b);
    switch (op) {
    case HYB_F_EQ: return a == b;
    case HYB_F_NE: return a != b;
    case HYB_F_LT: return a < b;
    case HYB_F_GE: return a >= b;
    case HYB_F_LE: return a <= b;
    case HYB_F_GT: return a > b;
    case HYB_F_FEQ: return x == y;
    case HYB_F_FNE: return !(x == y);
    case HYB_F_FLT: return x < y;
    case HYB_F_FNLT: return !(x < y);
    case HYB_F_FLE: return x <= y;
    default: return !(x <= y);
    }
}

static bool is_of_one(int32_t op)
{
    return (op >= HYB_F_ABS && op <= HYB_F_FLOAT) || (op >= HYB_F_FABS && op <= HYB_F_MATH);
}

const hyb_formula_row *hyb_formulas(const hyb_file *file, int32_t first)
{
    return (const hyb_formula_row *)file->section[HYB_SECTION_FORMULAS].bytes + first;
}

bool hyb_rows_follow(const hyb_formula_row *rows, int32_t n, int32_t known)
{
    for (int32_t i = 0; i < n; i++) {
        const int64_t there = (int64_t)known + i;
        if (rows[i].op < 0 || rows[i].op >= HYB_F_KINDS)
            return false;
        if (rows[i].op != HYB_F_CONSTANT && (rows[i].a < 0 || rows[i].a >= there))
            return false;
        if (rows[i].op != HYB_F_CONSTANT && !is_of_one(rows[i].op) && (rows[i].b < 0 || rows[i].b >= there))
            return false;
    }
    return true;
}

bool hyb_formulas_hold(const hyb_file *file, int32_t first, int32_t n, int32_t known)
{
    return hyb_rows_hold(first, n, file->section[HYB_SECTION_FORMULAS].count) && n <= HYB_MOST_FORMULAS
        && hyb_rows_follow(hyb_formulas(file, first), n, known);
}

const char *hyb_evaluate(const hyb_formula_row *rows, int32_t n, int32_t known, int64_t *numbers)
{
    if (!HYB_HAS_SIZES)
        return n == 0 ? NULL : "this library has no axes that are open";
    for (int32_t i = 0; i < n; i++) {
        const hyb_formula_row *row = &rows[i];
        int64_t *to = &numbers[known + i];
        if (row->op == HYB_F_CONSTANT) {
            *to = row->b;
            continue;
        }
        const int64_t a = numbers[row->a];
        const char *wrong;
        if (row->op >= HYB_F_ABS && row->op <= HYB_F_FLOAT)
            wrong = of_int(row->op, a, to);
        else if (is_of_one(row->op))
            wrong = of_float(row->op, real(a), row->b, to);
        else if (row->op >= HYB_F_EQ) {
            *to = 0;
            wrong = meets(row->op, a, numbers[row->b]) ? NULL : "a condition of it does not hold";
        } else if (row->op < HYB_F_FADD)
            wrong = of_ints(row->op, a, numbers[row->b], to);
        else
            wrong = of_floats(row->op, real(a), real(numbers[row->b]), to);
        if (wrong)
            return wrong;
    }
    return NULL;
}
