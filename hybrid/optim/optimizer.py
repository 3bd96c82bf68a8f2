"""Optimizer: what all of them share, from checking parameters to saving state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hybrid import ops
from hybrid.config import advance_epoch
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.optim.group import Group
from hybrid.optim.state import describe_group, load_groups
from hybrid.record import Leaf, recording
from hybrid.tensor import Tensor

_PARAMETERS = "pass model.parameters(), a list of tensors, or a list of dicts with 'params'"


class Optimizer:
    """Moves parameters along their gradients; subclasses say how for one group in ``update``.

    ``params`` is an iterable of tensors, or a list of dicts: each with "params" and settings that
    differ from the defaults.  Everything that changes from step to step is a cell, so a hybridized
    training step holds the optimizer's work too.
    """

    advances_epoch = True

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self._defaults = tuple(defaults.items())
        self.param_groups: tuple[Group, ...] = ()
        for given in _as_dicts(params):
            self.add_param_group(given)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name != "lr":  # a cell
            advance_epoch()

    # What a subclass says ---------------------------------------------------------------------

    @staticmethod
    def layout(settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Check ``settings``; the names of the moments that each parameter needs under them."""
        raise NotImplementedError

    def update(self, group: Group) -> None:
        """One step for the parameters of ``group`` that have gradients."""
        raise NotImplementedError

    # What a user calls ------------------------------------------------------------------------

    def add_param_group(self, given: Mapping[str, Any]) -> None:
        """Take on more parameters: ``given`` has "params", and settings unlike the defaults."""
        if not isinstance(given, Mapping) or "params" not in given:
            raise ArgumentTypeError("a parameter group is a dict with 'params'", fix=_PARAMETERS)
        settings = dict(self._defaults)
        for name, value in given.items():
            if name != "params" and name not in settings:
                raise ArgumentError(
                    f"{type(self).__name__} has no setting {name!r}",
                    fix="use one of " + ", ".join(dict(self._defaults)),
                )
            settings[name] = value
        params = _checked(settings.pop("params"), self.param_groups)
        self.param_groups = (*self.param_groups, Group(params, settings, self.layout))

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        with recording(False):
            for group in self.param_groups:
                self.update(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or write zeros over them."""
        for group in self.param_groups:
            for p in group.params:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = ops.zeros_like(p)

    @property
    def lr(self) -> float:
        """The learning rate of the first group; assigning sets that of all groups."""
        return self.param_groups[0].lr

    @lr.setter
    def lr(self, value: Any) -> None:
        for group in self.param_groups:
            group.lr = value

    def state_dict(self) -> dict[str, Any]:
        """Moments by number of the parameter under "state", settings under "param_groups"."""
        state: dict[int, dict[str, Tensor]] = {}
        groups = []
        for group in self.param_groups:
            first = len(state)
            for moments in group.moments:
                kept = zip(group.moment_names, moments, strict=True)
                state[len(state)] = {name: cell.detach() for name, cell in kept}
            groups.append(describe_group(group) | {"params": list(range(first, len(state)))})
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict()`` of a like optimizer gave.

        Everything is checked before anything is written.
        """
        load_groups(type(self).__name__, self.param_groups, state)

    def __repr__(self) -> str:
        groups = "".join(f"\n  {group}" for group in self.param_groups)
        return f"{type(self).__name__}({groups}\n)"


def gradients(group: Group) -> list[tuple[Tensor, Tensor, tuple[Tensor, ...]]]:
    """(parameter, gradient, moments) of each parameter of ``group`` that has a gradient."""
    return [
        (p, g, moments)
        for p, moments in zip(group.params, group.moments, strict=True)
        if (g := p.grad) is not None
    ]


def _as_dicts(params: Any) -> list[Mapping[str, Any]]:
    """``params`` as a list of groups."""
    if isinstance(params, (Tensor, Mapping, str)) or not isinstance(params, Iterable):
        raise ArgumentTypeError(
            f"an optimizer cannot take its parameters from a {type(params).__name__}",
            fix=_PARAMETERS,
        )
    given = list(params)
    if not given:
        raise ArgumentError("the optimizer got no parameters", fix=_PARAMETERS)
    return given if all(isinstance(item, Mapping) for item in given) else [{"params": given}]


def _checked(params: Any, groups: Iterable[Group]) -> tuple[Tensor, ...]:
    """The parameters of a new group, none of which is in ``groups``."""
    params = (params,) if isinstance(params, Tensor) else tuple(params)
    if not params:
        raise ArgumentError("a parameter group has no parameters", fix=_PARAMETERS)
    seen = {id(p) for group in groups for p in group.params}
    for position, p in enumerate(params):
        if not isinstance(p, Tensor):
            raise ArgumentTypeError(
                f"parameter {position} is a {type(p).__name__}, not a tensor", fix=_PARAMETERS
            )
        if not p.dtype.is_floating:
            raise ArgumentTypeError(
                f"parameter {position} is {p.type}", why="Only float tensors have gradients."
            )
        if p.record is not None and not isinstance(p.record, Leaf):
            raise ArgumentError(
                f"parameter {position} ({p.type}) was computed from other tensors",
                why="Its gradient is theirs; moving it would change nothing.",
                fix="pass the tensors that it was computed from, or detach it first",
            )
        if id(p) in seen:
            raise ArgumentError(
                f"parameter {position} ({p.type}) was given before",
                why="It would be moved twice in each step.",
                fix="give each parameter once",
            )
        seen.add(id(p))
    return params
