/* byte_convolutions.c - the convolutions of csrc/kernels/convolution/integer.inc.c, emulated.
 *
 * Random shapes are compared with plain loops, whole and from prepared weights; the program prints how
 * many convolutions it made, and ends with 1 where one is wrong.
 */
#include "emulated.h"
#include "kernels/dot_convolutions.inc.c"

hyb_status hyb_parallel_for(int64_t n, int64_t grain, hyb_work_fn fn, void *context)
{
    hyb_status status = HYB_OK;
    for (int64_t begin = 0; begin < n && status == HYB_OK; begin += grain)
        status = fn(context, begin, begin + grain < n ? begin + grain : n);
    return status;
}

int64_t hyb_elements(const hyb_layout *layout)
{
    int64_t count = 1;
    for (int32_t axis = 0; axis < layout->rank; axis++)
        count *= layout->shape[axis];
    return count;
}

static int64_t drawn(int64_t low, int64_t high)
{
    return low + (int64_t)random_bits() % (high - low + 1);
}

static hyb_layout layout_of(int32_t dtype, int32_t rank, const int64_t *shape)
{
    hyb_layout layout = {.rank = rank, .dtype = dtype};
    int64_t step = hyb_itemsize(dtype);
    for (int32_t axis = rank - 1; axis >= 0; axis--) {
        layout.shape[axis] = shape[axis];
        layout.strides[axis] = step;
        step *= shape[axis];
    }
    return layout;
}

/* One item of the result, by plain loops. */
static int32_t expected(const hyb_call *call, const int64_t *at)
{
    const hyb_layout *x = &call->layout[0], *w = &call->layout[1];
    const int64_t rows = w->shape[0] / call->attrs[9].i, *n = x->shape, *k = w->shape;
    const bool is_signed = x->dtype == HYB_I8;
    const char zero = *(const char *)call->data[2];
    int32_t sum = 0;
    for (int64_t t = 0; t < k[1] * k[2] * k[3] * k[4]; t++) {
        const int64_t tap[3] = {t / k[4] / k[3] % k[2], t / k[4] % k[3], t % k[4]};
        int64_t place = at[0] * n[1] + at[1] / rows * k[1] + t / k[4] / k[3] / k[2];
        bool inside = true;
        for (int a = 0; a < 3; a++) {
            const int64_t i = at[2 + a] * call->attrs[a].i - call->attrs[3 + a].i +
                              tap[a] * call->attrs[6 + a].i;
            inside &= i >= 0 && i < n[2 + a];
            place = place * n[2 + a] + i;
        }
        const char item = inside ? ((const char *)call->data[0])[place] : zero;
        const int32_t step = is_signed ? (signed char)item - (signed char)zero
                                       : (unsigned char)item - (unsigned char)zero;
        sum += step * ((const signed char *)call->data[1])[at[1] * k[1] * k[2] * k[3] * k[4] + t];
    }
    return sum;
}

static bool is_right(const hyb_call *call, const hyb_layout *y, const int32_t *found)
{
    int64_t at[5];
    for (at[0] = 0; at[0] < y->shape[0]; at[0]++)
        for (at[1] = 0; at[1] < y->shape[1]; at[1]++)
            for (at[2] = 0; at[2] < y->shape[2]; at[2]++)
                for (at[3] = 0; at[3] < y->shape[3]; at[3]++)
                    for (at[4] = 0; at[4] < y->shape[4]; at[4]++)
                        if (*found++ != expected(call, at))
                            return false;
    return true;
}

/* Both ways to convolve; how many of them are wrong. */
static int convolve(int32_t dtype, bool transforms)
{
    hyb_attr attrs[10];
    int64_t of_x[5], of_w[5], of_y[5];
    const int64_t groups = drawn(0, 2) ? 1 : drawn(1, 4), kind = drawn(0, 3);
    const int64_t channels = kind == 0 ? 1 : kind == 1 ? drawn(2, 4) : drawn(1, 70);
    attrs[9].i = groups;
    of_x[0] = of_y[0] = drawn(1, 2);
    of_x[1] = groups * channels;
    of_w[0] = of_y[1] = groups * drawn(1, 15);
    of_w[1] = channels;
    for (int a = 0; a < 3; a++) {
        const bool flat = a == 0 && drawn(0, 2);
        const bool plain = transforms || flat;
        of_w[2 + a] = flat || (transforms && a == 0) ? 1 : transforms ? 3 : drawn(1, 4);
        attrs[a].i = plain ? 1 : drawn(1, 3);
        attrs[3 + a].i = flat || (transforms && a == 0) ? 0 : drawn(0, 2);
        attrs[6 + a].i = plain ? 1 : drawn(1, 2);
        const int64_t reach = (of_w[2 + a] - 1) * attrs[6 + a].i + 1;
        of_x[2 + a] = flat || (transforms && a == 0) ? 1 : reach + drawn(0, a == 2 ? 25 : 7);
        of_y[2 + a] = (of_x[2 + a] + 2 * attrs[3 + a].i - reach) / attrs[a].i + 1;
    }
    const int64_t one = 1;
    const int64_t words =
        transforms && channels > 1 ? integer_tiled_words(of_w, groups) : integer_words(of_w);
    const hyb_layout x = layout_of(dtype, 5, of_x), w = layout_of(HYB_I8, 5, of_w);
    const hyb_layout zero = layout_of(dtype, 1, &one), y = layout_of(HYB_I32, 5, of_y);
    const hyb_layout room = layout_of(HYB_I32, 1, &words);
    char *bytes = malloc((size_t)(hyb_elements(&x) + hyb_elements(&w)) + 1), *of_zero = bytes;
    for (int64_t i = 0; i < hyb_elements(&x) + hyb_elements(&w) + 1; i++)
        bytes[i] = (char)(drawn(0, 3) ? drawn(0, 255) : drawn(0, 1) ? 0x80 : 0x7f);
    char *source = bytes + 1, *weights = source + hyb_elements(&x);
    int32_t *found = malloc((size_t)(2 * hyb_elements(&y) + words) * 4);
    int32_t *again = found + hyb_elements(&y), *p = again + hyb_elements(&y);
    hyb_range range;
    int wrong = 0;

    const hyb_layout layouts[] = {x, w, zero, y, room};
    void *const whole[] = {source, weights, of_zero, found, p};
    const hyb_call call = {.layout = layouts, .data = whole, .attrs = attrs};
    const hyb_kernel *kernel = kernel_of(HYB_SYM(hyb_dot_convolutions_kernels), "conv_integer", dtype);
    wrong += kernel->prepare(&call, &range) != HYB_OK || kernel->run(&call, 0, 1) != HYB_OK ||
             !is_right(&call, &y, found);

    const hyb_layout given[] = {w, room}, parts[] = {x, w, zero, room, y};
    void *const prepares[] = {weights, p}, *const prepared[] = {source, weights, of_zero, p, again};
    const hyb_call first = {.layout = given, .data = prepares, .attrs = attrs};
    const hyb_call rest = {.layout = parts, .data = prepared, .attrs = attrs};
    memset(p, 0xa5, (size_t)words * 4);
    kernel = kernel_of(HYB_SYM(hyb_dot_convolutions_kernels), "conv_integer_prepare", HYB_I8);
    wrong += kernel->prepare(&first, &range) != HYB_OK || kernel->run(&first, 0, 1) != HYB_OK;
    kernel = kernel_of(HYB_SYM(hyb_dot_convolutions_kernels), "conv_integer_prepared", dtype);
    wrong += kernel->prepare(&rest, &range) != HYB_OK || kernel->run(&rest, 0, 1) != HYB_OK ||
             memcmp(found, again, (size_t)hyb_elements(&y) * 4) != 0;
    free(found);
    free(bytes);
    return wrong;
}

int main(void)
{
    int wrong = 0, count = 0;
    for (; count < 40; count++)
        wrong += convolve(count % 2 ? HYB_I8 : HYB_U8, count % 4 < 2);
    printf("%d convolutions, %d wrong\n", count, wrong);
    return wrong != 0;
}
