"""Overrides of NumPy's functions for traced values: refusals that name what to call instead.

Those that mean the same here run, as eagerly (``eager.frameworks.numpy_protocols``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.package import module_of
from hybrid.core.tree import flatten
from hybrid.eager.frameworks.numpy_protocols import OTHER_NAMES, answer
from hybrid.eager.tensor import Tensor
from hybrid.errors import NeedsValue, TracedValueError, author_location
from hybrid.number import Number
from hybrid.staging.sessions.views import tracing

# They ask tensors for no value, or by a protocol of its own.
_KNOWING = (np.shape, np.ndim, np.size, np.isscalar, np.iterable, np.from_dlpack)
# What comes nearest, where nothing here means the very same.
_NEAREST = {
    "dot": "matmul", "float_power": "pow", "fmax": "maximum", "fmin": "minimum",
    "norm": "vector_norm",
}  # fmt: skip
_OTHERS = frozenset({"diagonal", "identity", "shape"})  # not what NumPy calls so
_MAKERS = (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.copy)


def numpy_function(function: Any) -> Callable[..., Any] | None:
    """The override of a function of NumPy's; None for others."""
    if not _is_numpys(function) or any(function is known for known in _KNOWING):
        return None

    def call(*args: Any, **kwargs: Any) -> Any:
        if tracing():
            leaves, _ = flatten((args, kwargs))
            answered = any([isinstance(leaf, Tensor) for leaf in leaves]) and answer(function)
            if not answered:
                _refuse_traced(function, leaves)
        return function(*args, **kwargs)

    return call


def _is_numpys(function: Any) -> bool:
    if isinstance(function, np.ufunc):
        return True
    module = module_of(function) or module_of(type(getattr(function, "__self__", None)))  # of C's
    return module.partition(".")[0] == "numpy"


def _refuse_traced(function: Any, leaves: list[Any]) -> None:
    for leaf in leaves:
        if type(leaf) is Number:
            error = NeedsValue(f"{_name(function)}()", leaf.kind, leaf, at=author_location())
            error.fix = _instead(function)
            raise error
        if isinstance(leaf, Tensor):
            asked = f"{_name(function)}()"
            refusal = TracedValueError(asked, str(leaf.type), at=author_location())
            refusal.why += "  NumPy arrays among its arguments are tensors inside."
            refusal.fix = _instead(function)
            raise refusal


def _name(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or "numpy"
    if isinstance(owner, (np.ndarray, np.ufunc)):
        named = owner.__name__ if isinstance(owner, np.ufunc) else "ndarray"
        return f"numpy.{named}.{function.__name__}"
    public = "numpy.random" if module.startswith("numpy.random") else module
    return f"{public}.{function.__name__}"


def _instead(function: Any) -> str:
    """What to write in place of a call of ``function``."""
    name = function.__name__
    if any(function is maker for maker in _MAKERS):
        return f"leave numpy.{name} out, or join values with hybrid.stack"
    if isinstance(function, type):
        return f'write hybrid.astype(x, "{name}") for one of the dtypes of hybrid'
    name = (OTHER_NAMES | _NEAREST).get(name, name)
    of_ufunc = isinstance(getattr(function, "__self__", None), np.ufunc)
    known = hasattr(ops, name) and name not in _OTHERS
    if known and not of_ufunc and "random" not in _name(function):
        return f"call hybrid.{name}"
    return (
        f"write it with the functions of hybrid, or call {_name(function)} through hybrid.py_call "
        "or outside the hybridized function"
    )
