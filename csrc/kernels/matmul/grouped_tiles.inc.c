/* matmul/grouped_tiles.inc.c - many rows times weights in groups; included by matmul/grouped.inc.c.
 *
 * Weights of some columns and one block of k become panels of float32, which the tiles of matmul
 * multiply with all rows.
 */
/* The values of the 8 halves of words, before they are scaled. */
static inline __attribute__((always_inline)) void
grouped_values_of(v_i32 words, bool table, const v_u8 planes[4], v_f32 found[8])
{
#if HYB_TABLES_OF_PLANES
    if (table) {
        v_f32 parts[8];
        v_look_up_halves(v_words_turned((v_u8)words), planes, parts);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            found[2 * i] = parts[i];
            found[2 * i + 1] = parts[4 + i];
        }
        return;
    }
#endif
    (void)planes;
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const v_i32 half = words >> 4 * i & 15;
        found[i] = table ? v_look_up_f32(grouped_values, half) : __builtin_convertvector(half, v_f32);
    }
}

/* Halves that lie in whole words, k from a multiple of 8 on: panel[k * width + column]. */
static void grouped_panel_of_words(const grouped_job *job, float *panel, int64_t width, int64_t n,
                                   int64_t columns, int64_t k0, int64_t depth)
{
    const bool table = job->kind != GROUPED_HALVES;
    v_u8 planes[4] = {{0}};
#if HYB_TABLES_OF_PLANES
    v_planes_of(grouped_values, planes);
#endif
    for (int64_t c = 0; c < columns; c += HYB_LANES_32) {
        int64_t column[HYB_LANES_32], g = -1;
        v_f32 scale = {0}, zero = {0};
        for (int64_t l = 0; l < HYB_LANES_32; l++)
            column[l] = n + matmul_smaller(c + l, columns - 1);
        for (int64_t k = 0; k < depth; k += job->block) {
            v_f32 word[HYB_LANES_32];
            const int64_t at = (k0 + k) / 2, left = job->pitch - at;
            for (int64_t l = 0; l < HYB_LANES_32; l++) {
                const uint8_t *from = job->w + column[l] * job->pitch + at;
                word[l] = (v_f32)(left >= HYB_VECTOR_BYTES ? v_load_u8(from)
                                                           : v_load_part_u8(from, left));
            }
            matmul_transpose_f32(word);
            for (int64_t j = 0; j < HYB_LANES_32 && k + 8 * j < depth; j++) {
                const int64_t first = k + 8 * j, now = matmul_quotient(k0 + first, job->group);
                if (now != g) {
                    g = now;
                    for (int64_t l = 0; l < HYB_LANES_32; l++) {
                        scale[l] = job->scale[column[l] * job->groups + g];
                        zero[l] = job->zero ? job->zero[column[l] * job->groups + g] : 0.0f;
                    }
                    if (!table)
                        zero -= scale * 8.0f;
                }
                v_f32 value[8];
                if (table)
                    grouped_values_of((v_i32)word[j], true, planes, value);
                else
                    grouped_values_of((v_i32)word[j], false, planes, value);
                float *to = panel + first * width + c;
                if (depth - first >= 8) {
#pragma GCC unroll 8
                    for (int64_t i = 0; i < 8; i++)
                        v_store_f32(to + i * width, value[i] * scale + zero);
                    continue;
                }
                for (int64_t i = 0; i < depth - first; i++)
                    v_store_f32(to + i * width, value[i] * scale + zero);
            }
        }
    }
}

static void grouped_panel(const grouped_job *job, float *panel, int64_t width, int64_t n,
                          int64_t columns, int64_t k0, int64_t depth, float *rows)
{
    if (job->kind != GROUPED_BYTES && job->group % 8 == 0) {
        grouped_panel_of_words(job, panel, width, n, columns, k0, depth);
        return;
    }
    for (int64_t c = 0; c < columns; c++)
        grouped_row(job, n + c, k0, k0 + depth, rows + c * depth);
    matmul_pack_along_f32(panel, width, rows, depth, columns, depth);
}

static void grouped_by_tiles(const grouped_job *job, int64_t begin, int64_t end, float *scratch)
{
    enum { WIDTH = 2 * HYB_LANES_32 };
    const int64_t most = matmul_depth_of(job->k, sizeof(float));
    float *panels = scratch, *rows = scratch + GROUPED_COLUMNS * most;
    for (int64_t n = begin; n < end; n += GROUPED_COLUMNS) {
        const int64_t columns = matmul_smaller(end - n, GROUPED_COLUMNS);
        for (int64_t k = 0; k < job->k; k += most) {
            const int64_t depth = matmul_smaller(most, job->k - k);
            for (int64_t c = 0; c < columns; c += WIDTH)
                grouped_panel(job, panels + c * depth, WIDTH, n + c,
                              matmul_smaller(columns - c, WIDTH), k, depth, rows);
            for (int64_t r = 0; r < job->m; r += MATMUL_ROWS) {
                const int64_t count = matmul_smaller(job->m - r, MATMUL_ROWS);
                const matmul_tile_fn_f32 tile =
                    matmul_tiles_f32[MATMUL_PLAIN][true][count - 1][1];
                const float *x = job->x + r * job->k + k;
                for (int64_t c = 0; c < columns; c += WIDTH) {
                    float *y = job->y + r * job->n + n + c;
                    if (columns - c >= WIDTH) {
                        tile(x, job->k, panels + c * depth, WIDTH, y, job->n, depth, k > 0, NULL, 0,
                             NULL);
                        continue;
                    }
                    float buffer[MATMUL_ROWS * WIDTH];
                    tile(x, job->k, panels + c * depth, WIDTH, buffer, WIDTH, depth, false, NULL, 0,
                         NULL);
                    for (int64_t i = 0; i < count; i++)
                        for (int64_t j = 0; j < columns - c; j += HYB_LANES_32)
                            matmul_put_f32(y + i * job->n + j, v_load_f32(buffer + i * WIDTH + j),
                                           columns - c - j, k > 0);
                }
            }
        }
    }
}
