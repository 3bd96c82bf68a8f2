"""Cells of a program: tensors from outside that its functions read and write, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.eager.tensor import Tensor, refused_part
from hybrid.memory import native
from hybrid.nn import Module
from hybrid.optim.optimizer import Optimizer, named_state
from hybrid.programs.records import CellRecord, FileType, Role
from hybrid.random import default_generator
from hybrid.trace.guards.reads import Reads
from hybrid.trace.places.address import Address


class ProgramCells:
    """The cells that the functions of one program share, found by identity.

    A tensor of a model is called as in ``state_dict``; what optimizers keep ``optimizer/adam/...``,
    the default generator ``random/default``.  Others have the names that the author gives them.
    """

    def __init__(self) -> None:
        self.records: list[CellRecord] = []
        self._number: dict[Any, int] = {}
        self._names: dict[int, list[tuple[str, Role]]] = {}  # of tensors, by their ids
        self._keep: list[Any] = []
        self._used: set[str] = set()
        self._looked: set[int] = set()  # modules
        self._models = 0
        self._optimizers: dict[str, int] = {}  # how many of each kind
        self._name(default_generator().state, "random/default", Role.RANDOM)

    def look(self, reads: Reads, values: Sequence[Any]) -> None:
        """Take the names of what a function reads from modules and optimizers."""
        owners = [value for value in (*values, *reads.objects.values())]
        modules = [owner for owner in owners if isinstance(owner, Module)]
        inner = {
            id(part)
            for module in modules
            for _, part in module.named_modules()
            if part is not module
        }
        outer = [
            module
            for module in dict.fromkeys(modules)
            if id(module) not in inner | self._looked and any(True for _ in _tensors(module))
        ]
        self._looked |= {id(module) for module in outer}
        for module in outer:
            self._models += 1
            prefix = "" if self._models == 1 else f"model{self._models}."
            for name, tensor, role in _tensors(module):
                self._name(tensor, prefix + name, role)
        optimizers = dict.fromkeys([owner for owner in owners if isinstance(owner, Optimizer)])
        for optimizer in optimizers:
            if id(optimizer) in self._looked:
                continue
            self._looked.add(id(optimizer))
            self._keep.append(optimizer)
            kind = type(optimizer).__name__.lower()
            self._optimizers[kind] = count = self._optimizers.get(kind, 0) + 1
            kind += "" if count == 1 else str(count)
            for name, tensor in _kept(optimizer, self._names):
                self._name(tensor, f"optimizer/{kind}/{name}", Role.OPTIMIZER)

    def _name(self, tensor: Tensor, name: str, role: Role) -> None:
        known = self._names.setdefault(id(tensor), [])
        if name not in [other for other, _ in known]:
            known.append((name, role))
            self._keep.append(tensor)

    def of(self, tensor: Tensor, otherwise: str) -> int:
        """The number of a tensor's cell; ``otherwise`` is its name where nothing else has one."""
        self._keep.append(tensor)
        return self._at(id(tensor), tensor, otherwise)

    def at(self, address: Address, tensor: Tensor, otherwise: str) -> int:
        """The number of the cell of an attribute or item that holds a tensor."""
        self._keep.append(address)
        return self._at(address.key, tensor, otherwise)

    def known_at(self, address: Address) -> int | None:
        """The number of the cell of a place that is one already."""
        return self._number.get(address.key)

    def _at(self, key: Any, tensor: Tensor, otherwise: str) -> int:
        number = self._number.get(key)
        if number is None:
            (name, role), *others = self._names.get(id(tensor)) or [(otherwise, Role(0))]
            number = self._number[key] = len(self.records)
            if tensor.type.layout is not None:
                raise refused_part("exporting", tensor.type)
            content = bytes(native.view(tensor.content, tensor.type.nbytes))
            aliases = [other for other, _ in others]
            made = CellRecord(self._free(name), FileType.of(tensor.type), role, content, aliases)
            self.records.append(made)
        return number

    def _free(self, name: str) -> str:
        found, count = name, 1
        while found in self._used:
            count += 1
            found = f"{name}#{count}"
        self._used.add(found)
        return found


def _tensors(module: Module) -> Iterator[tuple[str, Tensor, Role]]:
    """The tensors of ``module`` by all their names."""
    for name, tensor in module.named_parameters(remove_duplicate=False):
        yield name, tensor, Role.PARAMETER
    for name, tensor in module.named_buffers(remove_duplicate=False):
        yield name, tensor, Role.BUFFER


def _kept(
    optimizer: Optimizer, names: dict[int, list[tuple[str, Role]]]
) -> Iterator[tuple[str, Tensor]]:
    """What ``optimizer`` keeps of each parameter, and its settings that are tensors."""
    number = 0
    for at, group in enumerate(optimizer.param_groups):
        prefix = "" if at == 0 else f"{at}/"
        for key, value in group.cells._asdict().items():
            yield prefix + key, value
        for parameter, state in zip(group.params, group.states, strict=True):
            own = names.get(id(parameter), [(str(number), Role(0))])[0][0]
            for name, cell in named_state(group.rule, state).items():
                yield f"{own}/{name}", cell
            number += 1
