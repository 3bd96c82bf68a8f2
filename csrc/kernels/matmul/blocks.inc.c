/* matmul/blocks.inc.c - products of matrices, block by block.
 *
 * k is cut in blocks of equal depth; a tile (matmul/tile.inc.c) sums one block of k in registers,
 * and the blocks are added to C in order.  So every element is a chain of multiply-adds per block
 * plus the sum of the blocks, whatever the tile, the order of the loops, the thread, or the copies
 * made on the way.
 *
 * A task owns some panels of columns of C (or of rows, where there are few columns).  Within a task
 * a panel of A stays in the first-level cache while the panels of its slice of B pass by from the
 * second-level cache, so that C is written along its rows.
 *
 * A is read in place: twelve rows along k are as good as a copy.  B is copied by the tiles of the
 * task's first panel of rows while they multiply.  Only what runs the other way is copied before:
 * a transposed A or B, once, by all threads together, into the scratch of the calling thread, if
 * tasks share it, else by the task.  An operand that few tiles read, or that is small, is read in
 * place in any case.
 *
 * Included once per dtype by matmul/typed.inc.c, which says what T, V, N and LANES are.
 */

typedef struct {
    const T        *a, *b;
    T              *c;
    int64_t         m, n, k;
    int64_t         a_row, a_col, b_row, b_col; /* in items; one of each pair is 1 */
    int64_t         c_row, c_col;               /* one is 1: the second, but of a transposed C */
    int64_t         first;                      /* place of c[0] in the whole output */
    const T        *prepared;                   /* B in the order of the tiles (matmul/prepared.inc.c) */
    bool            parallel;                   /* whether threads may be woken */
    const hyb_post *post;

    /* The plan, made from the above by matmul_plan. */
    bool    by_columns, copy_a, copy_b;
    bool    on_the_way; /* whether tiles copy B, for their task alone */
    int64_t panels, low, tall; /* panels of rows: the first `tall` have low + 1, the others low */
    int64_t width;             /* columns of a panel of B */
    int64_t columns;           /* panels of B */
    int64_t depth;             /* of a block of k */
    int64_t tasks;
    int64_t stripe;            /* panels of rows that share a copy of A at a time */
    int64_t group;             /* k that are copied at a time */
    int64_t shared_items, own_a, own_b; /* of scratch, in items */

    /* The part that is being worked on: panels [panel, panel_end), blocks of [k0, k1). */
    int64_t panel, panel_end, k0, k1;
    T      *shared;
} N(matmul_job);

/* One operand over one block of k, as the tiles see it: row `origin + i` of a copy of A (column
 * of B) starts i * outer items in, if it is the first of its panel. */
typedef struct {
    const T *data;
    int64_t  origin, outer;
    int64_t  step; /* between the k (of A along k: the rows); -1: as wide as the panel */
} N(matmul_side);

static inline size_t N(matmul_scratch)(const N(matmul_job) *job)
{
    return (size_t)(job->shared_items + job->own_a + job->own_b) * sizeof(T);
}

static inline int64_t N(matmul_row)(const N(matmul_job) *job, int64_t panel)
{
    return panel * job->low + (panel < job->tall ? panel : job->tall);
}

/* Adds the first `count` lanes of `sum` to C, or stores them there. */
static inline void N(matmul_put)(T *to, V sum, int64_t count, bool add)
{
    if (count >= LANES) {
        N(v_store)(to, add ? N(v_load)(to) + sum : sum);
    } else {
        if (add)
            sum = N(v_load_part)(to, count) + sum;
        N(v_store_part)(to, sum, count);
    }
}

/* Adds a tile that does not lie in C as it stands: `cols` columns, from column `shift` on. */
static void N(matmul_settle)(const N(matmul_job) *job, const T *buffer, int64_t buffer_step,
                             int64_t shift, int64_t row, int64_t rows, int64_t col, int64_t cols,
                             bool add)
{
    T *corner = job->c + row * job->c_row + col * job->c_col;
    if (job->c_col == 1) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j += LANES)
                N(matmul_put)(corner + i * job->c_row + j,
                              N(v_load)(buffer + i * buffer_step + shift + j), cols - j, add);
        return;
    }
    /* Rows turn into columns; the last one is repeated in lanes that are cut off. */
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < cols; j += LANES) {
            V square[LANES];
#pragma GCC unroll 16
            for (int64_t lane = 0; lane < LANES; lane++)
                square[lane] = N(v_load)(buffer + matmul_smaller(i + lane, rows - 1) * buffer_step +
                                         shift + j);
            N(matmul_transpose)(square);
            T *to = corner + i + j * job->c_col;
#pragma GCC unroll 16
            for (int64_t lane = 0; lane < LANES; lane++)
                if (j + lane < cols)
                    N(matmul_put)(to + lane * job->c_col, square[lane], rows - i, add);
        }
}

/* One panel of rows times one of columns, [col, col_end).  What is copied is a whole panel. */
static inline void N(matmul_panel)(const N(matmul_job) *job, N(matmul_side) a, int64_t panel,
                                   N(matmul_side) b, int64_t col, int64_t col_end, int64_t depth,
                                   bool add, matmul_way way, const T *next, int64_t next_step,
                                   T *copy)
{
    const int64_t row = N(matmul_row)(job, panel), rows = job->low + (panel < job->tall);
    const T *a_data = a.data + (row - a.origin) * a.outer;
    const T *b_data = b.data + (col - b.origin) * b.outer;
    const int64_t a_step = a.step >= 0 ? a.step : rows;
    const bool along = !job->copy_a && job->a_col == 1;
    const N(matmul_tile_fn) *tiles = N(matmul_tiles)[way][along][rows - 1];

    while (col < col_end) {
        const int64_t left = col_end - col;
        int size = 0; /* log2 of the vectors */
        if (left >= 4 * LANES && job->width == 4 * LANES)
            size = 2;
        else if (left > LANES && (left >= 2 * LANES || job->copy_b))
            size = 1;
        const int64_t wide = (int64_t)LANES << size;
        if (left >= wide && job->c_col == 1) {
            T *c = job->c + row * job->c_row + col;
            tiles[size](a_data, a_step, b_data, b.step, c, job->c_row, depth, add, next,
                        next_step, copy);
        } else {
            /* In place there is nothing to read past the last column: begin further left. */
            const int64_t cols = matmul_smaller(left, wide);
            const int64_t shift = job->copy_b ? 0 : wide - cols;
            T buffer[(MATMUL_ROWS * 2 + MATMUL_WIDE * 2 + 1) * LANES];
            tiles[size](a_data, a_step, b_data - shift, b.step, buffer, wide, depth, false, next,
                        next_step, copy);
            N(matmul_settle)(job, buffer, wide, shift, row, rows, col, cols, add);
        }
        col += wide;
        b_data += wide;
    }
}

/* Fetches the share of tile `tile` of the next panel of rows. */
static inline void N(matmul_fetch)(const N(matmul_job) *job, N(matmul_side) a, int64_t panel,
                                   int64_t tile, int64_t tiles, int64_t depth)
{
    const int64_t line = 64 / (int64_t)sizeof(T), rows = job->low;
    const T *next = a.data + (N(matmul_row)(job, panel) - a.origin) * a.outer;
    if (job->copy_a) {
        const int64_t lines = matmul_ceil(rows * depth, line);
        const int64_t end = matmul_quotient((tile + 1) * lines, tiles);
        for (int64_t i = matmul_quotient(tile * lines, tiles); i < end; i++)
            __builtin_prefetch(next + i * line, 0, 2);
    } else if (job->a_col == 1) {
        const int64_t end = matmul_quotient((tile + 1) * rows, tiles);
        for (int64_t i = matmul_quotient(tile * rows, tiles); i < end; i++)
            for (int64_t k = 0; k < depth; k += line)
                __builtin_prefetch(next + i * a.outer + k, 0, 2);
    }
}

/* One panel of rows, number `turn` of its task, times panel `tile` of the columns [col, col_end).
 * If there is a `copy`, b is B in place: the first panel of rows copies it, for the others. */
static inline void N(matmul_meet)(const N(matmul_job) *job, N(matmul_side) a, int64_t panel,
                                  int64_t turn, N(matmul_side) b, int64_t col, int64_t col_end,
                                  int64_t tile, int64_t depth, bool add, T *copy)
{
    const int64_t j = col + tile * job->width, j_end = matmul_smaller(j + job->width, col_end);
    matmul_way way = MATMUL_PLAIN;
    N(matmul_side) from = b;
    if (copy) {
        copy += (j - col) * depth;
        if (turn == 0 && j_end - j == job->width) {
            way = MATMUL_COPYING;
        } else {
            from = (N(matmul_side)){copy, j, depth, job->width};
            /* The second panel of a few fetches what the first one is to copy next. */
            if (turn == 1 && job->panels <= MATMUL_FEW && j_end + job->width <= col_end)
                way = MATMUL_FETCHING;
        }
    }
    N(matmul_panel)(job, a, panel, from, j, j_end, depth, add, way, b.data + j_end, b.step, copy);
}

static void N(matmul_finish)(const N(matmul_job) *job, int64_t row, int64_t row_end, int64_t col,
                             int64_t col_end)
{
    const hyb_post *post = job->post;
    const int64_t first = job->first + row * job->c_row + col * job->c_col;
    const int64_t rows = row_end - row, cols = col_end - col;
    if (!post || rows == 0 || cols == 0)
        return;
    if (job->c_col == 1 ? cols == job->n : rows == job->m)
        post->apply(post->context, first, rows * cols);
    else if (job->c_col == 1)
        post->apply_rows(post->context, first, cols, rows, job->c_row);
    else
        post->apply_rows(post->context, first, rows, cols, job->c_col);
}

/* Panels of rows times columns [col, col_end).  Few of them go down the columns together, so that
 * what comes from afar is worked on evenly; many go along the rows, one by one.  After the `last`
 * block of k the post-ops follow each panel of rows, while it is near. */
static void N(matmul_multiply)(const N(matmul_job) *job, N(matmul_side) a, int64_t panel,
                               int64_t panel_end, N(matmul_side) b, int64_t col, int64_t col_end,
                               int64_t depth, bool add, bool last, T *copy)
{
    const int64_t tiles = matmul_ceil(col_end - col, job->width);
    if (panel_end - panel <= MATMUL_FEW) {
        for (int64_t t = 0; t < tiles; t++)
            for (int64_t p = panel; p < panel_end; p++)
                N(matmul_meet)(job, a, p, p - panel, b, col, col_end, t, depth, add, copy);
        if (last)
            N(matmul_finish)(job, N(matmul_row)(job, panel), N(matmul_row)(job, panel_end), col,
                             col_end);
        return;
    }
    int64_t done = panel; /* panels before it are finished */
    for (int64_t p = panel; p < panel_end; p++) {
        for (int64_t t = 0; t < tiles; t++) {
            if (p + 1 < panel_end)
                N(matmul_fetch)(job, a, p + 1, t, tiles, depth);
            N(matmul_meet)(job, a, p, p - panel, b, col, col_end, t, depth, add, copy);
        }
        if (last && (job->c_col == 1 || p + 1 == panel_end)) {
            N(matmul_finish)(job, N(matmul_row)(job, done), N(matmul_row)(job, p + 1), col,
                             col_end);
            done = p + 1;
        }
    }
}

static void N(matmul_copy_a)(const N(matmul_job) *job, T *to, int64_t panel, int64_t panel_end,
                             int64_t k, int64_t depth)
{
    for (int64_t p = panel; p < panel_end; p++) {
        const int64_t row = N(matmul_row)(job, p), rows = job->low + (p < job->tall);
        N(matmul_pack_across)(to, rows, job->a + row + k * job->a_col, job->a_col, rows, depth);
        to += rows * depth;
    }
}

static void N(matmul_copy_b)(const N(matmul_job) *job, T *to, int64_t col, int64_t col_end,
                             int64_t k, int64_t depth)
{
    const T *from = job->b + k * job->b_row;
    /* A few k at a time across all panels: rows of B are read in long pieces. */
    const int64_t piece = job->b_col == 1 ? matmul_smaller(8, depth) : depth;
    for (int64_t i = 0; i < depth; i += piece) {
        const int64_t steps = matmul_smaller(piece, depth - i);
        for (int64_t j = col; j < col_end; j += job->width) {
            const int64_t cols = matmul_smaller(job->width, col_end - j);
            T *panel = to + (j - col) * depth + i * job->width;
            if (job->b_col == 1)
                N(matmul_pack_across)(panel, job->width, from + i * job->b_row + j, job->b_row,
                                      cols, steps);
            else
                N(matmul_pack_along)(panel, job->width, from + j * job->b_col, job->b_col, cols,
                                     steps);
        }
    }
}

static int64_t N(matmul_depth_at)(const N(matmul_job) *job, int64_t k)
{
    return matmul_smaller(job->depth, job->k1 - k);
}

/* Copies panels [begin, end) of the shared operand, numbered block of k by block of k. */
static hyb_status N(matmul_share)(void *context, int64_t begin, int64_t end)
{
    const N(matmul_job) *job = context;
    const int64_t padded = job->columns * job->width, origin = N(matmul_row)(job, job->panel);
    const int64_t rows = N(matmul_row)(job, job->panel_end) - origin;
    const int64_t panels = job->by_columns ? job->panel_end - job->panel : job->columns;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t k = job->k0 + unit / panels * job->depth, panel = unit % panels;
        const int64_t depth = N(matmul_depth_at)(job, k);
        if (job->by_columns) {
            const int64_t row = N(matmul_row)(job, job->panel + panel) - origin;
            T *to = job->shared + (k - job->k0) * rows + row * depth;
            N(matmul_copy_a)(job, to, job->panel + panel, job->panel + panel + 1, k, depth);
        } else {
            const int64_t col = panel * job->width;
            T *to = job->shared + (k - job->k0) * padded + col * depth;
            N(matmul_copy_b)(job, to, col, matmul_smaller(col + job->width, job->n), k, depth);
        }
    }
    return HYB_OK;
}

static hyb_status N(matmul_tasks)(void *context, int64_t begin, int64_t end)
{
    const N(matmul_job) *job = context;
    T *own_a = NULL, *own_b = NULL;
    if (job->own_a + job->own_b) {
        /* All threads ask for the same size, so this moves nothing under the calling thread. */
        T *scratch = hyb_scratch(N(matmul_scratch)(job));
        if (!scratch)
            return hyb_fail(HYB_NO_MEMORY, "matmul: no memory for a block");
        own_a = scratch + job->shared_items;
        own_b = own_a + job->own_a;
    }
    const int64_t padded = job->columns * job->width;
    const int64_t origin = N(matmul_row)(job, job->panel);
    const int64_t rows = N(matmul_row)(job, job->panel_end) - origin;
    for (int64_t task = begin; task < end; task++) {
        int64_t panel = job->panel, panel_end = job->panel_end, col = 0, col_end = job->n;
        if (job->by_columns) {
            col = matmul_quotient(task * job->columns, job->tasks) * job->width;
            col_end = matmul_quotient((task + 1) * job->columns, job->tasks) * job->width;
            col_end = matmul_smaller(col_end, job->n);
        } else {
            panel = matmul_quotient(task * job->panels, job->tasks);
            panel_end = matmul_quotient((task + 1) * job->panels, job->tasks);
        }
        const int64_t row = N(matmul_row)(job, panel);
        for (int64_t k = job->k0; k < job->k1; k += job->depth) {
            const int64_t depth = N(matmul_depth_at)(job, k);
            N(matmul_side) a = {job->a + k * job->a_col, 0, job->a_row,
                                job->a_col == 1 ? job->a_row : job->a_col};
            N(matmul_side) b = {job->b + k * job->b_row, 0, 1, job->b_row};
            if (job->copy_a && job->by_columns) {
                a = (N(matmul_side)){job->shared + (k - job->k0) * rows, origin, depth, -1};
            } else if (job->copy_a) {
                a = (N(matmul_side)){own_a, row, depth, -1};
                N(matmul_copy_a)(job, own_a, panel, panel_end, k, depth);
            }
            T *copy = NULL;
            if (job->on_the_way) {
                const int64_t whole = col + (col_end - col) / job->width * job->width;
                copy = own_b;
                if (whole < col_end)
                    N(matmul_copy_b)(job, copy + (whole - col) * depth, whole, col_end, k, depth);
            } else if (job->prepared) {
                b = (N(matmul_side)){job->prepared + k * padded, 0, depth, job->width};
            } else if (job->copy_b && job->by_columns) {
                b = (N(matmul_side)){own_b, col, depth, job->width};
                N(matmul_copy_b)(job, own_b, col, col_end, k, depth);
            } else if (job->copy_b) {
                b = (N(matmul_side)){job->shared + (k - job->k0) * padded, 0, depth, job->width};
            }
            N(matmul_multiply)(job, a, panel, panel_end, b, col, col_end, depth, k > 0,
                               k + depth == job->k, copy);
        }
    }
    return HYB_OK;
}

static hyb_status N(matmul_spread)(N(matmul_job) *job, int64_t count, int64_t grain,
                                   hyb_work_fn work)
{
    if (job->parallel && count > grain)
        return hyb_parallel_for(count, grain, work, job);
    return work(job, 0, count);
}

static void N(matmul_plan)(N(matmul_job) *job)
{
    const int64_t m = job->m, n = job->n, k = job->k;
    const double work = 2.0 * (double)m * (double)n * (double)k;
    job->parallel = job->parallel && work >= hyb_choice(HYB_WAKING_WORK);

    job->panels = (m + MATMUL_ROWS - 1) / MATMUL_ROWS;
    job->low = matmul_quotient(m, job->panels);
    job->tall = m - job->low * job->panels;
    job->width = m <= MATMUL_WIDE ? 4 * LANES : 2 * LANES;
    job->depth = matmul_depth_of(k, sizeof(T));

    job->columns = matmul_ceil(n, job->width);
    job->by_columns = job->columns > 8 || n >= 2 * m;
    job->copy_a = job->a_col != 1 && n > 4 * job->width;
    const bool large = (double)n * (double)k * sizeof(T) > hyb_choice(HYB_NEAR_BYTES);
    const bool copies = job->b_col != 1 || n < LANES || (job->panels > 1 && large);
    job->copy_b = job->prepared || copies;
    job->on_the_way = !job->prepared && copies && job->b_col == 1 && job->panels > 1;

    /* As many tasks as keep a slice in the second-level cache, and a few to share out: of five
     * tasks one of two threads has three. */
    const int64_t units = job->by_columns ? job->columns : job->panels;
    const int64_t unit_items = job->depth * (job->by_columns ? job->width : MATMUL_ROWS);
    const int64_t largest = hyb_choice(HYB_SLICE_BYTES) / (int64_t)sizeof(T) / unit_items;
    const int64_t wanted = work >= 4 * hyb_choice(HYB_TASK_WORK) ? 4 : 1;
    job->tasks = matmul_ceil(units, largest);
    if (job->tasks < wanted)
        job->tasks = wanted;
    if (job->parallel && job->tasks > 1)
        job->tasks = matmul_ceil(job->tasks, MATMUL_SHARES) * MATMUL_SHARES;
    job->tasks = matmul_smaller(job->tasks, units);

    const bool own_copies = job->copy_b && !job->prepared;
    const bool shares = job->by_columns ? job->copy_a : own_copies && !job->on_the_way;
    job->group = shares ? matmul_smaller(2 * job->depth, k) : k;
    job->stripe = job->panels;
    job->shared_items = job->own_a = job->own_b = 0;
    if (shares && job->by_columns) {
        job->stripe = matmul_smaller(MATMUL_STRIPE / MATMUL_ROWS, job->panels);
        job->shared_items = job->group * job->stripe * (job->low + 1);
    } else if (shares) {
        job->shared_items = job->group * job->columns * job->width;
    }
    job->shared_items = (job->shared_items + LANES - 1) / LANES * LANES;
    if (!job->by_columns && job->copy_a)
        job->own_a = matmul_ceil(units, job->tasks) * unit_items;
    if (job->by_columns ? own_copies : job->on_the_way)
        job->own_b = job->depth * job->width *
                     (job->by_columns ? matmul_ceil(units, job->tasks) : job->columns);
    job->own_a = (job->own_a + LANES - 1) / LANES * LANES;
}

/* Computes one product; m, n and k are not 0. */
static hyb_status N(matmul_blocks)(N(matmul_job) *job)
{
    N(matmul_plan)(job);
    if (job->shared_items) {
        job->shared = hyb_scratch(N(matmul_scratch)(job));
        if (!job->shared)
            return hyb_fail(HYB_NO_MEMORY, "matmul: no memory for the shared operand");
    }
    for (job->panel = 0; job->panel < job->panels; job->panel = job->panel_end) {
        job->panel_end = matmul_smaller(job->panel + job->stripe, job->panels);
        for (job->k0 = 0; job->k0 < job->k; job->k0 = job->k1) {
            job->k1 = matmul_smaller(job->k0 + job->group, job->k);
            hyb_status status = HYB_OK;
            if (job->shared_items) {
                const int64_t blocks = matmul_ceil(job->k1 - job->k0, job->depth);
                const int64_t panels =
                    job->by_columns ? job->panel_end - job->panel : job->columns;
                status = N(matmul_spread)(job, blocks * panels, 4, N(matmul_share));
            }
            if (status == HYB_OK)
                status = N(matmul_spread)(job, job->tasks, 1, N(matmul_tasks));
            if (status != HYB_OK)
                return status;
        }
    }
    return HYB_OK;
}
