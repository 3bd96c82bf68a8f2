"""Tensors as notebooks show them: the type, and a table of the values, or of some of many."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from hybrid.core.layouts import layout_text
from hybrid.eager.tensor import Tensor
from hybrid.ir import Value
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.memory import native

EDGE = 5  # rows and columns shown at each end of an axis that is longer than both and one more
MATRICES = 3  # shown of a tensor of more than two dimensions
STYLE = """
.hybrid-tensor { color-scheme: light dark; overflow-x: auto;
  font: 12px/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.hybrid-tensor table { border-collapse: collapse; margin: .3em 0; }
.hybrid-tensor th, .hybrid-tensor td { text-align: right; padding: .05em .6em; border: 0;
  white-space: pre; background: none; }
.hybrid-tensor th, .hybrid-tensor .faint { font-weight: 400; opacity: .55; }
.hybrid-tensor thead th { border-bottom: 1px solid rgba(128, 128, 128, .5); }
.hybrid-tensor tbody th { border-right: 1px solid rgba(128, 128, 128, .5); }
"""


def tensor_html(x: Tensor) -> str:
    """What ``Tensor._repr_html_`` returns; looks at no more values than it shows."""
    facts = [f"{x.dtype.name}, {x.size:,} elements" if x.size != 1 else x.dtype.name]
    if x.record is not None:
        facts.append("requires_grad")
    if x.type.layout is not None:
        facts.append(f"{layout_text(x.type.layout)}: this rank has")
        parts = [*_tables(x._part())]
    else:
        parts = [*_traced(x)] or [*_tables(x)]
    return (
        f'<style>{STYLE}</style><div class="hybrid-tensor"><div><b>{type(x).__name__}</b> '
        f'{escape(str(x.type))} <span class="faint">{", ".join(facts)}</span></div>'
        f"{''.join(parts)}</div>"
    )


def _traced(x: Tensor) -> Iterator[str]:
    """That there are no values to show: of a placeholder, or where a function is captured."""
    if isinstance(x.content, Value) or (ACTIVE and current().traces):
        yield '<div class="faint">traced: it has values when the plan runs</div>'


def _tables(x: Tensor) -> Iterator[str]:
    values = _values(x)
    if not x.size:
        yield '<div class="faint">no elements</div>'
        return
    if x.ndim < 2:
        yield _table(values.reshape(1, x.size), x)
        return
    lead = x.shape[:-2]
    for index in itertools.islice(np.ndindex(*lead), MATRICES):
        if lead:
            yield f'<div class="faint">[{", ".join(map(str, index))}]</div>'
        yield _table(values[index], x)
    more = int(np.prod(lead, dtype=object)) - MATRICES
    if more > 0:
        size = f"{x.shape[-2]} x {x.shape[-1]}"
        yield f'<div class="faint">&hellip; and {more:,} more of {size}</div>'


def _values(x: Tensor) -> np.ndarray:
    """The values in place; those of bfloat16 as their bits."""
    if x.dtype.numpy is not None:
        return x.detach().numpy()
    return np.frombuffer(native.view(x.content, x.nbytes), np.uint16).reshape(x.shape)


def _table(matrix: np.ndarray, x: Tensor) -> str:
    """A matrix of ``x``, with the numbers of rows and columns as far as ``x`` has such."""
    rows, columns = (_shown(size) for size in matrix.shape)
    bits = x.dtype.numpy is None
    head = "".join([f"<th>{_number(at)}</th>" for at in columns])
    corner = "<th></th>" if x.ndim > 1 else ""
    head = f"<thead><tr>{corner}{head}</tr></thead>" if x.ndim else ""
    lines = []
    for row in rows:
        name = f"<th>{_number(row)}</th>" if x.ndim > 1 else ""
        cells = [
            "<td>&hellip;</td>"
            if row is None or column is None
            else f"<td>{_cell(matrix[row, column], bits)}</td>"
            for column in columns
        ]
        lines.append(f"<tr>{name}{''.join(cells)}</tr>")
    return f"<table>{head}<tbody>{''.join(lines)}</tbody></table>"


def _shown(size: int) -> list[int | None]:
    """The indices of an axis that are shown; None stands for those between."""
    if size <= 2 * EDGE + 1:
        return [*range(size)]
    return [*range(EDGE), None, *range(size - EDGE, size)]


def _number(index: int | None) -> str:
    return "&hellip;" if index is None else str(index)


def _cell(value: Any, bits: bool) -> str:
    if bits:
        value = np.uint32(int(value) << 16).view(np.float32)
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value)
