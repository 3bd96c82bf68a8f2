"""Digest of everything that a capture depends on; it is the same in every process.

``Reads`` lists what a function may read from outside its arguments, in an order that no hash and no
address has a say in; captures are guarded on just that.  The digest writes the list down:
code byte by byte, plain values bit by bit, tensors by their types, objects by their classes, what
their attributes hold where these are read.  What is one object is written down once and named by
its number from then on, so that two digests are equal only if the same things are the same
there, too.

What has no such description (a file, a lock, an object of a library) raises Unkeepable: a capture
that may depend on it is not kept.
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import re
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from hybrid.autodiff.function_gradients import Varied
from hybrid.calls.files.purity import impure_names, is_pure_module, makes_sets
from hybrid.calls.files.tokens import Tokens, Unkeepable, functions_of, type_of, with_location
from hybrid.core.package import is_of_hybrid, module_of
from hybrid.core.tree import LEAF, Structure, stored_items, stored_pairs
from hybrid.core.types import DType, TensorType
from hybrid.eager.inplace_launch import Calls
from hybrid.eager.tensor import Tensor
from hybrid.ir import Op, get_op
from hybrid.ir.op import REGISTRY
from hybrid.ir.record import Leaf, gradient_leaf, node_of
from hybrid.random import Generator
from hybrid.trace.guards.guard import label_of
from hybrid.trace.guards.reads import Read, Reads
from hybrid.trace.places.attributes import MISSING, stored
from hybrid.trace.places.code_owner import (
    CONTAINERS,
    content_of,
    is_library,
    is_library_class,
    of_package,
    user_object,
)
from hybrid.trace.places.names import names_in

_PLAIN_CONTAINERS = (list, dict, set, frozenset, deque, defaultdict, OrderedDict)
_ATOMS = frozenset({bool, int, float, str, bytes, type(None)})
_BY_NAME = (types.BuiltinFunctionType, np.ufunc)
_Cache = functools._lru_cache_wrapper
_UNREACHED = (types.DynamicClassAttribute,)  # of the standard library: what classes of its hold
_Field: Any = collections._tuplegetter  # type: ignore[attr-defined]
_CODE = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)
_HASH = ("hash", "__hash__")
# What a class holds that says nothing of what its objects do.
_IGNORED = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
    "__annotations_cache__", "__classdictcell__", "__dataclass_fields__", "__dataclass_params__",
    "__dict__", "__doc__", "__firstlineno__", "__match_args__", "__module__", "__orig_bases__",
    "__parameters__", "__qualname__", "__slots__", "__static_attributes__", "__type_params__",
    "__weakref__", "_abc_impl",
}  # fmt: skip


class ReadsDigest(Tokens):
    """The digest of the ``reads`` of a function, its argument leaves and ``about``.

    ``free`` are the argument leaves that may be any number of their kind; with ``opens`` tensors
    among the leaves may have any sizes.
    """

    def __init__(
        self,
        reads: Reads,
        leaves: Sequence[Any],
        about: Iterable[Any],
        free: Iterable[int] = (),
        *,
        opens: bool = False,
    ) -> None:
        self.reads = reads
        super().__init__()
        for item in about:
            self.say(item)
        free = frozenset(free)
        try:
            with self.at("the function"):
                self.value(reads.function)
            for i, leaf in enumerate(leaves):
                with self.at("an argument"):
                    self.say("any" if i in free else "leaf", type(leaf).__name__)
                    if opens and isinstance(leaf, Tensor):
                        self._tensor(leaf, sized=False)
                    elif i not in free:
                        self.value(leaf)
            for read in reads:
                self._read(read)
            if reads.computes:  # names of attributes: any may be read
                for owner in reads.objects.values():
                    self._attributes(owner, sorted(reads.names_of(owner)))
            for function in reads.functions.values():
                self.value(function)
            self.digest  # noqa: B018  what it is made of may be of kinds that only look plain
        except RecursionError:
            raise Unkeepable("what it reads is nested too deeply") from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Objects of the author's may do anything when they are asked what they hold.
            said = f"{type(error).__name__}: {error}"
            raise Unkeepable(f"what it reads cannot be told: {said}") from None

    def _read(self, read: Read) -> None:
        """Add the tokens of one read."""
        if read.kind == "attributes":
            if not self.reads.computes:
                self._attributes(read.owner, read.names)
        elif read.kind == "variable":
            (name,), (value,) = read.names, read.values()
            self.say("variable", name, self.number_of(read.owner))
            with self.at(f"the variable {name}"):
                self.value(value)
        elif read.kind == "global":
            (name,), (value,) = read.names, read.values()
            self.say("global", name, self.number_of(read.owner))
            with self.at(f"the global {name}"):
                self.value(value)

    # Values -----------------------------------------------------------------------------------

    def value(self, value: Any) -> None:
        """Add the tokens of ``value``; raises Unkeepable."""
        kind = type(value)
        if kind in _ATOMS:
            self.tokens.append((None, value))  # no other token begins so
            return
        number = self.numbers.get(id(value))
        if number is not None:
            self.tokens.append(("again", number))
            return
        method = _METHODS.get(kind)
        if method is not None:
            method(self, value)
        else:
            self._any(value)

    def _any(self, value: Any) -> None:
        """Add the tokens of a value of a rare kind."""
        kind = type(value)
        if value is ... or value is NotImplemented:
            self.say("constant", repr(value))
        elif kind is complex:
            self.say("complex", value)
        elif value is MISSING:
            self.say("missing")
        elif kind is range or kind is slice:
            self.say(kind.__name__)
            for part in (value.start, value.stop, value.step):
                self.value(part)
        elif isinstance(value, (DType, TensorType)):
            self.say(kind.__name__, *type_of(value))
        elif isinstance(value, enum.Enum):
            if self.is_new(value):
                self.value(kind)
                self.say("member", value._name_)
                self.value(value._value_)
        elif isinstance(value, Tensor):
            self._tensor(value)
        elif isinstance(value, Leaf):
            if self.is_new(value):
                self.say("leaf", *type_of(value.type))
        elif kind is np.ndarray:
            if value.dtype.hasobject:
                raise Unkeepable("an array of objects")
            self.say("array", str(value.dtype), value.shape, bool(value.flags.writeable))
            self.content(value.tobytes())
        elif isinstance(value, np.generic) and kind is not np.object_:
            self.say("scalar", str(value.dtype), value.tobytes())
        elif isinstance(value, CONTAINERS):
            self._container(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.say("method")
            self.value(value.__func__)
            self.value(value.__self__)
        elif isinstance(value, functools.partial):
            if self.is_new(value):
                self.say("partial")
                for part in (kind, value.func, value.args, value.keywords):
                    self.value(part)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        else:
            self._other(value)

    def _tensor(self, tensor: Tensor, sized: bool = True) -> None:
        """Add the tokens of a tensor, of which only the rank counts unless it is ``sized``."""
        if not self.is_new(tensor):
            return
        record, leaf = tensor.record, gradient_leaf(tensor)
        kind = type_of(tensor.type) if sized else (tensor.type.dtype.short, tensor.type.rank)
        self.say("tensor", record is not None, record is leaf, *kind)
        self.value(type(tensor))
        if getattr(tensor, "__dict__", None):
            self.value(vars(tensor))
        if record is not None and record is not leaf:  # of a value that several tensors may hold
            node, index = node_of(record)
            self.say("history", type(node).__name__, index)
            self.is_new(node)
        if leaf is not None and not sized:
            self.is_new(leaf)
            self.say("grad", leaf.grad is not None)
        elif leaf is not None:
            self.say("frozen", leaf.frozen)
            self.value(leaf)
            if leaf.grad is None or isinstance(leaf.grad, Tensor):
                self.say("grad", *(() if leaf.grad is None else type_of(leaf.grad.type)))

    def _container(self, value: Any) -> None:
        kind = type(value)
        if kind is not tuple and not self.is_new(value):
            return
        if kind is tuple and _ATOMS.issuperset(map(type, value)):
            self.say("tuple of", value)
            return
        items = stored_pairs(value) if isinstance(value, dict) else stored_items(value)
        if kind is tuple or kind in _PLAIN_CONTAINERS:
            self.say(kind.__name__, len(items))
        else:
            self.say("items", len(items))
            self.value(kind)
        if isinstance(value, dict):
            for key, item in items:
                self.value(key)
                self.value(item)
        else:  # those of sets as they come: another order is another digest
            for item in items:
                self.value(item)
        if kind is defaultdict:
            self.value(value.default_factory)
        if kind is deque:
            self.value(value.maxlen)

    def _other(self, value: Any) -> None:
        """Add the tokens of an object, an op, a code object or a built-in."""
        kind = type(value)
        if isinstance(value, Op):
            if REGISTRY.get(value.name) is not value or get_op(value.name) is not value:
                raise Unkeepable(f"an op called {value.name} that is not declared")
            self.say("op", value.name)
        elif isinstance(value, _BY_NAME):
            if self.is_new(value):
                self.named(value)
        elif isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            self.say("member of", value.__name__)
            self.value(value.__objclass__)
        elif isinstance(value, types.CodeType):
            self.code(value)
        elif isinstance(value, (np.dtype, PurePath)):
            self.say("text of", kind.__name__, str(value))
        elif kind is _Field:
            self.say("field", value.__reduce__()[1])  # its number and what it is documented by
        elif kind is re.Pattern:
            self.say("pattern", value.flags)
            self.value(value.pattern)
        elif kind is object:
            if self.is_new(value):
                self.say("object")
        elif isinstance(value, (staticmethod, classmethod)):
            self.say(kind.__name__)
            self.value(value.__func__)
        elif isinstance(value, property):
            self.say("property")
            for part in (value.fget, value.fset, value.fdel):
                self.value(part)
        elif isinstance(value, functools.cached_property):
            self.say("cached property", value.attrname)
            self.value(value.func)
        elif kind is _Cache:
            if is_of_hybrid(value):
                self.named(value)
                return
            raise Unkeepable("a function with a cache, whose content is another in each process")
        elif isinstance(value, Generator):
            if self.is_new(value):
                self.say("generator")
                self.value(value.state)
        elif user_object(value):
            if self.is_new(value):
                self.say("object of")
                self.value(kind)
                if id(value) not in self.reads.objects:
                    self._attributes(value, sorted(self.reads.names_of(value)))
        elif kind is Varied:
            self.say("varied", value.numbers, value.single)
        elif kind is Calls:
            self.say("calls")  # of eager ops alone
        elif kind.__module__ == "hybrid.calls.auto_plan":
            if self.is_new(value):
                self.say("often")
                self.value(value.function)
        elif kind.__module__ == "hybrid.calls.hybridized":
            if self.is_new(value):
                self.say("hybridized", repr(sorted(value.options.items())))
                self.value(value.function)
        else:
            raise Unkeepable(f"a {kind.__name__}")

    def _attributes(self, owner: Any, names: Collection[str]) -> None:
        """Add the tokens of the attributes ``names`` of ``owner``."""
        if isinstance(owner, _UNREACHED):
            return
        self.value(owner)
        own = getattr(owner, "__dict__", {})
        plain: list[Any] = []
        name = ""
        try:
            for name in names:
                if name in _IGNORED:
                    continue
                value = own[name] if name in own else stored(owner, name)
                if type(value) in _ATOMS:
                    plain += (name, value)
                else:
                    self.say("attribute", name)
                    self.value(value)
        except Unkeepable as error:
            raise with_location(error, f"{label_of(owner)}.{name}") from None
        self.say("attributes", plain)

    # Code -------------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> None:
        if not self.is_new(function):
            return
        code = function.__code__
        if is_library(code):
            self._library_function(function)
            return
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.say("wrapped")
            self.value(wrapped)
        guarded = not of_package(code)
        if guarded:
            self.say("function", function.__module__, function.__qualname__)
            self.code(code)
            if makes_sets(code):
                raise Unkeepable("code that makes a set, the order of whose items may differ")
            for name, item in sorted(function.__dict__.items()):
                self.say("holds", name)
                self.value(item)
        else:
            self.say("package", function.__module__, function.__qualname__)
        names = names_in(code)
        for name in sorted(names.modules):
            self.say("import", name)
            self._imported(name, names.attributes, guarded)
        if function.__defaults__ or function.__kwdefaults__:
            self.say("defaults")
            self.value(function.__defaults__)
            self.value(tuple(sorted((function.__kwdefaults__ or {}).items())))
        namespace = function.__globals__
        if guarded:
            if id(function) not in self.reads.functions:
                raise Unkeepable(f"the function {function.__qualname__}, which no guard looks at")
            self.say("globals of", self.number_of(namespace))
            for name in sorted(names.loaded | names.assigned):
                self._require_pure_name(name, namespace, code.co_name, names.attributes)
        else:
            seen = self.reads.seen
            loaded = names.loaded | names.assigned
            for name in sorted([name for name in loaded if id(namespace.get(name)) in seen]):
                self._replaced(namespace[name])
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name != "__class__":
                self.say("variable", name, self.number_of(cell))

    def _require_pure_name(
        self, name: str, namespace: dict[str, Any], function: str, attributes: frozenset[str]
    ) -> None:
        """Raise if a name in code leads to a function that depends on the process."""
        if name not in namespace and hasattr(builtins, name):
            # Tables ask for a hash, and no more than what is equal comes of it.
            if name in impure_names("builtins") and (name, function) != _HASH:
                raise Unkeepable(f"code that uses {name}()")
        elif isinstance(namespace.get(name), types.ModuleType):
            with self.at(f"the global {name}"):
                self._require_pure(namespace[name], attributes)

    def _replaced(self, value: Any) -> None:
        """Add the tokens of a value in this package that users may have put there."""
        if isinstance(value, (types.FunctionType, type)) and not _is_library(value):
            self.value(value)

    def _imported(self, name: str, attributes: frozenset[str], guarded: bool) -> None:
        module = sys.modules.get(name)
        if guarded and module is None:
            raise Unkeepable(f"code that imports {name} for the first time")
        if guarded:
            self._require_pure(module, attributes)
            self.value(module)

    def _require_pure(self, module: Any, attributes: frozenset[str]) -> None:
        found = impure_names(module.__name__) & attributes
        if found:
            raise Unkeepable(f"code that may use {module.__name__}.{sorted(found)[0]}", True)

    def _library_function(self, function: types.FunctionType) -> None:
        """Add the tokens of a library function, or of a wrapper that one has made."""
        wrapped = getattr(function, "__wrapped__", None)
        users = isinstance(wrapped, types.FunctionType) and not is_library(wrapped.__code__)
        if not users and "<" not in function.__qualname__:
            self.named(function)
            return
        code, module = function.__code__, function.__globals__.get("__name__", "")
        if not is_pure_module(module):
            raise Unkeepable(f"a function that {module} has made")
        self.say("library", module, code.co_name, code.co_firstlineno)
        self.value(wrapped)
        self.value(function.__defaults__)
        for cell in function.__closure__ or ():
            if self.is_new(cell):
                self.value(content_of(cell, MISSING))

    def _class(self, kind: type) -> None:
        if not self.is_new(kind):
            return
        if is_library_class(kind) or is_of_hybrid(kind):
            self.named(kind)
        else:
            self.say("class", module_of(kind), kind.__qualname__, len(kind.__bases__))
            self.value(type(kind))
        for base in kind.__mro__[1:]:
            self.value(base)
        if not (is_library_class(kind) or is_of_hybrid(kind)):
            members = dict(vars(kind))
            if issubclass(kind, enum.Enum):
                for name, member in kind.__members__.items():
                    self.say("member", name)
                    self.value(member)
                members = {n: m for n, m in members.items() if isinstance(m, _CODE)}
            for name, member in sorted(members.items()):
                if name not in _IGNORED or name in self.reads.attributes:
                    self._member(kind, name, member)
        elif not is_library_class(kind):  # of the layers the methods in use, or what replaces them
            seen = self.reads.seen
            found = [
                (name, part)
                for name, member in vars(kind).items()
                for part in (
                    (member,) if type(member) is types.FunctionType else functions_of(member)
                )
                if id(part) in seen and not is_library(part.__code__)
            ]
            for _, part in sorted(found, key=lambda pair: pair[0]):
                self.value(part)

    def _member(self, kind: type, name: str, member: Any) -> None:
        """Add the tokens of a class member: its code, and its data if it may be read."""
        reads = self.reads
        parts = functions_of(member)
        used = [part for part in parts if id(part) in reads.seen or name.startswith("__")]
        self.say("member", name, type(member).__name__, len(used))
        for part in used:
            if is_library(part.__code__):  # as of named tuples
                self.say("made", part.__code__.co_name, part.__code__.co_firstlineno)
            else:
                self.value(part)
        if not parts and (reads.computes or name in reads.attributes):
            with self.at(f"{kind.__name__}.{name}"):
                if isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                    self.say("slot")
                else:
                    self.value(member)

    def _module(self, module: types.ModuleType) -> None:
        if not self.is_new(module):
            return
        self.say("module", module.__name__)
        if id(module) not in self.reads.objects and not is_pure_module(module.__name__):
            raise Unkeepable(f"the module {module.__name__}, which looks at the world")

    # Structures -------------------------------------------------------------------------------

    @staticmethod
    def structure(structure: Structure) -> Any:
        """Return the structure of arguments as plain values; raises Unkeepable."""
        if structure is None or structure == LEAF:
            return structure
        kind, items = structure
        if kind in (dict, OrderedDict):
            if not all(type(key) in (str, int, bool) for key, _ in items):
                raise Unkeepable("a dict among its arguments has keys that are no text")
            return kind.__name__, [(key, ReadsDigest.structure(item)) for key, item in items]
        if kind not in (list, tuple):
            raise Unkeepable(f"a {kind.__name__} is among its arguments")
        return kind.__name__, [ReadsDigest.structure(item) for item in items]


# The methods for kinds of which there are many; others are asked what they are.
_METHODS: dict[type, Any] = {
    Tensor: ReadsDigest._tensor,
    types.FunctionType: ReadsDigest._function,
    **dict.fromkeys((tuple, list, dict), ReadsDigest._container),
    type: ReadsDigest._class,
}


def _is_library(value: Any) -> bool:
    if isinstance(value, type):
        return is_library_class(value)
    return is_library(value.__code__)
