"""Methods by PyTorch's names: each gives what its target gives, eagerly and hybridized."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.frameworks.torch_methods import ALIASES, FILLS, IN_PLACE
from hybrid.errors import ArgumentTypeError, DTypeError, ShapeError

A = np.random.default_rng(0).uniform(0.2, 2.0, (2, 3)).astype(np.float32)
B = np.random.default_rng(1).uniform(0.2, 2.0, (2, 3)).astype(np.float32)
X, Y, V = hy.asarray(A), hy.asarray(B), hy.asarray([1.0, 2.0, 3.0])
I = hy.asarray([[0, 2, 1]])  # noqa: E741
MASK = hy.asarray(A > 1)
CUBE = hy.asarray(np.arange(12, dtype=np.float32).reshape(2, 2, 3))

# name: (a call of the method, of a tensor with the values of X, and what it is the same as)
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "view": (lambda x: (x.view(3, -1), x.view((6,))), lambda x: (x.reshape(3, 2), x.reshape(6))),
    "view_as": (lambda x: x.view_as(hy.ones((3, 2))), lambda x: x.reshape((3, 2))),
    "reshape_as": (lambda x: x.reshape_as(hy.ones((3, 2))), lambda x: x.reshape((3, 2))),
    "unsqueeze": (lambda x: (x.unsqueeze(1), x.unsqueeze(dim=-1)),
                  lambda x: (hy.expand_dims(x, axis=1), hy.expand_dims(x, axis=-1))),
    "permute": (lambda x: (x.permute(1, 0), x.permute((-1, 0))), lambda x: (x.mT, x.mT)),
    "t": (lambda x: x.t(), lambda x: x.T),
    "swapdims": (lambda x: x.swapdims(0, 1), lambda x: hy.swapaxes(x, 0, 1)),
    "movedim": (lambda x: x.movedim(0, 1), lambda x: hy.moveaxis(x, 0, 1)),
    "expand": (lambda x: x.unsqueeze(0).expand(4, -1, 3), lambda x: hy.broadcast_to(x, (4, 2, 3))),
    "expand_as": (lambda x: x[:1].expand_as(x), lambda x: hy.broadcast_to(x[:1], (2, 3))),
    "contiguous": (lambda x: x.contiguous(), lambda x: x),
    "conj": (lambda x: x.conj(), lambda x: x),
    "clone": (lambda x: x.clone(), lambda x: x),
    "chunk": (lambda x: x.chunk(2, dim=1), lambda x: hy.chunk(x, 2, axis=1)),
    "unbind": (lambda x: x.unbind(dim=1), lambda x: hy.unstack(x, axis=1)),
    "narrow": (lambda x: (x.narrow(1, 1, 2), x.narrow(dim=-1, start=1, length=2)),
               lambda x: (x[:, 1:], x[:, 1:])),
    "select": (lambda x: x.select(dim=1, index=2), lambda x: x[:, 2]),
    "ravel": (lambda x: x.ravel(), lambda x: x.reshape(6)),
    "dim": (lambda x: x.dim(), lambda x: 2),
    "ndimension": (lambda x: x.ndimension(), lambda x: 2),
    "numel": (lambda x: x.numel(), lambda x: 6),
    "nelement": (lambda x: x.nelement(), lambda x: 6),
    "element_size": (lambda x: x.element_size(), lambda x: 4),
    "is_floating_point": (lambda x: x.is_floating_point(), lambda x: True),
    "is_contiguous": (lambda x: x.is_contiguous(), lambda x: True),
    "to": (lambda x: (x.to(hy.float64), x.to("cpu"), x.to(I), x.to(dtype=hy.int32)),
           lambda x: (x.astype(hy.float64), x, x.astype(hy.int64), x.astype(hy.int32))),
    "type_as": (lambda x: x.type_as(I), lambda x: x.astype(hy.int64)),
    "cpu": (lambda x: x.cpu(), lambda x: x),
    "float": (lambda x: x.long().float(), lambda x: x.astype(hy.int64).astype(hy.float32)),
    "double": (lambda x: x.double(), lambda x: x.astype(hy.float64)),
    "half": (lambda x: x.half().float(), lambda x: x.astype(hy.float16).astype(hy.float32)),
    "bfloat16": (lambda x: x.bfloat16().float(),
                 lambda x: x.astype(hy.bfloat16).astype(hy.float32)),
    "long": (lambda x: x.long(), lambda x: x.astype(hy.int64)),
    "int": (lambda x: x.int(), lambda x: x.astype(hy.int32)),
    "short": (lambda x: x.short(), lambda x: x.astype(hy.int16)),
    "char": (lambda x: x.char(), lambda x: x.astype(hy.int8)),
    "byte": (lambda x: x.byte(), lambda x: x.astype(hy.uint8)),
    "bool": (lambda x: x.bool(), lambda x: x.astype(hy.bool)),
    "add": (lambda x: (x.add(Y), x.add(1, alpha=2)), lambda x: (x + Y, x + 2)),
    "sub": (lambda x: (x.sub(Y), x.sub(Y, alpha=2)), lambda x: (x - Y, x - Y * 2)),
    "subtract": (lambda x: x.subtract(Y), lambda x: x - Y),
    "mul": (lambda x: x.mul(Y), lambda x: x * Y),
    "multiply": (lambda x: x.multiply(2), lambda x: x * 2),
    "div": (lambda x: (x.div(Y), x.div(Y, rounding_mode="floor"),
                       (-x).div(Y, rounding_mode="trunc")),
            lambda x: (x / Y, x // Y, hy.trunc(-x / Y))),
    "divide": (lambda x: x.divide(2), lambda x: x / 2),
    "true_divide": (lambda x: x.true_divide(Y), lambda x: x / Y),
    "floor_divide": (lambda x: x.floor_divide(Y), lambda x: x // Y),
    "remainder": (lambda x: x.remainder(0.3), lambda x: x % 0.3),
    "neg": (lambda x: x.neg(), lambda x: -x),
    "negative": (lambda x: x.negative(), lambda x: -x),
    "absolute": (lambda x: (-x).absolute(), lambda x: x),
    "clamp": (lambda x: x.clamp(min=0.5, max=1), lambda x: hy.clip(x, 0.5, 1)),
    "clamp_min": (lambda x: x.clamp_min(0.5), lambda x: hy.clip(x, 0.5)),
    "clamp_max": (lambda x: x.clamp_max(0.5), lambda x: hy.clip(x, None, 0.5)),
    "lerp": (lambda x: x.lerp(Y, 0.25), lambda x: x + 0.25 * (Y - x)),
    "addcmul": (lambda x: x.addcmul(Y, Y, value=2), lambda x: x + 2 * Y * Y),
    "addcdiv": (lambda x: x.addcdiv(Y, X, value=2), lambda x: x + 2 * (Y / X)),
    "eq": (lambda x: x.eq(X), lambda x: x == X),
    "ne": (lambda x: x.ne(Y), lambda x: x != Y),
    "lt": (lambda x: x.lt(1), lambda x: x < 1),
    "le": (lambda x: x.le(Y), lambda x: x <= Y),
    "gt": (lambda x: x.gt(Y), lambda x: x > Y),
    "ge": (lambda x: x.ge(Y), lambda x: x >= Y),
    "maximum": (lambda x: x.maximum(Y), lambda x: hy.maximum(x, Y)),
    "minimum": (lambda x: x.minimum(Y), lambda x: hy.minimum(x, Y)),
    "logical_and": (lambda x: (x > 1).logical_and(MASK), lambda x: (x > 1) & MASK),
    "logical_or": (lambda x: (x < 1).logical_or(MASK), lambda x: (x < 1) | MASK),
    "logical_xor": (lambda x: (x < 1).logical_xor(MASK), lambda x: (x < 1) ^ MASK),
    "logical_not": (lambda x: (x > 1).logical_not(), lambda x: ~(x > 1)),
    "expm1": (lambda x: x.expm1(), lambda x: hy.expm1(x)),
    "reciprocal": (lambda x: x.reciprocal(), lambda x: hy.reciprocal(x)),
    "round": (lambda x: (x.round(), x.round(decimals=1)),
              lambda x: (hy.round(x), hy.round(x * 10.0) / 10.0)),
    "mm": (lambda x: x.mm(Y.t()), lambda x: x @ Y.T),
    "bmm": (lambda x: CUBE.bmm(CUBE.mT) + x[0, 0], lambda x: CUBE @ CUBE.mT + x[0, 0]),
    "mv": (lambda x: x.mv(V), lambda x: x @ V),
    "dot": (lambda x: x[0].dot(V), lambda x: hy.matmul(x[0], V)),
    "outer": (lambda x: x[0].outer(V), lambda x: hy.outer(x[0], V)),
    "amax": (lambda x: (x.amax(), x.amax(1), x.amax(dim=(0, 1)), x.amax(dim=0, keepdim=True)),
             lambda x: (hy.max(x), hy.max(x, axis=1), hy.max(x),
                        hy.max(x, axis=0, keepdims=True))),
    "amin": (lambda x: (x.amin(), x.amin(1), x.amin(dim=(0, 1)), x.amin(dim=0, keepdim=True)),
             lambda x: (hy.min(x), hy.min(x, axis=1), hy.min(x),
                        hy.min(x, axis=0, keepdims=True))),
    "norm": (lambda x: (x.norm(), x.norm(dim=1, keepdim=True)),
             lambda x: (hy.norm(x), hy.norm(x, axis=1, keepdims=True))),
    "gather": (lambda x: (x.gather(0, I % 2), x.gather(dim=1, index=I)),
               lambda x: (hy.gather(x, I % 2, axis=0), hy.gather(x, I, axis=1))),
    "index_select": (lambda x: x.index_select(1, I[0]), lambda x: hy.index_select(x, I[0], axis=1)),
    "scatter": (lambda x: (x.scatter(1, I, Y), x.scatter(1, I, 0.5)),
                lambda x: (hy.scatter(x, I, Y, axis=1), hy.scatter(x, I, 0.5, axis=1))),
    "scatter_add": (lambda x: x.scatter_add(1, I, Y), lambda x: hy.scatter_add(x, I, Y, axis=1)),
    "index_add": (lambda x: x.index_add(1, I[0], Y), lambda x: hy.index_add(x, I[0], Y, axis=1)),
    "masked_fill": (lambda x: x.masked_fill(MASK, 9.0), lambda x: hy.where(MASK, 9.0, x)),
    "where": (lambda x: x.where(MASK, Y), lambda x: hy.where(MASK, x, Y)),
    "new_zeros": (lambda x: x.new_zeros(2, 2), lambda x: hy.zeros((2, 2))),
    "new_ones": (lambda x: x.new_ones((3,)), lambda x: hy.ones((3,))),
    "new_empty": (lambda x: x.new_empty(0, 2), lambda x: hy.empty((0, 2))),
    "new_full": (lambda x: x.new_full((2,), 3), lambda x: hy.full((2,), 3.0)),
}  # fmt: skip
OWN_TESTS = {"repeat", "masked_select", "detach_", "requires_grad_"}


def test_each_alias_has_a_case() -> None:
    assert CASES.keys() | OWN_TESTS == ALIASES.keys()


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, hy.Tensor):
        assert found.type is wanted.type
        assert found.numpy().tobytes() == wanted.numpy().tobytes()
    else:
        assert found == wanted
        assert type(found) is type(wanted)


@pytest.mark.parametrize("name", CASES)
def test_an_alias_is_its_target(name: str) -> None:
    method, target = CASES[name]
    wanted = target(hy.asarray(A))
    same(method(hy.asarray(A)), wanted)
    same(hy.hybridize(method)(hy.asarray(A)), wanted)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "add_": (Y,), "sub_": (Y,), "mul_": (Y,), "div_": (Y,), "pow_": (2,), "floor_divide_": (Y,),
    "remainder_": (0.3,), "clamp_": (0.5, 1.0), "clip_": (0.5, 1.0), "clamp_min_": (0.5,),
    "clamp_max_": (0.5,), "lerp_": (Y, 0.25), "addcmul_": (Y, Y), "addcdiv_": (Y, Y),
    "masked_fill_": (MASK, 9.0), "scatter_": (1, I, Y), "scatter_add_": (1, I, Y),
    "index_add_": (1, I[0], Y),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE.split())
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_in_place(name: str, hybridized: bool) -> None:
    arguments = ARGUMENTS.get(name, ())
    wanted = getattr(X, name[:-1])(*arguments)

    def step(x: hy.Tensor) -> hy.Tensor:
        return getattr(x, name)(*arguments)

    x = hy.asarray(A.copy())
    made = (hy.hybridize(step) if hybridized else step)(x)
    same(x, wanted)
    assert made is x


FILLED = {
    "copy_": ((hy.asarray([1, 2, 3]),), hy.asarray([[1.0, 2.0, 3.0]] * 2)),
    "fill_": ((3,), hy.full((2, 3), 3.0)),
    "zero_": ((), hy.zeros((2, 3))),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_fills(name: str, hybridized: bool) -> None:
    def step(x: hy.Tensor, *arguments: Any) -> hy.Tensor:
        return getattr(x, name)(*arguments)

    x = hy.asarray(A.copy())
    called = hy.hybridize(step) if hybridized else step
    if name in FILLED:
        arguments, wanted = FILLED[name]
        assert called(x, *arguments) is x
    else:
        hy.random.seed(3)
        wanted = getattr(hy.random, name[:-1])(size=(2, 3))
        hy.random.seed(3)
        assert called(x) is x
    same(x, wanted)


def test_gradients_flow_through_aliases() -> None:
    x = hy.asarray(A)
    x.requires_grad = True
    (x.view(6).unsqueeze(0).mul(2).clone().permute(1, 0).sub(1)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 3), 2.0))


def test_masked_select() -> None:
    np.testing.assert_array_equal(X.masked_select(MASK).numpy(), A[A > 1])


def test_tile() -> None:
    np.testing.assert_array_equal(X.tile(2, 1).numpy(), np.tile(A, (2, 1)))
    np.testing.assert_array_equal(X.tile((2, 1)).numpy(), np.tile(A, (2, 1)))


def test_requires_grad_and_detach() -> None:
    x = hy.asarray(A)
    assert x.requires_grad_() is x and x.requires_grad
    assert x.detach_() is x and not x.requires_grad
    assert not x.requires_grad_(False).requires_grad


def test_data_of_parameters_in_place() -> None:
    p = hy.nn.Parameter(A)
    p.data.fill_(1.0).mul_(3)
    p.data.clamp_(max=2.0)
    p.data.copy_(p.data.neg())
    assert p.requires_grad
    np.testing.assert_array_equal(p.numpy(), np.full((2, 3), -2.0))


REFUSED = {
    "repeat": (lambda: X.repeat(2, 1), ArgumentTypeError,
               "x.repeat means one thing in PyTorch and another in NumPy\nFix: write x.tile(...), "
               "which PyTorch's repeat is, or x.repeat_interleave(...) or hybrid.repeat(x, ...), "
               "which NumPy's is."),
    "both words": (lambda: X.unsqueeze(dim=0, axis=0), ArgumentTypeError,
                   "unsqueeze got dim and axis\nFix: give dim alone."),
    "integers": (lambda: hy.asarray([1]).mul_(0.5), DTypeError,
                 "the result of mul_, f32[1], cannot be written to i64[1]\n"
                 "A tensor keeps its type.\nFix: begin with x = x.astype(hybrid.float32), or bind "
                 "a new tensor to the name."),
    "mm": (lambda: X.mm(V), ShapeError,
           "mm cannot take f32[2,3] and f32[3]\nBoth must have 2 dimensions.\nFix: use matmul."),
    "rounding": (lambda: X.div(2, rounding_mode="up"), ArgumentTypeError,
                 "div got rounding_mode 'up'\nFix: give None, \"floor\" or \"trunc\"."),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, text = REFUSED[name]
    with pytest.raises(error) as found:
        call()
    assert str(found.value) == text


# What is refused because PyTorch's means more: (the call, the same with the advice followed).
ADVISED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "max": (lambda x: x.max(dim=1), lambda x: (x.max(axis=1), x.argmax(axis=1))),
    "min": (lambda x: x.min(dim=1), lambda x: (x.min(axis=1), x.argmin(axis=1))),
    "sort": (lambda x: x.sort(dim=1), lambda x: (x.sort(axis=1), x.argsort(axis=1))),
    "std": (lambda x: x.std(dim=1),
            lambda x: (x.std(dim=1, correction=1), x.std(dim=1, correction=0))),
    "var": (lambda x: x.var(dim=1),
            lambda x: (x.var(dim=1, correction=1), x.var(dim=1, correction=0))),
}  # fmt: skip


@pytest.mark.parametrize("name", ["std", "var"])
def test_one_correction(name: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"^{name} got correction and ddof"):
        getattr(X, name)(correction=1, ddof=0)


@pytest.mark.parametrize("name", ADVISED)
def test_advice_of_another_meaning_runs(name: str) -> None:
    refused, advised = ADVISED[name]
    with pytest.raises(ArgumentTypeError, match=f"^{name} got dim"):
        refused(X)
    function = {"std": np.std, "var": np.var}.get(name)
    if function is not None:
        expected = [function(A, axis=1, ddof=1), function(A, axis=1)]
    else:
        indices = {"max": np.argmax, "min": np.argmin, "sort": np.argsort}[name](A, axis=1)
        expected = [{"max": np.max, "min": np.min, "sort": np.sort}[name](A, axis=1), indices]
    for run in (advised, hy.hybridize(advised)):
        for found, true in zip(run(X), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), true, rtol=1e-6)
