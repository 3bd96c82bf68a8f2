"""hybridize: a function that is captured once per key and runs as a plan from then on."""

from __future__ import annotations

import copy
import functools
import threading
import types
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from hybrid.convert import convert
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError, NeedsValue
from hybrid.ir import Graph
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.planned import Planned
from hybrid.record import is_recording
from hybrid.tensor import Tensor
from hybrid.trace.capture import Capture, capture
from hybrid.trace.guards import Guards
from hybrid.trace.reads import Reads, of_package
from hybrid.trace.signature import aliases, describe_leaf, key_of, lifted
from hybrid.tree import flatten

MODES = ("auto", "trace", "ast")
_capturing = threading.RLock()


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """One cached plan, for reading."""

    arguments: tuple[str, ...]
    nodes: int
    steps: int
    arena_nbytes: int
    guards: tuple[str, ...]
    calls: int

    def __str__(self) -> str:
        return (
            f"({', '.join(self.arguments)}): {self.nodes} nodes, {self.steps} steps, "
            f"{self.arena_nbytes} bytes of scratch, {len(self.guards)} guards, {self.calls} calls"
        )


class Hybridized:
    """A callable that runs ``function`` as plans; see ``hybridize``."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        mode: str = "auto",
        optimize: str = "exact",
        fallback: str = "error",
        max_plans: int = 64,
        name: str | None = None,
    ) -> None:
        _require("mode", mode, MODES)
        _require("optimize", optimize, ("exact", "fast"))
        _require("fallback", fallback, ("error", "eager"))
        if not callable(function):
            raise ArgumentTypeError(
                f"{type(function).__name__} is not callable",
                fix="hybridize a function, a method or a Module",
            )
        if isinstance(max_plans, bool) or not isinstance(max_plans, int) or max_plans < 1:
            raise ArgumentError(f"max_plans is {max_plans!r}", fix="give an int >= 1")
        functools.update_wrapper(self, function)
        self.function = function
        self.unbound: Hybridized | None = None  # of a method: the one that the class holds
        self.options = {
            "mode": mode, "optimize": optimize, "fallback": fallback, "max_plans": max_plans,
            "name": name,
        }  # fmt: skip
        self._plans: dict[Hashable, list[Planned]] = {}
        # The plan last used for arguments that are all plain tensors, by their types, with
        # recording off and on: what most calls look up.
        self._quick: tuple[dict[Hashable, Planned], ...] = ({}, {})
        self._clock = 0
        self._warned: set[str] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE and current().traces:
            return current().converted(self.function)(*args, **kwargs)
        if not kwargs:
            try:
                key = tuple([t.type for t in args])
                planned = self._quick[is_recording()].get(key)
                if planned is not None and planned.holds(args) and _plain(args):
                    self._clock = planned.last_used = self._clock + 1
                    planned.calls += 1
                    return planned.run(args)
            except (AttributeError, TypeError):  # some argument is not a tensor
                pass
        return self._general(args, kwargs)

    def _general(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A call of any arguments: find the plan by the whole key, or capture."""
        if kwargs:
            leaves, structure = flatten((args, kwargs))
        else:
            leaves, structure = flatten(args)
        leaves = lifted(leaves)
        key = self._key(leaves, structure)
        for planned in self._plans.get(key, ()):
            if planned.holds(leaves):
                break
        else:
            planned = None
        try:
            planned = planned or self._capture(args, kwargs, leaves, key)
        except CaptureError as error:
            if self.options["fallback"] != "eager":
                raise
            self._warn(error)
            return self.function(*args, **kwargs)
        if not kwargs and len(leaves) == len(args) and _plain(args):
            self._quick[is_recording()][tuple([t.type for t in args])] = planned
        self._clock = planned.last_used = self._clock + 1
        planned.calls += 1
        return planned.run(leaves)

    def _key(self, leaves: Sequence[Any], structure: Any) -> Hashable:
        return (
            structure,
            tuple([key_of(leaf) for leaf in leaves]),
            is_recording(),
            aliases(leaves),
        )

    def _capture(
        self, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any], key: Hashable
    ) -> Planned:
        with _capturing:
            for planned in self._plans.get(key, ()):  # another thread may have been faster
                if planned.holds(leaves):
                    return planned
            planned = Planned(self._trace(args, kwargs, leaves), leaves)
            planned.description = tuple(describe_leaf(leaf) for leaf in leaves)
            self._clock = planned.last_used = self._clock + 1
            self._plans.setdefault(key, []).append(planned)
            self._forget_oldest()
            return planned

    def _trace(self, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any]) -> Capture:
        try:
            return self._traced(args, kwargs, leaves, unrolls=False)
        except NeedsValue:  # perhaps of a number that is traced only because a loop is one node
            return self._traced(args, kwargs, leaves, unrolls=True)

    def _traced(
        self, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any], unrolls: bool
    ) -> Capture:
        args, kwargs = _with_leaves(args, kwargs, leaves)
        reads = Reads(self.function, [leaf for leaf in leaves])
        guards = Guards(reads, is_configured)
        return capture(
            self.function,
            args,
            kwargs,
            leaves,
            guards,
            self._name(),
            convert=None if self.options["mode"] == "trace" else _staged,
            unrolls=unrolls,
        )

    def _name(self) -> str:
        name = self.options["name"] or getattr(
            self.function, "__name__", type(self.function).__name__
        )
        return name if name.isidentifier() else "graph"

    def _forget_oldest(self) -> None:
        plans = [(p.last_used, key, p) for key, ps in self._plans.items() for p in ps]
        while len(plans) > self.options["max_plans"]:
            oldest = min(plans, key=lambda row: row[0])
            plans.remove(oldest)
            _, key, planned = oldest
            self._plans[key].remove(planned)
            if not self._plans[key]:
                del self._plans[key]
            for quick in self._quick:
                for types_, found in list(quick.items()):
                    if found is planned:
                        del quick[types_]

    def _warn(self, error: CaptureError) -> None:
        place = str(error.at)
        if place not in self._warned:
            self._warned.add(place)
            warnings.warn(f"{self._name()} runs eagerly: {error}", stacklevel=3)

    # Looking at it ----------------------------------------------------------------------------

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that a call with these arguments is captured into; runs nothing."""
        leaves, _ = flatten((args, kwargs))
        return self._trace(args, kwargs, lifted(leaves)).graph

    @property
    def plans(self) -> list[PlanInfo]:
        """What is cached."""
        return [
            PlanInfo(
                planned.description,
                sum(1 for _ in planned.plan.graph.walk()),
                len(planned.plan.lowered.steps),
                planned.plan.arena_nbytes,
                tuple(g.name for g in (*planned.guards.always, *planned.guards.by_epoch)),
                planned.calls,
            )
            for plans in self._plans.values()
            for planned in plans
        ]

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()
        for quick in self._quick:
            quick.clear()

    # Being a function -------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method is hybridized per instance, so that plans live and die with it."""
        if instance is None:
            return self
        name = f"_hybridized_{getattr(self.function, '__qualname__', self._name())}"
        store = getattr(instance, "__dict__", None)
        bound = None if store is None else store.get(name)
        if bound is None or bound.unbound is not self or bound.function.__self__ is not instance:
            method = types.MethodType(self.function, instance)
            bound = Hybridized(method, **self.options)
            bound.unbound = self
            if store is not None:
                store[name] = bound
        return bound

    def __reduce__(self) -> Any:
        return _rebuild, (self.function, self.options)

    def __deepcopy__(self, memo: dict) -> Hybridized:
        return Hybridized(copy.deepcopy(self.function, memo), **self.options)

    def __repr__(self) -> str:
        count = sum(map(len, self._plans.values()))
        return f"<hybridized {self._name()}: {count} plans>"


def _staged(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called in place of ``function`` while tracing: its conversion, if it is the author's.

    The layers of this package branch on nothing that is traced.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return function if code is not None and of_package(code) else convert(function)


def _plain(args: Sequence[Any]) -> bool:
    """Whether ``args`` are different tensors, none with a gradient history."""
    for t in args:
        if t.__class__ is not Tensor or t.record is not None:
            return False
    n = len(args)
    return n < 2 or (args[0] is not args[1] if n == 2 else len(set(map(id, args))) == n)


def _rebuild(function: Callable[..., Any], options: dict[str, Any]) -> Hybridized:
    return Hybridized(function, **options)


def _require(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ArgumentError(
            f"{name}={value!r} is unknown", fix="use one of " + ", ".join(map(repr, allowed))
        )


def _with_leaves(
    args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments with lifted leaves in place."""
    from hybrid.tree import unflatten

    _, structure = flatten((tuple(args), kwargs))
    return unflatten(structure, leaves)


def is_configured(owner: Any) -> bool:
    """Whether every write to an attribute of ``owner`` advances the configuration epoch."""
    return bool(getattr(type(owner), "advances_epoch", False))


def hybridize(function: Any = None, /, **options: Any) -> Any:
    """Run ``function`` as a static graph: captured once per key, then one call into C.

    A decorator (with or without options), or a function: ``hybridize(module)`` switches the module
    in place and returns it.

    mode: ``"auto"``, ``"trace"`` or ``"ast"``; optimize: ``"exact"`` never changes a bit,
    ``"fast"`` may; fallback: ``"error"``, or ``"eager"`` to run what cannot be captured eagerly,
    with a warning; max_plans: how many plans are kept (least recently used go first).
    """
    if function is None:
        return functools.partial(hybridize, **options)
    switch = getattr(function, "hybridize", None)
    if switch is not None and not isinstance(function, Hybridized):
        switch(**options)
        return function
    if isinstance(function, Hybridized):
        function = function.function
    return Hybridized(function, **options)
