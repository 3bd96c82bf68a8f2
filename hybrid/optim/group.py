"""Group: parameters that share settings, with the cells that an optimizer keeps for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hybrid import ops
from hybrid.config import advance_epoch
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError, author_location
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.number import Number, check, host_number, to_float
from hybrid.tensor import Tensor
from hybrid.tree import flatten
from hybrid.types import DType, float32, float64

Layout = Callable[[Mapping[str, Any]], tuple[str, ...]]


class Cells(NamedTuple):
    """Numbers of a whole group that change from step to step."""

    lr: Tensor  # the learning rate
    step: Tensor  # how many steps were taken in which some parameter had a gradient


class Group:
    """Settings read and written as attributes or items: ``group.momentum``, ``group["lr"]``.

    The learning rate, the count of steps and the moments are cells, made here once and written ever
    after, so that a captured step reads them anew at every run.  The other settings are plain
    values, and changing one makes a captured step be captured again.
    """

    advances_epoch = True  # every write to a plain setting does

    # Set once; tuples, so that a capture can tell by identity that they are what it has seen.
    params: tuple[Tensor, ...]
    moments: tuple[tuple[Tensor, ...], ...]  # per parameter, in the order of ``moment_names``
    moment_names: tuple[str, ...]
    settings: tuple[str, ...]  # the names of the plain settings
    layout: Layout  # checks settings and names the moments kept under them
    cells: Cells

    def __init__(self, params: tuple[Tensor, ...], settings: Mapping[str, Any], layout: Layout):
        """``settings`` are "lr" and the plain ones; ``layout`` raises what is wrong with them."""
        plain = {name: value for name, value in settings.items() if name != "lr"}
        names = layout(settings)
        dtype = float64 if any(p.dtype is float64 for p in params) else float32
        made = {
            "params": params,
            "settings": tuple(plain),
            "moment_names": names,
            "moments": tuple(tuple(moment_like(name, p) for name in names) for p in params),
            "cells": Cells(ops.zeros((), dtype=dtype), ops.zeros((), dtype=dtype)),
            "layout": layout,
            **plain,
        }
        self.__dict__.update(made)
        self.lr = settings["lr"]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "lr":
            object.__setattr__(self, name, value)
            return
        if name not in self.settings:
            raise ArgumentError(
                f"a parameter group has no setting {name!r}",
                fix="use one of " + ", ".join(["lr", *self.settings]),
            )
        if any(type(leaf) is Number for leaf in flatten(value)[0]):
            raise CaptureError(
                f"{name} was given a number that only a run knows",
                at=author_location(),
                why="It is a plain setting: a captured step is made for its value.",
                fix=f"set {name} outside the hybridized function; lr can be set inside",
            )
        wanted = {n: getattr(self, n) for n in self.settings} | {name: value, "lr": 0.0}
        if self.layout(wanted) != self.moment_names:
            raise ArgumentError(
                f"{name} cannot become {value!r} now",
                why="It decides which moments are kept, and those are made with the optimizer.",
                fix=f"make a new optimizer with {name}={value!r}",
            )
        self.__dict__[name] = value
        advance_epoch()

    def __getitem__(self, name: str) -> Any:
        if name not in ("params", "lr", *self.settings):
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    @property
    def lr(self) -> float:
        """The learning rate; assigning writes its cell, and captured steps go on as they are.

        Reading gives the shortest decimal that the cell's dtype rounds to its value: 0.1 for 0.1.
        """
        cell = self.cells.lr
        value = cell.item()
        if type(value) is Number:
            return host_number(functools.partial(_shortest, cell.dtype), "float", value)
        return _shortest(cell.dtype, value)

    @lr.setter
    def lr(self, value: Any) -> None:
        cell = self.cells.lr
        if isinstance(value, Tensor):
            cell.assign(in_dtype(value.detach(), cell.dtype))
            return
        if type(value) is Number:
            value = to_float(value)
            fits = ops.logical_and(value.tensor >= 0.0, value.tensor < float("inf"))
            refuse = functools.partial(require_number, "lr")
            check(fits, refuse, (value.tensor,), (ArgumentError,))
            cell.assign(value.lifted(cell.dtype))
            return
        require_number("lr", value)
        cell.assign(float(value))

    def __repr__(self) -> str:
        lr = "traced" if ACTIVE and current().traces else self.lr
        settings = {"lr": lr} | {name: getattr(self, name) for name in self.settings}
        described = ", ".join(f"{name}={value}" for name, value in settings.items())
        return f"Group({len(self.params)} parameters, {described})"


def _shortest(dtype: DType, value: float) -> float:
    """The shortest decimal that ``dtype`` rounds to ``value``."""
    return float(str(dtype.numpy.type(value)))


def moment_like(name: str, parameter: Tensor) -> Tensor:
    """A moment before the first step: zeros, or for a flag (named "is_...") False."""
    if name.startswith("is_"):
        return ops.zeros((), dtype=bool)
    return ops.zeros(parameter.shape, dtype=parameter.dtype)


def in_dtype(tensor: Tensor, dtype: DType) -> Tensor:
    """``tensor`` in ``dtype``: itself when it has it."""
    return tensor if tensor.dtype is dtype else ops.astype(tensor, dtype)


def require_number(name: str, value: Any, low: float = 0.0, below: float = float("inf")) -> None:
    """Raise unless ``value`` is a number in [``low``, ``below``)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise ArgumentTypeError(f"{name} is {value!r}, not a number")
    if not low <= value < below:
        limits = f"at least {low:g}" + ("" if below == float("inf") else f" and below {below:g}")
        raise ArgumentError(f"{name} is {value}", fix=f"give a number that is {limits}")


def require_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is a bool."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{name} is {value!r}, not a bool", fix="give True or False")
