"""What refusals of state, arguments and gradients advise: each is followed, with the eager bits."""

from __future__ import annotations

import argparse
import sched
import uuid

import numpy as np

import hybrid as hy
from hybrid.errors import (
    LeakedValueError,
)
from tests.advice import P, Row, S, around, check, named

# What outlives the call ---------------------------------------------------------------------------


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


class Shared:
    """Has an attribute that its objects do not have themselves."""

    best = 0.0


@around
def hiding_that_of_the_class(wrap, x):
    S.shared = Shared()
    wrap(set_on_one_path)(x)
    return S.shared.best


@around
def with_one_of_its_own(wrap, x):
    S.shared = Shared()
    S.shared.best = Shared.best
    wrap(set_on_one_path)(x)
    return S.shared.best


def set_on_one_path(x):
    if hy.sum(x) > 0:
        S.shared.best = 1.5
    return x


def first_set_on_a_module(x):
    if hy.sum(x) > 0:
        S.net.last = x * 2
    return S.net(x)


def first_set_to_a_number_of_a_run(x):
    if hy.sum(x) > 0:
        S.new = hy.sum(x).item()
    return x


@around
def tensor_there_before(wrap, x):
    def step(x):
        if hy.sum(x) > 0:
            S.new.assign(hy.sum(x).item())
        return x

    if not hasattr(S, "new"):
        S.new = hy.zeros(())
    return wrap(step)(x)


def first_set_to_a_list(x):
    if hy.sum(x) > 0:
        S.new = [x, x * 2]
    return x


def first_set_to_a_tuple(x):
    if hy.sum(x) > 0:
        S.new = x, 1
    return x


def first_set_to_a_dict(x):
    if hy.sum(x) > 0:
        S.new = {"a": x}
    return x


def key_first_set_in_a_branch(x):
    if hy.sum(x) > 0:
        S.table["new"] = x * 2
    return x


@around
def key_there_before(wrap, x):
    S.table.setdefault("new", hy.zeros(3))
    return wrap(key_first_set_in_a_branch)(x)


def first_set_to_an_object(x):
    if hy.sum(x) > 0:
        S.new = P(x * 2, x)
    return x


def with_what_is_there_before(program, make):
    """``program``, before which ``S.new`` and ``S.seen`` are what ``make`` gives."""

    def call(wrap, x):
        if not hasattr(S, "new"):
            S.new, S.seen = make(), make()
        return wrap(program)(x)

    call.__name__ = f"{program.__name__}_again"
    return around(call)


def zeros_in_a_list():
    return [hy.zeros(3), hy.zeros(3)]


def attributes_of_a_new_one(x):
    if hy.sum(x) > 0:
        S.new.a, S.new.b = x * 2, x
    return x


@around
def set_on_a_module(wrap, x):
    if not hasattr(S.net, "last"):
        S.net.last = None
    return wrap(first_set_on_a_module)(x), S.net.last


def another_object(x):
    S.o = argparse.Namespace(a=x * 2, b=x)
    return x


def attributes_of_it(x):
    S.o.a, S.o.b = x * 2, x
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
    S.kept.enterabs(1, 1, print, (x + 1,))
    return x


@around
def leaking_outside(wrap, x):
    S.kept = sched.scheduler()
    wrap(kept_by_a_library)(x)
    return S.kept.queue[0].argument[0] + 1


@around
def returned_in_place_of_that(wrap, x):
    return wrap(lambda x: (x, x + 1))(x)[1] + 1


# Arguments and results ----------------------------------------------------------------------------


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


@around
def a_key_on_one_path(wrap, x):
    def step(d, x):
        if hy.sum(x) > 0:
            d["new"] = x * 2

    d = {}
    wrap(step)(d, x)
    return d


@around
def a_key_or_none(wrap, x):
    def step(d, x):
        d["new"] = None
        if hy.sum(x) > 0:
            d["new"] = x * 2

    d = {}
    wrap(step)(d, x)
    return d


# Gradients ----------------------------------------------------------------------------------------


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


# Names that are other ones at each call ---------------------------------------------------------


@hy.no_convert
def fresh_name():
    return f"n{uuid.uuid4().hex}"


def another_name_each_time(x):
    setattr(S, fresh_name(), x * 2)
    return x


def one_name_all_the_time(x):
    setattr(S, "".join(["se", "en"]), x * 2)
    return x


ROWS = [
    Row(counting, "keep the value in a tensor (x.assign, +=), return it, or change it outside",
        (counting_in_a_tensor, counting_by_assign, counting_outside)),
    Row(first_set_in_a_branch, "give it the attribute new before the call, None say",
        (set_in_a_branch,)),
    Row(first_set_in_a_loop, "give it the attribute new before the call, None say",
        (set_in_a_loop,)),
    Row(first_set_on_a_module, "give it the attribute last before the call, None say",
        (set_on_a_module,)),
    Row(hiding_that_of_the_class, "give the object itself the attribute best before the call",
        (with_one_of_its_own,)),
    Row(first_set_to_a_number_of_a_run, "give it the attribute new before the call, a tensor, and "
        "write to that (SimpleNamespace.new.assign(...))", (tensor_there_before,)),
    Row(first_set_to_a_list, "give it the attribute new before the call, a list of as many items",
        (with_what_is_there_before(first_set_to_a_list, zeros_in_a_list),)),
    Row(first_set_to_a_tuple, "give it the attribute new before the call, a tuple of as many items",
        (with_what_is_there_before(first_set_to_a_tuple, lambda: (hy.zeros(3), 0)),)),
    Row(first_set_to_a_dict, "give it the attribute new before the call, a dict of the same keys",
        (with_what_is_there_before(first_set_to_a_dict, lambda: {"a": hy.zeros(3)}),)),
    Row(key_first_set_in_a_branch, "let there be a tensor before the call (SimpleNamespace.table["
        "'new'])", (key_there_before,)),
    Row(first_set_to_an_object, "let there be a P before the call, and set its attributes "
        "(SimpleNamespace.new.a = ...)",
        (with_what_is_there_before(attributes_of_a_new_one, lambda: P(hy.zeros(3), hy.zeros(3))),)),
    Row(another_object, "let there be a Namespace before the call, and set its attributes "
        "(SimpleNamespace.o.a = ...)", (attributes_of_it,)),
    Row(replacing_a_part, "build the model outside, or write values with assign()",
        (writing_its_value, replacing_outside)),
    Row(deleting_a_part, "delete it outside", (without_a_part, deleting_outside)),
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
    Row(a_key_on_one_path, "set it on every path, to None where there is nothing",
        (a_key_or_none,)),
    Row(backward_through_an_argument, "call backward() outside, or pass the argument with "
        "detach()", (backward_outside, backward_of_what_is_detached)),
    Row(variable_and_more, "make the variable (requires_grad = True, a copy of one) outside and "
        "pass it in", (variable_from_outside,)),
    Row(another_name_each_time, "keep what it writes in objects, and under names, that are the "
        "same at each call", (one_name_all_the_time,)),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)
