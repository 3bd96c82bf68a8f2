"""What layers refuse, when they are made or called, and what they say."""

from __future__ import annotations

import pytest

import hybrid as hy
from hybrid import nn
from tests.helpers import tensor

SHAPE = "Fix: change its shape, or use the layer for as many axes."
ERRORS = [
    (lambda: nn.Conv2d(-1, 2, 3), "in_channels is -1\nFix: give an int >= 0."),
    (lambda: nn.Conv2d(3, 2, 3, groups=0), "groups is 0\nFix: give an int >= 1."),
    (
        lambda: nn.Conv2d(3, 2, 3, groups=2),
        "Conv2d got in_channels 3 and groups 2\nAll groups have as many channels.\n"
        "Fix: give a number of groups that divides both numbers of channels.",
    ),
    (
        lambda: nn.Conv1d(3, 2, (3, 3)),
        "Conv1d got kernel_size (3, 3)\nThere must be one for each spatial axis, or one for all.\n"
        "Fix: give an int, or a tuple of 1.",
    ),
    (
        lambda: nn.Conv3d(3, 2, 3, padding_mode="mirror"),
        "padding_mode='mirror' is unknown\n"
        'Fix: use "zeros" or "reflect" or "replicate" or "circular".',
    ),
    (
        lambda: nn.Conv2d(3, 2, 3, stride=2, padding="same"),
        'Conv2d got padding "same" and stride (2, 2)\nA result as large as the input needs stride '
        "1.\nFix: give the padding as numbers.",
    ),
    (
        lambda: nn.Conv2d(3, 2, 3)(tensor(1, 4, 5, 5)),
        "conv2d cannot take f32[1,4,5,5] with weight f32[2,3,3,3]\n"
        "Conv2d(3, 2, kernel_size=(3, 3), stride=(1, 1)) got f32[1,4,5,5]; it takes [N, 3, "
        "H, W] or [3, H, W]\n"
        "Fix: make it Conv2d(in_channels=4, ...), or change the shape of what it is given.",
    ),
    (
        lambda: nn.ConvTranspose2d(3, 2, 3, padding="same"),
        "ConvTranspose2d got padding 'same' and padding_mode 'zeros'\nIts padding takes elements "
        "of the result away, as many as are given.\nFix: give numbers, and the padding_mode "
        '"zeros".',
    ),
    (
        lambda: nn.ConvTranspose1d(3, 2, 3, stride=2)(tensor(1, 3, 4), output_size=(11,)),
        "ConvTranspose1d got output_size (11,)\nOf f32[1,3,4] it can make (9,) to (10,).\n"
        "Fix: give sizes in that range.",
    ),
    (
        lambda: nn.BatchNorm2d(3)(tensor(2, 3, 4)),
        "BatchNorm2d cannot take f32[2,3,4]\n"
        "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True) got "
        "f32[2,3,4]; it takes [N, 3, H, W]\n"
        "Fix: change the shape of what it is given, or use the layer for as many axes.",
    ),
    (
        lambda: nn.BatchNorm1d(3)(tensor(3)),
        "BatchNorm1d cannot take f32[3]\n"
        "BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True) got "
        "f32[3]; it takes [N, 3] or [N, 3, L]\n"
        "Fix: change the shape of what it is given, or use the layer for as many axes.",
    ),
    (
        lambda: nn.InstanceNorm3d(3)(tensor(2, 3, 4)),
        "InstanceNorm3d cannot take f32[2,3,4]\n"
        "InstanceNorm3d(3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False) "
        "got f32[2,3,4]; it takes [N, 3, D, H, W] or [3, D, H, W]\n"
        "Fix: change the shape of what it is given, or use the layer for as many axes.",
    ),
    (
        lambda: nn.LayerNorm(()),
        "LayerNorm got normalized_shape ()\nFix: give the sizes of one axis at least.",
    ),
    (
        lambda: nn.GroupNorm(2, 3),
        "GroupNorm cannot make 2 groups of 3 channels\nAll groups have as many channels.\n"
        "Fix: give a divisor of the number of channels.",
    ),
    (lambda: nn.LocalResponseNorm(0), "size is 0\nFix: give an int >= 1."),
    (
        lambda: nn.MaxPool2d(0),
        "MaxPool2d got kernel_size (0, 0)\nEach must be from 1 to 2147483647.\n"
        "Fix: give sizes in that range.",
    ),
    (
        lambda: nn.AvgPool1d(2, ceil_mode=1),
        "AvgPool1d got ceil_mode 1\nFix: give True or False.",
    ),
    (
        lambda: nn.AdaptiveAvgPool2d((1, 2, 3)),
        "AdaptiveAvgPool2d got output_size (1, 2, 3)\nThere must be one for each spatial axis, or "
        "one for all.\nFix: give an int, or a tuple of 2.",
    ),
    (
        lambda: nn.LPPool1d("2", 3),
        "LPPool1d got norm_type '2'\nFix: give a number.",
    ),
    (
        lambda: nn.Embedding(3, 2, padding_idx=3),
        "Embedding got padding_idx 3\nThe table has 3 rows.\nFix: give the index of one of them.",
    ),
    (
        lambda: nn.Embedding(3, 2, sparse=True),
        "Embedding got sparse=True\nGradients of tables are dense here.\nFix: leave it out.",
    ),
    (
        lambda: nn.Embedding(3, 2, _weight=tensor(2, 3)),
        "Embedding cannot use f32[2,3] as its weight\nIt must be [3, 2].\n"
        "Fix: change its shape, or the numbers.",
    ),
    (
        lambda: nn.Embedding.from_pretrained(tensor(3)),
        "Embedding cannot be made of f32[3]\nA table is [count, features].\nFix: change its shape.",
    ),
    (
        lambda: nn.EmbeddingBag(3, 2, mode="median"),
        'mode=\'median\' is unknown\nFix: use "sum" or "mean" or "max".',
    ),
    (
        lambda: nn.Softmax2d()(tensor(3, 4)),
        "Softmax2d cannot take f32[3,4]\nIt takes [N, C, H, W] or [C, H, W].\n"
        "Fix: use Softmax with the axis of the channels.",
    ),
    (lambda: nn.PReLU(0), "num_parameters is 0\nFix: give an int >= 1."),
    (lambda: nn.ELU("1"), "ELU got alpha '1'\nFix: give a number."),
    (
        lambda: nn.Hardtanh(1, -1),
        "Hardtanh got max_val -1\nFix: give a number of at least 1.",
    ),
    (
        lambda: nn.Upsample(),
        "Upsample got size None and scale_factor None\nFix: give one of the two.",
    ),
    (
        lambda: nn.ReflectionPad2d((1, 2)),
        "ReflectionPad2d got padding (1, 2)\nThere are two for each axis, beginning with the last "
        "one.\nFix: give an int, or a tuple of 4.",
    ),
    (
        lambda: nn.CircularPad1d(1)(tensor(2, 2, 3, 4)),
        "CircularPad1d cannot take f32[2,2,3,4]\nIt must have 3 dimensions, or 2 without a batch.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        lambda: nn.ConstantPad1d(1, "0"),
        "ConstantPad1d got value '0'\nFix: give a number.",
    ),
    (
        lambda: nn.CrossEntropyLoss("sum"),
        "CrossEntropyLoss got weight 'sum'\nFix: give a Tensor, or None.",
    ),
    (
        lambda: nn.KLDivLoss("median"),
        'reduction=\'median\' is unknown\nFix: use "mean" or "sum" or "none" or "batchmean".',
    ),
    (
        lambda: nn.HuberLoss(delta=-1),
        "HuberLoss got delta -1\nFix: give a number of at least 0.",
    ),
    (lambda: nn.MultiMarginLoss(3), "MultiMarginLoss got p 3\nFix: give 1 or 2."),
    (
        lambda: nn.HingeEmbeddingLoss("1"),
        "HingeEmbeddingLoss got margin '1'\nFix: give a number.",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message) -> None:
    with pytest.raises(hy.HybridError) as caught:
        call()
    assert str(caught.value) == message
