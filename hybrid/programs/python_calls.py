"""Calls of Python in a graph that is exported, as nodes that C runs.

::

    py_call %n {function=<print>}       ->   say %n {text="{0} rows\\n"}
    py_call %x, %y {function=<check>}   ->   stop {at="f.py:3", text="ZeroDivisionError: ..."}

What is left, ``hybrid.py_call`` above all, is refused with the author's line.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from hybrid.core.dataclass import replace
from hybrid.core.exceptions import Leaving
from hybrid.errors import HybridError, Location
from hybrid.ir import Builder, Graph, Node, Value, get_op
from hybrid.number.staging import HERE, NumberCall, region
from hybrid.ops.flow.messages import STREAMS, escaped, is_format
from hybrid.programs.c_calls import nodes_of_math
from hybrid.trace.values.deferred import DeferredCall

Refuse = Callable[..., None]  # what, at=, why=, fix=

_WHOLE = (int, math.trunc, math.floor, math.ceil, round)
_FIX = "do it outside, with what the function returns"
_PLACE = re.compile(r"(?<!\{)((?:\{\{)*)\{(\d+)")
_SHOWN = re.compile("\0(\\d+):([^\0]*)\0")


def without_calls(graph: Graph, refuse: Refuse) -> Graph:
    """``graph`` with nodes of its own in the place of calls; ``refuse`` raises for others."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op.name == "py_call":
            nodes += _nodes_of(node, refuse)
        elif node.regions:
            regions = tuple([without_calls(each, refuse) for each in node.regions])
            nodes.append(replace(node, regions=regions))
        else:
            nodes.append(node)
    return Graph(graph.name, graph.params, tuple(nodes), graph.results)


def _nodes_of(node: Node, refuse: Refuse) -> list[Node]:
    """What stands for a call."""
    call, own = node.attributes["function"], len(node.operands)
    if type(call) is Leaving:  # a run that fails leaves everything as it was
        call, own = call.function, call.own
    operands = node.operands[:own]
    if isinstance(call, DeferredCall) and call.template is not None:
        template = call.template
        at = call.location or node.location
        if template.lacks or template.stream not in (*STREAMS, "error"):
            what = "raises" if template.stream == "error" else "prints"
            refuse(
                f"it {what} {template.lacks or 'to a file of its own'}",
                at=at,
                why="In a program C writes the texts, which it knows of numbers and tensors.",
                fix="use tensors and numbers of it, such as x.item(), in f-strings, % or print()",
            )
        return [_message(template.stream, template.text, operands, at)] if template.text else []
    if isinstance(call, NumberCall):
        if call.kinds == ("int",) and call.function in _WHOLE:
            return _whole(node, operands, call.location)
        found = nodes_of_math(
            node, call, operands, lambda text: _message("error", text, (), call.location)
        )
        if found is not None:
            return found
        text = None if call.kinds else _raised_text(call, operands)
        if text is not None:
            return [_message("error", text, operands, call.location)]
        own = call.function.args[:1] if isinstance(call.function, functools.partial) else ()
        name = getattr(own[0] if own else call.function, "__name__", "a function")
        refuse(
            f"it calls Python's {name} while it runs",
            at=call.location or node.location,
            why="A program runs where there is no Python.",
            fix="compute it with tensors, or outside",
        )
    refuse(
        "it calls Python while it runs",
        at=node.location,
        why="A program runs where there is no Python.",
        fix=_FIX,
    )
    raise AssertionError("refused")  # pragma: no cover


def _message(stream: str, text: str, operands: Any, at: Location | None) -> Node:
    """The node that says ``text``, of those operands alone that are in it."""
    used = sorted({int(found[2]) for found in _PLACE.finditer(text)})
    place = {old: new for new, old in enumerate(used)}
    text = _PLACE.sub(lambda found: f"{found[1]}{{{place[int(found[2])]}", text)
    builder = Builder()
    builder.location = at
    line = "" if at is None else f"{os.path.basename(at.path)}:{at.line}"
    attrs = {"at": line} if stream == "error" else {"stream": stream}
    op = get_op("stop" if stream == "error" else "say")
    builder.apply(op, [operands[i] for i in used], {"text": text, **attrs})
    return builder.nodes[0]


# Checks of numbers -------------------------------------------------------------------------------


class _Int(int):
    """An int whose text says which operand it is."""

    at: int

    def __format__(self, spec: str) -> str:
        return f"\0{self.at}:{spec}\0"

    def __repr__(self) -> str:
        return format(self, "")

    __str__ = __repr__


class _Float(float):
    """The same of a float."""

    at: int
    __format__ = _Int.__format__  # type: ignore[assignment]
    __repr__ = __str__ = _Int.__repr__  # type: ignore[assignment]


_TRIED = (0, -1, 1, 2**62, -(2**62), math.nan, math.inf)


def _raised_text(call: NumberCall, operands: tuple[Value, ...]) -> str | None:
    """The template of what a check raises, found by letting it; None: it is not always the same."""
    texts = set(_raised_texts(call, operands))
    return texts.pop() if len(texts) == 1 else None


def _raised_texts(call: NumberCall, operands: tuple[Value, ...]) -> Iterator[str | None]:
    for value in _TRIED:
        numbers = []
        for at, operand in enumerate(operands):
            floating = operand.type.dtype.is_floating
            if not floating and isinstance(value, float):
                break
            numbers.append(_Float(value) if floating else _Int(value))
            numbers[-1].at = at
        else:
            given = iter(numbers)
            try:
                call.function(*[next(given) if a is HERE else a for a in call.arguments])
            except Exception as error:
                yield _template_of(error)


def _template_of(error: Exception) -> str | None:
    said = str(error.args[0]) if isinstance(error, HybridError) and error.args else str(error)
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    made, end = "", 0
    for found in _SHOWN.finditer(text):
        if not is_format(found[2]):
            return None
        made += escaped(text[end : found.start()])
        made += f"{{{found[1]}:{found[2]}}}" if found[2] else f"{{{found[1]}}}"
        end = found.end()
    return made + escaped(text[end:])


def _whole(node: Node, operands: tuple[Value, ...], at: Location | None) -> list[Node]:
    """A float is made an int that has no 64 bits: nothing but errors."""
    x = operands[0]
    builder = Builder()
    builder.location = at
    for test, text in (
        ("isnan", "ValueError: cannot convert float NaN to integer"),
        ("isinf", "OverflowError: cannot convert float infinity to integer"),
    ):
        said = _message("error", text, (), at)
        stops = region("then", (), lambda b, _values, said=said: b.nodes.append(said) or ())
        [flag] = builder.apply(get_op(test), (x,))
        goes_on = region("else", (), lambda _b, _values: ())
        builder.apply(get_op("cond"), (flag,), {}, regions=(stops, goes_on))
    text = "OverflowError: an int grew to more than 64 bits"
    builder.nodes.append(_message("error", text, (), at))
    attrs = {"shape": (), "value": 0, "dtype": node.results[0].type.dtype}
    builder.apply(get_op("full"), (), attrs)
    return [*builder.nodes[:-1], replace(builder.nodes[-1], results=node.results)]
