"""Bindings of open plans: arrays that C fills with numbers, at the sizes of each run."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hybrid.errors import OutOfMemoryError
from hybrid.memory import native
from hybrid.memory.native import PlanArrays, ffi, lib

_PARTS = ("operands", "slots", "attrs", "controls")  # as hyb_open_part counts them
_WORD, _FORMULA = struct.Struct("=iiii"), struct.Struct("=iiq")
run_once = lib.hyb_open_run
RUN_ONCE = (lib.hyb_open_run0, lib.hyb_open_run1, lib.hyb_open_run2, lib.hyb_open_run3)


class OpenWord(NamedTuple):
    """Eight bytes of an array that hold a number: of a formula, a place of the arena, or given."""

    part: str
    word: int
    number: int
    whole: bool  # an integer, not the bits of a float


class OpenSpec(NamedTuple):
    """What C is told of a plan for many sizes (see hyb_open_spec)."""

    arrays: PlanArrays
    formulas: Sequence[tuple[int, int, int]]
    n_symbols: int
    n_given: int
    places: bytes  # rows of PLACE
    place_numbers: Sequence[int]
    words: Iterable[OpenWord]


def make_open(made: OpenSpec) -> Any:
    """The C open plan; raises what C found wrong."""
    spec, alive = ffi.new("hyb_open_spec *"), []

    def array(kind: str, data: Any) -> Any:
        alive.append(ffi.from_buffer(data))
        return ffi.cast(kind, alive[-1])

    native.fill_spec(ffi.addressof(spec, "spec"), made.arrays, alive)
    words = [_WORD.pack(_PARTS.index(w.part), w.word, w.number, w.whole) for w in made.words]
    spec.formulas = array("hyb_formula *", b"".join([_FORMULA.pack(*f) for f in made.formulas]))
    spec.places = array("hyb_place *", made.places)
    sizes = struct.pack(f"={len(made.place_numbers)}i", *made.place_numbers)
    spec.place_numbers = array("int32_t *", sizes)
    spec.words = array("hyb_open_word *", b"".join(words))
    spec.n_formulas, spec.n_words = len(made.formulas), len(words)
    spec.n_places, spec.n_symbols = len(made.place_numbers), made.n_symbols
    spec.n_given = made.n_given
    handle = lib.hyb_open_create(spec)
    if not handle:
        raise native.failure()
    return ffi.gc(handle, lib.hyb_open_free)


@functools.cache
def packer(n: int) -> Callable[..., bytes]:
    """A function of ``n`` integers that gives them as C takes the values of symbols."""
    return struct.Struct(f"={n}q").pack


def bind_open(
    handle: Any,
    symbols: bytes,
    given: Sequence[int],
    constants: bytes | None,
    hosts: Sequence[Callable[[Any], None]] = (),
) -> Any | None:
    """The C plan at ``symbols``; None if there is none, of which plain arrays say why.

    Raises OutOfMemoryError.
    """
    numbers = packer(len(given))(*given)
    plan = lib.hyb_open_bind(
        handle,
        symbols,
        ffi.cast("int64_t *", ffi.from_buffer(numbers)),
        ffi.NULL if constants is None else constants,
        len(constants or b""),
    )
    if plan:
        return native.hosted(plan, hosts)
    if isinstance(found := native.failure(), OutOfMemoryError):
        raise found
    return None


def arena_nbytes(plan: Any) -> int:
    """The bytes of the arena of ``plan``."""
    return lib.hyb_plan_arena_nbytes(plan)
