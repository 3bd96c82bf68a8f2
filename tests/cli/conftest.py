"""Commands that load a user's function put its folder on the path; tests do not keep it there."""

import sys

import pytest


@pytest.fixture(autouse=True)
def path_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
