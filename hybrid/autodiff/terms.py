"""Terms of a cotangent: additions with their turn, and flags that say where they count."""

from __future__ import annotations

from hybrid import ops
from hybrid.autodiff.presence import Ct, disjoined, marked
from hybrid.core.dataclass import dataclass
from hybrid.eager.batched_value import is_known
from hybrid.eager.tensor import Tensor


@dataclass(slots=True)
class Term:
    """One addition to a cotangent; ``flag``: where it counts."""

    turn: float
    ct: Ct
    flag: Tensor | None = None
    many: bool = False  # whether it is a sum itself
    own: bool = False  # whether it counts only where the value is no other one

    def tensor(self) -> Ct | None:
        if self.flag is None or not is_known(self.flag):
            return marked(self.ct, self.flag)
        return self.ct if self.flag.item() else None


def conjoined(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The flag that both hold; None holds everywhere."""
    return b if a is None else a if b is None else ops.logical_and(a, b)


def join(terms: list[Term], new: Term) -> None:
    """Add a term to a list; one that comes by two ways gets the flag of either."""
    for term in terms:
        if term.turn == new.turn and term.flag is not None:
            term.flag = disjoined(term.flag, new.flag)
            return
    terms.append(new)
