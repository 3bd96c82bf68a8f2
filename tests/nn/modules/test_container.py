"""Sequential, ModuleList and ModuleDict behave like the list and dict they are named after."""

import operator

import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import (
    Identity,
    Linear,
    Module,
    ModuleDict,
    ModuleList,
    ReLU,
    Sequential,
    Sigmoid,
    Tanh,
)


def filled(kind):
    modules = [ReLU(), Tanh(), Sigmoid()]
    return modules, (Sequential(*modules) if kind is Sequential else ModuleList(modules))


@pytest.mark.parametrize("kind", [Sequential, ModuleList])
class TestNumbered:
    def test_reading(self, kind):
        modules, found = filled(kind)
        assert len(found) == 3 and list(found) == modules
        assert found[0] is modules[0] and found[-1] is modules[2]
        part = found[1:]
        assert type(part) is kind and list(part) == modules[1:]
        assert [name for name, _ in found.named_children()] == ["0", "1", "2"]

    def test_writing(self, kind):
        modules, found = filled(kind)
        assert found.append(first := Identity()) is found
        assert found.extend([Identity()]) is found
        assert found.insert(-1, last := Identity()) is found
        assert found[3] is first and found[4] is last and len(found) == 6
        found[-6] = replaced = Identity()
        assert found[0] is replaced
        del found[0]
        assert found[0] is modules[1]
        del found[1:]
        assert list(found) == [modules[1]]
        assert list(found._modules) == [("0", modules[1])]

    def test_errors(self, kind):
        _, found = filled(kind)
        with pytest.raises(IndexError, match=f"index 3 of a {kind.__name__} of 3 modules"):
            found[3]
        with pytest.raises(IndexError, match="index -4"):
            found[-4] = ReLU()
        with pytest.raises(ArgumentTypeError, match="'0' is not an index"):
            found["0"]
        for write in (
            lambda: found.append(3),
            lambda: found.insert(0, 3),
            lambda: found.__setitem__(0, 3),
        ):
            with pytest.raises(ArgumentTypeError, match="a int is not a module"):
                write()
        assert len(found) == 3

    def test_joining_and_taking_out(self, kind):
        modules, found = filled(kind)
        both = found + kind(*[ReLU()] if kind is Sequential else [[ReLU()]])
        assert type(both) is kind and list(both)[:3] == modules and len(both) == 4
        same_one = found
        found += [last := Identity()]
        assert found is same_one and found[-1] is last and last in found
        assert found.pop() is last and found.pop(0) is modules[0]
        assert list(found) == modules[1:] and modules[0] not in found
        assert [name for name, _ in found._modules] == ["0", "1"]
        with pytest.raises(TypeError):
            operator.add(found, [ReLU()])
        for wrong in ({"a": ReLU()}, 3):
            with pytest.raises(ArgumentTypeError, match="is no list of modules"):
                found.extend(wrong)
        with pytest.raises(ArgumentTypeError, match="a int is not a module"):
            found.extend([ReLU(), 3])
        assert len(found) == 2  # nothing of a bad list was added
        assert kind() is not None and len(kind()) == 0


def test_sequential_times():
    linear = Linear(2, 2)
    twice = Sequential(linear, ReLU()) * 2
    assert len(twice) == 4 and twice[0] is twice[2] is linear
    assert len(list(twice.parameters())) == 2
    twice *= 2
    assert len(twice) == 8
    for times in (0, 1.5, True):
        with pytest.raises(ArgumentTypeError, match="times a Sequential\nFix: give an int of at"):
            twice * times


def test_sequential_applies_in_order():
    double, increment = Linear(1, 1), Linear(1, 1)
    double.load_state_dict({"weight": hy.asarray([[2.0]]), "bias": hy.asarray([0.0])})
    increment.load_state_dict({"weight": hy.asarray([[1.0]]), "bias": hy.asarray([1.0])})
    x = hy.asarray([[3.0]])
    assert Sequential(double, increment)(x).item() == 7.0
    assert Sequential(increment, double)(x).item() == 8.0
    assert Sequential()(x) is x


def test_sequential_of_named_modules():
    net = Sequential({"first": ReLU(), "second": Tanh()})
    assert [name for name, _ in net.named_children()] == ["first", "second"]
    assert [name for name, _ in net[:1].named_children()] == ["first"]
    net[0] = fresh = Sigmoid()
    assert net.first is net[0] is fresh


def test_lists_in_a_model_register_their_parameters():
    class Net(Module):
        def __init__(self):
            self.layers = ModuleList(Linear(2, 2) for _ in range(2))
            self.heads = ModuleDict({"a": Linear(2, 1)})

    assert [name for name, _ in Net().named_parameters()] == [
        "layers.0.weight",
        "layers.0.bias",
        "layers.1.weight",
        "layers.1.bias",
        "heads.a.weight",
        "heads.a.bias",
    ]


def test_module_dict():
    relu, tanh = ReLU(), Tanh()
    found = ModuleDict({"relu": relu})
    found["tanh"] = tanh
    found.update([("last", Sigmoid())])
    assert found.keys() == list(found) == ["relu", "tanh", "last"]
    assert found["relu"] is found.relu is relu and "tanh" in found and len(found) == 3
    assert found.values()[:2] == [relu, tanh]
    assert found.items()[0] == ("relu", relu)
    assert found.pop("tanh") is tanh
    del found["last"]
    assert ModuleList(None)._modules == () == ModuleDict(None)._modules
    other = ModuleDict(found)
    assert other.items() == found.items()
    other.clear()
    assert len(other) == 0 and len(found) == 1
    found["relu"] = fresh = ReLU()
    assert found.items() == [("relu", fresh)]


def test_module_dict_errors():
    found = ModuleDict()
    with pytest.raises(KeyError) as caught:
        found["missing"]
    assert str(caught.value) == "ModuleDict has no module 'missing'\nIt is empty."
    with pytest.raises(KeyError) as caught:
        ModuleDict({f"m{i}": ReLU() for i in range(18)})["missing"]
    listed = ", ".join([f"m{i}" for i in range(16)])
    assert caught.value.why == f"There are {listed} and 2 more."
    with pytest.raises(KeyError, match="missing"):
        del found["missing"]
    with pytest.raises(ArgumentTypeError, match="a str is not a module"):
        found["a"] = "b"
    with pytest.raises(ArgumentError, match="ModuleDict has an attribute 'keys' already"):
        found["keys"] = ReLU()
