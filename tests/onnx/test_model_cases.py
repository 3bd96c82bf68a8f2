"""ONNX's own cases of whole models: simple ones, and those that PyTorch has exported."""

from __future__ import annotations

import pytest

from hybrid.errors import OnnxError
from tests.helpers import part_of, parts
from tests.onnx.backend_cases import in_folder, is_core, run

REFUSED = {  # by the beginning of a name, what the error says
    "test_gradient_of": "ai.onnx.preview.training.Gradient of opset 1 (a module has gradients",
    "test_strnorm_model": "StringNormalizer of opset 10 (it works on texts",
}
FOLDERS = ("pytorch-converted", "pytorch-operator", "simple")


@pytest.mark.parametrize("part", parts(3))
@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_cases(folder: str, hybridize: bool, part: int) -> None:
    faults = []
    for case in part_of(in_folder(folder), part, 3):
        said = next((said for name, said in REFUSED.items() if case.name.startswith(name)), None)
        if said is None:
            assert is_core(case.model), case.name
            faults.append(run(case, hybridize))
        else:
            with pytest.raises(OnnxError) as caught:
                run(case, hybridize)
            assert said in str(caught.value)
    assert not any(faults), "\n".join(filter(None, faults))
