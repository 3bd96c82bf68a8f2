"""What makes a plan: numbers generalise, and what was read from outside is honoured."""

import functools
from types import SimpleNamespace

import numpy as np

import hybrid as hy
from hybrid import nn
from tests.staging.harness import describe, draw, f32, f64, i64

X = f32([1.0, -2.0, 3.0])
FACTOR = 2.0
TABLE = {"rate": 0.5, "names": ["a"]}
WEIGHTS = f32([1.0, 1.0, 1.0])


def same(left, right) -> None:
    assert describe(left) == describe(right)


def scale(x, k):
    if hy.sum(x) > 0:
        return x * k, k
    return x + k, k


def test_a_thousand_floats_make_at_most_two_plans() -> None:
    hybridized = hy.hybridize(scale)
    for k in np.random.default_rng(0).standard_normal(1000).tolist():
        same(hybridized(X, k), scale(X, k))
    assert len(hybridized.plans) <= 2


def test_many_ints_make_at_most_two_plans() -> None:
    hybridized = hy.hybridize(scale)
    for k in range(-50, 50):
        same(hybridized(X, k), scale(X, k))
    assert len(hybridized.plans) <= 2


def test_special_floats() -> None:
    hybridized = hy.hybridize(lambda x, k: (x * k, k))
    for k in (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 5e-324, 1e308, 0.1, 1 / 3):
        same(hybridized(f64(0.7), k), (f64(0.7) * k, k))
    assert len(hybridized.plans) <= 2


def test_large_ints() -> None:
    hybridized = hy.hybridize(lambda k: k + 1)
    for k in (0, 1, 2**31, -(2**31), 2**53 + 1, 2**62, -(2**63)):
        assert hybridized(k) == k + 1
    for k in (2**64, 10**30, -(10**30)):  # what int64 does not hold stays Python
        assert hybridized(k) == k + 1


def test_numbers_of_different_kinds_are_different_keys() -> None:
    hybridized = hy.hybridize(lambda x, k: (x * k, k))
    for k in (1, 1.0, True, 2, 2.0, False, 3, 3.0):
        same(hybridized(X, k), (X * k, k))
    assert len(hybridized.plans) <= 6


def test_a_float_that_decides_in_python_terms() -> None:
    def f(x, k):
        if k > 0:
            return x * k
        return x - k

    hybridized = hy.hybridize(f)
    for k in (1.0, -1.0, 2.0, -2.0, 3.0, 0.0, 4.0):
        same(hybridized(X, k), f(X, k))
    assert len(hybridized.plans) <= 2


def test_an_int_that_makes_shapes_is_not_generalised() -> None:
    def f(x, n):
        return hy.zeros((n, 3)) + x

    hybridized = hy.hybridize(f)
    for n in (1, 2, 3, 2, 1):
        same(hybridized(X, n), f(X, n))


def test_an_int_that_counts_a_loop() -> None:
    def f(x, n):
        for i in range(n):
            x = x * 0.5 + i
        return x

    hybridized = hy.hybridize(f)
    for n in (3, 5, 0, 50, 1, 3):
        same(hybridized(X, n), f(X, n))
    assert len(hybridized.plans) <= 2


def test_keyword_numbers() -> None:
    hybridized = hy.hybridize(scale)
    for k in (0.5, 1.5, 2.5, 3.5):
        same(hybridized(X, k=k), scale(X, k=k))
    assert len(hybridized.plans) <= 2


def test_two_numbers_change_one_after_the_other() -> None:
    hybridized = hy.hybridize(lambda x, a, b: x * a + b)
    for i in range(20):
        a, b = (float(i), 1.0) if i < 10 else (9.0, float(i))
        same(hybridized(X, a, b), X * a + b)
    assert len(hybridized.plans) <= 4


def test_toggling_training_makes_two_plans() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    hybridized = hy.hybridize(lambda x: net(x) if hy.sum(x) > 0 else x)
    for i in range(8):
        net.train(i % 2 == 0)
        hybridized(X)
    assert len(hybridized.plans) == 2


def test_a_hybridized_module_makes_two() -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            if self.training:
                x = self.drop(x)
            while hy.sum(x) < 10:
                x = x + 1
            return x

    net = Net().hybridize()
    for i in range(6):
        net.train(i % 2 == 0)
        net(X)
    assert len(net.plans) == 2


def test_a_changed_global_is_honoured(monkeypatch) -> None:
    def f(x):
        if hy.sum(x) > 0:
            return x * FACTOR
        return x

    hybridized = hy.hybridize(f)
    for value in (2.0, 3.0, 2.0, 4.0, 5.0, 6.0):
        monkeypatch.setitem(globals(), "FACTOR", value)
        same(hybridized(X), f(X))


def test_a_changed_global_tensor_needs_no_plan(monkeypatch) -> None:
    def f(x):
        while hy.sum(x) < 10:
            x = x + WEIGHTS
        return x

    hybridized = hy.hybridize(f)
    for k in (1.0, 2.0, 3.0):
        WEIGHTS.assign(f32([k, k, k]))
        same(hybridized(X), f(X))
    assert len(hybridized.plans) == 1
    monkeypatch.setitem(globals(), "WEIGHTS", f32([4.0, 5.0, 6.0]))
    same(hybridized(X), f(X))


def test_a_changed_dict_is_honoured(monkeypatch) -> None:
    def f(x):
        return x * TABLE["rate"] if hy.sum(x) > 0 else x * len(TABLE["names"])

    hybridized = hy.hybridize(f)
    for rate, names in ((0.5, ["a"]), (0.25, ["a"]), (0.25, ["a", "b"])):
        monkeypatch.setitem(globals(), "TABLE", {"rate": rate, "names": names})
        same(hybridized(X), f(X))
        same(hybridized(-X), f(-X))


def test_a_changed_closure_is_honoured() -> None:
    k = 1.0

    def f(x):
        def inner(v):
            return v * k if hy.sum(v) > 0 else v - k

        return inner(x)

    hybridized = hy.hybridize(f)
    for value in (1.0, 2.0, 3.0):
        k = value
        same(hybridized(X), f(X))
        same(hybridized(-X), f(-X))


def test_a_changed_attribute_is_honoured() -> None:
    owner = SimpleNamespace(k=1.0, on=True, inner=SimpleNamespace(n=2))

    def f(x):
        for _ in range(owner.inner.n):
            if hy.sum(x) > 0 and owner.on:
                x = x * owner.k
        return x

    hybridized = hy.hybridize(f)
    changes = (("k", 2.0), ("k", 3.0), ("on", False), ("inner", SimpleNamespace(n=3)), ("on", True))
    for name, value in changes:
        setattr(owner, name, value)
        same(hybridized(X), f(X))


def test_what_only_the_branch_not_taken_reads_is_guarded() -> None:
    owner = SimpleNamespace(k=1.0)

    def f(x):
        if hy.sum(x) > 0:
            return x
        return x * owner.k

    hybridized = hy.hybridize(f)
    same(hybridized(X), f(X))
    owner.k = 5.0
    same(hybridized(-X), f(-X))


def test_what_a_loop_body_reads_is_guarded() -> None:
    ks = [1.0, 2.0]

    def f(x):
        while hy.sum(x) < 20:
            for k in ks:
                x = x + k
        return x

    hybridized = hy.hybridize(f)
    same(hybridized(X), f(X))
    ks.append(3.0)
    same(hybridized(X), f(X))
    ks[0] = 0.5
    same(hybridized(X), f(X))


def test_a_replaced_helper_is_honoured(monkeypatch) -> None:
    hybridized = hy.hybridize(calls_the_helper)
    same(hybridized(X), calls_the_helper(X))
    monkeypatch.setitem(globals(), "helper", lambda x: x - 100 if hy.sum(x) > 0 else x)
    same(hybridized(X), calls_the_helper(X))


def helper(x):
    return x * 2 if hy.sum(x) > 0 else x


def calls_the_helper(x):
    return helper(x) + 1


def test_defaults_are_honoured() -> None:
    def f(x, k=2.0):
        return x * k if hy.sum(x) > 0 else x

    hybridized = hy.hybridize(f)
    same(hybridized(X), X * 2.0)
    f.__defaults__ = (3.0,)
    same(hybridized(X), X * 3.0)


def test_structures_are_keys() -> None:
    def f(tree):
        total = hy.zeros(3)
        for t in tree.values() if isinstance(tree, dict) else tree:
            total = total + t
        return total

    hybridized = hy.hybridize(f)
    for tree in ([X], [X, X], (X,), {"a": X}, {"b": X}, [X], {"a": X}):
        same(hybridized(tree), f(tree))
    assert 4 <= len(hybridized.plans) <= 6


def test_types_are_keys() -> None:
    def f(x):
        while hy.sum(x) < 10:
            x = x + 1
        return x

    hybridized = hy.hybridize(f)
    for x in (X, f64([1.0, 2.0, 3.0]), draw(2, 3), i64([1, 2]), X):
        same(hybridized(x), f(x))
    assert len(hybridized.plans) == 4


def test_values_are_not_keys() -> None:
    def f(x, n):
        y = x
        for i in range(n):
            if x[0] > i:
                y = y + i
        return y

    hybridized = hy.hybridize(f)
    for seed in range(20):
        x, n = draw(3, seed=seed), i64(seed % 5)
        same(hybridized(x, n), f(x, n))
    assert len(hybridized.plans) == 1


def test_strings_and_flags_are_keys() -> None:
    def f(x, mode, reverse=False):
        if mode == "double":
            x = x * 2
        if hy.sum(x) > 0 and not reverse:
            return x
        return -x

    hybridized = hy.hybridize(f)
    for mode in ("double", "same", "double"):
        for reverse in (True, False):
            same(hybridized(X, mode, reverse=reverse), f(X, mode, reverse=reverse))
    assert len(hybridized.plans) == 4


def test_optimizer_settings_are_honoured() -> None:
    runs = []
    for hybridized in (False, True):
        hy.random.seed(0)
        net = nn.Linear(3, 1)
        optimizer = hy.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)

        def step(xs, net=net, optimizer=optimizer):
            for x in xs:
                optimizer.zero_grad()
                hy.sum(net(x) ** 2).backward()
                optimizer.step()

        run = hy.hybridize(step) if hybridized else step
        for momentum in (0.5, 0.9, 0.5):
            optimizer.param_groups[0].momentum = momentum
            run(draw(4, 2, 3))
        runs.append(describe([p.detach() for p in net.parameters()]))
    assert runs[0] == runs[1]


def test_partials_are_keys() -> None:
    hybridized = hy.hybridize(functools.partial(scale, k=2.0))
    same(hybridized(X), scale(X, 2.0))
    same(hybridized(-X), scale(-X, 2.0))
    assert len(hybridized.plans) == 1


def test_plans_are_bounded() -> None:
    hybridized = hy.hybridize(lambda x, s: x * len(s) if hy.sum(x) > 0 else x, max_plans=3)
    for i in range(10):
        same(hybridized(X, "a" * i), X * i)
    assert len(hybridized.plans) == 3


def test_a_class_attribute_is_honoured() -> None:
    class Scale:
        k = 2.0

        @hy.hybridize
        def run(self, x):
            return x * self.k if hy.sum(x) > 0 else x

    s = Scale()
    same(s.run(X), X * 2.0)
    Scale.k = 3.0
    same(s.run(X), X * 3.0)
    s.k = 4.0
    same(s.run(X), X * 4.0)


def test_methods_replaced_are_honoured() -> None:
    class Net(nn.Module):
        def activate(self, x):
            return hy.tanh(x) if hy.sum(x) > 0 else x

        def forward(self, x):
            return self.activate(x)

    net = Net().hybridize()
    same(net(X), hy.tanh(X))
    net.activate = lambda x: x * 2 if hy.sum(x) > 0 else x
    same(net(X), X * 2)
