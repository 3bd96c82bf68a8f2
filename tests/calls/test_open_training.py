"""Training steps on batches of many sizes: one capture, and the bits of eager code at each."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.calls.hybridized import Hybridized
from hybrid.nn import functional
from tests.calls.test_open_families import captures
from tests.staging.harness import describe

SIZES = (5, 9, 12, 17, 5, 33)
Hybridize = Callable[[Any], Any]


def draw(n: int, *shape: int, seed: int = 0) -> hy.Tensor:
    values = np.random.default_rng(100 * n + seed).standard_normal(shape)
    return hy.asarray(values.astype(np.float32))


def labels(n: int, classes: int = 3) -> hy.Tensor:
    return hy.asarray(np.random.default_rng(n).integers(0, classes, n))


def batch(n: int) -> tuple[hy.Tensor, hy.Tensor]:
    return draw(n, n, 4), labels(n)


class Program(NamedTuple):
    """What is called with the arguments of each size, and what it leaves."""

    call: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    state: Callable[[], Any] = tuple


def state_of(net: Any, *others: Any) -> Callable[[], Any]:
    def state() -> Any:
        grads = [p.grad for p in net.parameters()]
        return net.state_dict(), grads, [other.state_dict() for other in others]

    return state


def mlp(*extra: Any) -> Any:
    return nn.Sequential(nn.Linear(4, 6), *extra, nn.Tanh(), nn.Linear(6, 3))


def step_of(scores: Any, optimizer: Any) -> Callable[..., Any]:
    """A step for the losses of classes."""

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(scores(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def training(
    hybridize: Hybridize,
    net: Any,
    optimizer: Any,
    arguments: Callable[[int], tuple[Any, ...]] = batch,
    clip: Callable[[Any], Any] | None = None,
) -> Program:
    """A whole step: the losses of classes, or the squares where there are none."""

    def step(x: Any, *y: Any) -> Any:
        optimizer.zero_grad()
        found = net(x)
        loss = functional.cross_entropy(found, *y) if y else (found * found).mean()
        loss.backward()
        if clip is not None:
            clip(net.parameters())
        optimizer.step()
        return loss

    return Program(hybridize(step), arguments, state_of(net, optimizer))


PROGRAMS: dict[str, Callable[[Hybridize], Program]] = {}


def program(make: Callable[[Hybridize], Program]) -> Callable[[Hybridize], Program]:
    PROGRAMS[make.__name__] = make
    return make


def whole_step(name: str, net: Callable[[], Any], **options: Any) -> None:
    def make(hybridize: Hybridize) -> Program:
        made = net()
        return training(hybridize, made, optim.SGD(made.parameters(), lr=0.1), **options)

    PROGRAMS[name] = make


def sgd(net: Any) -> optim.SGD:
    return optim.SGD(net.parameters(), lr=0.1)


# Optimizers -------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "amsgrad": lambda p: optim.Adam(p, amsgrad=True),
    **{
        kind.__name__: kind
        for kind in (
            optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam, optim.RMSprop,
            optim.Adadelta, optim.Adagrad, optim.Lion,
        )
    },
}  # fmt: skip
for _name, _kind in OPTIMIZERS.items():

    def _make(hybridize: Hybridize, kind: Callable[[Any], Any] = _kind) -> Program:
        net = mlp()
        return training(hybridize, net, kind(net.parameters()))

    PROGRAMS[_name] = _make


@program
def lbfgs(hybridize: Hybridize) -> Program:
    net = nn.Linear(4, 1)
    optimizer = optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)

    def step(x: Any, y: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = ((net(x)[:, 0] - y) ** 2).mean()
            loss.backward()
            return loss

        return optimizer.step(closure)

    return Program(hybridize(step), lambda n: (draw(n, n, 4), draw(n, n)), state_of(net))


@program
def scheduled(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    average = optim.ExponentialMovingAverage(net, 0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(net)
        return loss

    return Program(hybridize(step), batch, state_of(net, optimizer, average))


@program
def scaled(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer, scaler = sgd(net), optim.GradScaler(init_scale=8.0)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return Program(hybridize(step), batch, state_of(net, scaler))


# Networks ---------------------------------------------------------------------------------------


def series(*shape: int) -> Callable[[int], tuple[Any, ...]]:
    """Series of n steps: -1 in ``shape`` stands for n."""
    return lambda n: (draw(n, *[n if size == -1 else size for size in shape]),)


def pixels(n: int) -> tuple[Any, ...]:
    return draw(n, 2, 1, n + 4, 2 * n + 4), labels(2)


def convolutional() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(3, 3),
    )  # fmt: skip


def clipped(net: Any) -> Any:
    return optim.clip_grad_norm_(net, 0.1)


whole_step("clipped_norm", mlp, clip=clipped)
whole_step("clipped_value", mlp, clip=lambda p: optim.clip_grad_value_(p, 0.01))
whole_step("dropout", lambda: mlp(nn.Dropout(0.3)))
whole_step("batch_norm", lambda: mlp(nn.BatchNorm1d(6)))
whole_step("images", convolutional, arguments=lambda n: (draw(n, n, 1, 8, 8), labels(n)))
whole_step("sizes_of_images", convolutional, arguments=pixels)
whole_step(
    "instance_norm", lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
    arguments=series(2, 3, -1),
)  # fmt: skip
whole_step(
    "transformer", lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1),
    arguments=series(2, -1, 16), clip=clipped,
)  # fmt: skip
whole_step(
    "embedding", lambda: nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3)),
    arguments=lambda n: (labels(n, 10),),
)  # fmt: skip


@program
def recurrent(hybridize: Hybridize) -> Program:
    net = nn.GRU(4, 5)
    optimizer = sgd(net)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x)[0] ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Program(hybridize(step), series(3, -1, 4), state_of(net))


@program
def masked(hybridize: Hybridize) -> Program:
    net = nn.MultiheadAttention(8, 2, batch_first=True)
    optimizer = sgd(net)

    def step(x: Any, mask: Any) -> Any:
        optimizer.zero_grad()
        found, _ = net(x, x, x, key_padding_mask=mask)
        loss = hy.where(mask[:, :, None], 0.0, found * found).sum() / hy.sum(~mask)
        loss.backward()
        optimizer.step()
        return loss

    def arguments(n: int) -> tuple[Any, ...]:
        return draw(n, 2, n, 8), hy.asarray(np.arange(n)[None].repeat(2, 0) > n // 2)

    return Program(hybridize(step), arguments, state_of(net))


# Gradients that stay, and those that are there --------------------------------------------------


@program
def accumulated(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer = sgd(net)

    def step(x: Any, y: Any, last: Any) -> Any:
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return loss

    def arguments(n: int) -> tuple[Any, ...]:
        return *batch(n), hy.asarray(n % 2 == 0)

    return Program(hybridize(step), arguments, state_of(net))


@program
def accumulated_inside(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer = sgd(net)

    def step(*parts: Any) -> Any:
        optimizer.zero_grad()
        total = hy.zeros(())
        for i in range(0, len(parts), 2):
            loss = functional.cross_entropy(net(parts[i]), parts[i + 1]) / 2
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return Program(hybridize(step), lambda n: (*batch(n), *batch(n + 3)), state_of(net))


@program
def zeroed_behind(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer = sgd(net)

    def step(x: Any, y: Any) -> Any:
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Program(hybridize(step), batch, state_of(net))


@program
def backward_alone(hybridize: Hybridize) -> Program:
    net = mlp()

    def step(x: Any, y: Any) -> Any:
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        return loss

    return Program(hybridize(step), batch, state_of(net))


@program
def variable_arguments(hybridize: Hybridize) -> Program:
    @hybridize
    def backward(x: Any) -> Any:
        loss = hy.tanh(x * x).sum()
        loss.backward()
        return loss, x.requires_grad

    def call(x: Any) -> Any:
        x.requires_grad = True
        return backward(x), backward(x), x.grad  # the second one adds

    return Program(call, lambda n: (draw(n, n, 4),))


@program
def arguments_turned(hybridize: Hybridize) -> Program:
    @hybridize
    def backward(x: Any) -> Any:
        x.requires_grad = True
        loss = hy.tanh(x * x).sum()
        loss.backward()
        return loss

    return Program(lambda x: (backward(x), x.grad), lambda n: (draw(n, n, 4),))


@program
def adversarial(hybridize: Hybridize) -> Program:
    net = mlp()

    @hybridize
    def attacked(x: Any, y: Any) -> Any:
        functional.cross_entropy(net(x), y).backward()
        return (x + 0.1 * hy.sign(x.grad)).detach()

    def call(x: Any, y: Any) -> Any:
        x.requires_grad = True
        return attacked(x, y), x.grad

    return Program(call, batch, state_of(net))


@program
def parameters_of_many_sizes(hybridize: Hybridize) -> Program:
    @hybridize
    def weighted(w: Any, x: Any) -> Any:
        (w * x).sum().backward()
        return isinstance(w, nn.Parameter)

    def call(w: Any, x: Any) -> Any:
        found = nn.Parameter(w)
        return weighted(found, x), found.grad

    return Program(call, lambda n: (draw(n, n), draw(n, n, seed=1)))


# Calls that are differentiated outside ----------------------------------------------------------


@program
def backward_outside(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer = optim.Adam(net.parameters())
    scores = hybridize(lambda x: net(x))

    return Program(step_of(scores, optimizer), batch, state_of(net, optimizer))


@program
def backward_of_some_results(hybridize: Hybridize) -> Program:
    net = mlp()
    both = hybridize(lambda x: (net(x), net(x).sum(axis=0)))

    def call(x: Any, _: Any) -> Any:
        found, sums = both(x)
        (sums.sum() * 2).backward()
        return found

    return Program(call, batch, state_of(net))


@program
def backward_of_two_calls(hybridize: Hybridize) -> Program:
    net = mlp()
    scores = hybridize(lambda x: net(x))

    def call(x: Any, _: Any) -> Any:
        a, b = scores(x), scores(x * 2)
        (a.sum() * 2 + (b * b).sum()).backward()
        return a

    return Program(call, batch, state_of(net))


@program
def backward_to_arguments(hybridize: Hybridize) -> Program:
    inner = hybridize(lambda x: hy.tanh(x * x).sum())

    def call(x: Any) -> Any:
        x.requires_grad = True
        (inner(x) + inner(x * 2)).backward()
        return x.grad

    return Program(call, lambda n: (draw(n, n, 4),))


# Gradients of functions -------------------------------------------------------------------------


@program
def value_and_grad_inside(hybridize: Hybridize) -> Program:
    held = SimpleNamespace(w=draw(0, 4, 3))

    def step(x: Any, y: Any) -> Any:
        loss = lambda w: functional.cross_entropy(x @ w, y)  # noqa: E731
        value, gradient = hy.value_and_grad(loss)(held.w)
        held.w = held.w - 0.1 * gradient
        return value

    return Program(hybridize(step), batch, lambda: held.w)


@program
def gradient_outside(hybridize: Hybridize) -> Program:
    loss = hybridize(lambda w, x: hy.tanh(x @ w).sum())
    w = draw(0, 4, 3)
    return Program(lambda x, _: hy.grad(loss, argnums=(0, 1))(w, x), batch)


@program
def second_gradient(hybridize: Hybridize) -> Program:
    loss = hybridize(lambda w, x: hy.tanh(x @ w).sum())

    def call(x: Any, _: Any) -> Any:
        first = hy.grad(loss)
        return hy.grad(lambda w: (first(w, x) ** 2).sum())(draw(0, 4, 3))

    return Program(call, batch)


@program
def checkpointed(hybridize: Hybridize) -> Program:
    net = mlp(nn.Dropout(0.2))
    optimizer = sgd(net)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(hy.checkpoint(lambda x: net(x))(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Program(hybridize(step), batch, state_of(net))


# Control flow, random numbers, modules ----------------------------------------------------------


@program
def control_flow(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer = sgd(net)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        h = net(x)
        while hy.sum(h * h) < 20:
            h = h * 2 + 0.1
        loss = functional.cross_entropy(h, y)
        if loss > 1:
            loss = loss * 2
        loss.backward()
        optimizer.step()
        return loss

    return Program(hybridize(step), batch, state_of(net))


@program
def random_numbers(hybridize: Hybridize) -> Program:
    def shuffled(x: Any, y: Any) -> Any:
        order = hy.random.permutation(x.shape[0])
        noise = hy.random.normal(size=x.shape) + hy.random.uniform(size=(x.shape[0], 1))
        return x[order] + noise, y[order], hy.random.permutation(x)

    return Program(hybridize(shuffled), batch)


@program
def trained_then_asked(hybridize: Hybridize) -> Program:
    net = mlp(nn.Dropout(0.2))
    optimizer = sgd(net)

    def step(x: Any, y: Any) -> Any:
        net.train()
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        net.eval()
        with hy.no_grad():
            return loss, net(x)

    return Program(hybridize(step), batch, state_of(net))


@program
def teacher(hybridize: Hybridize) -> Program:
    net, fixed = mlp(), mlp()
    optimizer = optim.Adam(net.parameters())

    def step(x: Any, _: Any) -> Any:
        optimizer.zero_grad()
        with hy.no_grad():
            wanted = fixed(x)
        loss = ((net(x) - wanted) ** 2).mean() + hy.stop_gradient(net(x)).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Program(hybridize(step), batch, state_of(net))


@program
def module_alone(hybridize: Hybridize) -> Program:
    net = hybridize(mlp(nn.BatchNorm1d(6)))
    optimizer = optim.Adam(net.parameters())

    return Program(step_of(net, optimizer), batch, state_of(net, optimizer))


@program
def module_within(hybridize: Hybridize) -> Program:
    net = hybridize(mlp())
    return training(hybridize, net, optim.AdamW(net.parameters()))


@program
def function_within(hybridize: Hybridize) -> Program:
    net = mlp()
    optimizer = sgd(net)
    scores = hybridize(lambda x: net(x))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(scores(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Program(hybridize(step), batch, state_of(net))


# The tests --------------------------------------------------------------------------------------


def called(program: Program, n: int) -> Any:
    """What a call gives and leaves, or what it raises."""
    try:
        found = program.call(*program.arguments(n))
    except Exception as error:
        found = (type(error), str(error).splitlines()[0])
    return describe((found, program.state()))


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_capture_serves_batches_of_all_sizes(name: str, traces: list[Hybridized]) -> None:
    sides = []
    for hybridize in (lambda f: f, hy.hybridize):
        hy.random.seed(1)
        made = PROGRAMS[name](hybridize)
        traces.clear()  # the library hybridizes some of its own for eager code
        sides.append([called(made, n) for n in SIZES])
        captured = len(traces)
        sides[-1].append(called(made, 1))
    assert captured == 2  # for the first size, and for all others
    for n, eager, hybridized in zip((*SIZES, 1), *sides, strict=True):
        assert eager == hybridized, n


def test_gradients_by_turns_there_and_not(traces: list[Hybridized]) -> None:
    net = mlp()

    @hy.hybridize
    def step(x: Any, y: Any) -> Any:
        functional.cross_entropy(net(x), y).backward()

    other = mlp()
    other.load_state_dict(net.state_dict())
    for n in (*SIZES, *SIZES):
        if n % 3 == 0:
            net.zero_grad()
            other.zero_grad()
        if n == 17:  # of some
            net[0].weight.grad = other[0].weight.grad = None
        step(*batch(n))
        functional.cross_entropy(other(batch(n)[0]), batch(n)[1]).backward()
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            assert describe(a.grad) == describe(b.grad)
    assert captures(step) == 3
    assert len(traces) <= 3


def test_an_argument_that_is_met_outside_too_is_one_tensor() -> None:
    box = SimpleNamespace(x=None)

    def function(x: Any) -> Any:
        return x * 2 if x is box.x else x * 3

    hybridized = hy.hybridize(function)
    for n in SIZES:
        box.x = draw(n, n)
        assert describe(hybridized(box.x)) == describe(box.x * 2)


def test_gradients_of_arguments_that_are_met_outside() -> None:
    held = SimpleNamespace(x=None)

    def function(x: Any) -> Any:
        (x * x).sum().backward()
        return held.x.grad * 1

    hybridized = hy.hybridize(function)
    for n in SIZES:
        found = []
        for side in (function, hybridized):
            held.x = draw(n, n)
            held.x.requires_grad = True
            found.append(describe((side(held.x), held.x.grad)))
        assert found[0] == found[1]


def test_a_gradient_that_is_an_argument_itself() -> None:
    def function(x: Any, gradient: Any) -> Any:
        (x * x).sum().backward()
        return x.grad is gradient, gradient + 1, x.grad + 2

    hybridized = hy.hybridize(function)
    for n in SIZES:
        found = []
        for side in (function, hybridized):
            x = draw(n, n)
            x.requires_grad = True
            x.grad = draw(n, n, seed=1)
            found.append(describe((side(x, x.grad), x.grad)))
        assert found[0] == found[1]


def test_a_step_is_lowered_for_few_sizes() -> None:
    layer = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    rule = optim.Adam(layer.parameters(), lr=1e-3)

    @hy.hybridize(ledger=False)
    def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
        rule.zero_grad()
        loss = ((layer(x) - y) ** 2).mean()
        loss.backward()
        rule.step()
        return loss

    with hy.profile() as profile:
        for n in range(30, 60):
            step(hy.ones((n, 3)), hy.zeros((n, 2)))
    passes = [timing.calls for timing in profile.phases if timing.name == "passes"]
    assert sum(passes) <= 4  # of the first call, and of one plan for the sizes that follow
