"""Hooks: the author's functions that a module calls on the way, as PyTorch has them.

A module holds them in one tuple, which every change replaces: so a capture can tell at a glance
whether they are what it has seen, and while a function is captured they are its code like all else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hybrid.calls.control_functions import cond
from hybrid.errors import OF_CAPTURE, ArgumentTypeError, CaptureError, author_location
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.nn.modules.gradient_hooks import Watched
from hybrid.trace.values.optional import OptionalValue

if TYPE_CHECKING:
    from hybrid.nn.modules.module import Module


class Hook(NamedTuple):
    """A function and when it is called: ``kind`` is the name of the method that registers it."""

    kind: str
    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False  # even if what comes before it has raised


class Handle:
    """Takes a hook away again: by ``remove()``, or at the end of a ``with`` block."""

    def __init__(self, module: Module, hook: Hook) -> None:
        self.module, self.hook = module, hook

    def remove(self) -> None:
        """From now on the module does not call the hook; a second time does nothing."""
        kept = tuple([hook for hook in self.module._hooks if hook is not self.hook])
        if len(kept) < len(self.module._hooks):
            set_hooks(self.module, kept)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def add(module: Module, hook: Hook, prepend: bool = False) -> Handle:
    """Let ``module`` call ``hook`` after those of its kind, or before them."""
    if not callable(hook.function):
        raise ArgumentTypeError(
            f"a {type(hook.function).__name__} cannot be a hook of a {type(module).__name__}",
            fix="pass a function",
        )
    set_hooks(module, (hook, *module._hooks) if prepend else (*module._hooks, hook))
    return Handle(module, hook)


def set_hooks(module: Module, hooks: tuple[Hook, ...]) -> None:
    if ACTIVE and current().traces:
        raise CaptureError(
            f"the hooks of a {type(module).__name__} were changed inside a hybridized function",
            at=author_location(),
            why="A plan repeats what is computed, not how a model is built.",
            fix="add and remove hooks outside",
        )
    module._hooks = hooks


def of_kind(module: Module, kind: str) -> Iterator[Hook]:
    return (hook for hook in module._hooks if hook.kind == kind)


def around(module: Module, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """``call(*args, **kwargs)``, by what stands around the calls of ``module``, if anything does.

    Unlike the author's hooks it is no part of ``forward``: it is there around plans, too.
    """
    for kind in ("around", "microbatches"):
        for hook in of_kind(module, kind):
            return hook.function(module, call, args, kwargs)
    return call(*args, **kwargs)


def called(module: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """``forward(*args, **kwargs)`` of ``module`` with the hooks around it."""
    begun: list[Hook] = []
    try:
        args, kwargs = _before(module, args, kwargs)
        watched = _watched(module)
        if watched is None:
            return _after(module, args, kwargs, forward(*args, **kwargs), begun)
        args = watched.arguments(args)
        return watched.result(_after(module, args, kwargs, forward(*args, **kwargs), begun))
    except Exception as error:
        for hook in of_kind(module, "forward"):
            called_already = any(hook is other for other in begun)
            if hook.always_call and not called_already and not isinstance(error, OF_CAPTURE):
                with contextlib.suppress(Exception):  # the first error is the one that tells
                    _call(hook, module, args, kwargs, None)
        raise


def _before(module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    for hook in of_kind(module, "forward_pre"):
        found = _call(hook, module, args, kwargs)
        if type(found) is OptionalValue:
            new = _replacing(hook, module, found.value, kwargs)
            args, kwargs = _either(found, new, (args, kwargs))
        elif found is not None:
            args, kwargs = _replacing(hook, module, found, kwargs)
    return args, kwargs


def _replacing(hook: Hook, module: Module, found: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments that a pre-hook which has returned ``found`` gives."""
    if not hook.with_kwargs:
        return (found if isinstance(found, tuple) else (found,)), kwargs
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
        return found
    raise ArgumentTypeError(
        f"a forward pre-hook of {type(module).__name__} returned a {type(found).__name__}",
        why="With with_kwargs=True it returns None or (args, kwargs).",
    )


def _after(module: Module, args: Any, kwargs: Any, result: Any, begun: list[Hook]) -> Any:
    for hook in of_kind(module, "forward"):
        begun.append(hook)
        found = _call(hook, module, args, kwargs, result)
        if type(found) is OptionalValue:
            result = _either(found, found.value, result)
        elif found is not None:
            result = found
    return result


def _either(found: OptionalValue, value: Any, other: Any) -> Any:
    """``value`` where the hook has returned something, and ``other`` where it has not."""
    return cond(found.flag, lambda: value, lambda: other)


def _watched(module: Module) -> Watched | None:
    """What shows gradients to hooks, if ``module`` has some that want to see them."""
    before = tuple(of_kind(module, "full_backward_pre"))
    after = tuple(of_kind(module, "full_backward"))
    return Watched(module, before, after) if before or after else None


def _call(hook: Hook, module: Module, args: Any, kwargs: Any, *result: Any) -> Any:
    function = current().converted(hook.function, True) if ACTIVE else hook.function
    given = (args, kwargs) if hook.with_kwargs else (args,)
    return function(module, *given, *result)
