/* scatter_typed.inc.c - the scatters of one dtype; included by gather.inc.c once per dtype
 * (each_float.inc.c, each_integer.inc.c).
 */

HYB_KERNEL(N(scatter_add))
{
    const T *x = call->data[0], *update = call->data[2];
    const int64_t *index = call->data[1];
    T *y = call->data[3];
    const int64_t size = call->layout[0].shape[1], inner = call->layout[0].shape[2];
    const int64_t count = call->layout[1].shape[0];
    const int64_t blocks = (inner + SCATTER_BLOCK - 1) / SCATTER_BLOCK;
    hyb_status status = gather_check(index, 0, count, size);
    if (status != HYB_OK)
        return status;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t a = unit / blocks, first = unit % blocks * SCATTER_BLOCK;
        const int64_t width = inner - first < SCATTER_BLOCK ? inner - first : SCATTER_BLOCK;
        const T *from = x + a * size * inner + first;
        const T *more = update + a * count * inner + first;
        T *to = y + a * size * inner + first;
        if (width == inner)
            gather_start(to, from, (size_t)(size * inner) * sizeof(T));
        else
            for (int64_t r = 0; r < size; r++)
                gather_start(to + r * inner, from + r * inner, (size_t)width * sizeof(T));
        for (int64_t i = 0; i < count; i++, more += inner) {
            T *row = to + gather_wrap(index[i], size) * inner;
            for (int64_t b = 0; b < width; b++)
                row[b] = (T)((U)row[b] + (U)more[b]);
        }
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_scatter_add))
{
    hyb_status status;
    if ((status = gather_prepare(call, 0, 2, DTYPE)) != HYB_OK ||
        (status = require_dense(call, 3, DTYPE, 3)) != HYB_OK)
        return status;
    if (!hyb_same_shape(&call->layout[0], &call->layout[3]))
        return hyb_fail(HYB_BAD_ARGUMENT, "the output's shape is not the first input's");
    const int64_t size = call->layout[0].shape[1], inner = call->layout[0].shape[2];
    const int64_t count = call->layout[1].shape[0];
    const int64_t blocks = (inner + SCATTER_BLOCK - 1) / SCATTER_BLOCK;
    const int64_t width = inner < SCATTER_BLOCK ? inner : SCATTER_BLOCK;
    const int64_t cost = count + (size + count) * width;
    *range = (hyb_range){call->layout[0].shape[0] * blocks, grain_of(cost)};
    return HYB_OK;
}

HYB_KERNEL(N(scatter_along_add))
{
    const T *x = call->data[0], *update = call->data[2];
    const int64_t *index = call->data[1];
    T *y = call->data[3];
    const int64_t size = call->layout[0].shape[1], count = call->layout[1].shape[1];
    hyb_status status = gather_check(index, begin * count, end * count, size);
    if (status != HYB_OK)
        return status;
    gather_start(y + begin * size, x + begin * size, (size_t)((end - begin) * size) * sizeof(T));
    for (int64_t row = begin; row < end; row++) {
        T *line = y + row * size;
        for (int64_t i = row * count; i < (row + 1) * count; i++) {
            T *place = &line[gather_wrap(index[i], size)];
            *place = (T)((U)*place + (U)update[i]);
        }
    }
    return HYB_OK;
}

HYB_PREPARE(N(prepare_scatter_along_add)) { return scatter_along_prepare(call, DTYPE, range); }
