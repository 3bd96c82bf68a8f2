"""Graphs as rows: they come back as they were, and whatever else is read gives an error."""

from __future__ import annotations

import copy
import json
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import hybrid as hy
from hybrid.core.sizes import OpenSizes
from hybrid.errors import GraphError
from hybrid.ir import Graph, parse
from hybrid.ir.bound_graphs import bind
from hybrid.ir.rows import RowReader, RowWriter, Unwritable, plain, value_of, values_in
from tests.random_graphs import all_ops, graphs, opened, unhurried


def written(graph: Graph) -> tuple[Any, int]:
    writer = RowWriter()
    number = writer.graph(graph)
    return json.loads(json.dumps(writer.rows)), number


def back(graph: Graph) -> Graph:
    rows, number = written(graph)
    return RowReader(rows).graph(number)


def shown(graph: Graph) -> list[Any]:
    """What equality of graphs leaves out: hints and locations."""
    return [(v.hint, v.location) for v in values_in(graph)] + [n.location for n in graph.walk()]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_graphs_come_back(graph: Graph) -> None:
    assert back(graph) == graph
    assert shown(back(graph)) == shown(graph)


@settings(unhurried, max_examples=60)
@given(graphs(all_ops, nodes=12))
def test_open_graphs_come_back(graph: Graph) -> None:
    made, sizes = opened(graph)
    writer = RowWriter()
    number = writer.graph(made)
    writer.sizes(sizes)
    reader = RowReader(json.loads(json.dumps(writer.rows)))
    assert str(reader.graph(number)) == str(made)
    found = reader.sizes
    assert found is not None
    assert {*map(str, found.conditions.values())} == {*map(str, sizes.conditions.values())}
    for values in ((4, 2), (5, 2), (16, 7), (3, 8)):
        assert found.holds(values) == sizes.holds(values)
        if sizes.holds(values):
            assert bind(reader.graph(number), values) == bind(made, values)


@pytest.mark.parametrize(
    "size",
    [
        lambda n, m: n, lambda n, m: 2 * n * m - 3, lambda n, m: (n + m) // 2,
        lambda n, m: n % m * 5 + (n // 3) % 2, lambda n, m: (n * n // (m + 1)) // 4 + n,
    ],
)  # fmt: skip
def test_sizes_come_back(size: Callable[..., Any]) -> None:
    sizes, others = OpenSizes(), OpenSizes()
    made = size(sizes.symbol("n", 37), sizes.symbol("m", 12))
    found = value_of(json.loads(json.dumps(plain(made))), with_symbols(others))
    assert str(found) == str(made)
    assert [others.bound(found, v) for v in ((37, 12), (5, 7))] == [
        sizes.bound(made, v) for v in ((37, 12), (5, 7))
    ]


def with_symbols(sizes: OpenSizes) -> OpenSizes:
    sizes.symbol("n", 37)
    sizes.symbol("m", 12)
    return sizes


def test_captured_graphs_come_back() -> None:
    def function(x, n):
        total = x
        for _ in range(4):
            if hy.sum(total) > n:
                total = total * 2 + hy.asarray([1.0, -0.0, math.inf])
        return total

    graph = hy.hybridize(function).graph(hy.ones((2, 3)), hy.asarray(1.0))
    found = back(graph)
    assert found == graph and str(found) == str(graph)
    assert shown(found) == shown(graph)
    assert any(n.location is not None and n.location.text for n in found.walk())


NUMBERS = [0.0, -0.0, 0.1, math.inf, -math.inf, 5e-324, struct.unpack("<d", b"\1" * 7 + b"\x7f")[0]]


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -(2**70), "te\"xt\n", b"\0\xff", (), (1, (2.5, "a"), None), hy.float32,
     hy.ones((2, 3)).type, *NUMBERS],
    ids=repr,
)  # fmt: skip
def test_values_come_back(value: Any) -> None:
    found = value_of(json.loads(json.dumps(plain(value))))
    assert type(found) is type(value)
    if isinstance(value, float):
        assert struct.pack("<d", found) == struct.pack("<d", value)
    else:
        assert found == value


def test_the_bits_of_nan_come_back() -> None:
    nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0123))[0]
    assert struct.pack("<d", value_of(plain(nan))) == struct.pack("<d", nan)


def test_what_rows_do_not_hold() -> None:
    def call(x):
        return x

    kind = hy.ones(2).type
    graph = hy.hybridize(lambda x: hy.py_call(call, x, result=kind)).graph(hy.ones(2))
    with pytest.raises(Unwritable, match=r"^the attributes of py_call hold a \w+$"):
        written(graph)


@pytest.mark.parametrize(
    "rows", [None, 3, [], {}, {"types": []}, {"types": [["f99", []]]}], ids=repr
)
def test_what_is_no_rows(rows: Any) -> None:
    with pytest.raises(GraphError, match=r"^these rows are no graph: "):
        RowReader(rows)


ODD = [None, True, -1, 0, 1, 7, 10**30, 0.5, "x", "add", [], [0], {}, ["float", "zz"], "f32"]


def changed(rows: Any, draw: random.Random) -> Any:
    """``rows`` with something in them that is something else."""
    made = copy.deepcopy(rows)
    at = made
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.9:
            at = at[key]
            continue
        kind = draw.random()
        if kind < 0.6:
            at[key] = copy.deepcopy(draw.choice(ODD))
        elif kind < 0.8:
            del at[key]
        else:
            other = draw.choice(keys)
            at[key], at[other] = at[other], at[key]
        return made


def test_any_other_rows_are_a_right_graph_or_an_error() -> None:
    def function(x, n):
        while hy.sum(x) < 3.5:
            x = x * n
        return x, hy.sum(x, axis=0)

    rows, number = written(hy.hybridize(function).graph(hy.ones((2, 3)), hy.asarray(1.0)))
    draw, refused = random.Random(1), 0
    for _ in range(1500):
        try:
            found = RowReader(changed(rows, draw)).graph(number)
        except (GraphError, IndexError):
            refused += 1
        else:
            assert parse(str(found)) == found
    assert refused > 750
