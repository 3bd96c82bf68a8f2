"""Find the results of a capture that are existing tensors, in every run or where a flag holds.

::

    z = x if s > 0 else y  # a result of the graph; but the caller gets x itself, or y
    return z, x
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from hybrid.eager.tensor import Tensor
from hybrid.ir import Value
from hybrid.trace.capture.captured_graph import Alias
from hybrid.trace.capture.outputs import KnownValues
from hybrid.trace.regions.ties import Unfollowed, is_in_doubt, ties_of
from hybrid.trace.regions.tracer import Tracer


def found_aliases(
    tracer: Tracer,
    tensors: Sequence[Tensor],
    output_of: Mapping[int, int],
    known: KnownValues,
    outputs: list[Value],
) -> tuple[Alias, ...]:
    """Return an Alias for each of ``tensors`` that may be an input or an earlier result.

    ``output_of`` gives the graph result of a tensor by its id.  The flags that say where an alias
    holds are added to ``outputs``.  Raises Unfollowed if the capture has no such flags yet.
    """
    found = []
    sources = {key: at for at, key in enumerate(tracer.cells)}
    everyone = [*tensors, *known.tensors, *[cell.tensor for cell in tracer.cells.values()]]
    doubtful = {id(t) for t in everyone if is_in_doubt(tracer.ties.of(t))}
    for tensor in tensors:
        output = output_of[id(tensor)]
        others = ties_of(tracer, tensor)
        if id(None) in others and doubtful - {id(tensor)}:  # it may be any of these, too
            error = others[id(None)][1].error
            if error is Unfollowed and not tracer.follows:
                raise Unfollowed
            if not isinstance(error, functools.partial):
                continue
        for key, (_, where) in others.items():
            earlier = output_of.get(key, output)
            if key in known.arguments:
                place = "argument", known.arguments[key]
            elif key in sources:
                place = "source", sources[key]
            elif earlier < output:
                place = "output", earlier
            else:
                continue
            if where.error is not None:
                if where.error is Unfollowed and not tracer.follows:
                    raise Unfollowed
                continue  # of another dtype, or an item of a list: never the very tensor
            flag = -1
            if where.pred is not None:
                flag = len(outputs)
                outputs.append(where.tensor(tracer).content)
            found.append(Alias(output, *place, flag))
    return tuple(found)
