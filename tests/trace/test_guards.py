"""Keys and guards: what selects a plan, and what makes another one."""

import numpy as np

import hybrid as hy

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
