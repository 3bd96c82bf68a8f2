"""Late: what of the package is imported when it is first asked for.

Tensors and ops come with ``import hybrid``; capturing, layers, optimizers and data, which are most
of the package, do not.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from hybrid.ops.remembered import set_watcher

MODULES = ("data", "linalg", "nn", "optim", "plots", "train")
_NAMES = {  # public names, by the modules that they come from
    "hybrid.control": ("cond", "py_call", "scan", "while_loop"),
    "hybrid.hybridized": ("hybridize",),
    "hybrid.nn": ("summary",),
    "hybrid.trace.checkpoint": ("checkpoint",),
    "hybrid.transforms": ("custom_vjp", "hessian", "hvp", "jacobian", "vmap"),
    "hybrid.weights": ("load", "save"),
}
MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def module(name: str) -> ModuleType:
    """One of the ``MODULES``."""
    return import_module(f"hybrid.{name}")


def member(name: str) -> Any:
    """One of the names in ``MODULE_OF``."""
    return getattr(import_module(MODULE_OF[name]), name)


def register() -> None:
    """Let the first call of a function that is made of several ops bring what makes plans."""

    def watched(*args: Any) -> Any:
        return import_module("hybrid.whole").watched(*args)

    def learned(*args: Any) -> Any:
        return import_module("hybrid.whole").learned(*args)

    set_watcher(watched, learned)
