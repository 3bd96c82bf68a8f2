"""ParameterList and ParameterDict behave like the list and dict they are named after."""

import pytest

import hybrid as hy
from hybrid.errors import ArgumentTypeError
from hybrid.nn import Module, Parameter, ParameterDict, ParameterList
from tests.helpers import same


def test_list():
    first, second = Parameter([1.0]), Parameter([2.0])
    found = ParameterList([first])
    assert found.append(second) is found
    found += [hy.asarray([3.0])]
    assert len(found) == 3 and found[0] is first and found[-2] is second
    assert type(found[2]) is Parameter and found[2].requires_grad
    assert [p.tolist() for p in found] == [[1.0], [2.0], [3.0]]
    assert list(found[1:]) == [second, found[2]] and type(found[:1]) is ParameterList
    found[-1] = other = Parameter([4.0])
    assert found[2] is other
    assert list(found.state_dict()) == ["0", "1", "2"]
    assert len(ParameterList()) == 0
    assert repr(found[:2]) == (
        "ParameterList(\n  (0): Parameter f32[1]\n  (1): Parameter f32[1]\n)"
    )
    assert repr(ParameterList()) == "ParameterList()"


def test_list_errors():
    found = ParameterList([Parameter([1.0])])
    with pytest.raises(IndexError, match="index 1 of a ParameterList of 1 parameters"):
        found[1]
    with pytest.raises(ArgumentTypeError, match="'0' is not an index"):
        found["0"]
    with pytest.raises(ArgumentTypeError, match="a float is not a parameter"):
        found.extend([Parameter([2.0]), 3.0])
    assert len(found) == 1


def test_dict():
    first, second = Parameter([1.0]), Parameter([2.0])
    found = ParameterDict({"a": first})
    found["b"] = second
    found.update([("c", hy.asarray([3.0]))])
    assert found.keys() == list(found) == ["a", "b", "c"] and "b" in found and len(found) == 3
    assert found["a"] is found.a is first and found.get("b") is second
    assert found.get("z") is None and found.get("z", 5) == 5
    assert found.values()[0] is first and found.items()[1] == ("b", second)
    assert found.setdefault("a", second) is first
    assert found.setdefault("d", hy.asarray([4.0])).tolist() == [4.0]
    assert found.pop("b") is second
    del found["d"]
    found["a"] = second
    assert list(found.state_dict()) == ["a", "c"] and found["a"] is second
    copy = ParameterDict(found)
    assert copy.items() == found.items()
    found.clear()
    assert len(found) == 0 and len(copy) == 2 and len(ParameterDict()) == 0
    assert repr(copy).startswith("ParameterDict(\n  (a): Parameter f32[1]")


def test_dict_errors():
    found = ParameterDict()
    for call in (lambda: found["missing"], lambda: found.pop("missing")):
        with pytest.raises(KeyError) as caught:
            call()
        assert str(caught.value) == "ParameterDict has no parameter 'missing'\nIt is empty."
    with pytest.raises(ArgumentTypeError, match="a int is not a parameter"):
        found["a"] = 3


def test_parameters_of_containers_are_learnt_by_plans():
    class Net(Module):
        def __init__(self):
            self.scales = ParameterList([Parameter([2.0]), Parameter([3.0])])
            self.shifts = ParameterDict({"first": Parameter([1.0])})

        def forward(self, x):
            for scale in self.scales:
                x = x * scale
            return x + self.shifts["first"]

    eager, captured = Net(), Net().hybridize()
    x = hy.asarray([1.0, -1.0])
    for net in (eager, captured):
        hy.sum(net(x) ** 2).backward()
    assert same(eager(x), captured(x)) and eager(x).tolist() == [7.0, -5.0]
    names = [name for name, _ in captured.named_parameters()]
    assert names == ["scales.0", "scales.1", "shifts.first"]
    for p, q in zip(eager.parameters(), captured.parameters(), strict=True):
        assert same(p.grad, q.grad)
