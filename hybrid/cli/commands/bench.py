"""``hybrid bench``: measure the workloads on this machine, and check their results."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hybrid.bench.compare.cases import MODEL, WORKLOADS
from hybrid.bench.limits import measure as measure_limits
from hybrid.bench.measure import SampleTiming
from hybrid.bench.registry import BenchError, Workload, find, first_look, quick, workloads
from hybrid.bench.report import beside_target, document, duration, facts, figures, spread
from hybrid.bench.runner import REPEAT, Result, WayLine, ledgers_kept, run_case
from hybrid.bench.sweep import SIZES, SweepRow, eager_add, functions, sweep
from hybrid.cli.bench_compare import compare
from hybrid.cli.bench_compress import compress
from hybrid.cli.bench_scale import scaling
from hybrid.cli.tables import figures_table, plain_table, print_whole, progress_bar, show_machine
from hybrid.cli.user_input import fail, require_writable, set_threads
from hybrid.core.output_file import write_text
from hybrid.errors import HybridError
from hybrid.memory import native


class Benches(typer.core.TyperGroup):
    """The commands; the name of a workload stands for `run` of it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """`parallel --threads 1` is `run parallel --threads 1`."""
        if args and args[0] not in self.commands and args[0] in workloads():
            args = ["run", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=Benches)
app.command()(compare)
app.command()(compress)
app.command()(scaling)

Threads = Annotated[
    int | None, typer.Option(help="threads for kernels (matmul always uses 1); default: as set")
]
Repeat = Annotated[int, typer.Option(help="rounds of measurement; medians are over these")]
Json = Annotated[Path | None, typer.Option("--json", help="also write everything to this file")]


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Measure runs of small workloads: `bench NAME` is `bench run NAME`; alone, a few of them."""
    if context.invoked_subcommand is None:
        run_and_show(first_look(), None, None, None)
        typer.echo("`hybrid bench run` measures all quick workloads; `hybrid bench list` has them")


@app.command("list")
def list_() -> None:
    """List the workloads of `run` and of `compare`."""
    table = Table(box=None, pad_edge=False)
    table.add_column("workload", style="bold", no_wrap=True)
    table.add_column("with", no_wrap=True)
    table.add_column("what is measured")
    runs, compared = workloads(), WORKLOADS | {MODEL.name: MODEL}
    for name, workload in sorted((compared | runs).items()):
        by = [command for command, known in (("run", runs), ("compare", compared)) if name in known]
        table.add_row(name, ", ".join(by), workload.description)
    Console().print(table)


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="workloads from `hybrid bench list`; default: all quick ones"),
    ] = None,
    threads: Threads = None,
    repeat: Annotated[
        int | None,
        typer.Option(
            help="rounds of measurement; medians are over these; "
            f"default: {REPEAT}, fewer where they take long"
        ),
    ] = None,
    json_path: Json = None,
) -> None:
    """Measure the workloads NAMES, with a choice of threads, rounds and output."""
    try:
        chosen = [find(name) for name in names] if names else quick()
    except HybridError as error:
        fail(error)
    run_and_show(chosen, threads, repeat, json_path)


@app.command()
def ops(
    part: Annotated[str, typer.Argument(help="only functions whose name contains this")] = "",
    size: Annotated[
        list[int] | None, typer.Option(help="elements; give it again for more sizes")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64")] = "float32",
    threads: Threads = None,
    repeat: Repeat = 5,
    json_path: Json = None,
) -> None:
    """Call every array function eagerly, NumPy beside it: the slowest, compared, come first."""
    sizes = size or SIZES
    if min(sizes) < 1:
        fail(f"--size {min(sizes)}: at least one element is needed.")
    if dtype not in ("float32", "float64"):
        fail(f"--dtype {dtype}: use float32 or float64.")
    if not any(functions(part)):
        fail(f"no function's name contains {part!r}.")
    prepare(threads, repeat, json_path)
    add = eager_add(repeat)
    with progress_bar() as progress:
        task = progress.add_task("", total=len(list(functions(part))))

        def advance(name: str) -> None:
            progress.update(task, advance=1, description=name)

        rows = sweep(part, sizes=sizes, dtype=dtype, repeat=repeat, advance=advance)
    show_machine()
    print_whole(sweep_table(rows, add))
    if json_path is not None:
        write_json(json_path, {"machine": facts(), "rows": [asdict(row) for row in rows]})


@app.command()
def limits(
    threads: Annotated[
        int | None, typer.Option(help="measured beside one thread; default: as set")
    ] = None,
    json_path: Json = None,
) -> None:
    """Measure what this machine does at most: operations, and bytes from each level of memory."""
    prepare(threads, 1, json_path)
    counts = sorted({1, native.num_threads()})
    with progress_bar() as progress:
        task = progress.add_task("", total=None)

        def advance(name: str) -> None:
            progress.update(task, description=name)

        found = [measure_limits(count, advance=advance) for count in counts]
    show_machine()
    table = plain_table()
    table.add_column("limit", style="bold", no_wrap=True)
    table.add_column("of")
    table.add_column("unit", no_wrap=True)
    for count in counts:
        name = f"{count} thread{'s' if count > 1 else ''}"
        table.add_column(name, justify="right", no_wrap=True)
    for row in found[0].rows:
        cells = [figures(each.rate(row.name) / 1e9) for each in found]
        table.add_row(row.name, row.what, f"G{row.unit}", *cells)
    print_whole(table)
    if json_path is not None:
        rows = [row for each in found for row in each.document()]
        write_json(json_path, {"machine": facts(), "limits": rows})


def sweep_table(rows: list[SweepRow], add: SampleTiming) -> Table:
    """A row per function and size, the largest sizes first, then by how far NumPy is ahead."""
    table = figures_table("function", ("elements", "hybrid", "NumPy", "ratio", "over add"))
    for row in sorted(rows, key=lambda row: (-row.size, -row.ratio)):
        over = row.ours.median - add.median
        table.add_row(
            row.name,
            f"{row.size:,}",
            duration(row.ours.median),
            duration(row.numpy.median),
            f"{row.ratio:.2f}",
            duration(over) if over > 0 else "-",
        )
    return table


def run_and_show(
    chosen: list[Workload], threads: int | None, repeat: int | None, json_path: Path | None
) -> None:
    """Measure, print the table and write the file; a wrong result ends the program with code 1."""
    prepare(threads, repeat, json_path)
    try:
        results = run_all(chosen, repeat)
    except BenchError as error:
        fail(error, code=1)
    show(results)
    if json_path is not None:
        write_json(json_path, document(results))


def prepare(threads: int | None, repeat: int | None, json_path: Path | None) -> None:
    """Check the options and set the number of threads."""
    if repeat is not None and repeat < 1:
        fail(f"--repeat {repeat}: at least one round is needed.")
    if json_path is not None:
        require_writable("--json", json_path)
    set_threads(threads)


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def run_all(chosen: list[Workload], repeat: int | None) -> list[Result]:
    """Build, check and measure, with a progress bar on stderr."""
    results = []
    with progress_bar() as progress:
        total = progress.add_task("", total=len(chosen))
        for workload in chosen:
            progress.update(total, description="workloads")
            with ledgers_kept(workload.ledgers):
                for case in workload.build():
                    label = f"{workload.name}: {case.label}"
                    rounds = progress.add_task(label, total=repeat or REPEAT)
                    advance = partial(progress.advance, rounds)
                    results.append(run_case(workload, case, repeat, advance=advance))
                    progress.remove_task(rounds)
            progress.advance(total)
    return results


def show(results: list[Result]) -> None:
    """One table of all lines, what the checks found, and how to read it."""
    show_machine()
    console = Console(highlight=False)
    for text in page_of(results):
        console.print(text, soft_wrap=True)
    console.print("\nspeed: times as fast as the first way; first call: with capture and planning")
    for result in results:
        for what, found in result.facts.items():
            console.print(f"{result.workload}: {what}: {found}")
        for line in result.lines:
            if line.budget is not None:
                over = "" if line.timing.median <= line.budget else ", over"
                took = f"{duration(line.timing.median)} of {duration(line.budget)}{over}"
                console.print(f"{result.workload}: {result.case}, {line.way}: {took}")
            for target in line.targets:
                told = beside_target(result, line, target)
                console.print(f"{result.workload}: {result.case}, {line.way}: {told}")


def page_of(results: list[Result]) -> Iterator[Text]:
    """A line per way under the one of its case; columns are as wide as what is in them."""
    rates = any(line.gflops is not None for result in results for line in result.lines)
    heads = ["", "median", "p10 - p90", "speed", "first call", *(["GFLOP/s"] if rates else [])]
    rows = [
        [cells(line, first=line is result.lines[0]) for line in result.lines] for result in results
    ]
    columns = zip_longest(heads, *itertools.chain(*rows), fillvalue="")
    widths = [max(map(len, column)) for column in columns]

    def lined_up(cells: list[str]) -> str:
        name, *numbers = [cell.rjust(n) for cell, n in zip(cells, widths, strict=False)]
        return "  ".join([name.strip().ljust(widths[0]), *numbers]).rstrip()

    yield Text(f"  {lined_up(heads)}", style="dim")
    for result, lines in zip(results, rows, strict=True):
        yield Text.assemble((result.workload, "bold"), f", {result.case}")
        for line in lines:
            yield Text(f"  {lined_up(line)}")


def cells(line: WayLine, *, first: bool) -> list[str]:
    """What a row says of ``line``; the first way is not compared with itself."""
    return [
        line.way,
        duration(line.timing.median),
        spread(line),
        "" if first else f"{line.speedup:.2f}x",
        duration(line.first_call),
        *([] if line.gflops is None else [figures(line.gflops)]),
    ]
