"""``hybrid plans``: the plans that are kept in files, and taking them away."""

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hybrid.calls.files import store
from hybrid.cli.tables import plain_table
from hybrid.cli.user_input import fail
from hybrid.config import plan_cache

app = typer.Typer()


@app.command("plans")
def command(
    folder: Annotated[
        Path | None, typer.Argument(help="where they are; default: HYBRID_PLAN_CACHE")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="take all of them away")] = False,
) -> None:
    """Show the plans that hybridized functions have kept in files, those used last first.

    Programs keep them where hybrid.cache_plans(folder), or HYBRID_PLAN_CACHE, says.
    """
    if folder is None:
        known = plan_cache()
        if known is None:
            fail("no folder: name one, or set HYBRID_PLAN_CACHE.")
        folder = Path(known[0])
    if not folder.is_dir():
        fail(f"{folder} is no folder.")
    found = store.entries(str(folder))
    total = sum(size for _, size, _ in found)
    if clear:
        gone = store.trim(str(folder), 0)
        if gone < len(found):
            fail(f"{len(found) - gone} of {len(found)} plans in {folder} stay.", code=1)
        typer.echo(f"{gone} plans taken away, {kilobytes(total)}.")
        return
    if found:
        Console(highlight=False).print(table(found))
    typer.echo(f"{len(found)} plans in {folder}, {kilobytes(total)}.")


def table(found: list[tuple[float, int, str]]) -> Table:
    """Each file with what it holds."""
    shown = plain_table()
    shown.add_column("function", style="bold")
    shown.add_column("nodes", justify="right", no_wrap=True)
    shown.add_column("inputs", justify="right", no_wrap=True)
    shown.add_column("size", justify="right", no_wrap=True)
    shown.add_column("last used", no_wrap=True)
    shown.add_column("file", no_wrap=True)
    for used, size, path in reversed(found):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
        name = os.path.basename(path)
        shown.add_row(*about(path), kilobytes(size), when, name[:12])
    return shown


def about(path: str) -> tuple[str, str, str]:
    """The name of the function, and how many nodes and inputs its graph has."""
    folder, name = os.path.split(path)
    try:
        entry: Any = store.load(folder, name.removesuffix(store.SUFFIX), use=False)
        rows = json.loads(entry["parts"][entry["rows"]])
        label, params, nodes, _ = rows["graphs"][entry["graph"]]
        return str(label), str(len(nodes)), str(len(params))
    except (store.Damaged, LookupError, TypeError, ValueError, RecursionError):
        return "damaged", "", ""


def kilobytes(count: int) -> str:
    return f"{count / 1024:.1f} KiB"
