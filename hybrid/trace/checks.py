"""Checks: what a plan raises when it comes to a place where eager code would have raised."""

from __future__ import annotations

from typing import Any

from hybrid import number
from hybrid.tensor import Tensor


class Raiser:
    """Raises, when the plan gets there, what the author's code raised when it was traced."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_values: Any) -> tuple[()]:
        error = self.error
        copied = type(error).__new__(type(error), *error.args)
        copied.args = error.args
        copied.__dict__.update(getattr(error, "__dict__", {}))
        copied.__cause__ = error.__cause__
        copied.__suppress_context__ = error.__suppress_context__
        raise copied.with_traceback(None)

    @property
    def __name__(self) -> str:
        return f"raise {type(self.error).__name__}"


def check(flag: Tensor, error: Exception) -> None:
    """Let the plan raise ``error`` unless ``flag``, a traced bool scalar, holds."""
    number.check(flag, Raiser(error))


def raises(error: Exception) -> None:
    """Let the plan raise ``error`` when it gets here."""
    number.host(Raiser(error), (), ())
