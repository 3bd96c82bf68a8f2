"""What gradient recording keeps of each op call: records, leaves and the recording mode.

A Tensor's current value has a ``record`` when a gradient may be asked with respect to something it
came from.  Records hold values, not cells: writing to a Tensor later does not change them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import Any

from hybrid.config import advance_epoch
from hybrid.core.types import TensorType
from hybrid.ir.op import Op

_sequence = itertools.count()


class Leaf:
    """The record of a value that gradients are asked for; ``grad`` is what backward() adds to.

    A tensor keeps its leaf while it is ``frozen``: backward() adds nothing to it meanwhile.
    """

    __slots__ = ("__weakref__", "frozen", "grad", "sequence", "type")
    parents: tuple[()] = ()

    def __init__(self, type: TensorType) -> None:
        self.type, self.grad, self.frozen = type, None, False
        self.sequence = next(_sequence)


class Boundary(Leaf):
    """While tracing: where the history of a captured value leaves the traced function."""

    __slots__ = ("outside",)

    def __init__(self, type: TensorType, outside: Record | Output) -> None:
        super().__init__(type)
        self.outside = outside


class ShardLeaf(Leaf):
    """A leaf in place of that of a parameter, while a model is called whose gradients are summed up
    over processes.

    ``backward()`` hands what arrives at it to the way back of ``call``, which gives the gradients
    of parameters; ``place`` is the number of the parameter, and that of the shard of rows.
    """

    __slots__ = ("call", "place")
    used = False  # by anything in this process

    def __init__(self, type: TensorType, call: Any, place: tuple[int, int]) -> None:
        super().__init__(type)
        self.call, self.place = call, place
        ShardLeaf.used = True


class Record:
    """One op call: what its vjp needs, and the records of its operands."""

    __slots__ = ("__weakref__", "attrs", "op", "parents", "results", "saved", "sequence")

    def __init__(
        self,
        op: Op,
        attrs: dict[str, Any],
        parents: tuple[Leaf | Record | Output | None, ...],
        saved: tuple[Any, ...],
        results: tuple[Any, ...],
    ) -> None:
        self.op, self.attrs, self.parents = op, attrs, parents
        # Per operand (type, data, record) when the vjp reads it, else its type; per result (type,
        # data) or its type.  None once backward() has used the history.
        self.saved: tuple[Any, ...] | None = saved
        self.results: tuple[Any, ...] | None = results
        self.sequence = next(_sequence)

    def free(self) -> None:
        """Let go of what the vjp needed: nobody walks this again."""
        self.saved = self.results = None
        self.parents = ()


class Output:
    """Result ``index`` of a record of several results."""

    __slots__ = ("index", "record")

    def __init__(self, record: Record, index: int) -> None:
        self.record, self.index = record, index


AnyRecord = Leaf | Record | Output


def gradient_leaf(tensor: Any) -> Leaf | None:
    """The leaf that holds the gradient of ``tensor``, which may be frozen; None if it has none."""
    return getattr(tensor, "leaf", None) or getattr(tensor, "frozen_leaf", None)


def latest() -> int:
    """A number that all records made from now on have a higher ``sequence`` than."""
    return next(_sequence)


def node_of(record: AnyRecord) -> tuple[Leaf | Record, int]:
    """The node behind a tensor's record, and which of its results the tensor is."""
    return (record.record, record.index) if type(record) is Output else (record, 0)


def _lost() -> Record:
    record = Record(None, {}, (), (), ())  # type: ignore[arg-type]
    record.saved = record.results = None
    return record


LOST = _lost()  # of a value whose history went with the run that raised after it was written
# Of a result of a plan that has called a model whose gradients are summed up over processes: the
# plan has no way back to the stand-ins of its parameters.
SEVERED = _lost()


def is_consumed(record: AnyRecord) -> bool:
    """Return whether backward() has freed a part of the history of ``record``."""
    seen: set[Any] = set()
    stack: list[Any] = [record]
    while stack:
        found = stack.pop()
        node = getattr(found, "record", found)
        if node is None or node in seen or not isinstance(node, Record):
            continue
        seen.add(node)
        if node.saved is None:
            return True
        stack.extend(node.parents)
    return False


class _Mode(threading.local):
    enabled = True
    keep_operands = False  # forward mode reads operands that no vjp reads
    orders = 0  # gradients of functions that are being taken, one of the other


_mode = _Mode()


def is_recording() -> bool:
    """Whether this thread records op calls for gradients."""
    return _mode.enabled


def orders() -> int:
    """How many gradients of functions this thread is taking, one of the other."""
    return _mode.orders


Mode = tuple[bool, bool, int]


def mode() -> Mode:
    """Whether this thread records, whether its records keep all operands, and ``orders``."""
    return _mode.enabled, _mode.keep_operands, _mode.orders


def set_mode(enabled: bool, keep_operands: bool, orders: int) -> None:
    """Put back what ``mode`` gave."""
    _mode.enabled, _mode.keep_operands, _mode.orders = enabled, keep_operands, orders


class recording(ContextDecorator):
    """Turn recording on or off for this thread."""

    # No generator: one that an interrupt leaves open would end whenever its traceback goes.
    __slots__ = ("enabled", "saved")

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def _recreate_cm(self) -> recording:
        return recording(self.enabled)  # a decorated function may call itself

    def __enter__(self) -> None:
        self.saved = _mode.enabled
        _mode.enabled = self.enabled

    def __exit__(self, *_error: object) -> None:
        _mode.enabled = self.saved


class differentiating(recording):
    """Record, for a gradient of a function that is being taken."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(True)

    def __enter__(self) -> None:
        super().__enter__()
        _mode.orders += 1

    def __exit__(self, *_error: object) -> None:
        _mode.orders -= 1
        super().__exit__()


class keeping_operands:
    """Let records of this thread keep all operands and results, not just those a vjp reads."""

    __slots__ = ("saved",)

    def __enter__(self) -> None:
        self.saved = _mode.keep_operands
        _mode.keep_operands = True

    def __exit__(self, *_error: object) -> None:
        _mode.keep_operands = self.saved


_new = object.__new__
_NO_ATTRS: dict[str, Any] = {}


def with_regions(attrs: Any, regions: tuple) -> dict[str, Any]:
    """The attributes of a call, and its regions, as its derivative rules get them."""
    return {**dict(attrs), "regions": regions} if regions else dict(attrs)


def record_call(op: Op, operands: Any, attrs: dict[str, Any], results: Any) -> None:
    """Attach a record to ``results``, since an operand has one, if this thread records at all.

    ``results`` is a tuple of fresh Tensors; ``operands`` are Tensors.
    """
    mode = _mode
    if not mode.enabled or not op.differentiable:
        if mode.enabled and op.record_of is not None:
            results[0].record = operands[op.record_of].record
        return
    saves = op.saved
    if mode.keep_operands:
        saves = (True,) * (1 + len(operands))
    elif op.variadic:
        saves = saved_of_many(saves, len(operands))
    key = saves, len(operands), len(results)
    record = _recorders.get(key)
    if record is None:
        if len(operands) + len(results) > _FEW:
            _record_many(saves, op, attrs, operands, results)
            return
        record = _recorders[key] = _recorder(*key)
    record(op, attrs, operands, results)


def saved_of_many(saves: tuple[bool, ...], count: int) -> tuple[bool, ...]:
    """``saved`` of an op of any number of operands, where there are ``count``."""
    return saves[:1] + saves[1:2] * count


def _record_many(
    saves: tuple[bool, ...], op: Op, attrs: dict[str, Any], operands: Any, results: Any
) -> None:
    """The same of more tensors than code is written for."""
    keep_results, *keep = saves if True in saves else (False,) * (1 + len(operands))
    record = _new(Record)
    record.op, record.attrs, record.sequence = op, attrs, next(_sequence)
    record.parents = tuple([t.record for t in operands])
    record.saved = tuple(
        [
            (t.type, t.content, t.record) if whole else t.type
            for t, whole in zip(operands, keep, strict=True)
        ]
    )
    record.results = tuple([(t.type, t.content) if keep_results else t.type for t in results])
    for index, t in enumerate(results):
        if t.type.floating:
            t.record = record if len(results) == 1 else Output(record, index)


_FEW = 12  # operands and results of a call that has code of its own
_recorders: dict[tuple[tuple[bool, ...], int, int], Any] = {}
RECORD_NAMES = {
    "Output": Output, "Record": Record, "mode": _mode, "new": _new, "record_call": record_call,
    "sequence": _sequence,
}  # fmt: skip


def _recorder(saves: tuple[bool, ...], n_operands: int, n_results: int) -> Any:
    """A function that records calls of so many operands and results, of which some are saved."""
    operands, results = [f"a{i}" for i in range(n_operands)], [f"r{i}" for i in range(n_results)]
    lines = [
        f"[{', '.join(operands)}], [{', '.join(results)}] = operands, results",
        *record_code(saves, operands, results),
    ]
    text = "def record(op, attrs, operands, results):\n" + "".join([f" {line}\n" for line in lines])
    names = dict(RECORD_NAMES)
    exec(compile(text, "<record>", "exec"), names)
    return names["record"]


def record_code(
    saves: tuple[bool, ...], operands: Sequence[str], results: Sequence[str]
) -> list[str]:
    """Lines that attach a record to tensors of the names ``results``: what ``record_call`` does.

    They look up ``op``, ``attrs``, and the names of ``RECORD_NAMES``.  ``saves`` says whether
    results are saved, and which operands; where nothing is, it may be shorter.
    """
    keep_results, *keep = saves if True in saves else (False,) * (1 + len(operands))

    def kept(name: str, whole: bool, parts: str) -> str:
        return f"({parts.format(name)})" if whole else f"{name}.type"

    parts = "{0}.type, {0}.content, {0}.record"
    saved = [kept(name, whole, parts) for name, whole in zip(operands, keep, strict=True)]
    made = [kept(name, keep_results, "{0}.type, {0}.content") for name in results]
    records = [f"Output(record, {at})" for at in range(len(results))]
    records = ["record"] if len(results) == 1 else records
    return [
        "record = new(Record)",
        "record.op, record.attrs, record.sequence = op, attrs, next(sequence)",
        f"record.parents = ({''.join([f'{name}.record, ' for name in operands])})",
        f"record.saved = ({''.join([f'{part}, ' for part in saved])})",
        f"record.results = ({''.join([f'{part}, ' for part in made])})",
        *[
            f"if {name}.type.floating: {name}.record = {made_record}"
            for name, made_record in zip(results, records, strict=True)
        ],
    ]


def record_binary(op: Op, a: Any, b: Any, result: Any) -> None:
    """``record_call`` for an op of two operands, one floating result and no attributes.

    Spelled out, because recording an operator should cost little more than running it.
    """
    mode = _mode
    if mode.keep_operands or not mode.enabled or not op.differentiable:
        record_call(op, (a, b), _NO_ATTRS, (result,))
        return
    keep_result, keep_a, keep_b = op.saved
    record = result.record = _new(Record)
    record.op, record.attrs, record.sequence = op, _NO_ATTRS, next(_sequence)
    a_record, b_record = a.record, b.record
    record.parents = (a_record, b_record)
    record.saved = (
        (a.type, a.content, a_record) if keep_a else a.type,
        (b.type, b.content, b_record) if keep_b else b.type,
    )
    record.results = ((result.type, result.content) if keep_result else result.type,)


def set_record(cell: Any, record: AnyRecord | None) -> None:
    """Let the value of ``cell`` have the history ``record``; without one it may be a variable."""
    record = record or getattr(cell, "leaf", None)
    if (record is None) != (cell.record is None):
        advance_epoch()  # captures depend on which cells gradients flow to
    cell.record = record
