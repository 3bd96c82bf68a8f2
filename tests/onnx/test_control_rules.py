"""Branches and loops of captured functions as If, Loop and Scan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from tests.onnx.exported import assert_exported

RANDOM = np.random.default_rng(5)
X = hy.asarray(RANDOM.random((6, 3), np.float32))


def branch(x):
    return x * 2 if x.sum() > 5 else x - 1


def branches_that_give_what_they_got(x, y):
    if x.sum() > 5:
        return x, y
    return y, x


def while_tensor(x):
    count = hy.asarray(0)
    while x.sum() < 100:
        x = x * 2
        count = count + 1
    return x, count


def rows(x):
    state = hy.zeros(3)
    for row in x:
        state = hy.tanh(state + row)
    return state


def stacked(x):
    state, found = hy.zeros(3), []
    for row in x:
        state = state * 0.5 + row
        found.append(state)
    return hy.stack(found), state


def stacked_by_index(x):
    found = []
    for i in range(6):
        found.append(x[i] * i)
    return hy.stack(found)


def backwards(x):
    state, found = hy.zeros(3), []
    for i in reversed(range(6)):
        state = state * 0.5 + x[i] * i
        found.append(state)
    return hy.stack(found), state


def backwards_rows(x):
    state = hy.zeros(3)
    for row in hy.flip(x, axis=0):
        state = state * 0.5 + row
    return state


def ends_early(x):
    state = hy.zeros(3)
    for row in x:
        if state.sum() > 3:
            break
        state = state + row
    return state


def returns_early(x):
    for row in x:
        if row[0] > 0.9:
            return row
    return x[0] * 0


def nested(x):
    for row in x:
        if row.sum() > 1:
            for k in range(3):
                x = x + row * k
                if x.sum() > 40:
                    break
        else:
            x = x - row
    return x


def as_often_as_it_says(x, n):
    for i in range(n):
        x = x * 1.5 + i
    return x


def scanned(x):
    return hy.scan(lambda carry, row: (carry + row, carry * row), hy.zeros(3), x)


def gradient_of_a_loop(x):
    def loss(w):
        for row in x:
            w = hy.tanh(w * row)
        return w.sum()

    return hy.grad(loss)(hy.ones(3))


def gradient_of_a_branch(x):
    return hy.grad(lambda x: hy.sum(x**2 if x.sum() > 5 else x**3))(x)


CASES = [
    (branch, [X], [[X * 0]], {"If"}),
    (branches_that_give_what_they_got, [X, X + 1], [[X * 0, X]], {"If"}),
    (while_tensor, [X], [[X * 100]], {"Loop"}),
    (rows, [X], [], {"Scan"}),
    (stacked, [X], [], {"Scan"}),
    (stacked_by_index, [X], [], {"Loop"}),
    (backwards, [X], [], {"Loop"}),
    (backwards_rows, [X], [], {"Scan"}),
    (ends_early, [X], [[X * 9]], {"Loop"}),
    (returns_early, [X], [[X * 0], [X + 1]], {"Loop", "If"}),
    (nested, [X], [[X * 3]], {"Scan"}),
    (as_often_as_it_says, [X, hy.asarray(4)], [[X, hy.asarray(0)], [X, hy.asarray(-2)]], {"Loop"}),
    (scanned, [X], [], {"Scan"}),
    (gradient_of_a_loop, [X], [], {"Scan"}),
    (gradient_of_a_branch, [X], [[X * 0]], {"If"}),
]


def control_ops(graph: Any) -> Iterator[str]:
    return (node.op_type for node in graph.node if node.op_type in ("If", "Loop", "Scan"))


@pytest.mark.parametrize(
    ("function", "args", "others", "ops"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_control_flow(function: Any, args: Any, others: Any, ops: set, tmp_path: Path) -> None:
    made = assert_exported(function, args, tmp_path / "m.onnx", others)
    assert set(control_ops(made.graph)) == ops


@pytest.mark.parametrize("opset", [17, 19, 21, 23])
def test_control_flow_in_all_opsets(opset: int, tmp_path: Path) -> None:
    assert_exported(nested, [X], tmp_path / "m.onnx", opset=opset)
    assert_exported(while_tensor, [X], tmp_path / "n.onnx", opset=opset)


def test_branches_on_one_test_stay_apart(tmp_path: Path) -> None:
    def function(x):
        found = [x * n if x.sum() > 5 else x - n for n in range(2, 30)]
        return hy.stack(found)

    made = assert_exported(function, [X], tmp_path / "m.onnx", [[X * 0]])
    assert list(control_ops(made.graph)).count("If") == 28


def test_rows_of_iterations_that_there_were_not_are_zeros(tmp_path: Path) -> None:
    """A loop that may end early stacks as many rows as it may have."""

    def function(x, n):
        _, found = hy.scan(lambda carry, row: (carry + row, carry), hy.zeros(3), x)
        return found[n]

    assert_exported(function, [X, hy.asarray(2)], tmp_path / "m.onnx", [[X, hy.asarray(5)]])


def test_numbers_that_a_run_knows(tmp_path: Path) -> None:
    def function(x):
        n = int(x.sum())
        while n % 7:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
        return n, x * n

    with pytest.warns(UserWarning) as caught:
        assert_exported(function, [X], tmp_path / "m.onnx", [[X * 3]])
    lines = str(caught[0].message).splitlines()
    assert lines[0] == "function was exported without what ONNX does not do:"
    pattern = re.escape(f"  the check of a number ({__file__}:") + r"\d+\)"
    assert len(lines) > 1 and all(re.fullmatch(pattern, line) for line in lines[1:])


def test_checkpoints_and_gradients_of_the_authors_own_are_written_out(tmp_path: Path) -> None:
    @hy.custom_vjp
    def double(x):
        return x * 2

    double.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 3,))
    made = assert_exported(lambda x: double(x) + 1, [X], tmp_path / "m.onnx")
    assert {node.op_type for node in made.graph.node} == {"Mul", "Add"}
    assert_exported(hy.grad(lambda x: double(x).sum()), [X], tmp_path / "g.onnx")
    assert_exported(hy.grad(lambda x: hy.checkpoint(hy.sin)(x).sum()), [X], tmp_path / "c.onnx")
