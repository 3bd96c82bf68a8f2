"""Run-time half of ``match``: subjects that Python matches, and tests that must be known."""

from __future__ import annotations

from typing import Any

from hybrid.convert.runtime import Site
from hybrid.core.tree import flatten
from hybrid.errors import CaptureError
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.staging.sessions.views import is_traced, refuse_partial, tracing


def native_test(site: Site, value: Any) -> Any:
    """The test of a construct that Python itself runs; raises CaptureError if it is traced."""
    if is_traced(value):
        raise CaptureError(
            "a test on the value of a tensor stands where Python itself has to take the branch",
            at=site.location,
            why="Class bodies, conditions of set and dict comprehensions, operands with `yield` "
            "or, inside a larger expression, with `:=`, and what is nested more than 20 blocks "
            "deep are run as they are written.",
            fix="move the test into an if statement of its own, or choose with hybrid.where",
        )
    return value


def match_subject(subject: Any) -> Any:
    """The subject of a ``match``; raises CaptureError if patterns need a traced value."""
    for leaf in flatten(subject)[0] if tracing() else ():
        if type(leaf) is Mixed:
            leaf.need_value("match")
    if tracing() and current().indefinite_values:
        for value in subject if type(subject) in (list, tuple) else (subject,):
            refuse_partial(value, "matched")
    return subject


def plain_match_subject(subject: Any) -> Any:
    """The subject of a ``match`` whose patterns tell True and False apart."""
    for leaf in flatten(subject)[0] if tracing() else ():
        if type(leaf) is Number and leaf.kind == "bool":
            leaf.need_value("match")
    return match_subject(subject)
