"""array_api_compat finds the namespace; scikit-learn's own array API tests pass on tensors."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hybrid as hy
from tests.clients.suites import run_suite, unexplained

# Tests that write through views of a tensor, or into the array of one; tensors are values.
EXPLAINED = {
    "additive_chi2_kernel": "its C code asks for a writable array",
    "chi2_kernel": "its C code asks for a writable array",
    r"gaussian_mixture_array_api_compliance\[.*-full-": "covariances[k, :, :] is written in "
    "place, and x[k] is a copy here",
}


def test_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = hy.ones((2, 3))
    xp = compat.array_namespace(x, hy.zeros(3))
    assert xp is hy
    assert compat.is_array_api_obj(x) and not compat.is_numpy_array(x)
    assert compat.device(x) == "cpu" and compat.size(x) == 6
    assert compat.to_device(x, "cpu") is x and not compat.is_lazy_array(x)
    assert xp.linalg.vector_norm(x, axis=-1).shape == (2,)


def sklearn_tests(*selection: str, backend: str = "hybrid") -> tuple[str, dict[str, str]]:
    pytest.importorskip("sklearn", minversion="1.6")
    pytest.importorskip("scipy", minversion="1.14")
    chosen = ("-k", f"array_api and {backend}", *selection)
    return run_suite("sklearn_namespace", *chosen, backend=backend)


def test_estimators_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn", minversion="1.8")  # 1.7 asks for other namespaces
    folder = Path(sklearn.__file__).parent
    files = ["decomposition/tests/test_pca.py", "linear_model/tests/test_ridge.py",
             "preprocessing/tests/test_data.py", "preprocessing/tests/test_label.py",
             "tests/test_discriminant_analysis.py"]  # fmt: skip
    summary, failed = sklearn_tests(*[str(folder / file) for file in files])
    assert re.search(r"(\d{2,}) passed", summary), summary
    assert not unexplained(failed, EXPLAINED), summary


@pytest.mark.nightly
def test_all_of_scikit_learn_that_takes_arrays_of_any_library():
    summary, failed = sklearn_tests("--pyargs", "sklearn")
    assert int(re.search(r"(\d+) passed", summary).group(1)) > 900, summary
    strict: dict[str, str] = {}
    if importlib.util.find_spec("array_api_strict") is not None:
        _, strict = sklearn_tests("--pyargs", "sklearn", backend="array_api_strict")
    ours = {name: message for name, message in failed.items() if name not in strict}
    assert not unexplained(ours, EXPLAINED)


def test_dispatch_gives_what_numpy_gives():
    code = """
import numpy as np, sklearn, hybrid as hy
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
x = np.random.default_rng(0).random((50, 4))
with sklearn.config_context(array_api_dispatch=True):
    pca = PCA(2, svd_solver="full").fit(hy.asarray(x))
    ridge = Ridge(solver="svd").fit(hy.asarray(x), hy.asarray(x[:, 0]))
    assert type(pca.components_) is hy.Tensor and type(ridge.coef_) is hy.Tensor
np.testing.assert_allclose(pca.components_.numpy(), PCA(2, svd_solver="full").fit(x).components_)
np.testing.assert_allclose(ridge.coef_.numpy(), Ridge(solver="svd").fit(x, x[:, 0]).coef_)
"""
    pytest.importorskip("sklearn", minversion="1.6")
    path = str(Path(hy.__file__).parents[1])
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd="/")
