"""SciPy's own array API tests, run on tensors: what fails is what has a reason here.

They are written for array_api_strict, NumPy and PyTorch; many are skipped with the first.
"""

import importlib.util
import re

import pytest

from tests.clients.suites import run_suite, unexplained

# What a test or its message has: why it is not for this library to pass.
EXPLAINED = {
    r"complex|'conj|1j\b|[+-]0j": "there are no complex dtypes; the test makes such an array",
    r"TestQMCQuad::test_(basic|sign)": "logarithms of negative numbers, as complex numbers",
    # _tanhsinh.py, _euler_maclaurin_sum: fr, fl = reshape(fj.T), and fr[invalid] = ... is to
    # change fj.  In the standard it is left open whether it does; tensors are values.
    r"TestTanhSinh::test_(integral_transforms|flags|flags_preserve_shape|improper_integrals|dtype|"
    r"maxiter_callback|jumpstart)\[": "writes to what it takes for views of another array",
    r"TestNSum::test_(basic|integral|vectorization|status|inclusive|dtype|infinite_bounds|"
    r"decreasing_check|special_case)\[": "calls what writes to views",
    r"test_special_cases|TestJacobian::test_attrs|TestDerivative::test_basic": "float64 is taken "
    "to be what Python floats become: 7.0 ** 99, and errors below those of float32",
    r"dtypes do not match": "float64 is taken to be what Python floats and ints become",
    r"TestAlexanderGovern::test_compare_scholar": "a float32 to 2e-6",
    r"test_as_euler_nd_rotation": "float32 angles to 1e-12",
    r"add cannot take bool": "adds booleans, which the standard has no sum of",
    r"no attribute 'logspace'": "a function of NumPy's that the standard does not have",
    r"Regex pattern did not match": "asks for the words of NumPy's messages",
}
# Packages, and how many tests have to pass at least.
PACKAGES = {"special": 1500, "integrate": 500, "differentiate": 70, "stats": 1600,
            "cluster": 170, "spatial": 350}  # fmt: skip


def scipy_tests(*selection: str, backend: str = "hybrid") -> tuple[str, dict[str, str]]:
    pytest.importorskip("scipy", minversion="1.17")
    return run_suite("scipy_namespace", "-m", "array_api_backends", *selection, backend=backend)


def test_derivatives_of_scipy() -> None:
    summary, failed = scipy_tests("--pyargs", "scipy.differentiate")
    assert int(re.search(r"(\d+) passed", summary).group(1)) >= PACKAGES["differentiate"], summary
    assert not unexplained(failed, EXPLAINED), summary


@pytest.mark.nightly
@pytest.mark.parametrize("package", PACKAGES)
def test_packages_of_scipy(package) -> None:
    summary, failed = scipy_tests("--pyargs", f"scipy.{package}")
    assert int(re.search(r"(\d+) passed", summary).group(1)) >= PACKAGES[package], summary
    strict: dict[str, str] = {}
    if importlib.util.find_spec("array_api_strict") is not None:
        _, strict = scipy_tests("--pyargs", f"scipy.{package}", backend="array_api_strict")
    ours = {name: message for name, message in failed.items() if name not in strict}
    assert not unexplained(ours, EXPLAINED)
