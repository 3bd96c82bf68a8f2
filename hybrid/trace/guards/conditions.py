"""Guards: tests that everything a capture has read from outside its arguments is unchanged.

Values are compared by identity first, by value second; containers item by item.  Guards on modules
and optimizers are looked at only when the configuration epoch has moved.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from hybrid.config import EPOCH
from hybrid.eager.tensor import Tensor
from hybrid.ir.record import Leaf, gradient_leaf
from hybrid.trace.guards.guard import (
    Guard,
    holds_run_value,
    holds_tensor,
    is_plain,
    label_of,
    set_by_users,
)
from hybrid.trace.guards.identity_guards import IdentityGuard
from hybrid.trace.guards.matching import (
    AnyNumber,
    AnyObject,
    Matcher,
    Matching,
    Written,
    plain_matcher,
)
from hybrid.trace.guards.members import Members
from hybrid.trace.guards.reads import Read, Reads
from hybrid.trace.guards.snapshot import AbsentNames, Snapshot, WatchedPlace
from hybrid.trace.places.address import Address, ArgumentLeaf, Attribute, bound_name
from hybrid.trace.places.attributes import MISSING, cached_names, plainly_read, storage_of, stored
from hybrid.trace.places.differences import leaves_in
from hybrid.trace.places.held_state import is_mutable
from hybrid.trace.places.memos import Memo
from hybrid.trace.places.objects import is_object
from hybrid.trace.places.place import CONTENT, Key, is_own, key_of
from hybrid.trace.values.optional import OptionalValue

if TYPE_CHECKING:
    from hybrid.trace.capture.captured_graph import Capture, PlaceWrite, Source
    from hybrid.trace.capture.side_effects import OwnWrites


class Guards:
    """The guards of one capture, and the addresses of its inputs from outside."""

    def __init__(
        self,
        reads: Reads,
        configured: Callable[[Any], bool],
        written: Written | None = None,
        *,
        made: bool = False,
    ) -> None:
        """Make a guard for each of ``reads``; ``configured`` tells whose writes advance the epoch.

        ``written`` are the containers, and the places of containers, that the capture writes.
        With ``made`` the capture has been made before: nothing is noted to be put back.
        """
        self.made = made
        self.reads: Reads | None = reads
        self.always: list[Guard] = []
        self.by_epoch: list[Guard] = []
        self.written = Written() if written is None else written
        self.matching = Matching(written=self.written)
        self.attribute_sources = self.matching.sources
        self.repeated = self.matching.repeated
        self.numbers = self.matching.numbers
        self.inputs = self.matching.inputs
        self.outside = frozenset(reads.tensors)
        self.known = reads.seen | reads.cells.keys() | reads.known_classes
        self.namespaces = reads.namespaces()
        self.containers = reads.containers
        # Arguments that are not the same at another call, though they are the same objects.
        self.once = frozenset(id(a) for a in reads.given if isinstance(a, Iterator))
        self.members = Members(reads)
        self.gradients: list[tuple[Address, Leaf]] = []  # of tensors at places that may change
        self.epoch = EPOCH[0]
        # What only the capture itself needs:
        self.snapshot = Snapshot(reads.objects, self.known)
        replaced = self.written.replaced
        if self.written.containers or self.written.places or replaced:
            self._fix(reads)
        late = []
        for read in reads:
            if id(read.owner) in replaced:
                late.append(read)
            else:
                self._guard_read(read, reads, configured)
        for read in late:
            self._guard_replaced(read, reads, configured)
        # Of each object the class, and the dict of its attributes, by epoch or not.
        self.classes: Guard | None = None
        self.natures: list[tuple[Any, Guard, Guard | None]] = []
        self.identities: list[IdentityGuard] = []
        self._guard_classes(reads.objects.values(), configured)
        if made:
            self.settle()

    def _guard_read(self, read: Read, reads: Reads, configured: Callable[[Any], bool]) -> None:
        """Add the guards of one ``read``."""
        owner = read.owner
        if read.kind == "attributes":
            self._attributes(owner, read.names, configured(owner))
        elif read.kind == "absent":
            self._nothing_new(owner, read.names, reads.never_cached(owner), configured(owner))
            named = reads.accesses.names_of(owner) & set(read.names)
            if named and isinstance(owner, (types.ModuleType, type)):
                self._still_absent(owner, frozenset(named), configured(owner))
        elif read.kind == "listed":
            names = list(vars(owner))
            read_names = functools.partial(list, vars(owner))
            label = f"the names of the attributes of {label_of(owner)}"
            self.always.append(Guard(label, read_names, names.__eq__, names))
        elif read.kind == "global":
            self._global(owner, *read.names, read.assigned)
        elif read.kind == "variable":
            self._cell(owner, f"closure variable {next(iter(read.names))}", read.assigned)
        elif read.kind == "defaults":
            self._defaults(owner)
        else:
            self._argument(owner)

    def _guard_replaced(self, read: Read, reads: Reads, configured: Callable[[Any], bool]) -> None:
        """Note one ``read`` of an object in whose place each call puts another one.

        The guard of that place looks at all that the object holds, and at which attributes it has.
        Those of its class have guards here.  One of which no place is known has guards of its own.
        """
        owner = read.owner
        held = self.matching.objects.get(id(owner))
        if held is None:
            self._guard_read(read, reads, configured)
        elif read.kind == "attributes":
            for name in read.names:
                lasting = held.address.item(Attribute.of(owner, name)).now
                read_now = functools.partial(stored, owner, name)
                label, value = f"{label_of(owner)}.{name}", read_now()
                matches = self.matching.exactly(value)
                guard = self._guard(label, read_now, value, matches)
                if not is_own(owner, name):
                    of_class = functools.partial(stored, type(owner), name)
                    self.always.append(self._guard(label, of_class, value, matches))
                if not self.made:
                    place = WatchedPlace(guard, value, owner, name, is_attribute=True)
                    place.lasting = lasting
                    self.snapshot.watch(place)
        elif read.kind == "absent":
            self.snapshot.absent.append(AbsentNames(owner, frozenset(read.names), False))

    def _is_replaced(self, owner: Any) -> bool:
        """Return whether guards know ``owner`` by what it holds, not by which object it is."""
        return id(owner) in self.matching.objects

    def _guard_classes(self, owners: Iterable[Any], configured: Callable[[Any], bool]) -> None:
        """Guard which classes ``owners`` are of, and which dicts hold their attributes."""
        by_epoch = []
        for owner in owners:
            if isinstance(owner, (type, types.ModuleType, types.FunctionType)):
                continue
            label, kind = label_of(owner), type(owner)
            of = _identity(f"the class of the {label} object", functools.partial(type, owner), kind)
            if not self.made:
                self.snapshot.watch(WatchedPlace(of, kind, owner, "__class__", is_attribute=True))
            if self._is_replaced(owner):
                continue
            if configured(owner):
                by_epoch.append(owner)
                continue
            own, held = getattr(owner, "__dict__", None), None
            if type(own) is dict:
                read = functools.partial(getattr, owner, "__dict__")
                held = _identity(f"the __dict__ of the {label} object", read, own)
            self.natures.append((owner, of, held))
        if by_epoch:
            read, kinds = (lambda: list(map(type, by_epoch))), list(map(type, by_epoch))
            label = "the classes of modules and optimizers"
            self.classes = Guard(label, read, kinds.__eq__, kinds)

    def _fix(self, reads: Reads) -> None:
        """Note the tensors that stand at places which the capture does not write."""
        for read in reads:
            if id(read.owner) in self.written.replaced:
                continue
            if read.kind == "attributes":
                for name, value in zip(read.names, read.values(), strict=True):
                    written = (id(read.owner), name) in self.written.places
                    if not written and not isinstance(value, Tensor):
                        self.matching.fix(value)
            elif not read.assigned:
                self.matching.fix(read.values())

    def _add(
        self,
        name: str,
        read: Callable[..., Any],
        value: Any,
        matches: Matcher,
        owner: Any,
        place: str,
    ) -> None:
        """A guard on the place of this name that ``owner`` has."""
        guard = self._guard(name, read, value, matches)
        self.always.append(guard)
        if not self.made:
            self.snapshot.watch(WatchedPlace(guard, value, owner, place))

    def _guard(self, name: str, read: Callable[[], Any], value: Any, matches: Matcher) -> Guard:
        """Return the Guard of a read that expects ``value``, or any number of its kind."""
        expected = matches if isinstance(matches, AnyNumber) else value
        if self._is_replaced(value):  # it may hold something else though it is the same object
            expected = AnyObject(type(value))
        return Guard(name, read, matches, expected, bool(self.written.numbers))

    def _global(self, namespace: dict, name: str, assigned: bool) -> None:
        read = functools.partial(namespace.get, name, MISSING)
        module = sys.modules.get(namespace.get("__name__", ""))
        if assigned and module is not None and vars(module) is namespace:
            self._place(module, name, read, f"global {name}", read())
            return

        value = read()
        place = None if assigned else Address(namespace, CONTENT, (name,))
        matches = self.matching.exactly(value, place)
        self._add(f"global {name}", read, value, matches, namespace, name)

    def _cell(self, cell: types.CellType, label: str, assigned: bool) -> None:
        def read() -> Any:
            try:
                return cell.cell_contents
            except ValueError:
                return MISSING

        if assigned:
            self._place(cell, "cell_contents", read, label, read())
        else:
            value = read()
            matches = self.matching.exactly(value, Address(cell, "cell_contents"))
            self._add(label, read, value, matches, cell, "cell_contents")

    def _defaults(self, function: types.FunctionType) -> None:
        first, second = function.__defaults__, function.__kwdefaults__
        label = f"defaults of {function.__name__}"
        matches = self.matching.exactly(first, Address(function, "__defaults__"))
        if second is None:

            def read() -> Any:
                both = function.__defaults__, function.__kwdefaults__
                return both[0] if both[1] is None else both

            self._add(label, read, first, matches, function, "__defaults__")
        else:
            keywords = self.matching.exactly(second, Address(function, "__kwdefaults__"))
            self._add(
                f"keyword {label}",
                lambda: (function.__defaults__, function.__kwdefaults__),
                (first, second),
                lambda found: matches(found[0]) and keywords(found[1]),
                function,
                "__defaults__",
            )

    def _argument(self, argument: Any) -> None:
        """Guard the content of an argument that is no tree: the key covers its identity only."""
        matches = self.matching.exactly(argument, Address(argument, CONTENT))
        label = f"{type(argument).__name__} argument"
        self._add(label, lambda: argument, argument, matches, argument, CONTENT)

    def _attributes(self, owner: Any, names: Collection[str], configured: bool) -> None:
        """Guard the current values of the attributes ``names`` of ``owner``."""
        label = label_of(owner)
        for name in names:
            self._attribute(owner, name, configured, label)

    def _attribute(
        self, owner: Any, name: str, configured: bool, label: str, value: Any = Ellipsis
    ) -> None:
        """Guard one attribute: that it is ``value``, or its current value if none is given."""
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
        """Guard an attribute or assigned variable; a tensor there may be replaced by its like."""
        is_tensor = type(value) is Tensor
        written = (id(owner), name) in self.written.places
        if is_tensor:
            matches = self.matching.tensor(value, Address(owner, name))
        elif written:
            matches = self.matching.exactly(value, Address(owner, name), replaceable=True)
        else:
            matches = self._unwritten(owner, name, value)
        guard = self._guard(label, read, Guards if is_tensor else value, matches)
        by_epoch = by_epoch and not (
            is_mutable(value) or is_tensor or written or self._is_replaced(value)
        )
        (self.by_epoch if by_epoch else self.always).append(guard)
        if self.made:
            return
        self.snapshot.watch(WatchedPlace(guard, value, owner, name, is_attribute=True))

    def _unwritten(self, owner: Any, name: str, value: Any) -> Matcher:
        """Return the test for a place that the capture does not write."""
        holder = owner if isinstance(owner, types.CellType) else storage_of(owner, name)
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

    def _nothing_new(
        self, owner: Any, absent: frozenset[str], never_cached: frozenset[str], configured: bool
    ) -> None:
        """Guard that none of the ``absent`` attributes appears on the object itself."""
        self.snapshot.absent.append(AbsentNames(owner, absent, configured))
        if not isinstance(owner, (types.ModuleType, type)):  # theirs are many
            self._still_absent(owner, never_cached, configured)

    def _still_absent(self, owner: Any, names: frozenset[str], configured: bool) -> None:
        """Add the guard that ``owner`` itself has none of the attributes ``names``."""
        label = label_of(owner)
        read = functools.partial(vars(owner).keys().isdisjoint, names)
        guard = Guard(f"{label}.*", read, plain_matcher(True), True)
        (self.by_epoch if configured else self.always).append(guard)

    # Around the capture -----------------------------------------------------------------------

    def written_places(self, own: OwnWrites, asked: Set[int]) -> Iterator[tuple[Any, str, Any]]:
        """Yield (owner, name, original) of the guarded places that the capture has written.

        Of these the value is now one of a run, a tensor, a plain value or something that was there
        before, or it was a tensor before.  ``asked`` are the ids of values of which code asks which
        they are.
        """
        for place in self.snapshot.places:
            if not place.is_attribute:
                continue
            now, begun, value = place.now(), place.begun, place.value
            stood_in = begun is not value  # then the same as before is another all the same
            written = now is not begun and (
                holds_run_value(now)
                or type(now) is OptionalValue
                or self._is_made(now)
                or holds_tensor(begun)
                or place.name == "__class__"
                or id(now) in self.known
                or not asked.isdisjoint((id(now), id(begun)))
                or now is MISSING
                or (is_plain(now) and (stood_in or not self.matching.exactly(value)(now)))
            )
            if written and not place.is_elsewhere() and own(place.key, [now]):
                yield place.owner, place.name, begun
        for absent in self.snapshot.absent:
            owner = absent.owner
            made = [
                name for name, now in vars(owner).items()
                if name in absent.names
                and (
                    holds_tensor(now)
                    or (
                        (
                            self._is_made(now)
                            or is_plain(now)
                            or holds_run_value(now)
                            or id(now) in self.known
                        )
                        and name not in cached_names(owner)
                    )
                )
                and own(key_of(owner, name), [now])
            ]  # fmt: skip
            for name in made:
                yield owner, name, MISSING
            if made and absent.is_shared:
                self._still_absent(owner, frozenset(made), absent.configured)

    def _is_made(self, value: Any) -> bool:
        """Return whether ``value`` is a list, a dict or an object that the capture has made.

        A tuple of such objects is, too.
        """
        return type(value) in (list, dict) or any(
            id(leaf) not in self.known and is_object(leaf) for leaf in leaves_in(value)
        )

    def was_there(self, value: Any, asked: Collection[int]) -> bool:
        """Return whether a place held ``value``, or something else did, before the capture."""
        if id(value) in self.known:
            return True
        places = self.snapshot.places if id(value) in asked else ()
        return any(place.value is value for place in places)

    def leave_out(self, writes: Iterable[PlaceWrite], sources: Iterable[Source]) -> None:
        """Drop the guards of attributes that the code only sets, and that each run sets.

        ``writes`` and ``sources`` are those of a good capture.  What one path alone sets may become
        what was there: a source, if that was a tensor, else a constant of the recipe or graph.
        """
        read = {source.address.key[:2] for source in sources if source.address is not None}
        made = [w for w in writes if all(kind == "output" for kind, _ in w.recipe.leaves)]
        free = {w.address.key[:2] for w in made if not w.key} - read
        gone = [
            place.guard
            for place in self.snapshot.places
            if (id(place.owner), place.name) in free
            and not isinstance(place.owner, (types.ModuleType, types.CellType))
            and (place.value is None or type(place.value) is Tensor)
            and self.reads.is_only_set(place.name)
        ]
        for guards in (self.always, self.by_epoch):
            guards[:] = [guard for guard in guards if not any(guard is other for other in gone)]

    def count_on_absence(self, owners: Mapping[Key, Any]) -> None:
        """Guard that ``owners`` have no attributes of names that were looked for in vain."""
        for (_, name), owner in owners.items():
            read = functools.partial(stored, owner, name)
            self.always.append(_identity(f"{label_of(owner)}.{name}", read, MISSING))

    def count_on(self, memos: Iterable[Memo]) -> None:
        """Guard that cached functions return what they have returned to the capture."""
        for memo in memos:
            label = f"the result of {memo.label}"
            self.always.append(Guard(label, memo.now, memo.holds, memo.result))

    def settle(self) -> None:
        """Add the guards of cached properties after a good capture, and drop the snapshot."""
        for absent in self.snapshot.absent:
            owner, configured = absent.owner, absent.configured
            if self._is_replaced(owner):
                continue
            for name in absent.found():
                self._attribute(owner, name, configured, label_of(owner))
            if not absent.is_shared:
                # Those of tensors are computed, and kept, by the first run.
                later = absent.names & cached_names(owner) - vars(owner).keys()
                if later:
                    self._still_absent(owner, later, configured=False)
        self.snapshot = Snapshot({}, set())
        self.containers, self.namespaces, self.reads = {}, {}, None

    def each(self) -> Iterator[Guard]:
        """Yield all guards, for messages that say which of them fails."""
        yield from (*self.always, *self.by_epoch)
        for guards in ((self.classes,), *[guards for _, *guards in self.natures]):
            yield from filter(None, guards)

    def fix_gradients(self, capture: Capture) -> None:
        """Note the places of tensors whose gradients ``capture`` reads or writes.

        Others may stand there at other calls; the gradients of the capture are those of these.
        """
        places = [source.address for source in capture.sources if source.address is not None]
        places += [w.address for w in capture.place_writes] + [a for a, _ in capture.place_reads]
        owners = {id(place.owner) for place in places if isinstance(place.owner, Leaf)}
        for address in self.attribute_sources.values() if owners else ():
            leaf = gradient_leaf(address.now())
            if id(leaf) in owners:
                self.gradients.append((address, leaf))

    def _gradient_terms(self, names: dict[str, Any]) -> list[str]:
        """Return expressions that the tensors at those places have the same gradients."""
        terms, name = [], functools.partial(bound_name, names)
        for address, leaf in self.gradients:
            of = name("leaf_of", gradient_leaf)
            terms.append(f"{of}({address.text(name)}) is {name('leaf', leaf)}")
        return terms

    def compiled(self, capture: Capture) -> Callable[[Sequence[Any]], bool]:
        """Return ``holds(leaves)``, one compiled expression that tests all guards.

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
        for i, (owner, of, held) in enumerate(self.natures):
            names[f"object{i}"], names[f"class{i}"] = owner, of.expected
            terms.append(f"type(object{i}) is class{i}")
            if held is not None:
                names[f"dict{i}"] = held.expected
                terms.append(f"object{i}.__dict__ is dict{i}")
        terms += [guard.term(functools.partial(bound_name, names)) for guard in self.identities]
        places = [source.address for source in capture.sources]
        places += [w.address for w in capture.place_writes] + [a for a, _ in capture.place_reads]
        owners = {a.owner: None for a in places if a is not None and type(a.owner) is ArgumentLeaf}
        turned = {which for which, _ in capture.turned}  # when it runs
        absent = [a.owner for a, original in capture.place_reads if original is None]
        terms += [
            owner.guard()
            for owner in owners
            if owner.index not in turned and not (owner.frozen and owner in absent)
        ]
        for i, (address, original) in enumerate(capture.place_reads):
            owner = address.owner
            if type(owner) is ArgumentLeaf and (owner.frozen or owner.index in turned):
                names[f"held{i}"] = functools.partial(held_gradient, owner.index)
                now = f"held{i}(leaves)"
            else:
                now = address.text(functools.partial(bound_name, names))
            if original is None:
                terms.append(f"{now} is None")
            elif original.type.is_open:
                names[f"fits{i}"], names[f"place_type{i}"] = capture.open_axes.fits, original.type
                terms.append(f"({now} is not None and fits{i}({now}, place_type{i}, leaves))")
            else:
                names[f"place_type{i}"] = original.type
                terms.append(f"({now} is not None and {now}.type is place_type{i})")

        facts = zip(capture.sources, capture.input_types, capture.requires, strict=True)
        cells = [(s.tensor, kind, needs) for s, kind, needs in facts if s.kind == "cell"]

        told = [what for what in capture.flow_facts if what.address is None]
        for i, what in enumerate(capture.flow_facts):
            if what.address is not None:
                names[f"told{i}"] = what.holds
                terms.append(f"told{i}()")
        terms += self._gradient_terms(names)

        def epoch_holds(moved: int) -> bool:
            for guard in self.by_epoch:
                if not guard.holds():
                    return False
            if self.classes is not None and not self.classes.holds():
                return False
            if not all([what.holds() for what in told]):
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


def _identity(label: str, read: Callable[[], Any], expected: Any) -> Guard:
    """Return the guard that ``read`` still returns the very object ``expected``."""
    return Guard(label, read, functools.partial(operator.is_, expected), expected)


def held_gradient(index: int, leaves: Sequence[Any]) -> Any:
    """Return the gradient that an argument has, frozen or not, or may get once it is a variable."""
    return getattr(gradient_leaf(leaves[index]), "grad", None)


def alias_terms(capture: Capture, names: dict[str, Any]) -> list[str]:
    """Return expressions over ``leaves`` that test which input tensors are the same object.

    One tensor that reaches a plan in two ways (as an argument and from outside, or by two
    attributes) is two inputs of it, which makes no difference only while neither is written.  So a
    plan that writes asks for tensors that differ, and one captured with a tensor that came in two
    ways asks for that.
    """
    terms: list[str] = []

    def name(prefix: str, value: Any) -> str:
        made = f"{prefix}_alias{len(names)}"
        names[made] = value
        return made

    for index, place in capture.argument_aliases:
        now = name("tensor", place) if isinstance(place, Tensor) else place.text(name)
        terms.append(f"leaves[{index}] is {now}")
    written = {source for source, _ in capture.writes}
    sources = capture.sources
    fixed = [i for i, s in enumerate(sources) if s.kind == "cell"]
    moving = {
        i: f"leaves[{s.index}]" if s.address is None else s.address.text(name)
        for i, s in enumerate(sources)
        if s.kind not in ("cell", "number")
        and not (
            s.address is not None and isinstance(s.address.owner, (Leaf, ArgumentLeaf))
        )  # a gradient is nobody else's
    }
    for i, now in moving.items():
        others = frozenset(id(sources[j].tensor) for j in fixed if i in written or j in written)
        if others:
            terms.append(f"id({now}) not in {name('others', others)}")
    if any(sources[i].kind == "attribute" for i in moving) and written & moving.keys():
        ids = ", ".join(f"id({now})" for now in moving.values())
        terms.append(f"len({{{ids}}}) == {len(moving)}")
    return terms
