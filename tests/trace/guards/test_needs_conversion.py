"""Straight functions: which are, and that their captures are those of converted ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.calls import hybridized
from hybrid.nn import functional
from hybrid.trace.guards.needs_conversion import is_straight

SCALE = 1.5
WEIGHT = hy.asarray([[0.5, -1.0], [2.0, 0.25]])
X = hy.asarray([[1.0, -2.0], [0.5, 3.0]])


def helper(x):
    return x if x[0, 0] > 0 else -x


def sums(x, y):
    total = hy.sum(x * y, axis=-1, keepdims=True)
    return x - total, hy.max(y)


def softmax(x, *, scale=2.0):
    e = hy.exp(x * SCALE - hy.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) * scale


def products(x):
    return functional.relu((x @ WEIGHT).T) + x[:1, ::2] + (x > 0) - ~(x < 1)


def draws(x):
    return x + hy.random.normal(0.0, 1.0, x.shape)


STRAIGHT = {"sums": (sums, (X, X)), "softmax": (softmax, (X,)), "products": (products, (X,)),
            "draws": (draws, (X,))}  # fmt: skip


def branches(x):
    return helper(x) if x[0, 0] > 0 else x


def calls_what_the_author_wrote(x):
    return helper(x)


def hands_on_what_the_author_wrote(x):
    return hy.cond(x[0, 0] > 0, helper, helper, x)


def writes(x):
    x += 1
    return x


def fills(x):
    y = x * 2
    y.fill_(1.0)
    return y


def chained(x):
    return 0 < x[0, 0] < 2


def loops(x):
    return [row * 2 for row in x]


def inner(x):
    return (lambda y: y * 2)(x)


def gives_a_number(x):
    return x[0, 0].item()


def calls_python(x):
    return len(x) + x


def enclosed():
    def function(x):
        return x * SCALE + offset

    offset = 2
    return function


class Own(nn.Module):
    def forward(self, x):
        return helper(x)


def with_hook():
    made = nn.Linear(2, 2)
    made.register_forward_hook(lambda module, args, result: result * 2)
    return made


def with_own_forward():
    made = nn.Linear(2, 2)
    made.forward = helper
    return made


MODULES = {
    "linear": lambda: nn.Linear(2, 2),
    "several": lambda: nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Dropout(), nn.Tanh()),
    "hybridized": lambda: nn.Sequential(nn.Linear(2, 2).hybridize(), nn.Linear(2, 2)),
    "recurrent": lambda: nn.GRU(2, 3, batch_first=True),
}
NEWER = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="functions of Python 3.10 are converted all the same"
)
NOT_OURS = {
    "own class": Own,
    "own class within": lambda: nn.Sequential(nn.Linear(2, 2), Own()),
    "hook": with_hook,
    "own forward": with_own_forward,
    "own activation": lambda: nn.TransformerEncoderLayer(2, 1, 4, activation=lambda x: x),
}


@NEWER
@pytest.mark.parametrize("name", STRAIGHT)
def test_straight(name: str) -> None:
    function, args = STRAIGHT[name]
    assert is_straight(function, args, {})
    assert not is_straight(function, (*args[1:], 2), {})
    assert not is_straight(function, args, {"more": [X]})


@pytest.mark.parametrize(
    "function",
    [branches, calls_what_the_author_wrote, hands_on_what_the_author_wrote, writes, fills, chained,
     loops, inner, gives_a_number, calls_python, enclosed(), hy.grad(helper), hy.hybridize(sums),
     helper.__get__(X), len],
)  # fmt: skip
def test_not_straight(function) -> None:
    assert not is_straight(function, (X,), {})


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_ours(name: str) -> None:
    assert is_straight(MODULES[name]()._call_forward, (X,), {})


@pytest.mark.parametrize("name", NOT_OURS)
def test_modules_with_code_of_the_author(name: str) -> None:
    assert not is_straight(NOT_OURS[name]()._call_forward, (X,), {})


def test_a_method_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    made = nn.Linear(2, 2)
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: helper(x))
    assert not is_straight(made._call_forward, (X,), {})


@pytest.mark.parametrize("name", [*STRAIGHT, *MODULES])
def test_the_graph_is_that_of_a_converted_function(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hy.random.seed(0)
    function, args = STRAIGHT.get(name) or (MODULES[name]()._call_forward, (X[None],))
    found = hy.hybridize(function).graph(*args)
    monkeypatch.setattr(hybridized, "is_straight", lambda *_: False)
    assert str(found) == str(hy.hybridize(function).graph(*args))


@NEWER
def test_no_converter_is_imported(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport hybrid as hy\n"
        "function = hy.hybridize(lambda x: hy.exp(x) * 2)\n"
        "network = hy.hybridize(hy.nn.Sequential(hy.nn.Linear(2, 3), hy.nn.ReLU()))\n"
        "function(hy.ones(3)), network(hy.ones((1, 2)))\n"
        "print([name for name in sys.modules if name.startswith('hybrid.convert')])\n"
    )
    found = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert (found.returncode, found.stdout.strip()) == (0, "[]"), found.stderr
