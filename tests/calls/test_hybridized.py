"""hybridize: same bits, same structures, same gradients, and a callable like any other."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.tree import flatten
from hybrid.errors import ArgumentError, ArgumentTypeError, GradientError
from tests.helpers import leaf, same, tensor

# Results ----------------------------------------------------------------------------------------

STRUCTURES = {
    "a tensor": lambda x: x + 1,
    "a list of one": lambda x: [x + 1],
    "a tuple of one": lambda x: (x + 1,),
    "None": lambda x: None,
    "a dict": lambda x: {"a": x + 1, "b": [x * 2, None]},
    "numbers and strings": lambda x: (x + 1, 3, "text", 2.5, True),
    "the argument": lambda x: x,
    "the argument inside": lambda x: (x, x + 1, x),
    "nothing of tensors": lambda x: 7,
    "an empty tuple": lambda x: (),
}


@pytest.mark.parametrize("function", STRUCTURES.values(), ids=STRUCTURES)
def test_result_structure(function) -> None:
    x = tensor(3)
    hybridized = hy.hybridize(function)
    for _ in range(2):
        expected, found = function(x), hybridized(x)
        assert type(found) is type(expected)
        left, left_structure = flatten(expected)
        right, right_structure = flatten(found)
        assert left_structure == right_structure
        for a, b in zip(left, right, strict=True):
            assert same(a, b) if isinstance(a, hy.Tensor) else (type(a), a) == (type(b), b)


def test_the_argument_comes_back_as_itself() -> None:
    x = tensor(3)
    assert hy.hybridize(lambda x: x)(x) is x
    twice = hy.hybridize(lambda x: (x + 1,) * 2)(x)
    assert twice[0] is twice[1]


def test_results_of_a_call_survive_the_next() -> None:
    double = hy.hybridize(lambda x: x * 2)
    first = double(hy.ones(4))
    second = double(hy.ones(4) * 5)
    assert first.tolist() == [2.0] * 4
    assert second.tolist() == [10.0] * 4


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (16,), (17,), (3, 0, 2), (5, 33)])
def test_bits(shape) -> None:
    def function(x):
        y = hy.tanh(x * 1.5 + 0.3) * hy.sigmoid(x) + x * x
        return y, hy.sum(y), hy.exp(-y) > 0.5

    x = tensor(*shape)
    for a, b in zip(function(x), hy.hybridize(function)(x), strict=True):
        assert same(a, b)


# Gradients through ------------------------------------------------------------------------------


def test_planned_backward() -> None:
    def function(x, w):
        h = hy.tanh(x @ w)
        return h, hy.sum(h * h, axis=0)

    hybridized = hy.hybridize(function)
    x, w1, w2 = tensor(4, 3), leaf(3, 2, seed=1), leaf(3, 2, seed=1)
    for _ in range(2):
        w1.grad = w2.grad = None
        for f, w in ((function, w1), (hybridized, w2)):
            h, s = f(x, w)
            (hy.sum(h) + hy.sum(s * s)).backward()
        assert same(w1.grad, w2.grad)
    assert len(hybridized.plans) == 1


def test_transforms_of_hybridized_functions() -> None:
    def function(w):
        return hy.sum(hy.tanh(w) * w)

    hybridized = hy.hybridize(function)
    w, v = tensor(5), tensor(5, seed=1)
    assert same(hy.grad(hybridized)(w), hy.grad(function)(w))
    twice = [hy.grad(lambda w, f=f: hy.sum(hy.grad(f)(w) ** 2))(w) for f in (function, hybridized)]
    assert same(*twice)
    tangents = [hy.jvp(f, (w,), (v,))[1] for f in (function, hybridized)]
    np.testing.assert_allclose(tangents[0].numpy(), tangents[1].numpy(), rtol=1e-6)
    assert same(hy.hybridize(hy.grad(function))(w), hy.grad(function)(w))


def test_recording_is_part_of_the_key() -> None:
    w = leaf(3)
    hybridized = hy.hybridize(lambda x: hy.sum(w * x))
    assert hybridized(hy.ones(3)).requires_grad
    with hy.no_grad():
        assert not hybridized(hy.ones(3)).requires_grad
    w.requires_grad = False
    assert not hybridized(hy.ones(3)).requires_grad


def test_a_used_history_is_refused_as_in_eager() -> None:
    w = leaf(3)

    def step(x):
        loss = hy.sum(w * x)
        loss.backward()
        return loss

    for f in (step, hy.hybridize(step)):
        loss = f(hy.ones(3))
        assert loss.requires_grad
        with pytest.raises(GradientError, match="already used by backward"):
            loss.backward()


# Being a function -------------------------------------------------------------------------------


def test_decorator_forms() -> None:
    @hy.hybridize
    def plain(x):
        """Doc."""
        return x + 1

    @hy.hybridize(max_plans=2)
    def with_options(x):
        return x + 1

    assert plain.__name__ == "plain" and plain.__doc__ == "Doc."
    assert plain(hy.ones(1)).item() == with_options(hy.ones(1)).item() == 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "magic"}, "mode='magic' is unknown"),
        ({"optimize": "most"}, "optimize='most' is unknown"),
        ({"fallback": "maybe"}, "fallback='maybe' is unknown"),
        ({"max_plans": 0}, "max_plans is 0"),
    ],
)
def test_options_are_checked(options, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        hy.hybridize(lambda x: x, **options)


def test_only_callables_are_hybridized() -> None:
    with pytest.raises(ArgumentTypeError, match="int is not callable"):
        hy.hybridize(3)


def test_methods_do_not_talk_across_instances() -> None:
    class Scale:
        def __init__(self, k: float) -> None:
            self.k = k

        @hy.hybridize
        def apply(self, x):
            return x * self.k

    two, three = Scale(2.0), Scale(3.0)
    assert two.apply(hy.ones(1)).item() == 2.0
    assert three.apply(hy.ones(1)).item() == 3.0
    two.k = 5.0
    assert two.apply(hy.ones(1)).item() == 5.0
    assert three.apply(hy.ones(1)).item() == 3.0
    died = weakref.ref(two)
    del two
    gc.collect()
    assert died() is None


def test_hybridized_calls_hybridized() -> None:
    inner = hy.hybridize(lambda x: x * 2)
    outer = hy.hybridize(lambda x: inner(x) + 1)
    assert outer(hy.ones(1)).item() == 3.0
    assert inner.plans == []


def test_keywords() -> None:
    hybridized = hy.hybridize(lambda x, *, k, y=None: x * k + (0 if y is None else y))
    assert hybridized(hy.ones(1), k=2).item() == 2.0
    assert hybridized(hy.ones(1), k=2, y=hy.ones(1)).item() == 3.0


def doubled(x):
    return x * 2.0


def test_copies_and_pickles() -> None:
    function = hy.hybridize(doubled)
    function(hy.ones(1))
    for other in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert other.plans == []
        assert other(hy.ones(1)).item() == function(hy.ones(1)).item()


@hy.hybridize
def decorated(x):
    return x * 3.0


class Holder:
    @staticmethod
    @hy.hybridize
    def decorated(x):
        return x * 4.0


@pytest.mark.parametrize("protocol", range(4, pickle.HIGHEST_PROTOCOL + 1))
def test_functions_that_are_decorated_in_their_module(protocol) -> None:
    for function, expected in ((decorated, 3.0), (Holder.decorated, 4.0)):
        assert function(hy.ones(1)).item() == expected
        assert pickle.loads(pickle.dumps(function, protocol)) is function, "as other functions are"
        for other in (copy.copy(function), copy.deepcopy(function)):
            assert other is not function
            assert other.plans == []
            assert other(hy.ones(1)).item() == expected


def test_several_threads() -> None:
    def function(x):
        for _ in range(5):
            x = hy.tanh(x * 1.1 + 0.1)
        return hy.sum(x)

    hybridized = hy.hybridize(function)
    inputs = [tensor(64, 8, seed=i) for i in range(8)]
    expected = [function(x).item() for x in inputs]
    wrong = []

    def work(i: int) -> None:
        for _ in range(200):
            if hybridized(inputs[i]).item() != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(hybridized.plans) == 1


def test_plans_read_well() -> None:
    hybridized = hy.hybridize(lambda x: hy.tanh(x * 2) + 1)
    hybridized(hy.ones((2, 3)))
    (info,) = hybridized.plans
    assert info.arguments == ("f32[2,3]",)
    assert info.steps == 1 and info.calls == 1
    assert str(info).startswith("(f32[2,3]): ")
    assert "tanh" in str(hybridized.graph(hy.ones((2, 3))))
    assert repr(hybridized) == "<hybridized graph: 1 plans>"


def test_random_draws_are_the_same() -> None:
    def function():
        return hy.random.uniform(size=3), hy.random.normal(size=2)

    hybridized = hy.hybridize(function)
    hy.random.seed(7)
    eager = [function() for _ in range(3)]
    hy.random.seed(7)
    planned = [hybridized() for _ in range(3)]
    for a, b in zip(eager, planned, strict=True):
        assert same(a[0], b[0]) and same(a[1], b[1])
    assert eager[0][0].tolist() != eager[1][0].tolist()


def test_memory_comes_back() -> None:
    weights = hy.zeros((1000, 1000))
    gone = weakref.ref(weights)
    hybridized = hy.hybridize(lambda x, w=weights: x + w)
    hybridized(hy.ones((1000, 1000)))
    del hybridized, weights
    gc.collect()
    assert gone() is None
