"""``hybrid bench scaling``: what training large GPTs on many ranks would take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.table import Table

from hybrid.cli.simulate import SimulationOptions, levels_of, positive
from hybrid.cli.tables import print_whole
from hybrid.cli.user_input import fail
from hybrid.core.dataclass import replace
from hybrid.eager.profile_tables import byte_count
from hybrid.errors import HybridError
from hybrid.simulation.gpt_scale import (
    ROUNDS,
    SIZES,
    WAYS,
    LargeGPT,
    Machine,
    ScaledStep,
    measured_block,
    powers,
    scaled,
)
from hybrid.simulation.network import Network
from hybrid.simulation.simulation_tables import level_text, table

MOST_RANKS = 4096
BATCH = 1024  # sequences: two million tokens


def scaling(
    ranks: Annotated[int, typer.Option(help="the most ranks of the table")] = MOST_RANKS,
    batch: Annotated[int, typer.Option(help="sequences of a step, in all ranks")] = BATCH,
    ranks_per_host: Annotated[int, typer.Option(help="ranks of a host")] = 8,
    cores_per_host: Annotated[int, typer.Option(help="cores of a host")] = 64,
    memory_per_host: Annotated[float, typer.Option(help="memory of a host in GiB")] = 512.0,
    gflops: Annotated[
        float | None, typer.Option(help="GFLOP/s of a core; default: measured here, in a block")
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(help="a file of alphas and betas, which is written if it is not there"),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="seconds, between hosts")] = None,
    beta: Annotated[
        float | None, typer.Option(help="bytes per second, of the link of a host")
    ] = None,
) -> None:
    """Tell what training GPTs of 1.3 and 13 billion weights takes, on 1 to 4,096 ranks.

    No rank is started: times are counts of operations and bytes at rates that are measured here or
    given.  In each cell stand the time of a step and the part of it in which ranks compute.
    """
    for name, value in (("--ranks", ranks), ("--batch", batch)):
        positive(name, value, 1)
    on_host = positive("--ranks-per-host", ranks_per_host, 8)
    cores = positive("--cores-per-host", cores_per_host, 64)
    if memory_per_host <= 0 or (gflops is not None and gflops <= 0):
        fail("--memory-per-host and --gflops are numbers above 0.")
    try:
        options = SimulationOptions(network=network, alpha=alpha, beta=beta)
        levels = levels_of(options, len(os.sched_getaffinity(0)))
        rate, kept = measured_block(rounds=ROUNDS if gflops is None else 1)
    except HybridError as error:
        fail(error)
    source = f"measured here, by one thread: {rate / 1e9:.1f}" if gflops is None else "as given"
    machine = Machine(
        rate=rate if gflops is None else gflops * 1e9,
        memory=memory_per_host * 2**30,
        kept=kept,
        source=source,
    )
    whole = Network(
        ranks=ranks,
        ranks_per_host=on_host,
        cores_per_host=cores,
        threads=max(cores // on_host, 1),
        levels=levels,
    )
    for model in SIZES:
        steps = {n: scaled(model, replace(whole, ranks=n), machine, batch) for n in powers(ranks)}
        print_whole(*scaling_tables(model, steps, batch), "")
    Console(highlight=False).print(assumption_table(whole, machine, batch))


def scaling_tables(
    model: LargeGPT, steps: dict[int, list[ScaledStep]], batch: int
) -> list[RenderableType]:
    """Seconds by ranks and way of sharing, and where they and the memory of the last go."""
    times = table(
        f"{model.name} weights, {batch:,} x {model.length:,} tokens: a step, what computes of it",
        ("ranks", *WAYS, "tp x pp x dp"),
        0,
    )
    for ranks, row in steps.items():
        layout = " x ".join(map(str, row[-1].layout))
        times.add_row(f"{ranks:,}", *[_cell(step) for step in row], layout)
    most = max(steps)
    details = table(
        f"{model.name}: a step of {most:,} ranks",
        ("way", "computing", "idle", "communicating", "bytes", "tokens/s", "states", "activations"),
    )
    for step in steps[most]:
        if step.why and not step.memory:
            details.add_row(step.way, step.why)
            continue
        shown = [span(s) for s in (step.computing, step.idle, step.communicating)]
        shown.append(byte_count(step.nbytes))
        tokens = f"{batch * model.length / step.seconds:,.0f}" if step.seconds else ""
        sizes = [byte_count(n) for n in (step.states, step.activations)]
        details.add_row(
            step.way, *(["", step.why, "", "", ""] if step.why else [*shown, tokens]), *sizes
        )
    return [times, "", details]


def _cell(step: ScaledStep) -> str:
    if step.why:
        return f"[red]{step.why}[/]" if step.memory else f"[dim]{step.why}[/]"
    return f"{span(step.seconds)} {step.efficiency:.0%}"


def span(seconds: float) -> str:
    """Seconds as text, in days where they are many."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2f} s"


def assumption_table(network: Network, machine: Machine, batch: int) -> Table:
    """All that the numbers rest on."""
    made = table("What this rests on", ("what", "how"), 2)
    room = byte_count(machine.memory / network.on_host)
    rows = [
        (
            "hosts",
            f"{network.cores_per_host} cores and {byte_count(machine.memory)}; "
            f"{network.ranks_per_host} ranks of {network.threads} threads and {room}",
        ),
        ("GFLOP/s of a core", f"{machine.rate / 1e9:.1f}, {machine.source}; threads add up"),
        ("operations", "6 a weight and token, and 12 width length a token and block"),
        (
            "activations",
            f"{machine.kept:.0f} bytes a token and feature of a block, of its plan here",
        ),
        ("  with tp", "10/34 of them are whole on each rank (Korthikanti et al. 2022)"),
        ("states", "float32: 4 bytes a weight, 4 a gradient, 8 of moments"),
        ("  ZeRO 3", "parameters are whole while the model is called"),
        ("  pp", "ranks hold their stages; the tied embedding and its gradients are sent"),
        ("batch", f"{batch:,} sequences, the same for all; a rank has one at a time"),
        ("time of a transfer", "alpha log2 n + bytes / beta; gradients in buckets of 1 MiB"),
        ("  in a host", level_text(network.levels[network.inside])),
        ("  between hosts", level_text(network.levels["host"])),
        ("overlap", "none: nothing is computed while bytes move"),
        ("the model", "extrapolated; hybrid launch --simulate checks it by real jobs here"),
    ]
    for row in rows:
        made.add_row(*row)
    return made
