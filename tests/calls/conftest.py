"""No test runs for ever; some count captures."""

from __future__ import annotations

from typing import Any

import pytest

from hybrid.calls.hybridized import Hybridized
from tests.staging.limits import limited as limited


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Hybridized]:
    """The hybridized functions, as often as they are captured."""
    found: list[Hybridized] = []
    trace = Hybridized._trace

    def traced(self: Hybridized, *args: Any) -> Any:
        found.append(self)
        return trace(self, *args)

    monkeypatch.setattr(Hybridized, "_trace", traced)
    return found
