"""Containers that hold themselves, deep nesting, and libraries with tensors of their own."""

import importlib
import sys
import types
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = (f32([1.0, 2.0]), f32([-3.0, 1.0]))


def ring(*items: Any) -> list[Any]:
    found = [*items]
    found.append(found)
    return found


@table.makes(*CALLS)
def a_list_that_holds_itself():
    values = ring(2.0)
    return lambda x: x * values[0] * len(values[1])


@table.makes(*CALLS, plans=1)
def a_dict_that_is_written_through_itself():
    state = {"sum": f32([0.0, 0.0])}
    state["self"] = state

    def run(x):
        state["self"]["sum"] = state["sum"] + x
        return x * state["self"]["self"]["sum"]

    return run


@table.makes(*CALLS)
def two_dicts_and_a_tuple_in_a_ring():
    first: dict[str, Any] = {"scale": 3.0}
    first["other"] = (first, {"back": first})
    return lambda x: x * first["other"][1]["back"]["other"][0]["scale"]


@table.makes(*CALLS)
def a_list_that_grows():
    values = ring()

    def run(x):
        values.append(x * 2)
        return x * len(values[0])

    return run


@table.makes(*CALLS)
def a_list_is_returned_with_what_it_holds():
    values = ring(1.0)
    return lambda x: (x * values[0], len(values))


@table.makes(*CALLS)
def an_attribute_gives_its_ring_away():
    state = SimpleNamespace(ring=ring(1.0))

    def run(x):
        state.ring = x * 2
        return state.ring

    return run


@table.makes(*CALLS)
def a_deque_in_itself():
    items: deque[Any] = deque([2.0])
    items.append(items)
    return lambda x: x * items[0]


@table.makes(*CALLS)
def deep_lists():
    values: list[Any] = [2.0]
    for _ in range(400):
        values = [values]

    def run(x):
        return x * len(values)

    return run


def down(x, n):
    return x if n == 0 else down(x * 1.01, n - 1)


def down_by_a_method(x, n):
    class Ladder:
        def go(self, x, n):
            return x if n == 0 else sum([self.go(x + 1, n - 1) for _ in range(1)])

    return Ladder().go(x, n)


@table.makes(*CALLS, plans=1)
def a_deep_recursion():
    return lambda x: down(x, 250)


@table.makes(*CALLS, plans=1, grad=False)
def a_deep_recursion_of_a_method():
    return lambda x: down_by_a_method(x, 120)


class Unplaced:
    """Its objects say where they are from, as those of Cython's functions do: itself does not."""

    __module__ = property(lambda self: "somewhere")
    scale = 2.0

    def scaled(self, x):
        return x * self.scale


@table.makes(*CALLS)
def a_class_that_does_not_say_where_it_is_from():
    held = {"object": Unplaced(), "class": Unplaced}
    return lambda x: held["object"].scaled(x) + held["class"].scale


@table.each()
def test_programs(program: Program) -> None:
    program.check()


NAMESPACE = """
import hybrid as hy
registry = {"module": globals(), "scale": 2.0}
registry["registry"] = registry

def run(x):
    return x * registry["scale"] * len(registry)
"""


def test_a_registry_that_holds_the_namespace_of_its_module(tmp_path, monkeypatch) -> None:
    (tmp_path / "namespace_of_module.py").write_text(NAMESPACE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("namespace_of_module")
    function = hy.hybridize(module.run)
    assert function(f32([1.0])).tolist() == [6.0]
    module.registry["scale"] = 3.0
    assert function(f32([1.0])).tolist() == [9.0]


@pytest.mark.parametrize("own", ["from a list", "item changed", "another ring"])
def test_a_change_in_a_ring_is_noticed(own: str) -> None:
    state = SimpleNamespace(ring=ring(2.0, [5.0]))

    @hy.hybridize
    def run(x):
        return x * state.ring[0] + state.ring[2][1][0]

    x = f32([1.0])
    assert run(x).tolist() == [7.0]
    if own == "from a list":
        state.ring[1][0] = 6.0
    elif own == "item changed":
        state.ring[0] = 3.0
    else:
        state.ring = ring(2.0, [6.0])
    assert run(x).tolist() == [8.0]


def test_a_change_deep_down_is_noticed() -> None:
    inner = [2.0]
    outer: list[Any] = inner
    for _ in range(100):
        outer = [outer]

    @hy.hybridize
    def run(x):
        found = outer
        for _ in range(100):
            found = found[0]
        return x * found[0]

    x = f32([1.0])
    for scale in (2.0, 3.0, 3.0):
        inner[0] = scale
        assert run(x).tolist() == [scale]


def test_modules_in_modules() -> None:
    module: nn.Module = nn.Linear(2, 2)
    for _ in range(200):
        module = nn.Sequential(module)
    x = f32([[1.0, 2.0]])
    depth = sys.getrecursionlimit()
    expected = module(x)
    assert (hy.hybridize(module)(x) == expected).all()
    assert (hy.hybridize(lambda x: module(x) * 1)(x) == expected).all()
    assert len(list(module.parameters())) == 2
    module.load_state_dict(module.state_dict())
    assert not module.eval().training
    assert repr(module).count("Sequential") == 200
    assert sys.getrecursionlimit() == depth


def test_a_recursion_without_an_end_runs_eagerly() -> None:
    def endless(x):
        return endless(x + 1)

    function = hy.hybridize(endless)
    with (
        pytest.warns(UserWarning, match="endless runs eagerly: endless calls too deeply to be "),
        pytest.raises(RecursionError),
    ):
        function(f32([1.0]))


def test_an_argument_that_holds_itself_is_refused() -> None:
    def function(x, items):
        return x * items[0]

    line = function.__code__.co_firstlineno
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(f32([1.0]), ring(2.0))
    assert str(caught.value) == (
        f"argument 1 of function holds itself ({__file__}:{line})\n"
        f"    {line} | def function(x, items):\n"
        "The lists and dicts among the arguments are told apart by all that they hold.\n"
        "Fix: keep it in an attribute, a global or a variable of an enclosing function, or pass "
        "the parts that are needed."
    )


LIBRARY = """
REGISTRY = {"scale": 2.0}
REGISTRY["all"] = globals()


def from_dlpack(x):
    return Array()


class Array:
    registry = REGISTRY

    def total(self):
        return helper(self)


def helper(array):
    return REGISTRY["all"]["REGISTRY"]
"""


def test_a_library_with_tensors_of_its_own_is_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "other_tensors.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, "other_tensors", types.ModuleType("other_tensors"))
    del sys.modules["other_tensors"]
    import other_tensors

    class Case:
        def __init__(self, kept):
            self.kept, self.total = kept, lambda x: x * 2

    from hybrid.trace.guards.reads import Reads

    for kept in (other_tensors.helper, other_tensors.Array, other_tensors.Array(), other_tensors):
        case = Case(kept)

        def run(x, case=case):
            return case.total(x)

        assert hy.hybridize(run)(f32([1.0])).tolist() == [2.0]
        read = Reads(run, [])
        assert other_tensors.helper not in read.functions.values()
        assert id(other_tensors.REGISTRY) not in read.containers
