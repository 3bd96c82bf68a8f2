"""Tensors that are read from attributes and the like open their axes, as arguments do."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import CaptureError
from tests.calls.test_open_families import captures, conditions, families
from tests.staging.harness import describe

STEPS = 8
ROWS = (2, 3, 4, 5, 6)


def t(*shape: int, seed: int = 0) -> hy.Tensor:
    draw = np.random.default_rng([seed, *shape])
    return hy.asarray(draw.standard_normal(shape).astype(np.float32))


def tokens(count: int = STEPS) -> list[tuple[hy.Tensor]]:
    return [(t(1, 3, seed=i),) for i in range(count)]


Made = tuple[Callable[..., Any], Callable[[], Any]]  # a new function, and what shows its state


def run(make: Callable[[], Made], calls: Sequence[tuple[Any, ...]], **options: Any) -> Any:
    """Eagerly and hybridized calls and state are the same; returns the hybridized function."""
    (eager, its), (function, own) = make(), make()
    hybridized = hy.hybridize(function, **options)
    for at, arguments in enumerate(calls):
        expected = describe(eager(*arguments))
        assert describe(hybridized(*arguments)) == expected, at
        assert describe(own()) == describe(its()), at
    return hybridized


# Caches -----------------------------------------------------------------------------------------


def in_an_attribute() -> Made:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    def step(x: Any) -> Any:
        state.k = hy.concat([state.k, x], axis=0)
        return state.k.sum(axis=0)

    return step, lambda: state.k


def in_a_list() -> Made:
    state = SimpleNamespace(c=[hy.zeros((2, 3)), hy.zeros((2, 3))])

    def step(x: Any) -> Any:
        state.c[0] = hy.concat([state.c[0], x], axis=0)
        state.c[1] = hy.concat([x, state.c[1]], axis=0)
        return (state.c[0] * state.c[1]).sum(axis=0)

    return step, lambda: state.c


def in_a_dict() -> Made:
    state = {"k": hy.zeros((2, 3))}

    def step(x: Any) -> Any:
        state["k"] = hy.concat([state["k"], x], axis=0)
        return state["k"].sum(axis=0)

    return step, lambda: state


def in_a_variable() -> Made:
    k = hy.zeros((2, 3))

    def step(x: Any) -> Any:
        nonlocal k
        k = hy.concat([k, x], axis=0)
        return k.sum(axis=0)

    return step, lambda: k


def in_layers() -> Made:
    layers = [SimpleNamespace(k=hy.zeros((2, 3))) for _ in range(3)]

    def step(x: Any) -> Any:
        for layer in layers:
            layer.k = hy.concat([layer.k, x], axis=0)
            x = x + layer.k.mean(axis=0)
        return x

    return step, lambda: [layer.k for layer in layers]


def in_two_places() -> Made:
    state = SimpleNamespace(a=hy.zeros((2, 3)))
    state.b = state.a

    def step(x: Any) -> Any:
        rows = state.b.shape[0]
        state.a = state.b = hy.concat([state.a, x], axis=0)
        return x * rows

    return step, lambda: (state.a, state.b, state.a is state.b)


def returned() -> Made:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    def step(x: Any) -> Any:
        old, state.k = state.k, hy.concat([state.k, x], axis=0)
        return old, state.k, state.k.shape

    return step, lambda: state.k


def only_asked_for_its_size() -> Made:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    def step(x: Any) -> Any:
        rows = state.k.shape[0]
        state.k = hy.zeros((rows + 1, 3))
        return x * rows, rows

    return step, lambda: state.k


def looped_over() -> Made:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    def step(x: Any) -> Any:
        total = hy.zeros((3,))
        for row in state.k:
            total = total + row * row
        state.k = hy.concat([state.k, x], axis=0)
        return total

    return step, lambda: state.k


def of_rows_that_a_mask_selects() -> Made:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    def step(x: Any) -> Any:
        both = hy.concat([x, -x], axis=0)
        state.k = hy.concat([state.k, both[both[:, 0] > 0]], axis=0)
        return state.k.sum(axis=0)

    return step, lambda: state.k


CACHES = (
    in_an_attribute, in_a_list, in_a_dict, in_a_variable, in_layers, in_two_places,
    returned, only_asked_for_its_size, looped_over, of_rows_that_a_mask_selects,
)  # fmt: skip


@pytest.mark.parametrize("make", CACHES, ids=lambda make: make.__name__)
def test_one_capture_serves_all_steps(make: Callable[[], Made]) -> None:
    hybridized = run(make, tokens())
    assert captures(hybridized) == 1
    assert len(hybridized.plans) == 2


@pytest.mark.parametrize("make", CACHES, ids=lambda make: make.__name__)
def test_closed_axes(make: Callable[[], Made]) -> None:
    hybridized = run(make, tokens(4), dynamic=False)
    assert captures(hybridized) == 0
    assert len(hybridized.plans) == 4


CACHED = None


def into_a_global(x: Any) -> Any:
    global CACHED
    CACHED = hy.concat([CACHED, x], axis=0)
    return CACHED.sum(axis=0)


def test_a_cache_in_a_global() -> None:
    global CACHED
    found = []
    for step in (into_a_global, hy.hybridize(into_a_global)):
        CACHED = hy.zeros((2, 3))
        found.append((describe([step(x) for (x,) in tokens()]), describe(CACHED)))
    CACHED = None
    assert found[0] == found[1]
    assert captures(step) == 1


class Attention(nn.Module):
    """An attention layer with a cache that begins empty."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.both = nn.Linear(4, 4), nn.Linear(4, 8)
        self.reset()

    def reset(self) -> None:
        self.keys, self.values = hy.zeros((1, 0, 4)), hy.zeros((1, 0, 4))

    def forward(self, x: Any) -> Any:
        both = self.both(x)
        self.keys = hy.concat([self.keys, both[..., :4]], axis=1)
        self.values = hy.concat([self.values, both[..., 4:]], axis=1)
        return hy.softmax(self.queries(x) @ self.keys.mT, axis=-1) @ self.values


def test_a_module_with_a_cache_that_begins_anew() -> None:
    hy.random.seed(0)
    plain = Attention()
    hy.random.seed(0)
    net = Attention().hybridize()
    for _ in range(3):
        for i in range(STEPS):
            with hy.no_grad():
                x = t(1, 1, 4, seed=i)
                assert describe(net(x)) == describe(plain(x))
        assert describe((net.keys, net.values)) == describe((plain.keys, plain.values))
        net.reset()
        plain.reset()
    closed, opened = net.plans[:2], net.plans[2]
    assert [plan.bindings for plan in closed] == [(), ()]  # no elements, and one
    assert opened.bindings == ("n = 2", "n = 3", "n = 4", "n = 5", "n = 6", "n = 7")
    assert len(net.plans) == 3


def test_a_prompt_and_then_tokens() -> None:
    calls = [(t(n, 3, seed=n),) for n in (5, 1, 1, 1, 7, 1, 1)]
    hybridized = run(in_an_attribute, calls)
    assert captures(hybridized) == 2  # of one row, and of many
    assert len(hybridized.plans) == 3


def test_a_window_of_the_last_rows() -> None:
    def window() -> Made:
        state = SimpleNamespace(k=hy.zeros((2, 3)))

        def step(x: Any) -> Any:
            state.k = hy.concat([state.k, x], axis=0)[-5:]
            return state.k.sum(axis=0)

        return step, lambda: state.k

    hybridized = run(window, tokens(12))
    assert captures(hybridized) <= 2


def test_rows_that_a_branch_adds() -> None:
    def branch() -> Made:
        state = SimpleNamespace(k=hy.zeros((2, 3)))

        def step(x: Any) -> Any:
            if x.sum() > 0:
                state.k = hy.concat([state.k, x], axis=0)
            return state.k.sum(axis=0)

        return step, lambda: state.k

    hybridized = run(branch, tokens(16))
    assert captures(hybridized) == 2  # with and without a row


def test_sizes_seen_before_are_looked_up(traces: list[Any]) -> None:
    state = SimpleNamespace(k=None)

    @hy.hybridize
    def total(x: Any) -> Any:
        return (state.k * x).sum()

    kept = {n: t(n, 3) for n in range(2, 40)}
    for _ in range(3):
        for k in kept.values():
            state.k = k
            assert describe(total(t(3))) == describe((k * t(3)).sum())
    assert len(traces) == 2
    [family] = families(total)
    assert [len(made.planned) for made in family.captures] == [37]


# What a place is, besides ------------------------------------------------------------------------


def test_a_place_beside_an_argument_of_its_size() -> None:
    state = SimpleNamespace(mask=None)

    @hy.hybridize
    def masked(x: Any) -> Any:
        return (x * state.mask).sum(axis=0) / x.shape[0]

    for n in (5, 6, 9, 12):
        state.mask = t(n, 1)
        assert describe(masked(t(n, 3))) == describe((t(n, 3) * state.mask).sum(axis=0) / n)
    assert captures(masked) == 1
    assert masked.plans[1].bindings == ("n = 6", "n = 9", "n = 12")
    assert conditions(masked) == [[]]


class Shared:
    """A class that holds a tensor for its objects, and for classes made of it."""

    k = t(2, 3)

    def scaled(self, x: Any) -> Any:
        return (self.k * x).sum(axis=0)

    def grown(self, x: Any) -> Any:
        self.k = hy.concat([self.k, x], axis=0)
        return self.k.sum(axis=0)

    @classmethod
    def grown_for_all(cls, x: Any) -> Any:
        cls.k = hy.concat([cls.k, x], axis=0)
        return cls.k.sum(axis=0)


def test_an_attribute_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shared, "k", Shared.k)
    plain, own = Shared(), Shared()
    scaled = hy.hybridize(own.scaled)
    for n in ROWS:
        Shared.k = t(n, 3)
        assert describe(scaled(t(1, 3))) == describe(plain.scaled(t(1, 3)))
    assert "k" not in vars(own)
    assert captures(scaled) == 1
    grown = hy.hybridize(own.grown)
    for (x,) in tokens():
        assert describe(grown(x)) == describe(plain.grown(x))
        assert Shared.k.shape == (ROWS[-1], 3)
    assert captures(grown) == 1


@pytest.mark.parametrize("derived", [False, True], ids=["own", "inherited"])
def test_an_attribute_that_a_class_method_sets(
    derived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for hybridizes in (False, True):
        monkeypatch.setattr(Shared, "k", t(2, 3))
        kind = type("Derived", (Shared,), {}) if derived else Shared
        grown = hy.hybridize(kind.grown_for_all) if hybridizes else kind.grown_for_all
        values = [describe(grown(x)) for (x,) in tokens()]
        found.append((values, describe((kind.k, Shared.k))))
    assert found[0] == found[1]
    assert captures(grown) == 1


class Slotted:
    __slots__ = ("k",)


def test_an_attribute_in_a_slot() -> None:
    def grown(state: Any, x: Any) -> Any:
        state.k = hy.concat([state.k, x], axis=0)
        return state.k.sum(axis=0)

    own, other = Slotted(), Slotted()
    own.k = other.k = hy.zeros((2, 3))
    hybridized = hy.hybridize(grown)
    for (x,) in tokens():
        assert describe(hybridized(own, x)) == describe(grown(other, x))
    assert captures(hybridized) == 1


@pytest.mark.parametrize("n", [4, 1])
def test_sizes_that_do_not_fit_raise_what_eager_code_raises(n: int) -> None:
    state = SimpleNamespace(mask=None)

    def masked(x: Any) -> Any:
        return x @ state.mask

    hybridized = hy.hybridize(masked)
    for rows in (5, 6, 9):
        state.mask = t(rows, 2)
        hybridized(t(3, rows))
    state.mask = t(n, 2)
    with pytest.raises(Exception) as expected:
        masked(t(3, 7))
    with pytest.raises(type(expected.value)) as found:
        hybridized(t(3, 7))
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]
    state.mask = t(7, 2)
    assert describe(hybridized(t(3, 7))) == describe(masked(t(3, 7)))


def test_a_tensor_that_is_an_argument_as_well() -> None:
    state = SimpleNamespace(k=None)

    def joined(x: Any) -> Any:
        return hy.concat([x, state.k], axis=0), state.k is x

    hybridized = hy.hybridize(joined)
    for n in (5, 6, 9, 12):
        state.k = x = t(n, 3)
        assert describe(hybridized(x)) == describe(joined(x))
        state.k = t(n, 3, seed=1)
        assert describe(hybridized(x)) == describe(joined(x))


def test_another_dtype_rank_or_kind_is_another_capture() -> None:
    state = SimpleNamespace(k=None)

    def doubled() -> Any:
        return state.k * 2

    hybridized = hy.hybridize(doubled)
    for k in (t(2), t(3), t(4), hy.arange(3), hy.arange(4), t(5, 2), t(6, 2), t(7)):
        state.k = k
        assert describe(hybridized()) == describe(doubled())
    state.k = 3
    assert hybridized() == 6
    assert captures(hybridized) == 3


def test_what_takes_the_size_for_a_plain_number_fixes_it() -> None:
    def fixing() -> Made:
        state = SimpleNamespace(k=hy.zeros((2, 3)))

        def step(x: Any) -> Any:
            weight = len([0] * state.k.shape[0])
            state.k = hy.concat([state.k, x], axis=0)
            return x * weight

        return step, lambda: state.k

    hybridized = run(fixing, tokens(5))
    assert captures(hybridized) == 0
    rows = list(hybridized.explain(t(1, 3)).sizes)
    assert len(rows) == 1
    assert rows[0].startswith("axis 0 of SimpleNamespace.k is fixed: n == 3  test_open")


def test_parameters_keep_their_sizes() -> None:
    state = SimpleNamespace(w=None)
    square = hy.hybridize(lambda: (state.w * state.w).sum())
    for n in (3, 4, 5):
        state.w = hy.ones((n,))
        state.w.requires_grad = True
        square().backward()
        assert describe(state.w.grad) == describe(hy.ones((n,)) * 2)
    assert captures(square) == 0


# Gradients --------------------------------------------------------------------------------------


@pytest.mark.parametrize("detached", [True, False], ids=["each step", "all steps"])
def test_gradients_through_a_cache(detached: bool) -> None:
    found = []
    for hybridizes in (False, True):
        w = t(3, 3)
        w.requires_grad = True
        state = SimpleNamespace(k=hy.zeros((2, 3)))

        def step(x: Any, w: Any = w, state: Any = state) -> Any:
            k = hy.concat([state.k, x @ w], axis=0)
            state.k = k.detach() if detached else k
            return (k * k).sum()

        call = hy.hybridize(step) if hybridizes else step
        grads = []
        for (x,) in tokens():
            loss = call(x)
            if detached:
                loss.backward()
                grads.append(describe(w.grad))
        if not detached:
            loss.backward()
        found.append((grads, describe(w.grad)))
        if hybridizes:
            assert captures(call) == 1
    assert found[0] == found[1]


def test_a_cache_whose_gradient_is_asked_for() -> None:
    state = SimpleNamespace(k=t(2, 3))
    x = t(3)

    def loss(x: Any) -> Any:
        return (state.k @ x).sum()

    gradient = hy.hybridize(hy.grad(loss))
    for n in (2, 3, 4, 5):
        state.k = t(n, 3)
        assert describe(gradient(x)) == describe(hy.grad(loss)(x))
    assert captures(gradient) == 1


# Around it --------------------------------------------------------------------------------------


def test_explain_and_plans_show_them() -> None:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    @hy.hybridize
    def step(x: Any) -> Any:
        state.k = hy.concat([state.k, x], axis=0)
        return x * 2 if state.k.shape[0] > 100 else x

    for (x,) in tokens(4):
        step(x)
    assert [plan.outside for plan in step.plans] == [(), ("SimpleNamespace.k f32[n,3]",)]
    assert "(f32[1,3]; SimpleNamespace.k f32[n,3]): " in str(step.plans[1])
    assert "bound to n = 3; n = 4; n = 5;" in str(step.plans[1])
    assert step.plans[1].why == "SimpleNamespace.k was f32[2,3] and is f32[3,3]"
    explanation = step.explain(t(1, 3))
    line = step.function.__code__.co_firstlineno + 3
    assert list(explanation.sizes) == [
        "open: SimpleNamespace.k f32[n,3]",
        f"   where n <= 99  test_open_attributes.py:{line}",
    ]
    assert "a call runs plan 2 of 2, bound to n = 6" in str(explanation)


def test_threads_with_a_cache_each() -> None:
    @hy.hybridize
    def step(state: Any, x: Any) -> Any:
        state.k = hy.concat([state.k, x], axis=0)
        return state.k.sum(axis=0)

    def generated(call: Callable[..., Any], seed: int) -> Any:
        state = SimpleNamespace(k=t(seed + 1, 3))
        return describe([call(state, t(1, 3, seed=i)) for i in range(12)])

    found: dict[int, Any] = {}
    threads = [
        threading.Thread(
            target=lambda seed=seed: found.update({seed: generated(step, seed)}), daemon=True
        )
        for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: generated(step.function, seed) for seed in range(4)}


def test_an_error_leaves_the_place_as_it_was() -> None:
    state = SimpleNamespace(k=hy.zeros((2, 3)))

    def step(x: Any) -> Any:
        state.k = hy.concat([state.k, x], axis=0)
        if state.k.shape[0] == 5:
            raise RuntimeError("five rows")
        return state.k.sum(axis=0)

    hybridized = hy.hybridize(step)
    for (x,) in tokens(2):
        hybridized(x)
    before = state.k
    for _ in range(2):
        with pytest.raises(RuntimeError, match="five rows"):
            hybridized(t(1, 3))
        assert state.k.shape == (5, 3)  # as in Python
        state.k = before
    state.k = t(7, 3)
    assert describe(hybridized(t(1, 3))) == describe(hy.concat([t(7, 3), t(1, 3)]).sum(axis=0))
    assert type(state.k.shape[0]) is int


def test_a_function_that_cannot_be_captured_leaves_the_place_as_it_was() -> None:
    state = SimpleNamespace(k=hy.zeros((2, 3)), count=0)

    @hy.hybridize
    def step(x: Any) -> Any:
        state.count += state.k.shape[0]
        return state.k.sum()

    for n in (2, 3, 4):
        state.k = own = t(n, 3)
        with pytest.raises(CaptureError, match=r"changed SimpleNamespace\.count"):
            step(t(1, 3))
        assert state.k is own


def test_plans_kept_in_files(tmp_path: Any) -> None:
    hy.cache_plans(tmp_path)
    try:
        hybridized = run(in_an_attribute, tokens(4))
    finally:
        hy.cache_plans(None)
    filed = [plan.filed for plan in hybridized.plans]
    reason = "not kept in a file: tensors outside its arguments have open axes"
    assert filed[1] == reason


def test_captures_go_with_their_owner() -> None:
    net = Attention().hybridize()
    alive = weakref.ref(net)
    with hy.no_grad():
        for i in range(4):
            net(t(1, 1, 4, seed=i))
    del net
    gc.collect()
    assert alive() is None
