/* convolution/prepared.inc.c - weights in the order in which the tiles read them, and convolutions from
 * there on.
 *
 * Included once per dtype by convolution/typed.inc.c.
 */

HYB_KERNEL(N(conv_prepared))
{
    (void)begin;
    (void)end;
    return N(conv_results)(call, 3, call->data[2], CONV_PREPARED);
}

HYB_KERNEL(N(conv_prepare))
{
    (void)begin;
    (void)end;
    int64_t of_x[5], of_y[5];
    conv_described(call, of_x, of_y);
    N(conv_job) job = {.shape = conv_forward(call, of_x, call->layout[0].shape, of_y),
                       .weight = call->data[0], .room = call->data[1], .part = CONV_PREPARES};
    memset(job.room, 0, (size_t)hyb_elements(&call->layout[1]) * sizeof(T)); /* not all is used */
    return N(conv_run_phase)(&job);
}

HYB_PREPARE(N(prepare_conv_prepared))
{
    *range = (hyb_range){1, 1};
    const hyb_layout *layout = call->layout;
    hyb_status status = conv_require(call, DTYPE, 0, 1, 3);
    if (status == HYB_OK)
        status = conv_require_many(layout[1].shape, call->attrs[9].i);
    return status == HYB_OK ? conv_require_room(call, DTYPE, 2, &layout[1], layout[3].shape)
                            : status;
}

HYB_PREPARE(N(prepare_conv_prepare))
{
    *range = (hyb_range){1, 1};
    const hyb_layout *w = &call->layout[0];
    hyb_status status = require_dense(call, 0, DTYPE, 5);
    if (status != HYB_OK || (status = conv_require_attrs(call)) != HYB_OK)
        return status;
    if (w->shape[0] % call->attrs[9].i != 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: %lld groups do not divide the channels",
                        (long long)call->attrs[9].i);
    int64_t of_x[5], of_y[5];
    if (w->shape[1] > CONV_LIMIT || call->attrs[9].i > CONV_LIMIT)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: too many channels");
    conv_described(call, of_x, of_y);
    if ((status = conv_require_described(call, of_x, of_y)) != HYB_OK ||
        (status = conv_require_many(w->shape, call->attrs[9].i)) != HYB_OK)
        return status;
    return conv_require_room(call, DTYPE, 1, w, of_y);
}
