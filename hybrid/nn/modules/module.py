"""Module: a tree of parameters, buffers and sub-modules with a forward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from hybrid.calls.hybridized import Hybridized, made
from hybrid.calls.ledger import LedgerInfo
from hybrid.config import advance_epoch
from hybrid.core import types
from hybrid.core.imports import above
from hybrid.core.package import is_of_hybrid
from hybrid.core.tree import flatten
from hybrid.eager.streams import submit
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import STATE
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    ModelBuiltError,
    author_location,
)
from hybrid.ir import Graph, Value
from hybrid.ir.interpreter import ACTIVE, current, outward
from hybrid.nn.modules import hooks, registry
from hybrid.nn.modules.hooks import Handle, Hook
from hybrid.nn.modules.module_errors import missing_attribute, note_place, refuse_unknown_words
from hybrid.nn.modules.parameter import Parameter
from hybrid.nn.modules.state_dict import LoadResult, convert, load, state_of

if TYPE_CHECKING:
    from hybrid.explain.explanation import Explanation


_DEEP = 20  # modules inside each other that a pickle may hold as they are


class Module:
    """The base of layers and models: parameters and modules in attributes, and a ``forward``.

    Attributes are stored as usual; the registries beside them are tuples, which every change
    replaces, so that a capture can tell at a glance whether the tree is still what it has seen.
    """

    advances_epoch = True  # every write to an attribute does, so guards on them are free until then
    training = True  # whether layers such as Dropout behave as in training

    # Class attributes are the empty registries: a subclass need not call super().__init__().
    _parameters: registry.Entries[Parameter] = ()
    _modules: registry.Entries[Module] = ()
    _buffers: tuple[str, ...] = ()
    _transient: tuple[str, ...] = ()  # buffers that state_dict() leaves out
    _hooks: tuple[Hook, ...] = ()
    _hybridized: Hybridized | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs and is_of_hybrid(cls):
            refuse_unknown_words(cls, kwargs)
        made = object.__new__(cls)
        if ACTIVE and current().traces:
            current().built[id(made)] = made
        return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        hybridized = self._hybridized
        try:
            if hybridized is None:
                if self._hooks:
                    return hooks.around(self, self._call_forward, args, kwargs)
                if ACTIVE:
                    return self._call_forward(*args, **kwargs)
                return self.forward(*args, **kwargs)
            if self._hooks:
                return hooks.around(self, hybridized, args, kwargs)
            return hybridized(*args, **kwargs)
        except Exception as error:
            note_place(error, self, args, kwargs)
            outward(error)
            raise

    # Attributes -------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if type(value) is Tensor and type(self.__dict__.get(name)) is Tensor:
            # Guards on a tensor in an attribute look at the attribute itself: no epoch to advance.
            if ACTIVE:
                current().write_tensor_attribute(self, name, value)
            else:
                object.__setattr__(self, name, value)
        elif ACTIVE and current().traces:
            self._write_traced(name, value)
        else:
            self._register(name, value)
            object.__setattr__(self, name, value)
            advance_epoch()

    def _write_traced(self, name: str, value: Any) -> None:
        """A write while a function is captured: the plan repeats those of tensors."""
        old = self.__dict__.get(name)
        parts = [v for v in (old, value) if isinstance(v, (Parameter, Module))]
        # A slice of a ModuleList, say, is made anew by each capture, of parts that are there.
        arranged = id(self) in current().built and not any(
            isinstance(part, Parameter) and isinstance(part.content, Value) for part in parts
        )
        built = current().built
        if parts and not arranged and any(id(module) in built for module in (self, *parts)):
            raise ModelBuiltError(
                f"a {type(self).__name__} is built inside",
                at=author_location(),
                why="A plan repeats what is computed, not how a model is built.",
                fix="build it outside, or keep it where the next call finds it",
            )
        if parts and not arranged:
            raise CaptureError(
                f"{type(self).__name__}.{name} was replaced inside a hybridized function",
                at=author_location(),
                why="A plan repeats what is computed, not how a model is built.",
                fix="build the model outside, or write values with assign()",
            )
        self._register(name, value)
        if parts:
            object.__setattr__(self, name, value)
        elif _holds_tensor(value) or (value is None and _holds_tensor(old)):
            current().write_tensor_attribute(self, name, value)
        else:
            current().will_write_attribute(self, name)
            object.__setattr__(self, name, value)
            advance_epoch()

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError: it says so if a base was forgotten."""
        raise missing_attribute(self, name)

    def __delattr__(self, name: str) -> None:
        if ACTIVE and current().traces:
            registered = isinstance(self.__dict__.get(name), (Parameter, Module))
            if registered or name in self._buffers:
                raise CaptureError(
                    f"{type(self).__name__}.{name} was deleted inside a hybridized function",
                    at=author_location(),
                    why="A plan repeats what is computed, not how a model is built.",
                    fix="delete it outside",
                )
            current().will_write_attribute(self, name)
        object.__delattr__(self, name)
        self._forget(name)
        advance_epoch()

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold: no placeholders, if another thread captures just now."""
        with STATE:
            return dict(self.__dict__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the tree, from below: however deep modules are nested, calls are not."""
        for module, _ in reversed(registry.nested(self)):
            if module is not self and type(module).__deepcopy__ is not Module.__deepcopy__:
                copy.deepcopy(module, memo)  # as its class has it
            elif id(module) not in memo:
                _copy_alone(module, memo)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """What pickles hold: where modules are nested deep, those below first, as in copies."""
        found = super().__reduce_ex__(protocol)
        tree = registry.nested(self)
        if isinstance(found, str) or max(depth for _, depth in tree) <= _DEEP:
            return found
        make, args, *rest = found
        return made_behind, ([module for module, _ in reversed(tree[1:])], make, args), *rest

    def _register(self, name: str, value: Any) -> None:
        """Keep the registries in step with ``self.name = value``."""
        if isinstance(value, Parameter):
            kind, entries = "_parameters", registry.including(self._parameters, name, value)
        elif isinstance(value, Module):
            kind, entries = "_modules", registry.including(self._modules, name, value)
        else:
            self._refuse_replacing(name, value)
            if name not in self._buffers:
                self._forget(name)
            return
        if all(name != known for known, _ in getattr(self, kind)):
            self._forget(name)  # it may have been of the other kind, or a buffer
        object.__setattr__(self, kind, entries)

    def _refuse_replacing(self, name: str, value: Any) -> None:
        """Raise when ``value`` would silently take a registered part out of the tree."""
        if value is None or name not in self.__dict__:
            return
        label = f"{type(self).__name__}.{name}"
        old = self.__dict__[name]
        if isinstance(old, Parameter):
            raise ArgumentTypeError(
                f"{label} is a Parameter; a {type(value).__name__} cannot take its place",
                fix="write its value with assign(), or assign a Parameter or None",
            )
        if isinstance(old, Module):
            raise ArgumentTypeError(
                f"{label} is a Module; a {type(value).__name__} cannot take its place",
                fix="assign a Module or None",
            )
        if name in self._buffers and not isinstance(value, Tensor):
            raise ArgumentTypeError(
                f"{label} is a buffer; a {type(value).__name__} cannot take its place",
                fix="assign a Tensor or None",
            )

    def _forget(self, name: str) -> None:
        """Take ``name`` out of the registries."""
        for kind in ("_parameters", "_modules"):
            entries = getattr(self, kind)
            if any(name == known for known, _ in entries):
                object.__setattr__(self, kind, registry.excluding(entries, name))
        for kind in ("_buffers", "_transient"):
            if name in getattr(self, kind):
                names = tuple(known for known in getattr(self, kind) if known != name)
                object.__setattr__(self, kind, names)

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """``self.name = parameter`` for a name that is not taken."""
        registry.require_free(self, name, "parameter")
        if parameter is not None and not isinstance(parameter, Parameter):
            raise ArgumentTypeError(
                f"a {type(parameter).__name__} cannot be registered as parameter {name!r}",
                fix="wrap it in hybrid.nn.Parameter",
            )
        setattr(self, name, parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make ``tensor`` an attribute that is state but not learnt, such as a running mean.

        It is in ``state_dict()`` if ``persistent``.  None holds the place for a tensor to come.
        """
        registry.require_free(self, name, "buffer")
        if tensor is not None and (not isinstance(tensor, Tensor) or isinstance(tensor, Parameter)):
            raise ArgumentTypeError(
                f"a {type(tensor).__name__} cannot be registered as buffer {name!r}",
                fix="pass a Tensor, made with hybrid.asarray, or None",
            )
        setattr(self, name, tensor)
        self._buffers = (*self._buffers, name)
        if not persistent:
            self._transient = (*self._transient, name)

    def add_module(self, name: str, module: Module | None) -> None:
        """``self.name = module`` for a name that is not taken."""
        registry.require_free(self, name, "module")
        if module is not None and not isinstance(module, Module):
            raise ArgumentTypeError(
                f"a {type(module).__name__} cannot be added as module {name!r}",
                fix="pass a hybrid.nn.Module",
            )
        setattr(self, name, module)

    register_module = add_module

    # The tree ---------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds itself, by attribute; a shared one comes once."""
        return registry.distinct(iter(self._modules))

    def children(self) -> Iterator[Module]:
        return (module for _, module in self.named_children())

    def named_modules(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, by dotted path; a shared one comes once, or each time."""
        return registry.distinct(self._walk(prefix), remove_duplicate)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def _walk(self, prefix: str) -> Iterator[tuple[str, Module]]:
        """Every path to a module of the tree, parents first."""
        yield prefix, self
        for name, module in self._modules:
            yield from module._walk(registry.joined(prefix, name))

    def _own(self, kind: str) -> Iterator[tuple[str, Tensor]]:
        """The parameters, the buffers or the persistent state of this module itself."""
        if kind != "buffers":
            yield from self._parameters
        if kind != "parameters":
            for name in self._buffers:
                tensor = self.__dict__[name]
                if tensor is not None and not (kind == "state" and name in self._transient):
                    yield name, tensor

    def _tensors(self, kind: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Tensor]]:
        for path, module in self._walk(prefix) if recurse else ((prefix, self),):
            for name, tensor in module._own(kind):
                yield registry.joined(path, name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters by dotted path; unless ``recurse``, of this module alone.

        One that has several paths (tied weights) comes with the first, or with each.
        """
        found = self._tensors("parameters", prefix, recurse)
        return registry.distinct(found, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers by dotted path, as ``named_parameters`` gives parameters."""
        return registry.distinct(self._tensors("buffers", prefix, recurse), remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at the dotted path ``target``; "" is this one.  AttributeError if none is."""
        return registry.part_at(self, target, "module")

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the dotted path ``target``."""
        return registry.part_at(self, target, "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the dotted path ``target``."""
        return registry.part_at(self, target, "buffer")

    # State ------------------------------------------------------------------------------------

    def state_dict(self, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """The values of parameters and persistent buffers, by every dotted path to them.

        With ``keep_vars`` they are the parameters and buffers themselves.
        """
        return state_of(self, prefix, keep_vars)

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any] | str | PathLike[str],
        strict: bool = True,
        assign: bool = False,
    ) -> LoadResult:
        """Write tensors or arrays by dotted path into parameters and persistent buffers.

        ``state_dict`` may be the path of a safetensors file.  Everything is checked before anything
        is written.  Memory that values share with arrays or files is copied.  Shapes must agree,
        and so must dtypes; ``assign`` takes memory and dtypes of the state as they are.  Unless
        ``strict``, keys that are missing or unexpected are left out.  Returns ``(missing_keys,
        unexpected_keys)``; a tensor that has several paths is missing if none of them is there.
        """
        return load(self, state_dict, strict, assign)

    def _complete_state(self, state: dict[str, Any], prefix: str, version: int | None) -> None:
        """Add to ``state`` what files of an older ``version`` of this class lack."""

    def to(self, *args: Any, dtype: Any = None, device: Any = None) -> Module:
        """Convert floating parameters and buffers to a floating ``dtype``: ``to(hybrid.float64)``.

        They remain the same tensors, so optimizers and tied weights know them as before; plans are
        captured anew.  The only device is "cpu".
        """
        convert(self, args, dtype, device)
        return self

    def float(self) -> Module:
        """``to(float32)``."""
        return self.to(types.float32)

    def double(self) -> Module:
        """``to(float64)``."""
        return self.to(types.float64)

    def half(self) -> Module:
        """``to(float16)``."""
        return self.to(types.float16)

    def bfloat16(self) -> Module:
        """``to(bfloat16)``."""
        return self.to(types.bfloat16)

    def type(self, dst_type: Any) -> Module:
        """``to(dst_type)``."""
        return self.to(dst_type)

    # Hooks ------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call ``hook(module, args)`` before every call; what it returns replaces the arguments.

        A result that is no tuple is the only argument, None changes nothing.  ``with_kwargs``:
        ``hook(module, args, kwargs)`` returns None or ``(args, kwargs)``.  ``prepend`` puts it
        before earlier hooks.  Hybridized calls run hooks as eager ones do: they are captured like
        ``forward``, and other hooks are another plan.
        """
        return hooks.add(self, Hook("forward_pre", hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Call ``hook(module, args, result)`` after every call; what it returns is the new result.

        None leaves the result.  ``with_kwargs``: ``hook(module, args, kwargs, result)``;
        ``always_call``: with the result None also when the call has raised.
        """
        return hooks.add(self, Hook("forward", hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call ``hook(module, grad_input, grad_output)`` when gradients have gone back through.

        They are tuples: of the positional arguments that are tensors, None where none flows, and of
        the tensors in the result.  What it returns replaces the first.  Called eagerly alone: a
        hybridized call raises CaptureError.
        """
        return hooks.add(self, Hook("full_backward", hook), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call ``hook(module, grad_output)`` before that; what it returns replaces them."""
        return hooks.add(self, Hook("full_backward_pre", hook), prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict()`` collects."""
        return hooks.add(self, Hook("state_dict_pre", hook))

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, state_dict, prefix, {})``, which may change what was collected."""
        return hooks.add(self, Hook("state_dict_post", hook))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call a hook before ``load_state_dict()`` checks: it may change the copy of the dict.

        It is called as ``hook(module, state_dict, prefix, {}, strict, missing_keys,
        unexpected_keys, error_messages)``; what it adds to the lists counts.
        """
        return hooks.add(self, Hook("load_state_dict_pre", hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call ``hook(module, (missing_keys, unexpected_keys))`` when all is written."""
        return hooks.add(self, Hook("load_state_dict_post", hook))

    # Switches ---------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Set ``training`` here and below."""
        if not isinstance(mode, bool):
            raise ArgumentTypeError(f"the mode {mode!r} is not a bool", fix="give True or False")
        for module in self.modules():
            if module.training is not mode:
                module.training = mode
        return self

    def eval(self) -> Module:
        """``train(False)``."""
        return self.train(False)

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Call ``function`` on every module of the tree, children before their parents."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Whether gradients are asked for by all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or write zeros over them."""
        for parameter in self.parameters():
            registry.clear_grad(parameter, set_to_none)

    # Hybridized -------------------------------------------------------------------------------

    def hybridize(self, active: bool = True, **options: Any) -> Module:
        """From now on run ``forward`` as plans (``hybridize(False)``: no longer).

        The options are those of ``hybrid.hybridize``.
        """
        if not isinstance(active, bool):
            raise ArgumentTypeError(
                f"hybridize({active!r}) of a {type(self).__name__}", fix="give True or False"
            )
        if options and not active:
            raise ArgumentError("hybridize(False) takes no options")
        name = type(self).__name__
        self._hybridized = made(self._call_forward, name=name, **options) if active else None
        return self

    def _call_forward(self, *args: Any, **kwargs: Any) -> Any:
        """The ``forward`` of the moment (the instance may have its own), with the hooks."""
        forward = current().converted(self.forward, optional=True) if ACTIVE else self.forward
        if self._hooks:
            return hooks.called(self, forward, args, kwargs)
        return forward(*args, **kwargs)

    def _plan_cache(self) -> Hybridized:
        if self._hybridized is None:
            raise ArgumentError(
                f"this {type(self).__name__} is not hybridized", fix="call its hybridize() first"
            )
        return self._hybridized

    submit = submit

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that a call with these arguments is captured into; runs nothing."""
        return self._plan_cache().graph(*args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """The source of ``forward`` with what becomes of each line; see ``hybrid.hybridize``."""
        return self._plan_cache().explain(*args, **kwargs)

    @property
    def plans(self) -> list[Any]:
        """The plans of a hybridized module."""
        return self._plan_cache().plans

    @property
    def ledger(self) -> LedgerInfo:
        """What captures of a hybridized module have cost and saved; ``print`` it."""
        return self._plan_cache().ledger

    def clear(self) -> None:
        """Forget the plans of a hybridized module."""
        self._plan_cache().clear()

    # Printing ---------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What ``repr`` says of this module besides its children."""
        return ""

    def __repr__(self) -> str:
        lines = self.extra_repr().splitlines()
        if not self._modules:
            return f"{type(self).__name__}({' '.join(lines)})"
        for name, module in self._modules:
            first, *rest = repr(module).splitlines()
            lines += [f"({name}): {first}", *rest]
        return "\n".join([f"{type(self).__name__}(", *("  " + line for line in lines), ")"])

    def _repr_html_(self) -> str:
        """The tree for notebooks."""
        return above.module_html(self)


def _holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in flatten(value)[0])


class Mode:
    """A module in training or evaluation mode, and behind the block as it was before."""

    def __init__(self, network: Module, training: bool) -> None:
        self.network, self.training = network, training
        self.changed: list[Module] = []

    def __enter__(self) -> None:
        self.changed = [m for m in self.network.modules() if m.training is not self.training]
        if self.changed:
            self.network.train(self.training)

    def __exit__(self, *_: object) -> None:
        for module in self.changed:
            module.training = not self.training


def made_behind(_below: list[Module], make: Callable[..., Module], args: tuple[Any, ...]) -> Module:
    """The module that a pickle makes behind those that it holds."""
    return make(*args)


def _copy_alone(module: Module, memo: dict[int, Any]) -> None:
    """Add to ``memo`` the copy of a module whose parts are there already."""
    kind = type(module)
    plain = kind.__reduce_ex__ is Module.__reduce_ex__
    found = object.__reduce_ex__(module, 4) if plain else module.__reduce_ex__(4)
    memo[id(module)] = module if isinstance(found, str) else copy._reconstruct(module, memo, *found)
