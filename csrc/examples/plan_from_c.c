/* plan_from_c.c - a plan described, made and run from C, without Python.
 *
 *     def layers(x, times):            # x is f32[2,3]
 *         for _ in range(times):
 *             x = relu(x @ WEIGHT + BIAS)
 *         return x
 *
 * README.md beside this file says how to build it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hybrid.h"

enum { ROWS = 2, WIDTH = 3, BYTES = ROWS * WIDTH * sizeof(float) };

/* What the plan holds by itself.  hyb_plan_create copies it. */
static const struct {
    float weight[WIDTH][WIDTH], bias[WIDTH];
} constants = {
    .weight = {{1, 0.5f, 0}, {-1, 1, 0.5f}, {0, -0.5f, 1}},
    .bias = {0.5f, -1, 0.25f},
};

/* Slots say where bytes live, and a table of them is easier to read by name than by number. */
enum { OUT, X, TIMES, WEIGHT, BIAS, PRODUCT, HOME, OTHER, NOW, NEXT, N_SLOTS };

/* Steps are numbered through all blocks. */
enum { STEP_START, STEP_LOOP, STEP_END, STEP_MATMUL, STEP_MAP, N_STEPS };

/* The operands of each step stand in a row: inputs first, then outputs. */
enum {
    START_X, START_HOME,
    LOOP_TIMES,
    END_NOW, END_OUT,
    MATMUL_NOW, MATMUL_WEIGHT, MATMUL_PRODUCT,
    MAP_PRODUCT, MAP_BIAS, MAP_NEXT,
    N_OPERANDS
};

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, hyb_last_error());
    exit(EXIT_FAILURE);
}

static void check(hyb_status status, const char *what)
{
    if (status == HYB_OK)
        return;
    fprintf(stderr, "%s: %s at step %d: %s\n", what, hyb_status_name((int32_t)status),
            (int)hyb_last_step(), hyb_last_error());
    exit(EXIT_FAILURE);
}

static int32_t find(const char *kernel)
{
    const int32_t index = hyb_find_kernel(kernel, HYB_F32);
    if (index < 0)
        give_up(kernel);
    return index;
}

/* A slot seen as f32[1, rows, WIDTH].  The axis of size 1 is the batch that matmul wants; the other
 * steps do not mind it. */
static hyb_operand matrix(int32_t slot, int64_t rows)
{
    const int64_t item = sizeof(float), row = WIDTH * item;
    return (hyb_operand){.slot = slot,
                         .layout = {HYB_F32, 3, {1, rows, WIDTH}, {rows * row, row, item}}};
}

/* The bias seen as a matrix: a stride of 0 repeats it in each row, and nothing is copied. */
static hyb_operand repeated(int32_t slot, int64_t rows)
{
    hyb_operand operand = matrix(slot, rows);
    operand.layout.strides[0] = operand.layout.strides[1] = 0;
    return operand;
}

/* The plan; or, to see what becomes of a mistake, NULL because of an arena with too few bytes. */
static hyb_plan *make_plan(int64_t arena_nbytes)
{
    const hyb_slot slots[N_SLOTS] = {
        /* The caller's memory: hyb_plan_run is given an address for each. */
        [OUT] = {.kind = HYB_SLOT_EXTERNAL, .external = 0, .nbytes = BYTES, .last_step = -1},
        [X] = {.kind = HYB_SLOT_EXTERNAL, .external = 1, .nbytes = BYTES, .last_step = -1},
        [TIMES] = {.kind = HYB_SLOT_EXTERNAL, .external = 2, .nbytes = sizeof(int64_t),
                   .last_step = -1},

        [WEIGHT] = {.kind = HYB_SLOT_CONSTANT, .offset = 0, .nbytes = sizeof constants.weight,
                    .last_step = -1},
        [BIAS] = {.kind = HYB_SLOT_CONSTANT, .offset = sizeof constants.weight,
                  .nbytes = sizeof constants.bias, .last_step = -1},

        /* What lives within a run.  64 bytes apart, values have cache lines of their own. */
        [PRODUCT] = {.kind = HYB_SLOT_ARENA, .offset = 0, .nbytes = BYTES, .last_step = STEP_MAP},
        [HOME] = {.kind = HYB_SLOT_ARENA, .offset = 64, .nbytes = BYTES, .last_step = -1},
        [OTHER] = {.kind = HYB_SLOT_ARENA, .offset = 128, .nbytes = BYTES, .last_step = -1},

        /* What one iteration leaves to the next.  No bytes move: the two names change places. */
        [NOW] = {.kind = HYB_SLOT_CARRIED, .nbytes = BYTES, .last_step = -1, .loop = STEP_LOOP,
                 .base = HOME, .spare = -1},
        [NEXT] = {.kind = HYB_SLOT_CARRIED, .nbytes = BYTES, .last_step = -1, .loop = STEP_LOOP,
                  .base = OTHER, .spare = -1},
    };
    const hyb_move moves[] = {{.to = NOW, .from = NEXT}, {.to = NEXT, .from = NOW}};

    const hyb_operand operands[N_OPERANDS] = {
        [START_X] = matrix(X, ROWS),
        [START_HOME] = matrix(HOME, ROWS),
        [LOOP_TIMES] = {.slot = TIMES, .layout = {.dtype = HYB_I64, .rank = 0}},
        [END_NOW] = matrix(NOW, ROWS),
        [END_OUT] = matrix(OUT, ROWS),
        [MATMUL_NOW] = matrix(NOW, ROWS),
        [MATMUL_WEIGHT] = matrix(WEIGHT, WIDTH),
        [MATMUL_PRODUCT] = matrix(PRODUCT, ROWS),
        [MAP_PRODUCT] = matrix(PRODUCT, ROWS),
        [MAP_BIAS] = repeated(BIAS, ROWS),
        [MAP_NEXT] = matrix(NEXT, ROWS),
    };

    /* next = relu(product + bias) in one pass over memory: the sum stays in a tile, buffer -1.
     * From 0 on the numbers are the operands of the step. */
    enum { TILE = -1, PRODUCT_OF_MAP = 0, BIAS_OF_MAP = 1, NEXT_OF_MAP = 2 };
    const hyb_map_op ops[] = {
        {.kernel = find("add"), .n_in = 2, .n_out = 1, .arg = {PRODUCT_OF_MAP, BIAS_OF_MAP, TILE}},
        {.kernel = find("relu"), .n_in = 1, .n_out = 1, .arg = {TILE, NEXT_OF_MAP}},
    };

    const int32_t copy = find("copy");
    const hyb_step steps[N_STEPS] = {
        /* The loop starts in the arena: it may not write to what the caller gave. */
        [STEP_START] = {.kind = HYB_STEP_KERNEL, .kernel = copy, .first_operand = START_X,
                        .n_in = 1, .n_out = 1},
        [STEP_LOOP] = {.kind = HYB_STEP_FOR, .kernel = 0 /* row of controls */,
                       .first_operand = LOOP_TIMES, .n_in = 1},
        [STEP_END] = {.kind = HYB_STEP_KERNEL, .kernel = copy, .first_operand = END_NOW, .n_in = 1,
                      .n_out = 1},
        [STEP_MATMUL] = {.kind = HYB_STEP_KERNEL, .kernel = find("matmul"),
                         .first_operand = MATMUL_NOW, .n_in = 2, .n_out = 1},
        [STEP_MAP] = {.kind = HYB_STEP_MAP, .kernel = -1, .first_operand = MAP_PRODUCT, .n_in = 2,
                      .n_out = 1, .first_op = 0, .n_ops = 2},
    };
    const hyb_block blocks[] = {
        {.first = STEP_START, .count = 3}, /* what a run runs */
        {.first = STEP_MATMUL, .count = 2}, /* the body of the loop */
    };
    const hyb_control controls[] = {
        {.block = 1, .otherwise = -1, .first_move = 0, .n_moves = 2, .limit = -1},
    };

    const hyb_plan_spec spec = {
        .steps = steps, .n_steps = N_STEPS,
        .operands = operands, .n_operands = N_OPERANDS,
        .slots = slots, .n_slots = N_SLOTS,
        .ops = ops, .n_ops = 2,
        .constants = &constants, .constants_nbytes = sizeof constants,
        .arena_nbytes = arena_nbytes,
        .n_externals = 3,
        .poison = 1, /* a last_step that is too early shows as NaN; 0 once you trust yours */
        .blocks = blocks, .n_blocks = 2,
        .controls = controls, .n_controls = 1,
        .moves = moves, .n_moves = 2,
    };
    return hyb_plan_create(&spec); /* copies what it needs: the tables above may go */
}

static void run(hyb_plan *plan, const float x[ROWS][WIDTH], int64_t times)
{
    float out[ROWS][WIDTH];
    void *const externals[] = {out, (void *)x, &times}; /* inputs are only read */
    check(hyb_plan_run(plan, externals), "run");
    printf("%" PRId64 " times:\n", times);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++)
            printf("%g%c", (double)out[i][j], j < WIDTH - 1 ? ' ' : '\n');
}

int main(void)
{
    if (hyb_abi() != HYB_ABI) { /* a shared library may be another one than the header's */
        fprintf(stderr, "the library has interface %d, not %d\n", (int)hyb_abi(), HYB_ABI);
        return EXIT_FAILURE;
    }
    check(hyb_init(), "init"); /* kernels are looked up in tables that this makes */

    /* Two places of 64 bytes are too few for three values.  The whole spec is checked before any of
     * it runs; the text stays until this thread's next failure. */
    if (make_plan(128)) {
        fprintf(stderr, "a plan with too small an arena was made\n");
        return EXIT_FAILURE;
    }
    printf("refused: %s\n", hyb_last_error());

    hyb_plan *plan = make_plan(192);
    if (!plan)
        give_up("plan");
    printf("arena: %" PRId64 " bytes\n", hyb_plan_arena_nbytes(plan));

    /* Neither run makes a plan or checks one again; how often the loop goes round is an input. */
    const float first[ROWS][WIDTH] = {{1, 2, 3}, {4, 5, 6}};
    const float second[ROWS][WIDTH] = {{8, 0, -1}, {-2, 4, 16}};
    run(plan, first, 1);
    run(plan, second, 3);

    hyb_plan_free(plan);
    hyb_memory_trim(); /* what is freed is kept for the next plan, and here there is none */
    return EXIT_SUCCESS;
}
