"""The header of a safetensors file, from bytes that nobody vouches for.

A file is eight bytes with the header's length N (little endian), N bytes of JSON, then the data:

    {"__metadata__": {"text": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
    24]}, ...}

Offsets count from the end of the header; together the tensors cover the data once, without gaps
(https://github.com/huggingface/safetensors#format).  What breaks a rule raises CheckpointError with
the file and the key; nothing is allocated before the length of it has been checked.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, BinaryIO

from hybrid.core.dataclass import dataclass
from hybrid.core.types import BY_NAME, DType, TensorType, tensor_type
from hybrid.errors import CheckpointError, HybridError

PREFIX = 8  # bytes that hold the header's length
MAX_HEADER = 100_000_000  # bytes, as the format's own library has it
METADATA = "__metadata__"
SHARED = "hybrid.shared"  # the text with other names of tensors, which are in the file once
CODES: dict[str, DType] = {
    "BOOL": BY_NAME["bool"],
    "BF16": BY_NAME["bfloat16"],
    **{f"I{n}": BY_NAME[f"int{n}"] for n in (8, 16, 32, 64)},
    **{f"U{n}": BY_NAME[f"uint{n}"] for n in (8, 16, 32, 64)},
    **{f"F{n}": BY_NAME[f"float{n}"] for n in (16, 32, 64)},
}
NAMES = {dtype: code for code, dtype in CODES.items()}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of a file: bytes ``begin`` to ``end`` of the data."""

    name: str
    type: TensorType
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself: its tensors in the order of the header, its texts."""

    entries: tuple[TensorEntry, ...]
    metadata: dict[str, str]
    shared: dict[str, str]  # other names of its tensors
    start: int  # of the data, counted from the beginning of the file
    nbytes: int  # of the data


class _Fault(Exception):
    """A rule is broken: what, why, what to do."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix


_AGAIN = "the file is damaged or cut off: copy or write it again"


def open_regular(path: str) -> BinaryIO:
    """The file at ``path``; what is no file of bytes raises OSError (a FIFO is not waited for)."""
    file = open(path, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def read_header(file: BinaryIO, path: str) -> Header:
    """The checked header of ``file``, which is called ``path`` in errors."""
    try:
        return _header(file)
    except _Fault as fault:
        raise CheckpointError(
            f"{path} is no safetensors file that can be loaded: {fault.what}",
            why=fault.why,
            fix=fault.fix or _AGAIN,
        ) from None


def _header(file: BinaryIO) -> Header:
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise _Fault("it is empty")
    prefix = file.read(PREFIX)
    if len(prefix) < PREFIX:
        raise _Fault(f"it has {size} bytes", "The length of the header alone takes 8.")
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER:
        raise _Fault(
            f"its header would have {length} bytes",
            f"Headers have at most {MAX_HEADER}: these 8 bytes are something else.",
            _other_format(prefix),
        )
    if length > size - PREFIX:
        raise _Fault(
            f"its header has {length} bytes, of which {size - PREFIX} are there",
            fix=_other_format(prefix),
        )
    fields = _fields(file.read(length))
    metadata = _metadata(fields.pop(METADATA, {}))
    nbytes = size - PREFIX - length
    entries = tuple([_entry(name, field, nbytes) for name, field in fields.items()])
    _check_cover(entries, nbytes)
    shared = _shared(metadata.pop(SHARED, "{}"), {entry.name for entry in entries})
    for name in shared:
        metadata.pop(name, None)  # which says the same to other readers
    return Header(entries, metadata, shared, PREFIX + length, nbytes)


def _shared(text: str, names: set[str]) -> dict[str, str]:
    """The other names of tensors of a file that has ``names``."""
    try:
        shared = json.loads(text)
        if not names.issuperset(shared.values()) or not names.isdisjoint(shared):
            raise ValueError
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise _Fault(f"its text {SHARED!r} does not give other names of its tensors") from None
    return shared


def _other_format(prefix: bytes) -> str:
    """What to do about a file that begins like those of another kind."""
    if prefix.startswith(b"PK"):
        return "it looks like a zip archive, as torch.save and numpy.savez write: convert it first"
    if prefix.startswith(b"\x80"):
        return "it looks like a pickle: convert it to safetensors where it can be trusted"
    if prefix.startswith(b"\x93NUMPY"):
        return "it is a .npy file: read it with numpy.load"
    return ""


def _fields(text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):
        raise _Fault(f"its header begins with {text[:8]!r}", "It must be a JSON object.")
    try:
        fields = json.loads(
            text.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant
        )
    except RecursionError:
        raise _Fault("its header is nested too deeply") from None
    except ValueError as error:  # of the encoding, of JSON, of a number of thousands of digits
        raise _Fault(f"its header is not JSON: {error}") from None
    return fields


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of names that come twice, readers would each believe another."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise _Fault(f"its header has the key {twice!r} twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _metadata(given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
        raise _Fault(f"its {METADATA} is not an object of texts")
    return given


def _entry(name: str, field: Any, nbytes: int) -> TensorEntry:
    """The tensor ``name``, whose data lie among ``nbytes``."""

    def fault(what: str, why: str = "", fix: str = "") -> _Fault:
        return _Fault(f"tensor {name!r} {what}", why, fix)

    if not isinstance(field, dict) or set(field) != {"dtype", "shape", "data_offsets"}:
        raise fault("is not described by dtype, shape and data_offsets, and nothing else")
    dtype = CODES.get(field["dtype"]) if isinstance(field["dtype"], str) else None
    if dtype is None:
        raise fault(
            f"has dtype {field['dtype']!r}",
            "Tensors hold " + ", ".join(CODES) + ".",
            "convert it where the file was made",
        )
    if not _are_counts(field["shape"]):
        raise fault(f"has shape {field['shape']!r}", "A shape is a list of ints >= 0.")
    offsets = field["data_offsets"]
    if not _are_counts(offsets) or len(offsets) != 2:
        raise fault(f"has data_offsets {offsets!r}", "They are two ints >= 0.")
    begin, end = offsets
    if not begin <= end <= nbytes:
        raise fault(
            f"lies at {begin} to {end}, outside of the data", f"There are {nbytes} bytes of data."
        )
    try:
        kind = tensor_type(dtype, tuple(field["shape"]))
    except HybridError as error:  # too many dimensions, more bytes than memory can have
        raise fault(f"cannot be held: {error.what}", error.why) from None
    if kind.nbytes != end - begin:
        raise fault(
            f"is {kind}, which takes {kind.nbytes} bytes, and has {end - begin}",
            "Its shape, its dtype and its data_offsets disagree.",
        )
    return TensorEntry(name, kind, begin, end)


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _check_cover(entries: tuple[TensorEntry, ...], nbytes: int) -> None:
    """Raise unless the tensors lie side by side from the first byte of the data to the last."""
    at, last = 0, ""
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin < at:
            raise _Fault(
                f"tensor {entry.name!r} begins at {entry.begin}, inside of tensor {last!r}",
                f"That one ends at {at}; tensors do not overlap.",
            )
        if entry.begin > at:
            raise _Fault(
                f"nothing is said of its data at {at} to {entry.begin}, before {entry.name!r}",
                "Tensors lie side by side.",
            )
        at, last = entry.end, entry.name
    if at < nbytes:
        raise _Fault(f"nothing is said of its last {nbytes - at} bytes")
