"""Reader of program files: C checks the tables, then they are read as they are.

Nothing in a file is code: graphs are parsed, and verified, when a function is made of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.output_file import whole_file
from hybrid.core.types import DTYPES, TensorType, tensor_type
from hybrid.errors import ProgramError
from hybrid.memory import native
from hybrid.plan.formulas import described
from hybrid.programs.file_writer import HEADER, KINDS, ROWS, SECTION, sealed
from hybrid.programs.records import (
    NUMBERS,
    Bound,
    External,
    Origin,
    ProgramInput,
    ProgramOutput,
    Role,
    Symbol,
)

_DEEPEST = 100  # trees of arguments and results


class ProgramFile:
    """The content of a file, which C has checked."""

    def __init__(self, path: str | os.PathLike[str], *, whole: bool = False) -> None:
        self.path = os.fsdecode(path)
        if os.path.getsize(path) < HEADER.itemsize:
            raise ProgramError(f"{self.path} is no program: it has not even a header")
        self.content: np.ndarray = np.memmap(path, np.uint8, "c")  # what is written stays here
        native.check_program(self.content, self.path, whole=whole)
        header = np.frombuffer(self.content[: HEADER.itemsize], HEADER)[0]
        self.table = np.frombuffer(
            self.content[HEADER.itemsize :][: header["sections"] * SECTION.itemsize], SECTION
        )
        self.sections = {int(row["kind"]): row for row in self.table}
        self.rows = {
            name: np.frombuffer(self._section(name), row)
            for name, row in ROWS.items()
            if row is not None
        }
        self.strings = bytes(self._section("strings"))

    def _section(self, name: str) -> np.ndarray:
        row = self.sections.get(KINDS[name])
        if row is None:
            return self.content[:0]
        return self.content[int(row["offset"]) :][: int(row["nbytes"])]

    def text(self, row: Any) -> str:
        """A text of the file."""
        try:
            return self.strings[row["offset"] :][: row["nbytes"]].decode()
        except UnicodeDecodeError:
            raise ProgramError(f"{self.path}: a text in it is no UTF-8") from None

    def type(self, number: int, symbols: Sequence[Any] = ()) -> TensorType:
        """The type of this number; ``symbols`` are the sizes of its open axes."""
        row = self.rows["types"][number]
        dims = self.rows["dims"][row["first_dim"] :][: row["rank"]].tolist()
        return tensor_type(
            DTYPES[row["dtype"]], tuple([n if n >= 0 else symbols[-1 - n] for n in dims])
        )

    def symbols(self, row: Any) -> list[Symbol]:
        """The symbols of a function."""
        found = self.rows["symbols"][row["first_symbol"] :][: row["n_symbols"]]
        return [Symbol(self.text(s["name"]), int(s["low"]), int(s["high"])) for s in found]

    def inputs(self, row: Any, symbols: Sequence[Any] = ()) -> list[ProgramInput]:
        """The inputs of a function."""
        values = self.rows["values"][row["first_input"] :][: row["n_inputs"]]
        return [
            ProgramInput(
                self.text(v["name"]), self.type(v["type"], symbols), self._number(v["number"])
            )
            for v in values
        ]

    def cases(self, row: Any) -> np.ndarray:
        """The rows of the cases of a function."""
        return self.rows["cases"][row["first_case"] :][: row["n_cases"]]

    def outputs(self, row: Any, case: Any) -> list[ProgramOutput]:
        """The outputs of a case of a function; their types are those of its graph."""
        values = self.rows["values"][case["first_output"] :][: row["n_outputs"]]
        return [
            ProgramOutput(
                self.text(v["name"]), None, self._number(v["number"]), Origin(v["origin"]),
                int(v["index"]),
            )
            for v in values
        ]  # fmt: skip

    def conditions(self, case: Any) -> list[tuple[int, int, int]]:
        """The formulas that have to hold for a case."""
        return self.rows["formulas"][case["first_formula"] :][: case["n_formulas"]].tolist()

    def _number(self, number: int) -> Any:
        if not 0 <= number < len(NUMBERS):
            raise ProgramError(f"{self.path}: a value of it is number {number}")
        return NUMBERS[number]

    def externals(self, case: Any) -> tuple[list[External], list[External]]:
        """What the outputs, and what the inputs of the plan of a case are."""
        plan = self.rows["plans"][case["plan"]]
        bindings = self.rows["bindings"][case["first_binding"] :][: plan["n_externals"]]
        found = [External(Bound(b["kind"]), int(b["index"])) for b in bindings]
        inputs = [e for e in found[plan["n_outputs"] :] if e.kind is not Bound.KEPT]
        return found[: plan["n_outputs"]], inputs

    def tree(self, row: Any) -> Any:
        """The tree of arguments or results in a text."""
        try:
            found = json.loads(self.text(row))
        except (ValueError, RecursionError) as error:
            raise ProgramError(f"{self.path}: a tree in it is damaged: {error}") from None
        return found

    def cells(self) -> list[tuple[str, TensorType, Role, np.ndarray, list[str]]]:
        """The name, type, role, bytes and further names of each cell."""
        data, found = self._section("data"), []
        for row in self.rows["cells"]:
            aliases = self.rows["aliases"][row["first_alias"] :][: row["n_aliases"]]
            content = data[int(row["offset"]) :][: int(row["nbytes"])]
            names = [self.text(alias) for alias in aliases]
            role = Role(int(row["role"]) & 15)
            found.append((self.text(row["name"]), self.type(row["type"]), role, content, names))
        return found

    def step_kinds(self) -> set[int]:
        """The kinds of the steps of all plans."""
        rows, size = self._section("rows"), native.PlanArrays.ROWS["steps"]
        parts = [
            rows[start : start + nbytes] for start, nbytes in self.rows["plans"]["parts"][:, 0]
        ]
        return {int(kind) for part in parts for kind in part.view("<i4")[:: size // 4]}

    def about(self) -> dict[str, list[dict[str, Any]]]:
        """The cells, kernels, notes, plans and sections, as rows of tables."""
        plans = [self._about_plan(row, case) for row in self.rows["functions"]
                 for case in self.cases(row)]  # fmt: skip
        symbols = [
            {"function": self.text(row["name"]), "size": name, "from": low, "to": high}
            for row in self.rows["functions"]
            for name, low, high in self.symbols(row)
        ]
        cells = [
            {
                "name": name,
                "type": str(type_),
                "role": (role.name or "").lower(),
                "bytes": type_.nbytes,
                "also called": ", ".join(aliases),
            }
            for name, type_, role, _, aliases in self.cells()
        ]
        kernels = [
            {
                "name": self.text(row["name"]),
                "dtype": DTYPES[row["dtype"]].name,
                "here": "yes" if self._has(row) else "no",
            }
            for row in self.rows["kernels"]
        ]
        notes = [
            {"note": self.text(row["key"]), "value": self.text(row["value"])}
            for row in self.rows["notes"]
        ]
        sections = [
            {"name": name, "bytes": int(self.sections[number]["nbytes"])}
            for name, number in KINDS.items()
            if number in self.sections
        ]
        return {
            "sizes": symbols, "plans": plans, "cells": cells, "kernels": kernels, "notes": notes,
            "sections": sections,
        }  # fmt: skip

    def _has(self, row: Any) -> bool:
        """Whether there is a kernel that takes what this one takes."""
        number = native.find_kernel(self.text(row["name"]), row["dtype"])
        counts = tuple([int(row[n]) for n in ("n_in", "n_out", "n_attrs")])
        return number >= 0 and native.kernel_at(number)[2] == counts

    def _about_plan(self, row: Any, case: Any) -> dict[str, Any]:
        plan = self.rows["plans"][case["plan"]]
        names = [symbol.name for symbol in self.symbols(row)]
        found = {
            "function": self.text(row["name"]),
            "steps": int(plan["n_steps"]),
            "scratch": int(plan["arena_nbytes"]) if not names else "",
            "constants": int(plan["constants_nbytes"]),
            "ahead": "" if case["ahead"] < 0 else "computed at the first run",
        }  # fmt: skip
        return {**found, "sizes": described(self.conditions(case), names)}

    def save(self, path: str | os.PathLike[str], contents: list[bytes]) -> None:
        """Write the file with these ``contents`` of the cells."""
        made = self.content.copy()
        data = self.sections[KINDS["data"]]
        start, end = int(data["offset"]), int(data["offset"]) + int(data["nbytes"])
        for row, content in zip(self.rows["cells"], contents, strict=True):
            at = start + int(row["offset"])
            made[at : at + int(row["nbytes"])] = np.frombuffer(content, np.uint8)
        table = self.table.copy()
        table["hash"][table["kind"] == KINDS["data"]] = native.hash_of(made[start:end])
        head = np.frombuffer(self.content[: HEADER.itemsize], HEADER).copy()
        tables = sealed(head, table)
        made[: len(tables)] = np.frombuffer(tables, np.uint8)
        with whole_file(path) as file:
            file.write(made)
