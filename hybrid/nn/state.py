"""Loading a state dict: all of it is checked, then all of it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hybrid.conversion import asarray
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.tensor import Tensor


class LoadResult(NamedTuple):
    """Keys that the state lacked, and keys that it had without need."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load(
    label: str, cells: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool
) -> LoadResult:
    """Write ``state`` into ``cells``, which belong to a module called ``label``."""
    if not isinstance(state, Mapping):
        raise ArgumentTypeError(f"a state dict is a mapping, not a {type(state).__name__}")
    result = LoadResult(
        [name for name in cells if name not in state],
        [name for name in state if name not in cells],
    )
    values = {name: as_value(state[name]) for name in cells if name in state}
    problems = []
    if strict:
        problems += [f"  missing: {name} ({cells[name].type})" for name in result.missing_keys]
        problems += [f"  unexpected: {name}" for name in result.unexpected_keys]
    problems += [p for name, v in values.items() if (p := problem(name, cells[name], v))]
    if problems:
        raise ArgumentError(
            "\n".join([f"the state does not fit {label}; nothing was loaded", *problems]),
            fix="load what state_dict() of the same model gave"
            + (", or pass strict=False to leave keys out" if any(result) and strict else ""),
        )
    for name, value in values.items():
        cells[name].assign(value)
    return result


def as_value(given: Any) -> Any:
    """A tensor to assign; arrays are copied, so that later writes to them stay theirs."""
    if isinstance(given, Tensor):
        return given.detach()
    return asarray(given, copy=True) if isinstance(given, np.ndarray) else given


def problem(name: str, cell: Tensor, value: Any) -> str | None:
    """Why ``value`` cannot be written to ``cell``, if so."""
    if not isinstance(value, Tensor):
        return f"  wrong type: {name} is {type(value).__name__}, not a tensor"
    if value.type is not cell.type:
        return f"  wrong type: {name} is {value.type}, not {cell.type}"
    return None
