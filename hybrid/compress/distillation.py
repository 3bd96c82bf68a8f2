"""Distillation: a small network learns from a large one that has learnt already.

A step is a network that gives its own loss, ``Distillation``, trained by ``train.Model``: the
forward passes of both networks, the loss, the gradients and the optimizer are one plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from hybrid import ops
from hybrid.autodiff import no_grad
from hybrid.compress.losses import distillation_loss, hint, relation, require_shares
from hybrid.data import DataLoader, IterableDataset
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    DatasetError,
    MissingPartError,
    ShapeError,
)
from hybrid.nn.layers.linear import Identity, Linear
from hybrid.nn.modules.container import ModuleList
from hybrid.nn.modules.module import Mode, Module
from hybrid.ops.support.operand_checks import plural
from hybrid.optim.optimizer import Optimizer
from hybrid.random import default_generator
from hybrid.train.arguments import loader_of, require_count
from hybrid.train.model import Model
from hybrid.train.step_loop import no_batches

Term = Callable[[Tensor, Tensor], Tensor]
ANY_WIDTHS = (relation,)  # terms that compare layers of different widths as they are
SHOWN = 8  # names of layers that an error lists


def distill(
    teacher: Module,
    student: Module,
    data: Any,
    *,
    epochs: int,
    optimizer: Optimizer,
    temperature: float = 4.0,
    weight: float = 0.9,
    hints: Mapping[str, Any] | None = None,
) -> list[float]:
    """Train ``student`` on the outputs of ``teacher``: the mean loss of each epoch.

    ``data`` gives batches ``(x, labels)``, or inputs ``x`` alone: a DataLoader, a list, or any
    iterable that can be gone over ``epochs`` times.  Inputs of several parts are a tuple in place
    of x.  Both networks give logits ``[batch, classes]`` (the classes last), and labels are as in
    ``distillation_loss``, which is the loss.  ``optimizer`` has the parameters of the student.

    ``hints`` adds terms between layers: ``{"student's layer": "teacher's layer"}``, named as in
    ``state_dict()``, adds ``losses.hint`` (FitNets, Romero et al. 2015) of their outputs, and
    ``{"student's layer": ("teacher's layer", term)}`` any ``term(student, teacher)`` that gives one
    number, such as ``losses.cosine`` or ``losses.relation``.  Where the outputs differ in one axis,
    their width, a linear map goes from the student's to the teacher's; it learns with the settings
    of the optimizer's first group, and is gone afterwards.  ``relation`` needs none.

    The student is in training mode meanwhile; the teacher in evaluation mode, without gradients.
    Modes, hooks and the optimizer's groups are afterwards as they were, whatever is raised.  What
    is wrong with an argument raises ArgumentError or ArgumentTypeError, a layer that is not there
    MissingPartError, outputs that do not fit ShapeError, data without batches DatasetError.
    """
    _require_networks(teacher, student)
    _require_optimizer(optimizer, teacher, student)
    require_shares(temperature, weight)
    require_count("epochs", epochs, 0)
    pairs = _pairs(hints, student, teacher)
    loader = _loader(data, epochs)
    groups = optimizer.param_groups
    with ExitStack() as afterwards:
        afterwards.enter_context(Mode(teacher, False))
        step = Distillation(student, teacher, temperature, weight)
        for mine, its, term in pairs:
            step.hints += (Hint(Catch(mine, afterwards), Catch(its, afterwards), term),)
        if pairs:
            step.fit_maps(_first_batch(loader))
        mapped = list(step.maps.parameters())
        if mapped:
            afterwards.callback(setattr, optimizer, "param_groups", groups)
            names = ("lr", *groups[0].settings)
            settings = {name: getattr(groups[0], name) for name in names}
            optimizer.add_param_group({"params": mapped, **settings})
        once = isinstance(loader.dataset, BatchStream)  # loops that sink look ahead, and begin anew
        model = Model(step, None, optimizer)
        history = model.train(epochs, loader, dataset_sink_mode=not once)
    return list(history["loss"]) if epochs else []


class NamedLayer(NamedTuple):
    """A layer of one of the networks, as errors name it."""

    label: str
    module: Module


class Catch:
    """The outputs of a layer during a forward pass, by a hook that goes ``afterwards``."""

    def __init__(self, layer: NamedLayer, afterwards: ExitStack) -> None:
        self.label, self.outputs = layer.label, []
        afterwards.enter_context(layer.module.register_forward_hook(self._append))

    def _append(self, module: Module, args: Any, result: Any) -> None:
        self.outputs.append(result)

    def take(self) -> Tensor:
        """The one output of the pass."""
        for output in self.outputs:
            if isinstance(output, Tensor):
                self._require_every_pass(output)
        if len(self.outputs) != 1:
            calls = "no time" if not self.outputs else plural(len(self.outputs), "time")
            raise ArgumentError(
                f"{self.label} was called {calls} in a forward pass",
                why="A hint compares the one output that it has.",
                fix="choose a layer that the network calls once",
            )
        return _tensor(self.outputs.pop(), self.label)

    def _require_every_pass(self, output: Tensor) -> None:
        """Raise CaptureError for what a branch or a loop of the plan has made, and keeps."""
        try:
            ops.stop_gradient(output)  # any op refuses it
        except CaptureError as error:
            if type(error) is not CaptureError:
                raise
            raise CaptureError(
                f"{self.label} is called in a branch or loop that depends on values",
                why="A hint compares the one output that it has, whatever the path.",
                fix="choose a layer that each forward pass calls once",
            ) from error


class Hint(NamedTuple):
    """A term for the outputs of two layers, and where these are caught."""

    student: Catch
    teacher: Catch
    term: Term


class Distillation(Module):
    """The student, the teacher beside it, and the loss of a batch as the result of a call.

    The teacher is no part of the tree: it is neither trained nor put into training mode.
    """

    def __init__(self, student: Module, teacher: Module, temperature: float, weight: float) -> None:
        self.student, self.beside = student, (teacher,)
        self.temperature, self.weight = temperature, weight
        self.hints: tuple[Hint, ...] = ()
        self.maps = ModuleList()

    def forward(self, *batch: Any) -> Tensor:
        """The loss; ``batch`` is x, or x and labels."""
        x, labels = _parts(batch)
        student, teacher = self._outputs(x)
        loss = distillation_loss(
            _tensor(student, "the student"),
            _tensor(teacher, "the teacher"),
            labels,
            temperature=self.temperature,
            weight=self.weight,
        )
        for (mine, its, term), mapped in zip(self.hints, self.maps, strict=True):
            found = term(mapped(mine.take()), its.take())
            if not isinstance(found, Tensor) or found.size != 1:
                what = found.type if isinstance(found, Tensor) else type(found).__name__
                raise ArgumentError(
                    f"the term for {mine.label} and {its.label} gave a {what}",
                    why="It is added to the loss, which is one number.",
                    fix="return a tensor of one element, such as a mean",
                )
            loss = loss + found.reshape(())
        return loss

    def _outputs(self, x: Any) -> tuple[Any, Any]:
        """Of both networks."""
        for each in self.hints:  # a pass that raised may have left some
            each.student.outputs.clear()
            each.teacher.outputs.clear()
        given = tuple(x) if isinstance(x, (tuple, list)) else (x,)
        with no_grad():
            teacher = self.beside[0](*given)
        return self.student(*given), teacher

    def fit_maps(self, batch: Any) -> None:
        """Make the maps for layers of different widths, which a batch shows."""
        x, _ = _parts(batch if isinstance(batch, (tuple, list)) else (batch,))
        with Mode(self.student, False), no_grad():
            self._outputs(x)
        for mine, its, term in self.hints:
            one, other = mine.take(), its.take()
            fits = one.shape == other.shape or getattr(term, "func", term) in ANY_WIDTHS
            self.maps.append(Identity() if fits else _width_map(mine, one, its, other))


class WidthMap(Module):
    """A linear map along one axis: of the channels of images, a convolution of size 1."""

    def __init__(self, axis: int, inputs: int, outputs: int) -> None:
        self.axis = axis
        self.linear = Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return ops.moveaxis(self.linear(ops.moveaxis(x, self.axis, -1)), -1, self.axis)


def _width_map(mine: Catch, one: Tensor, its: Catch, other: Tensor) -> Module:
    sizes = list(zip(one.shape, other.shape, strict=False))
    differ = [axis for axis, (n, m) in enumerate(sizes) if n != m]
    if one.ndim != other.ndim or len(differ) != 1 or differ == [0]:
        raise ShapeError(
            f"{mine.label} gives {one.type}, {its.label} {other.type}",
            why="A learnt map makes up for one axis, the width; all others must agree.",
            fix="choose layers whose outputs differ in one axis behind the batch at most, or "
            "relations between tokens: losses.relation",
        )
    [axis] = differ
    made = WidthMap(axis, one.shape[axis], other.shape[axis])
    return made.to(one.dtype)


def _parts(batch: Sequence[Any]) -> tuple[Any, Any]:
    """The inputs and the labels, which may be None."""
    if not 1 <= len(batch) <= 2:
        raise ArgumentError(
            f"a batch for distillation has {plural(len(batch), 'part')}",
            why="It is (x, labels), or x alone.",
            fix="put several inputs into a tuple: ((x, mask), labels)",
        )
    return batch[0], batch[1] if len(batch) == 2 else None


def _tensor(output: Any, label: str) -> Tensor:
    if not isinstance(output, Tensor):
        raise ArgumentTypeError(
            f"{label} gave a {type(output).__name__}",
            why="Students learn from tensors.",
            fix="choose a layer that gives one"
            if label.startswith("layer")
            else "wrap the network in a module that returns its logits",
        )
    return output


# Arguments ---------------------------------------------------------------------------------------


def _require_networks(teacher: Any, student: Any) -> None:
    for role, network in (("teacher", teacher), ("student", student)):
        if not isinstance(network, Module):
            raise ArgumentTypeError(
                f"distill got a {type(network).__name__} as the {role}", fix="give an nn.Module"
            )
    names = {id(module): name for name, module in teacher.named_modules()}
    for name, module in student.named_modules():
        if id(module) in names:
            what = f"layer {name!r} of the student is {names[id(module)]!r} of the teacher"
            raise ArgumentError(
                what if name or names[id(module)] else "student and teacher are one module",
                why="One of them trains, the other one stays as it is.",
                fix="give the student a copy: copy.deepcopy(module)",
            )


def _require_optimizer(optimizer: Any, teacher: Module, student: Module) -> None:
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(
            f"distill got a {type(optimizer).__name__} as its optimizer",
            fix="give one of hy.optim, such as hy.optim.Adam(student.parameters())",
        )
    moved = {id(p) for group in optimizer.param_groups for p in group.params}
    for name, parameter in teacher.named_parameters():
        if id(parameter) in moved:
            raise ArgumentError(
                f"the optimizer moves {name!r} of the teacher",
                why="The teacher stays as it is.",
                fix="make the optimizer of student.parameters() that are not the teacher's",
            )
    if not any(id(parameter) in moved for parameter in student.parameters()):
        raise ArgumentError(
            "the optimizer moves no parameter of the student",
            fix="make it of student.parameters()",
        )


def _pairs(
    hints: Any, student: Module, teacher: Module
) -> list[tuple[NamedLayer, NamedLayer, Term]]:
    if hints is None:
        return []
    if not isinstance(hints, Mapping):
        raise ArgumentTypeError(
            f"hints is a {type(hints).__name__}",
            fix='give a dict: {"layer of the student": "layer of the teacher"}',
        )
    found = []
    for name, given in hints.items():
        other, term = given if isinstance(given, tuple) and len(given) == 2 else (given, hint)
        if not isinstance(other, str) or not callable(term):
            raise ArgumentTypeError(
                f"the hint for {name!r} is {given!r}",
                fix="give the name of a layer of the teacher, or (name, term), where "
                "term(student, teacher) gives a number",
            )
        layers = _layer(student, "student", name), _layer(teacher, "teacher", other)
        found.append((*layers, term))
    return found


def _layer(network: Module, role: str, name: Any) -> NamedLayer:
    layers = dict(network.named_modules(remove_duplicate=False))
    if name not in layers:
        known = [repr(each) for each in layers if each]
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        raise MissingPartError(
            f"the {role} has no layer {name!r}",
            why=f"It has {', '.join(known[:SHOWN])}{more}." if known else "It has none.",
            fix="name layers as named_modules() does; a hint goes from one of the student to one "
            "of the teacher",
        )
    return NamedLayer(f"layer {name!r} of the {role}", layers[name])


# Data --------------------------------------------------------------------------------------------


def _loader(data: Any, epochs: int) -> DataLoader:
    """A loader of these batches."""
    plain = isinstance(data, Iterable) and not isinstance(data, (Sequence, Mapping, Tensor, set))
    if not plain or isinstance(data, (DataLoader, IterableDataset)) or hasattr(data, "__array__"):
        return loader_of(data, "distill")
    if isinstance(data, Iterator) and epochs > 1:
        raise ArgumentError(
            f"distill got a {type(data).__name__} for {epochs} epochs",
            why="It gives its batches once.",
            fix="give a list or a DataLoader, which can be gone over again; or epochs=1",
        )
    return DataLoader(BatchStream(data), batch_size=None)


class BatchStream(IterableDataset):
    """The batches of an iterable, again and again; DatasetError where a pass has none."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches, self.passes = batches, 0
        self.begun: Iterator[Any] | None = None  # a pass of which the first batch was looked at
        self.seen: Any = None

    def first(self) -> Any:
        """The first batch of the next pass, which is given then."""
        self.begun = self._pass()
        self.seen = next(self.begun)
        return self.seen

    def __iter__(self) -> Iterator[Any]:
        if self.begun is None:
            return self._pass()
        begun, self.begun = self.begun, None
        return itertools.chain([self.seen], begun)

    def _pass(self) -> Iterator[Any]:
        self.passes += 1
        count = 0
        for batch in self.batches:
            count += 1
            yield batch
        if not count:
            raise DatasetError(
                f"a {type(self.batches).__name__} gave no batches in pass {self.passes}",
                why="Each epoch is a pass over the data.",
                fix="give a list, a DataLoader, or an iterable whose iter() begins anew each time",
            )


def _first_batch(loader: DataLoader) -> Any:
    """A batch that looks like the first one; random numbers are drawn later as without it."""
    dataset = loader.dataset
    if isinstance(dataset, BatchStream):
        return loader.collate_fn(dataset.first())
    batched = loader.batch_size is not None or loader.batch_sampler is not None
    one = DataLoader(dataset, batch_size=1 if batched else None, collate_fn=loader.collate_fn)
    state = default_generator().state
    before = state.detach()
    try:
        for batch in one:
            return batch
    finally:
        state.assign(before)
    raise no_batches(loader)
