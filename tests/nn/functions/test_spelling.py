"""PyTorch's words for arguments, and its order of those of losses."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentTypeError

F = nn.functional
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
WEIGHT = np.array([0.5, 2.0, 1.0], np.float32)
LOGITS, CLASSES = X[:, :, 0], np.array([2, 0])
SIGNS = np.sign(X + 0.01)
ROWS = X.reshape(6, 4)


def same(a, b):
    """The same types and bits."""
    a, b = (x if isinstance(x, tuple) else (x,) for x in (a, b))
    return all(p.dtype is q.dtype and p.numpy().tobytes() == q.numpy().tobytes() for p, q in
               zip(a, b, strict=True))  # fmt: skip


# By PyTorch's names: name, arguments in order, what else there is.
WORDS = {
    "batch_norm": ("input running_mean running_var weight bias", [X, *[WEIGHT] * 4]),
    "conv1d": ("input weight bias", [X, np.ones((2, 3, 2), np.float32), X[:, 0, 0]]),
    "cosine_similarity": ("x1 x2 dim eps", [X, X[::-1], 2, 1e-3]),
    "dropout": ("input p training", [X, 0.5, False]),
    "dropout1d": ("input p training", [X, 0.5, False]),
    "dropout2d": ("input p training", [X, 0.5, False]),
    "alpha_dropout": ("input p training", [X, 0.5, False]),
    "feature_alpha_dropout": ("input p training", [X, 0.5, False]),
    "gelu": ("input approximate", [X, "tanh"]),
    "glu": ("input dim", [X, -1]),
    "group_norm": ("input num_groups", [X, 3]),
    "hardshrink": ("input lambd", [X, 0.25]),
    "instance_norm": ("input", [X]),
    "layer_norm": ("input normalized_shape weight", [X[:, :, :3], (3,), WEIGHT]),
    "linear": ("input weight bias", [ROWS, np.ones((3, 4), np.float32), WEIGHT]),
    "log_softmax": ("input dim", [X, 1]),
    "logsigmoid": ("input", [X]),
    "normalize": ("input p dim", [X, 2.0, 1]),
    "one_hot": ("tensor num_classes", [CLASSES, 4]),
    "pairwise_distance": ("x1 x2 p eps keepdim", [ROWS, ROWS[::-1], 1.0, 0.5, True]),
    "prelu": ("input weight", [X, WEIGHT]),
    "rms_norm": ("input normalized_shape", [X, (4,)]),
    "rrelu": ("input lower upper", [X, 0.25, 0.5]),
    "sigmoid": ("input", [X]),
    "softmax": ("input dim", [X, 2]),
    "softmin": ("input dim", [X, 2]),
    "softplus": ("input beta threshold", [X, 2.0, 1.0]),
    "softshrink": ("input lambd", [X, 0.25]),
    "softsign": ("input", [X]),
    "tanh": ("input", [X]),
    "tanhshrink": ("input", [X]),
    **dict.fromkeys(["hardsigmoid", "hardswish", "mish", "relu", "relu6", "selu"], ("input", [X])),
    **dict.fromkeys(["silu", "hardtanh", "leaky_relu", "celu", "elu"], ("input", [X])),
    "threshold": ("input threshold value", [X, 0.5, 20.0]),
}  # fmt: skip


def given(values):
    return [hy.asarray(v) if isinstance(v, np.ndarray) else v for v in values]


@pytest.mark.parametrize("name", WORDS)
def test_arguments_by_name(name):
    """In PyTorch's order, all by its names, and any number of the first by place."""
    function, (words, values) = getattr(F, name), WORDS[name]
    words, values = words.split(), given(values)
    assert list(inspect.signature(function).parameters)[: len(words)] == words
    expected = function(*values)
    named = dict(zip(words, values, strict=True))
    for placed in range(len(words)):
        rest = {word: named[word] for word in reversed(words[placed:])}
        assert same(function(*values[:placed], **rest), expected), placed
    captured = hy.hybridize(lambda **named: function(**named))
    assert same(captured(**named), expected)
    with pytest.raises(TypeError):
        function(*values, nonsense=1)
    with pytest.raises(TypeError):
        function(**dict(list(named.items())[1:]))


def test_written_in_place():
    for name in ("celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_"):
        x, function = hy.asarray(X), getattr(F, name)
        assert function(x) is x and same(x, getattr(F, name[:-1])(hy.asarray(X)))
        assert function.__name__ == name and "inplace" not in inspect.signature(function).parameters
        assert pickle.loads(pickle.dumps(function)) is function
    x = hy.asarray(X)
    assert same(F.threshold_(x, 0.5, value=9.0), F.threshold(hy.asarray(X), 0.5, 9.0))


def test_gumbel_softmax_takes_the_argument_of_old():
    hy.random.seed(0)
    x = F.gumbel_softmax(hy.asarray(LOGITS), 1.0, True, 1e-10, -1)
    hy.random.seed(0)
    assert same(x, F.gumbel_softmax(logits=hy.asarray(LOGITS), hard=True, dim=1))


# Losses: PyTorch's order of options, and values that are not the defaults.
ORDERS = {
    "binary_cross_entropy": ([hy.sigmoid(hy.asarray(X)).numpy(), abs(SIGNS)], "BCELoss",
        "weight size_average reduce reduction", [X + 3, None, None, "sum"]),
    "binary_cross_entropy_with_logits": ([X, abs(SIGNS)], "BCEWithLogitsLoss",
        "weight size_average reduce reduction pos_weight", [X + 3, None, None, "sum", X + 4]),
    "cosine_embedding_loss": ([ROWS, ROWS[::-1], SIGNS.ravel()[:6]], "CosineEmbeddingLoss",
        "margin size_average reduce reduction", [0.1, None, None, "sum"]),
    "cross_entropy": ([LOGITS, CLASSES], "CrossEntropyLoss",
        "weight size_average ignore_index reduce reduction label_smoothing",
        [WEIGHT, None, 0, None, "none", 0.25]),
    "gaussian_nll_loss": ([X, X + 1, X + 3], "GaussianNLLLoss",
        "full eps reduction", [True, 1e-3, "sum"]),
    "hinge_embedding_loss": ([X, SIGNS], "HingeEmbeddingLoss",
        "margin size_average reduce reduction", [0.5, None, None, "sum"]),
    "huber_loss": ([X, X * X], "HuberLoss", "reduction delta", ["sum", 0.5]),
    "kl_div": ([X, abs(X)], "KLDivLoss",
        "size_average reduce reduction log_target", [None, None, "batchmean", True]),
    "l1_loss": ([X, X * X], "L1Loss", "size_average reduce reduction", [None, None, "none"]),
    "margin_ranking_loss": ([X, X * X, SIGNS], "MarginRankingLoss",
        "margin size_average reduce reduction", [0.5, None, None, "sum"]),
    "mse_loss": ([X, X * X], "MSELoss", "size_average reduce reduction", [None, None, "sum"]),
    "multi_margin_loss": ([LOGITS, CLASSES], "MultiMarginLoss",
        "p margin weight size_average reduce reduction", [2, 0.5, WEIGHT, None, None, "none"]),
    "multilabel_margin_loss": ([LOGITS, np.array([[0, 1, -1], [2, -1, -1]])],
        "MultiLabelMarginLoss", "size_average reduce reduction", [None, None, "none"]),
    "multilabel_soft_margin_loss": ([LOGITS, abs(SIGNS[:, :, 0])], "MultiLabelSoftMarginLoss",
        "weight size_average reduce reduction", [WEIGHT, None, None, "none"]),
    "nll_loss": ([LOGITS, CLASSES], "NLLLoss",
        "weight size_average ignore_index reduce reduction", [WEIGHT, None, 0, None, "sum"]),
    "poisson_nll_loss": ([X, abs(X)], "PoissonNLLLoss",
        "log_input full size_average eps reduce reduction",
        [False, True, None, 0.5, None, "none"]),
    "smooth_l1_loss": ([X, X * X], "SmoothL1Loss",
        "size_average reduce reduction beta", [None, None, "sum", 0.5]),
    "soft_margin_loss": ([X, SIGNS], "SoftMarginLoss",
        "size_average reduce reduction", [None, None, "sum"]),
    "triplet_margin_loss": ([ROWS, ROWS[::-1], ROWS * 2], "TripletMarginLoss",
        "margin p eps swap size_average reduce reduction",
        [0.5, 1.0, 1e-3, True, None, None, "sum"]),
}  # fmt: skip
OLD = ("size_average", "reduce")


@pytest.mark.parametrize("name", ORDERS)
def test_options_of_losses_in_order(name):
    """By place in PyTorch's order they mean what they mean by name, of functions and layers."""
    operands, layer, words, values = ORDERS[name]
    operands, words, values = given(operands), words.split(), given(values)
    named = {w: v for w, v in zip(words, values, strict=True) if w not in OLD}
    expected = getattr(F, name)(*operands, **named)
    for placed in range(len(values) + 1):
        rest = {word: named[word] for word in words[placed:] if word in named}
        assert same(getattr(F, name)(*operands, *values[:placed], **rest), expected), placed
        made = getattr(nn, layer)(*values[:placed], **rest)
        assert same(made(*operands), expected), placed
        assert same(copy.deepcopy(made).hybridize()(*operands), expected)
    absent = {word: None for word in words if word in OLD}
    assert same(getattr(nn, layer)(**named, **absent)(*operands), expected)
    with pytest.raises(TypeError):
        getattr(F, name)(*operands, *values, None)


@pytest.mark.parametrize("name", [n for n, row in ORDERS.items() if "reduce" in row[2]])
def test_words_of_old_are_refused(name):
    operands, layer, *_ = ORDERS[name]
    fix = 'That is a word of old for the reduction.\nFix: give reduction="mean", "sum" or "none".'
    with pytest.raises(ArgumentTypeError) as caught:
        getattr(F, name)(*given(operands), reduce=False)
    assert str(caught.value) == f"{name} got reduce=False\n{fix}"
    with pytest.raises(ArgumentTypeError) as caught:
        getattr(nn, layer)(size_average=True)
    assert str(caught.value).endswith(f" got size_average=True\n{fix}")
    assert getattr(nn, layer)(size_average="sum").reduction == "sum"


def test_an_option_given_twice():
    x = hy.asarray(X)
    with pytest.raises(ArgumentTypeError) as caught:
        F.mse_loss(x, x, None, None, "sum", reduction="sum")
    assert str(caught.value) == "mse_loss got reduction twice"
    with pytest.raises(ArgumentTypeError) as caught:
        nn.CrossEntropyLoss(None, None, 3, ignore_index=3)
    assert str(caught.value) == "CrossEntropyLoss got ignore_index twice"


TAKES_X = {"RMSNorm"}  # the only layer of PyTorch that calls its input so
OTHERS = ("Transformer", "ModuleList", "ModuleDict", "Parameter", "Module", "Loss", "Multihead")
LAYERS = [
    name
    for name, kind in vars(nn).items()
    if isinstance(kind, type) and issubclass(kind, nn.Module) and not name.startswith(OTHERS)
]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_call_their_input_so(name):
    first = list(inspect.signature(getattr(nn, name).forward).parameters)[1]
    known = ("input", "input1", "x1", "log_input", "log_probs", "anchor")
    assert first == "x" if name in TAKES_X else first in known


def test_layers_take_their_input_by_name():
    x = hy.asarray(ROWS)
    for layer in (nn.Linear(4, 2), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)), nn.LayerNorm(4)):
        expected = layer(x)
        assert same(layer(input=x), expected)
        assert same(layer.hybridize()(input=x), expected)
