"""Blocks of MobileNetV2: what they are made of, where they are added, and what they cost."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.models.mobilenet import InvertedResidual, MobileNet, Stage
from hybrid.nn import functional


@pytest.mark.parametrize(
    ("entering", "channels", "stride", "widening", "added"),
    [(8, 8, 1, 4, True), (8, 8, 1, 1, True), (8, 12, 1, 4, False), (8, 8, 2, 4, False)],
)
def test_a_block_is_its_formula(entering, channels, stride, widening, added) -> None:
    hy.random.seed(0)
    block = InvertedResidual(entering, channels, stride, widening).eval()
    for buffer in block.buffers():
        if buffer.dtype is hy.float32:
            buffer.assign(hy.random.uniform(0.5, 1.5, buffer.shape))
    x = hy.random.normal(size=(2, entering, 6, 6))
    *wide, narrow, last = block.conv
    y = x
    for convolution in wide:
        filters, norm, _ = convolution
        y = functional.conv2d(
            y, filters.weight, None, filters.stride, filters.padding, 1, filters.groups
        )
        y = hy.clip(norm(y), 0, 6)
    y = last(functional.conv2d(y, narrow.weight))
    expected = x + y if added else y
    np.testing.assert_allclose(block(x).numpy(), expected.numpy(), atol=1e-5)
    assert len(wide) == (1 if widening == 1 else 2)
    assert wide[-1][0].groups == entering * widening and block.added is added


def test_stages_are_rows_of_the_paper_s_table() -> None:
    model = MobileNet((Stage(1, 16, 1, 1), Stage(6, 24, 2, 2), Stage(6, 32, 3, 2)), classes=7)
    blocks = [m for m in model.modules() if isinstance(m, InvertedResidual)]
    assert [b.added for b in blocks] == [True, False, True, False, True, True]
    assert model(hy.zeros((2, 1, 32, 32))).shape == (2, 7)
    assert model.features(hy.zeros((1, 1, 32, 32))).shape == (1, 128, 8, 8)


def test_the_paper_s_network_has_its_size_and_published_names() -> None:
    model = MobileNet.of_the_paper().eval()
    state = model.state_dict()
    assert sum(p.size for p in model.parameters()) == 3_504_872
    shapes = {
        "features.0.0.weight": (32, 3, 3, 3),
        "features.1.conv.0.0.weight": (32, 1, 3, 3),
        "features.1.conv.1.weight": (16, 32, 1, 1),
        "features.2.conv.0.1.running_mean": (96,),
        "features.17.conv.2.weight": (320, 960, 1, 1),
        "features.18.0.weight": (1280, 320, 1, 1),
        "classifier.1.weight": (1000, 1280),
    }
    assert {name: state[name].shape for name in shapes} == shapes
    assert len(state) == 314
    assert model(hy.zeros((1, 3, 64, 64))).shape == (1, 1000)


def test_separable_filters_cost_a_fraction() -> None:
    image = hy.zeros((1, 64, 16, 16))
    whole = hy.summary(hy.nn.Conv2d(64, 64, 3, padding=1, bias=False), image)
    parts = hy.summary(InvertedResidual(64, 64, 1, 1), image)
    assert parts.parameters - 4 * 64 == 64 * 9 + 64 * 64 < whole.parameters / 7
