"""MLP-Mixer: patches, and what mixes with what."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError
from hybrid.models.mixer import Mixer, MixerBlock


def test_the_stem_sees_a_patch_at_a_time() -> None:
    model = Mixer(size=8, patch=4, width=6)
    image = hy.random.normal(size=(1, 1, 8, 8))
    weight = model.stem.weight.numpy().reshape(6, 16)
    patches = image.numpy().reshape(2, 4, 2, 4).transpose(0, 2, 1, 3).reshape(4, 16)
    expected = patches @ weight.T + model.stem.bias.numpy()
    found = model.stem(image).numpy().reshape(6, 4).T
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_one_half_mixes_patches_and_the_other_channels() -> None:
    block = MixerBlock(patches=5, channels=4, patch_hidden=7, hidden=9)
    x = hy.random.normal(size=(2, 5, 4))
    changed = hy.asarray(x.numpy().copy())
    changed[0, 3] = changed[0, 3] + hy.asarray([1.0, -1.0, 2.0, 0.0])

    def moved():
        return (block(x) != block(changed)).numpy()

    assert moved()[0].all() and not moved()[1].any()
    hy.nn.init.zeros_(block.mlp_tokens.fc2.weight)
    assert moved()[0, 3].all() and not moved()[0, :3].any()


def test_patches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        Mixer(size=16, patch=5)
    assert str(caught.value) == (
        "images of 16 pixels are not cut into patches of 5\n"
        "Fix: give a patch that divides the size."
    )
