/* lay_out.c - where the scratch values of a plan lie in its arena.
 *
 * The largest are laid out first, each at the lowest offset at which nothing lies meanwhile
 * (Y. Pisarchyk, J. Lee, "Efficient memory management for deep neural net inference", 2020). */
#include <string.h>

#include "runtime/build/plan_build.h"

/* Places by descending size, equal ones in their order: a merge sort. */
static void sort_by_size(const hyb_place *places, int32_t *order, int32_t *room, int32_t n)
{
    for (int32_t width = 1; width < n; width *= 2) {
        for (int32_t low = 0; low < n; low += 2 * width) {
            const int32_t middle = low + width < n ? low + width : n;
            const int32_t high = middle + width < n ? middle + width : n;
            int32_t a = low, b = middle;
            for (int32_t at = low; at < high; at++) {
                const bool left =
                    a < middle && (b >= high || places[order[a]].size >= places[order[b]].size);
                room[at] = left ? order[a++] : order[b++];
            }
        }
        memcpy(order, room, (size_t)n * sizeof *order);
    }
}

/* Whether both are in use at some time: members of a group have times of their own. */
static bool meet(const hyb_place *a, const hyb_place *b)
{
    if (a->first > b->last || b->first > a->last)
        return false;
    const bool one_member = a->member >= 0 && a->member == b->member;
    return !one_member || (a->enters <= b->leaves && b->enters <= a->leaves);
}

int64_t hyb_lay_out(const hyb_place *places, int32_t n, int64_t *offsets)
{
    for (int32_t i = 0; i < n; i++)
        if (places[i].size < 0 || places[i].size > INT64_MAX / (n + 1)) {
            hyb_fail(HYB_BAD_ARGUMENT, "place %d: %lld bytes", i, (long long)places[i].size);
            return -1;
        }
    if (n <= 0)
        return 0;
    int32_t *const order = hyb_alloc(3 * (size_t)n * sizeof *order);
    if (!order) {
        hyb_fail(HYB_NO_MEMORY, "cannot allocate the order of %d places", n);
        return -1;
    }
    int32_t *const room = order + n, *const laid = room + n; /* laid: by offset */
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    sort_by_size(places, order, room, n);
    int64_t end = 0;
    for (int32_t at = 0; at < n; at++) {
        const hyb_place *place = &places[order[at]];
        int64_t offset = 0;
        int32_t i = 0;
        for (; i < at; i++) {
            const hyb_place *other = &places[laid[i]];
            const int64_t start = offsets[laid[i]], stop = start + other->size;
            if (stop <= offset || !meet(place, other))
                continue;
            if (start - offset >= place->size)
                break;
            offset = stop;
        }
        offsets[order[at]] = offset;
        for (i = at; i > 0 && offsets[laid[i - 1]] > offset; i--)
            laid[i] = laid[i - 1];
        laid[i] = order[at];
        end = offset + place->size > end ? offset + place->size : end;
    }
    hyb_free(order);
    return end;
}
