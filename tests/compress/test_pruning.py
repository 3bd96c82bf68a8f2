"""Masks: what goes, by which schedule, how masked models train, are saved, copied and captured."""

import copy
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import prepare_qat, prune, quantize, remove
from hybrid.compress.weights import KINDS, weights_of
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.models.gpt import GPT, Config


def perceptron(seed: int = 0) -> nn.Sequential:
    hy.random.seed(seed)
    return nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))


def weights(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in model.state_dict().items()}


def bits(tensor: hy.Tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


X = hy.asarray(np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32))

# What goes ----------------------------------------------------------------------------------------


def test_the_smallest_elements_of_all_layers_go() -> None:
    model = perceptron()
    before = weights(model)
    pruning = prune(model, 0.25)
    magnitudes = np.concatenate([np.abs(before[f"{i}.weight"]).ravel() for i in (0, 2)])
    limit = np.sort(magnitudes)[round(0.25 * magnitudes.size)]
    for layer in ("0", "2"):
        wanted = np.abs(before[f"{layer}.weight"]) >= limit
        np.testing.assert_array_equal(pruning.masks[layer].numpy(), wanted)
    assert pruning.sparsity() == pytest.approx(0.25)
    assert list(model.state_dict()) == [
        "0.weight", "0.bias", "0.weight_mask", "2.weight", "2.bias", "2.weight_mask",
    ]  # fmt: skip


def test_each_layer_loses_its_own_share() -> None:
    model = perceptron()
    pruning = prune(model, 0.5, scope="layer")
    assert [float(mask.mean().item()) for mask in pruning.masks.values()] == [0.5, 0.5]


def test_a_model_that_is_one_layer() -> None:
    assert list(prune(nn.Linear(4, 4), 0.5).masks) == ["weight"]


def test_two_of_four() -> None:
    model = nn.Sequential(nn.Conv2d(4, 3, 3), nn.Conv2d(3, 2, 1))
    before = weights(model)["0.weight"]
    pruning = prune(model, 0.5, structure="2:4")
    mask = pruning.masks["0"].numpy()
    np.testing.assert_array_equal(mask.sum(axis=1), 2)
    kept = np.where(mask == 1, np.abs(before), np.inf).min(axis=1)
    gone = np.where(mask == 0, np.abs(before), -np.inf).max(axis=1)
    assert (kept >= gone).all()
    assert [str(row) for row in pruning.refused] == ["1: its 3 inputs are no multiple of 4"]


def test_gradients_say_what_counts() -> None:
    model = perceptron()
    (model(X) ** 2).mean().backward()
    score = np.abs(weights(model)["2.weight"] * model[2].weight.grad.numpy())
    pruning = prune(model, 0.5, importance="gradient", scope="layer")
    mask = pruning.masks["2"].numpy()
    assert score[mask == 1].min() >= score[mask == 0].max()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.layer.__name__}-{kind.prefix}")
def test_every_kind_of_layer(kind) -> None:
    made = {
        "Linear": lambda: nn.Linear(4, 4),
        "Bilinear": lambda: nn.Bilinear(4, 4, 2),
        "_Direct": lambda: nn.Conv1d(4, 4, 3),
        "_Transposed": lambda: nn.ConvTranspose2d(4, 4, 2),
        "MultiheadAttention": lambda: nn.MultiheadAttention(
            8, 2, kdim=8 if kind.prefix == "in_proj_weight" else 4
        ),
        "_Recurrent": lambda: nn.LSTM(4, 4),
        "RNNCell": lambda: nn.RNNCell(4, 4),
        "LSTMCell": lambda: nn.LSTMCell(4, 4),
        "GRUCell": lambda: nn.GRUCell(4, 4),
    }[kind.layer.__name__]()
    found = weights_of(made)
    assert any(w.label.startswith(kind.prefix) and w.output == kind.output for w in found)
    pruning = prune(made, 0.5, structure="2:4")
    assert pruning.sparsity() == 0.5


def test_recurrent_layers_compute_with_their_masks() -> None:
    hy.random.seed(0)
    model = nn.LSTM(8, 3)
    x = hy.reshape(X, (5, 1, 8))
    prune(model, 0.6)
    eager = model(x)[0]
    removed = remove(model)
    assert type(removed) is nn.LSTM
    assert bits(removed(x)[0]) == bits(eager)
    assert bits(model.hybridize()(x)[0]) == bits(eager)


def test_tied_weights_have_one_mask() -> None:
    model = GPT(Config(16, 8, 16, 2, 1))
    tokens = hy.asarray([[1, 2, 3]])
    pruning = prune(model, 0.5)
    assert model.wte.weight_mask is model.lm_head.weight_mask is pruning.masks["wte"]
    twin = copy.deepcopy(model)
    assert twin.wte.weight_mask is twin.lm_head.weight_mask
    assert bits(remove(model)(tokens)) == bits(model(tokens))
    assert remove(model).lm_head.weight is not model.lm_head.weight


def test_what_is_no_layer_with_weights_is_listed() -> None:
    pruning = prune(GPT(Config(16, 8, 16, 2, 1)), 0.5)
    assert [str(row) for row in pruning.refused] == ["wpe: Embedding is no layer that is pruned"]


def test_a_name_that_is_taken() -> None:
    model = perceptron()
    model[2].weight_mask = 3
    with pytest.raises(ArgumentError) as error:
        prune(model, 0.5)
    assert str(error.value) == (
        "2 cannot get a mask: its Linear has an attribute 'weight_mask' already\n"
        "Fix: call that another name."
    )
    assert type(model[0]) is nn.Linear


def test_skipped_layers_stay_whole() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Linear(4, 4))
    assert list(prune(model, 0.5, skip=["0"]).masks) == ["1"]
    assert list(prune(copy.deepcopy(remove(model)), 0.5, skip="0.1").masks) == ["0.0", "1"]


# Over time ----------------------------------------------------------------------------------------


def test_the_schedule_is_that_of_zhu_and_gupta() -> None:
    model = perceptron()
    pruning = prune(model, 0.75, schedule=(0.25, 4))
    shares = [pruning.target] + [pruning.step() for _ in range(5)]
    wanted = [0.75 + (0.25 - 0.75) * (1 - min(t, 4) / 4) ** 3 for t in range(6)]
    np.testing.assert_allclose(shares, wanted)
    assert pruning.sparsity() == pytest.approx(0.75, abs=1 / 144)
    assert "75.0 % of the elements under masks are pruned:" in repr(pruning)


def test_what_is_pruned_stays_pruned() -> None:
    model = perceptron()
    pruning = prune(model, 0.8, schedule=(0.3, 2))
    first = pruning.masks["0"].numpy().copy()
    dict(model.named_parameters())["0.weight"].assign(hy.ones((12, 8)) * (2.0 - pruning.masks["0"]))
    pruning.step()
    assert not (pruning.masks["0"].numpy() > first).any()


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion"])
def test_masks_through_training(name: str, hybridized: bool) -> None:
    model = perceptron()
    pruning = prune(model, 0.75, schedule=(0.5, 2))
    optimizer = getattr(hy.optim, name)(model.parameters(), lr=0.01)
    labels = hy.asarray([0, 1, 2, 3, 0])

    def step() -> hy.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X), labels)
        loss.backward()
        optimizer.step()
        return loss

    run = hy.hybridize(step) if hybridized else step
    before = model[0].weight.numpy()
    for _ in range(3):
        run()
        pruning.step()
    mask = pruning.masks["0"].numpy()
    gradient = dict(model.named_parameters())["0.weight"].grad.numpy()
    now = model[0].weight.numpy()
    assert (now[mask == 0] == 0).all()
    assert (gradient[mask == 0] == 0).all()
    assert (now[mask == 1] != before[mask == 1]).any()
    assert mask.mean() < 0.5


def test_eager_and_hybridized_training_have_the_same_bits() -> None:
    def trained(hybridized: bool) -> list[bytes]:
        model = perceptron()
        pruning = prune(model, 0.6, schedule=(0.2, 3))
        optimizer = hy.optim.Adam(model.parameters(), lr=0.01)

        def step() -> hy.Tensor:
            optimizer.zero_grad()
            loss = (model(X) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = hy.hybridize(step) if hybridized else step
        losses = []
        for _ in range(4):
            losses.append(bits(run()))
            pruning.step()
        return [*losses, *map(bits, model.state_dict().values())]

    assert trained(True) == trained(False)


# State --------------------------------------------------------------------------------------------


def test_one_plan_serves_every_mask() -> None:
    model = perceptron().hybridize()
    pruning = prune(model, 0.9, schedule=(0.1, 2))
    model(X)
    for _ in range(2):
        pruning.step()
        assert bits(model(X)) == bits(copy.deepcopy(model).hybridize(False)(X))
    assert len(model.plans) == 1


def test_another_parameter_is_seen() -> None:
    model = perceptron().hybridize()
    prune(model, 0.5)
    model(X)
    model[0].weight = nn.Parameter(hy.ones((12, 8)))
    assert bits(model(X)) == bits(copy.deepcopy(model).hybridize(False)(X))


def test_saved_loaded_copied_pickled(tmp_path) -> None:
    model = perceptron()
    prune(model, 0.5)
    wanted = bits(model(X))
    assert bits(copy.deepcopy(model)(X)) == wanted
    assert bits(pickle.loads(pickle.dumps(model))(X)) == wanted
    hy.save(model.state_dict(), tmp_path / "model.safetensors")
    other = perceptron(1)
    prune(other, 0.5)
    other.load_state_dict(str(tmp_path / "model.safetensors"))
    assert bits(other(X)) == wanted
    assert repr(model[0]) == "MaskedLinear(in_features=8, out_features=12, bias=True)"
    assert isinstance(model[0], nn.Linear)


def test_parameters_are_drawn_anew_below_their_masks() -> None:
    model = perceptron()
    pruning = prune(model, 0.5)
    before = model[0].weight.numpy()
    model[0].reset_parameters()
    now = model[0].weight.numpy()
    assert (now != before).any()
    assert (now[pruning.masks["0"].numpy() == 0] == 0).all()


def test_other_dtypes() -> None:
    model = perceptron().bfloat16()
    pruning = prune(model, 0.5)
    assert pruning.masks["0"].dtype is hy.bfloat16
    model.float()
    assert model[0].weight.dtype is hy.float32
    assert remove(model)[0].weight.dtype is hy.float32


@pytest.mark.parametrize("structure", ["element", "2:4"])
def test_removal_keeps_the_bits(structure: str) -> None:
    model = perceptron()
    prune(model, 0.5, structure=structure)
    state = {name: bits(value) for name, value in model.state_dict().items()}
    removed = remove(model)
    assert list(removed.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert type(removed[0]) is nn.Linear
    assert float((removed[0].weight == 0).astype("float32").mean().item()) > 0.2
    assert bits(removed(X)) == bits(model(X))
    assert bits(removed.hybridize()(X)) == bits(model(X))
    assert {name: bits(value) for name, value in model.state_dict().items()} == state


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"structure": "row"}, "structure"),
        ({"importance": "taste"}, "importance"),
        ({"scope": "block"}, "scope"),
        ({"amount": 1.0}, "the amount is 1.0\nFix: give the share that goes, from 0"),
        ({"amount": -0.1}, "the amount is -0.1"),
        ({"amount": True}, "the amount is True"),
        ({"amount": 0.3, "structure": "2:4"}, 'structure "2:4" prunes one half at once'),
        ({"structure": "2:4", "schedule": (0.1, 2)}, 'structure "2:4" prunes one half at once'),
        ({"schedule": (1.5, 2)}, "the first share of the schedule is 1.5"),
        ({"schedule": (0.1, 0)}, "the schedule has 0 steps"),
        ({"skip": ["3"]}, "skip names '3', and the model has no such layer"),
        ({"skip": ["0", "2"]}, "nothing of Sequential can be pruned"),
        ({"importance": "gradient"}, 'importance "gradient" needs gradients'),
    ],
    ids=str,
)
def test_bad_input_leaves_the_model_as_it_was(given: dict, message: str) -> None:
    model = perceptron()
    state = {name: bits(value) for name, value in model.state_dict().items()}
    with pytest.raises(ArgumentError) as error:
        prune(model, **{"amount": 0.5, **given})
    assert message in str(error.value)
    assert {name: bits(value) for name, value in model.state_dict().items()} == state
    assert type(model[0]) is nn.Linear


def test_wrong_types() -> None:
    with pytest.raises(ArgumentTypeError, match="function is no module"):
        prune(lambda x: x, 0.5)
    with pytest.raises(ArgumentTypeError, match="a str is no module"):
        remove("model")
    with pytest.raises(ArgumentError, match="skip names 3, and the model has no such layer"):
        prune(perceptron(), 0.5, skip=[3])
    with pytest.raises(ArgumentTypeError, match="the schedule is 3"):
        prune(perceptron(), 0.5, schedule=3)


def test_pruning_twice_and_removing_nothing() -> None:
    model = perceptron()
    with pytest.raises(ArgumentError, match="Sequential has no masks\nFix: prune"):
        remove(model)
    prune(model, 0.5)
    for again in (lambda: prune(model, 0.5), lambda: quantize(model), lambda: prepare_qat(model)):
        with pytest.raises(ArgumentError) as error:
            again()
        assert str(error.value) == (
            "layer '0' is pruned already\nIt has masks, which are not final.\n"
            "Fix: make them so with remove(); step() of what prune() has returned prunes more."
        )
    with pytest.raises(ArgumentError, match="layer '0' is quantized already"):
        prune(quantize(remove(model)), 0.5)


def test_nan_is_neither_important_nor_unimportant() -> None:
    model = perceptron()
    with hy.no_grad():
        model[2].weight[0, 0] = float("nan")
    with pytest.raises(ArgumentError, match="2 holds NaN"):
        prune(model, 0.5)


def test_lists_of_parameters_are_not_read_through_masks() -> None:
    model = perceptron()
    model.extra = nn.ParameterList([model[0].weight])
    pruning = prune(model, 0.5)
    assert list(pruning.masks) == ["2"]
    assert "0: it is also held by a ParameterList or ParameterDict" in repr(pruning)
