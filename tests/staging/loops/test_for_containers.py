"""for over lists, tuples, dicts, zip, enumerate, generators and modules."""

# ruff: noqa: B007, B905, SIM108, SIM118  the programs are about these forms

import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass

import numpy as np

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Fresh, Program, Table, draw, f32, i64

table = Table()
X, Y, Z = f32([1.0, -2.0, 3.0]), f32([0.5, 0.25, -1.0]), f32([2.0, 2.0, -7.0])


@table.runs(([X, Y, Z],), ([Z, X, Y],), plans=1)
def over_a_list(xs):
    total = hy.zeros(3)
    for x in xs:
        total = total * 0.5 + x
    return total


@table.runs((X, Y), (Y, Z))
def over_a_tuple(x, y):
    total = hy.zeros(3)
    for v in (x, y, x + y):
        total = hy.tanh(total + v)
    return total


@table.runs(([X, hy.ones((2, 3)), f32(2.0)],), plans=1)
def over_different_shapes(xs):
    total = hy.zeros((2, 3))
    for x in xs:
        total = total * x + 1
    return total


@table.runs(([X, 2, 3.5, None, Y],), plans=1)
def over_different_kinds(xs):
    total = hy.zeros(3)
    for x in xs:
        if x is None:
            total = hy.tanh(total)
        elif isinstance(x, int):
            total = total + x
        else:
            total = total * x
    return total


@table.runs(({"a": X, "b": Y},), ({"a": Y, "b": Z},), plans=1)
def over_a_dict(xs):
    total = hy.zeros(3)
    names = ""
    for name in xs:
        total = total * 0.5 + xs[name]
        names += name
    return total, names


@table.runs(({"a": X, "b": Y},), ({"a": Y, "b": Z},), plans=1)
def over_items(xs):
    found = {}
    for name, x in xs.items():
        if hy.sum(x) > 0:
            found[name] = x * 2
        else:
            found[name] = x
    return found


@table.runs(({"a": X, "b": Y},), plans=1)
def over_keys_and_values(xs):
    total = hy.zeros(3)
    for k in xs.keys():
        total = total + xs[k]
    for v in xs.values():
        total = total * v
    return total


@table.runs((X, Y), (Z, X))
def over_zip(x, y):
    total = hy.zeros(3)
    for a, b in zip([x, y], (y, x)):
        total = total + a * b
    return total


@table.runs((draw(3, 2), 1.5), (draw(3, 2, seed=1), 1.5))
def over_zip_of_tensor_and_list(x, k):
    total = hy.zeros(2)
    for row, w in zip(x, [1.0, k, 2.0]):
        total = total + row * w
    return total


@table.runs((X, Y), (Z, X))
def over_enumerate(x, y):
    total = hy.zeros(3)
    for i, v in enumerate([x, y, x], start=1):
        total = total + v * i
    return total


@table.runs((X, Y), (Z, X))
def over_reversed(x, y):
    total = hy.zeros(3)
    for v in reversed([x, y, x * y]):
        total = total * 0.5 + v
    return total


@table.runs(X)
def over_a_generator(x):
    def powers(v):
        y = v
        for _ in range(3):
            yield y
            y = y * v

    total = hy.zeros(3)
    for p in powers(x):
        total = total + p
    return total


@table.runs(X, -X)
def over_a_generator_with_branches(x):
    def parts(v):
        if v[0] > 0:
            y = v * 2
        else:
            y = v
        yield y
        yield y + 1

    total = hy.zeros(3)
    for p in parts(x):
        total = total + p
    return total


@table.runs(X)
def over_a_generator_expression(x):
    total = hy.zeros(3)
    for p in (x * k for k in (1.0, 2.0, 3.0)):
        total = total + p
    return total


@table.runs(([X, Y], Fresh(lambda: iter([1.0, 2.0, 3.0]))), plans=2)
def over_a_used_iterator(xs, numbers):
    next(numbers)
    total = hy.zeros(3)
    for k in numbers:
        total = total + xs[0] * k
    return total, next(numbers, None)


@table.runs(X)
def over_itertools(x):
    total = hy.zeros(3)
    for a, b in itertools.product([1.0, 2.0], [3.0, x]):
        total = total + a * b
    for c in itertools.islice(itertools.count(2), 3):
        total = total * c
    return total


@table.runs(X)
def over_strings_and_sets(x):
    for c in "abc":
        x = x + ord(c)
    for v in {1.5}:
        x = x * v
    for v in frozenset([2]):
        x = x - v
    return x


@table.runs((X, deque([Y, Z])), (Y, deque([Z, X])))
def over_a_deque(x, queue):
    for y in queue:
        x = x * 0.5 + y
    return x


@table.runs(X)
def over_an_array(x):
    for v in np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32):
        x = x + v
    return x


@table.runs(X, covered=False)
def over_nothing(x):
    for v in []:
        x = x * v
    for v in {}:
        x = x + v
    return x


@table.runs((X, Y), (Y, X))
def over_pairs(x, y):
    a = b = hy.zeros(3)
    for i, (p, (q, r)) in enumerate([(x, (y, 1)), (y, (x, 2))]):
        a = a + p * i
        b = b + q * r
    return a, b


@table.runs(([(X, Y), (Y, Z)],), plans=1)
def over_starred(pairs):
    total = hy.zeros(3)
    for first, *rest in pairs:
        total = total + first * rest[0] * len(rest)
    return total


@table.runs(X)
def target_is_an_item(x):
    found = [None, None]
    for found[0] in [x, x * 2]:
        found[1] = found[0]
    return found


@dataclass
class Point:
    x: object = None


@table.runs(X)
def target_is_an_attribute(x):
    point = Point()
    for point.x in [x, x * 2]:
        x = x + point.x
    return x, point.x


class Countdown:
    """An iterator written by hand."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@table.runs(X)
def over_an_iterator_of_ones_own(x):
    for i in Countdown(3):
        x = x * 0.5 + i
    return x


class Bag:
    """A sequence by __getitem__ alone."""

    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i * 1.5


@table.runs(X)
def over_a_sequence_by_getitem(x):
    for v in Bag():
        x = x + v
    return x


class Bunch:
    """__iter__ that is a generator over tensors."""

    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        for item in self.items:
            if hy.sum(item) > 0:
                item = item * 2
            yield item


@table.runs((X, Y), (Y, X))
def over_a_generator_method(x, y):
    total = hy.zeros(3)
    for v in Bunch(x, y, x):
        total = total + v
    return total


@table.runs(X, -X)
def list_changes_while_iterated(x):
    xs = [x]
    for v in xs:
        if len(xs) < 4:
            xs.append(v * 2)
    return xs


@table.runs((X, i64(1)), (-X, i64(0)))
def list_of_functions(x, k):
    for f in [hy.tanh, lambda v: v * 2, lambda v: v if k > 0 else -v]:
        x = f(x)
    return x


@table.runs(([X, Y, Z],), ([-X, Y, -Z],), plans=1)
def if_on_each(xs):
    positive = negative = hy.zeros(3)
    for x in xs:
        if hy.sum(x) > 0:
            positive = positive + x
        else:
            negative = negative + x
    return positive, negative


@table.runs(([X, Y, Z],), ([X, Y],), ([],), plans=3)
def lengths_make_plans(xs):
    total = hy.zeros(3)
    for x in xs:
        total = total + x
    return total


@table.runs((OrderedDict(a=X, b=Y),), plans=1)
def over_an_ordered_dict(xs):
    found = OrderedDict()
    for k, v in reversed(xs.items()):
        found[k] = v + 1
    return list(found.items())


@table.runs(([[X, Y], [Z]],), plans=1)
def nested_lists(rows):
    total = hy.zeros(3)
    for row in rows:
        for x in row:
            total = total * 0.5 + x
    return total


@table.runs((X, [1, 2, 3]), (X, [1, 5]), (X, [1, 2, 3]), plans=2)
def over_python_numbers(x, ks):
    for k in ks:
        x = x + k
    return x


@table.runs((X, [0.5, 2.0]), (-X, [0.5, 2.0]), plans=1)
def batches_with_branches(x, rates):
    for rate in rates:
        if x[0] > 1:
            x = x * rate
        else:
            x = x + rate
    return x


@table.makes(draw(2, 3), -draw(2, 3), plans=1)
def over_modules():
    layers = nn.ModuleList([nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)])

    def run(x):
        for layer in layers:
            x = layer(x)
            if hy.sum(x) > 0:
                x = x * 0.5
        return x

    return run, layers


@table.makes(draw(2, 3), -draw(2, 3), plans=1)
def over_a_sequential():
    layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

    def run(x):
        outputs = []
        for i, layer in enumerate(layers):
            x = layer(x)
            outputs.append(x)
        return outputs, i

    return run, layers


@table.makes(draw(2, 3), -draw(2, 3), plans=1)
def over_parameters():
    layer = nn.Linear(3, 3)

    def run(x):
        total = hy.sum(x)
        for p in layer.parameters():
            total = total + hy.sum(p * p)
        for _, p in layer.named_parameters():
            total = total + hy.sum(p)
        return total

    return run, layer


@table.makes(draw(2, 3), -draw(2, 3), plans=1)
def weights_tied_in_a_loop():
    layer = nn.Linear(3, 3)

    def run(x):
        for _ in range(4):
            x = hy.tanh(layer(x))
        return x

    return run, layer


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
