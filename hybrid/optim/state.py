"""State of optimizers as plain dicts, and back: all of it is checked, then all of it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn.modules.parameter import in_dtype
from hybrid.optim.group import NOTES, Group
from hybrid.optim.rule import FLAGS, check_settings

# What PyTorch's groups say about how a step is computed, and what is computed all the same.
FOREIGN = ("foreach", "capturable", "differentiable", "fused", "param_names")


def describe_group(group: Group) -> dict[str, Any]:
    """The settings."""
    return {name: value for name, value in group.items() if name != "params"}


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
        for name in ("lr", *group.settings, *NOTES):
            if name in given and (name not in group or group[name] != given[name]):
                value = given[name]
                group[name] = tuple(value) if isinstance(value, list) else value
    for cell, value in writes:
        cell.assign(value)


def _check_group(
    group: Group,
    given: Mapping[str, Any],
    state: Mapping[int, Mapping[str, Any]],
    writes: list[tuple[Tensor, Tensor]],
) -> list[str]:
    """What is wrong with a group's part of a state; adds to ``writes`` what is right."""
    known = ["lr", *group.settings, "params"]
    extra = (*known, *NOTES, *FOREIGN, *FLAGS)
    problems = [f"{name} is missing" for name in known if name not in (*given, *FLAGS)]
    problems += [f"unknown {name}" for name in given if name not in extra]
    problems += [  # a flag that is set and that this optimizer has not got
        f"unknown {name}" for name in FLAGS if given.get(name) and name not in known
        and not (name == "decoupled_weight_decay" and dict(group.rule.attrs).get("decoupled"))
    ]  # fmt: skip
    if problems:
        return problems
    if len(given["params"]) != len(group.params):
        return [f"it has {len(given['params'])} parameters, not {len(group.params)}"]
    problems += _check_settings(group, given)
    rule = group.rule
    for key, kept in zip(given["params"], group.states, strict=True):
        values = _completed(group, state.get(key, {}))
        cells = (*kept.moments, *kept.counts)
        for name, cell in zip((*rule.moments, *rule.counts), cells, strict=True):
            problem = _check_value(cell, values.get(name), name in rule.counts, writes)
            if problem:
                problems.append(f"{name} of parameter {key} {problem}")
    return problems


def _completed(group: Group, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """``values`` with what PyTorch leaves out: all before the first step, the step of SGD."""
    rule = group.rule
    names = (*rule.moments, *rule.counts)
    absent = [name for name in names if values.get(name) is None]
    if absent == list(names):
        starts = dict(rule.starts)
        return {name: starts.get(name, 0.0) for name in names}
    return {"step": 1.0} | dict(values) if rule.name == "sgd_dampened" else values


def _check_value(
    cell: Tensor, value: Any, counts: bool, writes: list[tuple[Tensor, Tensor]]
) -> str:
    """What is wrong with ``value`` for ``cell``, or nothing and it is added to ``writes``."""
    if isinstance(value, float) or (counts and isinstance(value, int)):
        value = ops.full(cell.shape, float(value), dtype=cell.dtype)
    elif isinstance(value, (Tensor, np.ndarray, np.generic)) or hasattr(value, "__dlpack__"):
        try:
            value = asarray(value, copy=True)
        except ArgumentTypeError:
            return f"is a {type(value).__name__}"
    if not isinstance(value, Tensor):
        return "is missing" if value is None else f"is a {type(value).__name__}"
    if value.shape != cell.shape or not (value.dtype.is_floating or counts):
        return f"is {value.type}, not {cell.type}"
    writes.append((cell, in_dtype(value, cell.dtype)))
    return ""


def _check_settings(group: Group, given: Mapping[str, Any]) -> list[str]:
    settings = {name: given[name] for name in ("lr", *group.settings) if name in given}
    try:
        check_settings(settings)
        rule = group.rule_of({name: group[name] for name in group.settings} | settings)
    except (ArgumentError, TypeError) as error:
        return [str(error).splitlines()[0]]
    if (rule.moments, rule.counts) != (group.rule.moments, group.rule.counts):
        kept, own = [[*r.moments, *r.counts] for r in (rule, group.rule)]
        return [f"its settings keep {kept} of a parameter, not {own}"]
    return []
