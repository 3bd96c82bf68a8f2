"""hybridize: same bits, complete keys, state written back, clear refusals."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    GradientError,
    LeakedValueError,
    TracedBoolError,
    TracedValueError,
)
from hybrid.tree import flatten


def tensor(*shape: int, seed: int = 0) -> hy.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return hy.asarray(values.astype(np.float32))


def leaf(*shape: int, seed: int = 0) -> hy.Tensor:
    x = tensor(*shape, seed=seed)
    x.requires_grad = True
    return x


def same(a: hy.Tensor, b: hy.Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


# Results ---------------------------------------------------------------------------------------

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


# Keys and guards -------------------------------------------------------------------------------

FACTOR = 2.0


def test_a_changed_global_is_honoured(monkeypatch) -> None:
    scale = hy.hybridize(lambda x: x * FACTOR)
    x = hy.ones(2)
    assert scale(x).tolist() == [2.0, 2.0]
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert scale(x).tolist() == [3.0, 3.0]
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert scale(x).tolist() == [2.0, 2.0]
    assert len(scale.plans) == 2


def test_a_global_function_of_a_global_is_followed(monkeypatch) -> None:
    use = hy.hybridize(lambda x: _helper(x))
    assert use(hy.ones(1)).tolist() == [2.0]
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert use(hy.ones(1)).tolist() == [5.0]


def _helper(x):
    return x * FACTOR


def test_a_changed_closure_value_is_honoured() -> None:
    power = 1

    def function(x):
        return x**power

    hybridized = hy.hybridize(function)
    assert hybridized(hy.asarray([3.0])).tolist() == [3.0]
    power = 2
    assert hybridized(hy.asarray([3.0])).tolist() == [9.0]


def test_changed_defaults_are_honoured() -> None:
    def function(x, k=2.0):
        return x * k

    hybridized = hy.hybridize(function)
    assert hybridized(hy.ones(1)).tolist() == [2.0]
    function.__defaults__ = (4.0,)
    assert hybridized(hy.ones(1)).tolist() == [4.0]


def test_changed_attributes_and_items_are_honoured() -> None:
    class Settings:
        def __init__(self) -> None:
            self.scale = 2.0

        def apply(self, x):
            return x * self.scale

    settings, table, factors = Settings(), {"k": 1.0}, [1.0, 2.0]

    def function(x):
        return settings.apply(x) * table["k"] + sum(factors)

    hybridized = hy.hybridize(function)
    x = hy.ones(1)
    assert hybridized(x).tolist() == [5.0]
    settings.scale = 3.0
    assert hybridized(x).tolist() == [6.0]
    table["k"] = 2.0
    assert hybridized(x).tolist() == [9.0]
    factors.append(1.0)
    assert hybridized(x).tolist() == [10.0]


def test_a_mutated_numpy_array_is_honoured() -> None:
    table = np.ones(2, np.float32)
    hybridized = hy.hybridize(lambda x: x + table)
    assert hybridized(hy.zeros(2)).tolist() == [1.0, 1.0]
    table[0] = 9.0
    assert hybridized(hy.zeros(2)).tolist() == [9.0, 1.0]


VALUES = [1, 1.0, True, "1", None, 0.0, -0.0, (1, 2), [1, 2], 2]


def test_python_arguments_are_keys_by_type_and_value() -> None:
    seen = []

    def function(x, flag):
        return x + (0.5 if isinstance(flag, bool) else 0.25), flag

    hybridized = hy.hybridize(function)
    for value in [*VALUES, *VALUES]:
        _, back = hybridized(hy.ones(1), value)
        assert (type(back), repr(back)) == (type(value), repr(value))
        seen.append(repr(back))
    assert len(hybridized.plans) == len(VALUES)


def test_dtype_shape_and_structure_are_keys() -> None:
    hybridized = hy.hybridize(lambda x: x[0] + x[1])
    a, b = hy.ones(2), hy.ones((1, 2))
    hybridized([a, a + 1])
    hybridized((a, a + 1))
    hybridized([b, b + 1])
    hybridized([hy.ones(2, dtype=hy.float64), a])
    assert len(hybridized.plans) == 4


def test_the_same_tensor_twice_is_another_case() -> None:
    def function(x, y):
        x += 1
        return x * y

    hybridized = hy.hybridize(function)
    a, b = hy.ones(2), hy.ones(2)
    assert hybridized(a, b).tolist() == [2.0, 2.0]
    c = hy.ones(2)
    assert hybridized(c, c).tolist() == [4.0, 4.0]
    assert c.tolist() == [2.0, 2.0]


def test_the_cache_is_bounded() -> None:
    hybridized = hy.hybridize(lambda x, k: x * k, max_plans=3)
    for k in range(10):
        assert hybridized(hy.ones(1), k).tolist() == [float(k)]
    assert len(hybridized.plans) == 3
    hybridized.clear()
    assert hybridized.plans == []


def test_numpy_arguments_are_tensors_inside() -> None:
    hybridized = hy.hybridize(lambda x: hy.sum(x * 2))
    assert hybridized(np.ones((2, 3), np.float32)).item() == 12.0


# State -----------------------------------------------------------------------------------------


def test_cells_are_inputs_and_written_back() -> None:
    total = hy.zeros(2)

    def add(x):
        total.assign(total + x)
        return total * 1

    hybridized = hy.hybridize(add)
    for n in range(1, 5):
        before = total.detach()
        assert hybridized(hy.ones(2)).tolist() == [float(n)] * 2
        assert total.tolist() == [float(n)] * 2
        assert before.tolist() == [float(n - 1)] * 2  # a value once read never changes
    total.assign(hy.asarray([10.0, 20.0]))
    assert hybridized(hy.ones(2)).tolist() == [11.0, 21.0]
    assert len(hybridized.plans) == 1


def test_views_of_a_written_cell_keep_their_value() -> None:
    cell = hy.zeros(3)

    def bump():
        cell.assign(cell + 1)

    hybridized = hy.hybridize(bump)
    hybridized()
    view = cell.numpy()
    hybridized()
    hybridized()
    assert view.tolist() == [1.0, 1.0, 1.0]
    assert cell.tolist() == [3.0, 3.0, 3.0]


def test_in_place_operators_write_the_argument() -> None:
    def function(x, y):
        x += y
        x[0] = 7.0
        return x

    x = hy.zeros(3)
    hybridized = hy.hybridize(function)
    assert hybridized(x, hy.ones(3)) is x
    assert x.tolist() == [7.0, 1.0, 1.0]


def test_tensor_attributes_are_slots() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = hy.zeros(())

        def step(self, x):
            hy.Tensor.assign(self.count, self.count + x)
            return self.count * 2

    counter = Counter()
    step = hy.hybridize(counter.step)
    assert [step(hy.ones(())).item() for _ in range(3)] == [2.0, 4.0, 6.0]
    counter.count = hy.asarray(10.0)
    assert step(hy.ones(())).item() == 22.0
    assert len(step.plans) == 1


def test_a_training_step_is_one_plan() -> None:
    def make():
        w, b = leaf(3, 2, seed=1), leaf(2, seed=2)

        def step(x, y):
            w.grad = b.grad = None
            loss = hy.mean((hy.tanh(x @ w + b) - y) ** 2)
            loss.backward()
            with hy.no_grad():
                w.assign(w - 0.1 * w.grad)
                b.assign(b - 0.1 * b.grad)
            return loss

        return w, b, step

    x, y = tensor(4, 3, seed=3), tensor(4, 2, seed=4)
    w1, b1, eager = make()
    w2, b2, step = make()
    hybridized = hy.hybridize(step)
    for _ in range(6):
        assert same(eager(x, y), hybridized(x, y))
        for a, b in ((w1, w2), (b1, b2), (w1.grad, w2.grad), (b1.grad, b2.grad)):
            assert same(a, b)
    assert len(hybridized.plans) == 1
    held = w2.grad
    kept = held.numpy().copy()
    hybridized(x, y)
    assert held.numpy().tobytes() == kept.tobytes()  # a gradient in somebody's hands stays


def test_gradients_add_up_over_calls() -> None:
    w = leaf(3)

    def accumulate(x):
        hy.sum(w * x).backward()

    hybridized = hy.hybridize(accumulate)
    for n in range(1, 4):
        hybridized(hy.ones(3))
        assert w.grad.tolist() == [float(n)] * 3
    w.grad = None
    hybridized(hy.ones(3))
    assert w.grad.tolist() == [1.0] * 3
    assert len(hybridized.plans) == 2  # from no gradient, and from one


# Gradients through -----------------------------------------------------------------------------


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


# Refusals --------------------------------------------------------------------------------------


def test_the_truth_of_a_traced_value() -> None:
    def function(x):
        if hy.sum(x) > 0:  # the line in the message
            return x
        return -x

    with pytest.raises(TracedBoolError) as caught:
        hy.hybridize(function)(hy.ones(2))
    text = str(caught.value)
    assert "the truth of a traced value was asked for" in text
    assert "if hy.sum(x) > 0:  # the line in the message" in text
    assert f"{__file__}:{caught.value.at.line}" in text
    assert "(bool[] here)" in text
    assert "Fix: call hybrid.where" in text


@pytest.mark.parametrize(
    "ask", [float, int, hy.Tensor.item, hy.Tensor.numpy, hy.Tensor.tolist, np.asarray]
)
def test_the_number_of_a_traced_value(ask) -> None:
    with pytest.raises(TracedValueError, match="of a traced value was asked for"):
        hy.hybridize(lambda x: ask(x[0] * 2))(hy.ones(2))
    cell = hy.ones(())
    with pytest.raises(TracedValueError):  # a cell's value may change between runs, too
        hy.hybridize(lambda x: x * ask(cell))(hy.ones(2))


def test_leaks() -> None:
    kept = []

    def store(x):
        box.append(x + 1)
        return x

    box = kept
    with pytest.raises(CaptureError, match="store changed closure variable while it was captured"):
        hy.hybridize(store)(hy.ones(2))

    class Holder:
        value = None

    holder = Holder()

    def hide(x):
        setattr(holder, "val" + "ue", x + 1)
        return x

    hy.hybridize(hide)(hy.ones(2))
    with pytest.raises(LeakedValueError, match="used after its capture had ended") as caught:
        holder.value + 1
    assert "It was made while a hybridized function was traced" in str(caught.value)


def test_side_effects_that_cannot_be_repeated() -> None:
    calls = {"n": 0}

    def function(x):
        calls["n"] += 1
        return x

    with pytest.raises(CaptureError, match="changed closure variable") as caught:
        hy.hybridize(function)(hy.ones(1))
    assert "Fix: keep the value in a tensor" in str(caught.value)


def test_a_failed_capture_leaves_no_trace() -> None:
    w = leaf(2)
    w.grad = hy.ones(2)

    def function(x):
        w.grad = None
        hy.sum(w * x).backward()
        w.assign(w.detach() * 2)
        raise KeyError("stop")

    before = w.numpy().copy()
    with pytest.raises(KeyError, match="stop"):
        hy.hybridize(function)(hy.ones(2))
    assert w.grad.tolist() == [1.0, 1.0]
    assert w.numpy().tobytes() == before.tobytes()
    assert (w * 1).requires_grad


def test_fallback_to_eager_warns_once() -> None:
    def function(x):
        return x if float(hy.sum(x)) > 0 else -x

    hybridized = hy.hybridize(function, fallback="eager")
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert hybridized(hy.ones(1)).item() == 1.0
    assert hybridized(-hy.ones(1)).item() == 1.0  # a second warning would be an error


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


def test_errors_of_ops_are_those_of_eager() -> None:
    def function(x, y):
        return x @ y

    x, y = hy.ones((2, 3)), hy.ones((2, 3))
    with pytest.raises(ValueError) as eager:
        function(x, y)
    with pytest.raises(type(eager.value)) as hybridized:
        hy.hybridize(function)(x, y)
    assert str(eager.value) == str(hybridized.value)


def test_an_index_out_of_range_raises_from_the_plan() -> None:
    def function(x, i):
        y = x * 2
        return hy.take(y, i, axis=0)  # the author's line

    x, good, bad = hy.ones((3, 2)), hy.asarray([0, 2]), hy.asarray([0, 3])
    hybridized = hy.hybridize(function)
    assert hybridized(x, good).shape == (2, 2)
    with pytest.raises(IndexError) as eager:
        function(x, bad)
    with pytest.raises(IndexError) as planned:
        hybridized(x, bad)
    assert type(eager.value) is type(planned.value)
    assert "the author's line" in str(planned.value)
    assert hybridized(x, good).shape == (2, 2)


# Being a function ------------------------------------------------------------------------------


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


def test_copies_and_pickles() -> None:
    function = hy.hybridize(_helper)
    function(hy.ones(1))
    for other in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert other.plans == []
        assert other(hy.ones(1)).item() == function(hy.ones(1)).item()


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

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
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
