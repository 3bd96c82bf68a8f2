/* message_make.c - makes steps that print or fail, from their texts.
 *
 * A text may come from a file: braces that do not match, numbers that are not there and formats that
 * do not fit are refused.  It is copied first, for a file may change. */
#include "runtime/base/array_text.h"
#include "runtime/build/plan_build.h"

enum { MOST_BYTES = 1 << 20, MOST_PARTS = 1 << 12, MOST_ROOM = 1 << 26 };

hyb_status hyb_check_message(const hyb_builder *builder, const hyb_step *step)
{
    const hyb_plan_spec *spec = builder->spec;
    const bool prints = step->kind == HYB_STEP_PRINT;
    if (prints ? step->kernel != HYB_TO_OUTPUT && step->kernel != HYB_TO_ERRORS : step->kernel != 0)
        return hyb_refuse(builder, "a text for stream %d", step->kernel);
    if (step->n_in < 1 || step->n_out != 0)
        return hyb_refuse(builder, "%d inputs and %d outputs of a text", step->n_in, step->n_out);
    const hyb_operand *operands = spec->operands + step->first_operand;
    const hyb_layout *layout = &operands[0].layout;
    if (operands[0].slot < 0 || spec->slots[operands[0].slot].kind != HYB_SLOT_CONSTANT)
        return hyb_refuse(builder, "its text is no constant");
    if (layout->dtype != HYB_U8 || layout->rank != 1 || !hyb_is_contiguous(layout)
        || layout->shape[0] > MOST_BYTES)
        return hyb_refuse(builder, "its text is not u8[n] of at most %d bytes", MOST_BYTES);
    for (int32_t i = 1; i < step->n_in; i++)
        if (!hyb_is_contiguous(&operands[i].layout))
            return hyb_refuse(builder, "operand %d of a text is not dense", i);
    return HYB_OK;
}

/* A text while it is read. */
typedef struct {
    const hyb_builder *builder;
    const hyb_step *step;
    const char *start, *at, *end;
    char *out; /* where literals go: in the place of what has been read */
    int32_t n;
    int64_t room;
} reading;

static hyb_status refused(const reading *text)
{
    return hyb_refuse(text->builder, "its text, before byte %lld: no operand, or one that cannot be written so",
                      (long long)(text->at - text->start));
}

/* "{3:.2f}", from behind its first brace on. */
static hyb_status read_number(reading *text, hyb_message_part *part)
{
    int32_t number = 0;
    const char *start = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        number = number * 10 + (*text->at - '0');
        if (number > MOST_PARTS)
            return refused(text);
    }
    if (text->at == start || number >= text->step->n_in - 1)
        return refused(text);
    const char *none = "";
    hyb_read_format(&none, none, &part->format);
    if (text->end - text->at > 2 && text->at[0] == '!' && text->at[1] == 't') {
        part->is_array = true;
        text->at += 2;
    } else if (text->at < text->end && *text->at == ':') {
        text->at++;
        if (!hyb_read_format(&text->at, text->end, &part->format))
            return refused(text);
    }
    if (text->at >= text->end || *text->at != '}')
        return refused(text);
    text->at++;
    part->operand = 1 + number;
    part->layout = text->builder->spec->operands[text->step->first_operand + part->operand].layout;
    const int64_t room = part->is_array ? hyb_array_room(&part->layout) : HYB_NUMBER_ROOM;
    if (room < 0 || !hyb_format_fits(&part->format, part->layout.dtype)
        || (!part->is_array && hyb_elements(&part->layout) != 1))
        return refused(text);
    text->room += room;
    return text->room <= MOST_ROOM ? HYB_OK : refused(text);
}

static hyb_status read_part(reading *text, hyb_message_part *part)
{
    *part = (hyb_message_part){.literal = text->out, .operand = -1};
    while (text->at < text->end) {
        const char c = *text->at++;
        if (c != '{' && c != '}') {
            *text->out++ = c;
            continue;
        }
        if (text->at < text->end && *text->at == c) {
            *text->out++ = c;
            text->at++;
            continue;
        }
        part->n_literal = (int32_t)(text->out - part->literal);
        return c == '{' ? read_number(text, part) : refused(text);
    }
    part->n_literal = (int32_t)(text->out - part->literal);
    return HYB_OK;
}

hyb_status hyb_make_message(hyb_builder *builder, const hyb_step *step, hyb_plan_step *made)
{
    const hyb_plan_spec *spec = builder->spec;
    const hyb_operand *operand = &spec->operands[step->first_operand];
    const int64_t n = operand->layout.shape[0];
    char *copy = hyb_reserve(builder, (size_t)n + 1);
    hyb_message *message = hyb_reserve(builder, sizeof *message);
    if (!copy || !message)
        return HYB_NO_MEMORY;
    if (n > 0)
        memcpy(copy, (const char *)spec->constants + spec->slots[operand->slot].offset + operand->offset, (size_t)n);
    int32_t most = 1;
    for (int64_t i = 0; i < n; i++)
        most += copy[i] == '{';
    if (most > MOST_PARTS)
        return hyb_refuse(builder, "its text has more than %d numbers", MOST_PARTS);
    hyb_message_part *parts = hyb_reserve(builder, (size_t)most * sizeof *parts);
    if (!parts)
        return HYB_NO_MEMORY;
    reading text = {.builder = builder, .step = step, .start = copy, .at = copy, .end = copy + n, .out = copy};
    while (text.at < text.end)
        TRY(read_part(&text, &parts[text.n++]));
    *message = (hyb_message){.parts = parts, .n_parts = text.n, .room = text.room + n + 1,
                             .stream = step->kernel};
    made->message = message;
    return HYB_OK;
}
