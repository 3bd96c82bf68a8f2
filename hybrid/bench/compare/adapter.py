"""What an adapter makes of a problem: something to run, and its results as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid.bench.compare.problems import Problem

CHECKED_STEPS = 3  # of training: their losses, and how far they move each parameter


@dataclass(frozen=True)
class WorkloadProgram:
    """``run`` computes, to the end; the first call compiles, whatever there is to compile.

    ``read`` makes named arrays of what the first ``runs`` calls returned.
    """

    run: Callable[[], Any]
    read: Callable[[list[Any]], Mapping[str, Any]]
    runs: int = 1


Build = Callable[[Problem, str], WorkloadProgram]  # of a problem and the variant of the framework


def function(run: Callable[[], Any], array: Callable[[Any], Any] = np.asarray) -> WorkloadProgram:
    """A program whose result is one tensor; ``array`` makes a NumPy array of it."""
    return WorkloadProgram(run, lambda results: {"result": array(results[0])})


def functions(
    run: Callable[[], Sequence[Any]], array: Callable[[Any], Any] = np.asarray
) -> WorkloadProgram:
    """A program that computes several tensors."""

    def read(results: list[Any]) -> dict[str, Any]:
        return {f"result {i}": array(found) for i, found in enumerate(results[0])}

    return WorkloadProgram(run, read)


def training(
    step: Callable[[], Any],
    parameters: Callable[[], Sequence[Any]],
    array: Callable[[Any], Any] = np.asarray,
    *,
    runs: int = CHECKED_STEPS,
) -> WorkloadProgram:
    """A program whose runs are training steps that return the loss, or one run with many of them.

    ``parameters`` gives what is trained, in the order of the problem's parameters and in any
    layout: what is compared are the losses, and the length of each parameter's way.
    """
    before = [np.array(array(p), np.float64) for p in parameters()]

    def read(losses: list[Any]) -> dict[str, np.ndarray]:
        after = [np.asarray(array(p), np.float64) for p in parameters()]
        apart = [b - a for a, b in zip(before, after, strict=True)]
        found = np.concatenate([np.ravel(array(loss)) for loss in losses])
        return {"losses": found} | lengths("way of parameter", apart)

    return WorkloadProgram(step, read, runs)


def gradients(
    run: Callable[[], tuple[Any, Iterable[Any]]], array: Callable[[Any], Any] = np.asarray
) -> WorkloadProgram:
    """A program that computes a loss and the gradients of the problem's parameters, in order."""

    def read(results: list[Any]) -> dict[str, np.ndarray]:
        loss, found = results[0]
        return {"loss": array(loss)} | lengths("gradient of parameter", map(array, found))

    return WorkloadProgram(run, read)


def lengths(what: str, arrays: Iterable[np.ndarray]) -> dict[str, Any]:
    """The Euclidean length of each array, which is that of its transposes, too."""
    return {f"{what} {i}": np.linalg.norm(np.asarray(a, np.float64)) for i, a in enumerate(arrays)}
