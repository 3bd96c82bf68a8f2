"""Tables in ``.csv`` files: columns with types, and errors that name the line and the column."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.core.types import DEFAULT_FLOAT, DEFAULT_INT, DType, bool_, dtype_of
from hybrid.data.datasets.dataset import TensorDataset
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, DataFileError
from hybrid.ops import astype, stack

Path = str | os.PathLike[str]
Column = Tensor | list[str]
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}


def read_csv(
    path: Path,
    *,
    header: bool = True,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    missing: Sequence[str] = MISSING,
    fill: Mapping[str, Any] | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> dict[str, Column]:
    """The columns of a ``.csv`` file by name: tensors ``[rows]``, or lists of strings.

    ``header``: the first row names the columns; else they are "0", "1" and so on.  ``columns`` are
    those to read, by default all.  ``dtypes`` gives the types of some of them, a dtype or ``str``;
    any other is ``int64`` if all its fields are whole numbers, ``float32`` if they are numbers,
    ``bool`` if they are true and false, and else text.  Fields that are one of ``missing`` take
    what ``fill`` has for the column; without that they are NaN in floats (to which ints turn) and
    "" in text.  Fields are quoted as in RFC 4180.  DataFileError names the file, the line and the
    column of what is wrong.
    """
    table = _Table(os.fspath(path), delimiter, encoding)
    names, rows = table.read(header)
    dtypes, fill = dict(dtypes or {}), dict(fill or {})
    for what, asked in (("columns", columns or ()), ("dtypes", dtypes), ("fill", fill)):
        for name in asked:
            if name not in names:
                raise ArgumentError(
                    f"{what} names {name!r}, which {table.path} does not have",
                    why=f"Its columns are {', '.join(map(repr, names))}.",
                )
    found = {}
    for name in names if columns is None else columns:
        at = names.index(name)
        fields = [row[at].strip() for row in rows]
        lines = table.lines
        reader = _ColumnReader(table.path, name, at, fields, lines, frozenset(missing))
        found[name] = reader.column(dtypes.get(name), fill.get(name))
    return found


class _Table:
    """The rows of a file, and the lines that they end on."""

    def __init__(self, path: str, delimiter: str, encoding: str) -> None:
        if not isinstance(delimiter, str) or len(delimiter) != 1:
            raise ArgumentError(f"delimiter is {delimiter!r}", fix="give one character")
        self.path, self.delimiter, self.encoding = path, delimiter, encoding
        self.lines: list[int] = []

    def read(self, header: bool) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and the rows of fields."""
        rows = []
        for line, row in self._records():
            if rows and len(row) != len(rows[0]):
                raise DataFileError(
                    f"{self.path}:{line}: {len(row)} fields in this row, {len(rows[0])} in the "
                    f"first",
                    fix="quote fields that hold the delimiter, or choose another delimiter",
                )
            rows.append(row)
            self.lines.append(line)
        if not rows:
            raise DataFileError(f"{self.path} is empty", fix="give a file with a row at least")
        if not header:
            return [str(number) for number in range(len(rows[0]))], rows
        names = [name.strip() for name in rows[0]]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise DataFileError(
                    f"{self.path}:{self.lines[0]}: two columns are called {name!r}",
                    fix="rename one, or pass header=False if the first row holds data",
                )
        del self.lines[0]
        return names, rows[1:]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        text = self._text().removeprefix("\ufeff")  # which some programs write before it
        records = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter, strict=True)
        while True:
            try:
                row = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                raise DataFileError(
                    f"{self.path}:{records.line_num}: {error}",
                    fix="repair the row, or give the delimiter of the file",
                ) from error
            if row:
                yield records.line_num, row

    def _text(self) -> str:
        with open(self.path, "rb") as file:
            content = file.read()
        try:
            return content.decode(self.encoding)
        except UnicodeDecodeError as error:
            before = content[: error.start].decode(self.encoding, "ignore")
            raise DataFileError(
                f"{self.path}:{before.count(chr(10)) + 1}: {error.reason} in {self.encoding}",
                fix="give the encoding of the file",
            ) from error


class _ColumnReader:
    """One column: its fields, and where they come from."""

    def __init__(
        self,
        path: str,
        name: str,
        number: int,
        fields: list[str],
        lines: list[int],
        missing: frozenset[str],
    ) -> None:
        self.path, self.name, self.number = path, name, number
        self.fields, self.lines, self.missing = fields, lines, missing

    def column(self, dtype: Any, fill: Any) -> Column:
        """The values as ``dtype``, or as what they look like."""
        if dtype is not str and dtype is not None:
            return self._numbers(dtype_of(dtype), fill)
        kind = str if dtype is str else self._kind(fill)
        if kind is str:
            return [
                ("" if fill is None else str(fill)) if field in self.missing else field
                for field in self.fields
            ]
        return self._numbers(kind, fill)

    def _kind(self, fill: Any) -> Any:
        """The narrowest of int64, float32, bool and text that all fields are."""
        present = [field for field in self.fields if field not in self.missing]
        gaps = len(present) < len(self.fields) and fill is None
        if all(map(_is_int, present)):
            return DEFAULT_FLOAT if gaps or isinstance(fill, float) else DEFAULT_INT
        if all(map(_is_float, present)):
            return DEFAULT_FLOAT
        truths = all(field.lower() in ("true", "false") for field in present)
        return bool_ if truths and not gaps else str

    def _numbers(self, dtype: DType, fill: Any) -> Tensor:
        parse: Callable[[str], Any] = float
        if dtype is bool_:
            parse = _truth
        elif dtype.is_integer:
            parse = int
        bounds = np.iinfo(dtype.numpy) if dtype.is_integer else None
        values = []
        for field, line in zip(self.fields, self.lines, strict=True):
            if field in self.missing:
                values.append(self._filled(dtype, fill, line))
                continue
            try:
                value = parse(field)
                if bounds is not None and not bounds.min <= value <= bounds.max:
                    raise OverflowError
                values.append(value)
            except (ValueError, OverflowError) as error:
                fits = isinstance(error, ValueError)
                raise DataFileError(
                    f"{self._at(line)}: {field!r} {'is no' if fits else 'does not fit'} "
                    f"{dtype.name}",
                    fix=f"repair the field, or pass dtypes={{{self.name!r}: str}}, or name it in "
                    "missing",
                ) from None
        if dtype.numpy is None:
            return astype(asarray(np.array(values, np.float32)), dtype)
        return asarray(np.array(values, dtype.numpy))

    def _filled(self, dtype: DType, fill: Any, line: int) -> Any:
        if fill is not None:
            if not isinstance(fill, (int, float) if dtype.is_floating else int):
                raise ArgumentError(
                    f"fill has {fill!r} for column {self.name!r}, which is {dtype.name}",
                    fix="give a number of that dtype",
                )
            return fill
        if dtype.is_floating:
            return math.nan
        raise DataFileError(
            f"{self._at(line)}: the field is missing, and {dtype.name} has no NaN",
            fix=f"pass fill={{{self.name!r}: ...}}, or a float dtype",
        )

    def _at(self, line: int) -> str:
        return f"{self.path}:{line}: column {self.name!r} (number {self.number + 1})"


def _is_int(field: str) -> bool:
    try:
        return -(2**63) <= int(field) < 2**63 and "_" not in field
    except ValueError:
        return False


def _is_float(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def _truth(field: str) -> bool:
    if field.lower() not in _TRUTHS:
        raise ValueError(field)
    return _TRUTHS[field.lower()]


class CsvDataset(TensorDataset):
    """Samples are the rows of a ``.csv`` file: the features as one tensor, and the target.

    ``features`` names the columns of numbers, by default all of them but the target; they become
    one ``float32`` tensor ``[rows, features]``.  ``target`` names a column of numbers, or of text:
    its sorted values are ``classes``, and the samples have their numbers.  Without a target samples
    are tuples of the features alone.  The other arguments are those of ``read_csv``.
    """

    def __init__(
        self,
        path: Path,
        features: Sequence[str] | None = None,
        target: str | None = None,
        **options: Any,
    ) -> None:
        table = read_csv(path, **options)
        for name in [*(features or ()), *([] if target is None else [target])]:
            if name not in table:
                raise ArgumentError(
                    f"there is no column {name!r} in {os.fspath(path)}",
                    why=f"Its columns are {', '.join(map(repr, table))}.",
                )
        names = [name for name in table if name != target] if features is None else list(features)
        for name in names:
            if isinstance(table[name], list):
                raise ArgumentError(
                    f"column {name!r} of {os.fspath(path)} is text",
                    why="Features are numbers.",
                    fix="name the columns to use in features, or give its dtype in dtypes",
                )
        if not names:
            raise ArgumentError("no columns are left for features", fix="name some in features")
        self.features, self.classes = names, None
        x = stack([astype(table[name], DEFAULT_FLOAT) for name in names], axis=1)
        if target is None:
            super().__init__(x)
            return
        y = table[target]
        if isinstance(y, list):
            self.classes = sorted(set(y))
            numbers = {name: number for number, name in enumerate(self.classes)}
            y = asarray(np.array([numbers[name] for name in y], np.int64))
        super().__init__(x, y)
