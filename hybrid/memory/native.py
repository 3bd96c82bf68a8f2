"""Bindings of the C library, its only importer: buffers, kernels, plans and threads.

A *buffer* is a cffi object that owns or borrows bytes; it is all the data a Tensor holds.  Small
ones live inside the Python object, large ones come from the runtime's caching allocator, borrowed
ones keep the lender alive.
"""

from __future__ import annotations

import functools
import glob
import os
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from hybrid.core.dataclass import dataclass
from hybrid.core.package import FOLDER
from hybrid.errors import (
    ArgumentError,
    BudgetError,
    LinearAlgebraError,
    NativeError,
    NumberRangeError,
    OutOfMemoryError,
    OutOfRangeError,
    ProgramError,
    domain_error,
    named_error,
)

_HERE = os.path.realpath(FOLDER)


def _elsewhere() -> str:
    """Another folder with a package of this name that was built; empty if there is none."""
    for entry in sys.path:
        other = os.path.realpath(os.path.join(entry, "hybrid"))
        if other != _HERE and glob.glob(os.path.join(glob.escape(other), "_native*")):
            return other
    return ""


def _unbuilt(other: str) -> ImportError:
    """What is raised where this folder, from which ``hybrid`` was imported, was never built."""
    if other:
        advice = (
            f"hybrid is installed in {other}, but the source folder {_HERE} is in the way: "
            "Python looks there first. Fix: run Python in another folder, or build this one "
            "with `pip install -e .`"
        )
    else:
        advice = "Fix: install the package (`pip install .`), which builds it"
    return ImportError(f"hybrid's C library is missing. {advice}")


try:
    import hybrid._native as _native
except ImportError as error:  # a checkout that was never built
    raise _unbuilt(_elsewhere()) from error
_built = os.path.realpath(os.path.dirname(_native.__file__))
if _built != _HERE:  # an editable install finds the parts of a package wherever its rest is
    raise _unbuilt(_built)
ffi, lib = _native.ffi, _native.lib

SMALL = 2048  # bytes; below it the Python object itself holds the data
ROUNDED = 1 << 20  # bytes up to which buffers have one of few sizes
_ERRORS: dict[int, Callable[[str], Exception]] = {
    lib.HYB_BAD_ARGUMENT: NativeError,
    lib.HYB_NO_MEMORY: OutOfMemoryError,
    lib.HYB_BAD_FILE: ProgramError,
    lib.HYB_NO_KERNEL: NativeError,
    lib.HYB_BAD_INDEX: OutOfRangeError,
    lib.HYB_INTERRUPTED: KeyboardInterrupt,
    lib.HYB_EXHAUSTED: BudgetError,
    lib.HYB_SINGULAR: functools.partial(
        LinearAlgebraError,
        why="The matrix is singular: its columns depend on each other, as far as rounding tells.",
        fix="add a small multiple of the identity, or call hybrid.linalg.pinv",
    ),
    lib.HYB_NOT_DEFINITE: functools.partial(
        LinearAlgebraError,
        why="The matrix is not positive definite.",
        fix="add a small multiple of the identity",
    ),
    lib.HYB_RAISED: named_error,
    lib.HYB_OVERFLOW: lambda text: NumberRangeError(1 << int(text.split()[-2]) - 1),
    lib.HYB_OUT_OF_DOMAIN: lambda text: domain_error(text.split()[0], text.split()[-1]),
    lib.HYB_NOT_CONVERGED: functools.partial(
        LinearAlgebraError,
        why="The eigenvalues or singular values did not converge.",
        fix="look for nan and inf with hybrid.isfinite",
    ),
}
RAISED_BY_PYTHON = (lib.HYB_HOST_FAILED, lib.HYB_INTERRUPTED)


def last_error() -> str:
    """The C library's text for this thread's last failure."""
    return ffi.string(lib.hyb_last_error()).decode("utf-8", "replace")


def failed_step() -> int:
    """The step at which this thread's last failed run stopped."""
    return lib.hyb_last_step()


def check(status: int) -> None:
    """Raise the exception for ``status``, unless it is ``HYB_OK``."""
    if status:
        if status in RAISED_BY_PYTHON and (raised := getattr(_raised, "error", None)) is not None:
            _raised.error = None
            raise raised
        raise _ERRORS.get(status, NativeError)(last_error())


def require_environment() -> None:
    """Raise ArgumentError when HYBRID_ISA or HYBRID_NUM_THREADS holds what cannot be had.

    Asked with the first kernel and not at import, so that a command can say it in one line.
    """
    if lib.hyb_init():
        raise ArgumentError(last_error(), fix="unset it, or choose what this machine has")


# Calls from C into Python ---------------------------------------------------------------------

_raised = threading.local()  # .error: what Python code raised while this thread's plan ran


def _keep(_kind: Any, error: BaseException, traceback: Any) -> None:
    """Called by cffi instead of printing what a callback raised."""
    _raised.error = error.with_traceback(traceback)


def _keep_remains(kind: Any, error: BaseException, traceback: Any) -> None:
    """The same for a call of the host, which an interrupt may have ended at any place."""
    if isinstance(error, KeyboardInterrupt) and traceback is not None:
        given = traceback.tb_frame.f_locals
        function = ffi.from_handle(given["context"])[given["number"]]
        if hasattr(function, "leave"):
            function.leave(error, given["data"])
    _keep(kind, error, traceback)


@ffi.def_extern(name="hybrid_call_host", error=lib.HYB_HOST_FAILED, onerror=_keep_remains)
def _call_host(context: Any, number: int, data: Any) -> int:
    ffi.from_handle(context)[number](data)
    return lib.HYB_OK


@ffi.def_extern(name="hybrid_poll", error=lib.HYB_INTERRUPTED, onerror=_keep)
def _poll() -> int:
    _raised.error = None  # of a run that nobody asked about
    for _ in range(2):  # Python runs the handlers of signals between its own instructions
        pass
    return lib.HYB_OK


lib.hyb_set_poll(lib.hybrid_poll)


@ffi.def_extern(name="hybrid_print", error=lib.HYB_HOST_FAILED, onerror=_keep)
def _print(_context: Any, stream: int, text: Any, nbytes: int) -> int:
    file = sys.stdout if stream == lib.HYB_TO_OUTPUT else sys.stderr
    file.write(ffi.unpack(text, nbytes).decode("utf-8", "replace"))
    return lib.HYB_OK


lib.hyb_set_print(lib.hybrid_print, ffi.NULL)


def raise_noted() -> None:
    """Raise what interrupted the poll before this call of Python, if anything did."""
    error, _raised.error = getattr(_raised, "error", None), None
    if error is not None:
        raise error


memory_at = ffi.buffer  # (address, nbytes): a Python buffer over memory that must outlive it


# Buffers --------------------------------------------------------------------------------------

_allocator = ffi.new_allocator(lib.hyb_alloc, lib.hyb_free, should_clear_after_alloc=False)


def _no_memory(nbytes: int) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"no memory for {nbytes} bytes", fix="use smaller tensors, or free some first"
    )


def _large(ctype: Any) -> Any:
    try:
        return _allocator(ctype)
    except MemoryError:
        raise _no_memory(ffi.sizeof(ctype)) from None


class _Blocks(dict):
    """By numbers of 64 bytes: what makes buffers of so many or, above ``SMALL``, of C's blocks."""

    def __missing__(self, count: int) -> tuple[Any, Any]:
        if count << 6 > ROUNDED:
            return _large, ffi.typeof(f"char[{count << 6}]")
        last, small = max(count - 1, 0), count << 6 <= SMALL
        shift = 0 if small else last.bit_length() - 3
        made = ffi.typeof(f"char[{(last >> shift) + 1 << shift + 6}]")
        return self.setdefault(count, (ffi.new if small else _large, made))


_blocks = _Blocks()


def storage(nbytes: int) -> tuple[Any, Any]:
    """``(make, ctype)`` such that ``make(ctype)`` is a new buffer of ``nbytes``, or some more."""
    return _blocks[nbytes + 63 >> 6]


def allocate(nbytes: int) -> Any:
    """A new buffer of ``nbytes`` whose content is unspecified."""
    try:
        make, ctype = storage(nbytes)
        return make(ctype)
    except (MemoryError, OverflowError, ValueError, ffi.error):
        raise _no_memory(nbytes) from None


class Pending:
    """A placeholder for a buffer that queued work will have filled; C does not take it."""

    __slots__ = ()

    def wait(self) -> Any:
        """The buffer, once it is filled; raises what went wrong instead."""
        raise NotImplementedError

    def known(self) -> Any:
        """The buffer if it is known to be filled, else this."""
        return self


def known(data: Any) -> Any:
    """``data`` as a buffer if it is known to be filled, else as it is; waits for nothing."""
    return data.known() if isinstance(data, Pending) else data


def filled(data: Any) -> Any:
    """``data`` as a buffer, once it is filled: whoever reads bytes waits here."""
    return data.wait() if isinstance(data, Pending) else data


def part(data: Any, offset: int, nbytes: int) -> Any:
    """A new buffer with ``nbytes`` of ``data``, which has them, from ``offset`` on."""
    made = allocate(nbytes)
    try:
        ffi.memmove(made, data + offset, nbytes)
    except TypeError:
        ffi.memmove(made, filled(data) + offset, nbytes)
    return made


def borrow(obj: Any) -> Any:
    """A buffer over the bytes of ``obj`` (a C-contiguous Python buffer), which it keeps alive."""
    return ffi.from_buffer(obj)


def owns(buffer: Any) -> bool:
    """Whether ``buffer`` has memory of its own and does not borrow it."""
    return isinstance(buffer, ffi.CData) and ffi.typeof(buffer).length is not None


def view(buffer: Any, nbytes: int) -> Any:
    """A Python buffer over the first ``nbytes`` of ``buffer``, which it keeps alive."""
    try:
        return ffi.buffer(buffer, nbytes)
    except TypeError:
        return ffi.buffer(filled(buffer), nbytes)


# Kernels --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def find_kernel(name: str, dtype_code: int) -> int:
    """The index of a kernel, or -1."""
    require_environment()
    return lib.hyb_find_kernel(name.encode(), dtype_code)


@dataclass(frozen=True)
class KernelRow:
    """One row of the merged kernel table."""

    name: str
    dtype_code: int
    isa: str


def kernel_table() -> list[KernelRow]:
    """All kernels as merged for this machine."""
    require_environment()

    rows = []
    for i in range(lib.hyb_kernel_count()):
        name, isa = lib.hyb_kernel_name(i), lib.hyb_kernel_isa(i)
        code = lib.hyb_kernel_dtype(i)
        rows.append(KernelRow(ffi.string(name).decode(), code, ffi.string(isa).decode()))
    return rows


def kernel_at(number: int) -> tuple[str, int, tuple[int, int, int]]:
    """The name, the code of the dtype, and the counts of inputs, outputs and attributes."""
    counts = ffi.new("int32_t[3]")
    check(lib.hyb_kernel_counts(number, counts))
    name = ffi.string(lib.hyb_kernel_name(number)).decode()
    return name, lib.hyb_kernel_dtype(number), tuple(counts)


def kernel_family(number: int) -> str:
    """The family of a kernel, as its files in ``csrc/kernels`` are called."""
    return ffi.string(lib.hyb_kernel_family(number)).decode()


def check_program(content: Any, path: str, *, whole: bool = False) -> None:
    """Raise ProgramError unless C would load ``content``, the bytes of the file ``path``.

    It may need kernels that this library does not have.  With ``whole`` the contents of cells are
    looked at, too.
    """
    found = ffi.from_buffer(content)
    flags = lib.HYB_PROGRAM_ANY_KERNELS | (lib.HYB_PROGRAM_CHECK_DATA if whole else 0)
    if lib.hyb_program_check(found, len(found), flags):
        raise ProgramError(f"{path}: {last_error()}")


def hash_of(content: Any) -> int:
    """The XXH64 of bytes, as files of programs have it."""
    found = ffi.from_buffer(content)
    return lib.hyb_hash(found, len(found))


# Plans ----------------------------------------------------------------------------------------

MAX_RANK = lib.HYB_MAX_RANK
_OPERANDS = [  # by rank
    struct.Struct(f"=iiqii{rank}q{pad}x{rank}q{pad}x")
    for rank, pad in ((rank, 8 * (MAX_RANK - rank)) for rank in range(MAX_RANK + 1))
]
_SLOT = struct.Struct("=iiqqiiiiqq")
_STEP = struct.Struct("=iiiiiiiiii")
_MAP_OP = struct.Struct("=iiiii12i")
_BLOCK = _MOVE = struct.Struct("=ii")
_CONTROL = struct.Struct("=iiiiqii")

EXTERNAL, ARENA, CONSTANT = lib.HYB_SLOT_EXTERNAL, lib.HYB_SLOT_ARENA, lib.HYB_SLOT_CONSTANT
ROW, CARRIED = lib.HYB_SLOT_ROW, lib.HYB_SLOT_CARRIED
NOWHERE = -1  # the slot of what pre-ops make
ENDLESS = 2**63 - 1  # rows, of which no loop comes to the end
KERNEL_STEP, MAP_STEP, HOST_STEP = lib.HYB_STEP_KERNEL, lib.HYB_STEP_MAP, lib.HYB_STEP_HOST
MESSAGE_STEPS = {  # by where the text goes: the kind, and its stream
    "stdout": (lib.HYB_STEP_PRINT, lib.HYB_TO_OUTPUT),
    "stderr": (lib.HYB_STEP_PRINT, lib.HYB_TO_ERRORS),
    "error": (lib.HYB_STEP_FAIL, 0),
}
TRANSFER_STEP = lib.HYB_STEP_TRANSFER
TRANSFERS = {
    "all_gather": lib.HYB_TRANSFER_GATHER,
    "all_to_all": lib.HYB_TRANSFER_EXCHANGE,
    "broadcast": lib.HYB_TRANSFER_SPREAD,
    "barrier": lib.HYB_TRANSFER_BARRIER,
    "agree": lib.HYB_TRANSFER_AGREE,
    "wait": lib.HYB_TRANSFER_WAIT,
}
NULL = ffi.NULL
NEXT_STEP, MAX_COLUMNS = lib.HYB_STEP_NEXT, lib.HYB_QUEUE_COLUMNS
MOST_UNDER_WAY = lib.HYB_MOST_UNDER_WAY  # transfers of a run that are waited for later
CONTROL_STEPS = {
    "cond": lib.HYB_STEP_COND,
    "while": lib.HYB_STEP_WHILE,
    "for": lib.HYB_STEP_FOR,
    "parallel": lib.HYB_STEP_PARALLEL,
}
MAX_MAP_ARGS, TILE, MAX_TILES = lib.HYB_MAP_ARGS, lib.HYB_TILE, lib.HYB_MAX_TILES


class PlanArrays:
    """The flat arrays of a plan (see hyb_plan_spec), each as bytes."""

    ROWS: ClassVar = {
        name: ffi.sizeof(f"hyb_{row}")
        for name, row in (
            ("steps", "step"), ("operands", "operand"), ("slots", "slot"), ("ops", "map_op"),
            ("attrs", "attr"), ("blocks", "block"), ("controls", "control"), ("moves", "move"),
        )
    }  # fmt: skip

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {name: bytearray() for name in self.ROWS}
        self.constants: Any = b""
        self.arena_nbytes = self.n_externals = 0


class PlanWriter:
    """Collects the flat arrays of a plan."""

    def __init__(self) -> None:
        self.arrays = PlanArrays()
        rows = self.arrays.rows
        self.steps, self.operands, self.slots = rows["steps"], rows["operands"], rows["slots"]
        self.ops, self.attrs, self.blocks = rows["ops"], rows["attrs"], rows["blocks"]
        self.controls, self.moves = rows["controls"], rows["moves"]
        self.n_steps = self.n_operands = self.n_slots = self.n_ops = self.n_attrs = 0
        self.n_blocks = self.n_controls = self.n_moves = 0
        self.hosts: list[Callable[[Any], None]] = []

    def slot(
        self,
        kind: int,
        index: int,
        offset: int,
        nbytes: int,
        last_step: int = -1,
        loop: int = 0,
        base: int = 0,
        spare: int = -1,
        stride: int = 0,
        count: int = 0,
    ) -> int:
        self.slots += _SLOT.pack(
            kind, index, offset, nbytes, last_step, loop, base, spare, stride, count
        )
        self.n_slots += 1
        return self.n_slots - 1

    def operand(
        self, slot: int, offset: int, dtype: int, shape: Sequence[int], strides: Sequence[int]
    ) -> None:
        rank = len(shape)
        self.operands += _OPERANDS[rank].pack(slot, 0, offset, dtype, rank, *shape, *strides)
        self.n_operands += 1

    def attributes(self, values: Sequence[int | float]) -> int:
        first = self.n_attrs
        for value in values:
            self.attrs += struct.pack("=d" if isinstance(value, float) else "=q", value)
        self.n_attrs += len(values)
        return first

    def map_op(
        self, kernel: int, n_in: int, n_out: int, attrs: Sequence[int | float], args: Sequence[int]
    ) -> None:
        first = self.attributes(attrs)
        pad = (0,) * (MAX_MAP_ARGS - len(args))
        self.ops += _MAP_OP.pack(kernel, n_in, n_out, first, len(attrs), *args, *pad)
        self.n_ops += 1

    def step(
        self,
        kind: int,
        kernel: int,
        first_operand: int,
        counts: tuple[int, int, int],
        attrs: Sequence[int | float],
        first_op: int,
    ) -> None:
        """``counts`` is (inputs, outputs, extra); its map ops are those since ``first_op``."""
        first_attr = self.attributes(attrs)
        self.steps += _STEP.pack(
            kind, kernel, first_operand, *counts, first_attr, len(attrs), first_op,
            self.n_ops - first_op,
        )  # fmt: skip
        self.n_steps += 1

    def block(self, n_steps: int) -> None:
        """The next ``n_steps`` steps are a block."""
        self.blocks += _BLOCK.pack(self.n_steps, n_steps)
        self.n_blocks += 1

    def control(
        self, blocks: Sequence[int], moves: Sequence[tuple[int, int]], limit: int, reverse: bool
    ) -> int:
        first, second = (*blocks, -1)[:2]
        self._control(first, second, self.n_moves, len(moves), limit, int(reverse), 0)
        for move in moves:
            self.moves += _MOVE.pack(*move)
        self.n_moves += len(moves)
        return self.n_controls - 1

    def members(self, blocks: Sequence[int]) -> int:
        """The number of what owns ``blocks``, which follow each other, to run them side by side."""
        self._control(blocks[0], -1, 0, 0, -1, 0, len(blocks))
        return self.n_controls - 1

    def _control(self, *fields: int) -> None:
        self.controls += _CONTROL.pack(*fields)
        self.n_controls += 1

    def host(self, function: Callable[[Any], None]) -> int:
        """A number for ``function`` of the addresses of a step's operands."""
        self.hosts.append(function)
        return len(self.hosts) - 1

    def build(self, constants: bytes, arena_nbytes: int, n_externals: int) -> Any:
        """The C plan; raises what C found wrong."""
        self.finish(constants, arena_nbytes, n_externals)
        return make_plan(self.arrays, self.hosts)

    def finish(self, constants: bytes, arena_nbytes: int, n_externals: int) -> None:
        """Complete ``arrays``."""
        self.arrays.constants = constants
        self.arrays.arena_nbytes, self.arrays.n_externals = arena_nbytes, n_externals


def make_plan(arrays: PlanArrays, hosts: Sequence[Callable[[Any], None]] = ()) -> Any:
    """The C plan; raises what C found wrong."""
    spec, alive = ffi.new("hyb_plan_spec *"), []
    fill_spec(spec, arrays, alive)
    plan = lib.hyb_plan_create(spec)
    if not plan:
        raise failure()
    return hosted(plan, hosts)


def fill_spec(spec: Any, arrays: PlanArrays, alive: list[Any]) -> None:
    """Fill ``spec``, a hyb_plan_spec; what it points to is ``alive`` as long as that list."""
    for name, nbytes in PlanArrays.ROWS.items():
        array = ffi.from_buffer(arrays.rows[name])
        alive.append(array)
        setattr(spec, name, ffi.cast("void *", array))
        setattr(spec, "n_" + name, len(array) // nbytes)
    blob = ffi.from_buffer(arrays.constants)
    alive.append(blob)
    spec.constants, spec.constants_nbytes = blob, len(blob)
    spec.arena_nbytes, spec.n_externals = arrays.arena_nbytes, arrays.n_externals
    spec.poison = os.environ.get("HYBRID_POISON") == "1"


def failure() -> Exception:
    """What C said when it made no plan."""
    text = last_error()
    scarce = text.startswith(("cannot allocate", "no memory"))
    return (OutOfMemoryError if scarce else NativeError)(text)


def hosted(plan: Any, hosts: Sequence[Callable[[Any], None]]) -> Any:
    """``plan``, a new one, which calls ``hosts`` and frees itself."""
    if not hosts:
        return ffi.gc(plan, lib.hyb_plan_free)
    handle = ffi.new_handle(tuple(hosts))
    lib.hyb_plan_set_host(plan, lib.hybrid_call_host, handle)
    return ffi.gc(plan, functools.partial(_free_with, handle))


def _free_with(_handle: Any, plan: Any) -> None:
    """Free ``plan``; its functions live as long as it does."""
    lib.hyb_plan_free(plan)


PLACE = struct.Struct("=qiiiiii")  # a hyb_place


def lay_out(places: Any, count: int, offsets: Any) -> int:
    """Write the ``offsets`` of ``count`` places, 64-bit integers; the bytes of their arena."""
    end = lib.hyb_lay_out(ffi.from_buffer("hyb_place[]", places), count,
                          ffi.from_buffer("int64_t[]", offsets, require_writable=True))  # fmt: skip
    if end < 0:
        text = last_error()
        raise (OutOfMemoryError if text.startswith("cannot allocate") else NativeError)(text)
    return end


run_plan, run1, run2, run3 = lib.hyb_plan_run, lib.hyb_run1, lib.hyb_run2, lib.hyb_run3


new, move = ffi.new, ffi.memmove  # new(C type, its items); move(to, from, nbytes)


@functools.cache
def pointer_array(n: int) -> Any:
    """The C type of an array of ``n`` pointers, for ``run_plan``; see ``new``."""
    return ffi.typeof(f"void *[{max(n, 1)}]")


def pointers(n: int) -> Any:
    """A C array of ``n`` pointers, for ``run_plan``."""
    return new(pointer_array(n))


def share_arena(plan: Any) -> None:
    """Let ``plan``, which has not run, take the arena of each run from what others have left."""
    lib.hyb_plan_share_arena(plan)


def plan_nbytes(plan: Any) -> int:
    """The bytes of ``plan`` itself, without those that a run takes."""
    return lib.hyb_plan_nbytes(plan)


def set_budget(plan: Any, iterations: int) -> None:
    """Limit the iterations of loops in a run of ``plan``, which has not run; 0: no limit."""
    lib.hyb_plan_set_budget(plan, iterations)


def plan_number(plan: Any) -> int:
    """The number of ``plan`` in events of profiles."""
    return lib.hyb_plan_number(plan)


profiling = False  # whether steps of runs are recorded


def start_profile(capacity: int) -> None:
    """Start to record the steps of all runs, at most ``capacity``; one profile at a time."""
    global profiling
    check(lib.hyb_profile_start(capacity))
    profiling = True


def stop_profile(capacity: int) -> tuple[bytes, int]:
    """The events (hyb_event) of the profile, and how many there would be had all been kept."""
    global profiling
    profiling = False
    count = lib.hyb_profile_stop()
    size = min(count, capacity) * ffi.sizeof("hyb_event")
    data = bytes(ffi.buffer(lib.hyb_profile_events(), size)) if size else b""
    lib.hyb_profile_free()
    return data, count


# Machine --------------------------------------------------------------------------------------


def isa() -> str:
    """The instruction set in use."""
    require_environment()
    return ffi.string(lib.hyb_isa_name()).decode()


def isas() -> list[str]:
    """The instruction sets that this machine runs."""
    return ffi.string(lib.hyb_isa_supported()).decode().split()


def compiler() -> str:
    """The compiler that has built the C library, and its version."""
    return ffi.string(lib.hyb_compiler()).decode()


def choices() -> dict[str, tuple[int, int]]:
    """The tuning choices by name: the value in use, and the one without a tuning file."""
    require_environment()
    found, i = {}, 0
    while (name := lib.hyb_choice_name(i)) != ffi.NULL:
        found[ffi.string(name).decode()] = (lib.hyb_choice_value(i), lib.hyb_choice_usual(i))
        i += 1
    return found


def tuning() -> tuple[str, str, str]:
    """The tuning file ("": none), why nothing of it was taken ("": it was), and this machine."""
    require_environment()
    told = (lib.hyb_choice_file(), lib.hyb_choice_fault(), lib.hyb_choice_machine())
    return tuple(ffi.string(text).decode("utf-8", "replace") for text in told)


def set_num_threads(n: int) -> None:
    """Use ``n`` threads, this one included, for kernels from now on."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(f"{n!r} is not a number of threads", fix="give an int >= 1")
    check(lib.hyb_set_num_threads(min(n, 2**31 - 1)))


def num_threads() -> int:
    """How many threads kernels use, the calling one included."""
    return lib.hyb_num_threads()


def confine_thread(confined: bool = True) -> bool:
    """Let kernels that this thread calls use no other one, or all again; what was so before."""
    return bool(lib.hyb_confine_thread(confined))


def memory() -> dict[str, int]:
    """Bytes of large buffers: live, cached for reuse, and the peak; allocations so far."""
    stats = lib.hyb_memory()
    return {
        name: getattr(stats, name)
        for name in ("live_bytes", "cached_bytes", "peak_bytes", "allocations")
    }


def trim_memory() -> None:
    """Give cached buffers back to the system."""
    lib.hyb_memory_trim()
