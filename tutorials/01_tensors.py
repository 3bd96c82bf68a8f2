"""Tensors: cells that hold values, with operators, NumPy beside them, and gradients."""

# %% A tensor is made from numbers, nested lists, or a NumPy array.
import numpy as np

import hybrid as hy

x = hy.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
assert x.shape == (2, 3)
assert x.dtype == hy.float32  # floats are float32 and integers int64 unless you say otherwise
assert hy.asarray([1, 2]).dtype == hy.int64
assert hy.zeros((2, 2), dtype=hy.float64).dtype == hy.float64

# %% Functions have the names of the Python array API standard; most are methods too.
assert hy.sum(x).item() == 21
assert x.sum(axis=0).tolist() == [5, 7, 9]
assert hy.matmul(x, x.T).shape == (2, 2)
assert (x @ x.T).tolist() == [[14, 32], [32, 77]]
assert hy.where(x > 3, x, 0).tolist() == [[0, 0, 0], [4, 5, 6]]

# %% Python numbers are weak: they take the tensor's dtype.  Between tensors, floats win.
assert (x * 2).dtype == hy.float32
assert (hy.asarray([1, 2]) + hy.asarray([0.5, 0.5])).dtype == hy.float32

# %% A tensor is a cell.  Writing puts a new value into it: every name of this cell sees that ...
a = hy.zeros(3)
b = a
a += 1
assert b is a and b.tolist() == [1, 1, 1]

# ... and no other tensor does.  A slice is a value, not a view of its source.
row = x[0]
row[0] = 100.0
assert row.tolist() == [100, 2, 3]
assert x[0].tolist() == [1, 2, 3]

# %% NumPy is one call away, in both directions.
assert np.allclose(np.asarray(hy.exp(x)), np.exp(x.numpy()))
assert hy.asarray(np.arange(3.0)).dtype == hy.float64  # arrays keep their dtype

# %% Gradients, the way of PyTorch: mark, compute, go backward.
w = hy.asarray([1.0, -2.0, 3.0])
w.requires_grad = True
loss = (w * w).sum()
loss.backward()
assert w.grad.tolist() == [2, -4, 6]

# %% Gradients, the functional way: a function in, a function out.  They nest.
square = hy.grad(lambda v: (v**3).sum())
assert square(hy.asarray([1.0, 2.0])).tolist() == [3, 12]
curvature = hy.grad(lambda v: square(v).sum())
assert curvature(hy.asarray([1.0, 2.0])).tolist() == [6, 12]

# %% Mistakes are reported where they are made, with the types and the rule that was broken.
try:
    x + hy.zeros(2)
except ValueError as error:
    message = str(error)
    print(message)
assert "f32[2,3]" in message and "f32[2]" in message

print("x =", x)
