"""Plans: lowered graphs as the flat arrays that C executes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from hybrid.core.dataclass import cached_attribute, dataclass
from hybrid.core.imports import above
from hybrid.core.timing import phase
from hybrid.core.types import TensorType
from hybrid.errors import Location, NativeError, locate
from hybrid.ir import Graph, inlined
from hybrid.memory import native
from hybrid.plan.agreement import Agreement
from hybrid.plan.host import Callbacks, host_function
from hybrid.plan.joined_parts import join_in_place
from hybrid.plan.lower import lower
from hybrid.plan.memory import ALIGNMENT, Placement, place
from hybrid.plan.overlap import overlap
from hybrid.plan.schedule import schedule
from hybrid.plan.steps import Buffer, HostCall, Lowered, Step
from hybrid.plan.transfers import Transfer, Wait


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a plan: nodes, steps, and bytes of scratch."""

    nodes: int  # of the graph, those of regions included
    steps: int  # those of blocks not included, but for members of groups
    arena_nbytes: int  # of scratch, where values that do not live together share their places
    scratch_nbytes: int  # of all these values, each in a place of its own


@dataclass(frozen=True, eq=False)
class Plan:
    """An executable graph; immutable, and safe to run from any number of threads.

    A run takes one array of pointers: the outputs, then the inputs.
    """

    handle: Any  # hyb_plan *
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    donations: dict[int, int]  # output -> the input whose bytes it may overwrite
    # Outputs that are written before a step that may fail: it would leave what they replace spoilt.
    exposed: frozenset[int]
    sizes: Sizes
    origin: Callable[[], tuple[Graph, Lowered, Placement]]  # what it was made of, or would be
    callbacks: Callbacks | None = None  # of all its runs; None: it calls no Python
    # The layouts of a graph whose tensors ranks share, for people; empty without such.
    layouts: str = ""
    # The arrays that C was given, where they are not those of the steps of its origin.
    written: Callable[[], native.PlanArrays] | None = None

    @property
    def calls_python(self) -> bool:
        return self.callbacks is not None

    @cached_attribute
    def _made_of(self) -> tuple[Graph, Lowered, Placement]:
        return self.origin()

    @property
    def graph(self) -> Graph:
        return self._made_of[0]

    @property
    def lowered(self) -> Lowered:
        return self._made_of[1]

    @property
    def placement(self) -> Placement:
        return self._made_of[2]

    @cached_attribute
    def steps(self) -> tuple[Step, ...]:
        """In the order of their numbers, those of blocks included."""
        return tuple([step for block in StepWriter(*self._made_of[1:]).blocks for step in block])

    @property
    def arena_nbytes(self) -> int:
        return self.sizes.arena_nbytes

    def arrays(self) -> native.PlanArrays | None:
        """The arrays that C was given; None if it calls functions of this process."""
        if self.written is not None:
            return None if self.calls_python else self.written()
        writer = StepWriter(*self._made_of[1:])
        writer.native.finish(*writer.write())
        return None if writer.native.hosts else writer.native.arrays

    def schedule(self) -> str:
        """The steps in the order in which they run, what each waits for, and its wave.

        Members of a group run side by side, each on one thread or, if it is a single step that is
        cut up, on several.
        """
        numbers = {step: at for at, step in enumerate(self.steps)}
        return above.schedule_text(self.graph.name, self.lowered.steps, numbers)

    def location_of_failure(self) -> Location | None:
        """Where the author wrote the step at which this thread's last run failed."""
        step = native.failed_step()
        return self.steps[step].location if 0 <= step < len(self.steps) else None

    def run(self, pointers: Any) -> None:
        """Run once; an error carries the author's line."""
        status = native.run_plan(self.handle, pointers)
        if status:
            self.fail(status)

    def fail(self, status: int, *, elsewhere: bool = False) -> None:
        """Raise what ``status`` stands for, with the author's line.

        What Python code raised while the plan ran is raised as it is.  What the run has begun
        outside is ended.  It was a run of this thread, or ``elsewhere``.
        """
        if elsewhere and self.callbacks is not None and status in native.RAISED_BY_PYTHON:
            error, self.callbacks.raised = self.callbacks.raised, None
            if error is not None:
                raise error
        for step in self.steps:
            release = None if step.call is None else getattr(step.call.function, "release", None)
            if release is not None:
                release()
        try:
            native.check(status)
        except Exception as error:
            if status not in native.RAISED_BY_PYTHON:
                locate(error, self.location_of_failure())
            raise


def make_plan(
    graph: Graph,
    *,
    parallel: bool = True,
    output_types: tuple[TensorType, ...] | None = None,
    layouts: str = "",
) -> Plan:
    """Lower ``graph``, schedule its steps, place its buffers, and build the C plan.

    Without ``parallel`` all steps run one after the other.  Ranks that share tensors give their
    ``output_types``, with layouts, and a text about these.
    """
    lowered, placement = lowered_of(graph, parallel)
    with phase("write"):
        writer = StepWriter(lowered, placement)
        handle = writer.build()
    sizes = Sizes(
        sum([1 for _ in graph.walk()]),
        lowered.count,
        placement.arena_nbytes,
        placement.scratch_nbytes,
    )
    plan = Plan(
        handle=handle,
        input_types=tuple([v.type for v in graph.params]),
        output_types=output_types or tuple([v.type for v in graph.results]),
        donations=placement.donations,
        exposed=placement.exposed,
        sizes=sizes,
        origin=lambda: (graph, lowered, placement),
        callbacks=writer.callbacks if writer.native.hosts else None,
        layouts=layouts,
    )
    return known(plan)


def lowered_of(graph: Graph, parallel: bool = True) -> tuple[Lowered, Placement]:
    """``graph`` as steps in the order in which they run, and where their values lie."""
    with phase("lower"):
        lowered = lower(inlined(graph))
    with phase("schedule"):
        if parallel:
            overlap(lowered)
        join_in_place(lowered)
        if parallel:
            schedule(lowered)
    with phase("place"):
        return lowered, place(lowered)


def lowered_again(graph: Graph) -> tuple[Graph, Lowered, Placement]:
    """The lowered graph and its placement, again: lowering gives the same each time."""
    return graph, *lowered_of(graph)


def known(plan: Plan) -> Plan:
    """``plan``, registered for profiles."""
    number = native.plan_number(plan.handle)
    _plans[number] = plan
    for look in _told:
        look(number, plan)
    return plan


_plans: WeakValueDictionary[int, Plan] = WeakValueDictionary()
_told: list[Callable[[int, Plan], None]] = []


def on_new_plans(look: Callable[[int, Plan], None] | None) -> None:
    """Call ``look`` with the number of each plan that is made, and the plan; None: no more."""
    _told[:] = [] if look is None else [look]


def all_plans() -> dict[int, Plan]:
    """All plans there are, by their number in the events of profiles."""
    return dict(_plans.items())  # which leaves out those that go meanwhile


@dataclass(frozen=True, slots=True)
class OpenOffset:
    """Where a place of the arena, or a constant that depends on sizes, lies: known when bound."""

    of: str  # "place", "constant"
    number: int


class StepWriter:
    """Numbers steps and blocks, and writes the arrays of a plan."""

    def __init__(
        self, lowered: Lowered, placement: Placement, writer: native.PlanWriter | None = None
    ) -> None:
        self.lowered, self.placement = lowered, placement
        self.native = writer or native.PlanWriter()
        self.callbacks = Callbacks()
        self.calls: list[HostCall] = []  # into Python, by their numbers
        self.slots: dict[Buffer, int] = {}
        self.constants = bytearray()
        self.open_constants: list[Buffer] = []  # which depend on sizes
        self.blocks = [lowered.steps]  # block 0, then those that steps own, outer ones first
        self.block_of: dict[Step, list[int]] = {}
        self.number: dict[Step, int] = {}
        for block in self.blocks:
            for step in block:
                self.number[step] = len(self.number)
                first = len(self.blocks)
                self.blocks.extend(step.blocks)
                self.block_of[step] = list(range(first, len(self.blocks)))

    def build(self) -> Any:
        """The C plan."""
        return self.native.build(*self.write())

    def write(self) -> tuple[bytes, int, int]:
        """Write the arrays: what else C is to know."""
        writer, lowered = self.native, self.lowered
        n_outputs = len(lowered.outputs)
        for buffer in lowered.outputs:
            self.slots[buffer] = writer.slot(native.EXTERNAL, buffer.index, 0, buffer.nbytes)
        for buffer in lowered.inputs:
            index = n_outputs + buffer.index
            self.slots[buffer] = writer.slot(native.EXTERNAL, index, 0, buffer.nbytes)
        for block in self.blocks:
            writer.block(len(block))
            for step in block:
                self._step(step)
        externals = n_outputs + len(lowered.inputs)
        return bytes(self.constants), self.placement.arena_nbytes, externals

    def _slot(self, buffer: Buffer) -> int:
        buffer = buffer.root
        if buffer.kind == "made":
            return native.NOWHERE
        found = self.slots.get(buffer)
        if found is None:
            found = self.slots[buffer] = self._new_slot(buffer)
        return found

    def _new_slot(self, buffer: Buffer) -> int:
        write = self.native.slot
        if buffer.kind == "constant" and type(buffer.data) is not bytes:
            self.open_constants.append(buffer)
            offset: Any = OpenOffset("constant", len(self.open_constants) - 1)
            return write(native.CONSTANT, 0, offset, buffer.nbytes)
        if buffer.kind == "constant":
            self.constants.extend(bytes(-len(self.constants) % ALIGNMENT))
            start = len(self.constants)
            self.constants.extend(buffer.data)
            return write(native.CONSTANT, 0, start, buffer.nbytes)
        if buffer.kind == "arena":
            step = self.placement.last_step[buffer]
            last = -1 if step is None else self.number.get(step, -1)
            place = write(native.ARENA, 0, buffer.offset, buffer.nbytes, last)
            return self._batch_slot(buffer, place) if buffer in self.placement.batches else place
        assert buffer.base is not None and buffer.loop is not None
        base, loop = self._slot(buffer.base), self.number[buffer.loop]
        if buffer.kind == "carried":
            return write(native.CARRIED, 0, 0, buffer.nbytes, -1, loop, base)
        spare = -1 if buffer.spare is None else self._slot(buffer.spare)
        return write(
            native.ROW, 0, buffer.start, buffer.nbytes, -1, loop, base, spare, buffer.stride,
            buffer.count,
        )  # fmt: skip

    def _batch_slot(self, buffer: Buffer, place: int) -> int:
        """A slot that is ``place`` in each iteration, until a queue has lent another place."""
        loop = self.placement.batches[buffer]
        spare = -1 if loop.control is not None and loop.control.kind == "for" else place
        return self.native.slot(
            native.ROW, 0, 0, buffer.nbytes, -1, self.number[loop], place, spare, 0, native.ENDLESS
        )

    def _step(self, step: Step) -> None:
        writer = self.native
        first = writer.n_operands
        for view in step.operands:
            size = view.dtype.itemsize
            writer.operand(
                self._slot(view.buffer),
                view.offset * size if view.size else 0,  # nothing lies anywhere
                view.dtype.code,
                view.shape,
                [stride * size for stride in view.strides],
            )
        first_op = writer.n_ops
        for op in step.ops:
            kernel = _kernel(op.kernel, op.dtype)
            writer.map_op(kernel, len(op.args) - op.n_out, op.n_out, op.attrs, op.args)
        counts, attrs = (len(step.inputs), len(step.outputs), len(step.extra)), step.attrs
        if step.control is not None:
            kind, number = native.CONTROL_STEPS[step.control.kind], self._control(step)
        elif step.call is not None:
            kept = getattr(step.call.function, "asks_queue", None)
            asks = kept is not None and len(step.outputs) <= native.MAX_COLUMNS
            kind, attrs = (native.NEXT_STEP, (kept,)) if asks else (native.HOST_STEP, ())
            if isinstance(step.call.function, (Transfer, Wait, Agreement)):
                kind, attrs = self._transfer(step.call)
            self.calls.append(step.call)
            number = writer.host(host_function(step.call, self.callbacks))
        elif step.says:
            kind, number = native.MESSAGE_STEPS[step.says]
        elif step.kernel is None:
            kind, number = native.MAP_STEP, -1
        else:
            dtype = (step.inputs or step.outputs)[0].dtype
            kind, number = native.KERNEL_STEP, _kernel(step.kernel, dtype)
        writer.step(kind, number, first, counts, attrs, first_op)

    @staticmethod
    def _transfer(call: HostCall) -> tuple[int, tuple[int, ...]]:
        """The kind of a step that moves bytes between processes, and its attributes."""
        transfer = call.function
        channel = transfer.channel_number(call)
        if channel < 0:
            return native.HOST_STEP, ()
        what = native.TRANSFERS[transfer.kind]
        return native.TRANSFER_STEP, (channel, what, int(transfer.root), transfer.place)

    def _control(self, step: Step) -> int:
        control = step.control
        assert control is not None
        if control.kind == "parallel":
            return self.native.members(self.block_of[step])
        for buffer in (*control.rows, *control.carried):
            self._slot(buffer)
        moves = [(self._slot(to), self._slot(source)) for to, source in control.moves]
        return self.native.control(self.block_of[step], moves, control.limit, control.reverse)


def _kernel(name: str, dtype: Any) -> int:
    found = native.find_kernel(name, dtype.code)
    if found < 0:
        raise NativeError(
            f"no kernel {name} for {dtype.name}", fix="convert the operands with astype"
        )
    return found
