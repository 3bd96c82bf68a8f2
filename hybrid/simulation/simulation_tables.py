"""What ``hybrid launch --simulate`` shows: the check, steps, traffic, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.table import Table

from hybrid.eager.profile_tables import byte_count, duration
from hybrid.plan.traffic import COMPARING, WAIT
from hybrid.simulation.network import LEVELS, Level, Network
from hybrid.simulation.recorded_step import RankStep
from hybrid.simulation.simulated_job import WITHIN, ModelCheck, SimulatedJob


def table(title: str, headings: Sequence[str], numbers: int = 1) -> Table:
    """A table whose columns are numbers from the one with index ``numbers`` on."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for at, heading in enumerate(headings):
        made.add_column(heading, justify="right" if at >= numbers else "left")
    return made


def check_table(checks: Iterable[ModelCheck], cores: int) -> Table:
    """The model beside real jobs."""
    made = table(
        f"The model beside jobs on this machine ({cores} cores)",
        ("ranks", "model", "measured", "ratio", "tries", "transfers", "memory", "measured"),
        0,
    )
    for row in checks:
        made.add_row(
            str(row.ranks),
            duration(row.modelled),
            duration(row.measured),
            f"[{'green' if row.holds else 'red'}]{row.ratio:.2f}[/]",
            str(row.tries),
            "the same" if row.same_transfers else "[red]others[/]",
            byte_count(row.modelled_bytes),
            byte_count(row.measured_bytes),
        )
    return made


def job_tables(job: SimulatedJob, checks: Sequence[ModelCheck]) -> Group:
    """Steps of the ranks that were played, their traffic, and assumptions."""
    ranks = job.network.ranks
    steps = table(
        f"A step of {ranks:,} rank{'s' if ranks > 1 else ''}: {duration(job.seconds)}",
        ("rank", "step", "computing", "communicating", "waiting", "bytes", "peak memory"),
        0,
    )
    for step, played in zip(job.steps, job.played, strict=True):
        steps.add_row(
            f"{step.rank:,}",
            duration(played.seconds),
            duration(played.computing),
            duration(played.communicating),
            duration(played.waiting),
            byte_count(sum([transfer.nbytes for transfer in step.transfers])),
            byte_count(step.peak_bytes),
        )
    return Group(
        steps,
        "",
        *[part for step in job.steps for part in (traffic_table(step, job.network), "")],
        assumptions(job, checks),
    )


def traffic_table(step: RankStep, network: Network) -> Table:
    """What a rank transfers in a step, by collective: those of most time first."""
    made = table(
        f"Traffic of rank {step.rank:,} in a step",
        ("collective", "at", "ranks", "calls", "bytes", "time", "share"),
        2,
    )
    rows: dict[tuple[str, ...], tuple[int, int, float]] = {}
    for transfer in step.transfers:
        if transfer.kind == WAIT:
            continue
        by = "" if transfer.kind in (transfer.name, *COMPARING) else f" by {transfer.kind}"
        members = transfer.members
        if transfer.kind in ("send", "recv"):
            members = step.rank, members[transfer.peer]
        key = transfer.name + by, transfer.at, f"{len(members):,}"
        calls, nbytes, seconds = rows.get(key, (0, 0, 0.0))
        more = network.seconds(transfer.kind, transfer.given, members)
        rows[key] = calls + 1, nbytes + transfer.nbytes, seconds + more
    whole = sum([seconds for _, _, seconds in rows.values()]) or 1.0
    for key, (calls, nbytes, seconds) in sorted(rows.items(), key=lambda row: -row[1][2]):
        share = f"{seconds / whole:.0%}"
        made.add_row(*key, f"{calls:,}", byte_count(nbytes), duration(seconds), share)
    return made


def assumptions(job: SimulatedJob, checks: Sequence[ModelCheck]) -> Table:
    """All that the numbers rest on."""
    network, steps = job.network, job.steps
    hosts = -(-network.ranks // network.ranks_per_host)
    made = table("What this rests on", ("what", "how"), 2)
    made.add_row(
        "hosts",
        f"{hosts:,} with {network.cores_per_host} cores, {network.on_host} ranks on each; "
        f"{network.threads} thread{'s' if network.threads > 1 else ''} a rank",
    )
    made.add_row(
        "computing",
        f"measured here, the lower quartile of {min([step.steps for step in steps])} steps"
        + (f", times {network.slowdown:.2f} for shared cores" if network.slowdown > 1 else ""),
    )
    made.add_row(
        "time of a transfer",
        "alpha log2 n + bytes / beta, in a host and between hosts",
    )
    made.add_row(
        "overlap",
        "of what is under way beside steps of a plan: what goes between hosts",
    )
    used = {network.inside, *(["host"] if hosts > 1 else [])}
    for name in LEVELS:
        if name in used:
            made.add_row(f"  {name}", level_text(network.levels[name]))
    made.add_row("  all_gather", "each block crosses the link of a host once")
    made.add_row("  all_to_all", "all ranks of a host share its link")
    missing = network.ranks - len(steps)
    if missing:
        ranks = ", ".join([f"{step.rank:,}" for step in steps])
        verb = "was" if len(steps) == 1 else "were"
        made.add_row("ranks", f"{ranks} {verb} run; the other {missing:,} are never late")
    made.add_row("values", "made up: each other rank has what this one has, messages hold zeros")
    made.add_row("peak memory", "of tensors and plans, in the whole run; without Python")
    ratios = ", ".join([f"{row.ratio:.2f} of {row.ranks}" for row in checks])
    made.add_row(
        "the model",
        f"within {WITHIN:.0%} of jobs on this machine: {ratios} ranks"
        if checks
        else "[yellow]not checked against measurement[/]",
    )
    return made


def level_text(level: Level) -> str:
    """Alpha and beta of a level, and where they come from."""
    rates = sorted([rate for _, rate in level.rates])
    slow, fast = f"{rates[0] / 1e9:.3g}", f"{rates[-1] / 1e9:.3g}"
    beta = f"{fast} GB/s" if slow == fast else f"{slow} to {fast} GB/s by size"
    return f"alpha {duration(level.alpha)}, beta {beta}, {level.source}"
