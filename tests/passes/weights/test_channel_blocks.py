"""Chains of convolutions work on blocks of channels, with the bits that they had."""

# ruff: noqa: E501  graphs as they print

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybrid as hy
from hybrid.ir import Graph
from hybrid.nn import functional
from hybrid.passes import PIPELINE, fuse, layout, run_parts
from tests.helpers import assert_rewrites, bits, graph_of, interpret, tensor
from tests.passes.samples import arrays_for

module = import_module("hybrid.passes.weights.channel_blocks")

SAME = "dilation=(1, 1), groups=1, padding=(1, 1), size=(9, 9)"

CASES = {
    "a chain with what is between": (
        f"""
        graph @f(%x: f32[1,3,9,9], %w: f32[64,3,3,3], %v: f32[64,64,3,3], %m: f32[64], %e: f32[]) {{
          %a: f32[1,64,9,9] = conv %x, %w {{{SAME}, stride=(1, 1)}}
          %c: f32[64,1,1] = reshape %m {{shape=(64, 1, 1)}}
          %b: f32[1,64,9,9] = multiply %a, %c
          %d: f32[1,64,9,9] = maximum %b, %e
          %y: f32[1,64,9,9] = conv %d, %v {{{SAME}, stride=(1, 1)}}
          %r: f32[1,64,9,9] = add %y, %b
          %p: f32[1,64,4,4] = max_pool %r {{adaptive=false, dilation=(1, 1), kernel=(3, 3), padding=(0, 0), size=(4, 4), stride=(2, 2)}}
          %z: f32[1,64] = mean %p {{axis=(2, 3), keepdims=false}}
          return %z
        }}
        """,
        f"""
        graph @f(%x: f32[1,3,9,9], %w: f32[64,3,3,3], %v: f32[64,64,3,3], %m: f32[64], %e: f32[]) {{
          %wp: f32[1728] = conv_blocked_prepare %w {{{SAME}, source=(1, 3, 9, 9), stride=(1, 1)}}
          %a: f32[1,4,9,9,16] = conv_blocked %x, %w, %wp {{{SAME}, stride=(1, 1)}}
          %c: f32[64,1,1] = reshape %m {{shape=(64, 1, 1)}}
          %ca: f32[1,4,1,1,16] = reshape %c {{shape=(1, 4, 1, 1, 16)}}
          %b: f32[1,4,9,9,16] = multiply %a, %ca
          %d: f32[1,4,9,9,16] = maximum %b, %e
          %vp: f32[65792] = conv_blocked_prepare %v {{{SAME}, source=(1, 64, 9, 9), stride=(1, 1)}}
          %y: f32[1,4,9,9,16] = conv_blocked %d, %v, %vp {{{SAME}, stride=(1, 1)}}
          %r: f32[1,4,9,9,16] = add %y, %b
          %p: f32[1,4,4,4,16] = max_pool %r {{adaptive=false, dilation=(1, 1, 1), kernel=(3, 3, 1), padding=(0, 0, 0), size=(4, 4, 16), stride=(2, 2, 1)}}
          %q: f32[1,4,16,4,4] = permute_dims %p {{axes=(0, 1, 4, 2, 3)}}
          %s: f32[1,64,4,4] = reshape %q {{shape=(1, 64, 4, 4)}}
          %z: f32[1,64] = mean %s {{axis=(2, 3), keepdims=false}}
          return %z
        }}
        """,
    ),
    "an image that enters": (
        f"""
        graph @f(%x: f32[1,128,9,9], %v: f32[128,128,3,3], %w: f32[128,128,3,3]) {{
          %a: f32[1,128,9,9] = conv %x, %v {{{SAME}, stride=(1, 1)}}
          %b: f32[1,128,9,9] = add %a, %x
          %y: f32[1,128,9,9] = conv %b, %w {{{SAME}, stride=(1, 1)}}
          return %y, %b
        }}
        """,
        f"""
        graph @f(%x: f32[1,128,9,9], %v: f32[128,128,3,3], %w: f32[128,128,3,3]) {{
          %vp: f32[262400] = conv_blocked_prepare %v {{{SAME}, source=(1, 128, 9, 9), stride=(1, 1)}}
          %xr: f32[1,8,16,9,9] = reshape %x {{shape=(1, 8, 16, 9, 9)}}
          %xb: f32[1,8,9,9,16] = permute_dims %xr {{axes=(0, 1, 3, 4, 2)}}
          %a: f32[1,8,9,9,16] = conv_blocked %xb, %v, %vp {{{SAME}, stride=(1, 1)}}
          %b: f32[1,8,9,9,16] = add %a, %xb
          %wp: f32[262400] = conv_blocked_prepare %w {{{SAME}, source=(1, 128, 9, 9), stride=(1, 1)}}
          %c: f32[1,8,9,9,16] = conv_blocked %b, %w, %wp {{{SAME}, stride=(1, 1)}}
          %ca: f32[1,8,16,9,9] = permute_dims %c {{axes=(0, 1, 4, 2, 3)}}
          %y: f32[1,128,9,9] = reshape %ca {{shape=(1, 128, 9, 9)}}
          %ba: f32[1,8,16,9,9] = permute_dims %b {{axes=(0, 1, 4, 2, 3)}}
          %z: f32[1,128,9,9] = reshape %ba {{shape=(1, 128, 9, 9)}}
          return %y, %z
        }}
        """,
    ),
    "each channel alone": (
        """
        graph @f(%x: f32[1,32,9,9], %v: f32[32,1,5,5], %w: f32[32,32,1,1]) {
          %a: f32[1,32,9,9] = conv %x, %v {dilation=(1, 1), groups=32, padding=(2, 2), size=(9, 9), stride=(1, 1)}
          %y: f32[1,32,9,9] = conv %a, %w {dilation=(1, 1), groups=1, padding=(0, 0), size=(9, 9), stride=(1, 1)}
          %z: f32[1,32,9,9] = relu %y
          %n: f32[1] = sum %z {axis=(1, 2, 3), keepdims=false}
          return %n
        }
        """,
        """
        graph @f(%x: f32[1,32,9,9], %v: f32[32,1,5,5], %w: f32[32,32,1,1]) {
          %p: f32[800] = conv_blocked_prepare %v {dilation=(1, 1), groups=32, padding=(2, 2), size=(9, 9), source=(1, 32, 9, 9), stride=(1, 1)}
          %xr: f32[1,2,16,9,9] = reshape %x {shape=(1, 2, 16, 9, 9)}
          %xb: f32[1,2,9,9,16] = permute_dims %xr {axes=(0, 1, 3, 4, 2)}
          %a: f32[1,2,9,9,16] = conv_blocked %xb, %v, %p {dilation=(1, 1), groups=32, padding=(2, 2), size=(9, 9), stride=(1, 1)}
          %q: f32[1024] = conv_blocked_prepare %w {dilation=(1, 1), groups=1, padding=(0, 0), size=(9, 9), source=(1, 32, 9, 9), stride=(1, 1)}
          %y: f32[1,2,9,9,16] = conv_blocked %a, %w, %q {dilation=(1, 1), groups=1, padding=(0, 0), size=(9, 9), stride=(1, 1)}
          %z: f32[1,2,9,9,16] = relu %y
          %za: f32[1,2,16,9,9] = permute_dims %z {axes=(0, 1, 4, 2, 3)}
          %zb: f32[1,32,9,9] = reshape %za {shape=(1, 32, 9, 9)}
          %n: f32[1] = sum %zb {axis=(1, 2, 3), keepdims=false}
          return %n
        }
        """,
    ),
    "groups between others": (
        """
        graph @f(%x: f32[1,3,9,9], %u: f32[64,3,1,1], %v: f32[64,16,3,3], %w: f32[128,32,1,1]) {
          %a: f32[1,64,9,9] = conv %x, %u {dilation=(1, 1), groups=1, padding=(0, 0), size=(9, 9), stride=(1, 1)}
          %b: f32[1,64,9,9] = conv %a, %v {dilation=(1, 1), groups=4, padding=(1, 1), size=(9, 9), stride=(1, 1)}
          %c: f32[1,64,9,9] = relu %b
          %y: f32[1,128,9,9] = conv %c, %w {dilation=(1, 1), groups=2, padding=(0, 0), size=(9, 9), stride=(1, 1)}
          return %y
        }
        """,
        """
        graph @f(%x: f32[1,3,9,9], %u: f32[64,3,1,1], %v: f32[64,16,3,3], %w: f32[128,32,1,1]) {
          %p: f32[192] = conv_blocked_prepare %u {dilation=(1, 1), groups=1, padding=(0, 0), size=(9, 9), source=(1, 3, 9, 9), stride=(1, 1)}
          %a: f32[1,4,9,9,16] = conv_blocked %x, %u, %p {dilation=(1, 1), groups=1, padding=(0, 0), size=(9, 9), stride=(1, 1)}
          %q: f32[17408] = conv_blocked_prepare %v {dilation=(1, 1), groups=4, padding=(1, 1), size=(9, 9), source=(1, 64, 9, 9), stride=(1, 1)}
          %b: f32[1,4,9,9,16] = conv_blocked %a, %v, %q {dilation=(1, 1), groups=4, padding=(1, 1), size=(9, 9), stride=(1, 1)}
          %c: f32[1,4,9,9,16] = relu %b
          %r: f32[4096] = conv_blocked_prepare %w {dilation=(1, 1), groups=2, padding=(0, 0), size=(9, 9), source=(1, 64, 9, 9), stride=(1, 1)}
          %y: f32[1,8,9,9,16] = conv_blocked %c, %w, %r {dilation=(1, 1), groups=2, padding=(0, 0), size=(9, 9), stride=(1, 1)}
          %s: f32[1,8,16,9,9] = permute_dims %y {axes=(0, 1, 4, 2, 3)}
          %z: f32[1,128,9,9] = reshape %s {shape=(1, 128, 9, 9)}
          return %z
        }
        """,
    ),
}


def all_fixed(graph: Graph) -> Graph:
    """With weights that are prepared once."""
    return layout(graph, range(1, len(graph.params)))


@pytest.mark.parametrize("case", CASES)
def test_chains_lie_in_blocks(case):
    assert_rewrites(all_fixed, *CASES[case])


# What stays as it is: (results, entering channels, what follows, weights are fixed).
KEPT = {
    "results are no whole blocks": (63, 64, "relu %y", True),
    "channels that enter are no whole blocks": (64, 60, "relu %y", True),
    "copies take longer than they save": (64, 32, "relu %y", True),
    "weights that change are read where they lie": (512, 16, "relu %y", False),
}
# Convolutions in groups: (groups, channels and results of each, kernel, whether they go in blocks).
GROUPS = {
    "few channels": (32, 4, 4, 3, True),
    "few channels, large kernels": (32, 4, 4, 7, True),
    "few channels, transformed": (32, 8, 8, 3, True),
    "channels of a block": (32, 16, 16, 3, True),
    "channels of more blocks": (8, 64, 64, 3, True),
    "channels of more blocks, pointwise": (8, 160, 160, 1, True),
    "few results": (16, 64, 16, 1, False),
    "channels of more blocks, large kernels": (8, 64, 64, 5, False),
    "few channels, pointwise": (64, 8, 8, 1, False),
    "no whole blocks": (8, 24, 24, 3, False),
    "other results than channels": (32, 4, 8, 3, False),
}


@pytest.mark.parametrize("case", GROUPS)
def test_groups_go_in_blocks_where_that_wins(case):
    groups, channels, rows, kernel, fits = GROUPS[case]
    of = f"dilation=(1, 1), groups={groups}, padding=({kernel // 2}, {kernel // 2}), size=(9, 9)"
    result = f"f32[1,{groups * rows},9,9]"
    chain = "\n".join(
        f"%y{i}: {result} = conv %{f'y{i - 1}' if i else 'x'}, %w {{{of}, stride=(1, 1)}}"
        for i in range(6 if rows == channels else 1)
    )
    graph = graph_of(f"""
        graph @f(%x: f32[1,{groups * channels},9,9], %w: f32[{groups * rows},{channels},{kernel},{kernel}]) {{
          {chain}
          return %y{5 if rows == channels else 0}
        }}
        """)
    names = {node.op.name for node in all_fixed(graph).nodes}
    assert ("conv_blocked" in names) == fits
    assert ("conv" in names) != fits


@pytest.mark.parametrize("case", KEPT)
def test_what_stays_as_it_is(case):
    rows, channels, then, fixed = KEPT[case]
    stride = "stride=(1, 1)" if fixed else "stride=(2, 2)"
    graph = graph_of(f"""
        graph @f(%x: f32[1,{channels},9,9], %w: f32[{rows},{channels},3,3]) {{
          %y: f32[1,{rows},9,9] = conv %x, %w {{{SAME}, {stride}}}
          %z: f32[1,{rows},9,9] = {then}
          return %z
        }}
        """)
    assert layout(graph, (1,) if fixed else ()) is graph


def test_what_needs_more_copies_stays_behind():
    """A sum with two images from elsewhere is not worth its copies; what is before it is."""
    graph = graph_of(
        f"""
        graph @f(%x: f32[1,3,9,9], %w: f32[256,3,3,3], %v: f32[256,256,3,3], %b: f32[1,256,9,9], %c: f32[1,256,9,9]) {{
          %a: f32[1,256,9,9] = conv %x, %w {{{SAME}, stride=(1, 1)}}
          %y: f32[1,256,9,9] = conv %a, %v {{{SAME}, stride=(1, 1)}}
          %z: f32[1,256,9,9] = where %b, %y, %c
          return %z
        }}
        """.replace("where %b, %y, %c", "add %y, %b")
    )
    names = [node.op.name for node in all_fixed(graph).nodes]
    assert names == [
        "conv_blocked_prepare", "conv_blocked", "conv_blocked_prepare", "conv_blocked",
        "permute_dims", "reshape", "add",
    ]  # fmt: skip


def test_regions_have_chains_of_their_own():
    before, after = (
        f"""
        graph @f(%p: bool[], %x: f32[1,128,9,9], %w: f32[128,128,3,3]) {{
          %y: f32[1,128,9,9] = cond %p, %x, %w {{
            then(%x: f32[1,128,9,9], %w: f32[128,128,3,3]) {{
              {body}
            }}
            else(%x: f32[1,128,9,9], %w: f32[128,128,3,3]) {{
              %n: f32[1,128,9,9] = negative %x
              return %n
            }}
          }}
          return %y
        }}
        """
        for body in (
            f"%y: f32[1,128,9,9] = conv %x, %w {{{SAME}, stride=(1, 1)}}\n"
            f"%z: f32[1,128,9,9] = conv %y, %w {{{SAME}, stride=(1, 1)}}\n"
            "return %z",
            f"%p: f32[262400] = conv_blocked_prepare %w {{{SAME}, source=(1, 128, 9, 9), stride=(1, 1)}}\n"
            "%a: f32[1,8,16,9,9] = reshape %x {shape=(1, 8, 16, 9, 9)}\n"
            "%b: f32[1,8,9,9,16] = permute_dims %a {axes=(0, 1, 3, 4, 2)}\n"
            f"%y: f32[1,8,9,9,16] = conv_blocked %b, %w, %p {{{SAME}, stride=(1, 1)}}\n"
            f"%q: f32[262400] = conv_blocked_prepare %w {{{SAME}, source=(1, 128, 9, 9), stride=(1, 1)}}\n"
            f"%z: f32[1,8,9,9,16] = conv_blocked %y, %w, %q {{{SAME}, stride=(1, 1)}}\n"
            "%c: f32[1,8,16,9,9] = permute_dims %z {axes=(0, 1, 4, 2, 3)}\n"
            "%d: f32[1,128,9,9] = reshape %c {shape=(1, 128, 9, 9)}\n"
            "return %d",
        )
    )
    assert_rewrites(layout, before, after)


def test_it_runs_after_norms_are_folded_and_before_maps_are_made():
    assert PIPELINE.index(layout) + 1 == PIPELINE.index(fuse)
    text = f"""
        graph @f(%x: f32[2,3,99,99], %w: f32[64,3,3,3], %v: f32[64,64,3,3], %m: f32[64,1,1], %s: f32[64,1,1]) {{
          %a: f32[2,64,99,99] = conv %x, %w {{{SAME}, stride=(1, 1)}}
          %b: f32[2,64,99,99] = subtract %a, %m
          %c: f32[2,64,99,99] = multiply %b, %s
          %d: f32[2,64,99,99] = relu %c
          %y: f32[2,64,99,99] = conv %d, %v {{{SAME}, stride=(1, 1)}}
          return %y
        }}
        """.replace("size=(9, 9)", "size=(99, 99)")
    for fast in (False, True):
        _, parts = run_parts(graph_of(text), (1, 2, 3, 4), fast=fast)
        (mapped,) = [node for node in parts.rest.nodes if node.op.name == "conv_blocked_map"]
        names = [node.op.name for node in mapped.regions[0].nodes]
        assert names == (["subtract", "relu"] if fast else ["subtract", "multiply", "relu"])


@pytest.mark.parametrize("case", CASES)
def test_references_give_the_same_numbers(case):
    graph = graph_of(CASES[case][0])
    arrays = [np.nan_to_num(a, posinf=3, neginf=-3).clip(-3, 3) for a in arrays_for(graph)]
    assert bits(interpret(all_fixed(graph), *arrays)) == bits(interpret(graph, *arrays))


# Random networks: what hybridized code computes has the bits of eager code ---------------------


@st.composite
def networks(draw):
    """Layers [name, more ...] on images of some channels and sizes."""
    channels = draw(st.sampled_from([3, 16, 20, 32, 48]))
    size = draw(st.tuples(st.integers(5, 13), st.integers(5, 18)))
    layers = []
    for _ in range(draw(st.integers(2, 6))):
        kind = draw(
            st.sampled_from(
                ["conv", "conv", "each", "groups", "norm", "relu", "residual", "max", "avg", "sum"]
            )
        )
        rows = draw(st.sampled_from([16, 32, 48, 64, 24])) if kind in ("conv", "groups") else 0
        geometry = [draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, 2))]
        layers.append((kind, rows, *geometry, draw(st.integers(1, 2))))
    return draw(st.integers(1, 2)), channels, size, layers


def network(layers, channels, random):
    """A function of an image, and the arrays that it takes besides."""
    weights, steps = [], []

    def weight(*shape):
        weights.append(hy.asarray(random.standard_normal(shape).astype(np.float32)))
        return len(weights) - 1

    for kind, rows, kernel, stride, padding, dilation in layers:
        if kind == "conv":
            at = weight(rows, channels, kernel, kernel)
            steps.append(("conv", at, stride, padding, dilation, 1))
            channels = rows
        elif kind == "groups":  # as small as can be, of as many channels, or of others
            groups = max(g for g in (1, 2, 4, 12)[: kernel + 1] if channels % g == rows % g == 0)
            rows = channels if padding else rows
            at = weight(rows, channels // groups, kernel, kernel)
            steps.append(("conv", at, stride, padding, dilation, groups))
            channels = rows
        elif kind == "each":
            at = weight(channels, 1, kernel, kernel)
            steps.append(("conv", at, stride, padding, dilation, channels))
        elif kind == "norm":
            steps.append(("norm", weight(channels, 1, 1), weight(channels, 1, 1)))
        else:
            steps.append((kind, stride))

    def run(x, *weights):
        before = x
        for kind, *rest in steps:
            if min(x.shape[2:]) < 5:  # too small for a window
                break
            last = x
            if kind == "conv":
                at, stride, padding, dilation, groups = rest
                x = functional.conv2d(x, weights[at], None, stride, padding, dilation, groups)
            elif kind == "norm":
                x = (x - weights[rest[0]]) * weights[rest[1]]
            elif kind == "relu":
                x = functional.relu(x)
            elif kind == "residual":
                x = x + before if x.shape == before.shape else x + x
            elif kind == "max":
                x = functional.max_pool2d(x, 3, rest[0], 1)
            elif kind == "avg":
                x = functional.avg_pool2d(x, 2, rest[0])
            else:
                x = x + x.mean(axis=(2, 3), keepdims=True)
            before = last if last.shape == x.shape else before
        return x, x.mean(axis=(2, 3))

    return run, weights


@settings(max_examples=40, deadline=None)
@given(networks(), st.integers(0, 99), st.sampled_from([1, 3]))
def test_networks_have_the_bits_of_eager_code(drawn, seed, threads):
    batch, channels, size, layers = drawn
    random = np.random.default_rng(seed)
    run, weights = network(layers, channels, random)
    x = hy.asarray(random.standard_normal((batch, channels, *size)).astype(np.float32))
    want = run(x, *weights)
    before = hy.num_threads()
    hy.set_num_threads(threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COPIED", 0)  # wherever it can be done
        patch.setattr(module, "NARROW", 0)
        patch.setattr(module.convolution_weights, "pays", lambda *_: True)
        try:
            got = hy.hybridize(run)(x, *weights)
        finally:
            hy.set_num_threads(before)
    for a, b in zip(got, want, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_module_with_kept_weights_has_the_bits_of_eager_code():
    hy.random.seed(0)
    net = hy.nn.Sequential(
        hy.nn.Conv2d(3, 64, 7, 2, 3), hy.nn.BatchNorm2d(64), hy.nn.ReLU(), hy.nn.MaxPool2d(3, 2, 1),
        hy.nn.Conv2d(64, 64, 3, 1, 1), hy.nn.BatchNorm2d(64), hy.nn.ReLU(),
        hy.nn.Conv2d(64, 64, 3, 1, 1, groups=64), hy.nn.Conv2d(64, 128, 1, 2), hy.nn.Sigmoid(),
    ).eval().requires_grad_(False)  # fmt: skip
    x = tensor(2, 3, 40, 44)
    want = net(x).numpy()
    fast = hy.hybridize(net)
    for _ in range(2):
        assert fast(x).numpy().tobytes() == want.tobytes()
    net[0].weight *= 2  # prepared anew
    assert fast(x).numpy().tobytes() == net.forward(x).numpy().tobytes()
