"""What depends on fixed parameters alone leaves the graph, and together the parts give its bits."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid.core.types import float32, tensor_type
from hybrid.ir import Graph, verify
from hybrid.ops.spatial.convolution_weights import pays
from hybrid.passes import run_parts, run_pipeline
from hybrid.passes.weights.precomputation import ahead
from tests.helpers import bits, graph_of, interpret
from tests.passes.samples import arrays_for
from tests.passes.scalar.test_fold import evaluate
from tests.random_graphs import exact_ops, graphs, unhurried

CONV = "{dilation=(1, 1), groups=1, padding=(1, 1), size=(8, 8), stride=(1, 1)}"


def parts_of(text: str, fixed: tuple[int, ...]) -> tuple[Graph, Graph] | None:
    parts = ahead(graph_of(text), fixed)
    if parts is None:
        return None
    verify(parts.graph)
    verify(parts.rest)
    return parts.graph, parts.rest


def test_weights_of_convolutions_are_prepared() -> None:
    text = f"""
    graph @g(%x: f32[1,8,8,8], %w: f32[9,8,3,3]) {{
      %y: f32[1,9,8,8] = conv %x, %w {CONV}
      return %y
    }}
    """
    first, rest = parts_of(text, (1,))
    assert first == graph_of(f"""
    graph @g_ahead(%w: f32[9,8,3,3]) {{
      %p: f32[1408] = conv_prepare %w {CONV.replace("stride", "source=(1, 8, 8, 8), stride")}
      return %p
    }}
    """)
    assert rest == graph_of(f"""
    graph @g(%x: f32[1,8,8,8], %w: f32[9,8,3,3], %p: f32[1408]) {{
      %y: f32[1,9,8,8] = conv_prepared %x, %w, %p {CONV}
      return %y
    }}
    """)
    assert parts_of(text, ()) is None
    assert parts_of(text, (0,)) is None


def test_weights_of_convolutions_of_bytes_are_prepared() -> None:
    attrs = "dilation=(1, 1), groups=1, padding=(1, 1), size=(4, 4)"
    text = f"""
    graph @g(%x: u8[1,8,8,8], %w: i8[18,8,3,3], %z: u8[]) {{
      %y: i32[1,18,4,4] = conv_integer %x, %w, %z {{{attrs}, stride=(2, 2)}}
      return %y
    }}
    """
    first, rest = parts_of(text, (1,))
    assert first == graph_of(f"""
    graph @g_ahead(%w: i8[18,8,3,3]) {{
      %p: i32[666] = conv_integer_prepare %w {{{attrs}, source=(1, 8, 8, 8), stride=(2, 2)}}
      return %p
    }}
    """)
    assert rest == graph_of(f"""
    graph @g(%x: u8[1,8,8,8], %w: i8[18,8,3,3], %z: u8[], %p: i32[666]) {{
      %y: i32[1,18,4,4] = conv_integer_prepared %x, %w, %z, %p {{{attrs}, stride=(2, 2)}}
      return %y
    }}
    """)


def test_what_is_computed_of_fixed_values_is_kept_and_views_are_not() -> None:
    text = """
    graph @g(%x: f32[200,32], %w: f32[64,32], %s: f32[64,1]) {
      %a: f32[64,32] = multiply %w, %s
      %b: f32[64,32] = exp %a
      %t: f32[32,64] = permute_dims %b {axes=(1, 0)}
      %y: f32[200,64] = matmul %x, %t
      %u: f32[32,64] = permute_dims %w {axes=(1, 0)}
      %z: f32[200,64] = matmul %x, %u
      return %y, %z, %b
    }
    """
    assert parts_of(text, (1, 2)) == (
        graph_of("""
    graph @g_ahead(%w: f32[64,32], %s: f32[64,1]) {
      %a: f32[64,32] = multiply %w, %s
      %b: f32[64,32] = exp %a
      return %b
    }
    """),
        graph_of("""
    graph @g(%x: f32[200,32], %w: f32[64,32], %s: f32[64,1], %b: f32[64,32]) {
      %t: f32[32,64] = permute_dims %b {axes=(1, 0)}
      %y: f32[200,64] = matmul %x, %t
      %u: f32[32,64] = permute_dims %w {axes=(1, 0)}
      %z: f32[200,64] = matmul %x, %u
      return %y, %z, %b
    }
    """),
    )
    assert parts_of(text, (1,)) is None  # what is left ahead are views
    assert ahead(graph_of(text), (0, 1, 2)).params == (0, 1, 2)


def test_right_matrices_of_products_are_prepared() -> None:
    text = """
    graph @g(%x: f32[8,32], %w: f32[70,32]) {
      %t: f32[32,70] = permute_dims %w {axes=(1, 0)}
      %y: f32[8,70] = matmul %x, %t
      return %y
    }
    """
    assert parts_of(text, (1,)) == (
        graph_of("""
    graph @g_ahead(%w: f32[70,32]) {
      %t: f32[32,70] = permute_dims %w {axes=(1, 0)}
      %p: f32[4096] = matmul_prepare %t {rows=5}
      return %p
    }
    """),
        graph_of("""
    graph @g(%x: f32[8,32], %w: f32[70,32], %p: f32[4096]) {
      %t: f32[32,70] = permute_dims %w {axes=(1, 0)}
      %y: f32[8,70] = matmul_prepared %x, %t, %p
      return %y
    }
    """),
    )


@pytest.mark.parametrize(
    "body",
    [
        # little work
        "%a: f32[8,8] = exp %w\n%y: f32[8,8] = add %x, %a",
        # a large result of a small value
        "%a: f32[8,8] = exp %w\n"
        "%b: f32[64,8,8] = broadcast_to %a {shape=(64, 8, 8)}\n"
        "%c: f32[64,8,8] = exp %b\n%s: f32[8,8] = sum %c {axis=(0,), keepdims=false}\n"
        "%y: f32[8,8] = add %x, %a",
    ],
)
def test_what_is_not_worth_it_stays(body: str) -> None:
    text = f"graph @g(%x: f32[8,8], %w: f32[8,8]) {{\n{body}\nreturn %y\n}}"
    assert ahead(graph_of(text), (1,)) is None


def test_much_is_not_made_of_little() -> None:
    text = """
    graph @g(%x: f32[300,300], %w: f32[300,1], %v: f32[1,300]) {
      %a: f32[300,300] = multiply %w, %v
      %y: f32[300,300] = add %x, %a
      return %y
    }
    """
    assert ahead(graph_of(text), (1, 2)) is None


def test_constants_alone_are_computed_as_before() -> None:
    text = """
    graph @g(%x: f32[64,64], %w: f32[64,64]) {
      %o: f32[] = full {shape=(), value=1, dtype=f32}
      %b: f32[64,64] = broadcast_to %o {shape=(64, 64)}
      %a: f32[64,64] = exp %b
      %c: f32[64,64] = multiply %w, %a
      %y: f32[64,64] = add %x, %c
      return %y
    }
    """
    assert ahead(graph_of(text), (1,)) is None
    scaled = text.replace("multiply %w, %a", "multiply %w, %o")
    assert ahead(graph_of(scaled), (1,)) is not None


def test_what_may_fail_stays() -> None:
    text = """
    graph @g(%x: f32[64,64], %w: f32[64,64], %i: i64[64]) {
      %a: f32[64,64] = take %w, %i {axis=0}
      %y: f32[64,64] = add %x, %a
      return %y
    }
    """
    assert ahead(graph_of(text), (1, 2)) is None


def test_preparing_pays_where_weights_are_copied() -> None:
    attrs = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)

    def asked(kernel: int, size: int, **changed: tuple[int, int]) -> bool:
        x = tensor_type(float32, (1, 16, size + kernel - 1, size + kernel - 1))
        w = tensor_type(float32, (16, 16, kernel, kernel))
        return pays(x, w, {**attrs, "size": (size, size), **changed})

    assert asked(3, 8) and not asked(3, 7)
    assert asked(1, 17) and not asked(1, 16)
    assert asked(3, 17, stride=(2, 2)) and not asked(3, 8, stride=(2, 2))


@unhurried
@given(graph=graphs(exact_ops), data=st.data())
def test_the_parts_of_random_graphs_give_their_bits(graph: Graph, data: st.DataObject) -> None:
    places = range(len(graph.params))
    fixed = data.draw(st.sets(st.sampled_from(places))) if places else set()
    for worth in (0, 1024):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(import_module("hybrid.passes.weights.precomputation"), "WORTH", worth)
            rest, parts = run_parts(graph, fixed, check=True, evaluate=evaluate)
        arrays = arrays_for(graph)
        want = bits(interpret(run_pipeline(graph), *arrays))
        if parts is None:
            assert bits(interpret(rest, *arrays)) == want
            continue
        kept = interpret(parts.graph, *[arrays[i] for i in parts.params])
        assert bits(interpret(rest, *arrays, *map(np.asarray, kept))) == want
