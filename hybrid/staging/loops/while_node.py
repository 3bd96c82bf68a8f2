"""Staging of ``while``: the session of a traced test, which becomes a ``while`` node."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from hybrid import ops
from hybrid.convert.runtime import Site
from hybrid.eager.tensor import Tensor
from hybrid.number import Number
from hybrid.ops.flow import control
from hybrid.staging.loops.loop import StagedLoop
from hybrid.staging.nodes.stop_branch import Unstopped
from hybrid.staging.sessions.views import is_traced, own_truth
from hybrid.trace.places.frames import roots_of
from hybrid.trace.regions.continuation import raised
from hybrid.trace.regions.merge import constant
from hybrid.trace.regions.region import truth
from hybrid.trace.regions.tracer import Tracer

TEST = "the test"


class StagedWhile(StagedLoop):
    """The session that takes over from a plain one when a test or a stop flag is traced.

    The test that has been evaluated decides on the first iteration; each iteration runs the body
    and evaluates the test anew.
    """

    body = False  # whether the next pass runs the body without asking for the test

    def __init__(self, site: Site, tracer: Tracer | None = None) -> None:
        super().__init__(site)
        if tracer is not None:
            self.tracer = self.parent = tracer
        self.go: Tensor | None = None  # the test of the first iteration in the node
        self.tested: Any = None
        self.state: Any = None

    def stop_traced(self, found: Mapping[str, Any]) -> bool:
        """A flag that stops the loop is traced: the test is evaluated where it is not set."""
        found = {**sys._getframe(2).f_locals, **found}  # a plain session asks for flags only
        self.roots = roots_of(found)
        _, flag = self.flags(found, self.parent)
        return self.guard(found, flag, self.begin)

    def stop_raised(self, found: Mapping[str, Any]) -> bool:
        """Errors are pending, and stop the loop: the test is evaluated where there are none."""
        found = {**sys._getframe(2).f_locals, **found}
        self.roots = roots_of(found)
        found = self.left(found)
        _, flag = self.flags(found, self.parent)
        return self.guard(found, flag, self.begin, loads=self.loads)

    def stop_never(self, found: Mapping[str, Any]) -> bool:
        """Python's own test goes on and on (it may be an exception that ends the loop)."""
        found = {**sys._getframe(2).f_locals, **found}
        self.go = constant(self.tracer, True)
        return self.begin(found)

    def again(self, found: Mapping[str, Any]) -> bool:
        """Whether there is another pass; ``found`` are the author's local variables."""
        try:
            return self.state(found)
        except BaseException:
            self.abandon()
            raise

    def test(self, value: Any) -> bool:
        """A test: the one that makes the session take over, or that of the next iteration."""
        if self.state is None:
            self.go, self.state = truth(value), self.begin
            return False
        value = own_truth(value)
        self.tested = truth(value) if is_traced(value) else bool(value)
        return False

    # States ----------------------------------------------------------------------------------

    def begin(self, found: Mapping[str, Any]) -> bool:
        self.roots = roots_of(found, self.roots)
        self.before = self.snapshot(found)
        return self.attempt()

    def attempt(self) -> bool:
        with self.inside(self.parent):
            self.open()
        self.body, self.state = True, self.body_done
        return True

    def body_done(self, found: Mapping[str, Any]) -> bool:
        self.body, self.loads = False, False
        found = self.left(found)
        with self.inside(self.path.region):
            over, flag = (True, None) if self.path.ended else self.flags(found, self.path.region)
        if over:
            self.tested = False
            return self.test_done(self.snapshot(found))
        if flag is None:
            self.state = self.test_done
            return True
        return self.guard(found, flag, self.test_done, loads=self.loads)

    def test_done(self, found: Mapping[str, Any]) -> bool:
        names = self._left_test(found)
        if self.path.ended:  # in the body or in the test: there is no next iteration
            names, self.tested = self.before, False
        region = self.path.region
        tested = self.tested
        if isinstance(tested, bool):
            tested = constant(region, tested)
        names = self.carry_errors(names)
        with self.inside(region):
            if self.errors:
                tested = ops.logical_and(tested, ops.logical_not(raised(self.errors)))
            self.next = region.traced(tested)
        self.finals = dict(names)
        self.path.end(names)
        with self.inside(self.parent):
            if self.settle():
                self.close(control.while_, [self.go], ([], [self.next]), {"length": 0}, runs=False)
                self.tracer.note(self.site.location, "became a while node")
                return self.leave_loop(self.finals)
        return self.peel() if self.peels == 1 else self.attempt()

    # The first iteration, by itself ----------------------------------------------------------

    def peel(self) -> bool:
        self.peels = 2
        self.widened.clear()  # of what was there before the first iteration
        self.enter_branch(self.go, self.before)
        self.path = self.peeled
        self.load(self.before)
        self.body, self.state = True, self.peel_done
        return True

    def peel_done(self, found: Mapping[str, Any]) -> bool:
        self.body, self.loads = False, False
        found = self.left(found)
        with self.inside(self.parent):
            over, flag = (True, None) if self.path.ended else self.flags(found, self.parent)
        if over:
            return self.leave_loop(found)
        if flag is None:
            self.state = self.peel_tested
            return True
        return self.guard(found, flag, self.peel_tested, loads=self.loads)

    def peel_tested(self, found: Mapping[str, Any]) -> bool:
        found = self._left_test(found)
        if self.tested is False or self.path.ended:
            return self.leave_loop(found)
        if self.parent.errors and isinstance(self.tested, Tensor):
            with self.inside(self.parent):
                clear = ops.logical_not(raised(self.parent.errors))
                self.tested = ops.logical_and(self.tested, clear)
        self.go = constant(self.parent, True) if self.tested is True else self.tested
        return self.begin(found)

    def leave_loop(self, found: Mapping[str, Any]) -> bool:
        self.state = None
        self.finish(found)
        return False

    # A test that may not be evaluated --------------------------------------------------------

    def guard(self, found: Mapping[str, Any], flag: Tensor, then: Any, loads: bool = False) -> bool:
        """Evaluate the test in a branch that runs where ``flag`` is not set."""
        parent = self.parent if self.path is None else self.path.region
        self.tests = Unstopped(self, parent, flag, found, TEST)
        self.loads, self.then, self.state = loads, then, self.guard_done
        self.body = False
        return True

    def _left_test(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the names hold after a test that may have raised something."""
        names = self.snapshot(found)
        rest = self.path.region.rest
        if rest is None:
            return names
        tested = self.tested
        names[TEST] = tested if isinstance(tested, bool) else Number("bool", tested)
        names = rest.leave(names, getattr(self.roots, "cells", {}))
        result = names.pop(TEST)
        with self.inside(self.path.region):
            self.tested = truth(result) if is_traced(result) else result
        return names

    def guard_done(self, found: Mapping[str, Any]) -> bool:
        branch = self.tests
        if branch.path.ended:
            self.tested = False
        tested = self.tested if isinstance(self.tested, bool) else Number("bool", self.tested)
        names = {**self.snapshot(found), TEST: tested}
        names = branch.leave(names, {**branch.before, TEST: False}, TEST)
        result = names.pop(TEST)
        with self.inside(branch.parent):
            self.tested = truth(result) if is_traced(result) else result
        if self.path is None or self.path is self.peeled:
            self.go = self.tested if isinstance(self.tested, Tensor) else None
            if self.go is None:
                self.go = constant(branch.parent, self.tested)
        return self.then(names)
