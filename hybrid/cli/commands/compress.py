"""``hybrid compress``: make a model smaller, and see what that gains and costs."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

import hybrid as hy
from hybrid.cli.commands.train import introduce, run
from hybrid.cli.user_input import fail, load_object, require_writable, set_threads, tell_written
from hybrid.compress.calibration import require_method
from hybrid.compress.channels.pruning import STRUCTURES
from hybrid.compress.quantization import arguments, require_names
from hybrid.compress.scheme import Scheme
from hybrid.core import imports
from hybrid.data import DataLoader
from hybrid.errors import HybridError
from hybrid.models.examples import Example, adam, find
from hybrid.models.training import SCORED, Training
from hybrid.nn import Module
from hybrid.ops.support.operand_checks import require_choice

app = typer.Typer()

TUNED = 5  # epochs by a teacher
RATE = 1e-3  # of Adam, for students in files
KINDS = ("int8", "int4", "nf4")
GROUP = 32  # inputs with one scale, where weights have 4 bits

Metric = Callable[[Module, Any], float]


class ModelWithData(NamedTuple):
    """A model of floats with the data to calibrate by, and to compare by."""

    model: Module
    calibrating: Iterable[Any]
    comparing: Iterable[Any]
    metric: Metric | None = None
    example: Example | None = None  # of the list


@app.command()
def compress(
    model: Annotated[
        str, typer.Argument(help="a model from `hybrid models`, or path/to/file.py:model")
    ],
    int8: Annotated[
        bool,
        typer.Option("--int8", help="weights of 8 bits; the default but for --prune, --distill"),
    ] = False,
    int4: Annotated[
        bool, typer.Option("--int4", help="weights of 4 bits; alone, unless --method says more")
    ] = False,
    nf4: Annotated[
        bool, typer.Option("--nf4", help="weights of 4 bits that are quantiles; alone")
    ] = False,
    group_size: Annotated[
        int | None, typer.Option(help="inputs with one scale; of 4 bits: 32")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="dynamic, static or weight_only; default: dynamic")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(help="of static: minmax, percentile, mse or kl")
    ] = None,
    prune: Annotated[
        float | None, typer.Option(help="share of the weights that leave: 0.5 is half of them")
    ] = None,
    structure: Annotated[
        str | None, typer.Option(help="of pruning: element, 2:4, channel or head")
    ] = None,
    distill: Annotated[
        str | None, typer.Option(help="a teacher: from the list, or path/to/file.py:model")
    ] = None,
    teacher_weights: Annotated[
        Path | None, typer.Option(help="safetensors; a teacher from the list is trained without")
    ] = None,
    tune: Annotated[
        int | None, typer.Option(help="epochs of training after pruning, or by the teacher (5)")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="a layer that stays as it is; may be repeated")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="FILE:DATA, batches for a model in a file")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="safetensors; a model from the list is trained without")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="of that training")] = None,
    seed: Annotated[int, typer.Option(help="of that training")] = 0,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="show what each layer alone loses, too")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", "--out", help="write the compressed model to this file"),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="for kernels; default: as set")] = None,
) -> None:
    """Prune, distill and quantize MODEL, and show what that gains and costs.

    A model in a file is a module, or a function that returns one.  Its data
    are a list or a loader of batches x or (x, labels), or a function that
    returns one.  Models from the list have data, and are trained first unless
    their weights are given.
    """
    kinds = [f"--{name}" for name, chosen in zip(KINDS, (int8, int4, nf4), strict=True) if chosen]
    if len(kinds) > 1:
        fail(f"{kinds[0]} and {kinds[1]} exclude each other.")
    if epochs is not None and epochs < 1:
        fail(f"--epochs {epochs}: at least one is needed.")
    if calibration is not None and method is None:
        method = "static"
    if method is None and (int4 or nf4):
        method = "weight_only"
    if calibration is not None and method != "static":
        fail(f"--calibration is of --method static, not of {method}.")
    if structure is not None and prune is None:
        fail("--structure goes with --prune.")
    if teacher_weights is not None and distill is None:
        fail("--teacher-weights goes with --distill.")
    if tune is not None and (tune < 1 or (prune is None and distill is None)):
        fail(f"--tune {tune}: give at least one epoch, with --prune or --distill.")
    chosen = bool(kinds) or method is not None or group_size is not None
    integers = chosen or (prune is None and distill is None)
    if group_size is None and (int4 or nf4) and method != "static":
        group_size = GROUP
    if prune is not None and not 0 <= prune < 1:
        fail(f"--prune {prune}: give a share from 0 up to below 1.")
    try:  # whatever can be said before minutes of work
        numbers = "nf4" if nf4 else "symmetric"
        wanted = Scheme.checked(
            method or "dynamic", 4 if int4 or nf4 else 8, group_size, numbers, True
        )
        require_method(calibration or "minmax")
        require_choice("--structure", structure or "element", tuple(STRUCTURES))
        if distill is not None and ":" not in distill:
            require_task(find(distill), model)
        if out is not None:
            imports.optional("safetensors", "io", "--output")
            require_writable("--output", out)
        set_threads(threads)
        given = from_file(model, data, weights) if ":" in model else None
        if given is None:
            if data is not None:
                fail(f"--data is for models in files: {model} has its own.")
            given = from_list(find(model), weights, skip or [], epochs, seed)
        if tune is not None and distill is None and given.example is None:
            fail(f"--tune is for models from the list: how {model} trains is not known.")
        skipped = skip or []
        made = copy.deepcopy(given.model)
        shape = structure or "element"
        if prune is not None:
            start(made, given, prune, shape, skipped)
        if distill is not None:
            teacher = teacher_of(distill, teacher_weights, epochs, seed)
            follow(made, teacher, given, tune or TUNED, seed)
        elif tune is not None and given.example is not None:
            learn(replace(given.example, make=lambda: made), tune, seed)
        made.eval()
        if prune is not None:
            example = inputs_of(given) if shape in ("channel", "head") else ()
            made = hy.compress.remove(made, *example)
        if integers:
            made = quantized(made, given, wanted, calibration, skipped)
        if sensitivity:
            rows = hy.compress.sensitivity(
                given.model, given.comparing, given.metric, bits=wanted.bits
            )
            typer.echo(f"{rows}\n")
        typer.echo(hy.compress.report(given.model, made, given.comparing, given.metric))
        if out is not None:
            hy.compress.save(made, out)
            typer.echo()
            tell_written(out, ", for hy.compress.load")
    except HybridError as error:
        fail(error)
    except OSError as error:
        fail(f"{model}: {error}", code=1)


def quantized(
    model: Module, given: ModelWithData, wanted: Scheme, calibration: str | None, skip: list[str]
) -> Module:
    """``model`` in integers."""
    settings: dict[str, Any] = {"bits": wanted.bits, "skip": skip}
    settings |= {"group_size": wanted.group_size, "scheme": wanted.scheme}
    if wanted.method == "static":
        settings |= {"data": given.calibrating, "calibration": calibration or "minmax"}
    return hy.compress.quantize(model, wanted.method, **settings)


def start(
    model: Module, given: ModelWithData, amount: float, structure: str, skip: list[str]
) -> None:
    """Prune ``model`` in place, and say what could not be."""
    pruning = hy.compress.prune(
        model, amount, structure=structure, skip=skip, example=inputs_of(given)
    )
    typer.echo(f"pruned ({structure}): {pruning.sparsity():.1%} of the weights")
    for row in pruning.refused:
        typer.echo(f"  {row}")
    typer.echo()


def inputs_of(given: ModelWithData) -> tuple[Any, ...]:
    """The arguments that the first batch has for the model."""
    for batch in given.calibrating:
        args, kwargs = arguments(batch)
        if kwargs:
            fail("--prune needs batches of positional inputs, and these are dicts.")
        return args
    fail("the data are empty.")


def learn(example: Example, epochs: int | None, seed: int) -> Module:
    """Train an example's model before the user's eyes."""
    training = Training(example, epochs=epochs, seed=seed)
    console = Console(highlight=False)
    introduce(console, example, training, True)
    run(console, training)
    typer.echo()
    return training.model


def teacher_of(name: str, weights: Path | None, epochs: int | None, seed: int) -> Module:
    """The teacher that is named, trained."""
    if ":" in name:
        teacher = module_of(name)
    elif weights is None:
        return learn(find(name), epochs, seed)
    else:
        teacher = find(name).make()
    if weights is not None:
        teacher.load_state_dict(weights)
    return teacher


def follow(student: Module, teacher: Module, given: ModelWithData, epochs: int, seed: int) -> None:
    """Train ``student`` by what ``teacher`` says of the data."""
    make = adam(RATE) if given.example is None else given.example.optimizer
    data = given.calibrating
    if given.example is not None:
        data = DataLoader(
            given.example.task.load().train, given.example.batch_size, shuffle=True, generator=seed
        )
    losses = hy.compress.distill(
        teacher, student, data, epochs=epochs, optimizer=make(student.parameters())
    )
    typer.echo(f"distilled, {epochs} epochs: loss {losses[0]:.4f} to {losses[-1]:.4f}\n")


def from_file(target: str, data: str | None, weights: Path | None) -> ModelWithData:
    """The model and the data that the user's files name."""
    if data is None:
        fail(f"there are no data for {target}. Fix: give --data FILE:DATA, batches of inputs.")
    model = module_of(target)
    if weights is not None:
        model.load_state_dict(weights)
    batches = load_object(data, "data", "batches")
    if callable(batches):
        batches = batches()
    return ModelWithData(model, batches, batches)


def module_of(target: str) -> Module:
    """The module that the user's file names, or that a function there returns."""
    found = load_object(target, "a model", "net")
    if not isinstance(found, Module) and callable(found):
        found = found()
    if not isinstance(found, Module):
        fail(f"{target} is a {type(found).__name__}, and no hybrid.nn.Module.")
    return found


def require_task(teacher: Example, student: str) -> None:
    """Fail if the student learns from other data than the teacher."""
    if ":" in student:
        return
    tasks = teacher.task, find(student).task
    if tasks[0] is not tasks[1]:
        fail(f"{teacher.name} learns {tasks[0].data}, and {student} {tasks[1].data}.")


def from_list(
    example: Example, weights: Path | None, skip: list[str], epochs: int | None, seed: int
) -> ModelWithData:
    """An example model, with given weights or trained, and its data."""
    task = example.task
    require_names(example.make(), skip)
    if weights is None:
        model = learn(example, epochs, seed)
    else:
        model = example.make()
        model.load_state_dict(weights)

    def metric(model: Module, batches: Iterable[Any]) -> float:
        scores = [task.score(model, *batch) for batch in batches]
        return hy.concat(scores).mean().item()

    metric.__name__ = task.metric
    found = task.load()
    return ModelWithData(
        model.eval(),
        DataLoader(found.train, example.batch_size),
        DataLoader(found.test, SCORED),
        metric,
        example,
    )
