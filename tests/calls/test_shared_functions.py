"""One hybridized function, many users: instances, threads, copies, calls that follow each other."""

# ruff: noqa: SIM108  the programs are about these forms

import copy
import gc
import pickle
import threading
import weakref

import pytest

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, describe, draw, f32, i64

table = Table()
X, Y = f32([1.0, -2.0, 3.0]), f32([-1.0, 2.0, -3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


def same(left, right) -> None:
    assert describe(left) == describe(right)


@table.runs(X, Y, grad=False)
def input_is_returned(x):
    y = x * 1
    if hy.sum(x) > 0:
        y = y + 1
    return x, y, x


@table.runs((X, Y), (Y, X), grad=False)
def inputs_are_returned_in_a_structure(x, y):
    z = x
    while hy.sum(z) < 5:
        z = z + 1
    return {"y": y, "all": [x, y, z, z]}


@table.runs((X, X), (Y, Y), grad=False)
def one_tensor_given_twice(x, y):
    if hy.sum(x) > 0:
        x += 1
    return x, y, x is y


@table.runs((X, X, X), (X, Y, X), (X, X, Y), grad=False)
def some_tensors_given_twice(x, y, z):
    for k in (x, y, z):
        if k[0] > 0:
            k += 1
    return x, y, z


@table.runs(X, Y, grad=False)
def input_untouched_by_a_branch_that_never_writes(x):
    y = [x]
    if hy.sum(x) > 0:
        z = y[0] * 2
    else:
        z = y[0]
    return y[0], z * 1


@table.runs(([X, X],), ([Y, X],), grad=False)
def a_list_that_holds_one_twice(xs):
    for x in xs:
        if x[0] > 0:
            x += 1
    return xs


@table.each()
def test_same(program: Program) -> None:
    program.check()


def test_outputs_survive_the_next_call() -> None:
    @hy.hybridize
    def f(x, n):
        ys = []
        h = x
        for i in range(4):
            h = hy.tanh(h + i)
            ys.append(h)
        total = x * 0
        for _ in range(n):
            total = total + x
        if hy.sum(x) > 0:
            return total, ys, hy.stack(ys)
        return total * 2, ys, hy.stack(ys)

    calls = [(X, i64(2)), (Y, i64(0)), (X * 2, i64(5)), (X, i64(2))]
    results = [(f(*args)) for args in calls]
    before = [describe(r) for r in results]
    for args in reversed(calls):
        f(*args)
    assert [describe(r) for r in results] == before
    assert before[0] == before[3] and before[0] != before[1]


def test_inputs_survive() -> None:
    @hy.hybridize
    def f(x):
        while hy.sum(x) < 100:
            x = x * 2 + 1
        return x

    before = describe(X)
    f(X), f(X)
    assert describe(X) == before


def test_writing_to_an_output_reaches_what_is_the_same_tensor() -> None:
    @hy.hybridize
    def f(x):
        y = x
        if hy.sum(x) > 0:
            y = x * 2
        return y, [y, x]

    for given, is_new in ((hy.abs(Y), True), (-hy.abs(Y), False)):
        argument = given * 1
        y, (z, x) = f(argument)
        assert y is z and x is argument and (y is x) is not is_new
        y += 100
        same(x, given if is_new else given + 100)


class Accumulator:
    """Two instances share the method and nothing else."""

    def __init__(self, k):
        self.k = k
        self.total = hy.zeros(())

    @hy.hybridize
    def add(self, x):
        if x > 0:
            self.total = self.total + x * self.k
        for _ in range(2):
            self.total = self.total * self.k
        return self.total


def test_instances_do_not_talk() -> None:
    a, b = Accumulator(2.0), Accumulator(3.0)
    found = [m.add(x).item() for x in NUMBERS for m in (a, b)]
    expected, totals = [], {2.0: 0.0, 3.0: 0.0}
    for x in NUMBERS:
        for k in totals:
            totals[k] = (totals[k] + max(x.item(), 0.0) * k) * k * k
            expected.append(totals[k])
    assert found == expected
    died = weakref.ref(a)
    del a
    gc.collect()
    assert died() is None


def test_threads_call_one_function() -> None:
    def function(x, n):
        for i in range(n):
            if hy.sum(x) > 0:
                x = hy.tanh(x) - i
            else:
                x = x * x + 0.5
        while hy.sum(x) < 8:
            x = hy.abs(x) * 1.5 + 1
        return x

    hybridized = hy.hybridize(function)
    calls = [(draw(16, seed=i), i64(i)) for i in range(6)]
    expected = [describe(function(*c)) for c in calls]
    wrong, start = [], threading.Barrier(6)

    def work(i: int) -> None:
        start.wait()  # so that the first calls are captured at once
        for _ in range(50):
            if describe(hybridized(*calls[i])) != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(hybridized.plans) == 1


def test_threads_print_and_raise() -> None:
    seen = []

    def note(a):
        seen.append(threading.get_ident())
        return a

    @hy.hybridize
    def f(x):
        for _ in range(3):
            x = hy.py_call(note, x, result=x.type) + 1
        if x > 5:
            raise ValueError("large")
        return x

    errors, start = [], threading.Barrier(3)

    def work(x: float) -> None:
        start.wait()  # no thread takes over the number of one that has ended
        for _ in range(20):
            try:
                if f(f32(x)).item() != x + 3:
                    errors.append("another result")
            except Exception as error:
                errors.append(str(error))

    threads = [threading.Thread(target=work, args=(x,), daemon=True) for x in (0.0, 1.0, 10.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(seen) == 180 and len(set(seen)) == 3
    assert errors == ["large"] * 20
    assert len(f.plans) == 1  # what the function for Python keeps is no key


class Looping(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)
        self.limit = 2.0

    def forward(self, x):
        for _ in range(5):
            x = hy.tanh(self.cell(x))
            if hy.sum(x * x) > self.limit:
                break
        return x


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))],
    ids=["deepcopy", "pickle"],
)
def test_copies_of_a_hybridized_module(clone) -> None:
    eager = Looping()
    net = copy.deepcopy(eager).hybridize()
    keys = list(net.state_dict())
    for x in (X, Y):
        same(net(x), eager(x))
    other = clone(net)
    assert list(other.state_dict()) == keys == list(eager.state_dict())
    for x in (X, Y):
        same(other(x), eager(x))
    with hy.no_grad():
        other.cell.bias.assign(other.cell.bias + 1)
    same(net(X), eager(X))
    assert describe(other(X)) != describe(eager(X))
    other.limit = 0.1
    same(net(X), eager(X))


def choose(x):
    return x * 2 if hy.sum(x) > 0 else x - 1


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))], ids=["deepcopy", "pickle"]
)
def test_copies_of_a_hybridized_function(clone) -> None:
    hybridized = hy.hybridize(choose)
    hybridized(X)
    other = clone(hybridized)
    assert other.plans == []
    same(other(X), choose(X))
    same(other(Y), choose(Y))


def test_conversion_leaves_the_function_alone() -> None:
    def f(x, k=[1.0]):  # noqa: B006
        """Doc."""
        if hy.sum(x) > 0:
            return x * k[0]
        return x

    before = f.__code__, f.__defaults__, f.__closure__, dict(f.__globals__), dict(vars(f))
    g = hy.hybridize(f)
    g(X), g(Y)
    assert (f.__code__, f.__defaults__, f.__closure__) == before[:3]
    assert dict(f.__globals__) == before[3] and dict(vars(f)) == before[4]
    assert g.__name__ == "f" and g.__doc__ == "Doc." and g.__wrapped__ is f
    same(f(X), X)


def test_memory_comes_back() -> None:
    def make():
        big = Accumulator(hy.ones((100, 100)))

        def f(x):
            for _ in range(3):
                if hy.sum(x) > 0:
                    x = x @ big.k
            return x

        hybridized = hy.hybridize(f)
        hybridized(hy.ones((1, 100)))
        return weakref.ref(big), weakref.ref(big.k)

    gone = make()
    gc.collect()
    assert gone[0]() is None and gone[1]() is None


def test_a_function_that_changes_its_mind() -> None:
    """A first call that raises leaves nothing that disturbs the second."""

    def f(x):
        while hy.sum(x) < 5:
            x = x + hy.ones(2)
        return x

    hybridized = hy.hybridize(f)
    for _ in range(2):
        with pytest.raises(ValueError):
            hybridized(X)
        same(hybridized(f32([1.0, 2.0])), f(f32([1.0, 2.0])))


def test_hybridized_within_hybridized_and_eager() -> None:
    inner = hy.hybridize(choose)
    outer = hy.hybridize(lambda x: inner(inner(x)) if hy.sum(x) > 0 else inner(x))
    for x in (X, Y, X * 2):
        same(outer(x), choose(choose(x)) if hy.sum(x) > 0 else choose(x))
        same(inner(x), choose(x))


def test_other_modes() -> None:
    same(hy.hybridize(choose, mode="ast")(X), choose(X))
    with pytest.raises(hy.HybridError):
        hy.hybridize(choose, mode="trace")(X)
    with pytest.warns(UserWarning, match="runs eagerly"):
        same(hy.hybridize(choose, mode="trace", fallback="eager")(X), choose(X))
    same(hy.hybridize(choose, optimize="fast")(Y), choose(Y))
