/* convolution/checks.inc.c - what makes the operands and attributes of convolutions safe; no table. */

/* Attributes and operands fit together.  `x`, `w` and `y` say where the operands are. */
static hyb_status conv_require(const hyb_call *call, int32_t dtype, int x, int w, int y)
{
    const int operands[3] = {x, w, y};
    hyb_status status;
    for (int i = 0; i < 3; i++)
        if ((status = require_dense(call, operands[i], dtype, 5)) != HYB_OK)
            return status;
    return conv_require_sizes(call, x, w, y);
}

/* As many items as w; of 3x3 kernels in float32 at stride and dilation 1, unless groups have few
 * channels or a channel few results, for each place of the transform as many as there are kernels,
 * and some for each group. */
static hyb_status conv_require_room(const hyb_call *call, int32_t dtype, int index,
                                    const hyb_layout *w, const int64_t *of_results)
{
    const hyb_status status = require_dense(call, index, dtype, 1);
    if (status != HYB_OK)
        return status;
    const int64_t *kernel = w->shape + 2, items = hyb_elements(w);
    const int64_t columns = of_results[0] * of_results[2] * of_results[3] * of_results[4];
    bool transforms = dtype == HYB_F32 && kernel[0] == 1 && w->shape[1] >= WINOGRAD_CHANNELS &&
                      columns >= WINOGRAD_LEAST;
    for (int axis = 1; axis < 3; axis++)
        transforms &= kernel[axis] == 3 && conv_attr(call, 0, axis) == 1 &&
                      conv_attr(call, 2, axis) == 1;
    const int64_t apart = items / 9 + WINOGRAD_APART * call->attrs[9].i;
    return require_size(call, index, 0, transforms ? WINOGRAD_PLACES * apart : items);
}

/* There is something to prepare: groups of few channels read their weights as they are. */
static hyb_status conv_require_many(const int64_t *of_w, int64_t groups)
{
    if (of_w[1] * (of_w[0] / groups) <= CONV_FEW)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: weights of %lld channels are not prepared",
                        (long long)of_w[1]);
    return HYB_OK;
}

/* The shapes of x and y that the attributes of conv_prepare describe. */
static void conv_described(const hyb_call *call, int64_t of_x[5], int64_t of_y[5])
{
    const int64_t *of_w = call->layout[0].shape;
    of_x[0] = of_y[0] = call->attrs[10].i;
    of_x[1] = call->attrs[9].i * of_w[1];
    of_y[1] = of_w[0];
    for (int a = 0; a < 3; a++) {
        of_x[2 + a] = call->attrs[11 + a].i;
        of_y[2 + a] = call->attrs[14 + a].i;
    }
}

/* They are shapes that operands could have. */
static hyb_status conv_require_described(const hyb_call *call, const int64_t *of_x,
                                         const int64_t *of_y)
{
    hyb_layout layouts[2] = {{.rank = 5, .dtype = HYB_F64}, {.rank = 5, .dtype = HYB_F64}};
    if (call->attrs[9].i > CONV_LIMIT || call->layout[0].shape[1] > CONV_LIMIT)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: too many channels");
    memcpy(layouts[0].shape, of_x, 5 * sizeof(int64_t));
    memcpy(layouts[1].shape, of_y, 5 * sizeof(int64_t));
    for (int i = 0; i < 2; i++) {
        if (!sizes_are_sane(&layouts[i]))
            return hyb_fail(HYB_BAD_ARGUMENT, "conv: negative or overflowing sizes are described");
        for (int axis = 2; axis < 5; axis++)
            if (layouts[i].shape[axis] > CONV_LIMIT || call->layout[0].shape[axis] > CONV_LIMIT)
                return hyb_fail(HYB_BAD_ARGUMENT, "conv: axis %d is too long", axis);
    }
    return HYB_OK;
}
