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

/* y[c] = x[0, c] (+) ... (+) x[7, c] */
static inline __attribute__((always_inline)) void
N(reduce_start_op)(reduce_op op, const T *restrict x, int64_t stride, int64_t width, T *restrict y)
{
    for (int64_t c = 0; c < width; c++)
        y[c] = N(reduce_eight)(op, x + c, stride);
}

/* y[c] = y[c] (+) x[0, c] (+) ... (+) x[rows - 1, c], eight by eight and then one by one. */
static inline __attribute__((always_inline)) void
N(reduce_more_op)(reduce_op op, const T *restrict x, int64_t rows, int64_t stride, int64_t width,
                  T *restrict y)
{
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8)
        for (int64_t c = 0; c < width; c++)
            y[c] = N(reduce_pair)(op, y[c], N(reduce_eight)(op, x + r * stride + c, stride));
    for (; r < rows; r++)
        N(reduce_merge_op)(op, y, x + r * stride, width);
}

/* Which of two NaN a sum takes is up to the instructions that it compiles to.  So that a column goes
 * through the same ones wherever its rows are, these three have one copy per op, and run over the
 * columns of one block at a time. */
#define REDUCE_OPS(call, ...)                                        \
    switch (op) {                                                    \
    case REDUCE_SUM: N(call##_op)(REDUCE_SUM, __VA_ARGS__); break;   \
    case REDUCE_PROD: N(call##_op)(REDUCE_PROD, __VA_ARGS__); break; \
    case REDUCE_MAX: N(call##_op)(REDUCE_MAX, __VA_ARGS__); break;   \
    case REDUCE_MIN: N(call##_op)(REDUCE_MIN, __VA_ARGS__); break;   \
    }

static __attribute__((noinline)) void
N(reduce_merge_columns)(reduce_op op, T *restrict into, const T *restrict x, int64_t width)
{
    REDUCE_OPS(reduce_merge, into, x, width)
}

static __attribute__((noinline)) void
N(reduce_start)(reduce_op op, const T *restrict x, int64_t stride, int64_t width, T *restrict y)
{
    REDUCE_OPS(reduce_start, x, stride, width, y)
}

static __attribute__((noinline)) void
N(reduce_more)(reduce_op op, const T *restrict x, int64_t rows, int64_t stride, int64_t width,
               T *restrict y)
{
    REDUCE_OPS(reduce_more, x, rows, stride, width, y)
}

static void N(reduce_merge)(reduce_op op, T *into, const T *x, int64_t width)
{
    const int64_t block = REDUCE_BLOCK_BYTES / (int64_t)sizeof(T);
    for (int64_t c = 0; c < width; c += block)
        N(reduce_merge_columns)(op, into + c, x + c, width - c < block ? width - c : block);
}

/* y[c] = x[0, c] (+) ... (+) x[rows - 1, c], for at least one row and at most a leaf of them.
 * A leaf may come in parts, all but the last of groups of eight rows; `first` is its first one. */
static void N(reduce_rows)(reduce_op op, const T *x, int64_t rows, int64_t stride, int64_t width,
                           bool first, T *y)
{
    const int64_t block = REDUCE_BLOCK_BYTES / (int64_t)sizeof(T);
    for (int64_t c = 0; c < width; c += block) {
        const int64_t columns = width - c < block ? width - c : block;
        const int64_t r = !first ? 0 : rows < 8 ? 1 : 8;
        if (r == 1)
            memcpy(y + c, x + c, (size_t)columns * sizeof(T));
        else if (r == 8)
            N(reduce_start)(op, x + c, stride, columns, y + c);
        if (r < rows)
            N(reduce_more)(op, x + r * stride + c, rows - r, stride, columns, y + c);
    }
}

/* Where elements come from: all of them lie at `x`, or those in [begin, end) do, which pre-ops have
 * made in `room`; those from `limit` on are not asked for. */
typedef struct {
    const T       *x;
    int64_t        begin, end, limit;
    const hyb_pre *pre;
    T             *room;
    hyb_status     status;
} N(reduce_source);

static N(reduce_source) N(reduce_source_of)(const hyb_call *call, int64_t at, int64_t limit, T *room)
{
    if (!call->pre)
        return (N(reduce_source)){.x = call->data[0], .end = INT64_MAX};
    return (N(reduce_source)){room, at, at, limit, call->pre, room, HYB_OK};
}

/* The rows of `count` elements that begin at `at`, one after the other in the room. */
static void N(reduce_fill)(N(reduce_source) *from, T *out, int64_t at, int64_t count, int64_t rows,
                           int64_t step)
{
    const hyb_status status = from->pre->fill(from->pre->context, out, at, count, rows, step);
    if (status != HYB_OK)
        from->status = status;
}

/* Elements [at, at + count), which has room; elements are asked for in order.  Some more are made
 * with them, as far as they stay in the nearest cache. */
static const T *N(reduce_take)(N(reduce_source) *from, int64_t at, int64_t count)
{
    if (at + count > from->end) {
        const int64_t few = REDUCE_NEAR_BYTES / (int64_t)sizeof(T), kept = from->end - at;
        const int64_t left = from->limit - from->end, want = (count > few ? count : few) - kept;
        const int64_t more = left < want ? left : want;
        memmove(from->room, from->room + (at - from->begin), (size_t)kept * sizeof(T));
        N(reduce_fill)(from, from->room + kept, from->end, more, 1, more);
        from->begin = at;
        from->end += more;
    }
    return from->x + (at - from->begin);
}

static void N(reduce_leaf)(reduce_op op, N(reduce_source) *from, int64_t at, int64_t rows,
                           int64_t stride, int64_t width, T *restrict y)
{
    if (at + rows * stride <= from->end) { /* they lie there already */
        N(reduce_rows)(op, from->x + (at - from->begin), rows, stride, width, true, y);
        return;
    }
    for (bool first = true; rows > 0; first = false) {
        const T *x = from->room;
        int64_t  n = REDUCE_ROOM_BYTES / (int64_t)sizeof(T) / width;
        if (stride == width) {
            x = N(reduce_take)(from, at, (rows < 8 ? rows : 8) * stride);
            n = (from->end - at) / stride;
        }
        n = n < rows ? n / 8 * 8 : rows;
        if (stride != width)
            N(reduce_fill)(from, from->room, at, width, n, stride);
        N(reduce_rows)(op, x, n, width, width, first, y);
        at += n * stride;
        rows -= n;
    }
}

static void N(reduce_tree)(reduce_op op, N(reduce_source) *from, int64_t at, int64_t rows,
                           int64_t stride, int64_t width, T *restrict y)
{
    if (rows <= REDUCE_LEAF) {
        N(reduce_leaf)(op, from, at, rows, stride, width, y);
        return;
    }
    T right[REDUCE_MADE_BYTES / sizeof(T)];
    int64_t left = REDUCE_LEAF;
    while (2 * left < rows)
        left *= 2;
    N(reduce_tree)(op, from, at, left, stride, width, y);
    N(reduce_tree)(op, from, at + left * stride, rows - left, stride, width, right);
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
N(reduce_halves)(reduce_op op, int64_t fold, int64_t width, int64_t left, const T *restrict rest,
                 T *restrict part, T *restrict y)
{
    N(reduce_merge_op)(op, part, rest, left * width);
    for (int64_t half = fold / 2; half > 0; half /= 2)
        N(reduce_merge_op)(op, part, part + half * width, half * width);
    memcpy(y, part, (size_t)width * sizeof(T));
}

/* The same for short rows of any width; single elements get a copy with constant sizes. */
static inline __attribute__((always_inline)) void
N(reduce_fold_op)(reduce_op op, int64_t fold, int64_t width, int64_t left, const T *restrict rest,
                  T *restrict part, T *restrict y)
{
    if (width == 1 && fold == REDUCE_NARROW)
        N(reduce_halves)(op, REDUCE_NARROW, 1, left, rest, part, y);
    else
        N(reduce_halves)(op, fold, width, left, rest, part, y);
}

/* One copy per op, as above. */
static __attribute__((noinline)) void
N(reduce_fold)(reduce_op op, int64_t fold, int64_t width, int64_t left, const T *restrict rest,
               T *restrict part, T *restrict y)
{
    REDUCE_OPS(reduce_fold, fold, width, left, rest, part, y)
}

static void N(reduce_finish)(reduce_op op, const reduce_shape *s, N(reduce_source) *from,
                             int64_t at, int64_t width, T *part, T *y)
{
    if (s->fold == 1) {
        memcpy(y, part, (size_t)width * sizeof(T));
        return;
    }
    const int64_t left = s->length - s->rows * s->fold;
    const T *rest = part + s->fold * width; /* of no rows */
    if (left > 0)
        rest = N(reduce_take)(from, at + s->rows * s->fold * s->inner, left * s->inner);
    N(reduce_fold)(op, s->fold, width, left, rest, part, y);
}

static inline __attribute__((always_inline)) void
N(reduce_unit)(reduce_op op, const reduce_shape *s, N(reduce_source) *from, int64_t at,
               int64_t width, T *y)
{
    T part[REDUCE_MADE_BYTES / sizeof(T)];
    if (s->rows == 1 && s->inner == 1) { /* the same as below, sooner */
        memcpy(part, N(reduce_take)(from, at, REDUCE_NARROW), REDUCE_NARROW * sizeof(T));
        N(reduce_finish)(op, s, from, at, 1, part, y);
    } else if (s->rows > 0) {
        N(reduce_tree)(op, from, at, s->rows, s->fold * s->inner, s->fold * width, part);
        N(reduce_finish)(op, s, from, at, width, part, y);
    } else if (s->length == 0) {
        for (int64_t c = 0; c < width; c++)
            y[c] = N(reduce_empty)(op);
    } else if (s->inner == 1) {
        const T *x = N(reduce_take)(from, at, s->length);
        const int64_t r = s->length < 8 ? 1 : 8;
        *y = r == 1 ? *x : N(reduce_eight)(op, x, 1);
        N(reduce_more_op)(op, x + r, s->length - r, 1, 1, y);
    } else {
        N(reduce_leaf)(op, from, at, s->length, s->inner, width, y);
    }
}

/* A deep reduction: every chunk of every unit leaves its row in `partial`. */
typedef struct {
    reduce_op           op;
    const reduce_shape *shape;
    const hyb_call     *call;
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
        const int64_t first = i % s->chunks * s->chunk;
        const int64_t rows = s->rows - first < s->chunk ? s->rows - first : s->chunk;
        const int64_t start = at.x + first * stride;
        REDUCE_SOURCE(from, deep->call, start, start + rows * stride);
        N(reduce_tree)(deep->op, &from, start, rows, stride, s->fold * at.width,
                       deep->partial + i * room);
        if (from.status != HYB_OK)
            return from.status;
        for (int64_t c = 0; deep->best && c < room; c++) {
            const T value = deep->partial[i * room + c];
            deep->best[i] = c == 0 ? value : N(reduce_pair)(deep->op, deep->best[i], value);
        }
    }
    return HYB_OK;
}

/* With `best`, that points to the best of every chunk in the end, in scratch memory. */
static hyb_status N(reduce_run_deep)(reduce_op op, const reduce_shape *s, const hyb_call *call,
                                     T *y, T **best)
{
    const int64_t room = s->fold * s->block, chunks = s->units * s->chunks;
    T *partial = hyb_scratch((size_t)(chunks * (room + 1)) * sizeof(T));
    if (partial == NULL)
        return hyb_fail(HYB_NO_MEMORY, "no memory for the partial results of a reduction");
    N(reduce_deep) deep = {op, s, call, partial, best ? partial + chunks * room : NULL};
    if (best)
        *best = deep.best;
    const int64_t columns = s->fold * (s->inner < s->block ? s->inner : s->block);
    const int64_t grain = call->pre ? reduce_grain(call->pre, s->chunk * columns) : 1;
    hyb_status status = hyb_parallel_for(s->units * s->chunks, grain, N(reduce_chunks), &deep);
    if (status != HYB_OK)
        return status;
    for (int64_t unit = 0; unit < s->units; unit++) {
        T *part = partial + unit * s->chunks * room;
        const reduce_place at = reduce_place_of(s, unit);
        for (int64_t step = 1; step < s->chunks; step *= 2)
            for (int64_t i = 0; i + step < s->chunks; i += 2 * step)
                N(reduce_merge)(op, part + i * room, part + (i + step) * room, s->fold * at.width);
        const int64_t end = at.x + s->length * s->inner;
        REDUCE_SOURCE(from, call, at.x + s->rows * s->fold * s->inner, end);
        N(reduce_finish)(op, s, &from, at.x, at.width, part, y + at.y);
        if (from.status != HYB_OK)
            return from.status;
    }
    return HYB_OK;
}

static inline __attribute__((always_inline)) hyb_status
N(reduce_run)(reduce_op op, const hyb_call *call, int64_t begin, int64_t end)
{
    const reduce_shape s = reduce_shape_of(call);
    T *y = call->data[1];
    if (s.deep)
        return N(reduce_run_deep)(op, &s, call, y, NULL);
    REDUCE_SOURCE(from, call, reduce_place_of(&s, begin).x, reduce_place_of(&s, end).x);
    for (int64_t unit = begin; unit < end; unit++) {
        const reduce_place at = reduce_place_of(&s, unit);
        N(reduce_unit)(op, &s, &from, at.x, at.width, y + at.y);
    }
    return from.status;
}

#undef REDUCE_OPS

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
    const reduce_shape s = reduce_shape_of(call);
    const T *x = call->data[0];
    int64_t *y = call->data[1];
    if (s.inner == 1 && s.deep) {
        T          found[REDUCE_FEW], *best;
        hyb_status status = N(reduce_run_deep)(op, &s, call, found, &best);
        for (int64_t a = 0; status == HYB_OK && a < s.outer; a++, best += s.chunks) {
            int64_t chunk = 0; /* the first that has it; else it is what no chunk holds */
            while (chunk < s.chunks && !(best[chunk] == found[a] || IS_NAN(best[chunk])))
                chunk++;
            const int64_t first = chunk < s.chunks ? chunk * s.chunk * s.fold : s.rows * s.fold;
            y[a] = first + N(reduce_find)(x + a * s.length + first, s.length - first, found[a]);
        }
        return status;
    }
    REDUCE_SOURCE(from, call, 0, 0);
    for (int64_t unit = begin; unit < end; unit++) {
        const reduce_place at = reduce_place_of(&s, unit);
        if (s.inner == 1) {
            T best;
            N(reduce_unit)(op, &s, &from, at.x, 1, &best);
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
        *range = reduce_range(call, &s, s.deep);
    return status;
}

HYB_PREPARE(N(prepare_reduce_extreme))
{
    reduce_shape s;
    hyb_status status = reduce_prepare(call, DTYPE, DTYPE, false, &s);
    if (status == HYB_OK)
        *range = reduce_range(call, &s, s.deep);
    return status;
}

HYB_PREPARE(N(prepare_reduce_arg))
{
    reduce_shape s;
    hyb_status status = reduce_prepare(call, DTYPE, HYB_I64, false, &s);
    if (status == HYB_OK)
        *range = reduce_range(call, &s, s.deep && s.inner == 1);
    return status;
}
