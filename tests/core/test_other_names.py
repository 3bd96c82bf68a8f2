"""Names that people know from NumPy, PyTorch and others: the message says the line to write."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import hybrid as hy
from hybrid.core import other_names

OWNERS: dict[str, tuple[Any, dict[str, str]]] = {
    "module 'hybrid'": (hy, other_names.PACKAGE),
    "module 'hybrid.nn'": (hy.nn, other_names.NN),
    "module 'hybrid.nn.functional'": (hy.nn.functional, other_names.FUNCTIONAL),
    "module 'hybrid.optim'": (hy.optim, other_names.OPTIM),
    "module 'hybrid.random'": (hy.random, other_names.RANDOM),
    "'Tensor' object": (hy.ones((2, 2)), other_names.TENSOR),
    "'Linear' object": (hy.nn.Linear(2, 2), other_names.MODULE),
}
ALL = [(owner, name) for owner, (_, table) in OWNERS.items() for name in table]
# What needs more than a line to stand in: a loop, a file, other ranks, a class around it.
NOT_RUN = ("with hy.no_grad", "distributed", "hy.train", "hy.save", "load_state_dict", "self.")


@pytest.mark.parametrize(("owner", "name"), ALL)
def test_the_message_says_the_line(owner: str, name: str) -> None:
    holder, table = OWNERS[owner]
    assert not hasattr(holder, name)
    with pytest.raises(AttributeError) as caught:
        getattr(holder, name)
    line = table[name]
    advice = line if line.startswith("leave it out") else f"write `{line}`"
    assert str(caught.value) == f"{owner} has no attribute {name!r}\nFix: {advice}."


LINES = {line for _, table in OWNERS.values() for line in table.values()}


@pytest.mark.parametrize("line", sorted(LINES))
def test_the_line_runs(line: str, tmp_path: Any) -> None:
    if line.startswith("leave it out") or any(part in line for part in NOT_RUN):
        return
    a, b = hy.ones((2, 2, 2)), hy.ones((2, 2, 2))
    x = hy.eye(2) if "permute_dims" in line or ".linalg." in line else a
    x = hy.ones(1) if "item" in line else x
    model = hy.nn.Linear(2, 2)
    space = {
        "hy": hy, "nn": hy.nn, "x": x, "a": a, "b": b, "values": [1.0], "model": model,
        "parameters": model.parameters(), "f": hy.sum, "dataset": [1, 2],
        "scores": hy.ones((2, 3)), "labels": hy.asarray([0, 1]), "F": hy.nn.functional,
        "targets": hy.ones((2, 3)), "probabilities": hy.ones((2, 3)), "w": hy.ones((2, 2)),
    }  # fmt: skip
    if "cross" in line and "linalg" in line:
        space |= {"a": hy.ones(3), "b": hy.ones(3)}
    if "conv2d" in line:
        space |= {"x": hy.ones((1, 2, 3, 3)), "w": hy.ones((4, 2, 3, 3))}
    if "~x" in line:
        space["x"] = hy.ones(2) > 0
    exec(line.replace('"model.hyb"', repr(str(tmp_path / "model.hyb"))), space)


def test_other_names_that_are_missing_have_what_python_suggests() -> None:
    for holder, name in ((hy, "concatt"), (hy.nn, "Linaer"), (hy.nn.Linear(2, 2), "wieght")):
        with pytest.raises(AttributeError) as caught:
            getattr(holder, name)
        assert (caught.value.name, caught.value.obj) == (name, holder)


def test_they_are_not_among_the_attributes() -> None:
    x = hy.ones((2, 2))
    assert not set(other_names.TENSOR) & {name for name in dir(x) if hasattr(x, name)}
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


def test_in_a_captured_function() -> None:
    @hy.hybridize
    def f(x: Any) -> Any:
        return x.cuda() * 2

    with pytest.raises(AttributeError, match="Fix: leave it out: tensors are in the memory"):
        f(hy.ones(2))
