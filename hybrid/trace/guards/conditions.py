"""Guards: whether what a capture read from outside its arguments is still as it was.

Values are compared by identity first, by value second; containers item by item.  Guards on modules
and optimizers are looked at only when the configuration epoch has moved.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hybrid.config import EPOCH
from hybrid.core.dataclass import dataclass
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.number import Number
from hybrid.trace.guards.argument_aliasing import alias_terms
from hybrid.trace.guards.matching import AnyNumber, Matcher, Matching, Written, plainly
from hybrid.trace.places.address import Address, LeafOf
from hybrid.trace.places.attributes import MISSING, cached_names, keeper, plainly_read, stored
from hybrid.trace.places.key import CONTENT, Key, key_of
from hybrid.trace.places.members import Members
from hybrid.trace.places.reads import ATOMS, MUTABLE, Reads, content_of, watched
from hybrid.trace.places.rewind import Moved, arrays_in, put_attribute
from hybrid.trace.values.optional import OptionalValue

if TYPE_CHECKING:
    from hybrid.trace.capture.captured import Capture
    from hybrid.trace.capture.side_effects import Mine


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing read: a printable name, how to read it again, and what it must match."""

    name: str
    read: Callable[..., Any]
    matches: Matcher
    expected: Any
    lends: bool = False  # whether numbers in a tuple may be inputs

    @property
    def by_identity(self) -> bool:
        """Whether the very same object needs no further look: it cannot have changed inside."""
        if isinstance(self.expected, tuple):
            return is_plain(self.expected) and not self.lends
        return not isinstance(self.expected, (*MUTABLE, AnyNumber))

    def holds(self) -> bool:
        return self.matches(self.read())


def set_by_users(kind: type, name: str) -> bool:
    """Whether a class outside this package holds ``name``: writes to classes move no epoch."""
    return any(
        name in vars(base) and not base.__module__.startswith("hybrid.") for base in kind.__mro__
    )


class Kept:
    """What a guarded place held, so that it can be put back."""

    def __init__(
        self, key: Key, guard: Guard, value: Any, put: Callable[[Any], Any] | None
    ) -> None:
        self.key, self.guard, self.value, self.put = key, guard, value, put
        self.arrays = arrays_in(value)

    def moved(self) -> Moved:
        """What is there instead."""
        read = self.guard.read
        return Moved(self.key, self.guard.name, read, self.put, self.value, read(), self.arrays)


class Guards:
    """All guards of one capture."""

    def __init__(
        self,
        reads: Reads,
        configured: Callable[[Any], bool],
        written: Written | None = None,
        *,
        made: bool = False,
    ) -> None:
        """``configured`` says of which objects every write advances the epoch.

        ``written`` are the containers, and the places of containers, that the capture writes.
        With ``made`` the capture has been made before: nothing is noted to be put back.
        """
        self.made = made
        self.reads: Reads | None = reads
        self.always: list[Guard] = []
        self.by_epoch: list[Guard] = []
        self.written = Written() if written is None else written
        self.matching = Matching(self.written)
        self.slot_sources = self.matching.sources
        self.numbers = self.matching.numbers
        self.inputs = self.matching.inputs
        self.outside = frozenset(reads.tensors)
        self.known = reads.seen | reads.cells.keys()
        self.namespaces = reads.namespaces()
        self.containers = reads.containers
        # Arguments that are not the same at another call, though they are the same objects.
        self.once = frozenset(id(a) for a in reads.given if isinstance(a, Iterator))
        self.members = Members(reads)
        self.epoch = EPOCH[0]
        # What only the capture itself needs:
        self._places: list[tuple[Any, str, Callable[[], Any], Any]] = []  # owner, name, read, value
        self._begun: list[Any] = []  # what is at those when the capture begins
        self._absent: list[tuple[Any, frozenset[str], bool]] = []  # (owner, names, configured)
        self._kept: list[Kept] = []
        if self.written.containers or self.written.places:
            self._fix(reads)
        for key, (namespace, name) in reads.globals.items():
            self._global(namespace, name, key in reads.assigned)
        for key, cell in reads.cells.items():
            self._cell(cell, f"closure variable {reads.variables[key]}", key in reads.assigned)
        for function in reads.functions.values():
            self._defaults(function)
        for argument in reads.arguments:
            self._argument(argument)
        for owner, names in watched(reads):
            self._attributes(owner, names, configured(owner))
        for owner in reads.objects.values():
            self._nothing_new(owner, reads, configured(owner))
        if made:
            self.settle()

    def _fix(self, reads: Reads) -> None:
        """Find the tensors that are read from where nothing is written."""
        for key, (namespace, name) in reads.globals.items():
            if key not in reads.assigned:
                self.matching.fix(namespace.get(name))
        for key, cell in reads.cells.items():
            if key not in reads.assigned:
                self.matching.fix(content_of(cell))
        for function in reads.functions.values():
            self.matching.fix((function.__defaults__, function.__kwdefaults__))
        self.matching.fix(reads.arguments)
        for owner, names in watched(reads):
            for name in names:
                value = stored(owner, name)
                if not isinstance(value, Tensor) and (id(owner), name) not in self.written.places:
                    self.matching.fix(value)

    def _add(
        self,
        name: str,
        read: Callable[..., Any],
        value: Any,
        matches: Matcher,
        key: Key,
        put: Callable[[Any], Any] | None = None,
    ) -> None:
        guard = self._guard(name, read, value, matches)
        self.always.append(guard)
        if not self.made:
            self._kept.append(Kept(key, guard, value, put))

    def _guard(self, name: str, read: Callable[[], Any], value: Any, matches: Matcher) -> Guard:
        """One that expects ``value``, or any number."""
        expected = matches if isinstance(matches, AnyNumber) else value
        return Guard(name, read, matches, expected, bool(self.written.numbers))

    def _global(self, namespace: dict, name: str, assigned: bool) -> None:
        read = functools.partial(namespace.get, name, MISSING)
        module = sys.modules.get(namespace.get("__name__", ""))
        if assigned and module is not None and vars(module) is namespace:
            self._place(module, name, read, f"global {name}", read())
            return

        def put(value: Any) -> None:
            if value is MISSING:
                del namespace[name]
            else:
                namespace[name] = value

        value, key = read(), (id(namespace), name)
        place = None if assigned else Address(namespace, CONTENT, (name,))
        self._add(f"global {name}", read, value, self.matching.exactly(value, place), key, put)

    def _cell(self, cell: types.CellType, label: str, assigned: bool) -> None:
        def read() -> Any:
            try:
                return cell.cell_contents
            except ValueError:
                return MISSING

        if assigned:
            self._place(cell, "cell_contents", read, label, read())
        else:
            value, key = read(), (id(cell), "cell_contents")
            matches = self.matching.exactly(value, Address(cell, "cell_contents"))
            self._add(label, read, value, matches, key)

    def _defaults(self, function: types.FunctionType) -> None:
        first, second = function.__defaults__, function.__kwdefaults__
        if not (first or second):
            return
        label, key = f"defaults of {function.__name__}", (id(function), "__defaults__")
        matches = self.matching.exactly(first, Address(function, "__defaults__"))
        if second is None:

            def read() -> Any:
                both = function.__defaults__, function.__kwdefaults__
                return both[0] if both[1] is None else both

            self._add(label, read, first, matches, key)
        else:
            keywords = self.matching.exactly(second, Address(function, "__kwdefaults__"))
            self._add(
                f"keyword {label}",
                lambda: (function.__defaults__, function.__kwdefaults__),
                (first, second),
                lambda found: matches(found[0]) and keywords(found[1]),
                key,
            )

    def _argument(self, argument: Any) -> None:
        """A container that is no tree: the key tells which it is, not what it holds."""
        matches = self.matching.exactly(argument, Address(argument, CONTENT))
        label, key = f"{type(argument).__name__} argument", (id(argument), CONTENT)
        self._add(label, lambda: argument, argument, matches, key)

    def _attributes(self, owner: Any, names: Sequence[str], configured: bool) -> None:
        """Guard what is there now."""
        label = label_of(owner)
        for name in names:
            self._attribute(owner, name, configured, label)

    def _attribute(
        self, owner: Any, name: str, configured: bool, label: str, value: Any = Ellipsis
    ) -> None:
        """Guard what is there: ``value``, or what it is now."""
        own = getattr(owner, "__dict__", {})
        if name in own:
            read = functools.partial(own.get, name, MISSING)
        elif plainly_read(owner, name):
            read = functools.partial(getattr, owner, name, MISSING)
        else:
            read = functools.partial(stored, owner, name)
        by_epoch = configured and (name in own or not set_by_users(type(owner), name))
        value = read() if value is Ellipsis else value
        self._place(owner, name, read, f"{label}.{name}", value, by_epoch)

    def _place(
        self,
        owner: Any,
        name: str,
        read: Callable[[], Any],
        label: str,
        value: Any,
        by_epoch: bool = False,
    ) -> None:
        """An attribute, or a variable that the function sets: a tensor there may be any other."""
        slot = type(value) is Tensor
        written = (id(owner), name) in self.written.places
        if slot:
            matches = self.matching.slot(value, Address(owner, name))
        elif written:
            matches = self.matching.exactly(value, Address(owner, name), slots=True)
        else:
            matches = self._unwritten(owner, name, value)
        guard = self._guard(label, read, Guards if slot else value, matches)
        by_epoch = by_epoch and not isinstance(value, MUTABLE) and not slot and not written
        (self.by_epoch if by_epoch else self.always).append(guard)
        if self.made:
            return
        self._places.append((owner, name, read, value))
        put = functools.partial(put_attribute, owner, name)
        self._kept.append(Kept(key_of(owner, name), guard, value, put))

    def _unwritten(self, owner: Any, name: str, value: Any) -> Matcher:
        """A test for a place that nothing is written to."""
        holder = None if isinstance(owner, types.CellType) else keeper(owner, name)
        if holder is None:
            return self.matching.exactly(value)
        address = Address(holder, name)
        before = self.matching.found
        matches = self.matching.exactly(value, address)
        if holder is owner or self.matching.found == before:
            return matches
        if isinstance(matches, AnyNumber):
            return AnyNumber(matches.kind, address)
        return lambda found: found is address.now() and matches(found)

    def _nothing_new(self, owner: Any, reads: Reads, configured: bool) -> None:
        """No attribute set on the object itself, hiding a method or not, that was looked for."""
        own = getattr(owner, "__dict__", None)
        if own is None:
            return
        absent = reads.absent(owner)
        if absent:
            self._absent.append((owner, absent, configured))
        if absent and not isinstance(owner, (types.ModuleType, type)):  # theirs are many
            self._still_absent(owner, reads.never_cached(owner), configured)

    def _still_absent(self, owner: Any, names: frozenset[str], configured: bool) -> None:
        label = label_of(owner)
        read = functools.partial(vars(owner).keys().isdisjoint, names)
        guard = Guard(f"{label}.*", read, plainly(True), True)
        (self.by_epoch if configured else self.always).append(guard)

    # Around the capture -----------------------------------------------------------------------

    def written_slots(self, mine: Mine) -> Iterator[tuple[Any, str, Any]]:
        """(owner, name, original) of the places of ``mine`` that were given others.

        That is a tensor or a plain value, or there was a tensor.
        """
        for (owner, name, read, value), begun in zip(self._places, self._begun, strict=True):
            now = read()
            lent = begun is not value  # then the same as before is another all the same
            moved = now is not begun and (
                holds_tensor(now)
                or type(now) is OptionalValue
                or type(now) in (list, dict)  # which the capture has made
                or holds_tensor(begun)
                or (is_plain(now) and (lent or not self.matching.exactly(value)(now)))
            )
            if moved and mine(key_of(owner, name), [now]):
                yield owner, name, begun
        for owner, names, configured in self._absent:
            made = [
                n for n, now in vars(owner).items()
                if n in names
                and (
                    holds_tensor(now)
                    or (type(now) in (list, dict) and n not in cached_names(owner))
                    or (is_plain(now) and n not in cached_names(owner))
                )
                and mine(key_of(owner, n), [now])
            ]  # fmt: skip
            for name in made:
                yield owner, name, MISSING
            if made and isinstance(owner, (types.ModuleType, type)):
                self._still_absent(owner, frozenset(made), configured)

    def begin(self) -> None:
        """The capture begins: what it has changed is what is not as it is now."""
        self._begun = [read() for _, _, read, _ in self._places]

    def unseen(self, owners: Mapping[int, tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Those of the ``owners`` of attributes that were there before, and are not looked at."""
        assert self.reads is not None
        watched = self.reads.objects
        return [
            (owner, before)
            for key, (owner, before) in owners.items()
            if key in self.known and key not in watched and before is not None
        ]

    def changed_places(self) -> Iterator[tuple[Any, str, Any]]:
        """(owner, name, what is there) of the places that hold something else by now."""
        for (owner, name, read, _), begun in zip(self._places, self._begun, strict=True):
            now = read()
            if now is not begun:
                yield owner, name, now
        for owner, names, _ in self._absent:
            for name in names & vars(owner).keys():
                yield owner, name, vars(owner)[name]

    def path_to(self, container: Any) -> tuple[str, Callable[[], Any]] | None:
        """What the place where ``container`` was found is called, and what is found there."""
        for owner, name, read, value in self._places:
            path = _path(value, container, set())
            if path is not None:
                return f"{label_of(owner)}.{name}", functools.partial(_followed, read, path)
        return None

    def moved(self, *, cached: bool) -> list[Moved]:
        """The places that are not as they were; what properties have cached is not always meant."""
        found = [kept.moved() for kept in self._kept if not kept.guard.holds()]
        for owner, names, _ in self._absent:
            if isinstance(owner, (types.ModuleType, type)):
                continue  # what is imported appears there
            for name in names & vars(owner).keys() - (set() if cached else cached_names(owner)):
                put = functools.partial(put_attribute, owner, name)
                read = functools.partial(stored, owner, name)
                label = f"{label_of(owner)}.{name}"
                found.append(Moved(key_of(owner, name), label, read, put, MISSING, read()))
        return found

    def computed(self) -> str | None:
        """The name of a cached property that the capture has computed."""
        for owner, names, _ in self._absent:
            for name in names & vars(owner).keys() & cached_names(owner):
                return f"{label_of(owner)}.{name}"
        return None

    def name_at(self, place: Address) -> str:
        """What messages call the place of a number."""
        name = place.name if place.name != CONTENT else place.keys[0]
        return f"{label_of(place.owner)}.{name}"

    def settle(self) -> None:
        """The capture is good: guard cached properties, computed or not, forget what was."""
        for owner, names, configured in self._absent:
            for name in names & vars(owner).keys():
                self._attribute(owner, name, configured, label_of(owner))
            if not isinstance(owner, (types.ModuleType, type)):
                # Those of tensors are computed, and kept, by the first run.
                later = names & cached_names(owner) - vars(owner).keys()
                if later:
                    self._still_absent(owner, later, configured=False)
        self._places, self._begun, self._absent, self._kept = [], [], [], []
        self.containers, self.namespaces, self.reads = {}, {}, None

    def compiled(self, capture: Capture) -> Callable[[Sequence[Any]], bool]:
        """``holds(leaves)``: whether everything is as it was, written out as one expression.

        It raises AttributeError where a method is gone.  A plan with an iterator among the
        arguments serves no further call: what it gives, it gives once.

        Guards by epoch, and the types of the cells of ``capture`` and whether gradients flow to
        them, are looked at only when the epoch has moved.
        """
        names: dict[str, Any] = {"EPOCH": EPOCH, "self": self}
        terms = []
        for i, guard in enumerate(self.always):
            names[f"read{i}"], names[f"same{i}"], names[f"was{i}"] = (
                guard.read,
                guard.matches,
                guard.expected,
            )
            by_value = f"same{i}(read{i}())"
            if guard.matches == AnyNumber(float):
                by_value = f"type(read{i}()) is float"
            terms.append(f"(read{i}() is was{i} or {by_value})" if guard.by_identity else by_value)
        places = [source.address for source in capture.sources]
        places += [w.address for w in capture.slot_writes] + [a for a, _ in capture.slot_reads]
        owners = {a.owner: None for a in places if a is not None and type(a.owner) is LeafOf}
        new = [LeafOf(which) for which, wanted in capture.turned if wanted]  # when it runs
        terms += [owner.guard() for owner in owners if owner not in new]
        for i, (address, original) in enumerate(capture.slot_reads):
            if address.owner in new:
                continue
            now = address.text(functools.partial(_named, names))
            if original is None:
                terms.append(f"{now} is None")
            else:
                names[f"slot_type{i}"] = original.type
                terms.append(f"({now} is not None and {now}.type is slot_type{i})")

        facts = zip(capture.sources, capture.input_types, capture.requires, strict=True)
        cells = [(s.tensor, kind, needs) for s, kind, needs in facts if s.kind == "cell"]

        def epoch_holds(moved: int) -> bool:
            for guard in self.by_epoch:
                if not guard.holds():
                    return False
            for cell, kind, needs in cells:
                if cell.type is not kind or (cell.record is not None) != needs:
                    return False
            self.epoch = moved
            return True

        names["epoch_holds"] = epoch_holds
        terms.append("(EPOCH[0] == self.epoch or epoch_holds(EPOCH[0]))")
        terms += self.members.terms(names)
        terms += ["False"] if self.once else []
        for i, fact in enumerate(capture.facts):
            names[f"fact{i}"], names[f"given{i}"] = fact.read, fact.given
            terms.append(f"fact{i}() == given{i}")
        terms += alias_terms(capture, names)
        return eval("lambda leaves: " + " and ".join(terms), names)

    def broken(self) -> str | None:
        """What the first place that is not as it was is called."""
        moved = self.moved(cached=False)
        return moved[0].label if moved else None

    def label(self, key: Key) -> str:
        """What a place is called."""
        labels = [kept.guard.name for kept in self._kept if kept.key == key]
        labels += [
            f"{label_of(owner)}.{name}"
            for owner, names, _ in self._absent
            for name in names
            if key_of(owner, name) == key
        ]
        return labels[0]


def _path(value: Any, container: Any, seen: set[int]) -> tuple[Any, ...] | None:
    """The keys that lead from ``value`` to ``container``; None if it does not hold it."""
    if value is container:
        return ()
    if not isinstance(value, (list, tuple, dict)) or id(value) in seen:
        return None
    seen.add(id(value))
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        path = _path(item, container, seen)
        if path is not None:
            return (key, *path)
    return None


def _followed(read: Callable[[], Any], path: tuple[Any, ...]) -> int:
    """The id of what ``path`` leads to."""
    value = read()
    try:
        for key in path:
            value = value[key]
    except (LookupError, TypeError):  # it is not there any more
        return 0
    return id(value)


def _named(names: dict[str, Any], prefix: str, value: Any) -> str:
    """A name for ``value`` among ``names``."""
    name = f"{prefix}{len(names)}"
    names[name] = value
    return name


def label_of(owner: Any) -> str:
    named = isinstance(owner, (type, types.ModuleType, types.FunctionType))
    return owner.__name__ if named else type(owner).__name__


def is_plain(value: Any) -> bool:
    """Whether ``value`` is a constant, or a tuple of them."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return isinstance(value, ATOMS) and not isinstance(value, Number)


def holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in flatten(value)[0])
