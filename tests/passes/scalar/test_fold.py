"""fold computes small nodes of constants, with the evaluator it is given."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hybrid.core.types import dtype_of, tensor_type
from hybrid.errors import ArgumentError
from hybrid.ir import Graph, Op
from hybrid.ir.graph import sizes_of
from hybrid.passes import dce, fold
from hybrid.passes.scalar.fold import Constant
from tests.helpers import assert_rewrites, graph_of

evaluated: list[str] = []


def evaluate(op: Op, operands: Sequence[Constant], attrs: dict[str, Any]) -> list[Constant]:
    """An evaluator by the ops' references; remembers what it was asked."""
    evaluated.append(op.name)
    arrays = [np.frombuffer(data, t.dtype.numpy).reshape(t.shape) for t, data in operands]
    with np.errstate(all="ignore"):
        result = np.asarray(op.reference_rule(*arrays, **attrs))
    return [(tensor_type(dtype_of(result.dtype), result.shape), result.tobytes())]


def folded(graph: Graph) -> Graph:
    return dce(fold(graph, evaluate))


CASES = {
    "equal elements become full": (
        """
        graph @f(%x: f32[4]) {
          %a: f32[] = full {shape=(), value=4, dtype=f32}
          %b: f32[] = sqrt %a
          %c: f32[4] = multiply %x, %b
          return %c
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %b: f32[] = full {shape=(), value=2.0, dtype=f32}
          %c: f32[4] = multiply %x, %b
          return %c
        }
        """,
    ),
    "other elements become a literal": (
        """
        graph @f() {
          %a: u8[3] = literal {shape=(3,), dtype=u8, data=0x010203}
          %b: u8[] = full {shape=(), value=255, dtype=u8}
          %c: u8[3] = add %a, %b
          return %c
        }
        """,
        """
        graph @f() {
          %c: u8[3] = literal {shape=(3,), dtype=u8, data=0x000102}
          return %c
        }
        """,
    ),
    "constants of constants": (
        """
        graph @f() {
          %a: i64[2] = full {shape=(2,), value=3, dtype=i64}
          %b: i64[2] = add %a, %a
          %c: bool[2] = equal %a, %b
          return %c, %b
        }
        """,
        """
        graph @f() {
          %b: i64[2] = full {shape=(2,), value=6, dtype=i64}
          %c: bool[2] = full {shape=(2,), value=false, dtype=bool}
          return %c, %b
        }
        """,
    ),
    "a zero keeps its sign": (
        """
        graph @f() {
          %a: f32[] = full {shape=(), value=0, dtype=f32}
          %b: f32[] = negative %a
          return %b
        }
        """,
        """
        graph @f() {
          %b: f32[] = full {shape=(), value=-0.0, dtype=f32}
          return %b
        }
        """,
    ),
    "zeros of both signs are not equal elements": (
        """
        graph @f() {
          %a: f32[2] = literal {shape=(2,), dtype=f32, data=0x0000000000000080}
          %b: f32[2] = negative %a
          return %b
        }
        """,
        """
        graph @f() {
          %b: f32[2] = literal {shape=(2,), dtype=f32, data=0x0000008000000000}
          return %b
        }
        """,
    ),
    "a NaN keeps its bits": (
        """
        graph @f() {
          %a: f32[1] = literal {shape=(1,), dtype=f32, data=0x2a00c07f}
          %b: f32[1] = negative %a
          return %b
        }
        """,
        """
        graph @f() {
          %b: f32[1] = literal {shape=(1,), dtype=f32, data=0x2a00c0ff}
          return %b
        }
        """,
    ),
    "nothing is a constant too": (
        """
        graph @f() {
          %a: f32[0,4] = full {shape=(0, 4), value=1, dtype=f32}
          %b: f32[0,4] = exp %a
          return %b
        }
        """,
        """
        graph @f() {
          %b: f32[0,4] = full {shape=(0, 4), value=0, dtype=f32}
          return %b
        }
        """,
    ),
    "an operand that is not constant": (
        """
        graph @f(%x: f32[]) {
          %a: f32[] = full {shape=(), value=4, dtype=f32}
          %b: f32[] = add %x, %a
          return %b
        }
        """,
        None,
    ),
    "a number that its dtype does not hold": (
        """
        graph @f() {
          %a: u8[] = full {shape=(), value=256, dtype=u8}
          %b: u8[] = add %a, %a
          return %b
        }
        """,
        None,
    ),
    "operands that are large": (
        """
        graph @f() {
          %a: f32[1025] = full {shape=(1025,), value=1, dtype=f32}
          %b: f32[] = sum %a {axis=(0,)}
          return %b
        }
        """,
        None,
    ),
    "results that are large": (
        """
        graph @f() {
          %a: f32[1025,1] = full {shape=(1025, 1), value=1, dtype=f32}
          %b: f32[1,1025] = full {shape=(1, 1025), value=1, dtype=f32}
          %c: f32[1025,1025] = add %a, %b
          return %c
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_fold(before: str, after: str | None) -> None:
    assert_rewrites(folded, before, before if after is None else after)


VIEWS = {
    "reshape {shape=(2, 2)}": "f32[2,2]",
    "broadcast_to {shape=(3, 4)}": "f32[3,4]",
    "permute_dims {axes=(0,)}": "f32[4]",
    "flip {axis=(0,)}": "f32[4]",
    "slice {start=(1,), size=(2,), step=(1,)}": "f32[2]",
}


@pytest.mark.parametrize(("view", "type"), VIEWS.items(), ids=VIEWS)
def test_views_of_equal_elements_need_no_evaluator(view: str, type: str) -> None:
    name, attrs = view.split(" ", 1)
    shape = tuple(map(int, type[4:-1].split(",")))
    before = f"""
        graph @f() {{
          %a: f32[4] = full {{shape=(4,), value=2.5, dtype=f32}}
          %b: {type} = {name} %a {attrs}
          return %b
        }}
        """
    after = f"""
        graph @f() {{
          %b: {type} = full {{shape={shape}, value=2.5, dtype=f32}}
          return %b
        }}
        """
    assert_rewrites(lambda graph: dce(fold(graph)), before, after)


SUM = """
    graph @f() {
      %a: f32[] = full {shape=(), value=2, dtype=f32}
      %b: f32[] = add %a, %a
      return %b
    }
    """


def test_without_an_evaluator_nothing_is_computed() -> None:
    assert_rewrites(fold, SUM, SUM)


def test_what_fails_is_left_to_fail_when_it_runs() -> None:
    def refuse(op: Op, operands: Sequence[Constant], attrs: dict[str, Any]) -> list[Constant]:
        raise ArgumentError("no")

    assert_rewrites(lambda graph: fold(graph, refuse), SUM, SUM)


def test_impure_nodes_are_not_folded(impure_op: Op) -> None:
    text = f"""
        graph @f() {{
          %a: f32[] = full {{shape=(), value=2, dtype=f32}}
          %b: f32[] = {impure_op.name} %a
          return %b
        }}
        """
    assert_rewrites(folded, text, text)


def test_constants_are_not_evaluated_again() -> None:
    evaluated.clear()
    folded(graph_of(SUM))
    assert evaluated == ["add"]


def test_nothing_is_asked_of_sizes() -> None:
    text = """
        graph @f<n = 6>(%x: f32[n]) {
          %a: f32[] = full {dtype=f32, shape=(), value=2*n}
          %b: f32[] = sqrt %a
          %c: f32[n] = divide %x, %b
          return %c
        }
        """
    graph = graph_of(text)
    sizes = sizes_of(graph)
    assert sizes is not None
    before = len(sizes.conditions)
    folded(graph)
    assert len(sizes.conditions) == before
