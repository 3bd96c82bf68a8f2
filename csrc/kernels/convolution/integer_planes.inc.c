/* convolution/integer_planes.inc.c - copies of planes of bytes, as words of neighbours among the
 * channels; included by convolution/integer.inc.c.
 */
#if HYB_VECTOR_BYTES < 64
#define INTEGER_COPIES_8 1

typedef uint8_t  integer_bytes_8 __attribute__((vector_size(8)));
typedef uint8_t  integer_bytes_16 __attribute__((vector_size(16)));
typedef uint16_t integer_halves_8 __attribute__((vector_size(16)));
typedef uint16_t integer_halves_16 __attribute__((vector_size(32)));

/* Bytes of two planes in turn: of 8 adjacent places, or of every other one of 16. */
static inline integer_bytes_16 integer_two_planes(const uint8_t *a, const uint8_t *b, bool adjacent)
{
    integer_bytes_8 x, y;
    integer_halves_8 pairs[2];
    if (!adjacent) {
        memcpy(&pairs[0], a, sizeof pairs[0]);
        memcpy(&pairs[1], b, sizeof pairs[1]);
        return (integer_bytes_16)((pairs[0] & 0xff) | pairs[1] << 8);
    }
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
}

/* The words of 8 places, from the bytes of each two planes. */
static inline void integer_put_8(uint32_t *to, const integer_bytes_16 *pairs, uint8_t turn,
                                 uint16_t away)
{
#if INTEGER_PER == 4
    (void)away;
    const integer_halves_8 low = (integer_halves_8)(pairs[0] ^ turn);
    const integer_halves_8 high = (integer_halves_8)(pairs[1] ^ turn);
    const integer_halves_8 words[2] = {
        __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11),
        __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15)};
#else
    const integer_halves_16 words =
        __builtin_convertvector(pairs[0] ^ turn, integer_halves_16) - away;
#endif
    memcpy(to, &words, sizeof words);
}

static inline void integer_copy_8(uint32_t *to, const uint8_t *const *at, int64_t from,
                                  bool adjacent, uint8_t turn, uint16_t away)
{
    integer_bytes_16 pairs[INTEGER_PER / 2];
    for (int e = 0; e < INTEGER_PER; e += 2)
        pairs[e / 2] = integer_two_planes(at[e] + from, at[e + 1] + from, adjacent);
    integer_put_8(to, pairs, turn, away);
}

static inline void integer_copy_16(uint32_t *to, const uint8_t *const *at, int64_t from,
                                   uint8_t turn, uint16_t away)
{
    integer_bytes_16 low[INTEGER_PER / 2], high[INTEGER_PER / 2];
    for (int e = 0; e < INTEGER_PER; e += 2) {
        integer_bytes_16 x, y;
        memcpy(&x, at[e] + from, sizeof x);
        memcpy(&y, at[e + 1] + from, sizeof y);
        low[e / 2] = __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                             7, 23);
        high[e / 2] = __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                              30, 15, 31);
    }
    integer_put_8(to, low, turn, away);
    integer_put_8(to + 8, high, turn, away);
}
#endif

/* Words of `n` places, `stride` apart, of adjacent planes; `last` of these are there. */
static inline __attribute__((always_inline)) void
integer_copy(const integer_job *job, uint32_t *to, const uint8_t *from, int64_t n, int64_t stride,
             int64_t there)
{
    const int64_t plane = job->shape.source_plane;
    const uint8_t *at[INTEGER_PER]; /* weights of channels that are not there are 0 */
    for (int e = 0; e < INTEGER_PER; e++)
        at[e] = from + (e < there ? e : 0) * plane;
    const uint8_t turn = job->flip ^ integer_turn();
    int64_t i = 0;
#ifdef INTEGER_COPIES_8
    for (; stride == 1 && i + 16 <= n; i += 16)
        integer_copy_16(to + i, at, i, turn, (uint16_t)job->zero);
    /* What follows the last place may not be there. */
    for (; stride <= 2 && i + 8 + (stride == 2) <= n; i += 8)
        integer_copy_8(to + i, at, i * stride, stride == 1, turn, (uint16_t)job->zero);
#else
    const int bits = 32 / INTEGER_PER;
    const uint32_t flip = turn * (INTEGER_PER == 4 ? 0x01010101u : 0x00010001u);
    const v_u16 away = v_splat_u16(INTEGER_PER == 4 ? 0 : (uint16_t)job->zero);
    /* Of two places in 16 bits the first is in the lower half; what follows the last may not be. */
    for (; stride <= 2 && i + INTEGER_LANES + (stride == 2) <= n; i += INTEGER_LANES) {
        v_u32 word = {0};
        for (int e = 0; e < INTEGER_PER; e++) {
            v_u32 wide;
            if (stride == 2) {
                integer_halves pairs;
                memcpy(&pairs, at[e] + 2 * i, sizeof pairs);
                wide = __builtin_convertvector(pairs & 0xff, v_u32);
            } else {
                v_u8_32 bytes;
                memcpy(&bytes, at[e] + i, sizeof bytes);
                wide = __builtin_convertvector(bytes, v_u32);
            }
            word |= wide << (uint32_t)(bits * e);
        }
        word ^= flip;
        if (INTEGER_PER == 2)
            word = (v_u32)((v_u16)word - away);
        v_store_u32(to + i, word);
    }
#endif
    for (; i < n; i++) {
        uint32_t word = 0;
        for (int e = 0; e < INTEGER_PER; e++) {
            const uint8_t item = at[e][i * stride] ^ turn;
            word |= INTEGER_PER == 4 ? (uint32_t)item << (8 * e)
                                     : (uint32_t)(uint16_t)(item - job->zero) << (16 * e);
        }
        to[i] = word;
    }
}

static inline void integer_blank(const integer_job *job, uint32_t *to, int64_t n)
{
    const uint32_t zero = (uint32_t)job->zero ^ integer_turn();
    const uint32_t word = INTEGER_PER == 4 ? zero * 0x01010101u : 0;
    for (int64_t i = 0; i < n; i++)
        to[i] = word;
}

/* One copy of lines of planes: word w of line l is that at (line + l * stride, start + w * step). */
static void integer_copy_plane(const integer_job *job, uint32_t *to, const uint8_t *planes,
                               int64_t there, int64_t line, int64_t start)
{
    const conv_axis *high = &job->shape.axis[1], *wide = &job->shape.axis[2];
    const int64_t lines = job->planes.lines, width = job->planes.width;
    int64_t first, end, low, low_end;
    conv_inside(line, high->stride, lines, high->size, &first, &end);
    conv_inside(start, wide->stride, width, wide->size, &low, &low_end);
    if (low == low_end)
        first = end = 0;
    integer_blank(job, to, first * width);
    integer_blank(job, to + end * width, (lines - end) * width);
    if (first == end)
        return;
    const uint8_t *from = planes + (line + first * high->stride) * wide->size + start;
    if (high->stride == 1 && wide->stride == 1 && width == wide->size) {
        /* All lines at once; then the words that have come from the line before or after. */
        to += first * width;
        integer_copy(job, to + low, from + low, (end - first - 1) * width + low_end - low, 1, there);
        for (int64_t l = first; l < end; l++, to += width) {
            integer_blank(job, to, low);
            integer_blank(job, to + low_end, width - low_end);
        }
        return;
    }
    from += low * wide->stride;
    to += first * width;
    for (int64_t l = first; l < end; l++, from += high->stride * wide->size, to += width) {
        integer_blank(job, to, low);
        if (wide->stride == 1)
            integer_copy(job, to + low, from, low_end - low, 1, there);
        else if (wide->stride == 2)
            integer_copy(job, to + low, from, low_end - low, 2, there);
        else
            integer_copy(job, to + low, from, low_end - low, wide->stride, there);
        integer_blank(job, to + low_end, width - low_end);
    }
}

/* The copies of channels [channel, channel_end), in words, of a group that a block needs. */
static void integer_copy_planes(const integer_job *job, uint32_t *to, const conv_block *block,
                                int64_t channel, int64_t channel_end)
{
    const conv_shape *s = &job->shape;
    const conv_planes *p = &job->planes;
    const conv_axis *deep = &s->axis[0], *high = &s->axis[1], *wide = &s->axis[2];
    const int64_t given = job->weights.given, size = p->lines * p->width;
    const uint8_t *group =
        job->source + block->image * s->source_image + block->group * given * s->source_plane;
    for (int64_t c = channel; c < channel_end; c++)
        for (int64_t deep_tap = 0; deep_tap < deep->taps; deep_tap++) {
            const int64_t d = block->deep * deep->stride + deep->shift + deep_tap * deep->slide;
            const bool inside = d >= 0 && d < deep->size;
            for (int64_t tap = 0; tap < wide->taps; tap++) {
                const int64_t start = block->wide * wide->stride + wide->shift + tap * wide->slide;
                for (int64_t phase = 0; phase < p->phases; phase++, to += size) {
                    const int64_t line = p->lowest + block->high * high->stride + phase;
                    if (inside)
                        integer_copy_plane(job, to,
                                           group + c * INTEGER_PER * s->source_plane +
                                               d * high->size * wide->size,
                                           given - c * INTEGER_PER, line, start);
                    else
                        integer_blank(job, to, size);
                }
            }
        }
}
