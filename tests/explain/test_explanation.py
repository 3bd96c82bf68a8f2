"""Explanations of whole functions, their text pinned: what became of each line."""

import os
import re
from pathlib import Path

import pytest

import hybrid as hy
from hybrid.errors import CaptureError, GraphError
from hybrid.explain.explanation import Explanation
from tests.explain import samples

ROOT = Path(samples.__file__).parents[2]


@pytest.fixture(autouse=True)
def paths_from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def source_of(explanation: Explanation) -> str:
    """The text without what comes after the functions."""
    blocks = str(explanation).split("\n\n")
    return "\n\n".join(b for b in blocks[1:] if ".py:" in b.splitlines()[0] + " ")


NET = """\
Net(f32[2,2]): 45 nodes, 18 of them in regions
a call builds a new plan: first call

Net.forward  tests/explain/samples.py:21
21                       def forward(self, x, verbose=True):
22  4  graph                 h = self.first(x) * SCALE
                             ^ guard: global SCALE is 2.0
23  4  cond %16              if h.sum() > 0:
24  1  graph                     h = hy.tanh(h)
25  2  graph                     h = h * 3
26                           else:
27  7  cond %4                   h = hy.relu(-h) if h.min() < -1 else -h
                                 ^ in the else of cond %16
28                           # one by one
29     unrolled 3 times      for layer in self.layers:
                             ^ Python goes over its items one by one
30  6  graph                     h = layer(h)
31  2  for %24               for _ in range(50):
                             ^ 50 iterations, 1 value carried
32  1  graph                     h = hy.tanh(h)
33     python                if verbose:
                             ^ default: verbose is True
34  2  py_call                   print("norm", h.max())
                                 ^ called at every run, in order with other calls
35  5  check                 assert h.max() < 100, "too big"
                             ^ the plan raises AssertionError
36     python                if not self.training:
                             ^ guard: Net.training is True
37     not run                   return h
38     python                return squash(h, 4.0)
                             ^ calls squash

squash  tests/explain/samples.py:9
 9                       def squash(h, limit):
10                           \"""Keep h small.\"""
11  9  while %33             while hy.sum(h * h) > limit:
                             ^ 1 value carried
12  2  graph                     h = h * 0.5
13     python                return h

Inputs
%0  f32[2,2]  argument x
%1  f32[2,2]  self.first.weight
%2  f32[2]    self.first.bias
%3  f32[2,2]  self.layers.0.weight
%4  f32[2]    self.layers.0.bias
%5  f32[2,2]  self.layers.1.weight
%6  f32[2]    self.layers.1.bias
%7  f32[2,2]  self.layers.2.weight
%8  f32[2]    self.layers.2.bias

Guards: what must be as it was
Linear.in_features is 2  (4 times)
Linear.out_features is 2  (4 times)
Linear.training is True  (4 times)
ModuleList.training is True
Net.training is True
defaults of forward are (True,)
global SCALE is 2.0
55 more on functions, modules, objects and hybrid's own registries"""


def test_a_model() -> None:
    net = samples.Net(2, 3).hybridize()
    with hy.no_grad():
        explanation = net.explain(hy.ones((2, 2)))
    assert str(explanation) == NET
    assert repr(explanation) == f"<explanation of {NET.splitlines()[0]}>"
    assert net.plans == []  # nothing is kept


def test_names_are_those_of_the_printed_graph() -> None:
    net = samples.Net(2, 3).hybridize()
    explanation = net.explain(hy.ones((2, 2)))
    printed = str(net.graph(hy.ones((2, 2))))
    labels = [line.label for function in explanation.functions for line in function.lines]
    control = [label.split() for label in labels if "%" in label]
    assert [op for op, _ in control] == ["cond", "cond", "for", "while"]
    for op, name in control:
        assert re.search(rf"^ *{name}: [^=]+ = {op} ", printed, re.MULTILINE)


def test_a_loop_that_may_end_early() -> None:
    explanation = hy.hybridize(samples.search).explain(hy.ones((10, 3)))
    assert (
        source_of(explanation)
        == """\
search  tests/explain/samples.py:41
41                def search(xs, limit=10):
42   1  graph         total = hy.zeros(3)
43  13  while %8      for i in range(limit):
                      ^ 4 values carried, it may end early
                      ^ default: limit is 10
44   5  cond %6           if xs[i].sum() > 3:
                          ^ in the body of while %8
45      jump                  break
46   2  graph             total = total + xs[i]
47      python        return (
48                        total,
49                        i,
50                    )"""
    )


def test_loops_that_python_runs() -> None:
    explanation = hy.hybridize(samples.plain_loops).explain(hy.ones(3), ["ab", "c"], 2)
    assert (
        source_of(explanation)
        == """\
plain_loops  tests/explain/samples.py:53
53                       def plain_loops(x, words, k):
54     python                count = 0
55     unrolled 2 times      while count < k:
                             ^ its test is a Python value
                             ^ key: argument k is 2
56  4  graph                     x = x + count
57     python                    count += 1
58     python                for word in words:
                             ^ key: argument words[0] is 'ab'
                             ^ key: argument words[1] is 'c'
59     python                    count += len(word)
60     python                rows = []
61     unrolled 2 times      for i in range(2):
                             ^ a slice of a tensor has a length that only the run knows \
(tests/explain/samples.py:62)
62  2  graph                     rows.append(x[: i + 1])
63                           return (
64  4  graph                     [row * 2 for row in rows],
65                               count,
66                           )"""
    )


def test_functions_that_are_not_converted_say_why() -> None:
    explanation = hy.hybridize(samples.calls_unconverted).explain(hy.ones(3))
    assert (
        source_of(explanation)
        == """\
calls_unconverted  tests/explain/samples.py:75
75             def calls_unconverted(x):
76     python      return unconverted(unconverted(x))
                   ^ calls unconverted

unconverted  tests/explain/samples.py:69
traced as it is: it is marked with no_convert, or a library called it
69             @hy.no_convert
70             def unconverted(x):
71  4  graph       y = x + 1
72     python      return y"""
    )


def test_without_conversion() -> None:
    explanation = hy.hybridize(samples.wrapped, mode="trace").explain(hy.ones(3))
    assert (
        source_of(explanation)
        == """\
wraps.wrapper  tests/explain/samples.py:80
traced as it is: mode="trace"
80             def wrapper(*args):
81     python      return function(*args)
                   ^ calls wrapped

wrapped  tests/explain/samples.py:86
traced as it is: mode="trace"
86             @wraps
87             def wrapped(x):
88  2  graph       return x * 2"""
    )


def test_functions_inside_others_and_decorated_ones() -> None:
    explanation = hy.hybridize(samples.both).explain(hy.ones(3))
    assert (
        source_of(explanation)
        == """\
both  tests/explain/samples.py:91
91              def both(x):
92  2  graph        first = lambda v: v + 1  # noqa: E731
93  4  cond %4      return first(x) if x.sum() > 0 else wrapped(x)
                    ^ calls wraps.wrapper

wraps.wrapper  tests/explain/samples.py:80
80              def wrapper(*args):
81     python       return function(*args)
                    ^ calls wrapped

wrapped  tests/explain/samples.py:86
86              @wraps
87              def wrapped(x):
88  2  graph        return x * 2"""
    )


def test_a_method_and_what_it_writes() -> None:
    explanation = hy.hybridize(samples.Counter().count).explain(
        hy.ones((3, 2)), names=("a", hy.ones(1))
    )
    assert (
        str(explanation)
        == """\
count(f32[3,2], 'a', f32[1]): 5 nodes; backward 5 nodes
a call builds a new plan: first call

Counter.count  tests/explain/samples.py:101
101            def count(self, x, *, names):
102  2  graph      self.seen = self.seen + 1
103  3  graph      return self.net(x) * self.seen

Inputs
%0  f32[]     self.seen
%1  f32[3,2]  argument x
%2  f32[1,2]  self.net.weight
%3  f32[1]    self.net.bias

Attributes that a run sets
self.seen

Guards: what must be as it was
Linear.in_features is 2
Linear.out_features is 1
14 more on functions, modules, objects and hybrid's own registries"""
    )


def test_checks_that_an_operation_makes() -> None:
    explanation = hy.hybridize(samples.indexed).explain(hy.ones((3, 2)), hy.asarray(2))
    assert "                   ^ 1 check at every run" in str(explanation).splitlines()


def test_a_training_step() -> None:
    net = hy.nn.Linear(2, 1)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    hybridized = hy.hybridize(step)
    hybridized(hy.ones((3, 2)))
    text = str(hybridized.explain(hy.ones((3, 2))))
    assert "%1  f32[1,2]  net.weight, written back" in text
    assert "net.weight.grad" in text.split("Attributes that a run sets\n")[1].splitlines()


def test_a_variable_of_an_enclosing_function() -> None:
    h = hy.ones(2)

    def add(x):
        nonlocal h
        h = h + x
        return h

    text = str(hy.hybridize(add).explain(hy.ones(2)))
    assert "Inputs\n%0  f32[2]  h\n%1  f32[2]  argument x\n" in text
    assert "Attributes that a run sets\nh\n" in text


def test_a_number_that_is_an_input() -> None:
    hybridized = hy.hybridize(lambda x, k: x * k)
    for k in (2, 3):
        hybridized(hy.ones(2), k)
    text = str(hybridized.explain(hy.ones(2), 7))
    assert text.startswith("graph(f32[2], any int): ")
    assert "argument k, any number" in text
    assert "a call runs plan 2 of 2, built because: argument k is 3 where" in text


def test_which_plan_serves_a_call() -> None:
    hybridized = hy.hybridize(samples.squash)
    hybridized(hy.ones(2), hy.ones(()))
    hybridized(hy.ones(3), hy.ones(()))
    explanation = hybridized.explain(hy.ones(3), hy.ones(()))
    assert explanation.verdict == (
        "a call runs plan 2 of 2, built because: "
        "argument h is f32[3] where the cached plan has f32[2]"
    )
    assert hybridized.explain(hy.ones(7), hy.ones(())).verdict == (
        "a call runs plan 2 of 2, bound to n = 7, built because: "
        "argument h is f32[3] where the cached plan has f32[2]"
    )
    *_, first, why, second, other = str(explanation).splitlines()
    assert first.startswith("1. (f32[2], f32[]): ") and first.endswith(", 1 guard, 1 call")
    assert why == "   built because: first call"
    assert second.startswith("2. (f32[n], f32[]): ") and second.endswith("bound to n = 3")
    assert other == ("   built because: argument h is f32[3] where the cached plan has f32[2]")


def test_a_function_without_source_shows_what_is_known() -> None:
    namespace: dict = {}
    exec("def f(x):\n    y = x + 1\n    return y * 2\n", namespace)
    assert (
        str(hy.hybridize(namespace["f"]).explain(hy.ones(3)))
        == """\
f(f32[3]): 4 nodes
a call builds a new plan: first call

f  <string>:1
traced as it is: the source of <string> is not to be had
2  2  graph
3  2  graph

Inputs
%0  f32[3]  argument x"""
    )


def test_a_file_that_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "changed.py"
    path.write_text("def f(x):\n    return x + 1\n", encoding="utf-8")
    namespace: dict = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    path.write_text("# another line\ndef f(x):\n    return x - 1\n", encoding="utf-8")
    told = str(hy.hybridize(namespace["f"]).explain(hy.ones(3)))
    remark = "has changed since it was imported, or was rewritten while it was"
    assert f"f  changed.py:1\ntraced as it is: {path} {remark}\n2  2  graph\n" in told


def test_nothing_of_the_author() -> None:
    net = hy.nn.Sequential(hy.nn.Linear(2, 2), hy.nn.ReLU()).hybridize()
    lines = str(net.explain(hy.ones((1, 2)))).splitlines()
    assert lines[:6] == [
        "Sequential(f32[1,2]): 3 nodes; backward 6 nodes",
        "a call builds a new plan: first call",
        "No line of yours was traced: there is no source to show.",
        "",
        "Nodes of other lines",
        "3 nodes  layers of hybrid that no line above calls",
    ]


def test_what_cannot_be_captured_raises() -> None:
    with pytest.raises(CaptureError, match="_counts changed global _TALLY") as caught:
        hy.hybridize(_counts).explain(hy.ones(2))
    assert "Fix: " in str(caught.value)


def _counts(x):
    _TALLY.append(1)
    return x


_TALLY: list = []


def test_explaining_leaves_everything_as_it_was() -> None:
    counter = samples.Counter()
    seen = counter.seen
    hybridized = hy.hybridize(counter.count)
    hybridized.explain(hy.ones((3, 2)), names=())
    assert counter.seen is seen and seen.tolist() == 0.0
    assert hybridized.plans == []


def test_the_page_needs_a_place(tmp_path: Path) -> None:
    explanation = hy.hybridize(samples.squash).explain(hy.ones(2), hy.ones(()))
    path = tmp_path / "absent" / "page.html"
    with pytest.raises(GraphError) as caught:
        explanation.html(path)
    assert str(caught.value) == (
        f"{path} cannot be written: {os.strerror(2)}\n"
        "Fix: give a path in a folder that exists and may be written to."
    )


def test_modules_that_are_not_hybridized() -> None:
    with pytest.raises(ValueError, match="this Linear is not hybridized"):
        hy.nn.Linear(1, 1).explain(hy.ones(1))


def test_a_while_that_keeps_what_the_gradient_needs() -> None:
    def shrink(h):
        while h.sum() > 1:
            h = h * h * 0.1
        return h

    h = hy.ones(2)
    h.requires_grad = True
    explanation = hy.hybridize(shrink).explain(h)
    (loop,) = [x for x in explanation.functions[0].lines if x.kind == "while"]
    assert [note.text for note in loop.notes] == ["1 value carried, 1 stacked"]
