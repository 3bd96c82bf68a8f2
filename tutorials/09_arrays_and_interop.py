"""Arrays: the array API standard, linear algebra, and the libraries that take tensors."""

# %% The namespace is that of the Python array API standard, which it tells about itself.
import numpy as np

import hybrid as hy

assert hy.__array_api_version__ == "2024.12"
info = hy.__array_namespace_info__()
assert info.default_dtypes()["real floating"] is hy.float32
assert "uint16" in info.dtypes(kind="unsigned integer")
assert hy.ones(3).__array_namespace__() is hy

# %% So code that asks an array for its namespace runs on tensors, NumPy arrays and others alike.


def standardized(x):
    xp = x.__array_namespace__()
    return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)


rows = np.random.default_rng(0).random((100, 4))
tensors, arrays = standardized(hy.asarray(rows)), standardized(rows)
assert np.allclose(tensors.numpy(), arrays)

# ... and captured, in one call of C.
captured = hy.hybridize(standardized)(hy.asarray(rows))
assert captured.numpy().tobytes() == tensors.numpy().tobytes()

# %% Dtypes promote as the standard says; Python numbers are weak.
assert (hy.ones(2, dtype=hy.uint8) + hy.ones(2, dtype=hy.int8)).dtype is hy.int16
assert (hy.ones(2, dtype=hy.int64) * 2).dtype is hy.int64
assert hy.result_type(hy.float32, hy.float64) is hy.float64

# float16 and bfloat16 hold numbers in half the memory; ops compute in float32 with them.
half = hy.asarray([0.1, 0.2, 0.3], dtype=hy.bfloat16)
assert half.nbytes == 6 and (half + half).dtype is hy.bfloat16

# %% Memory is shared with NumPy, and through DLPack with PyTorch, JAX and others.
array = np.arange(6.0)
assert np.shares_memory(hy.from_dlpack(array).numpy(), array)
assert np.shares_memory(np.from_dlpack(hy.asarray(array)), array)

# %% hy.linalg has the factorizations, with gradients; in a graph they are steps like others.
a = hy.asarray(np.eye(3) * 2 + 0.5)
q, r = hy.linalg.qr(a)
assert np.allclose((q @ r).numpy(), a.numpy())


@hy.hybridize
def log_density(x, covariance):
    """Of a normal distribution, but for a constant."""
    half = hy.linalg.cholesky(covariance)
    scaled = hy.linalg.solve(half, x)
    return -0.5 * hy.sum(scaled**2) - hy.sum(hy.log(hy.linalg.diagonal(half)))


x = hy.asarray([1.0, -1.0, 0.5], dtype=hy.float64)
by_covariance = hy.grad(log_density, argnums=1)(x, a)
assert np.allclose(by_covariance.numpy(), by_covariance.numpy().T)

# What cannot be solved says which matrix, and that it is a numpy.linalg.LinAlgError.
try:
    hy.linalg.inv(hy.zeros((4, 2, 2)))
except np.linalg.LinAlgError as error:
    message = str(error)
assert "at [0] of the stack" in message

# %% Sizes that depend on values are for eager code; a bound makes them fit a graph.
signs = hy.asarray([3.0, -1.0, 0.0, 4.0])
assert hy.nonzero(signs > 0)[0].tolist() == [0, 3]
bounded = hy.hybridize(lambda x: hy.nonzero(x > 0, size=3, fill_value=-1)[0])
assert bounded(signs).tolist() == [0, 3, -1]

# %% einops knows tensors as soon as it is imported ...
try:
    import einops
except ImportError:
    einops = None
if einops is not None:
    images = hy.zeros((8, 3, 4, 4))
    patches = einops.rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2)
    assert patches.shape == (8, 4, 12)

# ... and scikit-learn computes with them, once it is told to look for other arrays than NumPy's:
#     SCIPY_ARRAY_API=1 python -c "
#     import sklearn; sklearn.set_config(array_api_dispatch=True)
#     PCA(2, svd_solver='full').fit(hy.asarray(rows)).components_  # a tensor"
