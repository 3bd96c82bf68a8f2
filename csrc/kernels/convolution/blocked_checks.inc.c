/* convolution/blocked_checks.inc.c - what makes the operands of convolutions of blocks safe.
 *
 * Included by convolution/blocked.inc.c.
 */

/* The shapes of x, w and y as conv has them. */
typedef struct {
    int64_t x[5], w[5], y[5];
} N(blocked_sizes);

static N(blocked_sizes) N(blocked_sizes_of)(const hyb_call *call)
{
    const int64_t *x = call->layout[0].shape, *w = call->layout[1].shape, *y = call->layout[3].shape;
    const int64_t channels = call->layout[0].rank == 5 ? x[1] * CONV_BLOCK : x[1];
    return (N(blocked_sizes)){{x[0], channels, 1, x[2], x[3]},
                              {w[0], w[1], 1, w[2], w[3]},
                              {y[0], y[1] * CONV_BLOCK, 1, y[2], y[3]}};
}

/* Those that the attributes of conv_blocked_prepare describe. */
static N(blocked_sizes) N(blocked_described)(const hyb_call *call)
{
    const int64_t *w = call->layout[0].shape;
    const hyb_attr *sizes = call->attrs + 10;
    return (N(blocked_sizes)){{sizes[0].i, call->attrs[9].i * w[1], 1, sizes[1].i, sizes[2].i},
                              {w[0], w[1], 1, w[2], w[3]},
                              {sizes[0].i, w[0], 1, sizes[3].i, sizes[4].i}};
}

/* Groups are whole blocks, or blocks hold 16, 4 or 2 of them, whose sums are single chains. */
static bool N(blocked_has_groups)(const N(blocked_sizes) *of, int64_t groups)
{
    const int64_t rows = of->w[0] / groups, channels = of->w[1];
    if (groups == 1)
        return true;
    if (of->w[0] % groups != 0)
        return false;
    if (rows % CONV_BLOCK == 0 && channels % CONV_BLOCK == 0)
        return true;
    if (rows != channels || (rows != 1 && rows != 4 && rows != 8))
        return false;
    const double terms = (double)rows * (double)of->w[3] * (double)of->w[4];
    return rows == 1 || terms * (double)sizeof(T) <= MATMUL_DEPTH_BYTES;
}

/* Two axes, whole blocks of results, and groups that fit in blocks. */
static hyb_status N(blocked_require)(const hyb_call *call, const N(blocked_sizes) *of)
{
    const int64_t groups = call->attrs[9].i;
    const hyb_status status = conv_require_attrs(call);
    if (status != HYB_OK)
        return status;
    if (call->attrs[0].i != 1 || call->attrs[3].i != 0 || call->attrs[6].i != 1)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv_blocked: there are two axes");
    for (int a = 1; a < 5; a++)
        if (of->x[a] > CONV_LIMIT || of->w[a] > CONV_LIMIT || of->y[a] > CONV_LIMIT ||
            of->x[a] < 0 || of->y[a] < 0 || of->w[a] < 1)
            return hyb_fail(HYB_BAD_ARGUMENT, "conv_blocked: axis %d is too long, or empty", a);
    if (of->w[0] < 1 || of->w[0] > CONV_LIMIT || of->w[0] % CONV_BLOCK != 0)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv_blocked: %lld channels are no whole blocks",
                        (long long)of->w[0]);
    if (!N(blocked_has_groups)(of, groups))
        return hyb_fail(HYB_BAD_ARGUMENT,
                        "conv_blocked: %lld groups of %lld channels do not fit in blocks",
                        (long long)groups, (long long)of->w[1]);
    return HYB_OK;
}

/* As many items as there are of weights, or of transformed ones. */
static hyb_status N(blocked_require_items)(const hyb_call *call, int index, const N(blocked_sizes) *of)
{
    hyb_layout w = {.dtype = DTYPE, .rank = 5};
    memcpy(w.shape, of->w, sizeof of->w);
    return conv_require_room(call, DTYPE, index, &w, of->y);
}

HYB_PREPARE(N(prepare_conv_blocked))
{
    *range = (hyb_range){1, 1};
    const hyb_layout *layout = call->layout;
    const int32_t rank = layout[0].rank == 5 ? 5 : 4;
    hyb_status status;
    if ((status = require_dense(call, 0, DTYPE, rank)) != HYB_OK ||
        (status = require_dense(call, 1, DTYPE, 4)) != HYB_OK ||
        (status = require_dense(call, 3, DTYPE, 5)) != HYB_OK ||
        (status = require_size(call, 3, 4, CONV_BLOCK)) != HYB_OK ||
        (rank == 5 && (status = require_size(call, 0, 4, CONV_BLOCK)) != HYB_OK))
        return status;
    if (layout[3].shape[1] > CONV_LIMIT / CONV_BLOCK ||
        (rank == 5 && layout[0].shape[1] > CONV_LIMIT / CONV_BLOCK))
        return hyb_fail(HYB_BAD_ARGUMENT, "conv_blocked: axis 1 is too long");
    const N(blocked_sizes) of = N(blocked_sizes_of)(call);
    if ((status = N(blocked_require)(call, &of)) != HYB_OK ||
        (status = require_size(call, 1, 0, of.y[1])) != HYB_OK ||
        (status = require_size(call, 3, 0, of.x[0])) != HYB_OK ||
        (status = N(blocked_require_items)(call, 2, &of)) != HYB_OK)
        return status;
    if (of.x[1] != of.w[1] * call->attrs[9].i)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv_blocked: x has %lld channels, and w is for %lld",
                        (long long)of.x[1], (long long)(of.w[1] * call->attrs[9].i));
    const conv_shape s = conv_forward(call, of.x, of.w, of.y);
    conv_tiles tiles;
    if (rank == 4 && (N(blocked_few)(&s) || conv_plan_tiles(&s, &tiles)))
        return hyb_fail(HYB_BAD_ARGUMENT, "conv_blocked: such a convolution takes blocks of x");
    return HYB_OK;
}

HYB_PREPARE(N(prepare_conv_blocked_prepare))
{
    const hyb_status status = require_dense(call, 0, DTYPE, 4);
    if (status != HYB_OK)
        return status;
    for (int i = 10; i < 15; i++)
        if (call->attrs[i].i < 0 || call->attrs[i].i > CONV_LIMIT)
            return hyb_fail(HYB_BAD_ARGUMENT, "conv_blocked: attribute %d is out of range", i);
    const int64_t *w = call->layout[0].shape, groups = call->attrs[9].i;
    if (w[1] > CONV_LIMIT || groups > CONV_LIMIT)
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: too many channels");
    const N(blocked_sizes) of = N(blocked_described)(call);
    const hyb_layout x = {.rank = 5, .dtype = DTYPE,
                          .shape = {of.x[0], of.x[1], 1, of.x[3], of.x[4]}};
    const hyb_layout y = {.rank = 5, .dtype = DTYPE,
                          .shape = {of.y[0], of.y[1], 1, of.y[3], of.y[4]}};
    if (!sizes_are_sane(&x) || !sizes_are_sane(&y))
        return hyb_fail(HYB_BAD_ARGUMENT, "conv: negative or overflowing sizes are described");
    const hyb_status fits = N(blocked_require)(call, &of);
    if (fits != HYB_OK)
        return fits;
    const conv_shape s = conv_forward(call, of.x, of.w, of.y);
    const int64_t rows = N(blocked_few)(&s) ? CONV_BLOCK : s.rows;
    const double items = (double)BLOCKED_BAND * (double)(w[1] * w[2] * w[3]);
    *range = (hyb_range){w[0] / rows * N(blocked_bands)(rows),
                         grain_of(items < 32768 ? (int64_t)items : 32768)};
    return N(blocked_require_items)(call, 1, &of);
}
