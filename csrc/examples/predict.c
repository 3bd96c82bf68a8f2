/* predict.c - asks a model that Python has exported, without Python.
 *
 *     predict digits.hyb < rows
 *
 * digits.hyb has a function "predict" of a batch x: f32[n,64] that gives a number for each class; rows are
 * float32 numbers one after the other, as x.tofile writes them.  README.md says how to build it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hybrid.h"

int main(int argc, char **argv)
{
    /* One call opens the file.  It is mapped, not read: processes that only predict share its pages. */
    hyb_program *program = argc == 2 ? hyb_program_load(argv[1], 0) : NULL;

    /* Functions are known by number.  Whatever fails leaves a text, which names the file or the function. */
    const int32_t predict = program ? hyb_program_find(program, "predict") : -1;
    if (predict < 0) {
        fprintf(stderr, "%s\n", argc == 2 ? hyb_last_error() : "usage: predict FILE < rows");
        return EXIT_FAILURE;
    }

    /* The file says what goes in and comes out: dtypes, sizes and names.  Both calls fail
     * only for a number of which there is none. */
    const char *name;
    hyb_layout x, y;
    if (hyb_program_input(program, predict, 0, &name, &x) || hyb_program_output(program, predict, 0, NULL, &y)
        || x.dtype != HYB_F32 || y.dtype != HYB_F32 || x.rank != 2 || y.rank != 2) {
        fprintf(stderr, "predict takes and gives something else than rows of float32\n");
        return EXIT_FAILURE;
    }
    const int64_t batch = x.shape[0], width = x.shape[1], classes = y.shape[1];
    fprintf(stderr, "%s has %" PRId64 " rows of %" PRId64 "\n", name, batch, width);

    /* The bytes are the caller's: dense, row by row, unless a layout says otherwise. */
    float *rows = malloc((size_t)(batch * width) * sizeof *rows);
    float *scores = malloc((size_t)(batch * classes) * sizeof *scores);
    if (!rows || !scores)
        return EXIT_FAILURE;

    /* A run takes addresses, inputs in order and outputs in order; it makes no plan and allocates nothing.
     * predict writes no cell, so any number of threads may run it at once. */
    while (fread(rows, sizeof *rows, (size_t)(batch * width), stdin) == (size_t)(batch * width)) {
        if (hyb_program_run(program, predict, (void *const[]){rows}, NULL, (void *const[]){scores}) != HYB_OK) {
            fprintf(stderr, "%s\n", hyb_last_error());
            return EXIT_FAILURE;
        }
        for (int64_t row = 0; row < batch; row++) {
            int64_t best = 0;
            for (int64_t k = 1; k < classes; k++)
                if (scores[row * classes + k] > scores[row * classes + best])
                    best = k;
            printf("%" PRId64 "\n", best);
        }
    }

    hyb_program_free(program);
    free(rows);
    free(scores);
    return EXIT_SUCCESS;
}
