"""The table of ONNX's ops: which function stands for an op as of which version of it.

::

    @handles("Softmax", 13)
    def softmax(x, *, axis=-1): ...


    @handles("Softmax", 1, 11)
    def softmax_flat(x, *, axis=1): ...

The numbers are *since-versions*: those opsets in which the op has changed.  A model of opset 12
means what opset 11 said, so it is given ``softmax_flat``.  The function takes the inputs by
position, None where one is left out, and the attributes by keyword, and gives the output, or
a tuple where ``outputs`` asks for several.  The text of a model is made of calls of these.  In
place of a function there may be a module, made once of the attributes: that is where what was
learnt is among them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.types import DType
from hybrid.errors import OnnxError, author_location
from hybrid.onnx.known_values import as_known, as_operand, is_known, is_open, is_traced

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
_TEXTS = "it works on texts, and tensors hold none"
_DICTS = "it gives or takes dictionaries; skl2onnx leaves them out with options={'zipmap': False}"
REFUSED: dict[tuple[str, str], str] = {  # ops that nothing stands for, and why
    ("", "RegexFullMatch"): _TEXTS,
    ("", "StringConcat"): _TEXTS,
    ("", "StringNormalizer"): _TEXTS,
    ("", "StringSplit"): _TEXTS,
    (ML, "CastMap"): _DICTS,
    (ML, "CategoryMapper"): _TEXTS,
    (ML, "DictVectorizer"): _DICTS,
    (ML, "ZipMap"): _DICTS,
    (TRAINING, "Gradient"): "a module has gradients without it: hybrid.grad, or backward()",
}
# Attributes that have said nothing since before opset 7.
IGNORED = frozenset({"consumed_inputs"})


@dataclass(frozen=True)
class NodeHandler:
    """A function for an op: how it is called, and what calls of it are like."""

    function: Callable[..., Any]
    text: str  # what stands in the text of a model: relu, hy.relu
    attributes: frozenset[str]
    defaults: dict[str, str]  # of attributes, as texts have them
    counts_outputs: bool  # it takes outputs=, and gives a tuple where that is above 1
    gives_known: bool  # given known values it gives known ones
    always_known: bool
    weights: tuple[int, ...]  # inputs that are trained where they are float initializers
    fewest: int
    most: int  # inputs


_HANDLERS: dict[tuple[str, str], dict[int, NodeHandler]] = {}
_OWNERS: dict[str, Callable[..., Any]] = {}  # functions by their name in texts


def handles(
    op: str,
    *since: int,
    domain: str = "",
    known: Callable[..., Any] | None = None,
    values: tuple[int, ...] = (),
    weights: tuple[int, ...] = (),
    always_known: bool = False,
    traced: bool = False,
    text: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let the function that is decorated stand for ``op`` as of the versions ``since``.

    ``known`` is called in its place where all inputs are known values (NumPy arrays), ``values``
    are the inputs that it takes as they are: known values stay so.  All others are tensors.  Where
    sizes of open axes are among ``values`` the result has no shape that is known: it is a tensor.
    ``weights`` are those that are trained where they are initializers.  ``traced``: ``known`` asks
    no number for its value, so the index of a captured loop may be among them.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        is_module = isinstance(function, type)
        called = function.forward if is_module else function  # type: ignore[attr-defined]
        parameters = list(inspect.signature(called).parameters.values())[is_module:]
        positional = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        words = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        counts_outputs = "outputs" in words
        if is_module:
            words = set(inspect.signature(function).parameters)
        made = function if text or is_module else _called(function, known, values, traced)
        handler = NodeHandler(
            function=made,
            text=text or function.__name__,
            attributes=frozenset(words - {"outputs"}),
            defaults={
                p.name: f"hy.{p.default.name}" if isinstance(p.default, DType) else _said(p.default)
                for p in parameters
                if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
            },
            counts_outputs=counts_outputs,
            gives_known=known is not None,
            always_known=always_known,
            weights=weights,
            fewest=sum(p.default is p.empty for p in positional),
            most=2**31 if many else len(positional),
        )
        versions = _HANDLERS.setdefault((domain, op), {})
        for version in since:
            assert version not in versions, (op, version)
            versions[version] = handler
        if not text:
            assert function.__name__ not in _OWNERS, function.__name__
            _OWNERS[function.__name__] = made
        return made

    return register


def _said(default: Any) -> str:
    """A default as ``number_text`` of hybrid/onnx/model_text.py has it."""
    return f'"{default}"' if isinstance(default, str) else repr(default)


def _called(
    function: Callable[..., Any],
    known: Callable[..., Any] | None,
    values: tuple[int, ...],
    traced: bool,
) -> Callable[..., Any]:
    """``function`` of operands: of known values only those of ``values`` stay as they are."""

    @functools.wraps(function)
    def call(*inputs: Any, **attributes: Any) -> Any:
        if known is not None and is_known(inputs):
            asked = [value for position, value in enumerate(inputs) if position in values]
            if traced or not (is_traced(inputs) or is_open(asked)):
                return as_known(known(*inputs, **attributes))
        operands = [
            as_operand(value) if type(value) is np.ndarray and position not in values else value
            for position, value in enumerate(inputs)
        ]
        try:
            return function(*operands, **attributes)
        except OnnxError as error:
            if error.at is None:
                error.at = author_location()  # the line of the model's text
            raise

    return call


def handler_of(op: str, domain: str, since: int) -> NodeHandler | None:
    """The handler of ``op`` as of the version ``since``; None if there is none."""
    return _HANDLERS.get((domain, op), {}).get(since)


def handled() -> dict[tuple[str, str], dict[int, NodeHandler]]:
    """All handlers, by domain and op, then by version."""
    return _HANDLERS


def function_names() -> set[str]:
    """The names that functions have in texts of models."""
    return set(_OWNERS)


def owner_of(text: str) -> Callable[..., Any] | None:
    """The function that ``text`` stands for in texts of models; None if it is one of ``hy``."""
    return _OWNERS.get(text)
