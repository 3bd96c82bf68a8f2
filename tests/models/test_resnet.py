"""ResNets of the paper's section 4.2: depths, sizes, and shortcuts without parameters."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.models.resnet import Block, ResNet


@pytest.mark.parametrize(("blocks", "layers", "millions"), [(3, 20, 0.27), (5, 32, 0.46)])
def test_depth_and_size_are_those_of_the_paper(blocks, layers, millions) -> None:
    model = ResNet(blocks, channels=3)
    count = sum(p.size for p in model.parameters())
    assert round(count / 1e6, 2) == millions
    weighty = [m for m in model.modules() if isinstance(m, (hy.nn.Conv2d, hy.nn.Linear))]
    assert len(weighty) == layers
    assert blocks != 3 or count == 269722  # what published checkpoints of this network have


def test_names_are_those_of_published_checkpoints() -> None:
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{n}" for n in norm)]
    for group in (1, 2, 3):
        for block in range(3):
            for number in (1, 2):
                place = f"layer{group}.{block}"
                names += [f"{place}.conv{number}.weight"]
                names += [f"{place}.bn{number}.{n}" for n in norm]
    assert list(ResNet().state_dict()) == [*names, "linear.weight", "linear.bias"]


def test_images_are_halved_between_groups() -> None:
    table = hy.summary(ResNet(), hy.zeros((1, 1, 32, 32)))
    shapes = [table[name].result[0].shape for name in ("layer1", "layer2", "layer3")]
    assert shapes == [(1, 16, 32, 32), (1, 32, 16, 16), (1, 64, 8, 8)]


def test_shortcuts_take_every_other_pixel_and_pad_channels() -> None:
    x = hy.random.normal(size=(2, 4, 6, 6))
    found = Block(4, 8, 2).shortcut(x).numpy()
    assert found.shape == (2, 8, 3, 3)
    assert np.array_equal(found[:, 2:6], x.numpy()[:, :, ::2, ::2])
    assert not found[:, :2].any() and not found[:, 6:].any()
    assert Block(4, 4, 1).shortcut(x) is x


def test_a_block_that_learnt_nothing_passes_on_what_is_positive() -> None:
    block = Block(4, 4, 1)
    hy.nn.init.zeros_(block.bn2.weight)
    x = hy.random.normal(size=(2, 4, 6, 6))
    assert np.array_equal(block(x).numpy(), np.maximum(x.numpy(), 0))
