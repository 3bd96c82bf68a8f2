"""Inputs and guards of a capture, by names that the author knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hybrid.explain.explanation import GuardRow, Input
from hybrid.explain.words import is_telling, shown
from hybrid.ir.printer import names_of
from hybrid.record import Leaf
from hybrid.tensor import Tensor
from hybrid.trace.capture import Capture, Source


def inputs_of(
    capture: Capture, function: Callable[..., Any], leaves: Sequence[Any], names: Sequence[str]
) -> tuple[Input, ...]:
    """The parameters of the graph."""
    graph = capture.graph
    printed = names_of(graph)
    written = {source for source, _ in capture.writes}
    paths = _paths(capture, function, leaves, names)
    return tuple(
        Input(f"%{printed[param]}", str(param.type), _source(source, names, paths), i in written)
        for i, (param, source) in enumerate(zip(graph.params, capture.sources, strict=True))
    )


def _source(source: Source, names: Sequence[str], paths: dict[int, str]) -> str:
    if source.kind == "argument":
        return f"argument {names[source.index]}"
    if source.kind == "number":
        return f"argument {names[source.index]}, any number"
    if source.kind == "cell":
        return paths.get(id(source.tensor), "a tensor from outside")
    if isinstance(source.owner, Leaf):
        owner = paths.get(id(source.owner))
        return f"{owner}.{source.name}" if owner else f"a tensor's .{source.name}"
    held = getattr(source.owner, source.name, None)
    return paths.get(id(held)) or slot_name(source.owner, source.name)


def slot_name(owner: Any, name: str) -> str:
    """``Net.mean``."""
    if isinstance(owner, Leaf):
        return f"a tensor's .{name}"
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{getattr(owner, '__name__', kind.__name__)}.{name}"


def _paths(
    capture: Capture, function: Callable[..., Any], leaves: Sequence[Any], names: Sequence[str]
) -> dict[int, str]:
    """Names of tensors, and of the leaves that gradients come to, by their ids."""
    paths: dict[int, str] = {}
    roots = [("", getattr(function, "__self__", None)), *zip(names, leaves, strict=True)]
    for guard in (*capture.guards.always, *capture.guards.by_epoch):
        roots.append((guard.name.rpartition(" ")[2], guard.expected))
    for prefix, root in roots:
        for path, tensor in _tensors(prefix, root):
            paths.setdefault(id(tensor), path)
            leaf = getattr(tensor, "leaf", None)
            if leaf is not None:
                paths.setdefault(id(leaf), path)
    return paths


def _tensors(prefix: str, root: Any) -> Iterator[tuple[str, Tensor]]:
    """``root`` if it is a tensor, those of a module, those of a container."""
    if isinstance(root, Tensor):
        yield prefix, root
        return
    if isinstance(root, dict):
        for key, item in root.items():
            yield from _tensors(f"{prefix}[{key!r}]", item)
        return
    if isinstance(root, (list, tuple)):
        for index, item in enumerate(root):
            yield from _tensors(f"{prefix}[{index}]", item)
        return
    for method in ("named_parameters", "named_buffers"):  # of a module
        if callable(getattr(type(root), method, None)):
            for path, tensor in getattr(root, method)():
                yield (f"{prefix}.{path}" if prefix else path), tensor


def guard_rows(capture: Capture) -> tuple[GuardRow, ...]:
    """What a call must find as it was, the telling ones first, equal texts counted."""
    counts: dict[tuple[str, str, bool], int] = {}
    for guard in (*capture.guards.always, *capture.guards.by_epoch):
        if guard.name.endswith(".*"):
            row = guard.name[:-2], "without attributes that hide those of its class", False
        elif guard.expected is type(capture.guards):  # a place for a tensor
            row = guard.name, "a tensor of the same type", False
        else:
            row = guard.name, shown(guard.expected), is_telling(guard)
        counts[row] = counts.get(row, 0) + 1
    rows = [GuardRow(*row, count) for row, count in counts.items()]
    return tuple(sorted(rows, key=lambda row: not row.telling))
