"""Kernels and ops mean what they meant: a program in a file calls them by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import signatures
from tests.tools.signatures import ADVICE, changes, computed, declared, kept, kernels


def test_kernels_are_what_they_were() -> None:
    assert not changes(kept(), kernels())


def test_ops_have_the_attributes_that_they_had() -> None:
    assert not changes(kept(), declared())


def test_ops_compute_what_they_did() -> None:
    assert not changes(kept(), computed())


KERNEL, OP, VALUE = "kernel add 2 > 1, 0 attributes", "op add", "value add 0a"
KNOWN = {KERNEL: "f32 i64 ? bf16", OP: "(a, b, /)", VALUE: "10 -2.5"}
NEW = ": new. Fix: run `python -m tests.tools.signatures`."


@pytest.mark.parametrize(
    ("head", "now", "faults"),
    [
        (KERNEL, "f32 i64", []),
        (KERNEL, "f32 i64 bf16", []),
        (KERNEL, "i64", [f"{KERNEL}: i64, and it was f32 i64 ? bf16. {ADVICE}"]),
        (KERNEL, "f32 f64 i64", [f"{KERNEL}: f32 f64 i64, and it was f32 i64 ? bf16. {ADVICE}"]),
        (
            "kernel add 3 > 1, 0 attributes",
            "f32 i64",
            [
                f"{KERNEL}: there is no such one any more. {ADVICE}",
                f"kernel add 3 > 1, 0 attributes{NEW}",
            ],
        ),
        (OP, "(a, b, /, *, axis)", [f"{OP}: (a, b, /, *, axis), and it was (a, b, /). {ADVICE}"]),
        (VALUE, "10.001 -2.501", []),
        (VALUE, "10 -2.4", [f"{VALUE}: 10 -2.4, and it was 10 -2.5. {ADVICE}"]),
        (VALUE, "10 -2.5 3 3", [f"{VALUE}: 10 -2.5 3 3, and it was 10 -2.5. {ADVICE}"]),
    ],
)
def test_what_has_changed_needs_a_new_name(head: str, now: str, faults: list[str]) -> None:
    assert changes(KNOWN, {head: now}) == faults


def test_new_ones_are_added_and_known_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "PATH", tmp_path / "signatures.txt")
    for name in ("computed", "kernels", "_everywhere"):
        monkeypatch.setattr(signatures, name, lambda: {"kernel a 1 > 1, 0 attributes": "f32"})
    monkeypatch.setattr(signatures, "declared", lambda: {"op a": "(x, /)", "op b": "(x, /)"})
    signatures.PATH.write_text("op a = (x, y, /)\n", "utf-8")
    signatures.main([])
    assert kept() == {
        "kernel a 1 > 1, 0 attributes": "f32", "op a": "(x, y, /)", "op b": "(x, /)",
    }  # fmt: skip
    signatures.main(["--renew"])
    assert kept()["op a"] == "(x, /)"
