/* program_threads.c - many threads run a program at once: program_threads digits.hyb
 *
 * First a function that writes no cell, which gives all of them the same bytes; then it beside one that
 * writes, and beside a caller that says that it wrote: what each thread is given is of one state. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hybrid.h"

enum { THREADS = 8, RUNS = 100, ROWS = 16, WIDTH = 64, CLASSES = 10 };

static hyb_program *program;
static int32_t predict, train_step;
static float x[ROWS * WIDTH], expected[ROWS * CLASSES];
static int64_t y[ROWS];

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, hyb_last_error());
    exit(EXIT_FAILURE);
}

static void ask(float *scores)
{
    if (hyb_program_run(program, predict, (void *const[]){x}, NULL, (void *const[]){scores}) != HYB_OK)
        give_up("predict");
}

static void *predicts(void *same)
{
    float scores[ROWS * CLASSES];
    for (int i = 0; i < RUNS; i++) {
        ask(scores);
        if (same && memcmp(scores, expected, sizeof scores) != 0)
            give_up("other bytes");
    }
    return NULL;
}

static void *trains(void *unused)
{
    float loss;
    for (int i = 0; i < RUNS; i++)
        if (hyb_program_run(program, train_step, (void *const[]){x, y}, NULL, (void *const[]){&loss}) != HYB_OK)
            give_up("train_step");
    return unused;
}

static void *touches(void *unused)
{
    for (int i = 0; i < RUNS; i++)
        for (int32_t cell = 0; cell < hyb_program_states(program); cell++)
            if (hyb_program_touch(program, cell) != HYB_OK)
                give_up("touch");
    return unused;
}

static void side_by_side(void *(*const functions[])(void *), int n, void *argument)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, functions[i % n], argument) != 0)
            give_up("no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !(program = hyb_program_load(argv[1], 0)))
        give_up("load");
    predict = hyb_program_find(program, "predict");
    train_step = hyb_program_find(program, "train_step");
    if (predict < 0 || train_step < 0)
        give_up("find");
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    for (int i = 0; i < ROWS; i++)
        y[i] = i % CLASSES;

    ask(expected);
    side_by_side((void *(*const[])(void *)){predicts}, 1, &program);
    ask(expected);
    side_by_side((void *(*const[])(void *)){predicts, trains, touches, predicts}, 4, NULL);

    /* Two threads have trained, in turn: as one would have that trained as often. */
    float found[ROWS * CLASSES];
    ask(found);
    hyb_program *other = hyb_program_load(argv[1], 0), *first = program;
    if (!other)
        give_up("load again");
    program = other;
    trains(NULL);
    trains(NULL);
    ask(expected);
    if (memcmp(found, expected, sizeof found) != 0)
        give_up("other weights");
    hyb_program_free(first);
    hyb_program_free(other);
    hyb_memory_trim();
    puts("done");
    return EXIT_SUCCESS;
}
