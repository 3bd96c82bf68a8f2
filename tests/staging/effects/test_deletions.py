"""Attributes, variables and items that a call deletes: each run does, where they are there."""

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = (f32([1.0, 2.0]), f32([-3.0, 1.0]))


@table.makes(*CALLS)
def an_attribute_with_a_tensor():
    state = SimpleNamespace(cache=f32([1.0, 1.0]))

    def run(x):
        if hasattr(state, "cache"):
            y = x + state.cache
            del state.cache
        else:
            y = x
            state.cache = x * 2
        return y

    return run, state


@table.makes(*CALLS)
def an_attribute_with_a_plain_value():
    state = SimpleNamespace(cache=5)

    def run(x):
        if hasattr(state, "cache"):
            delattr(state, "cache")
            return x + 1
        state.cache = 5
        return x

    return run, state


@table.makes(*CALLS)
def a_slot_and_an_attribute_of_a_class():
    class Slots:
        __slots__ = ("value",)
        shared = f32([1.0, 1.0])

    slots = Slots()
    slots.value = f32([2.0, 2.0])

    def run(x):
        if hasattr(slots, "value"):
            y = x + slots.value + Slots.shared
            del slots.value, Slots.shared
        else:
            y = x
            slots.value, Slots.shared = x * 2, x * 3
        return y, hasattr(Slots, "shared"), hasattr(slots, "value")

    return run


@table.makes(*CALLS)
def what_the_class_has_shows_again():
    class Caching:
        cache = None

    state = Caching()
    state.cache = f32([1.0, 1.0])

    def run(x):
        if state.cache is None:
            y = x
            state.cache = x * 2
        else:
            y = x + state.cache
            del state.cache
        return y, "cache" in vars(state)

    return run, state


@table.makes(*CALLS)
def a_variable():
    cache = f32([1.0, 1.0])

    def run(x):
        nonlocal cache
        try:
            y = x + cache
            del cache
        except NameError:
            y = x
            cache = x * 2  # noqa: F841  the next call reads it
        return y

    return run


@table.makes(*CALLS)
def a_module_deletes_its_cache():
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.cache = f32([0.0, 0.0])

        def forward(self, x):
            self.cache = x * 2
            y = self.linear(self.cache)
            del self.cache
            return y

    module = Caching()
    return (lambda x: (module(x), "cache" in vars(module))), module


@table.makes(*CALLS)
def items():
    state = {"cache": f32([1.0, 1.0]), "list": [f32([1.0, 1.0]), f32([2.0, 2.0])]}

    def run(x):
        if "cache" in state:
            y = x + state["cache"] + state["list"][0]
            del state["cache"], state["list"][0]
        else:
            y = x
            state["cache"] = x * 2
            state["list"].append(x)
        return y

    return run, state


@table.makes(*CALLS)
def before_an_error():
    state = SimpleNamespace(cache=f32([1.0, 1.0]))

    def run(x):
        if hasattr(state, "cache"):
            del state.cache
        if x.sum() < 0:
            raise ValueError("low")
        return x

    return run, state


@table.each()
def test_programs(program: Program) -> None:
    program.check()


def test_a_stage_of_a_module_that_is_gone_is_noticed() -> None:
    module = nn.Linear(2, 2)
    module.scale = f32([2.0, 2.0])

    @hy.hybridize
    def run(x):
        if "scale" in vars(module):
            del module.scale
            return x * 2
        return x * 3

    assert [run(CALLS[0]).tolist() for _ in range(3)] == [[2.0, 4.0], [3.0, 6.0], [3.0, 6.0]]
