/* map_make.c - makes the maps of a plan: a map step, or the post- or pre-ops of a kernel.
 *
 * Checked are the order of reads and writes, the shapes, and what may share memory.  Decided are
 * the shape of the tiles and, for every operand, whether its tiles can be used where they lie. */
#include "runtime/build/plan_build.h"

/* Rows shorter than this are not worth a tile of their own.  Post-ops come in stretches that rarely
 * end with a row, so theirs may be shorter. */
enum { LONG_ROW = 256, LONG_ROW_OF_POST_OPS = 48 };

/* The tiles of so many operands and buffers are the largest, those of more half as large: together
 * they are to stay in the nearest cache. */
enum { FEW_VALUES = 6 };

/* What gathering an element costs, as a share of a task (kernels say this through their grain). */
#define GATHER_WORK (1.0 / 32768)

/* How the ops use an operand. */
typedef struct {
    int32_t first_write, last_read; /* op; -1: never */
} use;

typedef struct {
    hyb_builder *builder;
    const hyb_step *step;
    const hyb_kernel *kernel; /* whose post- or pre-ops these are, or NULL */
    const hyb_operand *operands;
    hyb_map *map;
    hyb_view *views;
    use *uses;
    int32_t *direct, *gathered;
    int32_t tile_dtype[HYB_MAX_TILES]; /* -1: not yet written */
    bool tile_written[HYB_MAX_TILES];
    double work; /* of one element, as a share of a task */
} maker;

static int32_t first_extra(const maker *m) { return m->step->n_in + m->step->n_out; }

/* Post-ops see the kernel's first output and the extra operands, and write that output and those
 * that the kernel does not write; all others are the kernel's own.  Pre-ops see the extra operands,
 * and write the kernel's first input and those outputs. */
static bool is_readable(const maker *m, int32_t k)
{
    if (m->map->feeds)
        return k >= first_extra(m);
    return m->kernel ? k == m->step->n_in || k >= first_extra(m) : k < m->step->n_in;
}

static bool is_output(const maker *m, int32_t k)
{
    return k >= m->step->n_in && k < first_extra(m);
}

static bool is_writable(const maker *m, int32_t k)
{
    if (m->map->feeds)
        return k == 0 || (is_output(m, k) && k >= m->step->n_in + m->kernel->n_out);
    return is_output(m, k)
        && (!m->kernel || k == m->step->n_in || k >= m->step->n_in + m->kernel->n_out);
}

static hyb_status check_read(maker *m, int32_t op, int32_t arg)
{
    if (arg < 0) {
        if (-1 - arg >= HYB_MAX_TILES)
            return hyb_refuse(m->builder, "op %d: tile %d of %d", op, -1 - arg, HYB_MAX_TILES);
        if (!m->tile_written[-1 - arg])
            return hyb_refuse(m->builder, "op %d: reads tile %d before it is written", op,
                              -1 - arg);
        return HYB_OK;
    }
    if (arg >= m->map->n_operands)
        return hyb_refuse(m->builder, "op %d: operand %d of %d", op, arg, m->map->n_operands);
    if (!is_readable(m, arg) && m->uses[arg].first_write < 0)
        return hyb_refuse(m->builder, "op %d: reads operand %d before it is written", op, arg);
    m->uses[arg].last_read = op;
    m->views[arg].used = true;
    return HYB_OK;
}

static hyb_status check_write(maker *m, int32_t op, int32_t arg)
{
    if (arg < 0) {
        if (-1 - arg >= HYB_MAX_TILES)
            return hyb_refuse(m->builder, "op %d: tile %d of %d", op, -1 - arg, HYB_MAX_TILES);
        m->tile_written[-1 - arg] = true;
        if (m->map->n_tile_buffers < -arg)
            m->map->n_tile_buffers = -arg;
        return HYB_OK;
    }
    if (arg >= m->map->n_operands)
        return hyb_refuse(m->builder, "op %d: operand %d of %d", op, arg, m->map->n_operands);
    if (!is_writable(m, arg))
        return hyb_refuse(m->builder, "op %d: writes operand %d, which is not its output", op, arg);
    if (m->uses[arg].first_write < 0)
        m->uses[arg].first_write = op;
    m->views[arg].used = true;
    return HYB_OK;
}

/* Every op by itself, and that everything is written before it is read. */
static hyb_status check_ops(maker *m)
{
    const hyb_plan_spec *spec = m->builder->spec;
    for (int32_t i = 0; i < m->step->n_ops; i++) {
        const hyb_map_op *op = &spec->ops[m->step->first_op + i];
        const hyb_kernel *kernel;
        TRY(hyb_check_kernel(m->builder, op->kernel, &kernel));
        if (!(kernel->flags & HYB_ELEMENTWISE))
            return hyb_refuse(m->builder, "op %d: %s is not elementwise", i, kernel->name);
        if (op->n_in != kernel->n_in || op->n_out != kernel->n_out || op->n_attrs != kernel->n_attrs
            || kernel->n_in + kernel->n_out > HYB_MAP_ARGS)
            return hyb_refuse(
                m->builder,
                "op %d: %s has %d inputs, %d outputs and %d attributes, not %d, %d and %d", i,
                kernel->name, kernel->n_in, kernel->n_out, kernel->n_attrs, op->n_in, op->n_out,
                op->n_attrs);
        if (!hyb_in_range(op->first_attr, op->n_attrs, spec->n_attrs))
            return hyb_refuse(m->builder, "op %d: attributes %d + %d of %d", i, op->first_attr,
                              op->n_attrs, spec->n_attrs);
        for (int32_t j = 0; j < op->n_in; j++)
            TRY(check_read(m, i, op->arg[j]));
        for (int32_t j = 0; j < op->n_out; j++) {
            TRY(check_write(m, i, op->arg[op->n_in + j]));
            for (int32_t other = 0; other < j; other++)
                if (op->arg[op->n_in + other] == op->arg[op->n_in + j])
                    return hyb_refuse(m->builder, "op %d: writes one place twice", i);
        }
    }
    for (int32_t k = m->step->n_in; k < first_extra(m); k++)
        if (m->uses[k].first_write < 0 && !(m->kernel && k < m->step->n_in + m->kernel->n_out))
            return hyb_refuse(m->builder, "output %d is never written", k - m->step->n_in);
    if (m->map->feeds && m->uses[0].first_write < 0)
        return hyb_refuse(m->builder, "the pre-ops never write what %s reads", m->kernel->name);
    return HYB_OK;
}

/* What they read and write besides the kernel's input is of one shape, of as many elements; what the
 * first op reads is among it. */
static hyb_status check_shapes_of_pre_ops(maker *m)
{
    const hyb_layout *made = &m->operands[0].layout, *shared = NULL;
    m->views[0].used = false; /* its place is not among theirs */
    for (int32_t k = m->step->n_in + m->kernel->n_out; k < m->map->n_operands; k++) {
        if (!m->views[k].used)
            continue;
        const hyb_layout *layout = &m->operands[k].layout;
        shared = shared ? shared : layout;
        if (!hyb_same_shape(layout, shared) || hyb_elements(layout) != hyb_elements(made))
            return hyb_refuse(m->builder, "operand %d does not have the shape of the pre-ops", k);
        if (is_output(m, k) && !hyb_is_contiguous(layout))
            return hyb_refuse(m->builder, "output %d is not contiguous", k - m->step->n_in);
    }
    if (!hyb_is_contiguous(made))
        return hyb_refuse(m->builder, "what the pre-ops make is not contiguous");
    m->map->elements = hyb_elements(made);
    return HYB_OK;
}

static hyb_status check_shapes(maker *m)
{
    if (m->map->feeds)
        return check_shapes_of_pre_ops(m);
    const hyb_layout *shared = &m->operands[m->step->n_in].layout;
    m->views[m->step->n_in].used = true;
    for (int32_t k = 0; k < m->map->n_operands; k++) {
        if (!m->views[k].used)
            continue;
        if (!hyb_same_shape(&m->operands[k].layout, shared))
            return hyb_refuse(m->builder, "operand %d does not have the shape of the first output",
                              k);
        if (is_output(m, k) && !hyb_is_contiguous(&m->operands[k].layout))
            return hyb_refuse(m->builder, "output %d is not contiguous", k - m->step->n_in);
    }
    m->map->elements = hyb_elements(shared);
    return HYB_OK;
}

/* Whether output `o` may have the very bytes of operand `k`. */
static bool may_replace(const maker *m, int32_t o, int32_t k)
{
    if (is_output(m, k)
        || (m->kernel && (k < m->step->n_in || !is_writable(m, o) || o == m->step->n_in)))
        return false;
    const hyb_layout *out = &m->operands[o].layout, *in = &m->operands[k].layout;
    return hyb_is_contiguous(in) && hyb_itemsize(in->dtype) == hyb_itemsize(out->dtype)
        && hyb_same_shape(in, out);
}

/* Whether post-ops write output `o` where the kernel's first result lies, `k`, which none reads then. */
static bool may_follow(const maker *m, int32_t o, int32_t k)
{
    const hyb_layout *out = &m->operands[o].layout, *in = &m->operands[k].layout;
    return m->kernel && !m->map->feeds && k == m->step->n_in && is_output(m, o)
        && o >= k + m->kernel->n_out && m->uses[o].first_write >= m->uses[k].last_read
        && m->uses[k].first_write < 0 && hyb_is_contiguous(in) && hyb_same_shape(in, out)
        && hyb_itemsize(in->dtype) == hyb_itemsize(out->dtype)
        && hyb_coincide(m->builder, &m->operands[o], &m->operands[k]);
}

/* An output may replace an input.  If an op reads the input after the output was written, it must
 * find the old bytes: they are gathered before. */
static hyb_status check_overlaps(maker *m)
{
    for (int32_t o = m->step->n_in; o < first_extra(m); o++) {
        for (int32_t k = 0; k < m->map->n_operands; k++) {
            const bool kernels_own =
                m->kernel && k < m->step->n_in && o < m->step->n_in + m->kernel->n_out;
            if (k == o || kernels_own
                || !hyb_operands_meet(m->builder, &m->operands[o], &m->operands[k])
                || may_follow(m, o, k) || may_follow(m, k, o))
                continue;
            if (!may_replace(m, o, k)
                || !hyb_coincide(m->builder, &m->operands[o], &m->operands[k]))
                return hyb_refuse(m->builder, "output %d overlaps operand %d", o - m->step->n_in,
                                  k);
            if (m->uses[o].first_write < m->uses[k].last_read)
                m->views[k].gathered = true;
        }
    }
    return HYB_OK;
}

static int64_t largest_tile(const maker *m)
{
    int32_t values = m->map->n_tile_buffers;
    for (int32_t k = 0; k < m->map->n_operands; k++)
        values += m->views[k].used;
    return values <= FEW_VALUES ? HYB_TILE : HYB_TILE / 2;
}

/* Fills in tiles of the rows of the last axis; operands must be dense or constant along it. */
static void walk_rows(maker *m, int64_t columns)
{
    hyb_map *map = m->map;
    map->columns = columns;
    map->outer_rank = map->space.rank > 1 ? map->space.rank - 1 : 0;
    /* Tiles of about even size, in whole cache lines. */
    const int64_t largest = largest_tile(m), fewest = (columns + largest - 1) / largest;
    const int64_t even = (columns / fewest + 1 + 63) / 64 * 64;
    map->tile = even < largest ? even : largest;
    map->tiles_per_row = (columns + map->tile - 1) / map->tile;
    for (int32_t k = 0; k < map->n_operands; k++) {
        hyb_view *view = &m->views[k];
        const int64_t stride = view->strides[map->space.rank - 1];
        view->gathered |= stride != view->itemsize && stride != 0;
        view->column = view->gathered ? view->itemsize : stride;
    }
}

/* Everything is one row; a tile is a whole number of the innermost shape that fits. */
static void walk_flat(maker *m)
{
    hyb_map *map = m->map;
    const hyb_space *space = &map->space;
    int64_t block = 1;
    int32_t outside = space->rank; /* axes that number the blocks */
    while (outside > 0 && block * space->shape[outside - 1] <= LONG_ROW)
        block *= space->shape[--outside];
    map->columns = map->elements;
    map->outer_rank = 0;
    map->tile = largest_tile(m) / block * block;
    map->tiles_per_row = (map->elements + map->tile - 1) / map->tile;
    for (int32_t k = 0; k < map->n_operands; k++) {
        hyb_view *view = &m->views[k];
        bool dense = true, constant = true;
        int64_t expected = view->itemsize, period = block;
        for (int32_t d = space->rank - 1; d >= 0; d--) {
            dense &= view->strides[d] == expected;
            constant &= view->strides[d] == 0;
            expected *= space->shape[d];
        }
        for (int32_t d = outside - 1; d >= 0 && view->strides[d] == 0; d--)
            period *= space->shape[d];
        view->period = period > block && !view->gathered ? period : 0;
        view->gathered |= !dense && !constant;
        view->column = constant && !view->gathered ? 0 : view->itemsize;
    }
}

/* Zero or one element: nothing to walk. */
static void walk_little(maker *m)
{
    hyb_map *map = m->map;
    map->columns = map->tile = 1;
    map->tiles_per_row = map->elements;
    for (int32_t k = 0; k < map->n_operands; k++)
        m->views[k].column = is_output(m, k) || m->views[k].gathered ? m->views[k].itemsize : 0;
}

static void choose_walk(maker *m)
{
    hyb_map *map = m->map;
    hyb_make_space(m->operands, map->n_operands, &map->space, m->views);
    const int32_t rank = map->space.rank;
    const int64_t columns = rank > 0 ? map->space.shape[rank - 1] : 1;
    if (map->elements < 2)
        walk_little(m);
    else if (rank == 1 || columns >= (m->kernel && !map->feeds ? LONG_ROW_OF_POST_OPS : LONG_ROW))
        walk_rows(m, columns);
    else
        walk_flat(m);
    map->n_tiles = map->elements / map->columns * map->tiles_per_row;
    if (map->feeds) {
        map->step = (int32_t)hyb_itemsize(m->operands[0].layout.dtype);
        m->views[0].column = map->step;
    }
    for (int32_t k = 0; k < map->n_operands; k++) {
        if (m->views[k].used && m->views[k].gathered)
            m->gathered[map->n_gathered++] = k;
        else if (m->views[k].used)
            m->direct[map->n_direct++] = k;
    }
}

static hyb_layout tile_layout(int32_t dtype, int64_t stride)
{
    return (hyb_layout){.dtype = dtype, .rank = 1, .shape = {HYB_TILE}, .strides = {stride}};
}

/* Asks the kernel whether its arguments are right.  What dtype it writes to a tile is not in the
 * spec, so every dtype is offered, its own first. */
static hyb_status settle_dtypes(maker *m, const hyb_map_op *op, const hyb_kernel *kernel,
                                hyb_layout *layouts, const hyb_attr *attrs)
{
    const hyb_call call = {layouts, NULL, attrs, NULL, NULL};
    hyb_range range = {0, 1};
    hyb_status status = kernel->prepare(&call, &range);
    hyb_status first = status == HYB_OK ? HYB_OK : hyb_refuse_kernel(m->builder, kernel, status);
    char text[HYB_TEXT];
    memcpy(text, hyb_last_error(), sizeof text);
    for (int32_t dtype = 0; status != HYB_OK && dtype < HYB_DTYPE_COUNT; dtype++) {
        bool any = false;
        for (int32_t j = op->n_in; j < op->n_in + op->n_out; j++)
            if (op->arg[j] < 0) {
                layouts[j] = tile_layout(dtype, hyb_itemsize(dtype));
                any = true;
            }
        if (!any)
            break;
        status = kernel->prepare(&call, &range);
    }
    if (status != HYB_OK)
        return hyb_fail(first, "%s", text);
    m->work += 1.0 / (double)(range.grain > 0 ? range.grain : 1);
    return HYB_OK;
}

static hyb_status make_call(maker *m, int32_t index, hyb_map_call *made)
{
    const hyb_plan_spec *spec = m->builder->spec;
    const hyb_map_op *op = &spec->ops[m->step->first_op + index];
    const hyb_kernel *kernel = hyb_kernel_at(op->kernel);
    const int32_t n = op->n_in + op->n_out;
    hyb_layout *layouts = hyb_reserve(m->builder, (size_t)n * sizeof(hyb_layout));
    int32_t *value = hyb_reserve(m->builder, (size_t)n * sizeof(int32_t));
    hyb_attr *attrs = hyb_reserve(m->builder, (size_t)op->n_attrs * sizeof(hyb_attr));
    if (!layouts || !value || !attrs)
        return HYB_NO_MEMORY;
    if (op->n_attrs > 0)
        memcpy(attrs, spec->attrs + op->first_attr, (size_t)op->n_attrs * sizeof(hyb_attr));
    for (int32_t j = 0; j < n; j++) {
        const int32_t arg = op->arg[j];
        const int32_t tile_dtype = arg >= 0     ? -1
                                 : j < op->n_in ? m->tile_dtype[-1 - arg]
                                                : kernel->dtype;
        value[j] = arg >= 0 ? arg : m->map->n_operands - 1 - arg;
        layouts[j] = arg >= 0 ? tile_layout(m->operands[arg].layout.dtype, m->views[arg].column)
                              : tile_layout(tile_dtype, hyb_itemsize(tile_dtype));
    }
    TRY(settle_dtypes(m, op, kernel, layouts, attrs));
    for (int32_t j = op->n_in; j < n; j++) {
        if (op->arg[j] >= 0)
            continue;
        for (int32_t i = 0; i < op->n_in; i++)
            if (op->arg[i] == op->arg[j]
                && hyb_itemsize(layouts[i].dtype) != hyb_itemsize(layouts[j].dtype))
                return hyb_refuse(m->builder,
                                  "op %d: reads and writes tile %d with items of different size",
                                  index, -1 - op->arg[j]);
        m->tile_dtype[-1 - op->arg[j]] = layouts[j].dtype;
        const size_t bytes = (size_t)hyb_itemsize(layouts[j].dtype) * HYB_TILE;
        if (m->map->buffer_bytes < bytes)
            m->map->buffer_bytes = bytes;
    }
    *made = (hyb_map_call){kernel->run, layouts, attrs, value, n};
    return HYB_OK;
}

static void choose_sizes(maker *m)
{
    hyb_map *map = m->map;
    for (int32_t i = 0; i < map->n_gathered; i++) {
        const size_t bytes = (size_t)m->views[map->gathered[i]].itemsize * HYB_TILE;
        if (map->buffer_bytes < bytes)
            map->buffer_bytes = bytes;
    }
    map->buffer_bytes += 64; /* so that buffers do not start at equal offsets of a page */
    map->values_bytes =
        ((size_t)(map->n_operands + map->n_tile_buffers) * sizeof(void *) + 63) / 64 * 64;
    map->scratch_bytes =
        map->values_bytes + (size_t)(map->n_tile_buffers + map->n_gathered) * map->buffer_bytes;
    m->work += map->n_gathered * GATHER_WORK;
    map->work = m->work;
    const int64_t grain = (int64_t)(1.0 / (m->work * (double)map->tile));
    map->grain = grain > 1 ? grain : 1;
    map->single_tile = map->n_tiles == 1 && map->n_gathered == 0;
}

hyb_status hyb_make_map(hyb_builder *builder, const hyb_step *step, const hyb_kernel *kernel,
                        hyb_map **made)
{
    const size_t n = (size_t)step->n_in + (size_t)step->n_out + (size_t)step->n_extra;
    maker m = {.builder = builder,
               .step = step,
               .kernel = kernel,
               .operands = builder->spec->operands + step->first_operand};
    m.map = hyb_reserve(builder, sizeof(hyb_map));
    m.views = hyb_reserve(builder, n * sizeof(hyb_view));
    m.uses = hyb_reserve(builder, n * sizeof(use));
    m.direct = hyb_reserve(builder, n * sizeof(int32_t));
    m.gathered = hyb_reserve(builder, n * sizeof(int32_t));
    hyb_map_call *calls = hyb_reserve(builder, (size_t)step->n_ops * sizeof(hyb_map_call));
    if (!m.map || !m.views || !m.uses || !m.direct || !m.gathered || !calls)
        return HYB_NO_MEMORY;
    for (size_t k = 0; k < n; k++)
        m.uses[k] = (use){-1, -1};
    m.map->n_operands = (int32_t)n;
    m.map->feeds = kernel && (kernel->flags & HYB_PRE_OPS);

    TRY(check_ops(&m));
    TRY(check_shapes(&m));
    TRY(check_overlaps(&m));
    choose_walk(&m);
    for (int32_t i = 0; i < step->n_ops; i++)
        TRY(make_call(&m, i, &calls[i]));
    m.map->views = m.views;
    m.map->direct = m.direct;
    m.map->gathered = m.gathered;
    m.map->calls = calls;
    m.map->n_calls = step->n_ops;
    choose_sizes(&m);
    *made = m.map;
    return HYB_OK;
}
