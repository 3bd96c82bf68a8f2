"""LBFGS: PyTorch's trajectories, the same bits eagerly and hybridized, its state, its errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentError, ArgumentTypeError

WOLFE = "strong_wolfe"


def rosenbrock(start: list[float], **settings: Any) -> tuple[Any, Any, Callable]:
    p = nn.Parameter(hy.asarray(start, dtype=hy.float64))
    optimizer = hy.optim.LBFGS([p], **settings)

    def closure() -> hy.Tensor:
        optimizer.zero_grad()
        loss = (100 * (p[1:] - p[:-1] ** 2) ** 2 + (1 - p[:-1]) ** 2).sum()
        loss.backward()
        return loss

    return p, optimizer, lambda: optimizer.step(closure)


# What PyTorch 2.13.0 does in three steps: (loss before, parameters after, evaluations, iterations).
RECORDED: list[tuple[list[float], dict[str, Any], list[tuple[float, list[float], int, int]]]] = [
    (
        [-1.2, 1.0, 0.7],
        {"line_search_fn": WOLFE, "lr": 1.0, "max_iter": 4, "history_size": 3},
        [
            (
                33.199999999999996,
                [-0.9396452247167947, 0.89322310020627, 0.80415325851891],
                5,
                3,
            ),
            (
                3.78818946559857,
                [-0.9330577954614651, 0.8769111560155, 0.7611728666242],
                10,
                7,
            ),
            (
                3.761934832493608,
                [-0.820681307854956, 0.66620043685304, 0.43047511600333],
                15,
                11,
            ),
            (3.449473626353004, [-0.605373694374296, 0.371763384976202, 0.110040533506025], 20, 14),
            (3.054040900121427, [-0.36301989755603, 0.12860289649602, -0.01601120809102], 25, 17),
            (2.724117426797014, [-0.0406754798875, -0.033432326302162, -0.010178448088633], 31, 20),
        ],
    ),
    (
        [-1.2, 1.0, 0.7],
        {"line_search_fn": WOLFE},
        [
            (33.199999999999996, [-0.252971884052277, 0.044171784275264, 0.0108265926342], 25, 20),
            (2.5307185672052475, [0.9387923737996, 0.8834461780596, 0.7708789644741], 50, 38),
            (0.026991029139616, [1.0000005232787, 1.0000008819374, 1.0000013884763], 61, 49),
        ],
    ),
    (
        [3.0, -2.0],
        {"line_search_fn": WOLFE, "lr": 0.1},
        [
            (12104.0, [0.2383078226609446, 0.05589712941365032], 25, 12),
            (0.5802548052659121, [0.8629122777884223, 0.7410712992088271], 50, 25),
            (0.02005066791411142, [0.999996878804201, 0.9999934156313656], 67, 35),
        ],
    ),
    (
        [1.1, 1.1],
        {"lr": 0.05},
        [
            (1.2200000000000022, [1.060679118001518, 1.1176313095368566], 20, 20),
            (0.009171108355008414, [1.0585252503645775, 1.1179787095490656], 40, 40),
            (0.004048703887734708, [1.0574741262263707, 1.1175751807049443], 60, 60),
        ],
    ),
    (
        [-1.2, 1.0, 0.7],
        {"lr": 1e-3, "max_iter": 5, "history_size": 10},
        [
            (33.199999999999996, [-1.198532799659974, 0.9995821085714, 0.7005973389920199], 5, 5),
            (32.83582808300655, [-1.1976009172486377, 0.9992695475279, 0.7012843322441585], 10, 10),
        ],
    ),
]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize(("start", "settings", "recorded"), RECORDED, ids=lambda _: "")
def test_the_trajectory_is_that_of_torch(
    start: list[float], settings: dict[str, Any], recorded: list, hybridized: bool
) -> None:
    p, optimizer, step = rosenbrock(start, **settings)
    if hybridized:
        step = hy.hybridize(step)
    for loss, after, evaluations, iterations in recorded:
        np.testing.assert_allclose(step().item(), loss, rtol=1e-8)
        np.testing.assert_allclose(p.numpy(), after, rtol=1e-8)
        assert (optimizer.func_evals.item(), optimizer.n_iter.item()) == (evaluations, iterations)
    if hybridized:
        assert len(step.plans) == 1


def bits(value: Any) -> Any:
    return {name: cell.numpy().tobytes() for name, cell in value["state"][0].items()}


@pytest.mark.parametrize("search", [None, WOLFE])
def test_eager_and_hybridized_have_the_same_bits(search: str | None) -> None:
    rng = np.random.default_rng(0)
    x = hy.asarray(rng.normal(size=(24, 4)).astype(np.float32))
    y = hy.asarray(np.sin(rng.normal(size=(24, 2))).astype(np.float32))

    def training() -> tuple[Any, Any, Callable]:
        hy.random.seed(1)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = hy.optim.LBFGS(
            net.parameters(), lr=0.3, max_iter=6, history_size=4, line_search_fn=search
        )

        def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
            def closure() -> hy.Tensor:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(net(x), y)
                loss.backward()
                return loss

            return optimizer.step(closure)

        return net, optimizer, step

    (eager, own, step), (planned, other, captured) = training(), training()
    captured = hy.hybridize(captured)
    losses = []
    for _ in range(4):
        losses.append(step(x, y).item())
        assert losses[-1] == captured(x, y).item()
        for p, q in zip(eager.parameters(), planned.parameters(), strict=True):
            assert p.numpy().tobytes() == q.numpy().tobytes()
            assert p.grad.numpy().tobytes() == q.grad.numpy().tobytes()
            assert p.requires_grad and q.requires_grad
        assert bits(own.state_dict()) == bits(other.state_dict())
    assert losses[-1] < losses[0] / 1.5


def test_the_learning_rate_is_a_cell() -> None:
    (p, own, step), (q, other, captured) = (rosenbrock([1.1, 1.1], lr=0.05) for _ in range(2))
    captured = hy.hybridize(captured)
    for lr in (0.05, 0.01):
        own.lr = other.lr = lr
        step(), captured()
        assert p.numpy().tobytes() == q.numpy().tobytes()
    assert len(captured.plans) == 1


def test_state_goes_on_where_it_was() -> None:
    p, optimizer, step = rosenbrock([-1.2, 1.0], line_search_fn=WOLFE, max_iter=3)
    step()
    q, other, again = rosenbrock(p.tolist(), line_search_fn=WOLFE, max_iter=3, lr=0.7)
    other.load_state_dict(optimizer.state_dict())
    for _ in range(3):
        step(), again()
        assert p.numpy().tobytes() == q.numpy().tobytes()
    assert bits(optimizer.state_dict()) == bits(other.state_dict())
    with pytest.raises(ArgumentError, match=r"old_dirs is f64\[100,2\], not f64\[7,2\]"):
        rosenbrock([1.0, 2.0], history_size=7)[1].load_state_dict(optimizer.state_dict())
    with pytest.raises(ArgumentError, match=r"n_iter is missing, not i64\[\]"):
        other.load_state_dict({"state": {}, "param_groups": []})


def test_a_step_at_the_minimum_moves_nothing() -> None:
    p, optimizer, step = rosenbrock([1.0, 1.0], line_search_fn=WOLFE)
    assert step().item() == 0
    assert p.tolist() == [1, 1]
    assert optimizer.func_evals.item() == 1


def test_a_parameter_without_a_gradient_stays() -> None:
    p, q = nn.Parameter([2.0]), nn.Parameter([3.0])
    optimizer = hy.optim.LBFGS([p, q], line_search_fn=WOLFE)

    def closure() -> hy.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert abs(p.item()) < 1e-5
    assert q.item() == 3


def one(**settings: Any) -> Any:
    return hy.optim.LBFGS([nn.Parameter([1.0])], **settings)


ERRORS = {
    "no closure": (
        lambda: one().step(),
        ArgumentTypeError,
        "LBFGS.step got no closure\nA step evaluates the loss more than once.\n"
        "Fix: step(closure), where closure clears the gradients, calls backward() on the loss and "
        "returns it.",
    ),
    "no loss": (
        lambda: one().step(lambda: None),
        ArgumentTypeError,
        "the closure of LBFGS returned NoneType\nFix: return the loss.",
    ),
    "search": (
        lambda: one(line_search_fn="wolfe"),
        ArgumentError,
        "LBFGS got line_search_fn 'wolfe'\nFix: give None or \"strong_wolfe\".",
    ),
    "iterations": (
        lambda: one(max_iter=0),
        ArgumentError,
        "LBFGS got max_iter 0\nFix: give an int of at least 1.",
    ),
    "groups": (
        lambda: one().add_param_group({"params": [nn.Parameter([1.0])]}),
        ArgumentError,
        "LBFGS has one parameter group\nIts directions are those of all parameters together.\n"
        "Fix: pass all parameters to one LBFGS.",
    ),
    "dtypes": (
        lambda: hy.optim.LBFGS(
            [nn.Parameter([1.0]), nn.Parameter(hy.ones(2, dtype=hy.float64))]
        ),
        ArgumentTypeError,
        "LBFGS got parameters of float32, float64\n"
        "They move together, in one dtype, float32 or float64.\n"
        "Fix: convert the module with to(hybrid.float32).",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, text = ERRORS[name]
    with pytest.raises(error) as found:
        call()
    assert str(found.value) == text
