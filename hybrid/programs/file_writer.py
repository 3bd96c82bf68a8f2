"""Writer of program files: records to the sections that ``docs/file_format.md`` describes."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.output_file import whole_file
from hybrid.errors import Location, ProgramError
from hybrid.memory import native
from hybrid.memory.native import PlanArrays
from hybrid.plan.arrays import packed
from hybrid.plan.formulas import Formula
from hybrid.programs.records import (
    NUMBERS,
    CaseRecord,
    External,
    FileType,
    FunctionRecord,
    PlanRecord,
    ProgramInput,
    ProgramOutput,
    ProgramRecord,
)

MAGIC = b"\x89HYB\r\n\x1a\n"
MAJOR, MINOR = 1, 0
ALIGNMENT = 64

_TEXT = np.dtype([("offset", "<u4"), ("nbytes", "<u4")])
HEADER = np.dtype(
    [("magic", "S8"), ("major", "<u4"), ("minor", "<u4"), ("nbytes", "<u8"), ("sections", "<u4"),
     ("flags", "<u4"), ("hash", "<u8"), ("unused", "<u8", 3)]
)  # fmt: skip
SECTION = np.dtype(
    [("kind", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("nbytes", "<u8"), ("hash", "<u8")]
)
# The sections in the order of their numbers, from 1 on, with their rows; see program.h.
ROWS: dict[str, Any] = {
    "strings": None,
    "kernels": np.dtype(
        [("name", _TEXT), *[(n, "<i4") for n in ("dtype", "n_in", "n_out", "n_attrs")]]
    ),
    "types": np.dtype([("dtype", "<i4"), ("rank", "<i4"), ("first_dim", "<i8")]),
    "dims": np.dtype("<i8"),
    "functions": np.dtype(
        [*[(n, _TEXT) for n in ("name", "given", "result")],
         *[(n, "<i4") for n in ("first_input", "n_inputs", "n_outputs", "first_symbol",
                                "n_symbols", "first_case", "n_cases", "unused")]]
    ),
    "values": np.dtype(
        [("name", _TEXT), *[(n, "<i4") for n in ("type", "number", "origin", "index")]]
    ),
    "bindings": np.dtype([("kind", "<i4"), ("index", "<i4")]),
    "plans": np.dtype(
        [*[(n, "<i8") for n in ("arena_nbytes", "constants", "constants_nbytes")],
         *[(n, "<i4") for n in ("n_externals", "n_outputs", "first_external", "rank", "first_line",
                                "n_steps", "first_formula", "n_formulas", "first_word",
                                "n_words", "first_place", "n_places", "first_fill", "n_fills")],
         ("parts", "<i8", (8, 2))]
    ),
    "externals": np.dtype([(n, "<i4") for n in ("type", "donated", "exposed", "unused")]),
    "rows": None,
    "places": np.dtype([("path", _TEXT), ("text", _TEXT), ("line", "<i4"), ("unused", "<i4")]),
    "lines": np.dtype("<i4"),
    "cells": np.dtype(
        [("name", _TEXT), ("type", "<i4"), ("role", "<i4"), ("offset", "<i8"), ("nbytes", "<i8"),
         ("first_alias", "<i4"), ("n_aliases", "<i4")]
    ),
    "aliases": _TEXT,
    "notes": np.dtype([("key", _TEXT), ("value", _TEXT)]),
    "symbols": np.dtype([("name", _TEXT), ("low", "<i8"), ("high", "<i8")]),
    "cases": np.dtype(
        [("graph", _TEXT), *[(n, "<i4") for n in ("plan", "ahead", "first_output",
                                                  "first_binding", "first_formula",
                                                  "n_formulas")]]
    ),
    "ahead": np.dtype([("plan", "<i4"), ("first_binding", "<i4")]),
    "formulas": np.dtype([("op", "<i4"), ("a", "<i4"), ("b", "<i8")]),
    "words": np.dtype([(n, "<i4") for n in ("part", "word", "kind", "number")]),
    "arenas": np.dtype(
        [("nbytes", "<i8"), *[(n, "<i4") for n in ("first", "last", "member", "enters", "leaves",
                                                   "number")]]
    ),
    "fills": np.dtype([("kind", "<i4"), ("dtype", "<i4"), ("given", "<i4", 4)]),
    "constants": None,
    "data": None,
}  # fmt: skip
KINDS = {name: number for number, name in enumerate(ROWS, 1)}
NEEDED = 1  # a reader that does not know such a section must refuse the file
_OPTIONAL = ("places", "lines", "notes", "aliases")

_STEP = np.dtype("<i4"), 10  # the fields of a hyb_step, and of a hyb_map_op
_OP = np.dtype("<i4"), 17


def written(program: ProgramRecord) -> bytes:
    """The file of ``program``."""
    return SectionWriter().file(program)


def save(program: ProgramRecord, path: str | os.PathLike[str]) -> None:
    """Write the file of ``program``: all of it, or nothing."""
    content = written(program)
    with whole_file(path) as file:
        file.write(content)


def sealed(head: np.ndarray, table: np.ndarray) -> bytes:
    """The header and the section table of a file, with the hash of both."""
    head["hash"] = 0
    head["hash"] = native.hash_of(head.tobytes() + table.tobytes())
    return head.tobytes() + table.tobytes()


class SectionWriter:
    """The sections of a file while they are collected."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {
            name: [] for name, row in ROWS.items() if row is not None
        }
        self.blobs = {name: bytearray() for name, row in ROWS.items() if row is None}
        self.texts: dict[str, tuple[int, int]] = {}
        self.known: dict[Any, int] = {}  # rows that stand once: kernels, types, places
        self.constants: dict[bytes, int] = {}  # their offsets
        self.parts: dict[bytes, int] = {}  # of the arrays of plans

    def file(self, program: ProgramRecord) -> bytes:
        """The bytes of the whole file."""
        for cell in program.cells:
            self._cell(cell)
        for function in program.functions:
            self._function(function)
        self.rows["notes"] = [(self._text(key), self._text(value)) for key, value in program.notes]
        return self._assembled()

    def _assembled(self) -> bytes:
        contents = {}
        for name, row in ROWS.items():
            found = self.blobs[name] if row is None else np.array(self.rows[name], row).tobytes()
            contents[name] = bytes(found)
        table = np.zeros(len(contents), SECTION)
        at = HEADER.itemsize + table.nbytes
        for row, (name, content) in enumerate(contents.items()):
            at += -at % ALIGNMENT
            needed = 0 if name in _OPTIONAL else NEEDED
            table[row] = KINDS[name], needed, at, len(content), native.hash_of(content)
            at += len(content)
        head = np.zeros((), HEADER)
        head["magic"], head["major"], head["minor"] = MAGIC, MAJOR, MINOR
        head["nbytes"], head["sections"] = at, len(table)
        file = bytearray(sealed(head, table))
        for content in contents.values():
            file += bytes(-len(file) % ALIGNMENT)
            file += content
        return bytes(file)

    # Parts ------------------------------------------------------------------------------------

    def _text(self, text: str) -> tuple[int, int]:
        found = self.texts.get(text)
        if found is None:
            blob, content = self.blobs["strings"], text.encode()
            found = self.texts[text] = len(blob), len(content)
            blob += content + b"\0"
        return found

    def _name(self, name: str) -> tuple[int, int]:
        if any([unicodedata.category(c) in ("Cc", "Cs") for c in name]):
            raise ProgramError(
                f"the name {name!r} has characters that do not print",
                fix="call it something else",
            )
        return self._text(name)

    def _row(self, name: str, row: tuple[Any, ...]) -> int:
        """The number of a row that stands once."""
        number = self.known.get((name, row))
        if number is None:
            number = self.known[name, row] = len(self.rows[name])
            self.rows[name].append(row)
        return number

    def _span(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """The number of the first of ``rows``, all of which stand there once, in this order."""
        key = name, tuple(rows)
        first = self.known.get(key)
        if first is None:
            first = self.known[key] = len(self.rows[name])
            self.rows[name] += rows
        return first

    def _type(self, type_: FileType) -> int:
        number = self.known.get(type_)
        if number is None:
            first = len(self.rows["dims"])
            self.rows["dims"] += type_.shape
            number = self.known[type_] = len(self.rows["types"])
            self.rows["types"].append((type_.dtype.code, len(type_.shape), first))
        return number

    def _cell(self, cell: Any) -> None:
        data = self.blobs["data"]
        data += bytes(-len(data) % ALIGNMENT)
        first = len(self.rows["aliases"])
        self.rows["aliases"] += [self._name(name) for name in cell.aliases]
        self.rows["cells"].append(
            (self._name(cell.name), self._type(cell.type), int(cell.role), len(data),
             cell.type.nbytes, first, len(cell.aliases))
        )  # fmt: skip
        data += cell.content

    def _function(self, function: FunctionRecord) -> None:
        first_input = self._span("values", [self._value(v, -1, -1) for v in function.inputs])
        symbols = [(self._name(s.name), s.low, s.high) for s in function.symbols]
        cases = [self._case(case) for case in function.cases]
        first_case = len(self.rows["cases"])
        self.rows["cases"] += cases
        texts = (function.given, function.result)
        self.rows["functions"].append(
            (self._name(function.name), *map(self._text, texts), first_input, len(function.inputs),
             len(function.cases[0].outputs), self._span("symbols", symbols), len(symbols),
             first_case, len(cases), 0)
        )  # fmt: skip

    def _value(
        self, value: ProgramInput | ProgramOutput, origin: int, index: int
    ) -> tuple[Any, ...]:
        number = NUMBERS.index(value.number)
        return self._name(value.name), self._type(value.type), number, origin, index

    def _case(self, case: CaseRecord) -> tuple[Any, ...]:
        outputs = [self._value(v, int(v.origin), v.index) for v in case.outputs]
        ahead = -1
        if case.ahead is not None:
            first_ahead = self._bindings(case.ahead.bindings)
            ahead = self._row("ahead", (self._plan(case.ahead.plan), first_ahead))
        return (
            self._text(case.graph), self._plan(case.plan), ahead, self._span("values", outputs),
            self._bindings(case.bindings), self._formulas(case.conditions), len(case.conditions),
        )  # fmt: skip

    def _formulas(self, formulas: Sequence[Formula]) -> int:
        return self._span("formulas", [tuple(row) for row in formulas])

    def _bindings(self, bindings: Sequence[External]) -> int:
        return self._span("bindings", [(int(kind), index) for kind, index in bindings])

    def _plan(self, plan: PlanRecord) -> int:
        """The number of a plan: one that is the same but for its conditions stands there once."""
        (rank,), *parts, constants = packed(self._named(plan.arrays))
        types = (*plan.outputs, *plan.inputs)
        externals = [
            (self._type(t), plan.donations.get(e, -1), int(e in plan.exposed), 0)
            for e, t in enumerate(types)
        ]
        lines = [self._place(place) for place in plan.places]
        words = [tuple(word) for word in plan.words]
        arena = [(nbytes, *times, number) for number, nbytes, times in plan.arena]
        fills = [(fill.kind, fill.dtype.code, fill.given) for fill in plan.fills]
        return self._row(
            "plans",
            (plan.arrays.arena_nbytes, self._constants(constants), len(constants), len(types),
             len(plan.outputs), self._span("externals", externals), rank,
             self._span("lines", lines), len(lines), self._formulas(plan.formulas),
             len(plan.formulas), self._span("words", words), len(words),
             self._span("arenas", arena), len(arena), self._span("fills", fills), len(fills),
             tuple([(self._part(part), len(part)) for part in parts])),
        )  # fmt: skip

    def _part(self, part: bytes) -> int:
        found = self.parts.get(part)
        if found is None:
            rows = self.blobs["rows"]
            rows += bytes(-len(rows) % 8)
            found = self.parts[part] = len(rows)
            rows += part
        return found

    def _constants(self, constants: bytes) -> int:
        found = self.constants.get(constants)
        if found is None:
            blob = self.blobs["constants"]
            blob += bytes(-len(blob) % ALIGNMENT)
            found = self.constants[constants] = len(blob)
            blob += constants
        return found

    def _place(self, place: Location | None) -> int:
        if place is None:
            return -1
        path, text = self._text(os.path.basename(place.path)), self._text(place.text)
        return self._row("places", (path, text, place.line, 0))

    def _named(self, arrays: PlanArrays) -> PlanArrays:
        """``arrays`` with kernels by their places in the table of the file."""
        found = PlanArrays()
        found.constants, found.arena_nbytes = arrays.constants, arrays.arena_nbytes
        found.n_externals, found.rows = arrays.n_externals, dict(arrays.rows)
        steps = np.frombuffer(bytearray(arrays.rows["steps"]), _STEP[0]).reshape(-1, _STEP[1])
        for step in steps:
            if step[0] == native.KERNEL_STEP:
                step[1] = self._kernel(int(step[1]))
        ops = np.frombuffer(bytearray(arrays.rows["ops"]), _OP[0]).reshape(-1, _OP[1])
        for op in ops:
            op[0] = self._kernel(int(op[0]))
        found.rows["steps"], found.rows["ops"] = steps.tobytes(), ops.tobytes()
        return found

    def _kernel(self, number: int) -> int:
        name, dtype, counts = native.kernel_at(number)
        return self._row("kernels", (self._text(name), dtype, *counts))
