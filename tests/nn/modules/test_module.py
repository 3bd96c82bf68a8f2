"""Module: attributes and registries, the tree, switches, copies."""

import copy
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.config import EPOCH
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import Linear, Module, Parameter, ReLU, Sequential


class Net(Module):
    """A parameter, a buffer, children, and a plain setting."""

    def __init__(self):
        super().__init__()
        self.scale = Parameter([2.0])
        self.register_buffer("offset", hy.asarray([1.0]))
        self.register_buffer("scratch", hy.asarray([0.0]), persistent=False)
        self.inner = Linear(1, 2)
        self.act = ReLU()
        self.level = 3

    def forward(self, x):
        return self.act(self.inner(x * self.scale + self.offset)) * self.level


def names(pairs):
    return [name for name, _ in pairs]


# The tree -----------------------------------------------------------------------------------------


def test_parts_are_listed_in_order():
    net = Net()
    assert names(net.named_parameters()) == ["scale", "inner.weight", "inner.bias"]
    assert names(net.named_parameters(prefix="net", recurse=False)) == ["net.scale"]
    assert names(net.named_buffers()) == ["offset", "scratch"]
    assert names(net.named_children()) == ["inner", "act"]
    assert names(net.named_modules()) == ["", "inner", "act"]
    assert list(net.parameters()) == [net.scale, net.inner.weight, net.inner.bias]
    assert list(net.buffers()) == [net.offset, net.scratch]
    assert list(net.children()) == [net.inner, net.act]
    assert list(net.modules()) == [net, net.inner, net.act]


def test_parts_are_ordinary_attributes():
    net = Net()
    assert vars(net)["scale"] is net.scale
    with pytest.raises(AttributeError, match="nothing"):
        _ = net.nothing


def test_shared_parts_come_once():
    net = Sequential(Linear(2, 2), Linear(2, 2))
    net[1].weight = net[0].weight
    assert names(net.named_parameters()) == ["0.weight", "0.bias", "1.bias"]
    twice = Sequential(net[0], net[0])
    assert names(twice.named_modules()) == ["", "0"]
    assert names(twice.named_children()) == ["0"]
    assert names(twice.named_parameters()) == ["0.weight", "0.bias"]


def test_a_module_needs_no_super_init():
    class Bare(Module):
        def __init__(self):
            self.weight = Parameter([1.0])

    assert names(Bare().named_parameters()) == ["weight"]


def test_registries_are_per_instance():
    first, second = Net(), Net()
    first.extra = Parameter([0.0])
    assert "extra" not in names(second.named_parameters())


# Writing attributes -------------------------------------------------------------------------------


def test_replacing_keeps_the_place():
    net = Net()
    net.scale = fresh = Parameter([5.0])
    net.inner = Linear(1, 1)
    assert names(net.named_parameters()) == ["scale", "inner.weight", "inner.bias"]
    assert next(net.parameters()) is fresh


def test_none_and_del_take_parts_out():
    net = Net()
    net.scale = None
    del net.inner, net.offset
    assert names(net.named_parameters()) == []
    assert names(net.named_buffers()) == ["scratch"]
    assert net.scale is None and not hasattr(net, "inner")
    net.scale = Parameter([1.0])
    assert names(net.named_parameters()) == ["scale"]


def test_a_part_can_become_one_of_another_kind():
    net = Net()
    net.inner = Parameter([1.0])
    net.offset = Linear(1, 1)
    assert names(net.named_children()) == ["act", "offset"]
    assert names(net.named_buffers()) == ["scratch"]
    assert names(net.named_parameters()) == ["scale", "inner", "offset.weight", "offset.bias"]


def test_a_buffer_can_be_replaced_and_emptied():
    net = Net()
    net.offset = hy.asarray([7.0])
    assert net.state_dict()["offset"].tolist() == [7.0]
    net.offset = None
    assert names(net.named_buffers()) == ["scratch"]
    net.offset = hy.asarray([8.0])
    assert names(net.named_buffers()) == ["offset", "scratch"]


def test_plain_tensors_are_not_state():
    net = Net()
    net.cache = hy.asarray([1.0])
    assert names(net.named_buffers()) == ["offset", "scratch"]


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        (
            "scale",
            hy.asarray([1.0]),
            "Net.scale is a Parameter; a Tensor cannot take its place\n"
            "Fix: write its value with assign(), or assign a Parameter or None.",
        ),
        (
            "inner",
            3,
            "Net.inner is a Module; a int cannot take its place\nFix: assign a Module or None.",
        ),
        (
            "offset",
            [1.0],
            "Net.offset is a buffer; a list cannot take its place\nFix: assign a Tensor or None.",
        ),
    ],
)
def test_parts_are_not_replaced_by_accident(attribute, value, message):
    net = Net()
    before = getattr(net, attribute)
    with pytest.raises(ArgumentTypeError) as caught:
        setattr(net, attribute, value)
    assert str(caught.value) == message
    assert getattr(net, attribute) is before


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda n: n.register_buffer(3, None), "the name of a buffer is a str, not 3"),
        (
            lambda n: n.register_buffer("a.b", None),
            "a buffer cannot be called 'a.b'\nNames are joined with dots to the paths of "
            "state_dict().\nFix: give a name without dots.",
        ),
        (
            lambda n: n.add_module("", ReLU()),
            "a module cannot be called ''\nNames are joined with dots to the paths of "
            "state_dict().\nFix: give a name without dots.",
        ),
        (
            lambda n: n.register_parameter("level", Parameter([1.0])),
            "Net has an attribute 'level' already\nFix: choose another name.",
        ),
        (
            lambda n: n.add_module("forward", ReLU()),
            "Net has an attribute 'forward' already\nFix: choose another name.",
        ),
        (
            lambda n: n.register_parameter("new", hy.asarray([1.0])),
            "a Tensor cannot be registered as parameter 'new'\n"
            "Fix: wrap it in hybrid.nn.Parameter.",
        ),
        (
            lambda n: n.register_buffer("new", np.ones(1)),
            "a ndarray cannot be registered as buffer 'new'\n"
            "Fix: pass a Tensor, made with hybrid.asarray, or None.",
        ),
        (
            lambda n: n.add_module("new", 1),
            "a int cannot be added as module 'new'\nFix: pass a hybrid.nn.Module.",
        ),
        (lambda n: n.train("yes"), "the mode 'yes' is not a bool\nFix: give True or False."),
        (
            lambda n: n.hybridize(3),
            "hybridize(3) of a Net\nFix: give True or False.",
        ),
        (
            lambda n: n.hybridize(False, mode="trace"),
            "hybridize(False) takes no options",
        ),
        (
            lambda n: n.plans,
            "this Net is not hybridized\nFix: call its hybridize() first.",
        ),
    ],
)
def test_errors(register, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        register(Net())
    assert str(caught.value) == message


def test_register_by_name():
    net = Net()
    net.register_parameter("late", None)
    assert net.late is None and "late" not in names(net.named_parameters())
    net.register_parameter("late", Parameter([1.0]))
    net.add_module("layer", ReLU())
    assert names(net.named_parameters())[1] == "late"
    assert names(net.named_children()) == ["inner", "act", "layer"]


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match=r"Module does not define forward\(\)"):
        Module()(1)


# The configuration epoch --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda n: setattr(n, "level", 4),
        lambda n: setattr(n, "scale", Parameter([1.0])),
        lambda n: setattr(n, "inner", ReLU()),
        lambda n: setattr(n, "offset", None),
        lambda n: delattr(n, "level"),
        lambda n: n.register_buffer("more", None),
        lambda n: n.eval(),
        lambda n: n.inner.eval(),
        lambda n: n.requires_grad_(False),
        lambda n: n.hybridize(),
    ],
)
def test_what_captures_depend_on_advances_the_epoch(change):
    net = Net()
    before = EPOCH[0]
    change(net)
    assert EPOCH[0] > before


@pytest.mark.parametrize(
    "change",
    [
        lambda n: setattr(n, "offset", hy.asarray([4.0])),
        lambda n: n.scale.assign([3.0]),
        lambda n: n.zero_grad(),
        lambda n: n.train(),
        lambda n: n(hy.asarray([[1.0]])),
        lambda n: n.load_state_dict(n.state_dict()),
    ],
)
def test_what_plans_read_anew_does_not(change):
    net = Net()
    before = EPOCH[0]
    change(net)
    assert EPOCH[0] == before


# Switches -----------------------------------------------------------------------------------------


def test_train_and_eval_reach_all_modules():
    net = Net()
    assert net.eval() is net
    assert [m.training for m in net.modules()] == [False] * 3
    assert net.train() is net
    assert [m.training for m in net.modules()] == [True] * 3


def test_apply_visits_children_first():
    seen = []
    net = Net()
    assert net.apply(seen.append) is net
    assert seen == [net.inner, net.act, net]


def test_requires_grad_():
    net = Net()
    assert net.requires_grad_(False) is net
    assert not any(p.requires_grad for p in net.parameters())
    assert not net(hy.asarray([[1.0]])).requires_grad
    net.requires_grad_()
    assert all(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = Net()
    hy.sum(net(hy.asarray([[1.0]]))).backward()
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0]
    net.zero_grad()
    assert [p.grad for p in net.parameters()] == [None, None, None]
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is None


# Copies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remake", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("hybridized", [False, True])
def test_copies_are_whole_and_apart(remake, hybridized):
    hy.random.seed(0)  # no dead units
    net = Net()
    net.inner.eval()
    x = hy.asarray([[1.0], [2.0]])
    if hybridized:
        net.hybridize()
        net(x)
    twin = remake(net)
    assert names(twin.named_parameters()) == names(net.named_parameters())
    assert names(twin.named_buffers()) == names(net.named_buffers())
    assert twin.inner is dict(twin.named_modules())["inner"] is not net.inner
    assert not twin.inner.training and twin.training
    assert twin(x).numpy().tobytes() == net(x).numpy().tobytes()
    before = net(x).numpy().tobytes()
    twin.scale.assign([100.0])
    twin.level = 7
    assert twin(x).numpy().tobytes() != before
    assert net(x).numpy().tobytes() == before
    if hybridized:
        assert len(twin.plans) == 2 and len(net.plans) == 1


def test_copies_keep_sharing():
    net = Sequential(Linear(2, 2), Linear(2, 2))
    net[1].weight = net[0].weight
    twin = copy.deepcopy(net)
    assert twin[1].weight is twin[0].weight is not net[0].weight


# Printing -----------------------------------------------------------------------------------------


def test_repr_shows_the_tree():
    net = Sequential(Linear(2, 3), Sequential(ReLU()))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "  )\n"
        ")"
    )


# Paths --------------------------------------------------------------------------------------------


def test_parts_by_path():
    net = Sequential(Net())
    assert net.get_submodule("") is net and net.get_submodule("0.inner") is net[0].inner
    assert net.get_parameter("0.inner.weight") is net[0].inner.weight
    assert net.get_buffer("0.scratch") is net[0].scratch


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda n: n.get_submodule("0.outer"),
            "Sequential.0 has no module 'outer'\nFix: use one of inner, act.",
        ),
        (lambda n: n.get_submodule("0.act.x"), "Sequential.0.act has no module 'x'"),
        (
            lambda n: n.get_parameter("1.weight"),
            "Sequential has no module '1'\nFix: use one of 0.",
        ),
        (
            lambda n: n.get_parameter("0.inner.offset"),
            "Sequential.0.inner has no parameter 'offset'\nFix: use one of weight, bias.",
        ),
        (
            lambda n: n.get_buffer("0.scale"),
            "Sequential.0 has no buffer 'scale'\nFix: use one of offset, scratch.",
        ),
        (
            lambda n: n.get_parameter(""),
            "a Sequential is no parameter\nFix: give a dotted path.",
        ),
    ],
)
def test_paths_that_lead_nowhere(call, message):
    with pytest.raises(AttributeError) as caught:
        call(Sequential(Net()))
    assert str(caught.value) == message


def test_duplicates_on_request():
    net = Sequential(Linear(2, 2, bias=False), Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    assert names(net.named_parameters(remove_duplicate=False)) == ["0.weight", "1.weight"]
    twice = Sequential(net[0], net[0])
    assert names(twice.named_modules(remove_duplicate=False)) == ["", "0", "1"]


def test_gradients_of_tied_weights_add():
    net = Sequential(Linear(2, 2, bias=False), Linear(2, 2, bias=False))
    apart = copy.deepcopy(net)
    net[1].weight = net[0].weight
    apart.load_state_dict(net.state_dict())
    x = hy.asarray([[1.0, 2.0]])
    for each in (net, apart):
        each(x).sum().backward()
    assert len(list(net.parameters())) == 1
    total = apart[0].weight.grad + apart[1].weight.grad
    np.testing.assert_allclose(net[0].weight.grad.numpy(), total.numpy(), rtol=1e-6)


def test_parts_are_listed_by_dir():
    listed = dir(Net())
    assert {"scale", "offset", "inner", "act", "level", "forward", "parameters"} <= set(listed)


# Frozen parameters --------------------------------------------------------------------------------


@pytest.mark.parametrize("hybridized", [False, True])
def test_frozen_parameters_are_left_alone(hybridized):
    hy.random.seed(0)
    net = Sequential(Linear(2, 2), Linear(2, 1))
    optimizer = hy.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    if hybridized:
        step = hy.hybridize(step)
    x = hy.ones((1, 2))
    for frozen in (True, False, True):
        net[0].requires_grad_(not frozen)
        before = net[0].weight.tolist(), net[1].weight.tolist()
        step(x)
        assert (net[0].weight.tolist() == before[0]) is frozen
        assert net[1].weight.tolist() != before[1]
        assert (net[0].weight.grad is None) is frozen
    if hybridized:
        assert len(step.plans) == 2


class Forgetful(hy.nn.Linear):
    def __init__(self, scale: float) -> None:
        self.scale = scale


class Below(Forgetful):
    def __init__(self) -> None:
        super().__init__(2.0)


class Mindful(hy.nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)


class Plain(hy.nn.Module):
    def __init__(self) -> None:
        self.inner = hy.nn.Linear(2, 2)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.inner(x)


@pytest.mark.parametrize("make", [lambda: Forgetful(2.0), Below], ids=["itself", "a base"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_a_forgotten_init_of_a_base(make, hybridized: bool) -> None:
    layer = make()
    if hybridized:
        layer.hybridize()
    with pytest.raises(AttributeError) as found:
        layer(hy.ones((2, 2)))
    assert str(found.value).startswith(
        f"this {type(layer).__name__} has no 'weight', which Linear.__init__ sets\n"
        "Forgetful.__init__ does not call it.\n"
        "Fix: begin Forgetful.__init__ with super().__init__(...)."
    )


def test_modules_need_no_init_of_module() -> None:
    assert Plain()(hy.ones((1, 2))).shape == (1, 2)
    with pytest.raises(AttributeError, match=r"^'Plain' object has no attribute 'weight'$"):
        Plain().weight  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'Mindful' object has no attribute 'scale'$"):
        Mindful().scale  # noqa: B018
