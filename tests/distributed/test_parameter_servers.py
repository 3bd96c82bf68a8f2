"""Parameter servers: data_parallel without staleness, bounded by clocks with it, and no hangs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.errors import ArgumentError, ArgumentTypeError, HybridError
from tests.distributed.ranks import launched, require_well

nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    "ranks", [2, pytest.param(3, marks=nightly), pytest.param(4, marks=nightly)]
)
def test_servers(ranks: int, tmp_path: Path) -> None:
    require_well(ranks, "served.py", str(tmp_path))


@nightly
def test_one_process_is_its_own_server(tmp_path: Path) -> None:
    require_well(1, "served.py", str(tmp_path))


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("kill", "RankFailedError rank 1 has failed: it was killed by signal 9 (SIGKILL)"),
        ("hang", "RankTimeoutError a step of a parameter server waited 2.0 s for rank 1"),
        pytest.param("leaves", "RankFailedError rank 1 has ended, and was waited", marks=nightly),
        pytest.param("waits", "RankFailedError rank 1 has ended, and was waited", marks=nightly),
    ],
)
def test_the_end_of_one_rank(how: str, error: str) -> None:
    done = launched(3, "served_endings.py", how)
    assert done.returncode == 1
    for rank in (0, 2):
        assert f"{rank}: {error}" in done.stdout
    assert done.stdout.count("served_endings.py:") == 2
    # The first step of rank 1 is there, and perhaps what it serves after it.
    steps = "1" if how == "waits" else "[23]"
    assert len(re.findall(f"; {steps} steps, True", done.stdout)) == 2


def _sgd(model: nn.Module) -> Any:
    return hy.optim.SGD(model.parameters(), lr=0.1)


def _frozen() -> nn.Module:
    model = nn.Linear(3, 2)
    model.requires_grad_(False)
    return model


WRONG = [
    (lambda m: dist.parameter_server(_sgd(m), _sgd(m), 0), ArgumentTypeError, "give an nn.Module"),
    (lambda m: dist.parameter_server(m, m, 0), ArgumentTypeError, "give one of hy.optim"),
    (lambda m: dist.parameter_server(m, _sgd(m), -1), ArgumentError, "staleness is -1"),
    (lambda m: dist.parameter_server(m, _sgd(m), 1.0), ArgumentTypeError, "staleness is 1.0"),
    (lambda m: dist.parameter_server(m, _sgd(m), True), ArgumentTypeError, "staleness is True"),
    (lambda m: dist.parameter_server(nn.GELU(), _sgd(m), 0), ArgumentError, "nothing to serve"),
    (lambda m: dist.parameter_server(_frozen(), _sgd(m), 0), ArgumentError, "nothing to serve"),
    (
        lambda m: dist.parameter_server(nn.Linear(2, 2), _sgd(m), 0),
        ArgumentError,
        "model.parameters()",
    ),
    (
        lambda m: dist.parameter_server(m, hy.optim.LBFGS(m.parameters()), 0),
        ArgumentError,
        "use another optimizer",
    ),
    (
        lambda m: dist.parameter_server(m, _sgd(m), 0, mesh=dist.mesh((1,), ("tp",)), axis="dp"),
        ArgumentError,
        "no axis 'dp'",
    ),
]


@pytest.mark.parametrize(("call", "kind", "said"), WRONG, ids=range(len(WRONG)))
def test_wrong_arguments(call: Any, kind: type[HybridError], said: str) -> None:
    with pytest.raises(kind) as caught:
        call(nn.Linear(3, 2))
    assert said in str(caught.value) and "\nFix: " in str(caught.value)
