"""Lowerings that ask a kernel for something else than the op does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Change = Callable[[list[Any], list[Any], list[Any]], tuple[Any, Any, Any]]


class AlteredEmit:
    """The emitter of a lowering rule, which alters the operands and attributes of each kernel."""

    def __init__(self, emit: Any, change: Change) -> None:
        self.emit, self.change = emit, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self.emit, name)

    def kernel(self, name: str, inputs: Any, outputs: Any, attrs: Any = ()) -> None:
        self.emit.kernel(name, *self.change(list(inputs), list(outputs), list(attrs)))


def alter_kernels(monkeypatch: pytest.MonkeyPatch, op: Any, change: Change) -> None:
    """Let ``op`` be lowered to kernels whose inputs, outputs and attributes ``change`` returns."""
    n_in = len(op.operand_names)
    rule = op.lowering_rule or (
        lambda emit, *views, **_: emit.kernel(op.kernel, views[:n_in], views[n_in:])
    )
    monkeypatch.setattr(
        op, "lowering_rule", lambda emit, *a, **k: rule(AlteredEmit(emit, change), *a, **k)
    )
