"""ONNX's own cases of nodes: all of core types, eagerly and hybridized; others are refused."""

from __future__ import annotations

import pytest

from hybrid.errors import CaptureError, OnnxError
from tests.helpers import part_of, parts
from tests.onnx.backend_cases import MODULES, Case, is_core, of_ops, run

PARTS = 48  # of the ops; the first is run every time

# Cases of core types that no plan is made for, and why.
NO_PLAN = {
    "test_image_decoder_": "only the bytes of a file say how large the picture is",
}
# What the others have to do with, as errors say it.
OTHER = (" is a sequence", " is an optional value", "is of type ", "it works on texts")


def cases(part: int) -> list[Case]:
    return list(of_ops(list(part_of(MODULES, part, PARTS, turn=3))))


@pytest.mark.parametrize("part", parts(PARTS))
def test_cases_of_core_types(part: int) -> None:
    faults = [fault for case in cases(part) if is_core(case.model) and (fault := run(case, False))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("part", parts(PARTS))
def test_cases_of_core_types_hybridized(part: int) -> None:
    faults = []
    for case in cases(part):
        if not is_core(case.model):
            continue
        if case.name.startswith(tuple(NO_PLAN)):
            with pytest.raises(CaptureError):
                run(case, True)
        else:
            faults.append(run(case, True))
    assert not any(faults), "\n".join(filter(None, faults))


@pytest.mark.parametrize("part", parts(PARTS))
def test_cases_of_other_types_are_refused(part: int) -> None:
    for case in cases(part):
        if not is_core(case.model):
            with pytest.raises(OnnxError) as caught:
                run(case, False)
            assert any(said in str(caught.value) for said in OTHER), (case.name, caught.value)
