"""Checks: conditions that are looked at when the plan runs, and raise what eager would raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from hybrid import ops
from hybrid.convert.late import Late, LateCall, call_late
from hybrid.errors import Location, author_location
from hybrid.number import Number
from hybrid.number.staging import branch, call_python
from hybrid.ops.control import FLAG
from hybrid.tensor import Tensor
from hybrid.types import bool_

Raised = BaseException | type[BaseException] | Callable[..., Any]


def check(
    condition: Tensor | Number, error: Raised, *values: Any, at: Location | None = None
) -> None:
    """Stage: unless ``condition`` (a bool of one element) holds, raise ``error``.

    ``error`` is an exception, whose arguments may be or mention traced values, a class of them, or
    a function that gets ``values`` when the plan runs and returns or raises one.  The exception
    has the class and arguments that it has eagerly; ``at`` goes with it as a note.
    """
    passes = condition.tensor if type(condition) is Number else condition
    if passes.type is not FLAG:
        passes = ops.astype(ops.reshape(passes, ()), bool_)
    late = Late((error, *values))
    call = LateCall(_raise, late, at or author_location())
    branch(
        passes,
        late.operands,
        lambda _builder, _values: (),
        lambda builder, operands: call_python(builder, operands, call, ()),
    )


def fail(error: Raised, *values: Any) -> None:
    """Stage: raise ``error``, as ``check`` does, whenever the plan gets here."""
    call_late(_raise, error, *values)


def _raise(error: Any, *values: Any) -> NoReturn:
    if not isinstance(error, BaseException):
        error = error(*values)
    raise error
