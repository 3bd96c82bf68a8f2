"""Errors of modules: the place in a model where one was raised, and attributes that are not there.

The place is the path of the layer, its settings and what came.  It costs nothing on the way that
does not fail: modules note it as the error passes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

from hybrid.core.call_advice import unknown_word
from hybrid.core.other_names import MODULE, missing
from hybrid.core.package import is_of_hybrid
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    HybridError,
    Place,
    ShapeError,
)
from hybrid.nn.modules.expected_input import refusal

MOST, LONGEST = 4, 100  # of what a layer got that is shown; characters of its settings

_OF_SHAPES = (ShapeError, AxisError, ArgumentError)


def note_place(
    error: BaseException, module: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """``error`` has passed ``module``, called with these: keep where in the model it was raised."""
    if not isinstance(error, HybridError) or error._of_capture:
        return
    came, _ = flatten((args, kwargs))
    refused = _refused(error, module, came)
    if error.place is None or refused is not None:
        layer = f"{_settings(module)} got {_shown(came)}"
        if refused is not None:
            takes, error.fix = refused
            layer, error.why = f"{layer}; it takes {takes}", ""
        error.place = Place(id(module), "", layer, refused is not None)
        return
    inner, path, layer, says = error.place
    for name, other in module.named_modules() if inner != id(module) else ():
        if id(other) == inner:
            error.place = Place(id(module), f"{name}.{path}" if path else name, layer, says)
            return


def _refused(error: HybridError, module: Any, came: Sequence[Any]) -> tuple[str, str] | None:
    """What a layer of this package takes, and the advice, if ``error`` is of what came first."""
    if not (isinstance(error, _OF_SHAPES) and came):
        return None
    if not isinstance(came[0], Tensor) or not is_of_hybrid(type(module).forward):
        return None
    return refusal(module, came[0].shape)


def _settings(module: Any) -> str:
    text = repr(module)
    return type(module).__name__ if "\n" in text or len(text) > LONGEST else text


def _shown(came: Sequence[Any]) -> str:
    shown = [str(t.type) if isinstance(t, Tensor) else type(t).__name__ for t in came[:MOST]]
    return ", ".join([*shown, "..."] if len(came) > MOST else shown) or "nothing"


def refuse_unknown_words(kind: type, given: Iterable[str]) -> None:
    """Raise if a layer of this package, of class ``kind``, has no argument of a name."""
    unknown = unknown_word(kind, given)
    if unknown is not None:
        word, fix = unknown
        raise ArgumentTypeError(f"{kind.__name__} has no argument {word!r}", fix=fix)


def missing_attribute(module: Any, name: str) -> AttributeError:
    """What to raise for an attribute that is not there: it says so if a base was forgotten."""
    found = forgotten_init(type(module), name)
    if found is None:
        return missing(f"{type(module).__name__!r} object", name, MODULE, module)
    forgetful, base = found
    return AttributeError(
        f"this {type(module).__name__} has no {name!r}, which {base.__name__}.__init__ sets\n"
        f"{forgetful.__name__}.__init__ does not call it.\n"
        f"Fix: begin {forgetful.__name__}.__init__ with super().__init__(...)."
    )


def forgotten_init(kind: type, name: str) -> tuple[type, type] | None:
    """(who forgot, whose ``__init__`` was to set ``name``) of a module of class ``kind``, if any.

    Of the classes that have an ``__init__``, the first whose does not call another one forgot.
    """
    having = [c for c in kind.__mro__ if isinstance(vars(c).get("__init__"), FunctionType)]
    for at, forgetful in enumerate(having):
        if "__init__" not in vars(forgetful)["__init__"].__code__.co_names:
            for base in having[at + 1 :]:
                if name in vars(base)["__init__"].__code__.co_names:
                    return forgetful, base
            return None
    return None
