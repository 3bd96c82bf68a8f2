/* message.c - runs steps that print, or that end the run with a text. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/array_text.h"
#include "runtime/run/plan_run.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hyb_print_fn printer;
static void *printer_context;

void hyb_set_print(hyb_print_fn print, void *context)
{
    pthread_mutex_lock(&lock);
    printer = print;
    printer_context = context;
    pthread_mutex_unlock(&lock);
}

static hyb_status print_text(int32_t stream, const char *text, int64_t n)
{
    pthread_mutex_lock(&lock);
    const hyb_print_fn print = printer;
    void *const context = printer_context;
    pthread_mutex_unlock(&lock);
    if (print)
        return (hyb_status)print(context, stream, text, n);
    FILE *file = stream == HYB_TO_ERRORS ? stderr : stdout;
    if (fwrite(text, 1, (size_t)n, file) == (size_t)n)
        return HYB_OK;
    return hyb_fail(HYB_BAD_FILE, "%lld bytes cannot be printed", (long long)n);
}

static int64_t write_message(const hyb_message *message, void *const *data, char *text)
{
    int64_t n = 0;
    for (int32_t i = 0; i < message->n_parts; i++) {
        const hyb_message_part *part = &message->parts[i];
        memcpy(text + n, part->literal, (size_t)part->n_literal);
        n += part->n_literal;
        if (part->operand >= 0 && part->is_array)
            n += hyb_write_array(text + n, &part->layout, data[part->operand]);
        else if (part->operand >= 0)
            n += hyb_write_number(text + n, &part->format, part->layout.dtype, data[part->operand]);
    }
    text[n] = 0;
    return n;
}

hyb_status hyb_run_message(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    const hyb_message *message = step->message;
    char *text = hyb_alloc((size_t)message->room);
    hyb_status status = HYB_NO_MEMORY;
    if (text) {
        const int64_t n = write_message(message, run->data + step->first_operand, text);
        status = message->stream ? print_text(message->stream, text, n) : hyb_fail(HYB_RAISED, "%s", text);
        hyb_free(text);
    }
    if (status != HYB_OK)
        hyb_set_last_step(index);
    return status;
}
