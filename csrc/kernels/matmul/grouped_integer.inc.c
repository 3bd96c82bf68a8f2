/* matmul/grouped_integer.inc.c - products of int8 with weights of 4 or 8 bits in groups along k;
 * included by matmul/family.inc.c.
 *
 *   y[m, n] = sum over groups g, in order, of float(sum over k in g of x[m, k] * q[n, k]) * scale[n, g]
 *
 * Operands as in matmul/grouped.inc.c, but for x, int8 [M, K].  Attributes i: group.
 * Split      columns, GROUPED_COLUMNS at a time.
 * Layout     all operands dense.
 * Accuracy   sums of a group are exact, in int32; then each product and each sum is rounded once.
 * Bits       the same on every instruction set.
 *
 * A vector holds the lower halves of its bytes, which are every second weight, then the upper ones;
 * x lies so, too.  Halves are unsigned (8 more than q), so products with int8 add up in 16 bits: 8
 * pairs are at most 8 * 2 * 15 * 128.  A lane of 32 bits has 8 neighbours along k.  What the 8 make
 * is taken from the sum of a group: 8 times the sum of x.
 */
enum { GROUPED_STRIPE = 64, GROUPED_ROWS = 2, GROUPED_IN_16_BITS = 4, GROUPED_AHEAD = 4096 };

typedef struct {
    const int8_t  *x;
    const uint8_t *w;
    const float   *scale;
    float         *y;
    int64_t        m, n, k, pitch, group, groups;
    bool           halves;
    int64_t        block, blocks; /* weights of a vector; vectors of a row */
    int64_t        span;          /* vectors that are added up, lane by lane, of a group: 0, by lanes */
    int64_t        fold;          /* sums of lanes that a group has */
} grouped_integers;

static grouped_integers grouped_integers_of(const hyb_call *call)
{
    const hyb_layout *x = &call->layout[0], *w = &call->layout[1];
    grouped_integers job = {
        .x = call->data[0], .w = call->data[1], .scale = call->data[2], .y = call->data[3],
        .m = x->shape[0], .k = x->shape[1], .n = w->shape[0], .pitch = w->shape[1],
        .group = call->attrs[0].i, .groups = call->layout[2].shape[1],
        .halves = w->dtype == HYB_U8, .block = 8 * HYB_LANES_32,
    };
    job.blocks = matmul_ceil(job.k, job.block);
    if (job.groups == 1)
        job.group = job.halves ? job.blocks * job.block : job.k;
    job.halves = job.halves && job.group % 8 == 0;
    if (job.group % job.block == 0) {
        job.span = job.group / job.block;
        job.fold = HYB_LANES_32 / 4;
    } else if (job.group == 32) {
        job.span = job.fold = 1;
    } else {
        job.fold = job.group / 8;
    }
    return job;
}

/* A row of x as vectors of weights meet it, and 8 times the sum of each group. */
static void grouped_integer_row(const grouped_integers *job, const int8_t *x, int8_t *to,
                                int32_t *away)
{
    enum { HALF = HYB_VECTOR_BYTES };
    const int64_t whole = job->k / job->block;
    for (int64_t b = 0; b < job->blocks; b++, x += job->block, to += job->block) {
        if (b < whole) {
            for (int64_t i = 0; i < HALF; i++) {
                to[i] = x[2 * i];
                to[HALF + i] = x[2 * i + 1];
            }
            continue;
        }
        memset(to, 0, 2 * HALF);
        for (int64_t i = 0; i < job->k - b * job->block; i++)
            to[i % 2 * HALF + i / 2] = x[i];
    }
    x -= job->blocks * job->block;
    for (int64_t g = 0; g < job->groups; g++) {
        const int64_t stop = matmul_smaller((g + 1) * job->group, job->k);
        int32_t sum = 0;
        for (int64_t k = g * job->group; k < stop; k++)
            sum += x[k];
        away[g] = 8 * sum;
    }
}

/* The products of a vector of weights, in pairs; `nbytes` of it are there. */
static inline __attribute__((always_inline)) v_i16 grouped_integer_pairs(const uint8_t *w,
                                                                         const int8_t *x,
                                                                         int64_t nbytes)
{
    const v_u8 fifteen = v_splat_u8(15);
    const v_u8 bytes = nbytes >= HYB_VECTOR_BYTES ? v_load_u8(w) : v_load_part_u8(w, nbytes);
    const v_u8 upper = (v_u8)((v_u16)bytes >> 4) & fifteen;
    return v_pairs_of_bytes(bytes & fifteen, v_load_i8(x)) +
           v_pairs_of_bytes(upper, v_load_i8(x + HYB_VECTOR_BYTES));
}

/* The products of vectors [first, last) of a row of weights, lane by lane. */
static v_i32 grouped_integer_lanes(const grouped_integers *job, const uint8_t *w, const int8_t *x,
                                   int64_t first, int64_t last)
{
    v_i32 sum = {0};
    for (int64_t b = first; b < last;) {
        const int64_t stop = matmul_smaller(b + GROUPED_IN_16_BITS, last);
        v_i16 pairs = {0};
        for (; b < stop; b++)
            pairs += grouped_integer_pairs(w + b * HYB_VECTOR_BYTES, x + b * 2 * HYB_VECTOR_BYTES,
                                           job->pitch - b * HYB_VECTOR_BYTES);
        sum += v_dot_i16(pairs, v_splat_i16(1));
    }
    return sum;
}

/* Four sums of `span` vectors each, all of which are there, with each of `count` rows of x that lie
 * `step` apart; inlined with constant numbers.  Rows share what is taken out of bytes. */
static inline __attribute__((always_inline)) void
grouped_integer_four(const uint8_t *w, const int8_t *x, int64_t step, int count, int span,
                     v_i32 made[GROUPED_ROWS])
{
    const v_u8 fifteen = v_splat_u8(15);
    v_i32 four[GROUPED_ROWS][4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v_i16 pairs[GROUPED_ROWS] = {{0}};
        __builtin_prefetch(w + GROUPED_AHEAD);
#pragma GCC unroll 4
        for (int s = 0; s < span; s++, w += HYB_VECTOR_BYTES, x += 2 * HYB_VECTOR_BYTES) {
            const v_u8 bytes = v_load_u8(w), lower = bytes & fifteen;
            const v_u8 upper = (v_u8)((v_u16)bytes >> 4) & fifteen;
#pragma GCC unroll 2
            for (int r = 0; r < count; r++)
                pairs[r] += v_pairs_of_bytes(lower, v_load_i8(x + r * step)) +
                            v_pairs_of_bytes(upper, v_load_i8(x + r * step + HYB_VECTOR_BYTES));
        }
#pragma GCC unroll 2
        for (int r = 0; r < count; r++)
            four[r][i] = v_dot_i16(pairs[r], v_splat_i16(1));
    }
#pragma GCC unroll 2
    for (int r = 0; r < count; r++)
        made[r] = v_sums_of_4(four[r][0], four[r][1], four[r][2], four[r][3]);
}

static inline int64_t grouped_integer_padded(int64_t n) /* with room for four vectors of lanes */
{
    return matmul_ceil(n, 4 * HYB_LANES_32) * 4 * HYB_LANES_32;
}

/* Sums of whole fours of vectors of a row of weights, to to[row][place]: how many vectors they are.
 * Inlined with constant numbers. */
static inline __attribute__((always_inline)) int64_t
grouped_integer_fours(const grouped_integers *job, const uint8_t *w, const int8_t *x, int count,
                      int span, int32_t *to, int64_t pitch)
{
    const int64_t whole = job->pitch / HYB_VECTOR_BYTES, step = job->blocks * job->block;
    int64_t b = 0;
    for (; b + 4 * span <= whole; b += 4 * span, to += HYB_LANES_32) {
        v_i32 made[GROUPED_ROWS];
        grouped_integer_four(w + b * HYB_VECTOR_BYTES, x + b * 2 * HYB_VECTOR_BYTES, step, count,
                             span, made);
#pragma GCC unroll 2
        for (int r = 0; r < count; r++)
            v_store_i32(to + r * pitch, made[r]);
    }
    return b;
}

/* What is left behind `b` vectors of the same, of one row. */
static void grouped_integer_rest(const grouped_integers *job, const uint8_t *w, const int8_t *x,
                                 int64_t b, int32_t *to)
{
    const int64_t step = 4 * job->span;
    if (step > 0)
        to += b / step * HYB_LANES_32;
    for (; b < job->blocks && step > 0; b += step, to += HYB_LANES_32) {
        v_i32 four[4];
        for (int i = 0; i < 4; i++) {
            const int64_t first = b + i * job->span;
            const int64_t last = matmul_smaller(first + job->span, job->blocks);
            four[i] = grouped_integer_lanes(job, w, x, first, last);
        }
        v_store_i32(to, v_sums_of_4(four[0], four[1], four[2], four[3]));
    }
    for (; b < job->blocks; b++, to += HYB_LANES_32)
        v_store_i32(to, grouped_integer_lanes(job, w, x, b, b + 1));
}

/* What `made` sums of lanes add up to, group by group. */
static void grouped_integer_fold(const grouped_integers *job, const int32_t *parts, int64_t made,
                                 int32_t *sums)
{
    const int64_t pairs = job->fold == 2 ? matmul_smaller(job->groups, made / 2) : 0;
    for (int64_t g = 0; g < pairs; g++)
        sums[g] = parts[2 * g] + parts[2 * g + 1];
    for (int64_t g = pairs; g < job->groups; g++) {
        const int64_t stop = matmul_smaller((g + 1) * job->fold, made);
        int32_t sum = 0;
        for (int64_t i = g * job->fold; i < stop; i++)
            sum += parts[i];
        sums[g] = sum;
    }
}

/* The sums of the groups of a row of weights with `count` rows of x, to sums[row][group]; `parts`
 * has room for one of each lane of each row. */
static void grouped_integer_sums(const grouped_integers *job, const uint8_t *w, const int8_t *x,
                                 int64_t count, int32_t *parts, int32_t *sums)
{
    const int64_t padded = grouped_integer_padded(job->groups);
    const int64_t lanes = grouped_integer_padded(job->blocks * HYB_LANES_32);
    int32_t *to = job->fold == 1 ? sums : parts;
    const int64_t pitch = job->fold == 1 ? padded : lanes;
    int64_t b = 0;
#define FOURS(span)                                                                              \
    b = count == 2 ? grouped_integer_fours(job, w, x, 2, span, to, pitch)                        \
                   : grouped_integer_fours(job, w, x, 1, span, to, pitch)
    if (job->span == 1)
        FOURS(1);
    else if (job->span == 2)
        FOURS(2);
    else if (job->span == 4)
        FOURS(4);
#undef FOURS
    const int64_t step = 4 * job->span;
    const int64_t made = HYB_LANES_32 * (step > 0 ? matmul_ceil(job->blocks, step) : job->blocks);
    for (int64_t r = 0; r < count; r++) {
        grouped_integer_rest(job, w, x + r * job->blocks * job->block, b, to + r * pitch);
        if (job->fold > 1)
            grouped_integer_fold(job, parts + r * lanes, made, sums + r * padded);
    }
}

/* Room: rows of x, 8 times their sums, parts and sums of some rows, products of LANES rows of weights
 * with each of them. */
static size_t grouped_integer_nbytes(const grouped_integers *job)
{
    const int64_t rows = matmul_smaller(job->m, GROUPED_STRIPE);
    const int64_t padded = grouped_integer_padded(job->groups);
    const int64_t lanes = grouped_integer_padded(job->blocks * HYB_LANES_32);
    const int64_t words = rows * padded + GROUPED_ROWS * (lanes + padded + HYB_LANES_32 * padded);
    return (size_t)(words * 4 + rows * job->blocks * job->block);
}

/* The sums of one row's products[column][group], group after group. */
static v_f32 grouped_integer_total(const grouped_integers *job, const float *products,
                                   int64_t columns)
{
    const int64_t padded = grouped_integer_padded(job->groups);
    v_f32 total = {0};
    for (int64_t g = 0; g < job->groups; g += HYB_LANES_32) {
        v_f32 square[HYB_LANES_32];
        for (int l = 0; l < HYB_LANES_32; l++)
            square[l] = v_load_f32(products + matmul_smaller(l, columns - 1) * padded + g);
        matmul_transpose_f32(square);
        const int64_t left = matmul_smaller(job->groups - g, HYB_LANES_32);
        if (left == HYB_LANES_32)
#pragma GCC unroll 16
            for (int l = 0; l < HYB_LANES_32; l++)
                total += square[l];
        else
            for (int64_t l = 0; l < left; l++)
                total += square[l];
    }
    return total;
}

static void grouped_integer_by_vectors(const grouped_integers *job, int64_t begin, int64_t end,
                                       char *scratch)
{
    const int64_t padded = grouped_integer_padded(job->groups), row = job->blocks * job->block;
    float *products = (float *)scratch;
    int32_t *sums = (int32_t *)(products + GROUPED_ROWS * HYB_LANES_32 * padded);
    int32_t *parts = sums + GROUPED_ROWS * padded;
    int32_t *away = parts + GROUPED_ROWS * grouped_integer_padded(job->blocks * HYB_LANES_32);
    for (int64_t r0 = 0; r0 < job->m; r0 += GROUPED_STRIPE) {
        const int64_t rows = matmul_smaller(job->m - r0, GROUPED_STRIPE);
        int8_t *x = (int8_t *)(away + rows * padded);
        memset(away, 0, (size_t)(rows * padded) * sizeof *away);
        for (int64_t r = 0; r < rows; r++)
            grouped_integer_row(job, job->x + (r0 + r) * job->k, x + r * row, away + r * padded);
        for (int64_t n = begin; n < end; n += HYB_LANES_32) {
            const int64_t columns = matmul_smaller(end - n, HYB_LANES_32);
            for (int64_t r = 0; r < rows; r += GROUPED_ROWS) {
                const int64_t count = matmul_smaller(rows - r, GROUPED_ROWS);
                for (int64_t c = 0; c < columns; c++) {
                    const float *scale = job->scale + (n + c) * job->groups;
                    grouped_integer_sums(job, job->w + (n + c) * job->pitch, x + r * row, count,
                                         parts, sums);
                    for (int64_t i = 0; i < count; i++)
                        for (int64_t g = 0; g < job->groups; g += HYB_LANES_32) {
                            const v_i32 sum = v_load_i32(sums + i * padded + g) -
                                              v_load_i32(away + (r + i) * padded + g);
                            const v_f32 factor = grouped_load(scale + g, job->groups - g);
                            v_store_f32(products + (i * HYB_LANES_32 + c) * padded + g,
                                        __builtin_convertvector(sum, v_f32) * factor);
                        }
                }
                for (int64_t i = 0; i < count; i++)
                    matmul_put_f32(job->y + (r0 + r + i) * job->n + n,
                                   grouped_integer_total(job, products + i * HYB_LANES_32 * padded,
                                                         columns),
                                   columns, false);
            }
        }
    }
}

/* Weights of 8 bits, and groups of any size: a row of weights at a time. */
static void grouped_integer_by_rows(const grouped_integers *job, bool bytes, int64_t begin,
                                    int64_t end, int8_t *row)
{
    for (int64_t n = begin; n < end; n++) {
        const uint8_t *w = job->w + n * job->pitch;
        const int8_t *q = (const int8_t *)w;
        if (!bytes) {
            for (int64_t k = 0; k < job->k; k++)
                row[k] = (int8_t)((w[k / 2] >> 4 * (k & 1) & 15) - 8);
            q = row;
        }
        for (int64_t r = 0; r < job->m; r++) {
            const int8_t *x = job->x + r * job->k;
            float total = 0;
            for (int64_t g = 0; g < job->groups; g++) {
                const int64_t stop = matmul_smaller((g + 1) * job->group, job->k);
                int32_t sum = 0;
                for (int64_t k = g * job->group; k < stop; k++)
                    sum += (int32_t)x[k] * (int32_t)q[k];
                float product = (float)sum * job->scale[n * job->groups + g];
                v_hold(product); /* rounded before it is added */
                total += product;
            }
            job->y[r * job->n + n] = total;
        }
    }
}

HYB_KERNEL(matmul_grouped_integer)
{
    const grouped_integers job = grouped_integers_of(call);
    begin *= GROUPED_COLUMNS;
    end = matmul_smaller(end * GROUPED_COLUMNS, job.n);
    if (begin >= end || job.m == 0)
        return HYB_OK;
    void *scratch = hyb_scratch(job.halves ? grouped_integer_nbytes(&job) : (size_t)job.k + 1);
    if (!scratch)
        return hyb_fail(HYB_NO_MEMORY, "matmul_grouped_integer: no memory for rows of %lld items",
                        (long long)job.k);
    if (job.halves)
        grouped_integer_by_vectors(&job, begin, end, scratch);
    else
        grouped_integer_by_rows(&job, call->layout[1].dtype == HYB_I8, begin, end, scratch);
    return HYB_OK;
}

HYB_PREPARE(prepare_matmul_grouped_integer)
{
    const hyb_status status = grouped_require(call, "matmul_grouped_integer", HYB_I8, HYB_F32,
                                              false);
    if (status == HYB_OK)
        *range = grouped_range(call);
    return status;
}
