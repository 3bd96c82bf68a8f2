"""Distilling: the very bits of steps by hand, hints, what is put back, and what is refused."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import distill, distillation_loss, losses
from hybrid.data import DataLoader, IterableDataset, TensorDataset, digits
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    DatasetError,
    MissingPartError,
    ShapeError,
)
from tests.helpers import value_bits

X = np.random.default_rng(0).normal(size=(22, 6)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 4, 22)
BATCHES = [(hy.asarray(X[at : at + 8]), hy.asarray(Y[at : at + 8])) for at in range(0, 22, 8)]


def perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def networks(seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """A teacher, and a student with a dropout, which differs between the modes."""
    hy.random.seed(seed)
    teacher, student = perceptron(6, 16, 16, 4), perceptron(6, 8, 4)
    student.append(nn.Dropout(0.1))
    return teacher, student


def adam(network: nn.Module) -> hy.optim.Optimizer:
    return hy.optim.Adam(network.parameters(), 1e-2)


def state_bits(network: nn.Module) -> dict[str, Any]:
    return {name: value_bits(value) for name, value in network.state_dict().items()}


def by_hand(
    teacher: nn.Module,
    student: nn.Module,
    batches: list[Any],
    epochs: int,
    settings: dict[str, Any],
    extra: Callable[[], Any] | None = None,
    maps: list[nn.Module] | None = None,
) -> None:
    """Eagerly, step by step."""
    teacher.eval()
    parameters = [*student.parameters(), *[p for m in maps or [] for p in m.parameters()]]
    optimizer = hy.optim.Adam(parameters, 1e-2)
    for batch in batches * epochs:
        x, labels = batch if isinstance(batch, tuple) else (batch, None)
        with hy.no_grad():
            logits = teacher(x)
        loss = distillation_loss(student(x), logits, labels, **settings)
        if extra is not None:
            loss = loss + extra()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# Bits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"temperature": 2.0, "weight": 0.5}])
@pytest.mark.parametrize("labelled", [True, False])
def test_the_bits_of_steps_by_hand(settings: dict[str, float], labelled: bool) -> None:
    teacher, student = networks()
    other = copy.deepcopy(student)
    batches = BATCHES if labelled else [x for x, _ in BATCHES]
    before = state_bits(teacher)
    hy.random.seed(7)
    found = distill(teacher, student, batches, epochs=3, optimizer=adam(student), **settings)
    hy.random.seed(7)
    by_hand(teacher, other, batches, 3, settings)
    assert state_bits(student) == state_bits(other)
    assert state_bits(teacher) == before
    assert len(found) == 3 and found[2] < found[0] and all(type(loss) is float for loss in found)


def test_hints_have_the_bits_of_steps_by_hand() -> None:
    teacher, student = networks()
    other = copy.deepcopy(student)
    names = list(student.state_dict())
    hy.random.seed(7)
    hints = {"1": "3", "2": ("4", losses.cosine)}
    optimizer = adam(student)
    optimizer.lr = 3e-3
    distill(teacher, student, BATCHES, epochs=2, optimizer=optimizer, hints=hints)
    assert list(student.state_dict()) == names and len(optimizer.param_groups) == 1

    hy.random.seed(7)
    linear = nn.Linear(8, 16, bias=False)
    seen: dict[str, hy.Tensor] = {}
    for key, network, name in (("s", other, "1"), ("t", teacher, "3")):
        layer = network.get_submodule(name)
        layer.register_forward_hook(lambda m, a, y, key=key: seen.update({key: y}))
    outputs: dict[str, hy.Tensor] = {}
    for key, network, name in (("s", other, "2"), ("t", teacher, "4")):
        layer = network.get_submodule(name)
        layer.register_forward_hook(lambda m, a, y, key=key: outputs.update({key: y}))

    teacher.eval()
    parameters = hy.optim.Adam(other.parameters(), 1e-2)
    parameters.add_param_group({"params": linear.parameters()})
    parameters.lr = 3e-3
    for x, labels in BATCHES * 2:
        with hy.no_grad():
            logits = teacher(x)
        loss = distillation_loss(other(x), logits, labels)
        loss = loss + losses.hint(linear(seen["s"]), seen["t"])
        loss = loss + losses.cosine(outputs["s"], outputs["t"])
        parameters.zero_grad()
        loss.backward()
        parameters.step()
    assert state_bits(student) == state_bits(other)


def test_networks_that_are_hybridized_give_the_same_bits() -> None:
    found = []
    for hybridized in (False, True):
        teacher, student = networks()
        if hybridized:
            teacher.hybridize()
            student.hybridize()
        hy.random.seed(7)
        optimizer = adam(student)
        distill(teacher, student, BATCHES, epochs=2, optimizer=optimizer, hints={"1": "3"})
        student.eval()
        found.append((state_bits(student), value_bits(student(BATCHES[0][0]))))
    assert found[0] == found[1]


def test_students_may_round_and_teachers_be_integers() -> None:
    teacher, student = networks()
    prepared = hy.compress.prepare_qat(student)
    found = distill(teacher, prepared, BATCHES, epochs=3, optimizer=adam(prepared))
    assert found[-1] < found[0]
    assert hy.compress.convert(prepared)(X).shape == (22, 4)
    quantized, other = hy.compress.quantize(teacher), networks()[1]
    found = distill(quantized, other, BATCHES, epochs=3, optimizer=adam(other))
    assert found[-1] < found[0]


# Data --------------------------------------------------------------------------------------------


class Again:
    """Can be gone over again and again."""

    def __iter__(self) -> Iterator[Any]:
        yield from BATCHES


class Fleeting(Again):
    """Begins only once: later passes have nothing."""

    def __init__(self) -> None:
        self.once = super().__iter__()

    def __iter__(self) -> Iterator[Any]:
        return self.once


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        yield from BATCHES


SOURCES: dict[
    str, tuple[Callable[[], Any], int]
] = {  # and in how many epochs they give BATCHES * 2
    "tuple": (lambda: tuple(BATCHES), 2),
    "iterable": (Again, 2),
    "loader": (lambda: DataLoader(TensorDataset(X, Y), batch_size=8), 2),
    "loader of a stream": (lambda: DataLoader(Stream(), batch_size=None), 2),
    "arrays": (lambda: [(x.numpy(), y.numpy()) for x, y in BATCHES], 2),
    "iterator": (lambda: iter(BATCHES * 2), 1),
}


@functools.cache
def from_a_list(hinted: bool) -> dict[str, Any]:
    teacher, student = networks()
    hints = {"1": "3"} if hinted else None
    distill(teacher, student, BATCHES, epochs=2, optimizer=adam(student), hints=hints)
    return state_bits(student)


@pytest.mark.parametrize(
    ("source", "hinted"),  # for hints the first batch is looked at
    [*[(source, True) for source in SOURCES], ("iterator", False), ("iterable", False)],
)
def test_any_data_that_give_the_same_batches(source: str, hinted: bool) -> None:
    teacher, student = networks()
    data, epochs = SOURCES[source]
    hints = {"1": "3"} if hinted else None
    distill(teacher, student, data(), epochs=epochs, optimizer=adam(student), hints=hints)
    assert state_bits(student) == from_a_list(hinted)


class Noisy(TensorDataset):
    """Draws a number for each sample."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return x + hy.random.normal(size=(6,)), y

    def batch_reader(self) -> None:
        return None


@pytest.mark.parametrize("dataset", [TensorDataset, Noisy])
def test_a_look_at_the_first_batch_draws_no_random_numbers(dataset: Any) -> None:
    """A hint that weighs nothing, and has no map: all numbers are those without it."""
    found = []
    for hints in (None, {"2": ("4", lambda s, t: losses.hint(s, t) * 0.0)}):
        teacher, student = networks()
        hy.random.seed(3)
        loader = DataLoader(dataset(X, Y), batch_size=8, shuffle=True)
        distill(teacher, student, loader, epochs=2, optimizer=adam(student), hints=hints)
        found.append(state_bits(student))
    assert found[0] == found[1]


class Two(nn.Module):
    """A network of two inputs."""

    def __init__(self, width: int) -> None:
        self.first, self.second = nn.Linear(6, width), nn.Linear(3, width)
        self.head = nn.Linear(width, 4)

    def forward(self, x: hy.Tensor, z: hy.Tensor) -> hy.Tensor:
        return self.head(hy.tanh(self.first(x) + self.second(z)))


def test_inputs_of_several_parts() -> None:
    teacher, student = Two(16), Two(4)
    batches = [((x, x[:, :3]), y) for x, y in BATCHES]
    found = distill(
        teacher, student, batches, epochs=4, optimizer=adam(student), hints={"first": "second"}
    )
    assert found[-1] < found[0]


def test_no_epochs() -> None:
    teacher, student = networks()
    before = state_bits(student)
    assert distill(teacher, student, BATCHES, epochs=0, optimizer=adam(student)) == []
    assert state_bits(student) == before


# Hints -------------------------------------------------------------------------------------------


def convolutions(width: int, stride: int = 1) -> nn.Module:
    """Of images of 8x8 pixels."""
    size = 5 // stride + 1
    head = nn.Linear(width * size**2, 3)
    return nn.Sequential(nn.Conv2d(1, width, 3, stride), nn.ReLU(), nn.Flatten(), head)


IMAGES = [hy.asarray(np.random.default_rng(2).normal(size=(5, 1, 8, 8)).astype(np.float32))] * 3


def test_channels_of_images_are_mapped() -> None:
    teacher, student = convolutions(6), convolutions(4)
    found = distill(teacher, student, IMAGES, epochs=30, optimizer=adam(student), hints={"1": "1"})
    assert found[-1] < found[0] / 2


def test_relations_need_no_map() -> None:
    hy.random.seed(0)
    teacher, student = (
        nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 3)) for width in (12, 6)
    )
    sentences = [hy.asarray(np.random.default_rng(3).normal(size=(2, 7, 5)).astype(np.float32))]
    for term in (losses.relation, functools.partial(losses.relation, heads=3)):
        state = hy.random.default_generator().state.numpy().copy()
        optimizer = adam(student)
        found = distill(
            teacher, student, sentences, epochs=20, optimizer=optimizer, hints={"1": ("1", term)}
        )
        assert found[-1] < found[0]
        assert (hy.random.default_generator().state.numpy() == state).all(), "no map was drawn"


def test_hints_make_layers_alike() -> None:
    hy.random.seed(0)
    teacher, student = perceptron(6, 8, 8, 4), perceptron(6, 8, 4)
    without = copy.deepcopy(student)
    x = BATCHES[0][0]
    for one, hints in ((student, {"1": "3"}), (without, None)):
        distill(teacher, one, [x], epochs=100, optimizer=adam(one), hints=hints)
    wanted = teacher[:4](x)
    near, far = (losses.hint(network[:2](x), wanted).item() for network in (student, without))
    assert near < 0.2 * far


# What is put back --------------------------------------------------------------------------------


class Faulty(nn.Module):
    def forward(self, x: hy.Tensor) -> hy.Tensor:
        raise RuntimeError("out of order")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_modes_gradients_hooks_and_groups_are_put_back(fails: bool, training: bool) -> None:
    teacher, student = networks()
    student.train(training)
    teacher.train(training)
    teacher[0].train(not training)
    teacher[2].weight.requires_grad = False
    if fails:
        student.append(Faulty())
    optimizer = adam(student)
    groups, modes = optimizer.param_groups, [m.training for m in (*teacher.modules(), student)]
    call = functools.partial(
        distill,
        teacher,
        student,
        BATCHES,
        epochs=1,
        optimizer=optimizer,
        hints={"1": "3", "2": ("4", lambda s, t: hy.mean((s - t) ** 2))},
    )
    if fails:
        with pytest.raises(RuntimeError, match="out of order"):
            call()
    else:
        call()
    assert [m.training for m in (*teacher.modules(), student)] == modes
    asked = {name: p.requires_grad for name, p in teacher.named_parameters()}
    assert asked == {name: name != "2.weight" for name in asked}
    assert all(p.grad is None for p in teacher.parameters())
    assert not any(m._hooks for m in (*teacher.modules(), *student.modules()))
    assert optimizer.param_groups is groups


def test_the_teacher_is_in_evaluation_mode_meanwhile() -> None:
    teacher, student = perceptron(6, 4), perceptron(6, 4)
    teacher.append(nn.BatchNorm1d(4))
    teacher.append(nn.Dropout(0.5))
    before = state_bits(teacher)
    other = copy.deepcopy(student)
    distill(teacher, student, BATCHES, epochs=2, optimizer=adam(student))
    by_hand(teacher, other, BATCHES, 2, {})
    assert state_bits(teacher) == before and state_bits(student) == state_bits(other)


def test_an_optimizer_goes_on_with_its_moments() -> None:
    teacher, student = networks()
    optimizer = adam(student)
    for _ in range(2):
        distill(teacher, student, BATCHES, epochs=1, optimizer=optimizer, hints={"1": "3"})
    assert {kept["step"].item() for kept in optimizer.state.values()} == {6.0}


# Better than alone -------------------------------------------------------------------------------


def test_students_of_digits_are_better_than_alone() -> None:
    """On average over five seeds; a few labelled digits, and a teacher that has seen them all."""
    data, few = digits.load(), 100

    def loader(count: int) -> DataLoader:
        samples = TensorDataset(data.train_images[:count], data.train_labels[:count])
        return DataLoader(samples, batch_size=50, shuffle=True)

    def right(network: nn.Module) -> float:
        network.eval()
        with hy.no_grad():
            classes = network(hy.asarray(data.test_images)).numpy().argmax(1)
        return float(np.mean(classes == data.test_labels))

    def alone(network: nn.Module, count: int, epochs: int) -> float:
        model = hy.train.Model(network, nn.CrossEntropyLoss(), adam(network))
        model.train(epochs, loader(count))
        return right(network)

    def made(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    hy.random.seed(0)
    teacher = made(64)
    assert alone(teacher, len(data.train_labels), 10) > 0.95
    by_itself, distilled = [], []
    for seed in range(5):
        hy.random.seed(seed)
        student = made(16)
        other = copy.deepcopy(student)
        by_itself.append(alone(student, few, 60))
        distill(teacher, other, loader(few), epochs=60, optimizer=adam(other))
        distilled.append(right(other))
    assert np.mean(distilled) > np.mean(by_itself) + 0.02, (by_itself, distilled)


# Bad input ---------------------------------------------------------------------------------------


def refused(kind: type, **changed: Any) -> str:
    """What is said where these arguments take the place of good ones; the student stays."""
    teacher, student = networks()
    given = {"teacher": teacher, "student": student, "data": BATCHES, "epochs": 2} | changed
    before = state_bits(student)
    given.setdefault("optimizer", adam(student))
    with pytest.raises(kind) as error:
        distill(given.pop("teacher"), given.pop("student"), given.pop("data"), **given)
    assert state_bits(student) == before
    assert not any(m._hooks for m in student.modules())
    return str(error.value)


def test_networks_that_are_none() -> None:
    text = "distill got a {} as the {}\nFix: give an nn.Module."
    assert refused(ArgumentTypeError, teacher=len) == text.format(
        "builtin_function_or_method", "teacher"
    )
    assert refused(ArgumentTypeError, student=3) == text.format("int", "student")


def test_one_module_in_both_places() -> None:
    teacher, student = networks()
    why = "One of them trains, the other one stays as it is.\n"
    fix = "Fix: give the student a copy: copy.deepcopy(module)."
    text = refused(ArgumentError, teacher=teacher, student=teacher)
    assert text == f"student and teacher are one module\n{why}{fix}"
    student.append(teacher[4])
    text = refused(ArgumentError, teacher=teacher, student=student, optimizer=adam(student))
    assert text == f"layer '4' of the student is '4' of the teacher\n{why}{fix}"


def test_optimizers_of_other_parameters() -> None:
    teacher, student = networks()
    both = hy.optim.SGD([*student.parameters(), teacher[0].bias], 0.1)
    text = refused(ArgumentError, teacher=teacher, student=student, optimizer=both)
    assert text.startswith("the optimizer moves '0.bias' of the teacher\nThe teacher stays as it")
    text = refused(ArgumentError, optimizer=adam(nn.Linear(2, 3)))
    assert text == (
        "the optimizer moves no parameter of the student\nFix: make it of student.parameters()."
    )
    text = refused(
        ArgumentTypeError, student=student, optimizer=hy.optim.LBFGS(student.parameters())
    )
    assert text.startswith("LBFGS.step got no closure")
    text = refused(ArgumentTypeError, optimizer="adam")
    assert text.startswith("distill got a str as its optimizer\nFix: give one of hy.optim")


@pytest.mark.parametrize(
    ("changed", "begins"),
    [
        ({"temperature": 0}, "temperature is 0\n"),
        ({"temperature": -1.0}, "temperature is -1.0\n"),
        ({"weight": 1.5}, "weight is 1.5\n"),
        ({"weight": -0.5}, "weight is -0.5\n"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": 1.5}, "epochs is 1.5\n"),
        ({"hints": ["1", "3"]}, "hints is a list\n"),
        ({"hints": {"1": 3}}, "the hint for '1' is 3\n"),
        ({"hints": {"1": ("3", "cosine")}}, "the hint for '1' is ('3', 'cosine')\n"),
    ],
)
def test_wrong_settings(changed: dict[str, Any], begins: str) -> None:
    assert refused((ArgumentError, ArgumentTypeError), **changed).startswith(begins)


def test_layers_that_are_not_there() -> None:
    text = refused(MissingPartError, hints={"conv": "3"})
    assert text == (
        "the student has no layer 'conv'\n"
        "It has '0', '1', '2', '3'.\n"
        "Fix: name layers as named_modules() does; a hint goes from one of the student to one of "
        "the teacher."
    )
    assert refused(MissingPartError, hints={"1": "9"}).startswith(
        "the teacher has no layer '9'\nIt has '0', '1', '2', '3', '4'.\n"
    )
    many = nn.Sequential(*[nn.Linear(6, 6) for _ in range(12)])
    assert "'6', '7' and 4 more." in refused(MissingPartError, teacher=many, hints={"1": "x"})


def test_layers_whose_outputs_do_not_fit() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            self.inner, self.last = nn.Unflatten(1, (2, 3)), nn.Linear(6, 4)

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return self.last(self.inner(x).reshape(x.shape))

    text = refused(ShapeError, teacher=Deep(), hints={"1": "inner"})
    assert text == (
        "layer '1' of the student gives f32[8,8], layer 'inner' of the teacher f32[8,2,3]\n"
        "A learnt map makes up for one axis, the width; all others must agree.\n"
        "Fix: choose layers whose outputs differ in one axis behind the batch at most, or "
        "relations between tokens: losses.relation."
    )
    teacher, student = convolutions(6), convolutions(4, stride=2)
    text = refused(
        ShapeError,
        teacher=teacher,
        student=student,
        data=IMAGES,
        optimizer=adam(student),
        hints={"0": "0"},
    )
    assert text.startswith("layer '0' of the student gives f32[5,4,3,3], layer '0' of the teacher")


class Recurrent(nn.Module):
    """Its layer gives a tuple, is called twice, or never."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.cell, self.last = nn.LSTM(6, 6), nn.Linear(6, 4)
        self.spare = nn.Linear(2, 2)

    def forward(self, x: hy.Tensor) -> Any:
        found = self.last(self.cell(x)[0])
        if self.kind == "twice":
            found = found + self.last(x)
        return (found, x) if self.kind == "tuple" else found


@pytest.mark.parametrize(
    ("kind", "layer", "text"),
    [
        ("", "cell", "layer 'cell' of the teacher gave a tuple\nStudents learn from tensors.\n"),
        ("", "spare", "layer 'spare' of the teacher was called no time in a forward pass\n"),
        ("twice", "last", "layer 'last' of the teacher was called 2 times in a forward pass\n"),
    ],
)
def test_layers_that_do_not_give_one_tensor(kind: str, layer: str, text: str) -> None:
    error = (ArgumentError, ArgumentTypeError)
    assert refused(error, teacher=Recurrent(kind), hints={"2": layer}).startswith(text)


class Branching(nn.Module):
    """Its layer is called on one path, or on each by itself."""

    def __init__(self, both: bool) -> None:
        self.both = both
        self.inner, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        y = x[:, :1] * hy.ones((8,))
        if hy.sum(x) > 0:
            y = self.inner(x)
        elif self.both:
            y = self.inner(x) * 2
        return self.last(y)


@pytest.mark.parametrize("both", [False, True])
def test_layers_that_are_called_in_branches(both: bool) -> None:
    hy.random.seed(0)
    student = Branching(both)
    positive = [(hy.ones((8, 6)), BATCHES[0][1])]
    text = refused(
        CaptureError,
        student=student,
        optimizer=adam(student),
        hints={"inner": "3"},
        data=positive,
    )
    assert text == (
        "layer 'inner' of the student is called in a branch or loop that depends on values\n"
        "A hint compares the one output that it has, whatever the path.\n"
        "Fix: choose a layer that each forward pass calls once."
    )
    found = distill(
        networks()[0], student, BATCHES, epochs=2, optimizer=adam(student), hints={"last": "4"}
    )
    assert found[1] < found[0]


def test_networks_that_do_not_give_logits() -> None:
    for hints in (None, {"2": "last"}):
        text = refused(ArgumentTypeError, teacher=Recurrent("tuple"), hints=hints)
        assert text.startswith("the teacher gave a tuple")
        assert "Fix: wrap the network in a module that returns its logits" in text
    text = refused(ShapeError, teacher=perceptron(6, 5))
    assert text.startswith("the student gives f32[8,4], the teacher f32[8,5]")


def test_labels_of_other_shapes() -> None:
    text = refused(ShapeError, data=[(BATCHES[0][0], hy.zeros((3,), dtype=hy.int64))])
    assert text.startswith("labels are i64[3] for logits f32[8,4]")


@pytest.mark.parametrize("hints", [None, {"1": "3"}])
@pytest.mark.parametrize("count", [0, 3])
def test_batches_of_other_kinds(count: int, hints: Any) -> None:
    text = refused(ArgumentError, data=[(BATCHES[0][0],) * count], hints=hints)
    assert text.startswith(f"a batch for distillation has {count} parts")
    assert "Fix: put several inputs into a tuple: ((x, mask), labels)" in text


@pytest.mark.parametrize(
    ("term", "what"), [(lambda s, t: s - s, "f32[8,4]"), (lambda s, t: 0.0, "float")]
)
def test_terms_that_give_no_number(term: Any, what: str) -> None:
    text = refused(ArgumentError, hints={"2": ("4", term)})
    assert text.startswith(
        f"the term for layer '2' of the student and layer '4' of the teacher gave a {what}"
    )
    assert "Fix: return a tensor of one element, such as a mean" in text


@pytest.mark.parametrize("hints", [None, {"1": "3"}])
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (lambda: [], "a loader of a list gave no batches"),
        (lambda: DataLoader(TensorDataset(X[:3], Y[:3]), 8, drop_last=True), "gave no batches"),
        (lambda: (b for b in ()), "a generator gave no batches in pass 1\nEach epoch is a pass"),
    ],
)
def test_no_data(data: Callable[[], Any], text: str, hints: Any) -> None:
    assert text in refused(DatasetError, data=data(), epochs=1, hints=hints)


@pytest.mark.parametrize("hints", [None, {"1": "3"}])
def test_data_that_can_be_gone_over_once(hints: Any) -> None:
    text = refused(ArgumentError, data=iter(BATCHES), hints=hints)
    assert text == (
        "distill got a list_iterator for 2 epochs\n"
        "It gives its batches once.\n"
        "Fix: give a list or a DataLoader, which can be gone over again; or epochs=1."
    )
    teacher, student = networks()
    with pytest.raises(DatasetError, match="a Fleeting gave no batches in pass 2"):
        distill(teacher, student, Fleeting(), epochs=3, optimizer=adam(student), hints=hints)


@pytest.mark.parametrize("data", [X, hy.asarray(X), {"x": X}, {1}, "digits", 3, Stream()])
def test_what_is_no_data(data: Any) -> None:
    assert "distill got a" in refused(ArgumentTypeError, data=data)
