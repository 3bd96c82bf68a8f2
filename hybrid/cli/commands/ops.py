"""``hybrid ops``: the declared operations, and what each has and lacks."""

from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hybrid.cli.user_input import fail
from hybrid.core.types import DTYPES, SUPPORTED
from hybrid.eager.frameworks.inspection import ARRAY_API_VERSION, FUNCTIONS, LINALG
from hybrid.ir import REGISTRY, Op
from hybrid.memory import native

app = typer.Typer()

KINDS = (
    ("all", ("bool", "int", "uint", "float")),
    ("numbers", ("int", "uint", "float")),
    ("integers", ("int", "uint")),
)
Kernels = dict[str, list[native.KernelRow]]  # by name, in the order of the dtypes

# Why a differentiable op has no vjp, or an op nothing that computes it.
EXPLAINED = {
    "literal": "its bytes are part of a plan",
    "py_call": "a function of the author's: it has no derivative",
    "say": "steps of plans print",
    "stop": "and end runs",
}


@app.command()
def ops(
    part: Annotated[str, typer.Argument(help="only ops whose name contains this")] = "",
    gaps: Annotated[bool, typer.Option("--gaps", help="only ops that lack something")] = False,
) -> None:
    """List the ops: what computes them for which dtypes, derivative and batching rules, gaps."""
    kernels = kernels_by_name()
    chosen = {name: op for name, op in sorted(REGISTRY.items()) if part in name}
    if not chosen:
        fail(f"no op's name contains {part!r}.")
    if gaps:
        chosen = {name: op for name, op in chosen.items() if lacks(op, kernels)}
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("op", style="bold", no_wrap=True)
    table.add_column("operands; attributes", overflow="fold", ratio=3)
    table.add_column("computed by: dtypes", overflow="fold", ratio=3)
    table.add_column("for", overflow="fold", ratio=1)
    for heading in ("vjp", "jvp", "batch", "API"):
        table.add_column(heading, no_wrap=True)
    table.add_column("gaps", overflow="fold", ratio=1, style="yellow")
    for name, op in chosen.items():
        table.add_row(
            name,
            signature(op),
            computed_by(op, kernels),
            isas(op, kernels),
            *rules(op),
            "yes" if name in FUNCTIONS | LINALG else "-",
            ", ".join(lacks(op, kernels)),
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{len(chosen)} ops; {kernels_per_isa()}\n"
        "jvp by vjp: it is transposed twice; batch by rows: one row after the other\n"
        f"API: the function of that name in the array API standard {ARRAY_API_VERSION}; what is no "
        "op there is made of ops"
    )


def kernels_by_name() -> Kernels:
    """The kernels that this machine uses."""
    found: Kernels = {}
    for row in sorted(native.kernel_table(), key=lambda row: row.dtype_code):
        found.setdefault(row.name, []).append(row)
    return found


def kernels_per_isa() -> str:
    """How many kernels of the merged table come from which instruction set."""
    counts = Counter(row.isa for row in native.kernel_table())
    return ", ".join(f"{count} {isa} kernels" for isa, count in sorted(counts.items()))


def signature(op: Op) -> str:
    """``x, y; axis, keepdims``, with a star before operands of any number."""
    operands = ", ".join(op.operand_names)
    attrs = ", ".join(op.attr_defaults)
    return ("*" if op.variadic else "") + operands + (f"; {attrs}" if attrs else "")


def own_kernel(op: Op) -> str:
    """The name of its kernel; a lowering may use one of the op's own name, and more."""
    return op.kernel if isinstance(op.kernel, str) else op.name


def computed_by(op: Op, kernels: Kernels) -> str:
    """The kernel and its dtypes, or how the op does without one of its own."""
    if op.view_rule is not None:
        return "none: a view"
    if op.hosted:
        return "none: NumPy's, in a host step"
    if op.has_regions:
        return "none: its regions"
    if callable(op.kernel):
        return "one per dtype"
    name = own_kernel(op)
    if op.kernel is None and name not in kernels:
        return EXPLAINED.get(op.name, "none") if op.lowering_rule is None else "several: lowered"
    return f"{name}: {dtypes_of(kernels.get(name, []))}"


def dtypes_of(rows: list[native.KernelRow]) -> str:
    """The dtypes of the first input, those of a whole kind by its name."""
    short = {dtype.code: dtype for dtype in DTYPES}
    found = [short[row.dtype_code] for row in rows]
    words = []
    for word, kinds in KINDS:
        whole = [d for d in SUPPORTED if d.kind in kinds]
        if all(d in found for d in whole):
            words.append(word)
            found = [d for d in found if d not in whole]
            break
    return " ".join([*words, *dict.fromkeys(d.short for d in found)]) or "missing"


def isas(op: Op, kernels: Kernels) -> str:
    """The instruction sets that this machine's kernels of the op are compiled for."""
    return " ".join(sorted({row.isa for row in kernels.get(own_kernel(op), [])}))


def rules(op: Op) -> tuple[str, str, str]:
    """What the op has for gradients, for forward mode and for vmap."""
    batch = "yes" if op.batch_rule is not None or op.elementwise else "by rows"
    if not op.differentiable or op.name in EXPLAINED:
        return "-", "-", batch
    vjp = "yes" if op.vjp_rule is not None else "no"
    jvp = "yes" if op.jvp_rule is not None else "by vjp" if op.vjp_rule is not None else "no"
    return vjp, jvp, batch


def lacks(op: Op, kernels: Kernels) -> list[str]:
    """What a reader would look for in vain."""
    found = []
    if op.name not in EXPLAINED:
        if op.differentiable and op.vjp_rule is None:
            found.append("no vjp")
        if computed_by(op, kernels).endswith(("none", "missing")):
            found.append("no kernel")
    if op.reference_rule is None:
        found.append("no reference")
    own = op.sample_rule is not None or (op.elementwise and not op.attr_defaults)
    if op.pure and not op.has_regions and not own:
        found.append("no samples")
    return found
