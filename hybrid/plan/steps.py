"""The lowered form of a graph: buffers, and steps that may own blocks of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.core.types import DType, TensorType
from hybrid.errors import Location
from hybrid.ir import View


@dataclass(eq=False, slots=True)
class Buffer:
    """A piece of memory with one definition: an input, an output, a constant or scratch.

    A "row" is row i of ``base`` in the iteration of index i of a loop: ``stride`` bytes from one to
    the next, the first at ``start``.  Past the last of the ``count`` rows it is ``spare``.
    A "carried" buffer starts where ``base`` is and moves after every iteration, to a place of
    another one in its ``ring``.
    """

    kind: str  # "input", "output", "constant", "arena", "row", "carried", "made" (by pre-ops)
    nbytes: int
    index: int = -1  # input or output: which one
    data: Any = b""  # constant: bytes, SizeBytes, or a dtype and a number of sizes
    offset: int = -1  # arena or constants: set by memory.py
    base: Buffer | None = None
    start: int = 0
    stride: int = 0
    count: int = 0
    spare: Buffer | None = None
    loop: Step | None = None  # row or carried: the step that moves it
    ring: list[Buffer] = field(default_factory=list)
    same: Buffer | None = None  # the buffer that this one became a part of

    @property
    def root(self) -> Buffer:
        """The buffer that has the place of this one."""
        found = self
        while found.same is not None:
            found = found.same
        return found


@dataclass(slots=True)
class MapOp:
    """An elementwise kernel; args >= 0 are operands of its step, args < 0 tile buffers -1 - arg."""

    kernel: str
    dtype: DType
    attrs: tuple[int | float, ...]
    args: tuple[int, ...]
    n_out: int = 1


@dataclass(eq=False, slots=True)
class Control:
    """The blocks of a control step, and the buffers that their iterations carry.

    A cond has two blocks and reads which one to run; a while reads whether to start and, after each
    iteration, whether to go on, and may write how many there were; a for reads how many to run and
    may write their index.  A parallel step has members, which run side by side: see schedule.py.
    """

    kind: str  # "cond", "while", "for", "parallel"
    blocks: list[list[Step]]
    rows: list[Buffer] = field(default_factory=list)
    carried: list[Buffer] = field(default_factory=list)
    homes: list[Buffer] = field(default_factory=list)  # values that iterations update in place
    moves: list[tuple[Buffer, Buffer]] = field(default_factory=list)  # (to, where this one was)
    limit: int = -1  # a for never runs more iterations
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class HostCall:
    """A Python function to call with the values of a step's inputs."""

    function: Callable[..., Any]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    location: Location | None = None


@dataclass(eq=False, slots=True)
class Step:
    """One step of a plan.

    A kernel, with post- or pre-ops in ``ops``; a map, with ops alone; or what ``control``, ``call``
    or ``says`` say.
    """

    kernel: str | None
    inputs: list[View]
    outputs: list[View]
    extra: list[View] = field(default_factory=list)
    attrs: tuple[int | float, ...] = ()
    ops: list[MapOp] = field(default_factory=list)
    location: Location | None = None
    control: Control | None = None
    call: HostCall | None = None
    says: str = ""  # where its first input, a text, goes: "stdout", "stderr", or "error"
    moves: bool = False  # a copy that is not needed when both sides come to lie at one place
    raises: bool = False  # whether what it is given may be refused
    after: list[View] = field(default_factory=list)  # what is to be there first, and is not read

    @property
    def operands(self) -> list[View]:
        return [*self.inputs, *self.outputs, *self.extra]

    @property
    def computes(self) -> bool:
        """Whether it is a kernel or a map."""
        return self.control is None and self.call is None and not self.says

    @property
    def is_group(self) -> bool:
        """Whether its blocks run side by side."""
        return self.control is not None and self.control.kind == "parallel"

    @property
    def is_map(self) -> bool:
        return bool(self.ops) and self.kernel is None

    @property
    def has_pre_ops(self) -> bool:
        """Whether ``ops`` make the first input of the kernel, which lies nowhere."""
        return bool(self.inputs) and self.inputs[0].buffer.kind == "made"

    @property
    def may_fail(self) -> bool:
        """Whether a run may end here: an operand is refused, Python raises, Ctrl-C ends a loop."""
        loops = self.control is not None and self.control.kind in ("while", "for")
        return self.raises or self.call is not None or bool(self.says) or loops

    @property
    def blocks(self) -> list[list[Step]]:
        return self.control.blocks if self.control is not None else []


@dataclass(slots=True)
class Lowered:
    """A graph as steps over buffers; inputs and outputs in the graph's order."""

    steps: list[Step]
    inputs: list[Buffer]
    outputs: list[Buffer]

    def walk(self) -> Iterator[Step]:
        """All steps, those of blocks included, owners first."""
        return walk(self.steps)

    @property
    def count(self) -> int:
        """The number of steps, without those of branches and loops."""
        return sum(sum(map(len, s.blocks)) if s.is_group else 1 for s in self.steps)


def walk(steps: list[Step]) -> Iterator[Step]:
    """An iterator over all steps, those of blocks included, owners first."""
    for step in steps:
        yield step
        for block in step.blocks:
            yield from walk(block)


def touched(buffer: Buffer) -> Iterator[Buffer]:
    """The buffers with a place of their own that an access to ``buffer`` may touch."""
    buffer = buffer.root
    if buffer.kind == "row":
        assert buffer.base is not None
        yield from touched(buffer.base)
        if buffer.spare is not None:
            yield from touched(buffer.spare)
    elif buffer.kind == "carried":
        for other in buffer.ring:
            assert other.base is not None
            yield from touched(other.base)
    else:
        yield buffer


def step_touches(step: Step) -> dict[Buffer, None]:
    """The buffers that ``step`` itself touches, in order, without those of its blocks."""
    found: dict[Buffer, None] = {}
    for view in step.operands:
        if view.buffer.root.kind in ("row", "carried"):
            found.update(dict.fromkeys(touched(view.buffer)))
        else:
            found[view.buffer.root] = None
    if step.control is not None:
        for buffer in (*step.control.rows, *step.control.carried, *step.control.homes):
            found.update(dict.fromkeys(touched(buffer)))
    return found


_UPDATES = (
    "scatter",
    "scatter_add",
    "scatter_along",
    "scatter_along_add",
)  # may work in place, on their first input


def overwrites(step: Step, output: View, host: Buffer) -> bool:
    """Whether ``step`` may write ``output`` over its operand ``host``.

    The bytes are as many, walked alike, and not read once they are written.
    """
    if step.moves or step.kernel in _UPDATES:
        source = step.inputs[0]
        others = [v for v in step.inputs[1:] if v.buffer.root is host]
        whole = source.dense and host.nbytes == output.buffer.nbytes
        return source.buffer.root is host and whole and not others and _covers(output)
    if not step.ops:
        return False
    own = output.buffer.root is step.outputs[0].buffer.root  # or where the kernel writes first
    read = own or any(v.buffer.root is host for v in step.inputs)
    if step.kernel is not None and read:  # by the kernel whose post-ops these are
        return False
    operands = step.operands
    position = next(i for i, view in enumerate(operands) if view is output)
    written = min(
        (i for i, op in enumerate(step.ops) if position in op.args[-op.n_out :]), default=-1
    )
    if written < 0:  # by the kernel itself, as room
        return False
    ends = len(step.inputs), len(step.inputs) + len(step.outputs)
    places = [
        i
        for i, view in enumerate(operands)
        if view.buffer.root is host and not ends[0] <= i < ends[1]
    ]
    for place in places:
        view = operands[place]
        alike = (
            host.nbytes == output.buffer.nbytes
            and view.dtype.itemsize == output.dtype.itemsize
            and view.dense
            and view.size == output.size
        )
        if not alike:
            return False
    readers = set(places)
    last_read = max((i for i, op in enumerate(step.ops) if readers & set(op.args)), default=-1)
    return bool(places) and last_read <= written and _covers(output)


def _covers(view: View) -> bool:
    """Whether ``view``, which is dense, is of all bytes of its buffer, not of a part of it."""
    return view.type.nbytes == view.buffer.nbytes
