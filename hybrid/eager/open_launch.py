"""Open launches: op calls that are remembered for all sizes of their operands.

::

    f32[20,16], f32[12,16]        the first call of matmul_nt: a launch of these types
    f32[21,16], f32[12,16]        the next: one launch for f32[m,k], f32[n,k], all from 2 on
    f32[22,16], f32[12,16]        which serves all that follow

The op is lowered once, with symbols for sizes.  What its rules ask of these is a condition; calls
that do not meet it get a launch of their own.  At each run C fills the sizes in and checks what it
runs.  Types that come again and again get a launch of their own, too, which is found sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.size_conditions import Defined
from hybrid.core.size_functions import SizeValue, code_of
from hybrid.core.sizes import CODE_NAMES, OpenSizes, Size
from hybrid.core.types import TensorType, known_types, tensor_type
from hybrid.eager.launch import launch_of, offset_of, remember
from hybrid.eager.tensor import Tensor
from hybrid.ir import Builder, Op
from hybrid.ir.op import SIZE_ATTRIBUTES
from hybrid.memory import native
from hybrid.memory.open_arrays import RUN_ONCE, packer, run_once
from hybrid.plan.open_plan import OpenPlan

MAX_KINDS = 1024  # of one op
MAX_VARIANTS = 8  # of a kind: sets of sizes at which it is lowered alike
COUNTED = 3  # one of so many calls
MEETINGS = 5  # of types that are counted, before these get a launch of their own
MAX_COUNTED = 2048  # types whose meetings are counted

Variant = Callable[[Sequence[Tensor], Sequence[int]], "tuple[Tensor, ...] | None"]


class Kind:
    """Calls of one op that differ in sizes of 2 and more alone."""

    __slots__ = ("attempts", "calls", "counts", "variants")

    def __init__(self) -> None:
        self.variants: list[Variant] = []
        self.attempts = self.calls = 0
        self.counts: dict[Any, int] = {}  # meetings of types, of which some are counted

    def comes_often(self, types: Any) -> bool:
        """Count a call of ``types``; whether these are to have a launch of their own."""
        counts = self.counts
        met = counts.get(types, 0) + 1
        if len(counts) >= MAX_COUNTED:
            counts.clear()
        counts[types] = met
        return met >= MEETINGS


def run_open(
    op: Op, types: tuple[TensorType, ...], attrs: tuple, operands: Sequence[Tensor]
) -> tuple[Tensor, ...] | None:
    """The results of ``op`` by an open launch; None where the call is to have a launch of its own.

    None is also the answer where the call raises: the general way says why.
    """
    sizes: list[int] = []
    if attrs:
        kind = op.open_launches.get(key_of_call(op, types, attrs, sizes))
    else:
        kind = op.open_launches.get(tuple([t.kind for t in types]))
    if kind is None or native.profiling:  # a profile tells steps apart by their plans
        return None
    kind.calls += 1
    if kind.calls % COUNTED == 0:
        own = (types, attrs) if attrs else types
        if kind.comes_often(own):
            return remember(op, own, launch_of(op, types, attrs)).run(operands)
    for variant in kind.variants:
        results = variant(operands, sizes)
        if results is not None:
            return results
    if kind.attempts >= MAX_VARIANTS:
        return None
    kind.attempts += 1
    made = make_variant(op, types, attrs)
    if made is None:
        return None
    results = made(operands, sizes)
    if results is not None:
        kind.variants.append(made)
    return results


def note_kind(op: Op, types: tuple[TensorType, ...], attrs: tuple) -> None:
    """Let later calls of ``op`` that differ from this one in sizes alone have open launches."""
    if op.opens is None:
        op.opens = opens(op)
    if not op.opens or any([t.kind < 0 for t in types]):
        return
    key = key_of_call(op, types, attrs, [])
    if key not in op.open_launches:
        if len(op.open_launches) >= MAX_KINDS:
            op.open_launches.clear()
        op.open_launches[key] = Kind()


def key_of_call(op: Op, types: Sequence[TensorType], attrs: tuple, sizes: list[int]) -> Any:
    """What calls have in common that differ in sizes alone; those of attributes join ``sizes``."""
    kinds = tuple([t.kind for t in types])
    if not attrs:
        return kinds
    if op.sized:
        attrs = tuple([(name, _pattern(name, value, sizes)) for name, value in attrs])
    return kinds, attrs


def opens(op: Op) -> bool:
    """Whether ``op`` can have open launches: kernels compute it, of what it is given alone.

    The result of ``laid_out`` has another type than it says where ranks share it.
    """
    computed = op.view_rule or op.lowering_rule or op.kernel
    special = op.has_regions or op.hosted or op.inline or op.communicates
    special = special or op.name in ("literal", "laid_out")
    return bool(computed and op.pure and not special)


def _pattern(name: str, value: Any, sizes: list[int]) -> Any:
    """``value`` with 2 for all sizes from 2 on, which are added to ``sizes``."""
    if name not in SIZE_ATTRIBUTES:
        return value
    if type(value) is tuple:
        return tuple([_pattern(name, item, sizes) for item in value])
    if type(value) is int and value >= 2:
        sizes.append(value)
        return 2
    return value


class _Symbols:
    """The symbols of a call: one for each size from 2 on, by its name in the text."""

    def __init__(self) -> None:
        self.sizes = OpenSizes()
        self.names: list[str] = []

    def of(self, value: int) -> Any:
        """A symbol for ``value``."""
        name = f"s{len(self.names)}"
        self.names.append(name)
        return self.sizes.symbol(name, value)

    def type(self, type_: TensorType) -> TensorType:
        return tensor_type(type_.dtype, tuple([self.of(n) if n > 1 else n for n in type_.shape]))

    def attribute(self, name: str, value: Any) -> Any:
        if name not in SIZE_ATTRIBUTES:
            return value
        if type(value) is tuple:
            return tuple([self.attribute(name, item) for item in value])
        return self.of(value) if type(value) is int and value >= 2 else value


def make_variant(op: Op, types: Sequence[TensorType], attrs: tuple) -> Variant | None:
    """The open launch of ``op`` that serves a call of these types; None if there can be none."""
    symbols = _Symbols()
    try:
        opened = tuple([symbols.type(t) for t in types])
        given = len(symbols.names)
        attrs = tuple([(name, symbols.attribute(name, value)) for name, value in attrs])
        builder = Builder(op.name)
        params = [builder.param(t) for t in opened]
        graph = builder.finish(builder.apply(op, params, attrs))
        return _VariantWriter(symbols, opened, given).write(op, graph, attrs)
    except _UNOPENED:
        return None


# What rules raise that take no symbols; the mistakes of a call are raised by the general way.
_UNOPENED = (Exception,)


class _VariantWriter:
    """Writes the function of one variant."""

    def __init__(self, symbols: _Symbols, types: Sequence[TensorType], given: int) -> None:
        self.symbols, self.types = symbols, types
        self.given = symbols.names[given:]  # those of attributes
        self.lines: list[str] = []
        self.local: dict[str, Any] = {
            **CODE_NAMES, "known": known_types, "tensor_type": tensor_type,
            "storage": native.storage, "new": object.__new__, "Tensor": Tensor, "part": native.part,
        }  # fmt: skip

    def write(self, op: Op, graph: Any, attrs: tuple) -> Variant:
        offset = offset_of(op, self.types, attrs)
        results = [v.type for v in graph.results]
        if offset is None:
            plan = OpenPlan(graph, self.symbols.sizes)
            body = self._run(plan, results)
        else:
            body = self._alias(offset, results[0])
        self._unpack()
        self._conditions()  # of all that was asked
        self.lines += body
        text = "def run(operands, given):\n" + "".join([f"    {line}\n" for line in self.lines])
        exec(compile(text, "<open launch>", "exec"), self.local)
        return self.local["run"]

    def _unpack(self) -> None:
        add, names = self.lines.append, iter(self.symbols.names)
        count = len(self.types)
        if count:
            add(f"{', '.join([f'a{i}' for i in range(count)])}, = operands")
        for i, type_ in enumerate(self.types):
            add(f"t{i} = a{i}.type")
            if any(type(n) is Size for n in type_.shape):
                own = [next(names) if type(n) is Size else "_" for n in type_.shape]
                add(f"{', '.join(own)}, = t{i}.shape")
        if self.given:
            add(f"{', '.join(self.given)}, = given")

    def _conditions(self) -> None:
        sizes = self.symbols.sizes
        local = {symbol: symbol.name for symbol in sizes.symbols}
        if any(type(condition) is Defined for condition in sizes.conditions.values()):
            raise TypeError("a function of sizes that may not be defined")
        tests = [c.code(local) for c in sizes.conditions.values()]
        tests += [f"{symbol.name} <= {symbol.high}" for symbol in sizes.symbols]
        if tests:
            self.lines.append(f"if not ({' and '.join(tests)}): return None")

    def _code(self, number: Any) -> str:
        if not isinstance(number, SizeValue):
            return repr(number)
        local = {symbol: symbol.name for symbol in self.symbols.sizes.symbols}
        return str(number) if str(number) in self.symbols.names else code_of(number, local)

    def _type(self, i: int, type_: TensorType) -> list[str]:
        """Lines that give ``k{i}`` the result type ``type_``."""
        same = [j for j, own in enumerate(self.types) if own is type_]
        if same:
            return [f"k{i} = t{same[0]}"]
        if not type_.is_open:
            self.local[f"K{i}"] = type_
            return [f"k{i} = K{i}"]
        self.local[f"D{i}"] = type_.dtype
        shape = "".join([f"{self._code(n)}, " for n in type_.shape])
        return [
            f"shape = ({shape})",
            f"k{i} = known.get((D{i}, shape))",
            f"if k{i} is None or (k{i} := k{i}()) is None: k{i} = tensor_type(D{i}, shape)",
        ]

    def _results(self, count: int) -> list[str]:
        lines = []
        for i in range(count):
            lines += [
                f"r{i} = new(Tensor)",
                f"r{i}.type = k{i}; r{i}.content = d{i}; r{i}.record = None",
            ]
        return [*lines, f"return ({''.join([f'r{i}, ' for i in range(count)])})"]

    def _run(self, plan: OpenPlan, results: Sequence[TensorType]) -> list[str]:
        if not plan.runs_anywhere:
            raise TypeError("a plan that needs more than sizes")
        form = plan.native_form
        self.local.update(handle=form.handle, plan=plan, pack=packer(len(self.symbols.names)))
        lines = []
        for i, type_ in enumerate(results):
            lines += [
                *self._type(i, type_),
                f"make, ctype = storage(k{i}.nbytes)",
                f"d{i} = make(ctype)",
            ]
        count = len(self.types)
        datas = [f"d{i}" for i in range(len(results))] + [f"a{i}.content" for i in range(count)]
        packed = f"pack({', '.join(self.symbols.names)})"
        if len(results) == 1 and count < len(RUN_ONCE):
            self.local["run_once"] = RUN_ONCE[count]
            lines.append(f"if run_once(handle, {packed}, {', '.join(datas)}): return None")
        else:
            array = native.pointer_array(len(datas))
            self.local.update(run_once=run_once, array=array, pointers=native.new)
            values = f"pointers(array, [{', '.join(datas)}])"
            lines.append(f"if run_once(handle, {packed}, {values}): return None")
        return [*lines, *self._results(len(results))]

    def _alias(self, offset: Any, type_: TensorType) -> list[str]:
        lines = self._type(0, type_)
        if offset == 0 and 2 * type_.nbytes >= self.types[0].nbytes:
            lines.append("d0 = a0.content")
        else:
            lines.append(f"d0 = part(a0.content, {self._code(offset)}, k0.nbytes)")
        return [*lines, *self._results(1)]
