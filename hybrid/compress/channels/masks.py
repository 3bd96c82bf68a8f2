"""Masks of parameters: modules that read a parameter as its product with a buffer beside it.

A module with masks is of a class of its own, made of its former one: ``weight`` is a property that
gives ``weight * weight_mask``, while the registries, and so ``state_dict()``, optimizers, copies
and files, know the parameter ``weight`` and the buffer ``weight_mask``.  What the module computes,
eagerly or captured, is what its ``forward`` computes of the product; gradients go through it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from hybrid.autodiff import no_grad
from hybrid.config import advance_epoch
from hybrid.eager.tensor import Tensor
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter

SUFFIX = "_mask"


class Masked:
    """What classes of modules with masks have: the names of the parameters that have one."""

    masked: tuple[str, ...]
    unmasked_class: type[Module]

    def reset_parameters(self: Any) -> None:
        """Draw the parameters themselves anew; the masks stay."""
        names, kind = self.masked, self.unmasked_class
        object.__setattr__(self, "__class__", kind)
        try:
            self.reset_parameters()
        finally:
            object.__setattr__(self, "__class__", masked_class(kind, names))

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return _blank, (self.unmasked_class, self.masked), self.__getstate__()


def _product(name: str) -> property:
    """The property ``name`` of a module that has a mask for it."""

    def read(self: Module) -> Tensor:
        return dict(self._parameters)[name] * getattr(self, name + SUFFIX)

    def write(self: Module, value: Any) -> None:
        self.__dict__[name] = value

    def delete(self: Module) -> None:
        del self.__dict__[name]

    return property(read, write, delete, f"The parameter {name!r} times its mask.")


@functools.cache
def masked_class(kind: type[Module], names: tuple[str, ...]) -> type[Module]:
    """The subclass of ``kind`` that reads the parameters ``names`` through their masks."""
    members = {name: _product(name) for name in names}
    about = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    facts = {"masked": names, "unmasked_class": kind}
    return type(f"Masked{kind.__name__}", (Masked, kind), members | about | facts)


def _blank(kind: type[Module], names: tuple[str, ...]) -> Module:
    """A module without state, for copies and pickles to fill."""
    made = masked_class(kind, names)
    return made.__new__(made)


def masks_of(module: Module) -> Iterator[tuple[str, Parameter, Tensor]]:
    """The names of the parameters of ``module`` itself that have masks, these, and the masks."""
    parameters = dict(module._parameters)
    for name in module.masked if isinstance(module, Masked) else ():
        yield name, parameters[name], vars(module)[name + SUFFIX]


def add_mask(module: Module, name: str, mask: Tensor) -> None:
    """Let ``module`` read its parameter ``name`` as the product with ``mask``, a buffer now."""
    module.register_buffer(name + SUFFIX, mask)
    masked = isinstance(module, Masked)
    kind, names = (module.unmasked_class, module.masked) if masked else (type(module), ())
    object.__setattr__(module, "__class__", masked_class(kind, (*names, name)))
    advance_epoch()


def take_masks(module: Module) -> None:
    """Multiply the parameters of ``module`` itself with their masks, for good.

    A mask holds 0 and 1, so that what is computed keeps its bits.
    """
    if not isinstance(module, Masked):
        return
    with no_grad():
        for _, parameter, mask in masks_of(module):
            parameter.assign(parameter * mask)
    names = module.masked
    object.__setattr__(module, "__class__", module.unmasked_class)
    for name in names:
        delattr(module, name + SUFFIX)
    advance_epoch()
