"""The productions of random programs, one row each: a new form is a row.

A row belongs to a kind - what it is a form of - and to a feature, which each program has or has
not.  ``<kind>`` in its text is drawn anew, ``<=>`` is a number that is the row's own, ``<N>`` the
length of vectors, ``<S>`` their shape and ``<D>`` the program's dtype.  A kind on a line of its own
gives lines, indented likewise.

Kinds of expressions: ``v`` a vector of dtype D, ``s`` a tensor of one element of it, ``n`` a
tensor of whole numbers, ``m`` one of bools, ``i`` an int, ``f`` a float (or what is used like one),
``b`` a bool, ``c`` what can be asked for truth, ``l`` a list of vectors, ``a`` anything.  Kinds of
statements: ``stmt``, ``jump`` (in a loop), and blocks of both: ``block`` where it stands, ``loop``
in a loop, ``inner`` in a function.  ``<result>`` is what the program gives, the same throughout;
``<every>`` are the names of START.

In the tables, here and in ``statements``, ``[feature]`` is that of the rows that follow, ``[a,
without b]`` that of rows for programs that do not have the feature b.  ``kind: text  |  text`` are
two rows, ``kind x2: text`` is drawn twice as often, and a row of several lines is indented.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.fuzz.statements import STATEMENTS

# What a program begins with, in this order; the rows of a kind are its choices.
START = ("v0", "v1", "s0", "s1", "i0", "f0", "p0", "xs", "o", "d", "a0", "n0", "m0", "g0", "g1")

STARTS = r"""
[always, without inplace]
start v0: v0 = x  |  v0 = x * 1.0
start v1: v1 = y  |  v1 = x * 2.0  |  v1 = v0
start s0: s0 = s  |  s0 = s * 1.0
start s1: s1 = hy.sum(x)  |  s1 = s0

[inplace]
start v0: v0 = x * 1.0
start v1: v1 = y * 2.0  |  v1 = v0
start s0: s0 = s * 1.0
start s1: s1 = hy.sum(x)  |  s1 = s0

[always]
start i0: i0 = 1  |  i0 = k
start f0: f0 = 0.5  |  f0 = r
start p0: p0 = q  |  p0 = False

[lists]
start xs: xs = [x * 3.0, y + 1.0]  |  xs = [v0, v1]

[objects]
start o: o = Point(v0, s0)  |  o = Point(x * 0.25, s + 1.0)  |  o = SimpleNamespace(v=v1, s=s1)

[dicts]
start d: d = {"a": v0, "b": s * 2.0}  |  d = dict(a=x, b=s1)

[anything]
start a0: a0 = None  |  a0 = 1  |  a0 = s

[whole]
start n0: n0 = n  |  n0 = n + 1

[masks]
start m0: m0 = x > 0  |  m0 = hy.isnan(y)

[closures]
start g0: g0 = double  |  g0 = lambda w: w + s0
start g1: g1 = g0  |  g1 = lambda w, t=s1: w * t
"""

EXPRESSIONS = r"""
[always]
v x2: v0  |  v1  |  x
v: y

[always, without sizes]
v: state.v

[lists]
v: xs[0]  |  xs[-1]  |  xs[len(xs) - 1]

[objects]
v: o.v  |  (o.v * 0.5)

[dicts]
v: d["a"]  |  d.get("a", v0)

[always]
v: (<v> + <v>)  |  (<v> - <s>)  |  (<v> * <f>)  |  (<v> + <i>)  |  hy.sin(<v>)  |  hy.tanh(<v>)
v: (-<v>)  |  (<v> * <s>)  |  (<v> if <c> else <v>)  |  hy.where(<v> > <s>, <v>, 0.5)
v: hy.maximum(<v>, <v>)  |  (<v> / 2)  |  hy.abs(<v>)

[sizes]
v: hy.arange(x.shape[0], dtype=<D>)  |  hy.full(x.shape, 0.5, dtype=<D>)
v: hy.roll(<v>, len(x) // 2)
v: <v>[: x.shape[0]]  |  hy.concat([<v>, <v>])[x.shape[0] :]  |  hy.concat([<v>[1:], <v>[:1]])
v: hy.reshape(hy.stack([<v>, <v>]), (-1,))[: len(x)]  |  <v>.reshape(x.shape[0], 1).reshape(-1)
v: hy.broadcast_to(<s>, x.shape)  |  (<v> / x.shape[0])  |  hy.concat(hy.chunk(<v>, 2))
v: hy.tril(hy.ones((len(x), len(x)), dtype=<D>)) @ <v>  |  hy.sort(<v>)  |  <v>[::-1]
v: hy.concat([<v>, hy.zeros(4 - len(x) % 4, dtype=<D>)])[: len(x)]  |  (<v> * <v>[-1:])
v: hy.repeat(hy.reshape(<s>, (1,)), x.shape[0])  |  <v>[hy.arange(len(x)) // 2]
v: hy.where(hy.arange(len(x)) < <i>, <v>, <v>)  |  hy.stack([<v>[j] * j for j in range(len(x))])
v: hy.sum(<v>[:, None] * <v>[None, :], axis=1)  |  hy.einsum("i,j->i", <v>, <v>)
v: hy.softmax(<v>.reshape(1, -1), axis=1)[0]  |  hy.broadcast_to(<v>[:1], x.shape)
s: <v>[-1]  |  <v>[len(x) // 2]  |  hy.sum(<v>) / x.size  |  hy.mean(<v>[x.shape[0] // 2 :])
s: sum(w * 0.5 for w in <v>)  |  hy.max(<v>[: len(x) // 2 + 1])
i: len(x)  |  x.shape[0]  |  (x.shape[0] // 2)  |  (len(x) % 3)  |  min(len(x), 4)  |  (x.size - 1)
i: max(x.shape[0] - 3, 1)  |  -(-len(x) // 2)
f: (len(x) / 2)  |  math.sqrt(x.shape[0])  |  (1.0 / x.shape[0])
b: (len(x) > 3)  |  (x.shape[0] % 2 == 0)  |  (x.shape == y.shape)  |  (x.shape[-1] == <N>)

[detach]
v: <v>.detach()  |  hy.stop_gradient(<v>)
s: <s>.detach()

[items]
v: hy.flip(<v>)  |  hy.cumsum(<v>)  |  hy.softmax(<v>)

[lazy]
s: (<s> and <s>)  |  (<s> or <s>)  |  (<s> if <c> else <s>)
i: (<i> and <i>)  |  (<i> or <i>)
f: (<f> or <f>)

[casts]
v: hy.astype(hy.astype(<v>, hy.float16), <D>)  |  hy.astype(hy.astype(<v>, hy.bfloat16), <D>)
v: hy.astype(hy.astype(<v>, hy.float64), <D>)  |  hy.astype(<v> > <s>, <D>)
s: hy.astype(<n>, <D>)

[lists]
v: sum(<l>, <v>)  |  <l>[-1]  |  <l>[0]  |  sum([w * <s> for w in <l>], <v>)
v: hy.stack(<l>)[<i> % 2]  |  <l>[<i> % 2]
s: hy.sum(hy.stack(<l>))
i: len(<l>)

[functions]
v: keep(<v>, <s>)  |  mix(<v>, <s>, <i>)  |  keep(*(<v>, <s>))  |  partial(keep, s=<s>)(<v>)
v: deep(<v>, <i> % 4)
s: pick(<s>, t=<s>)
i: count(<i>, <s>)

[closures]
v: g0(<v>)  |  g1(<v>)  |  (lambda w: w * <s>)(<v>)  |  (lambda w, t=<f>: w + t + s0)(<v>)
v: list(map(g0, [<v>, <v>]))[1]  |  functools.reduce(lambda w, t: w + g1(t), [<v>, <v>])

[generators]
v: sum((w * <f> for w in (<v>, <v>)), <v>)  |  next(w for w in (<v>, <v>))
v: sum(steps(<v>, <i> % 3), <v>)  |  [*steps(<v>, 2)][-1]
b: any(<s> > w for w in (0.0, <f>))  |  all(<b> for _ in range(2))
s: max((hy.sum(w) for w in (<v>, <v>)))

[modules]
v: net(<v>)  |  net.scaled(<v>)  |  net.weight  |  net.act(<v>)
s: net.seen

[gradients]
v: hy.grad(lambda w: hy.sum(w * <v>))(<v>)  |  hy.grad(lambda w: hy.sum(hy.sin(w)) * <s>)(<v>)
v: hy.grad(scored)(<v>, <s>)  |  hy.jvp(hy.tanh, (<v>,), (<v>,))[1]
s: hy.value_and_grad(scored)(<v>, <s>)[0]

[masks]
v: hy.where(<m>, <v>, <v>)  |  hy.where(<m>, <v>, <s>)  |  (<v> * <m>)
m: m0  |  (<v> > <s>)  |  hy.isfinite(<v>)  |  (~<m>)  |  (<m> & <m>)
c: hy.any(<m>)
s: hy.sum(<v>[<m>])

[whole]
n: n0  |  n  |  (<n> + <i>)  |  (<n> * <n>)  |  (<n> // 2)
n: hy.sum(hy.astype(<v> > <s>, hy.int32))  |  (<n> % 3)  |  (-<n>)
v: (<v> * <n>)
c: (<n> > <i>)  |  <n>  |  (<n> == <n>)
i: (int(<n>) % 5)

[always]
s x2: s0  |  s1  |  s
s: state.s  |  hy.sum(<v>)  |  (<s> + <s>)  |  (<s> * <f>)  |  (<s> - <i>)  |  hy.tanh(<s>)
s: hy.mean(<v>)

[items]
s: hy.max(<v>)  |  <v>[<i> % <N>]  |  <v>[-1]  |  sum(<v>[:2])  |  hy.min(<v>)

[objects]
s: o.s  |  (o.s + <s>)

[dicts]
s: d["b"]  |  sum([hy.sum(w) for w in d.values()])

[largest]
s: max(<s>, <s>)  |  min(<s>, <f>)  |  abs(<s>)
i: max(<i>, <i>)  |  min(<i>, <i>)
f: max(<f>, <f>)

[always]
i x2: i0  |  k  |  2
f x2: f0  |  r
i: 1  |  0  |  (<i> + <i>)  |  (<i> * <i> % 7)  |  (<i> // 2)  |  (<i> if <c> else <i>)
i: int(<b>)  |  (-<i>)
f: 0.5  |  -1.25  |  (<f> * 0.5)  |  (<f> + <i>)  |  (<i> / 4)  |  (<f> if <c> else <f>)

[numbers]
f: 2.0 ** (-<i> % 3)  |  abs(<f>)  |  round(<f>, 1)  |  float(<i>)  |  math.floor(<f>)
i: (<i> & 3)  |  (<i> ^ <i>)  |  divmod(<i>, 3)[1]  |  [3, 1, 2][<i> % 3]
i: {0: 2, 1: 0}.get(<i>, 1)  |  len('ab' * (<i> % 3))  |  sum(range(<i> % 4))
i: sorted([<i>, 2, 0])[1]
b: isinstance(<f>, float)  |  (<i> in (0, 2))  |  (0 <= <i> < 3)

[read]
f: <s>.item()  |  float(<s>)  |  state.f
b: bool(<s> > 0)
i: int(<s> > 0)  |  state.i

[always]
b x2: p0  |  q
b: (<i> > <i>)  |  (not <b>)  |  (<f> < <f>)  |  (k == 1)
c x3: (<s> > <s>)  |  (<s> > <f>)  |  (hy.sum(<v>) > 0)
c: <b>  |  (<c> and <c>)  |  (<c> or <c>)  |  (not <c>)  |  (-1.0 < <s> < 1.5)  |  <s>
c: (<s> == <s>)

[identity]
c: (<v> is <v>)  |  (<s> is not <s>)
b: (v0 is v1)

[lists]
c: <l>  |  (len(<l>) > <i>)

[missing]
v: v2
s: s2

[lists]
l x3: xs
l: [<v>, <v>]  |  [w + <s> for w in <l>]  |  [*<l>, <v>]  |  <l>[::-1]  |  state.xs
l: list(<l>)  |  (<l> if <c> else <l>)  |  [<v> for _ in range(2)]  |  (<l> + <l>)[:3]
l: list(reversed(<l>))  |  [w for w in <l> if <b>] or [<v>]
l: [w * t for w, t in zip(<l>, <l>)]  |  [w * j for j, w in enumerate(<l>)]

[dicts]
v: {j: <v> * j for j in range(3)}[<i> % 3]  |  {**d, "a": <v>}["a"]
c: ("a" in d)

[anything]
a: <i>  |  <f>  |  <b>  |  <v>  |  <s>  |  None  |  "text"  |  (<a>, <a>)  |  [<a>]  |  a0
a: {"c": <a>}

[random]
v: (<v> + hy.random.uniform(<S>, dtype=<D>))
s: hy.random.normal(dtype=<D>)

[trees]
v: tree["a"]  |  tree["l"][0]  |  tree["l"][1]
s: tree["p"].s
"""

RESULTS = r"""
[always]
result: (v0, s0, i0, p0)  |  v0 * 0.5 + s0  |  [v0, v1, s1, f0]  |  (v0, v1, x, s0)  |  None

[lists]
result x2: (v0, xs)  |  (*xs, s1)  |  sum(xs) + v0

[objects]
result x2: (o, v1)  |  (o.v, o.s, i0)

[dicts]
result x2: (d, v0)  |  {"v": v0, **d}

[anything]
result x3: (a0, v0)  |  [f0, a0, p0]

[whole]
result x2: (n0, v0, s0)

[masks]
result x2: (m0, v0)

[closures]
result: g0(v0)  |  (g1(v1), v0)

[stores]
result: state.v  |  (state.s, v0, state.xs)

[trees]
result x2: (tree["l"], v0)
"""


@dataclass(frozen=True)
class Rule:
    """``kind`` may be written as ``text`` in programs with ``feature`` and without ``unless``."""

    kind: str
    text: str
    feature: str
    unless: str
    weight: int


_SECTION = re.compile(r"\[([\w ]+)(?:, without ([\w ]+))?\]")
_ROW = re.compile(r"(start \w+|\w+)(?: x(\d))?:(?: (.*))?")


def read(table: str) -> list[Rule]:
    """The rows of a table."""
    rules: list[Rule] = []
    feature = unless = kind = ""
    weight = 1
    for line in [line for line in table.splitlines() if line]:
        if line.startswith("    "):  # of a row of several lines, the last one
            before = rules.pop().text
            text = f"{before}\n{line[4:]}" if before else line[4:]
            rules.append(Rule(kind, text, feature, unless, weight))
        elif found := _SECTION.fullmatch(line):
            feature, unless = found[1].replace("always", ""), found[2] or ""
        else:
            found = _ROW.fullmatch(line)
            assert found is not None, line
            kind, weight = found[1], int(found[2] or 1)
            for text in (found[3] or "").split("  |  "):
                rules.append(Rule(kind, text, feature, unless, weight))
    return rules


RULES = [rule for table in (STARTS, EXPRESSIONS, STATEMENTS, RESULTS) for rule in read(table)]
FEATURES = tuple(sorted({rule.feature for rule in RULES} - {""}))
