"""sums takes sums of products out of loops."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.passes import run_pipeline, sums
from tests.helpers import assert_rewrites, same

CASES = {
    "of slices, one of them turned": (
        """
        graph @f(%z: f32[4,16], %g: f32[9,2,4], %x: f32[9,2,16]) {
          %n: i64[] = full {dtype=i64, shape=(), value=9}
          %s: f32[4,16] = for %n, %z, %g, %x {carried=1, length=9, reverse=true, sliced=2} {
            body(%i: i64[], %s: f32[4,16], %g: f32[2,4], %x: f32[2,16]) {
              %t: f32[4,2] = permute_dims %g {axes=(1, 0)}
              %p: f32[4,16] = matmul %t, %x
              %s_1: f32[4,16] = add %s, %p
              return %s_1
            }
          }
          return %s
        }
        """,
        """
        graph @f(%z: f32[4,16], %g: f32[9,2,4], %x: f32[9,2,16]) {
          %n: i64[] = full {dtype=i64, shape=(), value=9}
          %l: i64[] = full {dtype=i64, shape=(), value=9}
          %c: i64[] = minimum %n, %l
          for %c {carried=0, reverse=true} {
            body(%i: i64[]) { return }
          }
          %t: f32[9,4,2] = permute_dims %g {axes=(0, 2, 1)}
          %s: f32[4,16] = matmul_sum %z, %t, %x {reverse=true}
          return %s
        }
        """,
    ),
    "of what is stacked, and of what becomes a stack": (
        """
        graph @f(%z: f32[8,16], %x: f32[9,8,8], %h: f32[8,16]) {
          %n: i64[] = full {dtype=i64, shape=(), value=9}
          %s: f32[8,16], %k: f32[8,16], %r: f32[9,8,16] = for %n, %z, %h, %x {
            carried=2, length=9, reverse=false, sliced=1
          } {
            body(%i: i64[], %s: f32[8,16], %h: f32[8,16], %x: f32[8,8]) {
              %e: f32[8,8] = exp %x
              %h_1: f32[8,16] = tanh %h
              %p: f32[8,16] = matmul %e, %h_1
              %s_1: f32[8,16] = add %p, %s
              return %s_1, %h_1, %h_1
            }
          }
          return %s, %k, %r
        }
        """,
        """
        graph @f(%z: f32[8,16], %x: f32[9,8,8], %h: f32[8,16]) {
          %n: i64[] = full {dtype=i64, shape=(), value=9}
          %k: f32[8,16], %r: f32[9,8,16], %es: f32[9,8,8] = for %n, %h, %x {
            carried=1, length=9, reverse=false, sliced=1
          } {
            body(%i: i64[], %h: f32[8,16], %x: f32[8,8]) {
              %e: f32[8,8] = exp %x
              %h_1: f32[8,16] = tanh %h
              return %h_1, %h_1, %e
            }
          }
          %s: f32[8,16] = matmul_sum %z, %es, %r {reverse=false}
          return %s, %k, %r
        }
        """,
    ),
}


def loop(body: str, carried: int = 1, returned: str = "%s_1", length: int = 9) -> str:
    more = ", %k: f32[4,16]" if carried == 2 else ""
    given = "%z, %z" if carried == 2 else "%z"
    param = ", %k: f32[4,16]" if carried == 2 else ""
    return f"""
        graph @f(%z: f32[4,16], %g: f32[9,4,2], %x: f32[9,2,16], %w: f32[2,16], %m: i64[]) {{
          %n: i64[] = full {{dtype=i64, shape=(), value={length}}}
          %s: f32[4,16]{more} = for %n, {given}, %g, %x, %w {{
            carried={carried}, length=9, reverse=false, sliced=2
          }} {{
            body(
              %i: i64[], %s: f32[4,16]{param}, %g: f32[4,2], %x: f32[2,16], %w: f32[2,16]
            ) {{
              {body}
              return {returned}
            }}
          }}
          return %s
        }}
        """


PRODUCT = "%p: f32[4,16] = matmul %g, %x "
STAY = {
    "the sum is read": loop(
        PRODUCT + "%q: f32[4,16] = add %s, %p %s_1: f32[4,16] = multiply %s, %q"
    ),
    "the new sum is read": loop(
        PRODUCT + "%s_1: f32[4,16] = add %s, %p %k_1: f32[4,16] = add %k, %s_1",
        carried=2,
        returned="%s_1, %k_1",
    ),
    "the product is read": loop(
        PRODUCT + "%s_1: f32[4,16] = add %s, %p %k_1: f32[4,16] = multiply %k, %p",
        carried=2,
        returned="%s_1, %k_1",
    ),
    "a difference": loop(PRODUCT + "%s_1: f32[4,16] = subtract %s, %p"),
    "no product": loop("%p: f32[4,16] = exp %s %s_1: f32[4,16] = add %s, %p"),
    "by what stays the same": loop("%p: f32[4,16] = matmul %g, %w %s_1: f32[4,16] = add %s, %p"),
    "by what would take much room": loop(
        "%e: f32[2,16] = exp %x %p: f32[4,16] = matmul %g, %e %s_1: f32[4,16] = add %s, %p"
    ),
    "not all iterations are made": loop(PRODUCT + "%s_1: f32[4,16] = add %s, %p", length=8),
    "who knows how many": loop(PRODUCT + "%s_1: f32[4,16] = add %s, %p").replace(
        "for %n", "for %m"
    ),
    "products of more than one chain": loop(PRODUCT + "%s_1: f32[4,16] = add %s, %p")
    .replace("[4,2]", "[4,400]")
    .replace("[2,16]", "[400,16]")
    .replace("9,4,2]", "9,4,400]")
    .replace("9,2,16]", "9,400,16]"),
    "narrow products": loop(PRODUCT + "%s_1: f32[4,16] = add %s, %p").replace("16]", "15]"),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_sums(before: str, after: str) -> None:
    assert_rewrites(sums, before, after)


@pytest.mark.parametrize("text", STAY.values(), ids=STAY)
def test_what_stays(text: str) -> None:
    assert_rewrites(sums, text, text)


def rnn(xs, h, w, u):
    total = 0.0
    for t in range(xs.shape[0]):
        h = hy.tanh(xs[t] @ w + h @ u)
        total = total + hy.sum(h * h)
    return total


def attended(xs, h, w, u):
    """A product of two carried values, and one of the transposes of others."""
    outer = hy.zeros((h.shape[1], w.shape[1]))
    for t in range(xs.shape[0]):
        g = hy.tanh(xs[t] @ w)
        outer = outer + h.mT @ g
        h = hy.sigmoid(h @ u + g)
    return hy.sum(outer * outer) + hy.sum(h)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(2, 3, 5, 16), (7, 4, 20, 24), (30, 33, 17, 40), (5, 1, 9, 17)])
@pytest.mark.parametrize("function", [rnn, attended])
def test_gradients_over_time_have_the_bits_of_eager(function, sizes, dtype) -> None:
    length, batch, features, width = sizes
    draw = np.random.default_rng(length).standard_normal
    shapes = [(length, batch, features), (batch, width), (features, width), (width, width)]
    operands = [hy.asarray((draw(shape) / 4).astype(dtype)) for shape in shapes]
    step = hy.value_and_grad(function, argnums=(0, 1, 2, 3))
    planned = hy.hybridize(step)
    (want, slopes), (found, others) = step(*operands), planned(*operands)
    summed = str(run_pipeline(planned.graph(*operands))).count(" = matmul_sum ")
    assert summed >= 2 or length == 2, "loops of two iterations may be unrolled"
    assert same(found, want)
    assert all(map(same, others, slopes))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_add_up_no_products(kind) -> None:
    layer = getattr(hy.nn, kind)(20, 24, num_layers=2, bidirectional=True)
    draw = np.random.default_rng(1).standard_normal
    x = hy.asarray(draw((6, 3, 20)).astype(np.float32))
    parameters = list(layer.parameters())

    def learn(x):
        layer.zero_grad()
        y, _ = layer(x)
        hy.sum(y * y).backward()

    def gradients():
        return [p.grad for p in parameters]

    learn(x)
    want = gradients()
    planned = hy.hybridize(learn)
    planned(x)
    assert all(map(same, gradients(), want))
    text = str(run_pipeline(planned.graph(x)))
    assert text.count(" = matmul_sum ") == 4
