/* hybrid_run.c - hybrid-run: runs a function of a program on arrays in files, without Python.
 *
 * Compiled with HYB_EMBEDDED it is a program of its own: the file is in it, and is not named. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/npy.h"

#if defined(HYB_EMBEDDED)
extern const unsigned char hyb_embedded[], hyb_embedded_end[];
#define FILE_WORD ""
#else
#define FILE_WORD "FILE "
#endif

static const char *own_name = "hybrid-run";

enum { MOST_TIMES = 1 << 20, SHOWN = 8 };

typedef struct {
    const char *file, *function, *save;
    const char **inputs, **outputs;
    int32_t n_inputs, n_outputs;
    int64_t repeat, iterations;
    double seconds;
    bool list;
} request;

/* One line, and the end: 2 for what is wrong with the command, 1 for the rest. */
__attribute__((format(printf, 2, 3))) static _Noreturn void give_up(int code, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", own_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(code);
}

static void *checked(void *found)
{
    if (!found)
        give_up(1, "no memory");
    return found;
}

/* Time -------------------------------------------------------------------------------------------- */

static double deadline = INFINITY;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int32_t poll_deadline(void) { return now() > deadline ? HYB_INTERRUPTED : HYB_OK; }

/* What failed, or that it took too long. */
static _Noreturn void give_up_on(const request *asked)
{
    if (now() > deadline)
        give_up(1, "it took longer than the %g seconds of --seconds", asked->seconds);
    give_up(1, "%s", hyb_last_error());
}

static int compare_times(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static const char *time_text(double seconds, char *text)
{
    if (seconds < 1e-3)
        snprintf(text, 32, "%.3g us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(text, 32, "%.3g ms", 1e3 * seconds);
    else
        snprintf(text, 32, "%.3g s", seconds);
    return text;
}

static void print_times(double *times, int64_t n)
{
    char first[32], median[32], least[32];
    time_text(times[0], first);
    qsort(times, (size_t)n, sizeof *times, compare_times);
    printf("%" PRId64 " runs: the first %s, median %s, the fastest %s\n", n, first,
           time_text(times[n / 2], median), time_text(times[0], least));
}

/* Types and values -------------------------------------------------------------------------------- */

/* `names` has those of open axes, "?" for what is computed of their sizes. */
static void print_open_type(const hyb_layout *layout, const char *const *names)
{
    printf("%s[", npy_dtype_name(layout->dtype));
    for (int32_t d = 0; d < layout->rank; d++) {
        printf(d ? "," : "");
        if (layout->shape[d] < 0)
            printf("%s", names[d]);
        else
            printf("%" PRId64, layout->shape[d]);
    }
    printf("]");
}

static void print_type(const hyb_layout *layout) { print_open_type(layout, NULL); }

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31 ? (fraction ? NAN : INFINITY)
        : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static void print_item(int32_t dtype, const char *data)
{
    union { int8_t i8; int16_t i16; int32_t i32; int64_t i64; uint8_t u8; uint16_t u16; uint32_t u32;
            uint64_t u64; float f32; double f64; } item = {0};
    memcpy(&item, data, (size_t)npy_itemsize(dtype));
    switch (dtype) {
    case HYB_BOOL: printf("%s", item.u8 ? "True" : "False"); break;
    case HYB_I8: printf("%d", item.i8); break;
    case HYB_I16: printf("%d", item.i16); break;
    case HYB_I32: printf("%" PRId32, item.i32); break;
    case HYB_I64: printf("%" PRId64, item.i64); break;
    case HYB_U8: printf("%u", item.u8); break;
    case HYB_U16: printf("%u", item.u16); break;
    case HYB_U32: printf("%" PRIu32, item.u32); break;
    case HYB_U64: printf("%" PRIu64, item.u64); break;
    case HYB_F16: printf("%.5g", half_value(item.u16)); break;
    case HYB_BF16: item.u32 = (uint32_t)item.u16 << 16; printf("%.4g", (double)item.f32); break;
    case HYB_F32: printf("%.9g", (double)item.f32); break;
    default: printf("%.17g", item.f64);
    }
}

static void print_value(const char *name, const hyb_layout *layout, const char *data)
{
    const int64_t n = npy_elements(layout);
    printf("%s: ", name);
    print_type(layout);
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        putchar(' ');
        print_item(layout->dtype, data + i * npy_itemsize(layout->dtype));
    }
    printf(n > SHOWN ? " ...\n" : "\n");
}

/* Commands ---------------------------------------------------------------------------------------- */

static void print_values(hyb_program *program, int32_t f, bool output)
{
    const int32_t n = output ? hyb_program_outputs(program, f) : hyb_program_inputs(program, f);
    for (int32_t i = 0; i < n; i++) {
        const char *name;
        hyb_layout layout;
        if (output)
            hyb_program_output(program, f, i, &name, &layout);
        else
            hyb_program_input(program, f, i, &name, &layout);
        const char *names[HYB_MAX_RANK];
        for (int32_t d = 0; d < layout.rank; d++) {
            const int32_t size = output ? hyb_program_output_size(program, f, i, d)
                                        : hyb_program_input_size(program, f, i, d);
            names[d] = "?";
            if (size >= 0)
                hyb_program_size(program, f, size, &names[d], NULL, NULL);
        }
        printf(i ? ", %s: " : "%s: ", name);
        print_open_type(&layout, names);
    }
}

static void list_functions(hyb_program *program)
{
    for (int32_t f = 0; f < hyb_program_functions(program); f++) {
        printf("%s(", hyb_program_function_name(program, f));
        print_values(program, f, false);
        printf(") -> (");
        print_values(program, f, true);
        printf(")");
        for (int32_t i = 0; i < hyb_program_sizes(program, f); i++) {
            const char *name;
            int64_t low, high;
            hyb_program_size(program, f, i, &name, &low, &high);
            printf(", %s from %" PRId64 " to %" PRId64, name, low, high);
        }
        printf("\n");
    }
    int64_t nbytes = 0;
    const int32_t n = hyb_program_states(program);
    for (int32_t i = 0; i < n; i++) {
        hyb_layout layout;
        hyb_program_state(program, i, NULL, &layout, NULL);
        nbytes += npy_nbytes(&layout);
    }
    printf("%d cells, %" PRId64 " bytes\n", n, nbytes);
}

/* The function that is asked for, or the only one. */
static int32_t find_function(const request *asked, hyb_program *program)
{
    const int32_t n = hyb_program_functions(program);
    if (!asked->function && n == 1)
        return 0;
    const int32_t found = asked->function ? hyb_program_find(program, asked->function) : -1;
    if (found >= 0)
        return found;
    fprintf(stderr, "%s: ", own_name);
    if (asked->function)
        fprintf(stderr, "there is no function %s", asked->function);
    else
        fprintf(stderr, "there are several functions");
    for (int32_t f = 0; f < n; f++)
        fprintf(stderr, "%s%s", f ? ", " : ": there are ", hyb_program_function_name(program, f));
    fprintf(stderr, "\n");
    exit(2);
}

static void run_times(const request *asked, hyb_program *program, int32_t f, void *const *inputs,
                      const hyb_layout *layouts, void *const *outputs)
{
    const int64_t kept = asked->repeat < MOST_TIMES ? asked->repeat : MOST_TIMES;
    double *times = checked(malloc((size_t)kept * sizeof *times));
    for (int64_t i = 0; i < asked->repeat; i++) {
        const double begin = now();
        if (hyb_program_run(program, f, inputs, layouts, outputs) != HYB_OK)
            give_up_on(asked);
        const double end = now();
        if (i < kept)
            times[i] = end - begin;
        if (end > deadline && i + 1 < asked->repeat)
            give_up_on(asked);
    }
    if (asked->repeat > 1)
        print_times(times, kept);
    free(times);
}

static const char *plural(int32_t count)
{
    return count == 1 ? "" : "s";
}

static void run_function(const request *asked, hyb_program *program)
{
    const int32_t f = find_function(asked, program);
    const char *function = hyb_program_function_name(program, f);
    const int32_t n_in = hyb_program_inputs(program, f), n_out = hyb_program_outputs(program, f);
    if (asked->n_inputs != n_in)
        give_up(2, "%s takes %d input%s, and --input names %d", function, n_in, plural(n_in),
                asked->n_inputs);
    if (asked->n_outputs > n_out)
        give_up(2, "%s has %d output%s, and --output names %d", function, n_out, plural(n_out),
                asked->n_outputs);
    char text[NPY_TEXT];
    hyb_layout *layouts = checked(calloc((size_t)(n_in + n_out + 1), sizeof *layouts));
    void **data = checked(calloc((size_t)(n_in + n_out + 1), sizeof *data));
    for (int32_t i = 0; i < n_in; i++)
        if (!(data[i] = npy_read(asked->inputs[i], &layouts[i], text)))
            give_up(1, "--input %s: %s", asked->inputs[i], text);
    for (int32_t i = 0; i < n_out; i++) {
        if (hyb_program_output_layout(program, f, i, layouts, &layouts[n_in + i]) != HYB_OK)
            give_up_on(asked);
        const size_t nbytes = (size_t)npy_nbytes(&layouts[n_in + i]);
        if (!(data[n_in + i] = hyb_alloc(nbytes > 0 ? nbytes : 1)))
            give_up(1, "no memory for the %zu bytes of output %d", nbytes, i);
    }
    run_times(asked, program, f, data, layouts, data + n_in);
    for (int32_t i = 0; i < n_out; i++) {
        const hyb_layout *layout = &layouts[n_in + i];
        const char *name;
        hyb_program_output(program, f, i, &name, NULL);
        if (i >= asked->n_outputs)
            print_value(name, layout, data[n_in + i]);
        else if (!npy_write(asked->outputs[i], layout, data[n_in + i], text))
            give_up(1, "--output %s: %s", asked->outputs[i], text);
    }
    if (asked->save && hyb_program_save(program, asked->save) != HYB_OK)
        give_up(1, "--save: %s", hyb_last_error());
    for (int32_t i = 0; i < n_in + n_out; i++)
        hyb_free(data[i]);
    free(data);
    free(layouts);
}

/* Arguments --------------------------------------------------------------------------------------- */

static const char usage[] =
    " " FILE_WORD "[FUNCTION] [options]\n"
    "Run FUNCTION of a program that hybrid.export has written; print what it gives.\n\n"
    "  -i, --input A.npy    an input, in order\n"
    "  -o, --output A.npy   write an output, in order, and do not print it\n"
    "      --save FILE      write the program with its new state\n"
    "      --repeat N       run so often, and print how long it takes\n"
    "      --list           print the functions, and run none\n"
    "      --seconds S      end loops after so long\n"
    "      --iterations N   end a run whose loops go round more often\n"
    "      --max-bytes N    refuse a program that takes more memory beside its file\n"
    "      --threads N      use so many\n";

static int64_t count_of(const char *option, const char *text)
{
    char *end;
    errno = 0;
    const long long n = strtoll(text, &end, 10);
    if (errno || *end || end == text || n < 1)
        give_up(2, "%s %s: not a whole number from 1 on", option, text);
    return n;
}

/* As 1.5: strtod would be a twentieth of a program that stands alone. */
static double seconds_of(const char *text)
{
    double seconds = 0, unit = 0;
    const char *at = text;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && unit == 0); at++) {
        seconds = *at == '.' ? seconds : 10 * seconds + (*at - '0');
        unit = *at == '.' ? 1 : 10 * unit;
    }
    if (unit > 0)
        seconds /= unit;
    if (*at || !(seconds > 0) || isinf(seconds))
        give_up(2, "--seconds %s: not a number of seconds", text);
    return seconds;
}

static request read_arguments(int argc, char **argv)
{
    enum { SAVE = 256, REPEAT, LIST, SECONDS, ITERATIONS, BYTES, THREADS };
    static const struct option options[] = {
        {"input", required_argument, NULL, 'i'}, {"output", required_argument, NULL, 'o'},
        {"save", required_argument, NULL, SAVE}, {"repeat", required_argument, NULL, REPEAT},
        {"list", no_argument, NULL, LIST}, {"seconds", required_argument, NULL, SECONDS},
        {"iterations", required_argument, NULL, ITERATIONS}, {"max-bytes", required_argument, NULL, BYTES},
        {"threads", required_argument, NULL, THREADS}, {"help", no_argument, NULL, 'h'}, {0},
    };
    request asked = {.repeat = 1};
    asked.inputs = checked(calloc(2 * (size_t)argc, sizeof *asked.inputs));
    asked.outputs = asked.inputs + argc;
    int option;
    while ((option = getopt_long(argc, argv, "i:o:h", options, NULL)) != -1)
        switch (option) {
        case 'i': asked.inputs[asked.n_inputs++] = optarg; break;
        case 'o': asked.outputs[asked.n_outputs++] = optarg; break;
        case SAVE: asked.save = optarg; break;
        case REPEAT: asked.repeat = count_of("--repeat", optarg); break;
        case LIST: asked.list = true; break;
        case SECONDS:
            asked.seconds = seconds_of(optarg);
            break;
        case ITERATIONS: asked.iterations = count_of("--iterations", optarg); break;
        case BYTES:
            count_of("--max-bytes", optarg);
            setenv("HYBRID_PROGRAM_MAX_BYTES", optarg, 1);
            break;
        case THREADS:
            if (hyb_set_num_threads((int32_t)fmin((double)count_of("--threads", optarg), INT32_MAX)) != HYB_OK)
                give_up(2, "--threads %s: %s", optarg, hyb_last_error());
            break;
        case 'h':
            printf("usage: %s%s", own_name, usage);
            exit(0);
        default: /* getopt has said what is wrong */
            fprintf(stderr, "usage: %s%s", own_name, usage);
            exit(2);
        }
    char **words = argv + optind;
    int n = argc - optind;
#if !defined(HYB_EMBEDDED)
    if (n > 0) {
        asked.file = *words++;
        n--;
    }
#endif
    if (n > 0) {
        asked.function = *words++;
        n--;
    }
    if (n > 0 || (FILE_WORD[0] && !asked.file)) {
        fprintf(stderr, "usage: %s%s", own_name, usage);
        exit(2);
    }
    return asked;
}

int main(int argc, char **argv)
{
#if defined(HYB_EMBEDDED)
    own_name = argc > 0 && strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : "program";
#endif
    const request asked = read_arguments(argc, argv);
    if (asked.seconds > 0) {
        deadline = now() + asked.seconds;
        hyb_set_poll(poll_deadline);
    }
#if defined(HYB_EMBEDDED)
    hyb_program *program = hyb_program_load_memory(hyb_embedded, (size_t)(hyb_embedded_end - hyb_embedded), 0);
#else
    hyb_program *program = hyb_program_load(asked.file, 0);
#endif
    if (!program)
        give_up_on(&asked);
    hyb_program_set_budget(program, asked.iterations);
    if (asked.list)
        list_functions(program);
    else
        run_function(&asked, program);
    hyb_program_free(program);
    free(asked.inputs);
    if (fflush(stdout) != 0)
        give_up(1, "standard output: %s", strerror(errno));
    return 0;
}
