"""Names that stand for a tensor of another name on some paths only, and are then written in place.

A tensor is a cell: what is written to it through one name is seen through every other.
"""

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0, 7.0)]
X = f32([0.5, -1.0, 2.0])


def several(*functions):
    for function in functions:
        table.runs(*NUMBERS)(function)


def written_on_one_path_and_bound_on_the_other(x):
    y = x * 1
    z = y
    if x > 0:
        y += 1
    else:
        y = -y
    z += 10
    return y, z


def items_written_and_bound(x):
    x = x * 1
    xs = [x, x]
    if x > 0:
        xs[0] += 1
    else:
        xs[0] = -xs[0]
    xs[1] += 10
    return xs


def a_ternary(x):
    x = x * 1
    y = x if x > 0 else -x
    x += 10
    return y, x


def a_ternary_written_through(x):
    x = x * 1
    y = x if x > 0 else -x
    y += 10
    x *= 2
    return y, x


def bound_in_one_branch(x):
    x = x * 1
    y = x
    if x < 0:
        y = -y
    x += 10
    return y, x


def bound_under_two_conditions(x):
    x = x * 1
    y = x
    if x < 3:
        y = y * 2
        if x < 0:
            y = x
    x += 10
    y *= 3
    return y, x


def a_branch_of_a_branch(x):
    a, b, c = x * 1, x * 2, x * 3
    y = (a if x > 1 else b) if x > 0 else c
    b += 1
    y *= 2
    c -= 1
    a *= 3
    return a, b, c, y


def chosen_twice(x):
    a, b = x * 1, x * 2
    y = a if x > 0 else b
    z = y if x > 1 else a
    y += 1
    z *= 2
    a += 3
    b *= 5
    return a, b, y, z


def one_new_tensor_of_two_names(x):
    y, z = x * 1, x * 2
    if x < 1:
        y = z = x * 3
    y += 1
    z *= 2
    return y, z


def swapped(x):
    a, b = x * 1, x * 2
    first = a
    if a > b:
        a, b = b, a
    a += 5
    first *= 2
    return a, b, first


def an_operand_of_or(x):
    z = x * 1
    y = z or x
    z += 5
    return y, z


def an_operand_of_and(x):
    z = x * 1 - 2
    w = x * 2
    y = z and w
    z += 5
    w *= 2
    y -= 1
    return y, z, w


def the_largest(x):
    a, b = x * 1, x * 2
    m = max(a, b)
    a += 5
    m *= 2
    return m, a, b


def written_in_a_later_branch(x):
    a, b = x * 1, x * 2
    y = a if x > 0 else b
    if x > 1:
        a += 1
    else:
        y *= 3
    b -= 1
    return a, b, y


def merged_and_written_in_one_branch(x):
    a, b = x * 1, x * 2
    y = b
    if x < 3:
        y = a if x > 0 else b
        a *= 4
        y += 1
    b += 2
    return a, b, y


def the_other_name_bound_anew(x):
    x = x * 1
    y = x
    x = x * 2 if x > 0 else x
    y += 1
    return x, y


def in_an_attribute(x):
    a, o = x * 1, SimpleNamespace(v=x * 2)
    if x > 0:
        o.v = a
    a += 1
    o.v *= 2
    return a, o.v


def in_a_list(x):
    a, xs = x * 1, [x * 2, x * 3]
    if x > 0:
        xs[0] = a
        xs[1] = xs[0]
    a += 1
    xs[1] *= 2
    return a, xs


def in_a_dict(x):
    a, d = x * 1, {"k": x * 2}
    if x > 0:
        d["k"] = a
    a += 1
    d["k"] *= 2
    return a, d


def in_an_object_made_anew(x):
    a = x * 1
    o, b = SimpleNamespace(v=a), a
    if x > 0:
        o = SimpleNamespace(v=a * 2)
    a += 1
    o.v += 3
    return a, b, o.v


def from_a_function(x):
    def pick(a, b):
        if x > 0:
            return a
        return b

    a, b = x * 1, x * 2
    y = pick(a, b)
    a += 1
    y *= 2
    return a, b, y


def from_a_function_that_returns_early(x):
    def pick(a, b):
        if x > 1:
            return a
        a = a * 2
        if x > 0:
            return b
        return a

    a, b = x * 1, x * 2
    y = pick(a, b)
    a += 1
    y *= 2
    b -= 1
    return a, b, y


def written_under_no_grad(x):
    a = x * 1
    y = a if x > 0 else a * 2
    with hy.no_grad():
        a += 1
    return y * a, a


def of_a_branch_that_raises(x):
    a = x * 1
    if x < -1:
        raise ValueError("low")
    else:
        y = a
    a += 1
    return a, y


def maybe_unbound(x):
    a = x * 1
    if x > 1:
        y = a
    a += 1
    if x > 1:
        return y * a
    return a


def or_none(x):
    a = x * 1
    y = None
    if x > 1:
        y = a
    a += 1
    return a if y is None else y * a


def is_it(x):
    a = x * 1
    y = a if x > 0 else x * 1
    return (a * 2 if y is a else a), y


def one_of_one_of_two_in_an_inner_branch(x):
    """The gradient: a value that may be another one, which may be a third, in a branch."""

    def keep(v):
        if x < 0:
            return v
        v = v * 0.5
        return v

    a, b = x * 2, x * 0.25
    c = b if x > 1 else a
    b += 1
    d = b if x > 1 else keep(c)
    return a, b, c, d


several(
    one_of_one_of_two_in_an_inner_branch,
    written_on_one_path_and_bound_on_the_other, items_written_and_bound, a_ternary,
    a_ternary_written_through, bound_in_one_branch, bound_under_two_conditions,
    a_branch_of_a_branch, chosen_twice, one_new_tensor_of_two_names, swapped, an_operand_of_or,
    an_operand_of_and, the_largest, written_in_a_later_branch, merged_and_written_in_one_branch,
    the_other_name_bound_anew, in_an_attribute, in_a_list, in_a_dict,
    in_an_object_made_anew, from_a_function,
    from_a_function_that_returns_early, written_under_no_grad, of_a_branch_that_raises,
    maybe_unbound, or_none, is_it,
)  # fmt: skip


@table.runs(*[(x, f32(s)) for x in (X, -X) for s in (-1.0, 1.0)])
def parts_of_vectors(x, s):
    a, b = x * 1, x * 2
    y = a if s > 0 else b
    y[0] = s
    a[1:] += 1
    b.assign(a * b)
    return a, b, y


@table.runs(*[(x, f32(s)) for x in (X, -X) for s in (-1.0, 1.0)], grad=False)
def arguments(x, s):
    y = x if s > 0 else x * 2
    x += 1
    y *= 2
    return y * 1


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
