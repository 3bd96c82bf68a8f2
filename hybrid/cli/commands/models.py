"""``hybrid models``: the example models, what each learns, and what it reaches."""

import typer
from rich.console import Console

from hybrid.cli.tables import plain_table
from hybrid.models.examples import EXAMPLES, Example

app = typer.Typer()


@app.command()
def models() -> None:
    """List the example models, which `hybrid train` trains."""
    table = plain_table()
    table.add_column("model", style="bold", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("data", overflow="fold")
    table.add_column("reaches", overflow="fold")
    table.add_column("epochs", justify="right", no_wrap=True)
    for example in EXAMPLES.values():
        table.add_row(
            example.name,
            example.description,
            f"{parameters(example):,}",
            example.task.data,
            goal(example),
            str(example.epochs),
        )
    Console(highlight=False).print(table)


def parameters(example: Example) -> int:
    """How many numbers are learnt."""
    return sum(parameter.size for parameter in example.make().parameters())


def goal(example: Example) -> str:
    """``accuracy > 97.0%``."""
    task, sign = example.task, ">" if example.task.more_is_better else "<"
    return f"{task.metric} {sign} {task.form.format(example.reaches)}"
