"""PyTorch's words for arguments that the array functions have in others: ``input``, ``dim`` ..."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.errors import ArgumentTypeError
from hybrid.ops.support.keyword_names import OWN, in_own_words

_WORDS = {own: word for word, own in OWN.items() if word != "dims"}
_OLD = ("size_average", "reduce")
_HOME = "hybrid.nn.functional"  # where all of them are found, by pickle too


def with_words(function: Callable[..., Any], *words: str) -> Callable[..., Any]:
    """``function`` whose first arguments go by the names ``words``, too: ``sigmoid(input=x)``."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*_placed(words, args, kwargs), **kwargs) if kwargs else function(*args)

    return _at_home(call, function.__name__, _spelled(function, words))


def _placed(words: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple:
    """``args`` and what ``kwargs`` has for the next ``words``, taken from it."""
    for word in words[len(args) :]:
        if word not in kwargs:
            break
        args = (*args, kwargs.pop(word))
    return args


def _spelled(function: Callable[..., Any], words: tuple[str, ...]) -> inspect.Signature:
    """The signature of ``function`` with ``words`` for the names of its first parameters."""
    signature = inspect.signature(function)
    named = []
    for at, parameter in enumerate(signature.parameters.values()):
        word = words[at] if at < len(words) else _WORDS.get(parameter.name, parameter.name)
        plain = parameter.kind is parameter.POSITIONAL_ONLY
        kind = parameter.POSITIONAL_OR_KEYWORD if plain else parameter.kind
        named.append(parameter.replace(name=word, kind=kind))
    return signature.replace(parameters=named)


def with_dim(function: Callable[..., Any], *words: str) -> Callable[..., Any]:
    """``function`` that takes ``dim`` for ``axis``, and ``keepdim`` for ``keepdims``.

    Its first arguments go by the names ``words``, too.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        args = _placed(words, args, kwargs)
        return function(*args, **in_own_words(function.__name__, kwargs))

    return _at_home(call, function.__name__, _spelled(function, words))


def with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of ``input`` that takes a ``dtype``, which ``input`` is converted to first."""

    @functools.wraps(function)
    def call(input: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return function(input if dtype is None else ops.astype(input, dtype), *args, **kwargs)

    return _at_home(call, function.__name__, _and(function, "dtype", None))


def with_inplace(function: Callable[..., Any], others: int = 0) -> Callable[..., Any]:
    """``function`` of ``input`` and ``others`` more that takes ``inplace`` behind them."""

    @functools.wraps(function)
    def call(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) > others:
            *args, inplace = args
        y = function(input, *args, **kwargs)
        return input.write_in_place(y) if inplace else y

    return _at_home(call, function.__name__, _and(function, "inplace", False))


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` that writes its result to ``input``: ``relu_``."""

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        return function(input, *args, **kwargs, inplace=True)

    signature = inspect.signature(function)
    kept = [p for name, p in signature.parameters.items() if name != "inplace"]
    call.__doc__ = f"``{function.__name__}`` that writes its result to ``input``, too."
    call.__name__ = f"{function.__name__}_"
    return _at_home(call, call.__name__, signature.replace(parameters=kept))


def in_order(words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A loss (or what makes one) whose arguments may be given in PyTorch's order, ``words``.

    Of ``size_average`` and ``reduce``, its words of old, only None is let through: ``reduction``
    says the same.  A text in their place is taken for the reduction.
    """
    order = words.split()

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = inspect.signature(function).parameters.values()
        own = [p.name for p in parameters if p.kind is kind]
        plain = sum([a == b for a, b in zip(own, order, strict=False)])

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if plain < len(args) <= len(order):
                behind = dict(zip(order[plain:], args[plain:], strict=False))
                for word in behind.keys() & kwargs.keys():
                    raise ArgumentTypeError(f"{_label(function)} got {word} twice")
                args, kwargs = args[:plain], behind | kwargs
            for word in _OLD:
                if word in kwargs:
                    value = kwargs.pop(word)
                    if isinstance(value, str) and "reduction" not in kwargs:
                        kwargs["reduction"] = value
                    elif value is not None:
                        raise ArgumentTypeError(
                            f"{_label(function)} got {word}={value!r}",
                            why="That is a word of old for the reduction.",
                            fix='give reduction="mean", "sum" or "none"',
                        )
            return function(*args, **kwargs)

        is_method = "." in function.__qualname__
        name, signature = function.__name__, inspect.signature(function)
        return call if is_method else _at_home(call, name, signature)

    return decorate


def _label(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__")


def _and(function: Callable[..., Any], name: str, default: Any) -> inspect.Signature:
    """The signature of ``function`` of ``input`` with one more parameter."""
    signature = _spelled(function, ("input",))
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    more = inspect.Parameter(name, kind, default=default, annotation=Any)
    return signature.replace(parameters=[*signature.parameters.values(), more])


def _at_home(call: Any, name: str, signature: inspect.Signature) -> Callable[..., Any]:
    """``call`` as it is seen from outside."""
    call.__module__, call.__qualname__, call.__signature__ = _HOME, name, signature
    return call


def chosen_dim(name: str, dim: Any, axis: Any, default: int) -> Any:
    """The one of ``dim`` and ``axis`` that was given, or the default."""
    if dim is not None and axis is not None:
        raise ArgumentTypeError(f"{name} got dim and axis", fix="give dim alone")
    if axis is not None:
        return axis
    return default if dim is None else dim
