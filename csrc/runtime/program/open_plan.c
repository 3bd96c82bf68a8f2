/* open_plan.c - plans whose sizes come with each run: the rows of a spec, with numbers filled in.
 *
 * A plan of one op is made in about a microsecond, so eager code makes one for each run at sizes that it
 * has not met before.  All that is checked of a plan is checked of each. */
#include "runtime/program/program.h"

enum { HYB_OPEN_BLOCKS = 12 };
static const int64_t LARGEST = INT64_C(1) << 62; /* of a number: sums of a few stay within 64 bits */

struct hyb_open_plan {
    hyb_open_spec spec;
    int32_t n_numbers;
    size_t nbytes[HYB_OPEN_PARTS]; /* of the parts that depend on sizes */
    char *memory;
};

/* The tables of a spec: where each is found, and its bytes. */
static void tables_of(hyb_open_spec *open, const void **at[HYB_OPEN_BLOCKS], size_t nbytes[HYB_OPEN_BLOCKS])
{
    hyb_plan_spec *spec = &open->spec;
    const struct { const void **at; size_t nbytes; } tables[HYB_OPEN_BLOCKS] = {
        {(const void **)&spec->operands, (size_t)spec->n_operands * sizeof *spec->operands},
        {(const void **)&spec->slots, (size_t)spec->n_slots * sizeof *spec->slots},
        {(const void **)&spec->attrs, (size_t)spec->n_attrs * sizeof *spec->attrs},
        {(const void **)&spec->controls, (size_t)spec->n_controls * sizeof *spec->controls},
        {(const void **)&spec->steps, (size_t)spec->n_steps * sizeof *spec->steps},
        {(const void **)&spec->ops, (size_t)spec->n_ops * sizeof *spec->ops},
        {(const void **)&spec->blocks, (size_t)spec->n_blocks * sizeof *spec->blocks},
        {(const void **)&spec->moves, (size_t)spec->n_moves * sizeof *spec->moves},
        {&spec->constants, (size_t)spec->constants_nbytes},
        {(const void **)&open->formulas, (size_t)open->n_formulas * sizeof *open->formulas},
        {(const void **)&open->places, (size_t)open->n_places * sizeof *open->places},
        {(const void **)&open->words, (size_t)open->n_words * sizeof *open->words},
    };
    for (int i = 0; i < HYB_OPEN_BLOCKS; i++) {
        at[i] = tables[i].at;
        nbytes[i] = tables[i].nbytes;
    }
}

static bool counts_hold(const hyb_open_spec *open)
{
    const hyb_plan_spec *spec = &open->spec;
    const int32_t counts[] = {
        spec->n_operands, spec->n_slots, spec->n_attrs, spec->n_controls, spec->n_steps, spec->n_ops,
        spec->n_blocks, spec->n_moves, open->n_symbols, open->n_given, open->n_places, open->n_words,
        open->n_formulas,
    };
    int64_t all = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i] < 0)
            return false;
        all += counts[i];
    }
    return all < HYB_MOST_FORMULAS && spec->constants_nbytes >= 0;
}

static hyb_status check(const hyb_open_plan *open)
{
    const hyb_open_spec *spec = &open->spec;
    if (!hyb_rows_follow(spec->formulas, spec->n_formulas, spec->n_symbols))
        return hyb_fail(HYB_BAD_ARGUMENT, "a formula of an open plan is of what does not stand before it");
    for (int32_t i = 0; i < spec->n_places; i++)
        if (spec->place_numbers[i] < -1 || spec->place_numbers[i] >= spec->n_symbols + spec->n_formulas)
            return hyb_fail(HYB_BAD_ARGUMENT, "place %d of an open plan has no size", i);
    for (int32_t i = 0; i < spec->n_words; i++) {
        const hyb_open_word *word = &spec->words[i];
        if (word->part < 0 || word->part >= HYB_OPEN_PARTS || word->word < 0
            || (size_t)word->word >= open->nbytes[word->part] / sizeof(int64_t) || word->number < 0
            || word->number >= open->n_numbers)
            return hyb_fail(HYB_BAD_ARGUMENT, "word %d of an open plan is not within it", i);
    }
    return HYB_OK;
}

hyb_open_plan *hyb_open_create(const hyb_open_spec *given)
{
    if (!given || !counts_hold(given)) {
        hyb_fail(HYB_BAD_ARGUMENT, "an open plan needs a spec whose tables have rows");
        return NULL;
    }
    hyb_open_spec spec = *given;
    const void **at[HYB_OPEN_BLOCKS];
    size_t nbytes[HYB_OPEN_BLOCKS + 2];
    tables_of(&spec, at, nbytes);
    nbytes[HYB_OPEN_BLOCKS] = (size_t)spec.n_places * sizeof *spec.place_numbers;
    nbytes[HYB_OPEN_BLOCKS + 1] = sizeof(hyb_open_plan);
    char *parts[HYB_OPEN_BLOCKS + 2], *memory = hyb_alloc_parts(nbytes, HYB_OPEN_BLOCKS + 2, parts, "an open plan");
    if (!memory)
        return NULL;
    for (int i = 0; i < HYB_OPEN_BLOCKS; i++) {
        if (nbytes[i])
            memcpy(parts[i], *at[i], nbytes[i]);
        *at[i] = parts[i];
    }
    if (spec.n_places)
        memcpy(parts[HYB_OPEN_BLOCKS], given->place_numbers, nbytes[HYB_OPEN_BLOCKS]);
    spec.place_numbers = (const int32_t *)parts[HYB_OPEN_BLOCKS];
    hyb_open_plan *open = (hyb_open_plan *)parts[HYB_OPEN_BLOCKS + 1];
    *open = (hyb_open_plan){
        .spec = spec, .memory = memory,
        .n_numbers = spec.n_symbols + spec.n_formulas + spec.n_places + spec.n_given,
    };
    memcpy(open->nbytes, nbytes, sizeof open->nbytes);
    if (check(open) == HYB_OK)
        return open;
    hyb_free(memory);
    return NULL;
}

void hyb_open_free(hyb_open_plan *open)
{
    if (open)
        hyb_free(open->memory);
}

/* Where each place of the arena lies, behind the numbers of formulas; the bytes of all, or -1. */
static int64_t lay_out(const hyb_open_spec *open, hyb_place *places, int64_t *numbers)
{
    if (open->n_places == 0)
        return open->spec.arena_nbytes;
    memcpy(places, open->places, (size_t)open->n_places * sizeof *places);
    for (int32_t i = 0; i < open->n_places; i++)
        if (open->place_numbers[i] >= 0)
            places[i].size = numbers[open->place_numbers[i]];
    return hyb_lay_out(places, open->n_places, numbers + open->n_symbols + open->n_formulas);
}

/* Fills the parts of `spec`, copies of which `parts` have room for. */
static hyb_status fill(const hyb_open_plan *open, char *const *parts, const int64_t *numbers, hyb_plan_spec *spec)
{
    const void *const from[HYB_OPEN_PARTS] = {spec->operands, spec->slots, spec->attrs, spec->controls};
    for (int i = 0; i < HYB_OPEN_PARTS; i++)
        if (open->nbytes[i])
            memcpy(parts[i], from[i], open->nbytes[i]);
    for (int32_t i = 0; i < open->spec.n_words; i++) {
        const hyb_open_word *word = &open->spec.words[i];
        const int64_t number = numbers[word->number];
        if (word->whole && (number > LARGEST || number < -LARGEST))
            return hyb_fail(HYB_BAD_ARGUMENT, "a number of a plan is %lld", (long long)number);
        memcpy(parts[word->part] + 8 * (size_t)word->word, &number, sizeof number);
    }
    spec->operands = (const hyb_operand *)parts[HYB_OPEN_OPERANDS];
    spec->slots = (const hyb_slot *)parts[HYB_OPEN_SLOTS];
    spec->attrs = (const hyb_attr *)parts[HYB_OPEN_ATTRS];
    spec->controls = (const hyb_control *)parts[HYB_OPEN_CONTROLS];
    return HYB_OK;
}

static hyb_status numbers_of(const hyb_open_plan *open, const void *symbols, const int64_t *given, int64_t *numbers)
{
    const hyb_open_spec *spec = &open->spec;
    if (spec->n_symbols)
        memcpy(numbers, symbols, (size_t)spec->n_symbols * sizeof *numbers);
    const char *wrong = hyb_evaluate(spec->formulas, spec->n_formulas, spec->n_symbols, numbers);
    if (wrong)
        return hyb_fail(HYB_BAD_ARGUMENT, "%s", wrong);
    if (spec->n_given)
        memcpy(numbers + open->n_numbers - spec->n_given, given, (size_t)spec->n_given * sizeof *numbers);
    return HYB_OK;
}

hyb_plan *hyb_open_bind(const hyb_open_plan *open, const void *symbols, const int64_t *given,
                        const void *constants, int64_t constants_nbytes)
{
    enum { NUMBERS = HYB_OPEN_PARTS, PLACES, PARTS };
    size_t nbytes[PARTS];
    memcpy(nbytes, open->nbytes, sizeof open->nbytes);
    nbytes[NUMBERS] = (size_t)open->n_numbers * sizeof(int64_t);
    nbytes[PLACES] = (size_t)open->spec.n_places * sizeof(hyb_place);
    char *parts[PARTS], *memory = hyb_alloc_parts(nbytes, PARTS, parts, "a plan");
    if (!memory)
        return NULL;
    int64_t *numbers = (int64_t *)parts[NUMBERS];
    hyb_plan_spec spec = open->spec.spec;
    hyb_plan *plan = NULL;
    if (numbers_of(open, symbols, given, numbers) == HYB_OK
        && (spec.arena_nbytes = lay_out(&open->spec, (hyb_place *)parts[PLACES], numbers)) >= 0
        && fill(open, parts, numbers, &spec) == HYB_OK) {
        if (constants) {
            spec.constants = constants;
            spec.constants_nbytes = constants_nbytes;
        }
        plan = hyb_plan_create(&spec);
    }
    hyb_free(memory);
    return plan;
}

static hyb_status run(const hyb_open_plan *open, const void *symbols, void *const *externals, int32_t n)
{
    hyb_set_last_step(-1);
    if (open->spec.n_given || (n >= 0 && open->spec.spec.n_externals != n))
        return hyb_fail(HYB_BAD_ARGUMENT, "the plan takes %d externals and %d numbers", open->spec.spec.n_externals,
                        open->spec.n_given);
    hyb_plan *plan = hyb_open_bind(open, symbols, NULL, NULL, 0);
    if (!plan)
        return HYB_BAD_ARGUMENT;
    hyb_plan_share_arena(plan);
    const hyb_status status = hyb_plan_run(plan, externals);
    hyb_plan_free(plan);
    return status;
}

hyb_status hyb_open_run(const hyb_open_plan *open, const void *symbols, void *const *externals)
{
    return run(open, symbols, externals, -1);
}

hyb_status hyb_open_run0(const hyb_open_plan *open, const void *symbols, void *out)
{
    void *const externals[] = {out};
    return run(open, symbols, externals, 1);
}

hyb_status hyb_open_run1(const hyb_open_plan *open, const void *symbols, void *out, const void *a)
{
    void *const externals[] = {out, (void *)a};
    return run(open, symbols, externals, 2);
}

hyb_status hyb_open_run2(const hyb_open_plan *open, const void *symbols, void *out, const void *a, const void *b)
{
    void *const externals[] = {out, (void *)a, (void *)b};
    return run(open, symbols, externals, 3);
}

hyb_status hyb_open_run3(const hyb_open_plan *open, const void *symbols, void *out, const void *a, const void *b,
                         const void *c)
{
    void *const externals[] = {out, (void *)a, (void *)b, (void *)c};
    return run(open, symbols, externals, 4);
}
