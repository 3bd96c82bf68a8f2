"""Plans of open graphs: lowered once for many sizes, and bound to each of them.

::

    graph @f<n = 37>(%x: f32[n,4]) ...        slots     output 0, 16*n bytes
                                        ->    operands  f32[n,4], strides (16, 4)
                                              arena     the places of 16*n and 4*n bytes

Which steps there are, and which kernels they run, is decided once: what lowering asks of a size is
a condition of the sizes of the graph, as what was asked before.  The arrays of a plan are written
once, too.  Where they depend on sizes they hold formulas; to bind a plan is to evaluate these, to
lay out the arena, and to let C check what came out, as it checks every plan.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hybrid.core.dataclass import cached_attribute, replace
from hybrid.core.size_functions import SizeValue, value_here
from hybrid.core.sizes import OpenSizes, Size
from hybrid.core.timing import phase
from hybrid.errors import ShapeError
from hybrid.ir import Graph
from hybrid.ir.bound_graphs import SizeBinding, TypesAt
from hybrid.memory import native
from hybrid.memory.native import PlanArrays
from hybrid.memory.open_arrays import OpenSpec, OpenWord, arena_nbytes, bind_open, make_open, packer
from hybrid.plan.agreement import Agreement, at_sizes
from hybrid.plan.formulas import FormulaWriter, Unknown
from hybrid.plan.host import Callbacks, host_function
from hybrid.plan.lower import HostedOp, element
from hybrid.plan.memory import ALIGNMENT, COMPARED, Layout
from hybrid.plan.plan import OpenOffset, Plan, Sizes, StepWriter, known, lowered_of
from hybrid.plan.steps import HostCall
from hybrid.plan.transfers import Transfer

LARGEST = 2**62  # of the numbers in a plan: sums of a few stay within 64 bits


class OpenArrays(NamedTuple):
    """The arrays of an open plan with 0 where they depend on sizes, and what belongs there."""

    arrays: PlanArrays
    words: list[tuple[str, int, Any]]  # an array, a word of it, a SizeValue or OpenOffset
    layout: Layout  # of the arena
    constants: list[Any]  # the data of those that depend on sizes, behind the others


class OpenPlan:
    """The plan of an open graph, up to the values of its symbols."""

    def __init__(self, graph: Graph, sizes: OpenSizes) -> None:
        """Lower ``graph`` at the sizes at hand; conditions are added to ``sizes``."""
        self.graph, self.sizes = graph, sizes
        self.lowered, self.placement = lowered_of(graph)
        assert self.placement.layout is not None
        self._layout = self.placement.layout
        for buffer, place in self._layout.number.items():
            buffer.offset = OpenOffset("place", place)
        with phase("write"):
            formulas = _FormulaWriter()
            writer = StepWriter(self.lowered, self.placement, formulas)
            self._constants, _, self._n_externals = writer.write()
        self.steps = [step for block in writer.blocks for step in block]
        self._calls, self._open_constants = writer.calls, writer.open_constants
        self._rows = {name: bytes(rows) for name, rows in formulas.arrays.rows.items()}
        self._notes = formulas.notes
        self._numbers = _Numbers(sizes, self._layout, [number for *_, number in formulas.notes])
        self._fills = formulas.fills(self._numbers)
        self._scratch = sizes.evaluator([self.placement.scratch_nbytes])
        self._counts = sum([1 for _ in graph.walk()]), self.lowered.count

    def bound(self, values: Sequence[int]) -> Plan:
        """The plan at ``values`` of the symbols, which meet the conditions of ``sizes``.

        ShapeError where a value would have more bytes than there can be.
        """
        binding = SizeBinding(self.sizes, values)
        types = self._types.at(values)
        n = len(self.graph.results)
        callbacks = Callbacks()
        hosts = [host_function(_at(call, binding), callbacks) for call in self._calls]
        handle = self._handle(binding, hosts)
        native.share_arena(handle)
        [scratch_nbytes] = self._scratch(*values)
        return known(
            Plan(
                handle=handle,
                input_types=types[n:],
                output_types=types[:n],
                donations=self.placement.donations,
                exposed=self.placement.exposed,
                sizes=Sizes(*self._counts, arena_nbytes(handle), scratch_nbytes),
                origin=lambda: (binding.graph(self.graph), self.lowered, self.placement),
                callbacks=callbacks if hosts else None,
                written=lambda: self._arrays(binding),
            )
        )

    def _handle(self, binding: SizeBinding, hosts: Sequence[Any]) -> Any:
        """The C plan at the values of ``binding``."""
        form, constants, starts = self.native_form, None, list[int]()
        if self._open_constants:
            constants, starts = self._all_constants(binding)
        if form.handle is not None:
            plan = bind_open(form.handle, form.symbols(binding.values), starts, constants, hosts)
            if plan is not None:
                return plan
        return native.make_plan(self._arrays(binding), hosts)  # or what is wrong, by its name

    @property
    def runs_anywhere(self) -> bool:
        """Whether it takes nothing but sizes: it calls no function of this process."""
        return self.native_form.takes_sizes and not (self._calls or self._open_constants)

    @cached_attribute
    def _types(self) -> TypesAt:
        """The types of the results and parameters."""
        return TypesAt(self.sizes, [v.type for v in (*self.graph.results, *self.graph.params)])

    @cached_attribute
    def native_form(self) -> NativeForm:
        """The plan as C has it for all sizes."""
        return NativeForm.of(self)

    def open_arrays(self) -> OpenArrays | None:
        """The arrays for all sizes; None if it calls functions of this process."""
        if self._calls:
            return None
        arrays = PlanArrays()
        arrays.rows, arrays.constants = dict(self._rows), bytes(self._constants)
        arrays.n_externals = self._n_externals
        found = []
        for name, words, which in self._fills:
            rows = np.frombuffer(bytearray(self._rows[name]), np.int64)
            rows[words] = 0
            arrays.rows[name] = rows.tobytes()
            numbers = self._numbers.numbers(which)
            found += [(name, int(word), n) for word, n in zip(words, numbers, strict=True)]
        constants = [buffer.data for buffer in self._open_constants]
        return OpenArrays(arrays, found, self._layout, constants)

    def _arrays(self, binding: SizeBinding) -> PlanArrays:
        """The arrays at the values of ``binding``."""
        numbers, arena_nbytes = self._numbers.at(binding.values)
        constants, starts = self._all_constants(binding)
        numbers = np.concatenate((numbers, np.array(starts, np.int64)))
        arrays = PlanArrays()
        arrays.rows = dict(self._rows)
        for name, words, which in self._fills:
            rows = np.frombuffer(bytearray(self._rows[name]), np.int64)
            rows[words] = numbers[which]
            arrays.rows[name] = rows
        arrays.constants, arrays.n_externals = constants, self._n_externals
        arrays.arena_nbytes = arena_nbytes
        return arrays

    def _all_constants(self, binding: SizeBinding) -> tuple[bytes, list[int]]:
        """The constants, and where those begin that depend on sizes."""
        constants, starts = bytearray(self._constants), []
        for buffer in self._open_constants:
            constants.extend(bytes(-len(constants) % ALIGNMENT))
            starts.append(len(constants))
            constants.extend(_constant(buffer.data, binding))
        return bytes(constants), starts


class NativeForm(NamedTuple):
    """An open plan as C has it."""

    handle: Any  # hyb_open_plan *; None: its arena is too large to be laid out by C
    symbols: Callable[[Sequence[int]], bytes]  # the values of symbols as C takes them
    takes_sizes: bool  # as they are, and no more

    @classmethod
    def of(cls, plan: OpenPlan) -> NativeForm:
        """That of ``plan``; C evaluates the formulas where it knows all their functions."""
        layout, numbers = plan._layout, plan._numbers
        if len(layout.sizes) > COMPARED:
            return cls(None, bytes, False)
        names = [symbol.name for symbol in plan.sizes.symbols]
        writer = FormulaWriter(names)
        known = True
        try:
            places = [writer.number(formula) for formula in numbers.formulas]
            n_symbols, rows = len(names), writer.rows
        except Unknown:  # then the values of all formulas come in place of those of symbols
            places, rows, known = list(range(len(numbers.formulas))), [], False
            n_symbols = len(places)
        pack = packer(n_symbols)

        def symbols(values: Sequence[int]) -> bytes:
            return pack(*(values if known else numbers.evaluate(values)))

        n_first = n_symbols + len(rows)

        def number(found: Any) -> int:
            if isinstance(found, SizeValue):
                return places[numbers.index(found)]
            before = 0 if found.of == "place" else len(layout.sizes)
            return n_first + before + found.number

        arrays = PlanArrays()
        arrays.rows, arrays.constants = plan._rows, plan._constants
        arrays.n_externals, arrays.arena_nbytes = plan._n_externals, plan.placement.arena_nbytes
        words = [
            OpenWord(name, at // 8, number(n), not isinstance(value_here(n), float))
            for name, at, n in plan._notes
        ]
        spec = OpenSpec(
            arrays=arrays,
            formulas=rows,
            n_symbols=n_symbols,
            n_given=len(plan._open_constants),
            places=layout.rows_at([value_here(size) for size in layout.sizes]),
            place_numbers=[
                places[numbers.index(size)] if isinstance(size, SizeValue) else -1
                for size in layout.sizes
            ],
            words=words,
        )
        return cls(make_open(spec), symbols, known)


def _at(call: HostCall, binding: SizeBinding) -> HostCall:
    """``call`` with its types, and the attributes of an op, bound."""
    function = call.function
    if type(function) is HostedOp:
        attributes = {name: binding.attribute(v) for name, v in function.attributes.items()}
        entry = function.entry and at_sizes(function.entry, binding.type)
        function = replace(function, attributes=attributes, entry=entry)
    elif type(function) is Transfer:
        function = replace(function, call=at_sizes(function.call, binding.type))
    elif type(function) is Agreement:
        function = function.bound(binding.type)
    return replace(
        call,
        function=function,
        inputs=tuple(map(binding.type, call.inputs)),
        outputs=tuple(map(binding.type, call.outputs)),
    )


def _constant(data: Any, binding: SizeBinding) -> bytes:
    if type(data) is tuple:
        return element(data[0], binding.attribute(data[1]))
    return binding.attribute(data)


def _bits(number: float) -> int:
    return struct.unpack("=q", struct.pack("=d", number))[0]


class _Numbers:
    """The numbers of a plan that depend on sizes: those of formulas, then offsets of places.

    Floats are the integers of their bits.
    """

    def __init__(self, sizes: OpenSizes, layout: Layout, noted: Sequence[Any]) -> None:
        self._layout = layout
        open_places = [at for at, size in enumerate(layout.sizes) if type(size) is Size]
        needed = [n for n in (*noted, *layout.sizes) if isinstance(n, SizeValue)]
        self._index = {formula: at for at, formula in enumerate(dict.fromkeys(needed))}
        self._evaluate = sizes.evaluator(list(self._index))
        self._sizes = np.array([value_here(size) for size in layout.sizes], np.int64)
        self._open = np.array(open_places, np.int64)
        self._open_sizes = np.array([self._index[layout.sizes[at]] for at in open_places], np.int64)

    def index(self, number: Any) -> int:
        """Where ``number`` is among them."""
        if isinstance(number, SizeValue):
            return self._index[number]
        before = 0 if number.of == "place" else len(self._sizes)
        return len(self._index) + before + number.number

    def numbers(self, which: Sequence[int]) -> list[Any]:
        """Of which ``index`` gives these."""
        formulas, places = [*self._index], len(self._index) + len(self._sizes)
        return [
            formulas[at]
            if at < len(formulas)
            else OpenOffset("place", int(at) - len(formulas))
            if at < places
            else OpenOffset("constant", int(at) - places)
            for at in which
        ]

    @property
    def formulas(self) -> list[Any]:
        return [*self._index]

    def evaluate(self, values: Sequence[int]) -> list[int]:
        """What the formulas give at ``values`` of the symbols."""
        found = self._evaluate(*values)
        if max([n for n in found if type(n) is int], default=0) > LARGEST:
            raise ShapeError(f"a plan needs more than {LARGEST} bytes at once")
        return [_bits(n) if type(n) is float else n for n in found]

    def at(self, values: Sequence[int]) -> tuple[np.ndarray, int]:
        """All numbers at ``values`` of the symbols, and the bytes of the arena."""
        numbers = np.array(self.evaluate(values), np.int64)
        sizes = self._sizes.copy()
        sizes[self._open] = numbers[self._open_sizes]
        offsets, nbytes = self._layout.lay_out(sizes)
        return np.concatenate((numbers, offsets)), nbytes


class _FormulaWriter(native.PlanWriter):
    """A writer of plan arrays that notes where they depend on sizes: (array, byte, number)."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[tuple[str, int, Any]] = []

    def fills(self, numbers: _Numbers) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """For each array the words that depend on sizes, and which numbers they are."""
        found = []
        for name in self.arrays.rows:
            mine = [(at // 8, numbers.index(n)) for row, at, n in self.notes if row == name]
            if mine:
                words, which = np.array(mine, np.int64).T
                found.append((name, words.copy(), which.copy()))
        return found

    def _noted(self, name: str, first: int, values: Sequence[Any]) -> list[Any]:
        """``values`` as they are at the sizes at hand; from byte ``first`` of a new row on."""
        start = len(self.arrays.rows[name]) + first
        found = []
        for i, value in enumerate(values):
            if isinstance(value, (SizeValue, OpenOffset)):
                self.notes.append((name, start + 8 * i, value))
                value = 0 if isinstance(value, OpenOffset) else value.value
            found.append(value)
        return found

    def slot(
        self,
        kind: int,
        index: int,
        offset: Any,
        nbytes: Any,
        last_step: int = -1,
        loop: int = 0,
        base: int = 0,
        spare: int = -1,
        stride: Any = 0,
        count: Any = 0,
    ) -> int:
        offset, nbytes = self._noted("slots", 8, (offset, nbytes))
        stride, count = self._noted("slots", 40, (stride, count))
        return super().slot(
            kind, index, offset, nbytes, last_step, loop, base, spare, stride, count
        )

    def operand(
        self, slot: int, offset: Any, dtype: int, shape: Sequence[Any], strides: Sequence[Any]
    ) -> None:
        [offset] = self._noted("operands", 8, (offset,))
        shape = self._noted("operands", 24, shape)
        strides = self._noted("operands", 24 + 8 * native.MAX_RANK, strides)
        super().operand(slot, offset, dtype, shape, strides)

    def attributes(self, values: Sequence[Any]) -> int:
        return super().attributes(self._noted("attrs", 0, values))

    def control(
        self, blocks: Sequence[int], moves: Sequence[tuple[int, int]], limit: Any, reverse: bool
    ) -> int:
        [limit] = self._noted("controls", 16, (limit,))
        return super().control(blocks, moves, limit, reverse)
