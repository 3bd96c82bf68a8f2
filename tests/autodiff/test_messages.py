"""Messages of gradients: the full text of what is said when they are asked for wrongly."""

import pytest

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientError,
    ShapeError,
)
from tests.helpers import leaf

V = hy.asarray([1.0, 2.0, 3.0])
W = hy.ones((2, 3))
INTS = hy.asarray([1, 2])


def used_twice():
    loss = hy.sum(leaf(2))
    loss.backward()
    loss.backward()


CASES = [  # (name, call, error, text)
    (
        "backward",
        lambda: V.backward(V),
        GradientError,
        "backward() of a tensor without history\n"
        "No operand of its computation requires a gradient, or it ran under no_grad.\n"
        "Fix: set requires_grad = True on the tensors to differentiate by.",
    ),
    (
        "backward seed",
        lambda: (leaf(3) * 2).backward(),
        ArgumentError,
        "backward() of f32[3] without a gradient\n"
        "Only a tensor of one element has a gradient by itself.\n"
        "Fix: sum it first, or pass the cotangent.",
    ),
    (
        "backward seed type",
        lambda: (leaf(3) * 2).backward(W),
        ShapeError,
        "a cotangent of f32[3] must have that type, not f32[2,3]",
    ),
    (
        "backward twice",
        used_twice,
        GradientError,
        "this history was already used by backward()\n"
        "backward() frees what it has walked, so that memory does not pile up.\n"
        "Fix: call the first backward with retain_graph=True.",
    ),
    (
        "grad integer",
        lambda: hy.grad(hy.sum)(INTS),
        GradientError,
        "a gradient by argument 0 of i64[2] was asked for\n"
        "Only float tensors have gradients.\n"
        "Fix: convert it with astype.",
    ),
    (
        "grad scalar",
        lambda: hy.grad(hy.exp)(V),
        ShapeError,
        "the function returned f32[3], not a scalar\n"
        "A gradient belongs to one number.\n"
        "Fix: sum the result, or use hybrid.vjp.",
    ),
    (
        "grad tensor",
        lambda: hy.grad(lambda x: 1.0)(V),
        ArgumentTypeError,
        "the function returned float, not a tensor\n"
        "Fix: return a scalar tensor, or use has_aux=True for (scalar, aux).",
    ),
    (
        "grad aux",
        lambda: hy.grad(hy.sum, has_aux=True)(V),
        ArgumentTypeError,
        "the function returned *, not a pair\n"
        "With has_aux=True the result is (scalar, aux).\n"
        "Fix: return such a pair, or leave has_aux out.",
    ),
    (
        "argnums",
        lambda: hy.grad(hy.sum, "x"),
        ArgumentTypeError,
        "argnums='x'\n"
        "They are the positions of the arguments to differentiate by.\n"
        "Fix: give an int or a tuple of ints.",
    ),
    (
        "argnums range",
        lambda: hy.grad(hy.sum, 1)(V),
        ArgumentError,
        "argnums has 1, but 1 arguments were given",
    ),
    (
        "vjp result",
        lambda: hy.vjp(lambda x: "x", V),
        ArgumentTypeError,
        "the function returned str, not tensors",
    ),
    (
        "vjp structure",
        lambda: hy.vjp(lambda x: (x, x), V)[1](V),
        ArgumentTypeError,
        "the cotangent has structure *, the function's result (*, *)",
    ),
    (
        "jvp structure",
        lambda: hy.jvp(hy.exp, (V,), (V, V)),
        ArgumentTypeError,
        "tangents have structure (*, *), primals (*,)",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_text_of_a_message(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == text
