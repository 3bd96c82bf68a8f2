"""Programs that are run eagerly and hybridized, and tell what anybody could see of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hybrid as hy
from tests.staging.harness import describe

Hybridize = Callable[[Any], Any]
Program = Callable[[Hybridize], list[Any]]


def t(value: Any) -> hy.Tensor:
    return hy.asarray(value, dtype=hy.float32)


def require_same(program: Program) -> None:
    """Run ``program`` eagerly, then hybridized, and compare what it has observed."""
    eager = _seen(program(lambda function: function))
    assert _seen(program(lambda function: hy.hybridize(function, ledger=False))) == eager


def hybridized(program: Program) -> list[Any]:
    return program(lambda function: hy.hybridize(function, ledger=False))


def _seen(observed: list[Any]) -> list[Any]:
    return [describe(each) for each in observed]


def seen(value: Any) -> Any:
    """What ``value`` holds now."""
    own = getattr(value, "__dict__", None)
    return describe(value), None if own is None else describe(dict(own))
