"""The names that PyTorch has in nn.utils."""

import pytest

import hybrid as hy
from hybrid import optim

NAMES = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_those_of_optim(name):
    assert getattr(hy.nn.utils, name) is getattr(optim, name)
