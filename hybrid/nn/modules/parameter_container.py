"""Modules that hold parameters: ParameterList, ParameterDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, MissingKeyError, OutOfRangeError
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter


def _parameter(value: Any) -> Parameter:
    """A parameter itself; a tensor's values as a new one."""
    if isinstance(value, Parameter):
        return value
    if isinstance(value, Tensor):
        return Parameter(value)
    raise ArgumentTypeError(
        f"a {type(value).__name__} is not a parameter", fix="pass a hybrid.nn.Parameter"
    )


class _Parameters(Module):
    def __len__(self) -> int:
        return len(self._parameters)

    def extra_repr(self) -> str:
        lines = [f"({name}): Parameter {value.type}" for name, value in self._parameters]
        return "\n".join(lines)

    def __repr__(self) -> str:
        lines = self.extra_repr().splitlines()
        if not lines:
            return f"{type(self).__name__}()"
        return "\n".join([f"{type(self).__name__}(", *("  " + line for line in lines), ")"])


class ParameterList(_Parameters):
    """A list of parameters, called "0", "1", ...; tensors in it become parameters."""

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        self.extend([] if values is None else values)

    def __iter__(self) -> Iterator[Parameter]:
        return iter([parameter for _, parameter in self._parameters])

    def __getitem__(self, index: int | slice) -> Any:
        """The parameter at ``index``, or a new list of those of a slice."""
        if isinstance(index, slice):
            return type(self)([value for _, value in self._parameters[index]])
        return self._parameters[self._position(index)][1]

    def __setitem__(self, index: int, value: Tensor) -> None:
        setattr(self, str(self._position(index)), _parameter(value))

    def _position(self, index: int) -> int:
        count = len(self._parameters)
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise ArgumentTypeError(f"{index!r} is not an index", fix="give an int or a slice")
        number = index.__index__()
        if not -count <= number < count:
            raise OutOfRangeError(f"index {number} of a ParameterList of {count} parameters")
        return number % count

    def append(self, value: Tensor) -> ParameterList:
        """Add a parameter at the end."""
        self.register_parameter(str(len(self._parameters)), _parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> ParameterList:
        """Add parameters at the end."""
        for value in [_parameter(value) for value in values]:
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Tensor]) -> ParameterList:
        return self.extend(values)


class ParameterDict(_Parameters):
    """A dict of parameters; tensors in it become parameters."""

    def __init__(
        self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] | None = None
    ) -> None:
        self.update({} if parameters is None else parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return any(name == known for known, _ in self._parameters)

    def __getitem__(self, name: str) -> Parameter:
        for known, parameter in self._parameters:
            if known == name:
                return parameter
        raise MissingKeyError.among(type(self).__name__, "parameter", name, self)

    def __setitem__(self, name: str, value: Tensor) -> None:
        if name in self:
            setattr(self, name, _parameter(value))
        else:
            self.register_parameter(name, _parameter(value))

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The parameter called ``name``, or ``default``."""
        return dict(self._parameters).get(name, default)

    def setdefault(self, name: str, default: Any = None) -> Parameter:
        """The parameter called ``name``, which becomes ``default`` if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str) -> Parameter:
        """Take out the parameter called ``name``."""
        parameter = self[name]
        delattr(self, name)
        return parameter

    def clear(self) -> None:
        """Take out all parameters."""
        for name in self.keys():
            del self[name]

    def update(self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]) -> None:
        """Add parameters, or replace those of the same names."""
        given = (
            parameters.items()
            if isinstance(parameters, ParameterDict)
            else dict(parameters).items()
        )
        for name, value in given:
            self[name] = value

    def keys(self) -> list[str]:
        return [name for name, _ in self._parameters]

    def values(self) -> list[Parameter]:
        return [parameter for _, parameter in self._parameters]

    def items(self) -> list[tuple[str, Parameter]]:
        return list(self._parameters)
