"""``hybrid info``: what runs here, and with what."""

import typer
from rich.console import Console
from rich.table import Table

import hybrid
from hybrid.bench.report import facts
from hybrid.memory import native

app = typer.Typer()


@app.command()
def info() -> None:
    """Show the version, the instruction set, threads, compiler and memory."""
    machine, memory = facts(), native.memory()
    rows = {
        "hybrid": hybrid.__version__,
        "python": f"{machine['python']}, NumPy {machine['numpy']}",
        "processor": f"{machine['processor']}, {machine['cores']} cores",
        "instruction set": f"{native.isa()} (runs here: {', '.join(native.isas())})",
        "threads": str(native.num_threads()),
        "tuning": tuning(),
        "compiler": native.compiler(),
        "kernels": str(len(native.kernel_table())),
        "memory": f"{megabytes(memory['live_bytes'])} live, {megabytes(memory['cached_bytes'])}"
        f" cached, {megabytes(memory['peak_bytes'])} at its peak",
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows.items():
        table.add_row(*row)
    Console(highlight=False).print(table)


def tuning() -> str:
    """The choices that a file made, or why it made none."""
    path, fault, _ = native.tuning()
    if not path:
        return "as usual; `hybrid tune` measures what is best here"
    if fault:
        return f"as usual: {path}: {fault}; write it anew with `hybrid tune`"
    changed = [
        f"{name} {value}" for name, (value, usual) in native.choices().items() if value != usual
    ]
    return f"{', '.join(changed) or 'as usual'}, by {path}"


def megabytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
