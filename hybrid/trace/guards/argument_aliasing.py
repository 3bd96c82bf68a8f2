"""Aliasing: whether the tensors of a call are as distinct as those of the capture were.

One tensor that reaches a plan in two ways (as an argument and from outside, or by two attributes)
is two inputs of it, which makes no difference only while neither is written.  So a plan that writes
asks for tensors that differ, and one captured with a tensor that came in two ways asks for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybrid.eager.tensor import Tensor
from hybrid.ir.record import Leaf
from hybrid.trace.places.address import LeafOf

if TYPE_CHECKING:
    from hybrid.trace.capture.captured import Capture


def alias_terms(capture: Capture, names: dict[str, Any]) -> list[str]:
    """What must be true of the argument ``leaves`` of a call, as expressions over ``names``."""
    terms: list[str] = []

    def name(prefix: str, value: Any) -> str:
        made = f"{prefix}_alias{len(names)}"
        names[made] = value
        return made

    for index, place in capture.same:
        now = name("tensor", place) if isinstance(place, Tensor) else place.text(name)
        terms.append(f"leaves[{index}] is {now}")
    written = {source for source, _ in capture.writes}
    sources = capture.sources
    fixed = [i for i, s in enumerate(sources) if s.kind == "cell"]
    moving = {
        i: f"leaves[{s.index}]" if s.address is None else s.address.text(name)
        for i, s in enumerate(sources)
        if s.kind not in ("cell", "number")
        and not (
            s.address is not None and isinstance(s.address.owner, (Leaf, LeafOf))
        )  # a gradient is nobody else's
    }
    for i, now in moving.items():
        others = frozenset(id(sources[j].tensor) for j in fixed if i in written or j in written)
        if others:
            terms.append(f"id({now}) not in {name('others', others)}")
    if any(sources[i].kind == "slot" for i in moving) and written & moving.keys():
        ids = ", ".join(f"id({now})" for now in moving.values())
        terms.append(f"len({{{ids}}}) == {len(moving)}")
    return terms
