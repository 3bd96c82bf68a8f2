"""``requires_grad`` of tensors that are there, set inside a hybridized function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.calls import hybridized
from hybrid.errors import CaptureError
from tests.staging.harness import f32

STATE = SimpleNamespace()


def on(x):
    x.requires_grad = True
    return hy.sum(x * x)


def by_the_method(x):
    return hy.sum(x.requires_grad_() ** 3)


def alone(x):
    x.requires_grad = True


def behind_others(x):
    y = STATE.w * 3
    x.requires_grad = True
    return hy.sum(y * x), y


def as_it_was_not(x):
    was = x.requires_grad
    if not was:
        x.requires_grad = True
    return hy.sum(x * x), was


def differentiated_inside(x):
    x.requires_grad = True
    hy.sum(x * x * x).backward()
    return x.grad * 2, hy.sum(x)


def in_a_loop_over_a_list(x):
    for factor in (1.0, 2.0):
        x.requires_grad = True
        STATE.last = x * factor
    return STATE.last


def before_a_branch(x):
    x.requires_grad = True
    return hy.sum(x) if hy.sum(x) > 2 else hy.sum(x * x)


def off(x):
    x.requires_grad = False
    return hy.sum(x * x)


def detached(x):
    return x.detach_() * 2


def frozen(x):
    STATE.w.requires_grad = False
    return hy.sum(x * STATE.w)


def of_what_is_made(x):
    y = x * STATE.w
    y.requires_grad = False
    return hy.sum(y), y


PROGRAMS = [
    on, by_the_method, alone, behind_others, as_it_was_not, differentiated_inside,
    in_a_loop_over_a_list, before_a_branch, off, detached, frozen, of_what_is_made,
]  # fmt: skip


def shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return [shown(v) for v in value]
    if not isinstance(value, hy.Tensor):
        return value
    grad = None if value.grad is None else value.grad.numpy().tobytes()
    return value.requires_grad, value.numpy().tobytes(), grad


def seen(called: Callable[[Any], Any], needs: bool, anew: bool, w_needs: bool) -> list[Any]:
    """All that shows in several calls of a tensor that does or does not require a gradient."""
    STATE.w, STATE.last = hy.nn.Parameter(f32([3.0, 4.0])), f32(0.0)
    found, x = [], f32([1.0, 2.0])
    x.requires_grad = needs
    for i in range(4):
        if anew:
            x = f32([1.0 + i, 2.0 - i])
            x.requires_grad = needs
        if w_needs:
            STATE.w.requires_grad = True
        result = called(x)
        first = result[0] if isinstance(result, tuple) else result
        if first is not None and first.requires_grad:
            hy.sum(first).backward()
        found.append(shown((result, x, STATE.w, STATE.last)))
    return found


@pytest.mark.parametrize("needs", [False, True], ids=["without", "with"])
@pytest.mark.parametrize("anew", [False, True], ids=["one", "anew"])
@pytest.mark.parametrize("w_needs", [False, True], ids=["as left", "on again"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_it_is_what_it_is_eagerly(program, needs, anew, w_needs) -> None:
    given = needs, anew, w_needs
    assert seen(hy.hybridize(program), *given) == seen(program, *given)


def test_all_calls_are_served_by_one_capture(monkeypatch) -> None:
    made = []
    capture = hybridized.capture

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return capture(*args, **kwargs)

    monkeypatch.setattr(hybridized, "capture", counted)
    for program in (on, differentiated_inside, as_it_was_not, alone):
        made.clear()
        seen(hy.hybridize(program), False, True, False)
        assert len(made) == 1, program.__name__


def test_looking_changes_nothing() -> None:
    x = f32([1.0, 2.0])
    call = hy.hybridize(on)
    call.graph(x)
    call.explain(x)
    assert not x.requires_grad and not hasattr(x, "leaf")


def turning_both(x, y):
    x.requires_grad = True
    y.requires_grad = False
    return hy.sum(x * y)


def variables() -> list[hy.Tensor]:
    x, y = f32([1.0, 2.0]), f32([1.0, 2.0])
    y.requires_grad = True
    return [x, y]


def test_a_capture_that_fails_changes_nothing() -> None:
    x, y = variables()
    leaf = y.leaf
    with pytest.raises(CaptureError):
        hy.hybridize(lambda x, y: turning_both(x, y).numpy())(x, y)
    assert not x.requires_grad and not hasattr(x, "leaf")
    assert y.leaf is y.record is leaf


def raising(x, y):
    loss = turning_both(x, y)
    loss.backward()
    raise KeyError("the author's own")


def raising_in_a_run(x, y):
    loss = turning_both(x, y)
    loss.backward()
    assert loss > 10


@pytest.mark.parametrize("function", [raising, raising_in_a_run])
def test_what_is_turned_before_an_error_stays(function) -> None:
    found = []
    for called in (function, hy.hybridize(function)):
        for _ in range(3):
            given = variables()
            with pytest.raises((KeyError, AssertionError)):
                called(*given)
            found.append([shown(t) for t in given])
    assert found[:3] == found[3:]


def test_it_is_not_kept_in_a_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HYBRID_PLAN_CACHE", str(tmp_path / "plans"))
    for _ in range(2):
        call = hy.hybridize(on)
        x = f32([1.0, 2.0])
        call(x).backward()
        assert x.grad.tolist() == [2.0, 4.0]
        why = "not kept in a file: it sets requires_grad of tensors that are there"
        assert call.plans[0].filed in ("", why)


def used_before(x):
    y = x * 2
    x.requires_grad = True
    return hy.sum(x * y)


def at_the_beginning(x):
    x.requires_grad = True
    return hy.sum(x * (x.detach() * 2))


def in_a_branch(x):
    if hy.sum(x) > 0:
        x.requires_grad = True
    return hy.sum(x * x)


def of_its_own(x):
    x = x.detach()
    x.requires_grad = True
    hy.sum(x * x).backward()
    return x.grad


def outside_the_call(x):
    STATE.w.requires_grad = True
    return hy.sum(x * STATE.w)


def set_outside(x):
    return hy.sum(x * STATE.w)


def after_a_check(x):
    assert hy.sum(STATE.w) > 0
    x.requires_grad = True
    return hy.sum(x * x)


def off_and_on(x):
    x.requires_grad = False
    x.requires_grad = True
    return hy.sum(x * x)


REFUSED = [
    (used_before, "a tensor that has been used before", at_the_beginning),
    (in_a_branch, "a tensor from outside a branch or loop", at_the_beginning),
    (in_a_branch, "a tensor from outside a branch or loop", of_its_own),
    (outside_the_call, "a tensor from outside the call", set_outside),
    (after_a_check, "a tensor, after what may raise or shows outside,", at_the_beginning),
    (off_and_on, "a tensor that has been used before", of_its_own),
]


@pytest.mark.parametrize(("program", "what", "instead"), REFUSED)
def test_what_a_plan_cannot_repeat_is_refused(program, what, instead) -> None:
    STATE.w = f32([3.0, 4.0])
    x = f32([1.0, 2.0])
    x.requires_grad = program is off_and_on
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(program)(x)
    text = f"requires_grad of {what} is set inside a hybridized function"
    assert caught.value.what == text and caught.value.at.text.startswith(
        ("x.requires_grad", "STATE.w.requires_grad", "if hy.sum")
    )
    assert str(caught.value).endswith(
        "A plan can set it only before all else: of arguments, of parameters, or to False.\n"
        "Fix: set it outside, or at the beginning of the function; or take a variable of its own "
        "(x = x.detach() and x.requires_grad = True)."
    )
    assert x.requires_grad == (program is off_and_on) and not STATE.w.requires_grad
    given = False, True, instead is set_outside
    assert seen(hy.hybridize(instead), *given) == seen(instead, *given)


def test_it_runs_eagerly_where_that_is_asked_for() -> None:
    x = f32([1.0, 2.0])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        hy.hybridize(in_a_branch, fallback="eager")(x).backward()
    assert x.grad.tolist() == [2.0, 4.0]


# Frozen and thawed from call to call ----------------------------------------------------------


def gradient(x: hy.Tensor) -> Any:
    return None if x.grad is None else x.grad.tolist()


def variable(*values: float) -> hy.Tensor:
    x = f32(list(values))
    x.requires_grad = True
    return x


def frozen_between_calls(wrap) -> list[Any]:
    w, v = hy.nn.Parameter(f32([1.0, 2.0])), hy.nn.Parameter(f32([3.0, 4.0]))

    def step():
        (w * w * v).sum().backward()

    called, found = wrap(step), []
    for i in range(6):
        w.requires_grad, v.requires_grad = i % 3 != 1, i % 2 == 0 or i == 1
        called()
        found.append((gradient(w), gradient(v)))
    return found


def optimized_inside(wrap) -> list[Any]:
    w, v = hy.nn.Parameter(f32([1.0, 2.0])), hy.nn.Parameter(f32([3.0, 4.0]))
    optimizer = hy.optim.SGD([w, v], lr=0.1)

    def step():
        (w * w * v).sum().backward()
        optimizer.step()

    called, found = wrap(step), []
    for i in range(6):
        w.requires_grad = i % 2 == 0
        called()
        found.append((w.tolist(), v.tolist(), gradient(w)))
    return found


def generator_and_discriminator(wrap) -> list[Any]:
    hy.random.seed(0)
    g, d = hy.nn.Linear(2, 2), hy.nn.Sequential(hy.nn.Linear(2, 3), hy.nn.Tanh())
    of_g, of_d = (hy.optim.Adam(m.parameters(), lr=0.1) for m in (g, d))

    def train_d(real, z):
        (d(g(z).detach()).sum() - d(real).sum()).backward()

    def train_g(z):
        (-d(g(z)).sum()).backward()

    first, second, found = wrap(train_d), wrap(train_g), []
    for i in range(3):
        d.requires_grad_(True)
        of_d.zero_grad()
        first(hy.ones((2, 2)) * i, hy.ones((2, 2)))
        of_d.step()
        d.requires_grad_(False)
        of_g.zero_grad()
        second(hy.ones((2, 2)) * 0.5)
        of_g.step()
        found.append([(p.tolist(), gradient(p)) for m in (g, d) for p in m.parameters()])
    return found


def frozen_when_captured(wrap) -> list[Any]:
    w, v = hy.nn.Parameter(f32([1.0])), hy.nn.Parameter(f32([2.0]), requires_grad=False)
    optimizer = hy.optim.SGD([w, v], lr=0.5)

    def step():
        optimizer.step()
        optimizer.zero_grad()
        (w * w).sum().backward()

    called, found = wrap(step), []
    for i in range(5):
        v.requires_grad = i in (2, 3)
        if i == 2:
            v.grad = f32([1.0])
        called()
        found.append((w.tolist(), v.tolist(), gradient(v)))
    return found


def asked_whether_it_needs_one(wrap) -> list[Any]:
    v = hy.nn.Parameter(f32([2.0]), requires_grad=False)
    called, found = wrap(lambda x: x * 2 if v.requires_grad else x * 3), []
    for needs in (False, True, False):
        v.requires_grad = needs
        found.append(called(f32([1.0])).tolist())
    return found


def another_variable_in_its_place(wrap) -> list[Any]:
    STATE.w = variable(1.0, 2.0)

    def step():
        (STATE.w * STATE.w).sum().backward()

    called, found = wrap(step), []
    for w in (STATE.w, variable(3.0, 4.0), STATE.w):
        STATE.w = w
        called()
        called()
        found.append(gradient(w))
    return found


def gradient_of_an_argument(wrap) -> list[Any]:
    called, found = wrap(lambda x: x * 2 if x.grad is None else x + x.grad), []
    x, y = variable(1.0, 2.0), variable(5.0, 6.0)
    y.grad = f32([1.0, 1.0])
    y.requires_grad = False
    for needs in (False, True, False):
        x.requires_grad = needs
        if needs:
            (x * x).sum().backward()
        found += [called(t).tolist() for t in (x, y, f32([5.0, 6.0]))]
    return found


def cleared_where_there_was_none(wrap) -> list[Any]:
    w, v = hy.nn.Parameter(f32([1.0])), hy.nn.Parameter(f32([2.0]), requires_grad=False)

    def clear(x, n):
        v.grad = None
        for _ in range(n):
            w.grad = None
        return x * 2

    called, found = wrap(clear), []
    for n in (1, 0, 2):
        for grad in (None, f32([3.0])):
            w.grad, v.requires_grad = grad, True
            v.grad = grad
            v.requires_grad = False
            called(f32([1.0]), hy.asarray(n))
            found.append((gradient(w), gradient(v)))
    return found


def history_of_before(wrap) -> list[Any]:
    w = hy.nn.Parameter(f32([1.0, 2.0]))
    called, found = wrap(lambda: (w * w).sum()), []
    for needs in (False, True):
        loss = called()
        w.requires_grad = False
        w.requires_grad = needs
        loss.backward()
        found.append(gradient(w))
        w.requires_grad = True
    return found


@pytest.mark.parametrize("program", [
    frozen_between_calls, optimized_inside, generator_and_discriminator, frozen_when_captured,
    asked_whether_it_needs_one, another_variable_in_its_place, gradient_of_an_argument,
    cleared_where_there_was_none, history_of_before,
], ids=lambda f: f.__name__)  # fmt: skip
def test_what_is_frozen_and_thawed_is_as_eagerly(program) -> None:
    assert program(hy.hybridize) == program(lambda function: function)


def test_a_frozen_tensor_keeps_its_gradient_as_in_pytorch() -> None:
    w = variable(1.0, 2.0)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    w.requires_grad = False
    assert gradient(w) == [2.0, 4.0]
    loss.backward(retain_graph=True)  # nothing is added meanwhile
    assert gradient(w) == [2.0, 4.0]
    w.requires_grad = True
    loss.backward()
    assert gradient(w) == [4.0, 8.0]


def test_a_module_of_another_dtype_keeps_the_gradients_of_frozen_parameters() -> None:
    layer = hy.nn.Linear(1, 1)
    layer(hy.ones((1, 1))).sum().backward()
    layer.requires_grad_(False).double()
    assert layer.weight.grad.dtype is hy.float64 and gradient(layer.weight) == [[1.0]]
    assert not layer.weight.requires_grad
