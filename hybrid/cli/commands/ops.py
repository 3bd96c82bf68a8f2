"""``hybrid ops``: the declared operations and what each has."""

from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hybrid import native
from hybrid.cli.common import fail
from hybrid.ir import REGISTRY, Op
from hybrid.types import DTYPES

app = typer.Typer()


@app.command()
def ops(
    part: Annotated[str, typer.Argument(help="only ops whose name contains this")] = "",
) -> None:
    """List the ops: operands and attributes, kernel with its dtypes, derivative rules."""
    chosen = {name: op for name, op in sorted(REGISTRY.items()) if part in name}
    if not chosen:
        fail(f"no op's name contains {part!r}.")
    dtypes = kernel_dtypes()
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("op", style="bold", no_wrap=True)
    table.add_column("operands; attributes", overflow="fold", ratio=3)
    table.add_column("kernel: dtypes", overflow="fold", ratio=2)
    table.add_column("vjp", no_wrap=True)
    table.add_column("jvp", no_wrap=True)
    for name, op in chosen.items():
        table.add_row(name, signature(op), kernel(op, dtypes), *rules(op))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"{len(chosen)} ops; {kernels_per_isa()}; jvp by vjp: it is transposed twice")


def kernels_per_isa() -> str:
    """How many kernels of the merged table come from which instruction set."""
    counts = Counter(row.isa for row in native.kernel_table())
    return ", ".join(f"{count} {isa} kernels" for isa, count in sorted(counts.items()))


def signature(op: Op) -> str:
    """``x, y; axis, keepdims``, with a star before operands of any number."""
    operands = ", ".join(op.operand_names)
    attrs = ", ".join(op.attr_defaults)
    return ("*" if op.variadic else "") + operands + (f"; {attrs}" if attrs else "")


def kernel_dtypes() -> dict[str, list[str]]:
    """Kernel name -> the dtypes of its first input, in the order of the dtypes."""
    short = {dtype.code: dtype.short for dtype in DTYPES}
    found: dict[str, list[str]] = {}
    for row in sorted(native.kernel_table(), key=lambda row: row.dtype_code):
        found.setdefault(row.name, []).append(short[row.dtype_code])
    return found


def kernel(op: Op, dtypes: dict[str, list[str]]) -> str:
    """The kernel and its dtypes, or how the op does without one of its own."""
    if op.view_rule is not None:
        return "none: a view"
    if op.hosted:
        return "none: NumPy's, in a host step"
    if callable(op.kernel):
        return "one per dtype"
    name = op.kernel or op.name  # a lowering may use a kernel of the op's own name, and more
    if op.kernel is None and name not in dtypes:
        return "none" if op.lowering_rule is None else "several: lowered"
    return f"{name}: {' '.join(dtypes.get(name, ['missing']))}"


def rules(op: Op) -> tuple[str, str]:
    """What the op has for gradients and for forward mode."""
    if not op.differentiable:
        return "-", "-"
    vjp = "yes" if op.vjp_rule is not None else "no"
    return vjp, "yes" if op.jvp_rule is not None else "by vjp" if op.vjp_rule is not None else "no"
