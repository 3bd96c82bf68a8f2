/* matmul_lanes.inc.c - the transpose of a square of vectors.
 *
 * Included once per dtype by matmul_typed.inc.c, which says what T, V, N and LANES are.
 */

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
