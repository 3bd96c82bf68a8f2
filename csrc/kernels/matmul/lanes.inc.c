/* matmul/lanes.inc.c - lanes that change places: the transpose of a square of vectors; every second
 * lane of a pair of vectors; squares and oblongs of lanes turned.
 *
 * Included once per dtype by matmul/typed.inc.c, which says what T, V, N and LANES are.
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

/* Two vectors in a row taken apart in those with an even number and the others, and put back. */
#define EVEN(lane, d) (2 * (lane))
#define ODD(lane, d) (2 * (lane) + 1)
#define ZIP(lane, d) (((lane) & 1 ? LANES : 0) + (lane) / 2 + (d))
static inline V N(lanes_even)(V a, V b) { return __builtin_shufflevector(a, b, EACH_LANE(EVEN, 0)); }
static inline V N(lanes_odd)(V a, V b) { return __builtin_shufflevector(a, b, EACH_LANE(ODD, 0)); }
static inline V N(lanes_first)(V even, V odd)
{
    return __builtin_shufflevector(even, odd, EACH_LANE(ZIP, 0));
}
static inline V N(lanes_second)(V even, V odd)
{
    return __builtin_shufflevector(even, odd, EACH_LANE(ZIP, LANES / 2));
}

/* from[0], from[2] ... of n <= LANES items; what follows the last one may not be there. */
static inline V N(lanes_load_even)(const T *from, int64_t n)
{
    const int64_t left = 2 * n - 1;
    const V first = left < LANES ? N(v_load_part)(from, left) : N(v_load)(from);
    const V second = left > LANES ? N(v_load_part)(from + LANES, left - LANES) : first;
    return N(lanes_even)(first, second);
}

/* Lanes in rows of 4 or 8, fewer than all, column by column; and put back. */
#define TURNED(lane, d) ((lane) % (LANES / (d)) * (d) + (lane) / (LANES / (d)))
#define BACK(lane, d) ((lane) % (d) * (LANES / (d)) + (lane) / (d))
#define TURN(name, f)                                                                              \
    static inline __attribute__((always_inline)) V N(name)(V a, int64_t row)                       \
    {                                                                                              \
        if (row == 4 && LANES > 4)                                                                 \
            return __builtin_shufflevector(a, a, EACH_LANE(f, LANES > 4 ? 4 : 1));                 \
        if (row == 8 && LANES > 8)                                                                 \
            return __builtin_shufflevector(a, a, EACH_LANE(f, LANES > 8 ? 8 : 1));                 \
        return a;                                                                                  \
    }
TURN(lanes_turned, TURNED)
TURN(lanes_back, BACK)
#undef TURN
#undef BACK
#undef TURNED

#undef ZIP
#undef ODD
#undef EVEN
#undef SWAP_QUARTERS
#undef LOWER
#undef UPPER
#undef EACH_LANE
