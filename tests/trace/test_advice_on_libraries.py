"""What refusals of calls of libraries advise: each is followed, with the eager bits."""

from __future__ import annotations

import contextvars
import heapq
import io
import itertools
import os
import random
import tempfile
import time

import numpy as np

import hybrid as hy
from hybrid.errors import (
    LeakedValueError,
    NeedsValue,
    TracedBoolError,
)
from tests.advice import Row, S, around, check, named
from tests.staging.harness import f32

KEPT: contextvars.ContextVar = contextvars.ContextVar("kept")


def timed(x):
    return x * time.time()


@around
def timed_outside(wrap, x):
    return wrap(lambda x, t: x * t)(x, min(time.time(), 3.0))


def timed_by_py_call(x):
    t = hy.py_call(lambda: np.float32(min(time.time(), 3.0)), result=hy.ones(()).type)
    return x * t


def drawing(x):
    return x * random.random()


def drawing_from_hybrid(x):
    return x * hy.random.uniform()


@around
def drawn_outside(wrap, x):
    return wrap(lambda x, t: x * t)(x, random.Random(1).random())


def reading_a_file(x):
    open(__file__).close()
    return x


@around
def read_outside(wrap, x):
    with open(__file__) as file:
        length = len(file.readline())
    return wrap(lambda x, n: x * n)(x, length)


def read_by_py_call(x):
    return x * hy.py_call(lambda: np.float32(len(__file__)), result=hy.ones(()).type)


def array_written_in_a_branch(x):
    a = np.zeros(3, np.float32)
    if hy.sum(x) > 0:
        a.fill(1.0)
    return x + a


def tensor_written_in_a_branch(x):
    a = hy.zeros(3)
    if hy.sum(x) > 0:
        a[:] = 1.0
    return x + a


def new_array_in_a_branch(x):
    a = np.asarray([3.0, 2.0, 1.0], np.float32)
    if hy.sum(x) > 0:
        x = x + np.sort(a)
    return x + a


def queued(x):
    S.queue.put(x)
    return x


def in_a_list_of_its_own(x):
    S.items.append(x)
    return x


def array_times_a_number(x):
    return x + S.array * int(hy.argmax(x))


def tensor_times_it(x):
    return x + hy.asarray(S.array) * int(hy.argmax(x))


def compared_by_a_library(x):
    heap = [x[0]]
    heapq.heappush(heap, x[1])
    return heap[0]


@around
def left_as_it_is(wrap, x):
    return wrap(lambda x: x * 2)(compared_by_a_library(x))


def smaller_by_where(x):
    return hy.where(x[0] < x[1], x[0], x[1])


@around
def writing_to_a_file(wrap, x):
    file = io.StringIO()

    def run(x):
        file.write("a line\n")
        return x

    return wrap(run)(x), file.getvalue()


@around
def printing_to_a_file(wrap, x):
    file = io.StringIO()

    def run(x):
        print("a line", hy.sum(x), file=file)
        return x

    return wrap(run)(x), file.getvalue()


@around
def writing_by_py_call(wrap, x):
    file = io.StringIO()

    def run(x):
        hy.py_call(lambda: file.write("a line\n") and (), result=())
        return x

    return wrap(run)(x), file.getvalue()


def numpy_of_a_tensor(x):
    return np.fmax(x, 1.0)


def hybrids_own(x):
    return hy.maximum(x, 1.0)


def numpy_maker(x):
    return x + np.asarray(x)


def left_out(x):
    return x + x, hy.stack([x[0], x[1]])


def numpy_dtype(x):
    return np.float64(x[0])


def hybrids_dtype(x):
    return hy.astype(x[0], "float64")


def numpy_alone(x):
    return np.trim_zeros(x)


def written_with_hybrid(x):
    return x[(x != 0).argmax() :][:2] if x.shape[0] > 5 else hy.where(x != 0, x, 1)


def by_py_call(x):
    return hy.py_call(lambda v: np.nan_to_num(v), x, result=x.type)


@around
def numpy_outside(wrap, x):
    return np.trim_zeros(wrap(lambda x: x * 2)(x).numpy())


def in_a_stream(x):
    with hy.stream():
        return x * 2


@around
def stream_around(wrap, x):
    call = wrap(lambda x: x * 2)
    with hy.stream() as s:
        result = call(x)
    s.wait()
    return result


def in_a_debugged_block(x):
    with hy.debug():
        return x * 2


@around
def debugged_around(wrap, x):
    call = wrap(lambda x: x * 2)
    with hy.debug():
        return call(x)


STEP = hy.hybridize(lambda x: x * 2)


def submitting(x):
    return STEP.submit(x)


def calling(x):
    return STEP(x)


def saved() -> str:
    path = os.path.join(tempfile.gettempdir(), f"hybrid-advice-{os.getpid()}")
    hy.save({"a": hy.ones(3)}, path)
    return path


@around
def loading(wrap, x):
    path = saved()
    try:
        return wrap(lambda x: hy.load(path)["a"] * x)(x)
    finally:
        os.unlink(path)


@around
def loading_before(wrap, x):
    path = saved()
    a = hy.load(path, copy=True)["a"]
    os.unlink(path)
    return wrap(lambda x, a: a * x)(x, a)


@around
def hooks_on_gradients(wrap, x):
    hook = S.net.register_full_backward_hook(lambda m, given, out: None)
    y = x.clone()
    y.requires_grad = True
    try:
        return wrap(S.net)(y)
    finally:
        hook.remove()


@around
def hooks_removed(wrap, x):
    y = x.clone()
    y.requires_grad = True
    return wrap(S.net)(y)


@around
def setting_by_a_run(wrap, x):
    optimizer = hy.optim.SGD(S.net.parameters(), lr=0.1)

    def step(x):
        optimizer.param_groups[0]["weight_decay"] = hy.sum(x).item()
        optimizer.step()
        return x

    return wrap(step)(x)


@around
def setting_from_outside(wrap, x):
    optimizer = hy.optim.SGD(S.net.parameters(), lr=0.1)

    def step(x):
        optimizer.param_groups[0]["lr"] = hy.abs(hy.sum(x)).item()
        hy.sum(S.net(x)).backward()
        optimizer.step()
        optimizer.zero_grad()
        return x

    optimizer.param_groups[0]["weight_decay"] = 0.5
    return wrap(step)(x)


@around
def changed_after_a_mask(wrap, x):
    w = f32([1.0, -1.0, 2.0])

    def run(x):
        y = x[:2] * w[w > 0]
        w.assign(w + 1)
        return y

    return wrap(run)(x)


@around
def changed_outside(wrap, x):
    w = f32([1.0, -1.0, 2.0])
    y = wrap(lambda x: x[:2] * w[w > 0])(x)
    w.assign(w + 1)
    return y


@around
def masked_and_changed(wrap, x):
    w = f32([1.0, -1.0, 2.0])

    def run(x):
        y = hy.sum(x * hy.where(w > 0, w, 0))
        w.assign(w + 1)
        return y

    return wrap(run)(x), w


@around
def queued_outside(wrap, x):
    S.queue.put(wrap(lambda x: x * 2)(x))
    return S.queue.get()


def queued_by_py_call(x):
    hy.py_call(lambda v: S.queue.put(v), x)
    return x


ITEMS = itertools.count()


def taken_from_an_iterator(x):
    return x * next(ITEMS)


def gone_over_a_tuple(x):
    for item in (1.0, 2.0):
        x = x * item
    return x


@around
def taken_outside(wrap, x):
    return wrap(lambda x, n: x * n)(x, next(itertools.count(3)))


def a_text_of_values(x):
    return len(f"{hy.sum(x)}")


def printed(x):
    print(f"{hy.sum(x)}")
    return x


@around
def text_outside(wrap, x):
    return len(f"{wrap(hy.sum)(x)}")


def waiting(x):
    hy.wait_all()
    return x


@around
def waiting_outside(wrap, x):
    result = wrap(lambda x: x * 2)(x)
    hy.wait_all()
    return result


def written_in_vmap(x):
    def row(v):
        S.seen = v
        return v * 2

    return hy.vmap(row)(x)


def returned_from_vmap(x):
    result, seen = hy.vmap(lambda v: (v * 2, v))(x)
    S.seen = seen
    return result


@around
def kept_from_vmap(wrap, x):
    def row(v):
        KEPT.set(v)
        return v * 2

    hy.vmap(row)(x)
    return KEPT.get() + 1


def returned_in_place(x):
    return hy.vmap(lambda v: v + 1)(x)


ROWS = [
    Row(timed, "measure it outside, and pass it as an argument, or call it by hybrid.py_call",
        (timed_outside, timed_by_py_call)),
    Row(drawing, "draw from hybrid.random, or draw outside and pass the numbers as arguments",
        (drawing_from_hybrid, drawn_outside)),
    Row(reading_a_file, "do it outside the hybridized function, or call it by hybrid.py_call",
        (read_outside, read_by_py_call)),
    Row(array_written_in_a_branch, "keep the values in a tensor, or let the call make a new array",
        (tensor_written_in_a_branch, new_array_in_a_branch)),
    Row(queued, "use a list, return the values, or call it by hybrid.py_call",
        (in_a_list_of_its_own, queued_outside, queued_by_py_call)),
    Row(taken_from_an_iterator, "go over a list or tuple of the items, or take them outside and "
        "pass them as arguments", (gone_over_a_tuple, taken_outside)),
    Row(a_text_of_values, "print or log it, or make the text outside the hybridized function",
        (printed, text_outside)),
    Row(array_times_a_number, "compute with the functions of hybrid, on a tensor (hybrid.asarray), "
        "in place of NumPy's", (tensor_times_it,), NeedsValue),
    Row(compared_by_a_library, "call hybrid.where to choose between tensors, or leave this "
        "function unhybridized", (left_as_it_is, smaller_by_where), TracedBoolError),
    Row(writing_to_a_file, "use print(..., file=...), which every run repeats, or call it by "
        "hybrid.py_call", (printing_to_a_file, writing_by_py_call)),
    Row(numpy_of_a_tensor, "call hybrid.maximum", (hybrids_own,)),
    Row(numpy_maker, "leave numpy.asarray out, or join values with hybrid.stack", (left_out,)),
    Row(numpy_dtype, 'write hybrid.astype(x, "float64") for one of the dtypes of hybrid',
        (hybrids_dtype,)),
    Row(numpy_alone, "write it with the functions of hybrid, or call numpy.trim_zeros through "
        "hybrid.py_call or outside the hybridized function",
        (written_with_hybrid, by_py_call, numpy_outside)),
    Row(in_a_debugged_block, "write it around the call", (debugged_around,)),
    Row(in_a_stream, "take it out of the function, and call that in the stream", (stream_around,)),
    Row(submitting, "call the function itself", (calling,)),
    Row(loading, "load outside, and pass what is needed", (loading_before,)),
    Row(hooks_on_gradients, "remove them, call the module eagerly, or define gradients with "
        "custom_vjp", (hooks_removed,)),
    Row(setting_by_a_run, "set weight_decay outside the hybridized function; lr, the momentum and "
        "the first of the betas can be set inside", (setting_from_outside,)),
    Row(changed_after_a_mask, "change it outside the hybridized function, or keep the shape: "
        "hybrid.where(mask, x, 0), with what changes no sum, product or maximum in place of 0",
        (changed_outside, masked_and_changed)),
    Row(waiting, "take it out of the function", (waiting_outside,)),
    Row(written_in_vmap, "return the value from the function", (returned_from_vmap,)),
    Row(kept_from_vmap, "return the tensor from the function instead of storing it elsewhere",
        (returned_in_place,), LeakedValueError),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)
