"""Hooks of modules that see gradients: identities around ``forward`` call them in their vjps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hybrid.core.tree import flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, CaptureError, author_location
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.ir.record import is_recording
from hybrid.transforms import custom_vjp

if TYPE_CHECKING:
    from hybrid.nn.modules.hooks import Hook
    from hybrid.nn.modules.module import Module

Gradients = tuple[Tensor | None, ...]


class Watched:
    """One call of ``module``, whose gradients are shown to hooks on their way back."""

    def __init__(self, module: Module, before: Sequence[Hook], after: Sequence[Hook]) -> None:
        if ACTIVE and is_recording() and (current().traces or current().batches):
            raise CaptureError(
                f"a {type(module).__name__} with full backward hooks was called in a hybridized "
                "function or in vmap",
                at=author_location(),
                why="Such hooks are Python that runs in the backward pass, which is a graph there.",
                fix="remove them, call the module eagerly, or define gradients with custom_vjp",
            )
        self.module, self.before, self.after = module, before, after
        self.given: Gradients = ()  # gradients of the results, once they are known
        self.places: list[int] = []  # of the arguments that gradients flow to
        self.count = 0  # of arguments that are tensors

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``args``, whose gradients will be shown and may be replaced."""
        tensors = [at for at, arg in enumerate(args) if isinstance(arg, Tensor)]
        self.count = len(tensors)
        self.places = [i for i, at in enumerate(tensors) if args[at].record is not None]
        if not (self.after and self.places and is_recording()):
            return args
        found = list(args)
        flowing = [tensors[i] for i in self.places]
        passed = _identity([args[at] for at in flowing], self._shown)
        for at, tensor in zip(flowing, passed, strict=True):
            found[at] = tensor
        return tuple(found)

    def result(self, result: Any) -> Any:
        """``result``, whose gradients will be shown and may be replaced."""
        leaves, structure = flatten(result)
        flowing = [
            at
            for at, leaf in enumerate(leaves)
            if isinstance(leaf, Tensor) and leaf.record is not None
        ]
        if flowing and is_recording():
            passed = _identity([leaves[at] for at in flowing], self._arrived)
            for at, tensor in zip(flowing, passed, strict=True):
                leaves[at] = tensor
        return unflatten(structure, leaves)

    def _arrived(self, given: Gradients) -> Gradients:
        for hook in self.before:
            given = self._replaced(hook, given, hook.function(self.module, given))
        self.given = given
        if self.after and not self.places:  # nothing more will come
            self._call((None,) * self.count)
        return given

    def _shown(self, found: Gradients) -> Gradients:
        gradients: list[Tensor | None] = [None] * self.count
        for place, ct in zip(self.places, found, strict=True):
            gradients[place] = ct
        replaced = self._call(tuple(gradients))
        return tuple([replaced[place] for place in self.places])

    def _call(self, gradients: Gradients) -> Gradients:
        for hook in self.after:
            returned = hook.function(self.module, gradients, self.given)
            gradients = self._replaced(hook, gradients, returned)
        return gradients

    def _replaced(self, hook: Hook, old: Gradients, returned: Any) -> Gradients:
        if returned is None:
            return old
        new = returned if isinstance(returned, tuple) else (returned,)
        if len(new) != len(old):
            raise ArgumentTypeError(
                f"a backward hook of {type(self.module).__name__} returned {len(new)} gradients "
                f"for {len(old)}",
                fix="return None, or a tuple like the one that it was given",
            )
        return new


def _identity(tensors: Sequence[Tensor], back: Callable[[Gradients], Gradients]) -> Any:
    """The tensors; ``back`` is given their gradients, and gives those that go on."""
    identity = custom_vjp(lambda *xs: xs)
    identity.defvjp(lambda *xs: (xs, ()), lambda _, cts: back(tuple(cts)))
    return identity(*tensors)
