"""A pytest plugin: SciPy's array API tests, run with arrays of one library.

The environment variable ARRAY_API_BACKEND names it; without one it is this package.
"""

import importlib
import os

import pytest
import scipy._lib._array_api as array_api
import scipy.conftest as conftest

NAME = os.environ.get("ARRAY_API_BACKEND", "hybrid")
BACKEND = importlib.import_module(NAME)


def xp_default_dtype(xp):
    return xp.__array_namespace_info__().default_dtypes()["real floating"]


@pytest.fixture(params=[pytest.param(BACKEND, id=NAME, marks=pytest.mark.array_api_backends)])
def xp(request):
    """The library, as SciPy sees it: of its arrays."""
    for what in ("skip", "xfail"):
        conftest.skip_or_xfail_xp_backends(request, what)
    namespace = array_api.array_namespace(request.param.empty(0))
    with array_api.default_xp(namespace):
        yield namespace


conftest.xp_known_backends.add(NAME)
conftest.xp = xp
array_api.xp_default_dtype = xp_default_dtype
