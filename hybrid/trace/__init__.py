"""Tracing: from a function to a graph, and the derivatives of control-flow ops.

The derivatives of control flow are imported when one is asked for: most first calls ask for none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.core.imports import imported
from hybrid.ops.flow.control import cond, for_, while_
from hybrid.trace.alias import rules as rules


def _rule(module: str, name: str) -> Callable[..., Any]:
    def rule(given: Any, result: Any, *operands: Any, **attrs: Any) -> Any:
        found = getattr(imported(f"hybrid.trace.gradients.{module}"), name)
        return found(given, result, *operands, **attrs)

    return rule


for _op, _name, _module in (
    (cond, "cond", "cond"),
    (for_, "for", "for_"),
    (while_, "while", "while_"),
):
    _op.vjp(_rule(_module, f"{_name}_vjp"))
    _op.jvp(_rule("forward", f"{_name}_jvp"))
