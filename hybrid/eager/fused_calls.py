"""Graphs as wholes: optimized plans, and array functions of several ops that run as one plan.

A function under ``remembered`` is watched at its first calls with some types and arguments.  What
it has come to is one launch from then on: that of its only op, or the optimized plan of all.  For
sizes that are met for the first time there is code for all of them (``opened``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from hybrid.core.open_numbers import is_open, size_of, sizes_of_ints
from hybrid.core.timing import phase
from hybrid.core.types import DType, TensorType, dtype_of, tensor_type
from hybrid.eager.execution import (
    EAGER,
    Eager,
    in_float32,
    prepare,
    require_fit,
    stored_result,
)
from hybrid.eager.launch import Launch
from hybrid.eager.open_code import OpenCode, Run
from hybrid.eager.open_launch import UNOPENED, opens
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Builder, Graph, Node, Op, Value, get_op
from hybrid.ir.interpreter import apart
from hybrid.ir.op import results_of
from hybrid.ir.record import is_recording, record_call
from hybrid.memory import native
from hybrid.ops.communication.layout_op import is_laid
from hybrid.passes import Precomputation, run_parts, run_pipeline
from hybrid.passes.layouts.local_graph import local_graph
from hybrid.passes.layouts.rank_graph import graph_of_rank, is_shared
from hybrid.plan import Plan, make_plan

MAX_CONSTANT = 4096  # bytes that a remembered call keeps


def optimized(graph: Graph, *, fast: bool = False) -> Graph:
    """``graph`` after all passes; ``fast``: those that may change bits, too."""
    with phase("passes"):
        return run_pipeline(graph, evaluate=_evaluate, fast=fast)


def optimized_plan(
    graph: Graph, *, fast: bool = False, wanted: dict[int, TensorType] | None = None
) -> Plan:
    """The plan of the optimized ``graph``.

    Where ranks share tensors it is that of this rank; ``wanted`` are the types, with their layouts,
    of some results.
    """
    if not is_shared(graph):
        return make_plan(optimized(graph, fast=fast))
    graph, types, page = graph_of_rank(graph, wanted or {})
    return make_plan(optimized(graph, fast=fast), output_types=types, layouts=page)


def local_plan(graph: Graph, wanted: dict[int, TensorType] | None = None) -> Plan:
    """The plan of this rank for one op, of tensors that ranks share."""
    local = local_graph(graph, wanted or {})
    return make_plan(run_pipeline(local.graph), output_types=local.results)


def split(
    graph: Graph, fixed: Collection[int], *, fast: bool = False
) -> tuple[Graph, Precomputation | None]:
    """The optimized ``graph`` without what can be computed ahead, and both parts, if any can."""
    with phase("passes"):
        return run_parts(graph, fixed, evaluate=_evaluate, fast=fast)


def optimized_parts(
    graph: Graph, fixed: Collection[int], *, fast: bool = False
) -> tuple[Plan, tuple[int, ...], Plan | None]:
    """The plan of the optimized ``graph``, and what it leaves to be computed ahead, if anything.

    ``fixed`` are the parameters that stay the same from run to run: the results of the second plan,
    which takes those in the middle, are further inputs of the first one.
    """
    rest, parts = split(graph, fixed, fast=fast)
    plan = make_plan(rest)
    return (plan, (), None) if parts is None else (plan, parts.params, make_plan(parts.graph))


def _evaluate(
    op: Op, operands: Sequence[tuple[TensorType, bytes]], attrs: dict[str, Any]
) -> list[tuple[TensorType, bytes]]:
    """Run ``op`` on constants: the same kernels as anywhere else."""
    tensors = [
        make_tensor(t, native.borrow(np.frombuffer(data or b"\0", np.uint8)))
        for t, data in operands
    ]
    results = EAGER.run(op, tensors, op.attributes(attrs))
    return [(r.type, bytes(native.view(r.content, r.type.nbytes))) for r in results]


class Noting(Eager):
    """Eager, whose calls of ops come to ``call`` with operands that are ready for kernels."""

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        narrow = stored_result(op, operands)
        if narrow is not None:
            return in_float32(self, op, operands, attrs, narrow)
        results = self.call(op, prepare(self, op, operands), attrs, regions)
        return results[0] if len(results) == 1 else results

    def call(
        self, op: Op, tensors: Sequence[Tensor], attrs: dict[str, Any], regions: tuple
    ) -> tuple[Tensor, ...]:
        """The results of a call, unrecorded."""
        return self.run(op, tensors, op.attributes(attrs), regions)


class _Watcher(Noting):
    """Eager, which notes what it does as a graph of the tensors given."""

    def __init__(self, given: Sequence[Tensor]) -> None:
        self.builder = Builder()
        self.values: dict[int, Value] = {}
        self.kept: list[Tensor] = []  # alive, so that no id comes again
        self.bytes: dict[Value, Value] = {}  # of values that are others under another type
        self.launches: list[tuple[Launch | None, Node]] = []  # of all that compute
        self.whole = True  # as far as is known
        for tensor in given:
            self._note(tensor, self.builder.param(tensor.type))

    def _note(self, tensor: Tensor, value: Value) -> None:
        self.values[id(tensor)] = value
        self.kept.append(tensor)

    def call(
        self, op: Op, tensors: Sequence[Tensor], attrs: dict[str, Any], regions: tuple
    ) -> tuple[Tensor, ...]:
        has_record = is_recording() and any(t.record is not None for t in tensors)
        if regions or not op.pure or has_record:
            self.whole = False
            return results_of(Eager.apply(self, op, tensors, attrs, regions))
        given = op.attributes(attrs)
        results = self.run(op, tensors, given)
        if self.whole:
            self._add(op, tensors, given, results)
        return results

    def _add(
        self, op: Op, tensors: Sequence[Tensor], given: Any, results: Sequence[Tensor]
    ) -> None:
        values = [self._value(tensor) for tensor in tensors]
        self.whole = all(value is not None for value in values)
        if not self.whole:
            return
        for tensor, value in zip(results, self.builder.apply(op, values, given), strict=True):
            self._note(tensor, value)
        types = tuple([t.type for t in tensors])
        launch = op.launches.get((types, given) if given else types)
        node = self.builder.nodes[-1]
        if launch is not None and launch.is_alias:
            self.bytes[node.results[0]] = self._bytes(node.operands[0])
        else:
            self.launches.append((launch, node))

    def _bytes(self, value: Value) -> Value:
        return self.bytes.get(value, value)

    def _value(self, tensor: Tensor) -> Value | None:
        value = self.values.get(id(tensor))
        if value is not None or tensor.type.nbytes > MAX_CONSTANT or tensor.type.layout:
            return value
        data = bytes(native.view(tensor.content, tensor.type.nbytes))
        attrs = {"shape": tensor.type.shape, "dtype": tensor.type.dtype, "data": data}
        [value] = self.builder.apply(get_op("literal"), (), attrs)
        self._note(tensor, value)
        return value

    def _values_of(self, result: Any) -> list[Value | None]:
        """Those of a tensor, or of each in a list or tuple; none if not all is known."""
        parts = [result] if type(result) is Tensor else result
        if not self.whole or not isinstance(parts, (list, tuple)):
            return []
        return [self.values.get(id(x)) for x in parts]

    def launch(self, result: Any, plan: bool) -> Any:
        """What gives ``result`` again of tensors like those given: see ``watched``."""
        values, params = self._values_of(result), self.builder.params
        if not values:
            return None
        if not params and type(result) is Tensor and result.type.nbytes <= MAX_CONSTANT:
            return _constant(result)
        if len(set(values)) < len(values) or any(v is None or v in params for v in values):
            return None
        if self._is_one(params, values):
            launch = self.launches[0][0] if self.launches else None
            if type(result) is Tensor:
                return launch if launch and launch.type is result.type else _Retyped(launch, result)
        else:
            launch = self._whole_launch(self.builder.finish(values)) if plan else False
        return (
            launch if type(result) is Tensor or not launch else _PartsLaunch(launch, _maker(result))
        )

    def _whole_launch(self, graph: Graph) -> Launch:
        return Launch(graph if is_laid(graph) else optimized(graph))

    def recipe(self, result: Any) -> _Recipe | None:
        """What gives ``result`` again op by op: see ``learned``."""
        values, params = self._values_of(result), self.builder.params
        if not values or any(v is None or v in params for v in values):
            return None
        if any([v.type.layout is not None for v in params]):  # results have types of their own
            return None
        return _Recipe(self.builder, values, None if type(result) is Tensor else _maker(result))

    def _is_one(self, params: Sequence[Value], values: Sequence[Value]) -> bool:
        """Whether one launch, on the bytes of the parameters, makes those of ``values``."""
        bytes_ = tuple(map(self._bytes, values))
        if not self.launches:
            return len(params) == 1 and bytes_ == tuple(params)
        [(launch, node), *others] = self.launches
        given = tuple(map(self._bytes, node.operands))
        made = bytes_ == node.results and (len(values) == 1 or not self.bytes)
        return not others and launch is not None and made and given == tuple(params)


class _GraphWriter(Noting):
    """Eager, which writes down what it is to do, of tensors without values."""

    def __init__(self, name: str) -> None:
        self.builder = Builder(name)

    def call(
        self, op: Op, tensors: Sequence[Tensor], attrs: dict[str, Any], regions: tuple
    ) -> tuple[Tensor, ...]:
        values = [t.content for t in tensors]
        made = self.builder.apply(op, values, op.attributes(attrs), regions=regions)
        return tuple([make_tensor(value.type, value) for value in made])


def plan_of(name: str, call: Callable[..., Sequence[Tensor]], types: Sequence[TensorType]) -> Plan:
    """The plan of ``call``, which makes several tensors of those of ``types``, and no other ones.

    It looks at no values, and gives none of its tensors back.
    """
    writer = _GraphWriter(name)
    tensors = [make_tensor(type, writer.builder.param(type)) for type in types]
    with apart(writer):
        made = call(*tensors)
    return make_plan(optimized(writer.builder.finish([t.content for t in made])))


class _Recipe:
    """The ops that a function calls, one by one, so that histories are those of the function."""

    __slots__ = ("make", "places", "steps")

    def __init__(self, builder: Builder, values: Sequence[Value], make: Any) -> None:
        self.make = make
        at = {value: i for i, value in enumerate(builder.params)}
        self.steps: list[tuple[Op, Any, dict[str, Any], Any, list[int]]] = []
        for node in builder.nodes:
            types, attrs = tuple([v.type for v in node.operands]), node.attrs
            places = [at[v] for v in node.operands]
            self.steps.append(
                (node.op, attrs, dict(attrs), (types, attrs) if attrs else types, places)
            )
            at.update((value, len(at)) for value in node.results)
        self.places = [at[value] for value in values]

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The results on ``tensors``, some of which have a history."""
        held = list(tensors)
        for op, attrs, named, key, places in self.steps:
            operands = [held[i] for i in places]
            launch = op.launches.get(key)
            results = launch.run(operands) if launch else EAGER.run(op, operands, attrs)
            for t in operands:
                if t.record is not None:
                    record_call(op, operands, named, results)
                    break
            held += results
        found = [held[i] for i in self.places]
        return found[0] if self.make is None else self.make(found)


class _Retyped:
    """A launch (None: nothing to compute) whose result has another shape than it says."""

    __slots__ = ("launch", "type")

    def __init__(self, launch: Launch | None, result: Tensor) -> None:
        self.launch, self.type = launch, result.type

    def run(self, operands: Sequence[Tensor]) -> tuple[Tensor]:
        made = operands if self.launch is None else self.launch.run(operands)
        return (make_tensor(self.type, made[0].content),)


def _maker(result: Any) -> Callable[[tuple[Tensor, ...]], Any]:
    """What puts the parts of ``result`` together."""
    return getattr(type(result), "_make", type(result))


class _PartsLaunch:
    """A launch whose results are the parts of a list or tuple."""

    __slots__ = ("launch", "make")

    def __init__(self, launch: Launch, make: Callable[[tuple[Tensor, ...]], Any]) -> None:
        self.launch, self.make = launch, make

    def run(self, operands: Sequence[Tensor]) -> tuple[Any]:
        return (self.make(self.launch.run(operands)),)


class _Constant:
    """What gives one value again and again, each time in memory of its own: others may write it."""

    __slots__ = ("data", "make", "nbytes", "storage", "type")

    def __init__(self, result: Tensor) -> None:
        self.type, self.nbytes = result.type, result.type.nbytes
        self.data = native.part(result.content, 0, self.nbytes)  # the result's may be lent
        self.make, self.storage = native.storage(self.nbytes)

    def run(self, _operands: Sequence[Tensor]) -> tuple[Tensor]:
        data = self.make(self.storage)
        native.move(data, self.data, self.nbytes)
        return (make_tensor(self.type, data),)


def _constant(result: Tensor) -> _Constant | None:
    """A launch that gives ``result``, unless that is large or has a history."""
    kept = result.type.nbytes <= MAX_CONSTANT and result.record is None
    return _Constant(result) if kept and not isinstance(result.content, Value) else None


def watched(call: Callable[..., Any], tensors: tuple[Tensor, ...], plan: bool) -> tuple[Any, Any]:
    """The result of ``call`` on ``tensors``, and the launch on tensors like these.

    The ``run`` of the launch gives a sequence of which the first is the result: None if there is
    none, False if it takes a plan and ``plan`` is False.
    """
    if len({id(x) for x in tensors}) < len(tensors):  # one given twice is two, as others may be
        tensors = tuple([make_tensor(x.type, x.content) for x in tensors])
    watcher = _Watcher(tensors)
    with apart(watcher):
        result = call(*tensors)
    return result, watcher.launch(result, plan)


def learned(call: Callable[..., Any], tensors: tuple[Tensor, ...]) -> _Recipe | None:
    """What calls the ops of ``call`` one by one, as gradients need; None if nothing can."""
    tensors = tuple([make_tensor(x.type, x.content) for x in tensors])
    watcher = _Watcher(tensors)
    with apart(watcher):
        return watcher.recipe(call(*tensors))


# Open calls -------------------------------------------------------------------------------------


class _OpenWriter(Noting):
    """Eager, which writes the code of what it is to do, of tensors without values."""

    def __init__(self, code: OpenCode) -> None:
        self.code = code
        self.names: dict[Value, str] = {}

    def tensor(self, type_: Any, name: str) -> Tensor:
        """One that the code calls ``name``."""
        value = Value(type_, name)
        self.names[value] = name
        return make_tensor(type_, value)

    def name(self, tensor: Tensor) -> str:
        """What the code calls ``tensor``."""
        if isinstance(tensor.content, Value):
            return self.names[tensor.content]
        if tensor.type.nbytes > MAX_CONSTANT:
            raise TypeError("a large tensor that is not given")
        return self.code.constant(tensor)

    def call(
        self, op: Op, tensors: Sequence[Tensor], attrs: dict[str, Any], regions: tuple
    ) -> tuple[Tensor, ...]:
        if regions or not opens(op):
            raise TypeError(f"{op.name} has no open launches")
        given = op.attributes({name: sizes_of_ints(value) for name, value in attrs.items()})
        names, types = [self.name(t) for t in tensors], [t.type for t in tensors]
        results = self.code.call(op, names, types, given)
        self.code.record(op, names, given, results)
        return tuple([self.tensor(type_, name) for name, type_ in results.items()])

    def lift(self, obj: Any, dtype: DType | None = None) -> Tensor:
        if not is_open(obj):
            return super().lift(obj, dtype)
        dtype = dtype or dtype_of(obj.__class__)
        require_fit(size_of(obj), dtype)
        return self.tensor(tensor_type(dtype, ()), self.code.number(size_of(obj), dtype, EAGER))


def opened(call: Callable[..., Any], tensors: Sequence[Tensor]) -> Run | None:
    """What ``call`` does, for tensors like these of all sizes; None if there can be nothing."""
    if any([t.type.kind < 0 for t in tensors]):
        return None
    code = OpenCode([t.type for t in tensors])
    writer = _OpenWriter(code)
    given = [writer.tensor(type_, f"a{i}") for i, type_ in enumerate(code.types)]
    try:
        with apart(writer):
            result = call(*given)
        parts = [result] if type(result) is Tensor else result
        if type(parts) not in (list, tuple) and not hasattr(parts, "_make"):
            return None
        if any([type(part) is not Tensor or any([part is t for t in given]) for part in parts]):
            return None  # a function that gives back what it is given
        names = "".join([f"{writer.name(part)}, " for part in parts])
        if type(result) is Tensor:
            return code.finish(names[:-2])
        maker = getattr(type(result), "_make", type(result))
        return code.finish(f"{code.constant(maker)}(({names}))")
    except UNOPENED:
        return None
