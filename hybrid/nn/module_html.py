"""Modules as notebooks show them: a tree that opens and closes, with parameters counted."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybrid.nn.modules.module import Module

OPEN = 2  # levels that are open at first
STYLE = """
.hybrid-module { color-scheme: light dark;
  font: 12px/1.6 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.hybrid-module .in { margin-left: 1.6em; }
.hybrid-module summary { cursor: pointer; }
.hybrid-module .faint { opacity: .55; }
.hybrid-module .count { float: right; opacity: .7; padding-left: 2em; }
"""


def module_html(module: Module) -> str:
    """What ``Module._repr_html_`` returns."""
    lines = "\n".join(_lines("", module, 0, set()))
    return f'<style>{STYLE}</style>\n<div class="hybrid-module">\n{lines}\n</div>'


def _lines(name: str, module: Module, depth: int, seen: set[int]) -> Iterator[str]:
    """``module`` with what it holds; one that was ``seen`` above is named alone."""
    head = f"<b>{escape(type(module).__name__)}</b>"
    if name:
        head = f"({escape(name)}): {head}"
    extra = " ".join(module.extra_repr().splitlines())
    if extra:
        head += f' <span class="faint">{escape(extra)}</span>'
    if id(module) in seen:
        yield f'<div>{head} <span class="faint">shared, see above</span></div>'
        return
    seen.add(id(module))
    count = sum([p.size for p in module.parameters()])
    if count:
        frozen = count - sum([p.size for p in module.parameters() if p.requires_grad])
        note = f", {'all' if frozen == count else f'{frozen:,}'} frozen" if frozen else ""
        plural = "" if count == 1 else "s"
        head += f'<span class="count">{count:,} parameter{plural}{note}</span>'
    held = [*_tensors(module)]
    if not held and not module._modules:
        yield f"<div>{head}</div>"
        return
    is_open = " open" if depth < OPEN and module._modules else ""
    yield f'<details{is_open}><summary>{head}</summary><div class="in">'
    yield from held
    for label, child in module._modules:
        yield from _lines(label, child, depth + 1, seen)
    yield "</div></details>"


def _tensors(module: Module) -> Iterator[str]:
    """The parameters and buffers of ``module`` itself."""
    parameters = {name for name, _ in module._own("parameters")}
    for name, tensor in module._own("all"):
        note = "" if name in parameters else " buffer"
        kind = escape(f"{tensor.type}{note}")
        yield f'<div>{escape(name)} <span class="faint">{kind}</span></div>'
