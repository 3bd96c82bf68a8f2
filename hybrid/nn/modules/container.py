"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hybrid.errors import ArgumentTypeError, MissingKeyError, OutOfRangeError
from hybrid.nn.modules.module import Module


class _Numbered(Module):
    """Modules called "0", "1", ...: what Sequential and ModuleList share."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter([module for _, module in self._modules])

    def __getitem__(self, index: int | slice) -> Any:
        """The module at ``index``, or a new container of the modules of a slice."""
        if isinstance(index, slice):
            return self._like([module for _, module in self._modules[index]])
        return self._modules[self._position(index)][1]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(self._position(index)), _module(module))

    def __delitem__(self, index: int | slice) -> None:
        kept = list(self)
        if not isinstance(index, slice):
            index = self._position(index)
        del kept[index]
        self._replace(kept)

    def _position(self, index: int) -> int:
        count = len(self._modules)
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise ArgumentTypeError(f"{index!r} is not an index", fix="give an int or a slice")
        number = index.__index__()
        if not -count <= number < count:
            raise OutOfRangeError(f"index {number} of a {type(self).__name__} of {count} modules")
        return number % count

    def _replace(self, modules: Iterable[Module]) -> None:
        for name, _ in self._modules:
            delattr(self, name)
        self.extend(modules)

    def _like(self, modules: list[Module]) -> _Numbered:
        return type(self)(*modules)

    def __add__(self, other: Iterable[Module]) -> Any:
        """A new container of the modules of both."""
        if not isinstance(other, _Numbered):
            return NotImplemented
        return self._like([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)

    def __contains__(self, module: object) -> bool:
        return any(module is known for _, known in self._modules)

    def pop(self, index: int = -1) -> Module:
        """Take out the module at ``index``."""
        module = self[index]
        del self[index]
        return module

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self._modules)), _module(module))
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end."""
        if not isinstance(modules, Iterable) or isinstance(modules, Mapping):
            raise ArgumentTypeError(
                f"a {type(modules).__name__} is no list of modules", fix="pass a list of modules"
            )
        for module in [_module(module) for module in modules]:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before ``index``, which is taken as lists take it."""
        modules = list(self)
        modules.insert(index, _module(module))
        self._replace(modules)
        return self


def _module(module: Any) -> Module:
    if not isinstance(module, Module):
        raise ArgumentTypeError(
            f"a {type(module).__name__} is not a module", fix="pass a hybrid.nn.Module"
        )
    return module


class Sequential(_Numbered):
    """Modules applied one after another; a mapping names them, else they are "0", "1", ..."""

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, _module(module))
        else:
            self.extend(modules)

    def forward(self, input: Any) -> Any:
        for _, module in self._modules:
            input = module(input)
        return input

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._modules[self._position(index)][0], _module(module))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(self._modules[index]))
        return super().__getitem__(index)

    def __mul__(self, times: int) -> Sequential:
        """The same modules ``times`` over, shared."""
        return Sequential(*(list(self) * _times(times)))

    def __imul__(self, times: int) -> Sequential:
        return self.extend(list(self) * (_times(times) - 1))


def _times(times: Any) -> int:
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise ArgumentTypeError(f"{times!r} times a Sequential", fix="give an int of at least 1")
    return times


class ModuleList(_Numbered):
    """A list of modules; it has no forward pass of its own."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        self.extend([] if modules is None else modules)

    def _like(self, modules: list[Module]) -> ModuleList:
        return type(self)(modules)


class ModuleDict(Module):
    """A dict of modules; it has no forward pass of its own."""

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        self.update({} if modules is None else modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return any(name == known for known, _ in self._modules)

    def __getitem__(self, name: str) -> Module:
        for known, module in self._modules:
            if known == name:
                return module
        raise MissingKeyError.among(type(self).__name__, "module", name, self)

    def __setitem__(self, name: str, module: Module) -> None:
        if name in self:
            setattr(self, name, _module(module))
        else:
            self.add_module(name, _module(module))

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def pop(self, name: str) -> Module:
        """Take out the module called ``name``."""
        module = self[name]
        delattr(self, name)
        return module

    def clear(self) -> None:
        """Take out all modules."""
        for name in self.keys():
            del self[name]

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, or replace those of the same names."""
        items = modules.items() if isinstance(modules, ModuleDict) else dict(modules).items()
        for name, module in items:
            self[name] = module

    def keys(self) -> list[str]:
        return [name for name, _ in self._modules]

    def values(self) -> list[Module]:
        return [module for _, module in self._modules]

    def items(self) -> list[tuple[str, Module]]:
        return list(self._modules)
