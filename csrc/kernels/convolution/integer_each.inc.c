/* convolution/integer_each.inc.c - convolutions of bytes whose groups have one channel each;
 * included by convolution/integer.inc.c.
 *
 * The rows of the source are copied in 16 bits, less zero, with zeros around them.  A vector of
 * such a row is pairs of neighbours: multiplied with the weights of two neighbouring taps it gives
 * every second result, and from one item further on those between.  At stride 2 all results are
 * every second one.  Taps that are not neighbours come with a weight of 0; of larger strides each
 * tap has a copy of its own.
 */

#define INTEGER_EACH_BYTES (48 << 10)     /* of copied rows, to stay in the first-level cache, */
#define INTEGER_EACH_LARGEST (4 << 20)    /* or more, for long ones */
#define INTEGER_SLACK (4 * INTEGER_LANES) /* items behind a row that a vector may read */

/* How the taps of a row are paired. */
typedef struct {
    bool    shared;      /* all taps read one copy of a row; else each has its own */
    int64_t pairs, step; /* of a row; taps that a pair takes */
} integer_pairs;

static integer_pairs integer_pairs_of(int64_t taps, int64_t stride, int64_t dilation)
{
    integer_pairs p = {.shared = stride <= 2, .pairs = taps, .step = 1};
    if (p.shared && dilation == 1) {
        p.step = 2;
        p.pairs = matmul_ceil(taps, 2);
    }
    return p;
}

/* For each row of the weights its words, kernel row by kernel row. */
static void integer_pack_each(const integer_weights *w, const hyb_attr *attrs, int64_t across)
{
    const integer_pairs p = integer_pairs_of(across, attrs[2].i, attrs[8].i);
    const int64_t lines = w->groups * w->rows * (w->taps / across);
    uint32_t *to = w->to;
    const int8_t *from = w->from;
    for (int64_t line = 0; line < lines; line++, from += across)
        for (int64_t pair = 0; pair < p.pairs; pair++) {
            const int64_t tap = pair * p.step;
            const bool two = p.step == 2 && tap + 1 < across;
            *to++ = (uint32_t)(uint16_t)from[tap] |
                    (two ? (uint32_t)(uint16_t)from[tap + 1] << 16 : 0);
        }
}

/* How the rows of one channel are copied. */
typedef struct {
    const integer_job *job;
    integer_pairs pairs;
    int64_t length, pitch; /* items of a copy, and of the copies of a line */
    int64_t step;          /* items from what a pair meets to what the next one does */
    int64_t height, lines; /* rows of results of a block, and lines of the source it needs */
} integer_rows;

static bool integer_plan_each(const integer_job *job, integer_rows *r)
{
    const conv_shape *s = &job->shape;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1], *wide = &s->axis[2];
    r->job = job;
    r->pairs = integer_pairs_of(wide->taps, wide->stride, wide->slide);
    const int64_t copies = r->pairs.shared ? 1 : wide->taps, most = INTEGER_EACH_LARGEST / 2;
    const int64_t span = (high->taps - 1) * high->slide + 1;
    if (wide->count > most || span > most || deep->taps > most || wide->taps > most ||
        (wide->taps - 1) * wide->slide > most)
        return false;
    r->length = INTEGER_SLACK + (r->pairs.shared ? wide->count * wide->stride +
                                                       (wide->taps - 1) * wide->slide
                                                 : wide->count);
    r->pitch = r->length * copies;
    r->step = r->pairs.shared ? r->pairs.step * wide->slide : r->length;
    const double line = (double)r->pitch * (double)deep->taps * sizeof(int16_t);
    if (line * (double)span > INTEGER_EACH_LARGEST || high->stride > most)
        return false;
    const int64_t budget = (int64_t)(INTEGER_EACH_BYTES / line);
    r->height = budget > span ? 1 + (budget - span) / high->stride : 1;
    r->height = matmul_smaller(r->height, high->count);
    r->lines = (r->height - 1) * high->stride + span;
    return true;
}

typedef uint8_t integer_bytes_16 __attribute__((vector_size(16)));
typedef uint16_t integer_words_16 __attribute__((vector_size(32)));
typedef uint8_t integer_bytes_8 __attribute__((vector_size(8)));
typedef uint16_t integer_words_8 __attribute__((vector_size(16)));

/* `n` bytes in 16 bits; of several vectors the last one may have items of that before it. */
#define INTEGER_WIDENED(n)                                                                         \
    static inline void integer_widened_##n(int16_t *to, const uint8_t *from, uint8_t flip,         \
                                           uint16_t zero)                                          \
    {                                                                                              \
        integer_bytes_##n bytes;                                                                   \
        memcpy(&bytes, from, sizeof bytes);                                                        \
        const integer_words_##n words = __builtin_convertvector(bytes ^ flip,                      \
                                                                integer_words_##n) - zero;         \
        memcpy(to, &words, sizeof words);                                                          \
    }
INTEGER_WIDENED(8)
INTEGER_WIDENED(16)

/* One row of the source in 16 bits: item i is that at start + i * stride, less zero; zeros without a
 * row.  What lies outside of all rows has been cleared, and stays so. */
static void integer_widen(const integer_job *job, int16_t *to, int64_t length, const uint8_t *row,
                          int64_t start, int64_t stride)
{
    int64_t low, end;
    conv_inside(start, stride, length, job->shape.axis[2].size, &low, &end);
    const int64_t n = end - low;
    if (n <= 0)
        return;
    to += low;
    if (!row) {
        memset(to, 0, (size_t)n * sizeof *to);
        return;
    }
    const uint8_t flip = job->flip, *from = row + start + low * stride;
    const uint16_t zero = (uint16_t)job->zero;
    if (stride == 1 && n >= 16) {
        for (int64_t i = 0; i + 16 < n; i += 16)
            integer_widened_16(to + i, from + i, flip, zero);
        integer_widened_16(to + n - 16, from + n - 16, flip, zero);
    } else if (stride == 1 && n >= 8) {
        integer_widened_8(to, from, flip, zero);
        integer_widened_8(to + n - 8, from + n - 8, flip, zero);
    } else {
        for (int64_t i = 0; i < n; i++)
            to[i] = (int16_t)((from[i * stride] ^ flip) - zero);
    }
}

/* The lines that a block of rows from (deep, high) on needs: for each outer tap all of them. */
static void integer_copy_rows(const integer_rows *r, int16_t *to, const uint8_t *plane,
                              int64_t j_deep, int64_t j_high)
{
    const conv_shape *s = &r->job->shape;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1], *wide = &s->axis[2];
    for (int64_t tap = 0; tap < deep->taps; tap++) {
        const int64_t d = j_deep * deep->stride + deep->shift + tap * deep->slide;
        for (int64_t l = 0; l < r->lines; l++) {
            const int64_t h = j_high * high->stride + high->shift + l;
            const bool inside = d >= 0 && d < deep->size && h >= 0 && h < high->size;
            const uint8_t *row = inside ? plane + (d * high->size + h) * wide->size : NULL;
            if (r->pairs.shared) {
                integer_widen(r->job, to, r->length, row, wide->shift, 1);
                to += r->length;
                continue;
            }
            for (int64_t t = 0; t < wide->taps; t++, to += r->length)
                integer_widen(r->job, to, r->length, row, wide->shift + t * wide->slide,
                              wide->stride);
        }
    }
}

/* even[0], odd[0], even[1] ... */
static inline void integer_zip(int32_t *to, v_i32 even, v_i32 odd)
{
#if INTEGER_LANES == 16
    v_store_i32(to, __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                            7, 23));
    v_store_i32(to + 16, __builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                 29, 14, 30, 15, 31));
#elif INTEGER_LANES == 8
    v_store_i32(to, __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11));
    v_store_i32(to + 8, __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15));
#else
    v_store_i32(to, __builtin_shufflevector(even, odd, 0, 4, 1, 5));
    v_store_i32(to + 4, __builtin_shufflevector(even, odd, 2, 6, 3, 7));
#endif
}

/* Results of `vectors` vectors, of which the second begins `apart` results behind the first: n words
 * meet the source from `offset` items behind their places on.  Inlined with constant `vectors` and
 * `halves`: whether every second result is all. */
static inline __attribute__((always_inline)) void
integer_each_vectors(int vectors, bool halves, const int16_t *const *places, int64_t n,
                     int64_t offset, int64_t apart, const uint32_t *words, int32_t *to)
{
    const int64_t second = halves ? 2 * apart : apart;
    v_i32 sum[2][2] = {{{0}}};
    for (int64_t i = 0; i < n; i++) {
        const v_i16 word = (v_i16)v_splat_i32((int32_t)words[i]);
        const int16_t *from = places[i] + offset;
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
#pragma GCC unroll 2
            for (int odd = 0; odd < 2; odd++)
                if (!halves || !odd)
                    sum[v][odd] += v_dot_i16(v_load_i16(from + second * v + odd), word);
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
        if (halves)
            v_store_i32(to + apart * v, sum[v][0]);
        else
            integer_zip(to + apart * v, sum[v][0], sum[v][1]);
}

/* One row of results; the last vector has results of that before it, if there is one. */
static inline __attribute__((always_inline)) void
integer_each_row(bool halves, int64_t count, const int16_t *const *places, int64_t n,
                 const uint32_t *words, int32_t *to)
{
    const int64_t of_vector = halves ? INTEGER_LANES : 2 * INTEGER_LANES, stride = halves ? 2 : 1;
    if (count < of_vector) {
        int32_t found[2 * INTEGER_LANES];
        integer_each_vectors(1, halves, places, n, 0, 0, words, found);
        memcpy(to, found, (size_t)count * sizeof *to);
        return;
    }
    int64_t j = 0;
    while (count - j > of_vector) {
        const int64_t apart = matmul_smaller(of_vector, count - of_vector - j);
        integer_each_vectors(2, halves, places, n, j * stride, apart, words, to + j);
        j += of_vector + apart;
    }
    if (j < count) {
        j = count - of_vector;
        integer_each_vectors(1, halves, places, n, j * stride, 0, words, to + j);
    }
}

/* Units [begin, end): the channels of each image. */
static hyb_status integer_each_units(void *context, int64_t begin, int64_t end)
{
    const integer_rows *r = context;
    const integer_job *job = r->job;
    const conv_shape *s = &job->shape;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1];
    const int64_t words = deep->taps * high->taps * r->pairs.pairs;
    const bool halves = r->pairs.shared && s->axis[2].stride == 2;
    const int16_t **places = hyb_scratch(
        (size_t)words * sizeof *places +
        (size_t)(deep->taps * r->lines * r->pitch + INTEGER_SLACK) * sizeof(int16_t));
    if (!places)
        return hyb_fail(HYB_NO_MEMORY, "conv_integer: no memory for copies of rows");
    int16_t *copy = (int16_t *)(places + words);
    memset(copy, 0, (size_t)(deep->taps * r->lines * r->pitch + INTEGER_SLACK) * sizeof *copy);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / s->groups, group = unit % s->groups;
        const uint8_t *plane = job->source + image * s->source_image + group * s->source_plane;
        int32_t *results = job->result + image * s->result_image + group * s->rows * s->result_plane;
        for (int64_t d = 0; d < deep->count; d++)
            for (int64_t first = 0; first < high->count; first += r->height) {
                const int64_t last = matmul_smaller(first + r->height, high->count);
                const int64_t corner = (d * high->count + first) * s->axis[2].count;
                integer_copy_rows(r, copy, plane, d, first);
                for (int64_t h = first; h < last; h++) {
                    const int16_t **place = places;
                    for (int64_t outer = 0; outer < deep->taps; outer++)
                        for (int64_t tap = 0; tap < high->taps; tap++) {
                            const int64_t line = outer * r->lines + (h - first) * high->stride +
                                                 tap * high->slide;
                            for (int64_t pair = 0; pair < r->pairs.pairs; pair++)
                                *place++ = copy + line * r->pitch + pair * r->step;
                        }
                    for (int64_t row = 0; row < s->rows; row++) {
                        const uint32_t *own = job->weights.to + (group * s->rows + row) * words;
                        int32_t *to = results + row * s->result_plane + corner +
                                      (h - first) * s->axis[2].count;
                        if (halves)
                            integer_each_row(true, s->axis[2].count, places, words, own, to);
                        else
                            integer_each_row(false, s->axis[2].count, places, words, own, to);
                    }
                }
                integer_finish(job, results - job->result + corner,
                               (last - first) * s->axis[2].count, s->rows);
            }
    }
    return HYB_OK;
}
