"""Reasons: why a call builds a plan rather than running one that there is.

The call is compared with every cached plan; the one that differs in the fewest things is told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import describe
from hybrid.eager.tensor import Tensor
from hybrid.explain.words import listed, shown
from hybrid.ir.record import Leaf
from hybrid.ops.support.operand_checks import plural
from hybrid.trace.capture.captured_graph import Capture
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.guard import Guard
from hybrid.trace.guards.matching import AnyObject
from hybrid.trace.places.address import ArgumentLeaf
from hybrid.trace.places.signature import describe_leaf

_STRUCTURE = "the arguments are"
_MOST = 3  # differences that are told of


class CandidatePlan(Protocol):
    """What is asked of a plan."""

    key: Any
    description: tuple[str, ...]
    numbers: frozenset[int]
    capture: Capture
    guards: Guards
    holds: Callable[[Sequence[Any]], bool]
    last_used: int


@dataclass(frozen=True, slots=True)
class Request:
    """A call: its key, its leaves, and what the author calls them."""

    key: Any  # (structure, leaf keys, recording, aliases)
    leaves: Sequence[Any]
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which a call and a plan differ."""

    what: str
    now: str = ""
    was: str = ""  # in the plan
    whole: str = ""  # the sentence, where that is another than of an argument's

    def text(self, there: str, was: Sequence[str]) -> str:
        return self.whole or f"{self.what} {self.now} where {there} {listed(was, 'or')}"


def why_new(request: Request, plans: Sequence[CandidatePlan], most: int | None) -> str:
    """Why none of ``plans`` serves ``request``.

    One did, and had to go for there were more than ``most``, unless that is None.
    """
    if most is not None:
        return f"its plan had been dropped: max_plans is {most}"
    rows = [(list(differences(request, planned)), planned) for planned in plans]
    nearest, _ = min(rows, key=lambda row: (_is_structure(row[0]), len(row[0]), -row[1].last_used))
    alike = [found for found, _ in rows if [d.what for d in found] == [d.what for d in nearest]]
    there = "the cached plans have" if len(alike) > 1 else "the nearest cached plan has"
    there = "the cached plan has" if len(plans) == 1 else there
    counts: dict[str, int] = {}
    for index, difference in enumerate(nearest):
        text = difference.text(there, [found[index].was for found in alike])
        counts[text] = counts.get(text, 0) + 1
    texts = [text + (f" ({n} times)" if n > 1 else "") for text, n in counts.items()]
    if len(texts) > _MOST:
        texts[_MOST:] = [f"{plural(len(texts) - _MOST, 'more difference')}"]
    return "; ".join(texts)


def _is_structure(found: Sequence[Difference]) -> bool:
    return bool(found) and found[0].what == _STRUCTURE


def differences(request: Request, planned: CandidatePlan) -> Iterator[Difference]:
    """In what the call differs from that which ``planned`` was made for."""
    structure, _, recording, aliased, rows = request.key
    if structure != planned.key[0]:
        yield Difference(_STRUCTURE, describe(structure), describe(planned.key[0]))
        return
    found = [*_leaves(request, planned)]
    if recording != planned.key[2]:
        how = "are" if recording else "are not"
        whole = f"gradients {how} recorded, and {'were not' if recording else 'were'} before"
        found.append(Difference("recording", whole=whole))
    if rows != planned.key[4]:
        whole = f"vmap has {rows} rows for each value, and had {planned.key[4]} before"
        found.append(Difference("rows", whole=whole))
    if not found and aliased != planned.key[3]:
        now, was = _aliases(aliased, request), _aliases(planned.key[3], request)
        found.append(Difference("aliases", whole=f"{now} one tensor; in the cached plan {was}"))
    yield from found or _outside(planned, request.leaves)


def _leaves(request: Request, planned: CandidatePlan) -> Iterator[Difference]:
    for index, (now, was) in enumerate(zip(request.key[1], planned.key[1], strict=True)):
        if now == was or (index in planned.numbers and now[0] is was[0]):
            continue
        leaf, name = request.leaves[index], f"argument {request.names[index]}"
        text, before = describe_leaf(leaf), planned.description[index]
        if text != before:
            yield Difference(f"{name} is", text, before)
        elif isinstance(leaf, Tensor):
            yield Difference(name, whole=_flow(name, leaf.record is not None))
        else:
            yield Difference(name, whole=f"{name} is another {text} object than before")


def _flow(name: str, flows: bool) -> str:
    if flows:
        return f"gradients flow to {name}, and did not before"
    return f"gradients do not flow to {name}, and did before"


def _aliases(aliases: tuple[int, ...] | None, request: Request) -> str:
    """``x and y are``."""
    groups: dict[int, list[str]] = {}
    for index, first in enumerate(aliases or ()):
        if isinstance(request.leaves[index], Tensor):
            groups.setdefault(first, []).append(request.names[index])
    found = [f"{listed(group)} are" for group in groups.values() if len(group) > 1]
    return ", ".join(found) or "no two arguments are"


# What the capture read from outside ---------------------------------------------------------------


def _outside(planned: CandidatePlan, leaves: Sequence[Any]) -> Iterator[Difference]:
    found = [
        _broken(guard, planned.capture)
        for guard in sorted(planned.guards.each(), key=lambda guard: guard.name)
        if not guard.holds()
    ]
    for guard in planned.guards.identities:
        if not guard.holds(leaves):
            found.append(Difference(guard.label, whole=f"{guard.label} has changed"))
    for address, original in planned.capture.place_reads:
        now, owner = address.read(leaves), address.owner
        if getattr(now, "type", None) is not getattr(original, "type", None):
            gradient = isinstance(owner, (Leaf, ArgumentLeaf))
            label = "the gradient of a tensor" if gradient else f"{shown(owner)}.{address.name}"
            found.append(_changed(label, shown(original), shown(now)))
    for source, flowed in zip(planned.capture.sources, planned.capture.requires, strict=True):
        if source.kind == "cell" and (source.tensor.record is not None) != flowed:
            whole = _flow(f"a tensor ({source.tensor.type}) from outside", not flowed)
            found.append(Difference("requires", whole=whole))
    for told in planned.capture.flow_facts:
        if not told.holds():
            needs = told.tensor.record is not None
            whole = f"a gradient of a tensor ({told.tensor.type}) from outside"
            if told.address is None and needs != told.needs:
                whole = _flow(f"a tensor ({told.tensor.type}) from outside", needs)
            found.append(Difference("requires", whole=whole))
    for fact in planned.capture.facts:
        if not fact.holds():
            found.append(Difference(fact.what, whole=f"{fact.what} has changed"))
    whole = "tensors that were distinct are one tensor now, or the other way round"
    yield from found or [Difference("aliases", whole=whole)]


def _changed(what: str, was: str, now: str) -> Difference:
    return Difference(what, whole=f"{what} was {was} and is {now}")


def _broken(guard: Guard, capture: Capture) -> Difference:
    if guard.name.endswith(".*"):
        whole = f"{guard.name[:-2]} has got an attribute that was looked for on its class"
        return Difference(guard.name, whole=whole)
    now = guard.read()
    if guard.expected is Guards:  # a place for a tensor: any of its type
        attribute = guard.name.rpartition(".")[2]
        types = [
            str(param.type)
            for source, param in zip(capture.sources, capture.graph.params, strict=True)
            if source.address is not None and source.address.name == attribute
        ]
        return _changed(guard.name, types[0] if types else "another tensor", shown(now))
    if isinstance(guard.expected, AnyObject):
        kind = guard.expected.kind
        if type(now) is not kind:
            return _changed(guard.name, f"a {kind.__name__}", shown(now))
        return Difference(guard.name, whole=f"{guard.name} holds something else than before")
    was, text = shown(guard.expected), shown(now)
    if was == text:
        return Difference(guard.name, whole=f"{guard.name} is another object ({text}) than before")
    return _changed(guard.name, was, text)


def numbers_text(free: Sequence[str], refused: str) -> str:
    """What a reason goes on to say of numbers: that they are inputs, or why they cannot be."""
    if not free:
        return f"; it cannot become an input: {refused}" if refused else ""
    are = "is an input" if len(free) == 1 else "are inputs"
    if len(free) > _MOST + 1:
        free = [*free[:_MOST], f"{len(free) - _MOST} more"]
    rest = f"; another number cannot be: {refused}" if refused else ""
    return f"; {listed(free)} {are} of this plan: any value will do{rest}"
