/* reduce_tree.inc.c - the reductions of one dtype; included by reduce.inc.c once per dtype
 * (each_float.inc.c, each_integer.inc.c).
 *
 * A unit is a stack of long rows.  Its tree: rows are combined in groups of eight (pairwise),
 * groups in leaves (one after the other), leaves in a binary tree whose left half is always the
 * largest power of two of leaves.  Chunks are whole subtrees of it, so reducing them apart gives
 * the same bits.
 * The inner loops run over columns without dependence and are left to the compiler to vectorise;
 * every column is combined in the same order, so vector bodies and scalar tails agree.
 */

/* Inlined with a constant `op` everywhere. */
static inline __attribute__((always_inline)) T N(reduce_pair)(reduce_op op, T a, T b)
{
    T larger;
    switch (op) {
    case REDUCE_SUM: return (T)((U)a + (U)b);
    case REDUCE_PROD: return (T)((U)a * (U)b);
    case REDUCE_MAX: larger = a > b ? a : b; break;
    default: larger = a < b ? a : b; break;
    }
    return IS_NAN(a) ? a : larger; /* a NaN in b has been taken already: it fails the comparison */
}

static inline __attribute__((always_inline)) T
N(reduce_eight)(reduce_op op, const T *x, int64_t stride)
{
    const T a = N(reduce_pair)(op, x[0], x[stride]);
    const T b = N(reduce_pair)(op, x[2 * stride], x[3 * stride]);
    const T c = N(reduce_pair)(op, x[4 * stride], x[5 * stride]);
    const T d = N(reduce_pair)(op, x[6 * stride], x[7 * stride]);
    return N(reduce_pair)(op, N(reduce_pair)(op, a, b), N(reduce_pair)(op, c, d));
}

/* into[c] = into[c] (+) x[c] */
static inline __attribute__((always_inline)) void
N(reduce_merge_op)(reduce_op op, T *restrict into, const T *restrict x, int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        into[c] = N(reduce_pair)(op, into[c], x[c]);
}

/* y[c] = x[0, c] (+) ... (+) x[rows - 1, c], for at least one row and at most a leaf of them. */
static inline __attribute__((always_inline)) void
N(reduce_leaf_op)(reduce_op op, const T *restrict x, int64_t rows, int64_t stride, int64_t width,
                  T *restrict y)
{
    int64_t r = 1;
    if (rows < 8) {
        memcpy(y, x, (size_t)width * sizeof(T));
    } else {
        for (int64_t c = 0; c < width; c++)
            y[c] = N(reduce_eight)(op, x + c, stride);
        r = 8;
    }
    for (; r + 8 <= rows; r += 8)
        for (int64_t c = 0; c < width; c++)
            y[c] = N(reduce_pair)(op, y[c], N(reduce_eight)(op, x + r * stride + c, stride));
    for (; r < rows; r++)
        N(reduce_merge_op)(op, y, x + r * stride, width);
}

static void N(reduce_merge)(reduce_op op, T *restrict into, const T *restrict x, int64_t width)
{
    switch (op) {
    case REDUCE_SUM: N(reduce_merge_op)(REDUCE_SUM, into, x, width); break;
    case REDUCE_PROD: N(reduce_merge_op)(REDUCE_PROD, into, x, width); break;
    case REDUCE_MAX: N(reduce_merge_op)(REDUCE_MAX, into, x, width); break;
    case REDUCE_MIN: N(reduce_merge_op)(REDUCE_MIN, into, x, width); break;
    }
}

static void N(reduce_leaf)(reduce_op op, const T *restrict x, int64_t rows, int64_t stride,
                           int64_t width, T *restrict y)
{
    switch (op) {
    case REDUCE_SUM: N(reduce_leaf_op)(REDUCE_SUM, x, rows, stride, width, y); break;
    case REDUCE_PROD: N(reduce_leaf_op)(REDUCE_PROD, x, rows, stride, width, y); break;
    case REDUCE_MAX: N(reduce_leaf_op)(REDUCE_MAX, x, rows, stride, width, y); break;
    case REDUCE_MIN: N(reduce_leaf_op)(REDUCE_MIN, x, rows, stride, width, y); break;
    }
}

static void N(reduce_tree)(reduce_op op, const T *restrict x, int64_t rows, int64_t stride,
                           int64_t width, T *restrict y)
{
    if (rows <= REDUCE_LEAF) {
        N(reduce_leaf)(op, x, rows, stride, width, y);
        return;
    }
    T right[REDUCE_BLOCK_BYTES / sizeof(T)];
    int64_t left = REDUCE_LEAF;
    while (2 * left < rows)
        left *= 2;
    N(reduce_tree)(op, x, left, stride, width, y);
    N(reduce_tree)(op, x + left * stride, rows - left, stride, width, right);
    N(reduce_merge)(op, y, right, width);
}

/* The value of a reduction over nothing. */
static T N(reduce_empty)(reduce_op op)
{
    switch (op) {
    case REDUCE_SUM: return 0;
    case REDUCE_PROD: return 1;
    case REDUCE_MAX: return LOWEST;
    default: return HIGHEST;
    }
}

/* From a reduced long row in `part`, `fold` short ones of `width` side by side, to the outputs: the
 * `left` short rows over at `rest` join them, then the row is folded in halves. */
static inline __attribute__((always_inline)) void
N(reduce_fold)(reduce_op op, int64_t fold, int64_t width, int64_t left, const T *restrict rest,
               T *restrict part, T *restrict y)
{
    N(reduce_merge_op)(op, part, rest, left * width);
    for (int64_t half = fold / 2; half > 0; half /= 2)
        N(reduce_merge_op)(op, part, part + half * width, half * width);
    memcpy(y, part, (size_t)width * sizeof(T));
}

/* The same for short rows of any width; single elements get a copy with constant sizes. */
static inline __attribute__((always_inline)) void
N(reduce_finish)(reduce_op op, const reduce_shape *s, const T *x, int64_t width, T *part, T *y)
{
    const T *rest = x + s->rows * s->fold * s->inner;
    const int64_t left = s->length - s->rows * s->fold;
    if (s->inner == 1)
        N(reduce_fold)(op, REDUCE_NARROW, 1, left, rest, part, y);
    else
        N(reduce_fold)(op, s->fold, width, left, rest, part, y);
}

static inline __attribute__((always_inline)) void
N(reduce_unit)(reduce_op op, const reduce_shape *s, const T *x, int64_t width, T *y)
{
    T part[REDUCE_BLOCK_BYTES / sizeof(T)];
    if (s->rows > 0) {
        N(reduce_tree)(op, x, s->rows, s->fold * s->inner, s->fold * width, part);
        N(reduce_finish)(op, s, x, width, part, y);
    } else if (s->length == 0) {
        for (int64_t c = 0; c < width; c++)
            y[c] = N(reduce_empty)(op);
    } else if (s->inner == 1) {
        N(reduce_leaf_op)(op, x, s->length, 1, 1, y);
    } else {
        N(reduce_leaf)(op, x, s->length, s->inner, width, y);
    }
}

/* A deep reduction: every chunk of every unit leaves its row in `partial`. */
typedef struct {
    reduce_op           op;
    const reduce_shape *shape;
    const T            *x;
    T                  *partial; /* [units, chunks, fold * block] */
    T                  *best;    /* [units, chunks]: of every chunk of single elements; or NULL */
} N(reduce_deep);

static hyb_status N(reduce_chunks)(void *context, int64_t begin, int64_t end)
{
    const N(reduce_deep) *deep = context;
    const reduce_shape *s = deep->shape;
    const int64_t stride = s->fold * s->inner, room = s->fold * s->block;
    for (int64_t i = begin; i < end; i++) {
        const reduce_place at = reduce_place_of(s, i / s->chunks);
        const int64_t first = i % s->chunks * REDUCE_CHUNK;
        const int64_t rows = s->rows - first < REDUCE_CHUNK ? s->rows - first : REDUCE_CHUNK;
        N(reduce_tree)(deep->op, deep->x + at.x + first * stride, rows, stride, s->fold * at.width,
                       deep->partial + i * room);
        for (int64_t c = 0; deep->best && c < room; c++) {
            const T value = deep->partial[i * room + c];
            deep->best[i] = c == 0 ? value : N(reduce_pair)(deep->op, deep->best[i], value);
        }
    }
    return HYB_OK;
}

/* With `best`, that points to the best of every chunk in the end, in scratch memory. */
static hyb_status N(reduce_run_deep)(reduce_op op, const reduce_shape *s, const T *x, T *y,
                                     T **best)
{
    const int64_t room = s->fold * s->block, chunks = s->units * s->chunks;
    T *partial = hyb_scratch((size_t)(chunks * (room + 1)) * sizeof(T));
    if (partial == NULL)
        return hyb_fail(HYB_NO_MEMORY, "no memory for the partial results of a reduction");
    N(reduce_deep) deep = {op, s, x, partial, best ? partial + chunks * room : NULL};
    if (best)
        *best = deep.best;
    hyb_status status = hyb_parallel_for(s->units * s->chunks, 1, N(reduce_chunks), &deep);
    if (status != HYB_OK)
        return status;
    for (int64_t unit = 0; unit < s->units; unit++) {
        T *part = partial + unit * s->chunks * room;
        const reduce_place at = reduce_place_of(s, unit);
        for (int64_t step = 1; step < s->chunks; step *= 2)
            for (int64_t i = 0; i + step < s->chunks; i += 2 * step)
                N(reduce_merge)(op, part + i * room, part + (i + step) * room, s->fold * at.width);
        N(reduce_finish)(op, s, x + at.x, at.width, part, y + at.y);
    }
    return HYB_OK;
}

static inline __attribute__((always_inline)) hyb_status
N(reduce_run)(reduce_op op, const hyb_call *call, int64_t begin, int64_t end)
{
    const reduce_shape s = reduce_shape_of(&call->layout[0]);
    const T *x = call->data[0];
    T *y = call->data[1];
    if (s.deep)
        return N(reduce_run_deep)(op, &s, x, y, NULL);
    for (int64_t unit = begin; unit < end; unit++) {
        const reduce_place at = reduce_place_of(&s, unit);
        N(reduce_unit)(op, &s, x + at.x, at.width, y + at.y);
    }
    return HYB_OK;
}

HYB_KERNEL(N(sum)) { return N(reduce_run)(REDUCE_SUM, call, begin, end); }
HYB_KERNEL(N(prod)) { return N(reduce_run)(REDUCE_PROD, call, begin, end); }
HYB_KERNEL(N(max)) { return N(reduce_run)(REDUCE_MAX, call, begin, end); }
HYB_KERNEL(N(min)) { return N(reduce_run)(REDUCE_MIN, call, begin, end); }

/* The first position of `value` in x[0 .. n), or of the first NaN when it is one: whole blocks are
 * tested at once, because a loop that may stop anywhere does not vectorise. */
static int64_t N(reduce_find)(const T *x, int64_t n, T value)
{
    enum { BLOCK = 128 };
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        int found = 0;
        for (int64_t j = 0; j < BLOCK; j++)
            found |= (x[i + j] == value) | IS_NAN(x[i + j]);
        if (found)
            break;
    }
    while (i + 1 < n && !((x[i] == value) | IS_NAN(x[i])))
        i++;
    return i;
}

/* Columns side by side: keep the best value and its row for each. */
static inline __attribute__((always_inline)) void
N(reduce_arg_columns)(reduce_op op, const T *restrict x, int64_t rows, int64_t stride,
                      int64_t width, int64_t *restrict y)
{
    T best[REDUCE_BLOCK_BYTES / sizeof(T)];
    memcpy(best, x, (size_t)width * sizeof(T));
    memset(y, 0, (size_t)width * sizeof(int64_t));
    for (int64_t r = 1; r < rows; r++) {
        const T *restrict row = x + r * stride;
        for (int64_t c = 0; c < width; c++) {
            const T a = best[c], b = row[c];
            const bool keep = (op == REDUCE_MAX ? a >= b : a <= b) | IS_NAN(a);
            best[c] = keep ? a : b;
            y[c] = keep ? y[c] : r;
        }
    }
}

static inline __attribute__((always_inline)) hyb_status
N(reduce_arg)(reduce_op op, const hyb_call *call, int64_t begin, int64_t end)
{
    const reduce_shape s = reduce_shape_of(&call->layout[0]);
    const T *x = call->data[0];
    int64_t *y = call->data[1];
    if (s.inner == 1 && s.deep) {
        T          found[REDUCE_FEW], *best;
        hyb_status status = N(reduce_run_deep)(op, &s, x, found, &best);
        for (int64_t a = 0; status == HYB_OK && a < s.outer; a++, best += s.chunks) {
            int64_t chunk = 0; /* the first that has it; else it is what no chunk holds */
            while (chunk < s.chunks && !(best[chunk] == found[a] || IS_NAN(best[chunk])))
                chunk++;
            const int64_t first = chunk < s.chunks ? chunk * REDUCE_CHUNK * s.fold : s.rows * s.fold;
            y[a] = first + N(reduce_find)(x + a * s.length + first, s.length - first, found[a]);
        }
        return status;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        const reduce_place at = reduce_place_of(&s, unit);
        if (s.inner == 1) {
            T best;
            N(reduce_unit)(op, &s, x + at.x, 1, &best);
            y[unit] = N(reduce_find)(x + at.x, s.length, best);
        } else {
            N(reduce_arg_columns)(op, x + at.x, s.length, s.inner, at.width, y + at.y);
        }
    }
    return HYB_OK;
}

HYB_KERNEL(N(argmax)) { return N(reduce_arg)(REDUCE_MAX, call, begin, end); }
HYB_KERNEL(N(argmin)) { return N(reduce_arg)(REDUCE_MIN, call, begin, end); }

HYB_PREPARE(N(prepare_reduce))
{
    reduce_shape s;
    hyb_status status = reduce_prepare(call, DTYPE, DTYPE, true, &s);
    if (status == HYB_OK)
        *range = reduce_range(&s, s.deep);
    return status;
}

HYB_PREPARE(N(prepare_reduce_extreme))
{
    reduce_shape s;
    hyb_status status = reduce_prepare(call, DTYPE, DTYPE, false, &s);
    if (status == HYB_OK)
        *range = reduce_range(&s, s.deep);
    return status;
}

HYB_PREPARE(N(prepare_reduce_arg))
{
    reduce_shape s;
    hyb_status status = reduce_prepare(call, DTYPE, HYB_I64, false, &s);
    if (status == HYB_OK)
        *range = reduce_range(&s, s.deep && s.inner == 1);
    return status;
}
