"""The kernels on stacks of matrices: which layouts they refuse, whatever the op says of them."""

from __future__ import annotations

import pytest

from hybrid.core.types import float64, tensor_type
from hybrid.errors import NativeError
from hybrid.ir import Builder, get_op
from hybrid.plan import make_plan
from tests.ops.altered_kernels import alter_kernels

TALL, SQUARE = (2, 6, 4), (2, 4, 4)
# By name: the shapes of the inputs, and how many outputs there are.
KERNELS = {
    "cholesky": ([SQUARE], 1), "inv": ([SQUARE], 1), "det": ([SQUARE], 1),
    "slogdet": ([SQUARE], 2), "solve": ([SQUARE, (2, 4, 3)], 1), "qr": ([TALL], 2),
    "qr_complete": ([TALL], 2), "eigh": ([SQUARE], 2), "eigvalsh": ([SQUARE], 1),
    "svd": ([TALL], 3), "svd_full": ([TALL], 3), "svdvals": ([TALL], 1),
    "pinv": ([TALL, (2,)], 1), "cofactors": ([SQUARE], 1),
}  # fmt: skip
OPERANDS = [
    (name, at) for name, (inputs, outputs) in KERNELS.items() for at in range(len(inputs) + outputs)
]


def changed(at, change):
    """The operands of a kernel with ``change`` made to number ``at``, inputs first."""

    def altered(inputs, outputs, attrs):
        views = [*inputs, *outputs]
        views[at] = change(views[at])
        return views[: len(inputs)], views[len(inputs) :], attrs

    return altered


def refused(monkeypatch, name, at, change):
    op = get_op(name)
    alter_kernels(monkeypatch, op, changed(at, change))
    builder = Builder("refused")
    params = [builder.param(tensor_type(float64, shape)) for shape in KERNELS[name][0]]
    with pytest.raises(NativeError) as caught:
        make_plan(builder.finish(builder.apply(op, params, {})))
    return str(caught.value)


@pytest.mark.parametrize(("name", "at"), OPERANDS)
def test_another_stack(monkeypatch, name, at):
    text = refused(monkeypatch, name, at, lambda view: view.slice(0, 0, 1).expand(0).expand(0))
    assert "is not a stack of matrices like the others" in text


@pytest.mark.parametrize(("name", "at"), [pair for pair in OPERANDS if pair != ("pinv", 1)])
def test_another_size(monkeypatch, name, at):
    text = refused(monkeypatch, name, at, lambda view: view.slice(view.rank - 1, 0, 1))
    assert "has size" in text or "not dense" in text or "not a stack" in text


@pytest.mark.parametrize(("name", "at"), OPERANDS)
def test_what_is_not_dense(monkeypatch, name, at):
    def strided(view):
        return view.slice(0, 0, 1).broadcast((2, *view.shape[1:]))

    assert f"operand {at} is not dense" in refused(monkeypatch, name, at, strided)


@pytest.mark.parametrize("name", [n for n in KERNELS if KERNELS[n][0][0] == SQUARE])
def test_what_is_not_square(monkeypatch, name):
    def flat(view):
        return view.reshape((2, 2, 8))

    assert "has size" in refused(monkeypatch, name, 0, flat)


@pytest.mark.parametrize("name", KERNELS)
def test_no_matrices(monkeypatch, name):
    text = refused(monkeypatch, name, 0, lambda view: view.reshape((view.size,)))
    assert "no matrices" in text
