"""hybridize: a function that is captured once per key, and runs as a plan from then on."""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hybrid.calls.dynamic_axes import Axis, Declared, Table, declared_axes, require_table
from hybrid.calls.eager_runs import LOOK, PLAIN, EagerRuns, PlanRequest, UnpaidPlan, reading_loaders
from hybrid.calls.executable import PlanInfo, Planned
from hybrid.calls.families import NONE, Family, NumberInputs, Trace, covers, family_key
from hybrid.calls.ledger import Ledger, LedgerInfo
from hybrid.calls.open_families import Opened, OpenFamily, families_of, family_keys
from hybrid.calls.plan_table import PlanTable, next_use
from hybrid.calls.recapture_reasons import Call, about_numbers, described, why_new
from hybrid.calls.staged_calls import StagedCalls
from hybrid.config import VERIFYING, is_configured, keeps_ledgers, plan_cache, verified_calls
from hybrid.core.exceptions import taken
from hybrid.core.imports import above
from hybrid.core.timing import phase
from hybrid.core.tree import flatten
from hybrid.eager.streams import submit
from hybrid.eager.thread_state import STATE, as_before
from hybrid.errors import (
    RAISED_BY_KERNELS,
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    CutShortError,
    EagerOnlyError,
    ModelBuiltError,
    TracedBoolError,
    UncapturedCallError,
    author_location,
    ends_capture,
    warn_author,
)
from hybrid.ir import Graph
from hybrid.ir.interpreter import ACTIVE, current, outward
from hybrid.ir.record import is_recording
from hybrid.ops.support.operand_checks import require_choice
from hybrid.trace.capture.capture import capture
from hybrid.trace.capture.captured_graph import Capture
from hybrid.trace.capture.first_gradients import adding
from hybrid.trace.capture.recapture import Attempt, Paths, deeper, recaptured, uncollected
from hybrid.trace.capture.side_effects import refuse_lost, refuse_shared
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.needs_conversion import is_straight
from hybrid.trace.guards.reads import Reads
from hybrid.trace.places.code_owner import definition
from hybrid.trace.places.signature import aliases, endless_argument, key_of, lifted, plain
from hybrid.trace.regions.requires_grad import turn

if TYPE_CHECKING:  # conversion and explanations are imported with the first capture
    from hybrid.explain.explanation import Explanation

MODES = ("auto", "trace", "ast")
_BUILDS = 3  # calls that build modules, before others of their family run eagerly for good


class Hybridized(StagedCalls):
    """A callable that runs ``function`` as plans; see ``hybridize``."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        mode: str = "auto",
        optimize: str = "exact",
        fallback: str = "error",
        max_plans: int = 64,
        name: str | None = None,
        dynamic: bool | Table | None = None,
        ledger: bool | None = None,
    ) -> None:
        if ledger not in (None, True, False):
            raise ArgumentError(
                f"ledger is {ledger!r}",
                fix="leave ledger out, or give False to capture each new key, whatever that costs",
            )
        require_choice("mode", mode, MODES)
        require_choice("optimize", optimize, ("exact", "fast"))
        require_choice("fallback", fallback, ("error", "eager"))
        if not callable(function):
            raise ArgumentTypeError(
                f"{type(function).__name__} is not callable",
                fix="hybridize a function, a method or a Module",
            )
        if isinstance(max_plans, bool) or not isinstance(max_plans, int) or max_plans < 1:
            raise ArgumentError(f"max_plans is {max_plans!r}", fix="give an int >= 1")
        require_table(function, dynamic)
        functools.update_wrapper(self, function)
        self.function = function
        self.unbound: Hybridized | None = None  # of a method: the one that the class holds
        self.options = {
            "mode": mode, "optimize": optimize, "fallback": fallback, "max_plans": max_plans,
            "name": name, "dynamic": dynamic, "ledger": ledger,
        }  # fmt: skip
        self._table = PlanTable(max_plans)
        self._quick = self._table.quick
        self._warned: set[str] = set()
        self._paths = Paths()  # what captures have found out about sizes that depend on values
        self._eager: set[Hashable] = set()  # families of calls that no plan gives the bits of
        self._building: dict[Hashable, int] = {}  # how often calls of a family have built modules
        self._new_ledger()

    def _new_ledger(self) -> None:
        options = self.options
        on = keeps_ledgers() if options["ledger"] is None else options["ledger"]
        # Where eager code may have other bits, which ones there are must not depend on time.
        ledger = Ledger() if on and options["optimize"] == "exact" else None
        strict = options["fallback"] != "eager"
        self._table.ledger = ledger
        self._runs = EagerRuns(
            self.function, self._name(), self._table, strict=strict, may_rest=not options["dynamic"]
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if ACTIVE:
                interpreter = current()
                if interpreter.watches:
                    return interpreter.converted(self.function, optional=True)(*args, **kwargs)
                if interpreter.batches or interpreter.queues:
                    return self._general(args, kwargs)
            elif (runs := self._runs).rests:
                if not kwargs:
                    for value in args:
                        if value.__class__ not in PLAIN:
                            break
                    else:
                        for _ in runs.dozing:
                            return self.function(*args)
                result = runs.rested(args, kwargs)
                if result is not LOOK:
                    return result
            if not kwargs:
                planned = None
                try:
                    key = tuple([t.type for t in args])
                    found = self._quick[is_recording()].get(key)
                    if found is not None and plain(args) and (found.shares or found.holds(args)):
                        planned = found
                except (AttributeError, TypeError):  # some argument is not a tensor
                    pass
                if planned is not None:
                    if planned.is_staged:
                        return self._general(args, kwargs, planned)
                    try:
                        if not planned.shares:
                            planned.last_used = next_use()
                            planned.calls = calls = planned.calls + 1
                            if calls < planned.due:
                                return planned.run(args)
                            return self._due(planned, args)
                        with STATE:
                            planned = planned.serving(args)
                            if planned is not None:
                                planned.last_used = next_use()
                                planned.calls = calls = planned.calls + 1
                                if calls < planned.due:
                                    return planned.run(args)
                                return self._due(planned, args)
                    except CutShortError as error:
                        self._take_lengths(error)
                    except RAISED_BY_KERNELS as error:
                        return self._runs.again(planned, args, kwargs, error)
            return self._general(args, kwargs)
        except Exception as error:
            outward(error)
            raise

    def _general(
        self, args: Sequence[Any], kwargs: dict[str, Any], planned: Planned | None = None
    ) -> Any:
        """A call of any arguments: find what serves it (``planned``, if known), or capture it."""
        begin = self._runs.now()
        if self._table.unpaid and planned is None:
            result = self._runs.unpaid_again(args, kwargs, begin)
            if result is not LOOK:
                return result
        leaves, key = (args, planned.key) if planned else self._leaves(args, kwargs)
        if self._eager and family_key(key, leaves) in self._eager:
            return self._runs.unplanned(args, kwargs, begin)
        try:
            planned = planned or self._table.find(key, leaves)
            if planned is not None and not planned.shares:
                return self._run(planned, args, kwargs, leaves, begin)
            call = Call(self.function, args, kwargs, leaves, key)
            request = None if planned is not None else self._request(call)
            if request is None or not self._runs.refuses(request):
                return self._locked(call, begin)
        except CutShortError as error:
            self._take_lengths(error)
            return self(*args, **kwargs)
        except UnpaidPlan as unpaid:
            return self._runs.unpaid(unpaid.request, unpaid.begin)
        except UncapturedCallError as error:
            error.settle()
            if isinstance(error, ModelBuiltError):
                family = family_key(key, leaves)
                self._building[family] = count = self._building.get(family, 0) + 1
                if count == _BUILDS:
                    self._eager.add(family)
                    self._warn(error)
            return self.function(*args, **kwargs)
        except EagerOnlyError as error:
            if len(self._eager) >= 4 * self.options["max_plans"]:
                self._eager.clear()
            self._eager.add(family_key(key, leaves))
            self._warn(error)
        except CaptureError as error:  # of the capture, or what the values of this call ask for
            if self.options["fallback"] != "eager":
                raise
            self._warn(error)
        else:
            return self._runs.unpaid(request, begin)
        return self.function(*args, **kwargs)

    @as_before
    def _locked(self, call: Call, begin: float) -> Any:
        """The call, with no capture and no call that writes under way but in this thread."""
        args, kwargs, leaves = call.args, call.kwargs, call.leaves
        with STATE:
            planned = self._table.find(call.key, leaves)  # another thread may have been faster
            if planned is None:
                request = self._request(call)
                planned, begin = self._runs.paid(request, self._made, begin), 0.0
            if planned.shares:
                return self._run(planned, args, kwargs, leaves, begin)
        return self._run(planned, args, kwargs, leaves, begin)

    def _run(
        self,
        planned: Planned,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        leaves: Sequence[Any],
        begin: float,
    ) -> Any:
        """Run ``planned``, the look for which has begun at ``begin``; 0 if it was made."""
        if planned.capture.outside is not None:
            refuse_shared(self._name(), (args, kwargs), planned.capture.outside)
        if planned.written_arguments:
            names = Call(self.function, args, kwargs).names
            refuse_lost(self._name(), flatten((args, kwargs))[0], planned.written_arguments, names)
        batches = bool(ACTIVE) and current().batches
        strict = self.options["fallback"] != "eager" and not batches
        turned = planned.capture.turned
        if turned:
            turn(turned, leaves)
        if strict and not turned and not kwargs and len(leaves) == len(args) and plain(args):
            self._quick[is_recording()][tuple([t.type for t in args])] = planned
        planned.last_used = next_use()
        planned.calls = calls = planned.calls + 1
        if batches:  # many rows at once: not what the plan is made for, but its graph
            return planned.replayed(leaves) if planned.replays else self.function(*args, **kwargs)
        needed = planned.capture.given or planned.is_staged  # another capture may, of stages
        given = (leaves, (args, kwargs)) if needed else (leaves,)
        if ACTIVE and current().queues and not planned.is_staged:
            return planned.queued(*given)
        try:
            if planned.is_staged:
                return self._staged(planned, args, kwargs, leaves, given)
            if calls >= planned.due:
                return self._runs.timed(planned, args, kwargs, given, begin)
            return planned.run(*given)
        except RAISED_BY_KERNELS as error:
            return self._runs.again(planned, args, kwargs, error)

    def _due(self, planned: Planned, args: Sequence[Any]) -> Any:
        """A call of plain tensors that is timed, with another look for its plan."""
        begin = self._runs.now()
        self._quick[is_recording()].get(tuple([t.type for t in args]))
        if plain(args):
            planned.holds(args)
        return self._runs.timed(planned, args, {}, (args,), begin)

    def _request(self, call: Call) -> PlanRequest:
        """What is known of a plan that ``call`` needs."""
        if self.options["dynamic"]:
            self._declared(call)  # raises, whether it is captured or runs eagerly
        family = self._table.families.get(family_key(call.key, call.leaves)) or Family()
        sizes = served = None
        if self._table.open_families and self._opens():
            with STATE:
                families = families_of(self._table.open_families, call.key, call.leaves)
                served = next(filter(None, [f.serving(call.leaves) for f in families]), None)
            sizes = families[0] if families else None
        return PlanRequest(call, family, sizes, served)

    def _leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Hashable]:
        """The leaves of the arguments, and the key of the call."""
        try:
            leaves, structure = flatten((args, kwargs) if kwargs else args)
        except RecursionError:
            raise endless_argument(self._name(), self.function, args, kwargs) from None
        leaves = lifted(leaves)
        keys = tuple([key_of(leaf) for leaf in leaves])
        return leaves, (structure, keys, is_recording(), aliases(leaves), current().many)

    def _made(self, request: PlanRequest) -> Planned:
        """A plan for a call that has none: a new capture, unless an open one serves its sizes."""
        call = request.call
        if request.served is None:
            return self._captured(call)
        made, values = request.served
        with uncollected(), phase(f"bind {self._name()}"):
            return self._table.keep(made.at(values, call.leaves, call.key), call.leaves)

    def _captured(self, call: Call) -> Planned:
        """A plan; where the function always raises, what it does before that is done."""
        try:
            with uncollected(), phase(f"capture {self._name()}"):
                return deeper(functools.partial(self._capture, call))
        except RecursionError:
            raise EagerOnlyError(
                f"{self._name()} calls too deeply to be captured",
                at=definition(self.function),
                why="A capture takes some calls of Python for each of the author's.",
            ) from None
        except BaseException as error:  # SystemExit, too
            ended = error
            put = taken(error)
            if put is None:
                raise
        put(call.leaves, (call.args, call.kwargs))
        raise ended

    def _capture(self, call: Call) -> Planned:
        leaves, key = call.leaves, call.key
        why = self._why(call)  # before there is one
        family = self._table.family(call)
        trace = functools.partial(self._capture_of, call, family)
        if plan_cache() is None:
            planned, about = self._planned(call, family, trace)
        else:
            from hybrid.calls.files.lookup import Lookup

            lookup = Lookup(
                self.function, (call.args, call.kwargs), leaves, key, self.options, trace
            )
            planned, about = self._planned(call, family, lookup, lookup)
            if not lookup.settle(planned):
                planned, about = self._planned(call, family, trace)
        planned.why = why + about
        if planned.opened is not None:
            planned.opened.why = planned.why
        else:
            family.plans.append(planned)
        self._table.keep(planned, leaves)
        self._table.forget_oldest()
        return planned

    def _capture_of(self, call: Call, family: Family, inputs: NumberInputs) -> Capture:
        """A new capture, or one of those there for the gradients that this call finds."""
        for planned in family.plans:
            same = inputs.matches(planned) and covers(planned, call.key[1])
            capture = adding(planned.capture, call.leaves) if same else None
            if capture is not None:
                return capture
        return self._trace(call.args, call.kwargs, call.leaves, inputs)

    def _planned(
        self, call: Call, family: Family, trace: Trace, files: Any = None
    ) -> tuple[Planned, str]:
        """The plan of what ``trace`` captures, and what there is to say of numbers in it."""
        keys, leaves = call.key[1], call.leaves
        fast = self.options["optimize"] == "fast"
        sizes = self._open_family(call)
        if self._opens():
            opening = functools.partial(self._trace, call.args, call.kwargs, leaves)
            if files is not None:
                files.load_open = functools.partial(sizes.loaded_at, leaves, fast, files)
            found = sizes.capture(leaves, opening, fast, files)
            if found is not None:
                made, values = found
                about = about_numbers(call, made.inputs, sizes.specific, made.capture)
                return made.at(values, leaves, call.key), about
        capture, inputs = family.capture(keys, leaves, trace)
        sizes.captured(leaves, capture)
        about = about_numbers(call, inputs, family.refusal(keys, leaves), capture)
        if capture.value_sizes is not None:
            return self._staged_of(capture, leaves, call.key, inputs), about
        return Planned(capture, leaves, call.key, inputs.numbers, fast=fast), about

    def _open_family(self, call: Call) -> OpenFamily:
        """The family of calls that differ in sizes alone; few are kept."""
        key, *known = family_keys(self._table.open_families, call.key, call.leaves)
        family = self._table.open_families.get(key)
        if family is None or self.options["dynamic"]:
            declared = self._declared(call)
        if family is None:
            wider = self._table.open_families[known[0]] if known else None
            if len(self._table.open_families) >= self.options["max_plans"]:
                self._table.clear_open()
            family = OpenFamily(call.leaves, declared, wider)
            self._table.open_families[key] = family
        return family

    def _declared(self, call: Call) -> Mapping[Axis, Declared]:
        """The axes that are declared to vary; raises where sizes are not as they are declared."""
        dynamic = self.options["dynamic"]
        names = call.names() if dynamic else ()
        return declared_axes(self.function, dynamic, call.leaves, names)

    def _opens(self) -> bool:
        """Whether axes are opened."""
        return self.options["dynamic"] is not False and not current().traces

    def _why(self, call: Call) -> str:
        dropped = call.key in self._table.dropped and not self._table.plans.get(call.key)
        known = [alike[-1] for alike in self._table.listed()]
        return why_new(call, known, self.options["max_plans"] if dropped else None)

    def _trace(
        self, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any],
        inputs: NumberInputs = NONE, opened: Opened | None = None, exports: bool = False,
    ) -> Capture:  # fmt: skip
        converts = self.options["mode"] != "trace"
        members: Callable[..., Any] = lambda _, call: call()  # noqa: E731
        options: dict[str, Any] = {"numbers": inputs.numbers, "opened": opened, "exports": exports}
        if inputs or opened or not is_straight(self.function, args, kwargs):
            with phase("import"):  # at the first capture of a process
                from hybrid.staging.callee import resolving
                from hybrid.staging.classes import with_converted_members

            members = with_converted_members
            options["convert"] = resolving if converts else None

        def once(reads: Reads, guards: Guards, attempt: Attempt) -> Capture:
            own = reads.classes if converts else ()
            options.update(unrolls=attempt.unrolls, follows=attempt.follows, paths=attempt.paths)

            def traced() -> Capture:
                with self._explaining_source(converts):
                    name = self._name()
                    return capture(self.function, args, kwargs, leaves, guards, name, **options)

            return members(own, traced)

        with STATE:
            try:
                return recaptured(
                    self.function, leaves, is_configured, once, inputs.places,
                    [item for item, _ in opened or () if not isinstance(item, int)], self._paths,
                )  # fmt: skip
            except BaseException as error:
                if not self._paths.sized or ends_capture(error):
                    raise
                # Eagerly it says the sizes that there are, not what stands for them, and what was
                # written before has them.
                raise UncapturedCallError(str(error)) from error

    @contextmanager
    def _explaining_source(self, converts: bool) -> Iterator[None]:
        """Say why a function that branches on a tensor was not converted."""
        try:
            yield
        except TracedBoolError as error:
            from hybrid.convert.conversion import why_not

            reason = why_not(self.function) if converts else 'mode="trace" converts nothing'
            if reason:
                error.why += f"\nThe control flow of {self._name()} was not converted: {reason}."
                instead = "write the function in a file" if converts else 'leave out mode="trace"'
                error.fix = f"{instead}, or call hybrid.cond, hybrid.while_loop or hybrid.where"
            raise

    def _name(self) -> str:
        own = getattr(self.function, "__name__", type(self.function).__name__)
        name = self.options["name"] or own
        return name if name.isidentifier() else "graph"

    def _warn(self, error: CaptureError) -> None:
        place = str(error.at)
        if place not in self._warned:
            self._warned.add(place)
            warn_author(f"{self._name()} runs eagerly: {error}")

    submit = submit

    # Looking at it ----------------------------------------------------------------------------

    @as_before
    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that a call with these arguments is captured into; runs nothing.

        It has symbols for axes that are declared to vary.
        """
        return self.captured(args, kwargs)[1].graph

    @as_before
    @reading_loaders
    def captured(
        self, args: Sequence[Any], kwargs: dict[str, Any], inputs: NumberInputs = NONE,
        *, exports: bool = False,
    ) -> tuple[Call, Capture]:  # fmt: skip
        """A call, and what it is captured into; runs nothing, and is not kept.

        There are symbols for axes that are declared to vary; ``inputs`` are numbers that may.
        ``exports``: it goes into a file, where nobody goes back through it.
        """
        leaves, key = self._leaves(args, kwargs)
        call = Call(self.function, args, kwargs, leaves, key)
        if not self.options["dynamic"]:
            return call, self._trace(args, kwargs, leaves, inputs, exports=exports)
        family = OpenFamily(leaves, self._declared(call))
        opened = family.opened(leaves)
        made = self._trace(args, kwargs, leaves, inputs, opened or None, exports)
        if made.open_axes is not None:
            family.require_open(made.open_axes, opened)
        return call, made

    @as_before
    @reading_loaders
    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """The author's source with what becomes of each line in a call with these arguments.

        Tells which plan serves the call, or why a new one is built, and what the plans depend on.
        It captures the function once more and runs nothing; what cannot be captured raises.
        """
        from hybrid.explain.explanation_build import build
        from hybrid.explain.watch import Watch

        leaves, key = self._leaves(args, kwargs)
        call = Call(self.function, args, kwargs, leaves, key)
        planned, bound = self._table.find(key, leaves), ""
        request = self._request(call)
        if planned is None and request.served is not None and request.served[0].planned:
            made, values = request.served  # which has not met these sizes
            planned, bound = made.planned[-1], f", bound to {made.axes.sizes.named(values)}"
        if planned is None:
            why = self._why(call)
            inputs, failure = NumberInputs.of(request.family.candidates(key[1], leaves)), ""
        else:
            inputs = NumberInputs(planned.numbers, planned.places)
        used = inputs
        try:
            with Watch() as watch:
                capture = self._trace(args, kwargs, leaves, inputs)
        except CaptureError as error:
            if planned is not None or not inputs:
                raise
            failure = f", but that fails: {str(error).splitlines()[0]}"
            used = NONE
            with Watch() as watch:
                capture = self._trace(args, kwargs, leaves)
        if planned is None:
            why += about_numbers(call, inputs, request.family.refusal(key[1], leaves), capture)
            verdict = f"a call builds a new plan: {why}{failure}"
            if self._runs.refuses(request):
                verdict = "a call runs eagerly, for captures have not paid back: "
                verdict += f"{self._runs.told()}; a plan would be new: {why}{failure}"
        else:
            listed = self._table.listed()
            at = next(i for i, alike in enumerate(listed, 1) if planned in alike)
            verdict = f"a call runs plan {at} of {len(listed)}{bound}, built because: {planned.why}"
        return build(
            self._name(),
            self.function,
            capture,
            watch,
            call=described(leaves, used.numbers),
            leaves=leaves,
            names=call.names(),
            numbers=used.numbers,
            mode=self.options["mode"],
            verdict=verdict,
            plans=[(plan.sizes, plan.why) for plan in self.plans],
            sizes=self._size_rows(call),
            caller=author_location(),
        )

    def _size_rows(self, call: Call) -> Iterable[str]:
        """What explain() says of the sizes of calls like this one."""
        from hybrid.explain.inputs import paths_of, size_rows

        families = families_of(self._table.open_families, call.key, call.leaves)
        names = call.names()
        if not families:
            return ()
        captures = [made.capture for family in families for made in family.captures]
        family = families[0]
        paths = functools.partial(paths_of, function=self.function, leaves=call.leaves, names=names)
        return size_rows(captures, family.fixing, family.refusal, names, paths)

    @property
    def plans(self) -> list[PlanInfo]:
        """The descriptions of all cached plans."""
        return self._table.infos()

    @property
    def ledger(self) -> LedgerInfo:
        """What captures have cost and saved, and whether new keys are captured; ``print`` it."""
        return self._runs.info()

    def clear(self) -> None:
        """Forget all plans, and what they have cost and saved."""
        with STATE:
            self._table.clear()
            self._eager.clear()
            self._new_ledger()

    # Being a function -------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method is hybridized per instance, so that plans live and die with it.

        An instance that has no attributes of its own (but slots) is an argument like others.
        """
        if instance is None:
            return self
        name = f"_hybridized_{getattr(self.function, '__qualname__', self._name())}"
        store = getattr(instance, "__dict__", None)
        if store is None:
            return types.MethodType(self, instance)
        bound = store.get(name)
        if bound is None or bound.unbound is not self or bound.function.__self__ is not instance:
            bound = made(types.MethodType(self.function, instance), **self.options)
            bound.unbound = self
            if isinstance(instance, type):  # whose method is a class method
                type.__setattr__(instance, name, bound)
            else:
                store[name] = bound
        return bound

    def __reduce__(self) -> Any:
        name = getattr(self, "__qualname__", "")
        found = sys.modules.get(getattr(self, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:  # its module has it in the place of the function
            return name
        return _rebuild, (self.function, self.options)

    def __copy__(self) -> Hybridized:
        return made(self.function, **self.options)

    def __deepcopy__(self, memo: dict) -> Hybridized:
        return made(copy.deepcopy(self.function, memo), **self.options)

    def __repr__(self) -> str:
        count = len(self._table.listed())
        return f"<hybridized {self._name()}: {count} plans>"


def _rebuild(function: Callable[..., Any], options: dict[str, Any]) -> Hybridized:
    return made(function, **options)


def made(function: Callable[..., Any], **options: Any) -> Hybridized:
    """``function`` hybridized; verified where ``verify`` or the environment asks for that."""
    options = verified_calls() | options
    if options.get("verify") is not None:
        return above.Verified(function, **options)
    for name in VERIFYING:
        options.pop(name, None)
    return Hybridized(function, **options)
