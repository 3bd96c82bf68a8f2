"""Python's math in programs, and the schedules of learning rates: Python's bits."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.errors import ProgramError
from hybrid.ops.elementwise.c_functions import NAMES, ONE
from hybrid.optim import lr_scheduler
from tests.programs.runner import CProgram, ProgramFailure

DRAW = np.random.default_rng(3)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e4, -1e4, math.inf, -math.inf, math.nan, 1e-300]


def said_by(call: Any) -> Any:
    """The result, or the class and the text of what is raised."""
    try:
        return call()
    except (ArithmeticError, ValueError) as error:
        return type(error).__name__, str(error)


def require_same(path: Path, function: Any, numbers: list[tuple[float, ...]]) -> None:
    """C and Python compute what ``function`` does, to the bit, and raise what it does."""
    names = ["x", "y"][: len(numbers[0])]
    table = dict.fromkeys(names, True)
    hy.export({"f": (function, *[0.5] * len(names))}, path, dynamic=table)
    c, loaded = CProgram(path), hy.load_exported(path)["f"]
    for given in numbers:
        expected = said_by(lambda given=given: function(*given))
        found = said_by(lambda given=given: loaded(*given))
        if isinstance(expected, float):
            [native] = c("f", *[np.asarray(x) for x in given])
            assert native.tobytes() == np.asarray(expected).tobytes() or native != native, given
            assert np.asarray(found).tobytes() == native.tobytes(), given
        else:
            assert found == expected, given
            with pytest.raises(ProgramFailure, match=f"^f: {expected[0]}"):
                c("f", *[np.asarray(x) for x in given])


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_math(name: str, tmp_path: Path) -> None:
    compute = getattr(math, name)
    draws = (DRAW.normal(size=(40, 2)) * 4).tolist()
    if name in ONE:
        numbers = [(x,) for x in [*SPECIAL, *[draw[0] for draw in draws]]]
        require_same(tmp_path / "m", lambda x: compute(x), numbers)
    else:
        numbers = [*[(x, y) for x in SPECIAL for y in SPECIAL], *map(tuple, draws)]
        if name == "pow" and sys.version_info < (3, 11):  # raises there
            numbers = [(x, y) for x, y in numbers if not (x == 0 and y == -math.inf)]
        require_same(tmp_path / "m", lambda x, y: compute(x, y), numbers)


def test_powers_and_logarithms_to_a_base(tmp_path: Path) -> None:
    pairs = [(x, y) for x in SPECIAL for y in SPECIAL]
    real = [(x, y) for x, y in pairs if not isinstance(said_by(lambda x=x, y=y: x**y), complex)]
    require_same(tmp_path / "power", lambda x, y: x**y, real)
    require_same(tmp_path / "base", lambda x, y: math.log(x, y), pairs)
    require_same(tmp_path / "fixed", lambda x: 0.9**x + math.log(8, 2) * x, [(x,) for x in SPECIAL])
    with pytest.raises(ProgramFailure, match="a traced number became a complex number"):
        CProgram(tmp_path / "power")("f", np.asarray(-2.0), np.asarray(0.5))


def test_what_c_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="it calls Python's gamma while it runs"):
        hy.export({"f": (lambda x: math.gamma(x), 0.5)}, tmp_path / "m", dynamic={"x": True})


# Schedules ----------------------------------------------------------------------------------------


def sequence(optimizer: Any) -> Any:
    first = lr_scheduler.LinearLR(optimizer, total_iters=3)
    then = lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    last = lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    return lr_scheduler.SequentialLR(optimizer, [first, then, last], milestones=[3, 7])


def chained(optimizer: Any) -> Any:
    parts = [lr_scheduler.ConstantLR(optimizer), lr_scheduler.ExponentialLR(optimizer, gamma=0.9)]
    return lr_scheduler.ChainedScheduler(parts)


class Halved(lr_scheduler.LRScheduler):
    """One of the author's, as in PyTorch."""

    def get_lr(self) -> list[float]:
        return [rate * math.exp(-0.25 * self.last_epoch) for rate in self.base_lrs]


SCHEDULES: dict[str, Any] = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, step_size=3),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, milestones=[2, 5, 5]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, gamma=0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, total_iters=6, power=1.5),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=4, eta_min=1e-3),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.95**epoch),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 1 / (1 + epoch)),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=14),
    "OneCycleLR in three phases": lambda o: lr_scheduler.OneCycleLR(
        o, max_lr=0.1, total_steps=14, anneal_strategy="linear", three_phase=True
    ),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="triangular2"),
    "CyclicLR exp_range": lambda o: lr_scheduler.CyclicLR(
        o, 0.01, 0.1, step_size_up=3, mode="exp_range", gamma=0.95
    ),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, cooldown=1),
    "SequentialLR": sequence,
    "ChainedScheduler": chained,
    "Halved": Halved,
}


def test_all_schedules_are_tried() -> None:
    known = {name for name in vars(lr_scheduler) if name[0].isupper()} - {"LRScheduler"}
    assert known <= {name.split()[0] for name in SCHEDULES}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_step_with_a_schedule(name: str, tmp_path: Path) -> None:
    model = nn.Linear(6, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = SCHEDULES[name](optimizer)

    def train_step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if name == "ReduceLROnPlateau":
            scheduler.step(loss)
        else:
            scheduler.step()
        return loss

    batches = [DRAW.normal(size=(3, k)).astype(np.float32) for k in (6, 4)]
    given = [hy.asarray(batch) for batch in batches]
    hy.export({"step": (train_step, *given)}, tmp_path / "m")
    c, loaded = CProgram(tmp_path / "m"), hy.load_exported(tmp_path / "m")
    for _ in range(12):
        [native], again = c("step", *batches), loaded["step"](*given)
        expected = train_step(*given)
        assert native.tobytes() == again.numpy().tobytes() == expected.numpy().tobytes()
    rate = np.asarray(optimizer.param_groups[0].lr)
    rates = [key for key in loaded.state if key.endswith("lr")]
    assert [c.state()[key].tobytes() for key in rates] == [rate.tobytes()], rates


def test_a_cycle_that_is_over(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=3)
    hy.export({"step": (lambda x: scheduler.step(), hy.ones(2))}, tmp_path / "m")
    program = CProgram(tmp_path / "m")
    for _ in range(3):
        program("step", np.ones(2, np.float32))
    with pytest.raises(ProgramFailure, match=r"^step: ArgumentError: step 4 of a cycle of 3"):
        program("step", np.ones(2, np.float32))
