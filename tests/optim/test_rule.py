"""Every optimizer and option against its formula in NumPy, step by step, eagerly and hybridized."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import optim
from hybrid.nn import Parameter
from tests.optim.formulas import CASES, FORMULAS, named

DRAW = np.random.RandomState(0)
START = DRAW.randn(3, 4)
GRADS = DRAW.randn(8, 3, 4)
DTYPES = {"float32": 3e-5, "float64": 1e-11}


def test_every_optimizer_has_a_formula():
    """LBFGS, whose step takes a closure, has tests of its own: test_lbfgs.py."""
    kinds = {k for k in vars(optim).values() if isinstance(k, type)}
    kinds = {k for k in kinds if issubclass(k, optim.Optimizer)} - {optim.Optimizer, optim.LBFGS}
    assert kinds == set(FORMULAS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=named)
def test_steps(case, dtype):
    kind, settings = case
    p, rtol = Parameter(START.astype(dtype)), DTYPES[dtype]
    optimizer = kind([p], **settings)
    lr = optimizer.defaults["lr"]
    steps = FORMULAS[kind][0](START, GRADS, **{"lr": lr} | settings)
    for g, (wanted, kept) in zip(GRADS, steps, strict=True):
        p.grad = hy.asarray(g.astype(dtype))
        optimizer.step()
        np.testing.assert_allclose(p.numpy(), wanted, rtol=rtol, atol=rtol)
        found = {k: v for k, v in optimizer.state[p].items() if k in kept}
        assert found.keys() == kept.keys()
        for name, value in found.items():
            np.testing.assert_allclose(value.numpy(), kept[name], rtol=rtol, atol=rtol)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_hybridized_steps_have_the_same_bits(case):
    """Two parameters, one of which has a gradient in every other step; state and all."""
    kind, settings = case
    runs = []
    for hybridizes in (False, True):
        params = [Parameter(START.astype("float32")), Parameter(START[0])]
        optimizer = kind(params, **settings)
        step = hy.hybridize(lambda o=optimizer: o.step()) if hybridizes else optimizer.step
        bits = []
        for number, g in enumerate(GRADS):
            params[0].grad = hy.asarray(g.astype("float32"))
            params[1].grad = None if number % 2 else hy.asarray(g[0])
            step()
            cells = [*params, *[c for kept in optimizer.state.values() for c in kept.values()]]
            bits.append([cell.numpy().tobytes() for cell in cells])
        runs.append(bits)
        if hybridizes:
            assert len(step.plans) == 2  # with the gradient and without
    assert runs[0] == runs[1]


@pytest.mark.parametrize("kind", FORMULAS)
def test_a_training_loop_is_one_plan(kind):
    """Gradients, clipping and steps of all batches in one loop of one graph."""
    xs = hy.asarray(DRAW.randn(5, 8, 4).astype("float32"))
    ys = hy.asarray(DRAW.randint(0, 3, (5, 8)))
    runs = []
    for hybridizes in (False, True):
        hy.random.seed(0)
        net = hy.nn.Sequential(hy.nn.Linear(4, 6), hy.nn.ReLU(), hy.nn.Linear(6, 3))
        loss_of, optimizer = hy.nn.CrossEntropyLoss(), kind(net.parameters())

        def epoch(xs, ys, net=net, loss_of=loss_of, optimizer=optimizer):
            total = hy.zeros(())
            for x, y in zip(xs, ys, strict=True):
                optimizer.zero_grad()
                loss = loss_of(net(x), y)
                loss.backward()
                optimizer.step()
                total += loss.detach()
            return total

        run = hy.hybridize(epoch) if hybridizes else epoch
        totals = [run(xs, ys).item() for _ in range(3)]
        cells = [*net.parameters(), *[c for s in optimizer.state.values() for c in s.values()]]
        runs.append((totals, [cell.numpy().tobytes() for cell in cells]))
        if hybridizes:
            assert len(run.plans) == 1
            names = [node.op.name for node in run.graph(xs, ys).nodes]
            assert "scan" in " ".join(names) or "for" in " ".join(names), names
    assert runs[0] == runs[1]


@pytest.mark.parametrize("dtype", [hy.float16, hy.bfloat16])
@pytest.mark.parametrize("kind", FORMULAS)
def test_parameters_of_16_bits_are_moved_in_float32(kind, dtype):
    """Their moments are kept in float32; the parameter is rounded once a step."""
    runs = []
    for hybridizes in (False, True):
        p = Parameter(hy.asarray(START.astype("float32")).astype(dtype))
        optimizer = kind([p], lr=10.0 if kind is optim.Adadelta else 0.125)
        step = hy.hybridize(lambda o=optimizer: o.step()) if hybridizes else optimizer.step
        found = []
        for g in GRADS:
            p.grad = hy.asarray(g.astype("float32")).astype(dtype)
            step()
            found.append(p.astype(hy.float32).numpy().tobytes())
        assert found[0] != found[-1]
        assert {c.dtype for c in optimizer.state[p].values()} <= {hy.float32}
        runs.append(found)
    assert runs[0] == runs[1]


def test_a_first_step_in_16_bits_is_that_of_its_rounded_operands():
    p = Parameter(hy.asarray([1.0, -2.0]).astype(hy.float16))
    p.grad = hy.asarray([0.5, 0.25]).astype(hy.float16)
    optim.SGD([p], lr=0.1).step()
    wanted = (np.array([1, -2], "f4") - np.float32(0.1) * np.array([0.5, 0.25], "f4")).astype("f2")
    assert p.tolist() == wanted.tolist()


def test_dampening_knows_each_parameters_first_step():
    early, late = Parameter([0.0]), Parameter([0.0])
    optimizer = optim.SGD([early, late], lr=1.0, momentum=0.5, dampening=0.5)
    for number in range(3):
        early.grad = hy.asarray([1.0])
        if number:
            late.grad = hy.asarray([1.0])
        optimizer.step()
    # buffers: 1, 1/2 + 1/2, 1/2 + 1/2
    assert (early.item(), late.item()) == (-3.0, -2.0)


def test_parameters_without_a_gradient_stay_and_count_no_step():
    p, q = Parameter([1.0]), Parameter([1.0])
    optimizer = optim.AdamW([p, q], lr=0.5, weight_decay=0.1)
    p.grad = hy.asarray([1.0])
    optimizer.step()
    assert p.item() < 1.0 and q.item() == 1.0
    assert [optimizer.state[x]["step"].item() for x in (p, q)] == [1.0, 0.0]


def test_a_constant_gradient_has_no_variance():
    """Centered, the root is of a difference that rounds to below 0 now and then."""
    p = Parameter(np.linspace(-1, 1, 64).astype("float32"))
    optimizer = optim.RMSprop([p], lr=1e-3, centered=True, alpha=0.5, eps=1e-3)
    for _ in range(200):
        p.grad = hy.full((64,), 0.1)
        optimizer.step()
    assert np.isfinite(p.numpy()).all()


@pytest.mark.parametrize("kind", FORMULAS)
def test_nan_gradients_show(kind):
    """Nothing hides them: what has met one is nan from then on, but where only signs count."""
    p = Parameter([1.0, 1.0])
    optimizer = kind([p], lr=0.1)
    for g in ([float("nan"), 1.0], [1.0, 1.0]):
        p.grad = hy.asarray(g)
        optimizer.step()
        assert np.isnan(p.numpy()).tolist() == [True, False]


def test_dtypes_may_be_mixed():
    p, q = Parameter([1.0]), Parameter(np.array([1.0]))
    optimizer = optim.Adam([p, q], lr=0.1)
    for _ in range(2):
        p.grad, q.grad = hy.asarray([1.0]), hy.asarray(np.array([1.0]))
        optimizer.step()
    assert (p.dtype, q.dtype) == (hy.float32, hy.float64)
    np.testing.assert_allclose([p.item(), q.item()], [0.8, 0.8], rtol=1e-6)
