"""A pytest plugin: scikit-learn's array API tests, run with tensors of this package alone."""

import sklearn.utils._array_api as array_api


def yield_namespaces(include_numpy_namespaces: bool = True):
    yield "hybrid"


def yield_namespace_device_dtype_combinations(include_numpy_namespaces: bool = True):
    yield "hybrid", "cpu", "float64"
    yield "hybrid", "cpu", "float32"


array_api.yield_namespaces = yield_namespaces
array_api.yield_namespace_device_dtype_combinations = yield_namespace_device_dtype_combinations
