/* matmul_blocks.inc.c - products of matrices, block by block.
 *
 * k is cut in blocks of equal depth; a tile (matmul_tile.inc.c) sums one block of k in registers, and the
 * blocks are added to C in order.  So every element is a chain of multiply-adds per block plus the sum of
 * the blocks, whatever the tile, the order of the loops, the thread, or the copies made on the way.
 *
 * A task owns a range of C: some panels of rows, or, when A is low and wide, some panels of columns.
 * It copies its own slice of one operand, one block of k at a time, into its second-level cache; the other
 * operand is copied once, by all threads together, into the scratch of the calling thread.
 * An operand that few tiles read, or that is small and adjacent, is read in place instead.
 *
 * Included once per dtype by matmul_typed.inc.c, which says what T, V, N and LANES are.
 */

typedef struct {
    const T        *a, *b;
    T              *c;
    int64_t         m, n, k;
    int64_t         a_row, a_col, b_row, b_col; /* in items; one of each pair is 1 */
    int64_t         first;                      /* place of c[0] in the whole output */
    const hyb_post *post;

    /* The plan, made from the above. */
    bool    parallel, by_columns, copy_a, copy_b;
    int64_t panels, low, tall; /* panels of rows: the first `tall` have low + 1 rows, the others low */
    int64_t width;             /* columns of a panel of B */
    int64_t depth;             /* of a block of k */
    int64_t tasks;
    int64_t shared_items, own_items; /* of scratch */

    /* The part that is being worked on: columns [col, col_end), blocks of [k0, k1). */
    int64_t col, col_end, k0, k1;
    T      *shared;
} N(matmul_job);

/* One operand over one block of k, as the tiles see it.  Row `r` of a copy of A (column of B) starts
 * (r - origin) * outer items in, if it is the first of its panel. */
typedef struct {
    const T *data;
    int64_t  origin, outer;
    int64_t  step; /* between the k (of A along k: the rows); -1: as wide as the panel */
} N(matmul_side);

static inline int64_t N(matmul_row)(const N(matmul_job) *job, int64_t panel)
{
    return panel * job->low + (panel < job->tall ? panel : job->tall);
}

/* Makes up the tile at (row, col) from `vectors` whole vectors, of which only `cols` columns are C's;
 * they start in column `shift` of the tile. */
static void N(matmul_edge)(const N(matmul_job) *job, N(matmul_tile_fn) tile, int64_t row, int64_t rows,
                           int64_t col, int64_t cols, int64_t vectors, int64_t shift, const T *a,
                           int64_t a_step, const T *b, int64_t b_step, int64_t depth, bool add)
{
    T buffer[(MATMUL_ROWS * 2 + MATMUL_WIDE * 2 + 1) * LANES];
    const int64_t buffer_step = vectors * LANES;
    tile(a, a_step, b, b_step, buffer, buffer_step, depth, false);
    for (int64_t i = 0; i < rows; i++) {
        const T *from = buffer + i * buffer_step + shift;
        T *to = job->c + (row + i) * job->n + col;
        for (int64_t left = cols; left > 0; left -= LANES, from += LANES, to += LANES) {
            V sum = N(matmul_load)(from);
            if (left >= LANES) {
                N(matmul_store)(to, add ? N(matmul_load)(to) + sum : sum);
            } else {
                if (add)
                    sum = N(matmul_load_part)(to, left) + sum;
                N(matmul_store_part)(to, sum, left);
            }
        }
    }
}

/* One panel of rows times one panel of columns, [col, col_end). */
static inline void N(matmul_panel)(const N(matmul_job) *job, N(matmul_side) a, int64_t panel,
                                   N(matmul_side) b, int64_t col, int64_t col_end, int64_t depth,
                                   bool add)
{
    const int64_t row = N(matmul_row)(job, panel), rows = job->low + (panel < job->tall);
    const T *a_data = a.data + (row - a.origin) * a.outer;
    const T *b_data = b.data + (col - b.origin) * b.outer;
    const int64_t a_step = a.step >= 0 ? a.step : rows;
    const N(matmul_tile_fn) *tiles = N(matmul_tiles)[!job->copy_a && job->a_col == 1][rows - 1];

    while (col < col_end) {
        const int64_t left = col_end - col;
        int size = 0; /* log2 of the vectors */
        if (left >= 4 * LANES && job->width == 4 * LANES)
            size = 2;
        else if (left > LANES && (left >= 2 * LANES || job->copy_b))
            size = 1;
        const int64_t vectors = (int64_t)1 << size;
        if (left >= vectors * LANES) {
            tiles[size](a_data, a_step, b_data, b.step, job->c + row * job->n + col, job->n, depth,
                        add);
        } else {
            /* In place there is nothing to read past the last column: begin further left instead. */
            const int64_t shift = job->copy_b ? 0 : vectors * LANES - left;
            N(matmul_edge)(job, tiles[size], row, rows, col, left, vectors, shift, a_data, a_step,
                           b_data - shift, b.step, depth, add);
        }
        col += vectors * LANES;
        b_data += vectors * LANES;
    }
}

static void N(matmul_multiply)(const N(matmul_job) *job, N(matmul_side) a, int64_t panel,
                               int64_t panel_end, N(matmul_side) b, int64_t col, int64_t col_end,
                               int64_t depth, bool add)
{
    const int64_t width = job->width;
    /* The inner loop runs over the task's own slice, so that a panel of the shared operand stays in the
     * first-level cache for all of it. */
    if (job->by_columns) {
        for (int64_t p = panel; p < panel_end; p++)
            for (int64_t j = col; j < col_end; j += width)
                N(matmul_panel)(job, a, p, b, j, j + width < col_end ? j + width : col_end, depth, add);
    } else {
        for (int64_t j = col; j < col_end; j += width)
            for (int64_t p = panel; p < panel_end; p++)
                N(matmul_panel)(job, a, p, b, j, j + width < col_end ? j + width : col_end, depth, add);
    }
}

static void N(matmul_copy_a)(const N(matmul_job) *job, T *to, int64_t panel, int64_t panel_end,
                             int64_t k, int64_t depth)
{
    for (int64_t p = panel; p < panel_end; p++) {
        const int64_t row = N(matmul_row)(job, p), rows = job->low + (p < job->tall);
        const T *from = job->a + row * job->a_row + k * job->a_col;
        if (job->a_col == 1)
            N(matmul_pack_along)(to, rows, from, job->a_row, rows, depth);
        else
            N(matmul_pack_across)(to, rows, from, job->a_col, rows, depth);
        to += rows * depth;
    }
}

static void N(matmul_copy_b)(const N(matmul_job) *job, T *to, int64_t col, int64_t col_end, int64_t k,
                             int64_t depth)
{
    for (int64_t j = col; j < col_end; j += job->width) {
        const int64_t cols = col_end - j < job->width ? col_end - j : job->width;
        const T *from = job->b + k * job->b_row + j * job->b_col;
        if (job->b_col == 1)
            N(matmul_pack_across)(to, job->width, from, job->b_row, cols, depth);
        else
            N(matmul_pack_along)(to, job->width, from, job->b_col, cols, depth);
        to += job->width * depth;
    }
}

static int64_t N(matmul_padded)(const N(matmul_job) *job, int64_t cols)
{
    return (cols + job->width - 1) / job->width * job->width;
}

static int64_t N(matmul_depth_at)(const N(matmul_job) *job, int64_t k)
{
    return job->k1 - k < job->depth ? job->k1 - k : job->depth;
}

/* Copies panels [begin, end) of the shared operand, numbered block of k by block of k. */
static hyb_status N(matmul_share)(void *context, int64_t begin, int64_t end)
{
    const N(matmul_job) *job = context;
    const int64_t cols = N(matmul_padded)(job, job->col_end - job->col);
    const int64_t panels = job->by_columns ? job->panels : cols / job->width;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t k = job->k0 + unit / panels * job->depth, panel = unit % panels;
        const int64_t depth = N(matmul_depth_at)(job, k);
        if (job->by_columns) {
            const int64_t row = N(matmul_row)(job, panel);
            T *to = job->shared + (k - job->k0) * job->m + row * depth;
            N(matmul_copy_a)(job, to, panel, panel + 1, k, depth);
        } else {
            const int64_t col = job->col + panel * job->width;
            const int64_t last = col + job->width < job->col_end ? col + job->width : job->col_end;
            T *to = job->shared + (k - job->k0) * cols + (col - job->col) * depth;
            N(matmul_copy_b)(job, to, col, last, k, depth);
        }
    }
    return HYB_OK;
}

static void N(matmul_finish)(const N(matmul_job) *job, int64_t row, int64_t row_end, int64_t col,
                             int64_t col_end)
{
    if (!job->post || row == row_end || col == col_end)
        return;
    if (col_end - col == job->n) {
        job->post->apply(job->post->context, job->first + row * job->n, (row_end - row) * job->n);
        return;
    }
    for (int64_t i = row; i < row_end; i++)
        job->post->apply(job->post->context, job->first + i * job->n + col, col_end - col);
}

static hyb_status N(matmul_tasks)(void *context, int64_t begin, int64_t end)
{
    const N(matmul_job) *job = context;
    T *own = NULL;
    if (job->own_items) {
        /* All threads ask for the same size, so this moves nothing under the calling thread. */
        own = hyb_scratch((size_t)(job->shared_items + job->own_items) * sizeof(T));
        if (!own)
            return hyb_fail(HYB_NO_MEMORY, "matmul: no memory for a block");
        own += job->shared_items;
    }
    const int64_t cols = job->col_end - job->col, padded = N(matmul_padded)(job, cols);
    for (int64_t task = begin; task < end; task++) {
        int64_t panel = 0, panel_end = job->panels, col = job->col, col_end = job->col_end;
        if (job->by_columns) {
            const int64_t units = padded / job->width;
            col = job->col + task * units / job->tasks * job->width;
            col_end = job->col + (task + 1) * units / job->tasks * job->width;
            col_end = col_end < job->col_end ? col_end : job->col_end;
        } else {
            panel = task * job->panels / job->tasks;
            panel_end = (task + 1) * job->panels / job->tasks;
        }
        const int64_t row = N(matmul_row)(job, panel), row_end = N(matmul_row)(job, panel_end);
        for (int64_t k = job->k0; k < job->k1; k += job->depth) {
            const int64_t depth = N(matmul_depth_at)(job, k);
            N(matmul_side) a = {job->a + k * job->a_col, 0, job->a_row,
                                job->a_col == 1 ? job->a_row : job->a_col};
            N(matmul_side) b = {job->b + k * job->b_row, 0, 1, job->b_row};
            if (job->copy_a && job->by_columns)
                a = (N(matmul_side)){job->shared + (k - job->k0) * job->m, 0, depth, -1};
            else if (job->copy_a)
                a = (N(matmul_side)){own, row, depth, -1};
            if (job->copy_b && job->by_columns)
                b = (N(matmul_side)){own, col, depth, job->width};
            else if (job->copy_b)
                b = (N(matmul_side)){job->shared + (k - job->k0) * padded, job->col, depth, job->width};
            if (job->copy_a && !job->by_columns)
                N(matmul_copy_a)(job, own, panel, panel_end, k, depth);
            if (job->copy_b && job->by_columns)
                N(matmul_copy_b)(job, own, col, col_end, k, depth);
            N(matmul_multiply)(job, a, panel, panel_end, b, col, col_end, depth, k > 0);
        }
        if (job->k1 == job->k)
            N(matmul_finish)(job, row, row_end, col, col_end);
    }
    return HYB_OK;
}

static hyb_status N(matmul_spread)(N(matmul_job) *job, int64_t count, int64_t grain, hyb_work_fn work)
{
    return job->parallel && count > grain ? hyb_parallel_for(count, grain, work, job)
                                          : work(job, 0, count);
}

static int64_t N(matmul_smaller)(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t N(matmul_ceil)(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Computes one product; m, n and k are not 0. */
static hyb_status N(matmul_blocks)(N(matmul_job) *job)
{
    const int64_t m = job->m, n = job->n, k = job->k;
    const double work = 2.0 * (double)m * (double)n * (double)k;
    job->parallel = job->parallel && work >= MATMUL_PARALLEL_WORK;

    job->panels = N(matmul_ceil)(m, MATMUL_ROWS);
    job->low = m / job->panels;
    job->tall = m % job->panels;
    job->width = m <= MATMUL_WIDE ? 4 * LANES : 2 * LANES;
    job->depth = MATMUL_BLOCK_OF(k);

    const int64_t col_panels = N(matmul_ceil)(n, job->width);
    job->by_columns = m <= MATMUL_SHARED_ROWS && n >= 2 * m;
    job->copy_a = n > 4 * job->width;
    job->copy_b = job->b_col != 1 || n < LANES ||
                  (job->panels > 2 && (double)n * (double)k * sizeof(T) > MATMUL_NEAR_BYTES);

    /* Enough tasks to share out, each with enough work and with a slice that fits the cache. */
    const int64_t units = job->by_columns ? col_panels : job->panels;
    const int64_t largest = job->by_columns ? 8 : 6;
    const int64_t wanted = work >= 8 * MATMUL_TASK_WORK ? 8 : 1 + (int64_t)(work / MATMUL_TASK_WORK);
    int64_t tasks = N(matmul_ceil)(units, largest);
    if (tasks < wanted)
        tasks = N(matmul_smaller)(wanted, units);
    else if (tasks > 4)
        tasks = N(matmul_smaller)(N(matmul_ceil)(tasks, 4) * 4, units);
    job->tasks = tasks;
    const int64_t slice = N(matmul_ceil)(units, tasks);

    const bool shares = job->by_columns ? job->copy_a : job->copy_b;
    const int64_t group = shares ? N(matmul_smaller)(4 * job->depth, k) : k;
    const int64_t stripe =
        shares && !job->by_columns ? N(matmul_smaller)(MATMUL_STRIPE / job->width * job->width, n) : n;
    job->shared_items = job->own_items = 0;
    if (shares)
        job->shared_items = group * (job->by_columns ? m : N(matmul_padded)(job, stripe));
    job->shared_items = N(matmul_ceil)(job->shared_items, 64) * 64;
    if (job->by_columns && job->copy_b)
        job->own_items = slice * job->width * job->depth;
    else if (!job->by_columns && job->copy_a)
        job->own_items = slice * MATMUL_ROWS * job->depth;
    job->shared = NULL;
    if (shares) {
        job->shared = hyb_scratch((size_t)(job->shared_items + job->own_items) * sizeof(T));
        if (!job->shared)
            return hyb_fail(HYB_NO_MEMORY, "matmul: no memory for the shared operand");
    }

    for (job->col = 0; job->col < n; job->col = job->col_end) {
        job->col_end = N(matmul_smaller)(job->col + stripe, n);
        for (job->k0 = 0; job->k0 < k; job->k0 = job->k1) {
            job->k1 = N(matmul_smaller)(job->k0 + group, k);
            hyb_status status = HYB_OK;
            if (shares) {
                const int64_t blocks = N(matmul_ceil)(job->k1 - job->k0, job->depth);
                const int64_t panels = job->by_columns
                                           ? job->panels
                                           : N(matmul_ceil)(job->col_end - job->col, job->width);
                status = N(matmul_spread)(job, blocks * panels, 4, N(matmul_share));
            }
            if (status == HYB_OK)
                status = N(matmul_spread)(job, tasks, 1, N(matmul_tasks));
            if (status != HYB_OK)
                return status;
        }
    }
    return HYB_OK;
}
