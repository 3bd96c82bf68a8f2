"""checkpoint: the same gradients, from a second run."""

from __future__ import annotations

import gc
import textwrap
import weakref

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.core.types import tensor_type
from hybrid.ir import Builder, parse
from hybrid.ops.flow.call_nodes import checkpoint_call
from hybrid.trace.gradients.checkpoint import checkpoint
from tests.trace.gradients.control import bits, f64

random = np.random.default_rng(5)
X = f64(random.standard_normal(3))
W = f64(random.standard_normal((3, 3)))


def block(x, w):
    y = ops.tanh(ops.matmul(w, x))
    return y * x + ops.sin(y) * ops.matmul(w, y)


def model(x, w, wrap=lambda f: f):
    for _ in range(3):
        x = wrap(block)(x, w) + x
    return ops.sum(x * ops.matmul(w, x))


def checkpointed(x, w):
    return model(x, w, checkpoint)


def test_bits_without_it() -> None:
    expected = bits(hy.value_and_grad(model, (0, 1))(X, W))
    assert bits(hy.value_and_grad(checkpointed, (0, 1))(X, W)) == expected
    captured = hy.hybridize(checkpointed, mode="trace")
    assert bits(hy.value_and_grad(captured, (0, 1))(X, W)) == expected
    inside = hy.hybridize(hy.value_and_grad(checkpointed, (0, 1)), mode="trace")
    assert bits(inside(X, W)) == expected


def test_derivatives_of_both_orders() -> None:
    for f in (checkpointed, hy.hybridize(checkpointed, mode="trace")):
        hy.check_grads(f, X * 0.5, W * 0.5, order=2, eps=1e-5, rtol=1e-4)


def test_the_second_run_is_for_the_gradient() -> None:
    runs = []

    @checkpoint
    def f(x):
        runs.append(x)
        return ops.exp(x)

    with hy.no_grad():
        f(X)
    assert len(runs) == 1
    x = X.detach()
    x.requires_grad = True
    y = ops.sum(f(x))
    assert len(runs) == 2
    y.backward()
    assert len(runs) == 3
    assert x.grad.tolist() == ops.exp(X).tolist()


def test_intermediate_values_are_freed() -> None:
    kept = []

    @checkpoint
    def f(x):
        y = ops.exp(x)
        kept.append(weakref.ref(y.record))
        return ops.sin(y)

    x = X.detach()
    x.requires_grad = True
    z = f(x)
    gc.collect()
    assert kept[0]() is None
    ops.sum(z).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.exp(X.numpy())) * np.exp(X.numpy()))


def test_values_from_outside_that_are_no_arguments() -> None:
    def loss(x, w):
        inner = ops.sin(w)

        @checkpoint
        def f(x):
            return ops.matmul(inner, x) * ops.sum(w) + inner[0]

        return ops.sum(f(x) * inner)

    def plain(x, w):
        inner = ops.sin(w)
        return ops.sum((ops.matmul(inner, x) * ops.sum(w) + inner[0]) * inner)

    expected = bits(hy.grad(plain, (0, 1))(X, W))
    assert bits(hy.grad(loss, (0, 1))(X, W)) == expected
    captured = hy.hybridize(loss, mode="trace")
    assert bits(hy.grad(captured, (0, 1))(X, W)) == expected


def test_random_numbers_are_drawn_once() -> None:
    def f(x, wrap):
        y = wrap(lambda x: hy.nn.functional.dropout(ops.sin(x)) * x)(x)
        return ops.sum(y * hy.random.normal(size=(100,)))

    x = hy.linspace(0.1, 2.0, 100)
    results = []
    for wrap in (lambda g: g, checkpoint):
        hy.random.seed(3)
        results.append(bits(hy.value_and_grad(lambda x, wrap=wrap: f(x, wrap))(x)))
        results.append(bits(hy.random.uniform(size=(4,))))
    assert results[:2] == results[2:]


def test_written_tensors_keep_what_was_written() -> None:
    def f(x, wrap):
        count, state = hy.zeros(()), hy.zeros((3,), dtype=hy.float64)

        def step(x):
            nonlocal count
            count += 1
            state.assign(state * 0.5 + x)
            return state * x

        a = wrap(step)(x)
        b = wrap(step)(x * 2.0)
        loss = ops.sum(a * b + state)
        return loss, count

    plain = hy.value_and_grad(lambda x: f(x, lambda g: g), has_aux=True)(X)
    again = hy.value_and_grad(lambda x: f(x, checkpoint), has_aux=True)(X)
    assert bits(again) == bits(plain)
    captured = hy.hybridize(lambda x: f(x, checkpoint)[0], mode="trace")
    for a, b in zip(hy.value_and_grad(captured)(X), (plain[0][0], plain[1]), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-14)


def test_written_attributes_keep_what_was_written() -> None:
    class Cell(hy.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.h = hy.zeros((3,), dtype=hy.float64)

        def forward(self, x):
            self.h = ops.tanh(self.h + x)
            return self.h * x

    def run(wrap):
        cell = Cell()
        x = X.detach()
        x.requires_grad = True
        ops.sum(wrap(cell)(x) + wrap(cell)(x)).backward()
        return bits([cell.h.detach(), x.grad])

    assert run(checkpoint) == run(lambda f: f)


def test_a_later_write_does_not_change_the_second_run() -> None:
    x, y = X.detach(), X.detach()
    x.requires_grad = True
    z = ops.sum(checkpoint(lambda x: ops.exp(x) * y)(x))
    y.assign(y * 100.0)
    z.backward()
    assert x.grad.tolist() == (ops.exp(X) * X).tolist()
    assert y.tolist() == (X * 100.0).tolist()


def test_trees_and_results_without_a_history() -> None:
    @checkpoint
    def f(tree, k):
        return {"a": tree["x"] * k, "b": [tree["x"].detach(), None]}, 3

    def loss(x):
        found, three = f({"x": x}, k=2.0)
        assert three == 3
        assert found["b"][1] is None
        assert found["b"][0].record is None
        return ops.sum(found["a"] * found["b"][0])

    assert hy.grad(loss)(X).tolist() == (X * 2.0).tolist()
    assert checkpoint(lambda x: x.detach())(X).tolist() == X.tolist()


def test_the_function_is_wrapped() -> None:
    assert checkpoint(block).__name__ == "block"


@pytest.mark.parametrize("depth", [3])
def test_checkpoint_in_checkpoint(depth) -> None:
    def nest(f, depth):
        return f if depth == 0 else nest(checkpoint(f), depth - 1)

    expected = bits(hy.grad(lambda x: ops.sum(block(x, W)))(X))
    assert bits(hy.grad(lambda x: ops.sum(nest(block, depth)(x, W)))(X)) == expected


def test_second_run_follows_the_cotangent() -> None:
    """In a graph nothing merges the two runs: the second waits for the gradient."""

    def loss(x):
        return ops.sum(checkpoint(lambda x: ops.sin(ops.exp(x)))(x))

    graph = hy.hybridize(hy.grad(loss), mode="trace").graph(X)
    names = [node.op.name for node in graph.nodes]
    assert names.count("exp") == 2
    assert names.count("after") == 1


def test_an_argument_that_has_a_history_when_it_is_captured() -> None:
    def f(x):
        return checkpoint(lambda x: ops.sin(x) * x)(x)

    captured = hy.hybridize(f, mode="trace")
    expected = bits(hy.grad(lambda x: ops.sum(f(x * 1.0)))(X))
    assert bits(hy.grad(lambda x: ops.sum(captured(x * 1.0)))(X)) == expected
    assert bits(hy.grad(lambda x: ops.sum(captured(x)))(X)) == expected


def test_what_is_a_constant_in_the_call() -> None:
    def f(x):
        with hy.no_grad():
            y = ops.exp(x)
        return y * x * ops.sin(x).detach()

    def loss(x):
        return ops.sum(checkpoint(f)(x))

    expected = bits(hy.grad(loss)(X))
    assert bits(hy.grad(lambda x: ops.sum(f(x)))(X)) == expected
    for captured in (hy.grad(hy.hybridize(loss)), hy.hybridize(hy.grad(loss))):
        assert bits(captured(X)) == expected


def steps(x, w, n, wrap):
    for _ in range(n):
        x = wrap(block)(x, w) + x
    return ops.sum(x * x)


def test_calls_in_a_loop_keep_what_enters_them_alone() -> None:
    def loss(x, w):
        return steps(x, w, 5, checkpoint)

    def plain(x, w):
        return steps(x, w, 5, lambda f: f)

    graph = hy.hybridize(hy.grad(loss)).graph(X, W)
    stacks = [
        v.type for node in graph.nodes if node.op.name == "for" for v in node.results if v.type.rank
    ]
    assert [str(t) for t in stacks].count("f64[5,3]") == 1  # the x of each iteration
    expected = bits(hy.grad(plain, (0, 1))(X, W))
    assert bits(hy.grad(hy.hybridize(loss), (0, 1))(X, W)) == expected
    assert bits(hy.hybridize(hy.grad(loss, (0, 1)))(X, W)) == expected


def test_forward_mode_of_calls_in_a_loop() -> None:
    def loss(x, w):
        return steps(x, w, 3, checkpoint)

    expected = hy.jvp(loss, (X, W), (X * 0.5, W))
    captured = hy.hybridize(lambda x, w: hy.jvp(loss, (x, w), (x * 0.5, w)))
    assert bits(captured(X, W)) == bits(expected)


def test_derivatives_of_both_orders_of_calls_in_a_loop() -> None:
    def loss(x, w):
        return steps(x * 0.5, w * 0.5, 3, checkpoint)

    def norm(x, w):
        return ops.sum(hy.grad(loss)(x, w) ** 2)

    expected = bits(hy.grad(norm, (0, 1))(X, W))
    captured = hy.hybridize(loss)
    outside = hy.grad(lambda x, w: ops.sum(hy.grad(captured)(x, w) ** 2), (0, 1))
    assert bits(outside(X, W)) == expected
    hy.check_grads(hy.hybridize(norm), X, W, order=1, eps=1e-5, rtol=1e-4)


def test_rows_of_a_captured_call() -> None:
    captured = hy.hybridize(checkpoint(lambda x, w: ops.sum(block(x, w) * x)))
    slopes = hy.vmap(hy.grad(captured), in_axes=(0, None))
    many = ops.stack([X, X * 2.0, -X])
    expected = [hy.grad(lambda x: ops.sum(block(x, W) * x))(x).numpy() for x in many]
    np.testing.assert_allclose(slopes(many, W).numpy(), np.stack(expected), rtol=1e-13)


def test_a_graph_with_calls_is_text_and_back() -> None:
    graph = hy.hybridize(lambda x: checkpoint(ops.sin)(x), mode="trace")
    x = X.detach()
    x.requires_grad = True
    text = str(graph.graph(x))
    assert "checkpoint" in text
    assert str(parse(text)) == text


F3, F0 = tensor_type(hy.float32, (3,)), tensor_type(hy.float32, ())


def region(name, given, returned):
    builder = Builder(name)
    params = [builder.param(t) for t in given]
    return builder.finish([params[i] for i in returned])


ERRORS = {
    "one region": (
        (F3, F3),
        (region("made", (F3, F3), (0,)),),
        "checkpoint needs 2 regions, not 1",
    ),
    "a first region that takes something else": (
        (F3, F3),
        (region("made", (F3, F0), (0,)), region("again", (F3,), (0,))),
        """\
        the first region takes f32[3] and f32[]
        Fix: let it be f32[3] and f32[3].""",
    ),
    "a first region that returns something else": (
        (F3, F0),
        (region("made", (F3, F0), (1,)), region("again", (F0,), (0,))),
        """\
        the first region returns f32[]
        Fix: let it be f32[3].""",
    ),
    "a second region that takes something else": (
        (F3, F0),
        (region("made", (F3, F0), (0,)), region("again", (F3,), (0,))),
        """\
        the second region takes f32[3]
        Fix: let it be f32[].""",
    ),
    "a second region that returns something else": (
        (F3, F0),
        (region("made", (F3, F0), (0,)), region("again", (F0,), ())),
        """\
        the second region returns nothing
        Fix: let it be f32[3].""",
    ),
}


@pytest.mark.parametrize("operands, regions, expected", ERRORS.values(), ids=ERRORS)
def test_messages(operands, regions, expected) -> None:
    with pytest.raises(hy.HybridError) as caught:
        checkpoint_call.infer(operands, checkpoint_call.attributes({"outs": 1}), regions)
    assert str(caught.value) == textwrap.dedent(expected)
