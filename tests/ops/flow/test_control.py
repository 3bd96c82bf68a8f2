"""The control ops: what their references compute, and what their type rules refuse."""

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from hybrid.core.types import float32, int64, tensor_type
from hybrid.errors import GraphError
from hybrid.ir import REGISTRY, Builder, Graph, get_op, parse
from hybrid.ops.flow.control import COUNT, FLAG, cond, for_, py_call, run_region, while_
from tests.helpers import graph_of

F0, F3 = tensor_type(float32, ()), tensor_type(float32, (3,))


def run(text: str, *operands: Any) -> list[Any]:
    """The results of a graph by the references, as lists and numbers."""
    graph = graph_of(text)
    arrays = [np.array(x, v.type.dtype.numpy) for x, v in zip(operands, graph.params, strict=True)]
    results = run_region(graph, arrays)
    for value, array in zip(graph.results, results, strict=True):
        assert tensor_type(value.type.dtype, np.shape(array)) is value.type
        assert np.asarray(array).dtype == value.type.dtype.numpy
    return [np.asarray(array).tolist() for array in results]


CHOICE = """
    graph @f(%p: bool[], %x: f32[], %y: f32[]) {
      %a: f32[], %b: f32[] = cond %p, %x, %y {
        then(%x: f32[], %y: f32[]) { %s: f32[] = add %x, %y return %s, %x }
        else(%x: f32[], %y: f32[]) { %s: f32[] = subtract %x, %y return %s, %y }
      }
      return %a, %b
    }
    """


def test_cond_runs_one_branch() -> None:
    assert run(CHOICE, True, 5, 2) == [7, 5]
    assert run(CHOICE, False, 5, 2) == [3, 2]


def growth(length: int) -> str:
    """Doubles while below a limit; the stack holds what each iteration began with."""
    return f"""
        graph @f(%go: bool[], %x: f32[], %limit: f32[]) {{
          %n: i64[], %y: f32[], %rows: f32[{length}] = while %go, %x, %limit {{
            carried=1, length={length}}} {{
            body(%x: f32[], %limit: f32[]) {{
              %y: f32[] = add %x, %x
              %more: bool[] = less %y, %limit
              return %more, %y, %x
            }}
          }}
          return %n, %y, %rows
        }}
        """


def test_while_counts_carries_and_stacks() -> None:
    assert run(growth(4), True, 1, 8) == [3, 8, [1, 2, 4, 0]]
    assert run(growth(3), True, 1, 8) == [3, 8, [1, 2, 4]]


def test_while_leaves_no_row_past_its_length() -> None:
    assert run(growth(2), True, 1, 8) == [3, 8, [1, 2]]
    assert run(growth(0), True, 1, 8) == [3, 8, []]


def test_while_may_make_no_iteration() -> None:
    assert run(growth(1), False, 1, 8) == [0, 1, [0]]


def scan(reverse: str) -> str:
    """Sums of rows so far, times a constant; the stack holds the index of each."""
    return f"""
        graph @f(%n: i64[], %x: f32[], %xs: f32[4], %w: f32[]) {{
          %y: f32[], %sums: f32[4], %is: i64[4] = for %n, %x, %xs, %w {{
            carried=1, length=4, reverse={reverse}, sliced=1}} {{
            body(%i: i64[], %x: f32[], %row: f32[], %w: f32[]) {{
              %p: f32[] = multiply %row, %w
              %y: f32[] = add %x, %p
              return %y, %y, %i
            }}
          }}
          return %y, %sums, %is
        }}
        """


ROWS = [1, 2, 3, 4]


def test_for_slices_carries_and_stacks() -> None:
    assert run(scan("false"), 4, 0, ROWS, 10) == [100, [10, 30, 60, 100], [0, 1, 2, 3]]
    assert run(scan("false"), 2, 0, ROWS, 10) == [30, [10, 30, 0, 0], [0, 1, 0, 0]]


def test_for_in_reverse_begins_at_the_last_index() -> None:
    assert run(scan("true"), 4, 0, ROWS, 10) == [100, [100, 90, 70, 40], [0, 1, 2, 3]]
    assert run(scan("true"), 2, 0, ROWS, 10) == [30, [30, 20, 0, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize(("count", "last"), [(-2, 7), (0, 7), (9, 107)])
def test_a_count_is_kept_within_the_length(count: int, last: int) -> None:
    assert run(scan("false"), count, 7, ROWS, 10)[0] == last


def test_a_for_without_rows_runs_as_often_as_it_is_told() -> None:
    text = """
        graph @f(%n: i64[], %x: f32[]) {
          %y: f32[] = for %n, %x {carried=1} {
            body(%i: i64[], %x: f32[]) { %y: f32[] = add %x, %x return %y }
          }
          return %y
        }
        """
    assert run(text, 10, 1) == [1024]
    assert run(text, -1, 1) == [1]


def overrunning(length: int, reverse: str = "false") -> str:
    """Doubles until the end, and keeps so many rows."""
    return f"""
        graph @f(%n: i64[], %x: f32[]) {{
          %y: f32[], %rows: f32[{length}] = for %n, %x {{
            carried=1, length={length}, reverse={reverse}, overruns=true}} {{
            body(%i: i64[], %x: f32[]) {{ %y: f32[] = add %x, %x return %y, %x }}
          }}
          return %y, %rows
        }}
        """


def test_a_for_that_overruns_leaves_no_row_past_its_length() -> None:
    assert run(overrunning(4), 3, 1) == [8, [1, 2, 4, 0]]
    assert run(overrunning(2), 5, 1) == [32, [1, 2]]
    assert run(overrunning(2, "true"), 3, 1) == [8, [4, 2]]
    assert run(overrunning(0), 3, 1) == [8, []]


def test_loops_in_branches_in_loops() -> None:
    text = """
        graph @f(%n: i64[], %x: f32[]) {
          %y: f32[] = for %n, %x, %n {carried=1} {
            body(%i: i64[], %x: f32[], %n: i64[]) {
              %one: i64[] = full {shape=(), value=1, dtype=i64}
              %p: bool[] = less %i, %one
              %y: f32[] = cond %p, %x, %n {
                then(%x: f32[], %n: i64[]) {
                  %y: f32[] = for %n, %x {carried=1} {
                    body(%i: i64[], %x: f32[]) { %y: f32[] = add %x, %x return %y }
                  }
                  return %y
                }
                else(%x: f32[], %n: i64[]) { %y: f32[] = negative %x return %y }
              }
              return %y
            }
          }
          return %y
        }
        """
    assert run(text, 3, 1) == [8]
    assert run(text, 2, 1) == [-4]


def test_py_call_hands_on_what_the_function_returns_in_order() -> None:
    seen = []

    def note(x: np.ndarray) -> tuple[np.ndarray, ...]:
        seen.append(float(x))
        return (x + 1,)

    builder = Builder("f")
    x = builder.param(F0)
    (a,) = builder.apply(py_call, [x], {"function": note, "types": (F0,)})
    (b,) = builder.apply(py_call, [a], {"function": note, "types": (F0,)})
    (result,) = run_region(builder.finish([b]), [np.float32(1)])
    assert (result, seen) == (3, [1, 2])


def test_what_holds_a_call_is_not_pure_and_can_be_seen() -> None:
    def holding(op: Any) -> Graph:
        region = Builder("then")
        region.apply(op, [region.param(F0)], {"function": print} if op is py_call else {})
        regions = region.finish([]), Graph("else", (builder.param(F0),), (), ())
        builder.apply(cond, [builder.param(FLAG), builder.param(F0)], regions=regions)
        return builder.nodes[-1]

    builder = Builder("f")
    calling, computing = holding(py_call), holding(get_op("exp"))
    assert (calling.pure, calling.observable) == (False, True)
    assert (computing.pure, computing.observable) == (True, False)


CONTROL = [cond, while_, for_, py_call]


@pytest.mark.parametrize("op", CONTROL, ids=lambda op: op.name)
def test_a_control_op_is_declared_completely(op: Any) -> None:
    assert REGISTRY[op.name] is op
    assert op.__doc__ and op.reference_rule is not None
    assert op.has_regions == (op is not py_call)
    assert op.pure == (op is not py_call)


def region(name: str, given: list[Any], returned: list[int]) -> Graph:
    """Takes ``given`` and returns some of it."""
    builder = Builder(name)
    params = [builder.param(t) for t in given]
    return builder.finish([params[i] for i in returned])


ERRORS = {
    "a number for a predicate": (
        lambda: cond.infer((F0, F3), (), ()),
        "the predicate of cond is f32[], not bool[]",
    ),
    "one branch": (
        lambda: cond.infer((FLAG, F3), (), (region("then", [F3], [0]),)),
        "cond needs 2 regions, not 1",
    ),
    "branches that take something else": (
        lambda: cond.infer((FLAG, F3), (), (region("then", [F0], [0]),) * 2),
        """\
        a region of cond takes f32[]; it is given f32[3]
        Fix: give the region a parameter of the type of each operand.""",
    ),
    "branches that return different types": (
        lambda: cond.infer(
            (FLAG, F3, F0), (), tuple(region(n, [F3, F0], r) for n, r in [("a", [0]), ("b", [1])])
        ),
        """\
        the regions of cond return f32[3] and f32[]
        Fix: let both return the same types.""",
    ),
    "branches that return different numbers of values": (
        lambda: cond.infer(
            (FLAG, F3), (), tuple(region(n, [F3], r) for n, r in [("a", [0]), ("b", [])])
        ),
        """\
        the regions of cond return f32[3] and nothing
        Fix: let both return the same types.""",
    ),
    "a number for a test": (
        lambda: while_.infer((COUNT, F3), while_.attributes({"carried": 1}), ()),
        "the test of while is i64[], not bool[]",
    ),
    "a while that does not say whether to go on": (
        lambda: while_.infer(
            (FLAG, F3), while_.attributes({"carried": 1}), (region("body", [F3], [0]),)
        ),
        "the region of while returns no bool scalar first",
    ),
    "a carried value of another type": (
        lambda: while_.infer(
            (FLAG, F3, FLAG, F0),
            while_.attributes({"carried": 1}),
            (region("body", [F3, FLAG, F0], [1, 2]),),
        ),
        """\
        the region of while returns f32[]; it carries f32[3]
        Fix: let each iteration return the types that it was given.""",
    ),
    "a float for a count": (
        lambda: for_.infer((F0,), for_.attributes({"carried": 0}), (region("body", [], []),)),
        "the count of for is f32[], not i64[]",
    ),
    "a for without an index": (
        lambda: for_.infer((COUNT, F0), for_.attributes({"carried": 1}), (region("b", [F0], [0]),)),
        """\
        a region of for takes f32[]; it is given i64[], f32[]
        Fix: give the region a parameter of the type of each operand.""",
    ),
    "slices of another length": (
        lambda: for_.infer(
            (COUNT, F3),
            for_.attributes({"carried": 0, "length": 4, "sliced": 1}),
            (region("body", [COUNT, F0], []),),
        ),
        "for of length 4 slices a f32[3]",
    ),
    "more carried values than there are": (
        lambda: for_.infer(
            (COUNT, F3), for_.attributes({"carried": 2}), (region("body", [COUNT, F3], [1, 1]),)
        ),
        "for carries 2 of its 1 operands",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(wrong: Any, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        wrong()
    assert str(caught.value) == dedent(message)


def test_a_stack_has_the_type_of_its_rows() -> None:
    body = region("body", [COUNT, F3], [1, 0, 1])
    types = for_.infer((COUNT, F3), for_.attributes({"carried": 1, "length": 5}), (body,))
    assert types == (F3, tensor_type(int64, (5,)), tensor_type(float32, (5, 3)))


def test_text_holds_all_but_functions() -> None:
    for text in (CHOICE, growth(4), scan("true")):
        graph = graph_of(text)
        assert parse(str(graph)) == graph
