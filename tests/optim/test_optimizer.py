"""What optimizers share: groups, the learning rate, gradients, errors."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.config import EPOCH
from hybrid.eager.tensor import make_tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, LeakedValueError
from hybrid.ir import Builder
from hybrid.nn import Linear, Parameter
from hybrid.optim import SGD, Adadelta, Adagrad, Adam, Adamax, Lion, NAdam, RAdam, RMSprop
from tests.optim.formulas import FORMULAS

SHARE = "Fix: give a number that is at least 0 and below 1."
ACCEPTED = "pass model.parameters(), a list of tensors, or a list of dicts with 'params'"


def test_groups_have_settings_of_their_own():
    p, q, r = (Parameter([1.0]) for _ in range(3))
    optimizer = SGD([{"params": [p]}, {"params": iter([q]), "lr": 0.5}], lr=0.1)
    optimizer.add_param_group({"params": r, "lr": 0.25})
    for parameter in (p, q, r):
        parameter.grad = hy.asarray([1.0])
    optimizer.step()
    np.testing.assert_allclose([p.item(), q.item(), r.item()], [0.9, 0.5, 0.75], rtol=1e-6)
    assert [group.lr for group in optimizer.param_groups] == [0.1, 0.5, 0.25]
    assert [group["params"] for group in optimizer.param_groups] == [(p,), (q,), (r,)]


def test_plain_tensors_can_be_trained():
    x = hy.asarray([1.0, 2.0])
    x.requires_grad = True
    optimizer = SGD([x], lr=0.5)
    hy.sum(x * x).backward()
    optimizer.step()
    assert x.tolist() == [0.0, 0.0] and x.requires_grad


def test_frozen_parameters_are_skipped():
    layer = Linear(2, 1)
    layer.bias.requires_grad = False
    before = layer.bias.tolist()
    optimizer = Adam(layer.parameters(), lr=0.5)
    hy.sum(layer(hy.asarray([[1.0, 2.0]]))).backward()
    optimizer.step()
    optimizer.zero_grad()
    assert layer.bias.tolist() == before and layer.weight.grad is None


def test_zero_grad():
    p, q = Parameter([1.0]), Parameter([1.0])
    optimizer = SGD([p, q])
    p.grad = hy.asarray([3.0])
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.item() == 0.0 and q.grad is None
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lr", [0.0, 0.1, 1e-3, 1 / 3, 7, np.float64(0.3)])
def test_the_learning_rate_reads_as_it_was_written(lr, dtype):
    optimizer = SGD([Parameter(np.ones(1, dtype))], lr=lr)
    assert type(optimizer.lr) is float
    assert optimizer.lr == (float(lr) if dtype == "float64" else pytest.approx(lr, rel=1e-7))
    if lr != 1 / 3:  # which float32 has not got
        assert optimizer.lr == lr


def test_the_learning_rate_is_a_cell():
    p = Parameter([1.0])
    optimizer = SGD([{"params": [p]}, {"params": [Parameter([1.0])], "lr": 3.0}], lr=1.0)
    before = EPOCH[0]
    optimizer.lr = 0.25
    assert [group.lr for group in optimizer.param_groups] == [0.25, 0.25]
    optimizer.param_groups[0]["lr"] = hy.asarray(0.5, dtype=hy.float64)
    assert optimizer.lr == 0.5 and EPOCH[0] == before
    p.grad = hy.asarray([1.0])
    optimizer.step()
    assert p.item() == 0.5


def test_other_settings_advance_the_epoch():
    optimizer = Adam([Parameter([1.0])])
    before = EPOCH[0]
    optimizer.param_groups[0].weight_decay = 0.5
    assert EPOCH[0] > before and optimizer.param_groups[0]["weight_decay"] == 0.5


def leafless():
    return Parameter([1.0]) * 2


P = Parameter([1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SGD([]),
            "the optimizer got no parameters\n"
            "A model with all layers quantized has none; one of prepare_qat(model) has.\n"
            f"Fix: {ACCEPTED}.",
        ),
        (
            lambda: SGD([{"params": []}]),
            f"a parameter group has no parameters\nFix: {ACCEPTED}.",
        ),
        (
            lambda: SGD(P),
            f"an optimizer cannot take its parameters from a Parameter\nFix: {ACCEPTED}.",
        ),
        (
            lambda: SGD(3),
            f"an optimizer cannot take its parameters from a int\nFix: {ACCEPTED}.",
        ),
        (
            lambda: SGD(Linear(1, 1)),
            f"an optimizer cannot take its parameters from a Linear\nFix: {ACCEPTED}.",
        ),
        (
            lambda: SGD([P, "weight"]),
            f"parameter 1 is a str, not a tensor\nFix: {ACCEPTED}.",
        ),
        (
            lambda: SGD(Linear(1, 1).named_parameters()),
            f"parameter 0 is a tuple, not a tensor\nFix: {ACCEPTED}.",
        ),
        (
            lambda: SGD([P, P]),
            "parameter 1 (f32[1]) was given before\nIt would be moved twice in each step.\n"
            "Fix: give each parameter once.",
        ),
        (
            lambda: SGD([{"params": [P]}, {"params": [P]}]),
            "parameter 0 (f32[1]) was given before\nIt would be moved twice in each step.\n"
            "Fix: give each parameter once.",
        ),
        (
            lambda: SGD([leafless()]),
            "parameter 0 (f32[1]) was computed from other tensors\n"
            "Its gradient is theirs; moving it would change nothing.\n"
            "Fix: pass the tensors that it was computed from, or detach it first.",
        ),
        (
            lambda: SGD([hy.asarray([1])]),
            "parameter 0 is i64[1]\nOnly float tensors have gradients.",
        ),
        (
            lambda: SGD([{"params": [P], "beta": 1}]),
            "SGD has no setting 'beta'\n"
            "Fix: use one of lr, momentum, dampening, weight_decay, nesterov, maximize.",
        ),
        (
            lambda: SGD([P]).add_param_group([P]),
            f"a parameter group is a dict with 'params'\nFix: {ACCEPTED}.",
        ),
        (lambda: SGD([P], lr=-1), "lr is -1\nFix: give a number that is at least 0."),
        (lambda: SGD([P], lr=float("nan")), "lr is nan\nFix: give a number that is at least 0."),
        (lambda: SGD([P], lr="big"), "lr is 'big', not a number"),
        (
            lambda: SGD([P], momentum=-0.5),
            "momentum is -0.5\nFix: give a number that is at least 0.",
        ),
        (
            lambda: SGD([P], nesterov=True),
            "nesterov needs a momentum and no dampening\nFix: give momentum > 0 and dampening=0.",
        ),
        (
            lambda: SGD([P], maximize=1),
            "maximize is 1, not a bool\nFix: give True or False.",
        ),
        (
            lambda: Adam([P], betas=(0.9, 1.0)),
            "betas[1] is 1.0\nFix: give a number that is at least 0 and below 1.",
        ),
        (lambda: Adam([P], betas=0.9), "betas is 0.9\nFix: give two numbers."),
        (lambda: Adam([P], eps=-1e-8), "eps is -1e-08\nFix: give a number that is at least 0."),
        (
            lambda: setattr(SGD([P]), "lr", -1.0),
            "lr is -1.0\nFix: give a number that is at least 0.",
        ),
        (
            lambda: setattr(SGD([P]).param_groups[0], "momentum", 0.9),
            "momentum cannot become 0.9 now\n"
            "It decides which moments are kept, and those are made with the optimizer.\n"
            "Fix: make a new optimizer with momentum=0.9.",
        ),
        (
            lambda: setattr(SGD([P]).param_groups[0], "weight_decay", -1),
            "weight_decay is -1\nFix: give a number that is at least 0.",
        ),
        (
            lambda: setattr(SGD([P]).param_groups[0], "betas", (0, 0)),
            "a parameter group has no setting 'betas'\n"
            "Fix: use one of lr, momentum, dampening, weight_decay, nesterov, maximize.",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message


def test_settings_can_be_changed_while_the_moments_stay():
    group = SGD([P], momentum=0.9).param_groups[0]
    group.momentum, group["weight_decay"] = 0.5, 0.1
    assert (group.momentum, group.weight_decay) == (0.5, 0.1)
    with pytest.raises(KeyError) as caught:
        group["beta"]
    assert str(caught.value) == (
        "a parameter group has no setting 'beta'\n"
        "There are params, lr, momentum, dampening, weight_decay, nesterov, maximize."
    )


def test_repr():
    optimizer = Adam(Linear(2, 1).parameters(), lr=0.1)
    assert repr(optimizer) == (
        "Adam(\n  Group(2 parameters, lr=0.1, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0, "
        "amsgrad=False, maximize=False)\n)"
    )


# What PyTorch's optimizers have ----------------------------------------------------------------


def test_defaults_and_state_are_readable():
    p = Parameter([1.0])
    optimizer = Adam([p], lr=0.5)
    assert optimizer.defaults == {
        "lr": 0.5,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        "amsgrad": False,
        "maximize": False,
    }
    assert list(optimizer.state[p]) == ["step", "exp_avg", "exp_avg_sq"]


@pytest.mark.parametrize("kind", FORMULAS)
def test_how_pytorch_computes_a_step_is_no_matter(kind):
    optimizer = kind([P], foreach=True, fused=None, capturable=False, differentiable=False)
    assert optimizer.defaults == kind([P]).defaults


def test_groups_are_like_dicts():
    group = Adam([{"params": [P], "name": "all"}], lr=0.5).param_groups[0]
    assert list(group) == [
        "params", "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "name"
    ]  # fmt: skip
    assert len(group) == 8 and group.get("momentum") is None and group.get("name") == "all"
    assert "lr" in group and "momentum" not in group
    assert group.setdefault("initial_lr", 0.25) == 0.25 == group["initial_lr"]
    assert group.setdefault("lr", 3.0) == 0.5
    group.update(lr=0.125, eps=0.5)
    assert (group["lr"], group["eps"]) == (0.125, 0.5)
    assert dict(group.items())["betas"] == (0.9, 0.999)
    assert group == group and group != Adam([Parameter([1.0])]).param_groups[0]
    with pytest.raises(ArgumentError) as caught:
        del group["eps"]
    assert str(caught.value) == "eps of a parameter group cannot be deleted"


def test_groups_of_another_optimizer_can_be_given():
    first = SGD([{"params": [Parameter([1.0])], "lr": 0.5}, {"params": [P]}], lr=0.1)
    second = SGD(first.param_groups)
    assert [group.lr for group in second.param_groups] == [0.5, 0.1]
    assert second.param_groups[1].params == (P,)


def test_weight_decay_can_leave_some_out():
    layer = Linear(2, 2)
    decayed = [p for name, p in layer.named_parameters() if not name.endswith("bias")]
    spared = [p for name, p in layer.named_parameters() if name.endswith("bias")]
    optimizer = SGD(
        [{"params": decayed, "weight_decay": 0.5}, {"params": spared}], lr=1.0, weight_decay=0.0
    )
    before = [p.numpy().copy() for p in (*decayed, *spared)]
    for p in (*decayed, *spared):
        p.grad = hy.zeros_like(p)
    optimizer.step()
    np.testing.assert_array_equal(decayed[0].numpy(), before[0] * np.float32(0.5))
    np.testing.assert_array_equal(spared[0].numpy(), before[1])


def test_a_closure_computes_the_loss():
    """LBFGS and its kin need one; here it saves a line."""
    runs = []
    for hybridizes in (False, True):
        p = Parameter([3.0])
        optimizer = SGD([p], lr=0.25)

        def step(x, optimizer=optimizer, p=p):
            def closure():
                optimizer.zero_grad()
                loss = hy.sum((p - x) ** 2)
                loss.backward()
                return loss

            with hy.no_grad():  # the closure records all the same
                return optimizer.step(closure)

        run = hy.hybridize(step) if hybridizes else step
        runs.append([float(run(hy.asarray([1.0])).item()) for _ in range(3)] + p.tolist())
    assert runs[0] == runs[1] == [4.0, 1.0, 0.25, 1.25]


def test_a_step_writes_to_nobody_elses_values():
    """Buffers are written in place only while the cells alone hold them."""
    p = Parameter([1.0, 2.0])
    optimizer = Adam([p], lr=0.5)
    for _ in range(3):
        p.grad = hy.asarray([1.0, 1.0])
        optimizer.step()
    held = [p.detach(), p.numpy(), optimizer.state_dict()["state"][0]["exp_avg"], p.grad]
    before = [np.asarray(value).copy() for value in held]
    for _ in range(3):
        p.grad = hy.asarray([1.0, -1.0])
        optimizer.step()
    for value, was in zip(held, before, strict=True):
        np.testing.assert_array_equal(np.asarray(value), was)
    assert p.tolist() != before[0].tolist()


def test_a_gradient_that_is_the_parameter():
    p = Parameter([1.0, 2.0])
    optimizer = SGD([p], lr=0.5)
    for _ in range(3):
        p.grad = p.detach()
        optimizer.step()
    assert p.tolist() == [0.125, 0.25]


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_steps_of_every_size_reuse_their_memory(size):
    p = Parameter(np.ones(size, "float32"))
    optimizer = Adam([p])
    p.grad = hy.ones_like(p)
    optimizer.step()
    own = id(p.content)
    optimizer.step()
    assert id(p.content) == own
    held = p.detach()
    optimizer.step()
    assert id(p.content) != own == id(held.content)


def test_a_leaked_gradient_is_refused():
    p = Parameter([1.0])
    optimizer = SGD([p])
    p.grad = make_tensor(p.type, Builder().param(p.type))
    with pytest.raises(LeakedValueError):
        optimizer.step()
    assert p.tolist() == [1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adam([P], beta=0.9), "Adam has no argument 'beta'\nFix: write betas for beta."),
        (
            lambda: SGD([P], differentiable=True),
            "SGD cannot be differentiated through\n"
            "A step is one kernel without a derivative rule.\n"
            "Fix: write the step with tensor operations.",
        ),
        (
            lambda: setattr(Adam([P]).param_groups[0], "amsgrad", True),
            "amsgrad cannot become True now\n"
            "It decides which moments are kept, and those are made with the optimizer.\n"
            "Fix: make a new optimizer with amsgrad=True.",
        ),
        (
            lambda: setattr(Adam([P]).param_groups[0], "betas", (0.5, 1.5)),
            "betas[1] is 1.5\nFix: give a number that is at least 0 and below 1.",
        ),
        (
            lambda: setattr(Adam([P]).param_groups[0], "betas", (1.5, 0.5)),
            "betas[0] is 1.5\nFix: give a number that is at least 0 and below 1.",
        ),
        (
            lambda: setattr(SGD([P], momentum=0.5).param_groups[0], "momentum", float("inf")),
            "momentum is inf\nFix: give a number that is at least 0.",
        ),
        (
            lambda: setattr(SGD([P]).param_groups[0], "momentum", "big"),
            "momentum is 'big', not a number",
        ),
        (
            lambda: SGD([P], dampening=float("nan")),
            "dampening is nan\nFix: give a number that is finite.",
        ),
        (lambda: RMSprop([P], alpha=1.0), f"alpha is 1.0\n{SHARE}"),
        (lambda: RMSprop([P], centered=1), "centered is 1, not a bool\nFix: give True or False."),
        (lambda: Adadelta([P], rho=-0.1), f"rho is -0.1\n{SHARE}"),
        (
            lambda: Adagrad([P], initial_accumulator_value=-1),
            "initial_accumulator_value is -1\nFix: give a number that is at least 0.",
        ),
        (
            lambda: Adagrad([P], lr_decay=-1),
            "lr_decay is -1\nFix: give a number that is at least 0.",
        ),
        (
            lambda: NAdam([P], momentum_decay=-1),
            "momentum_decay is -1\nFix: give a number that is at least 0.",
        ),
        (
            lambda: RAdam([P], decoupled_weight_decay=None),
            "decoupled_weight_decay is None, not a bool\nFix: give True or False.",
        ),
        (lambda: Lion([P], betas=(0.9,)), "betas is (0.9,)\nFix: give two numbers."),
        (
            lambda: Adamax([{"params": [P], "amsgrad": True}]),
            "Adamax has no setting 'amsgrad'\n"
            "Fix: use one of lr, betas, eps, weight_decay, maximize.",
        ),
    ],
)
def test_errors_of_settings(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message
