"""Tracebacks of errors that reach the author have few frames of the package, and none in between.

``HYBRID_TRACEBACK=full`` keeps them all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.core.package import FOLDER
from hybrid.errors import shorten
from hybrid.nn import functional as F

MOST = 3  # frames of the package behind the author's last one


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return hy.relu(self.fc(x))


class Bad(nn.Module):
    def forward(self, x: Any) -> Any:
        return {}["missing"]


class Rows(hy.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> Any:
        return [1.0][at]


def deep(inner: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity(), inner))


def hooked(module: nn.Module) -> nn.Module:
    module.register_forward_hook(lambda *given: None)
    return deep(module)


def stepped(x: Any) -> None:
    weight = nn.Parameter(x)
    weight.grad = hy.ones(3)
    hy.optim.SGD([weight], lr=0.1).step()


def added(x: Any, v: Any) -> None:
    x += v


def written(x: Any, v: Any) -> None:
    x[0] = v


def two_losses(x: Any, v: Any) -> Any:
    return hy.while_loop(lambda t: hy.sum(t) > 0, lambda t: t @ v, (x,))


MISTAKES: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda x, v: x + v,
    "matmul": lambda x, v: x @ v,
    "in place": added,
    "method": lambda x, v: x.reshape(3, 5),
    "axis": lambda x, v: x.sum(axis=7),
    "no tensor": lambda x, v: hy.sum("a"),
    "index": lambda x, v: x[9],
    "indices": lambda x, v: x[0, 0, 0],
    "write": written,
    "concat": lambda x, v: hy.concat([x, v]),
    "stack": lambda x, v: hy.stack([x, v]),
    "ragged": lambda x, v: hy.asarray([[1], [1, 2]]),
    "truth": lambda x, v: bool(x),
    "item": lambda x, v: x.item(),
    "backward": lambda x, v: x.backward(),
    "grad": lambda x, v: hy.grad(lambda t: t * 2)(x),
    "inside grad": lambda x, v: hy.grad(lambda t: (t @ v).sum())(x),
    "value and grad": lambda x, v: hy.value_and_grad(lambda t: (t @ v).sum())(x),
    "vmap": lambda x, v: hy.vmap(lambda t: t @ v)(x),
    "jvp": lambda x, v: hy.jvp(lambda t: t @ v, (x,), (x,)),
    "vjp": lambda x, v: hy.vjp(lambda t: t @ v, x),
    "jacobian": lambda x, v: hy.jacobian(lambda t: t @ v)(x),
    "functional": lambda x, v: F.conv2d(x, x),
    "loss": lambda x, v: F.cross_entropy(x, v),
    "layer": lambda x, v: nn.Linear(3, 2)(x),
    "settings": lambda x, v: nn.Linear(-1, 2),
    "deep": lambda x, v: deep(Block())(x),
    "hooks": lambda x, v: hooked(Block())(x),
    "hybridized": lambda x, v: hy.hybridize(lambda t: t @ v)(x),
    "hybridized module": lambda x, v: deep(Block()).hybridize()(x),
    "hybridized model": lambda x, v: hy.hybridize(deep(Block()).forward)(x),
    "of the author": lambda x, v: deep(Bad())(x),
    "of the author, hybridized": lambda x, v: hy.hybridize(lambda t: {}["a"])(x),
    "graph": lambda x, v: hy.hybridize(lambda t: t @ v).graph(x),
    "explain": lambda x, v: hy.hybridize(lambda t: t @ v).explain(x),
    "stream": lambda x, v: hy.hybridize(lambda t: t @ v).submit(x),
    "export": lambda x, v: hy.export(lambda t: t @ v, os.devnull, x),
    "onnx": lambda x, v: hy.onnx.export(lambda t: t @ v, os.devnull, x),
    "while_loop": two_losses,
    "state": lambda x, v: nn.Linear(2, 2).load_state_dict({"a": x}),
    "optimizer": lambda x, v: stepped(x),
    "loader": lambda x, v: list(hy.data.DataLoader(Rows(), batch_size=2)),
    "einsum": lambda x, v: hy.einsum("ij,k->q", x, x),
    "solve": lambda x, v: hy.linalg.solve(x, v),
    "kernel": lambda x, v: hy.linalg.cholesky(-x),
    "kernel's index": lambda x, v: hy.take(x, hy.asarray([9]), axis=0),
    "assign": lambda x, v: x.assign(v),
}


def own(error: BaseException) -> Iterator[bool]:
    """Whether the frames of a traceback are those of the package, from the outside in."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename.startswith(FOLDER + os.sep)


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("name", MISTAKES)
def test_few_frames_of_the_package(name: str) -> None:
    x, v = hy.ones((4, 4)), hy.ones(3)
    for _ in range(2):  # what is known by then raises elsewhere
        kinds = "".join(["-" if it else "a" for it in own(raised(lambda: MISTAKES[name](x, v)))])
        between, _, behind = kinds.rpartition("a")
        assert len(behind) <= MOST, kinds
        assert all([len(run) <= MOST for run in between.split("a")]), kinds


SCRIPT = """
import hybrid as hy
from hybrid import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
    def forward(self, x):
        return hy.relu(self.fc(x))

net = nn.Sequential(nn.Identity(), Block())
@hy.hybridize
def loss(x):
    return net(x).sum()
loss(hy.ones((4, 4)))
"""


def printed(tmp_path: Path, **environment: str) -> list[str]:
    """What Python prints of a script that fails, without the lines of the source."""
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False,
        env={**os.environ, **environment}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    return [line for line in done.stderr.split("\n") if not line.startswith("    ")]


def test_what_is_printed(tmp_path: Path) -> None:
    lines = printed(tmp_path, HYBRID_TRACEBACK="")
    path = tmp_path / "train.py"
    frames = [line for line in lines if line.startswith("  File ")]
    assert [line.split(", in ")[-1] for line in frames] == [
        "<module>", "__call__", "loss", "forward",
    ]  # fmt: skip
    assert [f'"{path}"' in line for line in frames] == [True, False, True, True]
    assert "In 1.fc: Linear(in_features=3, out_features=2, bias=True) got f32[4,4]; " in lines[-3]


def test_all_frames_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(tmp_path, HYBRID_TRACEBACK="full")
    assert len([line for line in lines if line.startswith("  File ")]) > 30
    monkeypatch.setenv("HYBRID_TRACEBACK", "full")
    assert sum(own(raised(lambda: hy.ones((4, 4)) + hy.ones(3)))) > MOST


def test_mistakes_of_the_package_itself_keep_their_last_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> Any:
        raise AssertionError("a mistake of the package")

    def around(*given: Any) -> Any:
        return broken(*given)

    for function in (broken, around):
        code = function.__code__.replace(co_filename=os.path.join(FOLDER, "made.py"))
        monkeypatch.setattr(function, "__code__", code)
    monkeypatch.setattr("hybrid.nn.functional.relu", around)
    error = raised(lambda: hy.hybridize(lambda x: F.relu(x))(hy.ones(3)))
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert names[-2:] == ["around", "broken"]


def test_frames_of_others_stay() -> None:
    def twice(x: Any) -> Any:
        return np.apply_along_axis(lambda row: (hy.asarray(row) @ hy.ones(7)).numpy(), 0, x)

    error = raised(lambda: twice(np.ones((4, 4), np.float32)))
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert any(["numpy" in file for file in files])


def test_causes_are_shortened_too() -> None:
    def outer() -> None:
        try:
            deep(Block())(hy.ones((4, 4)))
        except ValueError as error:
            raise KeyError("mine") from error

    error = raised(outer)
    assert error.__cause__ is not None and sum(own(error.__cause__)) <= 1
    shorten(error)
    assert list(own(error.__cause__)) == [False, False]  # the author's line, and the forward


def test_an_error_that_is_its_own_cause_ends() -> None:
    error = raised(lambda: hy.ones((4, 4)) + hy.ones(3))
    other = KeyError("mine")
    error.__context__, other.__context__ = other, error
    shorten(error)
