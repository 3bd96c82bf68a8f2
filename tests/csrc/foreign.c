/* foreign.c - runs plans that another machine has written to a file, and writes their results.
 *
 *   foreign INPUT OUTPUT
 *
 * INPUT, little-endian: the number of kernels, and of each its name (56 bytes, padded with zeros)
 * and its dtype, an i64; then plan after plan.  A plan is eleven i64 - how many steps, operands,
 * slots, map ops, attributes, blocks, controls and moves, the bytes of constants and of the arena,
 * the number of externals - followed by these arrays; then for each external its bytes, an i64,
 * whether it is an input, an i64, and its content if so.
 * OUTPUT: the bytes of all externals that are no inputs, in order.
 */
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hybrid.h"

typedef struct {
    char name[56];
    int64_t dtype;
} kernel_name;

static FILE *from, *to;

static void *stop(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, hyb_last_error());
    exit(1);
}

static void *read_bytes(int64_t nbytes)
{
    void *data = hyb_alloc((size_t)(nbytes > 0 ? nbytes : 1));
    if (!data || (nbytes > 0 && fread(data, (size_t)nbytes, 1, from) != 1))
        return stop("the file is short");
    return data;
}

static void number_kernels(hyb_step *steps, int64_t n_steps, hyb_map_op *ops, int64_t n_ops,
                           const int32_t *numbers)
{
    for (int64_t i = 0; i < n_steps; i++)
        if (steps[i].kind == HYB_STEP_KERNEL)
            steps[i].kernel = numbers[steps[i].kernel];
    for (int64_t i = 0; i < n_ops; i++)
        ops[i].kernel = numbers[ops[i].kernel];
}

static bool run_plan(const int32_t *numbers)
{
    int64_t n[11];
    if (fread(n, sizeof n, 1, from) != 1)
        return false;
    hyb_plan_spec spec = {.n_steps = (int32_t)n[0], .n_operands = (int32_t)n[1],
                          .n_slots = (int32_t)n[2], .n_ops = (int32_t)n[3],
                          .n_attrs = (int32_t)n[4], .n_blocks = (int32_t)n[5],
                          .n_controls = (int32_t)n[6], .n_moves = (int32_t)n[7],
                          .constants_nbytes = n[8], .arena_nbytes = n[9],
                          .n_externals = (int32_t)n[10]};
    hyb_step *steps = read_bytes(n[0] * (int64_t)sizeof *steps);
    spec.operands = read_bytes(n[1] * (int64_t)sizeof *spec.operands);
    spec.slots = read_bytes(n[2] * (int64_t)sizeof *spec.slots);
    hyb_map_op *ops = read_bytes(n[3] * (int64_t)sizeof *ops);
    spec.attrs = read_bytes(n[4] * (int64_t)sizeof *spec.attrs);
    spec.blocks = read_bytes(n[5] * (int64_t)sizeof *spec.blocks);
    spec.controls = read_bytes(n[6] * (int64_t)sizeof *spec.controls);
    spec.moves = read_bytes(n[7] * (int64_t)sizeof *spec.moves);
    spec.constants = read_bytes(n[8]);
    number_kernels(steps, n[0], ops, n[3], numbers);
    spec.steps = steps;
    spec.ops = ops;
    hyb_plan *plan = hyb_plan_create(&spec);
    if (!plan)
        stop("no plan");

    void **externals = calloc((size_t)n[10] + 1, sizeof *externals);
    int64_t(*about)[2] = calloc((size_t)n[10] + 1, sizeof *about);
    if (!externals || !about)
        stop("no memory");
    for (int64_t i = 0; i < n[10]; i++) {
        if (fread(about[i], sizeof about[i], 1, from) != 1)
            stop("the file is short");
        externals[i] = about[i][1] ? read_bytes(about[i][0]) : hyb_alloc((size_t)about[i][0] + 1);
    }
    if (hyb_plan_run(plan, externals) != HYB_OK)
        stop("a run failed");
    for (int64_t i = 0; i < n[10]; i++) {
        if (!about[i][1] && about[i][0] > 0
            && fwrite(externals[i], (size_t)about[i][0], 1, to) != 1)
            stop("cannot write");
        hyb_free(externals[i]);
    }
    hyb_plan_free(plan);
    void *const arrays[] = {steps, (void *)spec.operands, (void *)spec.slots, ops,
                            (void *)spec.attrs, (void *)spec.blocks, (void *)spec.controls,
                            (void *)spec.moves, (void *)spec.constants};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        hyb_free(arrays[i]);
    free(externals);
    free(about);
    return true;
}

int main(int argc, char **argv)
{
    int64_t count;
    if (argc != 3 || !(from = fopen(argv[1], "rb")) || !(to = fopen(argv[2], "wb"))
        || hyb_init() != HYB_OK || fread(&count, sizeof count, 1, from) != 1)
        stop("foreign INPUT OUTPUT");
    int32_t *numbers = calloc((size_t)count + 1, sizeof *numbers);
    for (int64_t i = 0; i < count; i++) {
        kernel_name kernel;
        if (!numbers || fread(&kernel, sizeof kernel, 1, from) != 1)
            stop("the file is short");
        numbers[i] = hyb_find_kernel(kernel.name, (int32_t)kernel.dtype);
    }
    while (run_plan(numbers))
        ;
    free(numbers);
    if (fclose(to) != 0 || fclose(from) != 0)
        stop("cannot write");
    puts(hyb_isa_name());
    return 0;
}
