"""Key changes: what is another at each call of a function, and so keeps its captures from paying.

::

    argument mode: 'a', 'b', 'c' ...
    len(items): 3, 4, 5 ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import LEAF, Structure
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.explain.argument_names import given_name
from hybrid.explain.words import listed, shown
from hybrid.trace.guards.matching import AnyObject
from hybrid.trace.places.signature import describe_leaf, is_number

_MOST = 4  # values that are told of, and parts
_WIDTH = 40  # of a value


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The key of one call that a plan would have to be made for, as far as it is told of."""

    structure: Structure
    keys: tuple[Hashable, ...]  # of the leaves
    texts: tuple[str, ...]  # of the leaves
    rest: tuple[Any, ...]  # recording, aliases, rows
    outside: dict[str, Any]  # what was read from outside and is another than in a plan


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A part of the key, its values in the order of calls, and what to write instead."""

    what: str
    values: tuple[str, ...]
    fix: str

    def __str__(self) -> str:
        if not self.values:
            return self.what
        more = ", ..." if len(self.values) > _MOST else ""
        return f"{self.what}: {', '.join(self.values[:_MOST])}{more}"


def record_of(key: Any, leaves: Sequence[Any], outside: dict[str, Any]) -> KeyRecord:
    """The record of a call of this key."""
    structure, keys, *rest = key
    texts = tuple([_cut(describe_leaf(leaf)) for leaf in leaves])
    return KeyRecord(structure, keys, texts, tuple(rest), outside)


def records_of(plans: Iterable[Any], names: Collection[str]) -> list[KeyRecord]:
    """Those of the calls that ``plans`` were made for, with what they read of ``names``."""
    found = []
    for planned in plans:
        structure, keys, *rest = planned.key
        guards = (*planned.guards.always, *planned.guards.by_epoch)
        # A place of tensors expects none of them, and one of replaced objects none of these.
        told = [
            g
            for g in guards
            if g.name in names
            and not (g.expected is type(planned.guards) or isinstance(g.expected, AnyObject))
        ]
        outside = {guard.name: guard.expected for guard in told}
        texts = tuple(map(_cut, planned.description))
        if not planned.numbers:
            found.append(KeyRecord(structure, keys, texts, tuple(rest), outside))
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def key_changes(
    records: Sequence[KeyRecord],
    function: Callable[..., Any],
    leaves: Sequence[Any],
    names: Sequence[str],
    has_keywords: bool,
) -> list[KeyChange]:
    """What differs from record to record; the last one is that of ``leaves``, called ``names``."""
    last = records[-1]
    found: list[KeyChange] = []
    alike = [record for record in records if record.structure == last.structure]
    if len(alike) <= len(records) // 2:
        found += _structures(records, function, has_keywords)
    else:
        for index, (leaf, name) in enumerate(zip(leaves, names, strict=True)):
            if len({record.keys[index] for record in alike}) > 1:
                found += _leaf(
                    name, leaf, [r.keys[index] for r in alike], [r.texts[index] for r in alike]
                )
        found += _rest(alike)
    found += _outside(records)
    return sorted(found, key=lambda change: -len(change.values))


def _leaf(name: str, leaf: Any, keys: Sequence[Any], texts: Sequence[str]) -> Iterator[KeyChange]:
    types = [key[0] for key in keys if isinstance(key[0], TensorType)]
    if len(types) < len(keys):
        values = _distinct(texts)
        if len(values) > 1:
            yield KeyChange(f"argument {name}", values, _instead(name, leaf))
        else:
            what = f"argument {name} was another {texts[0]} object at each call"
            yield KeyChange(what, (), "make that object once, and pass it at each call")
        return
    if len({type_.rank for type_ in types}) > 1:
        fix = f"call with {name} of one rank"
        yield KeyChange(f"rank of {name}", _distinct([str(t.rank) for t in types]), fix)
    else:
        for axis in range(types[-1].rank):
            sizes = _distinct([str(type_.shape[axis]) for type_ in types])
            if len(sizes) > 1:
                yield KeyChange(f"shape[{axis}] of {name}", sizes, _fewer_sizes(name))
    dtypes = _distinct([str(type_.dtype) for type_ in types])
    if len(dtypes) > 1:
        yield KeyChange(f"dtype of {name}", dtypes, f"call with {name} of one dtype")
    if len({key[1] for key in keys}) > 1:
        what = f"whether gradients flow to {name}"
        yield KeyChange(what, (), "call with the same variables")


def _instead(name: str, value: Any) -> str:
    if is_number(value) and not isinstance(value, bool):
        return f"pass {name} as a tensor, hybrid.asarray({name}): its value is no part of the key"
    return f"call with few values of {name}, or hybridize what does not depend on it"


def _rest(records: Sequence[KeyRecord]) -> Iterator[KeyChange]:
    told = (
        ("whether gradients are recorded", "record always, or under hybrid.no_grad() always"),
        ("which arguments are one tensor", "pass different tensors"),
        ("how many rows vmap has", "give vmap batches of one length"),
    )
    for index, (what, fix) in enumerate(told):
        if len({record.rest[index] for record in records}) > 1:
            yield KeyChange(what, (), fix)


def _outside(records: Sequence[KeyRecord]) -> Iterator[KeyChange]:
    names = list(dict.fromkeys([name for record in records for name in record.outside]))
    for name in names:
        values = [record.outside[name] for record in records if name in record.outside]
        texts = _distinct([shown(value) for value in values])
        place = name.removeprefix("global ")
        if len(texts) > 1:
            yield KeyChange(name, texts, _held(place, values[-1]))
        else:
            what = f"{name} was another object ({texts[0]}) at each call"
            yield KeyChange(what, (), f"let {place} be the same object")


def _fewer_sizes(name: str) -> str:
    return f"pad {name} to a few sizes, and leave out dynamic=False if it is there"


def _held(name: str, value: Any) -> str:
    if isinstance(value, Tensor):
        return _fewer_sizes(name)
    if is_number(value) and not isinstance(value, bool):
        return f"keep {name} in a tensor, whose value is no part of the key"
    return f"let {name} have few values, or hybridize what does not depend on it"


# Structures ---------------------------------------------------------------------------------------

Path = tuple[Any, ...]


def _structures(
    records: Sequence[KeyRecord], function: Callable[..., Any], has_keywords: bool
) -> Iterator[KeyChange]:
    """The lengths of containers that differ, or that the structures do."""
    found = [dict(_containers(record.structure, ())) for record in records]
    for path in found[-1]:
        here = [containers[path] for containers in found if path in containers]
        lengths = _distinct([str(length) for _, length in here])
        if len(lengths) > 1 and len({kind for kind, _ in here}) == 1:
            where = path if has_keywords else (0, *path)
            if len(where) < 2:
                what, fix = "count of arguments", "pass a fixed number of arguments"
            else:
                name = given_name(function, where)
                what = f"len({name})"
                fix = f"stack what {name} holds into one tensor, or pad it to a few lengths"
            yield KeyChange(what, lengths, fix)
            return
    yield KeyChange("the structure of the arguments", (), "call with arguments of one structure")


def _containers(structure: Structure, path: Path) -> Iterator[tuple[Path, tuple[Any, int]]]:
    if structure is None or structure == LEAF:
        return
    kind, items = structure
    yield path, (kind, len(items))
    keyed = issubclass(kind, dict)
    for index, item in enumerate(items):
        yield from _containers(item[1] if keyed else item, (*path, item[0] if keyed else index))


def _distinct(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def reason_of(changes: Sequence[KeyChange], refusal: str) -> str:
    """The sentences on what changes, why that is no input, and what to write instead."""
    told = list(changes[:_MOST])
    rest = len(changes) - len(told)
    texts = [str(change) for change in told] + ([f"{rest} more"] if rest else [])
    lines = [f"What changes: {'; '.join(texts)}"] if texts else []
    if refusal:
        lines.append(f"A number cannot become an input: {refusal}")
    fixes = list(dict.fromkeys([change.fix for change in told[:2]]))
    if fixes:
        lines.append(f"Fix: {listed(fixes)}.")
    return "\n".join(lines)
