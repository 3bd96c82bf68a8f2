"""A pytest plugin: scikit-learn's array API tests, run with arrays of one library alone.

The environment variable ARRAY_API_BACKEND names it; without one it is this package.
"""

import os

import sklearn.utils._array_api as array_api

NAME = os.environ.get("ARRAY_API_BACKEND", "hybrid")
DEVICES = {"array_api_strict": "CPU_DEVICE"}  # a name that scikit-learn makes one of its Devices of


def yield_namespaces(include_numpy_namespaces: bool = True):
    yield NAME


def yield_namespace_device_dtype_combinations(include_numpy_namespaces: bool = True):
    for dtype in ("float64", "float32"):
        yield NAME, DEVICES.get(NAME, "cpu"), dtype


array_api.yield_namespaces = yield_namespaces
array_api.yield_namespace_device_dtype_combinations = yield_namespace_device_dtype_combinations
