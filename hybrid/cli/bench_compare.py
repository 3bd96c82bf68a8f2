"""``hybrid bench compare``: hybrid beside other frameworks, each in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hybrid.bench.compare import contenders as who
from hybrid.bench.compare.cases import MODEL, WORKLOADS, Amount, Contest, model_case
from hybrid.bench.compare.comparison_report import document, remarks, slower, table_of
from hybrid.bench.compare.pictures import require_matplotlib
from hybrid.bench.compare.problems import sizes_in
from hybrid.bench.compare.process import TIMEOUT
from hybrid.bench.compare.report_page import page
from hybrid.bench.compare.rounds import ROUNDS, SECONDS, Comparison, Settings, compare_case
from hybrid.bench.compare.serve import CLOCKS
from hybrid.bench.limits import Limits, measure
from hybrid.cli.tables import print_whole, progress_bar
from hybrid.cli.user_input import fail, require_writable, set_threads
from hybrid.core.output_file import write_text
from hybrid.errors import ArgumentError, HybridError
from hybrid.memory import native

HOW_TO_READ = """
ours: how many times as fast as the peer hybrid is; MiB: of memory, at most
of limit: the least time that this machine can take for such operations and bytes, beside the median
"""
AGAINST = "torch,jax,onnxruntime,tensorflow,numpy"


def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="workloads, or WORKLOAD:CASE with a part of a case's name; onnx:FILE is a model "
            "in a file; default: all"
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(help=f"the peers, with commas between; among {', '.join(who.PEERS)}")
    ] = AGAINST,
    python: Annotated[
        list[str] | None,
        typer.Option(help="PEER=PATH, an interpreter that has the peer; give it for each"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="threads for everyone; default: as set for hybrid")
    ] = None,
    rounds: Annotated[int, typer.Option(help="samples of each, in turns")] = ROUNDS,
    seconds: Annotated[float, typer.Option(help="that a sample lasts at least")] = SECONDS,
    clock: Annotated[
        str, typer.Option(help="wall; or cpu, for one thread on a machine that others use, too")
    ] = "wall",
    timeout: Annotated[float, typer.Option(help="seconds to wait for an answer")] = TIMEOUT,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="also write everything to this file")
    ] = None,
    html_path: Annotated[
        Path | None, typer.Option("--html", help="also write a page with pictures to this file")
    ] = None,
    fail_below: Annotated[
        float | None,
        typer.Option(help="code 1 if we are not so many times as fast as the best peer, anywhere"),
    ] = None,
) -> None:
    """Compare with other frameworks: check results on the same numbers, then measure in turns."""
    if rounds < 1:
        fail(f"--rounds {rounds}: at least one round is needed.")
    if not 0 < seconds < timeout:
        fail(f"--seconds {seconds:g} --timeout {timeout:g}: give 0 < seconds < timeout.")
    if clock not in CLOCKS:
        fail(f"--clock {clock}: use {' or '.join(CLOCKS)}.")
    for option, path in (("--json", json_path), ("--html", html_path)):
        if path is not None:
            require_writable(option, path)
    set_threads(threads)
    settings = Settings(native.num_threads(), rounds, seconds, timeout, clock)
    try:
        if html_path is not None:
            require_matplotlib()
        cases = chosen(names or [])
        pythons = who.interpreters(python or [])
        peers = dict.fromkeys(part.strip() for part in against.split(",") if part.strip())
        contenders = [who.contender(name, pythons) for name in (who.OURS, *peers)]
    except HybridError as error:
        fail(error)
    found: list[Comparison] = []
    interrupted = False
    limits = None
    try:
        limits = measure(settings.threads, clock=clock)
        run(cases, contenders, settings, found)
    except KeyboardInterrupt:
        interrupted = True
    show(found, settings, limits)
    if json_path is not None:
        written = json.dumps(document(found, settings, limits), indent=2)
        write_text(json_path, written + "\n")
    if html_path is not None:
        write_text(html_path, page(found, settings, limits))
    if interrupted:
        raise typer.Exit(130)
    if fail_below is not None and (late := slower(found, fail_below)):
        fail("; ".join(late), code=1)


def chosen(names: Sequence[str]) -> list[tuple[Contest, Amount]]:
    """The cases that ``names`` ask for; all of them when there are none."""
    found = []
    for name in names or WORKLOADS:
        workload, _, part = name.partition(":")
        if workload == MODEL.name:
            found.append((MODEL, _model(part)))
            continue
        if workload not in WORKLOADS:
            near = get_close_matches(workload, WORKLOADS, n=1, cutoff=0.4)
            told = f"there is no workload named {workload!r} to compare"
            if near:
                raise ArgumentError(f"{told}; did you mean {near[0]!r}?")
            raise ArgumentError(told, fix="see `hybrid bench list`")
        cases = [case for case in WORKLOADS[workload].cases if part in case.label]
        if not cases:
            known = ", ".join(case.label for case in WORKLOADS[workload].cases)
            raise ArgumentError(f"{workload} has no case with {part!r}", fix=f"there are: {known}")
        found += [(WORKLOADS[workload], case) for case in cases]
    return found


def _model(label: str) -> Amount:
    """The case of a model in a file; ArgumentError where there is none."""
    try:
        case = model_case(label)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    if not case.nbytes:
        path, _ = sizes_in(label)
        raise ArgumentError(f"there is no file {path!r}", fix="write onnx:FILE")
    return case


def run(
    cases: Sequence[tuple[Contest, Amount]],
    contenders: Sequence[who.Contender],
    settings: Settings,
    found: list[Comparison],
) -> None:
    """Compare in all ``cases``, adding to ``found``, with a progress bar on stderr."""
    with progress_bar(44) as progress:
        task = progress.add_task("loading the frameworks", total=len(contenders) + len(cases))
        surveys = {}
        for one in contenders:
            surveys[one.name] = who.survey(one, settings.threads, settings.timeout)
            progress.advance(task)
        for workload, case in cases:
            label = f"{workload.name}: {case.label}"
            rounds = progress.add_task(label, total=len(contenders) + settings.rounds)
            found.append(
                compare_case(
                    workload, case, contenders, surveys, settings,
                    advance=lambda rounds=rounds: progress.advance(rounds),
                )
            )  # fmt: skip
            progress.remove_task(rounds)
            progress.update(task, advance=1, description="cases")


def show(found: Sequence[Comparison], settings: Settings, limits: Limits | None) -> None:
    """The table, what it leaves out, and how to read it."""
    console = Console(highlight=False)
    versions: dict[str, str] = {}
    for comparison in found:
        versions |= comparison.versions
    console.print(", ".join(f"{name} {version}" for name, version in versions.items()))
    console.print(
        f"threads: {settings.threads}, medians of {settings.rounds} rounds in turns,"
        f" {settings.clock} time\n"
    )
    print_whole(table_of(found, limits))
    console.print(HOW_TO_READ)
    for note in remarks(found):
        console.print(note, soft_wrap=True)
