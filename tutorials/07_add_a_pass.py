"""Add a pass: a function from a graph to a graph that computes the same bits, sooner."""

# %% Graphs are text: what is printed can be parsed, so a pass is best thought of as two texts.
import hybrid as hy
import hybrid.passes
from hybrid.ir import Builder, Graph, Node, Value, parse, rewrite

before = parse("""
graph @twice(%x: f32[8]) {
  %a: f32[8] = relu %x
  %b: f32[8] = relu %a
  %c: f32[8] = negative %b
  %d: f32[8] = abs %c
  return %d
}
""")
after = parse("""
graph @twice(%x: f32[8]) {
  %a: f32[8] = relu %x
  %d: f32[8] = abs %a
  return %d
}
""")


# %% A rule looks at one node at a time, its operands already replaced.  It answers with a value for
# each of the node's results, or None to keep the node.  ``rewrite`` is the driver; given the pass
# itself, it rewrites the regions of control flow, too.
def idempotent(graph: Graph) -> Graph:
    """Drop a relu of a relu, and what only changes the sign in front of abs.

    Exact for every operand: relu returns what is not negative as it is, and abs looks at no sign.
    """
    made: dict[Value, Node] = {}

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        inner = made.get(node.operands[0]) if node.operands else None
        match node.op.name, inner and inner.op.name:
            case "relu", "relu":
                return node.operands
            case "abs", "negative":
                replaced = builder.apply(node.op, inner.operands)
                made[replaced[0]] = builder.nodes[-1]
                return replaced
        made.update(dict.fromkeys(node.results, node))
        return None

    return hybrid.passes.dce(rewrite(graph, rule, regions=idempotent))


# %% The test of a pass is those two texts.  Graphs are equal when they are the same but for names.
print(idempotent(before))
assert idempotent(before) == after

# A graph in which nothing changes comes back itself: so the pipeline knows when it is done.
assert idempotent(after) is after

# %% Regions are graphs, so the pass is as good inside a loop.
loop = parse("""
graph @loop(%go: bool[], %x: f32[8]) {
  %trips: i64[], %y: f32[8] = while %go, %x {carried=1, length=0} {
    body(%x: f32[8]) {
      %a: f32[8] = relu %x
      %b: f32[8] = relu %a
      %s: f32[] = sum %b {axis=(0,), keepdims=false}
      %more: bool[] = isfinite %s
      return %more, %b
    }
  }
  return %y
}
""")
assert len(list(loop.walk())) == 5
assert len(list(idempotent(loop).walk())) == 4


# %% In the house a pass is a file in hybrid/passes and a line in its PIPELINE; here it is the line.
def ramp(x):
    for _ in range(3):
        x = hy.relu(hy.relu(x) - 1.0)
        x = hy.abs(-hy.relu(x))
    return x


def steps_of(function, *args):
    captured = hy.hybridize(function)
    result = captured(*args)
    return result, captured.plans[0].nodes


x = hy.random.normal(size=1000) * 4
plain, nodes = steps_of(ramp, x)
hybrid.passes.PIPELINE = (idempotent, *hybrid.passes.PIPELINE)
better, fewer = steps_of(ramp, x)
print(f"{nodes} nodes without the pass, {fewer} with it")
assert fewer < nodes

# %% What every pass promises: not one bit differs.
assert plain.numpy().tobytes() == better.numpy().tobytes() == ramp(x).numpy().tobytes()
