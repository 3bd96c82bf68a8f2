"""State of optimizers as plain dicts, and back: all of it is checked, then all of it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.conversion import asarray
from hybrid.errors import ArgumentError
from hybrid.optim.group import Group
from hybrid.tensor import Tensor


def describe_group(group: Group) -> dict[str, Any]:
    """The settings and the count of steps."""
    settings = {name: getattr(group, name) for name in group.settings}
    return {"lr": group.lr, **settings, "step": group.cells.step.detach()}


def load_groups(label: str, groups: Sequence[Group], state: Mapping[str, Any]) -> None:
    """Write ``state`` into ``groups``, which belong to an optimizer called ``label``."""
    problems: list[str] = []
    writes: list[tuple[Tensor, Tensor]] = []
    if not isinstance(state, Mapping) or not {"state", "param_groups"} <= set(state):
        problems.append('it has no "state" and "param_groups"')
    elif len(state["param_groups"]) != len(groups):
        problems.append(f"it has {len(state['param_groups'])} groups, not {len(groups)}")
    else:
        for number, (group, given) in enumerate(zip(groups, state["param_groups"], strict=True)):
            found = _check_group(group, given, state["state"], writes)
            problems += [f"group {number}: {problem}" for problem in found]
    if problems:
        raise ArgumentError(
            "\n  ".join([f"the state does not fit this {label}; nothing was loaded", *problems]),
            fix="load what state_dict() gave of the same optimizer over the same parameters",
        )
    for group, given in zip(groups, state["param_groups"], strict=True):
        group.lr = given["lr"]
        for name in group.settings:
            if getattr(group, name) != given[name]:
                setattr(group, name, given[name])
    for cell, value in writes:
        cell.assign(value)


def _check_group(
    group: Group,
    given: Mapping[str, Any],
    state: Mapping[int, Mapping[str, Any]],
    writes: list[tuple[Tensor, Tensor]],
) -> list[str]:
    """What is wrong with a group's part of a state; adds to ``writes`` what is right."""
    known = ["lr", *group.settings, "step", "params"]
    missing = [name for name in known if name not in given]
    unknown = [name for name in given if name not in known]
    problems = [f"{name} is missing" for name in missing] + [f"unknown {n}" for n in unknown]
    if problems:
        return problems
    if len(given["params"]) != len(group.params):
        return [f"it has {len(given['params'])} parameters, not {len(group.params)}"]
    problems += _check_settings(group, given)
    expected = [("step", group.cells.step, given["step"])]
    for key, moments in zip(given["params"], group.moments, strict=True):
        values = state.get(key, {})
        for name, cell in zip(group.moment_names, moments, strict=True):
            expected.append((f"{name} of parameter {key}", cell, values.get(name)))
    for name, cell, value in expected:
        value = asarray(value, copy=True) if isinstance(value, (Tensor, np.ndarray)) else value
        if not isinstance(value, Tensor):
            problems.append(f"{name} is missing")
        elif value.type is not cell.type:
            problems.append(f"{name} is {value.type}, not {cell.type}")
        else:
            writes.append((cell, value))
    return problems


def _check_settings(group: Group, given: Mapping[str, Any]) -> list[str]:
    settings = {name: given[name] for name in ("lr", *group.settings)}
    try:
        names = group.layout(settings)
    except (ArgumentError, TypeError) as error:
        return [str(error).splitlines()[0]]
    if names != group.moment_names:
        return [f"its settings keep the moments {list(names)}, not {list(group.moment_names)}"]
    return []
