"""What refusals of captures advise: each is followed, and what does so is what it is eagerly."""

from __future__ import annotations

import contextvars
import copy
import heapq
import io
import itertools
import os
import random
import tempfile
import time
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid.errors import (
    LeakedValueError,
    NeedsValue,
    TracedBoolError,
    TracedValueError,
)
from tests.advice import P, Row, S, around, check, named
from tests.control.harness import f32

KEPT: contextvars.ContextVar = contextvars.ContextVar("kept")
NAMES = ("grow", "shrink")
ROOT = Path(__file__).resolve().parents[2]


# What outlives the call --------------------------------------------------------------------------


def counting(x):
    S.n += 1
    return x


def counting_in_a_tensor(x):
    S.t += 1
    return x


def counting_by_assign(x):
    S.t.assign(S.t + 1)
    return x


@around
def counting_outside(wrap, x):
    result, S.n = wrap(lambda x, n: (x * 2, n + 1))(x, S.n)
    return result


def first_set_in_a_branch(x):
    if hy.sum(x) > 0:
        S.new = x * 2
    return x


def set_in_a_branch(x):
    if hy.sum(x) > 0:
        S.seen = x * 2
    return x


def first_set_in_a_loop(x):
    y = hy.sum(hy.abs(x))
    while y < 20:
        S.new = y
        y = y * 2
    return y


def set_in_a_loop(x):
    y = hy.sum(hy.abs(x))
    while y < 20:
        S.seen = y
        y = y * 2
    return y


def first_set_on_a_module(x):
    if hy.sum(x) > 0:
        S.net.last = x * 2
    return S.net(x)


@around
def set_on_a_module(wrap, x):
    if not hasattr(S.net, "last"):
        S.net.last = None
    return wrap(first_set_on_a_module)(x), S.net.last


def another_object(x):
    S.o = P(x * 2, x)
    return x


def attributes_of_it(x):
    S.o.a, S.o.b = x * 2, x
    return x


def another_object_in_a_branch(x):
    if hy.sum(x) > 0:
        S.o = P(x * 2, x)
    return x


def attributes_in_a_branch(x):
    if hy.sum(x) > 0:
        S.o.a, S.o.b = x * 2, x
    return x


def another_object_in_a_loop(x):
    y = hy.abs(x)
    while hy.sum(y) < 20:
        S.o = P(y, y)
        y = y * 2
    return y


def attributes_in_a_loop(x):
    y = hy.abs(x)
    while hy.sum(y) < 20:
        S.o.a = S.o.b = y
        y = y * 2
    return y


def one_object_or_another(x):
    s = S.o
    if hy.sum(x) > 0:
        s = P(x, x)
    return s.a + s.b


def a_copy_of_it(x):
    s = copy.copy(S.o)
    if hy.sum(x) > 0:
        s = P(x, x)
    return s.a + s.b


def its_attributes(x):
    s = copy.copy(S.o)
    if hy.sum(x) > 0:
        s.a, s.b = x, x
    return s.a + s.b


def another_object_each_time(x):
    s = S.o
    while hy.sum(s.a) < 20:
        s = P(s.a + hy.abs(x), s.b)
    return s.a


def a_copy_each_time(x):
    s = copy.copy(S.o)
    while hy.sum(s.a) < 20:
        s = P(s.a + hy.abs(x), s.b)
    return s.a


def one_object_all_the_time(x):
    s = S.o
    while hy.sum(s.a) < 20:
        s.a = s.a + hy.abs(x)
    return s.a


def deleting(x):
    del S.t
    return x


def assigning_none(x):
    S.t = None
    return x


def replacing_a_part(x):
    S.net.weight = hy.nn.Parameter(hy.ones((3, 3)))
    return S.net(x)


def writing_its_value(x):
    with hy.no_grad():
        S.net.weight.assign(hy.ones((3, 3)))
    return S.net(x)


@around
def replacing_outside(wrap, x):
    S.net.weight = hy.nn.Parameter(hy.ones((3, 3)))
    return wrap(S.net)(x)


def deleting_a_part(x):
    del S.net.bias
    return x @ S.net.weight.mT


def without_a_part(x):
    S.net.last = x
    S.net.last = None
    return S.net(x)


@around
def deleting_outside(wrap, x):
    if hasattr(S.net, "bias"):
        del S.net.bias
    return wrap(lambda x: x @ S.net.weight.mT)(x)


def a_new_hook(x):
    S.net.register_forward_hook(lambda module, given, result: result * 2)
    return S.net(x)


@around
def a_hook_from_outside(wrap, x):
    handle = S.net.register_forward_hook(lambda module, given, result: result * 2)
    result = wrap(S.net)(x)
    handle.remove()
    return result


def converting_a_module(x):
    return S.net.to(hy.float64)(x.astype(hy.float64))


@around
def converted_outside(wrap, x):
    S.net.to(hy.float64)
    return wrap(S.net)(x.astype(hy.float64))


def converting_what_it_returns(x):
    return S.net(x).astype(hy.float64)


def kept_by_a_library(x):
    KEPT.set(x + 1)
    return x


@around
def leaking_outside(wrap, x):
    wrap(kept_by_a_library)(x)
    return KEPT.get() + 1


@around
def returned_in_place_of_that(wrap, x):
    return wrap(lambda x: (x, x + 1))(x)[1] + 1


# Arguments and results ---------------------------------------------------------------------------


def appending(batch, other):
    batch.append(other[0] * 2)
    return batch


@around
def one_list_in_two_ways(wrap, x):
    batch = [x]
    return wrap(appending)(batch, batch)


@around
def passed_once(wrap, x):
    return wrap(lambda batch: appending(batch, batch))([x])


@around
def passed_as_a_copy(wrap, x):
    batch = [x]
    return wrap(appending)(batch, list(batch))


def adding_up(x, y):
    x += y
    return y


@around
def an_array_that_is_written(wrap, x):
    return wrap(adding_up)(np.ones(3, np.float32), x)


@around
def a_tensor_that_is_written(wrap, x):
    given = hy.asarray(np.ones(3, np.float32))
    return wrap(adding_up)(given, x), given


@around
def new_values(wrap, x):
    return wrap(lambda x, y: x + y)(np.ones(3, np.float32), x)


def hiding(x):
    return P(x * 2).__repr__


def what_it_hides(x):
    return [x * 2], (x, {"a": x * 3})


def giving_later(x):
    yield x
    yield x * 2


@around
def later(wrap, x):
    return list(wrap(giving_later)(x))


@around
def in_a_list(wrap, x):
    return wrap(lambda x: list(giving_later(x)))(x), wrap(lambda x: tuple(giving_later(x)))(x)


def a_list_on_one_path(x):
    p = P(x)
    if hy.sum(x) > 0:
        p.extra = [x, x * 2]
    return p


def a_list_or_none(x):
    p = P(x)
    p.extra = None
    if hy.sum(x) > 0:
        p.extra = x * 2
    return p


# Gradients ---------------------------------------------------------------------------------------


@around
def backward_through_an_argument(wrap, x):
    return wrap(lambda h, x: hy.sum(h * x).backward())(S.w * 2, x)


@around
def backward_outside(wrap, x):
    wrap(lambda h, x: hy.sum(h * x))(S.w * 2, x).backward()


@around
def backward_of_what_is_detached(wrap, x):
    def run(h, x):
        y = x * 1
        y.requires_grad = True
        hy.sum(h * y).backward()
        return y.grad

    return wrap(lambda h, x: hy.sum(h * S.w * x).backward())((S.w * 2).detach(), x)


def variable_and_more(x):
    z = S.w.detach()
    z.requires_grad = True
    return z, z * x


@around
def variable_from_outside(wrap, x):
    z = hy.nn.Parameter(S.w.detach())
    hy.sum(wrap(lambda z, x: z * x)(z, x)).backward()
    return z.grad


# Which of two values it is -----------------------------------------------------------------------


def two_shapes(x):
    return hy.sum(x) if hy.sum(x) > 0 else x


def one_shape(x):
    return hy.sum(x) + x * 0 if hy.sum(x) > 0 else x


def two_texts(x):
    state = "grow"
    if hy.sum(x) > 0:
        state = "shrink"
    return x * 2, state


@around
def a_number_for_the_text(wrap, x):
    def run(x):
        code = 0
        if hy.sum(x) > 0:
            code = 1
        return x * 2, code

    result, code = wrap(run)(x)
    return result, NAMES[code]


def two_functions(x):
    f = hy.exp if hy.sum(x) > 0 else hy.abs
    return f(x)


def called_on_its_path(x):
    return hy.exp(x) if hy.sum(x) > 0 else hy.abs(x)


def two_sets(x):
    seen = {2}
    if hy.sum(x) > 0:
        seen.add(1)
    return x if 1 in seen else -x


def flags(x):
    seen = hy.zeros(3, dtype=hy.bool)
    seen[2] = True
    if hy.sum(x) > 0:
        seen[1] = True
    return x if seen[1] else -x


class Plain:
    """What a branch may bind to a name."""

    def __init__(self, text):
        self.text = text

    def __del__(self):
        pass


def two_others(x):
    p = Plain(1) if hy.sum(x) > 0 else Plain(2)
    return x * p.text


def an_object_made_before(x):
    p = Plain(2)
    if hy.sum(x) > 0:
        p.text = 1
    return x * p.text


def in_a_variable(x):
    text = 1 if hy.sum(x) > 0 else 2
    return x * text


def an_optional_result(x):
    y = None
    if hy.sum(x) > 3:
        y = x * 2
    return [x, y]


def a_result_on_each_path(x):
    y = x * 0
    if hy.sum(x) > 3:
        y = x * 2
    return [x, y]


def a_test_of_the_result(x):
    y = an_optional_result(x)[1]
    return x if y is None else y


def a_list_that_is_one_of_two(x):
    xs, ys = [x], [x * 2]
    zs = xs
    if hy.sum(x) > 0:
        zs = ys
    zs.append(x * 3)
    return xs, ys


def a_new_list_on_each_path(x):
    xs, ys = [x], [x * 2]
    zs = list(xs)
    if hy.sum(x) > 0:
        zs = list(ys)
    zs.append(x * 3)
    return xs, ys, zs


def the_old_one_on_each_path(x):
    xs, ys = [x], [x * 2]
    if hy.sum(x) > 0:
        ys.append(x * 3)
    else:
        xs.append(x * 3)
    return xs, ys


def asked_which_it_is(x):
    xs = ys = [x]
    if hy.sum(x) > 0:
        xs = list(xs)
    return x if xs is ys else x * 2


def asked_for_a_flag(x):
    xs, same = [x], True
    if hy.sum(x) > 0:
        xs, same = list(xs), False
    return x if same else xs[0] * 2


def compared_by_what_it_holds(x):
    a, b = P(x), P(x * 2)
    if hy.sum(x) > 0:
        a = P(x * 2)
    return x if hy.all(a.a == b.a) else x * 2


def written_of_two_dtypes(x):
    y = x.astype(hy.float64)
    z = x
    if hy.sum(x) > 0:
        z = y
    z += 1
    return z


def bound_anew(x):
    z = x
    if hy.sum(x) > 0:
        z = x.astype(hy.float64)
    z = z + 1
    return z.astype(hy.float64)


def written_of_one_dtype(x):
    y = x * 2
    z = x
    if hy.sum(x) > 0:
        z = y
    z += 1
    return z, y


def written_and_held_on_one_path(x):
    h, hs = x * 1, [x]
    if hy.sum(x) > 0:
        h = x * 2
        hs.append(h)
    h += 1
    return h, hs


def a_copy_is_held(x):
    h, hs = x * 1, [x]
    if hy.sum(x) > 0:
        h = x * 2
        hs.append(h * 1)
    h += 1
    return h, hs


def held_and_bound_anew(x):
    h, hs = x * 1, [x]
    if hy.sum(x) > 0:
        h = x * 2
        hs.append(h)
    h = h + 1
    return h, hs


def two_kinds_of_numbers(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    return x * 2, f"{n:x}"


def of_one_kind(x):
    n = 1 if hy.sum(x) > 0 else 2
    print(f"{n:x}")
    return x * n


def converted(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    print(f"{int(n):x}")
    return x * n


def kind_asked_for(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    return x * 2 if type(n) is int else x


def kind_asked_with_isinstance(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    return x * 2 if isinstance(n, int) else x


# What needs values -------------------------------------------------------------------------------


def selected_by_a_mask(x):
    if hy.sum(x) > -100:
        return hy.sum(x[x > 0])
    return hy.sum(x)


def masked(x):
    return hy.sum(hy.where(x > 0, x, 0))


def repeated(x):
    return hy.repeat(x, hy.astype(hy.abs(x), hy.int64))


INDICES = hy.asarray([0, 0, 1, 2, 2])


def taken(x):
    return hy.take(x, INDICES, axis=0)


def different_ones(x):
    return x * 2 if hy.unique_values(x).shape[0] > 2 else x


@around
def different_ones_outside(wrap, x):
    return wrap(lambda x, u: x * hy.sum(u))(x, hy.unique_values(x))


def so_many_different_ones(x):
    return hy.unique_values(x, size=3)


def a_length_of_a_run(x):
    n = x[0].astype(hy.int64).item()
    return x[: n % 3]


def of_fixed_length(x):
    n = x[0].astype(hy.int64).item() % 2
    return x[n : n + 2]


def chosen_from_the_whole(x):
    n = x[0].astype(hy.int64).item() % 3
    return hy.where(hy.arange(len(x)) < n, x, 0)


def a_slice_that_is_cut(x):
    n = hy.floor(hy.abs(x[0])).astype(hy.int64).item()
    return x[n : n + 2]


def a_slice_that_fits(x):
    n = hy.floor(hy.abs(x[0])).astype(hy.int64).item()
    n = min(n, 1)
    return x[n : n + 2]


def a_slice_of_what_is_padded(x):
    n = hy.floor(hy.abs(x[0])).astype(hy.int64).item()
    return hy.concat([x, hy.zeros(10)])[n : n + 2]


def an_index_of_a_run(x):
    return [x, x * 2][int(hy.argmax(x)) % 2] if len(S.items) else (x, "ab"[int(hy.argmax(x))])


def stacked_and_indexed(x):
    return hy.stack([x, x * 2])[int(hy.argmax(x)) % 2]


@around
def indexed_outside(wrap, x):
    return wrap(lambda x, at: [x, x * 2, x * 3][at])(x, int(hy.argmax(x)))


def a_key_of_a_run(x):
    k = int(hy.argmax(x))
    return x if k in {0, 5} and hash(k) else x * 2


def in_arithmetic(x):
    k = int(hy.argmax(x))
    return x * k if k > 0 else x + x[k]


@around
def key_from_outside(wrap, x):
    return wrap(lambda x, k: x if k in {0, 5} else x * 2)(x, int(hy.argmax(x)))


def an_array_of_a_run(x):
    return x + np.asarray([int(hy.argmax(x))])


def a_tensor_in_its_place(x):
    return x + hy.asarray([int(hy.argmax(x))])


def a_value_of_a_run(x):
    return x[0].numpy() * 2


@around
def value_read_outside(wrap, x):
    return wrap(lambda x: x[0])(x).numpy() * 2


@around
def a_truth_while_tracing(wrap, x):
    return hy.hybridize(called_on_its_path, mode="trace")(x)


def by_cond(x):
    return hy.cond(hy.sum(x) > 0, hy.exp, hy.abs, x)


def by_where(x):
    return hy.where(hy.sum(x) > 0, hy.exp(x), hy.abs(x))


def by_while_loop(x):
    return hy.while_loop(lambda y: hy.sum(y) < 50, lambda y: y * 2, hy.abs(x))


def int_beyond_64_bits(x):
    k = int(hy.argmax(x)) + 1
    for _ in range(5):
        k = k * 2**40
    return k


def float_in_place(x):
    k = float(int(hy.argmax(x)) + 1)
    for _ in range(5):
        k = k * 2.0**40
    return k


@around
def computed_outside(wrap, x):
    k = wrap(lambda x: int(hy.argmax(x)) + 1)(x)
    return k * 2**200


# Effects of libraries ----------------------------------------------------------------------------


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
    return np.sin(x)


def hybrids_own(x):
    return hy.sin(x)


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
    Row(counting, "keep the value in a tensor (x.assign, +=), return it, or change it outside",
        (counting_in_a_tensor, counting_by_assign, counting_outside)),
    Row(first_set_in_a_branch, "give it the attribute new before the call, None say",
        (set_in_a_branch,)),
    Row(first_set_in_a_loop, "give it the attribute new before the call, None say",
        (set_in_a_loop,)),
    Row(first_set_on_a_module, "give it the attribute last before the call, None say",
        (set_on_a_module,)),
    Row(another_object, "let there be a P before the call, and set its attributes "
        "(SimpleNamespace.o.a = ...)", (attributes_of_it,)),
    Row(another_object_in_a_branch, "set the attributes of the P that is there "
        "(SimpleNamespace.o.a = ...)", (attributes_in_a_branch,)),
    Row(another_object_in_a_loop, "set the attributes of the P that is there "
        "(SimpleNamespace.o.a = ...)", (attributes_in_a_loop,)),
    Row(one_object_or_another, "begin with a copy of the P (copy.copy), or set its attributes in "
        "place", (a_copy_of_it, its_attributes)),
    Row(another_object_each_time, "begin with a copy of the P (copy.copy), or set its attributes "
        "in place", (a_copy_each_time, one_object_all_the_time)),
    Row(deleting, "assign None, or delete it outside", (assigning_none,)),
    Row(replacing_a_part, "build the model outside, or write values with assign()",
        (writing_its_value, replacing_outside)),
    Row(deleting_a_part, "assign None, or delete it outside", (without_a_part, deleting_outside)),
    Row(a_new_hook, "add and remove hooks outside", (a_hook_from_outside,)),
    Row(converting_a_module, "convert modules outside, or use what astype() returns",
        (converted_outside, converting_what_it_returns)),
    Row(leaking_outside, "return the tensor from the hybridized function instead of storing it "
        "elsewhere", (returned_in_place_of_that,), LeakedValueError),
    Row(one_list_in_two_ways, "pass it once, or pass a copy", (passed_once, passed_as_a_copy)),
    Row(an_array_that_is_written, "pass hybrid.asarray(x), which is a tensor that can be written "
        "to, or return the new values", (a_tensor_that_is_written, new_values)),
    Row(hiding, "return the tensors in one of those", (what_it_hides,)),
    Row(later, "return a tuple or a list of tensors", (in_a_list,)),
    Row(a_list_on_one_path, "set it on every path, to None where there is nothing",
        (a_list_or_none,)),
    Row(backward_through_an_argument, "call backward() outside, or pass the argument with "
        "detach()", (backward_outside, backward_of_what_is_detached)),
    Row(variable_and_more, "make the variable (requires_grad = True, a copy of one) outside and "
        "pass it in", (variable_from_outside,)),
    Row(two_shapes, "the same type, shape and structure on both paths", (one_shape,)),
    Row(two_texts, "use an int in place of the text, and look the text up outside: NAMES[code]",
        (a_number_for_the_text,)),
    Row(two_functions, "call the one on the one path and the other on the other, and go on with "
        "what they return", (called_on_its_path,)),
    Row(two_sets, "keep what is in the set in a tensor of flags (seen[i] = True)", (flags,)),
    Row(two_others, "set the attributes of one object, which is made before, or keep the values "
        "in variables or a named tuple", (an_object_made_before, in_a_variable)),
    Row(an_optional_result, "be a tensor on every path, or test it with `is None` before it is "
        "used", (a_result_on_each_path, a_test_of_the_result)),
    Row(a_list_that_is_one_of_two, "bind a new list on every path, or change the old one in place "
        "on every path", (a_new_list_on_each_path, the_old_one_on_each_path)),
    Row(asked_which_it_is, "compare what they hold, or keep a flag beside them",
        (asked_for_a_flag, compared_by_what_it_holds)),
    Row(written_of_two_dtypes, "bind the name to a new tensor (x = x + 1), or give both branches "
        "one dtype", (bound_anew, written_of_one_dtype)),
    Row(written_and_held_on_one_path, "append a copy (xs.append(x * 1)), or bind the name to a "
        "new tensor (x = x + 1)", (a_copy_is_held, held_and_bound_anew)),
    Row(two_kinds_of_numbers, "give it one kind on all paths, or convert it: int(k)",
        (of_one_kind, converted)),
    Row(kind_asked_for, "ask with isinstance(k, int)", (kind_asked_with_isinstance,)),
    Row(selected_by_a_mask, "keep the shape: hybrid.where(mask, x, 0), with what changes no sum, "
        "product or maximum in place of 0", (masked,)),
    Row(repeated, "call take with indices that are computed outside", (taken,)),
    Row(different_ones, "call it outside the hybridized function and pass the result as an "
        "argument, or give a bound: unique_values(x, size=...)",
        (different_ones_outside, so_many_different_ones)),
    Row(a_length_of_a_run, "write x[i:i + 3], or keep the whole tensor and choose: hybrid.where("
        "hybrid.arange(len(x)) < n, x, 0)", (of_fixed_length, chosen_from_the_whole)),
    Row(a_slice_that_is_cut, "let the slice begin where all of it fits, or pad the tensor",
        (a_slice_that_fits, a_slice_of_what_is_padded)),
    Row(an_index_of_a_run, "put the items into a tensor (hybrid.stack) and index that, or compute "
        "indices and sizes outside the hybridized function",
        (stacked_and_indexed, indexed_outside), NeedsValue),
    Row(a_key_of_a_run, "keep it in arithmetic, comparisons, indexing of tensors and range(), or "
        "compute what needs its value outside the hybridized function",
        (in_arithmetic, key_from_outside), NeedsValue),
    Row(an_array_of_a_run, "leave numpy.asarray out, or join values with hybrid.stack",
        (a_tensor_in_its_place,), NeedsValue),
    Row(a_value_of_a_run, "return the tensor and read its value outside the hybridized function",
        (value_read_outside,), TracedValueError),
    Row(a_truth_while_tracing, 'leave out mode="trace", or call hybrid.cond, hybrid.while_loop or '
        "hybrid.where", (called_on_its_path, by_cond, by_where, by_while_loop), TracedBoolError),
    Row(int_beyond_64_bits, "use a float, or compute it outside the hybridized function",
        (float_in_place, computed_outside), OverflowError),
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
    Row(numpy_of_a_tensor, "call hybrid.sin", (hybrids_own,)),
    Row(numpy_maker, "leave numpy.asarray out, or join values with hybrid.stack", (left_out,)),
    Row(numpy_dtype, 'write hybrid.astype(x, "float64") for one of the dtypes of hybrid',
        (hybrids_dtype,)),
    Row(numpy_alone, "write it with the functions of hybrid, or call numpy.trim_zeros through "
        "hybrid.py_call or outside the hybridized function",
        (written_with_hybrid, by_py_call, numpy_outside)),
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
