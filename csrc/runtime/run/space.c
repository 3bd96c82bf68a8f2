/* space.c - the shape that the operands of a map share, and gathering what is not dense in it. */
#include "runtime/run/plan_run.h"

/* Whether every operand crosses axes d and d + 1 with one stride. */
static bool mergeable(const hyb_space *space, const hyb_view *views, int32_t n, int32_t d)
{
    for (int32_t i = 0; i < n; i++)
        if (views[i].used && views[i].strides[d] != views[i].strides[d + 1] * space->shape[d + 1])
            return false;
    return true;
}

void hyb_make_space(const hyb_operand *operands, int32_t n, hyb_space *space, hyb_view *views)
{
    const hyb_layout *shared = NULL;
    space->rank = 0;
    for (int32_t i = 0; i < n; i++) {
        views[i].itemsize = (int32_t)hyb_itemsize(operands[i].layout.dtype);
        if (views[i].used)
            shared = &operands[i].layout;
    }
    for (int32_t d = shared->rank - 1; d >= 0; d--) {
        if (shared->shape[d] == 1)
            continue;
        /* Axes are put in from the last to the first: make room at the front. */
        memmove(space->shape + 1, space->shape, sizeof space->shape - sizeof space->shape[0]);
        space->shape[0] = shared->shape[d];
        for (int32_t i = 0; i < n; i++) {
            int64_t *strides = views[i].strides;
            memmove(strides + 1, strides, sizeof views[i].strides - sizeof strides[0]);
            strides[0] = operands[i].layout.strides[d];
        }
        if (++space->rank < 2 || !mergeable(space, views, n, 0))
            continue;
        space->shape[1] *= space->shape[0];
        memmove(space->shape, space->shape + 1, sizeof space->shape - sizeof space->shape[0]);
        for (int32_t i = 0; i < n; i++)
            memmove(views[i].strides, views[i].strides + 1,
                    sizeof views[i].strides - sizeof views[i].strides[0]);
        space->rank--;
    }
}

typedef uint16_t item_2 __attribute__((may_alias));
typedef uint32_t item_4 __attribute__((may_alias));
typedef uint64_t item_8 __attribute__((may_alias));

#define COPY_ITEMS(T)                                    \
    do {                                                 \
        T *to = out;                                     \
        if (stride == 0) {                               \
            const T item = *(const T *)from;             \
            for (int64_t i = 0; i < count; i++)          \
                to[i] = item;                            \
        } else if (stride == (int64_t)sizeof(T)) {       \
            for (int64_t i = 0; i < count; i++)          \
                to[i] = ((const T *)from)[i];            \
        } else {                                         \
            for (int64_t i = 0; i < count; i++)          \
                to[i] = *(const T *)(from + i * stride); \
        }                                                \
    } while (0)

/* `count` elements at one stride; out and from never overlap. */
static void gather_piece(void *restrict out, const char *restrict from, int64_t stride,
                         int32_t itemsize, int64_t count)
{
    switch (itemsize) {
    case 1: COPY_ITEMS(uint8_t); break;
    case 2: COPY_ITEMS(item_2); break;
    case 4: COPY_ITEMS(item_4); break;
    default: COPY_ITEMS(item_8); break;
    }
}

/* The `nbytes` before `to`, `times` more. */
static void repeat(char *to, int64_t nbytes, int64_t times)
{
    const char *from = to - nbytes;
    for (int64_t left = times * nbytes, there = nbytes; left > 0;) {
        const int64_t n = left < there ? left : there;
        memcpy(to, from, (size_t)n);
        to += n;
        left -= n;
        there += n;
    }
}

void hyb_gather(void *out, const void *data, const hyb_space *space, const hyb_view *view,
                int64_t begin, int64_t count)
{
    const int32_t last = space->rank - 1;
    int64_t at[HYB_MAX_RANK] = {0};
    const char *from = data;
    char *to = out;
    for (int32_t d = last; d >= 0 && begin > 0; d--) {
        at[d] = begin % space->shape[d];
        begin /= space->shape[d];
        from += at[d] * view->strides[d];
    }
    if (last < 0) { /* a single element */
        gather_piece(to, from, 0, view->itemsize, count);
        return;
    }
    const int64_t inner = space->shape[last], stride = view->strides[last];
    for (;;) {
        const int64_t left = inner - at[last], n = left < count ? left : count;
        gather_piece(to, from, stride, view->itemsize, n);
        count -= n;
        if (count == 0)
            return;
        to += n * view->itemsize;
        if (n == inner && last > 0 && view->strides[last - 1] == 0) {
            const int64_t rows = space->shape[last - 1] - 1 - at[last - 1], whole = count / inner;
            const int64_t again = rows < whole ? rows : whole;
            repeat(to, inner * view->itemsize, again);
            to += again * inner * view->itemsize;
            count -= again * inner;
            at[last - 1] += again;
            if (count == 0)
                return;
        }
        from -= at[last] * stride;
        at[last] = 0;
        for (int32_t d = last - 1; d >= 0; d--) {
            from += view->strides[d];
            if (++at[d] < space->shape[d])
                break;
            from -= view->strides[d] * space->shape[d];
            at[d] = 0;
        }
    }
}
