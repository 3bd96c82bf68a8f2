"""Objects in whose place each call puts another one: state in functional style.

A plan knows such an object by its class and by what its attributes hold.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = tuple(f32(values) for values in ([1.0, 2.0], [-3.0, 1.0], [2.0, -4.0], [5.0, 0.5]))
ZEROS = f32([0.0, 0.0])


@dataclass
class State:
    a: Any
    n: int = 0


@dataclass(frozen=True)
class Frozen:
    a: Any
    n: int = 0

    def moved(self, x: Any) -> Frozen:
        return replace(self, a=self.a + x)


@dataclass(frozen=True, slots=True)
class Slots:
    a: Any
    inner: Any
    rest: list[Any]


class Plain:
    """Equals itself alone."""

    def __init__(self, a: Any, tag: str = "t") -> None:
        self.a, self.tag = a, tag

    def moved(self, x: Any) -> Plain:
        return Plain(self.a + x, self.tag)

    @functools.cached_property
    def norm(self) -> Any:
        return (self.a * self.a).sum()


CURRENT = State(ZEROS)


@table.makes(*CALLS, plans=1)
def a_frozen_dataclass():
    box = SimpleNamespace(state=Frozen(ZEROS))

    def run(x):
        box.state = box.state.moved(x)
        return box.state.a * 2

    return run, box


@table.makes(*CALLS, plans=1)
def a_plain_class():
    box = SimpleNamespace(state=Plain(ZEROS))

    def run(x):
        box.state = box.state.moved(x)
        return box.state.a * 2

    return run, box


@table.makes(*CALLS, plans=2)
def with_a_counter():
    """Once it has changed it is an input."""
    box = SimpleNamespace(state=State(ZEROS))

    def run(x):
        state = box.state
        box.state = replace(state, a=state.a + x, n=state.n + 1)
        return box.state.a / box.state.n

    return run, box


@table.makes(*CALLS, plans=1)
def with_slots_and_an_object_in_it():
    box = SimpleNamespace(state=Slots(ZEROS, State(ZEROS + 1), [ZEROS, ZEROS + 2]))

    def run(x):
        state = box.state
        inner = replace(state.inner, a=state.inner.a + x)
        box.state = replace(state, inner=inner, rest=[*state.rest[:1], x])
        return box.state.inner.a * box.state.rest[1]

    return run, box


@table.makes(*CALLS, plans=1)
def an_object_in_it_that_stays():
    box = SimpleNamespace(state=Slots(ZEROS, State(ZEROS + 1), []))

    def run(x):
        box.state = replace(box.state, a=box.state.a + x)
        box.state.inner.a = box.state.inner.a * 2
        return box.state.inner.a

    return run, box


@table.makes(*CALLS, plans=1)
def a_copy_that_is_changed():
    box = SimpleNamespace(state=State(ZEROS))

    def run(x):
        state = copy.copy(box.state)
        state.a = state.a + x
        box.state = state
        return x

    return run, box


@table.makes(*CALLS, plans=1)
def made_of_a_dict_of_its_attributes():
    box = SimpleNamespace(state=State(ZEROS))

    def run(x):
        parts = dataclasses.asdict(box.state)
        box.state = State(**{**parts, "a": parts["a"] + x})
        return x

    return run, box


@table.makes(*CALLS, plans=1)
def in_a_list_and_a_tuple():
    box = SimpleNamespace(states=[State(ZEROS), State(ZEROS + 1)], pair=(Plain(ZEROS + 2), 1))

    def run(x):
        box.states = [replace(state, a=state.a + x) for state in box.states]
        box.pair = (box.pair[0].moved(x), 1)
        return box.states[1].a + box.pair[0].a

    return run, box


@table.makes(*CALLS, plans=1)
def an_item_of_a_list_and_of_a_dict():
    box = SimpleNamespace(states=[State(ZEROS), State(ZEROS + 1)], table={"k": Frozen(ZEROS + 2)})

    def run(x):
        box.states[1] = replace(box.states[1], a=box.states[1].a + x)
        box.table["k"] = box.table["k"].moved(x)
        return box.states[1].a + box.table["k"].a

    return run, box


@table.makes(*CALLS, plans=2)
def one_that_begins_as_none():
    box = SimpleNamespace(state=None)

    def run(x):
        box.state = Plain(x) if box.state is None else box.state.moved(x)
        return box.state.a * 2

    return run, box


@table.makes(*CALLS, plans=2)
def of_two_classes_in_turns():
    box = SimpleNamespace(state=State(ZEROS))

    def run(x):
        if isinstance(box.state, State):
            box.state = Plain(box.state.a + x)
        else:
            box.state = State(box.state.a - x)
        return box.state.a

    return run, box


@table.makes(*CALLS, plans=1)
def with_no_tensor():
    box = SimpleNamespace(state=None)
    box.state = State(1, 2)

    def run(x):
        box.state = State(1, 2)
        return x * box.state.n

    return run, box


@table.makes(*CALLS)
def under_a_condition():
    box = SimpleNamespace(state=Frozen(ZEROS))

    def run(x):
        if x.sum() > 0:
            box.state = box.state.moved(x)
        return box.state.a * 2

    return run, box


@table.makes(*CALLS, plans=1)
def in_both_branches():
    box = SimpleNamespace(state=State(ZEROS))

    def run(x):
        if x.sum() > 0:
            box.state = replace(box.state, a=box.state.a + x)
        else:
            box.state = replace(box.state, a=box.state.a - x)
        return box.state.a * 2

    return run, box


@table.makes(*CALLS, plans=1)
def in_loops():
    box = SimpleNamespace(state=Frozen(ZEROS))

    def run(x):
        for _ in range(3):
            box.state = box.state.moved(x)
        while box.state.a.sum() < 10:
            box.state = replace(box.state, a=box.state.a + hy.abs(x))
        return box.state.a * 2

    return run, box


@table.makes(*CALLS, plans=1)
def the_old_one_is_changed_too():
    box = SimpleNamespace(state=State(ZEROS))
    old = box.state

    def run(x):
        state = box.state
        state.a = x * 3
        box.state = State(state.a + x)
        return state.a

    return run, (box, old)


@table.makes(*CALLS)
def a_cached_property_of_the_old_one():
    box = SimpleNamespace(state=Plain(ZEROS))

    def run(x):
        norm = box.state.norm
        box.state = box.state.moved(x)
        return norm + box.state.norm

    return run, box


@table.makes(*CALLS)
def the_one_before_it_is_kept():
    box = SimpleNamespace(state=Plain(ZEROS), before=None)

    def run(x):
        box.before = box.state
        box.state = box.before.moved(x)
        return box.before.a + box.state.a

    return run, box


@table.makes(*CALLS)
def a_new_attribute_for_the_one_before_it():
    box = SimpleNamespace(state=Plain(ZEROS))

    def run(x):
        box.before = box.state
        box.state = box.before.moved(x)
        return box.before.a + box.state.a

    return run, box


@table.makes(*CALLS, plans=1)
def printed():
    box = SimpleNamespace(state=State(ZEROS))

    def run(x):
        print(box.state)
        box.state = replace(box.state, a=box.state.a + x)
        print(f"{box.state} {box.state.n}")
        return x

    return run, box


@table.makes(*CALLS, plans=1)
def before_an_exception():
    box = SimpleNamespace(state=Plain(ZEROS))

    def run(x):
        box.state = box.state.moved(x)
        if x.sum() < 0:
            raise ValueError("less than nothing")
        box.state = box.state.moved(x)
        return box.state.a

    return run, box


@table.makes(*CALLS, plans=2)
def weights_that_are_trained():
    box = SimpleNamespace(state=State(f32([1.0, 2.0])))

    def run(x):
        state = box.state
        weights = state.a.detach()
        weights.requires_grad = True
        loss = (weights * weights * x).sum()
        loss.backward()
        box.state = State((weights - 0.1 * weights.grad).detach(), state.n + 1)
        return loss.detach()

    return run, box


@table.makes((), (), (), plans=2)
def a_training_state_in_a_loop_over_batches():
    box = SimpleNamespace(state=State(f32([1.0, 2.0])), loss=0.0)
    data = hy.data.DataLoader(hy.data.TensorDataset(hy.stack(CALLS)), batch_size=2)

    def epoch():
        for (batch,) in data:
            state = box.state
            weights = state.a.detach()
            weights.requires_grad = True
            loss = ((batch @ weights - 1) ** 2).mean()
            loss.backward()
            box.state = State((weights - 0.01 * weights.grad).detach(), state.n + 1)
            box.loss = loss.item()
        return box.loss

    return epoch, box


@table.makes(*CALLS)
def a_part_that_grows():
    box = SimpleNamespace(state=State(ZEROS))

    def run(x):
        box.state = replace(box.state, a=hy.concat([box.state.a, x]))
        return box.state.a.sum()

    return run, box


@table.makes(*CALLS)
def a_chain_that_grows():
    box = SimpleNamespace(state=None)

    def run(x):
        box.state = State(x, box.state)
        return box.state.a

    return run, box


@table.makes(*CALLS)
def a_global():
    global CURRENT
    CURRENT = State(ZEROS)

    def run(x):
        global CURRENT
        CURRENT = replace(CURRENT, a=CURRENT.a + x, n=CURRENT.n + 1)
        return CURRENT.a * CURRENT.n

    return run


@table.makes(*CALLS)
def a_variable_of_an_enclosing_function():
    state = Frozen(ZEROS)

    def run(x):
        nonlocal state
        state = state.moved(x)
        return state.a * 2

    return run


# Which object it is -------------------------------------------------------------------------------


def moved(box: Any, hybridize: bool, ask: Any) -> Any:
    """Return a function that puts a new object into ``box.state``, and asks about the old one."""

    def run(x):
        old = box.state
        found = ask(old)
        box.state = old.moved(x)
        return found

    return hy.hybridize(run, ledger=False) if hybridize else run


@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
def test_the_old_object_is_returned(hybridize: bool) -> None:
    box = SimpleNamespace(state=Plain(ZEROS), kept=[])
    run = moved(box, hybridize, lambda old: [old, (old, 1)])
    for x in CALLS:
        before = box.state
        [found, (again, _)] = run(x)
        assert found is again is before
        assert box.state is not before
    if hybridize:
        assert len(run.plans) == 1


@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
def test_one_that_was_there_or_a_new_one_is_returned(hybridize: bool) -> None:
    box = SimpleNamespace(state=Plain(ZEROS))

    def run(x):
        if x.sum() > 0:
            box.state = box.state.moved(x)
        return box.state

    run = hy.hybridize(run, ledger=False) if hybridize else run
    for x in CALLS:
        before = box.state
        found = run(x)
        assert found is box.state
        assert (found is before) == (x.sum().item() <= 0)
    if hybridize:
        assert len(run.plans) == 1


ASKED = {
    "is": lambda box: lambda old: old is box.other,
    "equals": lambda box: lambda old: (old == box.other, old != box.other),
    "in_a_list": lambda box: lambda old: old in [box.other],
    "in_a_set": lambda box: lambda old: old in box.known,
    "key": lambda box: lambda old: box.table[old] if box.table and old is box.other else 0,
    "get": lambda box: lambda old: box.table.get(old, 0),
    "index": lambda box: lambda old: [box.other, old].index(old),
    "in_a_display": lambda box: lambda old: len({old, box.other}),
    "in_a_dict_display": lambda box: lambda old: len({old: 1, box.other: 2}),
    "in_a_comprehension": lambda box: lambda old: len({o for o in (old, box.other)}),
    "in_a_set_of_a_list": lambda box: lambda old: len(set([old, box.other])),
    "hash": lambda box: lambda old: hash(old) == hash(box.other),
    "id": lambda box: lambda old: id(old) == id(box.other),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_which_object_it_is_shows_at_each_call(asked: Any) -> None:
    found = []
    for hybridize in (False, True):
        box = SimpleNamespace(state=Plain(ZEROS), other=None, known=set(), table={})
        run = moved(box, hybridize, asked(box))
        row = []
        for i, x in enumerate((*CALLS, *CALLS)):
            if i in (2, 3, 6):
                box.other = box.state
                box.known, box.table = {box.state}, {box.state: 5}
            row.append(run(x))
        found.append(row)
    assert found[0] == found[1]


def test_explanations_say_what_it_holds() -> None:
    box = SimpleNamespace(state=State(ZEROS))

    @hy.hybridize
    def run(x):
        state = box.state
        state.a = state.a * 2
        box.state = replace(state, a=state.a + x, n=state.n + 1)
        return x

    for x in CALLS:
        run(x)
    told = str(run.explain(CALLS[0]))
    for line in (
        "built because: SimpleNamespace.state holds something else than before; "
        "SimpleNamespace.state.n is an input of this plan: any value will do",
        "SimpleNamespace.state.n, any number",
        "f32[2]  SimpleNamespace.state.a",
        "Attributes that a run sets\nSimpleNamespace.state\nSimpleNamespace.state.a\n",
    ):
        assert line in told
    box.state = Plain(ZEROS)
    with pytest.raises(AttributeError, match="n"):
        run(CALLS[0])


@dataclass
class Scaled:
    a: Any
    scale: ClassVar[float] = 2.0
    bias: ClassVar[Any] = f32([1.0, 1.0])
    sizes: ClassVar[list[int]] = [1]


def test_what_is_set_on_its_class_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    box = SimpleNamespace(state=Scaled(ZEROS))

    @hy.hybridize
    def run(x):
        state = box.state
        a = state.a * state.scale + x + state.bias * len(state.sizes)
        box.state = replace(state, a=a)
        return a

    ones, found = f32([1.0, 1.0]), []
    for name, value in (("scale", 2.0), ("scale", 3.0), ("bias", ones * 5), ("sizes", [1, 2])):
        monkeypatch.setattr(Scaled, name, value)
        found.append(run(ones)[0].item())
    Scaled.sizes.append(3)
    assert [*found, run(ones)[0].item()] == [2.0, 8.0, 30.0, 101.0, 319.0]


def test_what_others_set_on_it_shows() -> None:
    box = SimpleNamespace(state=Plain(ZEROS))

    @hy.hybridize
    def run(x):
        box.state = box.state.moved(x)
        return box.state.a, box.state.tag

    run(CALLS[0])
    box.state.tag = "other"
    assert run(CALLS[0])[1] == "other"
    box.state.a = f32([10.0, 20.0])
    assert run(CALLS[0])[0].tolist() == [11.0, 22.0]
    box.state.more = 1  # which a new one would not have
    assert run(CALLS[0])[0].tolist() == [12.0, 24.0]
    assert not hasattr(box.state, "more")
    box.state = State(ZEROS)
    with pytest.raises(AttributeError, match="moved"):
        run(CALLS[0])


def refusal(function: Any, *args: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(*args)
    error = caught.value
    assert error.at is not None and error.at.path == __file__
    return f"{error.what} [{error.at.text}] {error.why} [{error.fix}]"


def test_objects_of_other_libraries_stay() -> None:
    box = SimpleNamespace(options=argparse.Namespace(scale=2))

    def run(x):
        box.options = argparse.Namespace(scale=2)
        return x * box.options.scale

    assert refusal(run, CALLS[0]) == (
        "run changed SimpleNamespace.options while it was captured "
        "[box.options = argparse.Namespace(scale=2)] Each call would make another Namespace, and a "
        "plan knows the objects of libraries that it reads by which they are. [let there be a "
        "Namespace before the call, and set its attributes (SimpleNamespace.options.scale = ...)]"
    )


@table.makes(*CALLS)
def a_mask_of_the_old_one():
    """Its value is a constant of the plan, of what stands there as the call begins."""
    box = SimpleNamespace(first=Plain(ZEROS + 1), second=Plain(ZEROS), all={"a": ZEROS + 1})

    def run(x):
        old, table = box.first, box.all
        box.all = {"a": table["a"]}
        if x.sum() > 0:
            box.first, box.second = box.second, box.first
        return x[hy.isfinite(old.a)], x[table["a"] > 0]

    return run, box


@table.each()
def test_it_runs_as_eagerly(program: Program) -> None:
    program.check()
