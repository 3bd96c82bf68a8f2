/* matmul_lanes.inc.c - whole and partial vectors, and the transpose of a square of them.
 *
 * Included once per dtype by matmul_typed.inc.c, which says what T, V, N and LANES are.
 */

static inline V N(matmul_load)(const T *p)
{
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void N(matmul_store)(T *p, V v) { memcpy(p, &v, sizeof v); }

/* The first `count` < LANES items in pieces of constant size; the others are zero, or left alone. */
static inline V N(matmul_load_part)(const T *p, int64_t count)
{
    T lanes[LANES] = {0};
    int64_t done = 0;
#pragma GCC unroll 4
    for (int64_t piece = LANES / 2; piece > 0; piece /= 2)
        if (count & piece) {
            memcpy(lanes + done, p + done, (size_t)piece * sizeof(T));
            done += piece;
        }
    return N(matmul_load)(lanes);
}

static inline void N(matmul_store_part)(T *p, V v, int64_t count)
{
    T lanes[LANES];
    N(matmul_store)(lanes, v);
    int64_t done = 0;
#pragma GCC unroll 4
    for (int64_t piece = LANES / 2; piece > 0; piece /= 2)
        if (count & piece) {
            memcpy(p + done, lanes + done, (size_t)piece * sizeof(T));
            done += piece;
        }
}

#if LANES == 16
#define EACH_LANE(f, d)                                                                            \
    f(0, d), f(1, d), f(2, d), f(3, d), f(4, d), f(5, d), f(6, d), f(7, d), f(8, d), f(9, d),      \
        f(10, d), f(11, d), f(12, d), f(13, d), f(14, d), f(15, d)
#elif LANES == 8
#define EACH_LANE(f, d) f(0, d), f(1, d), f(2, d), f(3, d), f(4, d), f(5, d), f(6, d), f(7, d)
#elif LANES == 4
#define EACH_LANE(f, d) f(0, d), f(1, d), f(2, d), f(3, d)
#else
#define EACH_LANE(f, d) f(0, d), f(1, d)
#endif

/* Of two rows `d` apart: every 2d-wide square of the matrix swaps the quarters off its diagonal. */
#define UPPER(lane, d) (((lane) & (d)) ? LANES + (lane) - (d) : (lane))
#define LOWER(lane, d) (((lane) & (d)) ? LANES + (lane) : (lane) + (d))
#define SWAP_QUARTERS(d)                                                                           \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)                                       \
        if (!(i & (d))) {                                                                          \
            const V upper = row[i], lower = row[i + (d)];                                          \
            row[i] = __builtin_shufflevector(upper, lower, EACH_LANE(UPPER, d));                   \
            row[i + (d)] = __builtin_shufflevector(upper, lower, EACH_LANE(LOWER, d));             \
        }

static inline __attribute__((always_inline)) void N(matmul_transpose)(V row[LANES])
{
#if LANES > 8
    SWAP_QUARTERS(8)
#endif
#if LANES > 4
    SWAP_QUARTERS(4)
#endif
#if LANES > 2
    SWAP_QUARTERS(2)
#endif
    SWAP_QUARTERS(1)
}

#undef SWAP_QUARTERS
#undef LOWER
#undef UPPER
#undef EACH_LANE
