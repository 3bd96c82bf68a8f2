"""The op: one declared operation, its type rule, reference, derivatives and kernel in one record.

::

    @op(kernel="exp", elementwise=True)
    def exp(x: TensorType) -> TensorType:
        "Exponential, element by element."
        return x


    @exp.reference
    def exp_reference(x):
        return np.exp(x)


    @exp.vjp
    def exp_vjp(ct, y, _x):
        return (ct * y,)

The decorated function is the type rule: positional parameters are operands (one ``*operands``
parameter for any number), keyword-only ones attributes.  It gets TensorTypes and returns one, or a
tuple of them for an op of several results.  A rule with the keyword ``regions`` belongs to an op
whose nodes own graphs; it gets them as a tuple.  ``kernel`` is a name, or a function of the operand
types and attributes that gives one (``cast`` has a kernel per dtype).

``promotes=True``: operands are cast to their common dtype before the rule sees them;
``promotes="floating"``: to the default float dtype when that one is not floating.

``inline=True``: before planning, a node of the op is replaced by the nodes of its first region.

``pure=False``: a call does something to the world.  ``raises=True``: whether a run succeeds depends
on the elements of the operands, as it does for an index; ``raises=LinearAlgebraError``: what it
raises where it does not, instead of OutOfRangeError.

``moves=True``: elements of any dtype are moved or converted, not computed with, as in a view.

``narrow=bfloat16``: a dtype of storage that the op takes as it is, if all operands have it.  Other
operands of such dtypes are cast to float32, and the results back.

``hosted=True``: no kernel computes the op; a plan calls its reference, with NumPy arrays.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from inspect import CO_VARARGS
from typing import Any

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import DType, TensorType
from hybrid.errors import ArgumentTypeError, OutOfRangeError
from hybrid.ir import interpreter

REGISTRY: dict[str, Op] = {}
MAX_INFERRED = 4096
SIZE_ATTRIBUTES = frozenset({"shape", "size", "start"})  # attributes whose numbers are sizes


def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """The names of those by position and of those by keyword, and whether ``*`` is the last of
    the former."""
    code = function.__code__
    first = code.co_argcount
    last = first + code.co_kwonlyargcount
    names, variadic = code.co_varnames, bool(code.co_flags & CO_VARARGS)
    return names[:first] + names[last : last + variadic], names[first:last], variadic


class Op:
    """One declared operation; calling it applies it under the current interpreter."""

    def __init__(
        self,
        rule: Callable[..., Any],
        *,
        kernel: str | Callable[[tuple[TensorType, ...], dict[str, Any]], str] | None = None,
        elementwise: bool = False,
        commutative: bool = False,
        pure: bool = True,
        raises: bool | type[Exception] = False,
        hosted: bool = False,
        moves: bool = False,
        narrow: DType | None = None,
        promotes: bool | str = False,
        differentiable: bool = True,
        inline: bool = False,
        domain: tuple[float, float] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or rule.__name__.rstrip("_")
        self.rule, self.kernel = rule, kernel
        self.elementwise, self.commutative, self.pure = elementwise, commutative, pure
        self.raises, self.hosted, self.inline = bool(raises), hosted, inline
        self.error = raises if isinstance(raises, type) else OutOfRangeError  # if it raises
        self.moves = moves or not pure
        self.narrow = narrow
        self.promotes, self.differentiable, self.domain = promotes, differentiable, domain
        self.__doc__, self.__name__, self.__module__ = rule.__doc__, rule.__name__, rule.__module__
        self.operand_names, attributes, self.variadic = _parameters(rule)
        defaults = rule.__kwdefaults__ or {}
        self.attr_defaults = {
            name: defaults.get(name, inspect.Parameter.empty) for name in attributes
        }
        # A rule with a keyword ``regions`` is that of an op whose nodes own graphs.
        self.has_regions = self.attr_defaults.pop("regions", None) is not None
        self.moves = self.moves or self.has_regions
        self.communicates = "comm" in self.attr_defaults  # with other processes
        self.reference_rule: Callable[..., Any] | None = None
        self.vjp_rule: Callable[..., Any] | None = None
        self.jvp_rule: Callable[..., Any] | None = None
        self.batch_rule: Callable[..., Any] | None = None
        self.couple_rule: Callable[..., Any] | None = None
        self.share_rule: Callable[..., Any] | None = None
        self.alias_rule: Callable[..., Any] | None = None
        self.record_of: int | None = None  # the operand whose record is that of the result
        self.lowering_rule: Callable[..., Any] | None = None
        self.view_rule: Callable[..., Any] | None = None
        self.sample_rule: Callable[..., Any] | None = None
        self.saved: tuple[bool, ...] = ()  # which of (results, operands) the vjp keeps alive
        self.launches: dict[Any, Any] = {}  # the eager interpreter's: operand types -> launch
        self.open_launches: dict[Any, Any] = {}  # the same for all sizes: kinds of operands -> kind
        self.opens: bool | None = None  # whether it has these; None: nobody has asked
        self.sized = not SIZE_ATTRIBUTES.isdisjoint(self.attr_defaults)
        self._inferred: dict[Any, tuple[TensorType, ...]] = {}
        self._given: dict[Any, tuple[tuple[str, Any], ...]] = {}
        if self.name in REGISTRY:
            raise ValueError(f"op {self.name} is declared twice")
        REGISTRY[self.name] = self

    def __getattr__(self, name: str) -> Any:
        """``__signature__``, that of a call, made when it is asked for first: few ever are."""
        if name != "__signature__":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        kept = [
            inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_ONLY)
            if p.kind is p.POSITIONAL_OR_KEYWORD
            else p.replace(annotation=inspect.Parameter.empty)
            for p in inspect.signature(self.rule).parameters.values()
            if p.name != "regions"
        ]
        self.__signature__ = inspect.Signature(kept)
        return self.__signature__

    # Declaring -------------------------------------------------------------------------------

    def reference(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """NumPy arrays in, NumPy array(s) out: what the op means, the oracle of its tests."""
        self.reference_rule = function
        return function

    def vjp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(ct, result, *operands, **attrs)`` -> one cotangent per operand, or None for zero.

        Written in ops.  For an op of several results, ``ct`` and ``result`` are tuples.  A
        parameter whose name begins with an underscore gets the TensorType only, so that its value
        need not be kept.  An entry may be a function of no arguments: it is called only when it is
        needed.
        """
        self.vjp_rule = function
        self.saved = tuple(not name.startswith("_") for name in _parameters(function)[0][1:])
        return function

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(tangents, result, *operands, **attrs)`` -> tangent of the result; None is zero.

        Optional: without it forward mode transposes the vjp twice.
        """
        self.jvp_rule = function
        return function

    def batch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(rows, batched, *operands, **attrs)`` -> the result(s) for all rows of ``vmap``.

        Operands that are ``batched`` have the rows as their first axis, before those that the type
        rule speaks of, and so has each result.  That of an op whose nodes own ``regions`` returns
        its results and which of them are batched.  Optional: elementwise ops go without, others
        are applied row by row; so they are where the rule returns NotImplemented.  See
        ``hybrid/ops/support/batching.py``.
        """
        self.batch_rule = function
        return function

    def couples(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(operands, results, **attrs)``, types both -> which places along their axes belong
        together.

        Elementwise ops go without.  An element can be taken out of the axes of others with a rule,
        and no element out of those of an op that has none.  See ``hybrid/ops/support/axis_ties.py``
        for what a rule returns.
        """
        self.couple_rule = function
        return function

    def shares(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(cut, operands, results, **attrs)``, the last two types -> the ways in which ranks
        compute the op together, each with parts of its operands and results.

        Elementwise ops go without; of others without one, each rank computes all.  See
        ``hybrid/ops/support/shared_work.py`` for what a rule returns.
        """
        self.share_rule = function
        return function

    def aliases(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(record)`` -> which results are an operand itself, of an op that hands some on."""
        self.alias_rule = function
        return function

    def lowering(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(emit, *operands, *results, **attrs)`` on Views: the kernels that compute the op."""
        self.lowering_rule = function
        return function

    def view(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(operand, **attrs)`` -> View: the result is the operand's bytes seen another way."""
        self.view_rule, self.moves = function, True
        return function

    def samples(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``(draw)`` -> iterable of (operand arrays, attrs): operands that the registry's tests
        use.
        """
        self.sample_rule = function
        return function

    # Using -----------------------------------------------------------------------------------

    def infer(
        self,
        types: tuple[TensorType, ...],
        attrs: tuple[tuple[str, Any], ...],
        regions: tuple[Any, ...] = (),
    ) -> tuple[TensorType, ...]:
        """The result types; runs the type rule once per (types, attributes).

        The rule of an op whose nodes own ``regions`` gets them too.  It, and that of an op which
        is not pure (whose attributes hold functions), runs every time: nothing is kept alive.
        """
        if self.has_regions or not self.pure:
            types = tuple([t if t.layout is None else t.whole for t in types])
            owned = {"regions": regions} if self.has_regions else {}
            result = self.rule(*types, **owned, **dict(attrs))
            return result if isinstance(result, tuple) else (result,)
        key: Any = (types, attrs)
        inferred = self._inferred
        for t in types:
            if t.is_open:  # what is of the sizes of one capture goes with them
                inferred, key = t.scope.inferred, (self, types, attrs)
                break
        found = inferred.get(key)
        if found is None:
            types = tuple([t if t.layout is None else t.whole for t in types])
            if not self.variadic and len(types) != len(self.operand_names):
                raise ArgumentTypeError(
                    f"{self.name} takes {len(self.operand_names)} operands, not {len(types)}"
                )
            result = self.rule(*types, **dict(attrs))
            found = result if isinstance(result, tuple) else (result,)
            if inferred is self._inferred:
                if any([has_size(value) for _, value in attrs]):
                    return found
                if len(inferred) >= MAX_INFERRED:
                    inferred.clear()
            inferred[key] = found
        return found

    def kernel_name(
        self, types: tuple[TensorType, ...], attrs: tuple[tuple[str, Any], ...]
    ) -> str | None:
        """The kernel for operands of ``types``; None when lowering or a view says it instead."""
        return self.kernel(types, dict(attrs)) if callable(self.kernel) else self.kernel

    def attributes(self, attrs: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """``attrs`` completed with defaults, sorted and hashable."""
        if not attrs and not self.attr_defaults:
            return ()
        if not self.pure:
            return self._completed(attrs)
        try:
            key = (tuple(attrs.items()), tuple(map(type, attrs.values())))
            found = self._given.get(key)
        except TypeError:  # a list among them
            return self._completed(attrs)
        if found is None or (0.0 in attrs.values() and any(map(_is_negative_zero, attrs.values()))):
            found = self._completed(attrs)
            if len(self._given) >= MAX_INFERRED:
                self._given.clear()
            if not any([_is_negative_zero(v) or has_size(v) for v in attrs.values()]):
                self._given[key] = found
        return found

    def _completed(self, attrs: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        unknown = attrs.keys() - self.attr_defaults.keys()
        if unknown:
            raise ArgumentTypeError(
                f"{self.name} has no attribute {sorted(unknown)[0]!r}",
                fix=f"use one of {sorted(self.attr_defaults)}",
            )
        merged = self.attr_defaults | attrs
        for name, value in merged.items():
            if value is inspect.Parameter.empty:
                raise ArgumentTypeError(f"{self.name} needs the attribute {name!r}")
        return tuple(sorted((name, frozen(value)) for name, value in merged.items()))

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        return interpreter.current().apply(self, operands, attrs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind like a function, so that an op can be a method of Tensor."""
        if instance is None:
            return self
        return lambda *operands, **attrs: self(instance, *operands, **attrs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self):
        return get_op, (self.name,)


def has_size(value: Any) -> bool:
    """Whether the value of an attribute holds a size of open axes, or a number made of some."""
    return any(map(has_size, value)) if type(value) is tuple else isinstance(value, SizeValue)


class NegativeZero(float):
    """-0.0 as an attribute: equal to itself only, so that no cache takes it for 0.0."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NegativeZero)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, NegativeZero)

    def __hash__(self) -> int:
        return hash(NegativeZero)


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1.0, value) < 0


def frozen(value: Any) -> Any:
    """``value`` as an attribute that tells itself apart from all others, and has a hash."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    return NegativeZero(-0.0) if _is_negative_zero(value) else value


def get_op(name: str) -> Op:
    """The declared op called ``name``."""
    return REGISTRY[name]


def op(rule: Callable[..., Any] | None = None, **facts: Any) -> Any:
    """Declare an op from its type rule; see the module's docstring and ``Op``."""
    if rule is not None:
        return Op(rule, **facts)

    def declare(function: Callable[..., Any]) -> Op:
        return Op(function, **facts)

    return declare


def results_of(result: Any) -> Sequence[Any]:
    """The results of an op call as a tuple, whether it has one or several."""
    return result if isinstance(result, tuple) else (result,)
