/* convolution/direct.inc.c - convolutions whose groups have few channels, depthwise ones above all:
 * no product of matrices is worth its copies, so vectors of results meet one tap after the other.
 *
 * Rows of the source are copied with zeros where it has no places, so that all vectors are loaded
 * alike: one copy for all taps where results are adjacent places apart, else one for each tap.
 *
 * Included once per dtype by convolution/typed.inc.c.
 */

typedef struct {
    bool    shared;         /* one copy of a row for all taps */
    int64_t length, pitch;  /* items of such a copy, and of all copies of a row */
    int64_t lowest;         /* the place of item 0 of a shared copy */
    int64_t height;         /* rows of results that are worked on at a time */
    int64_t stacks, lines;  /* copied rows: lines of the source for each channel and outer tap */
    int64_t unit;           /* multiplications of a row of results, for one group */
    size_t  nbytes;         /* of scratch */
} N(conv_direct_plan);

/* What a thread works with. */
typedef struct {
    const T **rows; /* of each channel, outer tap and middle tap, for one row of results */
    T        *zero, *lines;
    T        *own;  /* weights, or sums */
} N(conv_direct_space);

static bool N(conv_plan_direct)(const N(conv_job) *job, int64_t own, N(conv_direct_plan) *plan)
{
    const conv_shape *s = &job->shape;
    const conv_axis *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t reach = (wide->taps - 1) * (wide->slide < 0 ? -wide->slide : wide->slide);
    plan->shared = wide->stride == 1 && reach <= wide->count + wide->size;
    plan->length = wide->count + (plan->shared ? reach : 0) + LANES;
    plan->lowest = wide->shift + (wide->slide < 0 ? -reach : 0);
    const int64_t copies = plan->shared ? 1 : wide->taps;
    plan->stacks = s->channels * s->axis[0].taps;
    /* Sizes are below 2^31, so these are exact enough to tell what no memory can hold. */
    const double stack = (double)plan->length * (double)copies * (double)plan->stacks;
    if (stack * (double)high->size * sizeof(T) > 0x1p46 || (double)own * sizeof(T) > 0x1p46 ||
        (double)plan->stacks * (double)high->taps > 0x1p42)
        return false;
    plan->pitch = plan->length * copies;
    const int64_t span = (high->taps - 1) * (high->slide < 0 ? -high->slide : high->slide) + 1;
    const int64_t budget = (int64_t)(CONV_ROWS_BYTES / (stack * sizeof(T)));
    plan->height = budget > span ? 1 + (budget - span) / high->stride : 1;
    if (plan->height > high->count)
        plan->height = high->count;
    plan->lines = matmul_smaller((plan->height - 1) * high->stride + span, high->size);
    const int64_t items = plan->pitch * (1 + plan->stacks * plan->lines) + own;
    plan->unit = wide->count * s->terms * s->rows;
    plan->nbytes = (size_t)(plan->stacks * high->taps) * sizeof(T *) + (size_t)items * sizeof(T);
    return true;
}

static hyb_status N(conv_direct_begin)(const N(conv_job) *job, const N(conv_direct_plan) *plan,
                                       N(conv_direct_space) *space)
{
    space->rows = hyb_scratch(plan->nbytes);
    if (!space->rows)
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of rows");
    space->zero = (T *)(space->rows + plan->stacks * job->shape.axis[1].taps);
    space->lines = space->zero + plan->pitch;
    space->own = space->lines + plan->stacks * plan->lines * plan->pitch;
    memset(space->zero, 0, (size_t)plan->pitch * sizeof(T));
    return HYB_OK;
}

/* The line of the source that row j of results meets first under some tap, held within it. */
static inline int64_t N(conv_first_line)(const conv_axis *high, int64_t j)
{
    const int64_t reach = (high->taps - 1) * high->slide;
    const int64_t line = j * high->stride + high->shift + (reach < 0 ? reach : 0);
    return line < 0 ? 0 : line;
}

/* Copies the rows that rows [j, j_end) of results need. */
static void N(conv_fill)(const N(conv_job) *job, const N(conv_direct_plan) *plan,
                         const N(conv_direct_space) *space, int64_t image, int64_t group,
                         int64_t deep_j, int64_t j, int64_t j_end)
{
    const conv_shape *s = &job->shape;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t reach = (high->taps - 1) * high->slide;
    const int64_t first = N(conv_first_line)(high, j);
    int64_t end = (j_end - 1) * high->stride + high->shift + (reach > 0 ? reach : 0) + 1;
    if (end > high->size)
        end = high->size;
    for (int64_t stack = 0; stack < plan->stacks; stack++) {
        const int64_t channel = stack / deep->taps, tap = stack % deep->taps;
        const int64_t d = deep_j * deep->stride + deep->shift + tap * deep->slide;
        if (d < 0 || d >= deep->size)
            continue;
        T *to = space->lines + stack * plan->lines * plan->pitch;
        const T *plane = job->source + image * s->source_image +
                         (group * s->channels + channel) * s->source_plane +
                         d * high->size * wide->size;
        for (int64_t h = first; h < end; h++) {
            const T *row = plane + h * wide->size;
            for (int64_t copy = 0; copy < (plan->shared ? 1 : wide->taps);
                 copy++, to += plan->length) {
                const int64_t count = plan->shared ? plan->length : wide->count;
                const int64_t start =
                    plan->shared ? plan->lowest : wide->shift + copy * wide->slide;
                int64_t low, high_end;
                conv_inside(start, wide->stride, count, wide->size, &low, &high_end);
                N(conv_zero)(to, low);
                if (wide->stride == 1)
                    N(conv_move)(to + low, row + start + low, high_end - low);
                else
                    for (int64_t i = low; i < high_end; i++)
                        to[i] = row[start + i * wide->stride];
                N(conv_zero)(to + high_end, plan->length - high_end);
            }
        }
    }
}

/* The rows that row j of results meets, tap by tap. */
static void N(conv_point)(const N(conv_job) *job, const N(conv_direct_plan) *plan,
                          const N(conv_direct_space) *space, int64_t deep_j, int64_t j,
                          int64_t block)
{
    const conv_shape *s = &job->shape;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1];
    const int64_t first = N(conv_first_line)(high, block);
    const T **to = space->rows;
    for (int64_t stack = 0; stack < plan->stacks; stack++) {
        const int64_t d = deep_j * deep->stride + deep->shift + stack % deep->taps * deep->slide;
        for (int64_t tap = 0; tap < high->taps; tap++) {
            const int64_t h = j * high->stride + high->shift + tap * high->slide;
            const bool inside = d >= 0 && d < deep->size && h >= 0 && h < high->size;
            *to++ = inside ? space->lines + (stack * plan->lines + h - first) * plan->pitch
                           : space->zero;
        }
    }
}

/* Where a tap of the last axis begins in a copied row. */
static inline int64_t N(conv_offset)(const conv_axis *wide, const N(conv_direct_plan) *plan,
                                     int64_t tap)
{
    if (!plan->shared)
        return tap * plan->length;
    return wide->slide < 0 ? (wide->taps - 1 - tap) * -wide->slide : tap * wide->slide;
}

static inline __attribute__((always_inline)) void
N(conv_vectors)(const N(conv_job) *job, const N(conv_direct_plan) *plan, int vectors,
                const T *const *rows, const T *weight, int64_t j, V *sum)
{
    const conv_axis *wide = &job->shape.axis[2];
    const int64_t n_rows = plan->stacks * job->shape.axis[1].taps;
    const int64_t origin = N(conv_offset)(wide, plan, 0) + j;
    const int64_t slide = plan->shared ? wide->slide : plan->length;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        sum[v] = (V){0};
    for (int64_t r = 0; r < n_rows; r++) {
        const T *from = rows[r] + origin;
        for (int64_t tap = 0; tap < wide->taps; tap++, from += slide, weight++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[v] += *weight * N(v_load)(from + v * LANES);
    }
}

typedef struct {
    const N(conv_job) *job;
    N(conv_direct_plan) plan;
} N(conv_direct_work);

/* Units [begin, end): the groups of each image. */
static hyb_status N(conv_direct_units)(void *context, int64_t begin, int64_t end)
{
    const N(conv_direct_work) *work = context;
    const N(conv_job) *job = work->job;
    const N(conv_direct_plan) *plan = &work->plan;
    const conv_shape *s = &job->shape;
    const conv_axis *wide = &s->axis[2];
    N(conv_direct_space) space;
    const hyb_status status = N(conv_direct_begin)(job, plan, &space);
    if (status != HYB_OK)
        return status;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / s->groups, group = unit % s->groups;
        T *weight = space.own;
        for (int64_t row = 0; row < s->rows; row++)
            for (int64_t k = 0; k < s->terms; k++) {
                int64_t taps[3];
                conv_tap(s, k % s->taps, taps);
                *weight++ = job->weight[group * s->weight_group + row * s->weight_row +
                                        k / s->taps * s->weight_channel + conv_item(s, taps)];
            }
        for (int64_t d = 0; d < s->axis[0].count; d++)
            for (int64_t h = 0; h < s->axis[1].count; h++) {
                const int64_t block = h - h % plan->height;
                if (h == block)
                    N(conv_fill)(job, plan, &space, image, group, d, h,
                                 matmul_smaller(h + plan->height, s->axis[1].count));
                N(conv_point)(job, plan, &space, d, h, block);
                const conv_run run = {image, {d, h, 0}, wide->count};
                for (int64_t row = 0; row < s->rows; row++) {
                    T *to = job->result + conv_place(s, &run) +
                            (group * s->rows + row) * s->result_plane;
                    weight = space.own + row * s->terms;
                    for (int64_t j = 0; j < wide->count;) {
                        V sum[4];
                        int64_t n = 4 * LANES;
                        if (wide->count - j >= n) {
                            N(conv_vectors)(job, plan, 4, space.rows, weight, j, sum);
                        } else {
                            N(conv_vectors)(job, plan, 1, space.rows, weight, j, sum);
                            n = matmul_smaller(LANES, wide->count - j);
                        }
                        T found[4 * LANES];
                        memcpy(found, sum, sizeof found);
                        if (wide->step == 1)
                            N(conv_move)(to + j, found, n);
                        else
                            for (int64_t i = 0; i < n; i++)
                                to[(j + i) * wide->step] = found[i];
                        j += n;
                    }
                }
                if (h + 1 == s->axis[1].count || h + 1 == block + plan->height) {
                    const conv_run first = {image, {d, block, 0}, 0};
                    N(conv_finish)(job, conv_place(s, &first) + group * s->rows * s->result_plane,
                                   (h + 1 - block) * wide->count, s->rows);
                }
            }
    }
    return HYB_OK;
}

static hyb_status N(conv_direct_spread)(N(conv_direct_work) *work, int64_t count, int64_t unit,
                                        hyb_work_fn run)
{
    const int64_t grain = 1 + CONV_PARALLEL_WORK / 8 / (1 + unit);
    if (count > grain && N(conv_is_large)(&work->job->shape))
        return hyb_parallel_for(count, grain, run, work);
    return run(work, 0, count);
}

static hyb_status N(conv_direct)(const N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    N(conv_direct_work) work = {.job = job};
    if (!N(conv_plan_direct)(job, s->rows * s->terms, &work.plan))
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of rows");
    const int64_t unit = work.plan.unit * s->axis[0].count * s->axis[1].count;
    return N(conv_direct_spread)(&work, s->batch * s->groups, unit, N(conv_direct_units));
}

/* conv_weight of groups [begin, end): for each weight the sums of each lane, added at the end. */
static hyb_status N(conv_weight_units)(void *context, int64_t begin, int64_t end)
{
    const N(conv_direct_work) *work = context;
    const N(conv_job) *job = work->job;
    const N(conv_direct_plan) *plan = &work->plan;
    const conv_shape *s = &job->shape;
    const conv_axis *wide = &s->axis[2];
    const int64_t n_rows = plan->stacks * s->axis[1].taps, count = wide->count;
    N(conv_direct_space) space;
    const hyb_status status = N(conv_direct_begin)(job, plan, &space);
    if (status != HYB_OK)
        return status;
    for (int64_t group = begin; group < end; group++) {
        N(conv_zero)(space.own, s->rows * s->terms * LANES);
        for (int64_t image = 0; image < s->batch; image++)
            for (int64_t d = 0; d < s->axis[0].count; d++)
                for (int64_t h = 0; h < s->axis[1].count; h++) {
                    const int64_t block = h - h % plan->height;
                    if (h == block)
                        N(conv_fill)(job, plan, &space, image, group, d, h,
                                     matmul_smaller(h + plan->height, s->axis[1].count));
                    N(conv_point)(job, plan, &space, d, h, block);
                    const conv_run run = {image, {d, h, 0}, count};
                    T *sums = space.own;
                    for (int64_t i = 0; i < s->rows * n_rows * wide->taps; i++, sums += LANES) {
                        const int64_t tap = i % wide->taps, row = i / wide->taps;
                        const T *y = job->weight + conv_place(s, &run) +
                                     (group * s->rows + row / n_rows) * s->result_plane;
                        const T *x = space.rows[row % n_rows] + N(conv_offset)(wide, plan, tap);
                        V sum = N(v_load)(sums);
                        int64_t j = 0;
                        for (; j + LANES <= count; j += LANES)
                            sum += N(v_load)(y + j) * N(v_load)(x + j);
                        if (j < count)
                            sum += N(v_load_part)(y + j, count - j) *
                                   N(v_load_part)(x + j, count - j);
                        N(v_store)(sums, sum);
                    }
                }
        T *to = job->result + group * s->rows * s->terms;
        for (int64_t i = 0; i < s->rows * s->terms; i++) {
            T *lanes = space.own + i * LANES;
            for (int half = LANES / 2; half > 0; half /= 2)
                for (int lane = 0; lane < half; lane++)
                    lanes[lane] += lanes[lane + half];
            to[i] = lanes[0];
        }
    }
    return HYB_OK;
}

static hyb_status N(conv_weight_direct)(const N(conv_job) *job)
{
    const conv_shape *s = &job->shape;
    N(conv_direct_work) work = {.job = job};
    if (!N(conv_plan_direct)(job, s->rows * s->terms * LANES, &work.plan))
        return hyb_fail(HYB_NO_MEMORY, "conv: no memory for copies of rows");
    const int64_t unit = work.plan.unit * s->axis[0].count * s->axis[1].count;
    const double all = (double)unit * (double)s->batch;
    return N(conv_direct_spread)(&work, s->groups, all < 0x1p40 ? unit * s->batch : INT64_C(1) << 40,
                                 N(conv_weight_units));
}
