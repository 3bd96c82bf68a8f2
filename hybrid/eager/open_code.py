"""Code of open calls: Python functions that call ops one by one, at the sizes of their operands.

::

    def run(operands, given):              matmul_nt, then add, for f32[s0,s1], f32[s2,s1], f32[s2]
        a0, a1, a2, = operands
        t0 = a0.type
        s0, s1, = t0.shape
        ...
        if not (s1 == s3 and s2 == s4): return None
        packed = pack(s0, s1, s2, s3, s4)
        ...                                 the type of the result, and memory for it
        if run2(h0, packed, d0, a0.content, a1.content): return None

Each op is lowered once, with a symbol for each size from 2 on.  What its rules ask of these is a
condition, and at each run C fills the sizes in and checks what it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid.core.size_conditions import Defined
from hybrid.core.size_functions import SizeValue, code_of, value_here
from hybrid.core.sizes import CODE_NAMES, HIGHEST, OpenSizes, Size
from hybrid.core.types import DType, TensorType, known_types, new_type, tensor_type, type_of_kind
from hybrid.eager.launch import offset_of
from hybrid.eager.tensor import Tensor
from hybrid.ir import Builder, Op
from hybrid.ir.op import SIZE_ATTRIBUTES, has_size
from hybrid.ir.record import RECORD_NAMES, record_code, saved_of_many
from hybrid.memory import native
from hybrid.memory.open_arrays import RUN_ONCE, packer, run_once
from hybrid.plan.open_plan import OpenPlan

# A function of operands and of the sizes among attributes: the results, or None where it does not
# serve the call.
Run = Callable[[Sequence[Tensor], Sequence[int]], Any]


def is_open_size(value: Any) -> bool:
    """Whether the size ``value`` gets a symbol, as those of types of one ``kind`` do."""
    return type(value) is int and 2 <= value <= HIGHEST


class OpenCode:
    """The lines of one such function, in the order in which it is written."""

    def __init__(self, types: Sequence[TensorType]) -> None:
        self.sizes = OpenSizes()
        self.names: list[str] = []  # of the symbols
        self.given: list[str] = []  # of those among attributes
        self.head: list[str] = []
        self.body: list[str] = []
        self.packs = False
        self.count = 0  # of what has a number in the code
        self.known: dict[TensorType, str] = {}  # the names of types in the code
        self.local: dict[str, Any] = {
            **CODE_NAMES, "known": known_types, "new_type": new_type, "type_of_kind": type_of_kind,
            "storage": native.storage, "Tensor": Tensor, "part": native.part,
            **RECORD_NAMES, "pointers": native.new, "run_once": run_once,
        }  # fmt: skip
        self.types = self._unpack(types)  # with symbols

    def _symbol(self, value: int) -> Any:
        name = f"s{len(self.names)}"
        self.names.append(name)
        return self.sizes.symbol(name, value)

    def _unpack(self, types: Sequence[TensorType]) -> list[TensorType]:
        """Symbols for the sizes of the operands; those of one type have the same ones."""
        add, opened = self.head.append, dict[TensorType, tuple[str, TensorType]]()
        if types:
            add(f"{''.join([f'a{i}, ' for i in range(len(types))])}= operands")
        made = []
        for i, type_ in enumerate(types):
            name, own = opened.get(type_, ("", type_))
            if name:
                add(f"if a{i}.type is not {name}: return None")
            else:
                name, shape = f"t{i}", []
                add(f"{name} = a{i}.type")
                if any(map(is_open_size, type_.shape)):
                    shape = [self._symbol(n) if is_open_size(n) else n for n in type_.shape]
                    names = [str(n) if type(n) is Size else "_" for n in shape]
                    add(f"{''.join([f'{n}, ' for n in names])}= {name}.shape")
                    own = tensor_type(type_.dtype, tuple(shape))
                opened[type_] = name, own
                self.known[own] = name
            made.append(own)
        return made

    def attribute(self, name: str, value: Any) -> Any:
        """``value`` with symbols for sizes, which the function is given."""
        if name not in SIZE_ATTRIBUTES:
            return value
        if type(value) is tuple:
            return tuple([self.attribute(name, item) for item in value])
        if not is_open_size(value):
            return value
        made = self._symbol(value)
        self.given.append(self.names[-1])
        return made

    def call(
        self, op: Op, operands: Sequence[str], types: Sequence[TensorType], attrs: tuple
    ) -> dict[str, TensorType]:
        """Write a call of ``op``; returns the types of its results, by their names."""
        builder = Builder(op.name)
        params = [builder.param(t) for t in types]
        graph = builder.finish(builder.apply(op, params, attrs))
        offset = offset_of(op, types, attrs)
        names = [self._number("r") for _ in graph.results]
        results = [self._type(v.type) for v in graph.results]
        if offset is None:
            datas = self._run(OpenPlan(graph, self.sizes), results, operands)
        else:
            datas = [self._alias(offset, results[0], types[0], operands[0])]
        for name, (type_, _), data in zip(names, results, datas, strict=True):
            self.body += [
                f"{name} = new(Tensor)",
                f"{name}.type = {type_}; {name}.content = {data}; {name}.record = None",
            ]
        return dict(zip(names, [type_ for _, type_ in results], strict=True))

    def record(
        self, op: Op, operands: Sequence[str], attrs: tuple, results: Mapping[str, TensorType]
    ) -> None:
        """Write that the call is recorded, where one of ``operands`` has a history."""
        if not operands or not (op.differentiable or op.record_of is not None):
            return
        if has_size(tuple([value for _, value in attrs])):
            named = ", ".join([f"{name!r}: {self._value(value)}" for name, value in attrs])
            named = f"{{{named}}}"
        else:
            named = self.constant(dict(attrs))
        self.body.append(f"op, attrs = {self.constant(op)}, {named}")
        listed = [f"({''.join([f'{n}, ' for n in names])})" for names in (operands, results)]
        saves = saved_of_many(op.saved, len(operands)) if op.variadic else op.saved
        tests = [f"{name}.record is not None" for name in dict.fromkeys(operands)]
        self.body += [
            f"if {' or '.join(tests)}:",
            "    if not mode.enabled or mode.keep_operands or not op.differentiable:",
            f"        record_call(op, {listed[0]}, attrs, {listed[1]})",
            "    else:",
            *[f"        {line}" for line in record_code(saves, operands, [*results])],
        ]

    def constant(self, value: Any) -> str:
        """The name of ``value`` in the code."""
        name = self._number("c")
        self.local[name] = value
        return name

    def number(self, value: Any, dtype: DType, eager: Any) -> str:
        """The name of the tensor that ``eager`` makes of a number of sizes."""
        name = self._number("r")
        lift = self.constant(eager.lift)
        self.body.append(f"{name} = {lift}({self._value(value)}, {self.constant(dtype)})")
        return name

    def finish(self, result: str) -> Run:
        """The function, which returns what ``result`` says; raises TypeError if there is none."""
        lines = list(self.head)
        if self.given:
            lines.append(f"{''.join([f'{n}, ' for n in self.given])}= given")
        local = self._local()
        conditions = self.sizes.conditions.values()  # of all that was asked
        if any(type(condition) is Defined for condition in conditions):
            raise TypeError("a function of sizes that may not be defined")
        if tests := [condition.code(local) for condition in conditions]:
            lines.append(f"if not ({' and '.join(tests)}): return None")
        if self.packs:
            self.local["pack"] = packer(len(self.names))
            lines.append(f"packed = pack({', '.join(self.names)})")
        lines += [*self.body, f"return {result}"]
        text = "def run(operands, given=()):\n" + "".join([f"    {line}\n" for line in lines])
        exec(compile(text, "<open call>", "exec"), self.local)
        return self.local["run"]

    def _number(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _local(self) -> dict[Any, str]:
        return {symbol: symbol.name for symbol in self.sizes.symbols}

    def _value(self, value: Any) -> str:
        """An expression of the value of an attribute, or of a number."""
        if type(value) is tuple:
            return f"({''.join([f'{self._value(item)}, ' for item in value])})"
        if isinstance(value, SizeValue):
            return code_of(value, self._local())
        return repr(value) if type(value) is int else self.constant(value)

    def _type(self, type_: TensorType) -> tuple[str, TensorType]:
        """The name of a result's type in the code, and that type."""
        name = self.known.get(type_)
        if name is None:
            name = self.known[type_] = self._number("k")
            if type_.is_open:
                dtype = self.constant(type_.dtype)
                self.body += [
                    f"shape = {self._value(type_.shape)}",
                    f"{name} = known.get(({dtype}, shape))",
                    f"if {name} is None or ({name} := {name}()) is None:",
                    f"    {name} = {self._new(dtype, type_)}",
                ]
            else:
                self.local[name] = type_
        return name, type_

    def _new(self, dtype: str, type_: TensorType) -> str:
        """An expression of a type that is none of those known, of the sizes in ``shape``."""
        shape = type_.shape
        if not all([type(n) is int or str(n) in self.names for n in shape]):
            return f"new_type({dtype}, shape)"
        here = tensor_type(type_.dtype, tuple([value_here(n) for n in shape]))
        return f"type_of_kind({dtype}, shape, {here.kind})"

    def _memory(self, name: str, type_: TensorType) -> str:
        """The name of new memory for a tensor of that type."""
        data = self._number("d")
        if type_.is_open:
            self.body += [f"make, ctype = storage({name}.nbytes)", f"{data} = make(ctype)"]
        else:
            make, ctype = map(self.constant, native.storage(type_.nbytes))
            self.body.append(f"{data} = {make}({ctype})")
        return data

    def _run(
        self, plan: OpenPlan, results: Sequence[tuple[str, TensorType]], operands: Sequence[str]
    ) -> list[str]:
        if not plan.runs_anywhere:
            raise TypeError("a plan that needs more than sizes")
        self.packs = True
        self.constant(plan)  # it keeps what the handle is of
        handle = self.constant(plan.native_form.handle)
        made = [self._memory(*result) for result in results]
        datas = ", ".join([*made, *[f"{name}.content" for name in operands]])
        if len(made) == 1 and len(operands) < len(RUN_ONCE):
            run = self.constant(RUN_ONCE[len(operands)])
            self.body.append(f"if {run}({handle}, packed, {datas}): return None")
        else:
            array = self.constant(native.pointer_array(len(made) + len(operands)))
            datas = f"pointers({array}, [{datas}])"
            self.body.append(f"if run_once({handle}, packed, {datas}): return None")
        return made

    def _alias(
        self, offset: Any, result: tuple[str, TensorType], whole: TensorType, operand: str
    ) -> str:
        """The name of memory that is the operand's, from an offset on."""
        name, type_ = result
        data, of = self._number("d"), f"{operand}.content"
        if offset != 0 or 2 * type_.nbytes < whole.nbytes:
            of = f"part({of}, {self._value(offset)}, {name}.nbytes)"
        self.body.append(f"{data} = {of}")
        return data
