"""Keys and guards: what selects a plan, and what makes another one."""

import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.nn import Dropout, Linear, Module, Sequential
from tests.helpers import leaf, same, tensor

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
    assert len(hybridized.plans) == len(VALUES) - 1  # 0.0 and -0.0 share the plan of any float


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
    hybridized = hy.hybridize(lambda x, k: x * len(k), max_plans=3)
    for k in range(10):
        assert hybridized(hy.ones(1), "k" * k).tolist() == [float(k)]
    assert len(hybridized.plans) == 3
    hybridized.clear()
    assert hybridized.plans == []


def test_numpy_arguments_are_tensors_inside() -> None:
    hybridized = hy.hybridize(lambda x: hy.sum(x * 2))
    assert hybridized(np.ones((2, 3), np.float32)).item() == 12.0


ARGUMENTS: dict[str, tuple[Any, Callable[[Any], Any], Callable[..., Any]]] = {
    "an object": (
        types.SimpleNamespace(scale=2.0),
        lambda a: setattr(a, "scale", 3.0),
        lambda x, a: x * a.scale,
    ),
    "an object in a list": (
        [types.SimpleNamespace(scale=2.0)],
        lambda a: setattr(a[0], "scale", 3.0),
        lambda x, a: x * a[0].scale,
    ),
    "a set": ({1, 2}, lambda a: a.add(3), lambda x, a: x * len(a)),
    "a deque": (
        collections.deque([2.0]),
        lambda a: a.__setitem__(0, 3.0),
        lambda x, a: x * a[0],
    ),
    "a default dict": (
        collections.defaultdict(float, k=2.0),
        lambda a: a.update(k=3.0),
        lambda x, a: x * a["k"],
    ),
    "an array": (
        np.ones(3, np.float32),
        lambda a: a.__setitem__(0, 3.0),
        lambda x, a: x * a,
    ),
}


@pytest.mark.parametrize(("argument", "change", "function"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_changed_argument_is_honoured(argument, change, function) -> None:
    hybridized = hy.hybridize(function)
    x = hy.asarray([1.0, 2.0, 3.0])
    before = hybridized(x, argument)
    assert same(before, function(x, argument))
    change(argument)
    assert same(hybridized(x, argument), function(x, argument))
    assert not same(hybridized(x, argument), before)


# Keys ------------------------------------------------------------------------------------------


def test_slices_and_ranges_are_keys_by_value() -> None:
    take = hy.hybridize(lambda x, part: x[part])
    count = hy.hybridize(lambda x, steps: x * len(steps) * steps.stop)
    x = hy.asarray([1.0, 2.0, 3.0])
    for _ in range(2):
        assert take(x, slice(0, 2)).tolist() == [1.0, 2.0]
        assert take(x, slice(0, None)).tolist() == [1.0, 2.0, 3.0]
        assert count(x, range(0, 3, 2)).tolist() == [6.0, 12.0, 18.0]
        assert count(x, range(0, 4, 2)).tolist() == [
            8.0,
            16.0,
            24.0,
        ]  # equal to the other as a sequence
    assert len(take.plans) == len(count.plans) == 2


def test_the_order_of_a_dict_is_part_of_the_key() -> None:
    first = hy.hybridize(lambda items: next(iter(items.values())) * 1)
    a, b = hy.asarray(1.0), hy.asarray(2.0)
    assert first({"a": a, "b": b}).item() == 1.0
    assert first({"b": b, "a": a}).item() == 2.0
    assert len(first.plans) == 2


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: Point(a, b),
        lambda a, b: (a, b),
        lambda a, b: [a, b],
        lambda a, b: collections.OrderedDict(x=a, y=b),
    ],
)
def test_trees_of_tensors_are_one_plan(build) -> None:
    def function(pair):
        a, b = pair.values() if isinstance(pair, dict) else pair
        return build(b * 2, a)

    hybridized = hy.hybridize(function)
    for k in (1.0, 2.0):
        found = hybridized(build(hy.asarray(k), hy.asarray(k + 1)))
        expected = build(hy.asarray(2 * (k + 1)), hy.asarray(k))
        assert type(found) is type(expected)
        values = [list(t.values() if isinstance(t, dict) else t) for t in (found, expected)]
        assert [t.item() for t in values[0]] == [t.item() for t in values[1]]
    assert len(hybridized.plans) == 1


def test_variable_arguments() -> None:
    def function(*args, scale=1.0, **named):
        return sum(args) * scale, {name: value + 1 for name, value in named.items()}

    hybridized = hy.hybridize(function)
    a, b = hy.asarray(1.0), hy.asarray(2.0)
    for _ in range(2):
        total, named = hybridized(a, b, extra=b)
        assert total.item() == 3.0 and named["extra"].item() == 3.0
        total, named = hybridized(a, scale=3.0)
        assert total.item() == 3.0 and named == {}
    assert len(hybridized.plans) == 2
    with pytest.raises(TypeError, match="positional argument"):
        hy.hybridize(lambda x, *, k: x * k)(a, 2)


def test_recording_selects_the_plan() -> None:
    w = tensor(3)
    total = hy.hybridize(lambda x: hy.sum(x * w))
    x, seen = hy.ones(3), []
    for wanted in (False, True, False, True):
        w.requires_grad = wanted
        seen.append(total(x).requires_grad)
    assert seen == [False, True, False, True]
    assert len(total.plans) == 2


def test_an_argument_with_a_gradient_is_another_plan() -> None:
    double = hy.hybridize(lambda x: x * 2)
    assert not double(tensor(3)).requires_grad
    assert double(leaf(3)).requires_grad
    assert double(leaf(3) * 1).requires_grad
    assert len(double.plans) == 2


def test_training_toggles_between_two_plans() -> None:
    network = Sequential(Linear(3, 3), Dropout(0.5))
    run = hy.hybridize(lambda x: network(x))
    x = hy.ones((2, 3))
    for _ in range(3):
        network.train()
        run(x)
        network.eval()
        assert same(run(x), network(x))
    assert len(run.plans) == 2
    assert sorted(plan.calls for plan in run.plans) == [3, 3]


def test_a_list_of_modules_is_followed() -> None:
    layers = [Linear(3, 3), Linear(3, 3)]

    def run(x):
        for layer in layers:
            x = layer(x)
        return x

    hybridized = hy.hybridize(run)
    x = tensor(2, 3)
    assert same(hybridized(x), run(x))
    layers.append(Linear(3, 1))
    assert same(hybridized(x), run(x)) and run(x).shape == (2, 1)
    layers[0] = Linear(3, 3)
    assert same(hybridized(x), run(x))
    layers[1].weight = hy.nn.Parameter(np.ones((3, 3), np.float32))
    assert same(hybridized(x), run(x))
    assert len(hybridized.plans) == 4


def test_a_property_of_a_module_is_followed() -> None:
    class Scaled(Module):
        def __init__(self) -> None:
            self.scale = 2.0
            self.weight = hy.nn.Parameter(np.ones(3, np.float32))

        @property
        def scaled(self):
            return self.weight * self.scale

        def forward(self, x):
            return x * self.scaled

    network = Scaled().hybridize()
    assert network(hy.ones(3)).tolist() == [2.0] * 3
    network.scale = 5.0
    assert network(hy.ones(3)).tolist() == [5.0] * 3
    assert len(network.plans) == 2


def test_a_tensor_default_is_an_input() -> None:
    weights = hy.ones(2)

    def function(x, w=weights):
        return x * w

    hybridized = hy.hybridize(function)
    assert hybridized(hy.ones(2)).tolist() == [1.0, 1.0]
    weights.assign(hy.asarray([2.0, 3.0]))
    assert hybridized(hy.ones(2)).tolist() == [2.0, 3.0]
    assert len(hybridized.plans) == 1
    function.__defaults__ = (hy.asarray([7.0, 7.0]),)
    assert hybridized(hy.ones(2)).tolist() == [7.0, 7.0]


def test_a_replaced_closure_tensor_is_honoured() -> None:
    w = hy.ones(2)

    def function(x):
        return x * w

    hybridized = hy.hybridize(function)
    assert hybridized(hy.ones(2)).tolist() == [1.0, 1.0]
    w = hy.asarray([2.0, 3.0])
    assert hybridized(hy.ones(2)).tolist() == [2.0, 3.0]
    w = hy.asarray([2.0, 3.0], dtype=hy.float64)
    assert hybridized(hy.ones(2)).dtype is hy.float64


# The cache -------------------------------------------------------------------------------------


def test_the_least_recently_used_plan_goes_first() -> None:
    hybridized = hy.hybridize(lambda x, k: x * len(k), max_plans=2)
    for k in ("a", "b", "a", "c"):
        hybridized(hy.ones(1), k)
    assert [plan.arguments for plan in hybridized.plans] == [("f32[1]", "'a'"), ("f32[1]", "'c'")]


def test_the_short_way_counts_as_use_and_forgets_too() -> None:
    """Calls with plain tensors alone are looked up on a way of their own."""
    hybridized = hy.hybridize(lambda x: x * 2, max_plans=2, dynamic=False)
    for n in (1, 2, 1, 3):
        assert hybridized(hy.ones(n)).shape == (n,)
    assert [plan.arguments for plan in hybridized.plans] == [("f32[1]",), ("f32[3]",)]
    assert hybridized(hy.ones(2)).tolist() == [2.0, 2.0]
    assert [plan.arguments for plan in hybridized.plans] == [("f32[3]",), ("f32[2]",)]


def test_plans_name_what_they_depend_on() -> None:
    settings = types.SimpleNamespace(scale=2.0)
    offset = 1.0

    def function(x, *, power=2):
        return settings.scale * x**power + offset + FACTOR

    hybridized = hy.hybridize(function)
    hybridized(hy.ones((2, 3)))
    hybridized(hy.ones((2, 3)))
    (plan,) = hybridized.plans
    assert plan.arguments == ("f32[2,3]",) and plan.calls == 2
    assert {"SimpleNamespace.scale", "global FACTOR", "keyword defaults of function"} <= set(
        plan.guards
    )
    assert {"closure variable settings", "closure variable offset"} <= set(plan.guards)
    assert plan.nodes >= 4 and plan.steps == 1 and plan.arena_nbytes >= 0
