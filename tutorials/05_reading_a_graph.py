"""Reading a graph: its text, its regions, and which line of yours became which node."""

# %% A function with a loop that ends when it has arrived, and a branch on the way.
import tempfile
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid.ir import parse, print_graph, verify


@hy.hybridize
def climb(x, rate):
    slope = hy.cos(x)
    while hy.abs(slope) > 1e-3:
        if slope < 0:
            rate = rate / 2
        x = x + rate * slope
        slope = hy.cos(x)
    return x


start, rate = hy.asarray(0.5), hy.asarray(0.9)
top = climb(start, rate)
print(f"the sine is highest at {top.item():.4f}")
assert abs(top.item() - hy.pi / 2) < 0.01

# %% Its graph is text.  Read it from the top: parameters, then one op a line.  Each value has a
# name and a type, dtype and shape: `f32[]` is one float32, `i64[3,4]` a matrix of int64.
# Attributes, which are known before the run, stand in braces.
graph = climb.graph(start, rate)
text = str(graph)
print(text)
assert text.startswith("graph @climb(%0: f32[], %1: f32[]) {")

# %% Control flow is a node like any other, with regions: the graphs that it may run.  Regions are
# closed, so all that a region uses of its surroundings is handed to it as an operand, and all that
# it leaves behind is returned.  The test of a `while` has been moved to the end of its body, which
# returns first whether there is another iteration, then the values that this one begins with.
(loop,) = [node for node in graph.nodes if node.op.name == "while"]
(body,) = loop.regions
assert body.results[0].type == hy.asarray(True).type
assert {node.op.name for node in body.nodes} >= {"cos", "cond"}

# A `cond` has two: then and else.
branch = next(node for node in body.nodes if node.op.name == "cond")
then, otherwise = branch.regions
assert [value.type for value in then.results] == [value.type for value in otherwise.results]

# %% Every node knows the line of the author's that it comes from.
print(print_graph(graph, locations=True))
assert loop.location.text == "while hy.abs(slope) > 1e-3:"
assert Path(loop.location.path).name == "05_reading_a_graph.py"

# %% The other way round, `explain` goes through your source and says what became of each line: a
# node, a loop unrolled, a call of Python, or nothing, because Python was done with it while the
# function was captured.  Below stand the inputs, and what else has to be as it was.
explanation = climb.explain(start, rate)
print(explanation)
lines = {line.text.strip(): line for function in explanation.functions for line in function.lines}
assert lines["while hy.abs(slope) > 1e-3:"].kind == "while"
assert lines["if slope < 0:"].kind == "cond"
assert lines["slope = hy.cos(x)"].kind == "graph"

# The two nodes of `return x` tell whether the loop ran at all: if not, the result is the very
# tensor that was passed, as it is eagerly.
assert lines["return x"].kind == "graph"

# %% It says, too, whether a call finds a plan, and if not, why.
assert "runs plan 1" in explanation.verdict
print(climb.explain(hy.astype(start, hy.float64), rate).verdict)

# %% `walk` visits all nodes, those of regions included, which answers most questions in a line.
ops = sorted({node.op.name for node in graph.walk()})
print(len(list(graph.walk())), "nodes:", ", ".join(ops))

# %% The text is the graph: what was printed can be parsed, and is equal again.  So are the graphs
# in tests and bug reports.
again = parse(text)
assert again == graph
verify(again)  # every type follows from the rules of the ops; else this says where it does not

try:
    verify(parse(text.replace("cos %", "sum %", 1)))
except hy.HybridError as error:
    print(error)
else:
    raise AssertionError("a sum needs its axes")

# %% `show` draws the graph: a page with boxes in boxes for the regions or, by Graphviz, an .svg.
# An explanation is a page as well.
with tempfile.TemporaryDirectory() as folder:
    for page in (
        graph.show(Path(folder) / "graph.html"),
        explanation.html(Path(folder) / "explanation.html"),
    ):
        assert "cos" in page.read_text(encoding="utf-8")

# %% What was captured is not yet what runs: passes simplify it, and chains of elementwise ops are
# made one step.  A plan says how large it is, for which arguments it was captured, what else has to
# be as it was, and how often it ran.
(plan,) = climb.plans
print(plan)
assert plan.arguments == ("f32[]", "f32[]") and plan.calls == 1
assert plan.steps < len(list(graph.walk()))

# %% Its schedule has the steps in the order in which they run, each with the number of others that
# it waits for, its wave (how many wait for each other before it) and about how long it takes.
# Steps that do not depend on each other form groups where two threads gain by it: the members of a
# group run side by side, each of them on one thread, or cut up as it would be by itself.
print(plan.schedule())
assert plan.schedule().splitlines()[0].endswith("0 groups side by side")


@hy.hybridize
def towers(a, b, u, v):
    for left, right in ((u, v), (v, u), (u, v)):
        a, b = hy.tanh(a @ left), hy.tanh(b @ right)
    return a + b


random = np.random.default_rng(0)
sizes = [(12, 256), (12, 256), (256, 256), (256, 256)]
towers(*[hy.asarray(random.standard_normal(size).astype(np.float32)) for size in sizes])
print(towers.plans[0].schedule())
assert "1 group side by side" in towers.plans[0].schedule()

# %% `profile` tells where the time goes: that of captures by phases (reading what the function
# depends on, converting it, tracing, each pass, planning), that of runs by steps.  A step has the
# names of its kernels, the types that it works on, and your line.  `save` writes a trace that
# ui.perfetto.dev and chrome://tracing draw on a time line.
with hy.profile() as profile:
    climb(hy.astype(start, hy.float64), hy.astype(rate, hy.float64))  # other types: a new capture
print(profile)
assert {"capture climb", "trace", "fuse"} <= {phase.name for phase in profile.phases}
slowest = max(profile.steps, key=lambda step: step.seconds)
assert slowest.name == "run of climb"
with tempfile.TemporaryDirectory() as folder:
    profile.save(Path(folder) / "trace.json")
