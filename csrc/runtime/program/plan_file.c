/* plan_file.c - plans from the tables of a file.
 *
 * What depends on sizes is written into the arrays first.  hyb_plan_create shows that a plan stays within
 * its slots.  What it cannot know is shown here: which bytes its externals have, and that it writes to
 * outputs alone. */
#include "runtime/program/program.h"

enum {
    MOST_STEPS = 1 << 20,
    MOST_PLACES = 1 << 15, /* of an arena: each is compared with each */
    HEAD = 3               /* words of an operand before its shape */
};
static const int64_t MOST_BYTES = INT64_C(1) << 46; /* of literals: sums of them do not wrap */

static const size_t ROW[HYB_PARTS] = {
    [HYB_PART_STEPS] = sizeof(hyb_step),     [HYB_PART_OPERANDS] = 0, /* by rank */
    [HYB_PART_SLOTS] = sizeof(hyb_slot),     [HYB_PART_OPS] = sizeof(hyb_map_op),
    [HYB_PART_ATTRS] = sizeof(hyb_attr),     [HYB_PART_BLOCKS] = sizeof(hyb_block),
    [HYB_PART_CONTROLS] = sizeof(hyb_control), [HYB_PART_MOVES] = sizeof(hyb_move),
};

/* A plan while it is read. */
typedef struct {
    const hyb_file *file;
    const hyb_plan_row *row;
    hyb_plan_spec spec;
    hyb_step *steps;
    hyb_operand *operands;
    hyb_slot *slots;
    hyb_map_op *ops;
    hyb_attr *attrs;
    hyb_control *controls;
    char *constants; /* with those that depend on sizes; NULL: there are none */
    int64_t *offsets; /* of the places of the arena, then of these constants */
    bool *written; /* of each slot: whether a step may write to its bytes */
} reading;

static hyb_status find_rows(reading *plan)
{
    const hyb_file *file = plan->file;
    const hyb_plan_row *row = plan->row;
    const int64_t rows = file->section[HYB_SECTION_ROWS].nbytes;
    if (row->rank < 0 || row->rank > HYB_MAX_RANK)
        return hyb_fail(HYB_BAD_FILE, "operands of %d axes", row->rank);
    for (int part = 0; part < HYB_PARTS; part++) {
        const int64_t offset = row->part[part].offset, nbytes = row->part[part].nbytes;
        const size_t size = ROW[part] ? ROW[part] : (size_t)(HEAD + 2 * row->rank) * 8;
        if (offset % 8 != 0 || !hyb_rows_hold(offset, nbytes, rows) || nbytes % (int64_t)size != 0
            || nbytes / (int64_t)size > INT32_MAX / 64)
            return hyb_fail(HYB_BAD_FILE, "part %d: bytes %lld + %lld are not within its rows", part,
                            (long long)offset, (long long)nbytes);
    }
    const int64_t constants = file->section[HYB_SECTION_CONSTANTS].nbytes;
    if (row->constants % 64 != 0 || !hyb_rows_hold(row->constants, row->constants_nbytes, constants))
        return hyb_fail(HYB_BAD_FILE, "its constants are not within those of the file");
    if (row->n_outputs < 0 || row->n_outputs > row->n_externals
        || !hyb_rows_hold(row->first_external, row->n_externals, file->section[HYB_SECTION_EXTERNALS].count))
        return hyb_fail(HYB_BAD_FILE, "its %d externals are not there", row->n_externals);
    if (!hyb_rows_hold(row->first_word, row->n_words, file->section[HYB_SECTION_WORDS].count)
        || !hyb_rows_hold(row->first_place, row->n_places, file->section[HYB_SECTION_ARENAS].count)
        || !hyb_rows_hold(row->first_fill, row->n_fills, file->section[HYB_SECTION_FILLS].count)
        || row->n_places > MOST_PLACES)
        return hyb_fail(HYB_BAD_FILE, "what depends on sizes is not there");
    return HYB_OK;
}

/* Where in its arena each value lies at these sizes. */
static hyb_status lay_arena(reading *plan, const int64_t *numbers, int64_t n_numbers)
{
    const hyb_plan_row *row = plan->row;
    const hyb_place *rows = (const hyb_place *)plan->file->section[HYB_SECTION_ARENAS].bytes + row->first_place;
    if (row->n_places == 0)
        return HYB_OK;
    hyb_place *places = hyb_alloc((size_t)row->n_places * sizeof *places);
    if (!places)
        return hyb_fail(HYB_NO_MEMORY, "no memory for %d places", row->n_places);
    memcpy(places, rows, (size_t)row->n_places * sizeof *places);
    hyb_status status = HYB_OK;
    for (int32_t i = 0; i < row->n_places; i++) {
        const int32_t number = places[i].unused; /* -1: the size is that of the row */
        if (number >= n_numbers || number < -1)
            status = hyb_fail(HYB_BAD_FILE, "place %d: number %d of %lld", i, number, (long long)n_numbers);
        else if (number >= 0)
            places[i].size = numbers[number];
    }
    if (status == HYB_OK) {
        plan->spec.arena_nbytes = hyb_lay_out(places, row->n_places, plan->offsets);
        if (plan->spec.arena_nbytes < 0)
            status = HYB_BAD_FILE;
    }
    hyb_free(places);
    return status;
}

/* The constants, and behind them those that depend on sizes. */
static hyb_status fill_constants(reading *plan, const int64_t *numbers, int64_t n_numbers)
{
    const hyb_plan_row *row = plan->row;
    const hyb_fill_row *rows = (const hyb_fill_row *)plan->file->section[HYB_SECTION_FILLS].bytes + row->first_fill;
    int64_t *starts = plan->offsets + row->n_places, all = row->constants_nbytes;
    if (row->n_fills == 0)
        return HYB_OK;
    for (int32_t i = 0; i < row->n_fills; i++) {
        const int64_t nbytes = hyb_fill(&rows[i], numbers, n_numbers, NULL);
        starts[i] = (all + 63) / 64 * 64;
        if (nbytes < 0 || all > MOST_BYTES)
            return hyb_fail(HYB_BAD_FILE, "literal %d cannot be made", i);
        all = starts[i] + nbytes;
    }
    TRY(hyb_literals_fit(all - row->constants_nbytes));
    char *made = plan->constants = hyb_alloc((size_t)all + 64);
    if (!made)
        return hyb_fail(HYB_NO_MEMORY, "no memory for %lld bytes of literals", (long long)all);
    memcpy(made, plan->spec.constants, (size_t)row->constants_nbytes);
    for (int32_t i = 0; i < row->n_fills; i++)
        hyb_fill(&rows[i], numbers, n_numbers, made + starts[i]);
    plan->spec.constants = made;
    plan->spec.constants_nbytes = all;
    return HYB_OK;
}

/* The address of a word of an array; NULL where there is none.  Those of operands are counted in rows as
 * long as they are in the file. */
static char *word_of(const reading *plan, const hyb_word_row *word)
{
    const hyb_plan_spec *spec = &plan->spec;
    const int32_t rank = plan->row->rank, length = HEAD + 2 * rank;
    const int64_t at = word->word;
    if (at < 0)
        return NULL;
    switch (word->part) {
    case HYB_PART_OPERANDS: {
        if (at / length >= spec->n_operands)
            return NULL;
        hyb_operand *operand = &plan->operands[at / length];
        const int32_t in = (int32_t)(at % length);
        return in < HEAD ? (char *)operand + 8 * in
            : in < HEAD + rank ? (char *)&operand->layout.shape[in - HEAD]
                               : (char *)&operand->layout.strides[in - HEAD - rank];
    }
    case HYB_PART_SLOTS:
        return at < (int64_t)(spec->n_slots * sizeof(hyb_slot) / 8) ? (char *)plan->slots + 8 * at : NULL;
    case HYB_PART_ATTRS: return at < spec->n_attrs ? (char *)plan->attrs + 8 * at : NULL;
    case HYB_PART_CONTROLS:
        return at < (int64_t)(spec->n_controls * sizeof(hyb_control) / 8) ? (char *)plan->controls + 8 * at : NULL;
    default: return NULL;
    }
}

/* Writes what depends on sizes to where it belongs. */
static hyb_status write_words(reading *plan, const int64_t *numbers, int64_t n_numbers)
{
    const hyb_plan_row *row = plan->row;
    const hyb_word_row *words = (const hyb_word_row *)plan->file->section[HYB_SECTION_WORDS].bytes + row->first_word;
    const struct { const int64_t *of; int64_t count; } KINDS[] = {
        [HYB_WORD_FORMULA] = {numbers, n_numbers},
        [HYB_WORD_PLACE] = {plan->offsets, row->n_places},
        [HYB_WORD_FILL] = {plan->offsets + row->n_places, row->n_fills},
    };
    for (int32_t i = 0; i < row->n_words; i++) {
        char *to = word_of(plan, &words[i]);
        const int32_t kind = words[i].kind, number = words[i].number;
        if (!to || kind < 0 || kind > HYB_WORD_FILL || number < 0 || number >= KINDS[kind].count)
            return hyb_fail(HYB_BAD_FILE, "word %d: word %d of part %d, number %d", i, words[i].word, words[i].part, number);
        memcpy(to, &KINDS[kind].of[number], 8);
    }
    return HYB_OK;
}

static const char *rows_of(const reading *plan, int part, int32_t *count)
{
    const size_t size = ROW[part] ? ROW[part] : (size_t)(HEAD + 2 * plan->row->rank) * 8;
    *count = (int32_t)(plan->row->part[part].nbytes / (int64_t)size);
    return plan->file->section[HYB_SECTION_ROWS].bytes + plan->row->part[part].offset;
}

/* Short operands as those of a spec. */
static void widen(const char *bytes, int32_t count, int32_t rank, hyb_operand *operands)
{
    const size_t size = (size_t)(HEAD + 2 * rank) * 8;
    for (int32_t i = 0; i < count; i++, bytes += size) {
        hyb_operand *operand = &operands[i];
        memcpy(operand, bytes, HEAD * 8);
        memcpy(operand->layout.shape, bytes + HEAD * 8, (size_t)rank * 8);
        memcpy(operand->layout.strides, bytes + HEAD * 8 + (size_t)rank * 8, (size_t)rank * 8);
    }
}

static hyb_status name_kernels(reading *plan, const int32_t *kernels)
{
    const int64_t known = plan->file->section[HYB_SECTION_KERNELS].count;
    for (int32_t i = 0; i < plan->spec.n_steps; i++) {
        hyb_step *step = &plan->steps[i];
        if (step->kind == HYB_STEP_HOST || step->kind == HYB_STEP_NEXT
            || step->kind == HYB_STEP_TRANSFER)
            return hyb_fail(HYB_BAD_FILE, "step %d calls what is not in the file", i);
        if (step->kind != HYB_STEP_KERNEL)
            continue;
        if (step->kernel < 0 || step->kernel >= known)
            return hyb_fail(HYB_BAD_FILE, "step %d: kernel %d of %lld", i, step->kernel, (long long)known);
        step->kernel = kernels[step->kernel];
    }
    for (int32_t i = 0; i < plan->spec.n_ops; i++) {
        hyb_map_op *op = &plan->ops[i];
        if (op->kernel < 0 || op->kernel >= known)
            return hyb_fail(HYB_BAD_FILE, "op %d: kernel %d of %lld", i, op->kernel, (long long)known);
        op->kernel = kernels[op->kernel];
    }
    return HYB_OK;
}

static hyb_status note_writes(reading *plan)
{
    const hyb_plan_spec *spec = &plan->spec;
    for (int32_t i = 0; i < spec->n_steps; i++) {
        const hyb_step *step = &plan->steps[i];
        const int64_t first = (int64_t)step->first_operand + step->n_in;
        if (step->n_in < 0 || step->n_out < 0 || !hyb_rows_hold(first, step->n_out, spec->n_operands))
            return hyb_fail(HYB_BAD_FILE, "step %d: its outputs are not there", i);
        for (int64_t k = first; k < first + step->n_out; k++) {
            const int32_t slot = plan->operands[k].slot;
            if (slot >= spec->n_slots)
                return hyb_fail(HYB_BAD_FILE, "step %d: slot %d of %d", i, slot, spec->n_slots);
            if (slot >= 0)
                plan->written[slot] = true;
        }
    }
    return HYB_OK;
}

/* Rows are parts of their bases; carried slots get to where others were. */
static hyb_status spread_writes(reading *plan)
{
    const hyb_plan_spec *spec = &plan->spec;
    const hyb_move *moves = spec->moves;
    for (int32_t i = 0; i < spec->n_moves; i++)
        if (moves[i].to < 0 || moves[i].to >= spec->n_slots || moves[i].from < 0 || moves[i].from >= spec->n_slots)
            return hyb_fail(HYB_BAD_FILE, "move %d: slots %d and %d of %d", i, moves[i].to, moves[i].from, spec->n_slots);
    for (bool more = true; more;) {
        more = false;
        for (int32_t i = 0; i < spec->n_slots; i++) {
            const hyb_slot *slot = &plan->slots[i];
            if (!plan->written[i] || (slot->kind != HYB_SLOT_ROW && slot->kind != HYB_SLOT_CARRIED))
                continue;
            const int32_t reached[2] = {slot->base, slot->kind == HYB_SLOT_ROW ? slot->spare : -1};
            for (int k = 0; k < 2; k++) {
                if (reached[k] >= spec->n_slots || (k == 0 && reached[k] < 0))
                    return hyb_fail(HYB_BAD_FILE, "slot %d: base %d of %d", i, reached[k], spec->n_slots);
                if (reached[k] >= 0 && !plan->written[reached[k]])
                    more = plan->written[reached[k]] = true;
            }
        }
        for (int32_t i = 0; i < spec->n_moves; i++)
            if (plan->written[moves[i].to] != plan->written[moves[i].from])
                more = plan->written[moves[i].to] = plan->written[moves[i].from] = true;
    }
    return HYB_OK;
}

/* Externals have as many bytes as slots say, and inputs are not written.  Then what lies where another
 * external does is that one: hyb_plan_create shows that it may be. */
static hyb_status place_externals(reading *plan, const int64_t *nbytes, const int32_t *aliases)
{
    for (int32_t i = 0; i < plan->spec.n_slots; i++) {
        hyb_slot *slot = &plan->slots[i];
        if (slot->kind != HYB_SLOT_EXTERNAL)
            continue;
        if (slot->external < 0 || slot->external >= plan->row->n_externals)
            return hyb_fail(HYB_BAD_FILE, "slot %d: external %d of %d", i, slot->external, plan->row->n_externals);
        if (slot->nbytes > nbytes[slot->external])
            return hyb_fail(HYB_BAD_FILE, "slot %d takes %lld bytes of a value of %lld", i,
                            (long long)slot->nbytes, (long long)nbytes[slot->external]);
        if (plan->written[i] && slot->external >= plan->row->n_outputs)
            return hyb_fail(HYB_BAD_FILE, "slot %d: it writes to what it is given", i);
        slot->external = aliases[slot->external];
    }
    return HYB_OK;
}

static hyb_status read_plan(reading *plan, const int32_t *kernels, const int64_t *nbytes, const int32_t *aliases,
                            const int64_t *numbers, int64_t n_numbers)
{
    TRY(lay_arena(plan, numbers, n_numbers));
    TRY(fill_constants(plan, numbers, n_numbers));
    TRY(write_words(plan, numbers, n_numbers));
    TRY(name_kernels(plan, kernels));
    TRY(note_writes(plan));
    TRY(spread_writes(plan));
    return place_externals(plan, nbytes, aliases);
}

hyb_plan *hyb_file_plan(const hyb_file *file, const int32_t *kernels, int64_t number,
                        const int64_t *nbytes, const int32_t *aliases, const int64_t *numbers, int64_t n_numbers)
{
    reading plan = {.file = file, .row = (const hyb_plan_row *)file->section[HYB_SECTION_PLANS].bytes + number};
    if (find_rows(&plan) != HYB_OK)
        return NULL;
    int32_t count[HYB_PARTS];
    const char *rows[HYB_PARTS];
    for (int part = 0; part < HYB_PARTS; part++)
        rows[part] = rows_of(&plan, part, &count[part]);
    if (count[HYB_PART_STEPS] > MOST_STEPS) {
        hyb_fail(HYB_BAD_FILE, "%d steps are more than the %d there may be", count[HYB_PART_STEPS], MOST_STEPS);
        return NULL;
    }
    const size_t sizes[] = {
        (size_t)count[HYB_PART_STEPS] * sizeof(hyb_step), (size_t)count[HYB_PART_OPERANDS] * sizeof(hyb_operand),
        (size_t)count[HYB_PART_SLOTS] * sizeof(hyb_slot), (size_t)count[HYB_PART_OPS] * sizeof(hyb_map_op),
        (size_t)count[HYB_PART_SLOTS], (size_t)count[HYB_PART_ATTRS] * sizeof(hyb_attr),
        (size_t)count[HYB_PART_CONTROLS] * sizeof(hyb_control),
        ((size_t)plan.row->n_places + (size_t)plan.row->n_fills) * sizeof(int64_t),
    };
    enum { BLOCKS = sizeof sizes / sizeof *sizes };
    char *parts[BLOCKS], *memory = hyb_alloc_parts(sizes, BLOCKS, parts, "a plan");
    if (!memory)
        return NULL;
    plan.steps = (hyb_step *)parts[0];
    plan.operands = (hyb_operand *)parts[1];
    plan.slots = (hyb_slot *)parts[2];
    plan.ops = (hyb_map_op *)parts[3];
    plan.written = (bool *)parts[4];
    plan.attrs = (hyb_attr *)parts[5];
    plan.controls = (hyb_control *)parts[6];
    plan.offsets = (int64_t *)parts[7];
    memcpy(plan.steps, rows[HYB_PART_STEPS], sizes[0]);
    widen(rows[HYB_PART_OPERANDS], count[HYB_PART_OPERANDS], plan.row->rank, plan.operands);
    memcpy(plan.slots, rows[HYB_PART_SLOTS], sizes[2]);
    memcpy(plan.ops, rows[HYB_PART_OPS], sizes[3]);
    memcpy(plan.attrs, rows[HYB_PART_ATTRS], sizes[5]);
    memcpy(plan.controls, rows[HYB_PART_CONTROLS], sizes[6]);
    plan.spec = (hyb_plan_spec){
        .steps = plan.steps, .n_steps = count[HYB_PART_STEPS],
        .operands = plan.operands, .n_operands = count[HYB_PART_OPERANDS],
        .slots = plan.slots, .n_slots = count[HYB_PART_SLOTS],
        .ops = plan.ops, .n_ops = count[HYB_PART_OPS],
        .attrs = plan.attrs, .n_attrs = count[HYB_PART_ATTRS],
        .constants = file->section[HYB_SECTION_CONSTANTS].bytes + plan.row->constants,
        .constants_nbytes = plan.row->constants_nbytes,
        .arena_nbytes = plan.row->arena_nbytes,
        .n_externals = plan.row->n_externals,
        .blocks = (const hyb_block *)rows[HYB_PART_BLOCKS], .n_blocks = count[HYB_PART_BLOCKS],
        .controls = plan.controls, .n_controls = count[HYB_PART_CONTROLS],
        .moves = (const hyb_move *)rows[HYB_PART_MOVES], .n_moves = count[HYB_PART_MOVES],
    };
    hyb_plan *made = NULL;
    if (read_plan(&plan, kernels, nbytes, aliases, numbers, n_numbers) == HYB_OK)
        made = hyb_plan_create(&plan.spec);
    hyb_free(plan.constants);
    hyb_free(memory);
    return made;
}
