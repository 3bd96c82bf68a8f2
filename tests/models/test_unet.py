"""The U-Net: as large an output as its input, near and far pixels, and sizes that do not fit."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ShapeError
from hybrid.models.unet import UNet


@pytest.mark.parametrize(("height", "width"), [(32, 32), (8, 20), (4, 4)])
def test_masks_have_the_size_of_the_image(height, width) -> None:
    assert UNet(channels=3)(hy.zeros((2, 3, height, width))).shape == (2, 1, height, width)


def test_far_pixels_matter_through_the_lowest_level_only() -> None:
    hy.random.seed(0)
    model = UNet().eval()
    image = hy.random.normal(size=(1, 1, 32, 32))
    changed = hy.asarray(image.numpy().copy())
    changed[0, 0, 16, 16] = 3.0

    def reach(model):
        moved = abs(model(image) - model(changed)).numpy()[0, 0] > 0
        return np.argwhere(moved).min(0).tolist(), np.argwhere(moved).max(0).tolist()

    (top, left), (bottom, right) = reach(model)
    assert top < 6 and left < 6 and bottom > 26 and right > 26
    hy.nn.init.zeros_(model.rise[-1].weight)  # what comes from below to the whole image
    assert reach(model) == ([12, 12], [20, 20])  # four convolutions of three pixels


def test_images_that_cannot_be_halved_are_refused() -> None:
    with pytest.raises(ShapeError) as caught:
        UNet()(hy.zeros((1, 1, 30, 32)))
    assert str(caught.value) == (
        "UNet cannot take f32[1,1,30,32]\n"
        "With 3 widths, height and width must be multiples of 4.\n"
        "Fix: pad the images."
    )
