"""What tests share: graphs from text, tensors from a seed, and comparisons of bits."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable, Iterable, Iterator
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.ir import Graph, Node, Value, parse, verify
from hybrid.memory import native
from hybrid.memory import work_queue as pending


def parts(count: int) -> list[Any]:
    """``part`` of a long table: the first runs every time, the others nightly; see ``part_of``."""
    return [pytest.param(0), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, count))]


def part_of(table: Iterable[Any], part: int, count: int, turn: int = 0) -> Iterator[Any]:
    """Every ``count``-th row, so that all parts are the whole.

    ``turn`` shifts which, so that tests that share a table do not run the same rows every time.
    """
    return (row for number, row in enumerate(table) if (number + part + turn) % count == 0)


def graph_of(text: str) -> Graph:
    """The graph that ``text`` describes, verified."""
    graph = parse(dedent(text))
    verify(graph)
    return graph


def assert_rewrites(change: Callable[[Graph], Graph], before: str, after: str) -> None:
    """``change`` turns the graph ``before`` into ``after``, and leaves ``after`` as it is."""
    given, expected = graph_of(before), graph_of(after)
    result = change(given)
    verify(result)
    # Text against text, so that a failure shows the difference; both sides print from a parse.
    assert normal_text(result) == normal_text(expected)
    assert result == expected
    assert change(result) == expected, "a second application changes the graph again"


def normal_text(graph: Graph) -> str:
    """The text of ``graph`` with values numbered, so that names do not matter."""
    return str(without_hints(graph))


def without_hints(graph: Graph) -> Graph:
    """A copy of ``graph`` whose values nobody has named."""
    renamed: dict[Value, Value] = {}

    def copies(values: tuple[Value, ...]) -> tuple[Value, ...]:
        for value in values:
            renamed[value] = Value(value.type)
        return tuple(renamed[v] for v in values)

    params = copies(graph.params)
    nodes = []
    for node in graph.nodes:
        operands = tuple(renamed[v] for v in node.operands)
        regions = tuple(without_hints(region) for region in node.regions)
        nodes.append(Node(node.op, operands, node.attrs, copies(node.results), regions))
    return Graph(graph.name, params, tuple(nodes), tuple(renamed[v] for v in graph.results))


def interpret(graph: Graph, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The results of ``graph`` on ``arrays`` by the ops' NumPy references.

    Values are laid out densely, for NumPy's order of summation depends on the layout.
    """
    values: dict[Any, np.ndarray] = dict(zip(graph.params, arrays, strict=True))
    for node in graph.nodes:
        extra: dict[str, Any] = {"regions": node.regions} if node.regions else {}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            results = node.op.reference_rule(
                *[values[v] for v in node.operands], **node.attributes, **extra
            )
        results = results if isinstance(results, tuple) else (results,)
        for value, result in zip(node.results, results, strict=True):
            values[value] = np.array(result, order="C")
    return tuple(values[v] for v in graph.results)


def bits(arrays: tuple[np.ndarray, ...]) -> list[tuple[Any, tuple[int, ...], bytes]]:
    """What equal bits are compared by."""
    return [(a.dtype, a.shape, np.ascontiguousarray(a).tobytes()) for a in map(np.asarray, arrays)]


def tensor(*shape: int, seed: int = 0) -> hy.Tensor:
    """Normally distributed float32 numbers."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return hy.asarray(values.astype(np.float32))


def leaf(*shape: int, seed: int = 0) -> hy.Tensor:
    """``tensor`` that gradients are asked for."""
    x = tensor(*shape, seed=seed)
    x.requires_grad = True
    return x


def same(a: hy.Tensor, b: hy.Tensor) -> bool:
    """Whether two tensors are equal bit for bit."""
    return a.dtype is b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def shown(value: Any) -> Any:
    """``value`` with tensors as numbers."""
    if isinstance(value, hy.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return type(value), [(key, shown(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value), [shown(item) for item in value]
    return value


# Streams ------------------------------------------------------------------------------------------


def slow() -> Callable[[], hy.Tensor]:
    """What takes a stream some 50 ms, with its operands made before."""
    x = hy.ones((800, 800))
    _ = x @ x

    def work() -> hy.Tensor:
        y = x
        for _ in range(6):
            y = y @ x
        return y

    return work


def is_pending(t: hy.Tensor) -> bool:
    return isinstance(t.content, pending.Waiting) and t.content.known() is t.content


def value_bits(t: hy.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    """What equal values are compared by; waits for a value that is pending."""
    return t.dtype.name, t.shape, bytes(native.view(t.content, t.nbytes))
