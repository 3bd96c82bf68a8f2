"""GradScaler against PyTorch's rules, eagerly and captured."""

import math
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid import optim
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import Linear, MSELoss, Parameter
from hybrid.optim import SGD, Adam, GradScaler

BAD = (2, 5, 6)  # steps whose loss overflows


def expected(steps, scale=8.0, growth=2.0, backoff=0.5, interval=3):
    """The scales after each step, and whether it was made: the rules of ``torch.amp.GradScaler``.

    https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
    """
    tracker = 0
    for t in range(steps):
        if t in BAD:
            scale, tracker = scale * backoff, 0
        else:
            tracker += 1
            if tracker == interval:
                scale, tracker = scale * growth, 0
        yield scale, tracker, t not in BAD


def trainer(hybridizes, unscales):
    p = Parameter([1.0, -2.0])
    optimizer, scaler = Adam([p], lr=0.1), GradScaler(init_scale=8.0, growth_interval=3)

    def step(x):
        optimizer.zero_grad()
        scaler.scale(hy.sum((p * x) ** 2)).backward()
        if unscales:
            scaler.unscale_(optimizer)
            optim.clip_grad_norm_([p], 1.0)
        scaler.step(optimizer)
        scaler.update()

    return hy.hybridize(step) if hybridizes else step, p, optimizer, scaler


@pytest.mark.parametrize("unscales", [False, True])
def test_steps(unscales):
    found = []
    for hybridizes in (False, True):
        step, p, optimizer, scaler = trainer(hybridizes, unscales)
        bits = []
        for t, (scale, tracker, made) in enumerate(expected(12)):
            before = p.numpy().copy()
            step(hy.asarray([1.0, 1e30 if t in BAD else 0.5]))
            assert (scaler.get_scale(), scaler.state_dict()["_growth_tracker"]) == (scale, tracker)
            assert (p.numpy() != before).all() == made
            assert (p.numpy() == before).all() != made
            bits.append([p.numpy().tobytes(), optimizer.state[p]["step"].item()])
        assert bits[-1][1] == 12 - len(BAD)  # a step left out is not counted
        found.append(bits)
        if hybridizes:
            assert len(step.plans) == 1
            assert "cond" in {node.op.name for node in step.graph(hy.asarray([1.0, 1.0])).nodes}
    assert found[0] == found[1]


def test_gradients_are_those_without_a_scaler():
    """Scales are powers of two."""
    hy.random.seed(0)
    layer = Linear(3, 2)
    optimizer, scaler = SGD(layer.parameters(), lr=0.1), GradScaler()
    x, y = hy.ones((5, 3)), hy.zeros((5, 2))
    MSELoss()(layer(x), y).backward()
    plain = [p.grad.numpy().copy() for p in layer.parameters()]
    optimizer.zero_grad()
    scaler.scale(MSELoss()(layer(x), y)).backward()
    scaler.unscale_(optimizer)
    for p, g in zip(layer.parameters(), plain, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), g)


def test_gradients_that_vanish_in_float16_are_kept():
    """The parameter is float32, what is computed with it float16, whose least number is 6e-8."""
    found = []
    for enabled in (False, True):
        p = Parameter([1.0, 2.0])
        scaler = GradScaler(enabled=enabled)
        loss = hy.sum(p.astype(hy.float16).astype(hy.float32)) * 1e-8
        scaler.scale(loss).backward()
        scaler.unscale_(SGD([p]))
        found.append(p.grad.tolist())
    assert found[0] == [0.0, 0.0]
    np.testing.assert_allclose(found[1], [1e-8, 1e-8], rtol=1e-3)


def test_gradients_of_float16_are_refused():
    p, q = Parameter([1.0]), Parameter(hy.ones(2, dtype=hy.float16))
    p.grad, q.grad = hy.asarray([1.0]), hy.ones(2, dtype=hy.float16)
    with pytest.raises(ArgumentTypeError) as caught:
        GradScaler().step(SGD([p, q]))
    assert str(caught.value) == (
        "gradients of float16 (f16[2]) cannot be unscaled\n"
        "The small ones, for which losses are scaled, would vanish.\n"
        "Fix: keep the parameters in float32, and cast them where they are used."
    )
    assert p.grad.item() == 1.0  # nothing is done by halves


def test_several_optimizers_are_stepped_each_for_itself():
    for hybridizes in (False, True):
        p, q = Parameter([1.0]), Parameter([1.0])
        first, second = SGD([p], lr=0.5), SGD([q], lr=0.5)
        scaler = GradScaler(init_scale=4.0)

        def step(x, p=p, q=q, first=first, second=second, scaler=scaler):
            p.grad, q.grad = x, hy.ones((1,)) * 4.0
            scaler.step(first)
            scaler.step(second)
            scaler.update()

        run = hy.hybridize(step) if hybridizes else step
        run(hy.asarray([math.inf]))
        assert (p.item(), q.item(), scaler.get_scale()) == (1.0, 0.5, 2.0)


def test_outputs_are_trees():
    scaler = GradScaler(init_scale=4.0)
    scaled = scaler.scale({"a": hy.asarray(1.0), "b": [hy.asarray([2.0]).astype(hy.float16)]})
    assert scaled["a"].item() == 4.0 and scaled["b"][0].tolist() == [8.0]
    assert scaled["b"][0].dtype == hy.float16


def test_a_scale_given():
    scaler = GradScaler()
    scaler.update(128.0)
    assert scaler.get_scale() == 128.0
    scaler.update(hy.asarray(64.0, dtype=hy.float64))
    assert scaler.get_scale() == 64.0


def test_the_scale_stays_finite():
    p = Parameter([1.0])
    scaler = GradScaler(init_scale=2.0**127, growth_interval=1)
    p.grad = hy.asarray([1.0])
    scaler.step(SGD([p]))
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_disabled_it_is_not_there():
    p = Parameter([1.0])
    optimizer, scaler = SGD([p], lr=0.5), GradScaler(enabled=False)
    loss = hy.sum(p)
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and not scaler.is_enabled()
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer), scaler.update()
    assert p.item() == 0.5 and scaler.state_dict() == {}
    scaler.load_state_dict({})


def test_state():
    step, _, _, scaler = trainer(False, False)
    for t in range(4):
        step(hy.asarray([1.0, 1e30 if t in BAD else 0.5]))
    state = pickle.loads(pickle.dumps(scaler.state_dict()))
    assert state == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 3,
        "_growth_tracker": 1,
    }
    other = GradScaler()
    other.load_state_dict(state)
    assert other.state_dict() == state


TWICE = (
    "Its gradients would be divided by the scale twice.\n"
    "Fix: call update() at the end of each step."
)


@pytest.mark.parametrize("hybridizes", [False, True])
@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (
            ("unscale_", "unscale_"),
            "unscale_() of an optimizer whose gradients are unscaled\n" + TWICE,
        ),
        (("step", "unscale_"), "unscale_() of an optimizer that was stepped\n" + TWICE),
        (
            ("step", "step"),
            "step() of an optimizer that was stepped\nFix: call update() at the end of each step.",
        ),
        (
            ("update",),
            "update() before any gradient was looked at\nFix: call step(optimizer) before.",
        ),
        (
            ("step", "update", "update"),
            "update() before any gradient was looked at\nFix: call step(optimizer) before.",
        ),
    ],
)
def test_the_order_of_calls(calls, message, hybridizes):
    p = Parameter([1.0])
    optimizer, scaler = SGD([p]), GradScaler()

    def run(x):
        p.grad = x
        for name in calls:
            getattr(scaler, name)(*(() if name == "update" else (optimizer,)))

    with pytest.raises(ArgumentError) as caught:
        (hy.hybridize(run) if hybridizes else run)(hy.asarray([1.0]))
    error = caught.value
    error.at = None
    assert str(error) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GradScaler("cuda"), "no device 'cuda'\nFix: leave device out, or pass \"cpu\"."),
        (
            lambda: GradScaler(growth_factor=1.0),
            "growth_factor is 1.0\nFix: give a number above 1.",
        ),
        (
            lambda: GradScaler(backoff_factor=1.0),
            "backoff_factor is 1.0\nFix: give a number that is at least 0 and below 1.",
        ),
        (
            lambda: GradScaler(growth_interval=0),
            "growth_interval is 0\nFix: give an int above 0.",
        ),
        (lambda: GradScaler(enabled=1), "enabled is 1, not a bool\nFix: give True or False."),
        (lambda: GradScaler(init_scale="x"), "scale is 'x', not a number"),
        (lambda: GradScaler().scale([1.0]), "scale got a float, not a tensor"),
        (lambda: GradScaler().step(3), "a int is not an optimizer"),
        (
            lambda: GradScaler().load_state_dict({"scale": 1.0, "growth_factor": 2.0}),
            "the state does not fit a GradScaler: backoff_factor, growth_interval, _growth_tracker "
            "missing\nFix: load what state_dict() gave of one that was enabled.",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message
