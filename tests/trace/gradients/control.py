"""Control-flow ops written by hand: nodes whose regions are traced from functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.core.types import TensorType, tensor_type
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Builder, Graph
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.op import results_of
from hybrid.ir.record import recording
from hybrid.ops.flow.control import COUNT, cond, for_, while_
from hybrid.trace.regions.tracer import Tracer


def region(name: str, types: Sequence[TensorType], function: Callable[..., Any]) -> Graph:
    """The closed graph of ``function`` on tensors of ``types``."""
    tracer = Tracer(Builder(name))
    values = [tracer.builder.param(type) for type in types]
    tracer.owned.update(values)
    with interpreting(tracer), recording(False):
        found = function(*[make_tensor(v.type, v) for v in values])
        found = found if isinstance(found, (tuple, list)) else (found,)
        return tracer.builder.finish([tracer.traced(tracer.lift(t)).content for t in found])


def lifted(objects: Sequence[Any]) -> list[Tensor]:
    return [t if isinstance(t, Tensor) else current().lift(t) for t in objects]


def apply(op: Any, operands: Sequence[Any], regions: tuple[Graph, ...], **attrs: Any) -> list:
    return list(results_of(current().apply(op, lifted(operands), attrs, regions)))


def if_(pred: Any, operands: Sequence[Any], then: Callable, otherwise: Callable) -> list[Tensor]:
    """The results of one of two functions of ``operands``."""
    operands = lifted(operands)
    types = [t.type for t in operands]
    regions = (region("then", types, then), region("else", types, otherwise))
    return apply(cond, (pred, *operands), regions)


def loop(
    count: Any,
    body: Callable,
    carried: Sequence[Any],
    shared: Sequence[Any] = (),
    slices: Sequence[Any] = (),
    length: int = 0,
    reverse: bool = False,
) -> list[Tensor]:
    """A ``for`` of ``body(i, carried..., slices..., shared...)``."""
    carried, shared, slices = lifted(carried), lifted(shared), lifted(slices)
    rows = [tensor_type(t.dtype, t.shape[1:]) for t in slices]
    types = [COUNT, *(t.type for t in carried), *rows, *(t.type for t in shared)]
    graph = region("body", types, body)
    attrs = {"length": length, "reverse": reverse, "sliced": len(slices)}
    operands = (count, *carried, *slices, *shared)
    return apply(for_, operands, (graph,), carried=len(carried), **attrs)


def loop_while(
    test: Callable,
    body: Callable,
    carried: Sequence[Any],
    shared: Sequence[Any] = (),
    length: int = 0,
) -> list[Tensor]:
    """A ``while`` of ``test`` and ``body``, both of (carried..., shared...)."""
    carried, shared = lifted(carried), lifted(shared)
    n = len(carried)

    def rotated(*ts: Tensor) -> tuple:
        found = body(*ts)
        found = found if isinstance(found, (tuple, list)) else (found,)
        return (test(*lifted(found[:n]), *ts[n:]), *found)

    graph = region("body", [t.type for t in (*carried, *shared)], rotated)
    go = test(*carried, *shared)
    return apply(while_, (go, *carried, *shared), (graph,), carried=n, length=length)


def f64(values: Any) -> Tensor:
    return hy.asarray(np.asarray(values, np.float64))


def bits(tree: Any) -> list[bytes]:
    """What is in the tensors of a result, bit for bit."""
    return [np.asarray(leaf.numpy()).tobytes() for leaf in hy_leaves(tree)]


def hy_leaves(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for item in tree for leaf in hy_leaves(item)]
