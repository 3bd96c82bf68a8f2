/* matmul/grouped_dots.inc.c - few rows times weights in groups; included by matmul/grouped.inc.c.
 *
 * A vector of w is LANES words of 8 halves, and x lies so that lane and word meet.  Half i of a word
 * is masked where it stands, which makes it 16^(i mod 4) times as large, and x is divided by that:
 * exact, and there is little to shift.  The 8 that halves have more is taken from each lane of the
 * sum, times what it adds up of x.  Sums of one vector are scaled at once.  Rows share weights.
 */
/* x as vectors of weights meet it, and what is added up of it. */
typedef struct {
    float *x, *away, *sums; /* of a row: blocks * block; blocks * LANES; groups, padded */
    int64_t padded;
} grouped_rows;

static inline int64_t grouped_padded(int64_t n)
{
    return (n + HYB_LANES_32 - 1) / HYB_LANES_32 * HYB_LANES_32;
}

static size_t grouped_rows_items(const grouped_job *job)
{
    return (size_t)(job->m * (job->blocks * (job->block + HYB_LANES_32) +
                              grouped_padded(job->groups)));
}

/* A block of x as a vector of weights meets it: lane l of vector i has number 8 l + i, but for
 * v_look_up_halves. */
static inline void grouped_block(const float *x, grouped_kind kind, v_f32 found[8])
{
#if HYB_TABLES_OF_PLANES
    if (kind == GROUPED_PLANES) {
        v_as_halves(x, found);
        return;
    }
#endif
    (void)kind;
#if HYB_LANES_32 <= 8
    for (int first = 0; first < 8; first += HYB_LANES_32) {
        for (int l = 0; l < HYB_LANES_32; l++)
            found[first + l] = v_load_f32(x + 8 * l + first);
        matmul_transpose_f32(found + first);
    }
#else
    for (int i = 0; i < 8; i++)
        for (int l = 0; l < HYB_LANES_32; l++)
            found[i][l] = x[8 * l + i];
#endif
}

/* A row of x, vector by vector, and -8 times what each lane adds up of it. */
static void grouped_row_of_x(const grouped_job *job, const float *x, float *to, float *away)
{
    float last[8 * HYB_LANES_32];
    for (int64_t b = 0; b < job->blocks; b++, x += job->block, to += job->block) {
        const int64_t left = job->k - b * job->block;
        const float *from = x;
        if (left < job->block) {
            memset(last, 0, sizeof last);
            memcpy(last, x, (size_t)left * sizeof *last);
            from = last;
        }
        if (job->kind == GROUPED_BYTES) {
            memcpy(to, from, (size_t)job->block * sizeof *to);
            continue;
        }
        v_f32 found[8];
        grouped_block(from, job->kind, found);
        if (job->kind == GROUPED_HALVES) {
            v_f32 sum = {0};
            for (int i = 0; i < 8; i++)
                sum += found[i];
            v_store_f32(away + b * HYB_LANES_32, sum * -8.0f);
            for (int i = 0; i < 8; i++) /* half i of a word counts 16^i times, and from 4 on anew */
                found[i] *= 1.0f / (float)(1 << 4 * (i % 4));
        }
        for (int i = 0; i < 8; i++)
            v_store_f32(to + i * HYB_LANES_32, found[i]);
    }
}

static grouped_rows grouped_rows_of(const grouped_job *job, float *scratch)
{
    grouped_rows rows = {.x = scratch, .padded = grouped_padded(job->groups)};
    const int64_t items = job->blocks * job->block;
    rows.away = rows.x + job->m * items;
    rows.sums = rows.away + job->m * job->blocks * HYB_LANES_32;
    for (int64_t r = 0; r < job->m; r++) {
        const float *x = job->x + r * job->k;
        grouped_row_of_x(job, x, rows.x + r * items, rows.away + r * job->blocks * HYB_LANES_32);
        float *sums = rows.sums + r * rows.padded;
        memset(sums, 0, (size_t)rows.padded * sizeof(float));
        for (int64_t g = 0; g < job->groups && job->zero; g++) {
            const int64_t stop = matmul_smaller((g + 1) * job->group, job->k);
            for (int64_t k = g * job->group; k < stop; k++)
                sums[g] += x[k];
        }
    }
    return rows;
}

/* Some columns side by side: where their weights and scales are. */
typedef struct {
    const uint8_t *w;
    int64_t        pitch;
    const float   *scale;
    int64_t        row;         /* the first row of x */
    int64_t        first, last; /* vectors of weights; w is at the first */
} grouped_part;

/* sum[column][row] += products; inlined with constant numbers and kind. */
static inline __attribute__((always_inline)) void
grouped_dots(const grouped_job *job, const grouped_rows *rows, grouped_part part, int columns,
             int count, grouped_kind kind, bool several, v_f32 sum[GROUPED_TOGETHER][GROUPED_TOGETHER])
{
    const int64_t items = job->blocks * job->block;
    const float *x = rows->x + part.row * items + part.first * job->block;
    const float *away = rows->away + (part.row * job->blocks + part.first) * HYB_LANES_32;
    v_u8 planes[4];
#if HYB_TABLES_OF_PLANES
    if (kind == GROUPED_PLANES)
        v_planes_of(grouped_values, planes);
#else
    (void)planes;
#endif
    const int vectors = 8;
    const int64_t per = several ? job->block / job->group : 1;
    int64_t g = several ? part.first * per : matmul_quotient(part.first, job->span);
    int64_t left = several ? 0 : (g + 1) * job->span - part.first;
    for (int64_t b = part.first; b < part.last; b++) {
        v_i32 words[GROUPED_TOGETHER];
        v_f32 own[GROUPED_TOGETHER][GROUPED_TOGETHER], found[GROUPED_TOGETHER][8];
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            const uint8_t *at = part.w + c * part.pitch;
            words[c] = (v_i32){0};
            if (count == 1) /* those of the next columns: nothing else would come early enough */
                __builtin_prefetch(at + columns * part.pitch);
            if (kind == GROUPED_HALVES || kind == GROUPED_TABLE)
                words[c] = (v_i32)v_load_u8(at);
#if HYB_TABLES_OF_PLANES
            if (kind == GROUPED_PLANES)
                v_look_up_halves(v_load_u8(at), planes, found[c]);
#endif
#pragma GCC unroll 4
            for (int r = 0; r < count; r++)
                own[c][r] = kind == GROUPED_HALVES ? v_load_f32(away + r * job->blocks * HYB_LANES_32)
                                                   : (v_f32){0};
        }
        /* Chains of different columns side by side: one alone would wait for itself. */
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) {
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                v_f32 value;
                if (kind == GROUPED_HALVES)
                    value = __builtin_convertvector(words[c] & 15 << 4 * (i % 4), v_f32);
                else if (kind == GROUPED_TABLE)
                    value = v_look_up_f32(grouped_values, words[c] >> 4 * i & 15);
                else
                    value = found[c][i];
                if (kind == GROUPED_HALVES && i == 3)
                    words[c] = words[c] >> 16;
#pragma GCC unroll 4
                for (int r = 0; r < count; r++)
                    own[c][r] += value * v_load_f32(x + r * items + i * HYB_LANES_32);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            const float *from = part.scale + c * job->groups + g;
            v_f32 scale;
            if (several)
                scale = v_pick_f32(grouped_load(from, job->groups - g), job->lane);
            else
                scale = v_splat_f32(*from);
#pragma GCC unroll 4
            for (int r = 0; r < count; r++)
                sum[c][r] += scale * own[c][r];
        }
        part.w += HYB_VECTOR_BYTES;
        x += vectors * HYB_LANES_32;
        away += HYB_LANES_32;
        if (several) {
            g += per;
        } else if (--left == 0) {
            left = job->span;
            g++;
        }
    }
}

/* The same of bytes, whose groups are whole vectors: a group at a time, scaled at its end. */
static inline __attribute__((always_inline)) void
grouped_byte_dots(const grouped_job *job, const grouped_rows *rows, grouped_part part, int columns,
                  int count, v_f32 sum[GROUPED_TOGETHER][GROUPED_TOGETHER])
{
    const int64_t items = job->blocks * job->block;
    const float *x = rows->x + part.row * items + part.first * job->block;
    const uint8_t *w = part.w;
    int64_t g = matmul_quotient(part.first, job->span);
    for (int64_t b = part.first; b < part.last; g++) {
        const int64_t stop = matmul_smaller(part.last, (g + 1) * job->span);
        v_f32 own[GROUPED_TOGETHER][GROUPED_TOGETHER] = {{{0}}};
        for (; b < stop; b++, w += HYB_LANES_32, x += HYB_LANES_32) {
            v_f32 value[GROUPED_TOGETHER];
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++)
                value[c] = __builtin_convertvector(v_spread_i8(w + c * part.pitch), v_f32);
#pragma GCC unroll 4
            for (int r = 0; r < count; r++) {
                v_f32 item = v_load_f32(x + r * items);
                v_hold(item); /* or it would be loaded for each column */
#pragma GCC unroll 4
                for (int c = 0; c < columns; c++)
                    own[c][r] += value[c] * item;
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
            for (int r = 0; r < count; r++)
                sum[c][r] += v_splat_f32(part.scale[c * job->groups + g]) * own[c][r];
    }
}

typedef void (*grouped_dots_fn)(const grouped_job *job, const grouped_rows *rows, grouped_part part,
                                v_f32 sum[GROUPED_TOGETHER][GROUPED_TOGETHER]);

#define GROUPED_DOTS(name, kind, several, columns, count)                                        \
    static void grouped_##name##_##several##_##columns##x##count(                                \
        const grouped_job *job, const grouped_rows *rows, grouped_part part,                     \
        v_f32 sum[GROUPED_TOGETHER][GROUPED_TOGETHER])                                           \
    {                                                                                            \
        if (kind == GROUPED_BYTES)                                                               \
            grouped_byte_dots(job, rows, part, columns, count, sum);                             \
        else                                                                                     \
            grouped_dots(job, rows, part, columns, count, kind, several, sum);                   \
    }
#define GROUPED_EACH(name, kind, several)                                                        \
    GROUPED_DOTS(name, kind, several, 1, 1) GROUPED_DOTS(name, kind, several, 1, 2)              \
    GROUPED_DOTS(name, kind, several, 1, 4) GROUPED_DOTS(name, kind, several, 4, 1)
#define GROUPED_ENTRY(name, several)                                                             \
    {{grouped_##name##_##several##_1x1, grouped_##name##_##several##_1x2,                        \
      grouped_##name##_##several##_1x4},                                                         \
     {NULL, NULL, NULL},                                                                         \
     {grouped_##name##_##several##_4x1, NULL, NULL}}
GROUPED_EACH(halves, GROUPED_HALVES, 0)
GROUPED_EACH(halves, GROUPED_HALVES, 1)
GROUPED_EACH(bytes, GROUPED_BYTES, 0)
GROUPED_DOTS(bytes, GROUPED_BYTES, 0, 2, 1)
GROUPED_DOTS(bytes, GROUPED_BYTES, 0, 2, 2)
GROUPED_DOTS(bytes, GROUPED_BYTES, 0, 2, 4)
#if HYB_TABLES_OF_16
GROUPED_EACH(table, GROUPED_TABLE, 0)
GROUPED_EACH(table, GROUPED_TABLE, 1)
#endif
#if HYB_TABLES_OF_PLANES
GROUPED_EACH(planes, GROUPED_PLANES, 0)
GROUPED_EACH(planes, GROUPED_PLANES, 1)
#endif
/* [kind][whether a vector has several groups][1, 2 or 4 columns][1, 2 or 4 rows]. */
static const grouped_dots_fn grouped_ways[4][2][3][3] = {
    [GROUPED_HALVES] = {GROUPED_ENTRY(halves, 0), GROUPED_ENTRY(halves, 1)},
    [GROUPED_BYTES] = {{{grouped_bytes_0_1x1, grouped_bytes_0_1x2, grouped_bytes_0_1x4},
                        {grouped_bytes_0_2x1, grouped_bytes_0_2x2, grouped_bytes_0_2x4},
                        {grouped_bytes_0_4x1, NULL, NULL}}},
#if HYB_TABLES_OF_16
    [GROUPED_TABLE] = {GROUPED_ENTRY(table, 0), GROUPED_ENTRY(table, 1)},
#endif
#if HYB_TABLES_OF_PLANES
    [GROUPED_PLANES] = {GROUPED_ENTRY(planes, 0), GROUPED_ENTRY(planes, 1)},
#endif
};
#undef GROUPED_ENTRY
#undef GROUPED_EACH
#undef GROUPED_DOTS

enum { GROUPED_TILE = 16 }; /* columns whose sums are kept: a multiple of a vector */

/* Adds vectors [first, last) of some columns, from n on, to sum[row][column]. */
static void grouped_stretch(const grouped_job *job, const grouped_rows *rows, int64_t n,
                            int64_t columns, int64_t first, int64_t last,
                            v_f32 sum[GROUPED_FEW][GROUPED_TILE])
{
    const grouped_dots_fn(*ways)[3] = grouped_ways[job->kind][job->span == 0];
    const int64_t nbytes = job->kind == GROUPED_BYTES ? HYB_LANES_32 : HYB_VECTOR_BYTES;
    for (int64_t c = 0; c < columns;) {
        int64_t some = job->m == 1 && columns - c >= GROUPED_TOGETHER ? GROUPED_TOGETHER : 1;
        if (job->kind == GROUPED_BYTES && job->m > 1 && columns - c >= 2)
            some = 2;
        const uint8_t *w = job->w + (n + c) * job->pitch;
        grouped_part part = {w + first * nbytes, job->pitch, job->scale + (n + c) * job->groups,
                             0, first, last};
        uint8_t copy[GROUPED_TOGETHER][HYB_VECTOR_BYTES];
        if (last * nbytes > job->pitch) { /* it is one vector: what is behind it may not be there */
            for (int64_t i = 0; i < some; i++)
                v_store_u8(copy[i], v_load_part_u8(w + i * job->pitch + first * nbytes,
                                                   job->pitch - first * nbytes));
            part.w = copy[0];
            part.pitch = HYB_VECTOR_BYTES;
        }
        for (int64_t r = 0; r < job->m;) {
            const int64_t left = job->m - r, count = left >= 4 ? 4 : left >= 2 ? 2 : 1;
            v_f32 own[GROUPED_TOGETHER][GROUPED_TOGETHER];
            for (int64_t i = 0; i < some; i++)
                for (int64_t j = 0; j < count; j++)
                    own[i][j] = sum[r + j][c + i];
            part.row = r;
            ways[some / 2][count / 2](job, rows, part, own);
            for (int64_t i = 0; i < some; i++)
                for (int64_t j = 0; j < count; j++)
                    sum[r + j][c + i] = own[i][j];
            r += count;
        }
        c += some;
    }
}

static void grouped_by_vectors(const grouped_job *job, const grouped_rows *rows, int64_t begin,
                               int64_t end)
{
    const int64_t nbytes = job->kind == GROUPED_BYTES ? HYB_LANES_32 : HYB_VECTOR_BYTES;
    const int64_t whole = job->pitch / nbytes;
    const int64_t depth = job->m == 1 ? job->blocks : GROUPED_DEPTH / job->block;
    for (int64_t n = begin; n < end; n += GROUPED_TILE) {
        const int64_t columns = matmul_smaller(end - n, GROUPED_TILE);
        v_f32 sum[GROUPED_FEW][GROUPED_TILE];
        for (int64_t r = 0; r < job->m; r++)
            for (int64_t c = 0; c < GROUPED_TILE; c++)
                sum[r][c] = (v_f32){0};
        for (int64_t b = 0; b < whole; b += depth)
            grouped_stretch(job, rows, n, columns, b, matmul_smaller(b + depth, whole), sum);
        if (whole < job->blocks)
            grouped_stretch(job, rows, n, columns, whole, whole + 1, sum);
        for (int64_t r = 0; r < job->m; r++) {
            const float *x = rows->sums + r * rows->padded;
            for (int64_t c = 0; c < columns && job->zero; c++) {
                const float *zero = job->zero + (n + c) * job->groups;
                for (int64_t g = 0; g < job->groups; g += HYB_LANES_32) {
                    sum[r][c] += v_load_f32(x + g) * grouped_load(zero + g, job->groups - g);
                }
            }
            for (int64_t c = 0; c < columns; c += HYB_LANES_32) {
                v_f32 square[HYB_LANES_32];
                for (int l = 0; l < HYB_LANES_32; l++)
                    square[l] = sum[r][c + l];
                matmul_transpose_f32(square);
                matmul_put_f32(job->y + r * job->n + n + c, matmul_fold_f32(square), columns - c,
                               false);
            }
        }
    }
}
