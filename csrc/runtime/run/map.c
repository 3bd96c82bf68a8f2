/* map.c - runs the elementwise ops of a map tile by tile, so that what passes between them stays in
 * cache. */
#include "runtime/run/plan_run.h"

/* Points the direct operands at column `column` of row `row`, the gathered ones and the tiles at
 * their buffers. */
static void point_at(const hyb_map *map, void *const *data, int64_t row, int64_t column,
                     void **value)
{
    int64_t at[HYB_MAX_RANK];
    for (int32_t d = map->outer_rank - 1; d >= 0; d--) {
        at[d] = row % map->space.shape[d];
        row /= map->space.shape[d];
    }
    for (int32_t i = 0; i < map->n_direct; i++) {
        const int32_t k = map->direct[i];
        const hyb_view *view = &map->views[k];
        int64_t offset = column * view->column;
        for (int32_t d = 0; d < map->outer_rank; d++)
            offset += at[d] * view->strides[d];
        value[k] = (char *)data[k] + offset;
    }
}

static void point_at_buffers(const hyb_map *map, char *buffer, void **value)
{
    for (int32_t i = 0; i < map->n_tile_buffers; i++, buffer += map->buffer_bytes)
        value[map->n_operands + i] = buffer;
    for (int32_t i = 0; i < map->n_gathered; i++, buffer += map->buffer_bytes)
        value[map->gathered[i]] = buffer;
}

/* Every op over one tile. */
static hyb_status run_tile(const hyb_map *map, void *const *value, int64_t count)
{
    for (int32_t i = 0; i < map->n_calls; i++) {
        const hyb_map_call *op = &map->calls[i];
        void *row[HYB_MAP_ARGS];
        for (int32_t j = 0; j < op->n_args; j++)
            row[j] = value[op->value[j]];
        const hyb_call call = {op->layout, row, op->attrs, NULL, NULL};
        TRY(op->run(&call, 0, count));
    }
    return HYB_OK;
}

hyb_status hyb_map_stretch(const hyb_map *map, void *const *data, void *made, int64_t begin,
                           int64_t count)
{
    char *scratch = hyb_tile_scratch(map->scratch_bytes);
    if (!scratch)
        return HYB_NO_MEMORY;
    void **value = (void **)scratch;
    point_at_buffers(map, scratch + map->values_bytes, value);
    if (map->feeds)
        value[0] = made;

    const int64_t stop = begin + count;
    int64_t row = map->outer_rank > 0 ? begin / map->columns : 0;
    int64_t last = -1; /* where the tile before began */
    for (int64_t start = begin; start < stop; row++) {
        int64_t column = start - row * map->columns;
        point_at(map, data, row, column, value);
        const int64_t end =
            stop - start < map->columns - column ? column + stop - start : map->columns;
        while (column < end) {
            const int64_t n = end - column < map->tile ? end - column : map->tile;
            for (int32_t i = 0; i < map->n_gathered; i++) {
                const int32_t k = map->gathered[i];
                const int64_t period = map->views[k].period;
                if (last < 0 || period == 0 || last / period != (start + n - 1) / period)
                    hyb_gather(value[k], data[k], &map->space, &map->views[k], start, n);
            }
            last = start;
            TRY(run_tile(map, value, n));
            for (int32_t i = 0; i < map->n_direct; i++) {
                const int32_t k = map->direct[i];
                value[k] = (char *)value[k] + n * map->views[k].column;
            }
            if (map->feeds)
                value[0] = (char *)value[0] + n * map->step;
            column += n;
            start += n;
        }
    }
    return HYB_OK;
}

hyb_status hyb_map_rows(const hyb_map *map, void *const *data, void *made, int64_t begin,
                        int64_t count, int64_t rows, int64_t step)
{
    /* Where every operand moves by the same distance from one stretch to the next. */
    const int32_t outer = map->outer_rank;
    const int64_t row = outer > 0 ? begin / map->columns : 0;
    const bool even = outer == 0
                      || (step == map->columns
                          && row % map->space.shape[outer - 1] + rows <= map->space.shape[outer - 1]);
    if (!even || map->n_gathered > 0 || count > map->tile) {
        for (int64_t i = 0; i < rows; i++)
            TRY(hyb_map_stretch(map, data, (char *)made + i * count * map->step, begin + i * step,
                                count));
        return HYB_OK;
    }
    char *scratch = hyb_tile_scratch(map->scratch_bytes);
    if (!scratch)
        return HYB_NO_MEMORY;
    void **value = (void **)scratch;
    point_at_buffers(map, scratch + map->values_bytes, value);
    point_at(map, data, row, begin - row * map->columns, value);
    if (map->feeds)
        value[0] = made;
    for (int64_t left = rows; left > 0; left--) {
        TRY(run_tile(map, value, count));
        for (int32_t i = 0; i < map->n_direct; i++) {
            const int32_t k = map->direct[i];
            const hyb_view *view = &map->views[k];
            value[k] = (char *)value[k] +
                       (outer > 0 ? view->strides[outer - 1] : step * view->column);
        }
        if (map->feeds)
            value[0] = (char *)value[0] + count * map->step;
    }
    return HYB_OK;
}

typedef struct {
    const hyb_map *map;
    void *const *data;
} tiles_run;

static int64_t first_element(const hyb_map *map, int64_t tile)
{
    if (map->tiles_per_row == map->n_tiles) /* one row */
        return tile == map->n_tiles ? map->elements : tile * map->tile;
    return tile / map->tiles_per_row * map->columns + tile % map->tiles_per_row * map->tile;
}

hyb_status hyb_map_tiles(const hyb_map *map, void *const *data, int64_t begin, int64_t end)
{
    const int64_t first = first_element(map, begin);
    return hyb_map_stretch(map, data, NULL, first, first_element(map, end) - first);
}

static hyb_status run_tiles(void *context, int64_t begin, int64_t end)
{
    const tiles_run *run = context;
    return hyb_map_tiles(run->map, run->data, begin, end);
}

/* One tile of operands that are used where they lie: no row of values to fill in first. */
static hyb_status run_single_tile(const hyb_map *map, void *const *data)
{
    char *buffers = NULL;
    if (map->n_tile_buffers > 0 && !(buffers = hyb_tile_scratch(map->scratch_bytes)))
        return HYB_NO_MEMORY;
    for (int32_t i = 0; i < map->n_calls; i++) {
        const hyb_map_call *op = &map->calls[i];
        void *row[HYB_MAP_ARGS];
        for (int32_t j = 0; j < op->n_args; j++) {
            const int32_t value = op->value[j], tile = value - map->n_operands;
            row[j] = tile < 0 ? data[value] : buffers + (size_t)tile * map->buffer_bytes;
        }
        const hyb_call call = {op->layout, row, op->attrs, NULL, NULL};
        TRY(op->run(&call, 0, map->elements));
    }
    return HYB_OK;
}

hyb_status hyb_map_run(const hyb_map *map, void *const *data)
{
    if (map->single_tile)
        return run_single_tile(map, data);
    if (map->n_tiles <= map->grain)
        return hyb_map_stretch(map, data, NULL, 0, map->elements);
    tiles_run run = {map, data};
    return hyb_parallel_for(map->n_tiles, map->grain, run_tiles, &run);
}
