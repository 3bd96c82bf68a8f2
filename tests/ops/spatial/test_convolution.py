"""Convolutions: against loops over every product, at their edges, and what they refuse."""

import itertools

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from hybrid.nn import functional

RANDOM = np.random.default_rng(11)


def drawn(*shape, dtype=np.float64):
    return RANDOM.uniform(-1, 1, shape).astype(dtype)


def each(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def convolved(x, w, bias=None, *, stride=1, pairs=0, dilation=1, groups=1):
    """The definition, product by product; ``pairs`` are the paddings (before, after)."""
    rank = x.ndim - 2
    stride, dilation = each(stride, rank), each(dilation, rank)
    pairs = [(pairs, pairs)] * rank if isinstance(pairs, int) else pairs
    x = np.pad(x, [(0, 0), (0, 0), *pairs])
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *counts), x.dtype)
    rows, channels = w.shape[0] // groups, w.shape[1]
    for o in range(w.shape[0]):
        first = o // rows * channels
        for place in itertools.product(*map(range, counts)):
            at = tuple(
                slice(p * s, p * s + (k - 1) * d + 1, d)
                for p, s, k, d in zip(place, stride, w.shape[2:], dilation, strict=True)
            )
            window = x[(slice(None), slice(first, first + channels), *at)]
            y[(slice(None), o, *place)] = (window * w[o]).sum(tuple(range(1, rank + 2)))
    return y if bias is None else y + bias.reshape(-1, *(1,) * rank)


CASES = [
    (hy.conv1d, (2, 4, 9), (6, 2, 3), dict(stride=2, padding=1, groups=2)),
    (hy.conv1d, (2, 3, 9), (5, 3, 2), dict(dilation=3)),
    (hy.conv2d, (2, 3, 8, 9), (4, 3, 3, 2), dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2))),
    (hy.conv2d, (1, 6, 7, 7), (6, 1, 3, 3), dict(padding=1, groups=6)),
    (hy.conv2d, (2, 3, 8, 8), (33, 3, 5, 5), dict(padding=[2, 2])),
    (hy.conv3d, (2, 2, 4, 5, 6), (3, 2, 2, 3, 2), dict(stride=(1, 2, 1), padding=(1, 0, 2))),
]


@pytest.mark.parametrize(("function", "x", "w", "given"), CASES)
@pytest.mark.parametrize("biased", [False, True])
def test_a_convolution_is_its_definition(function, x, w, given, biased):
    x, w = drawn(*x), drawn(*w)
    bias = drawn(w.shape[0]) if biased else None
    rank = x.ndim - 2
    pairs = [(n, n) for n in each(given.get("padding", 0), rank)]
    rest = {name: value for name, value in given.items() if name != "padding"}
    want = convolved(x, w, bias, pairs=pairs, **rest)
    np.testing.assert_allclose(function(x, w, bias, **given).numpy(), want, atol=1e-12)


# Large enough that results are cut in blocks: images at a time, rows, channels, and long rows.
LARGE = [  # x, w, stride, padding, dilation, groups
    ((9, 6, 8, 8), (10, 6, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 3, 17, 33), (9, 3, 5, 4), (1, 1), (2, 0), (1, 2), 1),
    ((2, 5, 48, 50), (7, 5, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((3, 4, 31, 40), (6, 2, 2, 3), (3, 2), (0, 2), (1, 1), 2),
    ((2, 50, 19, 20), (13, 50, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 40, 60, 61), (5, 40, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((1, 2, 1, 60_000), (4, 2, 1, 3), (1, 1), (0, 1), (1, 1), 1),
    ((1, 2, 3, 9, 30_000), (3, 2, 2, 1, 2), (1, 1, 2), (0, 1, 1), (1, 1, 1), 1),
]


def summed(x, w, stride, padding, dilation, groups):
    """The definition, tap by tap: x, w -> y and, of a y, its products with x."""
    rank, rows = x.ndim - 2, w.shape[0] // groups
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in padding)])
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    pieces = np.split(x, groups, 1)
    found = []
    for tap in itertools.product(*map(range, w.shape[2:])):
        at = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(tap, dilation, counts, stride, strict=True)
        )
        found.append((tap, [piece[(slice(None), slice(None), *at)] for piece in pieces]))
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    for tap, pieces in found:
        for g, piece in enumerate(pieces):
            own = slice(g * rows, (g + 1) * rows)
            y[:, own] += np.einsum("nc...,oc->no...", piece, w[(own, slice(None), *tap)])

    def products(y):
        dw = np.zeros(w.shape)
        places = "xyz"[:rank]
        for tap, pieces in found:
            for g, piece in enumerate(pieces):
                own = slice(g * rows, (g + 1) * rows)
                dw[(own, slice(None), *tap)] = np.einsum(
                    f"nc{places},no{places}->oc", piece, y[:, own], optimize=True
                )
        return dw

    return y, products


@pytest.mark.parametrize(("x", "w", "stride", "padding", "dilation", "groups"), LARGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_ones_are_their_definition(x, w, stride, padding, dilation, groups, dtype):
    x, w = drawn(*x, dtype=dtype), drawn(*w, dtype=dtype)
    geometry = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    function = {4: hy.conv2d, 5: hy.conv3d}[x.ndim]
    expected, products = summed(x.astype(float), w.astype(float), **geometry)
    y, pull = hy.vjp(lambda x, w: function(x, w, **geometry), hy.asarray(x), hy.asarray(w))
    near = 2e-6 if dtype == np.float32 else 1e-14
    assert np.abs(y.numpy() - expected).max() <= near * np.abs(expected).max()
    ct = drawn(*y.shape, dtype=dtype)
    of_x, of_w = (t.numpy().astype(float) for t in pull(hy.asarray(ct)))
    grads = products(ct.astype(float))
    assert np.abs(of_w - grads).max() <= 10 * near * np.abs(grads).max()
    # The gradient of x is the transpose of a linear function: two ways to one number.
    whole = (expected * ct).sum()
    assert (of_x * x).sum() == pytest.approx(whole, rel=100 * near, abs=1000 * near)


def test_padding_by_words():
    x, w = drawn(1, 2, 7, 8), drawn(3, 2, 4, 3)
    same = hy.conv2d(x, w, padding="same", dilation=(1, 2)).numpy()
    want = convolved(x, w, pairs=[(1, 2), (2, 2)], dilation=(1, 2))
    np.testing.assert_allclose(same, want, atol=1e-12)
    assert same.shape[2:] == x.shape[2:]
    np.testing.assert_allclose(hy.conv2d(x, w, padding="valid").numpy(), convolved(x, w))


@pytest.mark.parametrize(
    ("function", "forward", "x", "w", "given"),
    [
        (hy.conv_transpose1d, hy.conv1d, (2, 4, 5), (4, 3, 3), dict(stride=2, padding=1)),
        (hy.conv_transpose1d, hy.conv1d, (2, 4, 5), (4, 1, 2), dict(stride=3, groups=2)),
        (hy.conv_transpose2d, hy.conv2d, (2, 3, 4, 5), (3, 4, 3, 2), dict(stride=2, dilation=2)),
        (hy.conv_transpose2d, hy.conv2d, (1, 6, 4, 5), (6, 1, 3, 3), dict(padding=1, groups=6)),
        (hy.conv_transpose3d, hy.conv3d, (1, 3, 2, 3, 4), (3, 2, 2, 3, 2), dict(stride=(1, 2, 1))),
    ],
)
def test_a_transposed_convolution_is_the_transpose(function, forward, x, w, given):
    """``<conv(u, w), x> == <u, conv_transpose(x, w)>`` for every u, so for each unit."""
    x, w = drawn(*x), drawn(*w)
    got = function(x, w, **given).numpy()
    rank = x.ndim - 2
    pairs = [(n, n) for n in each(given.get("padding", 0), rank)]
    rest = {name: value for name, value in given.items() if name != "padding"}
    for place in RANDOM.integers(0, got.shape, (12, got.ndim)):
        unit = np.zeros(got.shape)
        unit[tuple(place)] = 1
        want = (convolved(unit, w, pairs=pairs, **rest) * x).sum()
        np.testing.assert_allclose(got[tuple(place)], want, atol=1e-12)
    u = drawn(*got.shape)
    y = forward(u, w, **given).numpy()
    np.testing.assert_allclose((y * x).sum(), (u * got).sum(), rtol=1e-10)


def test_output_padding_adds_places_at_the_end():
    x, w, bias = drawn(1, 2, 4), drawn(2, 3, 3), drawn(3)
    short = hy.conv_transpose1d(x, w, bias, stride=2, padding=1).numpy()
    long = hy.conv_transpose1d(x, w, bias, stride=2, padding=1, output_padding=1).numpy()
    assert (short.shape, long.shape) == ((1, 3, 7), (1, 3, 8))
    np.testing.assert_array_equal(long[..., :7], short)
    want = (x[0, :, 3:] * w[:, :, 2]).sum(0) + bias
    np.testing.assert_allclose(long[0, :, 7], want)


def test_places_that_no_kernel_item_reaches_are_zero():
    x, w = drawn(1, 6, 3), drawn(6, 6, 1)
    got = hy.conv_transpose1d(x, w, stride=3).numpy()
    assert got.shape == (1, 6, 7)
    assert not got[..., [1, 2, 4, 5]].any() and got[..., [0, 3, 6]].all()


def test_an_input_without_a_batch():
    x, w, bias = drawn(3, 6, 6), drawn(4, 3, 3, 3), drawn(4)
    want = hy.conv2d(x[None], w, bias).numpy()[0]
    np.testing.assert_array_equal(hy.conv2d(x, w, bias).numpy(), want)
    back = drawn(3, 4, 3, 3)
    want = hy.conv_transpose2d(x[None], back, bias).numpy()[0]
    np.testing.assert_array_equal(hy.conv_transpose2d(x, back, bias).numpy(), want)


def test_an_empty_batch_gives_an_empty_result_and_zero_gradients():
    x, w = hy.zeros((0, 3, 5, 5)), hy.ones((4, 3, 3, 3))
    assert hy.conv2d(x, w).shape == (0, 4, 3, 3)
    assert hy.conv_transpose2d(hy.zeros((0, 4, 3, 3)), w).shape == (0, 3, 5, 5)
    gradient = hy.grad(lambda w: hy.sum(hy.conv2d(x, w)))(w)
    np.testing.assert_array_equal(gradient.numpy(), np.zeros((4, 3, 3, 3)))


def test_an_input_without_channels_gives_the_bias():
    got = hy.conv1d(hy.zeros((1, 0, 4)), hy.zeros((2, 0, 3)), hy.asarray([1.0, 2.0]))
    np.testing.assert_array_equal(got.numpy(), [[[1, 1], [2, 2]]])


SHAPES = [((4, 24, 20, 21), (40, 24, 3, 3), 1), ((5, 16, 33, 40), (16, 1, 3, 3), 16)]


@pytest.mark.parametrize(("x", "w", "groups"), SHAPES)
def test_threads_do_not_change_a_bit(x, w, groups):
    x, w = drawn(*x, dtype=np.float32), drawn(*w, dtype=np.float32)

    def everything():
        def loss(x, w):
            y = hy.conv2d(x, w, stride=(1, 2), padding=1, groups=groups)
            return hy.sum(y * y)

        found = [hy.conv2d(x, w, padding=1, groups=groups), *hy.grad(loss, (0, 1))(x, w)]
        return [y.numpy().tobytes() for y in found]

    before = hy.num_threads()
    try:
        hy.set_num_threads(1)
        alone = everything()
        hy.set_num_threads(3)
        assert everything() == alone
    finally:
        hy.set_num_threads(before)


def test_an_element_does_not_depend_on_the_others():
    """The same image at any place of a batch, and alone, gives the same bits."""
    for x, w, groups in SHAPES:
        x, w = drawn(*x, dtype=np.float32), drawn(*w, dtype=np.float32)
        together = hy.conv2d(x, w, groups=groups).numpy()
        for i in range(len(x)):
            alone = hy.conv2d(x[i], w, groups=groups).numpy()
            assert alone.tobytes() == together[i].tobytes()


def test_eager_and_hybridized_training_steps_have_the_same_bits():
    def step(x, w, v, bias):
        def loss(w, v, bias):
            y = hy.relu(hy.conv2d(x, w, bias, stride=2, padding=1))
            y = hy.conv_transpose2d(y, v, stride=2, output_padding=1)
            return hy.mean((y - x[:, :, :18, :18]) ** 2)

        return hy.value_and_grad(loss, (0, 1, 2))(w, v, bias)

    args = [
        hy.asarray(drawn(*shape, dtype=np.float32))
        for shape in [(2, 3, 18, 18), (8, 3, 3, 3), (8, 3, 1, 1), (8,)]
    ]
    eager, captured = step(*args), hy.hybridize(step)(*args)
    assert eager[0].numpy().tobytes() == captured[0].numpy().tobytes()
    for a, b in zip(eager[1], captured[1], strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_third_derivatives_exist():
    x, w = hy.asarray(drawn(1, 1, 5)), hy.asarray(drawn(1, 1, 3))

    def cube(w):
        return hy.sum(hy.conv1d(x, w) ** 3)

    def slope(order, w):
        return cube(w) if order == 0 else hy.sum(hy.grad(lambda w: slope(order - 1, w))(w))

    windows = np.lib.stride_tricks.sliding_window_view(x.numpy()[0, 0], 3)
    want = 6 * (windows.sum(1) ** 3).sum()
    np.testing.assert_allclose(slope(3, w).numpy(), want, rtol=1e-10)


def test_the_functions_of_nn_are_these():
    for name in ["conv1d", "conv2d", "conv3d"]:
        assert getattr(functional, name) is getattr(hy, name)
        transposed = name.replace("conv", "conv_transpose")
        assert getattr(functional, transposed) is getattr(hy, transposed)
    x, w = drawn(1, 2, 5), drawn(3, 2, 3)
    given = dict(input=x, weight=w, bias=None, stride=1, padding=0, dilation=1, groups=1)
    np.testing.assert_allclose(functional.conv1d(**given).numpy(), convolved(x, w))


def f32(*shape):
    return hy.zeros(shape)


X, W = f32(2, 4, 8, 8), f32(6, 4, 3, 3)
RANGE = "from 1 to 2147483647.\nFix: give sizes in that range."
REFUSED = [  # (name, call, error, text)
    (
        "rank of the input",
        lambda: hy.conv2d(f32(3, 4), W),
        ShapeError,
        "conv2d cannot take f32[3,4] as input\nIt must have 4 dimensions, or 3 without a batch.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        "rank of the weight",
        lambda: hy.conv1d(f32(1, 4, 8), W),
        ShapeError,
        "conv1d cannot take f32[6,4,3,3] as weight\nIt must have 3 dimensions, not 4.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        "channels",
        lambda: hy.conv2d(f32(2, 3, 8, 8), W),
        ShapeError,
        "conv2d cannot take f32[2,3,8,8] with weight f32[6,4,3,3]\n"
        "The weight is for 4 channels, and the input has 3.\n"
        "Fix: give a weight for as many channels, or other groups.",
    ),
    (
        "channels of the transpose",
        lambda: hy.conv_transpose2d(X, W),
        ShapeError,
        "conv_transpose2d cannot take f32[2,4,8,8] with weight f32[6,4,3,3]\n"
        "The weight is for 6 channels, and the input has 4.\n"
        "Fix: give a weight for as many channels, or other groups.",
    ),
    (
        "groups of the input",
        lambda: hy.conv2d(X, W, groups=3),
        ShapeError,
        "conv2d cannot split 4 channels of input in 3 groups\nGroups are equally large.\n"
        "Fix: give a number of groups that divides the channels.",
    ),
    (
        "groups of the weight",
        lambda: hy.conv2d(X, f32(6, 1, 3, 3), groups=4),
        ShapeError,
        "conv2d cannot split 6 channels of weight in 4 groups\nGroups are equally large.\n"
        "Fix: give a number of groups that divides the channels.",
    ),
    (
        "no groups",
        lambda: hy.conv2d(X, W, groups=0),
        ArgumentError,
        "conv2d got groups 0\nFix: give an int of at least 1.",
    ),
    (
        "bias",
        lambda: hy.conv2d(X, W, f32(4)),
        ShapeError,
        "conv2d cannot take f32[4] as bias\nIts shape must be [6].\n"
        "Fix: change its shape with reshape or broadcast_to.",
    ),
    (
        "kernel larger than the padded input",
        lambda: hy.conv2d(f32(1, 4, 2, 8), W, dilation=2, padding=1),
        ShapeError,
        "conv2d cannot take shape [2, 8] with a kernel [3, 3]\n"
        "Along spatial axis 0 a window spans 5 elements, and there are 4 with the padding.\n"
        "Fix: give a smaller one, or more padding.",
    ),
    (
        "stride 0",
        lambda: hy.conv2d(X, W, stride=0),
        ArgumentError,
        f"conv2d got stride (0, 0)\nEach must be {RANGE}",
    ),
    (
        "negative stride",
        lambda: hy.conv_transpose2d(X, f32(4, 2, 3, 3), stride=(1, -1)),
        ArgumentError,
        f"conv_transpose2d got stride (1, -1)\nEach must be {RANGE}",
    ),
    (
        "stride of another rank",
        lambda: hy.conv2d(X, W, stride=(1, 1, 1)),
        ArgumentError,
        "conv2d got stride (1, 1, 1)\nThere must be one for each spatial axis, or one for all.\n"
        "Fix: give an int, or a tuple of 2.",
    ),
    (
        "fractional stride",
        lambda: hy.conv2d(X, W, stride=1.5),
        ArgumentTypeError,
        "stride 1.5 is not a shape\nFix: give an int or a tuple of ints.",
    ),
    (
        "dilation 0",
        lambda: hy.conv2d(X, W, dilation=0),
        ArgumentError,
        f"conv2d got dilation (0, 0)\nEach must be {RANGE}",
    ),
    (
        "negative padding",
        lambda: hy.conv2d(X, W, padding=-1),
        ArgumentError,
        "conv2d got padding (-1, -1)\nEach must be from 0 to 2147483647.\n"
        "Fix: give sizes in that range.",
    ),
    (
        "padding that overflows",
        lambda: hy.conv2d(X, W, padding=2**62),
        ArgumentError,
        f"conv2d got padding ({2**62}, {2**62})\nEach must be from 0 to 2147483647.\n"
        "Fix: give sizes in that range.",
    ),
    (
        "a result that overflows",
        lambda: hy.conv2d(X, W, padding=2**31 - 1),
        ArgumentError,
        "conv got size (4294967300, 4294967300)\nEach must be from 0 to 2147483647.\n"
        "Fix: give sizes in that range.",
    ),
    (
        "a transposed result that overflows",
        lambda: hy.conv_transpose1d(f32(1, 2, 9), f32(2, 1, 1), stride=2**30),
        ShapeError,
        "conv_transpose1d cannot make spatial sizes [8589934593] of f32[1,2,9]\n"
        "Each must be from 1 to 2147483647, and come from an axis that is not empty.\n"
        "Fix: give less padding or a smaller stride, or an input of other sizes.",
    ),
    (
        "a transposed result of nothing",
        lambda: hy.conv_transpose1d(f32(1, 2, 2), f32(2, 1, 1), padding=1),
        ShapeError,
        "conv_transpose1d cannot make spatial sizes [0] of f32[1,2,2]\n"
        "Each must be from 1 to 2147483647, and come from an axis that is not empty.\n"
        "Fix: give less padding or a smaller stride, or an input of other sizes.",
    ),
    (
        "a word for the padding",
        lambda: hy.conv2d(X, W, padding="full"),
        ArgumentError,
        'conv2d got padding \'full\'\nFix: use "same", "valid", an int or a tuple of ints.',
    ),
    (
        "same with a stride",
        lambda: hy.conv2d(X, W, padding="same", stride=2),
        ArgumentError,
        'conv2d got padding "same" and stride (2, 2)\n'
        "A result as large as the input needs stride 1.\nFix: give the padding as numbers.",
    ),
    (
        "output padding",
        lambda: hy.conv_transpose1d(f32(1, 2, 4), f32(2, 1, 3), stride=2, output_padding=2),
        ArgumentError,
        "conv_transpose1d got output_padding (2,), stride (2,) and dilation (1,)\n"
        "The output padding must be smaller than the stride or the dilation.\n"
        "Fix: give a smaller one.",
    ),
    (
        "an empty kernel",
        lambda: hy.conv2d(X, f32(6, 4, 0, 3)),
        ArgumentError,
        f"conv2d got the kernel's sizes (0, 3)\nEach must be {RANGE}",
    ),
    (
        "two dtypes",
        lambda: hy.conv2d(X, hy.zeros((6, 4, 3, 3), dtype=hy.float64)),
        DTypeError,
        "conv2d cannot take f32[2,4,8,8] and f64[6,4,3,3]\n"
        "These operands must share one dtype.\nFix: convert them with astype.",
    ),
    (
        "integers",
        lambda: hy.conv2d(hy.zeros((2, 4, 8, 8), dtype=hy.int64), W),
        DTypeError,
        "conv2d cannot take i64[2,4,8,8] and f32[6,4,3,3]\n"
        "Its operand input must have a floating dtype; it has int64.\n"
        "Fix: convert it with astype, to float32 for example.",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "text"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
