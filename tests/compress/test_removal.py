"""Networks that get smaller, and compute what the masked ones do."""

import copy

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import prune, quantize, remove
from hybrid.data.digits import load
from hybrid.errors import ArgumentError
from hybrid.models.gpt import GPT, Config
from hybrid.models.mobilenet import MobileNet, Stage
from hybrid.models.resnet import ResNet
from hybrid.models.unet import UNet
from hybrid.nn import functional as F
from tests.compress.networks import (
    CHANNELS,
    IMAGES,
    ROWS,
    Attention,
    Dense,
    Flat,
    Residual,
    Separable,
    drawn,
)


def shaken(model: nn.Module) -> nn.Module:
    """A model none of whose parameters and statistics is as it began."""
    generator = np.random.default_rng(1)
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.dtype.is_floating:
            noise = generator.uniform(0.05, 0.5, tensor.shape) * generator.choice([-1, 1])
            tensor.assign(hy.asarray((tensor.detach().numpy() + np.abs(noise)).astype(np.float32)))
    return model


def size(model: nn.Module) -> int:
    return sum(p.size for p in model.parameters())


def close(a: hy.Tensor, b: hy.Tensor) -> None:
    a, b = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * max(1.0, np.abs(a).max()))


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name", CHANNELS)
def test_the_smaller_network_computes_the_same(name: str, hybridized: bool) -> None:
    make, x = CHANNELS[name]
    model = shaken(make()).eval()
    prune(model, 0.4, structure="channel", example=x)
    before = model(x)
    smaller = remove(model, x)
    assert size(smaller) < 0.8 * size(model)
    assert not [key for key in smaller.state_dict() if key.endswith("_mask")]
    close((smaller.hybridize() if hybridized else smaller)(x), before)
    assert size(make()) == size(model)


def test_sizes_of_a_residual_network() -> None:
    model = Residual()
    prune(model, 0.5, structure="channel", scope="layer", example=IMAGES)
    smaller = remove(model, IMAGES)
    assert [tuple(p.shape) for p in smaller.parameters()] == [
        (4, 1, 3, 3), (4,), (4,), (6, 4, 3, 3), (6,), (6,), (4, 6, 3, 3), (4,), (4,), (10, 4),
        (10,),
    ]  # fmt: skip
    assert (smaller.stem.out_channels, smaller.conv1.in_channels) == (4, 4)
    assert (smaller.bn1.num_features, smaller.linear.in_features) == (6, 4)
    assert smaller.bn1.running_mean.shape == (6,)


def test_units_leave_recurrent_layers() -> None:
    """A unit leaves with its gates, in all layers and directions, for these have one size."""
    model = shaken(CHANNELS["deep"][0]()).eval()
    pruning = prune(model, 0.5, structure="channel", example=ROWS)
    weights = {name for name in pruning.masks if name.startswith("layer.weight")}
    suffixes = ("l0", "l0_reverse", "l1", "l1_reverse")
    assert weights == {f"layer.weight_{kind}_{s}" for kind in ("ih", "hh") for s in suffixes}
    smaller = remove(model, ROWS)
    layer, hidden = smaller.layer, smaller.layer.hidden_size
    assert hidden < 12 and layer.input_size == smaller.first.out_features < 10
    assert layer.weight_ih_l0.shape == (4 * hidden, layer.input_size)
    assert layer.weight_ih_l1_reverse.shape == (4 * hidden, 2 * hidden)
    assert layer.bias_hh_l1.shape == (4 * hidden,)
    assert smaller.last.in_features == 4 * hidden
    close(smaller(ROWS), model(ROWS))


def test_sizes_of_separable_convolutions() -> None:
    model = Separable()
    prune(model, 0.5, structure="channel", scope="layer", example=IMAGES)
    smaller = remove(model, IMAGES)
    depthwise, grouped = smaller.depthwise, smaller.grouped
    assert depthwise.in_channels == depthwise.groups == smaller.wide.out_channels
    assert depthwise.out_channels == 2 * depthwise.groups == grouped.in_channels < 16
    assert (grouped.groups, smaller.up.groups) == (4, 2)
    assert grouped.out_channels == smaller.up.in_channels
    assert smaller.last.out_channels == 3


def test_a_channel_is_a_block_of_a_flat_axis() -> None:
    model = Flat()
    pruning = prune(model, 0.5, structure="channel", scope="layer", example=IMAGES)
    kept = pruning.masks["0"].numpy()[:, 0, 0, 0] == 1
    before = model[4].weight.detach().numpy().reshape(20, 6, 9)
    rows = pruning.masks["4"].numpy()[:, 0] == 1
    smaller = remove(model, IMAGES)
    after = smaller[4].weight.detach().numpy().reshape(rows.sum(), kept.sum(), 9)
    np.testing.assert_array_equal(after, before[rows][:, kept])


def small_mobilenet() -> MobileNet:
    return MobileNet((Stage(1, 8, 1, 1), Stage(2, 12, 2, 2)), first=8, last=16)


@pytest.mark.parametrize(
    "make",
    [lambda: ResNet(1), small_mobilenet, lambda: UNet(1, (4, 8))],
    ids=["resnet", "mobilenet", "unet"],
)
def test_models_of_the_package(make) -> None:
    model = make().eval()
    prune(model, 0.5, structure="channel", example=IMAGES)
    smaller = remove(model, IMAGES)
    assert size(smaller) < 0.65 * size(model)
    close(smaller(IMAGES), model(IMAGES))


# Heads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [Attention, lambda: Attention(8), lambda: Attention(more=True)],
    ids=["own", "other", "kv"],
)  # fmt: skip
def test_heads_leave_attention(make) -> None:
    model, x = shaken(make()).eval(), drawn(2, 5, 12)
    pruning = prune(model, 0.4, structure="head", example=x)
    smaller = remove(model, x)
    layer = smaller.attention
    assert (layer.embed_dim, layer.num_heads, layer.head_dim) == (12, 2, 4)
    assert layer.out_proj.weight.shape == (12, 8)
    assert layer.in_proj_bias.shape == (24,)
    assert pruning.sparsity() == pytest.approx(1 / 3)
    close(smaller(x), model(x))
    close(copy.deepcopy(smaller).hybridize()(x), model(x))


def test_heads_leave_a_transformer() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model, x = shaken(nn.TransformerEncoder(layer, 2)).eval(), drawn(2, 5, 16)
    prune(model, 0.5, structure="head", example=x)
    smaller = remove(model, x)
    assert sum(layer.self_attn.num_heads for layer in smaller.layers) == 4
    close(smaller(x), model(x))


def test_heads_leave_a_gpt() -> None:
    model = shaken(GPT(Config(16, 8, 16, 4, 2))).eval()
    tokens = hy.asarray([[1, 2, 3, 4]])
    prune(model, 0.5, structure="head", scope="layer", example=tokens)
    smaller = remove(model, tokens)
    assert [block.attn.c_proj.weight.shape for block in smaller.h] == [(16, 8), (16, 8)]
    close(smaller(tokens), model(tokens))
    assert smaller(hy.asarray([[1, 2, 3, 4, 5, 6]])).shape == (1, 6, 16)


def test_heads_leave_an_encoder_and_a_decoder() -> None:
    model = shaken(nn.Transformer(16, 4, 1, 1, 32, batch_first=True)).eval()
    x, y = drawn(2, 5, 16), drawn(2, 4, 16)
    prune(model, 0.5, structure="head", scope="layer", example=(x, y))
    smaller = remove(model, x, y)
    layers = [m for m in smaller.modules() if isinstance(m, nn.MultiheadAttention)]
    assert [layer.num_heads for layer in layers] == [2, 2, 2]
    close(smaller(x, y), model(x, y))


# What silenced channels send ----------------------------------------------------------------------


class Sigmoids(nn.Module):
    """A silenced channel of it sends 0.5."""

    def __init__(self, bias: bool = True, padding: int = 0) -> None:
        self.first = nn.Conv2d(1, 6, 3)
        self.second = nn.Conv2d(6, 4, 3, bias=bias, padding=padding)
        self.last = nn.Linear(4, 3, bias=False)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = hy.sigmoid(self.second(hy.sigmoid(self.first(x))))
        return self.last(x.mean(axis=(2, 3)).reshape((x.shape[0], -1)))


def test_means_of_constants_are_constants() -> None:
    model = shaken(Sigmoids()).eval()
    prune(model, 0.5, structure="channel", scope="layer", example=IMAGES)
    smaller = remove(model, IMAGES)
    assert (smaller.first.out_channels, smaller.second.out_channels) == (3, 2)
    assert smaller.last.bias.shape == (3,)
    close(smaller(IMAGES), model(IMAGES))


@pytest.mark.parametrize("bias", [True, False])
def test_a_constant_goes_into_the_biases_of_what_reads_it(bias: bool) -> None:
    model = shaken(Sigmoids(bias)).eval()
    pruning = prune(model, 0.5, structure="channel", example=IMAGES, skip=["last", "second"])
    smaller = remove(model, IMAGES)
    assert smaller.first.out_channels == 3
    close(smaller(IMAGES), model(IMAGES))
    assert smaller.second.bias.requires_grad
    assert list(pruning.masks) == ["first", "first.bias"]


def test_a_constant_at_a_padded_border_stays() -> None:
    pruning = prune(Sigmoids(padding=1), 0.5, structure="channel", example=IMAGES)
    assert list(pruning.masks) == ["second", "second.bias"]
    assert (
        "first: 6 of 6 channels: they send it 0.5, which no bias can stand for (conv at "
        in repr(pruning)
    )


def test_what_cannot_leave_stays_as_zeros() -> None:
    model = Flat()
    prune(model, 0.95)
    model[6].weight_mask.assign(hy.zeros((10, 20)))
    smaller = remove(model, IMAGES)
    assert smaller[6].weight.shape[0] == 10
    close(smaller(IMAGES), model(IMAGES))


def test_an_example_that_the_model_cannot_take_leaves_it_as_it_was() -> None:
    model = Flat()
    prune(model, 0.5, structure="channel", example=IMAGES)
    with pytest.raises(hy.HybridError):
        remove(model, ROWS)
    assert "0.weight_mask" in model.state_dict()


class Numbered(nn.Module):
    """The author's code knows how many channels there are, once it is told to."""

    def __init__(self) -> None:
        self.first, self.second, self.fixed = nn.Linear(8, 6), nn.Linear(6, 4), False

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = F.relu(self.first(x))
        if self.fixed:
            x = x.reshape((3, 5, 6))
        return self.second(x)


def test_a_size_in_the_code_is_found_with_its_line() -> None:
    model = Numbered()
    model.fixed = True
    with pytest.raises(ArgumentError) as error:
        prune(model, 0.5, structure="channel", example=ROWS)
    assert "first: 6 of 6 channels: without them the model fails: " in str(error.value)
    assert "test_removal.py:" in str(error.value)
    model.fixed = False
    prune(model, 0.5, structure="channel", example=ROWS)
    model.fixed = True
    with pytest.raises(ArgumentError) as error:
        remove(model, ROWS)
    assert "what masks silence cannot be removed: without them the model fails: " in str(
        error.value
    )
    assert "x = x.reshape((3, 5, 6))" in str(error.value)


class Asserting(nn.Module):
    """The author's code insists on its size."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = F.relu(self.first(x))
        assert x.shape[-1] == 6, "six channels"
        return self.second(x)


def test_what_the_code_raises_is_told() -> None:
    with pytest.raises(ArgumentError) as error:
        prune(Asserting(), 0.5, structure="channel", example=ROWS)
    assert "without them the model fails: AssertionError: six channels" in str(error.value)
    assert "test_removal.py:" in str(error.value)


def test_hybridized_models_are_pruned_and_removed() -> None:
    model = shaken(Residual()).eval().hybridize()
    model(IMAGES)
    prune(model, 0.5, structure="channel", example=IMAGES)
    eager = copy.deepcopy(model).hybridize(False)(IMAGES)
    np.testing.assert_array_equal(model(IMAGES).detach().numpy(), eager.detach().numpy())
    close(remove(model, IMAGES)(IMAGES), eager)


class Places(nn.Module):
    """It reads the first channels, however many there are."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(8, 6), nn.Linear(3, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = F.relu(self.first(x))
        return self.second(x[..., :3])


def test_places_in_the_code_are_found() -> None:
    model = shaken(Places())
    pruning = prune(model, 0.99, structure="channel", example=ROWS)
    assert str(pruning.refused[0]).startswith(
        "first: 3 of 6 channels: without them the model fails"
    )
    assert pruning.masks["first.bias"].numpy().tolist() == [1, 1, 1, 0, 0, 0]
    smaller = remove(model, ROWS)
    assert smaller.first.out_features == 3
    close(smaller(ROWS), model(ROWS))


class Counting(nn.Module):
    """It counts its channels, once it is told to."""

    def __init__(self) -> None:
        self.first, self.second, self.counts = nn.Linear(8, 6), nn.Linear(6, 4), ""

    def forward(self, x: hy.Tensor) -> hy.Tensor | tuple[hy.Tensor, hy.Tensor]:
        x = F.relu(self.first(x))
        y = self.second(x)
        if self.counts == "in a number":
            return y / x.shape[-1]
        return (y, hy.zeros((x.shape[-1],))) if self.counts else y


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("in a number", "the smaller network would compute something else"),
        ("in a shape", "a result would be f32[3] instead of f32[6]"),
    ],
)
def test_what_counts_channels_is_found(counts: str, message: str) -> None:
    model = Counting()
    prune(model, 0.5, structure="channel", example=ROWS)
    model.counts = counts
    with pytest.raises(ArgumentError) as error:
        remove(model, ROWS)
    assert str(error.value) == f"what masks silence cannot be removed: {message}"
    model = Counting()
    model.counts = counts
    with pytest.raises(ArgumentError, match="first: 6 of 6 channels: "):
        prune(model, 0.5, structure="channel", example=ROWS)


# Trained ------------------------------------------------------------------------------------------


def small_cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip


def test_half_of_the_channels_of_a_cnn_fine_tuned() -> None:
    digits = load()
    images = hy.asarray(digits.train_images.reshape(-1, 1, 8, 8))
    labels = hy.asarray(digits.train_labels)
    tests = hy.asarray(digits.test_images.reshape(-1, 1, 8, 8))

    def trained(model: nn.Module, epochs: int, seed: int, lr: float) -> float:
        optimizer = hy.optim.Adam(model.parameters(), lr=lr)
        model.train()

        @hy.hybridize
        def step(x: hy.Tensor, y: hy.Tensor) -> None:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        generator = np.random.default_rng(seed)
        for _ in range(epochs):
            order = generator.permutation(1408).reshape(-1, 64)
            for rows in order:
                rows = hy.asarray(rows)
                step(hy.take(images, rows, axis=0), hy.take(labels, rows))
        model.eval()
        return 100 * float((model(tests).numpy().argmax(1) == digits.test_labels).mean())

    hy.random.seed(0)
    model = small_cnn()
    whole = trained(model, 4, 0, 0.01)
    prune(model, 0.5, structure="channel", scope="layer", example=tests)
    smaller = remove(model, tests)
    assert [smaller[0].out_channels, smaller[4].out_channels] == [6, 12]
    tuned = trained(smaller, 3, 1, 0.005)
    assert whole > 95
    assert tuned > whole - 3


def test_a_smaller_network_is_quantized_and_exported(tmp_path) -> None:
    model, x = shaken(Attention()).eval(), drawn(2, 5, 12)
    prune(model, 0.4, structure="head", example=x)
    made = quantize(remove(model, x))
    want = made(x)
    np.testing.assert_allclose(want.numpy(), model(x).detach().numpy(), rtol=0.05, atol=0.5)
    np.testing.assert_array_equal(copy.deepcopy(made).hybridize()(x).numpy(), want.numpy())
    path = tmp_path / "smaller.hyb"
    hy.export({"smaller": (made, x)}, path)
    np.testing.assert_array_equal(hy.load_exported(path)["smaller"](x).numpy(), want.numpy())


def test_a_smaller_network_is_saved_and_loaded(tmp_path) -> None:
    model = Dense().eval()
    prune(model, 0.5, structure="channel", example=IMAGES)
    smaller = remove(model, IMAGES)
    hy.save(smaller.state_dict(), tmp_path / "smaller.safetensors")
    other = copy.deepcopy(smaller)
    for parameter in other.parameters():
        parameter.assign(hy.zeros_like(parameter))
    other.load_state_dict(str(tmp_path / "smaller.safetensors"))
    np.testing.assert_array_equal(other(IMAGES).detach().numpy(), smaller(IMAGES).detach().numpy())
