/* driver.c - a program that uses the library without Python: plans, loops, threads, streams, failures
 * and a fork.
 *
 * Exits with 0, or prints the line that does not hold.  test_c_library.py builds it plain and
 * sanitised. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hybrid.h"

#define HOLDS(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            printf("line %d: %s (%s)\n", __LINE__, #condition, hyb_last_error()); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

enum { N = 300000, BYTES = N * sizeof(float), THREADS = 4, RUNS = 20 };

static hyb_operand dense(int32_t slot)
{
    return (hyb_operand){.slot = slot, .layout = {HYB_F32, 1, {N}, {sizeof(float)}}};
}

/* out = (x + x) + x: a kernel step into the arena, then a map through a tile. */
static hyb_plan *make_plan(void)
{
    const int32_t add = hyb_find_kernel("add", HYB_F32),
                  multiply = hyb_find_kernel("multiply", HYB_F32);
    const float one = 1.0f;
    const hyb_slot slots[] = {
        {.kind = HYB_SLOT_EXTERNAL, .external = 0, .nbytes = BYTES, .last_step = -1},
        {.kind = HYB_SLOT_EXTERNAL, .external = 1, .nbytes = BYTES, .last_step = -1},
        {.kind = HYB_SLOT_ARENA, .nbytes = BYTES, .last_step = 1},
        {.kind = HYB_SLOT_CONSTANT, .nbytes = sizeof one, .last_step = -1},
    };
    hyb_operand operands[] = {dense(1), dense(1), dense(2), dense(2), dense(1), dense(3), dense(0)};
    operands[5].layout.strides[0] = 0;
    const hyb_map_op ops[] = {
        {multiply, 2, 1, 0, 0, {0, 2, -1}},
        {add, 2, 1, 0, 0, {-1, 1, 3}},
    };
    const hyb_step steps[] = {
        {HYB_STEP_KERNEL, add, 0, 2, 1, 0, 0, 0, 0, 0},
        {HYB_STEP_MAP, -1, 3, 3, 1, 0, 0, 0, 0, 2},
    };
    const hyb_plan_spec spec = {
        .steps = steps,
        .n_steps = 2,
        .operands = operands,
        .n_operands = 7,
        .slots = slots,
        .n_slots = 4,
        .ops = ops,
        .n_ops = 2,
        .constants = &one,
        .constants_nbytes = sizeof one,
        .arena_nbytes = BYTES,
        .n_externals = 2,
        .poison = 1,
    };
    return hyb_plan_create(&spec);
}

static const char steps_of_host[] = "what the host is given";

static void check_run(hyb_plan *plan, float scale)
{
    float *x = hyb_alloc(BYTES), *out = hyb_alloc(BYTES);
    HOLDS(x && out);
    for (int i = 0; i < N; i++)
        x[i] = scale * (float)i;
    HOLDS(hyb_run1(plan, out, x) == HYB_OK);
    for (int i = 0; i < N; i++)
        HOLDS(out[i] == (x[i] + x[i]) + x[i]);
    hyb_free(x);
    hyb_free(out);
}

static void *run_often(void *plan)
{
    for (int i = 1; i <= RUNS; i++)
        check_run(plan, (float)i);
    return NULL;
}

/* while go: x, go = host(x): a carried value of one float takes turns between two places. */
static hyb_plan *make_loop(void)
{
    const hyb_slot slots[] = {
        {HYB_SLOT_EXTERNAL, 0, 0, sizeof(float), -1, 0, 0, 0, 0, 0}, /* the last x */
        {HYB_SLOT_EXTERNAL, 1, 0, sizeof(float), -1, 0, 0, 0, 0, 0}, /* the first */
        {HYB_SLOT_EXTERNAL, 2, 0, 1, -1, 0, 0, 0, 0, 0},
        {HYB_SLOT_ARENA, 0, 0, sizeof(float), -1, 0, 0, 0, 0, 0},
        {HYB_SLOT_ARENA, 0, 64, sizeof(float), -1, 0, 0, 0, 0, 0},
        {HYB_SLOT_ARENA, 0, 128, 1, -1, 0, 0, 0, 0, 0},
        {HYB_SLOT_CARRIED, 0, 0, sizeof(float), -1, 1, 3, -1, 0, 0},
        {HYB_SLOT_CARRIED, 0, 0, sizeof(float), -1, 1, 4, -1, 0, 0},
    };
    const int32_t where[] = {1, 3, 2, 5, 6, 0, 6, 7, 5};
    enum { N_OPERANDS = sizeof where / sizeof where[0] };
    hyb_operand operands[N_OPERANDS];
    for (int i = 0; i < N_OPERANDS; i++) {
        const bool flag = where[i] == 2 || where[i] == 5;
        operands[i] = (hyb_operand){.slot = where[i], .layout = {flag ? HYB_BOOL : HYB_F32, 0}};
    }
    const int32_t copy = hyb_find_kernel("copy", HYB_F32);
    const hyb_step steps[] = {
        {HYB_STEP_KERNEL, copy, 0, 1, 1, 0, 0, 0, 0, 0},
        {HYB_STEP_WHILE, 0, 2, 2, 0, 0, 0, 0, 0, 0},
        {HYB_STEP_KERNEL, copy, 4, 1, 1, 0, 0, 0, 0, 0},
        {HYB_STEP_HOST, 5, 6, 1, 2, 0, 0, 0, 0, 0},
    };
    const hyb_block blocks[] = {{0, 3}, {3, 1}};
    const hyb_control controls[] = {{1, -1, 0, 2, -1, 0, 0}};
    const hyb_move moves[] = {{6, 7}, {7, 6}};
    const hyb_plan_spec spec = {
        .steps = steps,
        .n_steps = 4,
        .operands = operands,
        .n_operands = N_OPERANDS,
        .slots = slots,
        .n_slots = 8,
        .arena_nbytes = 192,
        .n_externals = 3,
        .poison = 1,
        .blocks = blocks,
        .n_blocks = 2,
        .controls = controls,
        .n_controls = 1,
        .moves = moves,
        .n_moves = 2,
    };
    return hyb_plan_create(&spec);
}

enum { ENOUGH = 1000 };

static int32_t host(void *context, int32_t number, void *const *data)
{
    HOLDS(number == 5 && context == (void *)steps_of_host);
    *(float *)data[1] = *(float *)data[0] + 1;
    *(uint8_t *)data[2] = *(float *)data[1] < ENOUGH;
    return *(float *)data[0] < 0 ? HYB_HOST_FAILED : HYB_OK;
}

static int32_t interrupt(void) { return HYB_INTERRUPTED; }

static void *loop_often(void *plan)
{
    const uint8_t go = 1;
    for (int i = 0; i < RUNS; i++) {
        float x = (float)i, last = 0;
        void *const externals[] = {&last, &x, (void *)&go};
        HOLDS(hyb_plan_run(plan, externals) == HYB_OK && last == ENOUGH);
        x = -3;
        HOLDS(hyb_plan_run(plan, externals) == HYB_HOST_FAILED && hyb_last_step() == 3);
    }
    return NULL;
}

static int32_t never_enough(void *context, int32_t number, void *const *data)
{
    (void)context;
    *(float *)data[1] = *(float *)data[0];
    *(uint8_t *)data[2] = number == 5;
    return HYB_OK;
}

static void check_loops(void)
{
    hyb_plan *plan = make_loop();
    HOLDS(plan);
    hyb_plan_set_host(plan, host, (void *)steps_of_host);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        HOLDS(pthread_create(&threads[i], NULL, loop_often, plan) == 0);
    for (int i = 0; i < THREADS; i++)
        HOLDS(pthread_join(threads[i], NULL) == 0);

    hyb_plan_set_host(plan, never_enough, NULL);
    hyb_set_poll(interrupt);
    const uint8_t go = 1;
    float x = 1, last = 0;
    void *const externals[] = {&last, &x, (void *)&go};
    HOLDS(hyb_plan_run(plan, externals) == HYB_INTERRUPTED && hyb_last_step() == 1);
    hyb_set_poll(NULL);
    hyb_plan_free(plan);
}

typedef struct {
    hyb_plan *plan;
    hyb_stream *stream;
    hyb_ticket after; /* of another stream, or none */
    float *x;
} submission;

static int64_t submit(const submission *s)
{
    int64_t number = 0;
    void *const externals[] = {s->x, s->x + N};
    do
        HOLDS(hyb_stream_submit(s->stream, s->plan, externals, 2, &s->after,
                                s->after.stream != NULL, &number) == HYB_OK);
    while (number == 0 && hyb_stream_room(s->stream, 1000000) >= 0);
    return number;
}

static void *submit_often(void *context)
{
    const submission *s = context;
    int64_t last = 0;
    for (int i = 0; i < RUNS; i++)
        last = submit(s);
    HOLDS(hyb_stream_wait(s->stream, last, INT64_C(60000000000)) == 1);
    HOLDS(hyb_stream_finished(s->stream) >= last);
    for (int i = 0; i < N; i++)
        HOLDS(s->x[i] == 3 * s->x[N + i]);
    return NULL;
}

/* Threads submit to two streams, one of which waits for the other; they are closed at work. */
static void check_streams(hyb_plan *plan)
{
    hyb_stream *first = hyb_stream_open(4), *second = hyb_stream_open(3);
    HOLDS(first && second && !hyb_stream_open(0));
    pthread_t threads[THREADS];
    submission submissions[THREADS];
    for (int i = 0; i < THREADS; i++) {
        float *x = hyb_alloc(2 * BYTES);
        HOLDS(x);
        for (int j = 0; j < N; j++)
            x[N + j] = (float)j;
        submissions[i] = (submission){plan, i % 2 ? second : first, {NULL, 0}, x};
    }
    const int64_t number = submit(&submissions[0]);
    submissions[1].after = (hyb_ticket){first, number};
    HOLDS(submit(&submissions[1]) == 1);
    submissions[1].after = (hyb_ticket){NULL, 0};
    for (int i = 0; i < THREADS; i++)
        HOLDS(pthread_create(&threads[i], NULL, submit_often, &submissions[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        HOLDS(pthread_join(threads[i], NULL) == 0);
    int64_t failed;
    HOLDS(hyb_stream_failure(second, &failed) == HYB_OK && failed == 0);

    const submission last = {plan, second, {first, submit(&submissions[0])}, submissions[1].x};
    submit(&last);
    hyb_stream_close(first);
    hyb_stream_close(second);
    for (int i = 0; i < THREADS; i++)
        hyb_free(submissions[i].x);
}

static void check_failures(void)
{
    const int64_t before = hyb_memory().live_bytes;
    hyb_plan *plan = NULL;
    for (int64_t nth = 1; !plan; nth++) {
        hyb_fail_allocation(nth);
        plan = make_plan();
        hyb_fail_allocation(0);
        HOLDS(plan || strncmp(hyb_last_error(), "cannot allocate ", 16) == 0);
        HOLDS(plan || hyb_memory().live_bytes == before);
        HOLDS(plan || nth < 1000);
    }
    hyb_plan_free(plan);
    HOLDS(hyb_memory().live_bytes == before);
    HOLDS(!hyb_alloc((size_t)1 << 46));

    const hyb_step beyond = {HYB_STEP_KERNEL, 0, 5, 1, 1, 0, 0, 0, 0, 0};
    const hyb_plan_spec spec = {.steps = &beyond, .n_steps = 1};
    HOLDS(!hyb_plan_create(&spec));
    HOLDS(strcmp(hyb_last_error(), "step 0: operands 5 + 2 of 0") == 0);
}

int main(void)
{
    HOLDS(hyb_abi() == HYB_ABI);
    HOLDS(hyb_init() == HYB_OK);
    HOLDS(hyb_set_num_threads(THREADS) == HYB_OK);
    check_failures();
    check_loops();

    hyb_plan *plan = make_plan();
    HOLDS(plan);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        HOLDS(pthread_create(&threads[i], NULL, run_often, plan) == 0);
    for (int i = 0; i < THREADS; i++)
        HOLDS(pthread_join(threads[i], NULL) == 0);

    check_streams(plan);
    const pid_t child = fork();
    HOLDS(child >= 0);
    if (child == 0) {
        check_run(plan, 3.0f);
        check_streams(plan);
        _exit(0);
    }
    int status;
    HOLDS(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_run(plan, 2.0f);
    hyb_plan_free(plan);
    hyb_memory_trim();
    printf("%s\n", hyb_isa_name());
    return 0;
}
