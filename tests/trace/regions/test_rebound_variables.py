"""Variables that nested functions share, rebound beside stores to what outlives the call."""

# ruff: noqa: E501, B023, B026, E731, F811, F821, F841, RUF100  the programs are about these

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from hybrid.trace.guards import reads
from hybrid.trace.places.accesses import ReachedPlaces
from tests.helpers import part_of, parts
from tests.staging.harness import f32, same

# How a nested function shares the variable `s`; it is called `share()` where it can be.
SHARES = {
    "lambda that is not called": "share = lambda: s",
    "function that is not called": "def share():\n    return s",
    "function that is called": "def share():\n    return s\nst.seen = share() * 2.0",
    "function that rebinds": "def share():\n    nonlocal s\n    s = s * 2.0\nshare()",
    "default and closure": "share = lambda w=s: w + s\nst.seen = share()",
    "function in a function": "def share():\n    def inner():\n        nonlocal s\n        s = s + 3.0\n    inner()\nshare()",
}  # fmt: skip
REBINDS = {"itself": "s = s", "a new value": "s = s + 1.0", "in place": "s += 1.0", "not": "pass"}
STORES = {
    "attribute of its name": "st.s = s",
    "another attribute": "st.v = s * 3.0",
    "attribute through the function": "st.s = share() if k == 7 else s",
    "item of a list": "st.items[0] = s",
    "item of a dict": 'st.table["s"] = s',
    "a slot": "st.slots.s = s",
}
CONDITIONS = {"number": "k == 1", "flag and number": "flag and k > 1", "tensor": "s > 0.0"}
SHAPES = (
    "{store}\n{rebind}\n{share}",
    "{rebind}\n{share}\n{store}",
    "if {test}:\n    {store}\nelse:\n    {rebind}\n    {share}",
    "if {test}:\n    {rebind}\n    {share}\n{store}",
    "match (k, flag):\n    case (1, True):\n        {store}\n    case _:\n        {rebind}\n        {share}",
    "for i in range(2):\n    {rebind}\n    {share}\n{store}",
)  # fmt: skip
CALLS = [(1, True), (3, True), (0, True), (0, False), (1, True)]
_numbers = itertools.count()


class Slotted:
    __slots__ = ("s",)


def function_of(body: str) -> Callable[..., Any]:
    lines = ["def program(st, s, k, flag):", *[f"    {line}" for line in body.split("\n")]]
    text = "\n".join(lines) + "\n"
    path = f"<rebound {next(_numbers)}>"
    linecache.cache[path] = len(text), None, text.splitlines(True), path
    found: dict[str, Any] = {"hy": hy}
    exec(compile(text, path, "exec"), found)
    return found["program"]


def state(dtype: Any) -> SimpleNamespace:
    made = SimpleNamespace(s=hy.asarray(-1.0).astype(dtype), slots=Slotted(), items=[None])
    made.slots.s = hy.asarray(-2.0).astype(dtype)
    made.table = {"s": hy.asarray(-3.0).astype(dtype)}
    made.items = [hy.asarray(-4.0).astype(dtype)]
    made.v, made.seen = hy.asarray(-5.0).astype(dtype), None
    return made


def left(st: SimpleNamespace) -> list[Any]:
    found = [st.s, st.slots.s, st.items[0], st.table["s"], st.v, st.seen]
    ties = [next(j for j, other in enumerate(found) if other is value) for value in found]
    return [*map(repr, found), ties]


def filled(shape: str, **parts: str) -> str:
    for name, text in parts.items():
        for indent in ("        ", "    ", ""):
            shape = shape.replace(f"\n{indent}{{{name}}}", "\n" + _indented(text, indent))
        shape = shape.replace(f"{{{name}}}", text)
    return shape


def _indented(text: str, indent: str) -> str:
    return "\n".join(indent + line for line in text.split("\n"))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("part", parts(3))
def test_state_is_what_eager_code_leaves(part: int, share: str, store: str) -> None:
    dtype = hy.bfloat16 if store == "attribute of its name" else hy.float32
    turn = [*SHARES].index(share) + [*STORES].index(store)
    table = [*itertools.product(CONDITIONS, SHAPES, REBINDS)]  # a third is not always the same test
    for test, shape, rebind in part_of(table, part, 3, turn):
        if "{test}" not in shape and test != "number":
            continue
        if "share()" in STORES[store] and shape.index("{share}") > shape.index("{store}"):
            continue
        parts = {"store": STORES[store], "rebind": REBINDS[rebind], "share": SHARES[share]}
        text = filled(shape, **parts).replace("{test}", CONDITIONS[test])
        eager, made = function_of(text), hy.hybridize(function_of(text))
        for number, (k, flag) in enumerate(CALLS):
            expected, found = state(dtype), state(dtype)
            x = hy.asarray(5.0 + number).astype(dtype)
            given, other = x * 1, x * 1
            try:
                eager(expected, given, k, flag)
            except UnboundLocalError:
                break
            made(found, other, k, flag)
            assert left(found) == left(expected), f"call {number}:\n{text}"
            assert repr(given) == repr(other), text


def test_a_function_made_under_a_condition_rebinds() -> None:
    def doubled(x, s):
        if s > 0:

            def g():
                nonlocal x
                x = x * 2

            g()
        return x

    same(doubled, calls=[(f32(3.0), f32(1.0)), (f32(3.0), f32(-1.0))])


def test_functions_made_in_loops_rebind_at_two_levels() -> None:
    def grown(x, s):
        n = 0
        while hy.sum(x) < 100:

            def g():
                nonlocal x, n

                def h():
                    nonlocal x
                    x = x * 2

                h()
                x = x + 1
                n += 1

            g()
            if s > x:
                g()
        return x, n

    same(grown, calls=[(f32(1.5), f32(v)) for v in (1.0, -1.0, 12.5)])


def test_functions_on_both_paths_rebind() -> None:
    def both(x, s):
        if s > 0:

            def h():
                nonlocal x
                x = x * 2

            h()
        else:

            class Below:
                def move(self):
                    nonlocal x
                    x = x - 1

            Below().move()
        return x

    same(both, calls=[(f32(1.5), f32(v)) for v in (1.0, -1.0)])


# The sweep at the end of a capture ----------------------------------------------------------------


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures do not find attributes and globals called ``unseen``, whatever leads to them."""
    whole, init = reads.names_in, reads.Reads.__init__
    unseen = {"unseen"}
    for method in ("attribute", "global_"):  # of those by names that are met meanwhile, too
        seen = getattr(ReachedPlaces, method)

        def reached(self: Any, owner: Any, name: str, seen: Any = seen, **how: Any) -> None:
            if name not in unseen:
                seen(self, owner, name, **how)

        monkeypatch.setattr(ReachedPlaces, method, reached)

    def fewer(*args: Any) -> Any:
        found = whole(*args)
        return found._replace(
            attributes=found.attributes - unseen,
            assigned=found.assigned - unseen,
            loaded=found.loaded - unseen,
        )

    def without(self: Any, *args: Any) -> None:
        init(self, *args)
        self.attributes -= unseen

    monkeypatch.setattr(reads, "names_in", fewer)
    monkeypatch.setattr(reads.Reads, "__init__", without)


unseen: Any = 5


def store_attribute(st, x):
    st.unseen = x + 1
    return x


def store_in_a_list(st, x):
    st.unseen = [1, {"a": x + 1}]
    return x


def store_then_raise(st, x):
    st.unseen = x + 1
    raise ValueError("of the author's")


def store_global(st, x):
    global unseen
    unseen = x * 2
    return x


@pytest.mark.parametrize("function", [store_attribute, store_in_a_list, store_global])
def test_a_traced_value_that_would_stay_is_an_error(blind: None, function: Any) -> None:
    st = SimpleNamespace(unseen=3)
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"left a traced value in .*unseen") as caught:
            hy.hybridize(function)(st, f32(1.0))
        assert "unseen = " in str(caught.value) and "has been put back" in str(caught.value)
        assert (st.unseen, unseen) == (3, 5)


def test_an_error_of_the_authors_goes_first(blind: None) -> None:
    st = SimpleNamespace(unseen=3)
    with pytest.raises(ValueError, match="of the author's"):
        hy.hybridize(store_then_raise)(st, f32(1.0))
    assert st.unseen == 3
