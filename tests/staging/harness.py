"""Runs a program eagerly and hybridized, and compares everything that anybody could notice."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import logging
import struct
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError, HybridError, LeakedValueError
from hybrid.ir import interpreter
from tests.helpers import value_bits

# Arguments --------------------------------------------------------------------------------------


def f32(value: Any) -> hy.Tensor:
    return hy.asarray(value, dtype=hy.float32)


def f64(value: Any) -> hy.Tensor:
    return hy.asarray(value, dtype=hy.float64)


def i64(value: Any) -> hy.Tensor:
    return hy.asarray(value, dtype=hy.int64)


def flag(value: Any) -> hy.Tensor:
    return hy.asarray(value, dtype=hy.bool)


def draw(*shape: int, seed: int = 0) -> hy.Tensor:
    """Normally distributed float32 numbers."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return hy.asarray(values.astype(np.float32))


@dataclass(frozen=True)
class Fresh:
    """An argument that is made anew for every run: an iterator, say."""

    make: Callable[[], Any]


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A copy of ``args`` for one run to do with as it likes; tensors given twice stay one."""
    return copy.deepcopy(tuple([a.make() if isinstance(a, Fresh) else a for a in args]))


# A list whose length only a run knows is one buffer: its items are tensors of their own.
ITEMS_APART = "items apart"


# What can be noticed ----------------------------------------------------------------------------


def describe(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """``value`` in full as something that ``==`` compares bit for bit and type for type."""
    if isinstance(value, hy.Tensor):
        return type(value).__name__, *value_bits(value)
    if isinstance(value, float):
        return type(value).__name__, repr(value), struct.pack("<d", value)
    if value is None or isinstance(value, (bool, int, str, bytes, complex, type, range, slice)):
        return type(value).__name__, value
    if isinstance(value, np.ndarray):
        return "ndarray", value.dtype.name, value.shape, value.tobytes()
    if id(value) in seen:
        return "a cycle", len(seen) - seen.index(id(value))
    seen = (*seen, id(value))
    name = type(value).__qualname__
    if isinstance(value, dict):
        return name, [(describe(k, seen), describe(v, seen)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return name, sorted([describe(v, seen) for v in value], key=repr)
    if isinstance(value, hy.nn.Module):
        grads = [describe(p.grad, seen) for p in value.parameters()]
        return name, value.training, describe(dict(value.state_dict()), seen), grads
    if isinstance(value, (list, tuple)) or hasattr(value, "popleft"):
        return name, [describe(v, seen) for v in value]
    if isinstance(value, (types.FunctionType, types.MethodType)) or not hasattr(value, "__dict__"):
        return name
    return name, {k: describe(v, seen) for k, v in vars(value).items()}


def tensors_in(value: Any) -> list[hy.Tensor]:
    """The tensors in ``value``, each time they occur."""
    if isinstance(value, hy.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors_in(v)]
    if isinstance(value, (list, tuple, set)):
        return [t for v in value for t in tensors_in(v)]
    return []


def reached(value: Any, lists: bool = True, seen: tuple[int, ...] = ()) -> Iterator[hy.Tensor]:
    """The tensors that ``value`` leads to by items and attributes, each time they occur.

    Those in ``lists`` may be left out.
    """
    if isinstance(value, hy.Tensor):
        yield value
        return
    if id(value) in seen or isinstance(value, (type, types.ModuleType, np.ndarray)):
        return
    seen = (*seen, id(value))
    if isinstance(value, dict):
        inner: Any = value.values()
    elif isinstance(value, hy.nn.Module):
        inner = [*value.parameters(), *value.buffers(), *vars(value).values()]
    elif isinstance(value, (list, tuple)) or hasattr(value, "popleft"):
        inner = value
    elif isinstance(value, types.FunctionType):
        inner = [c.cell_contents for c in value.__closure__ or () if c != types.CellType()]
    elif isinstance(value, types.MethodType):
        inner = [value.__self__]
    else:
        inner = getattr(value, "__dict__", {}).values()
    for v in list(inner) if lists or not isinstance(value, list) else ():
        yield from reached(v, lists, seen)


def describe_error(error: BaseException) -> Any:
    """The type and what was said; of an unbound name, the name."""
    if isinstance(error, RecursionError):
        return type(error).__name__, ""
    if isinstance(error, UnboundLocalError):
        name = str(error).split("'")[1] if "'" in str(error) else str(error)
        return type(error).__name__, name
    said = error.what if isinstance(error, HybridError) else describe(error.args)
    return type(error).__name__, said


class _Log(logging.Handler):
    def __init__(self, events: list[Any]) -> None:
        super().__init__()
        self.events = events

    def emit(self, record: logging.LogRecord) -> None:
        self.events.append(("log", record.levelname, record.getMessage()))


class _Stream(io.TextIOBase):
    def __init__(self, kind: str, events: list[Any]) -> None:
        self.kind, self.events = kind, events

    def write(self, text: str) -> int:
        if self.events and self.events[-1][0] == self.kind:
            self.events[-1] = (self.kind, self.events[-1][1] + text)
        else:
            self.events.append((self.kind, text))
        return len(text)


@contextlib.contextmanager
def watched(events: list[Any]) -> Iterator[None]:
    """Whatever is printed, logged and warned of goes to ``events``, in order."""

    def show(message: Any, category: Any, *rest: Any, **named: Any) -> None:
        events.append(("warning", category.__name__, str(message)))

    logger, handler = logging.getLogger("control"), _Log(events)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(_Stream("out", events)),
            contextlib.redirect_stderr(_Stream("err", events)),
        ):
            warnings.simplefilter("always")
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)


# One side ---------------------------------------------------------------------------------------


@dataclass
class Side:
    """A function with the state that it keeps, eager or hybridized."""

    function: Callable[..., Any]
    state: Any = None
    hybridized: bool = False
    given: Any = None  # the function as it was written

    def call(
        self, args: tuple[Any, ...], grad: bool, identity: bool | str, hold: bool = True
    ) -> dict[str, Any]:
        """Everything to be noticed of one call."""
        seen: dict[str, Any] = {}
        result: Any = None
        args = copied(args)
        leaves = [t for t in tensors_in(args) if t.dtype.is_floating]
        for t in leaves if grad else ():
            t.requires_grad = True
        events: list[Any] = []
        # Whatever holds a tensor of the state keeps a plan from using it again.
        before = [*reached((args, self.state, self.given) if identity and hold else args)]
        hy.random.seed(0)
        with watched(events):
            try:
                result = self.function(*args)
            except AssertionError as error:
                seen["raised"] = ("AssertionError", describe(error.args))
            except Exception as error:
                seen["raised"], seen["error"] = describe_error(error), error
            else:
                seen["returned"] = describe(result)
        if interpreter.ACTIVE and "error" in seen:
            seen["error"].__traceback__ = seen["error"].__context__ = None
        seen["captures left open"] = close_captures()
        seen["arguments after"] = describe(args)
        seen["state"] = describe(self.state)
        every: list[hy.Tensor] = []
        if identity:
            after = (args, self.state, self.given, result)
            every = [*before, *reached(after, lists=identity is True)]
            seen.update(_kinship(every))
        if grad:
            seen["gradients"] = _gradients(result, leaves, every)
        seen["printed"] = events
        seen["next draw"] = describe(hy.random.uniform())
        return seen


def close_captures() -> int:
    """How many interpreters the call has left in force; they would disturb what follows."""
    left = sum(map(len, interpreter.ACTIVE.values()))
    if left:
        gc.collect()  # what is left of them may close them by itself, now rather than later
    interpreter.ACTIVE.clear()
    return left


def _kinship(every: Sequence[hy.Tensor]) -> dict[str, Any]:
    """Which of ``every`` tensor are one, which require gradients, and what these are so far."""
    grads = [t.grad for t in every]
    first: dict[int, int] = {}
    return {
        "identity": [first.setdefault(id(t), len(first)) for t in (*every, *grads)],
        "requires_grad": [t.requires_grad for t in every],
        "grad": [describe(g) for g in grads],
    }


def _gradients(result: Any, leaves: list[hy.Tensor], others: Sequence[hy.Tensor]) -> Any:
    """The gradients of ``leaves`` when every result counts, each element differently.

    Then those of all when each of the ``others`` counts that has a history.
    """
    results = tensors_in(result)
    loss: Any = None
    for i, t in enumerate(results):
        if t.requires_grad:
            term = _weighted(t, i)
            loss = term if loss is None else loss + hy.astype(term, loss.dtype)
    found = [_backward(loss)]
    found += [describe(t.grad) for t in leaves]
    done = {id(t) for t in results}
    for i, t in enumerate(others):
        if t.record not in (None, getattr(t, "leaf", None)) and id(t) not in done:
            done.add(id(t))
            found.append((i, _backward(_weighted(t, i))))
    return found, [describe(t.grad) for t in others]


def _weighted(t: hy.Tensor, seed: int) -> hy.Tensor:
    weights = np.random.default_rng(seed).standard_normal(t.shape)
    return hy.sum(t * hy.asarray(weights, dtype=t.dtype))


def _backward(loss: hy.Tensor | None) -> Any:
    try:
        if loss is not None and loss.requires_grad:
            loss.backward(retain_graph=True)  # the state may lead back to an earlier call
    except HybridError as error:
        return describe_error(error)
    return None


def side(function: Callable[..., Any], make: bool, hybridized: bool) -> Side:
    state = None
    hy.random.seed(0)
    if make:
        function = function()
        if isinstance(function, tuple):
            function, state = function
    return Side(hy.hybridize(function) if hybridized else function, state, hybridized, function)


def same(
    function: Callable[..., Any],
    *args: Any,
    calls: Sequence[Any] = (),
    grad: bool = True,
    plans: int | None = None,
    make: bool = False,
    identity: bool | str = True,
    may_refuse: bool = False,
    runs_eagerly: bool | None = False,
) -> None:
    """Assert that nobody can tell ``function`` from ``hybridize(function)``.

    It is called with ``args`` and with each of ``calls`` (a tuple of arguments, or one argument),
    then once more in the opposite order, and then for gradients.  With ``make`` the function makes
    the function to be called, or a pair of that and of its state.  All calls share one hybridized
    function, which may make ``plans`` plans: one, unless said, when the arguments are alike.
    ``identity`` compares which tensors among the arguments, the state and the results, before and
    after, are one, whether they require gradients, and what backward() from each of them reaches;
    with ITEMS_APART items of lists may be tensors of their own.
    ``may_refuse`` lets the capture raise CaptureError, provided that it leaves no trace.
    With ``runs_eagerly`` calls that no graph gives the bits of run eagerly, and warn of that once;
    None: they may.
    """
    warned: list[Any] = []
    given = [*([args] if args else []), *[c if isinstance(c, tuple) else (c,) for c in calls]]
    if plans is None and not make and len({_kinds(c) for c in given}) == 1:
        plans = 1
    for grad_now in (False, True) if grad else (False,):
        order = given if grad_now else [*given, *reversed(given)]
        eager = side(function, make, False)
        all_expected = [
            eager.call(arguments, grad_now, identity, grad_now or number >= len(given))
            for number, arguments in enumerate(order)
        ]
        hybridized = side(function, make, True)
        for number, (arguments, expected) in enumerate(zip(order, all_expected, strict=True)):
            where = f"call {number}{' for gradients' if grad_now else ''}"
            untouched = describe(copied(arguments)), describe(hybridized.state)
            hold = grad_now or number >= len(given)
            found = hybridized.call(arguments, grad_now, identity, hold)
            error = found.pop("error", None)
            expected.pop("error", None)
            warned += [event for event in found["printed"] if is_of_eager_run(event)]
            if runs_eagerly is not False:
                found["printed"] = [e for e in found["printed"] if not is_of_eager_run(e)]
            refused = isinstance(error, CaptureError) and not isinstance(error, LeakedValueError)
            if may_refuse and refused:
                after = found["arguments after"], found["state"]
                assert after == untouched, f"{where}: a refused capture has left traces"
                assert not found["printed"], f"{where}: a refused capture has printed"
                assert not found["captures left open"], f"{where}: the capture is still open"
                return
            compare(expected, found, error, where)
        if plans is not None and not (make and grad_now):  # state gets a history at the first call
            kept = hybridized.function.plans
            # A call that always raises while it is captured never becomes a plan.
            assert len(kept) <= plans, "\n".join([f"more than {plans} plans:", *map(str, kept)])
    assert runs_eagerly is None or bool(warned) == runs_eagerly


def is_of_eager_run(event: tuple[str, ...]) -> bool:
    return event[:2] == ("warning", "UserWarning") and " runs eagerly: " in event[2]


def _kinds(args: tuple[Any, ...]) -> Any:
    """What selects a plan: equal for calls that must share one, None where they need not."""
    if not all(isinstance(t, hy.Tensor) for t in args):
        return object()
    return tuple([(t.type, [t is u for u in args].index(True)) for t in args])


def compare(expected: dict, found: dict, error: BaseException | None, where: str) -> None:
    for what in dict.fromkeys((*expected, *found)):
        left, right = expected.get(what), found.get(what)
        if left != right:
            pytest.fail(
                f"{where}: {what}\n  eager:      {left}\n  hybridized: {right}"
                + (f"\n\n{type(error).__name__}: {error}" if error else "")
            )


# Tables of programs -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A function, the calls that take it through all of its lines, and what is asked of it."""

    function: Callable[..., Any]
    calls: tuple[Any, ...]
    options: dict[str, Any]
    covered: bool

    @property
    def name(self) -> str:
        return self.function.__name__

    def check(self) -> None:
        same(self.function, calls=self.calls, **self.options)

    def check_coverage(self) -> None:
        """Assert that the calls run every line, eagerly: else a branch is not tested."""
        if not self.covered:
            return
        make = self.options.get("make", False)
        lines: set[tuple[int, int]] = set()
        own = {id(c): c for c in _codes(self.function.__code__)}
        wanted = {
            (key, n)
            for key, code in own.items()
            for _, _, n in code.co_lines()
            if n and n > code.co_firstlineno
        }

        def trace(frame: Any, event: str, arg: Any) -> Any:
            lines.add((id(frame.f_code), frame.f_lineno))
            return trace if id(frame.f_code) in own else None

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            one = side(self.function, make, False)
            for call in self.calls:
                one.call(call if isinstance(call, tuple) else (call,), False, False)
        finally:
            sys.settrace(before)
        missed = sorted({n for _, n in wanted - lines})
        assert not missed, f"no call of {self.name} runs line {missed}"


def _codes(code: types.CodeType) -> list[types.CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [code, *(each for c in inner for each in _codes(c))]


@dataclass
class Table:
    """The programs of a test file, and options of all of them."""

    programs: list[Program] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def runs(self, *calls: Any, covered: bool = True, **options: Any) -> Callable[..., Any]:
        """Add the decorated function, to be called with each of ``calls``."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            assert function.__name__ not in [p.name for p in self.programs], function.__name__
            self.programs.append(Program(function, calls, self.options | options, covered))
            return function

        return add

    def makes(self, *calls: Any, covered: bool = True, **options: Any) -> Callable[..., Any]:
        """Add what the decorated function makes: a function, or a pair of that and of its state."""
        return self.runs(*calls, covered=covered, make=True, **options)

    def each(self) -> Any:
        """For ``parametrize``: every program."""
        ids = [p.name for p in self.programs]
        return pytest.mark.parametrize("program", self.programs, ids=ids)
