"""Group: parameters that share settings, with the cells that an optimizer keeps for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

from hybrid import ops
from hybrid.config import advance_epoch
from hybrid.core.layouts import laid_type
from hybrid.core.tree import flatten
from hybrid.core.types import float64
from hybrid.eager.inplace_launch import Calls
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, CaptureError, MissingKeyError, author_location
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.nn.modules.parameter import in_dtype, working_dtype
from hybrid.number import Number, check, to_float
from hybrid.ops.communication.layout_op import in_layout
from hybrid.ops.support.operand_checks import require_number
from hybrid.optim.rule import LIMITS, Rule, check_settings, require_betas

NOTES = ("initial_lr", "name")  # what a group may carry besides its settings; no step reads it
_PACES = ("momentum", "betas")  # settings whose (first) number is a cell


class Cells(NamedTuple):
    """Numbers of a whole group that may change from step to step, in float64."""

    lr: Tensor  # the learning rate
    pace: Tensor  # the momentum, or the first of the betas; 0 where there is neither


class State(NamedTuple):
    """What is kept of one parameter, in the order of the operands of the rule's op."""

    moments: tuple[Tensor, ...]  # of its shape
    counts: tuple[Tensor, ...]  # of rank 0


class Group(MutableMapping[str, Any]):
    """Settings read and written as attributes or items: ``group.momentum``, ``group["lr"]``.

    The learning rate, the momentum (or the first of the betas), the counts of steps and the moments
    are cells, made here once and written ever after, so that a captured step reads them anew at
    every run.  The other settings are plain values, and changing one makes a captured step be
    captured again.
    """

    advances_epoch = True  # every write to a plain setting does

    # Set once; tuples, so that a capture can tell by identity that they are what it has seen.
    params: tuple[Tensor, ...]
    states: tuple[State, ...]  # per parameter
    settings: tuple[str, ...]  # the names of all but the learning rate
    rule_of: Callable[[Mapping[str, Any]], Rule]  # raises what is wrong with settings
    rule: Rule  # of the settings as they are
    cells: Cells
    calls: Calls

    def __init__(
        self,
        params: tuple[Tensor, ...],
        settings: Mapping[str, Any],
        rule_of: Callable[[Mapping[str, Any]], Rule],
    ) -> None:
        """``settings`` are "lr", those of the optimizer, and any of ``NOTES``."""
        plain = {name: value for name, value in settings.items() if name not in ("lr", *NOTES)}
        check_settings(settings)
        rule = rule_of(settings)
        made = {
            "params": params,
            "states": tuple(_first_state(rule, p) for p in params),
            "settings": tuple(plain),
            "rule_of": rule_of,
            "rule": rule,
            "cells": Cells(ops.zeros((), dtype=float64), ops.zeros((), dtype=float64)),
            "calls": Calls(),
        }
        made |= {name: value for name, value in settings.items() if name not in ("lr", *_PACES)}
        if "betas" in plain:
            made["beta2"] = plain["betas"][1]
        self.__dict__.update(made)
        for name in ("lr", *_PACES):
            if name in settings:
                setattr(self, name, settings[name])

    # As attributes ----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "lr" or (name in _PACES and name in self.settings):
            object.__setattr__(self, name, value)
            return
        if name not in (*self.settings, *NOTES):
            raise ArgumentError(
                f"a parameter group has no setting {name!r}",
                fix="use one of " + ", ".join(["lr", *self.settings]),
            )
        _refuse_traced(name, value)
        if name in self.settings:
            self._follow(name, value)
        self.__dict__[name] = value
        advance_epoch()

    def _follow(self, name: str, value: Any) -> None:
        """Take on the rule of the settings as they will be."""
        check_settings({name: value})
        wanted = {n: getattr(self, n) for n in self.settings if n not in (*_PACES, name)}
        if "betas" in self.settings:
            wanted["betas"] = (0.0, self.beta2)
        if "momentum" in self.settings:
            wanted["momentum"] = 0.5 if self.rule.paced else 0.0
        rule = self.rule_of(wanted | {"lr": 0.0, name: value})
        if (rule.moments, rule.counts) != (self.rule.moments, self.rule.counts):
            raise ArgumentError(
                f"{name} cannot become {value!r} now",
                why="It decides which moments are kept, and those are made with the optimizer.",
                fix=f"make a new optimizer with {name}={value!r}",
            )
        self.__dict__["rule"] = rule

    @property
    def lr(self) -> float:
        """The learning rate; assigning writes its cell, and captured steps go on as they are."""
        return self.cells.lr.item()

    @lr.setter
    def lr(self, value: Any) -> None:
        _write(self.cells.lr, "lr", value, *LIMITS["lr"])

    @property
    def momentum(self) -> float:
        """The momentum, a cell like the learning rate."""
        self._require("momentum")
        return self.cells.pace.item()

    @momentum.setter
    def momentum(self, value: Any) -> None:
        if not self.rule.paced and not (isinstance(value, (int, float)) and value == 0):
            require_number("momentum", value, *LIMITS["momentum"])
            self._follow("momentum", value)
        _write(self.cells.pace, "momentum", value, *LIMITS["momentum"])

    @property
    def betas(self) -> tuple[float, float]:
        """The decays of the moments; the first is a cell like the learning rate."""
        self._require("betas")
        return self.cells.pace.item(), self.beta2

    @betas.setter
    def betas(self, value: Any) -> None:
        pair = value if isinstance(value, (tuple, list)) and len(value) == 2 else None
        if pair is not None:
            _refuse_traced("betas", pair[1])
        traced = pair is not None and isinstance(pair[0], (Number, Tensor))
        require_betas((0.0, pair[1]) if traced else value)
        if pair[1] != self.beta2:
            self._follow("betas", (0.0, pair[1]))
            self.__dict__["beta2"] = pair[1]
            advance_epoch()
        _write(self.cells.pace, "betas[0]", pair[0], 0.0, 1.0)

    def _require(self, name: str) -> None:
        if name not in self.settings:
            raise AttributeError(f"a parameter group has no setting {name!r}")

    # As a dict --------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        if name not in iter(self):
            raise MissingKeyError.among("a parameter group", "setting", name, self)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __delitem__(self, name: str) -> None:
        raise ArgumentError(f"{name} of a parameter group cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(("params", "lr", *self.settings, *[n for n in NOTES if n in self.__dict__]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        names = ("lr", *self.settings)
        traced = ACTIVE and current().traces
        cells = ("lr", *_PACES) if traced else ()
        shown = {name: "traced" if name in cells else getattr(self, name) for name in names}
        described = ", ".join(f"{name}={value}" for name, value in shown.items())
        return f"Group({len(self.params)} parameters, {described})"


def _refuse_traced(name: str, value: Any) -> None:
    if any(type(leaf) is Number for leaf in flatten(value)[0]):
        raise CaptureError(
            f"{name} was given a number that only a run knows",
            at=author_location(),
            why="It is a plain setting: a captured step is made for its value.",
            fix=f"set {name} outside the hybridized function; lr, the momentum and the first of "
            "the betas can be set inside",
        )


def _write(cell: Tensor, name: str, value: Any, low: float, below: float) -> None:
    """Put the number ``value``, in [``low``, ``below``), into ``cell``."""
    if isinstance(value, Tensor):
        cell.assign(in_dtype(value.detach(), cell.dtype))
        return
    if type(value) is Number:
        value = to_float(value)
        fits = ops.logical_and(value.tensor >= low, value.tensor < below)
        refuse = functools.partial(_refuse, name, low, below)
        check(fits, refuse, (value.tensor,), (ArgumentError,))
        cell.assign(value.lifted(cell.dtype))
        return
    require_number(name, value, low, below)
    cell.assign(float(value))


def _refuse(name: str, low: float, below: float, value: float) -> None:
    require_number(name, value, low, below)


def _first_state(rule: Rule, parameter: Tensor) -> State:
    """The moments and counts before the first step."""
    dtype, starts = working_dtype(parameter.dtype), dict(rule.starts)

    def made(name: str, shape: tuple[int, ...]) -> Tensor:
        start = starts.get(name, 0.0)
        value = ops.full(shape, start, dtype=dtype) if start else ops.zeros(shape, dtype=dtype)
        layout = parameter.type.layout if shape == parameter.shape else None
        return value if layout is None else in_layout(value, laid_type(value.type, layout))

    return State(
        tuple([made(name, parameter.shape) for name in rule.moments]),
        tuple([made(name, ()) for name in rule.counts]),
    )
