"""Parameters frozen and thawed in the middle of captured steps, as where a GAN trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import CaptureError


class Gan:
    """Two networks, their parameters and their optimizers."""

    def __init__(self) -> None:
        hy.random.seed(3)
        self.g = nn.Linear(2, 3)
        self.d = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.of_g, self.of_d = list(self.g.parameters()), list(self.d.parameters())
        self.g_optim = hy.optim.Adam(self.of_g, lr=0.1)
        self.d_optim = hy.optim.SGD(self.of_d, lr=0.1, momentum=0.9)

    def g_step(self, z: Any) -> Any:
        self.g_optim.zero_grad()
        loss = ((self.d(self.g(z)) - 1) ** 2).mean()
        loss.backward()
        self.g_optim.step()
        return loss

    def d_step(self, real: Any, fake: Any) -> Any:
        self.d_optim.zero_grad()
        loss = (self.d(fake) ** 2).mean() + ((self.d(real) - 1) ** 2).mean()
        loss.backward()
        self.d_optim.step()
        return loss

    def seen(self) -> list[Any]:
        every = self.of_g + self.of_d
        grads = [None if p.grad is None else p.grad.tolist() for p in every]
        return [grads, [p.tolist() for p in every], [p.requires_grad for p in every]]


def set_both_times(gan: Gan, z: Any, x: Any) -> Any:
    for p in gan.of_d:
        p.requires_grad = True
    d_loss = gan.d_step(x, gan.g(z).detach())
    for p in gan.of_d:
        p.requires_grad = False
    return d_loss, gan.g_step(z), [p.grad is None for p in gan.of_g + gan.of_d]


def frozen_then_thawed(gan: Gan, z: Any, x: Any) -> Any:
    gan.d.requires_grad_(False)
    g_loss = gan.g_step(z)
    gan.d.requires_grad_(True)
    return g_loss.item(), gan.d_step(x, gan.g(z).detach()).item()


def thawed_at_the_end(gan: Gan, z: Any, x: Any) -> Any:
    d_loss = ((gan.d(x) - 1) ** 2).mean()
    d_loss.backward()
    gan.d_optim.step()
    gan.d.requires_grad_(False)
    gan.g_step(z)
    gan.d.requires_grad_(True)
    return d_loss


def frozen_before_backward(gan: Gan, z: Any, x: Any) -> Any:
    gan.d_optim.zero_grad()
    gan.g_optim.zero_grad()
    loss = ((gan.d(gan.g(z)) - 1) ** 2).mean()
    gan.d.requires_grad_(False)
    loss.backward()
    gan.g_optim.step()
    gan.d.requires_grad_(True)
    gan.d_optim.step()
    return loss


def left_frozen(gan: Gan, z: Any, x: Any) -> Any:
    if gan.of_d[0].requires_grad:
        gan.d.requires_grad_(False)
        loss = gan.g_step(z)
    else:
        gan.d.requires_grad_(True)
        loss = gan.d_step(x, gan.g(z).detach())
    return loss


def asked_between(gan: Gan, z: Any, x: Any) -> Any:
    told = [gan.of_d[0].requires_grad]
    loss = gan.d(gan.g(z)).mean()
    gan.d.requires_grad_(False)
    told += [gan.of_d[0].requires_grad, gan.d(x).requires_grad]
    loss.backward()
    gan.d.requires_grad_(True)
    return [*told, gan.of_d[0].requires_grad, gan.d(x).requires_grad]


def one_of_them(gan: Gan, z: Any, x: Any) -> Any:
    gan.d_optim.zero_grad()
    gan.d(x).mean().backward()
    gan.of_d[0].requires_grad = False
    gan.d(x * 2).mean().backward()
    gan.d_optim.step()
    gan.of_d[0].requires_grad = True
    loss = gan.d(x * 3).mean()
    loss.backward()
    return loss


def in_a_loop_over_python_numbers(gan: Gan, z: Any, x: Any) -> Any:
    for k in (1.0, 2.0, 3.0):
        gan.d.requires_grad_(False)
        loss = gan.g_step(z * k)
        gan.d.requires_grad_(True)
        gan.d_step(x * k, gan.g(z).detach())
    return loss


def trained(program: Callable[..., Any], wrap: Callable[..., Any], *, outside: bool) -> list[Any]:
    gan, found = Gan(), []
    step = wrap(lambda z, x: program(gan, z, x))
    for k in (1.0, 2.0, 3.0, 0.5):
        result = step(hy.ones((2, 2)) * k, hy.ones((2, 3)) * k)
        if k == 2.0 and outside:  # frozen and thawed between the calls, too
            gan.of_d[0].requires_grad = False
        if k == 3.0 and outside:
            for p in gan.of_g + gan.of_d:
                p.requires_grad = True
        found += [repr(result), gan.seen()]
    return found


PROGRAMS = [
    set_both_times, frozen_then_thawed, thawed_at_the_end, frozen_before_backward, left_frozen,
    asked_between, one_of_them, in_a_loop_over_python_numbers,
]  # fmt: skip


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_steps(program: Callable[..., Any], outside: bool) -> None:
    found = trained(program, lambda f: hy.hybridize(f, ledger=False), outside=outside)
    assert found == trained(program, lambda f: f, outside=outside)


def test_recipes_of_gans_have_one_plan_for_each_state_they_begin_with() -> None:
    gan = Gan()
    step = hy.hybridize(lambda z, x: set_both_times(gan, z, x), ledger=False)
    for _ in range(5):
        step(hy.ones((2, 2)), hy.ones((2, 3)))
    assert len(step.plans) == 2


def returned_with_its_history(gan: Gan, x: Any) -> Any:
    gan.d.requires_grad_(False)
    first = gan.d(x).mean()
    gan.d.requires_grad_(True)
    return first, gan.d(x).mean()


def detached(gan: Gan, x: Any) -> Any:
    first, second = returned_with_its_history(gan, x)
    return first.detach(), second.detach()


def test_a_history_that_leaves_is_refused() -> None:
    gan = Gan()
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(lambda x: returned_with_its_history(gan, x))(hy.ones((2, 3)))
    assert "sets requires_grad of a tensor in its middle" in caught.value.what
    assert str(caught.value).endswith(
        "Fix: return it without its history (loss.detach()), or set requires_grad outside."
    )
    assert all(p.requires_grad for p in gan.of_d)
    found = hy.hybridize(lambda x: detached(gan, x))(hy.ones((2, 3)))
    assert repr(found) == repr(detached(gan, hy.ones((2, 3))))


def test_a_parameter_without_a_place_for_a_gradient_is_refused() -> None:
    w = nn.Parameter(hy.ones((2,)), requires_grad=False)

    def step(x: Any) -> Any:
        y = (w * x).sum()
        w.requires_grad = True
        return y

    with pytest.raises(CaptureError, match="a tensor from outside the call is set inside"):
        hy.hybridize(step)(hy.ones((2,)))
    assert not w.requires_grad
