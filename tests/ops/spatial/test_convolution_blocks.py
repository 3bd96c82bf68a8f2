"""Convolutions of images in blocks of channels: the bits of those of images as they are."""

from importlib import import_module

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import float32, float64, tensor_type
from hybrid.errors import NativeError, ShapeError
from hybrid.ir import Builder
from hybrid.ops.spatial.convolution import conv
from hybrid.ops.spatial.convolution_blocks import (
    conv_blocked,
    conv_blocked_prepare,
    in_blocks,
    takes,
    takes_planes,
)
from hybrid.ops.spatial.windows import window_counts
from hybrid.plan import make_plan
from tests.ops.altered_kernels import alter_kernels

module = import_module("hybrid.ops.spatial.convolution_blocks")

# batch, channels, groups, results, x, kernel, stride, padding, dilation
SHAPES = {
    "many blocks of tiles": (2, 16, 1, 32, (90, 70), (3, 3), (1, 1), (1, 1), (1, 1)),
    "few blocks of tiles": (1, 48, 1, 80, (14, 15), (3, 3), (1, 1), (1, 1), (1, 1)),
    "tiles without padding": (2, 32, 1, 16, (13, 12), (3, 3), (1, 1), (0, 0), (1, 1)),
    "tiles beyond the edges": (1, 16, 1, 48, (7, 9), (3, 3), (1, 1), (4, 3), (1, 1)),
    "deep tiles": (1, 400, 1, 32, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "results too few for tiles": (1, 32, 1, 48, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "deep sums": (1, 512, 1, 32, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "strides": (1, 64, 1, 48, (28, 27), (3, 3), (2, 2), (1, 1), (1, 1)),
    "many blocks": (3, 32, 1, 32, (56, 50), (3, 3), (2, 1), (1, 1), (1, 1)),
    "other strides and dilations": (2, 16, 1, 64, (23, 29), (3, 2), (3, 4), (2, 5), (2, 3)),
    "long lines": (1, 256, 1, 16, (3, 700), (3, 3), (2, 2), (1, 1), (1, 1)),
    "pointwise": (2, 48, 1, 96, (13, 11), (1, 1), (1, 1), (0, 0), (1, 1)),
    "pointwise, many": (1, 64, 1, 32, (60, 61), (1, 1), (1, 1), (0, 0), (1, 1)),
    "pointwise, strides": (2, 32, 1, 16, (14, 15), (1, 1), (2, 2), (0, 0), (1, 1)),
    "pointwise, padded": (1, 16, 1, 16, (5, 6), (1, 1), (1, 1), (1, 2), (1, 1)),
    "few columns": (1, 32, 1, 64, (3, 3), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one result": (1, 32, 1, 16, (5, 4), (5, 4), (1, 1), (0, 0), (1, 1)),
    "planes": (2, 3, 1, 64, (56, 57), (7, 7), (2, 2), (3, 3), (1, 1)),
    "planes, odd": (1, 5, 1, 48, (19, 23), (4, 3), (3, 3), (2, 1), (1, 2)),
    "planes, few": (1, 1, 1, 16, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "planes, many channels": (1, 300, 1, 32, (9, 9), (2, 2), (1, 1), (0, 0), (1, 1)),
    "each alone": (2, 32, 32, 32, (29, 31), (3, 3), (1, 1), (1, 1), (1, 1)),
    "each alone, strides": (1, 48, 48, 48, (14, 13), (3, 3), (2, 2), (1, 1), (1, 1)),
    "each alone, dilated": (1, 16, 16, 16, (70, 75), (5, 3), (1, 3), (4, 2), (2, 3)),
    "each alone, narrow": (2, 64, 64, 64, (7, 7), (7, 7), (1, 1), (3, 3), (1, 1)),
    "groups of blocks": (2, 96, 2, 128, (14, 15), (3, 3), (2, 1), (1, 1), (1, 1)),
    "groups of blocks, tiles": (2, 96, 3, 144, (13, 20), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups of blocks, few tiles": (1, 64, 2, 160, (9, 9), (3, 3), (1, 1), (0, 2), (1, 1)),
    "groups of blocks, pointwise": (3, 160, 5, 80, (9, 11), (1, 1), (1, 1), (0, 0), (1, 1)),
    "groups of blocks, deep": (1, 512, 2, 64, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups of blocks, dilated": (2, 48, 3, 96, (23, 19), (2, 3), (3, 2), (4, 3), (2, 3)),
    "groups of blocks, in parts": (1, 32, 2, 32, (9, 13), (5, 5), (1, 1), (2, 2), (1, 1)),
    "groups of 16": (2, 48, 3, 48, (13, 27), (3, 3), (2, 2), (1, 1), (1, 1)),
    "groups of 16, tiles": (1, 64, 4, 64, (30, 43), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups of 8": (2, 48, 6, 48, (29, 33), (3, 3), (2, 2), (1, 1), (1, 1)),
    "groups of 8, tiles": (3, 32, 4, 32, (13, 29), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups of 8, no tiles": (1, 64, 8, 64, (7, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups of 8, wide": (1, 16, 2, 16, (5, 150), (3, 3), (1, 1), (2, 2), (1, 1)),
    "groups of 8, dilated": (2, 16, 2, 16, (23, 26), (3, 5), (3, 1), (4, 5), (1, 3)),
    "groups of 8, longest sums": (1, 16, 2, 16, (12, 14), (6, 8), (1, 1), (3, 3), (1, 1)),
    "groups of 4": (2, 32, 8, 32, (31, 25), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups of 4, strides": (1, 48, 12, 48, (14, 15), (3, 3), (1, 2), (1, 0), (1, 1)),
    "groups of 4, long strides": (2, 16, 4, 16, (14, 35), (3, 3), (2, 3), (1, 2), (1, 1)),
    "groups of 4, dilated": (1, 16, 4, 16, (19, 22), (3, 3), (1, 2), (2, 2), (2, 2)),
    "groups of 4, pointwise": (2, 64, 16, 64, (8, 7), (1, 1), (1, 1), (0, 0), (1, 1)),
    "groups of 4, pointwise, strides": (1, 32, 8, 32, (9, 27), (1, 1), (2, 2), (1, 1), (1, 1)),
    "groups of 4, one result": (1, 16, 4, 16, (3, 3), (3, 3), (1, 1), (0, 0), (1, 1)),
}


def operands(name):
    """x, w and the attributes of a convolution."""
    batch, channels, groups, rows, sizes, kernel, stride, padding, dilation = SHAPES[name]
    pairs = [(n, n) for n in padding]
    size = window_counts("conv", "kernel", sizes, kernel, stride, pairs, dilation)
    random = np.random.default_rng(len(name))
    x = random.standard_normal((batch, channels, *sizes)).astype(np.float32)
    w = random.standard_normal((rows, channels // groups, *kernel)).astype(np.float32)
    attrs = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, size=size)
    return x, w, attrs


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", SHAPES)
def test_blocks_have_the_bits_of_images_as_they_are(name, threads):
    x, w, attrs = operands(name)
    want = in_blocks(conv(x, w, **attrs).numpy())
    given = []
    if x.shape[1] % 16 == 0:
        given.append(np.ascontiguousarray(in_blocks(x)))
    if takes_planes(tensor_type(float32, w.shape), attrs, x.shape[0]):
        given.append(x)
    before = hy.num_threads()
    hy.set_num_threads(threads)
    try:
        p = conv_blocked_prepare(w, source=x.shape, **attrs)
        other = np.zeros_like(w)  # the values come from what is prepared alone
        got = [conv_blocked(one, other, p, **attrs).numpy() for one in given]
        again = conv_blocked_prepare(w, source=x.shape, **attrs)
    finally:
        hy.set_num_threads(before)
    assert given
    for y in got:
        assert y.tobytes() == want.tobytes()
    assert p.numpy().tobytes() == again.numpy().tobytes()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SHAPES)
def test_post_ops_are_applied_to_every_result_once(name, threads):
    x, w, attrs = operands(name)
    if x.shape[1] % 16 == 0:
        x = np.ascontiguousarray(in_blocks(x))
    else:
        assert takes_planes(tensor_type(float32, w.shape), attrs, x.shape[0])
    plain = (x.shape[0], x.shape[1] * 16, *x.shape[2:4]) if x.ndim == 5 else x.shape
    p = conv_blocked_prepare(w, source=plain, **attrs)
    y = conv_blocked(x, w, p, **attrs)
    random = np.random.default_rng(1)
    bias = random.standard_normal((1, y.shape[1], 1, 1, 16)).astype(np.float32)
    image = random.standard_normal(y.shape).astype(np.float32)
    want = np.maximum((y.numpy() + bias) + image, 0)

    def fused(x, w, p, bias, image):
        return hy.maximum(conv_blocked(x, w, p, **attrs) + bias + image, 0)

    before = hy.num_threads()
    hy.set_num_threads(threads)
    try:
        got = hy.hybridize(fused)(*map(hy.asarray, (x, w, p, bias, image)))
    finally:
        hy.set_num_threads(before)
    assert got.numpy().tobytes() == want.tobytes()


def test_what_cannot_be_in_blocks():
    attrs = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, size=(4, 4))
    x, w = tensor_type(float32, (1, 8, 4, 4)), tensor_type(float32, (32, 8, 1, 1))
    assert takes(x, w, attrs)
    assert not takes(x, tensor_type(float32, (24, 8, 1, 1)), attrs)
    assert not takes(x, tensor_type(float32, (32, 4, 1, 1)), {**attrs, "groups": 2})
    for groups, rows, channels, kernel, fits in (
        (2, 32, 48, 3, True), (4, 16, 32, 5, True), (2, 16, 24, 3, False), (2, 24, 16, 3, False),
        (16, 1, 1, 30, True), (4, 4, 4, 9, True), (4, 4, 4, 10, False), (2, 8, 8, 6, True),
        (2, 8, 8, 7, False), (16, 2, 2, 3, False), (4, 8, 4, 3, False), (4, 4, 8, 3, False),
    ):  # fmt: skip
        found = tensor_type(float32, (1, groups * channels, 4, 4))
        weight = tensor_type(float32, (groups * rows, channels, kernel, kernel))
        assert takes(found, weight, {**attrs, "groups": groups}) == fits
    assert not takes(x, w, {**attrs, "size": (4, 0)})
    assert not takes(tensor_type(float32, (0, 8, 4, 4)), w, attrs)
    assert not takes(tensor_type(float64, x.shape), tensor_type(float64, w.shape), attrs)
    with pytest.raises(ShapeError) as caught:
        conv_blocked_prepare(np.ones((24, 8, 1, 1), np.float32), source=x.shape, **attrs)
    assert str(caught.value) == (
        "the convolution of f32[1,8,4,4] with f32[24,8,1,1] has no results in blocks\n"
        "They are of float32, [N, C, H, W], with a multiple of 16 channels, and not empty; groups "
        "take and give multiples of 16, or 1, 4 or 8 in single chains.\n"
        "Fix: use conv."
    )


def test_tiles_and_groups_of_few_channels_read_blocks_alone():
    for name in ("few blocks of tiles", "each alone", "groups of 4", "groups of 16"):
        x, w, attrs = operands(name)
        p = conv_blocked_prepare(w, source=x.shape, **attrs)
        with pytest.raises(ShapeError) as caught:
            conv_blocked(x, w, p, **attrs)
        assert str(caught.value) == (
            f"conv_blocked cannot take {tensor_type(float32, x.shape)} with "
            f"{tensor_type(float32, w.shape)}\n"
            "Such a convolution reads blocks of channels.\n"
            "Fix: give x in blocks."
        )


def test_what_is_prepared_has_to_fit():
    x, w, attrs = operands("planes")
    for p in (hy.zeros((5,)), hy.zeros((w.size,), dtype="float64"), hy.asarray(w)):
        with pytest.raises(ShapeError) as caught:
            conv_blocked(x, w, p, **attrs)
        assert str(caught.value).startswith(f"{p.type} is not what is prepared of")


def refused(monkeypatch, op, change, *shapes, **attrs):
    """What the kernel says of ``op`` when ``change`` is made to its attributes."""

    def changed(inputs, outputs, attrs):
        for at, value in change.items():
            attrs[at] = value
        return inputs, outputs, attrs

    alter_kernels(monkeypatch, op, changed)
    builder = Builder("refused")
    params = [builder.param(tensor_type(float32, shape)) for shape in shapes]
    made = builder.apply(op, params, attrs)
    with pytest.raises(NativeError) as caught:
        make_plan(builder.finish(made))
    return str(caught.value)


PLAIN = dict(stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1, size=(12, 12))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: 0}, "stride 0, padding 1 or dilation 1 is out of range"),
        ({0: 2}, "there are two axes"),
        ({3: 1}, "there are two axes"),
        ({6: 2}, "there are two axes"),
        ({9: 0}, "0 groups do not divide the channels"),
        ({9: 4}, "4 groups of 16 channels do not fit in blocks"),
        ({9: 3}, "3 groups of 16 channels do not fit in blocks"),
        ({9: 2**40}, "too many channels"),
        ({10: -1}, "attribute 10 is out of range"),
        ({14: 2**31}, "attribute 14 is out of range"),
        ({10: 2**31 - 1, 11: 2**31 - 1, 12: 2**31 - 1}, "overflowing sizes are described"),
        ({2: 2}, "axis 0 of operand 1 has size"),  # not transformed: there is less room
    ],
)
def test_preparing_refuses_attributes_that_do_not_fit(monkeypatch, change, message):
    found = refused(
        monkeypatch, conv_blocked_prepare, change, (32, 16, 3, 3), source=(1, 16, 12, 12), **PLAIN
    )
    assert message in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({2: 0}, "stride 0, padding 1 or dilation 1 is out of range"),
        ({9: 4}, "4 groups of 16 channels do not fit in blocks"),
        ({9: 2}, "axis 0 of operand 2 has size"),
        ({1: 2}, "axis 0 of operand 2 has size"),  # not transformed: less is prepared
    ],
)
def test_the_kernel_refuses_attributes_that_do_not_fit(monkeypatch, change, message):
    shapes = (1, 1, 12, 12, 16), (32, 16, 3, 3), (16 * 528,)
    assert message in refused(monkeypatch, conv_blocked, change, *shapes, **PLAIN)


@pytest.mark.parametrize(
    ("groups", "shape"),
    [
        (8, (16, 2, 3, 3)),
        (2, (16, 4, 3, 3)),
        (2, (16, 8, 7, 7)),
        (3, (16, 8, 3, 3)),
        (2, (48, 16, 3, 3)),
        (2, (32, 8, 3, 3)),
    ],
)
def test_the_kernel_refuses_groups_that_do_not_fit(monkeypatch, groups, shape):
    """Whatever the op says of them."""
    monkeypatch.setattr(module, "_require", lambda *_: None)
    attrs = {**PLAIN, "groups": groups, "source": (1, groups * shape[1], 12, 12)}
    message = f"{groups} groups of {shape[1]} channels do not fit in blocks"
    assert message in refused(monkeypatch, conv_blocked_prepare, {}, shape, **attrs)


def test_special_items_stay_in_their_groups():
    """NaN and infinities reach the results of their own group alone, as eager code has them."""
    for name in ("groups of 4", "groups of 8", "groups of 8, tiles", "groups of 16, tiles"):
        x, w, attrs = operands(name)
        x[:, 1, 2::5, 3::7], x[:, -1, 1, 1] = np.inf, np.nan
        want = in_blocks(conv(x, w, **attrs).numpy())
        p = conv_blocked_prepare(w, source=x.shape, **attrs)
        got = conv_blocked(np.ascontiguousarray(in_blocks(x)), w, p, **attrs).numpy()
        assert got.tobytes() == want.tobytes()
        assert np.isnan(want).any() and np.isfinite(want).any()


def reshaped(at, shape):
    """The change of input (or, from 3 on, output) ``at`` to ``shape``."""

    def change(inputs, outputs, attrs):
        views = inputs if at < 3 else outputs
        views[at % 3] = views[at % 3].reshape(shape)
        return inputs, outputs, attrs

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (reshaped(0, (1, 12, 12, 16)), "x has 12 channels, and w is for 16"),
        (reshaped(0, (2, 1, 6, 12, 16)), "axis 0 of operand 3 has size 1"),
        (reshaped(0, (1, 2, 12, 12, 8)), "axis 4 of operand 0 has size 8"),
        (reshaped(0, (1, 1, 12, 192)), "x has 1 channels"),
        (reshaped(0, (16, 12, 12)), "operand 0 has rank 3 where the kernel takes 4"),
        (reshaped(1, (16, 32, 3, 3)), "axis 0 of operand 1 has size 16"),
        (reshaped(1, (144, 32, 1, 1)), "axis 0 of operand 1 has size 144"),
        (reshaped(2, (16, 528)), "operand 2 has rank 2"),
        (reshaped(3, (1, 4, 12, 12, 8)), "axis 4 of operand 3 has size 8"),
        (reshaped(3, (1, 2, 144, 16)), "operand 3 has rank 4"),
    ],
)
def test_the_kernel_refuses_operands_that_do_not_fit(monkeypatch, change, message):
    alter_kernels(monkeypatch, conv_blocked, change)
    builder = Builder("refused")
    shapes = ((1, 1, 12, 12, 16), (32, 16, 3, 3), (16 * 528,))
    params = [builder.param(tensor_type(float32, shape)) for shape in shapes]
    with pytest.raises(NativeError, match=message):
        make_plan(builder.finish(builder.apply(conv_blocked, params, PLAIN)))


def test_the_kernel_refuses_planes_where_it_reads_blocks(monkeypatch):
    change = reshaped(0, (1, 16, 12, 12))
    alter_kernels(monkeypatch, conv_blocked, change)
    builder = Builder("refused")
    shapes = ((1, 1, 12, 12, 16), (32, 16, 3, 3), (16 * 528,))
    params = [builder.param(tensor_type(float32, shape)) for shape in shapes]
    with pytest.raises(NativeError, match="such a convolution takes blocks of x"):
        make_plan(builder.finish(builder.apply(conv_blocked, params, PLAIN)))
