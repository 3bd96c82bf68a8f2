"""Gradients: what functions of tensors have of them, and the transforms that give it."""

# %% ``hy.grad`` takes a function of one scalar result and gives its gradient function.  The
# arguments may be any trees of float tensors; the gradient is a tree like the argument.
import numpy as np

import hybrid as hy


def loss(params, x, y):
    hidden = hy.tanh(x @ params["w"] + params["b"])
    return ((hidden.sum(axis=-1) - y) ** 2).mean()


draw = np.random.default_rng(0)
params = {"w": hy.asarray(draw.normal(size=(3, 4))), "b": hy.zeros((4,), dtype=hy.float64)}
x, y = hy.asarray(draw.normal(size=(8, 3))), hy.asarray(draw.normal(size=8))

slopes = hy.grad(loss)(params, x, y)
assert slopes["w"].shape == (3, 4) and slopes["b"].shape == (4,)
value, same_slopes = hy.value_and_grad(loss)(params, x, y)
assert value.item() == loss(params, x, y).item()


# %% ``backward`` is the other way to ask: it adds to the ``grad`` of each tensor that requires one.
w, b = (hy.asarray(params[name].numpy()) for name in ("w", "b"))
w.requires_grad = b.requires_grad = True
loss({"w": w, "b": b}, x, y).backward()
assert w.grad.tolist() == slopes["w"].tolist()


# %% A gradient is worth a check.  ``check_grads`` compares it with differences, in float64, and the
# two modes with each other; ``order=2`` checks the gradient's own derivatives, too.
hy.check_grads(lambda w: loss({"w": w, "b": params["b"]}, x, y), params["w"], order=2, rtol=1e-4)


# %% Below ``grad`` are two products.  ``vjp`` gives the result and a pullback, which takes a
# cotangent of the result back to the arguments; ``jvp`` takes tangents of the arguments forward.
# They are transposes of each other: <u, J v> = <Jt u, v>.
def squares(p):
    return hy.stack([p[0] * p[1], p[1] ** 2, hy.sin(p[0])])


p, v, u = hy.asarray([1.0, 2.0]), hy.asarray([0.5, -1.0]), hy.asarray([1.0, 2.0, 3.0])
out, pullback = hy.vjp(squares, p)
(back,) = pullback(u)
_, ahead = hy.jvp(squares, (p,), (v,))
assert np.isclose((u * ahead).sum().item(), (back * v).sum().item())


# %% ``jacobian`` has all of them: a tensor of shape result + argument.  ``hessian`` does it twice.
jacobian = hy.jacobian(squares)(p)
print(jacobian)
assert jacobian.shape == (3, 2) and np.allclose(jacobian @ v, ahead)


def bowl(p):
    return hy.exp(p[0] / 2) + (p[1] - p[0]) ** 2 + (p**4).sum() / 10


assert np.allclose(hy.hessian(bowl)(p), hy.hessian(bowl)(p).T)


# %% Large functions have Hessians that nobody can hold.  Their products with a vector cost about as
# much as a few gradients, and that is all that conjugate gradients ask for: here they solve for
# Newton's step, H s = -g.
def newton_step(function, p, rounds):
    residual = -hy.grad(function)(p)
    step, direction = hy.zeros_like(p), residual
    for _ in range(rounds):
        (product,) = hy.hvp(function, (p,), (direction,))
        length = (residual @ residual) / (direction @ product)
        step = step + length * direction
        after = residual - length * product
        direction = after + (after @ after) / (residual @ residual) * direction
        residual = after
    return step


step = newton_step(bowl, p, 2)
assert np.allclose(hy.hessian(bowl)(p) @ step, -hy.grad(bowl)(p), atol=1e-4)

captured = hy.hybridize(newton_step)
assert captured(bowl, p, 2).tolist() == step.tolist()


# %% ``vmap`` takes a function of one row and applies it to all rows at once.  With ``grad`` it
# gives what no gradient of a sum has: the gradient of each sample.
per_sample = hy.vmap(hy.grad(loss), in_axes=(None, 0, 0))(params, x, y)
assert per_sample["w"].shape == (8, 3, 4)
assert np.allclose(per_sample["w"].mean(axis=0), slopes["w"])

norms = hy.sqrt((per_sample["w"] ** 2).sum(axis=(1, 2)))
print("norms of the gradients of each sample:", np.round(norms, 2))


# %% Eagerly a value that differs from row to row cannot decide an ``if``.  In a hybridized function
# it can: each row goes its own way, and a loop goes on until all of them are done.
@hy.hybridize
def root(a):
    guess = a
    while hy.abs(guess * guess - a) > 1e-5 * a:
        guess = (guess + a / guess) / 2
    return guess


numbers = hy.asarray([2.0, 9.0, 100.0])
roots = hy.vmap(root)(numbers)
assert np.allclose(roots, [2**0.5, 3, 10], rtol=1e-4)

# %% Gradients go through that loop, too: d sqrt(a) / da = 1 / (2 sqrt(a)).
assert np.allclose(hy.vmap(hy.grad(root))(numbers), 0.5 / roots, rtol=1e-3)
assert np.allclose(hy.grad(root)(hy.asarray(9.0)).item(), 1 / 6, rtol=1e-3)


# %% What a gradient needs of the values on the way is kept until it has been asked for.
# ``checkpoint`` forgets them, and computes them again: time for memory, to the same bits.
def deep(x, layer):
    for _ in range(6):
        x = layer(x)
    return (x**2).sum()


def layer(x):
    return hy.sin(x) * hy.exp(-x * x)


plain = hy.grad(deep)(p, layer)
assert hy.grad(deep)(p, hy.checkpoint(layer)).tolist() == plain.tolist()


# %% And where the gradient that follows from the ops is not the one that is wanted, its author
# defines another.  log(1 + exp(x)) overflows for large x, and then its gradient is inf / inf.
def naive(x):
    return hy.log(1 + hy.exp(x))


@hy.custom_vjp
def softplus(x):
    return hy.where(x > 20, x, naive(x))


def forward(x):
    return softplus.function(x), x  # the result, and what backward wants to know


def backward(x, ct):
    return (ct * hy.sigmoid(x),)  # one cotangent for each argument


softplus.defvjp(forward, backward)

at = hy.asarray([0.0, 1.0, 200.0])
assert np.isnan(hy.vmap(hy.grad(naive))(at)[2].item())
assert np.allclose(hy.vmap(hy.grad(softplus))(at), hy.sigmoid(at))


# %% It holds wherever the function is used: in what is captured, in branches and loops, in second
# derivatives (of ``backward``, since that is written in ops).
@hy.hybridize
def total(x):
    for _ in range(3):
        if x.sum() < 300:
            x = softplus(x)
    return x.sum()


assert hy.isfinite(hy.grad(total)(at)).all()
curvature = hy.grad(hy.grad(softplus))(hy.asarray(1.0)).item()
sigmoid = 1 / (1 + np.exp(-1.0))
assert np.isclose(curvature, sigmoid * (1 - sigmoid))
