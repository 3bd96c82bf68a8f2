"""Random programs for hypothesis: the source text of functions that end, with all control flow.

A name says what it holds - ``v0`` a vector, ``s0`` a scalar, ``i0`` an int, ``f0`` a float, ``p0``
a bool, ``xs`` a list of vectors, ``o`` an object, ``d`` a dict, ``state`` what outlives the call -
so that every statement fits everywhere and hypothesis can leave out any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from hypothesis import strategies as st

Text = st.SearchStrategy[str]
Lines = tuple[str, ...]
Block = st.SearchStrategy[Lines]

RESULT = "(v0 * 0.5 + o.v + d['a'] + sum(xs), s0 + s1 + d['b'], i0, f0)"
START = """\
v0 = x{copied}
v1 = x * 2.0
s0 = s{copied}
s1 = hy.sum(x)
i0, i1 = 1, k
f0, f1 = 0.5, 1.5
p0 = True
xs = [x * 3.0, x + 1.0]
o = SimpleNamespace(v=x * 0.25, s=s + 1.0)
d = {{"a": x - 1.0, "b": s * 2.0}}
"""
LEARN = "optimizer.zero_grad(); error({v}).backward(); optimizer.step()"
LATE = """\
if s > 0.5:
    v2 = x * 0.75
if s1 > 0.0:
    s2 = s + 1.0
"""


@dataclass(frozen=True)
class Features:
    """What a family of programs may do.

    In ``in_place`` programs no two names hold one tensor, unless they ``alias``; programs that
    ``grow`` lists on some paths only may be refused, and those that train ``state.net``: its
    gradients are tensors on some paths and None on others.
    """

    in_place: bool = False
    alias: bool = False
    grow: bool = False
    late: bool = False
    raises: bool = False
    trains: bool = False


@dataclass(frozen=True)
class Program:
    """The text of a module whose ``make()`` gives the program and the state that it keeps."""

    text: str
    features: Features


FAMILIES = [Features(), Features(in_place=True), Features(late=True), Features(raises=True)]
FAMILIES.append(Features(in_place=True, raises=True, late=True))
FAMILIES.append(Features(grow=True))
FAMILIES += [Features(in_place=True, alias=True), Features(in_place=True, alias=True, late=True)]
TRAINING = [Features(trains=True), Features(trains=True, in_place=True, raises=True)]


def _format(pattern: str, **parts: Text) -> Text:
    """``pattern`` with each ``{name}`` drawn from a strategy."""
    names = list(parts)
    return st.tuples(*parts.values()).map(
        lambda texts: pattern.format(**dict(zip(names, texts, strict=True)))
    )


def _either(*choices: str | Text) -> Text:
    texts = [c for c in choices if isinstance(c, str)]
    return st.one_of(st.sampled_from(texts), *[c for c in choices if not isinstance(c, str)])


# Expressions ------------------------------------------------------------------------------------


@cache
def vector(depth: int, kind: Features) -> Text:
    names = ["v0", "v1", "x", "o.v", 'd["a"]', "xs[-1]", "xs[0]", "state.v"]
    if kind.late:
        names.append("v2")
    fresh = [f"{name} * 1.0" for name in names] if kind.in_place else names
    if not depth:
        return st.sampled_from(fresh)
    v, s, i, f = (g(depth - 1, kind) for g in (vector, scalar, integer, real))
    c = condition(depth - 1, kind)
    chosen = "({v} + 0.0 if {c} else {w} * 1.0)" if kind.in_place else "({v} if {c} else {w})"
    return _either(
        *fresh,
        _format("({v} + {w})", v=v, w=v),
        _format("({v} - {s})", v=v, s=s),
        _format("({v} * {s})", v=v, s=s),
        _format("hy.tanh({v})", v=v),
        _format("hy.sin({v})", v=v),
        _format("({v} * {f})", v=v, f=f),
        _format("({v} + {i})", v=v, i=i),
        _format("hy.where({v} > {s}, {w}, 0.5)", v=v, s=s, w=v),
        _format("hy.flip({v})", v=v),
        _format(chosen, v=v, w=v, c=c),
        _format("mix({v}, {s}, {i})", v=v, s=s, i=i),
        _format("hy.stack([{s}, {t}, {s}])", s=s, t=s),
    )


@cache
def scalar(depth: int, kind: Features) -> Text:
    names = ["s0", "s1", "s", "o.s", 'd["b"]', "state.s"]
    if kind.late:
        names.append("s2")
    fresh = [f"{name} * 1.0" for name in names] if kind.in_place else names
    if not depth:
        return st.sampled_from(fresh)
    v, s, i, f = (g(depth - 1, kind) for g in (vector, scalar, integer, real))
    c = condition(depth - 1, kind)
    chosen = "({s} + 0.0 if {c} else {t} * 1.0)" if kind.in_place else "({s} if {c} else {t})"
    lazy = [] if kind.in_place else [_format("({s} {op} {t})", s=s, op=_either("and", "or"), t=s)]
    return _either(
        *fresh,
        _format("hy.sum({v})", v=v),
        _format("hy.max({v})", v=v),
        _format("({v})[{i} % 3]", v=v, i=i),
        _format("({s} + {t})", s=s, t=s),
        _format("({s} - {f})", s=s, f=f),
        _format("({s} * {i})", s=s, i=i),
        _format("hy.tanh({s})", s=s),
        _format(chosen, s=s, t=s, c=c),
        *lazy,
    )


@cache
def integer(depth: int, kind: Features) -> Text:
    names = ["i0", "i1", "k", "0", "1", "2", "3"]
    if not depth:
        return st.sampled_from(names)
    i, c = integer(depth - 1, kind), condition(depth - 1, kind)
    return _either(
        *names,
        _format("({i} + {j})", i=i, j=i),
        _format("({i} - {j})", i=i, j=i),
        _format("({i} * {j} % 7)", i=i, j=i),
        _format("({i} // 2)", i=i),
        _format("({i} if {c} else {j})", i=i, j=i, c=c),
        _format("int({c})", c=tested(depth - 1, kind)),
        _format("{f}({i}, {j})", f=_either("max", "min"), i=i, j=i),
    )


@cache
def real(depth: int, kind: Features) -> Text:
    names = ["f0", "f1", "0.5", "-1.25", "0.1"]
    if not depth:
        return st.sampled_from(names)
    f, s, i, c = (g(depth - 1, kind) for g in (real, scalar, integer, condition))
    return _either(
        *names,
        _format("({f} * 0.5 + {g})", f=f, g=f),
        _format("({f} + {i})", f=f, i=i),
        _format("({i} / 4)", i=i),
        _format("({f} if {c} else {g})", f=f, g=f, c=c),
        _format("hy.tanh({s}).item()", s=s),
    )


@cache
def tested(depth: int, kind: Features) -> Text:
    """A comparison, which is a bool or a bool tensor."""
    v, s, i, f = (g(depth, kind) for g in (vector, scalar, integer, real))
    order = _either("<", "<=", ">", ">=", "==", "!=")
    return _either(
        "p0",
        _format("({s} > {t})", s=s, t=s),
        _format("({s} {op} {f})", s=s, op=_either("<", ">"), f=f),
        _format("({i} {op} {j})", i=i, op=order, j=i),
        _format("({f} < {g})", f=f, g=f),
        _format("(hy.sum({v}) > {i})", v=v, i=i),
        _format("hy.any({v} > 1.0)", v=v),
    )


@cache
def condition(depth: int, kind: Features) -> Text:
    test = tested(0, kind)
    if not depth:
        return test
    c, s = condition(depth - 1, kind), scalar(depth - 1, kind)
    return _either(
        "xs",
        tested(depth, kind),
        _format("(not {c})", c=c),
        _format("({c} and {e})", c=c, e=c),
        _format("({c} or {e})", c=c, e=c),
        _format("(-1.0 < {s} < 1.5)", s=s),
        _format("({s} < {t} <= {s})", s=s, t=s),
    )


# Statements -------------------------------------------------------------------------------------


def _line(pattern: str, **parts: Text) -> Block:
    return _format(pattern, **parts).map(lambda text: (text,))


def _indented(lines: Sequence[str]) -> Lines:
    return tuple([f"    {line}" for line in lines])


def _compound(*parts: tuple[str | Text, Block]) -> Block:
    """Headers, each with its indented block."""
    flat = [st.just(p) if isinstance(p, str) else p for part in parts for p in part]

    def join(drawn: tuple) -> Lines:
        heads, blocks = drawn[::2], drawn[1::2]
        return tuple(
            line for h, b in zip(heads, blocks, strict=True) for line in (h, *_indented(b))
        )

    return st.tuples(*flat).map(join)


@cache
def assignment(kind: Features) -> Block:
    """A statement of one line."""
    v, s, i, f, c = (g(2, kind) for g in (vector, scalar, integer, real, condition))
    late = ["v2 = {v}", "s2 = {s}"] if kind.late else []
    plain = [
        "v0 = {v}", "v1 = {v}", "s0 = {s}", "s1 = {s}", "i0 = {i}", "i1 = {i}", "f0 = {f}",
        "f1 = {f}", "p0 = bool({t})", "o.v = {v}", "o.s = {s}", 'd["a"] = {v}', 'd["b"] = {s}',
        "state.v = {v}", "state.s = {s}", "xs[0] = {v}", "xs[-1] = {v}", "xs = [*xs[1:], {v}]",
        "i0, i1 = i1, i0", "v0, s0 = {v}, {s}", "i0 += 1", "i1 = (i1 * 2 + 1) % 11", "f0 *= 0.5",
        'print("at", i0)', "p0 = not p0",
    ]  # fmt: skip
    if not kind.in_place:
        plain += ["v0, v1 = v1, v0", "v0 = v1", "s1 = s0"]
    if kind.alias:
        plain = [
            *plain[::3], "v0, v1 = v1, v0", "v0 = v1", "v1 = v0", "s1 = s0", "s0, s1 = s1, s0",
            "v0 = o.v", "o.v = v1", "v1 = xs[0]", "xs[0] = v0", "xs[-1] = xs[0]", 'd["a"] = v0',
            'v1 = d["a"]', "v0 = v0 if {c} else v1", "v1 = v0 if {c} else xs[0]", "s0 = s1 or s0",
            "s1 = s0 and s1", "xs[0] = v1 if {c} else o.v", "s0 = max(s0, s1)",
            "v0 = keep(v1, {s})", "p0 = v0 is v1",
        ]  # fmt: skip
    written = [
        "v0 += {v}", "v0 *= 0.5", "s0 += {s}", "s1 -= 0.25", "v1[i0 % 3] = {s}", "v0[1] += 0.5",
        "v1[:2] = {s}", "o.v += {v}", 'd["b"] *= 0.5', "state.v += ({v}).detach()", "xs[0] += 1.0",
        "v1.assign({v})",
    ]  # fmt: skip
    if kind.trains:
        learned = [
            "error({v}).backward()", "optimizer.step()", "optimizer.zero_grad()", LEARN,
            "state.net.weight.grad = None", "s0 = error({v}).detach()", "steps.assign(steps + 1)",
            "v1 = state.net.weight[1].detach() * 1.0", "i0 = int(steps) % 5",
        ]  # fmt: skip
        plain = [*plain[::3], *learned, *learned[:4]]
    patterns = [*plain, *late, *(written if kind.in_place else [])]
    parts = {"v": v, "s": s, "i": i, "f": f, "c": c, "t": tested(1, kind)}
    lines = [
        _line(p, **{name: part for name, part in parts.items() if "{" + name + "}" in p})
        for p in patterns
    ]
    two = _format("{v}", v=v).map(lambda text: (f"xs.append({text})", "xs.pop(0)"))
    return st.one_of(*lines, two).map(tuple)  # one choice, beside those of other statements


@cache
def statement(depth: int, kind: Features, loops: int, jumps: bool) -> Block:
    """A statement with blocks nested at most ``depth`` deep, inside ``loops`` loops."""
    choices = [assignment(kind), assignment(kind)]
    if kind.grow:
        choices.append(_line("xs.append({v})", v=vector(1, kind)))
    if kind.raises:
        choices.append(
            _compound(
                (_format("if {c}:", c=tested(1, kind)), st.just(('raise ValueError("bad")',)))
            )
        )
        choices.append(_line('assert {c}, "low"', c=tested(1, kind)))
    if not depth:
        return st.one_of(*choices)
    c = condition(2, kind)
    inner = partial(block, depth - 1, kind)
    here, loop = inner(loops, jumps), inner(loops + 1, jumps)
    head = _format("if {c}:", c=c)
    count, row = f"c{depth}", f"r{depth}"
    limited = [f"while {count} < 3 and {{c}}:", f"while {{c}} and {count} < 4:"]
    ended = st.just((f"if {count} > 3:", "    break"))
    choices += [
        _compound((head, here)),
        _compound((head, here), ("else:", here)),
        _compound((head, here), (_format("elif {c}:", c=c), here), ("else:", here)),
        _compound((f"for {count} in range(3):", loop)),
        _compound((f"for {count} in range(n):", loop)),
        _compound((f"for i0 in range({count} % 3):", loop)).map(
            lambda lines: (f"{count} = i1", *lines)
        ),
        _compound((f"for {row} in m:", _with(f"v1 = v1 + {row}", loop))),
        _compound((f"for {count}, {row} in enumerate(m):", _with(f"s1 = s1 + {row}[0]", loop))),
        _compound((f"for {row} in xs[:2]:", _with(f"v1 = {row} * 0.5", loop))),
        _compound((_either(*limited[:1], *limited[1:]), _with(f"{count} += 1", loop))).flatmap(
            lambda lines: _format("{c}", c=c).map(
                lambda text: (f"{count} = 0", lines[0].replace("{c}", text), *lines[1:])
            )
        ),
        _compound(("while True:", st.tuples(ended, loop).map(lambda t: t[0] + t[1]))).map(
            lambda lines: (f"{count} = 0", lines[0], f"    {count} += 1", *lines[1:])
        ),
        _compound(("try:", here), ("finally:", _line("s1 = s1 * 0.5 + 0.1"))),
    ]
    if jumps:
        choices += [
            _compound((head, st.just((f"return {RESULT}",)))),
            _compound((f"for {count} in range(3):", loop), ("else:", here)),
        ]
        if loops:
            choices += [
                _compound((head, st.just(("break",)))),
                _compound((head, _ending(here, "continue"))),
                _compound((head, _ending(here, "break")), ("else:", here)),
            ]
    else:
        choices.append(_collecting(depth, kind, loops))
    return st.one_of(*choices)


def _with(first: str, rest: Block) -> Block:
    return rest.map(lambda lines: (first, *lines))


def _ending(lines: Block, last: str) -> Block:
    return lines.map(lambda block: (*block, last))


def _collecting(depth: int, kind: Features, loops: int) -> Block:
    """A loop that appends once in each iteration."""
    body = block(depth - 1, kind, loops + 1, False)
    count, found = f"c{depth}", f"ys{depth}"
    body = st.tuples(body, vector(1, kind)).map(lambda t: (*t[0], f"{found}.append({t[1]})"))
    fixed, open_ended = (f"for {count} in range(3):", f"for {count} in m:"), "range(n):"
    reused = [
        f"v0 = sum({found}, v0 * 1.0)",
        f"i0 = len({found})",
        f"for y in {found}:\n    v0 = v0 + y",
        f"if {found}:\n    v1 = {found}[-1] * {found}[0] + v0 * v1",
        f"for y in {found}:\n    v1 = v1 * 0.5 + y * v0 * y\nv0 = v0 + hy.sin(v1) * v0",
        f"v0 = v0 * v1 + sum({found}, v1 * 1.0) * v0",
    ]
    whole = [
        f"v1 = hy.sum(hy.stack({found}) * v0, axis=0) + {found}[-1] * {found}[0]",
        f"v0 = {found}[-1] * v0 + {found}[1] * {found}[-1]\nv1 = hy.max(hy.stack({found}), axis=0)",
        f"v0 = sum({found}[:2], v0 * 1.0) * {found}[-1]",
    ]
    many, known = st.sampled_from(reused), st.sampled_from([*reused, *whole])
    return st.one_of(
        st.tuples(_compound((_either(*fixed), body)), known),
        st.tuples(_compound((st.just(f"for {count} in {open_ended}"), body)), many),
    ).map(lambda t: (f"{found} = []", *t[0], *t[1].split("\n")))


@cache
def block(depth: int, kind: Features, loops: int = 0, jumps: bool = True) -> Block:
    each = statement(depth, kind, loops, jumps)
    return st.lists(each, min_size=1, max_size=3).map(lambda found: sum(found, ()))


# Programs ---------------------------------------------------------------------------------------

HELPER = """\
def keep(v, s):
    if s > 0.25:
        return v
    v = v * 0.5
    return v


def mix(v, s, i):
    if {condition}:
        return v * {factor}
    for j in range(2):
        v = v + s * j
        if hy.sum(v) > {limit}:
            break
    return v
"""


TRAINED = """\
def make():
    hy.random.seed(0)
    net = hy.nn.Linear(3, 3)
    steps = hy.asarray(0)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    state = SimpleNamespace(v=hy.ones(3), s=hy.zeros(()), net=net, steps=steps)

    def error(v):
        return hy.mean((net(v.detach()) - 0.5) ** 2)
"""
UNTRAINED = """\
def make():
    state = SimpleNamespace(v=hy.ones(3), s=hy.zeros(()))
"""


@st.composite
def programs(draw: st.DrawFn, families: Sequence[Features] = FAMILIES) -> Program:
    kind = draw(st.sampled_from(families))
    jumps = draw(st.booleans())
    size = draw(st.integers(1, 8))
    body = draw(st.lists(statement(2, kind, 0, jumps), min_size=size, max_size=size))
    helper = HELPER.format(
        condition=draw(st.sampled_from(["s > 0.5", "i > 2", "hy.sum(v) < s"])),
        factor=draw(st.sampled_from(["0.5", "s", "i"])),
        limit=draw(st.sampled_from(["1.0", "s", "i"])),
    )
    copied = " * 1.0" if kind.in_place else draw(st.sampled_from(["", " * 1.0"]))
    start = START.format(copied=copied) + (LATE if kind.late else "")
    lines = [*start.splitlines(), *sum(body, ()), f"return {RESULT}"]
    text = "\n".join(
        [
            "from types import SimpleNamespace",
            "",
            "import hybrid as hy",
            "",
            "",
            *helper.splitlines(),
            "",
            "",
            *(TRAINED if kind.trains else UNTRAINED).splitlines(),
            "",
            "    def program(x, s, m, n, k):",
            *_indented(_indented(lines)),
            "",
            "    return program, state",
            "",
        ]
    )
    return Program(text, kind)
