"""debug: a block in which the first NaN is an error of the op that made it.

Every op is looked at, eagerly and in hybridized functions, which run op by op in the block: their
bits are the same.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.autodiff.tape import apply_vjp
from hybrid.core.types import bfloat16, float32
from hybrid.eager.execution import Eager
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, CaptureError, Location, NonFiniteError, author_location
from hybrid.ir import Op
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.record import AnyRecord, Record

# By ops that are often the place: what to write.
_FIXES = {
    "divide": "keep the denominator away from 0: x / (y + 1e-12)",
    "exp": "subtract the maximum first, or use softmax or logsumexp",
    "log": "keep what it is given above 0: hybrid.log(hybrid.clip(x, 1e-12)), or use log_softmax",
    "pow": "keep the base above 0, or the exponent an integer",
    "sqrt": "keep what it is given at 0 or above: hybrid.sqrt(hybrid.clip(x, 0))",
}
_FIXES_OF_GRADIENTS = {
    "divide": _FIXES["divide"],
    "log": _FIXES["log"],
    "pow": "keep the base away from 0, where the slope is infinite",
    "sqrt": "add a small number: hybrid.sqrt(x + 1e-12); at 0 the slope is infinite",
    "where": "choose before the function, not behind it: f(hybrid.where(c, x, 1.0))",
}


class Debug(Eager):
    """Eager, which looks at what every op gives."""

    watches = True

    def __init__(self, nans: bool, infs: bool) -> None:
        self.nans, self.infs = nans, infs
        self._first_inf = ""  # which op gave it, and where
        self._places: weakref.WeakKeyDictionary[Record, Location] = weakref.WeakKeyDictionary()
        self._looks = False  # whether this is what looks

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        found = super().apply(op, operands, attrs, regions)
        if not self._looks:
            self._looks = True
            try:
                for result in found if isinstance(found, tuple) else (found,):
                    self._look(op, operands, result)
            finally:
                self._looks = False
        return found

    def _look(self, op: Op, operands: Sequence[Any], result: Any) -> None:
        if not isinstance(result, Tensor) or not result.dtype.is_floating:
            return
        self._note(result.record)
        values = _array(result)
        if np.isfinite(values).all():
            return
        given = [_array(t) for t in operands if isinstance(t, Tensor) and t.dtype.is_floating]
        nans = np.isnan(values)
        if nans.any():
            if self.nans and not any([np.isnan(array).any() for array in given]):
                raise self._error(op, operands, "NaN", nans)
        elif given and all([np.isfinite(array).all() for array in given]):
            if self.infs:
                raise self._error(op, operands, "inf", ~np.isfinite(values))
            self._first_inf = self._first_inf or f"{op.name}, {author_location()}"

    def _note(self, record: AnyRecord | None) -> None:
        """Keep the author's line of what has a history, for the way back."""
        node = getattr(record, "record", record)
        if type(node) is Record and node not in self._places:
            at = author_location()
            if at is not None:
                self._places[node] = at

    def _error(
        self, op: Op, operands: Sequence[Any], what: str, where: np.ndarray
    ) -> NonFiniteError:
        first = np.argwhere(where)[0].tolist()
        many = f"{int(where.sum())} of {where.size} elements" if where.ndim else "its one element"
        shown = f"{what} in {many}" + (f", the first at {first}" if first else "")
        node, here = _pulled_call(), author_location()
        of = op.name if node is None else f"the gradient of {node.op.name}"
        why = [f"Its operands: {'; '.join([_described(t) for t in operands]) or 'none'}."]
        if node is not None:
            why.append(f"The gradient was asked for at {here}; there {op.name} made it.")
        if what == "NaN" and self._first_inf:
            why.append(f"The first inf came from {self._first_inf}.")
        fixes, name = (_FIXES, op.name) if node is None else (_FIXES_OF_GRADIENTS, node.op.name)
        at = here if node is None else self._places.get(node, here)
        return NonFiniteError(
            f"{of} gave {shown}", at=at, why="\n".join(why), fix=fixes.get(name, "")
        )


def _array(tensor: Tensor) -> np.ndarray:
    narrow = tensor.dtype is bfloat16
    return (ops.cast(tensor.detach(), dtype=float32) if narrow else tensor).numpy()


def _pulled_call() -> Record | None:
    """The call whose gradient is under way on this thread, if one is."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is apply_vjp.__code__:
            return frame.f_locals["node"]
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _described(operand: Any) -> str:
    if not isinstance(operand, Tensor):
        return repr(operand)
    values = _array(operand)
    if not values.size:
        return str(operand.type)
    if values.ndim == 0:
        return f"{operand.type} {values}"
    with np.errstate(all="ignore"):
        return f"{operand.type} from {values.min()} to {values.max()}"


class debug(interpreting):
    """A block in which the first NaN is an error of the op that made it.

    ``nans`` raises NonFiniteError where an op gives NaN and none of its operands had one, with the
    op, the author's line, where in the result, what the operands were, and where the first inf came
    from; on the way back of ``backward()`` the line is that of the op whose gradient it is.
    ``infs`` raises where an op makes inf of finite operands, too.  Hybridized functions run op by
    op in the block, to the same bits.  What other threads and streams compute is not looked at::

        with hybrid.debug(nans=True):
            train_step(x, y)
    """

    __slots__ = ()

    def __init__(self, *, nans: bool = True, infs: bool = False) -> None:
        for name, value in (("nans", nans), ("infs", infs)):
            if not isinstance(value, bool):
                raise ArgumentError(f"debug got {name}={value!r}", fix="give True or False")
        super().__init__(Debug(nans, infs))

    def __enter__(self) -> None:
        if current().traces:
            raise CaptureError(
                "hybrid.debug was asked for inside a hybridized function",
                at=author_location(),
                why="A graph has no ops to look at one by one while it runs.",
                fix="write it around the call",
            )
        super().__enter__()
