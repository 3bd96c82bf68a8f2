"""summary: what a model is made of and what a call of it costs, module by module."""

from __future__ import annotations

import copy
import io
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import flatten
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, MissingKeyError
from hybrid.ir.interpreter import interpreting
from hybrid.ir.record import recording
from hybrid.nn.modules.module import Module
from hybrid.nn.op_counts import Cost, Counter
from hybrid.random import default_generator

HEADINGS = ("module", "type", "result", "parameters", "FLOPs", "activations")
STYLE = """
.hybrid-summary { color-scheme: light dark; border-collapse: collapse;
  font: 13px/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.hybrid-summary th, .hybrid-summary td { text-align: right; padding: .1em .9em; border: 0;
  white-space: pre; background: none; }
.hybrid-summary th { border-bottom: 1px solid rgba(128, 128, 128, .6); }
.hybrid-summary .left { text-align: left; }
.hybrid-summary .unused { opacity: .6; }
.hybrid-summary tfoot td { font-weight: 600;
  border-top: 1px solid rgba(128, 128, 128, .6); }
.hybrid-summary caption { caption-side: bottom; text-align: left; padding: .5em .9em;
  white-space: pre; }
"""


@dataclass(frozen=True)
class Row:
    """One module: its figures include those of its parts.

    ``path`` is the dotted one, "" of the model itself, and ``depth`` its length.  ``result`` has
    the types of the tensors that its first call returned.  ``parameters`` counts numbers;
    ``nbytes`` are those of the tensors that its ops made, views not counted.
    """

    path: str
    kind: str
    depth: int
    calls: int
    holds_called: bool  # some part of it was called, if not itself
    result: tuple[TensorType, ...]
    parameters: int
    trainable: int
    flops: int
    nbytes: int


@dataclass(frozen=True)
class Summary:
    """What ``summary`` returns: print it, or read its figures; notebooks show a table.

    ``parameters`` and ``trainable`` count numbers, shared ones once; ``parameter_nbytes`` and
    ``buffer_nbytes`` say what holds them; ``flops`` and ``nbytes``, of activations, are those of
    one call.  ``depth`` is down to where rows are shown.
    """

    rows: tuple[Row, ...]
    parameters: int
    trainable: int
    parameter_nbytes: int
    buffer_nbytes: int
    flops: int
    nbytes: int
    depth: int | None = None

    def __getitem__(self, path: str) -> Row:
        """The row of the module at a dotted path."""
        for row in self.rows:
            if row.path == path:
                return row
        raise MissingKeyError.among("the summary", "module", path, [row.path for row in self.rows])

    @property
    def shown(self) -> list[Row]:
        """The rows down to ``depth``."""
        return [row for row in self.rows if self.depth is None or row.depth <= self.depth]

    def __rich__(self) -> Any:
        """The table in colours."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, show_footer=True, pad_edge=False, caption_justify="left")
        for heading, total in zip(HEADINGS, self._totals(), strict=True):
            left = heading in HEADINGS[:3]
            table.add_column(heading, total, justify="left" if left else "right", no_wrap=True)
        for row in self.shown:
            first, *rest = _cells(row)
            name = Text("  " * row.depth, "") + Text(first, "bold" if row.depth == 0 else "")
            style = "" if row.holds_called else "dim"
            table.add_row(name, *[Text(cell) for cell in rest], style=style)
        table.caption = Text(self._caption(), "dim")
        return table

    def __str__(self) -> str:
        from rich.console import Console

        file = io.StringIO()
        Console(file=file, width=1000, color_system=None, highlight=False).print(self)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table for notebooks, in their colours."""
        from html import escape

        def line(cells: list[str], tag: str, row: Row | None = None) -> str:
            made = []
            for at, cell in enumerate(cells):
                side = ' class="left"' if at < 3 else ""
                if at == 0 and row is not None and row.depth:
                    side += f' style="padding-left: {0.9 + 1.2 * row.depth:.1f}em"'
                made.append(f"<{tag}{side}>{escape(cell)}</{tag}>")
            unused = ' class="unused"' if row is not None and not row.holds_called else ""
            return f"<tr{unused}>{''.join(made)}</tr>"

        rows = [line(_cells(row), "td", row) for row in self.shown]
        return (
            f'<style>{STYLE}</style><table class="hybrid-summary">'
            f"<caption>{escape(self._caption())}</caption>"
            f"<thead>{line(list(HEADINGS), 'th')}</thead>"
            f"<tbody>{''.join(rows)}</tbody>"
            f"<tfoot>{line(self._totals(), 'td')}</tfoot></table>"
        )

    def _totals(self) -> list[str]:
        figures = [f"{self.parameters:,}", scaled(self.flops, ""), scaled(self.nbytes, "B")]
        return ["total", "", "", *figures]

    def _caption(self) -> str:
        held = [f"{scaled(self.parameter_nbytes, 'B') or 'none'} of parameters"]
        if self.buffer_nbytes:
            held.append(f"{scaled(self.buffer_nbytes, 'B')} of buffers")
        return f"{self.trainable:,} parameters are trained\n{', '.join(held)}"


def summary(model: Module, *inputs: Any, depth: int | None = None, **named: Any) -> Summary:
    """What ``model`` is made of, and what the call ``model(*inputs, **named)`` costs.

    A sole tuple of inputs is taken for several.  The call is made once, eagerly, on a copy in
    evaluation mode, and the ops are counted that it runs: nothing of the model changes, and no
    random number is drawn from the default generator.  FLOPs are two for each multiplication and
    addition of a product or convolution; other arithmetic has one for each element, softmax and
    normalisations some (``hybrid.nn.op_counts``), moves none.  Rows below ``depth`` are left out of
    the table: 0 leaves the model alone.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"summary() of a {type(model).__name__}", fix="give a hybrid.nn.Module"
        )
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 0):
        raise ArgumentError(f"depth is {depth!r}", fix="give an int >= 0, or None for all rows")
    if len(inputs) == 1 and isinstance(inputs[0], tuple):
        inputs = inputs[0]
    twin = copy.deepcopy(model).eval()
    state = default_generator().state
    drawn = state.detach()
    counter = Counter()
    try:
        with recording(False), interpreting(counter):
            twin(*inputs, **named)
    finally:
        state.assign(drawn)
    rows = tuple([_row(path, part, counter) for path, part in twin.named_modules()])
    return Summary(
        rows=rows,
        parameters=rows[0].parameters,
        trainable=rows[0].trainable,
        parameter_nbytes=sum(p.nbytes for p in twin.parameters()),
        buffer_nbytes=sum(b.nbytes for b in twin.buffers()),
        flops=rows[0].flops,
        nbytes=rows[0].nbytes,
        depth=depth,
    )


def _row(path: str, module: Module, counter: Counter) -> Row:
    cost = counter.costs.get(id(module), Cost())
    leaves = flatten(cost.result)[0]
    return Row(
        path=path,
        kind=type(module).__name__,
        depth=path.count(".") + 1 if path else 0,
        calls=cost.calls,
        holds_called=any(id(part) in counter.costs for part in module.modules()),
        result=tuple([leaf.type for leaf in leaves if isinstance(leaf, Tensor)]),
        parameters=sum(p.size for p in module.parameters()),
        trainable=sum(p.size for p in module.parameters() if p.requires_grad),
        flops=cost.flops,
        nbytes=cost.nbytes,
    )


def _cells(row: Row) -> list[str]:
    name = row.path.rpartition(".")[2] or "(model)"
    parameters = f"{row.parameters:,}" if row.parameters else ""
    if not row.calls:
        return [name, row.kind, "" if row.holds_called else "not called", parameters, "", ""]
    result = ", ".join(map(str, row.result[:3])) + (", ..." if len(row.result) > 3 else "")
    if row.calls > 1:
        result += f"  x {row.calls}"
    return [name, row.kind, result, parameters, scaled(row.flops, ""), scaled(row.nbytes, "B")]


def scaled(value: int, unit: str) -> str:
    """Three digits and a prefix: 1.23 M, 45.6 kB; nothing for zero."""
    number = float(value)
    for prefix in ("", "k", "M", "G", "T", "P"):
        if number < 999.5 or prefix == "P":
            break
        number /= 1000
    if not value:
        return ""
    digits = f"{value}" if not prefix else f"{number:.3g}" if number < 99.95 else f"{number:.0f}"
    return f"{digits} {prefix}{unit}".rstrip()
