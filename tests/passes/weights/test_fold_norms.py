"""fold_norms moves the scale of a channel into the weights, for ``optimize="fast"`` alone."""

# ruff: noqa: E501  graphs as they print

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.eager.fused_calls import optimized
from hybrid.nn import functional as F
from hybrid.passes import dce, fold_norms
from tests.helpers import assert_rewrites

HEAD = "graph @f(%x: f32[8,3,11,11], %w: f32[4,3,3,3], %m: f32[4,1,1], %s: f32[4,1,1])"
ATTRS = "{stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, size=(9, 9)}"
BEFORE = f"""
{HEAD} {{
  %y: f32[8,4,9,9] = conv %x, %w {ATTRS}
  %d: f32[8,4,9,9] = subtract %y, %m
  %z: f32[8,4,9,9] = multiply %d, %s
  return %z
}}
"""
AFTER = f"""
{HEAD} {{
  %k: f32[4,1,1,1] = reshape %s {{shape=(4, 1, 1, 1)}}
  %v: f32[4,3,3,3] = multiply %w, %k
  %y: f32[8,4,9,9] = conv %x, %v {ATTRS}
  %c: f32[4,1,1] = multiply %m, %s
  %z: f32[8,4,9,9] = subtract %y, %c
  return %z
}}
"""
KEPT = {
    "the convolution is needed itself": BEFORE.replace("return %z", "return %z, %y"),
    "the difference is needed itself": BEFORE.replace("return %z", "return %z, %d"),
    "fewer results than weights are worth": BEFORE.replace("f32[8,3", "f32[1,3").replace("f32[8,4", "f32[1,4"),
    "a scale of whole planes": BEFORE.replace("%s: f32[4,1,1]", "%s: f32[4,9,9]"),
    "a mean of rows": BEFORE.replace("%m: f32[4,1,1]", "%m: f32[9,1]"),
    "another op between": BEFORE.replace("multiply %d, %s", "add %d, %s"),
}  # fmt: skip


def test_scales_go_into_weights() -> None:
    assert_rewrites(lambda graph: dce(fold_norms(graph)), BEFORE, AFTER)


@pytest.mark.parametrize("graph", KEPT.values(), ids=KEPT)
def test_what_stays(graph: str) -> None:
    assert_rewrites(fold_norms, graph, graph)


def network() -> nn.Module:
    hy.random.seed(5)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    net(hy.random.normal(size=(4, 3, 20, 20)))  # statistics that are not those of a new layer
    return net.eval()


def test_only_fast_folds() -> None:
    """Exactly is the default, and gives the bits of eager code."""
    net, x = network(), hy.random.normal(size=(4, 3, 20, 20))
    exact = hy.hybridize(lambda x: net(x))
    fast = hy.hybridize(lambda x: net(x), optimize="fast")
    with hy.no_grad():  # a backward pass needs the convolution itself
        graph = exact.graph(x)
        assert "multiply" in str(optimized(graph)).split("conv_map")[1]
        assert "multiply" not in str(optimized(graph, fast=True)).split("conv_map")[1]
        eager = net(x).numpy()
        assert exact(x).numpy().tobytes() == eager.tobytes()
        near = fast(x).numpy()
    assert near.tobytes() != eager.tobytes()
    np.testing.assert_allclose(near, eager, rtol=1e-5, atol=1e-5)


def test_gradients_of_what_is_folded() -> None:
    net, x = network(), hy.random.normal(size=(4, 3, 20, 20))

    def slope(x):
        return hy.grad(lambda x: hy.sum(F.relu(net(x)) ** 2))(x)

    found = hy.hybridize(slope, optimize="fast")(x).numpy()
    np.testing.assert_allclose(found, slope(x).numpy(), rtol=1e-4, atol=1e-4)


def test_backward_plans_are_fast_too() -> None:
    """The one that a recorded call leaves behind."""
    net, x = network(), hy.random.normal(size=(4, 3, 20, 20))
    run = hy.hybridize(lambda x: net(x), optimize="fast")
    hy.sum(run(x) ** 2).backward()
    found = net[0].weight.grad.numpy()
    net[0].weight.grad = None
    hy.sum(net(x) ** 2).backward()
    np.testing.assert_allclose(found, net[0].weight.grad.numpy(), rtol=1e-4, atol=1e-3)
