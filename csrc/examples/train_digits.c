/* train_digits.c - trains a model that Python has exported, without Python.
 *
 *     train_digits digits.hyb x.npy y.npy 200 trained.hyb
 *
 * digits.hyb has a function "train_step" of a batch x: f32[n,64] and its classes y: i64[n], which gives
 * the loss, and "predict" of x.  x.npy and y.npy are what numpy.save wrote: all rows, a multiple of n.
 * README.md beside this file says how to build it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hybrid.h"

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, hyb_last_error());
    exit(EXIT_FAILURE);
}

static void check(hyb_status status, const char *what)
{
    if (status != HYB_OK)
        give_up(what);
}

/* The data of a .npy file of format 1, and how many bytes there are: a header whose length stands in
 * bytes 8 and 9, then the rows. */
static char *load_rows(const char *path, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    unsigned char head[10];
    if (!file || fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY\x01", 7) != 0) {
        fprintf(stderr, "%s is no .npy file of format 1\n", path);
        exit(EXIT_FAILURE);
    }
    const long begin = 10 + head[8] + 256L * head[9];
    fseek(file, 0, SEEK_END);
    *nbytes = (size_t)(ftell(file) - begin);
    fseek(file, begin, SEEK_SET);
    char *rows = malloc(*nbytes);
    if (!rows || fread(rows, 1, *nbytes, file) != *nbytes) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(EXIT_FAILURE);
    }
    fclose(file);
    return rows;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: train_digits digits.hyb x.npy y.npy steps trained.hyb\n");
        return EXIT_FAILURE;
    }

    /* The file is mapped: nothing is read but what runs need, and what runs write stays in this process. */
    hyb_program *program = hyb_program_load(argv[1], 0);
    if (!program)
        give_up("load");
    const int32_t train_step = hyb_program_find(program, "train_step");
    const int32_t predict = hyb_program_find(program, "predict");
    if (train_step < 0 || predict < 0)
        give_up("find");

    /* The file says what a function takes: rows of a batch, and numbers of a row. */
    hyb_layout x_layout, logits_layout;
    check(hyb_program_input(program, train_step, 0, NULL, &x_layout), "input");
    check(hyb_program_output(program, predict, 0, NULL, &logits_layout), "output");
    const int64_t batch = x_layout.shape[0], width = x_layout.shape[1], classes = logits_layout.shape[1];

    size_t x_nbytes, y_nbytes;
    char *x = load_rows(argv[2], &x_nbytes), *y = load_rows(argv[3], &y_nbytes);
    const int64_t batches = (int64_t)(y_nbytes / sizeof(int64_t)) / batch;
    const size_t x_step = (size_t)(batch * width) * sizeof(float), y_step = (size_t)batch * sizeof(int64_t);

    /* A step reads a batch, and writes the loss; parameters and moments are the program's own. */
    const int64_t steps = atoll(argv[4]);
    for (int64_t i = 0; i < steps; i++) {
        const int64_t at = i % batches;
        float loss;
        void *const inputs[] = {x + (size_t)at * x_step, y + (size_t)at * y_step};
        void *const outputs[] = {&loss};
        check(hyb_program_run(program, train_step, inputs, NULL, outputs), "train_step");
        printf("%" PRId64 " %a\n", i, (double)loss); /* %a: every bit of it */
    }

    /* What the model makes of the rows: the class with the greatest of its numbers. */
    float *logits = malloc((size_t)(batch * classes) * sizeof(float));
    int64_t right = 0;
    for (int64_t at = 0; at < batches; at++) {
        void *const inputs[] = {x + (size_t)at * x_step};
        void *const outputs[] = {logits};
        check(hyb_program_run(program, predict, inputs, NULL, outputs), "predict");
        const int64_t *wanted = (const int64_t *)(y + (size_t)at * y_step);
        for (int64_t row = 0; row < batch; row++) {
            int64_t best = 0;
            for (int64_t k = 1; k < classes; k++)
                if (logits[row * classes + k] > logits[row * classes + best])
                    best = k;
            right += best == wanted[row];
        }
    }
    printf("%" PRId64 " of %" PRId64 " are right\n", right, batches * batch);

    /* The same file, with the state as it is now; Python loads it, and so does this program. */
    check(hyb_program_save(program, argv[5]), "save");
    hyb_program_free(program);
    free(logits);
    free(x);
    free(y);
    return EXIT_SUCCESS;
}
