/* attention/typed.inc.c - attention of one dtype; included by attention/family.inc.c once per dtype
 * (each_float.inc.c).
 *
 * Products are made of the register tiles of matmul/tile.inc.c, which read whole vectors of their
 * right operand: matrices whose rows do not consist of those are copied with zeros behind.
 */

/* Rows of one head: `step` items from one to the next. */
typedef struct { const T *data; int64_t step; } N(attention_rows);

static N(attention_rows) N(attention_head)(const hyb_call *call, int index, int64_t head)
{
    const hyb_layout *layout = &call->layout[index];
    const int64_t inner = layout->shape[1], itemsize = (int64_t)sizeof(T);
    const int64_t at = head / inner * (layout->shape[0] > 1 ? layout->strides[0] / itemsize : 0) +
                       head % inner * (inner > 1 ? layout->strides[1] / itemsize : 0);
    const int64_t step = layout->shape[2] > 1 ? layout->strides[2] / itemsize : 0;
    return (N(attention_rows)){(const T *)call->data[index] + at, step};
}

static inline int64_t N(attention_whole)(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* The rows with zeros behind, in `copy`, unless they are whole vectors as they are. */
static N(attention_rows) N(attention_padded)(N(attention_rows) from, int64_t rows, int64_t n,
                                             T *copy)
{
    const int64_t width = N(attention_whole)(n);
    if (width == n)
        return from;
    for (int64_t r = 0; r < rows; r++) {
        const T *x = from.data + r * from.step;
        for (int64_t i = 0; i < width; i += LANES)
            N(v_store)(copy + r * width + i,
                       n - i >= LANES ? N(v_load)(x + i) : N(v_load_part)(x + i, n - i));
    }
    return (N(attention_rows)){copy, width};
}

static void N(attention_unpadded)(const T *copy, int64_t rows, int64_t n, T *to)
{
    const int64_t width = N(attention_whole)(n);
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * n, copy + r * width, (size_t)n * sizeof(T));
}

/* Rows as columns, two vectors of rows side by side: what is read when they are transposed. */
static void N(attention_transposed)(N(attention_rows) from, int64_t rows, int64_t n, T *to)
{
    for (int64_t r = 0; r < rows; r += 2 * LANES)
        N(matmul_pack_along)(to + r * n, 2 * LANES, from.data + r * from.step, from.step,
                             matmul_smaller(rows - r, 2 * LANES), n);
}

/* c = or += a b, some rows and whole vectors of columns.  a lies along its rows (a_row apart), or
 * across them (the next row is the next item, a_col to the next column).  Every two vectors of
 * columns of b are b_next after those before, and b_step apart from row to row. */
static inline void N(attention_multiply)(const T *a, int64_t a_row, int64_t a_col, const T *b,
                                         int64_t b_step, int64_t b_next, T *c, int64_t c_step,
                                         int64_t rows, int64_t vectors, int64_t depth, bool add)
{
    const bool along = a_col == 1;
    const N(matmul_tile_fn) *tiles = N(matmul_tiles)[MATMUL_PLAIN][along][rows - 1];
    for (int64_t v = 0; v < vectors; v += 2)
        tiles[v + 1 < vectors](a, along ? a_row : a_col, b + v / 2 * b_next, b_step, c + v * LANES,
                               c_step, depth, add, NULL, 0, NULL);
}

/* The next panel of at most MATMUL_ROWS of `left` rows, all about as high. */
static inline int64_t N(attention_panel)(int64_t left)
{
    return matmul_ceil(left, matmul_ceil(left, MATMUL_ROWS));
}

/* `x`, but `otherwise` in the lanes from `count` on. */
static inline V N(attention_first)(V x, int64_t count, T otherwise)
{
    if (count >= LANES)
        return x;
    M lane;
    memcpy(&lane, N(softmax_lane), sizeof lane);
    return N(v_select)((M)(lane < (I)(count > 0 ? count : 0)), x, N(v_splat)(otherwise));
}

/* Scores of the next `count` keys and what a mask (NULL: there is none) adds to them; -inf hides a
 * key whatever its score is. */
static inline V N(attention_masked_scores)(V s, const T *mask, int64_t count)
{
    if (mask == NULL || count <= 0)
        return s;
    const V added = count < LANES ? N(v_load_part)(mask, count) : N(v_load)(mask);
    return N(v_select)((M)(added == -(T)INFINITY), added, s + added);
}

/* The lanes of `x` whose draws keep them; the others become 0. */
static inline V N(attention_kept)(V x, const uint32_t *drawn, uint32_t least)
{
    typedef uint32_t words __attribute__((vector_size(4 * LANES)));
    words word;
    memcpy(&word, drawn, sizeof word);
    const M draw = __builtin_convertvector(word >> 8, M);
    return N(v_select)((M)(draw >= (I)least), x, (V){0});
}

/* One row of scores becomes one of weights, exp(scale s + mask - top), where `top` is the largest
 * score so far; when that grows, the sums made with the former one shrink.  Weights that are
 * dropped (`drawn` is NULL: none is) count in the total. */
static inline void N(attention_weigh)(T *row, const T *mask, const uint32_t *drawn, uint32_t least,
                                      int64_t count, int64_t vectors, T scale, T *top, T *total,
                                      T *out, int64_t width, bool first)
{
    V largest = N(v_splat)(*top);
    const V before = largest;
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t left = count - v * LANES;
        const V all = N(attention_masked_scores)(N(v_load)(row + v * LANES) * scale,
                                                 mask ? mask + v * LANES : NULL, left);
        const V s = N(attention_first)(all, left, -(T)INFINITY);
        N(v_store)(row + v * LANES, s);
        largest = N(v_larger)(largest, s);
    }
    largest = N(softmax_largest_lane)(largest);
    V sum = {0};
    for (int64_t v = 0; v < vectors; v++) {
        const V weight = N(softmax_exp)(N(v_load)(row + v * LANES) - largest);
        sum += weight;
        N(v_store)(row + v * LANES,
                   drawn ? N(attention_kept)(weight, drawn + v * LANES, least) : weight);
    }
    if (!first) {
        const V less = N(v_exp)(before - largest);
        sum += N(v_load)(total) * less;
        if (less[0] != 1)
            for (int64_t i = 0; i < width; i += LANES)
                N(v_store)(out + i, N(v_load)(out + i) * less);
    }
    N(v_store)(total, sum);
    *top = largest[0];
}

/* Items of scratch of a stretch of queries: transposed keys, scores, sums and largest ones, and
 * copies of values and results if they are not whole vectors. */
static int64_t N(attention_scratch)(attention_sizes z)
{
    const int64_t padded = z.values % LANES ? N(attention_whole)(z.values) : 0;
    return N(attention_whole)(ATTENTION_KEYS * z.features) +
           MATMUL_ROWS * ATTENTION_KEYS + ATTENTION_QUERIES * (LANES + 1) +
           padded * (ATTENTION_KEYS + ATTENTION_QUERIES);
}

/* Operands: q, k, v, the mask where it is `masked`, the state of the draws where it is `dropped`;
 * results: the mean and the logarithms. */
static inline __attribute__((always_inline)) hyb_status
N(attention_mean)(const hyb_call *call, int64_t begin, int64_t end, const bool masked,
                  const bool dropped)
{
    const int results = 3 + masked + dropped;
    const attention_sizes z = attention_sizes_of(&call->layout[0], &call->layout[2]);
    const T scale = (T)call->attrs[0].f;
    const bool causal = call->attrs[1].f != 0, padded = z.values % LANES != 0;
    const int64_t stretches = matmul_ceil(z.queries, ATTENTION_QUERIES);
    const int64_t width = N(attention_whole)(z.values);
    T *scratch = hyb_scratch((size_t)N(attention_scratch)(z) * sizeof(T));
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "attention: no memory for a block of scores");
    T *columns = scratch, *scores = columns + N(attention_whole)(ATTENTION_KEYS * z.features);
    T *totals = scores + MATMUL_ROWS * ATTENTION_KEYS;
    T *tops = totals + ATTENTION_QUERIES * LANES;
    T *copy = tops + ATTENTION_QUERIES, *result = copy + ATTENTION_KEYS * width;
    attention_draws draws = {0};
    if (dropped)
        draws = attention_draws_of(call, results - 1);
    const T kept = dropped ? (T)draws.scale : 1;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t head = unit / stretches, start = unit % stretches * ATTENTION_QUERIES;
        const int64_t stop = matmul_smaller(start + ATTENTION_QUERIES, z.queries);
        const N(attention_rows) q = N(attention_head)(call, 0, head);
        const N(attention_rows) k = N(attention_head)(call, 1, head);
        const N(attention_rows) v = N(attention_head)(call, 2, head);
        const N(attention_rows) mask =
            masked ? N(attention_head)(call, 3, head) : (N(attention_rows)){0};
        T *to = (T *)call->data[results] + (head * z.queries + start) * z.values;
        T *log_sums = (T *)call->data[results + 1] + head * z.queries + start;
        T *out = padded ? result : to;
        const int64_t seen_by_all = causal ? matmul_smaller(stop, z.keys) : z.keys;
        for (int64_t i = 0; i < stop - start; i++)
            tops[i] = sizeof(T) == 4 ? (T)-FLT_MAX : (T)-DBL_MAX;
        for (int64_t key = 0; key < seen_by_all; key += ATTENTION_KEYS) {
            const int64_t count = matmul_smaller(seen_by_all - key, ATTENTION_KEYS);
            const N(attention_rows) keys = {k.data + key * k.step, k.step};
            N(attention_transposed)(keys, count, z.features, columns);
            const N(attention_rows) values = N(attention_padded)(
                (N(attention_rows)){v.data + key * v.step, v.step}, count, z.values, copy);
            int64_t rows;
            for (int64_t row = start; row < stop; row += rows) {
                rows = matmul_smaller(MATMUL_ROWS, stop - row);
                const int64_t seen = causal ? matmul_smaller(count, row + rows - key) : count;
                if (seen <= 0)
                    continue;
                const int64_t vectors = (seen + LANES - 1) / LANES, at = row - start;
                N(attention_multiply)(q.data + row * q.step, q.step, 1, columns, 2 * LANES,
                                      2 * LANES * z.features, scores, ATTENTION_KEYS, rows, vectors,
                                      z.features, false);
                for (int64_t i = 0; i < rows; i++) {
                    const int64_t own = causal ? matmul_smaller(seen, row + i + 1 - key) : seen;
                    const uint64_t number =
                        (uint64_t)(head * z.queries + row + i) * (uint64_t)z.keys + (uint64_t)key;
                    N(attention_weigh)(scores + i * ATTENTION_KEYS,
                                       masked ? mask.data + (row + i) * mask.step + key : NULL,
                                       dropped ? attention_drawn(&draws, number, own) : NULL,
                                       draws.least, own, vectors, scale, tops + at + i,
                                       totals + (at + i) * LANES, out + (at + i) * width, width,
                                       key == 0);
                }
                N(attention_multiply)(scores, ATTENTION_KEYS, 1, values.data, values.step,
                                      2 * LANES, out + at * width, width, rows, width / LANES,
                                      seen, key > 0);
            }
        }
        for (int64_t i = 0; i < stop - start; i++) {
            const V total = N(softmax_sum_of_lanes)(N(v_load)(totals + i * LANES));
            const bool none = masked && total[0] == 0; /* the mask hides all keys */
            const V share = none ? (V){0} : kept / total;
            T *row = out + i * width;
            for (int64_t d = 0; d < width; d += LANES)
                N(v_store)(row + d, N(v_load)(row + d) * share);
            log_sums[i] = none ? (T)INFINITY : tops[i] + N(v_log)(total)[0];
        }
        if (padded)
            N(attention_unpadded)(result, stop - start, z.values, to);
    }
    return HYB_OK;
}

HYB_KERNEL(N(attention)) { return N(attention_mean)(call, begin, end, false, false); }
HYB_KERNEL(N(attention_masked)) { return N(attention_mean)(call, begin, end, true, false); }
HYB_KERNEL(N(attention_dropped)) { return N(attention_mean)(call, begin, end, true, true); }

/* What a block of the backward pass works on. */
typedef struct {
    attention_sizes z;
    int64_t head;
    T scale;
    bool causal;
    attention_draws *draws; /* NULL: no weight is dropped */
    N(attention_rows) q, k, g, mask; /* of no mask, data is NULL */
    const T *shift, *log_sums;
    T *dq, *dk, *dv;
    int64_t features, values;  /* of a row, with zeros behind */
    T *key_columns, *value_columns, *weights, *slopes;
} N(attention_block);

/* The weights of a block of queries and keys, and what times keys gives the gradient of queries. */
static void N(attention_slopes)(const N(attention_block) *b, int64_t query, int64_t queries,
                                int64_t key, int64_t keys)
{
    const int64_t side = ATTENTION_SIDE, all = (keys + LANES - 1) / LANES;
    attention_draws *draws = b->draws;
    const T kept = draws ? (T)draws->scale : 1;
    int64_t rows;
    for (int64_t row = 0; row < queries; row += rows) {
        rows = N(attention_panel)(queries - row);
        const int64_t first = query + row;
        const int64_t seen = b->causal ? matmul_smaller(keys, first + rows - key) : keys;
        const int64_t vectors = seen > 0 ? (seen + LANES - 1) / LANES : 0;
        N(attention_multiply)(b->q.data + first * b->q.step, b->q.step, 1, b->key_columns,
                              2 * LANES, 2 * LANES * b->z.features, b->weights + row * side, side,
                              rows, vectors, b->z.features, false);
        N(attention_multiply)(b->g.data + first * b->g.step, b->g.step, 1, b->value_columns,
                              2 * LANES, 2 * LANES * b->z.values, b->slopes + row * side, side,
                              rows, vectors, b->z.values, false);
        for (int64_t i = 0; i < rows; i++) {
            T *weights = b->weights + (row + i) * side, *slopes = b->slopes + (row + i) * side;
            const int64_t count = b->causal ? matmul_smaller(seen, first + i + 1 - key) : seen;
            const V log_sum = N(v_splat)(b->log_sums[first + i]);
            const V shift = N(v_splat)(b->shift[first + i]);
            const T *mask = b->mask.data ? b->mask.data + (first + i) * b->mask.step + key : NULL;
            const uint64_t number =
                (uint64_t)(b->head * b->z.queries + first + i) * (uint64_t)b->z.keys +
                (uint64_t)key;
            const uint32_t *drawn = draws ? attention_drawn(draws, number, count) : NULL;
            for (int64_t v = 0; v < all; v++) {
                V weight = {0}, slope = {0};
                if (v < vectors) {
                    const V s = N(attention_masked_scores)(
                        N(v_load)(weights + v * LANES) * b->scale,
                        mask ? mask + v * LANES : NULL, count - v * LANES);
                    weight = N(softmax_exp)(N(v_at_most)(s - log_sum, N(v_exp_high)));
                    V pull = N(v_load)(slopes + v * LANES);
                    if (drawn)
                        pull = N(attention_kept)(pull * kept, drawn + v * LANES, draws->least);
                    slope = weight * (pull - shift) * b->scale;
                    if (drawn)
                        weight = N(attention_kept)(weight * kept, drawn + v * LANES, draws->least);
                    weight = N(attention_first)(weight, count - v * LANES, 0);
                    slope = N(attention_first)(slope, count - v * LANES, 0);
                }
                N(v_store)(weights + v * LANES, weight);
                N(v_store)(slopes + v * LANES, slope);
            }
        }
    }
}

/* Adds the share of a block to the gradients. */
static void N(attention_gather)(const N(attention_block) *b, int64_t query, int64_t queries,
                                int64_t key, int64_t keys, bool first_queries)
{
    const int64_t side = ATTENTION_SIDE;
    int64_t rows;
    for (int64_t row = 0; row < keys; row += rows) {
        rows = N(attention_panel)(keys - row);
        /* Queries before the first of these keys do not see them. */
        const int64_t skip = b->causal && key + row > query ? key + row - query : 0;
        const T *weights = b->weights + skip * side + row, *slopes = b->slopes + skip * side + row;
        const T *g = b->g.data + (query + skip) * b->g.step;
        const T *q = b->q.data + (query + skip) * b->q.step;
        N(attention_multiply)(weights, 1, side, g, b->g.step, 2 * LANES,
                              b->dv + (key + row) * b->values, b->values, rows, b->values / LANES,
                              queries - skip, !first_queries);
        N(attention_multiply)(slopes, 1, side, q, b->q.step, 2 * LANES,
                              b->dk + (key + row) * b->features, b->features, rows,
                              b->features / LANES, queries - skip, !first_queries);
    }
    for (int64_t row = 0; row < queries; row += rows) {
        rows = N(attention_panel)(queries - row);
        const int64_t seen =
            b->causal ? matmul_smaller(keys, query + row + rows - key) : keys;
        N(attention_multiply)(b->slopes + row * side, side, 1, b->k.data + key * b->k.step,
                              b->k.step, 2 * LANES, b->dq + (query + row) * b->features,
                              b->features, rows, b->features / LANES, seen, key > 0);
    }
}

/* Operands: g, t, n, q, k, v, the mask where it is `masked`, the state where it is `dropped`. */
static hyb_status N(attention_gradients)(const hyb_call *call, int64_t begin, int64_t end,
                                         const bool masked, const bool dropped)
{
    const int results = 6 + masked + dropped;
    const attention_sizes z = attention_sizes_of(&call->layout[3], &call->layout[5]);
    const int64_t features = N(attention_whole)(z.features), values = N(attention_whole)(z.values);
    const int64_t side = ATTENTION_SIDE;
    /* Copies, where rows are not whole vectors: q, dq, k, dk; g and dv. */
    const int64_t of_features = features == z.features ? 0 : features;
    const int64_t of_values = values == z.values ? 0 : values;
    const int64_t columns = side * (z.features + z.values);
    const int64_t copies = 2 * (z.queries + z.keys) * of_features +
                           (z.queries + z.keys) * of_values;
    const size_t items = (size_t)(N(attention_whole)(columns) + 2 * side * side + copies);
    T *scratch = hyb_scratch(items * sizeof(T));
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "attention_pull: no memory for a block of scores");
    T *weights = scratch + N(attention_whole)(columns), *copy = weights + 2 * side * side;
    attention_draws draws = {0};
    if (dropped)
        draws = attention_draws_of(call, results - 1);
    for (int64_t head = begin; head < end; head++) {
        T *dq = (T *)call->data[results] + head * z.queries * z.features;
        T *dk = (T *)call->data[results + 1] + head * z.keys * z.features;
        T *dv = (T *)call->data[results + 2] + head * z.keys * z.values;
        T *q_copy = copy, *k_copy = q_copy + z.queries * of_features;
        T *dq_copy = k_copy + z.keys * of_features, *dk_copy = dq_copy + z.queries * of_features;
        T *g_copy = dk_copy + z.keys * of_features, *dv_copy = g_copy + z.queries * of_values;
        const N(attention_rows) g = N(attention_head)(call, 0, head);
        const N(attention_rows) q = N(attention_head)(call, 3, head);
        const N(attention_rows) k = N(attention_head)(call, 4, head);
        const N(attention_rows) v = N(attention_head)(call, 5, head);
        N(attention_block) b = {
            .z = z, .head = head, .scale = (T)call->attrs[0].f, .causal = call->attrs[1].f != 0,
            .draws = dropped ? &draws : NULL,
            .q = N(attention_padded)(q, z.queries, z.features, q_copy),
            .k = N(attention_padded)(k, z.keys, z.features, k_copy),
            .g = N(attention_padded)(g, z.queries, z.values, g_copy),
            .mask = masked ? N(attention_head)(call, 6, head) : (N(attention_rows)){0},
            .shift = (const T *)call->data[1] + head * z.queries,
            .log_sums = (const T *)call->data[2] + head * z.queries,
            .dq = of_features ? dq_copy : dq, .dk = of_features ? dk_copy : dk,
            .dv = of_values ? dv_copy : dv, .features = features, .values = values,
            .key_columns = scratch, .value_columns = scratch + side * z.features,
            .weights = weights, .slopes = weights + side * side,
        };
        for (int64_t key = 0; key < z.keys; key += side) {
            const int64_t keys = matmul_smaller(z.keys - key, side);
            const int64_t from = b.causal ? key : 0; /* the first block of queries that sees them */
            if (from >= z.queries) {
                memset(b.dk + key * features, 0, (size_t)(keys * features) * sizeof(T));
                memset(b.dv + key * values, 0, (size_t)(keys * values) * sizeof(T));
                continue;
            }
            N(attention_transposed)((N(attention_rows)){k.data + key * k.step, k.step}, keys,
                                    z.features, b.key_columns);
            N(attention_transposed)((N(attention_rows)){v.data + key * v.step, v.step}, keys,
                                    z.values, b.value_columns);
            for (int64_t query = from; query < z.queries; query += side) {
                const int64_t queries = matmul_smaller(z.queries - query, side);
                N(attention_slopes)(&b, query, queries, key, keys);
                N(attention_gather)(&b, query, queries, key, keys, query == from);
            }
        }
        if (of_features) {
            N(attention_unpadded)(dq_copy, z.queries, z.features, dq);
            N(attention_unpadded)(dk_copy, z.keys, z.features, dk);
        }
        if (of_values)
            N(attention_unpadded)(dv_copy, z.keys, z.values, dv);
    }
    return HYB_OK;
}

HYB_KERNEL(N(attention_pull)) { return N(attention_gradients)(call, begin, end, false, false); }
HYB_KERNEL(N(attention_masked_pull))
{
    return N(attention_gradients)(call, begin, end, true, false);
}
HYB_KERNEL(N(attention_dropped_pull))
{
    return N(attention_gradients)(call, begin, end, true, true);
}

HYB_PREPARE(N(prepare_attention)) { return attention_check(call, DTYPE, range, false, false); }
HYB_PREPARE(N(prepare_attention_masked))
{
    return attention_check(call, DTYPE, range, true, false);
}
HYB_PREPARE(N(prepare_attention_dropped))
{
    return attention_check(call, DTYPE, range, true, true);
}
HYB_PREPARE(N(prepare_attention_pull))
{
    return attention_pull_check(call, DTYPE, range, false, false);
}
HYB_PREPARE(N(prepare_attention_masked_pull))
{
    return attention_pull_check(call, DTYPE, range, true, false);
}
HYB_PREPARE(N(prepare_attention_dropped_pull))
{
    return attention_pull_check(call, DTYPE, range, true, true);
}
