"""verify finds each broken rule and shows the text round it."""

from textwrap import dedent

import pytest
from hypothesis import given

import hybrid.ops  # noqa: F401
from hybrid.core.types import TensorType, bool_, float32, float64, int64, tensor_type
from hybrid.errors import GraphError, Location
from hybrid.ir import Builder, Graph, Node, Op, Value, get_op, verify
from tests.random_graphs import graphs, unhurried

F4, F3, F0 = (tensor_type(float32, shape) for shape in ((4,), (3,), ()))
EXP, ADD, MAP = (get_op(name) for name in ("exp", "add", "map"))


def exp(operand: Value, result: Value, op: Op = EXP, **given: object) -> Node:
    return Node(op, (operand,), (), (result,), **given)


x, y, a, b = (Value(F4, name) for name in "xyab")


def used_before_defined() -> Graph:
    return Graph("f", (x,), (exp(b, a), exp(x, b)), (a,))


def used_from_nowhere() -> Graph:
    return Graph("f", (x,), (exp(y, a),), (a,))


def returned_from_nowhere() -> Graph:
    return Graph("f", (x,), (exp(x, a),), (a, y))


def defined_twice() -> Graph:
    return Graph("f", (x,), (exp(x, a), exp(a, a)), (a,))


def parameter_twice() -> Graph:
    return Graph("f", (x, x), (), ())


def parameter_again() -> Graph:
    return Graph("f", (x,), (exp(x, x),), (x,))


def open_region() -> Graph:
    region = Graph("", (y,), (exp(x, a),), (a,))
    return Graph("f", (x,), (Node(MAP, (x,), (), (b,), (region,)),), (b,))


def region_of_another_type() -> Graph:
    inner, outer = Value(F3, "y"), Value(F3, "a")
    region = Graph("", (inner,), (exp(inner, outer),), (outer,))
    return Graph("f", (x,), (Node(MAP, (x,), (), (b,), (region,)),), (b,))


def region_of_an_op_without() -> Graph:
    return Graph("f", (x,), (exp(x, a, regions=(Graph("", (), (), ()),)),), (a,))


def wrong_type() -> Graph:
    return Graph("f", (x,), (exp(x, Value(F3, "a")),), ())


def wrong_attributes() -> Graph:
    return Graph("f", (x,), (Node(get_op("sum"), (x,), (("axis", (0,)),), (a,)),), ())


def refused_by_the_rule() -> Graph:
    z = Value(F3, "z")
    node = Node(ADD, (x, z), (), (a,), (), Location("model.py", 7, "  total = x + z"))
    return Graph("f", (x, z), (node,), ())


def several_dtypes() -> Graph:
    z = Value(tensor_type(float64, (4,)), "z")
    return Graph("f", (x, z), (Node(ADD, (x, z), (), (a,)),), ())


def undeclared_op() -> Graph:
    def rule(x: TensorType) -> TensorType:
        return x

    stranger = Op.__new__(Op)
    stranger.name, stranger.attr_defaults, stranger.rule = "stranger", {}, rule
    return Graph("f", (x,), (exp(x, a, stranger),), (a,))


def fault_far_down() -> Graph:
    values = [Value(F4, f"v{i}") for i in range(9)]
    nodes = [exp(p, q) for p, q in zip([x, *values], values, strict=False)]
    nodes[4] = exp(y, values[4])
    return Graph("f", (x,), tuple(nodes), (values[-1],))


def region_graph(name: str, params: tuple[Value, ...], *results: Value) -> Graph:
    """A region that computes ``results`` from its first parameter, one after the other."""
    nodes = [exp(p, q) for p, q in zip([params[0], *results], results, strict=False)]
    return Graph(name, params, tuple(nodes), (results[-1] if results else params[0],))


flag, count = Value(tensor_type(bool_, ()), "p"), Value(tensor_type(int64, ()), "n")


def branches_of_two_types() -> Graph:
    inner, other = Value(F4, "y"), Value(F4, "y")
    chain = tuple(Value(F4, f"v{i}") for i in range(7))
    node = Node(
        get_op("sum"), (other,), get_op("sum").attributes({"axis": (0,)}), (Value(F0, "s"),)
    )
    regions = (
        region_graph("then", (inner,), *chain),
        Graph("else", (other,), (node,), node.results),
    )
    return Graph("f", (flag, x), (Node(get_op("cond"), (flag, x), (), (a,), regions),), (a,))


def branch_of_other_operands() -> Graph:
    regions = (
        region_graph("then", (Value(F4, "y"),)),
        region_graph("else", (Value(F4, "y"), Value(F4))),
    )
    return Graph("f", (flag, x), (Node(get_op("cond"), (flag, x), (), (a,), regions),), (a,))


def one_branch() -> Graph:
    regions = (region_graph("then", (Value(F4, "y"),)),)
    return Graph("f", (flag, x), (Node(get_op("cond"), (flag, x), (), (a,), regions),), (a,))


def tensor_for_a_predicate() -> Graph:
    regions = tuple(region_graph(name, (Value(F4, "y"),)) for name in ("then", "else"))
    return Graph("f", (x,), (Node(get_op("cond"), (x, x), (), (a,), regions),), (a,))


def loop(op: str, head: Value, body: Graph, results: tuple[Value, ...], **attrs: object) -> Graph:
    node = Node(get_op(op), (head, x), get_op(op).attributes(attrs), results, (body,))
    return Graph("f", (head, x), (node,), results)


def while_without_a_test() -> Graph:
    body = region_graph("body", (Value(F4, "y"),), Value(F4, "a"))
    return loop("while", flag, body, (Value(count.type, "n"), a), carried=1)


def carried_of_another_type() -> Graph:
    index, inner = Value(count.type, "i"), Value(F4, "y")
    body = Graph("body", (index, inner), (), (index,))
    return loop("for", count, body, (a,), carried=1)


def more_carried_than_operands() -> Graph:
    index, inner = Value(count.type, "i"), Value(F4, "y")
    body = Graph("body", (index, inner), (), (inner, inner))
    return loop("for", count, body, (a, b), carried=2)


def slice_of_another_length() -> Graph:
    index, inner = Value(count.type, "i"), Value(F0, "y")
    body = Graph("body", (index, inner), (), ())
    return loop("for", count, body, (), carried=0, length=8, sliced=1)


def region_uses_the_outside() -> Graph:
    index, inner = Value(count.type, "i"), Value(F4, "y")
    body = Graph("body", (index, inner), (), (x,))
    return loop("for", count, body, (a,), carried=1)


ERRORS = {
    branches_of_two_types: """\
        @f is not valid: the regions of cond return f32[4] and f32[]
          graph @f(%p: bool[], %x: f32[4]) {
        >   %a: f32[4] = cond %p, %x {
              then(%y: f32[4]) {
                %v0: f32[4] = exp %y
                %v1: f32[4] = exp %v0
          ...
                return %v6
              }
              else(%y: f32[4]) {
          ...
                return %s
              }
          ...
        Fix: let both return the same types.""",
    branch_of_other_operands: """\
        @f is not valid: a region of cond takes f32[4], f32[4]; it is given f32[4]
          graph @f(%p: bool[], %x: f32[4]) {
        >   %a: f32[4] = cond %p, %x {
              then(%y: f32[4]) {
                return %y
              }
              else(%y: f32[4], %0: f32[4]) {
                return %y
              }
          ...
        Fix: give the region a parameter of the type of each operand.""",
    one_branch: """\
        @f is not valid: cond needs 2 regions, not 1
          graph @f(%p: bool[], %x: f32[4]) {
        >   %a: f32[4] = cond %p, %x {
              then(%y: f32[4]) {
                return %y
              }
          ...
        Fix: change the operands.""",
    tensor_for_a_predicate: """\
        @f is not valid: the predicate of cond is f32[4], not bool[]
          graph @f(%x: f32[4]) {
        >   %a: f32[4] = cond %x, %x {
              then(%y: f32[4]) {
                return %y
              }
              else(%y: f32[4]) {
                return %y
              }
          ...
        Fix: change the operands.""",
    while_without_a_test: """\
        @f is not valid: the region of while returns no bool scalar first
          graph @f(%p: bool[], %x: f32[4]) {
        >   %n: i64[], %a: f32[4] = while %p, %x {carried=1, length=0} {
              body(%y: f32[4]) {
                %a: f32[4] = exp %y
                return %a
              }
          ...
        Fix: change the operands.""",
    carried_of_another_type: """\
        @f is not valid: the region of for returns i64[]; it carries f32[4]
          graph @f(%n: i64[], %x: f32[4]) {
        >   %a: f32[4] = for %n, %x {carried=1, length=0, reverse=false, sliced=0} {
              body(%i: i64[], %y: f32[4]) {
                return %i
              }
          ...
        Fix: let each iteration return the types that it was given.""",
    more_carried_than_operands: """\
        @f is not valid: for carries 2 of its 1 operands
          graph @f(%n: i64[], %x: f32[4]) {
        >   %a: f32[4], %b: f32[4] = for %n, %x {carried=2, length=0, reverse=false, sliced=0} {
              body(%i: i64[], %y: f32[4]) {
                return %y, %y
              }
          ...
        Fix: change the operands.""",
    slice_of_another_length: """\
        @f is not valid: for of length 8 slices a f32[4]
          graph @f(%n: i64[], %x: f32[4]) {
        >   for %n, %x {carried=0, length=8, reverse=false, sliced=1} {
              body(%i: i64[], %y: f32[]) {
                return
              }
          ...
        Fix: change the operands.""",
    region_uses_the_outside: """\
        @f is not valid: the graph returns %x, which belongs to the graph around this region
          graph @f(%n: i64[], %x: f32[4]) {
            %a: f32[4] = for %n, %x {carried=1, length=0, reverse=false, sliced=0} {
              body(%i: i64[], %y: f32[4]) {
        >       return %?x
              }
            }
            return %a
          ...
        Fix: make it an operand of the node and a parameter of its region.""",
    used_before_defined: """\
        @f is not valid: exp uses %b, which is defined later
          graph @f(%x: f32[4]) {
        >   %a: f32[4] = exp %b
            %b: f32[4] = exp %x
            return %a
          }
        Fix: order the nodes so that a value is defined before it is used.""",
    used_from_nowhere: """\
        @f is not valid: exp uses %?y, which is defined nowhere
          graph @f(%x: f32[4]) {
        >   %a: f32[4] = exp %?y
            return %a
          }
        Fix: order the nodes so that a value is defined before it is used.""",
    returned_from_nowhere: """\
        @f is not valid: the graph returns %?y, which is defined nowhere
          graph @f(%x: f32[4]) {
            %a: f32[4] = exp %x
        >   return %a, %?y
          }
        Fix: return the graph's own parameters and results of its nodes.""",
    defined_twice: """\
        @f is not valid: exp defines %a for the second time
          graph @f(%x: f32[4]) {
            %a: f32[4] = exp %x
        >   %a: f32[4] = exp %a
            return %a
          }
        Fix: give every result a Value of its own.""",
    parameter_twice: """\
        @f is not valid: the parameter %x stands twice in its list
        > graph @f(%x: f32[4], %x: f32[4]) {
            return
          }
        Fix: list it once.""",
    parameter_again: """\
        @f is not valid: exp defines %x for the second time
          graph @f(%x: f32[4]) {
        >   %x: f32[4] = exp %x
            return %x
          }
        Fix: give every result a Value of its own.""",
    open_region: """\
        @f is not valid: exp uses %x, which belongs to the graph around this region
          graph @f(%x: f32[4]) {
            %b: f32[4] = map %x {
              (%y: f32[4]) {
        >       %a: f32[4] = exp %?x
                return %a
              }
            }
          ...
        Fix: make it an operand of the node and a parameter of its region.""",
    region_of_another_type: """\
        @f is not valid: the region of map takes f32[3]; its operands are f32[4]
          graph @f(%x: f32[4]) {
        >   %b: f32[4] = map %x {
              (%y: f32[3]) {
                %a: f32[3] = exp %y
                return %a
              }
          ...
        Fix: give the region a parameter of the type of each operand.""",
    region_of_an_op_without: """\
        @f is not valid: exp owns a region; the op takes none
          graph @f(%x: f32[4]) {
        >   %a: f32[4] = exp %x {
              () {
                return
              }
          ...
        Fix: leave the region out.""",
    wrong_type: """\
        @f is not valid: exp has results of types f32[3]; its rule gives f32[4]
          graph @f(%x: f32[4]) {
        >   %a: f32[3] = exp %x
            return
          }
        Fix: build nodes with Builder.apply, which infers the types.""",
    wrong_attributes: """\
        @f is not valid: sum has the attributes axis; its own are axis, keepdims
          graph @f(%x: f32[4]) {
        >   %a: f32[4] = sum %x {axis=(0,)}
            return
          }
        Fix: make attributes with op.attributes.""",
    refused_by_the_rule: """\
        @f is not valid: add cannot take f32[4] and f32[3] (model.py:7)
            7 | total = x + z
          graph @f(%x: f32[4], %z: f32[3]) {
        >   %a: f32[4] = add %x, %z
            return
          }
        Aligned at the last axis, sizes must agree or be 1; 4 and 3 do not.
        Fix: change one shape with reshape or expand_dims.""",
    several_dtypes: """\
        @f is not valid: add has operands of dtypes f32, f64
          graph @f(%x: f32[4], %z: f64[4]) {
        >   %a: f32[4] = add %x, %z
            return
          }
        Fix: cast them to one dtype: promotion comes before graphs.""",
    undeclared_op: """\
        @f is not valid: the op stranger is not in the registry
          graph @f(%x: f32[4]) {
        >   %a: f32[4] = stranger %x
            return %a
          }
        Fix: declare it with @op.""",
    fault_far_down: """\
        @f is not valid: exp uses %?y, which is defined nowhere
          ...
            %v1: f32[4] = exp %v0
            %v2: f32[4] = exp %v1
            %v3: f32[4] = exp %v2
        >   %v4: f32[4] = exp %?y
            %v5: f32[4] = exp %v4
            %v6: f32[4] = exp %v5
            %v7: f32[4] = exp %v6
          ...
        Fix: order the nodes so that a value is defined before it is used.""",
}


@pytest.mark.parametrize(
    ("broken", "message"), ERRORS.items(), ids=lambda case: getattr(case, "__name__", "")
)
def test_errors(broken, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        verify(broken())
    assert str(caught.value) == dedent(message)


def test_the_pass_at_fault_is_named() -> None:
    with pytest.raises(GraphError, match=r"^@f is not valid: after cse: exp uses %\?y, which"):
        verify(used_from_nowhere(), after="cse")


@unhurried
@given(graphs())
def test_what_a_builder_makes_is_valid(graph: Graph) -> None:
    verify(graph)


def test_a_builder_refuses_what_a_type_rule_refuses() -> None:
    builder = Builder()
    with pytest.raises(ValueError, match="add cannot take"):
        builder.apply(ADD, [builder.param(F4), builder.param(F3)])
