/* matmul/pack.inc.c - copies of parts of A and B in the order in which the tiles read them.
 *
 * A panel holds some rows of A (or columns of B) over one block of k: for each k, `width` items
 * side by side.  The width of a panel of B is a multiple of a vector, so that tiles load whole
 * vectors only; what lies past its last column is never looked at.
 *
 * Included once per dtype by matmul/typed.inc.c, which says what T, V, N and LANES are.
 */

/* panel[k * width + i] = from[i * step + k] for i < count: the source runs along k.
 *
 * Squares of LANES x LANES are transposed in registers.  The last square along k overlaps the
 * one before it; a square that lacks rows repeats the last one, in lanes that are cut off or
 * never looked at. */
static void N(matmul_pack_along)(T *panel, int64_t width, const T *from, int64_t step,
                                 int64_t count, int64_t depth)
{
    if (depth < LANES) {
        for (int64_t k = 0; k < depth; k++)
            for (int64_t i = 0; i < width; i++)
                panel[k * width + i] = from[(i < count ? i : count - 1) * step + k];
        return;
    }
    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t room = width - i < LANES ? width - i : LANES;
        int64_t place[LANES];
        for (int64_t lane = 0; lane < LANES; lane++)
            place[lane] = (i + lane < count ? i + lane : count - 1) * step;
        for (int64_t next = 0; next < depth; next += LANES) {
            const int64_t k = next + LANES <= depth ? next : depth - LANES;
            T *to = panel + k * width + i;
            V row[LANES];
#pragma GCC unroll 16
            for (int lane = 0; lane < LANES; lane++)
                row[lane] = N(v_load)(from + place[lane] + k);
            N(matmul_transpose)(row);
            if (room == LANES) {
#pragma GCC unroll 16
                for (int s = 0; s < LANES; s++)
                    N(v_store)(to + s * width, row[s]);
            } else {
#pragma GCC unroll 16
                for (int s = 0; s < LANES; s++)
                    N(v_store_part)(to + s * width, row[s], room);
            }
        }
    }
}

/* panel[k * width + i] = from[k * step + i] for i < count: the source runs across k. */
static void N(matmul_pack_across)(T *panel, int64_t width, const T *from, int64_t step,
                                  int64_t count, int64_t depth)
{
    const int64_t whole = count / LANES * LANES, part = count - whole;
    for (int64_t k = 0; k < depth; k++, panel += width, from += step) {
        for (int64_t i = 0; i < whole; i += LANES)
            N(v_store)(panel + i, N(v_load)(from + i));
        if (part == 0)
            continue;
        const V last = N(v_load_part)(from + whole, part);
        if (width - whole < LANES)
            N(v_store_part)(panel + whole, last, part);
        else
            N(v_store)(panel + whole, last);
    }
}
