"""``hybrid train``: train an example model on its data, and watch how it goes."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

import hybrid as hy
from hybrid.cli.user_input import fail, require_writable, set_threads
from hybrid.core import imports
from hybrid.errors import HybridError
from hybrid.models.examples import Example, find
from hybrid.models.training import Training

app = typer.Typer()

REDRAWN = 0.1  # seconds between two looks at the bar


@app.command()
def train(
    name: Annotated[str, typer.Argument(help="a model from `hybrid models`")],
    epochs: Annotated[
        int | None, typer.Option(help="times to go through the data; default: the model's own")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the first weights and the order of the data")] = 0,
    threads: Annotated[int | None, typer.Option(help="for kernels; default: as set")] = None,
    hybridize: Annotated[bool, typer.Option(help="capture the step; the same bits anyway")] = True,
    save: Annotated[
        Path | None, typer.Option(help="write the weights to this file, as safetensors")
    ] = None,
) -> None:
    """Train the example model NAME on its data; each epoch tells what held-out samples say."""
    if epochs is not None and epochs < 1:
        fail(f"--epochs {epochs}: at least one is needed.")
    try:
        example = find(name)
        if save is not None:
            imports.optional("safetensors", "io", "--save")
            require_writable("--save", save)
        set_threads(threads)
        training = Training(example, epochs=epochs, seed=seed, hybridized=hybridize)
    except HybridError as error:
        fail(error)
    console = Console(highlight=False)
    introduce(console, example, training, hybridize)
    score = run(console, training)
    if save is not None:
        told = {"model": name, "epochs": str(training.epochs), "seed": str(seed)}
        told |= {training.task.metric: f"{score}"}
        try:
            hy.save(save, training.model, metadata=told)
        except (HybridError, OSError) as error:
            fail(f"--save {save}: {error}", code=1)
        console.print(f"the weights are in {save}", soft_wrap=True)


def introduce(console: Console, example: Example, training: Training, hybridized: bool) -> None:
    """What is going to be trained, and the names of the columns that follow."""
    count = sum(parameter.size for parameter in training.model.parameters())
    console.print(f"{example.name}: {example.description}; {count:,} parameters", style="bold")
    console.print(
        f"{training.task.data}: {training.samples:,} samples an epoch, "
        f"{len(training.tests.dataset):,} held out"
    )
    way = "hybridized" if hybridized else "eager"
    console.print(f"{way}, threads: {hy.num_threads()}\n")
    console.print(line("epoch", "loss", training.task.metric, "samples/s"), style="bold")


def line(epoch: str, loss: str, score: str, speed: str) -> str:
    """A row of the table that grows."""
    return f"{epoch:>5}  {loss:>9}  {score:>16}  {speed:>10}"


def run(console: Console, training: Training) -> float:
    """Train to the end, a line for each epoch; the last score.  Ctrl-C ends the program."""
    begun, metric = time.perf_counter(), training.task.metric
    epoch, score, told = 0, float("nan"), ""
    try:
        with live(console) as bars:
            bar = bars.add_task("", total=len(training.batches), seen="", last="")
            for epoch in range(1, training.epochs + 1):
                last = told and f"{metric} {told}"
                name = f"epoch {epoch} of {training.epochs}"
                bars.reset(bar, description=name, seen="", last=last)
                loss, speed = one_epoch(training, bars, bar)
                score = training.score()
                told = training.task.form.format(score)
                console.print(line(str(epoch), f"{loss:.4f}", told, f"{speed:,.0f}"))
    except KeyboardInterrupt:
        fail(f"interrupted in epoch {epoch} of {training.epochs}; nothing was saved.", code=130)
    took = time.perf_counter() - begun
    console.print(f"\n{metric}: {told} after {training.epochs} epochs and {took:.1f} s")
    return score


def live(console: Console) -> Progress:
    """The bar below the lines, drawn when it is told to; none unless that is a terminal."""
    texts = ("{task.description}", "{task.fields[seen]}", "{task.fields[last]}")
    epoch, *seen = (TextColumn(text) for text in texts)
    return Progress(
        epoch,
        BarColumn(bar_width=None),
        *seen,
        console=console,
        expand=True,
        auto_refresh=False,
        transient=True,
        disable=not console.is_terminal,
    )


def one_epoch(training: Training, bars: Progress, bar: TaskID) -> tuple[float, float]:
    """The mean loss, and the samples that were learnt in a second."""
    steps, size = len(training.batches), training.samples // len(training.batches)
    begun = drawn = time.perf_counter()
    total = 0.0
    for done, loss in enumerate(training.epoch(), 1):
        total += loss.item()
        now = time.perf_counter()
        if now - drawn > REDRAWN or done == steps:
            drawn = now
            seen = f"loss {total / done:.4f}, {done * size / (now - begun):,.0f} samples/s"
            bars.update(bar, completed=done, seen=seen, refresh=True)
    return total / steps, training.samples / (time.perf_counter() - begun)
