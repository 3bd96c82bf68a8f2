"""What traced numbers are computed with beyond ops: checks, guarded fast paths and host calls.

::

    cond %passes, %a, %b {          # check(passes, operator.truediv, (a, b))
      then(%a: f64[], %b: f64[]) { return }
      else(%a: f64[], %b: f64[]) { py_call %a, %b {function=<truediv>}  return }
    }

A host call gives a function of Python's the plain numbers; what it raises is what Python raises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType, bool_, float64, int64, tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    ArgumentTypeError,
    Location,
    NumberRangeError,
    author_frame,
    author_location,
    locate,
)
from hybrid.ir import Builder, Graph, Value
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.ops.flow.control import cond, py_call

DTYPES = {"bool": bool_, "int": int64, "float": float64}
TYPES = {kind: tensor_type(dtype, ()) for kind, dtype in DTYPES.items()}
CLASSES = {"bool": bool, "int": int, "float": float}
MIN, MAX = -(2**63), 2**63 - 1
HERE: Any = object()  # in a host call's arguments: where an operand goes

Body = Callable[[Builder, Sequence[Value]], Sequence[Value]]
Raises = tuple[type[BaseException], ...]

NUMERIC: Raises = (ZeroDivisionError, OverflowError, ValueError)  # what arithmetic may raise


class OwnCall:
    """What a py_call calls that is not the author's own: it is known what that may raise."""

    __slots__ = ()
    takes_bits = True  # arrays of bfloat16, as the bits that they are
    waits = False  # for other threads, which may run plans meanwhile
    repeats = False  # whether a run that is given up may have called it: it computes, or raises
    raises: Raises | None  # None: anything
    location: Location | None


@dataclass(frozen=True, slots=True, eq=False)
class NumberCall(OwnCall):
    """``function`` of plain numbers, as a py_call calls it: arrays in, arrays out."""

    repeats = True

    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # HERE for each operand
    kinds: tuple[str, ...]  # of the results; one alone is not in a tuple
    place: CodePlace
    raises: Raises

    @property
    def location(self) -> Location | None:  # type: ignore[override]
        return self.place.location

    def plain(self, *arrays: Any) -> Any:
        """What the function gives for the numbers in ``arrays``."""
        numbers = iter([np.asarray(a).item() for a in arrays])
        return self.function(*[next(numbers) if a is HERE else a for a in self.arguments])

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        try:
            found = self.plain(*arrays)
            if not self.kinds:
                return ()
            values = found if len(self.kinds) > 1 else (found,)
            return tuple([_array(v, k) for v, k in zip(values, self.kinds, strict=True)])
        except Exception as error:
            raise_at(error, self.place)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


def _array(value: Any, kind: str) -> np.ndarray:
    """A result of a host call as the array of its kind."""
    if kind == "int" and isinstance(value, int):
        if not MIN <= value <= MAX:
            raise NumberRangeError(value)
        return np.asarray(int(value), np.int64)
    if (kind == "float" and isinstance(value, float)) or (kind == "bool" and value in (0, 1)):
        return np.asarray(value, DTYPES[kind].numpy)
    raise ArgumentTypeError(
        f"a traced number became {value!r}",
        why=f"While the function was captured it was taken for {'an' if kind == 'int' else 'a'} "
        f"{kind}: the kind of a number is the same in every run.",
        fix="make it a float, with float(), before this operation",
    )


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where in the author's code something is staged."""

    location: Location | None
    function: str  # its name

    @staticmethod
    def here() -> CodePlace:
        """The innermost line of the author's."""
        frame = author_frame(sys._getframe(1))
        name = "<module>" if frame is None else frame.f_code.co_name
        return CodePlace(author_location(), name)


def raise_at(error: BaseException, place: CodePlace) -> NoReturn:
    """Raise ``error`` as if the author's line did: its traceback ends there."""
    location = place.location
    locate(error, location)
    if location is None:
        raise error
    import ast  # here: an error is rare, and importing hybrid common

    statement = ast.Raise(exc=ast.Name("error", ast.Load()))
    module = ast.fix_missing_locations(ast.Module([statement], []))
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = location.line
    code = compile(module, location.path, "exec").replace(co_name=place.function)
    exec(code, {"error": error.with_traceback(None)})
    raise AssertionError("the code raises")  # pragma: no cover


def region(name: str, types: Sequence[TensorType], body: Body) -> Graph:
    """The closed region whose nodes and results ``body(builder, params)`` gives."""
    builder = Builder(name)
    builder.location = author_location()
    params = [builder.param(t) for t in types]
    return builder.finish(tuple(body(builder, params)))


def call_python(
    builder: Builder, values: Sequence[Value], function: Any, types: tuple[TensorType, ...]
) -> tuple[Value, ...]:
    """Append a call of ``function``, of arrays, to a region."""
    return builder.apply(py_call, values, {"function": function, "types": types})


def nothing(_builder: Builder, _values: Sequence[Value]) -> Sequence[Value]:
    """The body of a region that computes nothing."""
    return ()


def branch(
    passes: Tensor,
    operands: Sequence[Tensor],
    fast: Body,
    function: Callable[..., Any],
    results: tuple[TensorType, ...] = (),
) -> tuple[Tensor, ...]:
    """What the nodes of ``fast`` give where ``passes``, else ``function``, which may raise."""
    own = len(operands)
    function, operands = current().leaving(function, operands)
    types = [t.type for t in operands]
    regions = (
        region("then", types, lambda builder, values: fast(builder, values[:own])),
        region("else", types, lambda b, values: call_python(b, values, function, results)),
    )
    return tuple(results_of(current().apply(cond, (passes, *operands), {}, regions)))


def check(
    passes: Tensor,
    function: Callable[..., Any],
    operands: Sequence[Tensor],
    raises: Raises,
    arguments: Sequence[Any] | None = None,
) -> None:
    """Stage: unless ``passes``, call ``function``, which raises, with the numbers in ``operands``.

    ``arguments`` are those of ``function``, with HERE for each operand; by default the operands.
    """
    arguments = (HERE,) * len(operands) if arguments is None else tuple(arguments)
    call = NumberCall(function, arguments, (), CodePlace.here(), raises)
    branch(passes, operands, nothing, call)


def guarded(
    passes: Tensor,
    operands: Sequence[Tensor],
    fast: Body,
    function: Callable[..., Any],
    kind: str,
    raises: Raises,
) -> Tensor:
    """Where ``passes`` what the nodes of ``fast`` give; else what Python's ``function`` gives."""
    arguments = (HERE,) * len(operands)
    call = NumberCall(function, arguments, (kind,), CodePlace.here(), raises)
    return branch(passes, operands, fast, call, (TYPES[kind],))[0]


def host(
    function: Callable[..., Any],
    operands: Sequence[Tensor],
    kinds: tuple[str, ...],
    arguments: Sequence[Any] | None = None,
    raises: Raises = NUMERIC,
) -> tuple[Tensor, ...]:
    """Stage a call of ``function`` on the plain numbers; its results have ``kinds``."""
    arguments = (HERE,) * len(operands) if arguments is None else tuple(arguments)
    call = NumberCall(function, arguments, kinds, CodePlace.here(), raises)
    return host_call(call, operands, tuple([TYPES[kind] for kind in kinds]))


def host_call(
    call: OwnCall, operands: Sequence[Tensor], types: tuple[TensorType, ...]
) -> tuple[Tensor, ...]:
    """Stage ``call``, of arrays; its results have ``types``."""
    function, operands = current().leaving(call, operands)
    attrs = {"function": function, "types": types}
    return tuple(results_of(current().apply(py_call, operands, attrs)))
