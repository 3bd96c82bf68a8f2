"""What only functions have: padding, dropout of all kinds, PyTorch's words, and their errors."""

from __future__ import annotations

import inspect
import math
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentError
from hybrid.nn import functional as F
from tests.helpers import same, tensor

X = np.random.default_rng(4).standard_normal((2, 3, 4, 5)).astype(np.float32)


# Padding -----------------------------------------------------------------------------------------

PADS = [  # what pad gets, and what it is in NumPy's words for axes 1 to 3
    ((1, 2), "constant", [(0, 0), (0, 0), (1, 2)]),
    ((1, 2, 0, 1, 2, 0), "constant", [(2, 0), (0, 1), (1, 2)]),
    ((3, 1, 2, 3), "reflect", [(0, 0), (2, 3), (3, 1)]),
    ((5, 1, 2, 3), "replicate", [(0, 0), (2, 3), (5, 1)]),
    ((5, 1, 4, 3), "circular", [(0, 0), (4, 3), (5, 1)]),
    ((0, 0, 1, 0), "circular", [(0, 0), (1, 0), (0, 0)]),
]
NUMPY = {"replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize(("widths", "mode", "pairs"), PADS)
def test_pad(widths, mode, pairs) -> None:
    found = F.pad(hy.asarray(X), widths, mode)
    wanted = np.pad(X, [(0, 0), *pairs], mode=NUMPY.get(mode, mode))
    np.testing.assert_array_equal(found.numpy(), wanted)
    captured = hy.hybridize(lambda x: F.pad(x, widths, mode))
    assert same(captured(hy.asarray(X)), found)
    hy.check_grads(lambda x: F.pad(x, widths, mode), X, order=2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_negative_widths_take_elements_away(mode) -> None:
    found = F.pad(hy.asarray(X), (-1, 2, 0, -1), mode)
    cut = X[:, :, :-1, 1:]
    wanted = np.pad(cut, [(0, 0)] * 3 + [(0, 2)], mode=NUMPY.get(mode, mode))
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_pad_values_and_dtypes() -> None:
    assert F.pad(hy.asarray([1, 2]), (1, 1), value=7).tolist() == [7, 1, 2, 7]
    assert F.pad(hy.asarray([True]), (0, 1)).tolist() == [True, False]
    assert F.pad(hy.asarray([1.0, 2.0]), (-1, 0)).tolist() == [2.0]


# Dropout -----------------------------------------------------------------------------------------

WHOLE = [  # (function, shape, the axes within which all elements share a draw)
    (F.dropout1d, (20, 30, 4), (2,)),
    (F.dropout1d, (60, 4), (1,)),
    (F.dropout2d, (20, 30, 3, 4), (2, 3)),
    (F.dropout2d, (20, 30, 4), (2,)),
    (F.dropout3d, (20, 30, 2, 2, 2), (2, 3, 4)),
    (F.dropout3d, (60, 2, 2, 2), (1, 2, 3)),
]


@pytest.mark.parametrize(("function", "shape", "axes"), WHOLE)
def test_whole_channels_are_dropped(function, shape, axes) -> None:
    hy.random.seed(0)
    x = hy.ones(shape)
    y = function(x, 0.25).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert (y.min(axes) == y.max(axes)).all()
    assert abs((y == 0).mean() - 0.25) < 0.15
    assert function(x, 0.25, False) is x and function(x, 0.0) is x
    assert not function(x, 1.0).numpy().any()


@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_variance(function) -> None:
    hy.random.seed(0)
    x = hy.random.normal(size=(300, 400, 3))
    y = function(x, 0.3, training=True).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    values, counts = np.unique(y, return_counts=True)
    assert abs(counts.max() / y.size - 0.3) < 0.02  # those that were dropped share one value
    floor = -1.7580993408473766
    scale = (0.7 * (1 + 0.3 * floor**2)) ** -0.5
    np.testing.assert_allclose(values[counts.argmax()], scale * floor * 0.7, rtol=1e-5)
    dropped = y == values[counts.argmax()]
    together = dropped.all(2).mean()
    assert abs(together - (0.3 if function is F.feature_alpha_dropout else 0.3**3)) < 0.02
    assert function(x, 0.3) is x
    assert not function(x, 1.0, training=True).numpy().any()


# PyTorch's words ---------------------------------------------------------------------------------


def test_dim_is_axis() -> None:
    x = hy.asarray(X)
    for function in (F.softmax, F.log_softmax, F.softmin, F.normalize):
        assert same(function(x, dim=1), function(x, axis=1))
    assert same(F.glu(x[:, :, :, :4], dim=2), F.glu(x[:, :, :, :4], 2))
    assert F.flatten(x, start_dim=1).shape == (2, 60)
    assert F.unflatten(x, dim=2, sizes=(2, 2)).shape == (2, 3, 2, 2, 5)
    assert F.cosine_similarity(x, x, dim=-1).shape == (2, 3, 4)
    assert F.pairwise_distance(x, x, keepdim=True).shape == (2, 3, 4, 1)
    hy.random.seed(1)
    first = F.gumbel_softmax(x, dim=1)
    hy.random.seed(1)
    assert same(first, F.gumbel_softmax(x, axis=1))
    with pytest.raises(TypeError) as caught:
        F.softmax(x, dim=1, axis=1)
    assert str(caught.value) == "softmax got dim and axis\nFix: give dim alone."
    for layer in (nn.Softmax, nn.GLU):
        with pytest.raises(TypeError, match=f"{layer.__name__} got dim and axis"):
            layer(1, axis=1)
    assert nn.Softmax(axis=0).dim == 0 and nn.Flatten(start_axis=0, end_axis=1).end_dim == 1


def test_softmax_of_a_dtype() -> None:
    x = hy.asarray(X)
    assert same(F.softmax(x, dim=1, dtype=hy.float64), F.softmax(hy.astype(x, hy.float64), 1))


@pytest.mark.parametrize("function", [F.relu, F.leaky_relu, F.hardtanh, F.elu, F.silu])
def test_in_place(function) -> None:
    x, alias = (t := hy.asarray(X.copy())), t
    y = function(x, inplace=True)
    assert y is x and same(alias, function(hy.asarray(X)))
    options = {F.leaky_relu: (0.1, True), F.hardtanh: (-1.0, 2.0, True), F.elu: (1.0, True)}
    z = hy.asarray(X.copy())
    assert function(z, *options.get(function, (True,))) is z
    leaf = tensor(5)
    leaf.requires_grad = True
    middle = leaf * 1
    hy.sum(function(middle, inplace=True) ** 2).backward()
    other = hy.asarray(leaf.numpy().copy())
    other.requires_grad = True
    hy.sum(function(other) ** 2).backward()
    assert same(leaf.grad, other.grad)


def test_dropout_in_place() -> None:
    x = hy.ones((50,))
    assert F.dropout(x, 0.5, inplace=True) is x and 0 < (x.numpy() == 0).sum() < 50
    assert nn.Dropout(1.0, inplace=True)(x) is x and not x.numpy().any()
    x = hy.asarray(X.copy())
    assert F.rrelu(x, training=True, inplace=True) is x
    assert F.rrelu(x, inplace=True) is x


def test_in_place_is_repeated_by_plans() -> None:
    layer = nn.ReLU(inplace=True).hybridize()
    for seed in range(3):
        x = tensor(4, seed=seed)
        wanted = hy.relu(x.detach() * 1)
        layer(x)
        assert same(x, wanted)


def test_signatures_tell_of_the_words() -> None:
    def names(function):
        return list(inspect.signature(function).parameters)

    assert names(F.relu) == ["input", "inplace"]
    assert names(F.hardtanh) == ["input", "min_val", "max_val", "inplace"]
    assert names(F.softmax) == ["input", "dim", "dtype"]
    assert names(F.pairwise_distance) == ["x1", "x2", "p", "eps", "keepdim"]


def test_functions_are_pickled_by_name() -> None:
    for function in (F.relu, F.softmax, F.gelu, F.leaky_relu, F.dropout, F.linear, F.mse_loss):
        assert pickle.loads(pickle.dumps(function)) is function


# Others ------------------------------------------------------------------------------------------


def test_one_hot_counts_classes() -> None:
    assert F.one_hot(hy.asarray([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(hy.asarray([1]), 2).tolist() == [[0, 1]]
    assert F.one_hot(hy.asarray([1]), 2, dtype=hy.float32).dtype is hy.float32


def test_upsample_is_interpolate() -> None:
    x = hy.asarray(X)
    assert same(F.upsample(x, scale_factor=2), F.interpolate(x, scale_factor=2))
    exact = F.interpolate(x, scale_factor=1.7, mode="bilinear")
    again = F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)
    assert not same(exact, again)
    assert same(again, F.interpolate(x, size=(6, 8), mode="bilinear"))


def test_max_unpool_undoes_max_pool() -> None:
    x = hy.asarray(X)
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(pooled, places, 2, output_size=x.shape).numpy()
    assert back.shape == X.shape
    kept = back != 0
    np.testing.assert_array_equal(back[kept], X[kept])
    assert kept.sum() == pooled.size
    alone = F.max_unpool2d(pooled[0], places[0], 2, output_size=(4, 5))
    np.testing.assert_array_equal(alone.numpy(), back[0])


def test_embedding_bounds_rows_that_are_looked_up() -> None:
    table = hy.asarray(np.array([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], np.float32))
    rows = F.embedding(hy.asarray([0, 1]), table, max_norm=1.0)
    np.testing.assert_allclose(rows.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    np.testing.assert_allclose(table.numpy(), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-5)
    before = table.numpy().copy()
    with pytest.raises(IndexError):
        F.embedding(hy.asarray([2, 3]), table, max_norm=1.0)
    np.testing.assert_array_equal(table.numpy(), before)


def test_embedding_layers_bound_and_pad() -> None:
    layer = nn.Embedding(4, 3, padding_idx=1, max_norm=0.5)
    assert not layer.weight.numpy()[1].any()
    rows = layer(hy.asarray([0, 1, 2]))
    assert np.linalg.norm(rows.numpy(), axis=1).max() <= 0.5 + 1e-6
    hy.sum(rows).backward()
    assert layer.weight.grad.tolist() == [[1.0] * 3, [0.0] * 3, [1.0] * 3, [0.0] * 3]
    twin = nn.Embedding(4, 3, max_norm=0.5).hybridize()
    twin.load_state_dict({"weight": hy.ones((4, 3))})
    twin(hy.asarray([0, 2]))
    norms = np.linalg.norm(twin.weight.numpy(), axis=1)
    np.testing.assert_allclose(norms, [0.5, 3**0.5, 0.5, 3**0.5], rtol=1e-5)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_tables_from_elsewhere(kind) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    layer = kind.from_pretrained(hy.asarray(rows), padding_idx=0)
    assert not layer.weight.requires_grad and layer.padding_idx == 0
    np.testing.assert_array_equal(layer.weight.numpy(), rows)
    assert kind.from_pretrained(rows, freeze=False).weight.requires_grad


@pytest.mark.parametrize("hybridized", [False, True])
def test_gradients_of_rows_by_how_often_they_are_read(hybridized) -> None:
    table, items = tensor(5, 3), hy.asarray([[0, 1, 4], [4, -3, 4]])
    layer = nn.Embedding(5, 3, padding_idx=1, scale_grad_by_freq=True, _weight=table)
    bag = nn.EmbeddingBag(5, 3, mode="sum", scale_grad_by_freq=True, _weight=table)
    for module in (layer, bag):
        plain = module(items)
        if hybridized:
            module.hybridize()
        assert same(module(items), plain)
        hy.sum(module(items) * 6).backward()
        assert module.weight.grad.tolist() == [[6.0 if i in (0, 2, 4) else 0.0] * 3 for i in (
            0, 1 if module is layer else 0, 2, 3, 4)]  # fmt: skip
        module.weight.grad = None


def test_embedding_bag_weights_and_padding() -> None:
    table = tensor(5, 3)
    items, scale = np.array([[1, 4, 4], [0, 1, 2]]), tensor(2, 3, seed=2)
    rows = table.numpy()[items]
    found = F.embedding_bag(items, table, mode="sum", per_sample_weights=scale)
    wanted = (rows * scale.numpy()[..., None]).sum(1)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    for mode, reduce in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        wanted = [reduce(table.numpy()[[1]], 0), reduce(table.numpy()[[0, 1, 2]], 0)]
        for given in ({}, {"offsets": [0, 3, 6], "include_last_offset": True}):
            flat = items.ravel() if given else items
            found = F.embedding_bag(flat, table, mode=mode, padding_idx=4, **given)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert F.embedding_bag(np.zeros((2, 0), int), table, mode="max").tolist() == [[0.0] * 3] * 2
    assert F.embedding_bag(np.zeros((0, 2), int), table).shape == (0, 3)
    assert F.embedding_bag(np.zeros(0, int), table, [0, 0]).tolist() == [[0.0] * 3] * 2


def test_transposed_convolutions_of_a_size() -> None:
    layer, x = nn.ConvTranspose2d(3, 2, 3, stride=2), hy.asarray(X)
    plain = layer(x)
    assert plain.shape == (2, 2, 9, 11)
    larger = layer(x, output_size=(10, 11))
    assert larger.shape == (2, 2, 10, 11) == layer(x, output_size=[2, 2, 10, 11]).shape
    np.testing.assert_array_equal(larger.numpy()[:, :, :9], plain.numpy())


ERRORS = [
    (
        lambda: F.pad(hy.asarray(X), (1, 2, 3)),
        "pad got 3 widths (1, 2, 3) for f32[2,3,4,5]\nThere are two for each axis, beginning with "
        "the last one.\nFix: give pairs (before, after) for as many axes as it has, or fewer.",
    ),
    (
        lambda: F.pad(hy.asarray(X), (-3, -3)),
        "pad cannot take 6 elements from 5 of f32[2,3,4,5]\nFix: take fewer.",
    ),
    (
        lambda: F.pad(hy.asarray(X), (5, 0), "reflect"),
        'pad cannot add 5 elements to 5 with mode "reflect"\nThere are 4 to repeat.\n'
        'Fix: add fewer, or use the mode "constant".',
    ),
    (
        lambda: F.pad(hy.asarray(X), (1, 0), "reflect", 2.0),
        'pad got value 2.0 and mode "reflect"\nOnly constant padding has a value.\n'
        "Fix: leave it out.",
    ),
    (
        lambda: F.pad(hy.asarray(X), (1, 0), "mirror"),
        "mode='mirror' is unknown\n"
        'Fix: use "constant" or "reflect" or "replicate" or "circular".',
    ),
    (
        lambda: F.dropout1d(hy.ones(3)),
        "dropout1d cannot take f32[3]\nIt must have 3, or 2 without a batch dimensions.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        lambda: F.dropout2d(hy.ones((3, 2))),
        "dropout2d cannot take f32[3,2]\nIt must have 4 dimensions.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        lambda: F.feature_alpha_dropout(hy.ones(3), training=True),
        "feature_alpha_dropout cannot take f32[3]\nIt takes [N, C, ...].\n"
        "Fix: add axes with expand_dims.",
    ),
    (
        lambda: F.one_hot(hy.asarray(np.zeros(0, int))),
        "one_hot got no indices\nFix: give num_classes.",
    ),
    (
        lambda: F.bilinear(tensor(2, 3), tensor(2, 4), tensor(5, 4, 3)),
        "bilinear cannot take f32[2,3] and f32[2,4] with weight f32[5,4,3]\nIt takes [..., in1], "
        "[..., in2] and [out, in1, in2].\nFix: change a shape.",
    ),
    (
        lambda: F.channel_shuffle(hy.asarray(X), 2),
        "channel_shuffle cannot make 2 groups of 3 channels\nAll groups have as many channels.\n"
        "Fix: give a divisor of the number of channels.",
    ),
    (
        lambda: F.max_unpool2d(hy.asarray(X), np.zeros((2, 3, 4, 4), int), 2),
        "max_unpool2d cannot take f32[2,3,4,5] with indices i64[2,3,4,4]\nThere is a place for "
        "each element.\nFix: give the indices that max pooling returned.",
    ),
    (
        lambda: F.embedding([0], tensor(2, 3), sparse=True),
        "embedding got sparse=True\nGradients of tables are dense here.\nFix: leave it out.",
    ),
    (
        lambda: F.embedding([0], np.ones((2, 3)), max_norm=1.0),
        "embedding cannot bound the rows of what is no tensor\nFix: pass a hybrid.Tensor.",
    ),
    (
        lambda: F.embedding_bag([0], tensor(2, 3)),
        "embedding_bag cannot take i64[1] with offsets None\nIt takes [bags, size] without "
        "offsets, or [items] with offsets [bags].\nFix: change the shape, or the offsets.",
    ),
    (
        lambda: F.embedding_bag([[0]], tensor(2, 3), per_sample_weights=[[1.0]]),
        'embedding_bag got per_sample_weights and mode "mean"\nFix: give them with mode "sum".',
    ),
    (
        lambda: F.embedding_bag([[0]], tensor(2, 3), mode="sum", per_sample_weights=tensor(2)),
        "embedding_bag cannot use per_sample_weights f32[2] for i64[1,1]\nThere is one for each "
        "index.\nFix: change a shape.",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message) -> None:
    with pytest.raises(hy.HybridError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("pos_weight", [None, 2.5])
@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
def test_losses_of_logits_at_their_tails(target: float, pos_weight: float | None) -> None:
    x = np.array([-80, -30, -14, -5, -1e-3, 0, 1e-3, 5, 17, 30, 80], np.float32)
    wide = x.astype(np.longdouble)
    goal, weight = np.longdouble(np.float32(target)), np.longdouble(pos_weight or 1.0)
    want = weight * goal * np.logaddexp(0, -wide) + (1 - goal) * np.logaddexp(0, wide)
    chance = 1 / (1 + np.exp(-wide))
    slope = (1 - goal) * chance - weight * goal * (1 / (1 + np.exp(wide)))

    def loss(x):
        given = None if pos_weight is None else hy.asarray(pos_weight)
        targets = hy.full(x.shape, target)
        return F.binary_cross_entropy_with_logits(x, targets, reduction="none", pos_weight=given)

    found = loss(hy.asarray(x))
    np.testing.assert_allclose(found.numpy(), want.astype(np.float64), rtol=3e-6)
    assert same(hy.hybridize(loss)(hy.asarray(x)), found)
    grad = hy.grad(lambda x: hy.sum(loss(x)))(hy.asarray(x))
    np.testing.assert_allclose(grad.numpy(), slope.astype(np.float64), rtol=1e-5, atol=1e-7)
    if pos_weight is None:
        many = F.multilabel_soft_margin_loss(hy.asarray(x), hy.full(x.shape, target))
        np.testing.assert_allclose(many.item(), float(want.mean()), rtol=3e-6)


def test_variances_that_count_as_eps_keep_their_gradient() -> None:
    var = np.array([1e-9, 0.5])
    loss = lambda v: F.gaussian_nll_loss(hy.ones(2), hy.zeros(2), v, reduction="sum")  # noqa: E731
    most = np.maximum(var, 1e-6)
    for grad in (hy.grad(loss), hy.hybridize(hy.grad(loss))):
        found = grad(hy.asarray(var))
        np.testing.assert_allclose(found.numpy(), 0.5 * (1 / most - 1 / most**2), rtol=1e-12)
    assert math.isclose(loss(hy.asarray(var)).item(), float(0.5 * (np.log(most) + 1 / most).sum()))


def test_power_averages_at_their_ends() -> None:
    x = hy.asarray([[[0.0, 0.0, 1.0, 2.0]]])
    grad = hy.grad(lambda x: hy.sum(F.lp_pool1d(x, 2.0, 2)))(x)
    np.testing.assert_allclose(grad.numpy(), [[[0, 0, 1 / 5**0.5, 2 / 5**0.5]]], rtol=1e-6)
    x = hy.asarray([[[1.0, -3.0, 2.0, 0.5]]])
    assert F.lp_pool1d(x, math.inf, 2).tolist() == [[[3.0, 2.0]]]
    with pytest.raises(ArgumentError, match="lp_pool1d got norm_type 0\nFix: give a number other"):
        F.lp_pool1d(x, 0, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_smooth_functions_at_infinities(dtype: str) -> None:
    x = hy.asarray([-math.inf, math.inf]).astype(getattr(hy, dtype))
    for name, want, slopes in (("softsign", [-1, 1], [0, 0]), ("mish", [0, math.inf], [0, 1])):
        function = getattr(F, name)
        for run in (function, hy.hybridize(function)):
            assert run(x).tolist() == want, name
        assert hy.grad(lambda x, f=function: hy.sum(f(x)))(x).tolist() == slopes


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_without_items_have_a_history(mode: str) -> None:
    table = nn.Parameter(tensor(5, 3))
    hy.sum(F.embedding_bag(np.zeros(0, int), table, [0, 0], mode=mode)).backward()
    assert table.grad.tolist() == [[0.0] * 3] * 5
