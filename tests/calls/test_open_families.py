"""Calls that differ in sizes share a capture: the same bits at every size, captured twice."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.calls import plan_table
from hybrid.calls.open_families import OpenFamily
from hybrid.errors import ShapeError
from tests.staging.harness import describe

LENGTHS = (5, 9, 12, 17, 5, 33, 2, 64, 1, 0, 9)
DRAW = np.random.default_rng(0)


def t(*shape: int) -> hy.Tensor:
    return hy.asarray(DRAW.standard_normal(shape).astype(np.float32))


def families(hybridized: Any) -> list[OpenFamily]:
    return list(hybridized._table.open_families.values())


def captures(hybridized: Any) -> int:
    return sum(len(family.captures) for family in families(hybridized))


def conditions(hybridized: Any) -> list[list[str]]:
    return [
        [str(condition) for condition in made.axes.sizes.conditions.values()]
        for family in families(hybridized)
        for made in family.captures
    ]


def check(function: Callable[..., Any], calls: Any, state: Callable[[], Any] | None = None) -> Any:
    """Eagerly and hybridized the calls give the same; returns the hybridized function."""
    sides = [function, hy.hybridize(function)]
    states = [[state()] if state else [] for _ in sides]
    for arguments in calls:
        found = []
        for side, own in zip(sides, states, strict=True):
            try:
                found.append(describe(side(*own, *arguments)))
            except Exception as error:
                found.append((type(error), str(error).splitlines()[0]))
        assert found[0] == found[1], arguments
        assert describe(vars(states[0][0]) if state else 0) == describe(
            vars(states[1][0]) if state else 0
        )
    return sides[1]


# What one capture serves ------------------------------------------------------------------------


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return hy.softmax(scores, axis=-1) @ v


def merged_axes(x: Any) -> Any:
    b, n, d = x.shape
    rows = x.reshape(b * n, d) * 2
    return rows.reshape(b, n, -1).sum(axis=1) / n


def padded(x: Any) -> Any:
    missing = -x.shape[0] % 8
    return hy.pad(x, ((0, missing), (0, 0))).reshape(-1, 8, 3).sum(axis=1)


def reductions(x: Any) -> Any:
    return x.mean(axis=0), x.std(axis=0), hy.sort(x, axis=0), x.max(axis=0), hy.argmax(x, axis=0)


def control_flow(x: Any) -> Any:
    total = x.sum(axis=0)
    while hy.sum(total) < 50:
        total = total * 2 + hy.abs(x).sum(axis=0) + 1
    if total[0] > 100:
        total = total - x.mean(axis=0)
    return total


def sizes_in_arithmetic(x: Any) -> Any:
    return x * x.shape[0] + x.size // 2 - len(x.shape), x.ndim


ONE_CAPTURE: dict[Callable[..., Any], Callable[[int], tuple[Any, ...]]] = {
    attention: lambda n: (t(2, n, 8), t(2, n, 8), t(2, n, 8)),
    merged_axes: lambda n: (t(3, n, 4),),
    padded: lambda n: (t(n + 2, 3),),
    reductions: lambda n: (t(n + 2, 3),),
    control_flow: lambda n: (t(n + 2, 3),),
    sizes_in_arithmetic: lambda n: (t(n + 2, 3),),
}


@pytest.mark.parametrize("function", ONE_CAPTURE, ids=lambda f: f.__name__)
def test_one_capture_serves_all_sizes(function: Callable[..., Any]) -> None:
    hybridized = check(function, [ONE_CAPTURE[function](n) for n in LENGTHS])
    assert captures(hybridized) == 1


MODULES: dict[str, tuple[Callable[[], Any], Callable[[int], hy.Tensor], int]] = {
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, 32), lambda n: t(1, n + 2, 16), 1),
    "conv": (lambda: nn.Conv2d(3, 4, 3, padding=1), lambda n: t(2, 3, n + 2, 2 * n + 5), 1),
    "lstm": (lambda: nn.LSTM(4, 5), lambda n: t(2, n + 2, 4), 2),
    "times": (lambda: nn.GRU(4, 5, 2, bidirectional=True), lambda n: t(n + 2, 2, 4), 2),
    "times of a batch": (lambda: nn.LSTM(4, 5, batch_first=True), lambda n: t(2, n + 2, 4), 2),
    "embedding": (
        lambda: nn.Embedding(10, 4),
        lambda n: hy.asarray(DRAW.integers(0, 10, (2, n + 2))),
        1,
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    make, draw, most = MODULES[name]
    module = make()
    module.eval()
    hybridized = check(lambda x: module(x), [(draw(n),) for n in LENGTHS])
    assert 1 <= captures(hybridized) <= most


def test_gradients_and_updates() -> None:
    def step(state: Any, x: Any, y: Any) -> Any:
        loss = ((x @ state.w - y) ** 2).mean()
        gradient = hy.grad(lambda w: ((x @ w - y) ** 2).mean())(state.w)
        state.w = state.w - 0.1 * gradient
        state.count = state.count + 1
        return loss, gradient

    weights = DRAW.standard_normal((4, 4)).astype(np.float32)

    def state() -> Any:
        return SimpleNamespace(w=hy.asarray(weights), count=hy.zeros(()))

    hybridized = check(step, [(t(n + 2, 4), t(n + 2, 4)) for n in LENGTHS], state)
    assert captures(hybridized) == 1


def test_backward_goes_through_a_call_of_each_size() -> None:
    def function(x: Any, w: Any) -> Any:
        return hy.tanh(x @ w).reshape(-1).sum() / x.shape[0]

    hybridized = hy.hybridize(function)
    for n in LENGTHS:
        x, found = t(n, 4), []
        for side in (function, hybridized):
            w = nn.Parameter(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
            z = x * 1
            z.requires_grad = n % 2 == 1
            if n:
                side(z, w).backward()
            found.append([describe(w.grad), describe(z.grad)])
        assert found[0] == found[1]


def test_axes_that_always_agree_are_one_symbol() -> None:
    hybridized = check(lambda x, y: x @ y, [(t(n + 2, n + 2), t(n + 2, 3)) for n in LENGTHS])
    assert conditions(hybridized) == [[]]
    with pytest.raises(ShapeError):
        hybridized(t(4, 5), t(4, 3))
    assert hybridized(t(4, 5), t(5, 3)).shape == (4, 3)


def test_the_sizes_of_other_arguments_are_looked_at() -> None:
    sizes = [(5, 3), (9, 3), (12, 5), (12, 3), (7, 6), (4, 6), (9, 5)]
    check(lambda x, w: (x @ w, w.sum()), [(t(n, 4), t(4, m)) for n, m in sizes])


# What makes families ----------------------------------------------------------------------------


def test_comparisons_of_sizes_make_families() -> None:
    def function(x: Any) -> Any:
        return x.sum() * 2 if x.shape[0] > 16 else x.sum()

    hybridized = check(function, [(t(n, 3),) for n in (5, 9, 30, 12, 17, 16, 31)])
    assert conditions(hybridized) == [["n <= 16"], ["n > 16"]]


def test_what_takes_a_size_for_a_number_is_captured_for_each() -> None:
    def function(x: Any) -> Any:
        return x.sum(), {2: "two"}.get(x.shape[0], f"{x.shape[0]} rows")

    hybridized = check(function, [(t(n, 3),) for n in LENGTHS])
    assert captures(hybridized) == 0
    assert [family.fixed for family in families(hybridized)] == [{(0, 0)}]


def test_a_size_that_is_told_apart_is_no_reason_to_fix_the_axis() -> None:
    hybridized = check(
        lambda x: x.sum() * (2 if x.shape[0] == 12 else 3),
        [(t(n, 3),) for n in (5, 12, 9, 17, 12, 33)],
    )
    assert conditions(hybridized) == [["n != 12"]]
    assert [family.fixed for family in families(hybridized)] == [set()]


def test_the_other_axes_stay_open_then() -> None:
    def function(x: Any) -> Any:
        return [x[:, i].sum() for i in range(x.shape[1])]

    hybridized = check(function, [(t(n, 2 + n % 2),) for n in (5, 8, 9, 12, 17, 4)])
    assert 1 <= captures(hybridized) <= 2


def test_an_argument_that_is_read_from_elsewhere_too() -> None:
    box = SimpleNamespace(x=None)

    def function(x: Any) -> Any:
        return x + box.x

    hybridized = hy.hybridize(function)
    for n in (5, 9, 12):
        box.x = t(n)
        assert hybridized(box.x).tolist() == (box.x + box.x).tolist()
    assert captures(hybridized) == 1


def test_variables_among_the_arguments_are_open_too() -> None:
    hybridized = hy.hybridize(lambda w: (w * w).sum())
    for n in (5, 9, 12):
        w = nn.Parameter(np.ones(n, np.float32))
        hybridized(w).backward()
        assert w.grad.tolist() == [2.0] * n
    assert captures(hybridized) == 1


def test_errors_are_those_of_eager_code_and_close_nothing() -> None:
    def function(x: Any, y: Any) -> Any:
        return x + y

    shapes = [(5, 5), (9, 9), (9, 4), (12, 12), (7, 6), (3, 3)]
    hybridized = check(function, [(t(n), t(m)) for n, m in shapes])
    assert captures(hybridized) == 1
    with pytest.raises(ShapeError, match=r"f32\[8\] and f32\[6\]|8 and 6"):
        hybridized(t(8), t(6))


def test_errors_that_a_branch_raises_say_the_sizes_of_the_call() -> None:
    def function(x: Any, s: Any) -> Any:
        if s > 0:
            return hy.sum(x + hy.ones(3))
        return hy.sum(x)

    hybridized = hy.hybridize(function)
    for n in (5, 6, 7):
        assert hybridized(t(n), hy.asarray(-1.0)).shape == ()
    for n in (6, 9):
        with pytest.raises(ShapeError) as raised:
            hybridized(t(n), hy.asarray(1.0))
        assert f"add cannot take f32[{n}] and f32[3]" in str(raised.value)
        assert f"sizes must agree or be 1; {n} and 3 do not." in str(raised.value)


def test_a_call_that_raised_closes_nothing_later() -> None:
    hybridized = hy.hybridize(lambda x, y: x + y)
    shapes = [(5, 5), (9, 4), (1, 1), (9, 9), (12, 12)]  # one element is a capture of its own
    for n, m in shapes:
        if n == m:
            assert hybridized(t(n), t(m)).shape == (n,)
        else:
            with pytest.raises(ShapeError):
                hybridized(t(n), t(m))
    assert captures(hybridized) == 1


def test_dynamic_false_captures_for_each_size() -> None:
    hybridized = hy.hybridize(lambda x: x * 2, dynamic=False)
    for n in (5, 9, 12):
        assert hybridized(t(n)).shape == (n,)
    assert families(hybridized)[0].captures == []


def test_few_families_are_kept_and_what_their_keys_name_lives() -> None:
    hybridized = hy.hybridize(lambda x, scale: x * scale.value, max_plans=4)
    for k in range(20):
        scale = SimpleNamespace(
            value=float(k)
        )  # each where the one before was, but for who keeps it
        for n in (3, 4, 5):
            assert hybridized(hy.ones(n), scale).tolist() == [float(k)] * n
        assert len(families(hybridized)) <= 4


def test_many_families_are_not_opened_for_ever() -> None:
    def function(x: Any) -> Any:
        n = x.shape[0]
        for limit in range(4, 80, 4):
            if n < limit:
                return x.sum() * limit
        return x.sum()

    hybridized = check(function, [(t(n),) for n in range(3, 80, 3)])
    assert captures(hybridized) <= 8


def test_plans_list_captures_with_their_sizes() -> None:
    hybridized = hy.hybridize(lambda x: x * 2)
    for n in (5, 6, 7, 6, 8, 9, 10, 11):
        hybridized(hy.ones((n, 3)))
    first, opened = hybridized.plans
    assert first.arguments == ("f32[5,3]",) and first.bindings == ()
    assert opened.arguments == ("f32[n,3]",) and opened.calls == 7
    assert opened.bindings == ("n = 7", "n = 6", "n = 8", "n = 9", "n = 10", "n = 11")
    assert "7 calls, bound to n = 8; n = 9; n = 10; n = 11 and 2 more" in str(opened)
    assert repr(hybridized).endswith(": 2 plans>")


def test_plans_of_many_sizes_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_table, "BOUND_NBYTES", 1 << 20)
    hybridized = hy.hybridize(lambda x: (x * 2).sum())
    for _ in range(2):
        for n in range(2, 150):
            x = hy.ones((n, 3))
            assert hybridized(x).item() == 6 * n
            assert hybridized._table.bound_nbytes == sum(
                p.nbytes for p in hybridized._table.all() if p.opened is not None
            )
            assert hybridized._table.bound_nbytes <= 1 << 20
    assert captures(hybridized) == 1
    assert 10 < len(hybridized.plans[-1].bindings) < 140
    assert len(hybridized._table.plans) == len(hybridized._table.all())


def test_open_captures_are_forgotten_like_plans() -> None:
    hybridized = hy.hybridize(lambda x, name: x * len(name), max_plans=2)
    for name in ("a", "bb", "ccc", "a"):
        for n in (4, 5, 6, 7):
            assert hybridized(hy.ones(n), name).sum().item() == n * len(name)
        assert len(hybridized.plans) <= 2
        assert captures(hybridized) <= 2
    assert [plan.arguments for plan in hybridized.plans] == [("f32[4]", "'a'"), ("f32[n]", "'a'")]
