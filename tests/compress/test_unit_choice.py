"""Which channels and heads go, and what says that it has to stay."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import prune, remove
from hybrid.errors import ArgumentError
from hybrid.models.gpt import GPT, Config
from hybrid.models.resnet import ResNet
from tests.compress.networks import IMAGES, ROWS, Attention, Dense, Flat, Gated, Residual, drawn


def kept(mask: hy.Tensor) -> list[int]:
    rows = mask.numpy().reshape(mask.shape[0], -1)
    assert ((rows == rows[:, :1]).all(axis=1)).all()
    return np.flatnonzero(rows[:, 0]).tolist()


def test_channels_that_are_added_leave_together() -> None:
    model = Residual()
    pruning = prune(model, 0.5, structure="channel", scope="layer", example=IMAGES)
    masks = pruning.masks
    assert kept(masks["stem"]) == kept(masks["conv2"]) == kept(masks["bn0"]) == kept(masks["bn2"])
    assert kept(masks["bn0.bias"]) == kept(masks["stem"])
    assert len(kept(masks["stem"])) == 4
    assert len(kept(masks["conv1"])) == 6
    score = np.abs(model.conv1.__dict__["weight"].detach().numpy()).mean(axis=(1, 2, 3))
    assert kept(masks["conv1"]) == sorted(np.argsort(score)[6:].tolist())
    assert "linear" not in masks


def test_channels_that_are_joined_leave_one_by_one() -> None:
    pruning = prune(Dense(), 0.5, structure="channel", example=IMAGES)
    assert {"conv1", "conv2", "conv3"} <= set(pruning.masks)


def test_heads_have_rows_of_all_three_projections() -> None:
    model = Attention()
    pruning = prune(model, 0.4, structure="head", example=drawn(2, 5, 12))
    rows = kept(pruning.masks["attention.in_proj_weight"])
    assert len(rows) == 24
    assert rows == kept(pruning.masks["attention.in_proj_bias"])
    assert rows[8:] == [row + 12 for row in rows[:8]] + [row + 24 for row in rows[:8]]


@pytest.mark.parametrize("round_to", [4, 16])
def test_sizes_are_multiples(round_to: int) -> None:
    hy.random.seed(0)
    model = nn.Sequential(
        nn.Linear(8, 40), nn.ReLU(), nn.Linear(40, 48), nn.ReLU(), nn.Linear(48, 3)
    )
    pruning = prune(model, 0.4, structure="channel", example=ROWS, round_to=round_to)
    sizes = [len(kept(pruning.masks[layer])) for layer in ("0", "2")]
    assert sizes[1] % round_to == 0
    assert sizes[0] % round_to == 0 or sizes[0] == 40
    assert sizes[1] < 48


def test_the_schedule_of_channels() -> None:
    model = Flat()
    pruning = prune(model, 0.75, structure="channel", schedule=(0.0, 3), example=IMAGES)
    gone = set()
    for _ in range(4):
        mask = pruning.masks["4"].numpy()
        assert gone <= set(np.flatnonzero(mask[:, 0] == 0).tolist())
        gone = set(np.flatnonzero(mask[:, 0] == 0).tolist())
        pruning.step()
    assert remove(model, IMAGES)[4].weight.size < 20 * 54 / 2


def test_one_channel_of_each_group_stays() -> None:
    pruning = prune(Flat(), 0.99, structure="channel", scope="layer", example=IMAGES)
    assert len(kept(pruning.masks["0"])) == len(kept(pruning.masks["4"])) == 1


def test_gradients_say_which_channels_count() -> None:
    model = Flat()
    (model(IMAGES) ** 2).mean().backward()
    weight = model[4].weight
    score = np.abs(weight.detach().numpy() * weight.grad.numpy()).mean(axis=1)
    pruning = prune(
        model, 0.5, structure="channel", scope="layer", importance="gradient", example=IMAGES
    )
    assert kept(pruning.masks["4"]) == sorted(np.argsort(score)[10:].tolist())


def test_skipped_layers_keep_their_channels() -> None:
    model = Residual()
    pruning = prune(model, 0.5, structure="channel", skip=["conv2"], example=IMAGES)
    assert "stem" not in pruning.masks
    assert "conv1" in pruning.masks
    assert "stem, conv2: 8 of 8 channels: conv2, which is skipped, has them, too" in repr(pruning)


# Refused ------------------------------------------------------------------------------------------


class Unending(nn.Module):
    """A loop that ends by a value."""

    def __init__(self) -> None:
        self.step, self.hidden, self.linear = nn.Linear(8, 8), nn.Linear(8, 5), nn.Linear(5, 2)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        h = self.step(x)
        while h.sum() > 100.0:
            h = 0.5 * h
        return self.linear(hy.relu(self.hidden(h)))


def test_loops_that_values_end_are_refused_with_the_line() -> None:
    pruning = prune(Unending(), 0.5, structure="channel", example=ROWS)
    assert list(pruning.masks) == ["hidden", "hidden.bias"]
    row = next(row for row in pruning.refused if row.layer == "step")
    assert row.op == "while"
    assert row.why == "8 of 8 channels: what its body does with the axis is not followed"
    assert "while h.sum() > 100.0" in row.at.text
    assert "(while at " in str(row)
    assert "test_unit_choice.py:" in str(row)


def test_a_state_that_is_a_result_keeps_its_units() -> None:
    class Stateful(nn.Module):
        def __init__(self) -> None:
            self.layer, self.last = nn.GRU(8, 6), nn.Linear(6, 2)

        def forward(self, x: hy.Tensor) -> tuple[hy.Tensor, hy.Tensor]:
            rows, h = self.layer(x)
            return self.last(rows[-1]), h

    with pytest.raises(ArgumentError) as error:
        prune(Stateful(), 0.5, structure="channel", example=ROWS)
    assert (
        "layer.weight_ih_l0, layer.weight_hh_l0: 6 of 6 channels: they are a result of the model"
        in str(error.value)
    )


def test_results_are_refused() -> None:
    with pytest.raises(ArgumentError) as error:
        prune(nn.Linear(8, 4), 0.5, structure="channel", example=ROWS)
    assert "nothing of Linear can be pruned:" in str(error.value)
    assert "weight: 4 of 4 channels: they are a result of the model" in str(error.value)


def test_norms_of_all_channels_are_refused() -> None:
    pruning = prune(Gated(), 0.5, structure="channel", example=ROWS)
    assert list(pruning.masks) == ["first", "first.bias"]
    row = next(row for row in pruning.refused if row.layer == "second")
    assert (row.op, row.why[:14]) == ("add", "8 of 8 channel") or row.op == "layer_norm"


def test_norms_of_groups_and_shuffled_pixels_are_refused() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 1), nn.PixelShuffle(2),
        nn.Conv2d(1, 6, 1), nn.ReLU(), nn.Conv2d(6, 2, 1),
    )  # fmt: skip
    pruning = prune(model, 0.5, structure="channel", example=IMAGES)
    assert list(pruning.masks) == ["4", "4.bias"]
    assert {row.layer: row.op for row in pruning.refused} == {
        "0": "reshape",
        "2": "reshape",
        "6": "",
    }


def test_channels_that_are_padded_stay() -> None:
    pruning = prune(ResNet(1), 0.5, structure="channel", example=IMAGES)
    row = next(row for row in pruning.refused if row.op == "pad")
    assert row.why == "48 of 64 channels: their number is in the author's code"


def test_single_features_of_heads_are_refused() -> None:
    pruning = prune(GPT(Config(16, 8, 16, 2, 1)), 0.5, structure="channel",
                    example=hy.asarray([[1, 2, 3]]))  # fmt: skip
    why = {row.layer: (row.op, row.why) for row in pruning.refused}
    assert why["h.0.attn.c_attn"] == (
        "reshape",
        "48 of 48 channels: it cuts the axis into several, and one place is no block of them",
    )
    assert list(pruning.masks) == ["h.0.mlp.c_fc", "h.0.mlp.c_fc.bias"]


class Axis(nn.Module):
    """Channels meet an axis of the input."""

    def __init__(self) -> None:
        self.linear = nn.Linear(8, 5)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return (self.linear(x) * x.mean(axis=-1)).sum(axis=-1)


def test_axes_of_the_input_are_refused() -> None:
    with pytest.raises(ArgumentError, match="linear: 5 of 5 channels: they are an axis of"):
        prune(Axis(), 0.5, structure="channel", example=drawn(5, 5, 8))


class Listed(nn.Module):
    def __init__(self) -> None:
        self.weights, self.linear = nn.ParameterList([drawn(6, 8)]), nn.Linear(6, 3)
        self.first = nn.Linear(8, 6, bias=False)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.linear(hy.relu(self.first(x) + x @ self.weights[0].mT))


def test_lists_of_parameters_are_refused() -> None:
    with pytest.raises(ArgumentError, match="a ParameterList or ParameterDict holds a parameter"):
        prune(Listed(), 0.5, structure="channel", example=ROWS)


FREE = drawn(1, 6)


class Outside(nn.Module):
    def __init__(self) -> None:
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 3)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.second(hy.relu(self.first(x)) * FREE)


def test_tensors_of_no_module_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"a tensor f32\[1,6\] that has them belongs to no"):
        prune(Outside(), 0.5, structure="channel", example=ROWS)


def test_there_are_no_heads() -> None:
    with pytest.raises(ArgumentError, match="nothing of Flat can be pruned"):
        prune(Flat(), 0.5, structure="head", example=IMAGES)


@pytest.mark.parametrize("structure", ["channel", "head"])
def test_an_example_is_needed(structure: str) -> None:
    with pytest.raises(ArgumentError) as error:
        prune(Flat(), 0.5, structure=structure)
    assert str(error.value) == (
        f'structure "{structure}" needs an example of what the model is given\n'
        "What leaves together is read from its graph.\n"
        "Fix: give example=x, or example=(x, y) for several arguments."
    )


@pytest.mark.parametrize("round_to", [0, 1.5, True])
def test_round_to_is_a_number(round_to) -> None:
    with pytest.raises(ArgumentError, match="round_to is "):
        prune(Flat(), 0.5, structure="channel", example=IMAGES, round_to=round_to)


def test_nan_is_neither_important_nor_unimportant() -> None:
    model = Flat()
    with hy.no_grad():
        model[4].weight[0, 0] = float("nan")
    with pytest.raises(ArgumentError, match="4 holds NaN"):
        prune(model, 0.5, structure="channel", example=hy.zeros((2, 1, 8, 8)))
