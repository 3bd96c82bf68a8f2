"""Convolutions from prepared weights: the bits of those from weights as they are."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import float32, tensor_type
from hybrid.errors import NativeError, ShapeError
from hybrid.ir import Builder
from hybrid.ops.spatial.convolution import conv
from hybrid.ops.spatial.convolution_weights import conv_prepare, conv_prepared, is_prepared
from hybrid.ops.spatial.windows import window_counts
from hybrid.plan import make_plan
from tests.ops.altered_kernels import alter_kernels

# batch, channels, groups, results of a group, x, kernel, stride, padding, dilation
SHAPES = {
    "many blocks of tiles": (2, 16, 1, 13, (70, 66), (3, 3), (1, 1), (1, 1), (1, 1)),
    "few blocks of tiles": (1, 40, 1, 29, (14, 14), (3, 3), (1, 1), (1, 1), (1, 1)),
    "tiles of groups": (1, 24, 3, 9, (12, 13), (3, 3), (1, 1), (1, 1), (1, 1)),
    "as many results as tiles take": (1, 8, 1, 8, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one fewer": (1, 8, 1, 8, (9, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "channels too few for tiles": (1, 7, 1, 8, (12, 12), (3, 3), (1, 1), (1, 1), (1, 1)),
    "results too few for tiles": (1, 8, 1, 7, (12, 12), (3, 3), (1, 1), (1, 1), (1, 1)),
    "weights read in place": (1, 24, 1, 30, (14, 14), (3, 3), (2, 2), (1, 1), (1, 1)),
    "weights copied": (2, 24, 1, 30, (40, 44), (3, 3), (2, 2), (1, 1), (1, 1)),
    "pointwise": (1, 33, 1, 17, (20, 20), (1, 1), (1, 1), (0, 0), (1, 1)),
    "a product of columns": (7, 30, 1, 50, (3, 3), (3, 3), (1, 1), (1, 1), (1, 1)),
    "few columns": (1, 30, 1, 50, (3, 3), (3, 3), (1, 1), (1, 1), (1, 1)),
    "deep sums": (1, 500, 1, 20, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups": (2, 12, 3, 5, (20, 21), (5, 3), (1, 2), (2, 1), (1, 1)),
    "dilated": (1, 10, 1, 12, (30, 31), (3, 3), (1, 1), (2, 2), (2, 2)),
    "one axis": (2, 20, 1, 18, (100,), (5,), (1,), (2,), (1,)),
    "three axes": (1, 6, 1, 8, (6, 9, 10), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
}


def operands(name, dtype):
    """x, w and the attributes of a convolution."""
    batch, channels, groups, rows, sizes, kernel, stride, padding, dilation = SHAPES[name]
    pairs = [(n, n) for n in padding]
    size = window_counts("conv", "kernel", sizes, kernel, stride, pairs, dilation)
    random = np.random.default_rng(len(name))
    x = hy.asarray(random.standard_normal((batch, channels, *sizes)).astype(dtype))
    weight = (groups * rows, channels // groups, *kernel)
    w = hy.asarray(random.standard_normal(weight).astype(dtype))
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    return x, w, attrs


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHAPES)
def test_prepared_weights_give_the_bits_of_weights_as_they_are(name, dtype, threads):
    x, w, attrs = operands(name, dtype)
    assert is_prepared(x.type, w.type, attrs["groups"], attrs["size"])
    before = hy.num_threads()
    want = conv(x, w, **attrs)
    hy.set_num_threads(threads)
    try:
        p = conv_prepare(w, source=x.shape, **attrs)
        other = hy.zeros(w.shape, dtype=w.dtype)  # the values come from what is prepared alone
        got = conv_prepared(x, other, p, **attrs)
    finally:
        hy.set_num_threads(before)
    assert got.numpy().tobytes() == want.numpy().tobytes()
    again = conv_prepare(w, source=x.shape, **attrs)
    assert p.numpy().tobytes() == again.numpy().tobytes()


def test_few_channels_have_nothing_to_prepare():
    attrs = dict(stride=(1,), padding=(0,), dilation=(1,), groups=2, size=(3,))
    x = tensor_type(float32, (1, 4, 3))
    assert not is_prepared(x, tensor_type(float32, (4, 2, 1)), 2, (3,))
    assert is_prepared(x, tensor_type(float32, (6, 2, 1)), 2, (3,))
    with pytest.raises(ShapeError) as caught:
        conv_prepare(np.ones((4, 2, 1), np.float32), source=(1, 4, 3), **attrs)
    assert str(caught.value).startswith(
        "there is nothing to prepare in the convolution of f32[1,4,3] with f32[4,2,1]"
    )
    for shape in ((0, 4, 3), (1, 4, 0)):
        assert not is_prepared(
            tensor_type(float32, shape), tensor_type(float32, (6, 2, 1)), 2, (3,)
        )
    assert not is_prepared(x, tensor_type(float32, (6, 2, 1)), 2, (0,))


def test_what_is_prepared_has_to_fit():
    x, w, attrs = operands("few blocks of tiles", "float32")
    for p in (hy.zeros((5,)), hy.zeros((w.size,), dtype="float64"), w):
        with pytest.raises(ShapeError) as caught:
            conv_prepared(x, w, p, **attrs)
        assert str(caught.value).startswith(
            f"{p.type} is not what is prepared of {w.type} for {x.type}"
        )


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, 0, "stride 0, padding 0 or dilation 1 is out of range"),
        (9, 0, "0 groups do not divide the channels"),
        (9, 4, "4 groups do not divide the channels"),
        (9, 2, "axis 0 of operand 1 has size"),  # the room
        (9, 6, "weights of 2 channels are not prepared"),
        (9, 2**40, "groups do not divide the channels"),
        (10, -1, "negative or overflowing sizes are described"),
        (11, 2**62, "negative or overflowing sizes are described"),
        (13, 2**31, "axis 4 is too long"),
    ],
)
def test_the_kernel_refuses_attributes_that_do_not_fit(monkeypatch, at, value, message):
    def changed(inputs, outputs, attrs):
        attrs[at] = value
        return inputs, outputs, attrs

    alter_kernels(monkeypatch, conv_prepare, changed)
    channels = 2 if at == 9 and value == 6 else 16
    w = tensor_type(float32, (6, channels, 3, 3) if channels == 16 else (6, channels, 1, 1))
    kernel = w.shape[2:]
    builder = Builder("prepare")
    attrs = dict(
        source=(1, channels, 12, 12), stride=(1, 1), padding=tuple(n // 2 for n in kernel),
        dilation=(1, 1), groups=1, size=(12, 12),
    )  # fmt: skip
    made = builder.apply(conv_prepare, [builder.param(w)], attrs)
    with pytest.raises(NativeError, match=message):
        make_plan(builder.finish(made))
