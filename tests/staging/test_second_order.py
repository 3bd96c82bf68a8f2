"""Second derivatives, taken eagerly, over the hybridized programs of the other tests."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, copied, describe, tensors_in, watched

TESTS = Path(__file__).resolve().parents[1]


def programs() -> list[Any]:
    """The programs of all tables that are made of tensors and called for gradients."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        if path == Path(__file__) or "Table(" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        table = getattr(importlib.import_module(name), "table", None)
        if isinstance(table, Table):
            found += [
                pytest.param(program, id=f"{path.stem}.{program.name}")
                for program in table.programs
                if program.options.get("grad", True) and not program.options.get("make")
            ]
    return found


def is_variable(value: Any) -> bool:
    return isinstance(value, hy.Tensor) and value.dtype.is_floating


def twice(function: Any, call: Any) -> Any:
    """The gradients of the squared norms of the gradients of all that ``function`` returns."""
    args = copied(call if isinstance(call, tuple) else (call,))
    variables = tuple([i for i, value in enumerate(args) if is_variable(value)])

    def loss(*args: Any) -> hy.Tensor:
        total = hy.zeros((), dtype=hy.float64)
        for i, t in enumerate(tensors_in(function(*args))):
            if t.dtype.is_floating:
                weights = np.random.default_rng(i).standard_normal(t.shape)
                total = total + hy.sum(t * hy.asarray(weights, dtype=t.dtype))
        return total

    def norm(*args: Any) -> hy.Tensor:
        total = hy.zeros((), dtype=hy.float64)
        for gradient in hy.grad(loss, variables)(*args):
            total = total + hy.sum(gradient * gradient)
        return total

    return [describe(g) for g in hy.grad(norm, variables)(*args)] if variables else None


PROGRAMS = programs()


def check(program: Program, calls: Sequence[Any]) -> None:
    hybridized = hy.hybridize(program.function)
    for call in calls:
        with watched([]):
            try:
                expected = twice(program.function, call)
            except Exception:
                continue  # which first derivatives, and the errors of eager code, are tested for
            try:
                found = twice(hybridized, call)
            except CaptureError as error:
                own = "reaches a value computed outside it" in error.what  # its own backward()
                if own or program.options.get("may_refuse"):
                    continue
                raise
        assert found == expected


@pytest.mark.parametrize("number", range(0, len(PROGRAMS), 3), ids=lambda n: PROGRAMS[n].id)
def test_second_order(number: int) -> None:
    """Of every third program, the first of its calls or the second, by turns."""
    (program,) = PROGRAMS[number].values
    check(program, program.calls[:2][number % 2 :][:1] or program.calls[:1])


@pytest.mark.nightly
def test_second_order_of_two_calls() -> None:
    """Of every program."""
    for case in PROGRAMS:
        check(*case.values, case.values[0].calls[:2])
