"""Add an op: one declaration, and it runs, differentiates, is captured, printed and tested."""

# %% An op is declared in one place, a file of hybrid/ops (and a kernel in csrc/kernels if none of
# those that exist will do).  This one lives in this file: logit(p) = log(p / (1 - p)).
import numpy as np

import hybrid as hy
from hybrid.core.types import TensorType
from hybrid.ir import REGISTRY, op, parse
from hybrid.ops.support.derivatives import diagonal
from hybrid.ops.support.operand_checks import require_floating
from hybrid.ops.support.sampling import samples


# %% The decorated function is the type rule: types in, types out, or an error that names the rule.
# Its docstring is the documentation.
@op
def logit(p: TensorType) -> TensorType:
    """The inverse of the sigmoid, log(p / (1 - p)), element by element."""
    require_floating("logit", p=p)
    return p


# %% The reference says what it means, in NumPy.  It is the oracle of the tests and never runs else.
@logit.reference
def logit_reference(p):
    return np.log(p / (1 - p))


# %% The lowering says which kernels compute it, on views of its operands and results.  An op whose
# kernel exists already just names it: ``@op(kernel="exp", elementwise=True)``.
@logit.lowering
def logit_lowering(emit, p, result):
    odds = emit.temporary(p.dtype, p.shape)
    one = emit.constant(p.dtype, 1.0).broadcast(p.shape)
    emit.kernel("subtract", [one, p], [odds])
    emit.kernel("divide", [p, odds], [odds])
    emit.kernel("log", [odds], [result])


# %% The derivative is written in ops, so it runs eagerly, is captured, and has derivatives itself.
# ``diagonal`` makes the forward mode of it, too.  A parameter that begins with an underscore is one
# whose value the rule does not need: it is not kept for the backward pass.
@diagonal(logit)
def logit_vjp(ct, _result, p):
    return (ct / (p * (1 - p)),)


# %% And the samples say what to test it with; an op marked ``elementwise`` needs none, for its
# domain is enough.
@logit.samples
def logit_samples(draw):
    return draw.unary(dtypes=draw.floats, low=0.01, high=0.99)


# %% That is all.  It runs ...
p = hy.asarray([0.1, 0.5, 0.9])
print(logit(p))
assert logit(p)[1].item() == 0
assert np.allclose(hy.sigmoid(logit(p)), p)

# ... checks what it is given ...
try:
    logit(hy.asarray([0, 1]))
except TypeError as error:
    print(error)
else:
    raise AssertionError("the type rule refuses integers")

# ... has derivatives of every order, in both directions ...
slope = hy.grad(lambda p: logit(p).sum())
assert np.allclose(slope(p), 1 / (p * (1 - p)))
hy.check_grads(logit, hy.asarray([0.2, 0.7], dtype=hy.float64), order=2)

# %% ... and is captured, in loops and branches as anywhere else.


@hy.hybridize
def anneal(p, steps):
    for _ in range(steps):
        x = logit(p)
        if p.sum() > 1:
            x = x / 2
        p = hy.sigmoid(x - 0.1)
    return p


assert anneal(p, 9).numpy().tobytes() == anneal.function(p, 9).numpy().tobytes()
graph = anneal.graph(p, 9)
print(graph)
assert sum(node.op is logit for node in graph.walk()) == 1
assert parse(str(graph)) == graph  # the text names it, so the parser finds it

# %% The tests of the ops are one table over the registry, tests/ops/test_registry.py.  An op in
# hybrid/ops is in it without a further line; these are some of the questions it asks.
assert REGISTRY["logit"] is logit
count = 0
for (operand,), attrs in samples(logit):
    found = logit(hy.asarray(operand), **attrs)
    meant = logit_reference(operand.astype(np.float64))
    assert str(found.type) == str(logit.infer((found.type,), ())[0])
    assert np.allclose(found, meant, rtol=1e-5, atol=1e-6)
    again = hy.hybridize(logit)(hy.asarray(operand))
    assert again.numpy().tobytes() == found.numpy().tobytes()
    count += 1
print(f"{count} samples agree with the reference")
