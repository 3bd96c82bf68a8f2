"""Hooks that return something on one path, and None on another that the value of a tensor takes."""

from __future__ import annotations

from typing import Any

from hybrid import nn
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = (f32([1.0, 2.0]), f32([-3.0, 1.0]))


class Pair(nn.Module):
    def forward(self, x, scale=1.0):
        return x, x * scale


def with_hook(kind: str, hook: Any, **options: Any) -> Any:
    module = Pair()
    getattr(module, kind)(hook, **options)
    return module


@table.makes(*CALLS, plans=1)
def a_forward_hook():
    module = nn.Linear(2, 2)

    def hook(module, args, result):
        if result.sum() > 0:
            return result * 2

    module.register_forward_hook(hook)
    return lambda x: module(x)


@table.makes(*CALLS, plans=1)
def a_forward_hook_of_tuples():
    def hook(module, args, result):
        if result[0].sum() > 0:
            return result[1] * 3, result[0]

    module = with_hook("register_forward_hook", hook)
    return lambda x: module(x)


@table.makes(*CALLS, plans=1)
def a_pre_hook_that_returns_a_tensor():
    def hook(module, args):
        if args[0].sum() > 0:
            return args[0] * 2

    module = with_hook("register_forward_pre_hook", hook)
    return lambda x: module(x)


@table.makes(*CALLS, plans=1)
def a_pre_hook_that_returns_a_tuple():
    def hook(module, args):
        if args[0].sum() > 0:
            return (args[0] * 2,)

    module = with_hook("register_forward_pre_hook", hook)
    return lambda x: module(x)


@table.makes(*CALLS, plans=1)
def a_pre_hook_with_keywords():
    def hook(module, args, kwargs):
        if args[0].sum() > 0:
            return (args[0] * 2,), {"scale": args[0] + 1}

    module = with_hook("register_forward_pre_hook", hook, with_kwargs=True)
    return lambda x: module(x, scale=x * 5)


@table.each()
def test_programs(program: Program) -> None:
    program.check()
