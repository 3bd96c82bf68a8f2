"""Random files for the readers in Python: ``python -m tests.fuzz.files all --files 1000``.

Files begin as good ones.  Some bytes, numbers or fields are others then, and hashes are put right.
A reader may take what comes out, or refuse it with an error of the library; all else ends the run,
as does a file that takes longer than ``SECONDS``.  ``make fuzz`` in csrc does the same in C.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import signal
import struct
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hybrid as hy
from hybrid.errors import HybridError
from hybrid.programs.file_writer import HEADER
from tests.programs.broken import Broken

SECONDS = 5.0  # of processor time, that a file may take
TRACED = 500  # files whose lines are counted
EDGES = [2**n - k for n in (31, 63) for k in (1, 0)]
TELLING = (0, 1, 2, 3, 7, 8, 64, 127, 128, 255, 1 << 15, *EDGES)

Mutate = Callable[[bytes, random.Random], bytes]


class Reader(NamedTuple):
    """What reads files: its seeds, how they are changed, and what is to be covered."""

    seeds: Callable[[Path], list[bytes]]
    mutate: Mutate
    read: Callable[[bytes, Path], Any]
    modules: Sequence[str]


def mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    """``content`` with some numbers of 1, 4 or 8 bytes changed, or a piece cut out or doubled."""
    found = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        if not found:
            break
        at, width = draw.randrange(len(found)), draw.choice((1, 1, 4, 8))
        match draw.randrange(8):
            case 0:
                del found[at : at + draw.randint(1, 16)]
            case 1:
                found[at:at] = found[at : at + draw.randint(1, 16)]
            case 2:
                found[at] ^= 1 << draw.randrange(8)
            case _:
                number = draw.choice((*TELLING, draw.getrandbits(64)))
                at -= at % width
                found[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, sys.byteorder)
    return bytes(found)


# Weights ------------------------------------------------------------------------------------------


def weight_seeds(folder: Path) -> list[bytes]:
    path = folder / "seed.safetensors"
    tied = hy.ones((2, 3))
    states: list[Any] = [
        {"a": tied, "b": hy.zeros(4, dtype="int64"), "c": tied},
        {"layers": [{"w": hy.ones(2)}, {"w": hy.zeros(0)}], "step": 3, "rate": 0.1, "name": "x"},
    ]
    found = []
    for state in states:
        hy.save(state, path)
        found.append(path.read_bytes())
    return found


def mutate_weights(content: bytes, draw: random.Random) -> bytes:
    """A field of the header is another one; its length is put right."""
    if draw.random() < 0.3:
        return mutate_bytes(content, draw)
    [length] = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    text = json.dumps(changed_json(header, draw)).encode()
    if draw.random() < 0.1:
        text = mutate_bytes(text, draw)
    return struct.pack("<Q", len(text)) + text + data


def changed_json(value: Any, draw: random.Random) -> Any:
    """``value`` with one of its parts another one."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        rest = {k: v for k, v in value.items() if k != key}
        match draw.randrange(8):
            case 0:
                return rest
            case 1:
                return {**value, draw.choice((key + "x", "", "__metadata__", "a.b")): value[key]}
            case _:
                return {**value, key: changed_json(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at = draw.randrange(len(value))
        return [*value[:at], changed_json(value[at], draw), *value[at + 1 :]]
    odd: tuple[Any, ...] = (
        None, True, -1, 0, 1.5, 1 << 40, 1 << 64, "", "F32", "F64", "I64", "BOOL", "x" * 50, [],
        [0], [0, 8], {}, {"dtype": "F32"}, [[[[]]]],
    )  # fmt: skip
    if type(value) is int:
        odd = (*odd, value + 1, value - 1, value * 2, -value)
    return draw.choice(odd)


def read_weights(content: bytes, folder: Path) -> Any:
    path = folder / "odd.safetensors"
    path.write_bytes(content)
    return [getattr(value, "shape", value) for value in hy.load(path).values()]


# Programs -----------------------------------------------------------------------------------------


def program_seeds(folder: Path) -> list[bytes]:
    from tests.programs.seeds import seeds

    found = []
    for name, write in seeds():
        path = folder / f"{name}.hyb"
        path.unlink(missing_ok=True)
        write(path)
        found.append(path.read_bytes())
    return found


def mutate_program(content: bytes, draw: random.Random) -> bytes:
    """A piece of one section, or of their table, is another one; hashes are put right."""
    found = Broken(content)
    places = [(int(row["offset"]), int(row["nbytes"])) for row in found.table]
    for _ in range(draw.randint(1, 3)):
        start, nbytes = draw.choice(places)
        if draw.random() < 0.1:
            start, nbytes = HEADER.itemsize, found.table.nbytes
        part = mutate_bytes(bytes(found.content[start : start + nbytes]), draw)[:nbytes]
        found.content[start : start + nbytes] = part.ljust(nbytes, b"\0")
    return found.repaired()


def read_program(content: bytes, folder: Path) -> Any:
    path = folder / "odd.hyb"
    path.write_bytes(content)
    program = hy.load_exported(path)
    return [str(program[name]) for name in program.functions]


# ONNX ---------------------------------------------------------------------------------------------


def model_seeds(folder: Path) -> list[bytes]:
    from tests.onnx.small_models import network

    files = Path(__file__).parents[1] / "onnx" / "files"
    found = [network().SerializeToString()]
    return found + [
        path.read_bytes()
        for path in sorted(files.rglob("*.onnx"))
        if path.stat().st_size < 50_000
    ]  # fmt: skip


def mutate_model(content: bytes, draw: random.Random) -> bytes:
    """A field of the model's messages is another one."""
    import onnx

    if draw.random() < 0.2:
        return mutate_bytes(content, draw)
    model = onnx.ModelProto.FromString(content)
    for _ in range(draw.randint(1, 3)):
        _change_message(model, draw)
    return model.SerializeToString()


def _change_message(message: Any, draw: random.Random) -> None:
    fields = message.ListFields()
    while fields:
        field, value = draw.choice(fields)
        repeated = not isinstance(value, (str, bytes, int, float)) and hasattr(value, "__len__")
        if repeated and len(value):
            at = draw.randrange(len(value))
            action = draw.randrange(8)
            if action == 0:
                del value[at]
                return
            if action == 1:
                value.extend([value[at]])
                return
            item = value[at]
            if hasattr(item, "ListFields"):
                message, fields = item, item.ListFields()
                continue
            value[at] = _odd(item, draw)
            return
        if hasattr(value, "ListFields"):
            message, fields = value, value.ListFields()
            continue
        if draw.random() < 0.1:
            message.ClearField(field.name)
        elif field.enum_type is not None:
            setattr(message, field.name, draw.choice(field.enum_type.values).number)
        else:
            setattr(message, field.name, _odd(value, draw))
        return


def _odd(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        small = (value + 1, value - 1, -value, 0, 1, 2, draw.randrange(20))
        return max(-(2**31), min(2**31 - 1, draw.choice((*small, 1 << 30, -(1 << 31)))))
    if isinstance(value, float):
        return draw.choice((0.0, -1.0, float("nan"), float("inf"), value * 2))
    if isinstance(value, bytes):
        return mutate_bytes(value, draw)
    return draw.choice(
        (value + "x", "", "x", "y", "Relu", "Loop", "ai.onnx.ml", "a\0b", "__class__")
    )


def read_model(content: bytes, folder: Path) -> Any:
    return hy.onnx.load(content).source()


# Plans --------------------------------------------------------------------------------------------


def plan_seeds(folder: Path) -> list[bytes]:
    from tests.calls.files.test_store import X, function

    plans = folder / "plans"
    plans.mkdir(exist_ok=True)
    hy.cache_plans(plans)
    hy.hybridize(function)(X)
    hy.cache_plans(None)
    return [path.read_bytes() for path in plans.glob("*.plan")]


def mutate_plan(content: bytes, draw: random.Random) -> bytes:
    """A part of an entry is another one, and it is signed again."""
    from hybrid.calls.files.store import packed, unpacked
    from tests.calls.files.test_store import spoilt
    from tests.ir.test_rows import changed

    entry = unpacked(content)
    while True:
        odd = changed(entry, draw) if draw.random() < 0.5 else spoilt(entry, draw)
        try:
            return packed({**odd, "digest": entry["digest"], "parts": odd.get("parts", [])})
        except TypeError:  # parts that are no bytes
            continue


def read_plan(content: bytes, folder: Path) -> Any:
    from tests.calls.files.test_store import X, function

    plans = folder / "plans"
    for path in plans.glob("*.plan"):
        path.write_bytes(content)
        break
    hy.cache_plans(plans)
    try:
        call = hy.hybridize(function)
        call(X)
        return call.plans[0].filed
    except Slow:  # a loop that never ends is a plan, too, and can be interrupted
        return "endless"
    finally:
        hy.cache_plans(None)


READERS = {
    "weights": Reader(
        weight_seeds,
        mutate_weights,
        read_weights,
        [f"hybrid.weights.{name}" for name in ("header", "read", "state_tree")],
    ),
    "programs": Reader(
        program_seeds,
        mutate_program,
        read_program,
        [f"hybrid.programs.{name}" for name in ("file_reader", "exported_program")],
    ),
    "onnx": Reader(
        model_seeds,
        mutate_model,
        read_model,
        [f"hybrid.onnx.{name}" for name in ("model_file", "model_text", "known_values")],
    ),
    "plans": Reader(
        plan_seeds,
        mutate_plan,
        read_plan,
        [f"hybrid.calls.files.{name}" for name in ("store", "entry_reader")],
    ),
}


# Running ------------------------------------------------------------------------------------------


class Slow(BaseException):
    """A file has taken too long."""


def _late(*_: Any) -> None:
    raise Slow


def outcome_of(reader: Reader, content: bytes, folder: Path) -> str:
    """What became of a file; what no reader may do is raised."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        found = reader.read(content, folder)
    except HybridError as error:
        if not str(error).strip():
            raise AssertionError("an error without a text") from error
        return type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return "endless" if isinstance(found, str) and found == "endless" else "read"


def lines_of(modules: Sequence[str]) -> dict[str, set[int]]:
    """The lines of code of each module's functions, by its file."""

    def lines(code: types.CodeType) -> Iterator[int]:
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                yield from [line for *_, line in inner.co_lines() if line]
                yield from lines(inner)

    found = {}
    for name in modules:
        path = importlib.import_module(name).__file__
        assert path is not None
        found[path] = set(lines(compile(Path(path).read_text(), path, "exec")))
    return found


@contextmanager
def tracing(files: dict[str, set[int]], seen: dict[str, set[int]]) -> Iterator[None]:
    """Note in ``seen`` which lines of ``files`` run."""

    def local(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            seen[frame.f_code.co_filename].add(frame.f_lineno)
        return local

    def called(frame: Any, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename in files else None

    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(None)


def run(name: str, count: int, seed: int, folder: Path) -> dict[str, int]:
    """``count`` files for a reader; how many had which outcome."""
    reader, draw = READERS[name], random.Random(seed)
    signal.signal(signal.SIGPROF, _late)
    seeds, outcomes = reader.seeds(folder), {}
    files = lines_of(reader.modules)
    seen: dict[str, set[int]] = {path: set() for path in files}
    begin = time.perf_counter()
    for number in range(count):
        content = seeds[number] if number < len(seeds) else draw.choice(seeds)
        if number >= len(seeds):
            content = reader.mutate(content, draw)
        try:
            with tracing(files, seen) if number < TRACED else warnings.catch_warnings():
                outcome = outcome_of(reader, content, folder)
        except BaseException:
            (folder / f"{name}-{seed}-{number}").write_bytes(content)
            print(f"{name}: file {number} of seed {seed} is kept in {folder}", file=sys.stderr)
            raise
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    took = time.perf_counter() - begin
    hit = sum([len(files[path] & seen[path]) for path in files])
    share = hit / sum(map(len, files.values()))
    print(f"{name}: {count} files, {count / took:.0f} a second, {share:.0%} of lines: {outcomes}")
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=[*READERS, "all"])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for name in READERS if given.reader == "all" else [given.reader]:
        run(name, given.files, given.seed, folder)


if __name__ == "__main__":
    main()
